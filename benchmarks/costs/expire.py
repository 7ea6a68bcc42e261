"""What expiry costs beside a deletion: ``python -m benchmarks.costs.expire``.

An R-MAT stream fills a graph that keeps times; the time of a row is its place in the stream. Then, again and again, the
next rows' edges expire, and the same number of new rows is inserted. A second graph, of the same rows, has the same
edges deleted by their ids. Both are in one process, in turn. All columns are on the graph's device before the clock
starts, and each graph has done both once before.
"""

from __future__ import annotations

import argparse
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

__all__ = ["ExpiryTimes", "main", "measure"]

WARM_UP = 2
WAYS = ("expire", "delete_edges", "insert_edges", "update")


@dataclass
class ExpiryTimes:
    """Milliseconds of each way, and how many edges each expiry deleted."""

    graph: DynamicGraph
    times: dict[str, list[float]] = field(default_factory=dict)
    expired: list[int] = field(default_factory=list)


def measure(
    scale: int,
    edge_factor: int,
    batch: int,
    steps: int,
    device: Device,
    directed: bool = True,
    timestamps: str = "int64",
    in_edges: bool = False,
    seed: int = 1,
) -> ExpiryTimes:
    """Return the times of ``expire`` of the oldest edges, of ``delete_edges`` of the same, and of the other updates.

    "update" is an insertion and an expiry in one version, in a third graph.
    """
    events, steps = rmat(scale, edge_factor, seed), steps + WARM_UP
    src, dst = (np.ascontiguousarray(column, np.int32) for column in (events.src, events.dst))
    start = len(src) - batch * steps
    if start < 2 * batch * steps:
        raise InputError(f"costs.expire: {steps} steps of {batch} rows need more than {len(src)} events")
    graphs = [DynamicGraph(directed, device=device, timestamps=timestamps) for _ in range(3)]
    backend = graphs[0].core.backend
    # Batches, so that the records of neighbouring edges lie apart, as they do after a stream.
    pieces = [(src[at : at + batch], dst[at : at + batch], np.arange(at, min(at + batch, len(src)))) for at in
              range(0, len(src), batch)]  # fmt: skip
    fill = -(-start // batch)
    whole = tuple(np.concatenate(columns) for columns in zip(*pieces[: fill - fill // 4], strict=True))
    costs = ExpiryTimes(graphs[0])
    with quiet():
        for graph in graphs:
            graph.insert_edges(tuple(backend.asarray(column) for column in whole))
            for piece in pieces[fill - fill // 4 : fill]:
                graph.insert_edges(tuple(backend.asarray(column) for column in piece))
            if in_edges:
                graph.snapshot(transposed=True)
    watch, bound = LapTimer(backend), 0
    for step in range(steps):
        bound += batch
        columns = graphs[1].edge_columns()
        old = backend.xp.nonzero(columns["time"] < bound)[0]
        leaving, entering = (columns["source"][old], columns["destination"][old]), pieces[fill + step]
        entering = tuple(backend.asarray(column) for column in entering)
        del columns
        taken: dict[str, float] = {}
        with quiet():
            watch.start()
            report = graphs[0].expire(bound)
            taken["expire"] = watch.lap()
            graphs[1].delete_edges(leaving)
            taken["delete_edges"] = watch.lap()
            graphs[0].insert_edges(entering)
            taken["insert_edges"] = watch.lap()
            graphs[2].update(entering, expire_before=bound)
            taken["update"] = watch.lap()
            graphs[1].insert_edges(entering)
        assert report.expired == len(old), f"{report} for {len(old)} edges"
        if step >= WARM_UP:
            costs.expired.append(report.expired)
            for way, passed_ms in taken.items():
                costs.times.setdefault(way, []).append(passed_ms)
    held = {graph.number_of_edges() for graph in graphs}
    assert len(held) == 1, f"the graphs hold {held} edges"
    return costs


def _rows(costs: ExpiryTimes, timestamps: str, steps: int) -> list[dict[str, Any]]:
    kind = "directed" if costs.graph.is_directed() else "undirected"
    return [
        {
            "store": f"{way}, {kind}, {timestamps} times", "device": costs.graph.device, "operation": "total",
            "algorithm": None, "batch": int(np.median(costs.expired)), "edges": costs.graph.number_of_edges(),
            "steps": steps, **percentiles(costs.times[way]), "bytes": None,
        }
        for way in WAYS
    ]  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, and write the JSON of schema 1 on request."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.costs.expire", description=__doc__)
    parser.add_argument("--scale", type=int, default=20, help="2**scale vertices")
    parser.add_argument("--edge-factor", type=int, default=16, help="rows of the stream for each vertex")
    parser.add_argument("--batch", type=int, default=100_000, help="rows that come and go in a step")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--directed", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--timestamps", default="int64", choices=("int32", "int64"))
    parser.add_argument("--in-edges", action="store_true", help="keep in-edges, too")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    sizes = given.scale, given.edge_factor, given.batch, given.steps
    costs = measure(*sizes, given.device, given.directed, given.timestamps, given.in_edges, given.seed)
    print(f"{costs.graph}; {int(np.median(costs.expired))} edges expire a step, median of {given.steps}; ms")
    medians = {way: percentiles(costs.times[way])["median_ms"] for way in WAYS}
    for way in WAYS:
        print(f"{way:14} {medians[way]:9.3f} {medians[way] / medians['delete_edges']:6.2f} of the deletion")
    if given.json is not None:
        dataset = {
            "name": f"rmat:{given.scale}:{given.edge_factor}", "vertices": 1 << given.scale,
            "edges": given.edge_factor << given.scale, "seed": given.seed,
        }  # fmt: skip
        rows = _rows(costs, given.timestamps, given.steps)
        write_document(given.json, "expire-costs", arguments, dataset, rows, module="costs.expire")


if __name__ == "__main__":
    run_as_command(main)
