"""GPMA's experiments: a window slides; updates by size of batch (Fig. 7), updates and analytics (Figs. 8 to 11)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.papers.contest import Experiment
from benchmarks.papers.data import DATA_SETS
from benchmarks.papers.figures.printed import ANALYTICS
from benchmarks.papers.figures.show import PapersSuite
from benchmarks.papers.measures import sizes_that_fit
from benchmarks.papers.transfers import hidden_transfers
from dynstore.algorithms.registry import find_algorithm
from dynstore.bench.answers import Query, make_query

if TYPE_CHECKING:
    from benchmarks.papers.bench import Bench

__all__ = ["EXPERIMENTS", "SUITE"]

DATA = ("reddit", "pokec", "graph500-200", "random")
STORES = ("gpma+ level", "gpma+", "gpma", "rebuild", "merge", "adjlists", "pma")
BATCHES = tuple(1 << power for power in range(0, 21, 2))
SLIDES = (0.0001, 0.001, 0.01)
TOLERANCE = 1e-3  # of PageRank, L1
RANKS_APART = 2 * TOLERANCE / (1 - 0.85)  # two runs that stop within the tolerance of the fixed point


class _RingWindow:
    """A graph that holds half of a ring, and moves on."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.size = len(bench.ring) // 2
        self.low = 0
        self.graph = bench.built(0, self.size)

    def slide(self, size: int) -> float:
        """Delete the oldest edges, insert the next ones; return the ms of both."""
        low, high = self.low, self.low + self.size
        leaving, entering = self.bench.rows(low, low + size), self.bench.rows(high, high + size)

        def move() -> None:
            self.graph.delete_edges(leaving)
            self.graph.insert_edges(entering)

        _, passed_ms = self.bench.timed(move)
        self.low += size
        return passed_ms

    def check(self) -> None:
        self.bench.check_edges(self.graph, self.low, self.low + self.size)


def _update_latency(bench: Bench) -> None:
    window = _RingWindow(bench)
    for paper, size in sizes_that_fit(bench, BATCHES, window.size):
        for step in bench.steps(bench.job.steps, paper):
            passed_ms = window.slide(size)
            if step >= 0:
                num_bytes = window.graph.memory_usage()["total"]
                bench.note("update", passed_ms, size, paper, window.size, num_bytes=num_bytes)
        if bench.was_slow(paper):
            break
    window.check()


def _with_analytics(name: str) -> Callable[[Bench], None]:
    def measure(bench: Bench) -> None:
        window, most = _RingWindow(bench), DATA_SETS[bench.ring.name].num_edges
        for share in SLIDES:
            size, paper = max(1, round(share * len(bench.ring))), round(share * most)
            for step in bench.steps(bench.job.steps, paper, ANALYTICS):
                passed_ms = window.slide(size)
                root = int(bench.ring.src[window.low % len(bench.ring)])  # edges come in random order
                answer_ms = bench.ask(
                    window.graph, _query(name, root, bench.ring.num_vertices), f"{name} at {window.low}"
                )
                if step >= 0:
                    bench.note("update", passed_ms, size, paper, window.size, "update")
                    bench.note("algorithm", answer_ms, size, paper, window.size, ANALYTICS, name)
        window.check()

    return measure


def _query(name: str, root: int, num_vertices: int) -> Query:
    query = make_query(name, root, num_vertices)
    if name != "pagerank":
        return query
    run = find_algorithm(name).function
    return replace(query, call=lambda G: run(G, tol=TOLERANCE, warm_start=True), difference=_ranks_apart)


def _ranks_apart(one: np.ndarray, other: np.ndarray) -> str | None:
    distance = float(np.abs(one.astype(np.float64) - other).sum())
    return None if distance <= RANKS_APART else f"ranks differ by {distance:.3g} (L1)"


EXPERIMENTS = (
    Experiment("gpma/fig7", "Fig. 7: updates by size of batch", DATA, STORES, _update_latency),
    Experiment("gpma/fig8", "Fig. 8: updates and BFS", DATA, STORES, _with_analytics("bfs")),
    Experiment(
        "gpma/fig9", "Fig. 9: updates and connected components", DATA, STORES,
        _with_analytics("weakly_connected_components"), directed=False,
    ),
    Experiment("gpma/fig10", "Fig. 10: updates and PageRank", DATA, STORES, _with_analytics("pagerank")),
    Experiment("gpma/fig11", "Fig. 11: transfers beside updates and BFS", DATA, STORES[:2], hidden_transfers),
)  # fmt: skip
SUITE = PapersSuite("gpma", EXPERIMENTS)
