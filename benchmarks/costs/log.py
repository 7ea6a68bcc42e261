"""What the log of a database costs: ``python -m benchmarks.costs.log``.

The same batches go into weighted graphs without a log ("off"), and with one that is synced in each of the three ways.
The graphs alternate, so that disturbances of the machine affect all of them. A step inserts a batch of edges; a second
update deletes the oldest ones, as many. Each of the two is a commit. The edges are arrays on the host. At the end each
database is opened again: the log is read, and all updates are made anew.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.documents import write_document
from dynstore.bench.module_command import run_as_command
from dynstore.bench.timing import LapTimer, percentiles, quiet
from dynstore.datasets import rmat
from dynstore.durable.database import Database, open_database
from dynstore.durable.log import SYNC
from dynstore.errors import InputError
from dynstore.graph import DynamicGraph
from dynstore.typing import Device

__all__ = ["LogContestant", "main", "measure"]

WARM_UP = 2
NEVER = 1 << 60  # no checkpoints meanwhile


@dataclass
class LogContestant:
    """A graph with a kind of log, and its times in ms by operation."""

    sync: str
    graph: DynamicGraph
    database: Database | None = None
    times: dict[str, list[float]] = field(default_factory=dict)
    num_bytes: int = 0

    def note(self, operation: str, passed_ms: float) -> None:
        self.times.setdefault(operation, []).append(passed_ms)


def _contestants(folder: Path, device: Device) -> list[LogContestant]:
    made = [LogContestant("off", DynamicGraph(weighted=True, device=device))]
    for sync in reversed(SYNC):
        database = open_database(folder / sync, sync, NEVER, device=device, weighted=True)  # type: ignore[arg-type]
        made.append(LogContestant(sync, database.graph, database))
    return made


def measure(
    scale: int, edge_factor: int, batch: int, steps: int, device: Device, folder: Path, seed: int = 1
) -> list[LogContestant]:
    """Slide a window over an R-MAT graph with each kind of log, and return the times.

    The keys of each contestant's ``times`` are "build", "insert", "delete", and, with a log, "open".
    """
    events, rng = rmat(scale, edge_factor, seed), np.random.default_rng(seed)
    start = len(events) - batch * (steps + WARM_UP)
    if start < 0:
        raise InputError(f"costs.log: {steps + WARM_UP} steps of {batch} rows need more than {len(events)} events")
    ends = [np.ascontiguousarray(column, np.int32) for column in (events.src, events.dst)]
    columns = [*ends, rng.random(len(events), np.float32)]
    contestants = _contestants(folder, device)
    for one in contestants:
        watch = LapTimer(one.graph.core.backend)
        with quiet():
            watch.start()
            one.graph.insert_edges(tuple(column[:start] for column in columns))
            one.note("build", watch.lap())
    for step in range(steps + WARM_UP):
        fresh, old = start + step * batch, step * batch
        entering = tuple(column[fresh : fresh + batch] for column in columns)
        leaving = tuple(column[old : old + batch] for column in columns[:2])
        for one in contestants:
            watch = LapTimer(one.graph.core.backend)
            with quiet():
                watch.start()
                one.graph.insert_edges(entering)
                insert_ms = watch.lap()
                one.graph.delete_edges(leaving)
                delete_ms = watch.lap()
            if step >= WARM_UP:
                one.note("insert", insert_ms)
                one.note("delete", delete_ms)
    held = {one.graph.number_of_edges() for one in contestants}
    assert len(held) == 1, f"the graphs hold {held} edges"
    for one in contestants[1:]:
        _open_again(one, folder, device)
    return contestants


def _open_again(one: LogContestant, folder: Path, device: Device) -> None:
    assert one.database is not None
    one.database.close()
    one.num_bytes = sum(path.stat().st_size for path in (folder / one.sync).glob("*.wal"))
    with quiet(), open_database(folder / one.sync, device=device) as database:
        one.note("open", 1e3 * database.recovery.seconds)
        assert database.graph.number_of_edges() == one.graph.number_of_edges()


def _show(contestants: list[LogContestant], batch: int, steps: int) -> None:
    """Print medians, and compare them with those of the graph without a log."""
    print(f"{contestants[0].graph}; {batch} rows an update, median and p99 of {steps}; ms")
    print(f"{'log':8} {'insert':>9} {'p99':>9} {'':>7} {'delete':>9} {'p99':>9} {'':>7} {'open':>9} {'log':>9}")
    first = {name: percentiles(contestants[0].times[name])["median_ms"] for name in ("insert", "delete")}
    for one in contestants:
        line = f"{one.sync:8}"
        for name, alone in first.items():
            found = percentiles(one.times[name])
            line += f" {found['median_ms']:9.3f} {found['p99_ms']:9.3f} {found['median_ms'] / alone:6.2f}x"
        if one.database is not None:
            line += f" {one.times['open'][0]:9.0f} {one.num_bytes / 1e6:6.0f} MB"
        print(line, flush=True)


def _rows(contestants: list[LogContestant], batch: int, built_of: int) -> Iterator[dict[str, Any]]:
    """Yield rows of schema 1; the bytes are those of the log. An opening is a "convert" of the log to a graph."""
    for one in contestants:
        for operation, values in one.times.items():
            yield {
                "store": f"log {one.sync}", "device": one.graph.device,
                "operation": "convert" if operation == "open" else operation, "algorithm": None,
                "batch": built_of if operation == "build" else batch, "edges": one.graph.number_of_edges(),
                "steps": len(values), **percentiles(values),
                "bytes": one.num_bytes if operation == "open" else None,
            }  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, and write the JSON of schema 1 on request."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.costs.log", description=__doc__)
    parser.add_argument("--scale", type=int, default=20, help="2**scale vertices")
    parser.add_argument("--edge-factor", type=int, default=16, help="rows of the stream for each vertex")
    parser.add_argument("--batch", type=int, nargs="+", default=[1000, 100_000, 1_000_000], help="rows of an update")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--folder", type=Path, help="where the databases are made, on the disk to measure; removed")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    if given.folder is not None:
        given.folder.mkdir(parents=True, exist_ok=True)
    vertices, num_events = 0, (1 << given.scale) * given.edge_factor
    for batch in given.batch:
        folder = Path(tempfile.mkdtemp(prefix="dynstore-", dir=given.folder))
        try:
            sizes = given.scale, given.edge_factor, batch, given.steps
            found = measure(*sizes, given.device, folder, given.seed)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        _show(found, batch, given.steps)
        vertices = found[0].graph.number_of_vertices()
        rows += _rows(found, batch, num_events - batch * (given.steps + WARM_UP))
        del found  # before the next graphs are built
    if given.json is not None:
        dataset = {
            "name": f"rmat:{given.scale}:{given.edge_factor}", "vertices": vertices, "edges": num_events,
            "seed": given.seed,
        }  # fmt: skip
        write_document(given.json, "log-costs", arguments, dataset, rows, module="costs.log")


if __name__ == "__main__":
    run_as_command(main)
