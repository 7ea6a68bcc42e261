"""Graphs of all stores with options, ids and a past, and the comparison of two graphs."""

from __future__ import annotations

from typing import Any

import numpy as np

import dynstore
from dynstore import DynamicGraph
from dynstore.stores import STORES, get_store

# Options that differ from the defaults.
OPTIONS: dict[str, dict[str, Any]] = {
    "adjlists": {"growth": 2.0},
    "gpma": {"deletion": "pack"},
    "gpma+": {"merge_cost": np.float64(1.5), "build_density": 0.5, "root_lower": 0.2, "tuning": {"tile_fill": 0.5}},
    "gpma_level": {"merge_cost": 2.0},
    "graphvine": {"compaction": False, "refill": 0.5},
    "lpma": {"strategy": "top-down", "threshold": 0.5},
    "pma": {"build_density": 0.6},
    "slab_hash": {"load_factor": 0.5, "reuse_tombstones": False},
}
KINDS = [(True, False), (True, True), (False, False), (False, True)]
KIND_NAMES = ["directed", "directed-weighted", "undirected", "undirected-weighted"]
NAMES = ["", "ann", "bob", "Zoë", "\U0001f600", "a\x00b", "\u00df", "ann ", "x" * 40, "0", "1", "2", "3", "4", "5", "6"]
IDS: dict[str, Any] = {
    "dense": lambda number: number,
    "sparse": lambda number: number * 0x9E3779B97F4A7C15 % (2**63 - 1),
    "strings": lambda number: NAMES[number],
}


def runs_on(store: str, device: str) -> bool:
    return device == "cpu" or "cuda" in get_store(store).families


def every_store_and_device(devices: list[str]) -> list[tuple[str, str]]:
    return [(store, device) for device in devices for store in sorted(STORES) if runs_on(store, device)]


def make_graph(
    store: str, device: str, directed: bool, weighted: bool, ids: str = "dense", **more: Any
) -> DynamicGraph:
    """Make a graph with self-loops, isolated vertices, deleted edges and, under ids of its own, deleted vertices."""
    name = IDS[ids]
    if ids != "dense":
        more = {"renumber": True, "reuse_ids": True, **more}
    G = DynamicGraph(directed, weighted, store, device, max_vertices=40, capacity=50, **more, **OPTIONS.get(store, {}))

    def named(numbers: Any) -> list[Any]:
        return [name(int(number)) for number in numbers]

    rng = np.random.default_rng(3)
    src, dst = rng.integers(0, 12, (2, 40))
    weights = [rng.integers(-4, 9, 40) / 4] if weighted else []
    G.insert_edges((named(src), named(dst), *weights))
    G.insert_edges((named([0, 5]), named([0, 5]), *([[0.5, -0.0]] if weighted else [])))
    G.delete_edges((named(src[:9]), named(dst[:9])))
    G.insert_vertices(named([13]))
    G.delete_vertices(named([2, 7]))
    return G


def host_columns(G: DynamicGraph) -> dict[str, list[Any]]:
    return {name: G.core.backend.to_host(column).tolist() for name, column in G.edge_columns().items()}


def assert_equal(G: DynamicGraph, H: DynamicGraph, version: bool = True) -> None:
    """Assert that two graphs are equal, and go on equally; neither changes."""
    assert (type(G), G.core.state().options) == (type(H), H.core.state().options)
    assert not version or G.version == H.version
    G, H = G.copy(), H.copy()
    for step in range(3):
        assert (G.number_of_vertices(), G.number_of_edges()) == (H.number_of_vertices(), H.number_of_edges())
        assert list(G) == list(H)
        assert host_columns(G) == host_columns(H)
        first = next(iter(G))
        for found in (lambda graph, first=first: dynstore.bfs(graph, first), lambda graph: graph.degree()):
            assert found(G).to_dict("list") == found(H).to_dict("list")
        names = NAMES[3:6] if isinstance(first, str) else [3, 4, 14]
        batch = ([*names, first], [first, first, names[step], names[2]])
        reports = [graph.insert_edges((*batch, [1.0] * 4) if graph.is_weighted() else batch) for graph in (G, H)]
        assert reports[0][:5] == reports[1][:5]
