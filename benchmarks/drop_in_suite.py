"""From a batch to the result, with a rebuild and without: ``python -m dynstore.benchmarks.drop_in_suite``.

Needs RAPIDS. A window over a graph's distinct edges, in random order, slides by 0.1 %; after each slide an algorithm
runs. Ids are renumbered, isolated vertices kept. For each algorithm four ways from the batch to the result alternate,
ten slides each: as in a pipeline, the slide before is one of the same way.

- ``cugraph.Graph``: a new one from the frame of the window's edges
- ``SGGraph``: pylibcugraph's, renumbered, without its expensive checks
- ``drop-in``: ``delete_edges`` and ``insert_edges`` on the graph that ``dynstore.adapters.cugraph`` made, then
  cuGraph's algorithm on it
- ``own kernels``: the same updates of a ``DynamicGraph``, then dynstore's algorithm

Rows of the result: "total" is the whole time. Its parts are "build" or "update", "convert" (squeezing out the gaps),
and "algorithm", the rest. ``... alone`` rows repeat the algorithm on one version, after the build and after ``--drift``
more slides.
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
from typing import Any

import numpy as np

import dynstore
from dynstore.adapters.cugraph.borrowed.loading import load_bridge
from dynstore.adapters.cugraph.packed import packed_rows
from dynstore.adapters.libraries import require
from dynstore.adapters.memory import share_pool
from dynstore.backend import get_backend
from dynstore.benchmarks.drop_in_window import Window, different_pairs
from dynstore.benchmarks.module_command import run_as_command
from dynstore.benchmarks.schema import make_document
from dynstore.benchmarks.timing import percentiles, quiet
from dynstore.input.frames import make_frame

__all__ = ["ALGORITHMS", "main", "summarise_totals"]

CALLER = "drop_in_suite"
TOLERANCE = 1e-6
SLIDE_SHARE = 1000  # a slide is this fraction of all edges
WARM_UPS = 3
ALONE_RUNS = 10
TURN = 10  # slides
RANKS_APART = 2e-4  # L1; two runs stop within the tolerance of the fixed point, times 1 / (1 - alpha), in float32


@dataclass(frozen=True)
class _Algorithm:
    """One algorithm, as the four ways call it."""

    directed: bool
    pulls: bool
    of_cugraph: Callable[[Any, Any, int], Any]  # cugraph, a Graph, a start vertex
    of_plc: Callable[[Any, Any, Any, Any], Any]  # pylibcugraph, a handle, a graph, start vertices
    of_dynstore: Callable[[Any, int], Any]


ALGORITHMS = {
    "bfs": _Algorithm(
        True,
        False,
        lambda cugraph, G, start: cugraph.bfs(G, start),
        lambda plc, handle, G, starts: plc.bfs(handle, G, starts, False, -1, True, False),
        lambda G, start: dynstore.bfs(G, start),
    ),
    "pagerank": _Algorithm(
        True,
        True,
        lambda cugraph, G, start: cugraph.pagerank(G, tol=TOLERANCE),
        lambda plc, handle, G, starts: plc.pagerank(handle, G, None, None, None, None, 0.85, TOLERANCE, 100, False),
        lambda G, start: dynstore.pagerank(G, tol=TOLERANCE),
    ),
    "weakly_connected_components": _Algorithm(
        False,
        False,
        lambda cugraph, G, start: cugraph.weakly_connected_components(G),
        lambda plc, handle, G, starts: plc.weakly_connected_components(handle, G, None, None, None, None, False),
        lambda G, start: dynstore.weakly_connected_components(G),
    ),
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


class _Race:
    """One algorithm on one graph: the four ways, their times, and whether their results agree."""

    def __init__(self, name: str, window: Window, num_vertices: int) -> None:
        self.name, self.algorithm, self.window = name, ALGORITHMS[name], window
        self.ways: list[tuple[Window, Callable[[Window], None]]] = [
            (window.copy(), way) for way in (self.by_new_graph, self.by_sg_graph, self.by_drop_in, self.by_own_kernels)
        ]
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
        src = window.now()[0]
        self.start = int(self.cupy.bincount(src).argmax())  # a hub: it reaches most of the graph
        self.starts = self.cupy.asarray([self.start], dtype=np.int32)
        self.live, self.graph = self._live_graph(), self._own_graph()

    def note(self, way: str, operation: str, passed_ms: float) -> None:
        self.times.setdefault((way, operation), []).append(passed_ms)

    def _frame(self, window: Window) -> Any:
        return make_frame(self.backend, dict(zip(("src", "dst"), window.now(), strict=True)))

    def _live_graph(self) -> Any:
        return self._build(self.drop_in, self._frame(self.window))

    def _build(self, module: Any, frame: Any, **options: bool) -> Any:
        graph = module.Graph(directed=self.algorithm.directed)
        graph.from_cudf_edgelist(frame, "src", "dst", vertices=self.column, **options)
        return graph

    def _own_graph(self) -> Any:
        graph = dynstore.DynamicGraph(directed=self.algorithm.directed, device="cuda", renumber=True)
        graph.insert_edges(self.window.now())
        graph.insert_vertices(self.vertices)
        return graph

    def by_new_graph(self, window: Window) -> None:
        """Build cugraph.Graph from the frame, and run."""
        window.advance()
        frame = self._frame(window)
        self.clock.start()
        graph = self._build(self.real, frame, store_transposed=self.algorithm.pulls)  # as its PageRank wants it
        built = self.clock.lap()
        self.results["cugraph.Graph"] = self.algorithm.of_cugraph(self.real, graph, self.start)
        self._note_both("cugraph.Graph", "build", built, self.clock.lap())

    def _sg_graph(self, window: Window) -> Any:
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

    def by_sg_graph(self, window: Window) -> None:
        """Build pylibcugraph's graph without checks, and run."""
        window.advance()
        self.clock.start()
        graph = self._sg_graph(window)
        built = self.clock.lap()
        self.algorithm.of_plc(self.plc, self.handle, graph, self.starts)
        self._note_both("SGGraph", "build", built, self.clock.lap())

    def by_drop_in(self, window: Window) -> None:
        """Update the live graph, and run cuGraph on it."""
        updated = self._update(self.live, window.advance())
        packed_rows(self.live.dynamic_graph, self.algorithm.pulls)
        squeezed = self.clock.lap()
        self.results["drop-in"] = self.algorithm.of_cugraph(self.drop_in, self.live, self.start)
        ran = self.clock.lap()
        self.note("drop-in", "convert", squeezed)
        self.note("drop-in", "update", updated)
        self.note("drop-in", "algorithm", ran)
        self.note("drop-in", "total", updated + squeezed + ran)

    def by_own_kernels(self, window: Window) -> None:
        """Update a DynamicGraph, and run dynstore's kernels."""
        updated = self._update(self.graph, window.advance())
        self.results["own kernels"] = self.algorithm.of_dynstore(self.graph, self.start)
        self._note_both("own kernels", "update", updated, self.clock.lap())

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
            self._update(self.live, changes)
            self._update(self.graph, changes)

    def alone(self, when: str) -> None:
        """Time only the algorithm: on the graph that cuGraph builds, and on borrowed rows."""
        built, live = self._sg_graph(self.window), self.live._Impl
        for number in range(ALONE_RUNS + 1):
            with quiet():
                self.clock.start()
                self.algorithm.of_plc(self.plc, self.handle, built, self.starts)
                own = self.clock.lap()
                self.algorithm.of_plc(self.plc, self.handle, live.lend(self.algorithm.pulls), self.starts)
                borrowed = self.clock.lap()
            if number:
                self.note(f"SGGraph alone, {when}", "algorithm", own)
                self.note(f"BorrowedGraph alone, {when}", "algorithm", borrowed)

    def disagreement(self) -> str | None:
        """Compare the last results; return a line on what differs, or None."""
        wanted = _by_vertex(self.results["cugraph.Graph"])
        for way in ("drop-in", "own kernels"):
            got = _by_vertex(self.results[way])
            if self.name == "pagerank":
                apart = float(np.abs(got["pagerank"] - wanted["pagerank"]).sum())
                if not apart < RANKS_APART:
                    return f"pagerank of {way} is {apart:.2e} (L1) from that of cugraph.Graph"
            elif self.name == "bfs":
                if not np.array_equal(got["distance"], wanted["distance"]):
                    return f"distances of {way} are not those of cugraph.Graph"
            elif not np.array_equal(_canonical(got["labels"]), _canonical(wanted["labels"])):
                return f"components of {way} are not those of cugraph.Graph"
        if (
            self.live.number_of_edges() != self.graph.number_of_edges()
            or self.window.size != self.graph.number_of_edges()
        ):
            return "the graphs do not hold the window's edges"
        return None


def _by_vertex(frame: Any) -> dict[str, np.ndarray]:
    """Return a result's columns in order of vertex."""
    columns = {name: np.asarray(frame[name].to_numpy()) for name in frame.columns}
    order = np.argsort(columns["vertex"], kind="stable")
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
        "SGGraph / drop-in": total["SGGraph"] / total["drop-in"],
        "cugraph.Graph / own kernels": total["cugraph.Graph"] / total["own kernels"],
    }
    for way, operation in middle:
        if way.startswith("BorrowedGraph alone") and operation == "algorithm":
            figures[f"{way} / SGGraph"] = middle[way, operation] / middle[way.replace("Borrowed", "SG"), operation]
    return figures


def _race(name: str, scale: int, edge_factor: int, seed: int, steps: int, drift: int) -> tuple[_Race, str | None]:
    cupy = get_backend("cuda").xp
    src, dst = different_pairs(cupy, scale, edge_factor, seed, ALGORITHMS[name].directed)
    slide = max(1, int(src.shape[0]) // SLIDE_SHARE)
    race = _Race(name, Window(src, dst, slide, WARM_UPS + steps + drift), 1 << scale)
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
    parser = argparse.ArgumentParser(prog="python -m dynstore.benchmarks.drop_in_suite", description=__doc__)
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
        command = f"python -m dynstore.benchmarks.drop_in_suite {shlex.join(typed)}".strip()
        document = make_document("drop-in", command, dataset, rows, not problems)
        chosen.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return int(bool(problems))


if __name__ == "__main__":
    run_as_command(main)
