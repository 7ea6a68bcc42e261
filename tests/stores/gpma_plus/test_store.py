"""What is GPMA+'s own: densities, windows, the two paths, memory, launches."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from dynstore import DynamicGraph
from dynstore.backend import get_backend
from dynstore.errors import InputError, InputTypeError
from dynstore.testing.invariants import check_graph

LEAF = 32


def make(edges, **options):
    options = {"device": "cpu", **options}
    return DynamicGraph.from_edges(edges, **options)


def random_batch(rng, num_vertices, size):
    return rng.integers(0, num_vertices, size), rng.integers(0, num_vertices, size)


def packed_bytes(graph):
    edge = 8 if graph.vertex_dtype.itemsize == 4 else 16
    if graph.is_weighted():
        edge += graph.weight_dtype.itemsize
    edges = graph.snapshot().num_edges
    return edges * edge + (graph.number_of_vertices() + 1) * graph.vertex_dtype.itemsize


def leaf_counts(graph):
    mask = graph.core.backend.to_host(graph.snapshot().mask())
    return mask.reshape(-1, LEAF).sum(axis=1)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("vertex_dtype", ["int32", "int64"])
def test_memory_stays_within_its_bounds(weighted, vertex_dtype):
    """At most 1.6 times the packed table after a build, 2.2 times at any time."""
    rng = np.random.default_rng(1)
    src, dst = random_batch(rng, 3000, 60_000)
    weights = (rng.random(60_000),) if weighted else ()
    graph = make((src, dst, *weights), weighted=weighted, vertex_dtype=vertex_dtype)
    assert graph.memory_usage()["total"] <= 1.6 * packed_bytes(graph)
    alive = list(zip(src.tolist(), dst.tolist(), strict=True))
    for step in range(40):
        if step < 20:
            graph.insert_edges(random_batch(rng, 3000, 3000), default_weight=1.0)
        else:
            chosen = rng.permutation(len(alive))[:4000]
            gone = [alive[i] for i in chosen]
            graph.delete_edges(tuple(np.array(gone).T))
        assert graph.memory_usage()["total"] <= 2.2 * packed_bytes(graph), step
    check_graph(graph)


def test_a_growth_adds_about_a_quarter_and_a_shrinkage_gives_back():
    rng = np.random.default_rng(2)
    graph = make(random_batch(rng, 5000, 40_000))
    sizes = [graph.snapshot().num_slots]
    while len(sizes) < 3:
        report = graph.insert_edges(random_batch(rng, 5000, 400))
        slots = graph.snapshot().num_slots
        assert report.grown == (slots > sizes[-1])
        if slots != sizes[-1]:
            sizes.append(slots)
    assert all(1.15 < after / before < 1.4 for before, after in pairwise(sizes))
    table = graph.edge_table().sample(frac=0.6, random_state=1)
    report = graph.delete_edges(table)
    assert not report.grown
    assert graph.snapshot().num_slots < sizes[-1]
    check_graph(graph)


def test_reserved_capacity_neither_grows_nor_shrinks():
    graph = DynamicGraph(device="cpu", capacity=50_000)
    slots = graph.snapshot().num_slots
    rng = np.random.default_rng(3)
    batches = [random_batch(rng, 2000, 5000) for _ in range(10)]
    for batch in batches:
        assert not graph.insert_edges(batch).grown
    for batch in batches:
        graph.delete_edges(batch)
    assert graph.snapshot().num_slots == slots
    check_graph(graph)


def test_no_segment_gets_denser_than_its_limit():
    """After an in-place insertion every leaf and every ancestor is within the upper densities."""
    rng = np.random.default_rng(4)
    graph = make(random_batch(rng, 2000, 20_000), merge_cost=0.0)
    for _ in range(8):
        batch = random_batch(rng, 2000, 400)
        slots = graph.snapshot().num_slots
        if graph.insert_edges(batch).grown:
            continue
        counts = leaf_counts(graph)
        height, top = 0, (slots // LEAF - 1).bit_length()
        while True:
            limit = 1.0 + (0.80 - 1.0) * height / top
            for first in range(0, len(counts), 1 << height):
                segment = counts[first : first + (1 << height)]
                assert segment.sum() <= limit * len(segment) * LEAF
            if height == top:
                break
            height += 1


def test_deletions_pack_what_became_too_empty():
    rng = np.random.default_rng(5)
    graph = make(random_batch(rng, 500, 20_000), merge_cost=0.0)
    # One row after the other, so that whole leaves run empty while the array as a whole does not.
    table = graph.edge_table()
    for vertex in range(60):
        graph.delete_edges(table[table.source == vertex])
        check_graph(graph)
    assert (leaf_counts(graph) >= 1).all()


def test_small_updates_stay_in_place_and_large_ones_merge():
    rng = np.random.default_rng(6)
    graph = make(random_batch(rng, 4000, 50_000))
    assert graph.insert_edges(random_batch(rng, 4000, 50)).path == "in-place"
    assert graph.insert_edges(random_batch(rng, 4000, 15_000)).path == "merge"
    assert graph.delete_edges(random_batch(rng, 4000, 50)).path == "in-place"


def test_both_paths_give_the_same_graph():
    rng = np.random.default_rng(7)
    first = random_batch(rng, 300, 3000)
    graphs = [make((*first, np.arange(3000.0)), merge_cost=cost) for cost in (0.0, 1e9)]
    paths = set()
    for step in range(12):
        batch = random_batch(rng, 300, 60)
        weights = rng.random(60)
        for graph in graphs:
            mode = "add" if step % 2 else "replace"
            paths.add((graph is graphs[0], graph.insert_edges((*batch, weights), on_duplicate=mode).path))
            graph.delete_edges((batch[0][:30], batch[1][:30]))
        assert graphs[0].edge_table().equals(graphs[1].edge_table())
    assert (True, "in-place") in paths
    assert (False, "merge") in paths


def test_an_update_in_place_writes_only_near_its_keys():
    rng = np.random.default_rng(8)
    graph = make(random_batch(rng, 4000, 60_000))
    before = graph.core.backend.to_host(graph.snapshot().indices).copy()
    report = graph.insert_edges(([7, 2000, 3999], [3, 5, 9]))
    assert report.path == "in-place"
    after = graph.core.backend.to_host(graph.snapshot().indices)
    changed_leaves = set((np.nonzero(before != after)[0] // LEAF).tolist())
    assert len(changed_leaves) <= 3 * 4


def test_a_long_gap_of_ids_is_right_from_both_sides():
    graph = make(([5, 5], [1, 2]), max_vertices=2_000_000, merge_cost=0.0)
    graph.insert_edges((np.full(40, 1_500_000), np.arange(40)))
    graph.insert_edges((np.full(40, 700_000), np.arange(40)))
    check_graph(graph)
    graph.delete_edges((np.full(40, 1_500_000), np.arange(40)))
    graph.insert_edges((np.full(30, 4), np.arange(30)))
    check_graph(graph)
    assert graph.successors(700_000).tolist() == list(range(40))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"leaf_upper": 1.5}, "leaf_upper is 1.5; wanted a number between 0.0 and 1.0"),
        ({"root_lower": "x"}, "root_lower is 'x'; wanted a number"),
        ({"build_density": 0.9}, "wanted leaf_lower <= root_lower < build_density < root_upper <= leaf_upper"),
        ({"densities": 1}, "unknown parameter 'densities'; known: 'directed', "),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(InputError) as caught:
        DynamicGraph(device="cpu", **options)
    assert message in str(caught.value)


def test_a_window_inside_a_block_may_end_with_it():
    """Keys that go before the first slot of the next block belong to the window that ends there."""
    compiler = pytest.importorskip("dynstore.cuda.compiler")
    device = "cuda-sim" if compiler.SIMULATED else "cuda" if get_backend().on_gpu else "cpu"
    columns = 4 * np.arange(2000)
    graph = make((np.zeros(2000, np.int64), columns), device=device, merge_cost=0.0)
    view = graph.snapshot()
    below = int(view.indices[32 * LEAF]) - 1  # behind all keys of leaf 31
    assert below // 4 * 4 == int(view.indices[32 * LEAF - 1]), "leaf 31 ends with another key"
    at = below // 4 * 4
    report = graph.insert_edges(
        (np.zeros(60, np.int64), np.r_[at - 4 * np.arange(20) + 1, at + 1, 9000 + np.arange(39)])
    )
    assert report.path == "in-place"
    for offset in (2, 3):
        report = graph.insert_edges((np.zeros(20, np.int64), at - 4 * np.arange(20) + offset))
        assert report.path == "in-place"
    check_graph(graph)


def test_launches_do_not_depend_on_the_batch(device, launches):
    """An in-place insertion takes at most 10 kernels, whatever the batch: 2 check and sort it, 2 plan, 6 write."""
    rng = np.random.default_rng(9)
    graph = DynamicGraph.from_edges(random_batch(rng, 60, 250), device=device, merge_cost=0.0)
    for size in (2, 40):
        launches.clear()
        report = graph.insert_edges((rng.integers(60, 70, size), rng.integers(0, 60, size)))
        assert report.path == "in-place"
        assert report.inserted > 0
        assert len(launches) <= 10
        assert max(map(launches.count, launches)) <= 2  # once more after ids that are new were looked at


@pytest.mark.parametrize(
    ("tuning", "error", "message"),
    [
        (7, InputTypeError, "tuning is a int; wanted a dict of names and numbers"),
        ({"partition_row": 1}, InputError, "unknown option 'partition_row'"),
        ({"partition_rows": 1.5}, InputTypeError, "partition_rows is 1.5; wanted an integer"),
        ({"max_numbered": 2**31}, InputError, "max_numbered is 2147483648; wanted an integer between 0 and 2147483647"),
        ({"max_overflows": 0}, InputError, "max_overflows is 0; wanted an integer between 1 and 62"),
        ({"tile_fill": -1}, InputError, "tile_fill is -1; wanted a number between 0.0 and "),
    ],
)
def test_sizes_that_are_none_are_refused(tuning, error, message):
    with pytest.raises(error) as caught:
        DynamicGraph(device="cpu", tuning=tuning)
    assert message in str(caught.value)
    assert str(caught.value).startswith("store 'gpma+': tuning")


def test_sizes_of_paths_stay_with_the_graph(tmp_path):
    """With copies, with what it grows to, and with what is saved; other sizes have their defaults."""
    from dynstore.stores.table.tuning import DEFAULT_TUNING

    graph = make(([0, 1], [1, 2]), tuning={"partition_rows": 7})
    graph.save(tmp_path / "graph")
    for one in (graph, graph.copy(), DynamicGraph.load(tmp_path / "graph", device="cpu")):
        one.insert_edges((np.arange(500) % 20, np.arange(500) % 25))
        assert one.core.out.slots.tuning.partition_rows == 7
        assert one.core.out.slots.tuning.insert_tile_slots == DEFAULT_TUNING.insert_tile_slots
    assert make(([0, 1], [1, 2])).core.out.slots.tuning == DEFAULT_TUNING
