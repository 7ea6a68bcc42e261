"""LPMA's experiments: graphs loaded batch by batch, conversions, queries, algorithms, vertex updates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.papers.contest import Experiment
from benchmarks.papers.figures.printed import ALL_UPDATES, EXPANSIONS, FROM_DEVICE, FROM_HOST
from benchmarks.papers.figures.show import PapersSuite
from benchmarks.papers.measures import ask_loaded, convert_to_csr, gather_rows, sizes_that_fit
from benchmarks.papers.mixed import mixed_batches

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.papers.bench import Bench

__all__ = ["EXPERIMENTS", "SUITE"]

DATA = ("orkut", "graph500-120", "livejournal", "pokec", "cit-patents", "road-tx", "stack", "wiki")
LPMA = ("lpma-b", "lpma-t", "lpma-h")
LOADERS = (*LPMA, "gpma+ level", "gpma+", "slab-hash", "rebuild")
MIXERS = ("lpma-h", "gpma+", "slab-hash")
READERS = ("lpma-h", "gpma+ level", "gpma+", "slab-hash", "rebuild")
BATCHES = (10_000, 100_000)
THROUGHPUT_BATCHES = (1_000, 10_000, 100_000, 1_000_000)
LOAD_STEPS = 20  # batches of a load, in timed steps
VERTEX_STEPS = 5


def _load(batches: tuple[int, ...]) -> Callable[[Bench], None]:
    def measure(bench: Bench) -> None:
        for paper, size in sizes_that_fit(bench, batches, len(bench.ring)):
            graph, high = bench.graph(), 0
            total = min(len(bench.ring) // size, LOAD_STEPS * bench.job.steps)
            before = graph.statistics()
            for step in bench.steps(total, paper, ALL_UPDATES, warm_up=False):
                rows = bench.rows(high, high + size)
                report, passed_ms = bench.timed(graph.insert_edges, rows)
                high += size
                after = graph.statistics()
                counts = {name: count - before.get(name, 0) for name, count in after.items()}
                before = after
                bench.note("insert", passed_ms, size, paper, high, ALL_UPDATES, counts=counts)
                if report.grown and step:  # the first batch makes the array
                    bench.note("insert", passed_ms, size, paper, high, EXPANSIONS, counts=counts)
            bench.check_edges(graph, 0, high)
            if total == LOAD_STEPS * bench.job.steps:
                bench.remark(f"the first {total:,} batches of {size:,} were loaded")

    return measure


def _transfers(bench: Bench) -> None:
    """Insert into half of the graph, by turns from the device's memory and from the host's."""
    for paper, size in sizes_that_fit(bench, BATCHES, len(bench.ring) // 4):
        high = len(bench.ring) // 2
        graph = bench.built(0, high)
        most = min(2 * bench.job.steps, (len(bench.ring) - high) // size - 2)
        for step in bench.steps(most, paper, FROM_HOST):
            for row in (FROM_DEVICE, FROM_HOST) if step < 0 else ((FROM_DEVICE, FROM_HOST)[step % 2],):
                rows = bench.rows(high, high + size)
                if row == FROM_HOST:
                    rows = bench.backend.to_host(rows[0]), bench.backend.to_host(rows[1])
                _, passed_ms = bench.timed(graph.insert_edges, rows)
                high += size
                if step >= 0:
                    bench.note("insert", passed_ms, size, paper, high, row)
        bench.check_edges(graph, 0, high)


def _edge_queries(bench: Bench) -> None:
    graph, size = bench.built(), len(bench.ring)
    for paper, batch in sizes_that_fit(bench, BATCHES, size):
        for step in bench.steps(bench.job.steps, paper):
            there, drawn = bench.rows(step + 1, step + 1 + batch // 2), bench.random_rows(batch - batch // 2, step + 1)
            asked = tuple(bench.xp.concatenate(pair) for pair in zip(there, drawn, strict=True))
            found, passed_ms = bench.timed(graph.has_edges, asked)
            bench.agree(f"{batch} edges, {step}", int(found.sum()))
            if step >= 0:
                bench.note("algorithm", passed_ms, batch, paper, size, algorithm="has_edges")


def _neighbours(bench: Bench) -> None:
    graph, size = bench.built(), len(bench.ring)
    for paper, batch in sizes_that_fit(bench, BATCHES, size):
        for step in bench.steps(bench.job.steps, paper):
            vertices = bench.random_ids(batch, step + 1)
            found, passed_ms = bench.timed(gather_rows, graph.snapshot(), vertices)
            bench.agree(f"neighbours of {batch}, {step}", (int(found.shape[0]), int(found.astype(np.int64).sum())))
            if step >= 0:
                bench.note("algorithm", passed_ms, batch, paper, size, algorithm="neighbours")


def _vertices(bench: Bench) -> None:
    whole, most = bench.built(), bench.ring.num_vertices
    graph = whole.copy()
    for paper, batch in sizes_that_fit(bench, BATCHES, most):
        for step in bench.steps(min(VERTEX_STEPS, bench.job.steps), paper, "insert"):
            ids = bench.xp.arange(batch, dtype=np.int32) + graph.number_of_vertices()
            _, passed_ms = bench.timed(graph.insert_vertices, ids)
            if step >= 0:
                bench.note("insert", passed_ms, batch, paper, len(bench.ring), "insert")
    for paper, batch in sizes_that_fit(bench, BATCHES, most):
        graph = whole.copy()
        for step in bench.steps(min(VERTEX_STEPS, bench.job.steps), paper, "delete"):
            ids = bench.random_ids(batch, step + 1)
            report, passed_ms = bench.timed(graph.delete_vertices, ids)
            bench.agree(f"edges of {batch} vertices, {step}", report.deleted)
            if step >= 0:
                bench.note("delete", passed_ms, batch, paper, len(bench.ring), "delete")


EXPERIMENTS = (
    Experiment("lpma/load", "Figs. 8 to 10, 13: loading batch by batch", DATA, LOADERS, _load(BATCHES), curves=True),
    Experiment(
        "lpma/fig11", "Fig. 11: by size of batch", DATA, ("lpma-h", "gpma+"), _load(THROUGHPUT_BATCHES), "MEdge/s"
    ),
    Experiment("lpma/fig12", "Fig. 12: batches in the host's memory", DATA, ("lpma-h", "gpma+"), _transfers),
    Experiment("lpma/csr", "Figs. 14, 15: conversion into a sorted CSR", DATA, READERS, convert_to_csr),
    Experiment("lpma/fig16", "Fig. 16: updates and queries mixed", DATA, MIXERS, mixed_batches),
    Experiment("lpma/edges", "Fig. 17: edge queries", DATA, READERS, _edge_queries),
    Experiment("lpma/neighbours", "Fig. 17: sorted neighbours of vertices", DATA, READERS, _neighbours),
    Experiment("lpma/fig18", "Fig. 18: triangles", DATA, READERS, ask_loaded("triangle_count"), directed=False),
    Experiment("lpma/fig19", "Fig. 19: PageRank", DATA, READERS, ask_loaded("pagerank")),
    Experiment("lpma/fig20", "Fig. 20: BFS", DATA, READERS, ask_loaded("bfs")),
    Experiment("lpma/vertices", "Appendix B: vertices inserted and deleted", DATA, READERS, _vertices),
)
SUITE = PapersSuite("lpma", EXPERIMENTS)
