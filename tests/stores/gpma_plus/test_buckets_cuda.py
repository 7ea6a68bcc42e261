"""Insertions into GPMA+ on CUDA that are not sorted, beside sorted ones: what they write, and when they are tried."""

from __future__ import annotations

from itertools import starmap

import numpy as np
import pytest

from dynstore import DynamicGraph
from dynstore.errors import InputError
from dynstore.stores.gpma_plus.cuda import bucket_layout, insert_buckets
from dynstore.testing.invariants import check_graph, host_arrays
from dynstore.testing.pair import same_arrays
from tests.crossed import thorough
from tests.stores.tuned import BY_ROWS, retune

LEAF = 32
MERGING = ["k_order_lists", "k_merge_all", "k_write_bits_and_rows"]


@pytest.fixture
def insert_into_both(sorts):
    """Insert a batch as it comes into a graph, and sorted into its twin: the report and the slots are the same.

    So they are of a copy, into which it is inserted by a kernel for each phase. Returns the report, and whether the
    first batch had to be sorted, too. Scratch is kept from one to the next.
    """

    def insert(graph, twin, batch):
        copy = retune(graph.copy(), **BY_ROWS)
        sorts.clear()
        report = graph.insert_edges(batch)
        was_sorted = bool(sorts)
        assert report == copy.insert_edges(batch)
        sorts.clear()
        assert report == retune(twin, max_bucket_rows=0).insert_edges(batch)
        assert sorts
        slots = host_arrays(graph.snapshot())
        for other in (copy, twin):
            assert same_arrays(slots, host_arrays(other.snapshot()))
        check_graph(graph)
        return report, was_sorted

    return insert


@pytest.mark.parametrize("directed", [True, False])
def test_keys_of_one_leaf_come_in_any_order(device, directed, insert_into_both):
    """Several rows each of neighbouring leaves, mixed and repeated: slot for slot what sorting them first gives."""
    rng = np.random.default_rng(12)
    columns = rng.permutation(1200)[:900]
    graph = DynamicGraph.from_edges((columns // 40, columns % 40), device=device, directed=directed, merge_cost=0.0)
    twin = graph.copy()
    missing = np.setdiff1d(np.arange(1200), columns)[20:60:3]
    batch = rng.permutation(np.r_[missing, missing, missing[:5]])
    _, was_sorted = insert_into_both(graph, twin, (batch // 40, batch % 40))
    assert not was_sorted


@pytest.mark.parametrize("directed", [True, False])
def test_leaves_that_are_too_full_make_windows_of_several(device, directed, insert_into_both):
    """Beside leaves that can take their keys, inside such windows and outside, and dead keys."""
    columns = 4 * np.arange(400)
    graph = DynamicGraph.from_edges((columns // 40, columns % 40), device=device, directed=directed, merge_cost=0.0)
    graph.delete_edges((columns[50:60] // 40, columns[50:60] % 40))
    twin = graph.copy()
    rng = np.random.default_rng(14)
    for step in range(4):
        near = 400 * step + np.r_[4 * np.arange(12) + 1, 100, 161, 203, 203]
        batch = rng.permutation(np.r_[near, columns[50:55]])
        report, was_sorted = insert_into_both(graph, twin, (batch // 40, batch % 40))
        assert (report.path, was_sorted) == ("in-place", False)


@pytest.mark.parametrize("overflow", [(4, 5), (4, 5, 8, 9, 10, 11)])
def test_leaves_that_are_too_full_share_a_window(device, overflow, insert_into_both, monkeypatch):
    """It is listed once, also where the window of others is wider than their group, and all are listed anew."""
    windows, read = [], insert_buckets._keep_found

    def spy(batch, plan, totals, most_new):
        windows.append((totals[bucket_layout.WIDE], totals[bucket_layout.GIANT]))
        return read(batch, plan, totals, most_new)

    monkeypatch.setattr(insert_buckets, "_keep_found", spy)
    columns = 4 * np.arange(400)
    graph = DynamicGraph.from_edges((columns // 40, columns % 40), device=device, merge_cost=0.0)
    leaves = [columns[20 * leaf : 20 * leaf + 20] for leaf in overflow]
    batch = np.concatenate([leaf[3:17] + 1 for leaf in leaves])
    report, was_sorted = insert_into_both(graph, graph.copy(), (batch // 40, batch % 40))
    assert (report.inserted, report.path, was_sorted) == (len(batch), "in-place", False)
    if device == "cuda-sim":  # where windows are narrow
        assert windows == [(1, len(overflow) // 6)] * 2


@pytest.mark.parametrize("overflow", [None, 0, 1, 4])
@pytest.mark.parametrize("num_leaves", [1, 2, 5])
def test_pairs_of_windows_have_one_of_several_leaves_or_none(device, num_leaves, overflow, insert_into_both):
    """A warp writes two windows: the second may be missing, and either may be another kernel's."""
    columns = 4 * np.arange(400)
    graph = DynamicGraph.from_edges((columns // 40, columns % 40), device=device, merge_cost=0.0)
    twin = graph.copy()
    batch = columns[np.arange(num_leaves) * 70] + 1
    if overflow is not None:
        batch = np.r_[batch[:overflow], 4 * (70 * min(overflow, num_leaves - 1) + np.arange(16)) + 2, batch[overflow:]]
    report, was_sorted = insert_into_both(graph, twin, (batch // 40, batch % 40))
    assert (report.inserted, was_sorted) == (batch.shape[0], False)


@pytest.mark.parametrize("keys", [15, 16, 17, 24])
def test_leaves_get_many_keys_beside_few(device, keys, insert_into_both):
    """A leaf has half a warp, so that those with more than 16 keys have two a lane; any may be the second of two."""
    columns = 40 * np.arange(60)
    sparse = {"build_density": 0.1, "root_upper": 0.9, "leaf_upper": 1.0, "root_lower": 0.05, "leaf_lower": 0.0}
    graph = DynamicGraph.from_edges((columns // 300, columns % 300), device=device, merge_cost=0.0, **sparse)
    graph.delete_edges((columns[4:6] // 300, columns[4:6] % 300))
    twin = graph.copy()
    rng = np.random.default_rng(keys)
    for leaf in (2, 9):
        near = 120 * leaf + rng.permutation(70)[:keys]
        batch = rng.permutation(np.r_[near, near[:3], columns[4], 300, 1501, 1702])
        _, was_sorted = insert_into_both(graph, twin, (batch // 300, batch % 300))
        assert not was_sorted


@pytest.mark.parametrize(
    ("num_rows", "distinct"),
    [(96, 60), (97, 96), (193, 60), (250, 96), *starmap(thorough, [(96, 96), (97, 60), (193, 96), (250, 60)])],
)
def test_a_thread_takes_two_rows(device, num_rows, distinct, insert_into_both):
    """Where there are more rows than threads: two of one key, of one leaf, of a strange id, and one without another."""
    columns = 40 * np.arange(600)
    graph = DynamicGraph.from_edges((columns // 400, columns % 400), device=device, merge_cost=0.0)
    graph.delete_edges((columns[50:60] // 400, columns[50:60] % 400))
    twin = graph.copy()
    rng = np.random.default_rng(num_rows)
    new = columns[100 + rng.permutation(400)[: distinct - 20]] + 1
    batch = np.resize(rng.permutation(np.r_[new, columns[40:60]]), num_rows).astype(np.int32)
    report, was_sorted = insert_into_both(graph, twin, (batch // 400, batch % 400))
    assert (report.inserted, report.replaced, was_sorted) == (distinct - 10, 10, False)
    before = host_arrays(graph.snapshot())
    invalid_id = batch % 400
    invalid_id[-1] = -1
    for update in (graph.insert_edges, graph.delete_edges):
        with pytest.raises(InputError, match=f"at row {num_rows - 1}"):
            update((batch // 400, invalid_id))
    assert same_arrays(host_arrays(graph.snapshot()), before)
    report = graph.delete_edges((batch // 400, batch % 400))
    assert (report.deleted, report.absent, report.duplicates) == (distinct, 0, num_rows - distinct)
    report = graph.delete_edges((batch // 400, batch % 400))
    assert (report.deleted, report.absent, report.duplicates) == (0, distinct, num_rows - distinct)
    check_graph(graph)


@pytest.mark.parametrize("keys", [1, 33, 600])
def test_a_leaf_that_gets_too_many_rows_has_the_batch_sorted(device, keys, insert_into_both):
    """More than a warp has lanes, though they may be one key."""
    columns = 40 * np.arange(600)
    graph = DynamicGraph.from_edges((columns // 400, columns % 400), device=device, merge_cost=0.0)
    twin = graph.copy()
    batch = 4000 + np.resize(1 + np.arange(keys), max(keys, 33))
    _, was_sorted = insert_into_both(graph, twin, (batch // 400, batch % 400))
    assert was_sorted


def test_windows_that_are_too_wide_for_a_block_are_merged_by_all(device, insert_into_both, monkeypatch):
    """Neighbouring leaves that all get more than they can take; others beside them, and dead keys inside."""

    giants, read = [], insert_buckets._keep_found

    def spy(batch, plan, totals, most_new):
        giants.append(totals[bucket_layout.GIANT])
        return read(batch, plan, totals, most_new)

    monkeypatch.setattr(insert_buckets, "_keep_found", spy)
    wide = 1 << bucket_layout.MAX_HEIGHT
    columns = 8 * np.arange(400 * wide)
    graph = DynamicGraph.from_edges((columns // 400, columns % 400), device=device, merge_cost=0.0)
    graph.delete_edges((columns[400:420] // 400, columns[400:420] % 400))
    twin = graph.copy()
    rng = np.random.default_rng(15)
    for step in range(3):
        near = columns[420 * step : 420 * step + 15 * wide] + 1
        batch = rng.permutation(np.r_[near, columns[405:410], columns[-1] + 3 + step, near[::9]])
        _, was_sorted = insert_into_both(graph, twin, (batch // 400, batch % 400))
        assert not was_sorted
    assert max(giants) > 0


def test_rows_far_apart_in_windows_of_any_width(device, insert_into_both, monkeypatch):
    """Ranges for a lane, for a warp and for all blocks, mixed in each leaf; new rows begin inside some of them."""
    from dynstore.stores.pma.cuda import row_offsets

    windows, read = [], insert_buckets._keep_found

    def spy(batch, plan, *marked):
        control = plan.scratch.control
        windows.append([int(control[getattr(bucket_layout, kind)]) for kind in ("NARROW", "WIDE", "GIANT")])
        return read(batch, plan, *marked)

    monkeypatch.setattr(insert_buckets, "_keep_found", spy)
    wide = 1 << bucket_layout.MAX_HEIGHT
    lengths = np.resize([1, 31, 32, 33, 63, 64, 65], 200 * wide)
    lengths[::67], lengths[5::71] = row_offsets.FAR_ROWS - 1, row_offsets.FAR_ROWS
    rows = np.cumsum(lengths)
    graph = DynamicGraph.from_edges((rows, rows % 5), device=device, merge_cost=0.0, leaf_upper=0.92)
    graph.insert_vertices(rows[-1:] + 511)
    twin = graph.copy()
    for first, count in ((0, 1), (30, 12), (60 * wide, 6 * wide), (120 * wide, 12 * wide)):
        batch = np.r_[rows[first : first + count] + np.arange(count) % 2 * 20, rows[-1]]
        _, was_sorted = insert_into_both(graph, twin, (batch, np.full(count + 1, 7 + first)))
        assert not was_sorted
    assert np.array(windows).any(axis=0).all()


def test_leaves_that_would_climb_far_have_the_batch_sorted(device, insert_into_both):
    """Neighbouring leaves that all get more than they can take, but fewer rows than a warp has lanes."""

    most = LEAF << bucket_layout.MAX_GIANT_HEIGHT
    columns = 40 * np.arange(8 * most)
    graph = DynamicGraph.from_edges((columns // 400, columns % 400), device=device, merge_cost=0.0)
    twin = graph.copy()
    batch = columns[200 : 199 + most] + 1
    report, was_sorted = insert_into_both(graph, twin, (batch // 400, batch % 400))
    assert (report.inserted, report.grown, was_sorted) == (batch.shape[0], False, True)


@pytest.mark.parametrize("directed", [True, False])
def test_an_unsorted_plan_may_end_in_a_merge(device, directed, insert_into_both):
    """Where so many leaves are written that a merge is cheaper, and where the root is too dense."""
    rng = np.random.default_rng(13)
    edges = (rng.integers(0, 40, 300), rng.integers(0, 40, 300))
    graph = DynamicGraph.from_edges(edges, device=device, directed=directed, merge_cost=2.0)
    graph.delete_edges((edges[0][:10], edges[1][:10]))
    twin, grown = graph.copy(), False
    for _ in range(6):
        batch = (rng.integers(0, 44, 25), rng.integers(0, 44, 25))
        report, _ = insert_into_both(graph, twin, batch)
        assert report.path == "merge"
        grown |= report.grown
    assert grown


def test_small_batches_are_one_kernel(device, launches):
    """Unless a window is too wide for a warp: then they are planned by it, and written by others."""

    few, many = 2, 48 << bucket_layout.NARROW_HEIGHT
    src, dst = np.divmod(4 * np.arange(20 * many, dtype=np.int32), 4000)
    for most, planning in ((0, ["k_order_rows", "k_list_rows", "k_plan_lists"]), (many, ["k_insert_lists"])):
        tuning = {"partition_rows": most + 1, "insert_tile_slots": 0}
        graph = DynamicGraph.from_edges((src, dst), device=device, merge_cost=0.0, tuning=tuning)
        graph.insert_vertices([4000])
        for first, size in ((100, few), (200, many)):
            batch = tuple(
                graph.core.backend.asarray(column[first : first + size] + (column is dst)) for column in (src, dst)
            )
            launches.clear()
            report = graph.insert_edges(batch)
            assert (report.inserted, report.path) == (size, "in-place")
            writing = [] if most and size == few else ["k_write_leaves", "k_merge_wide", "k_write_windows"]
            assert launches == [*planning, *writing]
            check_graph(graph)


def test_a_batch_of_more_keys_than_its_lists_number_is_sorted(device, launches):
    """Lists have up to one and a half places a row, and int32 numbers them."""
    src, dst = np.divmod(40 * np.arange(600, dtype=np.int32), 400)
    graph = DynamicGraph.from_edges((src, dst), device=device, merge_cost=0.0, tuning={"max_bucket_rows": 20})
    for size in (20, 21):
        launches.clear()
        report = graph.insert_edges((src[: 20 * size : 20], dst[: 20 * size : 20] + np.int32(size)))
        assert (report.inserted, report.path) == (size, "in-place")
        assert ("k_insert_lists" in launches) == (size == 20)
        check_graph(graph)


@pytest.mark.parametrize("directed", [thorough(True), False])
def test_what_one_insertion_leaves_in_scratch_does_not_reach_the_next(device, directed, launches):
    """Whether it was written, by one kernel or by several, sorted, merged or refused; one kernel clears its scratch."""
    from dynstore.cuda.grid import SUMS
    from dynstore.stores.pma.cuda.row_offsets import FAR_START

    src, dst = np.divmod(40 * np.arange(1200, dtype=np.int32), 400)
    graph = DynamicGraph.from_edges((src, dst), device=device, directed=directed)
    twin, alone = retune(graph.copy(), **BY_ROWS), 0
    ordinary = np.tile(src[::100], 5), np.tile(dst[::100] + 1, 5)
    narrow = src[[105, 505, 905]].repeat(20), np.tile(111 + 2 * np.arange(20), 3)
    overflow = np.full(60, 3), np.arange(60)
    wide = src[300:330].repeat(2), (dst[300:330, None] + [2, 3]).ravel()
    merged = src[::20], dst[::20] + 3
    invalid_id = src[::20], np.r_[dst[20::20], -1]
    for batch in (ordinary, narrow, overflow, narrow, invalid_id, ordinary, wide, ordinary, merged, narrow):
        batch = tuple(graph.core.backend.asarray(column.astype(np.int32)) for column in batch)
        launches.clear()
        if batch[1][-1] < 0:
            with pytest.raises(InputError):
                graph.insert_edges(batch)
        else:
            report = graph.insert_edges(batch)
            if launches[-1] == "k_insert_lists":
                scratch, _ = graph.core.out.slots.scratch._kept["insertion"]
                control, *zeroed, far_rows = scratch.arrays[:5]
                assert not any(array.any() for array in (control[:SUMS], far_rows[:FAR_START], *zeroed))
                alone += 1
            assert report == twin.insert_edges(batch)
        assert same_arrays(host_arrays(graph.snapshot()), host_arrays(twin.snapshot()))
        check_graph(graph)
        if batch[1][-1] >= 0:
            assert graph.delete_edges(batch) == twin.delete_edges(batch)
    assert alone > 0


@pytest.mark.parametrize("renumber", [False, True])
def test_a_batch_that_has_to_be_sorted_is_tried_unsorted_once(device, launches, renumber):
    """Where a leaf gets too many rows."""
    src, dst = np.divmod(40 * np.arange(600, dtype=np.int32), 400)
    graph = DynamicGraph.from_edges((src, dst), device=device, renumber=renumber, merge_cost=0.0)
    vertices = graph.vertex_ids()[:40] if renumber else graph.core.backend.asarray(np.arange(40, dtype=np.int32))
    vertices = graph.core.backend.to_host(vertices).astype(np.int32)
    for batch in ((np.full(40, vertices[3]), vertices), (np.repeat(vertices, 20), np.tile(vertices[:20], 40))):
        launches.clear()
        graph.insert_edges(batch)
        assert launches.count("k_insert_lists") == 1
        check_graph(graph)


def test_a_batch_that_makes_the_root_too_dense_is_tried_once(device, launches):
    """All is merged then: the attempt has counted what that needs, and its ids need no other look."""
    src, dst = np.divmod(40 * np.arange(600, dtype=np.int32), 400)
    graph = DynamicGraph.from_edges((src, dst), device=device, merge_cost=0.0)
    launches.clear()
    report = graph.insert_edges((src[::4], dst[::4] + np.int32(1)))
    assert (report.inserted, report.path, report.grown) == (150, "merge", True)
    assert launches == ["k_insert_lists", *MERGING]
    check_graph(graph)


def test_the_more_insertions_have_to_be_sorted_the_fewer_are_tried_unsorted(device, launches):
    """One alone changes nothing, as one that grows the array does; and one that succeeds ends it."""
    src, dst = np.divmod(40 * np.arange(600, dtype=np.int32), 400)
    graph = DynamicGraph.from_edges((src, dst), device=device, merge_cost=0.0)
    ordinary = (src[100::100], dst[100::100] + 1)
    hubs = iter(range(60, 400))

    def tried_hubs(times):
        """How many batches of one vertex's edges, another's each time, were tried unsorted."""
        launches.clear()
        for _ in range(times):
            graph.insert_edges((np.full(40, next(hubs)), np.arange(40)))
        check_graph(graph)
        return launches.count("k_insert_lists")

    def tried_ordinary():
        launches.clear()
        graph.insert_edges(ordinary)
        return launches.count("k_insert_lists")

    assert [tried_ordinary(), tried_hubs(1), tried_ordinary()] == [1, 1, 1]
    assert [tried_hubs(1) for _ in range(8)] == [1, 1, 0, 1, 0, 0, 0, 1]
    assert tried_hubs(32) == 2
    assert sum(tried_ordinary() for _ in range(16)) >= 1
    assert [tried_ordinary(), tried_hubs(1), tried_ordinary()] == [1, 1, 1]
