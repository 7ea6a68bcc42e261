"""The bulk build of ``gpma+`` on CUDA: slot for slot what the host writes, without columns between keys and slots."""

from __future__ import annotations

import numpy as np
import pytest

from dynstore import DynamicGraph
from dynstore.backend import get_backend
from dynstore.batches.unsorted import RawEdges
from dynstore.errors import LimitError
from dynstore.testing.faults import for_every_allocation, for_every_kernel
from dynstore.testing.invariants import check_graph
from dynstore.testing.pair import Pair

DENSE = {"build_density": 0.99, "root_upper": 1.0, "leaf_upper": 1.0}
SORTING = ["k_pack_keys", "k_merge_keys"]
THIN = {"build_density": 0.06, "root_lower": 0.05, "leaf_lower": 0.05}


def slots_of(store):
    slots = store.slots
    columns = (slots.src, slots.dst, slots.valid, slots.offsets)
    return [store.backend.to_host(column).tolist() for column in columns]


def check_build(device, src, dst, **options):
    """Build on both devices and compare the reports and all slots."""
    twin = DynamicGraph(device="cpu", **options)
    graph = DynamicGraph(device=device, **options)
    reports = [one.insert_edges((np.asarray(src, np.int32), np.asarray(dst, np.int32))) for one in (graph, twin)]
    assert reports[0] == reports[1]
    assert slots_of(graph.core.out) == slots_of(twin.core.out)
    check_graph(graph)
    return graph


@pytest.mark.parametrize("options", [{}, DENSE, THIN, {"capacity": 700}], ids=["usual", "dense", "thin", "reserved"])
@pytest.mark.parametrize("size", [1, 2, 31, 32, 33, 64, 65, 127, 128, 129, 500])
def test_distinct_edges(device, size, options):
    """Rows of several edges, rows of one, and rows of none between and around them."""
    rng = np.random.default_rng(size)
    keys = rng.permutation(rng.choice(60 * 60, size, replace=False))
    check_build(device, 3 + keys // 60, 2 + keys % 60, **options)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("size", [1, 33, 65, 129, 800])
def test_repeated_edges_loops_and_mirror_images(device, size, directed):
    rng = np.random.default_rng(size)
    src, dst = rng.integers(0, 20, (2, size))
    graph = check_build(device, np.r_[src, src[:3], 5], np.r_[dst, dst[:3], 5], directed=directed)
    pairs = set(zip(np.r_[src, 5].tolist(), np.r_[dst, 5].tolist(), strict=True))
    wanted = pairs if directed else {(min(pair), max(pair)) for pair in pairs}
    assert graph.number_of_edges() == len(wanted)


def test_one_vertex_and_one_hub(device):
    check_build(device, [0], [0])
    check_build(device, [0] * 40, [0] * 40, directed=False)
    check_build(device, [7] * 300, np.arange(300))
    check_build(device, np.arange(300), [7] * 300, directed=False)


@pytest.mark.parametrize("gap", [31, 32, 33, 34, 63, 64, 65, 200])
def test_ids_apart(device, gap):
    """Ranges of empty rows about as long as a warp, and those too long for one (64 and more in the simulator)."""
    rows = 5 + gap * np.arange(40)
    check_build(device, np.r_[rows, rows[::3]], np.r_[np.arange(40), np.arange(14)])
    check_build(device, [gap, 0, 3 * gap], [5 * gap, gap, 9])


def test_a_build_after_vertices_and_after_edges_that_went(device):
    graph, twin = DynamicGraph(device=device), DynamicGraph(device="cpu")
    rng = np.random.default_rng(2)
    edges, others = rng.integers(0, 30, (2, 200)), rng.integers(0, 30, (2, 90))
    for one in (graph, twin):
        one.insert_vertices([300])
        one.insert_edges(tuple(edges))
        one.delete_edges(tuple(edges))
        one.insert_edges(tuple(others))
    assert slots_of(graph.core.out) == slots_of(twin.core.out)
    check_graph(graph)


@pytest.mark.parametrize("directed", [True, False])
def test_both_orientations_and_what_changed(device, directed):
    """Whoever asks for the batch's edges after the build gets each once."""
    graph, twin = DynamicGraph(device=device, directed=directed), DynamicGraph(device="cpu", directed=directed)
    src, dst = np.random.default_rng(3).integers(0, 25, (2, 300)).astype(np.int32)
    changes = []
    for one in (graph, twin):
        one.snapshot(transposed=True)
        log = one.core.follow()
        one.insert_edges((src, dst))
        delta = one.core.net_delta(log)
        changes.append([one.core.backend.to_host(column).tolist() for column in (delta.src, delta.dst, delta.slots)])
    assert changes[0] == changes[1]
    assert slots_of(graph.core.out) == slots_of(twin.core.out)
    assert slots_of(graph.core.oriented(True)) == slots_of(twin.core.oriented(True))
    check_graph(graph)


@pytest.mark.parametrize("repeated", [False, True])
def test_a_build_is_three_kernels(device, launches, repeated):
    """Keys and bounds of the ids, each key once, slots; beside them the sort, the array module's if there are many.

    Slots for all rows are written as soon as the device has found these to be distinct; else there is a second try.
    """
    rows = np.arange(100, dtype=np.int32)
    DynamicGraph.from_edges((np.r_[rows, rows[:repeated]], np.r_[rows, rows[:repeated]]), device=device)
    assert launches == [*SORTING, "k_keep_runs", "k_spread_keys", *["k_spread_keys"] * repeated]


def test_a_batch_counts_its_keys_before_it_splits_them(device, launches):
    backend = get_backend(device)
    src, dst = (backend.asarray(np.array(ids, np.int32)) for ids in ([3, 1, 3, 2, 1], [3, 2, 3, 1, 2]))
    batch = RawEdges(backend, src, dst, True)
    assert batch.count_edges() == 3
    assert batch.count_loops() == 1
    assert batch.known() is batch
    assert backend.to_host(batch.distinct_keys()).tolist() == [1 << 32 | 2, 2 << 32 | 1, 3 << 32 | 3]
    assert launches == [*SORTING, "k_keep_runs"]
    edges = batch.materialized()
    assert edges is batch.known()
    assert backend.to_host(edges.src).tolist() == [1, 2, 3]
    assert backend.to_host(edges.dst).tolist() == [2, 1, 3]
    assert (len(edges), edges.num_loops) == (3, 1)


@pytest.mark.parametrize("size", [0, 1, 2, 32, 33, 95, 96, 97, 192, 193, 385, 1200])
@pytest.mark.parametrize("most", [1, 3, 60, 10**6])
def test_keys_are_kept_once(device, size, most):
    """Runs inside and across the shares of blocks and the tiles of each; where all are distinct, the very array."""
    from dynstore.batches.cuda import unique

    backend = get_backend(device)
    halves = np.sort(np.random.default_rng(size).integers(0, most, size))
    halves = np.unique(halves) if most == 10**6 else halves
    values = (halves << 32) | np.where(halves % 3 == 0, halves, halves + 1)
    keys = backend.asarray(values)
    totals, finish = unique.start_keeping(backend, keys)
    kept, num_loops = finish()
    assert size == 0 or backend.to_host(totals)[unique.RUNS] == kept.shape[0]
    wanted = np.unique(values)
    assert backend.to_host(kept).tolist() == wanted.tolist()
    assert num_loops == np.count_nonzero(wanted >> 32 == wanted & 0xFFFFFFFF)
    assert (kept is keys) == (wanted.size == values.size)
    first, second, loops = unique.keep_pairs(backend, keys)
    assert backend.to_host(first).tolist() == (wanted >> 32).tolist()
    assert backend.to_host(second).tolist() == (wanted & 0xFFFFFFFF).tolist()
    assert loops == num_loops


def test_divisions_are_exact_beyond_what_a_float_holds(device):
    from dynstore.cuda.compiler import cuda, kernel
    from dynstore.stores.pma.cuda.redistribute import d_divide

    @kernel
    def k_divide(dividends, divisors, quotients):
        i = cuda.grid(1)
        if i < dividends.shape[0]:
            quotients[i] = d_divide(dividends[i], divisors[i])

    backend, rng = get_backend(device), np.random.default_rng(4)
    divisors = rng.integers(1 << 29, 1 << 31, 64)
    dividends = divisors * rng.integers(1 << 29, 1 << 31, 64) + np.resize([-1, 0, 1], 64)
    dividends[:6], divisors[:6] = [0, 1, 6, 7, 8, 2**62], [1, 1, 7, 7, 7, 1 << 31]
    quotients = backend.empty(64, np.int64)
    k_divide.launch(64, backend.asarray(dividends), backend.asarray(divisors), quotients)
    assert backend.to_host(quotients).tolist() == (dividends // divisors).tolist()


def test_a_build_of_more_rows_than_there_can_be_slots(device, launches, monkeypatch):
    """Its edges, of which some are named twice, are few enough; those of the next one are not."""
    from dynstore.stores.gpma_plus.store import GPMAPlusStore

    def check(store, num_slots):
        if num_slots > 160:
            raise LimitError(f"{num_slots} slots")

    monkeypatch.setattr(GPMAPlusStore, "_check_num_slots", check)
    rows = np.arange(100, dtype=np.int32)
    graph = DynamicGraph(device=device)
    assert graph.insert_edges((np.r_[rows, rows[:20]], np.r_[rows, rows[:20]])).duplicates == 20
    assert launches == [*SORTING, "k_keep_runs", "k_spread_keys"]
    check_graph(graph)
    with pytest.raises(LimitError, match="192 slots"):
        DynamicGraph(device=device).insert_edges((np.r_[rows, rows[:20]], np.r_[rows, rows[:20] + 9]))


@pytest.mark.parametrize("repeated", [False, True])
def test_a_build_that_fails_leaves_the_graph_as_it_was(device, monkeypatch, repeated):
    """Whichever allocation fails, or kernel that is to be loaded, and where slots are reserved twice."""
    rows = np.arange(90, dtype=np.int32)
    for check in (for_every_allocation, for_every_kernel):
        pair = Pair(device=device, transposed=True)
        batch = np.r_[rows, rows[: 30 * repeated]], np.r_[rows, rows[: 30 * repeated]]
        assert check(monkeypatch, pair, "insert_edges", batch) > 0
