"""What of GPMA+ is CUDA's own: deletions and ids as they come, updates without a wait, long ranges of rows."""

from __future__ import annotations

import numpy as np
import pytest

from dynstore import DynamicGraph
from dynstore.backend import Arena, Backend
from dynstore.batches.cuda import unique
from dynstore.batches.unsorted import RawEdges
from dynstore.cuda.grid import SUMS
from dynstore.errors import InputError, LimitError, OutOfMemoryError
from dynstore.testing.invariants import check_graph, host_arrays
from dynstore.testing.pair import same_arrays
from dynstore.typing import MAX_INT32
from tests.crossed import in_turn
from tests.stores.planned import plan_updates


def pairs_of(graph):
    packed = graph.snapshot().compact()
    src, dst = (graph.core.backend.to_host(column).tolist() for column in (packed.sources, packed.indices))
    return set(zip(src, dst, strict=True))


def on_device(columns, device, **options):
    """Return a graph of such edges and their columns, where kernels read batches as they come."""
    graph = DynamicGraph.from_edges(columns, device=device, **options)
    return graph, tuple(map(graph.core.backend.asarray, columns))


@pytest.mark.parametrize("directed", [True, False])
def test_a_deletion_of_edges_that_are_there_sorts_nothing(device, directed, monkeypatch):
    rng = np.random.default_rng(3)
    src, dst = rng.integers(0, 40, 400), rng.integers(0, 40, 400)
    graph = DynamicGraph.from_edges((src, dst), device=device, directed=directed)
    graph.snapshot(transposed=True)
    before = graph.number_of_edges()
    calls = []
    monkeypatch.setattr(RawEdges, "_sort", calls.append)
    some = rng.permutation(400)[:30]
    twice = np.concatenate((some, some[:7]))
    pairs = {(u, v) if directed else (min(u, v), max(u, v)) for u, v in zip(src[some], dst[some], strict=True)}
    report = graph.delete_edges((src[twice], dst[twice]))
    assert not calls
    assert (report.deleted, report.absent, report.duplicates) == (len(pairs), 0, 37 - len(pairs))
    assert graph.number_of_edges() == before - len(pairs)
    check_graph(graph)


def test_a_deletion_of_edges_that_are_not_there_counts_each_once(device):
    graph = DynamicGraph.from_edges(([0, 1, 2], [1, 2, 3]), device=device)
    report = graph.delete_edges(([0, 0, 3, 3, 9, 9], [1, 1, 0, 0, 9, 9]))
    assert (report.deleted, report.absent, report.duplicates) == (1, 2, 3)


def test_a_deletion_that_empties_leaves_packs_them(device):
    rows, columns = np.divmod(np.arange(1600), 40)
    graph = DynamicGraph.from_edges((rows, columns), device=device)
    report = graph.delete_edges((rows[400:700], columns[400:700]))
    assert (report.deleted, report.path) == (300, "in-place")
    valid = graph.core.backend.to_host(graph.snapshot().mask()).reshape(-1, 32).sum(axis=1)
    assert valid.min() >= 1
    check_graph(graph)


def test_a_deletion_that_empties_leaves_is_planned_from_what_was_found(device, launches):
    """Its edges are located once, and their ids are not checked; if edges are missing, the ids are checked."""
    graph, (rows, columns) = on_device(np.divmod(np.arange(1600, dtype=np.int32), 40), device)
    launches.clear()
    report = graph.delete_edges((rows[700:400:-1], columns[700:400:-1]))
    assert (report.deleted, report.path) == (300, "in-place")
    assert launches.count("k_find_present") == 1
    assert "k_find_bounds" not in launches
    check_graph(graph)
    launches.clear()
    report = graph.delete_edges((rows[690:1000], columns[690:1000]))
    assert (report.deleted, report.absent) == (299, 11)
    assert launches.count("k_find_present") == 2
    assert pairs_of(graph) == {(i // 40, i % 40) for i in range(1600) if not 401 <= i < 1000}
    check_graph(graph)
    report = graph.delete_edges((rows[:1590], columns[:1590]))  # all is packed then, which needs no search either
    assert (report.deleted, report.absent, report.path) == (991, 599, "merge")
    rest = rows[1590:1599], columns[1590:1599]
    launches.clear()
    report = graph.delete_edges(rest)
    assert (report.deleted, graph.number_of_edges()) == (9, 1)
    assert launches.count("k_find_present") == 1
    check_graph(graph)


@pytest.mark.parametrize("directed", [True, False])
def test_an_ordinary_insertion_sorts_nothing(device, directed, sorts):
    """Edges that are there, that were deleted, and new ones, some of them twice, in both orientations."""
    rng = np.random.default_rng(11)
    src, dst = rng.integers(0, 40, 600), rng.integers(0, 40, 600)
    graph = DynamicGraph.from_edges((src, dst), device=device, directed=directed, merge_cost=0.0)
    graph.snapshot(transposed=True)
    graph.delete_edges((src[:20], dst[:20]))
    there, before = pairs_of(graph), graph.number_of_edges()
    new = (np.r_[src[10:30], 41, 7, 45, 45], np.r_[dst[10:30], 3, 42, 45, 44])
    some = np.r_[np.arange(24), rng.permutation(24)[:9], 22]
    sorts.clear()
    report = graph.insert_edges((new[0][some], new[1][some]))
    assert not sorts
    wanted = set(zip(new[0].tolist(), new[1].tolist(), strict=True))
    both = wanted if directed else wanted | {(v, u) for u, v in wanted}
    assert pairs_of(graph) == there | both
    edges = wanted if directed else {(min(pair), max(pair)) for pair in wanted}
    assert (report.inserted, report.replaced) == (len(edges - there), len(edges & there))
    assert (report.duplicates, report.path) == (34 - len(edges), "in-place")
    assert graph.number_of_edges() == before + report.inserted
    check_graph(graph)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_ordinary_updates_are_planned_and_written_before_the_host_looks(device, launches, dtype):
    """Nobody looks at the ids before; so where in-edges are kept beside the out-edges."""
    graph, (src, dst) = on_device(np.divmod(40 * np.arange(600, dtype=dtype), 400), device, vertex_dtype=dtype)
    batch = src[100::100], dst[100::100] + 1
    launches.clear()
    report = graph.insert_edges(batch)
    assert (report.inserted, report.path) == (5, "in-place")
    assert launches == ["k_insert_lists"]
    launches.clear()
    report = graph.delete_edges(batch)
    assert (report.deleted, report.path) == (5, "in-place")
    assert launches == ["k_find_present"]
    check_graph(graph)
    graph.snapshot(transposed=True)
    for update, kernel in ((graph.insert_edges, "k_insert_lists"), (graph.delete_edges, "k_find_present")):
        launches.clear()
        update(batch)
        assert launches == [kernel, kernel]
        check_graph(graph, transposed=True)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int16])
@pytest.mark.parametrize("store", ["gpma+", "slab_hash"])
def test_ids_of_another_dtype_are_converted_without_a_look(device, launches, dtype, store):
    """Those that are none of the graph's are refused by the usual errors, and new ones are vertices."""
    options = {"capacity": 3000} if store == "slab_hash" else {}
    graph, (src, dst) = on_device(np.divmod(40 * np.arange(600, dtype=dtype), 400), device, store=store, **options)
    twin = graph.copy()
    log = plan_updates(twin).core.follow()
    for update, batch, stranger in (
        ("insert_edges", (src[100::100], dst[100::100] + dtype(1)), None),
        ("delete_edges", (src[100::100], dst[100::100] + dtype(1)), None),
        ("delete_edges", (src[90::100], dst[90::100] + dtype(1)), "absent"),
        ("insert_edges", (src[90::100] + dtype(500), dst[90::100] + dtype(1)), "new"),
    ):
        launches.clear()
        report = getattr(graph, update)(batch)
        assert launches[0] == "k_convert_ids"
        assert ("k_find_bounds" in launches) == (stranger == "new" or (stranger == "absent" and store == "gpma+"))
        launches.clear()
        assert report == getattr(twin, update)(tuple(column.astype(np.int32) for column in batch))
        assert pairs_of(graph) == pairs_of(twin)
        check_graph(graph)
    assert len(log.changes) == 4
    if np.dtype(dtype).itemsize == 8:
        for update in (graph.insert_edges, graph.delete_edges):
            with pytest.raises(LimitError, match="`dst` has 1099511627776 at row 1; int32 ids go to"):
                update((src[:2], graph.core.backend.asarray(np.array([0, 2**40], dtype))))
    if np.dtype(dtype).kind == "i":
        for update in (graph.insert_edges, graph.delete_edges):
            with pytest.raises(InputError, match="`src` has -2 at row 1"):
                update((graph.core.backend.asarray(np.array([0, -2], dtype)), dst[:2]))
    check_graph(graph)


@pytest.mark.parametrize("directed", [True, False])
def test_ids_of_the_users_own_are_looked_up_without_a_wait(device, directed, launches):
    """Where all are known; a new one, one that is none, and flags of deleted vertices have the host look."""
    rng = np.random.default_rng(16)
    src, dst = 7 * rng.integers(0, 40, (2, 600)) + 2**40
    graph = DynamicGraph.from_edges((src, dst), device=device, directed=directed, renumber=True, merge_cost=0.0)
    twin = DynamicGraph.from_edges((src, dst), device="cpu", directed=directed, renumber=True, merge_cost=0.0)

    def kernels_of(update, batch):
        launches.clear()
        assert getattr(graph, update)(batch) == getattr(twin, update)(batch)
        started = list(launches)
        assert graph.vertex_ids().tolist() == twin.vertex_ids().tolist()
        check_graph(graph)
        return started

    known = tuple(7 * rng.integers(0, 40, (2, 30)) + 2**40)
    assert kernels_of("insert_edges", known) == ["k_match_keys", "k_insert_lists"]
    assert kernels_of("delete_edges", (src[:9], dst[:9])) == ["k_match_keys", "k_find_present"]
    new = np.r_[known[0], 5], np.r_[known[1], known[0][:1]]
    assert kernels_of("insert_edges", new).count("k_match_keys") == 2
    invalid_id = np.r_[src[9:15], 6], np.r_[dst[9:15], 5]
    assert kernels_of("delete_edges", invalid_id).count("k_match_keys") == 2
    for update in (graph.insert_edges, graph.delete_edges):
        with pytest.raises(InputError, match="must not be negative"):
            update((np.r_[src[:3], -4], dst[:4]))
    check_graph(graph)


@pytest.mark.parametrize("options", [{}, {"weighted": True}, {"renumber": True}, {"store": "slab_hash"}])
def test_a_stream_that_can_be_read_once_is(device, options):
    """Whether its ids are looked at before the update's kernels, by them, or after: vertices, counts and errors."""
    import pyarrow

    def stream(src, dst):
        columns = {"source": pyarrow.array(src, pyarrow.int32()), "destination": pyarrow.array(dst, pyarrow.int32())}
        return pyarrow.table(columns).to_reader()

    graph, twin = DynamicGraph(device=device, **options), DynamicGraph(device="cpu", **options)
    src, dst = np.random.default_rng(17).integers(0, 40, (2, 300))
    for batch in ((src, dst), (src[:9], dst[9:18]), ([3, 90, 90], [91, 4, 4])):
        reports = [each.insert_edges(stream(*batch), default_weight=1.0) for each in (graph, twin)]
        assert reports[0] == reports[1]
        assert graph.number_of_vertices() == twin.number_of_vertices()
    for batch in ((src[:20], dst[:20]), ([3, 500], [91, 3])):
        assert graph.delete_edges(stream(*batch)) == twin.delete_edges(stream(*batch))
    for update in (graph.insert_edges, graph.delete_edges):
        with pytest.raises(InputError, match="has -1 at row 1"):
            update(stream([0, -1], [1, 2]))
    check_graph(graph)


def test_a_deletion_that_cannot_be_counted_leaves_the_graph_as_it_was(device, monkeypatch):
    """Missing edges are counted by a sort, which may need more memory than there is."""

    src, dst = np.divmod(40 * np.arange(600, dtype=np.int32), 400)
    graph = DynamicGraph.from_edges((src, dst), device=device)
    before, version = host_arrays(graph.snapshot()), graph.version

    def fail(*args):
        raise MemoryError("no room")

    monkeypatch.setattr(unique, "keep_pairs", fail)
    monkeypatch.setattr(unique, "start_keeping", fail)
    monkeypatch.setattr(unique, "pack_keys", fail)
    with pytest.raises(OutOfMemoryError, match="the graph is as it was"):
        graph.delete_edges((src[:9], np.r_[dst[:8], dst[8] + np.int32(1)]))
    assert same_arrays(host_arrays(graph.snapshot()), before)
    assert (graph.version, graph.number_of_edges()) == (version, 600)
    check_graph(graph)


def test_an_export_has_updates_planned_and_a_log_has_not(device, launches):
    """What an export shows stays as it is; a log gets the changes, which are looked up before."""
    src, dst = np.divmod(40 * np.arange(600, dtype=np.int32), 400)
    graph = DynamicGraph.from_edges((src, dst), device=device)
    batch = (src[100::100], dst[100::100] + 1)
    exported = graph.snapshot().export()
    before = {
        name: np.array(graph.core.backend.to_host(graph.core.backend.asarray(array)))
        for name, array in exported.items()
    }
    for update in (graph.insert_edges, graph.delete_edges):
        update(batch)
        for name, array in exported.items():
            assert np.array_equal(graph.core.backend.to_host(graph.core.backend.asarray(array)), before[name])
        check_graph(graph)
    del exported
    log = graph.core.follow()
    launches.clear()
    graph.insert_edges(batch)
    assert (launches[0], launches[-1]) == ("k_look_up_edges", "k_insert_lists")
    assert "k_find_bounds" not in launches
    assert len(log.changes) == 1


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("there", [True, False])
def test_ids_that_no_vertex_can_have_are_refused_by_the_usual_errors(device, directed, there):
    """Among int32 ids, which a kernel looks at on its way; the graph stays as it was."""
    src, dst = np.divmod(40 * np.arange(600, dtype=np.int32), 400)
    graph = DynamicGraph.from_edges((src, dst), device=device, directed=directed)
    before = host_arrays(graph.snapshot())
    for update in (graph.insert_edges, graph.delete_edges):
        for stranger, error, words in (
            (-1, InputError, "`dst` has -1 at row 3"),
            (-(2**31), InputError, "must not be negative"),
            (2**31 - 1, LimitError, "int32 ids go to 2147483646"),
        ):
            batch = (src[:9].copy(), dst[:9] + np.int32(not there))
            batch[1][3] = stranger
            with pytest.raises(error, match=words):
                update(batch)
    with pytest.raises(LimitError, match="max_vertices"):
        graph.insert_edges((src[:2], np.array([1, 2**31 - 2], np.int32)))
    assert same_arrays(host_arrays(graph.snapshot()), before)
    report = graph.delete_edges((np.array([0, 2**31 - 2], np.int32), np.array([2**31 - 2, 0], np.int32)))
    assert (report.deleted, report.absent) == (0, 2 if directed else 1)
    check_graph(graph)


@pytest.mark.parametrize("directed", [True, False])
def test_a_new_vertex_gets_its_edges(device, directed):
    src, dst = np.divmod(40 * np.arange(600, dtype=np.int32), 400)
    graph = DynamicGraph.from_edges((src, dst), device=device, directed=directed)
    there = pairs_of(graph)
    report = graph.insert_edges((np.array([3, 700], np.int32), np.array([900, 5], np.int32)))
    assert (report.inserted, graph.number_of_vertices()) == (2, 901)
    both = {(3, 900), (700, 5)} if directed else {(3, 900), (700, 5), (900, 3), (5, 700)}
    assert pairs_of(graph) == there | both
    check_graph(graph)


@in_turn(length=[32, 33, 64, 65, 511, "of a warp", "of all blocks"], directed=[True, False])
def test_rows_far_apart(device, directed, length):
    """Ranges of empty rows that are too long for a lane, inside windows, at their edges, and behind the last."""
    from dynstore.stores.pma.cuda import row_offsets

    step = {"of a warp": row_offsets.FAR_ROWS - 1, "of all blocks": row_offsets.FAR_ROWS}.get(length, length)
    rng = np.random.default_rng(5)
    near = (rng.integers(0, 30, 300), rng.integers(0, 30, 300))
    graph = DynamicGraph.from_edges(near, device=device, directed=directed, merge_cost=0.0)
    there = pairs_of(graph)
    far = (30 + step * np.arange(1, 5), np.arange(4))
    many = (np.full(40, 30 + step * 2), np.arange(40))
    for edges in (far, many):
        graph.insert_edges(edges)
        check_graph(graph)
    for edges in (many, far):
        graph.delete_edges(edges)
        check_graph(graph)
    assert pairs_of(graph) == there


@pytest.mark.parametrize("step", [1, 4, 5, 16, 32, 40])
def test_many_rows_some_apart(device, step):
    """So wide a window that each lane has rows without edges to write, which the warp shares."""
    rng = np.random.default_rng(6)
    graph = DynamicGraph.from_edges(np.divmod(rng.permutation(1600)[:900], 40), device=device, merge_cost=0.0)
    there = pairs_of(graph)
    new = (40 + step * np.arange(100) + rng.integers(0, step, 100), rng.integers(0, 40, 100))
    assert graph.insert_edges(new).path == "in-place"
    check_graph(graph)
    assert pairs_of(graph) == there | set(zip(*(column.tolist() for column in new), strict=True))
    graph.delete_edges(new)
    check_graph(graph)
    assert pairs_of(graph) == there


def test_batches_of_about_one_size_share_their_scratch(device):
    graph, (src, dst) = on_device(np.divmod(40 * np.arange(600, dtype=np.int32), 400), device)
    kept = []
    for size in (37, 38, 40, 33, 41):
        for update in (graph.insert_edges, graph.delete_edges):
            update((src[:size], dst[:size] + np.int32(1)))
        check_graph(graph)
        scratch = graph.core.out.slots.scratch._kept
        assert sorted(scratch) == ["deletion", "insertion"]
        kept.append([made for _, made in scratch.values()])
    assert kept[0] == kept[1] == kept[2]
    assert kept[3] != kept[2] != kept[4]


def test_batches_of_about_one_size_share_what_their_ids_are_looked_up_in(device, monkeypatch):
    """With all ids known, an update like the last one makes nothing anew; a copy has memory of its own."""
    made, arena = [], Backend.arena
    monkeypatch.setattr(Backend, "arena", lambda *args, **kwargs: (made.append(args), arena(*args, **kwargs))[1])
    rng = np.random.default_rng(17)
    src, dst = 7 * rng.integers(0, 40, (2, 900)) + 2**40
    graph = DynamicGraph.from_edges((src, dst), device=device, renumber=True, merge_cost=0.0)
    twin = DynamicGraph.from_edges((src, dst), device="cpu", renumber=True, merge_cost=0.0)
    without = graph.memory_usage()["vertex_map"]
    for step, size in enumerate((37, 38, 40, 33, 20)):
        made.clear()
        for update in ("insert_edges", "delete_edges"):
            batch = src[:size], np.roll(dst, step)[:size]
            on_gpu = tuple(map(graph.core.backend.asarray, batch))
            assert getattr(graph, update)(on_gpu) == getattr(twin, update)(batch)
        assert len(made) == (3 if step in (0, 3, 4) else 0)
        check_graph(graph)
    assert graph.memory_usage()["vertex_map"] > without
    assert graph.copy().memory_usage()["vertex_map"] == without


@pytest.mark.parametrize("directed", [True, False])
def test_a_deletion_leaves_its_scratch_clear_or_has_it_cleared(device, directed, monkeypatch):
    """Ordinary ones have put back to 0 what they marked and counted; what others left is filled with zeros."""
    rows, columns = np.divmod(np.arange(1600, dtype=np.int32), 40)
    graph = DynamicGraph.from_edges((rows, columns + 40), device=device, directed=directed)
    there, filled, clear = pairs_of(graph), [], Arena.clear
    monkeypatch.setattr(Arena, "clear", lambda self: (filled.append(not self.is_clear), clear(self)))

    def fills(first, *others):
        """Delete edges, one of row 0, and return whether the scratch for that was filled with zeros."""
        batch = rows[[*others, 0]], np.append(columns[[*others]] + 40, first).astype(np.int32)
        filled.clear()
        assert graph.delete_edges(tuple(map(graph.core.backend.asarray, batch))).path == "in-place"
        pairs = set(zip(*(column.tolist() for column in batch), strict=True))
        there.difference_update(pairs if directed else pairs | {(v, u) for u, v in pairs})
        assert pairs_of(graph) == there
        check_graph(graph)
        return filled[0]

    assert fills(40, 3, 3, 90, 700)  # made, with zeros
    control, marks = map(graph.core.backend.to_host, graph.core.out.slots.scratch._kept["deletion"][0].arrays[:2])
    assert not control[:SUMS].any()
    assert not marks.any()
    assert not fills(41, 4, 91, 91, 701)
    assert not fills(0, 5, 92, 93, 94)  # which leaves its marks: one of these edges is not there
    assert fills(42, 6, 95, 96, 97)
    assert not fills(43, 7, 98, 99, 100)
    assert fills(44, *range(400, 560))  # of another size; then leaves are packed, which are found by the marks
    assert fills(45, *range(800, 960))


@pytest.mark.parametrize("directed", [True, False])
def test_int64_ids_that_fit_no_int32_are_edges_like_others(device, directed):
    """Beside some that do; what is not there is only counted."""
    far = 2**32 + np.array([3, 5, 7], np.int64)
    reports = []
    for one in (device, "cpu"):
        graph = DynamicGraph.from_edges(
            (np.arange(60, dtype=np.int64) % 7, np.arange(60, dtype=np.int64)),
            device=one,
            directed=directed,
            vertex_dtype="int64",
        )
        near = far - 2**32
        reports.append(
            [graph.delete_edges((near, far)), graph.delete_edges((far, near)), graph.delete_edges((near, near))]
        )
        for batch in ((near, far), (far, near)):
            with pytest.raises(LimitError, match="max_vertices"):
                graph.insert_edges(batch)
        check_graph(graph)
    assert reports[0] == reports[1]


@pytest.mark.parametrize("directed", [True, False])
def test_a_deletion_among_more_slots_than_32_bits_number(device, directed, launches):
    """By a search that numbers them by 64; of edges that are there, deleted ones, and some that never were."""
    rows, columns = np.divmod(np.arange(1600, dtype=np.int64), 40)
    numbered = (MAX_INT32, 100)
    graphs = [
        DynamicGraph.from_edges(
            (rows, columns), device=device, directed=directed, vertex_dtype="int64", tuning={"max_numbered": most}
        )
        for most in numbered
    ]
    plan_updates(graphs[0])
    for some in (np.arange(3, 1600, 90), np.arange(400, 700), np.arange(390, 720), np.arange(1595)):
        reports = []
        for graph, most in zip(graphs, numbered, strict=True):
            launches.clear()
            reports.append(graph.delete_edges((np.r_[rows[some], 39], np.r_[columns[some], 1000])))
            assert ("k_find_present" in launches) == (most != 100)
            check_graph(graph)
        assert reports[0] == reports[1]
        assert same_arrays(*(host_arrays(graph.snapshot()) for graph in graphs))
