"""PageRank on CUDA against NetworkX and its host twin."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

import dynstore
from tests.algorithms.oracles import Edges, listed
from tests.algorithms.problems import (
    BACKEND,
    CASES,
    HUB,
    NO_EDGES,
    PACKED_CASES,
    RANDOM,
    STAR,
    Problem,
    assert_same,
    every_graph,
    host,
    kernels,
)
from tests.crossed import crossed, thorough


@pytest.mark.parametrize("case", CASES, ids=["directed-float32", "undirected"])
@every_graph
def test_out_weights_and_pagerank(edges: Edges, case: tuple[Any, ...]) -> None:
    check_pagerank(edges, case, weighted=case[0])


@pytest.mark.parametrize("case", PACKED_CASES, ids=["directed", "undirected-float32"])
@pytest.mark.parametrize("edges", [RANDOM, NO_EDGES], ids=str)
def test_out_weights_and_pagerank_of_packed_graphs(edges: Edges, case: tuple[Any, ...]) -> None:
    check_pagerank(edges, case, weighted=not case[0])


SHORT = kernels("link_analysis", "ranks")[0].SHORT_SLOTS
LENGTHS = (0, 1, 4, 5, SHORT - 1, SHORT, SHORT + 1, 3 * SHORT)


ROWS = {
    "mixed": np.random.default_rng(4).choice(LENGTHS, 150),
    "short": np.resize([SHORT, SHORT - 1, 5], 70 + SHORT),
    "long first": np.repeat([2 * SHORT, 1], [40, 60]),
    "few": np.repeat([3, 0, 3, 0], [1, 100, 1, 7]),
}
SLOTS = {"gapped": CASES[0], "packed": (True, 1.0, np.int32, np.float32)}


@crossed(weighted=[False, True], slots=list(SLOTS), rows=list(ROWS))
def test_neighbouring_rows_are_added_up_together(rows: str, slots: str, weighted: bool) -> None:
    """Row ``v`` is of ``lengths[v]`` edges, and as many slots where packed; no number of rows is a multiple of 32."""
    lengths, case = ROWS[rows], SLOTS[slots]
    edges = [((v + 7 * k) % lengths.shape[0], v) for v, length in enumerate(lengths.tolist()) for k in range(length)]
    check_pagerank(listed("rows", edges, lengths.shape[0]), case, weighted)


def test_rows_without_rank_stay_without_beside_others() -> None:
    """Sums that several rows share would leave them what rounding does."""
    even = [(u, v) for v in range(0, 80, 2) for u in range(0, 2 * (v % 7), 2)]
    odd = [(u, v) for v in range(1, 80, 2) for u in range(1, 2 * (v % 5), 2)]
    edges = listed("apart", even + odd, 80)
    problem = Problem(edges, CASES[0], edges.weights)
    device, _ = kernels("link_analysis", "ranks")
    targets = BACKEND.asarray(np.eye(1, 80)[0])
    ranks, *_ = device.pagerank(problem.into, device.sum_out_weights(problem.out), 0.85, targets, targets, 3, 0.0)
    assert host(ranks)[2::2].any()
    assert not host(ranks)[1::2].any()


def check_pagerank(edges: Edges, case: tuple[Any, ...], weighted: bool) -> None:
    problem = Problem(edges, case, edges.weights if weighted else None)
    for csr in (problem.out, problem.into) if weighted else ():
        csr.weights[~csr.mask()] = np.nan  # gaps add nothing, whatever weight is left in them
    device, reference = kernels("link_analysis", "ranks")
    sums = device.sum_out_weights(problem.out)
    expected_sums = reference.sum_out_weights(problem.host_out)
    assert_same(sums, expected_sums)
    start = np.full(problem.num_vertices, 1.0 / problem.num_vertices, dtype=expected_sums.dtype)
    given = BACKEND.asarray(start)
    ranks, iterations, error = device.pagerank(problem.into, sums, 0.85, None, given, 3, 0.0)
    expected = reference.pagerank(problem.host_into, expected_sums, 0.85, None, start, 3, 0.0)
    assert iterations == expected[1] == 3
    assert host(ranks).dtype == start.dtype
    np.testing.assert_array_equal(host(given), start)
    assert np.abs(host(ranks) - expected[0]).sum() < 1e-6
    assert error == pytest.approx(expected[2], rel=1e-3, abs=1e-6)
    assert host(ranks).sum() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(("most", "low"), [(5, 6), (5, 1), (0, 0)])
def test_the_cache_keeps_the_first_shares_where_many_edges_come_from_them(most: int, low: int) -> None:
    """``low`` of eleven neighbours are among the first."""
    indices = BACKEND.asarray(np.resize(np.array([0] * low + [9] * (11 - low), dtype=np.int32), 11 * 600))
    kept = BACKEND.zeros(1, np.int32)
    kernels("link_analysis", "ranks")[0].k_choose_kept.launch(1, indices, most, kept)
    assert int(kept[0]) == (most if low > 3 else 2**31 - 1)


@pytest.mark.parametrize("size", [0, 16, 1 << 20], ids=["none", "some", "all"])
def test_pagerank_does_not_depend_on_what_the_cache_keeps(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels("link_analysis", "ranks")[0], "KEPT_BYTES", size)
    check_pagerank(HUB, CASES[0], weighted=True)


@pytest.mark.parametrize("case", CASES, ids=["directed-float32", "undirected"])
def test_pagerank_does_not_depend_on_what_memory_holds(case: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what kernels read before they write it is cleared."""
    empty = type(BACKEND).empty

    def fill(backend: Any, *args: Any) -> Any:
        array = empty(backend, *args)
        array.view(np.uint8).fill(0xFF)  # NaN, or rows that there are not
        return array

    monkeypatch.setattr(type(BACKEND), "empty", fill)
    check_pagerank(STAR, case, weighted=True)


@pytest.mark.parametrize("recorded", [100, 6, 4])
@pytest.mark.parametrize("max_iter", [1, 2, 4, 5, 6, 8, 9])
def test_without_a_tolerance_the_last_iterations_write_ranks(
    max_iter: int, recorded: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of several blocks of iterations and records they are in; the error is the change between them."""
    iterations_module = BACKEND.kernels("dynstore.algorithms.link_analysis", "iterations")
    monkeypatch.setattr(iterations_module, "OTHER_ITERATIONS", 4)
    monkeypatch.setattr(iterations_module, "RECORDED_ITERATIONS", recorded)
    problem = Problem(STAR, CASES[0], STAR.weights)
    device, reference = kernels("link_analysis", "ranks")
    sums, host_sums = device.sum_out_weights(problem.out), reference.sum_out_weights(problem.host_out)
    start = np.arange(1.0, problem.num_vertices + 1).astype(host_sums.dtype)
    start /= start.sum()
    targets = start[::-1].copy()
    ranks, iterations, error = device.pagerank(
        problem.into, sums, 0.85, BACKEND.asarray(targets), BACKEND.asarray(start), max_iter, 0.0
    )
    expected = reference.pagerank(problem.host_into, host_sums, 0.85, targets, start, max_iter, 0.0)
    assert iterations == max_iter
    np.testing.assert_allclose(host(ranks), expected[0], rtol=1e-4)
    assert error == pytest.approx(expected[2], rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("personal", [False, True], ids=["uniform", "personal"])
def test_pagerank_converges_to_networkx(personal: bool) -> None:
    problem = Problem(RANDOM, CASES[0], RANDOM.weights)
    device, _ = kernels("link_analysis", "ranks")
    number = problem.num_vertices
    wanted = np.zeros(number, dtype=np.float64)
    wanted[[2, 5, number - 1]] = [0.5, 0.25, 0.25]
    targets = BACKEND.asarray(wanted) if personal else None
    start = BACKEND.asarray(np.full(number, 1.0 / number))
    sums = device.sum_out_weights(problem.out)
    ranks, iterations, error = device.pagerank(problem.into, sums, 0.5, targets, start, 100, 1e-4)
    assert error < 1e-4
    assert 1 < iterations < 100
    shares = dict(enumerate(wanted.tolist())) if personal else None
    expected = nx.pagerank(problem.graph, alpha=0.5, personalization=shares, dangling=shares, tol=1e-12)
    np.testing.assert_allclose(host(ranks), [expected[v] for v in range(number)], atol=1e-4)


@pytest.mark.parametrize(
    ("recorded", "tol"),
    [
        *((100, 0.3), (16, 0.3), (5, 0.3), (100, 1e-3), (5, 1e-3), (16, 1e-5)),
        *(thorough(16, 1e-3), thorough(100, 1e-5), thorough(5, 1e-5)),
    ],
)
def test_pagerank_stops_at_the_first_iteration_that_converges(
    tol: float, recorded: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the host starts some iterations before it looks at the first, and may need several records."""
    module = BACKEND.kernels("dynstore.algorithms.link_analysis", "iterations")
    monkeypatch.setattr(module, "RECORDED_ITERATIONS", recorded)
    edges = (RANDOM, HUB)[tol < 1e-3]
    problem = Problem(edges, CASES[0], edges.weights)
    device, _ = kernels("link_analysis", "ranks")
    sums = device.sum_out_weights(problem.out).astype(np.float64)
    start = BACKEND.asarray(np.full(problem.num_vertices, 1.0 / problem.num_vertices))
    ranks, iterations, error = device.pagerank(problem.into, sums, 0.85, None, start, 60, tol)
    assert error < tol
    *_, before = device.pagerank(problem.into, sums, 0.85, None, start, iterations - 1, 0.0)
    assert before >= tol
    same, count, _ = device.pagerank(problem.into, sums, 0.85, None, start, iterations, 0.0)
    assert count == iterations
    np.testing.assert_allclose(host(ranks), host(same), rtol=1e-12)
    assert device.pagerank(problem.into, sums, 0.85, None, start, iterations - 1, tol)[1] == iterations - 1


@pytest.mark.filterwarnings("ignore:overflow encountered")  # by NumPy, in the simulator
@pytest.mark.parametrize(("dtype", "weight"), [("float32", 1e38), ("float64", 1e308), ("float32", 1e-45)])
@pytest.mark.parametrize("directed", [True, False])
def test_sums_of_weights_that_do_not_fit(backend_name: str, directed: bool, dtype: str, weight: float) -> None:
    graph = dynstore.DynamicGraph(device=backend_name, directed=directed, weighted=True, weight_dtype=dtype)
    src, dst = np.nonzero(~np.eye(5, dtype=bool))
    graph.insert_edges((src, dst, np.full(src.shape[0], weight)))
    ranks = graph.core.backend.to_host(dynstore.pagerank(graph)["pagerank"].to_numpy())
    np.testing.assert_allclose(ranks, 0.2, rtol=1e-6)
