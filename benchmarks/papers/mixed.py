"""Batches of updates and queries mixed, each query at a time between updates (LPMA, Fig. 16), answered in two ways.

Both ways give each query the answer that it had if all operations ran one after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.papers.figures.printed import CUT, TOGETHER
from benchmarks.papers.measures import gather_pairs, list_ranges, sizes_that_fit

if TYPE_CHECKING:
    from benchmarks.papers.bench import Bench
    from dynstore.graph import DynamicGraph
    from dynstore.typing import Array

__all__ = ["mixed_batches"]

BATCHES = (10_000, 100_000)
QUERIES = 0.03  # of a batch (section 7.4): one half edges, one half neighbours


class _Mixed(NamedTuple):
    """Edges to insert in this order; queries, each before the edge whose number is its time: edges, rows, edges ..."""

    src: Array
    dst: Array
    times: list[int]  # of all queries, ascending
    edge_times: Array
    edge_src: Array
    edge_dst: Array
    row_times: Array
    rows: Array
    row_ids: list[int]  # the rows again, on the host


def mixed_batches(bench: Bench) -> None:
    """Insert into half of the graph: batches cut at each query, and each as one update and one group of queries."""
    for paper, size in sizes_that_fit(bench, BATCHES, len(bench.ring) // 4):
        low = len(bench.ring) // 2
        whole = bench.built(0, low)
        whole.insert_vertices([bench.ring.num_vertices - 1])  # all of them can be asked for
        for row, answer in ((CUT, _cut), (TOGETHER, _together)):
            graph, high = whole.copy(), low
            most = min(bench.job.steps, (len(bench.ring) - low) // size - 1)
            for step in bench.steps(most, paper, row):
                batch = _draw(bench, high, size, step + 1)
                (there, found), passed_ms = bench.timed(answer, graph, batch)
                high += size
                bench.agree(f"edges in batch {step} of {size}", _digest(bench, there))
                bench.agree(f"neighbours in batch {step} of {size}", _digest(bench, found))
                if step >= 0:
                    bench.note("total", passed_ms, size, paper, high, row)
            bench.check_edges(graph, 0, high)


def _draw(bench: Bench, high: int, size: int, number: int) -> _Mixed:
    """Draw queries of a batch: every other edge asked for is one of the batch, which may come later than the query."""
    asarray, xp = bench.backend.asarray, bench.xp
    src, dst = bench.rows(high, high + size)
    half = max(1, int(QUERIES * size / 2))
    rng = np.random.default_rng([bench.job.seed, size, number])
    times = np.sort(rng.integers(0, size + 1, 2 * half))
    chosen = asarray(rng.integers(0, size, half))
    drawn_src, drawn_dst = bench.random_rows(half, number)
    own = asarray(np.arange(half) % 2 == 0)
    edge_src, edge_dst = xp.where(own, src[chosen], drawn_src), xp.where(own, dst[chosen], drawn_dst)
    rows = rng.integers(0, bench.ring.num_vertices, half, dtype=np.int32)
    rows[::2] = bench.backend.to_host(src[chosen])[::2]
    return _Mixed(
        src, dst, times.tolist(), asarray(times[::2]), edge_src, edge_dst, asarray(times[1::2]), asarray(rows),
        rows.tolist(),
    )  # fmt: skip


def _cut(graph: DynamicGraph, batch: _Mixed) -> tuple[Array, Array]:
    """Insert the edges between two queries, ask, go on: edges and neighbours by turns."""
    xp = graph.core.backend.xp
    there: list[Any] = []
    found: list[Any] = []
    done = 0
    for number, time in enumerate(batch.times):
        if time > done:
            graph.insert_edges((batch.src[done:time], batch.dst[done:time]))
            done = time
        k = number // 2
        if number % 2 == 0:
            there.append(graph.has_edges((batch.edge_src[k : k + 1], batch.edge_dst[k : k + 1])))
        else:
            found.append(graph.successors(batch.row_ids[k]))
    if done < batch.src.shape[0]:
        graph.insert_edges((batch.src[done:], batch.dst[done:]))
    return xp.concatenate(there), xp.concatenate(found)


def _together(graph: DynamicGraph, batch: _Mixed) -> tuple[Array, Array]:
    """Ask the graph as it was and, up to each query's time, the batch's own edges; then insert them all at once."""
    xp = graph.core.backend.xp
    keys = _pack(batch.src, batch.dst)
    order = xp.argsort(keys)  # a pair comes once in the stream
    keys, src, dst = keys[order], batch.src[order], batch.dst[order]
    asked = _pack(batch.edge_src, batch.edge_dst)
    places = xp.minimum(xp.searchsorted(keys, asked), keys.shape[0] - 1)
    there = graph.has_edges((batch.edge_src, batch.edge_dst))
    there |= (keys[places] == asked) & (order[places] < batch.edge_times)

    old_numbers, old = gather_pairs(graph.snapshot(), batch.rows)
    starts = xp.searchsorted(src, batch.rows, side="left")
    numbers, slots = list_ranges(xp, starts, xp.searchsorted(src, batch.rows, side="right") - starts)
    come = order[slots] < batch.row_times[numbers]
    pairs = xp.concatenate((_pack(old_numbers, old), _pack(numbers[come], dst[slots[come]])))
    found = xp.sort(pairs) & 0xFFFFFFFF
    graph.insert_edges((batch.src, batch.dst))
    return there, found.astype(np.int32)


def _pack(high: Array, low: Array) -> Array:
    return high.astype(np.int64) << 32 | low


def _digest(bench: Bench, found: Array) -> tuple[int, int]:
    """Return a number that depends on each value and its place, and how many there are."""
    weights = bench.xp.arange(1, found.shape[0] + 1, dtype=np.int64)
    return int(found.shape[0]), int((found.astype(np.int64) * weights).sum())
