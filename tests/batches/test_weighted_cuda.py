"""Weighted batches on CUDA before anybody has sorted them, beside what NumPy makes of their rows one by one."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from dynstore import DynamicGraph
from dynstore.backend import get_backend
from dynstore.batches.cuda.sort import MAX_MERGED
from dynstore.batches.make import make_batch
from dynstore.batches.unsorted import WeightedRows
from dynstore.errors import InputError, LimitError
from dynstore.testing.invariants import check_graph, host_arrays
from dynstore.testing.pair import Pair, same_arrays
from tests.crossed import crossed, in_turn

KINDS = list(product([True, False], ["replace", "add"]))


@pytest.fixture
def backend(device):
    return get_backend(device)


def resolve(src, dst, weights, directed, on_duplicate):
    """Return the edges, sorted, and their weights: row by row, both directions from the same rows."""
    found = {}
    for u, v, weight in zip(src.tolist(), dst.tolist(), weights.astype(np.float64).tolist(), strict=True):
        edge = (u, v) if directed else (min(u, v), max(u, v))
        found[edge] = found.get(edge, 0.0) + weight if on_duplicate == "add" else weight
    if not directed:
        found |= {(v, u): weight for (u, v), weight in found.items()}
    edges = sorted(found)
    return [u for u, _ in edges], [v for _, v in edges], np.array([found[edge] for edge in edges], weights.dtype)


def check(batch, backend, src, dst, weights, directed, on_duplicate):
    expected, batch = resolve(src, dst, weights, directed, on_duplicate), batch.materialized()
    assert backend.to_host(batch.src).tolist() == expected[0]
    assert backend.to_host(batch.dst).tolist() == expected[1]
    np.testing.assert_array_equal(backend.to_host(batch.weights), expected[2], strict=True)
    assert len(batch) == len(expected[0])
    loops = sum(u == v for u, v in zip(*expected[:2], strict=True))
    assert batch.num_loops == (0 if directed else loops)


@crossed(kind=KINDS, dtype=[np.int32, np.int64], weight_dtype=[np.float32, np.float64], size=[1, 2, 40, 200])
def test_rows_become_edges(backend, kind, dtype, weight_dtype, size):
    """Few ids, so nearly all edges have several rows, and some are self-loops; sums depend on the order."""
    directed, on_duplicate = kind
    rng = np.random.default_rng(size)
    src, dst = rng.integers(0, 5, size).astype(dtype), rng.integers(0, 5, size).astype(dtype)
    weights = (rng.random(size) * 10.0 ** rng.integers(-8, 8, size)).astype(weight_dtype)
    columns = tuple(map(backend.asarray, (src, dst, weights)))
    batch = make_batch(backend, *columns, directed, on_duplicate, None)
    assert isinstance(batch, WeightedRows)
    assert columns[0].dtype == batch.materialized().src.dtype == batch.materialized().dst.dtype
    check(batch, backend, src, dst, weights, directed, on_duplicate)
    check(batch.transposed(backend), backend, dst, src, weights, directed, on_duplicate)
    looked = make_batch(backend, *columns, directed, on_duplicate, 4)
    assert columns[0].dtype == looked.materialized().src.dtype
    check(looked, backend, src, dst, weights, directed, on_duplicate)


@pytest.mark.parametrize("on_duplicate", ["replace", "add"])
def test_an_edge_of_many_rows(backend, on_duplicate):
    """More than a thread sums by itself; both directions come to the same, in whatever order the rows name them."""
    rng = np.random.default_rng(3)
    src, dst = np.where(rng.random((2, 150)) < 0.5, 7, 9).astype(np.int32)  # (7, 9), (9, 7) and two self-loops
    src[::13], dst[::13] = 1, 2
    weights = rng.random(150)
    batch = make_batch(backend, *map(backend.asarray, (src, dst, weights)), False, on_duplicate).materialized()
    expected = resolve(src, dst, weights, False, on_duplicate)
    assert (backend.to_host(batch.src).tolist(), backend.to_host(batch.dst).tolist()) == expected[:2]
    found = backend.to_host(batch.weights)
    np.testing.assert_allclose(found, expected[2], rtol=1e-14)
    of = dict(zip(zip(*expected[:2], strict=True), found.tolist(), strict=True))
    assert of[7, 9] == of[9, 7]
    assert of[1, 2] == of[2, 1]


@pytest.mark.parametrize("mirrored", [False, True])
def test_what_is_no_edge_has_no_key(backend, mirrored):
    src = np.array([0, -1, 3, 2**31, 5], np.int64)
    dst = np.array([1, 4, 2, 0, 5], np.int64)
    weights = np.array([0.5, 1.0, np.nan, 2.0, np.inf])
    batch = WeightedRows(backend, *map(backend.asarray, (src, dst, weights)), mirrored, False)
    keys, order = (backend.to_host(column).tolist() for column in batch.sort_below())
    assert backend.to_host(batch.columns[0]).dtype == np.int64
    if mirrored:
        assert keys == [-1] * 6 + [1, 1 << 32, 5 << 32 | 5, 5 << 32 | 5]
        assert order == [2, 3, 4, 5, 6, 7, 0, 1, 8, 9]
    else:
        assert (keys, order) == ([-1, -1, -1, 1, 5 << 32 | 5], [1, 2, 3, 0, 4])
    assert batch.find_bounds(sorting=True) == (-1, 2**31, 0, 5)


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("num_vertices", [2, 5, 1 << 22, 1 << 27, 1 << 28])
def test_many_rows_are_sorted_in_the_lowest_bits_of_their_keys(backend, launches, mirrored, num_vertices):
    """Where 64 bits have room for that; in order among equal keys, as where they are sorted along."""
    rng = np.random.default_rng(num_vertices)
    size = (1 << (20 if backend.on_gpu else 10)) - 1 >> mirrored
    src, dst = rng.choice([0, 1, num_vertices - 2, num_vertices - 1], (2, size)).astype(np.int32)
    columns = backend.asarray(src), backend.asarray(dst), backend.asarray(rng.random(size))
    batch = WeightedRows(backend, *columns, mirrored, False)
    keys, order = (backend.to_host(column) for column in batch.sort_below(num_vertices))
    has_room = 2 * (num_vertices - 1).bit_length() + batch.num_rows.bit_length() <= 64
    assert batch.num_rows > MAX_MERGED
    assert ("k_unpack_rows" in launches) == has_room
    expected = (backend.to_host(column) for column in batch.sort_below())
    for found, wanted in zip((keys, order), expected, strict=True):
        np.testing.assert_array_equal(found, wanted, strict=True)


@pytest.mark.parametrize("bad", ["nan", "negative", "beyond"])
def test_one_of_many_rows_that_is_none_has_no_key(backend, bad):
    """Its bounds are told all the same; one with all ids and rows that 64 bits have room for is no such."""
    size, num_vertices = ((1 << 20) - 1, 1 << 22) if backend.on_gpu else (1023, 1 << 27)
    src, weights = np.full(size, num_vertices - 1), np.ones(size)
    if bad == "nan":
        weights[500] = np.nan
    else:
        src[500] = -1 if bad == "negative" else num_vertices
    columns = tuple(map(backend.asarray, (src, np.full(size, num_vertices - 1), weights)))
    batch = WeightedRows(backend, *columns, False, False)
    keys, order = (backend.to_host(column).tolist() for column in batch.sort_below(num_vertices))
    assert keys.count(-1) == 1
    assert keys.count((num_vertices - 1) << 32 | num_vertices - 1) == size - 1
    assert {*order} | {500} == {*range(size)}
    assert batch.find_bounds(sorting=True) == (min(0, src[500]), max(src), 0, num_vertices - 1)


@in_turn(case=[(False, 70_000, 1), (True, 255, 1), (True, 256, 2)], directed=[True, False])
def test_rows_with_new_vertices_are_sorted_again_only_for_wider_ids(device, launches, case, directed):
    """The first attempt finds no rows for them."""
    many, highest, sorts = case
    edges = *np.divmod(np.arange(0, 40_000, 3, dtype=np.int32), 200), np.ones(13_334, np.float32)
    graph = DynamicGraph.from_edges(edges, device=device, directed=directed, merge_cost=0.0)
    size = MAX_MERGED + 1 if many else 90
    src, dst = np.random.default_rng(3).integers(0, 200, (2, size), dtype=np.int32)
    src[5] = highest
    launches.clear()
    graph.insert_edges((src, dst, np.arange(size, dtype=np.float32)))
    assert launches.count("k_pack_rows") == sorts
    check_graph(graph)


@crossed(directed=[True, False], dtype=[np.int32, np.int64], renumber=[False, True])
def test_batches_of_a_graph(device, directed, dtype, renumber):
    """New edges and vertices, others there already or deleted, and an empty batch; in-edges are kept, too."""
    pair = Pair(
        device=device, weighted=True, directed=directed, vertex_dtype=dtype, renumber=renumber, transposed=True,
        merge_cost=0.0,
    )  # fmt: skip
    rng = np.random.default_rng(5)
    pair.insert(*np.divmod(40 * np.arange(240, dtype=dtype), 400), np.ones(240, np.float32))
    for number, on_duplicate in enumerate(["replace", "add", "add", "replace"]):
        src, dst = rng.integers(0, 24 + number // 2, (2, 60)).astype(dtype)
        weights = rng.integers(0, 64, 60).astype(np.float32) / 8
        pair.insert(src, dst, weights, on_duplicate=on_duplicate)
        pair.delete(src[::3], dst[::3])
    pair.insert(src[:0], dst[:0], weights[:0])


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("bad", ["nan", "negative", "far", "large"])
def test_a_batch_that_nobody_has_looked_at_is_refused_as_always(device, dtype, bad):
    """The device finds it, the host says where; the graph is as it was."""
    edges = *np.divmod(40 * np.arange(240, dtype=dtype), 400), np.ones(240, np.float32)
    graph = DynamicGraph.from_edges(edges, device=device, vertex_dtype=dtype, merge_cost=0.0)
    before = host_arrays(graph.snapshot())
    src, dst = np.arange(20, dtype=dtype), np.arange(1, 21, dtype=dtype)
    weights = np.ones(20, np.float32)
    if bad == "nan":
        weights[7] = np.nan
        src[8], weights[8] = src[7], 1.0
        dst[8] = dst[7]  # another row of the edge counts
    else:
        dst[7] = {"negative": -1, "far": 2**30, "large": np.iinfo(dtype).max}[bad]
    message = "`weights` is NaN at row 7" if bad == "nan" else "row 7|would make rows"
    with pytest.raises((InputError, LimitError), match=message):
        graph.insert_edges((src, dst, weights))
    assert same_arrays(host_arrays(graph.snapshot()), before)
    check_graph(graph)
