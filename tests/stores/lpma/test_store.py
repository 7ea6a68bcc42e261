"""What is LPMA's own: the mapping, growth without moving, strategies, first keys, what is read and what launched."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from hypothesis.stateful import run_state_machine_as_test

from dynstore import DynamicGraph
from dynstore.backend import get_backend
from dynstore.errors import InputError
from dynstore.stores.lpma.levels import END, FIRST_DST, FIRST_SRC, MEMORY_BASE, VALID, Levels
from dynstore.stores.lpma.store import Chooser
from dynstore.testing.faults import for_every_allocation
from dynstore.testing.invariants import check_graph
from dynstore.testing.machine import make_machine
from dynstore.testing.pair import Pair

SEGMENT = 32
STRATEGIES = ["bottom-up", "top-down", "hybrid"]
# Limits so close to each other that windows are large and levels come and go often.
DENSE = {"leaf_upper": 1.0, "root_upper": 1.0, "build_density": 0.95, "root_lower": 0.47, "leaf_lower": 0.4}
ON_GPU = "cuda" in os.environ.get("DYNSTORE_TEST_DEVICES", "")


def make(edges: Any, **options: Any) -> DynamicGraph:
    return DynamicGraph.from_edges(edges, **{"device": "cpu", "store": "lpma", **options})


def random_batch(rng: np.random.Generator, num_vertices: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    return rng.integers(0, num_vertices, size), rng.integers(0, num_vertices, size)


def levels_of(graph: DynamicGraph) -> Levels:
    store: Any = graph.core.out
    return store._levels


def walk(depth: int) -> list[int]:
    """The head, then the levels' segments as a binary tree in order: physical numbers."""

    def below(p: int) -> list[int]:
        return [] if p >= 1 << depth else [*below(2 * p), p, *below(2 * p + 1)]

    return [0, *below(1)]


def columns(graph: DynamicGraph) -> dict[int, np.ndarray]:
    """Columns of a host graph's levels in physical order, segments in the first axis."""
    levels = levels_of(graph)
    parts: dict[int, list[np.ndarray]] = {column: [] for column in range(7)}
    for level, block in enumerate(levels.blocks):
        num_segments = max(1, (1 << level) >> 1)
        for column, part in enumerate(levels._parts(0, num_segments)):
            dtype = np.uint32 if column in (0, 6) else levels.weight_dtype if column == 3 else levels.vertex_dtype
            data = block[part.address : part.address + part.num_items * part.item_size].view(dtype)
            parts[column].append(data.reshape(-1, part.per_segment))
    return {column: np.concatenate(arrays) for column, arrays in parts.items()}


# ---------------------------------------------------------------------- the mapping


@pytest.mark.parametrize("depth", range(8))
def test_the_mapping_is_the_walk_in_order(depth: int) -> None:
    from dynstore.stores.lpma.cpu.mapping import in_order_of, physical_of

    order = [physical_of(i, depth) for i in range(1 << depth)]
    assert order == walk(depth)
    assert [in_order_of(p, depth) for p in order] == list(range(1 << depth))


@pytest.mark.parametrize("depth", range(8))
def test_the_mapping_is_the_walk_in_order_on_cuda(depth: int) -> None:
    pytest.importorskip("dynstore.cuda.compiler")
    from tests.stores.lpma.mapping_check import k_map_segments

    backend = get_backend("cuda" if ON_GPU else "cuda-sim")
    numbers = backend.zeros((2, 1 << depth), np.int64)
    k_map_segments.launch(1 << depth, depth, numbers)
    physical, in_order = backend.to_host(numbers)
    assert physical.tolist() == walk(depth)
    assert in_order.tolist() == list(range(1 << depth))


def test_the_papers_example_of_eight_segments() -> None:
    """s0 s4 s2 s5 s1 s6 s3 s7: what the paper's formula (1) as printed does not give."""
    assert walk(3) == [0, 4, 2, 5, 1, 6, 3, 7]


def test_starts_are_found_on_the_host_as_by_the_kernels() -> None:
    rng = np.random.default_rng(3)
    graph = make(random_batch(rng, 40, 900))
    levels = levels_of(graph)
    offsets = graph.snapshot().offsets
    assert [levels.in_order_slot(int(start)) for start in levels.starts] == offsets.tolist()
    assert levels.starts[-1] == END


# ---------------------------------------------------------------------- growth


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_growth_appends_one_level_and_moves_no_segment_that_got_no_key(strategy: str) -> None:
    rng = np.random.default_rng(1)
    graph = make(random_batch(rng, 1000, 4000), strategy=strategy)
    grown = 0
    while grown < 2:
        before, blocks = columns(graph), levels_of(graph).blocks
        starts = levels_of(graph).starts.copy()
        moved = graph.statistics()["segments_moved"]
        batch = random_batch(rng, 1000, 60)
        report = graph.insert_edges(batch)
        after = columns(graph)
        moved = graph.statistics()["segments_moved"] - moved
        old = len(before[0])
        same = np.all([np.all(before[column] == after[column][:old], axis=1) for column in (0, 1, 2, 4, 5)], axis=0)
        assert np.count_nonzero(~same) <= moved <= 3 * 60
        if report.grown:
            grown += 1
            assert report.path == "in-place"
            assert len(after[0]) == 2 * old
            assert all(a is b for a, b in zip(levels_of(graph).blocks, blocks, strict=False))
            new_starts = levels_of(graph).starts
            assert np.count_nonzero(starts != new_starts) < 3000 / 4, "starts of rows that nothing touched stay"
        check_graph(graph)
    counts = graph.statistics()
    assert counts["growths"] == 2
    assert counts["segments_left_by_growth"] > 1.5 * old, "a growth by doubling moves them all"
    assert counts["rebuilds"] == 1, "the build"


def test_segments_of_a_new_level_have_the_last_key_before_them_and_no_slots_yet() -> None:
    rng = np.random.default_rng(2)
    graph = make(random_batch(rng, 500, 3000))
    while not graph.insert_edges(random_batch(rng, 500, 20)).grown:
        pass
    table, depth = columns(graph), levels_of(graph).depth
    order = walk(depth)
    unwritten = [i for i, p in enumerate(order) if table[FIRST_SRC][p, 0] < 0]
    assert len(unwritten) > (1 << depth) / 4
    view = graph.snapshot()
    for i in unwritten:
        p = order[i]
        assert table[VALID][p, 0] == 0
        key = -1 - table[FIRST_SRC][p, 0], table[FIRST_DST][p, 0]
        last = i * SEGMENT - 1
        assert key >= (view.sources[last], view.indices[last])
        assert set(view.indices[last + 1 : last + 33].tolist()) == {key[1]}


def test_keys_at_the_end_of_a_full_segment_go_into_the_new_one_behind_it() -> None:
    """After a growth each segment has an empty one behind it: a run of rising keys moves nothing at all."""
    graph = make((np.zeros(600, np.int64), np.arange(600)), strategy="bottom-up")
    for start in range(600, 4000, 25):
        graph.insert_edges((np.zeros(25, np.int64), np.arange(start, start + 25)))
    check_graph(graph)
    assert graph.successors(0).tolist() == list(range(4000))
    assert graph.statistics()["growths"] >= 2


def test_a_batch_may_take_several_levels_at_once() -> None:
    rng = np.random.default_rng(4)
    pair = Pair(store="lpma", device="cpu", weighted=True)
    pair.insert(*random_batch(rng, 20, 30), rng.random(30).astype(np.float32))
    depth = levels_of(pair.graph).depth
    report = pair.insert(*random_batch(rng, 60, 2000), rng.random(2000).astype(np.float32))
    assert report.grown
    assert levels_of(pair.graph).depth >= depth + 3
    assert pair.graph.statistics()["rebuilds"] == 1
    pair.check_queries()


def test_memory_that_runs_out_while_it_grows_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    pair = Pair(store="lpma", device="cpu", weighted=True, transposed=True)
    pair.insert(*random_batch(rng, 30, 300), np.ones(300))
    src, dst = random_batch(rng, 60, 900)
    assert for_every_allocation(monkeypatch, pair, "insert_edges", (src, dst, np.ones(900))) > 5


def test_shrinking_gives_the_levels_back() -> None:
    rng = np.random.default_rng(6)
    graph = make(random_batch(rng, 300, 9000))
    depth, usage = levels_of(graph).depth, graph.memory_usage()["src"]
    table = graph.edge_table()
    graph.delete_edges(table.iloc[: int(len(table) * 0.9)])
    assert levels_of(graph).depth <= depth - 2
    assert graph.memory_usage()["src"] <= usage / 4
    check_graph(graph)


def test_reserved_capacity_neither_grows_nor_shrinks() -> None:
    graph = DynamicGraph(device="cpu", store="lpma", capacity=20_000)
    depth = levels_of(graph).depth
    rng = np.random.default_rng(7)
    batches = [random_batch(rng, 2000, 5000) for _ in range(4)]
    assert not any(graph.insert_edges(batch).grown for batch in batches)
    for batch in batches:
        graph.delete_edges(batch)
    assert levels_of(graph).depth == depth
    check_graph(graph)


# ---------------------------------------------------------------------- strategies


def test_one_limit_for_all_layers_gives_the_same_windows_up_and_down() -> None:
    """The paper's two strategies choose alike where the limit does not fall towards the root."""
    rng = np.random.default_rng(8)
    flat = {"leaf_upper": 0.8, "root_upper": 0.8}
    first = random_batch(rng, 800, 9000)
    graphs = [make(first, strategy=strategy, **flat) for strategy in STRATEGIES[:2]]
    for _ in range(40):
        batch = random_batch(rng, 800, 200)
        reports = [graph.insert_edges(batch) for graph in graphs]
        assert reports[0] == reports[1]
        up, down = (graph.statistics() for graph in graphs)
        assert (up["windows"], up["segments_moved"]) == (down["windows"], down["segments_moved"])
        assert np.array_equal(graphs[0].snapshot().indices, graphs[1].snapshot().indices)
    assert up["segments_saved"] > 0
    assert down["segments_saved"] == 0
    assert (up["bottom_up"], down["top_down"]) == (40, 40)


def test_what_bottom_up_saves_is_what_layer_by_layer_would_move_twice() -> None:
    """Leaf 0 is full, so the pair is merged, with what leaf 1 got; layer by layer leaf 1 would be written before."""
    graph = make((np.zeros(60, np.int64), 100 * np.arange(60)), strategy="bottom-up")
    assert graph.snapshot().num_slots == 4 * SEGMENT
    leaf = graph.snapshot().indices[SEGMENT]
    graph.insert_edges((np.zeros(14, np.int64), 1 + np.arange(14)))
    moved = graph.statistics()["segments_moved"]
    graph.insert_edges((np.zeros(2, np.int64), [50, int(leaf) + 50]))
    counts = graph.statistics()
    assert counts["segments_moved"] - moved == 2
    assert counts["segments_saved"] == 1


def test_no_window_gets_denser_than_its_limit() -> None:
    rng = np.random.default_rng(9)
    for strategy in STRATEGIES[:2]:
        graph = make(random_batch(rng, 2000, 20_000), strategy=strategy)
        for _ in range(20):
            graph.insert_edges(random_batch(rng, 2000, 300))
            counts = graph.snapshot().mask().reshape(-1, SEGMENT).sum(axis=1)
            assert counts.max() <= 0.92 * SEGMENT
            assert counts.sum() <= 0.8 * len(counts) * SEGMENT


def test_hybrid_settles_on_what_is_faster() -> None:
    chooser = Chooser("hybrid", 0.6)
    assert chooser.choose(0.5) == (False, False)
    assert chooser.choose(0.6) == (False, False)
    seen = []
    for _ in range(6):
        top_down, timed = chooser.choose(0.62)
        assert timed
        seen.append(top_down)
        chooser.note(top_down, 3.0 if top_down else 2.0, 0.62)
    assert sorted(seen) == [False, False, False, True, True, True]
    assert chooser.choose(0.64) == (False, False), "bottom-up was faster: it goes on until the array is denser"
    assert chooser.threshold == pytest.approx(0.67)
    for _ in range(6):
        top_down, timed = chooser.choose(0.7)
        chooser.note(top_down, 1.0 if top_down else 2.0, 0.7)
    assert chooser.choose(0.75) == (True, False)
    assert chooser.choose(0.3) == (True, False), "the decision holds until the array grows"
    chooser.begin_cycle()
    assert chooser.choose(0.5) == (False, False)
    assert chooser.threshold == 0.6


@pytest.mark.parametrize("device", ["cpu", "cuda" if ON_GPU else "cuda-sim"])
def test_hybrid_times_both_in_a_dense_array(device: str) -> None:
    graph = make((np.zeros(300, np.int64), np.arange(300)), device=device, threshold=0.0)
    for step in range(8):
        graph.insert_edges((np.zeros(4, np.int64), 300 + 4 * step + np.arange(4)))
    counts = graph.statistics()
    assert counts["bottom_up"] >= 3
    assert counts["top_down"] >= 3
    check_graph(graph)


@pytest.mark.skipif(ON_GPU, reason="the simulator and CUDA exclude each other in one process")
@pytest.mark.parametrize("strategy", STRATEGIES[:2])
def test_both_devices_choose_the_same_windows(strategy: str) -> None:
    rng = np.random.default_rng(11)
    first = random_batch(rng, 30, 250)
    graphs = [make((*first, np.arange(250.0)), device=device, strategy=strategy) for device in ("cpu", "cuda-sim")]
    assert np.array_equal(graphs[0].snapshot().indices, graphs[1].snapshot().indices)
    for step in range(8):
        batch = random_batch(rng, 30, 80)
        gone = random_batch(rng, 30, 20 if step < 6 else 900)
        for graph in graphs:
            graph.insert_edges((*batch, np.arange(80.0)))
            graph.delete_edges(gone)
        views = [graph.snapshot() for graph in graphs]
        for name in ("indices", "sources", "valid", "offsets"):
            assert np.array_equal(getattr(views[0], name), getattr(views[1], name)), (step, name)
        assert graphs[0].statistics() == graphs[1].statistics()
    assert graphs[0].statistics()["growths"] >= 1
    assert graphs[0].statistics()["rebuilds"] >= 2


@pytest.mark.parametrize("strategy", STRATEGIES[:2])
def test_any_sequence_of_operations_in_a_dense_array(strategy: str) -> None:
    run_state_machine_as_test(make_machine("lpma", "cpu", strategy=strategy, **DENSE))


@pytest.mark.parametrize("device", ["cpu", "cuda" if ON_GPU else "cuda-sim"])
def test_a_root_may_be_as_dense_as_its_limit(device: str) -> None:
    """One edge more, and a level is appended."""
    limits = {"leaf_upper": 1.0, "root_upper": 0.75, "build_density": 0.5, "root_lower": 0.25}
    graph = make((np.zeros(32, int), np.arange(32)), device=device, **limits)
    for added, num_slots in ((16, 2 * SEGMENT), (1, 4 * SEGMENT)):
        columns = np.ones(added, int), np.arange(added) + graph.number_of_edges()
        graph.insert_edges(columns)
        assert graph.snapshot().num_slots == num_slots
        assert graph.has_edges(columns).all()
        check_graph(graph)
    assert graph.number_of_edges() == 49


# ---------------------------------------------------------------------- the snapshot, queries


@pytest.mark.parametrize("device", ["cpu", "cuda" if ON_GPU else "cuda-sim"])
def test_a_snapshot_copies_only_segments_that_changed(device: str) -> None:
    graph = make((np.arange(600) // 20, np.arange(600) % 20 * 5), device=device)
    host = graph.core.backend.to_host
    view = graph.snapshot()
    kept, marked = view.indices, np.array(host(view.indices))
    kept[:] = -7  # what is not written again keeps this
    report = graph.insert_edges(([3, 17], [1, 2]))
    assert report.inserted == 2
    view = graph.snapshot()
    assert view.indices is kept
    now = np.array(host(kept))
    assert 2 * SEGMENT <= np.count_nonzero(now != -7) <= 8 * SEGMENT
    kept[:] = graph.core.backend.asarray(np.where(now == -7, marked, now))
    check_graph(graph)


def test_a_row_is_read_from_the_levels_without_a_snapshot() -> None:
    rng = np.random.default_rng(12)
    src, dst = random_batch(rng, 50, 4000)
    graph = make((src, dst))
    graph.delete_edges((src[:1000], dst[:1000]))
    held = set(zip(src.tolist(), dst.tolist(), strict=True)) - set(
        zip(src[:1000].tolist(), dst[:1000].tolist(), strict=True)
    )
    for vertex in range(50):
        assert graph.successors(vertex).tolist() == sorted(v for u, v in held if u == vertex)
    assert graph.has_edges((src, dst)).sum() == sum(e in held for e in zip(src.tolist(), dst.tolist(), strict=True))
    assert graph.memory_usage()["snapshot"] == 0


def test_updates_that_are_followed_make_no_snapshot() -> None:
    """It could run out of memory when the update has been written already."""
    graph = make(([0, 1], [1, 2], [1.0, 2.0]))
    log = graph.core.follow()
    rng = np.random.default_rng(15)
    assert graph.insert_edges((*random_batch(rng, 20, 200), np.ones(200))).grown
    graph.delete_edges(([0], [1]))
    assert log.num_edges > 0
    assert graph.memory_usage()["snapshot"] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategy": "sideways"}, "unknown strategy 'sideways'; known: 'bottom-up', 'hybrid', 'top-down'"),
        ({"leaf_upper": 1.5}, "leaf_upper is 1.5; wanted a number between 0.0 and 1.0"),
        ({"root_lower": 0.4}, "wanted leaf_lower <= root_lower <= build_density / 2"),
        ({"segment": 16}, "unknown parameter 'segment'; known: 'directed', "),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        DynamicGraph(device="cpu", store="lpma", **options)
    assert message in str(caught.value)


# ---------------------------------------------------------------------- CUDA


def test_all_memory_is_handed_to_a_launch_as_an_array() -> None:
    pytest.importorskip("dynstore.cuda.compiler")
    from dynstore.cuda.launch import describe_arguments
    from dynstore.stores.lpma.cuda.layout import AllMemory

    kinds, values = describe_arguments((AllMemory(np.dtype(np.int32)), np.int64(3)))
    assert kinds == ("i", np.dtype(np.int64))
    assert values == [0, 0, (1 << 47) // 4, 4, MEMORY_BASE, (1 << 47) // 4, 4, 3]


def test_launches_do_not_depend_on_the_batch(device: str, launches: list[str]) -> None:
    """At most 9 kernels whatever the batch: 3 to sort it, 1 to plan, 5 to write; one more where the array grows."""
    rng = np.random.default_rng(14)
    graph = make(random_batch(rng, 60, 250), device=device, strategy="bottom-up")
    grown = 0
    for size in (2, 40, 200):
        launches.clear()
        report = graph.insert_edges((rng.integers(60, 70, size), rng.integers(0, 60, size)))
        assert report.path == "in-place"
        assert len(launches) == len(set(launches)) <= 9 + report.grown
        grown += report.grown
    assert grown
