"""Updates and queries in one batch, beside splitting it: ``python -m benchmarks.costs.opera``.

Three graphs get the same batches over R-MAT events, in which queries lie at random places among insertions and
deletions:

- ``apply``: one call of :meth:`dynstore.DynamicGraph.apply` a batch;
- ``split at queries``: an update with what came before, then the query, and so on;
- ``split after writes``: an update only before a query that follows a write; existence is looked up for all queries in
  a row at once.

The last two get the edges of each of their updates folded and ready: only calls of the graph are timed. They also give
every answer that ``apply`` gives, which is checked. Half of the writes insert the stream's next events, half delete
earlier ones. Queries ask about ends of earlier events. Columns of operations and arrays for the other two are on the
graph's device before the clock starts.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
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
from dynstore.operations.results import Operation
from dynstore.typing import Device

__all__ = ["WAYS", "BatchContestant", "OperationBatch", "draw_batches", "main", "measure"]

WAYS = ("apply", "split at queries", "split after writes")
WARM_UP = 1
QUERIES = ("has_edge", "successors", "predecessors")
HOPS = 2


@dataclass(frozen=True)
class OperationBatch:
    """Operations in order of time, on the host."""

    kinds: np.ndarray
    src: np.ndarray
    dst: np.ndarray

    def columns(self, bring: Callable[[np.ndarray], Any]) -> dict[str, Any]:
        """Return the columns of ``apply``; rows are in order of time, and four share one."""
        count = self.kinds.shape[0]
        columns = {
            "op": self.kinds, "time": np.arange(count) // 4, "source": self.src, "destination": self.dst,
            "k": np.full(count, HOPS, np.int32),
        }  # fmt: skip
        return {name: bring(column) for name, column in columns.items()}

    def parts(self, together: bool) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield runs of writes and of the queries behind them, as rows; ``together``: all queries up to a write."""
        is_query = self.kinds >= Operation.HAS_EDGE
        begun = written = 0
        for row in np.flatnonzero(is_query).tolist():
            if row < written:
                continue
            last = row + 1
            while together and last < is_query.shape[0] and is_query[last]:
                last += 1
            yield np.arange(begun, row), np.arange(row, last)
            begun = written = last
        yield np.arange(begun, is_query.shape[0]), np.arange(0)


@dataclass
class BatchContestant:
    """A way to run batches, its graph, its times in ms a batch, and how many answers it gave."""

    way: str
    graph: DynamicGraph
    times: list[float] = field(default_factory=list)
    answers: list[tuple[int, int, int]] = field(default_factory=list)

    def run(self, batch: OperationBatch) -> float:
        """Run one batch; note its answers, and return its ms."""
        call = self._prepared(batch)
        watch = LapTimer(self.graph.core.backend)
        with quiet():
            watch.start()
            found = call()
            passed_ms = watch.lap()
        self.answers.append(found() if callable(found) else found)
        return passed_ms

    def _prepared(self, batch: OperationBatch) -> Callable[[], Any]:
        graph, bring = self.graph, self.graph.core.backend.asarray
        if self.way == "apply":
            columns = batch.columns(bring)
            return lambda: _counts(graph.apply(columns))
        steps = [
            (*_folded(batch, writes, bring), *self._asked(batch, queries, bring))
            for writes, queries in batch.parts(self.way == "split after writes")
        ]
        return lambda: self._split(steps)

    def _asked(
        self, batch: OperationBatch, rows: np.ndarray, bring: Callable[[np.ndarray], Any]
    ) -> tuple[Any, list[Any]]:
        """Return the queries of a part: the edges to look up at once, and the names and vertices of the others."""
        edges = rows[batch.kinds[rows] == Operation.HAS_EDGE]
        others = rows[batch.kinds[rows] != Operation.HAS_EDGE]
        names = [Operation(kind).name.lower() for kind in batch.kinds[others].tolist()]
        pairs = (bring(batch.src[edges]), bring(batch.dst[edges])) if len(edges) else None
        return pairs, list(zip(names, batch.src[others].tolist(), strict=True))

    def _split(self, steps: list[Any]) -> Callable[[], tuple[int, int, int]]:
        graph, there, near, hops = self.graph, [], [], []
        for insert, delete, pairs, others in steps:
            if insert is not None or delete is not None:
                graph.update(insert, delete)
            if pairs is not None:
                there.append(graph.has_edges(pairs))
            for name, vertex in others:
                if name == "k_hop":
                    hops.append(graph.k_hop(vertex, HOPS))
                else:
                    near.append(getattr(graph, name)(vertex))
        sums = [int(found.sum()) for found in there] if there else [0]
        return lambda: (sum(sums), sum(map(len, near)), sum(map(len, hops)))


def _counts(results: Any) -> Callable[[], tuple[int, int, int]]:
    """Return what counts answers: edges that exist, neighbours, vertices within hops."""
    return lambda: (
        int(results.has_edge["exists"].sum()),
        len(results.successors) + len(results.predecessors),
        len(results.k_hop),
    )


def _folded(batch: OperationBatch, rows: np.ndarray, bring: Callable[[np.ndarray], Any]) -> tuple[Any, Any]:
    """Return what some writes insert and what they delete, each edge by its last write; None for nothing."""
    if not len(rows):
        return None, None
    backwards = rows[::-1]
    _, first = np.unique(batch.src[backwards].astype(np.int64) << 32 | batch.dst[backwards], return_index=True)
    last = backwards[first]
    parts = [last[batch.kinds[last] == kind] for kind in (Operation.INSERT, Operation.DELETE)]
    insert, delete = ((bring(batch.src[part]), bring(batch.dst[part])) if len(part) else None for part in parts)
    return insert, delete


def draw_batches(
    events: Any, start: int, size: int, count: int, share: float, queries: tuple[str, ...], seed: int
) -> list[OperationBatch]:
    """Draw batches whose writes begin at event ``start``; a ``share`` of their rows are queries."""
    rng = np.random.default_rng(seed)
    kinds = np.array([Operation[name.upper()] for name in queries], np.int8)
    src, dst = (np.ascontiguousarray(column, np.int32) for column in (events.src, events.dst))
    batches, fresh = [], start
    for _ in range(count):
        ops = np.where(rng.random(size) < 0.5, Operation.INSERT, Operation.DELETE).astype(np.int8)
        asked = np.sort(rng.choice(size, max(1, round(share * size)), replace=False))
        ops[asked] = rng.choice(kinds, len(asked))
        rows = rng.integers(0, start, size)
        inserts = np.flatnonzero(ops == Operation.INSERT)
        if fresh + len(inserts) > len(src):
            raise InputError(f"costs.opera: {count} batches of {size} rows need more than {len(src)} events")
        rows[inserts] = np.arange(fresh, fresh + len(inserts))
        fresh += len(inserts)
        batches.append(OperationBatch(ops, src[rows], dst[rows]))
    return batches


def measure(
    scale: int, edge_factor: int, size: int, share: float, steps: int, device: Device,
    queries: tuple[str, ...] = QUERIES, store: str = "gpma+", seed: int = 1,
) -> list[BatchContestant]:  # fmt: skip
    """Run the same batches in all ways, and return the times."""
    events = rmat(scale, edge_factor, seed)
    start = events.src.shape[0] // 2
    batches = draw_batches(events, start, size, steps + WARM_UP, share, queries, seed)
    first = DynamicGraph(device=device, store=store, max_vertices=1 << scale)
    first.insert_edges((events.src[:start], events.dst[:start]))
    if "predecessors" in queries:
        first.predecessors(int(events.src[0]))
    contestants = [BatchContestant(way, first if way == WAYS[0] else first.copy()) for way in WAYS]
    for step, batch in enumerate(batches):
        for one in contestants:
            passed_ms = one.run(batch)
            if step >= WARM_UP:
                one.times.append(passed_ms)
    held = {(one.graph.number_of_edges(), *one.answers) for one in contestants}
    assert len(held) == 1, f"the ways differ: {held}"
    return contestants


def _rows(contestants: list[BatchContestant], size: int, share: float) -> Iterator[dict[str, Any]]:
    for one in contestants:
        yield {
            "store": f"{one.way}, {share:.0%} queries", "device": one.graph.device, "operation": "total",
            "algorithm": None, "batch": size, "edges": one.graph.number_of_edges(), "steps": len(one.times),
            **percentiles(one.times), "bytes": None,
        }  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, and write the JSON of schema 1 on request."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.costs.opera", description=__doc__)
    parser.add_argument("--scale", type=int, default=18, help="2**scale vertices")
    parser.add_argument("--edge-factor", type=int, default=16, help="events for each vertex")
    parser.add_argument("--batches", default="10000,100000", help="operations of a batch, by comma")
    parser.add_argument("--shares", default="1,3,10,30", help="queries in per cent, by comma")
    parser.add_argument("--queries", default=",".join(QUERIES), help="kinds of queries, by comma; k_hop takes 2 hops")
    parser.add_argument("--steps", type=int, default=5, help="batches that are timed")
    parser.add_argument("--store", default="gpma+")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    queries = tuple(given.queries.split(","))
    rows: list[dict[str, Any]] = []
    unknown = [name for name in queries if name not in (*QUERIES, "k_hop")]
    if unknown:
        raise InputError(f"costs.opera: --queries has {', '.join(unknown)}; wanted some of {', '.join(QUERIES)}, k_hop")
    print(f"rmat:{given.scale}:{given.edge_factor}, {given.device}, median ms of {given.steps} batches")
    print(f"{'operations':>10} {'queries':>8} " + " ".join(f"{way:>18} {'':>7}" for way in WAYS))
    for size in map(int, given.batches.split(",")):
        for share in (float(part) / 100 for part in given.shares.split(",")):
            found = measure(
                given.scale, given.edge_factor, size, share, given.steps, given.device, queries, given.store, given.seed
            )
            medians = [percentiles(one.times)["median_ms"] for one in found]
            cells = (f"{median:18.2f} {median / medians[0]:6.1f}x" for median in medians)
            print(f"{size:10} {share:8.0%} {' '.join(cells)}", flush=True)
            rows += _rows(found, size, share)
    if given.json is not None:
        dataset = {
            "name": f"rmat:{given.scale}:{given.edge_factor}", "vertices": 1 << given.scale,
            "edges": given.edge_factor << given.scale, "seed": given.seed,
        }  # fmt: skip
        write_document(given.json, "opera-costs", arguments, dataset, rows, module="costs.opera")


if __name__ == "__main__":
    run_as_command(main)
