"""The experiments of the slab hash graph: Tables II to IX, and the load factor (Figs. 2 and 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.papers.contest import Contestant, Experiment
from benchmarks.papers.figures.show import PapersSuite
from benchmarks.papers.measures import BUILDS, ask_loaded, bulk_build, convert_to_csr, sizes_that_fit
from dynstore.bench.answers import make_query

if TYPE_CHECKING:
    from benchmarks.papers.bench import Bench

__all__ = ["EXPERIMENTS", "SUITE"]

DATA = (
    *("luxembourg_osm", "germany_osm", "road_usa", "delaunay_n23", "delaunay_n20", "rgg_n_2_20_s0", "rgg_n_2_24_s0"),
    *("coAuthorsDBLP", "ldoor", "soc-LiveJournal1", "soc-orkut", "hollywood-2009"),
)
STORES = ("slab-hash", "gpma+", "lpma-h", "graphvine", "rebuild")
EDGE_BATCHES = tuple(1 << power for power in range(16, 23))
VERTEX_BATCHES = tuple(1 << power for power in range(16, 21))
BUILD_BATCHES = tuple(1 << power for power in range(20, 23))
DENSITIES = ("rmat-15", "rmat-60")
LOAD_FACTORS = (0.2, 0.35, 0.7, 1.0, 2.0, 5.0)  # 5: chains of some five slabs
ANY_CHAIN = 1 << 20  # no table is made larger because of its chains
BY_LOAD_FACTOR = tuple(
    Contestant(f"slab-hash at {share:g}", "slab_hash", {"load_factor": share, "max_chain": ANY_CHAIN})
    for share in LOAD_FACTORS
)
ROUNDS, ROUND_BATCH = 5, 1 << 22
STEPS = 5


def _random_edges(bench: Bench) -> None:
    """Random edges go into the whole graph, and out again."""
    graph, size = bench.built(), len(bench.ring)
    number = 0
    for paper, batch in sizes_that_fit(bench, EDGE_BATCHES, size):
        for step in bench.steps(min(STEPS, bench.job.steps), paper):
            number += 1
            rows = bench.random_rows(batch, number)
            inserted, insert_ms = bench.timed(graph.insert_edges, rows)
            deleted, delete_ms = bench.timed(graph.delete_edges, rows)
            bench.agree(f"batch {number} of {batch}", (inserted.inserted, deleted.deleted))
            if step >= 0:
                bench.note("insert", insert_ms, batch, paper, size)
                bench.note("delete", delete_ms, batch, paper, size)
    bench.agree(f"edges after {number} batches", bench.held(graph))


def _vertex_deletion(bench: Bench) -> None:
    whole = bench.built()
    for paper, batch in sizes_that_fit(bench, VERTEX_BATCHES, bench.ring.num_vertices // 2):
        for step in bench.steps(BUILDS, paper, warm_up=False):
            graph = whole.copy()
            ids = bench.random_ids(batch, step)
            report, passed_ms = bench.timed(graph.delete_vertices, ids)
            bench.agree(f"edges of {batch} vertices, {step}", report.deleted)
            bench.note("delete", passed_ms, batch, paper, graph.number_of_edges())


def _incremental_build(bench: Bench) -> None:
    """From a graph of all vertices and no edge: a hash table per vertex has one bucket, since no degree is known."""
    size = len(bench.ring)
    for paper, batch in sizes_that_fit(bench, BUILD_BATCHES, size):
        graph, high = bench.graph(), 0
        graph.insert_vertices([bench.ring.num_vertices - 1])
        for _ in bench.steps(size // batch, paper, warm_up=False):
            rows = bench.rows(high, high + batch)
            _, passed_ms = bench.timed(graph.insert_edges, rows)
            high += batch
            bench.note("insert", passed_ms, batch, paper, high)
        bench.check_edges(graph, 0, high)


def _dynamic_triangles(bench: Bench) -> None:
    """Five counts of triangles, and a batch of random edges before each but the first; times add up."""
    graph, batch = bench.built(), bench.scaled(ROUND_BATCH)
    query = make_query("triangle_count", 0, bench.ring.num_vertices)
    bench.ask(graph, query, "triangles before")
    inserting = counting = 0.0
    for number in range(1, ROUNDS + 1):
        if number > 1:
            rows = bench.random_rows(batch, number)
            _, passed_ms = bench.timed(graph.insert_edges, rows)
            inserting += passed_ms
            bench.note("insert", inserting, batch, ROUND_BATCH, graph.number_of_edges(), f"round {number}, insert")
        counting += bench.ask(graph, query, f"triangles, round {number}")
        edges = graph.number_of_edges()
        bench.note("algorithm", counting, batch, ROUND_BATCH, edges, f"round {number}, triangles", "triangle_count")
        bench.note("total", inserting + counting, batch, ROUND_BATCH, edges, f"round {number}, total")


EXPERIMENTS = (
    Experiment(
        "slab-hash/table2", "Table II: insertion of edges", DATA, STORES, _random_edges, "MEdge/s",
        operations=("insert",),
    ),
    Experiment(
        "slab-hash/table3", "Table III: deletion of edges", DATA, STORES, _random_edges, "MEdge/s",
        operations=("delete",),
    ),
    Experiment(
        "slab-hash/table4", "Table IV: deletion of vertices",
        ("soc-orkut", "soc-LiveJournal1", "delaunay_n23", "germany_osm"), STORES, _vertex_deletion, "MVertex/s",
        directed=False,
    ),
    Experiment("slab-hash/table5", "Table V: bulk build", DATA, STORES, bulk_build),
    Experiment(
        "slab-hash/table6", "Table VI: incremental build", ("ldoor", "delaunay_n23", "road_usa", "soc-LiveJournal1"),
        STORES, _incremental_build, "MEdge/s",
    ),
    Experiment("slab-hash/table7", "Table VII: triangles", DATA, STORES, ask_loaded("triangle_count"), directed=False),
    Experiment("slab-hash/table8", "Table VIII: conversion into a sorted CSR", DATA, STORES, convert_to_csr),
    Experiment(
        "slab-hash/table9", "Table IX: triangles after each batch", ("road_usa", "hollywood-2009"), STORES,
        _dynamic_triangles, directed=False,
    ),
    Experiment(
        "slab-hash/fig2a", "Fig. 2a: build by load factor", DENSITIES, BY_LOAD_FACTOR, bulk_build, "MEdge/s"
    ),
    Experiment("slab-hash/fig2c", "Fig. 2c: memory by load factor", DENSITIES, BY_LOAD_FACTOR, bulk_build, "MB"),
    Experiment(
        "slab-hash/fig3", "Fig. 3: triangles by load factor", DENSITIES, BY_LOAD_FACTOR,
        ask_loaded("triangle_count"), directed=False,
    ),
)  # fmt: skip
SUITE = PapersSuite("slab-hash", EXPERIMENTS)
