"""Large batches on CUDA are searched in the order of the slots: how they are ordered, and that it changes no slot."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dynstore import DynamicGraph
from dynstore.batches.unsorted import RawEdges
from dynstore.errors import InputError, LimitError
from dynstore.testing.invariants import check_graph, host_arrays
from dynstore.testing.pair import same_arrays
from tests.crossed import crossed
from tests.stores.planned import plan_updates
from tests.stores.tuned import PARTITIONED, retune

NUM_VERTICES = 50


@pytest.fixture
def narrow_ranges(partition, monkeypatch):
    """Let ranges be of fewer slots than a piece, so that a small graph has many of them."""
    monkeypatch.setattr(partition, "TILE_BITS", 0)


@pytest.fixture
def grid(partition):
    """How many rows the threads of all blocks keep in registers; some more on a GPU that holds fewer blocks."""
    from dynstore.cuda import compiler

    blocks = compiler.MAX_RESIDENT_BLOCKS if compiler.SIMULATED else 132
    return partition.ROWS_EACH * partition.BLOCK * blocks


def make_graph(device, dtype, directed=True):
    """A graph with an empty row in three, the last one, too."""
    columns = np.arange(0, NUM_VERTICES * 40, 7, dtype=dtype)
    src = columns // 40
    edges = src[src % 3 != 1], (columns % 40)[src % 3 != 1]
    graph = DynamicGraph.from_edges(
        edges, device=device, directed=directed, vertex_dtype=dtype, merge_cost=0.0, tuning=PARTITIONED
    )
    graph.insert_vertices(np.array([NUM_VERTICES - 1], dtype))
    return graph


def check_order(partition, graph, src, dst, mirrored):
    """Order rows, and compare: all are there, with ids that are no vertices replaced, and their ranges ascend."""
    backend, slots = graph.core.backend, graph.core.out.slots
    batch = RawEdges(backend, backend.asarray(src), backend.asarray(dst), mirrored)
    ordered = partition.order_batch(backend, slots, batch)
    ordered_src, ordered_dst = (backend.to_host(column[: batch.num_rows]) for column in (ordered.src, ordered.dst))
    if mirrored:
        src, dst = np.r_[src, dst], np.r_[dst, src]
    known = [np.where((ids >= 0) & (ids < slots.num_vertices), ids, -1) for ids in (src, dst)]
    assert ordered_src.dtype == ordered_dst.dtype == np.int32
    assert int(ordered.control[partition.INVALID_ID_ROWS]) == (min(ids.min() for ids in known) < 0)
    assert sorted(zip(ordered_src, ordered_dst, strict=True)) == sorted(zip(*known, strict=True))
    offsets, slot_dst = (backend.to_host(array).astype(np.int64) for array in (slots.offsets, slots.dst))
    rows = np.maximum(ordered_src, 0)
    bounds = [
        low + np.searchsorted(slot_dst[low:high], column)
        for low, high, column in zip(offsets[rows], offsets[rows + 1], ordered_dst, strict=True)
    ]
    ranges = np.maximum(np.array(bounds, np.int64) - 1, 0) >> ordered.shift
    assert (np.diff(ranges) >= 0).all()
    assert_array_equal(
        backend.to_host(ordered.starts)[: partition.RANGES + 1],
        np.searchsorted(ranges, np.arange(partition.RANGES + 1)),
    )
    return ranges


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_rows_are_ordered_by_where_they_belong(device, partition, narrow_ranges, grid, dtype, mirrored):
    """Of a few and of many rows; scratch is used again."""
    graph = make_graph(device, dtype)
    rng = np.random.default_rng(5)
    for num_rows in (1, 2, 31, 33, 97, grid - 1, grid, grid + 1, 2 * grid + 40, 3 * grid, 1, grid):
        src, dst = rng.integers(0, NUM_VERTICES, (2, num_rows), dtype=dtype)
        ranges = check_order(partition, graph, src, dst, mirrored)
        assert np.unique(ranges).size > min(num_rows, 100) // 3


def test_scratch_is_left_clear(device, partition, grid, monkeypatch):
    """So that the host fills it with zeros once, whatever rows there are."""
    from dynstore.backend import Arena

    graph, filled, clear = make_graph(device, np.int32), [], Arena.clear
    monkeypatch.setattr("dynstore.scratch.MAX_SHARE", 1 << 30)
    monkeypatch.setattr(Arena, "clear", lambda self: (filled.append(not self.is_clear), clear(self)))
    rng = np.random.default_rng(4)
    for num_rows, mirrored in ((grid + 8, False), (grid + 8, False), (grid // 2 + 4, True), (grid + 8, False)):
        src, dst = rng.integers(0, NUM_VERTICES, (2, num_rows), dtype=np.int32)
        check_order(partition, graph, src, dst, mirrored)
    assert filled == [True, False, False, False]


@pytest.mark.parametrize(("each", "bits"), [(1, 0), (3, 1), (4, 5), (1, 6), (5, 7), (2, 10), (8, 11), (4, 13)])
def test_any_constants_are_right(device, partition, monkeypatch, each, bits):
    """Fewer ranges than threads of a block, and many more; one row a thread, and several tiles of them."""
    text = Path(partition.__file__).read_text(encoding="utf-8")
    source, count = re.subn(r"(?m)^ROWS_EACH, RANGE_BITS = .*$", f"ROWS_EACH, RANGE_BITS = {each}, {bits}", text)
    other = ModuleType(f"{partition.__name__}_{each}_{bits}")
    monkeypatch.setitem(sys.modules, other.__name__, other)
    exec(compile(source, partition.__file__, "exec"), other.__dict__)
    other.TILE_BITS = 0
    assert (count, other.ROWS_EACH, other.RANGES) == (1, each, 1 << bits)
    graph = make_graph(device, np.int32)
    rng = np.random.default_rng(3)
    for num_rows in (1, 70, 500):
        src, dst = rng.integers(0, NUM_VERTICES, (2, num_rows), dtype=np.int32)
        check_order(other, graph, src, dst, mirrored=num_rows == 70)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_ids_that_are_no_vertices_go_anywhere(device, partition, narrow_ranges, dtype):
    """None is taken for a vertex, though its low 32 bits were one."""
    graph = make_graph(device, dtype)
    rng = np.random.default_rng(6)
    invalid_id = [-1, NUM_VERTICES, np.iinfo(dtype).min, np.iinfo(dtype).max]
    invalid_id += [] if dtype == np.int32 else [2**32 + 7, 7 - 2**40, 2**31, -(2**31)]
    for mirrored in (False, True):
        src, dst = rng.integers(0, NUM_VERTICES, (2, 90), dtype=dtype)
        src[::9], dst[4::11] = np.resize(invalid_id, 10), np.resize(invalid_id, 8)
        check_order(partition, graph, src, dst, mirrored)


def test_rows_of_no_graph_are_not_ordered(device, partition, launches):
    """Without a vertex there is no row whose bounds could be read, the first one's neither."""
    graph = DynamicGraph(device=device, tuning=PARTITIONED)
    rows = np.arange(90, dtype=np.int32)
    assert graph.delete_edges((rows, rows)).absent == 90
    assert "k_order_rows" not in launches


@pytest.mark.parametrize("row", [0, 1, 17, NUM_VERTICES - 1])
def test_all_rows_may_be_of_one_range(device, partition, grid, row):
    """Of an empty row, the first and the last, too."""
    graph = make_graph(device, np.int32)
    src = np.full(grid + 1, row, np.int32)
    ranges = check_order(partition, graph, src, np.arange(grid + 1, dtype=np.int32) % NUM_VERTICES, False)
    assert np.unique(ranges).shape == (1,)


def test_ranges_are_some_slots_each_where_there_are_more_slots_than_ranges(device, partition, narrow_ranges):
    """As in graphs of more pieces than ranges."""
    columns = np.arange(8 * partition.RANGES, dtype=np.int32)
    graph = DynamicGraph.from_edges((columns // 2, columns % 2), device=device, tuning=PARTITIONED)
    rng = np.random.default_rng(7)
    src, dst = rng.integers(0, columns.shape[0] // 2, (2, 200), dtype=np.int32)
    ranges = check_order(partition, graph, src, dst, False)
    assert partition.RANGES // 4 < ranges.max() < partition.RANGES


@crossed(directed=[True, False], dtype=[np.int32, np.int64], planned=[False, True])
def test_ordered_updates_write_the_same_slots(device, partition, launches, directed, dtype, planned):
    """As those of the rows as they came: with repeated rows, self-loops, dead edges and missing ones."""
    graph = make_graph(device, dtype, directed)
    twin = retune(graph.copy(), partition_rows=1 << 18)
    logs = [plan_updates(one).core.follow() for one in (graph, twin) if planned]
    ordered = dtype == np.int32 or not planned  # int64 ones that the host has looked at come sorted
    rng = np.random.default_rng(8)
    for _ in range(3):
        batch = rng.integers(0, NUM_VERTICES, (2, 60), dtype=dtype)
        batch = np.c_[batch, batch[:, :9], batch[:, 20:23], np.full((2, 2), 3, dtype)]
        inserted = tuple(map(graph.core.backend.asarray, batch))
        deleted = tuple(map(graph.core.backend.asarray, batch[:, ::4]))
        missing = tuple(map(graph.core.backend.asarray, np.c_[batch[:, ::5], np.full((2, 1), NUM_VERTICES - 1, dtype)]))
        for update, edges in (("insert_edges", inserted), ("delete_edges", deleted), ("delete_edges", missing)):
            launches.clear()
            report = getattr(graph, update)(edges)
            assert ("k_order_rows" in launches) == ordered
            launches.clear()
            assert getattr(twin, update)(edges) == report
            assert "k_order_rows" not in launches
            assert same_arrays(host_arrays(graph.snapshot()), host_arrays(twin.snapshot()))
            check_graph(graph)
    changes = [
        [(*map(graph.core.backend.to_host, (c.src, c.dst, c.before)), c.inserting) for c in log.changes] for log in logs
    ]
    assert [len(some) for some in changes] == [9, 9] * planned
    for change, of_twin in zip(*changes, strict=True):
        for one, other in zip(change, of_twin, strict=True):
            assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_refused_ids_are_named_by_their_row_of_the_batch(device, partition, dtype):
    """Not by that of the ordered one; nor is one that is refused as too high taken for its low 32 bits."""
    graph = make_graph(device, dtype)
    before = host_arrays(graph.snapshot())
    src, dst = np.random.default_rng(9).integers(0, NUM_VERTICES, (2, 80), dtype=dtype)
    refused = [(-1, "at row 61")] + [(2**32 + 7, "id 4294967303")] * (dtype == np.int64)
    for stranger, match in refused:
        src[61] = stranger
        edges = tuple(map(graph.core.backend.asarray, (src, dst)))
        for update in (graph.insert_edges, graph.delete_edges)[: 1 + (stranger < 0)]:
            with pytest.raises((InputError, LimitError), match=match):
                update(edges)
        assert same_arrays(host_arrays(graph.snapshot()), before)


def test_an_ordered_batch_that_has_to_be_sorted_is_sorted_as_it_came(device, partition, launches, sorts):
    """Where a leaf gets too many rows."""
    graph = make_graph(device, np.int32)
    twin = graph.copy()
    hub = np.full(45, 7, np.int32), np.arange(45, dtype=np.int32)
    launches.clear()
    report = graph.insert_edges(tuple(map(graph.core.backend.asarray, hub)))
    assert launches[0] == "k_order_rows"
    assert launches[1].startswith("k_list_")  # by pieces, where these are small enough for a graph like this
    assert sorts
    assert report.inserted > 30
    twin.core.out._num_untried = 1
    twin.insert_edges(hub)
    assert same_arrays(host_arrays(graph.snapshot()), host_arrays(twin.snapshot()))
    check_graph(graph)
