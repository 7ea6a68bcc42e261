"""What of GPMA+ is CUDA's own: insertions and deletions as they come, long ranges of rows."""

from __future__ import annotations

import numpy as np
import pytest

from dynstore import DynamicGraph
from dynstore._cuda import present
from dynstore.edge_batch import RawEdges
from dynstore.errors import InputError, LimitError, OutOfMemoryError
from dynstore.stores.gpma_plus import GPMAPlusStore
from dynstore.testing.invariants import check_graph

LEAF = 32


def pairs_of(graph):
    packed = graph.snapshot().compact()
    src, dst = (graph.backend.to_host(column).tolist() for column in (packed.sources, packed.indices))
    return set(zip(src, dst, strict=True))


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
    valid = graph.backend.to_host(graph.snapshot().mask()).reshape(-1, 32).sum(axis=1)
    assert valid.min() >= 0.08 * 32
    check_graph(graph)


def test_a_deletion_that_empties_leaves_is_planned_from_what_was_found(device, launches):
    """Its edges are looked for once, and nobody looks at their ids; edges that are not there have them looked at."""
    rows, columns = np.divmod(np.arange(1600, dtype=np.int32), 40)
    graph = DynamicGraph.from_edges((rows, columns), device=device)
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


def slots_of(graph):
    slots = graph._out.slots
    columns = (slots.src, slots.dst, slots.valid, slots.offsets)
    return [graph.backend.to_host(column).tolist() for column in columns]


@pytest.fixture
def sorted_plans(monkeypatch):
    """A switch: while on, insertions take the plan that sorts them."""
    from dynstore._cuda import unsorted

    switch, may_plan = [], unsorted._may_plan
    monkeypatch.setattr(unsorted, "_may_plan", lambda *args: not switch and may_plan(*args))
    return switch


@pytest.fixture
def sorts(monkeypatch):
    """The calls that sort a batch."""
    calls, sort = [], RawEdges._sort
    monkeypatch.setattr(RawEdges, "_sort", lambda batch: (calls.append(batch), sort(batch))[1])
    return calls


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
    """Nobody looks at the ids before; with the other orientation, which has to be planned too, somebody does."""
    src, dst = np.divmod(40 * np.arange(600, dtype=dtype), 400)
    graph = DynamicGraph.from_edges((src, dst), device=device, vertex_dtype=dtype)
    batch = tuple(map(graph.backend.asarray, (src[100::100], dst[100::100] + 1)))
    planning, writing = ["k_list_rows", "k_plan_lists"], ["k_write_leaves", "k_merge_wide", "k_write_windows"]
    launches.clear()
    report = graph.insert_edges(batch)
    assert (report.inserted, report.path) == (5, "in-place")
    assert launches == [*planning, *writing]
    launches.clear()
    report = graph.delete_edges(batch)
    assert (report.deleted, report.path) == (5, "in-place")
    assert launches == ["k_find_present"]
    check_graph(graph)
    graph.snapshot(transposed=True)
    launches.clear()
    graph.insert_edges(batch)
    if dtype == np.int32:  # int64 ids that were looked at are sorted
        assert launches == ["k_find_bounds", *planning, *planning, *writing, *writing]
    launches.clear()
    graph.delete_edges(batch)
    finding = [name for name in launches if name not in ("k_pack_keys", "k_keep_runs")]  # those of int64 ids, too
    assert finding == ["k_find_bounds"] + 2 * ["k_find_present"] + 2 * ["k_clear_located"]
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
    planning, writing = ["k_list_rows", "k_plan_lists"], ["k_write_leaves", "k_merge_wide", "k_write_windows"]
    assert kernels_of("insert_edges", known) == ["k_match_keys", *planning, *writing]
    assert kernels_of("delete_edges", (src[:9], dst[:9])) == ["k_match_keys", "k_find_present"]
    new = np.r_[known[0], 5], np.r_[known[1], known[0][:1]]
    assert kernels_of("insert_edges", new).count("k_match_keys") == 2
    strange = np.r_[src[9:15], 6], np.r_[dst[9:15], 5]
    assert kernels_of("delete_edges", strange).count("k_match_keys") == 2
    for update in (graph.insert_edges, graph.delete_edges):
        with pytest.raises(InputError, match="must not be negative"):
            update((np.r_[src[:3], -4], dst[:4]))
    check_graph(graph)


@pytest.mark.parametrize("options", [{}, {"weighted": True}, {"renumber": True}, {"store": "slab_hash"}])
def test_a_stream_that_can_be_read_once_is(device, options):
    """Whether its ids are looked at before the update's kernels, by them, or after: vertices, counts and errors."""
    pyarrow = pytest.importorskip("pyarrow")

    def stream(src, dst):
        columns = {"source": pyarrow.array(src, pyarrow.int32()), "destination": pyarrow.array(dst, pyarrow.int32())}
        return pyarrow.table(columns).to_reader()

    graph, twin = DynamicGraph(device=device, **options), DynamicGraph(device="cpu", **options)
    src, dst = np.random.default_rng(17).integers(0, 40, (2, 300))
    for batch in ((src, dst), (src[:9], dst[9:18]), ([3, 90, 90], [91, 4, 4])):
        assert graph.insert_edges(stream(*batch)) == twin.insert_edges(stream(*batch))
        assert graph.number_of_vertices() == twin.number_of_vertices()
    for batch in ((src[:20], dst[:20]), ([3, 500], [91, 3])):
        assert graph.delete_edges(stream(*batch)) == twin.delete_edges(stream(*batch))
    for update in (graph.insert_edges, graph.delete_edges):
        with pytest.raises(InputError, match="has -1 at row 1"):
            update(stream([0, -1], [1, 2]))
    check_graph(graph)


def test_a_deletion_that_cannot_be_counted_leaves_the_graph_as_it_was(device, monkeypatch):
    """Missing edges are counted by a sort, which may need more memory than there is."""
    from dynstore._cuda import runs

    src, dst = np.divmod(40 * np.arange(600, dtype=np.int32), 400)
    graph = DynamicGraph.from_edges((src, dst), device=device)
    before, version = slots_of(graph), graph.version

    def fail(*args):
        raise MemoryError("no room")

    monkeypatch.setattr(runs, "keep_pairs", fail)
    monkeypatch.setattr(runs, "keep_keys", fail)
    monkeypatch.setattr(runs, "pack_keys", fail)
    with pytest.raises(OutOfMemoryError, match="the graph is as it was"):
        graph.delete_edges((src[:9], np.r_[dst[:8], dst[8] + np.int32(1)]))
    assert (slots_of(graph), graph.version, graph.number_of_edges()) == (before, version, 600)
    check_graph(graph)


def test_an_export_or_a_log_has_updates_planned(device, launches):
    """What an export shows stays as it is, and a log gets the changes."""
    src, dst = np.divmod(40 * np.arange(600, dtype=np.int32), 400)
    graph = DynamicGraph.from_edges((src, dst), device=device)
    batch = (src[100::100], dst[100::100] + 1)
    exported = graph.snapshot().export()
    before = {name: np.array(graph.backend.to_host(graph.backend.asarray(array))) for name, array in exported.items()}
    for update in (graph.insert_edges, graph.delete_edges):
        update(batch)
        for name, array in exported.items():
            assert np.array_equal(graph.backend.to_host(graph.backend.asarray(array)), before[name])
        check_graph(graph)
    del exported
    log = graph.follow()
    launches.clear()
    graph.insert_edges(batch)
    assert launches[:3] == ["k_find_bounds", "k_list_rows", "k_plan_lists"]
    assert len(log.changes) == 1


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("there", [True, False])
def test_ids_that_no_vertex_can_have_are_refused_by_the_usual_errors(device, directed, there):
    """Among int32 ids, which a kernel looks at on its way; the graph stays as it was."""
    src, dst = np.divmod(40 * np.arange(600, dtype=np.int32), 400)
    graph = DynamicGraph.from_edges((src, dst), device=device, directed=directed)
    before = slots_of(graph)
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
    assert slots_of(graph) == before
    report = graph.delete_edges((np.array([0, 2**31 - 2], np.int32), np.array([2**31 - 2, 0], np.int32)))
    assert (report.deleted, report.absent) == (0, 2 if directed else 1)
    check_graph(graph)


@pytest.mark.parametrize("directed", [True, False])
def test_a_new_vertex_has_its_edges_planned(device, directed):
    src, dst = np.divmod(40 * np.arange(600, dtype=np.int32), 400)
    graph = DynamicGraph.from_edges((src, dst), device=device, directed=directed)
    there = pairs_of(graph)
    report = graph.insert_edges((np.array([3, 700], np.int32), np.array([900, 5], np.int32)))
    assert (report.inserted, graph.number_of_vertices()) == (2, 901)
    both = {(3, 900), (700, 5)} if directed else {(3, 900), (700, 5), (900, 3), (5, 700)}
    assert pairs_of(graph) == there | both
    check_graph(graph)


@pytest.mark.parametrize("directed", [True, False])
def test_keys_of_one_leaf_come_in_any_order(device, directed, sorted_plans, sorts):
    """Several rows each of neighbouring leaves, mixed and repeated: slot for slot what sorting them first gives."""
    rng = np.random.default_rng(12)
    columns = rng.permutation(1200)[:900]
    graph = DynamicGraph.from_edges((columns // 40, columns % 40), device=device, directed=directed, merge_cost=0.0)
    twin = graph.copy()
    missing = np.setdiff1d(np.arange(1200), columns)[20:60:3]
    batch = rng.permutation(np.r_[missing, missing, missing[:5]])
    sorts.clear()
    report = graph.insert_edges((batch // 40, batch % 40))
    assert not sorts
    sorted_plans.append(True)
    assert report == twin.insert_edges((batch // 40, batch % 40))
    assert sorts
    assert slots_of(graph) == slots_of(twin)
    check_graph(graph)


@pytest.mark.parametrize("directed", [True, False])
def test_leaves_that_are_too_full_make_windows_of_several(device, directed, sorted_plans, sorts):
    """Beside leaves that can take their keys, inside such windows and outside, and dead keys."""
    columns = 4 * np.arange(400)
    graph = DynamicGraph.from_edges((columns // 40, columns % 40), device=device, directed=directed, merge_cost=0.0)
    graph.delete_edges((columns[50:60] // 40, columns[50:60] % 40))
    twin = graph.copy()
    rng = np.random.default_rng(14)
    for step in range(4):
        near = 400 * step + np.r_[4 * np.arange(12) + 1, 100, 161, 203, 203]
        batch = rng.permutation(np.r_[near, columns[50:55]])
        sorts.clear()
        report = graph.insert_edges((batch // 40, batch % 40))
        assert not sorts
        sorted_plans.append(True)
        assert report == twin.insert_edges((batch // 40, batch % 40))
        sorted_plans.clear()
        assert slots_of(graph) == slots_of(twin)
        assert report.path == "in-place"
        check_graph(graph)


@pytest.mark.parametrize("crowded", [None, 0, 1, 4])
@pytest.mark.parametrize("num_leaves", [1, 2, 5])
def test_pairs_of_windows_have_one_of_several_leaves_or_none(device, num_leaves, crowded, sorted_plans, sorts):
    """A warp writes two windows: the second may be missing, and either may be another kernel's."""
    columns = 4 * np.arange(400)
    graph = DynamicGraph.from_edges((columns // 40, columns % 40), device=device, merge_cost=0.0)
    twin = graph.copy()
    batch = columns[np.arange(num_leaves) * 70] + 1
    if crowded is not None:
        batch = np.r_[batch[:crowded], 4 * (70 * min(crowded, num_leaves - 1) + np.arange(16)) + 2, batch[crowded:]]
    sorts.clear()
    report = graph.insert_edges((batch // 40, batch % 40))
    assert not sorts
    sorted_plans.append(True)
    assert report == twin.insert_edges((batch // 40, batch % 40))
    assert report.inserted == batch.shape[0]
    assert slots_of(graph) == slots_of(twin)
    check_graph(graph)


@pytest.mark.parametrize("distinct", [60, 96])
@pytest.mark.parametrize("num_rows", [96, 97, 193, 250])
def test_a_thread_takes_two_rows(device, num_rows, distinct, sorted_plans, sorts):
    """Where there are more rows than threads: two of one key, of one leaf, of a strange id, and one without another."""
    columns = 40 * np.arange(600)
    graph = DynamicGraph.from_edges((columns // 400, columns % 400), device=device, merge_cost=0.0)
    graph.delete_edges((columns[50:60] // 400, columns[50:60] % 400))
    twin = graph.copy()
    rng = np.random.default_rng(num_rows)
    new = columns[100 + rng.permutation(400)[: distinct - 20]] + 1
    batch = np.resize(rng.permutation(np.r_[new, columns[40:60]]), num_rows).astype(np.int32)
    sorts.clear()
    report = graph.insert_edges((batch // 400, batch % 400))
    assert not sorts
    sorted_plans.append(True)
    assert report == twin.insert_edges((batch // 400, batch % 400))
    assert (report.inserted, report.replaced) == (distinct - 10, 10)
    assert slots_of(graph) == slots_of(twin)
    check_graph(graph)
    sorted_plans.clear()
    before = slots_of(graph)
    strange = batch % 400
    strange[-1] = -1
    for update in (graph.insert_edges, graph.delete_edges):
        with pytest.raises(InputError, match=f"at row {num_rows - 1}"):
            update((batch // 400, strange))
    assert slots_of(graph) == before
    report = graph.delete_edges((batch // 400, batch % 400))
    assert (report.deleted, report.absent, report.duplicates) == (distinct, 0, num_rows - distinct)
    report = graph.delete_edges((batch // 400, batch % 400))
    assert (report.deleted, report.absent, report.duplicates) == (0, distinct, num_rows - distinct)
    check_graph(graph)


@pytest.mark.parametrize("keys", [1, 33, 600])
def test_a_leaf_that_gets_too_many_rows_has_the_batch_sorted(device, keys, sorted_plans, sorts):
    """More than a warp has lanes, though they may be one key."""
    columns = 40 * np.arange(600)
    graph = DynamicGraph.from_edges((columns // 400, columns % 400), device=device, merge_cost=0.0)
    twin = graph.copy()
    batch = 4000 + np.resize(1 + np.arange(keys), max(keys, 33))
    report = graph.insert_edges((batch // 400, batch % 400))
    assert sorts
    sorted_plans.append(True)
    assert report == twin.insert_edges((batch // 400, batch % 400))
    assert slots_of(graph) == slots_of(twin)
    check_graph(graph)


def test_windows_that_are_too_wide_for_a_block_are_merged_by_all(device, sorted_plans, sorts, monkeypatch):
    """Neighbouring leaves that all get more than they can take; others beside them, and dead keys inside."""
    from dynstore._cuda import unsorted, unsorted_layout

    giants, read = [], unsorted._read_plan

    def spy(backend, batch, plan):
        totals = read(backend, batch, plan)
        giants.append(int(plan.scratch.control[unsorted_layout.GIANT]))
        return totals

    monkeypatch.setattr(unsorted, "_read_plan", spy)
    wide = 1 << unsorted_layout.MAX_HEIGHT
    columns = 8 * np.arange(400 * wide)
    graph = DynamicGraph.from_edges((columns // 400, columns % 400), device=device, merge_cost=0.0)
    graph.delete_edges((columns[400:420] // 400, columns[400:420] % 400))
    twin = graph.copy()
    rng = np.random.default_rng(15)
    for step in range(3):
        near = columns[420 * step : 420 * step + 15 * wide] + 1
        batch = rng.permutation(np.r_[near, columns[405:410], columns[-1] + 3 + step, near[::9]])
        sorts.clear()
        report = graph.insert_edges((batch // 400, batch % 400))
        assert not sorts
        sorted_plans.append(True)
        assert report == twin.insert_edges((batch // 400, batch % 400))
        sorted_plans.clear()
        assert slots_of(graph) == slots_of(twin)
        check_graph(graph)
    assert max(giants) > 0


def test_leaves_that_would_climb_far_have_the_batch_sorted(device, sorted_plans, sorts):
    """Neighbouring leaves that all get more than they can take, but fewer rows than a warp has lanes."""
    from dynstore._cuda import unsorted_layout

    columns = 40 * np.arange(1300)
    graph = DynamicGraph.from_edges((columns // 400, columns % 400), device=device, merge_cost=0.0)
    twin = graph.copy()
    batch = columns[200 : 200 + (LEAF << unsorted_layout.MAX_GIANT_HEIGHT)] + 1
    sorts.clear()
    report = graph.insert_edges((batch // 400, batch % 400))
    assert sorts
    sorted_plans.append(True)
    assert report == twin.insert_edges((batch // 400, batch % 400))
    assert slots_of(graph) == slots_of(twin)
    assert report.inserted == batch.shape[0]
    check_graph(graph)


@pytest.mark.parametrize("directed", [True, False])
def test_an_unsorted_plan_may_end_in_a_merge(device, directed, sorted_plans):
    """Where so many leaves are written that a merge is cheaper, and where the root is too dense."""
    rng = np.random.default_rng(13)
    edges = (rng.integers(0, 40, 300), rng.integers(0, 40, 300))
    graph = DynamicGraph.from_edges(edges, device=device, directed=directed)
    graph.delete_edges((edges[0][:10], edges[1][:10]))
    twin, grown = graph.copy(), False
    for _ in range(6):
        batch = (rng.integers(0, 44, 25), rng.integers(0, 44, 25))
        reports = []
        for one in (graph, twin):
            reports.append(one.insert_edges(batch))
            sorted_plans.append(True)
        sorted_plans.clear()
        assert reports[0] == reports[1]
        assert reports[0].path == "merge"
        grown |= reports[0].grown
        assert slots_of(graph) == slots_of(twin)
        check_graph(graph)
    assert grown


@pytest.mark.parametrize("directed", [True, False])
def test_rows_far_apart(device, directed):
    """Ranges of empty rows that are too long for a warp, inside windows, at their edges, and behind the last."""
    from dynstore._cuda import leaves

    step = 3 * leaves.FAR_ROWS // 2
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


@pytest.mark.parametrize("renumber", [False, True])
def test_a_batch_that_has_to_be_sorted_is_tried_unsorted_once(device, launches, renumber):
    """Where a leaf gets too many rows."""
    src, dst = np.divmod(40 * np.arange(600, dtype=np.int32), 400)
    graph = DynamicGraph.from_edges((src, dst), device=device, renumber=renumber, merge_cost=0.0)
    vertices = graph.vertex_ids()[:40] if renumber else graph.backend.asarray(np.arange(40, dtype=np.int32))
    vertices = graph.backend.to_host(vertices).astype(np.int32)
    for batch in ((np.full(40, vertices[3]), vertices), (np.repeat(vertices, 20), np.tile(vertices[:20], 40))):
        launches.clear()
        graph.insert_edges(batch)
        assert launches.count("k_list_rows") == 1
        check_graph(graph)


def test_a_batch_that_makes_the_root_too_dense_is_tried_unsorted_once(device, launches):
    """Though no leaf is: all is merged then, for which its edges are sorted in any case."""
    src, dst = np.divmod(40 * np.arange(600, dtype=np.int32), 400)
    graph = DynamicGraph.from_edges((src, dst), device=device, merge_cost=0.0)
    launches.clear()
    report = graph.insert_edges((src[::4], dst[::4] + np.int32(1)))
    assert (report.inserted, report.path, report.grown) == (150, "merge", True)
    assert launches.count("k_list_rows") == 1
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
        return launches.count("k_list_rows")

    def tried_ordinary():
        launches.clear()
        graph.insert_edges(ordinary)
        return launches.count("k_list_rows")

    assert [tried_ordinary(), tried_hubs(1), tried_ordinary()] == [1, 1, 1]
    assert [tried_hubs(1) for _ in range(8)] == [1, 1, 0, 1, 0, 0, 0, 1]
    assert tried_hubs(64) == 4
    assert sum(tried_ordinary() for _ in range(16)) >= 1
    assert [tried_ordinary(), tried_hubs(1), tried_ordinary()] == [1, 1, 1]


def test_batches_of_about_one_size_share_their_scratch(device, monkeypatch):
    monkeypatch.setattr("dynstore.scratch.MOST_SHARE", 100.0)
    src, dst = np.divmod(40 * np.arange(600, dtype=np.int32), 400)
    graph = DynamicGraph.from_edges((src, dst), device=device)
    kept = []
    for size in (37, 38, 40, 33, 41):
        for update in (graph.insert_edges, graph.delete_edges):
            update((src[:size], dst[:size] + np.int32(1)))
        check_graph(graph)
        scratch = graph._out.slots.scratch._kept
        assert sorted(scratch) == ["deletion", "insertion"]
        kept.append([made for _, made in scratch.values()])
    assert kept[0] == kept[1] == kept[2]
    assert kept[3] != kept[2] != kept[4]


WRITING = ["k_gather_windows", "k_spread_edges", "k_merge_leaves", "k_write_edge_rows"]
SORTING = ["k_pack_keys", "k_plan_update"]


@pytest.fixture
def twins(device):
    """Make two graphs with room for a vertex with 100 more edges; a log has the second one's updates planned."""
    logs = []

    def make(dtype=np.int32, **options):
        edges = np.divmod(40 * np.arange(1200, dtype=dtype), 400)
        graph = DynamicGraph.from_edges(edges, device=device, merge_cost=0.0, vertex_dtype=dtype, **options)
        twin = graph.copy()
        logs.append(twin.follow())
        return graph, twin

    return make


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_updates_of_a_hub_are_written_before_the_host_looks(twins, directed, launches, dtype):
    """An insertion that is sorted, and a deletion that empties leaves, which is not; as where they are planned."""
    graph, twin = twins(dtype, directed=directed)
    for hub in (3, 5, 3):
        columns = np.full(100, hub, dtype), np.roll(1 + 2 * np.arange(100, dtype=dtype), 7)
        batch = tuple(map(graph.backend.asarray, columns))
        graph._out._num_untried = 1
        launches.clear()
        report = graph.insert_edges(batch)
        assert launches == SORTING + WRITING
        assert report == twin.insert_edges(batch)
        assert slots_of(graph) == slots_of(twin)
        launches.clear()
        report = graph.delete_edges(batch)
        assert launches == ["k_find_present", "k_plan_packing", *WRITING]
        assert report == twin.delete_edges(batch)
        assert slots_of(graph) == slots_of(twin)
        check_graph(graph)


def test_what_takes_more_scratch_than_there_is_is_planned_by_the_host(twins, launches, monkeypatch):
    """What was found of a deletion need not be searched again."""
    from dynstore._cuda import gpma_plus_now

    monkeypatch.setattr(gpma_plus_now, "FEWEST_LEAVES", 0)
    monkeypatch.setattr(gpma_plus_now, "SLOTS_A_ROW", 0)
    graph, twin = twins()
    batch = np.full(100, 3, np.int32), 1 + np.arange(100, dtype=np.int32)
    for update in ("insert_edges", "delete_edges"):
        graph._out._num_untried = 1
        launches.clear()
        report = getattr(graph, update)(batch)
        assert launches.count("k_gather_windows") == 2
        assert launches.count("k_find_present") == (update == "delete_edges")
        assert report == getattr(twin, update)(batch)
        assert slots_of(graph) == slots_of(twin)
        check_graph(graph)


@pytest.mark.parametrize(
    ("dtype", "stranger"),
    [(np.int32, each) for each in (-1, -(2**31), 2**31 - 1, 2**31 - 2, 500)]
    + [(np.int64, each) for each in (-1, -(2**63), 2**63 - 1, 2**32 + 7, 500)],
)
@pytest.mark.parametrize("column", [0, 1])
def test_sorted_ids_that_are_no_vertices_have_the_host_look(twins, dtype, stranger, column):
    """The kernel that plans sees them; they are refused, or become vertices, as always."""
    graph, twin = twins(dtype)
    before = slots_of(graph)
    batch = np.full(40, 3, dtype), np.arange(40, dtype=dtype)
    batch[column][17] = stranger
    graph._out._num_untried = 1
    if stranger == 500:
        assert graph.insert_edges(batch) == twin.insert_edges(batch)
        assert slots_of(graph) == slots_of(twin)
    else:
        refused = []
        for one in (graph, twin):
            with pytest.raises((InputError, LimitError)) as error:
                one.insert_edges(batch)
            refused.append(str(error.value))
        assert refused[0] == refused[1]
        assert slots_of(graph) == before
    check_graph(graph)


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
def test_a_deletion_among_more_slots_than_32_bits_number(device, directed, launches, monkeypatch):
    """By a search that numbers them by 64; of edges that are there, deleted ones, and some that never were."""
    monkeypatch.setattr(GPMAPlusStore, "writes_now", False)  # as of so many slots
    rows, columns = np.divmod(np.arange(1600, dtype=np.int64), 40)
    graphs = [
        DynamicGraph.from_edges((rows, columns), device=device, directed=directed, vertex_dtype="int64")
        for _ in range(2)
    ]
    for some in (np.arange(3, 1600, 90), np.arange(400, 700), np.arange(390, 720), np.arange(1595)):
        reports = []
        for graph, most in zip(graphs, (present.MOST_NUMBERED, 100), strict=True):
            monkeypatch.setattr(present, "MOST_NUMBERED", most)
            launches.clear()
            reports.append(graph.delete_edges((np.r_[rows[some], 39], np.r_[columns[some], 1000])))
            assert ("k_find_present" in launches) == (most != 100)
            check_graph(graph)
        assert reports[0] == reports[1]
        assert slots_of(graphs[0]) == slots_of(graphs[1])


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("on_duplicate", ["replace", "add"])
def test_weighted_updates_are_written_before_the_host_looks_too(twins, launches, directed, on_duplicate):
    """Once it has sorted them; edges that are there, new ones, and deleted ones that come back."""
    graph, twin = twins(directed=directed, weighted=True)
    rng = np.random.default_rng(4)
    there = np.divmod(40 * np.arange(20, dtype=np.int32), 400)
    for hub in (3, 5, 3):
        batch = np.r_[np.full(100, hub, np.int32), there[0]], np.r_[1 + 2 * np.arange(100, dtype=np.int32), there[1]]
        edges = *batch, rng.random(120).astype(np.float32)
        launches.clear()
        report = graph.insert_edges(edges, on_duplicate=on_duplicate)
        assert launches == ["k_find_bounds", "k_plan_update", *WRITING]
        assert report == twin.insert_edges(edges, on_duplicate=on_duplicate)
        assert slots_of(graph) == slots_of(twin)
        weights = [one.backend.to_host(one.snapshot().compact().weights) for one in (graph, twin)]
        assert np.array_equal(*weights)
        assert graph.delete_edges(batch) == twin.delete_edges(batch)
        assert slots_of(graph) == slots_of(twin)
        check_graph(graph)
