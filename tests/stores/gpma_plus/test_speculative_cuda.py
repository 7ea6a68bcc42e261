"""Updates of GPMA+ on CUDA that are sorted or packed and written before the host looks, beside planned ones."""

from __future__ import annotations

import numpy as np
import pytest

from dynstore import DynamicGraph
from dynstore.backend import get_backend
from dynstore.batches.unsorted import RawEdges, WeightedRows
from dynstore.errors import InputError, LimitError
from dynstore.stores.gpma_plus.store import GPMAPlusStore
from dynstore.stores.pma.cuda import locate
from dynstore.stores.table.slots import SlotArrays
from dynstore.testing.invariants import check_graph, host_arrays
from dynstore.testing.model import weigh
from dynstore.testing.pair import same_arrays
from tests.crossed import in_turn
from tests.stores.planned import plan_updates

WRITING = ["k_gather_windows", "k_spread_edges", "k_shift_leaves", "k_write_edge_rows"]
PACKING = ["k_find_present", "k_plan_packing", "k_gather_windows", "k_spread_edges", "k_write_edge_rows"]
SORTING = ["k_pack_keys", "k_merge_keys", "k_plan_update"]
SORTING_ROWS = ["k_pack_rows", "k_merge_keys", "k_keep_rows", "k_plan_update"]


@pytest.fixture
def twins(device):
    """Make two graphs with room for a vertex with 100 more edges; a log has the second one's updates planned."""

    def make(dtype=np.int32, **options):
        edges = np.divmod(40 * np.arange(1200, dtype=dtype), 400)
        graph = DynamicGraph.from_edges(
            edges,
            device=device,
            merge_cost=0.0,
            vertex_dtype=dtype,
            default_weight=1.0,
            **{"weighted": False, **options},
        )
        twin = graph.copy()
        return graph, plan_updates(twin)

    return make


@pytest.fixture
def update_both(launches):
    """Do an update to a graph and to its twin: the report and the slots are the same.

    Returns the kernels that the first one started.
    """

    def update(graph, twin, method, edges, **options):
        launches.clear()
        options = weigh(method, options)
        report = getattr(graph, method)(edges, **options)
        started = launches.copy()
        assert report == getattr(twin, method)(edges, **options)
        assert same_arrays(host_arrays(graph.snapshot()), host_arrays(twin.snapshot()))
        check_graph(graph)
        return started

    return update


@in_turn(directed=[True, False], dtype=[np.int32, np.int64])
def test_updates_of_a_hub_are_written_before_the_host_looks(twins, update_both, directed, dtype):
    """An insertion that is sorted, and a deletion that empties leaves, which is not; as where they are planned."""
    graph, twin = twins(dtype, directed=directed, leaf_lower=0.08)
    for hub in (3, 5, 3):
        columns = np.full(100, hub, dtype), np.roll(1 + 2 * np.arange(100, dtype=dtype), 7)
        batch = tuple(map(graph.core.backend.asarray, columns))
        graph.core.out._num_untried = 1
        assert update_both(graph, twin, "insert_edges", batch) == SORTING + WRITING
        assert update_both(graph, twin, "delete_edges", batch) == PACKING


def test_what_takes_more_scratch_than_there_is_is_planned_by_the_host(twins, update_both):
    """What was found of a deletion need not be searched again."""
    graph, twin = twins(tuning={"min_scratch_leaves": 0, "scratch_slots_a_row": 0})
    batch = np.full(100, 3, np.int32), 1 + np.arange(100, dtype=np.int32)
    for update in ("insert_edges", "delete_edges"):
        graph.core.out._num_untried = 1
        started = update_both(graph, twin, update, batch)
        assert started.count("k_gather_windows") == 2
        assert started.count("k_find_present") == (update == "delete_edges")


@in_turn(
    case=[(np.int32, each) for each in (-1, -(2**31), 2**31 - 1, 2**31 - 2, 500)]
    + [(np.int64, each) for each in (-1, -(2**63), 2**63 - 1, 2**32 + 7, 500)],
    column=[0, 1],
)
def test_sorted_ids_that_are_no_vertices_have_the_host_look(twins, update_both, case, column):
    """The kernel that plans sees them; they are refused, or become vertices, as always."""
    dtype, stranger = case
    graph, twin = twins(dtype)
    before = host_arrays(graph.snapshot())
    batch = np.full(40, 3, dtype), np.arange(40, dtype=dtype)
    batch[column][17] = stranger
    graph.core.out._num_untried = 1
    if stranger == 500:
        update_both(graph, twin, "insert_edges", batch)
    else:
        refused = []
        for one in (graph, twin):
            with pytest.raises((InputError, LimitError)) as error:
                one.insert_edges(batch)
            refused.append(str(error.value))
        assert refused[0] == refused[1]
        assert same_arrays(host_arrays(graph.snapshot()), before)
        check_graph(graph)


@in_turn(directed=[True, False], on_duplicate=["replace", "add"])
def test_weighted_updates_are_written_before_the_host_looks_too(twins, update_both, directed, on_duplicate):
    """Once it has sorted them; edges that are there, new ones, and deleted ones that come back."""
    graph, twin = twins(directed=directed, weighted=True)
    rng = np.random.default_rng(4)
    there = np.divmod(40 * np.arange(20, dtype=np.int32), 400)
    for hub in (3, 5, 3):
        batch = np.r_[np.full(100, hub, np.int32), there[0]], np.r_[1 + 2 * np.arange(100, dtype=np.int32), there[1]]
        edges = *batch, rng.random(120).astype(np.float32)
        started = update_both(graph, twin, "insert_edges", edges, on_duplicate=on_duplicate)
        assert started == [*SORTING_ROWS, *WRITING]
        update_both(graph, twin, "delete_edges", batch)


def test_edges_that_come_back_count_against_the_root(twins, update_both):
    """With them all is merged; the new edges alone would fit in place."""
    graph, twin = twins(weighted=True)
    gone = np.divmod(240 * np.arange(200, dtype=np.int32), 400)  # few of each leaf, which none has packed
    update_both(graph, twin, "delete_edges", gone)
    most_new = graph.core.out.slots.room_at(graph.core.out._upper_limits[-1])
    added = np.divmod(np.arange(most_new - 100, dtype=np.int32), 9)
    batch = np.r_[gone[0], added[0]], np.r_[gone[1], 40 * added[1] + 1]
    num_edges = 1000 + len(batch[0])
    weights = np.arange(len(batch[0]), dtype=np.float32)
    assert "k_merge_all" in update_both(graph, twin, "insert_edges", (*batch, weights))
    assert graph.number_of_edges() == num_edges
    assert graph.edge_weights(batch).tolist() == weights.tolist()


def test_edges_come_back_in_a_window_of_more_leaves_than_a_block(twins, update_both):
    """Its edges are counted by blocks, in which they are already."""
    graph, twin = twins(weighted=True)
    gone = np.divmod(400 * np.arange(60, dtype=np.int32), 400)  # one of some twenty
    update_both(graph, twin, "delete_edges", gone)
    column = np.setdiff1d(np.arange(230, dtype=np.int32), 40 * np.arange(6))
    batch = np.r_[gone[0], np.full_like(column, 3)], np.r_[gone[1], column]
    weights = np.arange(len(batch[0]), dtype=np.float32)
    started = update_both(graph, twin, "insert_edges", (*batch, weights))
    assert started == [*SORTING_ROWS, *WRITING]
    assert graph.number_of_edges() == 1200 + len(column)
    assert graph.edge_weights(batch).tolist() == weights.tolist()


def test_a_window_of_more_leaves_than_a_block_is_packed(twins, update_both):
    """Most edges of its first half go; what is left is counted by blocks."""
    graph, twin = twins(leaf_lower=0.2, root_lower=0.3)
    edges = np.divmod(40 * np.arange(1200, dtype=np.int32), 400)
    gone, left = tuple(end[:620] for end in edges), tuple(end[620:] for end in edges)
    assert update_both(graph, twin, "delete_edges", gone) == PACKING
    assert graph.number_of_edges() == 580
    assert graph.has_edges(left).all()


@pytest.mark.parametrize("options", [{}, {"weighted": True}, {"directed": False}], ids=str)
def test_a_sorted_attempt_may_end_in_a_merge(twins, update_both, options):
    """Where the root would be too dense; the edges that it has sorted and found are merged."""
    graph, twin = twins(**options)
    if graph.is_weighted():
        update_both(graph, twin, "delete_edges", (np.arange(20, dtype=np.int32), np.zeros(20, np.int32)))
    columns = np.divmod(7 * np.arange(800, dtype=np.int32), 300)
    batch = np.r_[columns[0], columns[0][:9]], np.r_[columns[1], columns[1][:9]]
    graph.core.out._num_untried = 1
    started = update_both(graph, twin, "insert_edges", tuple(map(graph.core.backend.asarray, batch)))
    assert graph.core.out.slots.num_slots == twin.core.out.slots.num_slots
    sorting = SORTING_ROWS if graph.is_weighted() else SORTING
    weighing = ["k_update_weights"] if graph.is_weighted() else []
    wanted = [*sorting, *WRITING, "k_list_new", "k_merge_all", *weighing, "k_write_bits_and_rows"]
    by_size = {"k_merge_keys", "k_unpack_rows"}
    assert [name for name in started if name not in by_size] == [name for name in wanted if name not in by_size]


@pytest.mark.parametrize("weighted", [True, False])
def test_sorting_is_started_before_scratch_is_made(twins, update_both, launches, weighted, monkeypatch):
    """So that the GPU has something to do meanwhile."""
    take, started = SlotArrays.acquire_scratch, []

    def note(slots, backend, kind, *args):
        started.append((kind, launches.copy()))
        return take(slots, backend, kind, *args)

    monkeypatch.setattr(SlotArrays, "acquire_scratch", note)
    graph, twin = twins(weighted=weighted)
    batch = np.full(100, 3, np.int32), 1 + np.arange(100, dtype=np.int32)
    graph.core.out._num_untried = 1
    update_both(graph, twin, "insert_edges", (*batch, np.ones(100, np.float32)) if weighted else batch)
    sorting = SORTING_ROWS[:2] if weighted else SORTING[:2]
    assert next(before for kind, before in started if kind == "sorted insertion") == sorting


@pytest.mark.parametrize("weighted", [True, False])
def test_what_1e6_edges_are_sorted_and_written_in_is_kept(device, weighted):
    """Beside 50 million slots; without it the host makes some forty arrays for each insertion, while the GPU waits."""
    from dynstore.cuda.compiler import prepare
    from dynstore.stores.gpma_plus.cuda.plan_sorted import start_plan
    from dynstore.stores.gpma_plus.cuda.speculative import _most_scratch

    backend, num_slots, num_rows = get_backend(device), 50_000_000 // 32 * 32, 1_000_000
    if backend.on_gpu:
        pytest.skip("only sizes matter, and no memory is taken where nothing is written")
    slots = SlotArrays.allocate(backend, num_slots, 4_200_000, np.int32, np.float32 if weighted else None)
    src, dst, weights = (np.empty(num_rows, dtype) for dtype in (np.int32, np.int32, np.float32))
    batch = WeightedRows(backend, src, dst, weights, False, False) if weighted else RawEdges(backend, src, dst, False)
    batch._findings.rows = np.empty((2, num_rows), np.int64)
    batch._findings.keys = batch._findings.rows[0]
    kept = []
    for _ in range(2):
        plan = []
        prepare(lambda: plan.append(start_plan(backend, slots, batch, np.ones(22), "sorted insertion")))  # noqa: B023
        writing = plan[0].writing.with_scratch(backend, slots, _most_scratch(slots, num_rows))
        kept.append((plan[0], writing.scratch))
        assert not plan[0].writing.scratch.arrays  # so that what is too large is kept by nothing
    assert kept[0] == kept[1]


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_what_int32_does_not_number_is_found_a_key_at_a_time(twins, update_both, dtype, monkeypatch):
    """To the same slots, whether edges are new, there already, or come back."""
    graph, twin = twins(dtype)
    plan, there = GPMAPlusStore.plan_insert, np.divmod(40 * np.arange(30, dtype=dtype), 400)

    def plan_by_one(store, *args):
        with monkeypatch.context() as patch:
            patch.setattr(locate, "MAX_INT32", 0)
            patch.setattr(locate, "d_find_keys", None)
            return plan(store, *args)

    for offset in (1, 3, 1):
        batch = np.r_[np.full(90, 3, dtype), there[0]], np.r_[offset + 4 * np.arange(90, dtype=dtype), there[1]]
        graph.core.out._num_untried = 1
        monkeypatch.setattr(GPMAPlusStore, "plan_insert", plan_by_one)  # what the twin does
        assert "k_plan_update" in update_both(graph, twin, "insert_edges", batch)
        update_both(graph, twin, "delete_edges", (batch[0][:60], batch[1][:60]))
