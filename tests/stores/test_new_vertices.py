"""Insertions on CUDA that bring new vertices, written once their ids were looked at, beside planned ones."""

from __future__ import annotations

import numpy as np
import pytest

from dynstore import DynamicGraph
from dynstore.errors import OutOfMemoryError
from dynstore.stores.table.slots import SlotArrays
from dynstore.testing.invariants import check_graph, host_arrays
from dynstore.testing.pair import same_arrays
from tests.stores.planned import plan_updates

UNSORTED = ["k_insert_lists"]
WRITING = ["k_gather_windows", "k_spread_edges", "k_shift_leaves", "k_write_edge_rows"]


@pytest.fixture
def twins(device):
    """Make two graphs; the second one's updates are planned."""

    def make(**options):
        columns = np.divmod(40 * np.arange(1200, dtype=np.int32), 400)
        graph = DynamicGraph(device=device, merge_cost=0.0, **options)
        graph.insert_edges(tuple(map(graph.core.backend.asarray, columns)), default_weight=1.0)
        twin = graph.copy()
        return graph, plan_updates(twin)

    return make


@pytest.fixture
def insert_into_both(launches, sorts):
    """Insert the same edges into a graph and its twin: all is the same.

    Returns the report, and the kernels that the first started, with a "sort" at the end where it sorted the batch.
    """

    def insert(graph, twin, src, dst, *weights):
        edges = *(graph.core.backend.asarray(np.array(column, np.int32)) for column in (src, dst)), *weights
        launches.clear()
        sorts.clear()
        report = graph.insert_edges(edges)
        started = launches + ["sort"] * len(sorts)
        assert report == twin.insert_edges(edges)
        assert graph.vertex_ids().tolist() == twin.vertex_ids().tolist()
        assert same_arrays(host_arrays(graph.snapshot()), host_arrays(twin.snapshot()))
        check_graph(graph)
        return report, started

    return insert


@pytest.mark.parametrize("directed", [True, False])
def test_a_few_new_vertices_need_no_plan(twins, insert_into_both, directed):
    """Once an insertion has brought some, ids of the next one are looked at first; until one brings none."""
    graph, twin = twins(directed=directed)
    for src, dst, looking, num_vertices in (
        ([3, 125, 7, 60], [125, 5, 8, 121], [], 361),
        ([3, 450, 7, 451], [450, 5, 9, 3], [*UNSORTED, "k_pack_keys"], 452),
        ([3, 452, 500, 8], [452, 4, 9, 3], ["k_find_bounds"], 501),
        ([3, 5, 7], [452, 4, 500], ["k_find_bounds"], 501),
        ([4, 5, 8], [452, 6, 500], [], 501),
    ):
        report, started = insert_into_both(graph, twin, src, dst)
        assert (report.path, graph.number_of_vertices()) == ("in-place", num_vertices)
        assert started == looking + UNSORTED


@pytest.mark.parametrize("directed", [True, False])
def test_ids_that_are_new_need_no_plan_either(twins, insert_into_both, directed):
    """As without renumbering, but the table of ids finds the new vertices."""
    graph, twin = twins(directed=directed, renumber=True)
    for src, dst, looked_at in (([3, 10**6], [1, 3], True), ([10**5, 4], [1, 10**7], False), ([3], [5], False)):
        report, started = insert_into_both(graph, twin, src, dst)
        assert report.path == "in-place"
        assert [name for name in started if name in UNSORTED] == (UNSORTED if looked_at else []) + UNSORTED
    assert insert_into_both(graph, twin, [4, 3], [9, 8])[1] == ["k_match_keys", *UNSORTED]


@pytest.mark.parametrize("options", [{}, {"weighted": True}, {"vertex_dtype": np.int64}, {"renumber": True}])
def test_many_new_vertices_are_inserted_sorted(twins, insert_into_both, options):
    """Their edges all belong behind the last leaf's, which is too much for a list of its own."""
    graph, twin = twins(**options)
    for first in (400, 480):
        src, dst = first + np.arange(80), np.arange(80)
        report, started = insert_into_both(graph, twin, src, dst, *([np.arange(80)] if "weighted" in options else []))
        assert (report.path, graph.number_of_vertices()) == ("in-place", len(graph.vertex_ids()))
        # A weighted batch is tried before anybody has looked at its ids; nothing is written then.
        tries = 2 if "weighted" in options and first == 400 else 1
        assert [name for name in started if name in WRITING] == tries * WRITING
        assert started[-1] == "sort" or options.keys() & {"weighted", "vertex_dtype"}


@pytest.mark.parametrize("renumber", [False, True])
@pytest.mark.parametrize("known", [True, False])
def test_a_new_vertex_that_there_is_no_memory_for_leaves_no_trace(twins, monkeypatch, known, renumber):
    """Whether room for its row cannot be had, or, after the device has refused the edges, room for a merge of all."""
    graph, _ = twins(renumber=renumber)
    before, version = host_arrays(graph.snapshot()), graph.version
    ids = graph.vertex_ids().tolist()
    src, dst = np.array([3, 10**4], np.int32), np.array([1, 2], np.int32)

    def fail(*args, **kwargs):
        raise MemoryError("no room")

    with monkeypatch.context() as patch:
        graph._expects_new_ids = known
        if known:
            patch.setattr(SlotArrays, "with_vertices", fail)
        else:
            patch.setattr("dynstore.stores.pma.store.most_in_place", lambda *_: 0)  # the device refuses
            patch.setattr(type(graph.core.out), "_plan_merge", fail)
        with pytest.raises(OutOfMemoryError, match="the graph is as it was"):
            graph.insert_edges((graph.core.backend.asarray(src), graph.core.backend.asarray(dst)))
    assert same_arrays(host_arrays(graph.snapshot()), before)
    assert (graph.version, graph.vertex_ids().tolist()) == (version, ids)
    check_graph(graph)
    assert graph.insert_edges((graph.core.backend.asarray(src), graph.core.backend.asarray(dst))).inserted == 2
    check_graph(graph)


@pytest.mark.parametrize("renumber", [False, True])
def test_tables_of_slabs_take_new_vertices_at_once(device, launches, renumber):
    graph = DynamicGraph(device=device, store="slab_hash", renumber=renumber, capacity=2000)
    twin = DynamicGraph(device="cpu", store="slab_hash", renumber=renumber, capacity=2000)
    for src, dst, times in (
        ([0, 1, 2], [1, 2, 3], 0),  # the first edges are planned
        ([3, 900], [900, 4], 2),
        ([901, 5], [3, 902], 1),
        ([901, 5], [4, 3], 1),
    ):
        columns = np.array(src, np.int32), np.array(dst, np.int32)
        launches.clear()
        assert graph.insert_edges(tuple(map(graph.core.backend.asarray, columns))) == twin.insert_edges(columns)
        assert graph.vertex_ids().tolist() == twin.vertex_ids().tolist()
        assert launches.count("k_insert_batch") == times
        check_graph(graph)


def test_new_vertices_share_the_scratch_of_the_last_ones(device, monkeypatch):
    """What depends on how many vertices there are has room for some more."""
    from dynstore.backend import Backend

    made, arena = [], Backend.arena
    monkeypatch.setattr(Backend, "arena", lambda *args, **kwargs: (made.append(args), arena(*args, **kwargs))[1])
    src, dst = np.divmod(40 * np.arange(1200, dtype=np.int32), 400)
    graph = DynamicGraph(device=device, merge_cost=0.0)
    graph.insert_edges((graph.core.backend.asarray(src), graph.core.backend.asarray(dst)))
    for step in range(8):
        first = 20_000 + 20 * step
        made.clear()
        graph.insert_edges(
            tuple(graph.core.backend.asarray(np.array(ids, np.int32)) for ids in ([3, first], [first, 4]))
        )
        assert graph.number_of_vertices() == first + 1
        kept = [args for args in made if len(args) > 5]  # an insertion's
        assert (len(kept) > 0) == (step == 0)
