"""pagerank as a user calls it, and its warm start."""

from __future__ import annotations

import gc
from functools import partial

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore.algorithms.link_analysis.api import _last_ranks
from dynstore.errors import FailedToConvergeError, InputError, InputTypeError
from tests.algorithms.kites import both_dtypes, check_frame, column, host, kite, reference
from tests.libraries import FRAMES, frame


@both_dtypes
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("directed", [True, False])
def test_pagerank(device: str, directed: bool, weighted: bool, options: dict) -> None:
    graph = kite(device, directed=directed, weighted=weighted, **options)
    rank = options["weight_dtype"] if weighted else "float32"
    table = check_frame(dynstore.pagerank(graph), vertex=options["vertex_dtype"], pagerank=rank)
    expected = nx.pagerank(reference(directed), weight="weight" if weighted else None, tol=1e-12, max_iter=1000)
    assert np.abs(table["pagerank"] - column(expected)).sum() < 1e-4
    assert table["pagerank"].sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("library", FRAMES)
def test_pagerank_frames(device: str, library: str) -> None:
    make = partial(frame, library)
    graph = kite(device, directed=True)
    targets = make({"vertex": [5, 0], "values": [6.0, 2.0]})
    expected = nx.pagerank(reference(True), personalization={0: 0.25, 5: 0.75}, weight=None, tol=1e-12, max_iter=1000)
    ranks = host(dynstore.pagerank(graph, personalization=targets, tol=1e-6))["pagerank"]
    assert np.abs(ranks - column(expected)).sum() < 1e-5
    plain = host(dynstore.pagerank(graph, tol=1e-6))["pagerank"]
    started = host(dynstore.pagerank(graph, nstart=targets, tol=1e-6))["pagerank"]
    assert np.abs(plain - started).sum() < 1e-5
    degrees = host(graph.out_degree())
    sums = make({"vertex": degrees["vertex"].to_numpy(), "sums": degrees["degree"].to_numpy()})
    again = host(dynstore.pagerank(graph, precomputed_vertex_out_weight=sums, tol=1e-6))["pagerank"]
    np.testing.assert_array_equal(plain, again)


def test_pagerank_convergence(device: str) -> None:
    graph = kite(device)
    with pytest.raises(FailedToConvergeError, match=r"after 2 iterations .* wanted less than tol=1e-05"):
        dynstore.pagerank(graph, max_iter=2)
    frame, converged = dynstore.pagerank(graph, max_iter=2, fail_on_nonconvergence=False)
    assert converged is False
    check_frame(frame, vertex="int32", pagerank="float32")
    frame, converged = dynstore.pagerank(graph, max_iter=0, fail_on_nonconvergence=False)
    assert converged is True
    pd.testing.assert_frame_equal(host(frame), host(dynstore.pagerank(graph, dangling={0: 1})))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"alpha": 1.5}, InputError, "alpha is 1.5; wanted 0 to 1"),
        ({"tol": -1.0}, InputError, "tol is -1"),
        ({"personalization": {0: 1.0}}, InputTypeError, "personalization is a dict; wanted a frame"),
        (
            {"personalization": pd.DataFrame({"vertex": [0], "value": [1.0]})},
            InputError,
            "Did you mean 'value'",
        ),
        ({"nstart": pd.DataFrame({"vertex": [7], "values": [1.0]})}, InputError, "nstart names vertex 7"),
        ({"nstart": pd.DataFrame({"vertex": [1, 1], "values": [1.0, 2.0]})}, InputError, "names a vertex twice"),
        ({"nstart": pd.DataFrame({"vertex": [1], "values": [0.0]})}, InputError, "sum to 0.0"),
        ({"nstart": pd.DataFrame({"vertex": [1, 2], "values": [-1.0, 2.0]})}, InputError, "the value -1.0"),
        ({"nstart": pd.DataFrame({"vertex": [1], "values": [1.0]}), "warm_start": True}, InputError, "both nstart"),
    ],
)
def test_pagerank_refuses(device: str, arguments: dict, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        dynstore.pagerank(kite(device), **arguments)


def ring(device: str, num_vertices: int = 20_000) -> dynstore.DynamicGraph:
    """Return a graph on which PageRank takes its time: a ring with chords that all lead to one part."""
    v = np.arange(num_vertices)
    src, dst = np.r_[v, v], np.r_[(v + 1) % num_vertices, v // 7]
    return dynstore.DynamicGraph.from_edges((src, dst), device=device)


def test_warm_start_goes_on_from_the_last_ranks(device: str) -> None:
    graph = ring(device)
    assert dynstore.pagerank(graph, tol=1e-4, fail_on_nonconvergence=False, warm_start=True)[1]
    graph.insert_edges(([3, 200], [390, 20_000]))  # the last one is new
    assert graph.number_of_vertices() == 20_001
    few = {"tol": 1e-4, "max_iter": 14, "fail_on_nonconvergence": False}
    cold, converged = dynstore.pagerank(ring(device), **few)
    assert not converged
    warm, converged = dynstore.pagerank(graph, warm_start=True, **few)
    assert converged
    twin = graph.copy()  # has no ranks of its own yet
    assert not dynstore.pagerank(twin, warm_start=True, **few)[1]
    right = host(dynstore.pagerank(twin, tol=1e-6))["pagerank"]
    assert np.abs(host(warm)["pagerank"] - right).sum() < 1e-3
    assert host(warm)["pagerank"].sum() == pytest.approx(1, abs=1e-5)
    assert len(cold) == 20_000


def test_warm_start_survives_a_cleared_graph_and_forgets_a_dead_one(device: str) -> None:
    graph = ring(device)
    dynstore.pagerank(graph)
    graph.clear()
    graph.insert_edges(([0, 1], [1, 0]))
    assert host(dynstore.pagerank(graph, warm_start=True))["pagerank"].tolist() == [0.5, 0.5]
    frame = dynstore.pagerank(graph, fail_on_nonconvergence=False)[0]
    gc.collect()
    known = len(_last_ranks)
    del graph, frame
    gc.collect()
    assert len(_last_ranks) == known - 1


def test_changing_a_result_does_not_change_the_next_warm_start(device: str) -> None:
    graph = ring(device)
    frame = dynstore.pagerank(graph)
    expected = host(dynstore.pagerank(graph, warm_start=True)).copy()
    frame["pagerank"] = np.nan
    pd.testing.assert_frame_equal(host(dynstore.pagerank(graph, warm_start=True)), expected, rtol=1e-3)


def test_warm_start_ignores_ranks_that_are_no_numbers(device: str) -> None:
    graph = kite(device, weighted=True)
    graph.insert_edges(([0], [5], [np.inf]))
    assert not dynstore.pagerank(graph, fail_on_nonconvergence=False)[1]
    graph.delete_edges(([0], [5]))
    assert dynstore.pagerank(graph, fail_on_nonconvergence=False, warm_start=True)[1]


@both_dtypes
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("end", ["largest", "smallest"])
def test_weights_at_the_ends_of_their_range(device: str, directed: bool, options: dict, end: str) -> None:
    """The sum of a row's weights, or a rank divided by it, does not fit the weights' dtype.

    CuPy computes with 0 in the place of the smallest, the subnormal ones, if they are float32.
    """
    src, dst, weights = (np.array(part) for part in zip(*reference(directed).edges(data="weight"), strict=True))
    limits = np.finfo(options["weight_dtype"])
    graph = kite(device, directed=directed, weighted=True, **options)
    expected = host(dynstore.pagerank(graph, tol=1e-6))["pagerank"]
    smallest = limits.tiny if device == "cuda" else limits.smallest_subnormal
    far = weights / weights.max() * limits.max if end == "largest" else weights * smallest
    graph.insert_edges((src, dst, far))
    ranks = host(dynstore.pagerank(graph, tol=1e-6))["pagerank"]
    np.testing.assert_allclose(ranks, expected, rtol=1e-5)


@both_dtypes
def test_precomputed_sums_of_large_weights(device: str, options: dict) -> None:
    graph = kite(device, directed=True, weighted=True, **options)
    edges = host(graph.edge_table())
    expected = host(dynstore.pagerank(graph, tol=1e-6))["pagerank"]
    factor = 2.0 ** (np.finfo(options["weight_dtype"]).maxexp - 8)
    graph.insert_edges((edges["source"], edges["destination"], edges["weight"] * factor))
    sums = edges.groupby("source")["weight"].sum() * factor
    sums = frame("pandas", {"vertex": sums.index.to_numpy(), "sums": sums.to_numpy()})
    ranks = host(dynstore.pagerank(graph, precomputed_vertex_out_weight=sums, tol=1e-6))["pagerank"]
    np.testing.assert_allclose(ranks, expected, rtol=1e-5)


@both_dtypes
def test_rows_of_very_different_weights(device: str, options: dict) -> None:
    graph = kite(device, directed=True, weighted=True, **options)
    src, dst, weights = (host(graph.edge_table())[name].to_numpy() for name in ("source", "destination", "weight"))
    expected = host(dynstore.pagerank(graph, tol=1e-6))["pagerank"]
    most = np.finfo(options["weight_dtype"]).maxexp - 5
    graph.insert_edges((src, dst, np.ldexp(weights, np.where(src % 2, most, 5 - most))))
    np.testing.assert_allclose(host(dynstore.pagerank(graph, tol=1e-6))["pagerank"], expected, rtol=1e-5)
