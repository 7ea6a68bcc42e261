"""Monitors: what they accept, when they compute anew, what they keep alive."""

from __future__ import annotations

import gc
import inspect
import weakref
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore.algorithms import Monitor, track
from dynstore.errors import InputError, InputTypeError, OutOfMemoryError, UnweightedGraphError
from tests.algorithms.streams import EXACT, compare

PARAMS: dict[str, dict[str, Any]] = {
    "bfs": {"start": 2},
    "pagerank": {"tol": 1e-8},
    "sssp": {"source": 2},
    "triangle_count": {},
    "weakly_connected_components": {},
}
every_answer = pytest.mark.parametrize("name", sorted(PARAMS))
pytestmark = pytest.mark.usefixtures("take_changes")


def wheel(device: str, **options: Any) -> dynstore.DynamicGraph:
    options = {"directed": False, **EXACT, **options}
    graph = dynstore.DynamicGraph(device=device, **options)
    rim = np.arange(1, 9)
    graph.insert_edges((np.append(0 * rim, rim), np.append(rim, np.roll(rim, 1)), np.arange(16) + 1.0))
    return graph


def check(monitor: Monitor, graph: dynstore.DynamicGraph, path: str) -> None:
    """Compare with the function; a result that has to prepare for the incremental way is computed anew."""
    if path == "incremental":
        deletes = not all(change.inserting for change in monitor._log.changes)
        if graph.version == monitor.version:
            path = monitor.path
        elif not monitor._answer.is_ready(deletes):
            path = "warm" if monitor._answer.starts_warm else "recomputed"
    expected = getattr(dynstore, monitor.name)(graph, **PARAMS[monitor.name])
    compare(monitor.result(), expected, **({"pagerank": 1e-6} if monitor.name == "pagerank" else {}))
    assert (monitor.path, monitor.version) == (path, graph.version)


@every_answer
def test_a_monitor_goes_through_every_kind_of_update(device: str, name: str) -> None:
    graph = wheel(device)
    monitor = graph.track(name, **PARAMS[name])
    check(monitor, graph, "recomputed")
    visits = monitor.edge_visits
    assert visits >= 16
    check(monitor, graph, "recomputed")  # nothing has changed since
    graph.insert_edges(([1, 20], [5, 3], [2.0, 9.0]))
    check(monitor, graph, "incremental")
    graph.insert_vertices([30])
    monitor.refresh()
    assert monitor.report()[:2] == (graph.version, "incremental")
    check(monitor, graph, "incremental")
    graph.delete_edges(([1], [5]))
    check(monitor, graph, "recomputed" if name == "weakly_connected_components" else "incremental")
    graph.delete_vertices([3, 20])
    check(monitor, graph, "incremental")
    graph.delete_edges(([40], [41]))
    check(monitor, graph, "incremental")
    graph.insert_edges(([0, 4], [4, 0], [0.5, 0.25]), on_duplicate="add")
    check(monitor, graph, "incremental")
    graph.clear()
    if name in ("bfs", "sssp"):
        with pytest.raises(InputError, match=f"{name}: Found invalid vertex"):
            monitor.result()
    else:
        check(monitor, graph, "recomputed")
    graph.insert_edges(([0, 1, 2, 3], [1, 2, 0, 0], [1.0, 1.0, 1.0, 2.0]))
    check(monitor, graph, "recomputed" if name in ("bfs", "sssp") else "incremental")


@pytest.mark.parametrize("store", ["gpma+", "merge"])
@pytest.mark.parametrize("name", ["pagerank", "triangle_count", "weakly_connected_components"])
def test_from_an_empty_graph(backend_name: str, name: str, store: str) -> None:
    graph = dynstore.DynamicGraph(directed=False, store=store, device=backend_name, **EXACT)
    monitor = graph.track(name, **PARAMS[name])
    check(monitor, graph, "recomputed")
    graph.delete_edges(([0], [1]))
    check(monitor, graph, "incremental")
    graph.insert_edges(([0, 1, 2], [1, 2, 0], [1.0, 2.0, 3.0]))
    check(monitor, graph, "incremental")
    graph.insert_vertices([5])
    check(monitor, graph, "incremental")


@every_answer
def test_ids_of_the_users_own(device: str, name: str) -> None:
    graph = wheel(device, renumber=True)
    monitor = graph.track(name, **PARAMS[name])
    graph.insert_edges(([2, 77], [6, 5], [2.0, 9.0]))
    check(monitor, graph, "incremental")
    graph.delete_edges((np.zeros(6, int), np.arange(1, 7)))
    graph.reorder()
    check(monitor, graph, "recomputed")
    graph.insert_edges(([2], [77], [0.5]))
    check(monitor, graph, "incremental")


@pytest.mark.parametrize("name", ["bfs", "sssp"])
def test_a_start_whose_number_is_another_vertex_now(device: str, name: str) -> None:
    graph = wheel(device, renumber=True, reuse_ids=True)
    monitor = graph.track(name, **PARAMS[name])
    graph.delete_vertices([2])
    graph.insert_edges(([50], [3], [1.0]))  # 50 takes the number of 2
    with pytest.raises(InputError, match="Found invalid vertex"):
        monitor.result()
    graph.insert_edges(([2], [3], [1.0]))
    check(monitor, graph, "recomputed")


@every_answer
def test_a_copy_is_not_followed(device: str, name: str) -> None:
    graph = wheel(device)
    monitor = graph.track(name, **PARAMS[name])
    twin = graph.copy()
    assert not twin.core.logs
    twin.delete_vertices([0])
    check(monitor, graph, "recomputed")
    graph.delete_edges(([0], [4]))
    graph.insert_edges(([0], [4], [1.0]))
    check(monitor, graph, "incremental")


def test_large_changes_are_not_kept(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = wheel(device)
    monitor = graph.track("triangle_count")
    monkeypatch.setattr("dynstore.graph.core.MIN_KEPT", 10)
    graph.insert_edges(([1, 2], [4, 5]), default_weight=1.0)
    graph.insert_edges(([1, 2], [5, 6]), default_weight=1.0)
    check(monitor, graph, "incremental")
    for _ in range(3):
        graph.insert_edges(([1, 2], [5, 6]), default_weight=1.0)
    assert not monitor._log.changes
    check(monitor, graph, "recomputed")


def test_an_update_keeps_its_change_only_where_somebody_follows(device: str) -> None:
    graph = wheel(device)
    monitor = graph.track("triangle_count")
    log = weakref.ref(monitor._log)
    graph.delete_edges(([1], [2]))
    assert [change.inserting for change in log().changes] == [False]
    monitor.close()
    gc.collect()
    assert log() is None
    assert graph.core.read_change(None, True) is None  # it does not even look
    with pytest.raises(InputError, match="Monitor: triangle_count was closed"):
        monitor.result()
    assert "closed" in repr(monitor)


def test_a_graph_does_not_keep_its_monitors(device: str) -> None:
    graph = wheel(device)
    monitor = weakref.ref(track(graph, "triangle_count"))
    gc.collect()
    assert monitor() is None
    assert not graph.core.logs


def test_what_comes_back_is_the_callers_own() -> None:
    graph = wheel("cpu")
    for name, params in PARAMS.items():
        monitor = graph.track(name, **params)
        frame = monitor.result()
        kept = [value for value in vars(monitor._answer).values() if isinstance(value, np.ndarray)]
        assert kept
        for column in frame:
            assert not any(np.shares_memory(frame[column].to_numpy(), array) for array in kept), (name, column)


def test_names_and_parameters_are_checked_at_once(device: str) -> None:
    graph = wheel(device)
    with pytest.raises(InputError, match=r"track: unknown answer 'pagerang'; known: .*Did you mean 'pagerank'\?"):
        graph.track("pagerang")
    with pytest.raises(InputError, match="track: unknown answer 'betweenness_centrality'"):
        graph.track("betweenness_centrality")
    with pytest.raises(InputTypeError, match="track: bfs: unknown parameter 'source'; known: 'start', "):
        graph.track("bfs", source=1)
    with pytest.raises(InputTypeError, match="bfs: 'start' is missing; wanted the vertices"):
        graph.track("bfs")
    with pytest.raises(InputError, match="bfs: Found invalid vertex in the input sources: got 99"):
        graph.track("bfs", start=99)
    with pytest.raises(InputError, match="triangle_count: input graph must be undirected"):
        wheel(device, directed=True).track("triangle_count")
    with pytest.raises(UnweightedGraphError, match="sssp: requires the input graph to be weighted"):
        dynstore.DynamicGraph(device=device).track("sssp", source=0)
    with pytest.raises(InputTypeError, match=r"bfs: G is a dict; wanted a dynstore.DynamicGraph"):
        track({}, "bfs")
    assert not graph.core.logs


HONOURED: dict[str, dict[str, Any]] = {
    "bfs": {"start": [1, 2], "i_start": 3, "depth_limit": 1, "return_predecessors": False},
    "pagerank": {
        "alpha": 0.5,
        "personalization": {"vertex": [1, 2], "values": [1.0, 3.0]},
        "max_iter": 500,
        "tol": 1e-9,
    },
    "sssp": {"source": 2, "method": "auto", "indices": 3, "cutoff": 9.0},
    "triangle_count": {"start_list": [3, 1]},
    "weakly_connected_components": {"connection": "weak"},
}


@every_answer
def test_every_parameter_is_honoured_or_refused(device: str, name: str) -> None:
    known = [*inspect.signature(getattr(dynstore, name)).parameters][1:]
    assert set(HONOURED[name]) <= set(known)
    for parameter in known:
        graph = wheel(device)
        params = {} if parameter in ("i_start", "indices") else dict(PARAMS[name])
        if parameter not in HONOURED[name]:
            with pytest.raises(InputError, match=f"{name}: .*{parameter}.*wanted"):
                graph.track(name, **{**params, parameter: 3})
            continue
        value = HONOURED[name][parameter]
        params[parameter] = pd.DataFrame(value) if isinstance(value, dict) else value
        monitor = graph.track(name, **params)
        graph.insert_edges(([1, 2, 20], [5, 6, 3], [2.0, 0.5, 9.0]))
        for deleted in (1, 2):
            expected = getattr(dynstore, name)(graph, **params)
            compare(monitor.result(), expected, **({"pagerank": 1e-6} if name == "pagerank" else {}))
            graph.delete_edges(([deleted], [deleted + 4]))


def test_parameters_of_a_single_run_may_have_their_defaults(device: str) -> None:
    graph = wheel(device)
    single = {"nstart": None, "precomputed_vertex_out_weight": None, "dangling": None}
    graph.track("pagerank", **single, warm_start=False, fail_on_nonconvergence=True)
    for name in ("warm_start", "fail_on_nonconvergence"):
        with pytest.raises(InputError, match=f"track: pagerank: {name} is 'no'; wanted (False|True)"):
            graph.track("pagerank", **{name: "no"})
    assert not graph.core.logs


@pytest.mark.parametrize("name", ["sssp", "pagerank"])
def test_negative_weights_are_refused_as_long_as_they_are_there(device: str, name: str) -> None:
    graph = wheel(device)
    monitor = graph.track(name, **PARAMS[name])
    graph.insert_edges(([3], [6], [-1.0]))
    for _ in range(2):
        with pytest.raises(InputError, match=f"{name}: the graph has negative weights"):
            monitor.result()
    graph.delete_edges(([3], [6]))
    check(monitor, graph, "recomputed")


def test_weights_that_add_nothing_make_sssp_compute_anew(device: str) -> None:
    graph = wheel(device)
    monitor = graph.track("sssp", source=2)
    graph.insert_edges(([2, 1], [6, 7], [0.0, 1e-30]))
    check(monitor, graph, "recomputed")
    graph.insert_edges(([5], [7], [1.0]))
    check(monitor, graph, "recomputed")
    graph.delete_edges(([2, 1], [6, 7]))
    check(monitor, graph, "recomputed")
    graph.insert_edges(([5], [7], [2.0]))
    check(monitor, graph, "incremental")


def test_a_result_that_fails_half_way_is_made_good(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = wheel(device)
    monitor = graph.track("bfs", start=2)
    graph.delete_edges(([2], [0]))

    def fail(*_: Any) -> None:
        raise OutOfMemoryError("cpu: could not allocate")

    with monkeypatch.context() as patched:
        patched.setattr(type(monitor._answer), "advance", fail)
        with pytest.raises(OutOfMemoryError):
            monitor.result()
    check(monitor, graph, "recomputed")


def test_a_monitor_whose_time_is_not_read_yet_ends_at_once(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, where the time of a result is read late."""
    graph = wheel(device)
    monkeypatch.setattr(Monitor, "_settle", lambda monitor: None)
    monitor = graph.track("triangle_count")
    end = weakref.ref(monitor)
    gc.disable()
    try:
        del monitor
        assert end() is None
        assert not graph.core._live_logs()
    finally:
        gc.enable()
