"""What of the slab hash store is CUDA's own: ordinary updates are written before the host looks."""

from __future__ import annotations

import numpy as np
import pytest

from dynstore import DynamicGraph
from dynstore.backend import Backend
from dynstore.errors import InputError, LimitError, OutOfMemoryError
from dynstore.stores.slab_hash.slabs import FREE, SlabTable
from dynstore.testing.invariants import check_graph
from dynstore.testing.pair import Pair
from tests.conftest import PROFILE
from tests.crossed import in_turn, thorough

INSERTING, DELETING, PLANNING = ["k_insert_batch"], ["k_delete_batch"], ["k_plan_update", "k_insert_edges"]
COLUMNS = ("slabs", "heads", "dirty", "unused")


@pytest.fixture
def reads(monkeypatch):
    """The arrays that are read back."""
    calls, read = [], Backend.to_host
    monkeypatch.setattr(Backend, "to_host", lambda self, array: (calls.append(array), read(self, array))[1])
    return calls


def make(device, directed=True, **options):
    """Return a graph of 40 vertices with room for new slabs, and its edges."""
    src, dst = np.random.default_rng(5).integers(0, 40, (2, 300), np.int32)
    options = {"store": "slab_hash", "capacity": 2000, "weighted": False} | options
    graph = DynamicGraph.from_edges((src, dst), device=device, directed=directed, default_weight=1.0, **options)
    return graph, src, dst


def on_device(graph, *columns):
    return tuple(graph.core.backend.asarray(column) for column in columns)


def state_of(graph):
    """Return what an update that does not happen leaves as it was."""
    table, to_host = graph.core.out._table, graph.core.backend.to_host
    arrays = [to_host(getattr(table, name)).tolist() for name in COLUMNS]
    return [*arrays, *np.maximum(to_host(table.state), 0).tolist(), graph.version, graph.number_of_edges()]


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_ordinary_updates_are_written_before_the_host_looks(device, directed, weighted, launches, reads):
    """Nothing is read back, and ids are not checked before; this holds for insertions without weights."""
    graph, src, dst = make(device, directed, weighted=weighted)
    batch = on_device(graph, np.r_[src[:20], 3, 3, 9], np.r_[dst[:20], 39, 39, 9])
    if not weighted:
        launches.clear(), reads.clear()
        report = graph.insert_edges(batch)
        assert (launches, len(reads), report.path) == (INSERTING, 0, "in-place")
    launches.clear(), reads.clear()
    report = graph.delete_edges(batch)
    assert (launches, len(reads), report.path) == (DELETING, 0, "in-place")
    check_graph(graph)


def test_int64_edges_are_written_at_once_too(device, launches, reads):
    graph, src, dst = make(device, vertex_dtype="int64")
    batch = on_device(graph, src[:9].astype(np.int64), dst[9:18].astype(np.int64))
    launches.clear(), reads.clear()
    graph.insert_edges(batch)
    assert (launches, len(reads)) == (INSERTING, 0)
    launches.clear(), reads.clear()
    graph.delete_edges(batch)
    assert (launches, len(reads)) == (DELETING, 0)
    for far, error in ((2**32 + 3, LimitError), (-(2**32), InputError)):
        invalid_id = on_device(graph, src[:9].astype(np.int64), np.r_[dst[9:17].astype(np.int64), far])
        with pytest.raises(error):
            graph.insert_edges(invalid_id)
    check_graph(graph)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("column", [0, 1])
def test_a_strange_id_leaves_all_as_it_was(device, directed, column):
    """The kernels write nothing; the host then refuses it by the usual error."""
    graph, src, dst = make(device, directed)
    before = state_of(graph)
    for update in (graph.insert_edges, graph.delete_edges):
        for stranger, error, words in (
            (-1, InputError, "has -1 at row 3"),
            (-(2**31), InputError, "must not be negative"),
            (2**31 - 1, LimitError, "int32 ids go to 2147483646"),
        ):
            batch = [src[:9].copy(), dst[9:18].copy()]
            batch[column][3] = stranger
            with pytest.raises(error, match=words):
                update(on_device(graph, *batch))
            assert state_of(graph) == before
    with pytest.raises(LimitError, match="max_vertices"):
        graph.insert_edges(on_device(graph, src[:2], np.array([1, 2**31 - 2], np.int32)))
    assert state_of(graph) == before
    check_graph(graph)


@pytest.mark.parametrize("directed", [True, False])
def test_a_new_vertex_has_its_ids_looked_at_and_deleting_unknown_ones_does_not(device, directed, launches):
    graph, _, _ = make(device, directed)
    launches.clear()
    new = np.array([3, 40, 40], np.int32), np.array([44, 5, 40], np.int32)
    report = graph.insert_edges(on_device(graph, *new))
    assert (report.inserted, graph.number_of_vertices()) == (3, 45)
    assert launches == [*INSERTING, "k_pack_keys", *INSERTING]
    launches.clear()
    unknown = np.array([40, 44, 2**31 - 2, 0, 0], np.int32), np.array([5, 44, 7, 2**31 - 2, 2**31 - 2], np.int32)
    report = graph.delete_edges(on_device(graph, *unknown))
    assert (report.deleted, report.absent, report.duplicates) == (1, 3, 1)
    assert launches == DELETING
    check_graph(graph)


def test_a_pool_that_is_full_grows_before_anything_is_written(device, launches, monkeypatch):
    graph = DynamicGraph(store="slab_hash", device=device, load_factor=1.0)
    row, columns = np.full(32, 7, np.int32), np.arange(32, dtype=np.int32)
    graph.insert_edges(on_device(graph, row[:30], columns[:30]))
    graph.insert_vertices([31])
    batch, before = on_device(graph, row[29:], columns[29:]), state_of(graph)

    def refuse(table, backend, num_slabs):
        raise OutOfMemoryError(f"test: no {num_slabs} slabs")

    with monkeypatch.context() as patch:
        patch.setattr(SlabTable, "grow_pool", refuse)
        with pytest.raises(OutOfMemoryError, match="no 2 slabs"):
            graph.insert_edges(batch)
    assert state_of(graph) == before
    launches.clear()
    report = graph.insert_edges(batch)
    assert (report.inserted, report.replaced, report.grown) == (2, 1, True)
    assert (launches[:1], launches[-2:], len(launches)) == (INSERTING, PLANNING, 4)
    check_graph(graph)


def test_a_chain_that_would_get_too_long_has_its_row_rehashed(device, launches):
    graph = DynamicGraph(store="slab_hash", device=device, max_chain=1, capacity=2000)
    row, columns = np.zeros(40, np.int32), np.arange(40, dtype=np.int32)
    graph.insert_edges(on_device(graph, row[:9], columns[:9]))
    graph.insert_vertices([39])
    launches.clear()
    report = graph.insert_edges(on_device(graph, row, columns))
    assert (report.inserted, report.replaced) == (31, 9)
    assert launches[:1] == INSERTING
    assert launches.count("k_move_chains") == 1
    check_graph(graph)


def test_more_edges_than_offsets_can_number_are_planned(device, monkeypatch, launches):
    graph, src, dst = make(device)
    there = np.zeros((40, 40), bool)
    there[src, dst] = True
    absent = np.argwhere(~there)[:9].astype(np.int32)
    monkeypatch.setattr(graph.core.out, "_num_edges", 2**31 - 1 - 8)
    launches.clear()
    with pytest.raises(LimitError, match="slots are needed"):
        graph.insert_edges(on_device(graph, absent[:, 0], absent[:, 1]))
    assert launches.count("k_insert_edges") == 0


def test_the_first_edges_and_an_empty_graph_have_updates_planned_and_a_log_has_not(device, launches):
    graph, src, dst = make(device)
    graph.delete_edges(on_device(graph, src, dst))
    assert graph.number_of_edges() == 0
    for update in (graph.delete_edges, graph.insert_edges):
        launches.clear()
        update(on_device(graph, src, dst))
        assert launches[0] == "k_find_bounds"
    log = graph.core.follow()
    launches.clear()
    graph.insert_edges(on_device(graph, src[:9], dst[9:18]))
    assert "k_find_bounds" not in launches
    assert log.num_edges == 9
    check_graph(graph)


def test_rows_that_are_emptied_at_once_give_their_slabs_back(device):
    graph, _, _ = make(device, load_factor=50.0, max_chain=50)
    wide = np.full(90, 7, np.int32), np.arange(90, dtype=np.int32) % 40
    graph.insert_edges(on_device(graph, *wide))
    row = np.array(graph.core.backend.to_host(graph.successors(7)), np.int32)
    assert row.size == 40
    graph.delete_edges(on_device(graph, np.full(40, 7, np.int32), row))
    assert int(graph.core.out._table.state[FREE]) == 1
    check_graph(graph)
    graph.insert_edges(on_device(graph, *wide))
    check_graph(graph)
    assert max(int(graph.core.out._table.state[FREE]), 0) == 0


@in_turn(why=["id", "chain", "pool"], reuse=[True, False])
def test_all_that_was_written_is_taken_back(device, monkeypatch, why, reuse):
    """Keys at free places and at tombstones, slabs from the stack and new ones, tables of rows without one."""
    src, dst = np.repeat(np.arange(3, dtype=np.int32), [70, 30, 20]), np.r_[:70, :30, :20].astype(np.int32)
    options = {"load_factor": 4.0, "max_chain": 3, "capacity": 3000, "reuse_tombstones": reuse}
    graph = DynamicGraph.from_edges((src, dst), store="slab_hash", device=device, **options)
    graph.insert_vertices([99])
    graph.delete_edges(on_device(graph, src[:70], dst[:70]))
    graph.delete_edges(on_device(graph, src[-6:], dst[-6:]))
    graph.snapshot()  # no row is dirty
    table = graph.core.out._table
    assert int(table.state[FREE]) == 2
    before = state_of(graph)
    columns = [np.r_[20:60, 8:30, :4, :4], np.r_[np.full(40, 1), np.full(22, 2), [5, 5, 6, 6] * 2]]
    if why == "id":
        columns = [np.r_[columns[0], -1], np.r_[columns[1], 7]]
    elif why == "chain":
        columns = [np.r_[columns[0], 30:100], np.r_[columns[1], np.full(70, 1)]]
    else:
        columns = [np.r_[columns[0], np.zeros(80, int)], np.r_[columns[1], 10:90]]
    batch = on_device(graph, *(column.astype(np.int32) for column in columns[::-1]))

    def refuse(*_):
        raise OutOfMemoryError("test: no plan")

    with monkeypatch.context() as patch:
        patch.setattr(type(graph.core.out), "plan_insert", refuse)
        for _ in range(2):
            with pytest.raises(InputError if why == "id" else OutOfMemoryError):
                graph.insert_edges(batch)
            assert state_of(graph) == before
        report = graph.insert_edges(tuple(column[:70] for column in batch))
    assert (report.inserted, report.replaced, report.duplicates) == (50, 16, 4)
    check_graph(graph)
    before, gone = state_of(graph), on_device(graph, *(np.r_[column, -1].astype(np.int32) for column in (src, dst)))
    for _ in range(2):
        with pytest.raises(InputError):
            graph.delete_edges(gone)
        assert state_of(graph) == before
    check_graph(graph)


def test_a_chain_that_too_many_want_at_once_is_left_to_a_plan(device, launches):
    graph = DynamicGraph(store="slab_hash", device=device, load_factor=1e3, max_chain=2000, capacity=10**6)
    size = 250 if device == "cuda-sim" else 30_000
    graph.insert_edges(on_device(graph, np.zeros(9, np.int32), np.arange(9, dtype=np.int32)))
    graph.insert_vertices([size - 1])
    launches.clear()
    report = graph.insert_edges(on_device(graph, np.zeros(size, np.int32), np.arange(size, dtype=np.int32)))
    assert (report.inserted, report.replaced, launches[0], launches[-1]) == (size - 9, 9, *INSERTING, "k_insert_edges")
    check_graph(graph)


def test_batches_of_nothing(device):
    graph, _, _ = make(device)
    nothing, before = on_device(graph, np.empty(0, np.int32), np.empty(0, np.int32)), graph.number_of_edges()
    for update in (graph.insert_edges, graph.delete_edges):
        report = update(nothing)
        assert (report.inserted, report.replaced, report.deleted, report.absent, report.duplicates) == (0, 0, 0, 0, 0)
    assert graph.number_of_edges() == before


@pytest.mark.parametrize(
    ("options", "directed"),
    [
        ({}, True),
        ({"reuse_tombstones": False, "max_chain": 9}, False),
        ({"load_factor": 6.0}, True),
        ({"max_chain": 1}, False),
        thorough({}, False),
        thorough({"reuse_tombstones": False, "max_chain": 9}, True),
        thorough({"load_factor": 6.0}, False),
        thorough({"max_chain": 1}, True),
    ],
)
def test_random_batches_do_what_a_dictionary_does(device, rng, options, directed, monkeypatch):
    """After deletions too; the first one is planned, and those that make chains too long."""
    pair, planned = Pair(store="slab_hash", device=device, directed=directed, capacity=20_000, **options), []
    store, plan = type(pair.graph.core.out), type(pair.graph.core.out).plan_insert
    monkeypatch.setattr(store, "plan_insert", lambda *args: (planned.append(pair.graph.version), plan(*args))[1])
    monkeypatch.setattr(store, "plan_delete", None)
    pair.update("insert_vertices", [49])
    for step in range(4 if PROFILE != "thorough" and device == "cuda-sim" else 8):
        src, dst = (column.astype(np.int32) for column in rng.integers(0, 50, (2, 120)) % (step * 4 + 20))
        src //= 5
        some = np.r_[src[::3], src[:9]], np.r_[dst[::3], dst[9:18]]
        for update, batch in (("insert_edges", (src, dst)), ("delete_edges", some)):
            before = pair.graph.number_of_edges()
            report = getattr(pair.graph, update)(on_device(pair.graph, *batch))
            pair.follow(report, before, update, batch)
    assert planned == [1] or options == {"max_chain": 1}


@pytest.mark.parametrize("directed", [True, False])
def test_ids_of_the_users_own_are_looked_up_without_a_wait(device, directed, launches):
    rng = np.random.default_rng(16)
    src, dst = 7 * rng.integers(0, 40, (2, 300)) + 2**40
    options = {"store": "slab_hash", "directed": directed, "renumber": True, "capacity": 2000}
    graph = DynamicGraph.from_edges((src, dst), device=device, **options)
    twin = DynamicGraph.from_edges((src, dst), device="cpu", **options)
    known = tuple(7 * rng.integers(0, 40, (2, 30)) + 2**40)
    launches.clear()
    assert graph.insert_edges(known) == twin.insert_edges(known)
    assert launches == ["k_match_keys", *INSERTING]
    launches.clear()
    assert graph.delete_edges(known) == twin.delete_edges(known)
    assert launches == ["k_match_keys", *DELETING]
    for batch in ((np.r_[known[0], 5], np.r_[known[1], known[0][:1]]), (np.r_[src[:5], 6], np.r_[dst[:5], 5])):
        for update in ("insert_edges", "delete_edges"):
            assert getattr(graph, update)(batch) == getattr(twin, update)(batch)
    assert graph.vertex_ids().tolist() == twin.vertex_ids().tolist()
    check_graph(graph)


def test_scratch_is_kept_where_it_is_small_beside_the_slabs(device, monkeypatch):
    """Two updates of one size work in the same memory; a copy has its own."""
    monkeypatch.setattr("dynstore.scratch.MAX_BYTES", 0)
    graph, src, dst = make(device, capacity=30_000)
    assert graph.memory_usage()["scratch"] == 0
    for _ in range(2):
        graph.insert_edges(on_device(graph, src[:9], dst[9:18]))
        kept = dict(graph.core.out._table.scratch._kept)
        graph.delete_edges(on_device(graph, src[:9], dst[9:18]))
    again = graph.core.out._table.scratch._kept
    assert kept["insert"][0] is again["insert"][0]
    assert graph.memory_usage()["scratch"] == sum(one.nbytes for one, _ in again.values()) > 0
    assert graph.copy().memory_usage()["scratch"] == 0
    small, src, dst = make(device, capacity=0)
    small.insert_edges(on_device(small, src[:200], dst[100:]))
    assert small.memory_usage()["scratch"] == 0
