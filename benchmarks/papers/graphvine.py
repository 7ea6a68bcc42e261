"""GraphVine's experiments: initialisation, insertion and deletion by size of batch, memory (Tables 2 to 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.papers.contest import Experiment
from benchmarks.papers.figures.printed import BULK
from benchmarks.papers.figures.show import PapersSuite
from benchmarks.papers.measures import BUILDS, sizes_that_fit

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.papers.bench import Bench
    from dynstore.graph import DynamicGraph

__all__ = ["EXPERIMENTS", "SUITE"]

DATA = (
    *("coPapersDBLP", "coPapersCiteseer", "hugetrace-00020", "channel-500x100x100-b050", "delaunay_n24"),
    *("europe_osm", "rgg_n_2_24_s0"),
)
STORES = ("graphvine", "slab-hash", "gpma+", "lpma-h", "rebuild")
BATCHES = (100_000, 1_000_000, 10_000_000)
STEPS = 5


def _initialisation(bench: Bench) -> None:
    """A graph of all vertices and no edge, with memory for all edges."""

    def start() -> DynamicGraph:
        graph = bench.graph(capacity=len(bench.ring))
        graph.insert_vertices([bench.ring.num_vertices - 1])
        return graph

    for step in bench.steps(BUILDS, BULK):
        _, passed_ms = bench.timed(start)
        if step >= 0:
            bench.note("build", passed_ms, len(bench.ring), BULK, 0)


def _batches(most: int) -> Callable[[Bench], None]:
    """Return a measurement of the first batches of the ring, inserted and then deleted in that order."""

    def measure(bench: Bench) -> None:
        size = len(bench.ring)
        for paper, batch in (*sizes_that_fit(bench, BATCHES, size), (BULK, size)):
            graph = bench.graph()
            graph.insert_vertices([bench.ring.num_vertices - 1])
            count = min(most, bench.job.steps, size // batch)
            for number in range(count):
                rows = bench.rows(number * batch, (number + 1) * batch)
                _, passed_ms = bench.timed(graph.insert_edges, rows)
                num_bytes = graph.memory_usage()["total"]
                bench.note("insert", passed_ms, batch, paper, (number + 1) * batch, num_bytes=num_bytes)
            bench.check_edges(graph, 0, count * batch)
            for number in range(count):
                rows = bench.rows(number * batch, (number + 1) * batch)
                report, passed_ms = bench.timed(graph.delete_edges, rows)
                bench.agree(f"deleted of {batch}, {number}", report.deleted)
                bench.note("delete", passed_ms, batch, paper, (count - number - 1) * batch)

    return measure


_both_ways = _batches(STEPS)
EXPERIMENTS = (
    Experiment("graphvine/table2", "Table 2: initialisation", DATA, STORES, _initialisation),
    Experiment(
        "graphvine/table3", "Table 3: insertion by size of batch", DATA, STORES, _both_ways, operations=("insert",)
    ),
    Experiment(
        "graphvine/table4", "Table 4: deletion by size of batch", DATA, STORES, _both_ways, operations=("delete",)
    ),
    Experiment(
        "graphvine/table5", "Table 5: memory after one batch", DATA, STORES, _batches(1), "MB", operations=("insert",)
    ),
)
SUITE = PapersSuite("graphvine", EXPERIMENTS)
