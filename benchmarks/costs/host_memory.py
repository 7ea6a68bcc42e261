"""What edges in host memory cost: ``python -m dynstore.benchmarks.costs.host_memory``.

One R-MAT graph is kept in the GPU's memory, in host memory in place (``gpma+``), and in host memory in pages with a
delta (``paged``), one after the other. Each is built in pieces. Then batches of edges are inserted, and as many of the
oldest ones are deleted; all columns are on the device before the clock starts. At the end some algorithms run. A time
is that of a whole call.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import dynstore
from dynstore.backend import get_backend
from dynstore.benchmarks.module_command import run_as_command
from dynstore.benchmarks.schema import write_document
from dynstore.benchmarks.timing import Stopwatch, percentiles, quiet
from dynstore.datasets import rmat
from dynstore.errors import InputError
from dynstore.graph import DynamicGraph
from dynstore.typing import Device

__all__ = ["KINDS", "main", "measure"]

KINDS: dict[str, dict[str, Any]] = {
    "device": {"store": "gpma+"},
    "host, in place": {"store": "gpma+", "memory": "host"},
    "host, pages": {"store": "paged", "memory": "host"},
}
WARM_UP = 2
PIECE = 1 << 24
ITERATIONS = 10


def measure(
    scale: int,
    edge_factor: int,
    batch: int,
    steps: int,
    device: Device,
    kinds: list[str] | None = None,
    weighted: bool = False,
    directed: bool = False,
    seed: int = 1,
) -> dict[str, dict[str, list[float]]]:
    """Return by kind the times in ms of each operation, and bytes: "device bytes", "host bytes"."""
    events, rng = rmat(scale, edge_factor, seed), np.random.default_rng(seed)
    num_events = events.src.shape[0]
    rows = batch * (steps + WARM_UP)
    if num_events <= 2 * rows:
        raise InputError(f"costs.host_memory: {steps} batches of {batch} rows need more than {num_events} events")
    columns: list[Any] = [np.ascontiguousarray(column, np.int32) for column in (events.src, events.dst)]
    if weighted:
        columns.append(rng.random(num_events, np.float32))
    found = {}
    for kind in kinds or list(KINDS):
        G = DynamicGraph(weighted=weighted, directed=directed, device=device, **KINDS[kind])
        found[kind] = _measure_one(G, columns, batch, steps)
    return found


def _measure_one(G: DynamicGraph, columns: list[Any], batch: int, steps: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}

    def timed(name: str, call: Callable[..., Any], *arguments: Any, keep: bool = True, **options: Any) -> None:
        with quiet():
            watch = Stopwatch(G.backend)
            watch.start()
            call(*arguments, **options)
            taken = watch.lap()
        if keep:
            found.setdefault(name, []).append(taken)

    def brought(first: int, end: int, count: int = 3) -> tuple[Any, ...]:
        return tuple(G.backend.asarray(column[first:end]) for column in columns[:count])

    start = int(columns[0].shape[0]) - batch * (steps + WARM_UP)
    for first in range(0, start, PIECE):
        timed("build, a piece", G.insert_edges, brought(first, min(first + PIECE, start)))
    for step in range(steps + WARM_UP):
        first = step * batch
        entering, leaving = brought(start + first, start + first + batch), brought(first, first + batch, 2)
        timed("insert", G.insert_edges, entering, keep=step >= WARM_UP)
        timed("delete", G.delete_edges, leaving, keep=step >= WARM_UP)
        timed("look up", G.has_edges, entering[:2], keep=step >= WARM_UP)
    best = int(G.backend.xp.argmax(G.row_lengths()))
    for _ in range(3):
        timed("bfs", dynstore.bfs, G, best, return_predecessors=False)
        timed("components", dynstore.weakly_connected_components, G)
        timed(
            f"pagerank, {ITERATIONS} iterations", dynstore.pagerank, G, max_iter=ITERATIONS, tol=0.0,
            fail_on_nonconvergence=False,
        )  # fmt: skip
    usage = G.memory_usage()
    found["device bytes"], found["host bytes"] = [usage.get("device", usage["total"])], [usage.get("host", 0)]
    return found


def _show(found: dict[str, dict[str, list[float]]], batch: int, steps: int) -> None:
    print(f"{batch} rows an update, median of {steps} (and the slowest); algorithms: the best of 3; ms")
    print(f"{'':28}" + "".join(f"{kind:>24}" for kind in found))
    for name in next(iter(found.values())):
        cells = []
        for times in found.values():
            if name.endswith("bytes"):
                cells.append(f"{times[name][0] / 1e9:.3f} GB")
            elif name in ("insert", "delete", "look up"):
                cells.append(f"{percentiles(times[name])['median_ms']:.3f} ({max(times[name]):.1f})")
            else:
                cells.append(f"{min(times[name]):.3f}")
        print(f"{name:28}" + "".join(f"{cell:>24}" for cell in cells))
    for kind, times in found.items():
        seconds = sum(times["insert"]) / 1e3
        print(f"{kind}: {steps * batch / seconds / 1e6:.1f} M rows/s inserted, all of it counted")


def _rows(found: dict[str, dict[str, list[float]]], device: str, batch: int, edges: int) -> list[dict[str, Any]]:
    """Return the rows of the results; those of insertions have the bytes in host memory."""
    return [
        {
            "store": f"{name}, {kind}", "device": device, "operation": "total", "algorithm": None, "batch": batch,
            "edges": edges, "steps": len(values), **percentiles(values),
            "bytes": round(times["host bytes"][0]) if name == "insert" else None,
        }
        for kind, times in found.items()
        for name, values in times.items()
        if not name.endswith("bytes")
    ]  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, and write the JSON of schema 1 on request."""
    parser = argparse.ArgumentParser(prog="python -m dynstore.benchmarks.costs.host_memory", description=__doc__)
    parser.add_argument("--scale", type=int, default=22, help="2**scale vertices")
    parser.add_argument("--edge-factor", type=int, default=16, help="rows of the stream for each vertex")
    parser.add_argument("--batch", type=int, default=1_000_000, help="rows of an update")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--weighted", action="store_true")
    parser.add_argument("--directed", action="store_true")
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="only these; may be repeated")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    sizes = given.scale, given.edge_factor, given.batch, given.steps
    found = measure(*sizes, given.device, given.kind, given.weighted, given.directed, given.seed)
    _show(found, given.batch, given.steps)
    if given.json is not None:
        dataset = {
            "name": f"rmat:{given.scale}:{given.edge_factor}", "vertices": 1 << given.scale,
            "edges": given.edge_factor << given.scale, "seed": given.seed,
        }  # fmt: skip
        rows = _rows(found, get_backend(given.device).name, given.batch, given.edge_factor << given.scale)
        write_document(given.json, "host-memory-costs", arguments, dataset, rows, module="costs.host_memory")


if __name__ == "__main__":
    run_as_command(main)
