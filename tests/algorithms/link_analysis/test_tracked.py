"""Tracked PageRank against runs on the whole graph, after every step of random streams; and what it costs."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore.datasets.generators import rmat
from dynstore.errors import FailedToConvergeError, InputError
from tests.algorithms.streams import EXACT, Stream, compare
from tests.conftest import PROFILE

STEPS = {"cpu": 50, "cuda": 50, "cuda-sim": 2}
pytestmark = pytest.mark.usefixtures("take_changes")


@pytest.mark.parametrize(
    "options",
    [
        {"directed": True, **EXACT},
        {"directed": False, **EXACT, "vertex_dtype": "int64"},
        {"directed": True, "renumber": True, "store": "merge", **EXACT},
        {"directed": True},
        {"directed": False},
    ],
    ids=str,
)
def test_a_random_stream(backend_name: str, rng: np.random.Generator, options: dict) -> None:
    stream = Stream(backend_name, rng, **options)
    exact = "weighted" in options
    monitor = stream.graph.track("pagerank", tol=1.6e-7)
    for number in range(STEPS[backend_name]):
        for _ in range(number % 3 + 1):  # several updates between two results
            what = stream.step()
        expected = dynstore.pagerank(stream.twin, tol=1e-8 if exact else 1e-6, max_iter=500)
        compare(monitor.result(), expected, f"step {number}: {what}", pagerank=1e-6 if exact else 7e-6)
        assert monitor.path == ("incremental" if number else "warm")


def test_the_residual_is_right_after_many_updates(backend_name: str, rng: np.random.Generator) -> None:
    """What is kept through updates is what a computation from nothing would find."""
    stream = Stream(backend_name, rng, directed=True, **EXACT)
    monitor = stream.graph.track("pagerank", alpha=0.7, tol=1e-3)
    for _ in range(STEPS[backend_name]):
        stream.step()
        monitor.result()
    answer = monitor._answer
    host = stream.graph.core.backend.to_host
    ranks, residuals = host(answer._ranks), host(answer._residuals)
    table = stream.twin.edge_columns()
    sums = np.bincount(table["source"], table["weight"], minlength=ranks.shape[0])
    given = ranks[table["source"]] * table["weight"] / sums[table["source"]]
    expected = 1 + 0.7 * np.bincount(table["destination"], given, minlength=ranks.shape[0]) - ranks
    np.testing.assert_allclose(residuals, expected, atol=1e-11)
    assert np.abs(residuals).sum() > 1e-6


def test_weights_whose_sum_is_no_number(backend_name: str) -> None:
    """The function scales such weights; an answer from the changes cannot."""
    if backend_name == "cuda-sim":
        pytest.skip("the simulator raises where a sum overflows")
    graph = dynstore.DynamicGraph(device=backend_name, **EXACT)
    rim = np.arange(1, 6)
    graph.insert_edges((rim, np.roll(rim, 1), np.ones(5)))
    monitor = graph.track("pagerank")
    graph.insert_edges(([1], [3], [1.0]))
    monitor.refresh()
    graph.insert_edges(([1, 1, 1], [2, 3, 4], [1.5e308, 1.5e308, 0.5e308]))
    for _ in range(2):
        compare(monitor.result(), dynstore.pagerank(graph, tol=1e-7), pagerank=2e-4)
        assert monitor.path != "incremental"
        graph.insert_edges(([2], [4], [1.5e308]))
    graph.delete_edges(([1, 1], [2, 3]))
    compare(monitor.result(), dynstore.pagerank(graph, tol=1e-7), pagerank=2e-4)


@pytest.mark.parametrize("tracked_before", [False, True], ids=["recomputed", "incremental"])
def test_a_warm_start_after_new_vertices(backend_name: str, tracked_before: bool) -> None:
    """It starts from ranks that sum to 1, whether the last ones do so or are kept in another scale."""
    graph = dynstore.DynamicGraph(directed=False, device=backend_name)
    graph.insert_edges(([0, 0, 0, 1, 3], [1, 2, 3, 2, 4]))
    monitor = graph.track("pagerank", tol=1e-6)
    if tracked_before:
        graph.insert_edges(([2], [4]))
        monitor.refresh()
        graph.insert_edges(([1], [3]))
        monitor.refresh()
        assert monitor.path == "incremental"
    graph.insert_edges(([4, 5, 9], [5, 6, 0]))
    answer = monitor._answer
    assert float(answer._first_ranks().sum()) == pytest.approx(1.0, abs=1e-6)
    answer.recompute(warm=True)
    compare(answer.frame(), dynstore.pagerank(graph, tol=1e-6, max_iter=500), pagerank=2e-5)


@pytest.mark.parametrize("directed", [True, False])
def test_stars_and_paths_converge(backend_name: str, directed: bool) -> None:
    """Least squares alone would take back each push from the hub."""
    spokes = np.arange(8)
    for edges in ((np.full(8, 1), spokes), (spokes, np.full(8, 1)), (spokes, spokes + 1)):
        graph = dynstore.DynamicGraph(directed=directed, device=backend_name)
        graph.insert_edges(edges)
        compare(
            graph.track("pagerank", tol=1e-6).result(), dynstore.pagerank(graph, tol=1e-6, max_iter=500), pagerank=2e-5
        )


def test_a_personalization_follows_its_vertices(backend_name: str, rng: np.random.Generator) -> None:
    stream = Stream(backend_name, rng, directed=True, **EXACT)
    targets = pd.DataFrame({"vertex": [5, 0], "values": [6.0, 2.0]})
    monitor = stream.graph.track("pagerank", personalization=targets, tol=1.6e-7)
    for number in range(STEPS[backend_name]):
        stream.step()
        expected = dynstore.pagerank(stream.twin, personalization=targets, tol=1e-8, max_iter=500)
        compare(monitor.result(), expected, pagerank=1e-6)
        assert monitor.path == ("incremental" if number else "warm")


def test_what_is_for_single_runs_is_refused(backend_name: str) -> None:
    graph = dynstore.DynamicGraph(device=backend_name)
    graph.insert_edges(([0, 1, 2, 2], [1, 2, 0, 1]))
    frame = pd.DataFrame({"vertex": [0], "values": [1.0]})
    for params in ({"nstart": frame}, {"warm_start": True}, {"fail_on_nonconvergence": False}):
        with pytest.raises(InputError, match=f"track: pagerank: .*{next(iter(params))}"):
            graph.track("pagerank", **params)
    with pytest.raises(InputError, match="alpha is 1; wanted less"):
        graph.track("pagerank", alpha=1)
    with pytest.raises(InputError, match="pagerank: alpha is 2"):
        graph.track("pagerank", alpha=2)
    with pytest.raises(FailedToConvergeError, match="after 2 rounds"):
        graph.track("pagerank", tol=0, max_iter=2)


def test_infinite_weights_do_not_converge(device: str) -> None:
    graph = dynstore.DynamicGraph(weighted=True, device=device)
    graph.insert_edges(([0, 1], [1, 0], [np.inf, 1.0]))
    with pytest.raises(FailedToConvergeError, match="change by nan"):
        graph.track("pagerank")


@pytest.mark.parametrize("directed", [True, False])
def test_a_batch_costs_a_fifth_of_a_run(directed: bool) -> None:
    """600 of 0.5 M events, or 2,400 of 2 M; where they are a smaller part, the share is smaller, too."""
    scale, changed = (17, 1200) if PROFILE == "thorough" else (15, 300)
    events = rmat(scale, 16, seed=3)
    first = len(events) - changed
    graph = dynstore.DynamicGraph(directed=directed, device="cpu")
    twin = dynstore.DynamicGraph(directed=directed, device="cpu", **{**EXACT, "vertex_dtype": "int32"})
    for each in (graph, twin):
        each.insert_edges((events.src[:first], events.dst[:first]), default_weight=1.0)
    monitor = graph.track("pagerank", tol=1.6e-7)
    graph.insert_vertices([0])
    monitor.refresh()
    assert monitor.path == "warm"  # from now on there is a residual
    for each in (graph, twin):
        each.insert_edges((events.src[first:], events.dst[first:]), default_weight=1.0)
        each.delete_edges((events.src[:changed], events.dst[:changed]))
    got = monitor.result()
    assert monitor.path == "incremental"

    def run(iterations: int) -> tuple[pd.DataFrame, bool]:
        return dynstore.pagerank(twin, tol=1e-8, max_iter=iterations, fail_on_nonconvergence=False)

    iterations = 1 + bisect_left(range(1, 200), True, key=lambda number: run(number)[1])
    compare(got, run(iterations)[0].astype({"pagerank": "float32"}), pagerank=1e-6)
    assert monitor.edge_visits <= iterations * graph.snapshot().num_edges / 5
