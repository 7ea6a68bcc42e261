"""Graphs for the tests of conversions, and their edges as plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore.testing.invariants import live_edges

Edges = dict[tuple[int, int], float]
Named = dict[tuple[Any, Any], float]
DTYPES = {"gpma+": ("int32", "float32"), "merge": ("int64", "float64"), "rebuild": ("int32", "float64")}

every_kind = pytest.mark.parametrize(
    "options",
    [
        {"store": store, "directed": directed, "weighted": weighted, "vertex_dtype": vertex, "weight_dtype": weight}
        for store, (vertex, weight) in DTYPES.items()
        for directed in (True, False)
        for weighted in (True, False)
    ],
    ids=lambda options: "-".join(str(value) for value in options.values()),
)


def gapped_graph(device: str = "cpu", **options: Any) -> dynstore.DynamicGraph:
    """Make a graph of 40 vertices, self-loops among its edges, that has seen deletions."""
    graph = dynstore.DynamicGraph(device=device, **options)
    src, dst = np.random.default_rng(5).integers(0, 39, (2, 400))
    weights = (np.arange(400) % 32) / 8
    graph.insert_edges((src, dst, weights) if graph.is_weighted() else (src, dst))
    graph.delete_edges((src[::3], dst[::3]))
    graph.insert_edges(([7, 39], [7, 0]), default_weight=1.0)
    return graph


KINDS = {
    "integers": lambda ids: ids * 7_000_000_000 + 3,
    "strings": lambda ids: np.array([f"account-{number}" for number in ids.tolist()], dtype=object),
}
every_id = pytest.mark.parametrize("kind", KINDS)


def named_graph(kind: str, device: str = "cpu", **options: Any) -> tuple[dynstore.DynamicGraph, Named]:
    """Make a renumbered graph, and return its edges too: weights (1 in an unweighted graph) by pair of ids.

    Of an undirected graph each pair stands there once, the lower id first.
    """
    graph = dynstore.DynamicGraph(device=device, renumber=True, **options)
    numbers = np.random.default_rng(8).integers(0, 30, (2, 200))
    src, dst = (KINDS[kind](column) for column in numbers)
    weights = np.arange(200) / 4
    graph.insert_edges((src, dst, weights) if graph.is_weighted() else (src, dst))
    graph.delete_edges((src[::3], dst[::3]))
    pairs = [(u, v) if graph.is_directed() else (min(u, v), max(u, v)) for u, v in zip(src, dst, strict=True)]
    gone = set(pairs[::3])
    return graph, {
        pair: float(weight) if graph.is_weighted() else 1.0
        for pair, weight in zip(pairs, weights, strict=True)
        if pair not in gone
    }


def named_rows(source: Any, destination: Any, weight: Any = None, directed: bool = True) -> Named:
    """Return the same of columns; of an undirected graph both directions may be there."""
    weight = [1.0] * len(source) if weight is None else weight
    return {
        (u, v) if directed else (min(u, v), max(u, v)): float(w)
        for u, v, w in zip(source, destination, weight, strict=True)
    }


def edges_of(graph: dynstore.DynamicGraph) -> Edges:
    """Return the edges and their weights (1 in an unweighted graph); undirected ones once, source <= destination."""
    stored = live_edges(graph.snapshot())
    return {(u, v): weight for (u, v), weight in stored.items() if graph.is_directed() or u <= v}


def rows_of(source: Any, destination: Any, weight: Any = None) -> Edges:
    """Return the same of columns, which must not name an edge twice."""
    weight = [1.0] * len(source) if weight is None else weight
    rows = {(int(u), int(v)): float(w) for u, v, w in zip(source, destination, weight, strict=True)}
    assert len(rows) == len(source)
    return rows
