"""A graph made directed or undirected: its edges, their weights and columns, its ids and isolated vertices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dynstore import DynamicGraph
from dynstore.graph import records
from dynstore.graph.state import redirected
from dynstore.ids.strings import DeviceStrings
from dynstore.testing.invariants import check_graph
from tests.conftest import DEVICES
from tests.crossed import in_turn
from tests.graph.cases import IDS, KIND_NAMES, KINDS, assert_equal, every_store_and_device, host_columns, make_graph

Edges = dict[tuple[Any, Any], list[Any]]


def edges_of(G: DynamicGraph) -> Edges:
    """Return what each edge holds; the ends of undirected ones in order."""
    columns = host_columns(G)
    rows = zip(columns.pop("source"), columns.pop("destination"), *columns.values(), strict=True)
    return {(u, v) if G.is_directed() or u <= v else (v, u): held for u, v, *held in rows}


def turned(G: DynamicGraph) -> Edges:
    """Return the edges that the graph of the other direction should have."""
    edges: Edges = {}
    for (u, v), held in edges_of(G).items():
        if G.is_directed():
            pair = min(u, v), max(u, v)
            edges[pair] = min(held, edges.get(pair, held))
        else:
            edges[u, v] = edges[v, u] = held
    return edges


CASES = [(*one, "dense") for one in every_store_and_device(DEVICES)]
CASES += [("gpma+", device, ids) for device in DEVICES for ids in IDS if ids != "dense"]


@in_turn(case=CASES, directed=[True, False], weighted=[True, False])
def test_edges_and_vertices(case: tuple[str, str, str], directed: bool, weighted: bool) -> None:
    store, device, ids = case
    G = make_graph(store, device, directed, weighted, ids)
    before = host_columns(G)
    H = redirected(G, not directed)
    check_graph(H)
    assert H.is_directed() != directed
    assert (H.is_weighted(), H.device, H.store_name) == (weighted, device, store)
    assert edges_of(H) == turned(G)
    assert (H.number_of_edges(), list(H)) == (len(turned(G)), list(G))
    H.delete_vertices(next(iter(H)))
    assert host_columns(G) == before
    assert_equal(G, redirected(G, directed))


@pytest.mark.parametrize(("directed", "weighted"), KINDS, ids=KIND_NAMES)
def test_extra_columns(directed: bool, weighted: bool, backend_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MIN_RECORDS", 2)
    G = DynamicGraph(directed, weighted, device=backend_name, edge_columns={"id": "int64"})
    rng = np.random.default_rng(2)
    src, dst = rng.integers(0, 9, (2, 40))
    weights = [rng.permutation(40).astype(np.float32)] if weighted else []
    G.insert_edges((src, dst, *weights, np.arange(40)))
    H = redirected(G, not directed)
    check_graph(H)
    if weighted or not directed:
        assert edges_of(H) == turned(G)
    else:  # the rows decide which of two directions is kept
        own = edges_of(G)
        for (u, v), held in edges_of(H).items():
            assert held == own.get((max(u, v), min(u, v)), own.get((u, v)))
    for _ in range(5):  # records are found and freed again
        H.insert_edges((src, dst, *weights, np.arange(40) + 100))
    check_graph(H)
    found, inserted = edges_of(H), zip(src.tolist(), dst.tolist(), strict=True)
    assert all(found[(u, v) if not directed else (min(u, v), max(u, v))][-1] >= 100 for u, v in inserted)


@pytest.mark.parametrize("renumber", [False, True])
def test_graphs_without_edges(renumber: bool, backend_name: str) -> None:
    G = DynamicGraph(device=backend_name, renumber=renumber)
    assert redirected(G, False).number_of_vertices() == 0
    G.insert_vertices([3])
    H = redirected(G, False)
    assert (H.number_of_vertices(), H.number_of_edges()) == (G.number_of_vertices(), 0)


def test_strings_stay_on_their_device(backend_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    G = DynamicGraph(device=backend_name, renumber=True)
    G.insert_edges((["ann", "bob"], ["bob", "cid"]))
    monkeypatch.setattr(DeviceStrings, "to_host", lambda texts: pytest.fail("strings are read on the host"))
    H = redirected(G, False)
    monkeypatch.undo()
    assert edges_of(H) == {("ann", "bob"): [], ("bob", "cid"): []}
