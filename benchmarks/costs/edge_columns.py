"""What extra columns of edges cost: ``python -m benchmarks.costs.edge_columns``.

The same batches go into graphs with and without weights, with and without two extra columns. The graphs alternate, so
that disturbances of the machine affect all of them. Each step inserts a batch of edges and deletes the oldest ones, as
many. All columns are on the graph's device before the clock starts.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dynstore.bench.module_command import run_as_command
from dynstore.bench.timing import LapTimer, percentiles, quiet
from dynstore.datasets import rmat
from dynstore.errors import InputError
from dynstore.graph import DynamicGraph
from dynstore.typing import Device

__all__ = ["ColumnContestant", "main", "measure"]

WARM_UP = 2
COLUMNS = {"id": "int64", "type": "int32"}
OPERATIONS = ("build", "insert", "delete", "read")


@dataclass
class ColumnContestant:
    """A graph, and its times in ms."""

    name: str
    graph: DynamicGraph
    times: dict[str, list[float]] = field(default_factory=dict)

    def note(self, operation: str, passed_ms: float) -> None:
        self.times.setdefault(operation, []).append(passed_ms)

    def rows(self, columns: list[np.ndarray], first: int, last: int) -> tuple[Any, ...]:
        """Return some rows with the columns that the graph has: of source, destination, weight, id and type."""
        ends, weight, extra = columns[:2], columns[2:3], columns[3:]
        chosen = ends + weight * self.graph.is_weighted() + extra * bool(self.graph.edge_dtypes)
        return tuple(self.graph.core.backend.asarray(column[first:last]) for column in chosen)


def measure(
    scale: int, edge_factor: int, batch: int, steps: int, device: Device, directed: bool = True, seed: int = 1
) -> list[ColumnContestant]:
    """Slide a window over an R-MAT graph of each kind, and return the times.

    The keys of each contestant's ``times`` are "build", "insert", "delete", and "read", of ``edge_columns()``.
    """
    events, rng = rmat(scale, edge_factor, seed), np.random.default_rng(seed)
    num_events, steps = events.src.shape[0], steps + WARM_UP
    start = num_events - batch * steps
    if start <= batch * steps:
        raise InputError(f"costs.edge_columns: {steps} steps of {batch} rows need more than {num_events} events")
    ends = [np.ascontiguousarray(column, np.int32) for column in (events.src, events.dst)]
    types = rng.integers(0, 9, num_events, np.int32)
    columns = [*ends, rng.random(num_events, np.float32), np.arange(num_events), types]
    contestants = [
        ColumnContestant(f"{'weight' if weighted else 'no weight'}{', id, type' if extra else ''}", graph)
        for extra in (None, COLUMNS)
        for weighted in (False, True)
        for graph in [DynamicGraph(directed, weighted, device=device, edge_columns=extra)]
    ]
    for one in contestants:
        edges, watch = one.rows(columns, 0, start), LapTimer(one.graph.core.backend)
        with quiet():
            watch.start()
            one.graph.insert_edges(edges)
            one.note("build", watch.lap())
    for step in range(steps):
        for one in contestants:
            fresh, old = start + step * batch, step * batch
            entering = one.rows(columns, fresh, fresh + batch)
            leaving = one.rows(columns[:2], old, old + batch)[:2]
            with quiet():
                watch = LapTimer(one.graph.core.backend)
                watch.start()
                one.graph.insert_edges(entering)
                insert_ms = watch.lap()
                one.graph.delete_edges(leaving)
                delete_ms = watch.lap()
                one.graph.edge_columns()
                read_ms = watch.lap()
            if step >= WARM_UP:
                for operation, passed_ms in zip(OPERATIONS[1:], (insert_ms, delete_ms, read_ms), strict=True):
                    one.note(operation, passed_ms)
    held = {one.graph.number_of_edges() for one in contestants}
    assert len(held) == 1, f"the graphs hold {held} edges"
    return contestants


def _show(contestants: list[ColumnContestant], batch: int, steps: int) -> None:
    """Print medians, and compare those of insertions and deletions with the graph of weights alone."""
    print(f"{contestants[0].graph}; {batch} rows an update, median of {steps}; ms, beside the graph with weights")
    print(f"{'columns':24} {'build':>8} {'insert':>8} {'':>6} {'delete':>8} {'':>6} {'read':>8} {'memory':>10}")
    medians = [{name: percentiles(one.times[name])["median_ms"] for name in OPERATIONS} for one in contestants]
    for one, median in zip(contestants, medians, strict=True):
        more = [median[name] / medians[1][name] - 1 for name in ("insert", "delete")]
        print(
            f"{one.name:24} {median['build']:8.0f} {median['insert']:8.3f} {more[0]:+6.0%} {median['delete']:8.3f} "
            f"{more[1]:+6.0%} {median['read']:8.2f} {one.graph.memory_usage()['total'] / 1e6:7.0f} MB",
            flush=True,
        )


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.costs.edge_columns", description=__doc__)
    parser.add_argument("--scale", type=int, default=20, help="2**scale vertices")
    parser.add_argument("--edge-factor", type=int, default=8, help="rows of the stream for each vertex")
    parser.add_argument("--batch", type=int, default=100_000, help="rows of an update")
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--directed", action=argparse.BooleanOptionalAction, default=True)
    given = parser.parse_args(arguments)
    sizes = given.scale, given.edge_factor, given.batch, given.steps
    _show(measure(*sizes, given.device, given.directed, given.seed), given.batch, given.steps)


if __name__ == "__main__":
    run_as_command(main)
