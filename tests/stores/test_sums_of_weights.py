"""Sums of weights that do not fit: infinite where the stored weight is one of them, refused within a batch."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from dynstore import DynamicGraph
from dynstore.errors import InputError
from dynstore.stores import STORES, get_store

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:invalid value encountered")  # simulator
DTYPES = ["float32", "float64"]


@pytest.fixture(params=[(store, directed) for store in sorted(STORES) for directed in (True, False)], ids=str)
def graph(request: pytest.FixtureRequest, backend: Any) -> DynamicGraph:
    store, directed = request.param
    if backend.family not in get_store(store).families:
        pytest.skip(f"{store} has no kernels for {backend.family}")
    if backend.name == "cuda-sim" and directed and store != "gpma+":
        pytest.skip("the simulator is slow: its undirected graph takes the same kernels")
    graph = DynamicGraph(store=store, directed=directed, weighted=True, device=backend.name)
    graph.insert_edges(([0, 1, 2, 3], [1, 2, 3, 5], [1.0, 2.0, 3.0, 4.0]))
    return graph


def weights_of(graph: DynamicGraph, *edges: tuple[int, int]) -> list[float]:
    return graph.core.backend.to_host(graph.edge_weights(tuple(map(list, zip(*edges, strict=True))))).tolist()


def test_a_sum_with_the_stored_weight_may_be_infinite_and_stays_so(graph: DynamicGraph) -> None:
    for _ in range(2):
        graph.insert_edges(([1, 0], [2, 1], [3e38, -3e38]), on_duplicate="add")
    assert weights_of(graph, (1, 2), (0, 1), (2, 3)) == [np.inf, -np.inf, 3.0]
    for _ in range(2):
        graph.insert_edges(([1, 0], [2, 1], [-3e38, 3e38]), on_duplicate="add")
    assert weights_of(graph, (1, 2), (0, 1), (2, 3)) == [np.inf, -np.inf, 3.0]
    graph.insert_edges(([1], [2], [7.0]))
    assert weights_of(graph, (1, 2)) == [7.0]


@pytest.mark.parametrize(
    ("weights", "total"),
    [([3e38, 3e38], "inf"), ([-3e38, -3e38], "-inf"), ([np.inf, 1.0], "inf"), ([np.inf, -np.inf], "nan")],
    ids=str,
)
def test_a_batch_whose_sums_are_not_finite_is_refused(graph: DynamicGraph, weights: list[float], total: str) -> None:
    version, num_vertices = graph.version, graph.number_of_vertices()
    message = f"insert_edges: the weights of an edge in the batch sum to {total}; wanted a finite sum with on_duplicate"
    batch = np.array([2, 7, 2], np.int32), np.array([3, 1, 3], np.int32)
    with pytest.raises(InputError, match=message):
        graph.insert_edges((*batch, np.array([weights[0], 1.0, weights[1]], np.float32)), on_duplicate="add")
    assert (graph.version, graph.number_of_vertices()) == (version, num_vertices)
    assert weights_of(graph, (2, 3), (0, 1)) == [3.0, 1.0]


def test_large_weights_of_different_edges_are_added(graph: DynamicGraph) -> None:
    graph.insert_edges(([2, 1, 6], [3, 2, 7], [3e38, 3e38, 3e38]), on_duplicate="add")
    np.testing.assert_allclose(weights_of(graph, (2, 3), (1, 2), (6, 7)), 3e38, rtol=1e-6)
    graph.insert_edges(([2, 2], [3, 3], [3e38, -3e38]), on_duplicate="add")
    np.testing.assert_allclose(weights_of(graph, (2, 3)), 3e38, rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_batch_whose_weights_do_not_fit_one_number_gives_no_warning(dtype: str) -> None:
    most = float(np.finfo(dtype).max)
    graph = DynamicGraph(weighted=True, weight_dtype=dtype, device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph.insert_edges(([0, 1], [1, 2], [most, most]), on_duplicate="add")
    assert weights_of(graph, (0, 1), (1, 2)) == [most, most]


def test_nan_is_refused_as_ever(graph: DynamicGraph) -> None:
    with pytest.raises(InputError, match="NaN at row 1"):
        graph.insert_edges(
            (np.array([2, 7], np.int32), np.array([3, 1], np.int32), np.array([1, np.nan], np.float32)),
            on_duplicate="add",
        )
    assert weights_of(graph, (2, 3)) == [3.0]


def test_other_ids_are_read_again(backend: Any) -> None:
    graph = DynamicGraph(weighted=True, renumber=True, device=backend.name)
    graph.insert_edges(([10, 20], [20, 30], [1.0, 2.0]))
    graph.insert_edges(([10, 50, 60], [20, 20, 20], [3e38, 3e38, 3e38]), on_duplicate="add")
    np.testing.assert_allclose(weights_of(graph, (10, 20), (50, 20), (60, 20)), 3e38, rtol=1e-6)
    with pytest.raises(InputError, match="sum to inf"):
        graph.insert_edges(([10, 70, 10], [20, 20, 20], [3e38, 1.0, 3e38]), on_duplicate="add")
    assert graph.number_of_vertices() == 5


def test_appended_weights_follow_the_same_rule(backend: Any) -> None:
    graph = DynamicGraph(weighted=True, store="lpma", device=backend.name)
    graph.insert_edges(([0], [1], [3e38]))
    with pytest.raises(InputError, match="sum to nan; wanted a finite sum with on_duplicate='append'"):
        graph.insert_edges(([0, 0], [1, 1], [np.inf, -np.inf]), on_duplicate="append")
    graph.insert_edges(([0], [1], [3e38]), on_duplicate="append")
    assert weights_of(graph, (0, 1)) == [np.inf]
    graph.insert_edges(([0], [1], [-3e38]), on_duplicate="append")
    assert weights_of(graph, (0, 1)) == [np.inf]


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_largest_weights_are_taken(backend: Any, dtype: str) -> None:
    graph = DynamicGraph(weighted=True, weight_dtype=dtype, device=backend.name)
    most = float(np.finfo(dtype).max)
    graph.insert_edges(([0, 1, 2], [1, 2, 3], [most, -most, 1.0]), on_duplicate="add")
    assert weights_of(graph, (0, 1), (1, 2), (2, 3)) == [most, -most, 1.0]
    batch = ([0, 0, 0, 0], [1] * 4, [most, most, -most, -most])
    if dtype == "float32":  # they are summed in float64
        graph.insert_edges(batch, on_duplicate="add")
    else:
        with pytest.raises(InputError, match=r"sum to (inf|nan)"):
            graph.insert_edges(batch, on_duplicate="add")
    assert weights_of(graph, (0, 1)) == [most]


def test_an_exchange_and_a_default_weight_follow_the_same_rule(backend: Any) -> None:
    graph = DynamicGraph(weighted=True, device=backend.name)
    graph.insert_edges(([0, 1], [1, 2], [1.0, 2.0]))
    with pytest.raises(InputError, match="update: the weights of an edge in the batch sum to inf"):
        graph.update(insert=([2, 2], [3, 3], [3e38, 3e38]), delete=([0], [1]), on_duplicate="add")
    with pytest.raises(InputError, match="insert_edges: the weights of an edge in the batch sum to inf"):
        graph.insert_edges(([2, 2], [3, 3]), default_weight=3e38, on_duplicate="add")
    assert weights_of(graph, (0, 1), (1, 2)) == [1.0, 2.0]
    graph.insert_edges(([0, 1], [1, 2]), default_weight=3e38, on_duplicate="add")
    np.testing.assert_allclose(weights_of(graph, (0, 1), (1, 2)), 3e38, rtol=1e-6)
