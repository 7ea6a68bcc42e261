"""An update of events that fails, for whatever reason, leaves the graph as it was, and all that follows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dynstore import DynamicGraph
from dynstore.errors import OutOfMemoryError
from dynstore.testing.faults import let_fail
from dynstore.testing.invariants import check_graph
from tests.conftest import DEVICES

FAILING = [
    (device, what) for device in DEVICES for what in ("empty", "array", "kernel") if (device, what) != ("cpu", "kernel")
]
KINDS: dict[str, dict[str, Any]] = {
    "directed": {"weighted": True, "timestamps": "int64", "edge_columns": {"kind": "int8"}},
    "undirected": {"directed": False, "weighted": True, "weight_dtype": "int64", "timestamps": "int64"},
    "renumbered": {"renumber": True, "reuse_ids": True, "timestamps": "int32"},
}
Made = tuple[DynamicGraph, list[Any]]


def batch(G: DynamicGraph, rng: np.random.Generator, size: int, first: int) -> dict[str, Any]:
    """Return rows with all that the graph's events have, and ids that do not ascend."""
    columns = list(rng.integers(0, 7, (2, size)))
    if G.is_weighted():
        columns.append(rng.integers(1, 9, size))
    if "kind" in G.edge_dtypes:
        columns.append(rng.integers(0, 4, size))
    columns.append(np.arange(size) + first)
    on_device = G.core.backend.asarray
    ids = {"edge_id": rng.permutation(size) + first, "wanted": np.arange(0, 70, 2)}
    return {"rows": tuple(map(on_device, columns)), **{name: on_device(column) for name, column in ids.items()}}


def make(kind: str, device: str) -> Made:
    """Make a graph of events with what follows it: graphs of pairs, tracked answers, a pin."""
    chosen: Any = device
    G, rng = DynamicGraph(multigraph=True, device=chosen, **KINDS[kind]), np.random.default_rng(4)
    for first in (0, 40):
        rows = batch(G, rng, 40, first)
        G.insert_edges(rows["rows"], edge_id=rows["edge_id"])
    names = ("sum", "count", "min") if G.is_weighted() else ("count",)
    followers: list[Any] = [G.simple(name) for name in names]
    followers.append(followers[0].track("pagerank"))
    followers.append(G.pin())
    G.delete_edges(edge_ids=np.arange(3, 60, 5))
    return G, followers


def state_of(made: Made) -> Any:
    """Return all that can be asked of a graph and of what follows it."""
    G, followers = made
    to_host = G.core.backend.to_host
    tables = [G, *(graph for graph in followers if hasattr(graph, "edge_columns"))]
    columns = [{name: to_host(array).tolist() for name, array in each.edge_columns().items()} for each in tables]
    return columns, G.version, followers[0].version, G.number_of_vertices(), [to_host(G.row_lengths()).tolist()]


CALLS: dict[str, Callable[[DynamicGraph, dict[str, Any]], Any]] = {
    "insert": lambda G, given: G.insert_edges(given["rows"], edge_id=given["edge_id"]),
    "delete ids": lambda G, given: G.delete_edges(edge_ids=given["wanted"]),
    "delete oldest": lambda G, given: G.delete_edges(given["rows"][:2], which="oldest"),
    "update": lambda G, given: G.update(
        given["rows"], given["rows"][:2], 30, edge_id=given["edge_id"], drop_vertices=G.core.ids.reuse_ids
    ),
    "expire": lambda G, given: G.expire(50),
    "delete_vertices": lambda G, given: G.delete_vertices([1, 2]),
    "clear": lambda G, given: G.clear(),
}
CASES = [
    # Each kind of failure meets each call once, with the kinds of graphs in turn.
    pytest.param(list(KINDS)[(number + place) % len(KINDS)], call, device, what)
    for number, call in enumerate(CALLS)
    for place, (device, what) in enumerate(FAILING)
]


@pytest.mark.parametrize(("kind", "call", "device", "what"), CASES)
def test_an_allocation_or_a_kernel_that_fails(
    monkeypatch: pytest.MonkeyPatch, kind: str, call: str, device: str, what: str
) -> None:
    made = make(kind, device)
    G = made[0]
    before, backend, given = state_of(made), G.core.backend, batch(made[0], np.random.default_rng(9), 50, 100)
    for n in range(400):
        with monkeypatch.context() as patch:
            let_fail(patch, backend, what, n)
            try:
                CALLS[call](G, given)
            except OutOfMemoryError:
                pass
            else:
                break
        assert state_of(made) == before, f"call {n}"
        check_graph(made[1][0])
    else:
        pytest.fail("it never came to an end")
    twin = make(kind, device)
    CALLS[call](twin[0], given)
    assert state_of(made) == state_of(twin)
    found, wanted = (each[1][-2].result()["pagerank"].to_numpy() for each in (made, twin))
    assert found == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_columns_that_grow_are_refused_whole(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    """A log that is full, a table of pairs, and one of ids that cannot grow change nothing."""
    made = make("directed", device)
    G = made[0]
    before, backend, given = state_of(made), G.core.backend, batch(G, np.random.default_rng(9), 4500, 100)
    for n in range(300):
        with monkeypatch.context() as patch:
            let_fail(patch, backend, "empty", n)
            try:
                G.insert_edges(given["rows"], edge_id=given["edge_id"])
            except OutOfMemoryError:
                pass
            else:
                break
        assert state_of(made) == before, f"call {n}"
    assert G.number_of_edges() == len(before[0][0]["source"]) + 4500
