"""What edges in host memory cost: ``python -m benchmarks.costs.host_memory``.

One R-MAT graph is kept in the GPU's memory, in host memory in place (``gpma+``), and in host memory in pages with a
delta (``paged``), with and without copies of pages that stay on the GPU, one after the other. Each is built in pieces.
Then batches of edges are inserted, and as many of the oldest ones are deleted; with ``--inserts``, batches are then
inserted in a row, so that some of them write new pages. At the end some algorithms run. Rows are drawn on the device
before the clock starts. A time is that of a whole call.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import dynstore
from benchmarks.documents import write_document
from benchmarks.rmat_pieces import make_rows
from dynstore.arguments import check_count
from dynstore.backend import Backend, get_backend
from dynstore.bench.module_command import run_as_command
from dynstore.bench.outputs import check_outputs
from dynstore.bench.timing import LapTimer, percentiles, quiet
from dynstore.errors import InputError
from dynstore.graph import DynamicGraph
from dynstore.typing import Device

__all__ = ["KINDS", "RmatRows", "Sizes", "main", "measure"]

KINDS: dict[str, dict[str, Any]] = {
    "device": {"store": "gpma+"},
    "host, in place": {"store": "gpma+", "memory": "host"},
    "host, pages": {"store": "paged", "memory": "host"},
    "host, pages, none kept": {"store": "paged", "memory": "host", "resident_share": 0.0},
}
WARM_UP = 2
ITERATIONS = 10
WEIGHTS = 1000  # different ones
LEAST = {"scale": 1, "edge_factor": 1, "batch": 1, "steps": 1, "inserts": 0, "piece": 1, "seed": 0}


class Sizes(NamedTuple):
    """How large the graph and its updates are.

    Attributes
    ----------
    scale, edge_factor : int
        ``edge_factor << scale`` rows of ``2**scale`` vertices.
    batch : int
        Rows of an update.
    steps : int
        Batches that are inserted, each with one that is deleted.
    inserts : int
        Batches that are inserted in a row afterwards.
    piece : int
        Rows that are inserted at once to build the graph.
    algorithms : bool
        Whether algorithms run at the end.
    """

    scale: int
    edge_factor: int
    batch: int
    steps: int
    inserts: int = 0
    piece: int = 1 << 24
    algorithms: bool = True

    @property
    def num_rows(self) -> int:
        return self.edge_factor << self.scale

    @property
    def kept(self) -> int:
        """Rows that build the graph."""
        return self.num_rows - self.batch * (self.steps + WARM_UP + self.inserts)


class RmatRows:
    """The rows of an R-MAT graph, drawn on the device when they are needed; vertices are numbered at random.

    Parameters
    ----------
    backend : Backend
    scale, seed : int
    weighted : bool
    """

    def __init__(self, backend: Backend, scale: int, seed: int, weighted: bool) -> None:
        self._backend, self._scale, self._seed, self._weighted = backend, scale, seed, weighted
        self._numbers = backend.xp.random.RandomState(seed).permutation(1 << scale).astype(np.int32)

    def draw(self, first: int, end: int) -> tuple[Any, ...]:
        """Return sources, destinations, and weights if there are any, of rows ``first`` to below ``end``."""
        src, dst = make_rows(self._backend, self._scale, end - first, self._seed, first)
        columns = self._numbers[src], self._numbers[dst]
        if not self._weighted:
            return columns
        return *columns, (self._backend.xp.arange(first, end) % WEIGHTS).astype(np.float32)


def measure(
    sizes: Sizes,
    device: Device,
    kinds: list[str] | None = None,
    weighted: bool = False,
    directed: bool = False,
    seed: int = 1,
) -> dict[str, dict[str, list[float]]]:
    """Return by kind the times in ms of each operation, and "device bytes", "host bytes", "merges in a row"."""
    if sizes.kept <= sizes.batch * (sizes.steps + WARM_UP):
        raise InputError(
            f"costs.host_memory: {sizes.steps} steps and {sizes.inserts} inserts of {sizes.batch} rows need "
            f"more than {sizes.num_rows} rows"
        )
    rows = RmatRows(get_backend(device), sizes.scale, seed, weighted)
    found = {}
    for kind in kinds or list(KINDS):
        options = {"weighted": weighted, "directed": directed, "max_vertices": 1 << sizes.scale, **KINDS[kind]}
        G = DynamicGraph(device=device, **options)
        with quiet():  # a collection before each call would take longer than the calls
            found[kind] = _measure_one(G, rows, sizes, partial(_say, kind))
    return found


def _say(kind: str, what: str) -> None:
    """Print on stderr what a long run has done."""
    print(f"{kind}: {what}", file=sys.stderr, flush=True)


def _measure_one(G: DynamicGraph, rows: RmatRows, sizes: Sizes, say: Callable[[str], None]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}

    def timed(name: str, call: Callable[..., Any], *arguments: Any, keep: bool = True, **options: Any) -> None:
        watch.start()
        call(*arguments, **options)
        taken = watch.lap()
        if keep:
            found.setdefault(name, []).append(taken)

    watch, batch, start = LapTimer(G.core.backend), sizes.batch, sizes.kept
    for first in range(0, start, sizes.piece):
        timed("build, a piece", G.insert_edges, rows.draw(first, min(first + sizes.piece, start)))
    say(f"{G.number_of_edges()} edges")
    for step in range(sizes.steps + WARM_UP):
        first = step * batch
        entering, leaving = rows.draw(start + first, start + first + batch), rows.draw(first, first + batch)[:2]
        timed("insert", G.insert_edges, entering, keep=step >= WARM_UP)
        timed("delete", G.delete_edges, leaving, keep=step >= WARM_UP)
        timed("look up", G.has_edges, entering[:2], keep=step >= WARM_UP)
        older = rows.draw(start - first - batch, start - first)[:2]  # of those that the graph was built of
        timed("look up older ones", G.has_edges, older, keep=step >= WARM_UP)
    say(f"{G.number_of_edges()} edges after {sizes.steps} steps")
    merges = G.statistics().get("merges", 0)
    for first in range(sizes.num_rows - sizes.inserts * batch, sizes.num_rows, batch):
        timed("insert, in a row", G.insert_edges, rows.draw(first, first + batch))
    found["merges in a row"] = [G.statistics().get("merges", 0) - merges]
    say(f"{G.number_of_edges()} edges after {sizes.inserts} insertions")
    best = int(G.core.backend.xp.argmax(G.row_lengths()))
    calls = {
        "bfs": partial(dynstore.bfs, G, best, return_predecessors=False),
        "components": partial(dynstore.weakly_connected_components, G),
        f"pagerank, {ITERATIONS} iterations": partial(
            dynstore.pagerank, G, max_iter=ITERATIONS, tol=0.0, fail_on_nonconvergence=False
        ),
    }
    for name, call in calls.items() if sizes.algorithms else ():
        for turn in range(4):
            timed(name, call, keep=turn > 0)  # the first one compiles
    usage = G.memory_usage()
    found["device bytes"], found["host bytes"] = [usage.get("device", usage["total"])], [usage.get("host", 0)]
    return found


def _show(found: dict[str, dict[str, list[float]]], sizes: Sizes) -> None:
    print(f"{sizes.batch} rows an update, median of {sizes.steps} (and the slowest); algorithms: the best of 3; ms")
    print(f"{'':28}" + "".join(f"{kind:>24}" for kind in found))
    for name in next(iter(found.values())):
        cells = []
        for times in found.values():
            if name.endswith("bytes"):
                cells.append(f"{times[name][0] / 1e9:.3f} GB")
            elif name == "merges in a row":
                cells.append(f"{times[name][0]:.0f}")
            elif name.startswith(("insert", "delete", "look up")):
                cells.append(f"{percentiles(times[name])['median_ms']:.3f} ({max(times[name]):.1f})")
            else:
                cells.append(f"{min(times[name]):.3f}")
        print(f"{name:28}" + "".join(f"{cell:>24}" for cell in cells))
    for kind, times in found.items():
        for name in ("insert", "insert, in a row"):
            if name in times:
                speed = len(times[name]) * sizes.batch / sum(times[name]) / 1e3
                print(f"{kind}: {name}: {speed:.1f} M rows/s, all of it counted")


def _rows(found: dict[str, dict[str, list[float]]], device: str, batch: int, edges: int) -> list[dict[str, Any]]:
    """Return the rows of the results; those of insertions have the bytes in host memory."""
    rows = []
    for kind, times in found.items():
        chosen = {name: values for name, values in times.items() if not name.endswith("bytes")}
        merges, several = chosen.pop("merges in a row")[0], chosen.get("insert, in a row")
        if several is not None:
            chosen[f"insert, in a row: all, {merges:.0f} of them with a merge"] = [sum(several)]
        rows += [
            {
                "store": f"{name}, {kind}", "device": device, "operation": "total", "algorithm": None, "batch": batch,
                "edges": edges, "steps": len(values), **percentiles(values),
                "bytes": round(times["host bytes"][0]) if name == "insert" else None,
            }
            for name, values in chosen.items()
        ]  # fmt: skip
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, and write the JSON of schema 1 on request."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.costs.host_memory", description=__doc__)
    parser.add_argument("--scale", type=int, default=22, help="2**scale vertices")
    parser.add_argument("--edge-factor", type=int, default=16, help="rows of the stream for each vertex")
    parser.add_argument("--batch", type=int, default=1_000_000, help="rows of an update")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--inserts", type=int, default=0, help="batches that are inserted in a row afterwards")
    parser.add_argument("--no-algorithms", dest="algorithms", action="store_false", help="updates only")
    parser.add_argument("--piece", type=int, default=1 << 24, help="rows that are inserted at once to build the graph")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--weighted", action="store_true")
    parser.add_argument("--directed", action="store_true")
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="only these; may be repeated")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    check_outputs(given.json)
    for name, least in LEAST.items():
        check_count("costs.host_memory", f"--{name.replace('_', '-')}", getattr(given, name), least)
    sizes = Sizes(*(getattr(given, name) for name in Sizes._fields))
    found = measure(sizes, given.device, given.kind, given.weighted, given.directed, given.seed)
    _show(found, sizes)
    if given.json is not None:
        dataset = {
            "name": f"rmat:{given.scale}:{given.edge_factor}", "vertices": 1 << given.scale,
            "edges": given.edge_factor << given.scale, "seed": given.seed,
        }  # fmt: skip
        rows = _rows(found, get_backend(given.device).name, given.batch, given.edge_factor << given.scale)
        write_document(given.json, "host-memory-costs", arguments, dataset, rows, module="costs.host_memory")


if __name__ == "__main__":
    run_as_command(main)
