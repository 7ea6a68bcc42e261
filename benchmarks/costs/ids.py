"""The cost of arbitrary vertex ids: ``python -m benchmarks.costs.ids``.

The same batches go into a graph without renumbering, with ids 0 .. V-1, and into graphs with ``renumber=True``, with
sparse int64 ids, strings, and categories of these strings (each batch is its own pandas category, made before the clock
starts). The graphs alternate, so that disturbances of the machine affect all of them. Each step inserts a batch of
edges and deletes the oldest ones, as many. Integers are on the graph's device before the clock starts; strings are
always on the host.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.documents import write_document
from dynstore.bench.module_command import run_as_command
from dynstore.bench.timing import LapTimer, percentiles, quiet
from dynstore.datasets import rmat
from dynstore.errors import InputError
from dynstore.graph import DynamicGraph
from dynstore.typing import Device

__all__ = ["IdContestant", "main", "measure"]

WARM_UP = 2


@dataclass
class IdContestant:
    """One kind of ids, its graph, and its times in ms."""

    name: str
    names: np.ndarray
    graph: DynamicGraph
    categories: bool = False
    times: dict[str, list[float]] = field(default_factory=dict)

    def column(self, numbers: np.ndarray) -> Any:
        """Return the ids of some vertices in the user's form; integers are on the graph's device."""
        names = self.names[numbers]
        if names.dtype.kind == "i":
            return self.graph.core.backend.asarray(names)
        if not self.categories:
            return names
        import pandas

        return pandas.Categorical(names)

    def note(self, operation: str, passed_ms: float) -> None:
        self.times.setdefault(operation, []).append(passed_ms)


def _contestants(num_vertices: int, seed: int, device: Device, directed: bool) -> Iterator[IdContestant]:
    rng = np.random.default_rng(seed)

    def graph(renumber: bool = True) -> DynamicGraph:
        return DynamicGraph(directed=directed, device=device, renumber=renumber)

    yield IdContestant("0 .. V-1, renumber=False", np.arange(num_vertices), graph(False))
    sparse = rng.choice(np.unique(rng.integers(0, 2**62, num_vertices + 1000)), num_vertices, replace=False)
    yield IdContestant("sparse int64", sparse, graph())
    strings = np.array([f"account-{number:019d}" for number in sparse.tolist()], dtype=object)
    yield IdContestant("strings", strings, graph())
    yield IdContestant("categories of strings", strings, graph(), categories=True)


def measure(
    scale: int, edge_factor: int, batch: int, steps: int, device: Device, directed: bool = False, seed: int = 1
) -> list[IdContestant]:
    """Slide a window over an R-MAT graph with each kind of ids, and return the times.

    The keys of each contestant's ``times`` are "build", "insert", "delete", and "update", the sum of the last two.
    """
    events = rmat(scale, edge_factor, seed)
    num_events, steps = events.src.shape[0], steps + WARM_UP
    start = num_events - batch * steps
    if start <= batch * steps:
        raise InputError(f"costs.ids: {steps} steps of {batch} rows need more than {num_events} events")
    contestants = list(_contestants(1 << scale, seed, device, directed))

    def rows(one: IdContestant, first: int, last: int) -> tuple[Any, Any]:
        return one.column(events.src[first:last]), one.column(events.dst[first:last])

    for one in contestants:
        edges, watch = rows(one, 0, start), LapTimer(one.graph.core.backend)
        with quiet():
            watch.start()
            one.graph.insert_edges(edges)
            one.note("build", watch.lap())
    for step in range(steps):
        for one in contestants:
            fresh, old = start + step * batch, step * batch
            entering, leaving = rows(one, fresh, fresh + batch), rows(one, old, old + batch)
            with quiet():
                watch = LapTimer(one.graph.core.backend)
                watch.start()
                one.graph.insert_edges(entering)
                insert_ms = watch.lap()
                one.graph.delete_edges(leaving)
                delete_ms = watch.lap()
            if step >= WARM_UP:
                one.note("insert", insert_ms)
                one.note("delete", delete_ms)
                one.note("update", insert_ms + delete_ms)
    edges_held = {one.graph.number_of_edges() for one in contestants}
    assert len(edges_held) == 1, f"the graphs hold {edges_held} edges"
    return contestants


def _show(contestants: list[IdContestant], batch: int, steps: int) -> None:
    """Print medians, and compare them with those of the graph without renumbering, which comes first."""
    where = "; integers on the GPU before the clock starts" if contestants[0].graph.core.backend.on_gpu else ""
    print(f"{contestants[0].graph}; {batch} rows an update, median of {steps}; ms{where}")
    print(f"{'ids':28} {'build':>8} {'insert':>8} {'':>6} {'delete':>8} {'':>6} {'map':>8}")
    for one in contestants:
        build, insert, delete = (_median(one, operation) for operation in ("build", "insert", "delete"))
        more = [_median(one, name) / _median(contestants[0], name) - 1 for name in ("insert", "delete")]
        map_mb = one.graph.memory_usage().get("vertex_map", 0) / 1e6
        print(
            f"{one.name:28} {build:8.0f} {insert:8.2f} {more[0]:+6.0%} {delete:8.2f} {more[1]:+6.0%} {map_mb:5.0f} MB",
            flush=True,
        )


def _median(one: IdContestant, operation: str) -> float:
    return percentiles(one.times[operation])["median_ms"]


def _rows(contestants: list[IdContestant], batch: int, built_of: int) -> Iterator[dict[str, Any]]:
    """Yield rows of schema 1; the bytes of an update are all bytes of the graph, including its map."""
    for one in contestants:
        way = "directed" if one.graph.is_directed() else "undirected"
        for operation, values in one.times.items():
            yield {
                "store": f"{way}, {one.name}", "device": one.graph.device, "operation": operation, "algorithm": None,
                "batch": built_of if operation == "build" else batch, "edges": one.graph.number_of_edges(),
                "steps": len(values), **percentiles(values),
                "bytes": one.graph.memory_usage()["total"] if operation == "update" else None,
            }  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, and write the JSON of schema 1 on request."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.costs.ids", description=__doc__)
    parser.add_argument("--scale", type=int, default=20, help="2**scale vertices")
    parser.add_argument("--edge-factor", type=int, default=8, help="rows of the stream for each vertex")
    parser.add_argument("--batch", type=int, default=100_000, help="rows of an update")
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument(
        "--directed", action=argparse.BooleanOptionalAction, help="only directed, or only undirected graphs"
    )
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    num_events, num_ids = (1 << given.scale) * given.edge_factor, 0
    for directed in [False, True] if given.directed is None else [given.directed]:
        sizes = given.scale, given.edge_factor, given.batch, given.steps
        found = measure(*sizes, given.device, directed, given.seed)
        _show(found, given.batch, given.steps)
        num_ids = found[1].graph.number_of_vertices()  # an id without any edge so far is no vertex
        rows += _rows(found, given.batch, num_events - given.batch * (given.steps + WARM_UP))
        del found  # before the next graphs are built
    if given.json is not None:
        dataset = {
            "name": f"rmat:{given.scale}:{given.edge_factor}", "vertices": num_ids, "edges": num_events,
            "seed": given.seed,
        }  # fmt: skip
        write_document(given.json, "id-costs", arguments, dataset, rows, module="costs.ids")


if __name__ == "__main__":
    run_as_command(main)
