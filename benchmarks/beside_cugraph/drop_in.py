"""From a batch to the result, with a rebuild and without: ``python -m benchmarks.beside_cugraph.drop_in``.

Needs RAPIDS. A window over a graph's distinct edges, in random order, slides by 0.1 %; after each slide an algorithm
runs. Ids are renumbered, isolated vertices kept. For each algorithm these ways from the batch to the result alternate,
ten slides each: as in a pipeline, the slide before is one of the same way.

- ``cugraph.Graph``: a new one from the frame of the window's edges
- ``SGGraph``: pylibcugraph's, renumbered, without its expensive checks (for the algorithms that need only the graph)
- ``drop-in``: ``delete_edges`` and ``insert_edges`` on the graph that ``dynstore.adapters.cugraph`` made, then its
  function: dynstore's own kernels where it has them, else cuGraph's on borrowed rows
- ``borrowed rows``: the same with ``engine="cugraph"``, where the drop-in has kernels of its own

Rows of the result: "total" is the whole time. Its parts are "build" or "update", "convert" (squeezing out the gaps, for
cuGraph's kernels), and "algorithm", the rest. ``... alone`` rows repeat the algorithm on one version, after the build
and after ``--drift`` more slides; ``dynstore alone`` is the function of dynstore, without cuGraph's names.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import dynstore
from benchmarks.beside_cugraph.drop_in_window import DropInWindow, different_pairs
from dynstore.adapters.cugraph.borrowed.loading import load_bridge
from dynstore.adapters.cugraph.own import set_engine
from dynstore.adapters.cugraph.packed import packed_rows
from dynstore.adapters.libraries import require
from dynstore.adapters.memory import share_pool
from dynstore.backend import get_backend
from dynstore.bench.module_command import run_as_command
from dynstore.bench.schema import make_document
from dynstore.bench.timing import percentiles, quiet
from dynstore.input.frames import make_frame

__all__ = ["ALGORITHMS", "main", "summarise_totals"]

CALLER = "beside_cugraph.drop_in"
TOLERANCE = 1e-6
SLIDE_SHARE = 1000  # a slide is this fraction of all edges
WARM_UPS = 3
ALONE_RUNS = 5
TURN = 10  # slides
RANKS_APART = 2e-4  # L1; two runs stop within the tolerance of the fixed point, times 1 / (1 - alpha), in float32
MODULARITY_APART = 0.02
NUM_PAIRS = 100_000  # of jaccard
COMPARED = {  # algorithm -> the column that must be equal
    "bfs": "distance",
    "triangle_count": "counts",
    "core_number": "core_number",
    "jaccard": "jaccard_coeff",
}


@dataclass(frozen=True)
class _DropInAlgorithm:
    """One algorithm, as the ways call it; None where a way does not have it."""

    directed: bool
    of_cugraph: Callable[[Any, Any, _Question], Any]  # cugraph or the drop-in, a Graph
    of_plc: Callable[[Any, Any, Any, _Question], Any] | None = None  # pylibcugraph, a handle, a graph
    of_dynstore: Callable[[Any, _Question], Any] | None = None
    pulls: bool = False


class _Question(NamedTuple):
    """What the algorithms are asked about: a hub, it again as an array, and a frame of pairs of vertices."""

    start: int
    starts: Any
    pairs: Any


ALGORITHMS = {
    "bfs": _DropInAlgorithm(
        True,
        lambda cugraph, G, about: cugraph.bfs(G, about.start),
        lambda plc, handle, G, about: plc.bfs(handle, G, about.starts, False, -1, True, False),
        lambda G, about: dynstore.bfs(G, about.start),
    ),
    "pagerank": _DropInAlgorithm(
        True,
        lambda cugraph, G, about: cugraph.pagerank(G, tol=TOLERANCE),
        lambda plc, handle, G, about: plc.pagerank(handle, G, None, None, None, None, 0.85, TOLERANCE, 100, False),
        lambda G, about: dynstore.pagerank(G, tol=TOLERANCE),
        pulls=True,
    ),
    "weakly_connected_components": _DropInAlgorithm(
        False,
        lambda cugraph, G, about: cugraph.weakly_connected_components(G),
        lambda plc, handle, G, about: plc.weakly_connected_components(handle, G, None, None, None, None, False),
        lambda G, about: dynstore.weakly_connected_components(G),
    ),
    "triangle_count": _DropInAlgorithm(
        False,
        lambda cugraph, G, about: cugraph.triangle_count(G),
        lambda plc, handle, G, about: plc.triangle_count(handle, G, None, False),
        lambda G, about: dynstore.triangle_count(G),
    ),
    "louvain": _DropInAlgorithm(False, lambda cugraph, G, about: cugraph.louvain(G)),
    "core_number": _DropInAlgorithm(False, lambda cugraph, G, about: cugraph.core_number(G)),
    "jaccard": _DropInAlgorithm(False, lambda cugraph, G, about: cugraph.jaccard(G, about.pairs)),
}


class _Clock:
    """Wall time between laps; each lap waits for the whole device, as cuGraph has its own streams."""

    def __init__(self, cupy: Any) -> None:
        self._wait = cupy.cuda.Device().synchronize
        self._last = 0

    def start(self) -> None:
        self._wait()
        self._last = time.perf_counter_ns()

    def lap(self) -> float:
        """End the lap and begin the next one; return the lap in ms."""
        self._wait()
        now = time.perf_counter_ns()
        passed_ms, self._last = (now - self._last) / 1e6, now
        return passed_ms


class _AlgorithmRace:
    """One algorithm on one graph: the ways, their times, and whether their results agree."""

    def __init__(self, name: str, window: DropInWindow, num_vertices: int) -> None:
        self.name, self.algorithm, self.window = name, ALGORITHMS[name], window
        self.backend = get_backend("cuda")
        self.cupy = self.backend.xp
        self.real, self.plc = require(CALLER, "cugraph"), require(CALLER, "pylibcugraph")
        from dynstore.adapters import cugraph

        self.drop_in: Any = cugraph
        self.handle = self.plc.ResourceHandle()
        self.clock = _Clock(self.cupy)
        self.vertices = self.cupy.arange(num_vertices, dtype=np.int32)
        self.column = make_frame(self.backend, {"vertex": self.vertices})["vertex"]
        self.times: dict[tuple[str, str], list[float]] = {}
        self.results: dict[str, Any] = {}
        src, dst = window.now()
        start = int(self.cupy.bincount(src).argmax())  # a hub: it reaches most of the graph
        pairs = make_frame(self.backend, {"first": src[:NUM_PAIRS], "second": dst[::-1][:NUM_PAIRS].copy()})
        self.about = _Question(start, self.cupy.asarray([start], dtype=np.int32), pairs)
        ways = [self.by_new_graph, *([self.by_sg_graph] if self.algorithm.of_plc is not None else []), self.by_drop_in]
        self.live = self._build(self.drop_in, self._frame(window))
        self.borrowing = None
        if self.algorithm.of_dynstore is not None:
            self.borrowing = self._build(self.drop_in, self._frame(window))
            ways.append(self.by_borrowed_rows)
        self.ways: list[tuple[DropInWindow, Callable[[DropInWindow], None]]] = [(window.copy(), way) for way in ways]

    def note(self, way: str, operation: str, passed_ms: float) -> None:
        self.times.setdefault((way, operation), []).append(passed_ms)

    def _frame(self, window: DropInWindow) -> Any:
        return make_frame(self.backend, dict(zip(("src", "dst"), window.now(), strict=True)))

    def _build(self, module: Any, frame: Any, **options: bool) -> Any:
        graph = module.Graph(directed=self.algorithm.directed)
        graph.from_cudf_edgelist(frame, "src", "dst", vertices=self.column, **options)
        return graph

    def by_new_graph(self, window: DropInWindow) -> None:
        """Build cugraph.Graph from the frame, and run."""
        window.advance()
        frame = self._frame(window)
        self.clock.start()
        graph = self._build(self.real, frame, store_transposed=self.algorithm.pulls)  # as its PageRank wants it
        built = self.clock.lap()
        self.results["cugraph.Graph"] = self.algorithm.of_cugraph(self.real, graph, self.about)
        self._note_both("cugraph.Graph", "build", built, self.clock.lap())

    def _sg_graph(self, window: DropInWindow) -> Any:
        properties = self.plc.GraphProperties(is_symmetric=not self.algorithm.directed, is_multigraph=False)
        return self.plc.SGGraph(
            self.handle,
            properties,
            *window.now(),
            store_transposed=self.algorithm.pulls,
            renumber=True,
            do_expensive_check=False,
            vertices_array=self.vertices,
            symmetrize=not self.algorithm.directed,
        )

    def by_sg_graph(self, window: DropInWindow) -> None:
        """Build pylibcugraph's graph without checks, and run."""
        assert self.algorithm.of_plc is not None
        window.advance()
        self.clock.start()
        graph = self._sg_graph(window)
        built = self.clock.lap()
        self.algorithm.of_plc(self.plc, self.handle, graph, self.about)
        self._note_both("SGGraph", "build", built, self.clock.lap())

    def by_drop_in(self, window: DropInWindow) -> None:
        """Update the live graph, and run the drop-in's function."""
        updated = self._update(self.live, window.advance())
        squeezed = 0.0 if self.algorithm.of_dynstore is not None else self._squeeze(self.live)
        self.results["drop-in"] = self.algorithm.of_cugraph(self.drop_in, self.live, self.about)
        self._note_all("drop-in", updated, squeezed, self.clock.lap())

    def by_borrowed_rows(self, window: DropInWindow) -> None:
        """Update the live graph, and run cuGraph on it."""
        updated = self._update(self.borrowing, window.advance())
        squeezed = self._squeeze(self.borrowing)
        before = set_engine("cugraph")
        try:
            self.results["borrowed rows"] = self.algorithm.of_cugraph(self.drop_in, self.borrowing, self.about)
            self._note_all("borrowed rows", updated, squeezed, self.clock.lap())
        finally:
            set_engine(before)

    def _squeeze(self, live: Any) -> float:
        packed_rows(live.dynamic_graph, self.algorithm.pulls)
        return self.clock.lap()

    def _update(self, graph: Any, slide: tuple[Any, Any]) -> float:
        leaving, entering = slide
        self.clock.start()
        graph.delete_edges(leaving)
        graph.insert_edges(entering)
        return self.clock.lap()

    def _note_both(self, way: str, operation: str, first: float, second: float) -> None:
        self.note(way, operation, first)
        self.note(way, "algorithm", second)
        self.note(way, "total", first + second)

    def _note_all(self, way: str, updated: float, squeezed: float, ran: float) -> None:
        if squeezed:
            self.note(way, "convert", squeezed)
        self.note(way, "update", updated)
        self.note(way, "algorithm", ran)
        self.note(way, "total", updated + squeezed + ran)

    def run(self, slides: int) -> None:
        """Do ``slides`` slides each way; the ways alternate."""
        for done in range(0, slides, TURN):
            for window, way in self.ways:
                with quiet():
                    for _ in range(min(TURN, slides - done)):
                        way(window)
        for _ in range(slides):
            self.window.advance()

    def drift(self, slides: int) -> None:
        """Do ``slides`` slides without timing, only on the graphs that are updated."""
        for _ in range(slides):
            changes = self.window.advance()
            for graph in (self.live, self.borrowing):
                if graph is not None:
                    self._update(graph, changes)

    def alone(self, when: str) -> None:
        """Time only the algorithm, on one version of each graph."""
        built = self._sg_graph(self.window) if self.algorithm.of_plc is not None else None
        for number in range(ALONE_RUNS + 1):
            with quiet():
                found = {f"{way} alone, {when}": self._time(call) for way, call in self._calls_alone(built)}
            for way, passed_ms in found.items() if number else ():
                self.note(way, "algorithm", passed_ms)

    def _calls_alone(self, built: Any) -> list[tuple[str, Callable[[], Any]]]:
        chosen, about, live = self.algorithm, self.about, self.live
        calls: list[tuple[str, Callable[[], Any]]] = [("drop-in", lambda: chosen.of_cugraph(self.drop_in, live, about))]
        of_plc, of_dynstore = chosen.of_plc, chosen.of_dynstore
        if of_plc is not None:
            calls.append(("SGGraph", lambda: of_plc(self.plc, self.handle, built, about)))
            lend = live._Impl.lend
            calls.append(("BorrowedGraph", lambda: of_plc(self.plc, self.handle, lend(chosen.pulls), about)))
        if of_dynstore is not None:
            calls.append(("dynstore", lambda: of_dynstore(live.dynamic_graph, about)))
        return calls

    def _time(self, call: Callable[[], Any]) -> float:
        self.clock.start()
        call()
        return self.clock.lap()

    def disagreement(self) -> str | None:
        """Compare the last results; return a line on what differs, or None."""
        wanted = self.results["cugraph.Graph"]
        for way in self.results:
            differs = _differs(self.name, self.results[way], wanted)
            if differs:
                return f"{way}: {differs}"
        if self.live.number_of_edges() != self.window.size:
            return "the live graph does not hold the window's edges"
        return None


def _differs(name: str, got: Any, wanted: Any) -> str | None:
    """Compare two results of an algorithm; return what differs, or None."""
    if name == "louvain":  # its partition depends on the order of rows; its quality does not
        apart = abs(float(got[1]) - float(wanted[1]))
        return None if apart < MODULARITY_APART else f"modularity {got[1]:.4f}, of cugraph.Graph {wanted[1]:.4f}"
    one, other = (_by_vertex(frame) for frame in (got, wanted))
    if name == "pagerank":
        apart = float(np.abs(one["pagerank"] - other["pagerank"]).sum())
        return None if apart < RANKS_APART else f"ranks are {apart:.2e} (L1) from those of cugraph.Graph"
    if name == "weakly_connected_components":
        same = np.array_equal(_canonical(one["labels"]), _canonical(other["labels"]))
    else:
        column = COMPARED[name]
        same = bool(np.array_equal(one[column], other[column]))
    return None if same else "not the result of cugraph.Graph"


def _by_vertex(frame: Any) -> dict[str, np.ndarray]:
    """Return a result's columns in order of vertex, or of pairs of vertices."""
    columns = {name: np.asarray(frame[name].to_numpy()) for name in frame.columns}
    order = np.lexsort([columns[name] for name in ("second", "first", "vertex") if name in columns])
    return {name: column[order] for name, column in columns.items()}


def _canonical(labels: np.ndarray) -> np.ndarray:
    """Return for each vertex the first vertex with its label."""
    _, first, codes = np.unique(labels, return_index=True, return_inverse=True)
    return first[codes]


def summarise_totals(times: dict[tuple[str, str], list[float]]) -> dict[str, float]:
    """Return the main ratios: how many times faster, and how much slower on borrowed rows.

    Parameters
    ----------
    times : dict
        (way, operation) -> ms of each repetition.
    """
    middle = {key: percentiles(values)["median_ms"] for key, values in times.items()}
    total = {way: middle[way, "total"] for way, operation in middle if operation == "total"}
    figures = {
        "cugraph.Graph / drop-in": total["cugraph.Graph"] / total["drop-in"],
    }
    for way in ("SGGraph", "borrowed rows"):
        if way in total:
            figures[f"{way} / drop-in"] = total[way] / total["drop-in"]
    figures["algorithm: drop-in / cugraph.Graph"] = (
        middle["drop-in", "algorithm"] / middle["cugraph.Graph", "algorithm"]
    )
    for way, operation in middle:
        if way.startswith("BorrowedGraph alone") and operation == "algorithm":
            figures[f"{way} / SGGraph"] = middle[way, operation] / middle[way.replace("Borrowed", "SG"), operation]
    return figures


def _race(
    name: str, scale: int, edge_factor: int, seed: int, steps: int, drift: int
) -> tuple[_AlgorithmRace, str | None]:
    cupy = get_backend("cuda").xp
    src, dst = different_pairs(cupy, scale, edge_factor, seed, ALGORITHMS[name].directed)
    slide = max(1, int(src.shape[0]) // SLIDE_SHARE)
    race = _AlgorithmRace(name, DropInWindow(src, dst, slide, WARM_UPS + steps + drift), 1 << scale)
    race.run(WARM_UPS)
    race.times.clear()
    race.alone("after the build")
    race.run(steps)
    problem = race.disagreement()
    race.drift(drift)
    race.alone(f"after {WARM_UPS + steps + drift} slides")
    return race, problem


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and write the JSON of schema 1 on request; return 1 if results differ."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.beside_cugraph.drop_in", description=__doc__)
    parser.add_argument("--scale", type=int, default=22)
    parser.add_argument("--edge-factor", type=int, default=16)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--drift", type=int, default=100, help="slides without timing, before the last rows")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--algorithm", action="append", choices=sorted(ALGORITHMS))
    parser.add_argument("--pool", type=int, default=16 << 30, help="bytes that RMM's pool begins with")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    print(share_pool(initial_bytes=chosen.pool))
    bridge = load_bridge()
    print("borrowed" if bridge.borrowed_graph is not None else "rebuilt", bridge.reason, flush=True)
    rows, problems, edges = [], [], 0
    for name in chosen.algorithm or ALGORITHMS:
        race, problem = _race(name, chosen.scale, chosen.edge_factor, chosen.seed, chosen.steps, chosen.drift)
        edges = race.window.size
        print(f"\n{name}: {edges} edges, slides of {race.window.slide}; {dynstore.explain(race.live)}")
        for (way, operation), values in sorted(race.times.items()):
            found = percentiles(values)
            print(f"  {way:42} {operation:10} {found['median_ms']:9.3f} ms  (90 %: {found['p90_ms']:.3f})")
            rows.append(
                {
                    "store": f"{way}, {name}", "device": "cuda", "operation": operation,
                    "algorithm": name if operation == "algorithm" else None, "batch": race.window.slide, "edges": edges,
                    "steps": len(values), **found, "bytes": None,
                }
            )  # fmt: skip
        for what, value in summarise_totals(race.times).items():
            print(f"  {value:8.2f}  {what}")
        if problem is not None:
            problems.append(f"{name}: {problem}")
        print(f"  {problem or 'results equal'}", flush=True)
        del race
    if chosen.json is not None:
        dataset = {
            "name": f"rmat:{chosen.scale}:{chosen.edge_factor}", "vertices": 1 << chosen.scale, "edges": edges,
            "seed": chosen.seed,
        }  # fmt: skip
        typed = sys.argv[1:] if arguments is None else arguments
        command = f"python -m benchmarks.beside_cugraph.drop_in {shlex.join(typed)}".strip()
        document = make_document("drop-in", command, dataset, rows, not problems)
        chosen.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return int(bool(problems))


if __name__ == "__main__":
    run_as_command(main)
