"""Any sequence of operations on a graph: every monitor says what its function says, and refuses what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import invariant, run_state_machine_as_test

import dynstore
from dynstore.algorithms import Monitor
from dynstore.errors import InputError
from dynstore.testing.faults import for_every_allocation, for_every_new_array
from dynstore.testing.machine import GraphMachine, make_machine
from dynstore.testing.pair import ID_KINDS, Pair
from tests.algorithms.streams import compare


class TrackedMachine(GraphMachine):
    """Monitors follow the graph from when their functions first accept it; a copy gets monitors of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.monitors: dict[int, dict[str, Monitor]] = {}
        self.steps = 0

    @invariant()
    def answers_are_current(self) -> None:
        if self.pair is None:
            return
        self.steps += 1
        graph, start = self.pair.graph, ID_KINDS[self.ids](3)
        params: dict[str, dict[str, Any]] = {"bfs": {"start": start}, "weakly_connected_components": {}}
        if graph.is_weighted():
            params["sssp"] = {"source": start}
        else:
            params["pagerank"] = {"tol": 1e-5}
        if not graph.is_directed():
            params["triangle_count"] = {}
        monitors = self.monitors.setdefault(id(graph), {})
        for number, (name, given) in enumerate(params.items()):
            if (self.steps + number) % 3 == 0:
                continue  # the next result sums up several updates
            try:
                expected = getattr(dynstore, name)(graph, **given)
            except InputError as error:
                with pytest.raises(type(error)):
                    monitors[name].result() if name in monitors else graph.track(name, **given)
                continue
            if name not in monitors:
                monitors[name] = graph.track(name, **given)
            limits = {"pagerank": 2e-4} if name == "pagerank" else {}
            compare(monitors[name].result(), expected, name, **limits)


def tracked(store: str, ids: str) -> type[GraphMachine]:
    machine = make_machine(store, "cpu", most_rows=12, most_id=30, ids=ids)
    return type(f"Tracked{machine.__name__}", (machine, TrackedMachine), {})


@pytest.mark.usefixtures("take_any_way")
@pytest.mark.parametrize(("store", "ids"), [("gpma+", "dense"), ("merge", "sparse"), ("gpma+", "strings")])
def test_any_sequence_of_operations(store: str, ids: str) -> None:
    few = settings(max_examples=settings().max_examples // 4)  # five functions after each step take their time
    run_state_machine_as_test(tracked(store, ids), settings=few)


@pytest.mark.usefixtures("take_changes")
@pytest.mark.parametrize("fail", [for_every_allocation, for_every_new_array])
@pytest.mark.parametrize("weighted", [True, False])
def test_an_update_that_is_followed_happens_as_a_whole_or_not_at_all(
    monkeypatch: pytest.MonkeyPatch, fail: Any, weighted: bool
) -> None:
    pair = Pair(directed=False, weighted=weighted, device="cpu")
    pair.update("insert_edges", ([0, 1, 2, 2, 5], [1, 2, 0, 3, 4]))
    monitor = pair.graph.track("triangle_count")
    for method, edges in (("insert_edges", ([0, 3, 6], [3, 1, 2])), ("delete_edges", ([1, 2, 9], [2, 3, 9]))):
        assert fail(monkeypatch, pair, method, edges) >= 2
        assert len(monitor._log.changes) == 1
        compare(monitor.result(), dynstore.triangle_count(pair.graph))
        assert monitor.path == "incremental"
