"""Updates of a graph that a log follows: they take the same path as others, and the log has the right changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore.algorithms.costs import Choice, Costs, Path, Work
from dynstore.algorithms.tracking import MOST_UNUSED
from dynstore.stores.base import Store
from tests.algorithms.streams import Stream, compare


def state(graph: dynstore.DynamicGraph) -> dict[tuple[int, int], float]:
    """Return the weight of each stored edge, 1 where there are none; undirected ones in both directions."""
    snapshot = graph.snapshot().compact()
    ends = (graph.core.backend.to_host(column).tolist() for column in (snapshot.sources, snapshot.indices))
    weights = snapshot.weights
    values = np.ones(snapshot.num_edges) if weights is None else graph.core.backend.to_host(weights)
    return dict(zip(zip(*ends, strict=True), values.tolist(), strict=True))


@pytest.mark.parametrize("store", ["gpma+", "merge", "gpma", "lpma"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_the_net_change_is_that_of_the_edges(
    backend_name: str, store: str, weighted: bool, directed: bool, rng: np.random.Generator
) -> None:
    stream = Stream(backend_name, rng, directed=directed, weighted=weighted, store=store)
    graph, log = stream.graph, stream.graph.core.follow()
    for _ in range(4):
        before, num_updates = state(graph), int(rng.integers(1, 4))
        for _ in range(num_updates):
            stream.step()
        after, delta = state(graph), graph.core.net_delta(log)
        assert delta is not None
        assert log.complete
        columns = (graph.core.backend.to_host(column).tolist() for column in (delta.src, delta.dst, delta.before))
        changed = {(u, v): was_there for u, v, was_there in zip(*columns, strict=True)}
        assert len(changed) == len(delta)
        assert list(changed) == sorted(changed)
        for key in before.keys() ^ after.keys() | {key for key in before.keys() & after if before[key] != after[key]}:
            assert key in changed
        for key, was_there in changed.items():
            assert was_there == (key in before)
        assert [slot >= 0 for slot in delta.slots.tolist()] == [key in after for key in changed]
        if weighted:
            assert delta.weights.tolist() == [before.get(key, 0.0) for key in changed]
        log.restart()


@pytest.mark.parametrize("store", ["gpma+", "gpma", "merge"])
def test_the_host_looks_up_no_batch_twice(monkeypatch: pytest.MonkeyPatch, store: str) -> None:
    graph = dynstore.DynamicGraph(directed=False, weighted=True, store=store, device="cpu")
    graph.insert_edges((np.arange(40), np.arange(1, 41), np.ones(40)))
    log = graph.core.follow()

    def fail(*_: Any) -> None:
        raise AssertionError("the plan has searched for these edges")

    monkeypatch.setattr(Store, "look_up", fail)
    graph.insert_edges(([0, 3, 9], [1, 7, 9], [2.0, 3.0, 4.0]))
    graph.delete_edges(([0, 4], [1, 9]))
    assert [change.inserting for change in log.changes] == [True, False]
    assert [change.before.tolist() for change in log.changes] == [
        [True, True, False, False, False],
        [True, True, False, False],
    ]


@pytest.mark.parametrize("weighted", [False, True])
def test_cuda_writes_in_one_step_although_a_log_follows(
    monkeypatch: pytest.MonkeyPatch, backend_name: str, weighted: bool
) -> None:
    if backend_name == "cpu":
        pytest.skip("the host plans every update")
    graph = dynstore.DynamicGraph(directed=False, weighted=weighted, device=backend_name)
    ones = (np.ones(40, np.float32),) if weighted else ()
    graph.insert_edges((np.arange(40), np.arange(1, 41), *ones))
    log = graph.core.follow()

    def fail(*_: Any) -> None:
        raise AssertionError("this update needs no plan")

    monkeypatch.setattr(type(graph.core.out), "plan_insert", fail)
    src, dst = (graph.core.backend.asarray(np.array(column, np.int32)) for column in ([7, 0, 7, 0], [3, 1, 3, 0]))
    graph.insert_edges((src, dst, *(column[:4] for column in ones)))
    src[:] = 11  # the caller's own arrays
    (change,) = log.changes
    assert (change.sorted, change.mirrored) == (False, True)
    delta = graph.core.net_delta(log)
    pairs = list(zip(delta.src.tolist(), delta.dst.tolist(), delta.before.tolist(), strict=True))
    assert pairs == [(0, 0, False), (0, 1, True), (1, 0, True), (3, 7, False), (7, 3, False)]


def test_a_batch_that_no_log_keeps_is_not_looked_up(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    graph = dynstore.DynamicGraph(device=device, store="slab_hash")
    graph.insert_edges((np.arange(40), np.arange(1, 41)))
    log = graph.core.follow()
    monkeypatch.setattr("dynstore.graph.core.MIN_KEPT", 3)
    monkeypatch.setattr(type(graph.core.out), "look_up", None)
    graph.insert_edges((np.arange(4), np.arange(4)))
    assert not log.complete
    graph.delete_edges(([0], [1]))
    assert (log.complete, log.changes) == (False, [])


def choose_always(path: Path) -> Any:
    def choose(costs: Costs, work: Work) -> Choice:
        return Choice(path if path in work.paths else "recomputed", "a test wants it", dict.fromkeys(work.paths))

    return choose


@pytest.mark.parametrize("name", ["triangle_count", "weakly_connected_components", "bfs", "pagerank"])
def test_updates_look_nothing_up_while_answers_are_computed_anew(
    monkeypatch: pytest.MonkeyPatch, device: str, name: str, rng: np.random.Generator
) -> None:
    graph, params = dynstore.DynamicGraph(directed=False, device=device), {"start": 0} if name == "bfs" else {}

    def change() -> None:
        graph.insert_edges(tuple(rng.integers(0, 20, (2, 5))))
        graph.update(insert=tuple(rng.integers(0, 20, (2, 5))), delete=tuple(rng.integers(0, 20, (2, 5))))

    graph.insert_edges((np.arange(20), np.roll(np.arange(20), 1)))
    monitor = graph.track(name, **params)
    monkeypatch.setattr(Costs, "choose", choose_always("recomputed"))
    for _ in range(MOST_UNUSED + 1):
        change()
        monitor.refresh()
    with monkeypatch.context() as patched:
        patched.setattr("dynstore.graph.core.read_change", None)
        change()
    monkeypatch.setattr(Costs, "choose", choose_always("incremental"))
    # One result in a few looks whether changes are wanted again. Then some answers prepare for the incremental way.
    anew = {"recomputed", "warm"}
    for paths in (anew, anew, *[anew | {"incremental"}] * (MOST_UNUSED - 2), {"incremental"}):
        expected = getattr(dynstore, name)(graph, **params)
        compare(monitor.result(), expected, **({"pagerank": 1e-4} if name == "pagerank" else {}))
        assert monitor.path in paths
        change()


def test_a_log_that_keeps_nothing_counts() -> None:
    graph = dynstore.DynamicGraph(device="cpu", directed=False)
    graph.insert_edges((np.arange(40), np.arange(1, 41)))
    log = graph.core.follow()
    log.restart(keep=False)
    graph.insert_edges(([0, 1], [2, 2]))
    assert (log.num_edges, log.deletes, log.counted, log.complete) == (4, False, True, False)
    graph.update(insert=([7], [9]), delete=([3], [4]))
    assert (log.num_edges, log.deletes, log.counted, log.changes) == (8, True, True, [])
    graph.clear()
    assert not log.counted


def test_of_results_that_nothing_is_weighed_for_few_are_timed(
    monkeypatch: pytest.MonkeyPatch, device: str, rng: np.random.Generator
) -> None:
    graph = dynstore.DynamicGraph(directed=False, device=device)
    graph.insert_edges((np.arange(20), np.roll(np.arange(20), 1)))
    monitor, times = graph.track("weakly_connected_components"), []
    for name in ("MIN_KEPT", "MAX_SHARE"):  # no change is kept, unless it has no edge
        monkeypatch.setattr(f"dynstore.graph.core.{name}", 0)
    start = type(graph.core.backend).start_timer
    monkeypatch.setattr(type(graph.core.backend), "start_timer", lambda backend: times.append(1) or start(backend))
    results = 3 * MOST_UNUSED
    pairs = rng.permutation(np.stack(np.triu_indices(20, 2), axis=1))  # all but one are new
    for step in range(results):
        graph.insert_edges(tuple(pairs[5 * step : 5 * step + 5].T))
        compare(monitor.result(), dynstore.weakly_connected_components(graph))
        report = monitor.report()
        assert (report.version, report.path) == (graph.version, "recomputed")
        assert report.seconds > 0
    assert len(times) == results // MOST_UNUSED
