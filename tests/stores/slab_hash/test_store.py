"""What is the slab hash store's own: chains, tombstones, the pool, larger tables, sorted rows on request."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis.stateful import invariant, run_state_machine_as_test

from dynstore import DynamicGraph
from dynstore.batches.make import make_batch
from dynstore.errors import OutOfMemoryError
from dynstore.stores.slab_hash.slabs import (
    BUCKETS,
    COUNTER,
    DEGREE,
    EMPTY,
    END,
    FIRST,
    FREE,
    HEAD_WORDS,
    TOMBSTONE,
    USED,
    SlabTable,
)
from dynstore.testing.invariants import check_graph, live_edges
from dynstore.testing.machine import make_machine
from dynstore.testing.pair import Pair
from tests.conftest import DEVICES
from tests.crossed import crossed, thorough


def make(device="cpu", **options):
    return DynamicGraph(store="slab_hash", device=device, **options)


def table_of(graph):
    """Return the out-edges' table with its arrays on the host."""
    table, to_host = graph.core.out._table, graph.core.backend.to_host
    return SlabTable(
        *(np.array(to_host(array)) for array in (table.slabs, table.heads, table.dirty, table.unused, table.state)),
        table.weight_words,
    )


def chains_of(table):
    """Yield row, bucket and the slabs' numbers of each chain."""
    for row in range(table.num_rows):
        first, buckets = table.heads[HEAD_WORDS * row + FIRST], table.heads[HEAD_WORDS * row + BUCKETS]
        assert (first == END) == (buckets == 0), f"row {row} has {buckets} buckets from slab {first} on"
        for bucket in range(buckets):
            slabs, slab = [], int(first) + bucket
            while slab != END:
                slabs.append(slab)
                assert len(slabs) <= table.num_slabs, f"row {row}: the chain of bucket {bucket} is a ring"
                slab = int(table.slabs[slab * table.words + table.words - 1])
            yield row, bucket, slabs


def spilled(probe):
    """Return how many edges a plan on CUDA found no place for."""
    from dynstore.stores.slab_hash.cuda.plan import SPILLED

    return int(probe.tasks.control[SPILLED])


def longest_chain(graph):
    return max((len(slabs) for _, _, slabs in chains_of(table_of(graph))), default=0)


def check_slabs(graph):
    """Assert what must hold of slabs, heads and stack, and return the table."""
    check_graph(graph)
    table, edges, taken = table_of(graph), live_edges(graph.snapshot()), []
    slabs, held = table.slabs.reshape(-1, table.words), []
    assert (table.column(COUNTER) == -1).all()
    degrees = np.zeros(table.num_rows, int)
    for row, bucket, chain in chains_of(table):
        taken += chain
        words = slabs[chain, : table.keys].ravel()
        assert (slabs[chain, -2] == -1).all(), f"row {row}: a counter of bucket {bucket} was left"
        (empty,) = np.nonzero(words == EMPTY)
        assert empty.size <= table.keys, f"row {row}: a slab of bucket {bucket} hangs behind one with room"
        assert (words[words.size - empty.size :] == EMPTY).all(), f"row {row}: EMPTY before a key"
        assert ((words >= 0) | (words == EMPTY) | (words == TOMBSTONE)).all()
        keys = words[words >= 0]
        held += [(row, int(key)) for key in keys]
        degrees[row] += keys.size
    assert sorted(held) == sorted(edges), "slabs and snapshot disagree"
    assert (degrees == table.column(DEGREE)).all()
    free = max(int(table.state[FREE]), 0)  # a kernel leaves less than 0 where it found the stack empty
    stack = table.unused[:free].tolist()
    assert sorted(taken + stack) == list(range(int(table.state[USED]))), "a slab is lost, or in two chains"
    assert (slabs[stack] == EMPTY).all(), "a slab on the stack is not clean"
    assert (slabs[int(table.state[USED]) :] == EMPTY).all(), "a free slab is not clean"
    return table


@crossed(
    vertex_dtype=["int32", "int64"],
    weight_dtype=[None, "float32", "float64"],
    reuse=[True, False],
    backend_name=DEVICES,
)
def test_slabs_stay_sound(backend_name, rng, vertex_dtype, weight_dtype, reuse):
    kind = {"weighted": weight_dtype is not None, "weight_dtype": weight_dtype or "float32"}
    pair = Pair(
        store="slab_hash",
        device=backend_name,
        vertex_dtype=vertex_dtype,
        reuse_tombstones=reuse,
        max_chain=2,
        directed=False,
        **kind,
    )
    size, ids = (60, 20) if backend_name == "cuda-sim" else (400, 60)
    for step in range(6):
        src, dst = rng.integers(0, ids, size) % (1 + rng.integers(ids)), rng.integers(0, ids, size)
        pair.insert(src, dst, *([rng.integers(0, 9, size)] if weight_dtype else []))
        check_slabs(pair.graph)
        pair.delete(src[::2], dst[::2])
        if step == 3:
            pair.update("delete_vertices", list(range(0, ids, 3)))
        check_slabs(pair.graph)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("load_factor", [0.7, 20.0])
def test_larger_batches_leave_the_edges_that_they_should(backend_name, rng, directed, load_factor):
    """A hub among them; on a GPU many blocks write at once, before the host looks, and chains are long."""
    ids, size, rounds = (30, 120, 3) if backend_name == "cuda-sim" else (2000, 20_000, 5)
    graph = make(backend_name, directed=directed, capacity=100 * size, load_factor=load_factor, max_chain=200)
    graph.insert_vertices([ids - 1])
    held, to_device = np.empty(0, int), graph.core.backend.asarray
    for _ in range(rounds):
        src, dst = rng.integers(0, ids, (2, size)).astype(np.int32)
        src[:: size // 60] = 7
        codes = [a * ids + b for a, b in ((src, dst), (dst, src))[: 1 if directed else 2]]
        held = np.union1d(held, np.concatenate(codes))
        graph.insert_edges((to_device(src), to_device(dst)))
        some = rng.permutation(size)[: size // 2]
        held = np.setdiff1d(held, np.concatenate([code[some] for code in codes]))
        graph.delete_edges((to_device(src[some]), to_device(dst[some])))
        packed = graph.snapshot().compact()
        sources, columns = (
            graph.core.backend.to_host(column).astype(int) for column in (packed.sources, packed.indices)
        )
        np.testing.assert_array_equal(sources * ids + columns, held)
    check_slabs(graph)


@pytest.mark.parametrize(
    ("vertex_dtype", "weight_dtype", "keys"),
    [
        ("int32", None, 30),
        ("int32", "float32", 15),
        ("int32", "float64", 10),
        ("int64", None, 14),
        ("int64", "float32", 7),
    ],
)
def test_keys_of_a_slab(vertex_dtype, weight_dtype, keys):
    graph = make(vertex_dtype=vertex_dtype, weighted=weight_dtype is not None, weight_dtype=weight_dtype or "float32")
    graph.insert_edges((np.zeros(keys, int), np.arange(keys)), default_weight=1.0)
    assert table_of(graph).keys == keys
    assert table_of(graph).slabs.itemsize * table_of(graph).words == 128


@pytest.mark.parametrize("load_factor", [0.5, 0.7, 2.0])
def test_a_build_has_the_papers_base_slabs(load_factor):
    degrees = np.array([0, 1, 14, 15, 21, 22, 60, 61, 300])
    src = np.repeat(np.arange(degrees.size), degrees)
    graph = make(load_factor=load_factor)
    graph.insert_edges((src, np.arange(src.size)))
    wanted = np.ceil(degrees / (load_factor * 30)).astype(int)
    assert check_slabs(graph).column(BUCKETS)[: degrees.size].tolist() == wanted.tolist()


def test_vertices_that_were_deleted_give_slabs_back_which_are_used_again(backend_name):
    graph = make(backend_name, load_factor=5.0)
    count = 250
    graph.insert_edges((np.zeros(count, int), np.arange(count)))
    graph.insert_edges(([1], [1]))
    used = int(table_of(graph).state[USED])
    graph.delete_vertices([0])
    table = check_slabs(graph)
    given_back = int(table.state[FREE])
    assert given_back == used - 1 - table.heads[BUCKETS]
    graph.insert_edges((np.full(count, 2), np.arange(count)))
    table = check_slabs(graph)
    assert max(int(table.state[FREE]), 0) < given_back
    assert int(table.state[USED]) < used + int(table.column(BUCKETS)[2]) + 5


def test_rows_of_few_and_of_many_buckets_are_empty_once_their_last_edge_is_gone(backend_name):
    """Neither keys nor tombstones are left in their base slabs."""
    graph = make(backend_name, load_factor=0.05)
    src, dst = np.repeat([0, 1, 2], [60, 4, 60]), np.r_[:60, :4, :60]
    graph.insert_edges((src, dst))
    graph.delete_edges((src[:-1], dst[:-1]))
    table = check_slabs(graph)
    slabs, first = table.slabs.reshape(-1, 32), table.column(FIRST)
    assert table.column(BUCKETS)[:3].tolist() == [40, 3, 40]
    assert (slabs[first[0] : first[2]] == EMPTY).all()
    assert np.count_nonzero(slabs[first[2] : first[2] + 40] == TOMBSTONE) == 59


@pytest.mark.parametrize("step", [1, 7, 100])
def test_chains_stay_short_while_a_hub_grows(step):
    graph = make(max_chain=3)
    graph.insert_edges(([0], [0]))
    for start in range(0, 2000 if step > 1 else 300, step):
        graph.insert_edges((np.zeros(step, int), np.arange(start, start + step)))
        assert longest_chain(graph) <= 3
    check_slabs(graph)


def test_a_hub_that_comes_at_once_has_a_table_of_its_size(backend_name):
    count = 400 if backend_name == "cuda-sim" else 20_000
    graph = make(backend_name)
    graph.insert_edges(([1], [1]))
    report = graph.insert_edges((np.zeros(count, int), np.arange(count)))
    assert (report.inserted, report.path) == (count, "in-place")
    assert check_slabs(graph).heads[BUCKETS] == np.ceil(count / 21)
    assert longest_chain(graph) <= 3


@pytest.mark.parametrize("reuse", [True, False])
def test_tombstones(backend_name, reuse):
    """They are taken again or passed over; either way the chain gets no key twice."""
    graph = make(backend_name, reuse_tombstones=reuse, load_factor=1.0)
    graph.insert_edges((np.zeros(30, int), np.arange(30)))
    graph.delete_edges((np.zeros(10, int), np.arange(10)))
    assert longest_chain(graph) == 1
    report = graph.insert_edges((np.zeros(30, int), np.arange(5, 35)))
    assert (report.inserted, report.replaced) == (10, 20)
    assert longest_chain(graph) == (1 if reuse else 2)
    table = check_slabs(graph)
    assert np.count_nonzero(table.slabs.reshape(-1, 32)[:, :30] == TOMBSTONE) == (0 if reuse else 10)


def test_a_full_pool_refuses_and_nothing_is_lost(backend_name, monkeypatch):
    graph = make(backend_name)
    graph.insert_edges((np.arange(60) // 10, np.arange(60)))
    graph.snapshot()
    before = table_of(graph)

    def refuse(table, backend, num_slabs):
        raise OutOfMemoryError(f"test: no {num_slabs} slabs")

    batch = np.arange(80) % 40, np.arange(80) % 60
    with monkeypatch.context() as patch:
        patch.setattr(SlabTable, "grow_pool", refuse)
        with pytest.raises(OutOfMemoryError, match="slabs"):
            graph.insert_edges(batch)
    after = table_of(graph)
    for name in ("slabs", "dirty", "unused", "state"):
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name), err_msg=name)
    assert graph.number_of_edges() == 60
    assert graph.insert_edges(batch).grown
    check_slabs(graph)


def test_a_pool_that_is_full_of_slabs_given_back_is_filled_anew():
    """Base slabs lie side by side, so single ones are of no use to a large table."""
    graph = make(max_chain=1)
    graph.insert_edges(([0], [0]))
    sizes = []
    for start in range(0, 60_000, 200):
        src = np.full(200, start // 600)
        graph.insert_edges((src, np.arange(start, start + 200)))
        if start >= 3000:
            old = start - 3000
            graph.delete_edges((np.full(200, old // 600), np.arange(old, old + 200)))
        sizes.append(graph.memory_usage()["slabs"])
    assert max(sizes[100:]) <= 2 * max(sizes[20:100])
    check_slabs(graph)


def test_only_rows_that_changed_are_gathered(backend_name, monkeypatch):
    graph = make(backend_name, weighted=True)
    graph.insert_edges((np.arange(60) % 12, np.arange(60), np.arange(60)))
    graph.snapshot()
    asked = []
    gather = type(graph.core.out)._gather
    monkeypatch.setattr(
        type(graph.core.out), "_gather", lambda store, rows: (asked.append(rows.tolist()), gather(store, rows))[1]
    )
    graph.insert_edges(([3, 7, 12], [1, 7, 0], [0.5, 9.0, 2.0]))
    graph.delete_edges(([5, 6], [5, 60]))
    graph.snapshot()
    assert asked == [[3, 5, 7, 12]]
    graph.snapshot()
    assert len(asked) == 1
    check_graph(graph)


def test_queries_make_no_sorted_table(backend_name, monkeypatch):
    graph = make(backend_name, weighted=True)
    graph.insert_edges(([4, 4, 4, 2], [9, 1, 5, 4], [1.0, 2.0, 3.0, 4.0]))

    def unwanted(store):
        raise AssertionError("the sorted table was made")

    monkeypatch.setattr(type(graph.core.out), "_refresh", unwanted)
    to_host = graph.core.backend.to_host
    assert to_host(graph.has_edges(([4, 4, 100], [1, 2, 1]))).tolist() == [True, False, False]
    assert to_host(graph.edge_weights(([4, 2], [5, 4]))).tolist() == [3.0, 4.0]
    assert to_host(graph.neighbors(4)).tolist() == [1, 5, 9]
    assert to_host(graph.neighbors(0)).tolist() == []
    assert graph.number_of_vertices() == 10
    graph.insert_edges(([4], [0], [1.0]))
    graph.delete_edges(([4], [9]))
    assert to_host(graph.successors(4)).tolist() == [0, 1, 5]


@pytest.mark.parametrize("directed", [True, False])
def test_a_batch_is_not_sorted_on_cuda(backend_name, monkeypatch, launches, directed):
    """Unless tables have to be made: the kernels find the edges that are named twice."""
    if backend_name == "cpu":
        pytest.skip("the host sorts each batch")
    from dynstore.batches.unsorted import RawEdges

    graph = make(backend_name, directed=directed)
    graph.insert_edges((np.arange(9), np.arange(1, 10)))

    def unwanted(batch):
        raise AssertionError("the batch was sorted")

    monkeypatch.setattr(RawEdges, "_materialize", unwanted)
    launches.clear()
    report = graph.insert_edges(([3, 5, 3, 8, 4, 4], [8, 9, 8, 9, 4, 4]))
    assert (report.inserted, report.replaced, report.duplicates) == (3, 1, 2)
    assert [name for name in launches if "find_bounds" not in name] == ["k_insert_batch"]
    launches.clear()
    report = graph.delete_edges(([3, 5, 3, 4], [8, 0, 8, 4]))
    assert report.duplicates == 1
    assert [name for name in launches if "find_bounds" not in name] == ["k_delete_batch"]


@pytest.mark.parametrize(
    ("directed", "vertex_dtype"), [(True, "int64"), (False, "int32"), thorough(True, "int32"), thorough(False, "int64")]
)
def test_a_plan_on_cuda_finds_and_counts_what_the_host_does_and_writes_nothing(
    backend_name, rng, directed, vertex_dtype
):
    """Batches that are sorted, and those that are not: with edges that come several times, and several new slabs."""
    if backend_name == "cpu":
        pytest.skip("this is the host")
    options = {"directed": directed, "vertex_dtype": vertex_dtype, "max_chain": 2, "load_factor": 2.0}
    graph, twin = make(backend_name, **options), make(**options)
    ids, size = 60, 130
    for step in range(3):
        batch = (rng.integers(0, 4, size) * rng.integers(0, 2, size), rng.integers(0, ids, size))
        batch = tuple(column.astype(vertex_dtype) for column in batch)
        probes = []
        for one in (graph, twin):
            before, to_device = table_of(one), one.core.backend.asarray
            if step:
                edges = make_batch(one.core.backend, *map(to_device, batch), None, directed)
                one.core.out._table.grow_rows(one.core.backend, ids)
                before = table_of(one)
                probe = one.core.out._kernels.locate_and_count(one.core.backend, one.core.out._table, edges, 2, True)
                overlong = (
                    [] if probe.overlong is None else sorted(set(one.core.backend.to_host(probe.overlong).tolist()))
                )
                probes.append((edges.count_edges(), edges.count_loops(), *probe[1:6], overlong))
                found = one.core.out._kernels.locate(one.core.backend, one.core.out._table, edges)
                probes[-1] += (found.found, found.found_loops)
                after = table_of(one)
                for name in ("slabs", "heads", "dirty", "unused", "state"):
                    np.testing.assert_array_equal(getattr(after, name), getattr(before, name), err_msg=name)
            one.insert_edges(batch)
            one.delete_edges(tuple(column[::3] for column in batch))
            check_slabs(one)
        assert not probes or probes[0] == probes[1]


def test_one_bucket_gets_a_batch_of_many_warps(backend_name):
    """Ranks within a bucket are each there once, whichever warp counts first; the slabs it needs are exact."""
    if backend_name == "cpu":
        pytest.skip("the host counts one edge after the other")
    graph = make(backend_name, load_factor=100.0, max_chain=90)
    graph.insert_edges((np.zeros(7, int), np.arange(7)))
    store, table = graph.core.out, graph.core.out._table
    column = graph.core.backend.asarray(np.arange(200, dtype=np.int32) % 150)
    batch = make_batch(graph.core.backend, column * 0, column, None, True)
    probe = store._kernels.locate_and_count(graph.core.backend, table, batch, 90, True)
    assert (batch.count_edges(), probe.found, probe.needed, spilled(probe)) == (150, 7, 4, 120)
    places = graph.core.backend.to_host(probe.places)
    given = places[places <= -3]
    assert sorted(-3 - given) == list(range(7, 30))
    graph.insert_edges((np.zeros(200, int), np.arange(200) % 150))
    assert longest_chain(graph) == 5
    check_slabs(graph)


def test_edges_without_a_place_keep_off_the_places_of_others(backend_name):
    """On a GPU they may be written first; here those that have a place are not written at all."""
    if backend_name == "cpu":
        pytest.skip("the host writes one edge after the other")
    graph = make(backend_name, pool_growth=9.0)
    graph.insert_edges((np.zeros(20, int), np.arange(20)))
    store, table = graph.core.out, graph.core.out._table
    column = graph.core.backend.asarray(np.arange(15, dtype=np.int32))
    batch = make_batch(graph.core.backend, column * 0, column + 20, None, True)
    probe = store._kernels.locate_and_count(graph.core.backend, table, batch, 9, True)
    assert (probe.needed, spilled(probe)) == (1, 5)
    store._reserve(table, probe.used + probe.needed)
    store._kernels.insert_absent(graph.core.backend, table, batch, probe._replace(places=probe.places[:0]), True, None)
    ((_, _, (first, second)),) = chains_of(table_of(graph))
    slabs = table_of(graph).slabs.reshape(-1, 32)[:, :30]
    assert [np.count_nonzero(slabs[slab] >= 0) for slab in (first, second)] == [20, 5]


def test_any_sequence_of_operations_with_short_chains():
    """Rows are rehashed and pools filled anew all the time."""
    options = {"load_factor": 3.0, "max_chain": 1, "reuse_tombstones": False, "pool_growth": 1.01}

    class Machine(make_machine("slab_hash", "cpu", **options)):
        @invariant()
        def slabs_are_sound(self):
            if self.pair is not None:
                check_slabs(self.pair.graph)

    run_state_machine_as_test(Machine)


def test_an_update_that_is_followed_sorts_nothing_after_it_has_written(monkeypatch):
    """What is written is written: no memory is asked for any more."""
    graph = make()
    graph.insert_edges((np.arange(50) % 10, np.arange(50)))
    log = graph.core.follow()
    monkeypatch.setattr(type(graph.core.out), "_refresh", None)
    graph.insert_edges(([1, 2], [3, 4]))
    assert log.num_edges == 2
