"""GPMA+ by levels, the paper's own form: the same slots as in one pass, each kernel by the size of its windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from dynstore import DynamicGraph
from dynstore.backend import Backend, get_backend
from dynstore.batches.sorted import EdgeBatch
from dynstore.stores.table.slots import SlotArrays
from dynstore.testing.invariants import check_graph, host_arrays, live_edges
from dynstore.testing.machine import make_machine
from dynstore.testing.pair import same_arrays
from tests.conftest import DEVICES
from tests.crossed import crossed, thorough

TIGHT = {"leaf_upper": 1.0, "root_upper": 0.97, "build_density": 0.9, "root_lower": 0.5, "leaf_lower": 0.3}
LEAF = 32


def random_batch(rng: np.random.Generator, num_vertices: int, size: int) -> tuple[np.ndarray, ...]:
    return rng.integers(0, num_vertices, size), rng.integers(0, num_vertices, size), rng.random(size)


def assert_same(graphs: list[DynamicGraph]) -> None:
    """Assert that graphs have the same edges; on the host in the same slots (on CUDA one-pass shifts keys)."""
    snapshots = [graph.snapshot() for graph in graphs]
    assert live_edges(snapshots[0]) == live_edges(snapshots[1])
    if graphs[0].core.backend.family == "cpu":
        assert same_arrays(*map(host_arrays, snapshots))


@crossed(tight=[False, True], device=DEVICES, vertex_dtype=["int32", "int64"], weighted=[True, False])
def test_both_forms_of_gpma_plus_keep_the_same_edges(
    tight: bool, device: str, vertex_dtype: str, weighted: bool
) -> None:
    options: dict[str, Any] = TIGHT if tight else {}
    rng = np.random.default_rng(1)
    vertices, steps = (40, 5) if device == "cuda-sim" else (200, 30)
    width = 3 if weighted else 2
    first = random_batch(rng, vertices, 10 * vertices)[:width]
    graphs = [
        DynamicGraph.from_edges(first, device=device, merge_cost=0.0, vertex_dtype=vertex_dtype, store=store, **options)
        for store in ("gpma+", "gpma_level")
    ]
    for step in range(steps):
        batch, mode = random_batch(rng, vertices + step, vertices)[:width], ("replace", "add")[step % 2]
        reports = [graph.insert_edges(batch, on_duplicate=mode) for graph in graphs]
        assert reports[0] == reports[1]
        row = step % vertices
        gone = (np.r_[batch[0][::2], np.full(vertices, row)], np.r_[batch[1][::2], np.arange(vertices)])
        reports = [graph.delete_edges(gone) for graph in graphs]
        assert reports[0] == reports[1]
        assert_same(graphs)
    check_graph(graphs[1])


@pytest.mark.parametrize("device", DEVICES)
def test_rows_begin_at_the_edges_of_many_windows(device: str) -> None:
    """More windows of a level than a warp has lanes; every other row is new."""
    rows = np.repeat(2 * np.arange(450), 2)
    edges = rows, np.arange(900) % 2
    graph = DynamicGraph.from_edges(edges, device=device, merge_cost=0.0, store="gpma_level")
    new = 2 * np.arange(0, 449, 3) + 1
    assert graph.insert_edges((new, new)).path == "in-place"
    check_graph(graph)
    assert live_edges(graph.snapshot()) == live_edges(
        DynamicGraph.from_edges((np.r_[rows, new], np.r_[edges[1], new]), device="cpu").snapshot()
    )


@pytest.mark.skipif(DEVICES[-1] == "cpu", reason="counts launches")
@pytest.mark.parametrize(
    ("kind", "vertex_dtype", "weighted"),
    [
        ("warp", "int32", False),
        ("block", "int64", True),
        ("device", "int32", False),
        thorough("warp", "int64", True),
        thorough("block", "int32", False),
        thorough("device", "int64", True),
    ],
)
def test_a_hub_goes_into_windows_of_every_kind(
    kind: str, vertex_dtype: str, weighted: bool, launches: list[str]
) -> None:
    """Many keys for one leaf climb far: a warp, a block, or the whole device writes their window."""
    compiler = pytest.importorskip("dynstore.cuda.compiler")
    scale = 1 if compiler.SIMULATED else 8  # a block's windows are wider there
    count = {"warp": 5, "block": 30 * scale, "device": 400 * scale}[kind]
    src, dst = np.divmod(np.arange(3000 * scale), 30)
    options = {"device": DEVICES[-1], "merge_cost": 0.0, "build_density": 0.5, "weight_dtype": "float64"}
    graphs = [
        DynamicGraph(weighted=weighted, vertex_dtype=vertex_dtype, store=store, **options)
        for store in ("gpma_level", "gpma+")
    ]
    for graph in graphs:
        graph.insert_edges((src, dst, *([src / 7 + dst] * weighted)))
    launches.clear()
    rows, weights = np.r_[np.full(count, 47), 3], [np.arange(count + 1) / 3] * weighted
    for graph in graphs:
        assert graph.insert_edges((rows, np.r_[1000 + np.arange(count), 2000], *weights)).path == "in-place"
    assert launches.count("k_merge_by_warps") == 1
    assert launches.count("k_merge_by_blocks") == (kind == "block")
    assert launches.count("k_spread_items") == (kind == "device")
    assert_same(graphs)
    rows = np.repeat(np.arange(20, 40), 30)
    for graph in graphs:
        graph.delete_edges((rows, np.tile(np.arange(30), 20)))
    assert_same(graphs)
    check_graph(graphs[0])


@pytest.mark.parametrize("device", DEVICES)
def test_a_long_gap_of_ids_is_right_from_both_sides(device: str) -> None:
    far, width = (3000, 40) if device == "cuda-sim" else (1_500_000, 4000)
    graph = DynamicGraph.from_edges(
        (np.full(width, 5), np.arange(width)),
        device=device, store="gpma_level", merge_cost=0.0, build_density=0.5, max_vertices=2_000_000,
    )  # fmt: skip
    for row, count in ((far, width // 8), (far // 2, width // 8), (4, width // 8), (far - 1, 1)):
        assert graph.insert_edges((np.full(count, row), np.arange(count))).path == "in-place"
        check_graph(graph)
    graph.delete_edges((np.full(width // 8, far), np.arange(width // 8)))
    check_graph(graph)
    assert graph.core.backend.to_host(graph.successors(far // 2)).tolist() == list(range(width // 8))


def made_of(backend: Backend, counts: list[int]) -> tuple[SlotArrays, list[int]]:
    """Return leaves of one row that hold so many edges each, 100 columns apart, and each leaf's first column."""
    dtype = np.dtype("int32")
    slots = SlotArrays.without_edges(backend, len(counts) * LEAF, 1, dtype, None)
    dst, words, firsts = np.empty(slots.num_slots, np.int32), np.zeros(slots.valid.shape[0], np.uint32), []
    column = 100
    for leaf, count in enumerate(counts):
        firsts.append(column)
        element = ((np.arange(LEAF) + 1) * count - 1) // LEAF
        dst[leaf * LEAF : (leaf + 1) * LEAF] = column + 100 * element
        fresh = np.flatnonzero(np.diff(element, prepend=-1))
        words[leaf] = (np.uint64(1) << fresh.astype(np.uint64)).sum()
        column += 100 * count
    slots.dst[:], slots.valid[:] = backend.asarray(dst), backend.asarray(words)
    slots.num_edges = sum(counts)
    return slots, firsts


@pytest.mark.parametrize("device", DEVICES)
def test_the_example_of_the_paper(device: str) -> None:
    """Figure 6, each entry of its array standing for eight: leaf 0 takes its keys, two groups climb two levels."""
    backend = get_backend(device)
    slots, firsts = made_of(backend, [8, 24, 16, 16, 8, 8, 24, 24])
    step = np.arange(1, 9)
    columns = np.r_[np.arange(1, 17), *(firsts[leaf] + step for leaf in (1, 6, 7))].astype(np.int32)
    batch = EdgeBatch(backend.asarray(np.zeros_like(columns)), backend.asarray(columns), None)
    kernels = backend.kernels("dynstore.stores.papers.gpma_level", "update")
    limits = np.full(4, 0.75)
    located, plan = kernels.plan_insert(backend, slots, batch, limits)
    assert located.found == 0
    if backend.family == "cpu":
        windows = plan.bounds.tolist()
        assert windows == [[0, 1, 0, 16], [0, 4, 16, 24], [4, 8, 24, 40]]
        assert plan.ends.tolist() == [1, 1, 3, 3]
    else:
        host = backend.to_host
        seen = [(level.height, host(level.first).tolist(), host(level.low).tolist()) for level in plan.levels]
        assert seen == [(0, [0], [0]), (2, [0, 4], [0, 8])]
    kernels.insert_in_place(backend, slots, batch, located, plan, False)
    words = backend.to_host(slots.valid)[:8]
    counts = [int(word).bit_count() for word in words]
    assert (sum(counts[:4]), sum(counts[4:])) == (88, 80)
    assert (max(counts[:4]) - min(counts[:4]), max(counts[4:]) - min(counts[4:])) == (0, 0)


def test_any_sequence_of_operations_by_level_on_the_host() -> None:
    run_state_machine_as_test(make_machine("gpma_level", "cpu", merge_cost=0.0))


def test_short_sequences_by_level_on_the_other_device() -> None:
    machine = make_machine("gpma_level", DEVICES[-1], most_rows=6, most_id=40, merge_cost=0.0, **TIGHT)
    run_state_machine_as_test(machine, settings=settings(max_examples=3, stateful_step_count=8))
