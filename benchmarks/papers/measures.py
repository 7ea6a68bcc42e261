"""Measurements that several papers make."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.papers.figures.printed import BULK
from dynstore.bench.answers import make_query

if TYPE_CHECKING:
    from benchmarks.papers.bench import Bench
    from dynstore.graph import DynamicGraph
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = [
    "BUILDS",
    "ask_loaded",
    "bulk_build",
    "convert_to_csr",
    "gather_pairs",
    "gather_rows",
    "list_ranges",
    "sizes_that_fit",
]

BUILDS = 3
RUNS = 3  # of an algorithm on one graph


def sizes_that_fit(bench: Bench, papers: tuple[int, ...], most: int) -> list[tuple[int, int]]:
    """Return (the paper's batch, ours) for those that are not larger than ``most``, each of ours once."""
    sizes: dict[int, int] = {}
    for paper in papers:
        sizes[bench.scaled(paper)] = paper  # of those that shrink to the same size, the largest
    for size in sizes:
        if size > most:
            bench.remark(f"too few edges or vertices for batches of {size:,}")
    return [(paper, size) for size, paper in sizes.items() if size <= most]


def bulk_build(bench: Bench) -> None:
    """All edges in one batch, into a graph without any."""
    size = len(bench.ring)
    for step in bench.steps(BUILDS, BULK):
        graph = bench.graph()
        _, passed_ms = bench.timed(graph.insert_edges, bench.rows(0, size))
        if step >= 0:
            bench.note("build", passed_ms, size, BULK, size, num_bytes=graph.memory_usage()["total"])
    bench.check_edges(graph, 0, size)


def convert_to_csr(bench: Bench) -> None:
    """A packed CSR with sorted rows, of a graph that was just built."""
    whole = bench.built()
    for step in bench.steps(BUILDS, BULK):
        graph = whole.copy()
        packed, passed_ms = bench.timed(_packed, graph)
        if step >= 0:
            bench.note("convert", passed_ms, len(bench.ring), BULK, packed.num_edges)
    bench.agree("the CSR", int(packed.indices.astype(np.int64).sum()))


def ask_loaded(*names: str) -> Callable[[Bench], None]:
    """Return a measurement of algorithms on the loaded graph."""

    def measure(bench: Bench) -> None:
        graph, size = bench.built(), len(bench.ring)
        start = int(bench.ring.src[0])
        for name in names:
            query = make_query(name, start, bench.ring.num_vertices)
            for step in bench.steps(RUNS, BULK, name):
                passed_ms = bench.ask(graph, query, name)
                if step >= 0:
                    bench.note("algorithm", passed_ms, size, BULK, size, algorithm=name)

    return measure


def _packed(graph: DynamicGraph) -> GapCSR:
    return graph.snapshot().compact()


def gather_rows(view: GapCSR, vertices: Array) -> Array:
    """Return the neighbours of vertices, row after row, each ascending.

    Parameters
    ----------
    view : GapCSR
    vertices : array, shape (B,), int32
    """
    return gather_pairs(view, vertices)[1]


def gather_pairs(view: GapCSR, vertices: Array) -> tuple[Array, Array]:
    """Return the neighbours of vertices as :func:`gather_rows` does, behind the place of each one's vertex."""
    starts = view.offsets[vertices].astype(np.int64)
    numbers, slots = list_ranges(view.backend.xp, starts, view.offsets[vertices + 1] - starts)
    held = (view.valid[slots >> 5] >> (slots & 31).astype(np.uint32) & np.uint32(1)).astype(np.bool_)
    return numbers[held], view.indices[slots[held]]


def list_ranges(xp: Any, starts: Array, lengths: Array) -> tuple[Array, Array]:
    """Return the numbers that ranges hold, one range after the other, behind the numbers of their ranges."""
    ends = xp.cumsum(lengths)
    places = xp.arange(int(lengths.sum()), dtype=np.int64)
    numbers = xp.searchsorted(ends, places, side="right")
    return numbers, places - (ends - lengths)[numbers] + starts[numbers]
