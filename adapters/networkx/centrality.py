"""NetworkX's PageRank, betweenness and degree centralities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dynstore.adapters.networkx.offers import offer
from dynstore.adapters.networkx.store import StoreGraph
from dynstore.adapters.networkx.structure import count_neighbours
from dynstore.algorithms.centrality.scaling import scale_factors
from dynstore.algorithms.door import compute_rows
from dynstore.algorithms.inputs import has_negative_weights

__all__ = [
    "betweenness_centrality",
    "degree_centrality",
    "in_degree_centrality",
    "out_degree_centrality",
    "pagerank",
]


def _refuse_dangling(arguments: dict[str, Any]) -> str | None:
    if arguments["dangling"] is not None and arguments["dangling"] != arguments["personalization"]:
        return "dangling differs from personalization"
    return "weight is a function" if callable(arguments["weight"]) else None


@offer(refuses=_refuse_dangling)
def pagerank(
    G: StoreGraph,
    alpha: float = 0.85,
    personalization: Mapping[Any, float] | None = None,
    max_iter: int = 100,
    tol: float = 1.0e-6,
    nstart: Mapping[Any, float] | None = None,
    weight: str | None = "weight",
    dangling: Mapping[Any, float] | None = None,
) -> dict[Any, float]:
    """Rank nodes in float64; stops after an iteration that changes the ranks by less than N * tol in sum."""
    if not len(G):
        return {}
    store = G.unweighted() if weight is None else G.weighted(weight).graph
    backend = store.core.backend
    if has_negative_weights(store.snapshot(transposed=True)):
        raise NotImplementedError(f"edge attribute {weight!r} has negative values")
    ids = G.live_ids()
    everywhere = np.full(ids.shape[0], 1 / len(G))
    start = everywhere if nstart is None else np.array([nstart.get(node, 0) for node in G], dtype=np.float64)
    targets = None
    if personalization is not None:
        targets = np.array([personalization.get(node, 0) for node in G], dtype=np.float64)
        if targets.sum() == 0:
            raise ZeroDivisionError("pagerank: personalization sums to 0")
    elif len(G) < len(G.nodes):
        targets = everywhere  # so that removed nodes get nothing

    def spread(values: np.ndarray) -> Any:
        row = np.zeros(len(G.nodes))
        row[ids] = values / values.sum()
        return backend.asarray(row)

    limit, towards = len(G) * tol, None if targets is None else spread(targets)
    inputs = None, float(alpha), towards, spread(start), max_iter, limit
    ranks, _, error = compute_rows(store, "pagerank", *inputs)
    if not error < limit:
        import networkx as nx

        raise nx.PowerIterationFailedConvergence(max_iter)
    return dict(zip(G, backend.to_host(ranks)[ids].tolist(), strict=True))


def _refuse_weight(arguments: dict[str, Any]) -> str | None:
    return "weighted betweenness is not offered" if arguments["weight"] is not None else None


@offer(multigraphs=True, refuses=_refuse_weight)
def betweenness_centrality(
    G: StoreGraph,
    k: int | None = None,
    normalized: bool = True,
    weight: None = None,
    endpoints: bool = False,
    seed: Any = None,
) -> dict[Any, float]:
    """Return each node's share of shortest paths, from all nodes or from ``k`` nodes sampled with ``seed``."""
    import networkx as nx

    if k == len(G):
        k = None
    sources = G.live_ids()
    if k is not None:
        sample = nx.utils.create_py_random_state(seed).sample(list(G), k)
        sources = np.array([G.ids[node] for node in sample], np.int64)
    totals = np.zeros(len(G.nodes))
    if sources.shape[0]:
        store = G.structure()
        totals = store.core.backend.to_host(compute_rows(store, "betweenness_centrality", sources, bool(endpoints)))
    count = sources.shape[0]
    at_sources, elsewhere = scale_factors(len(G), count, bool(normalized), bool(endpoints), G.is_directed())
    if np.isnan(elsewhere):
        raise ZeroDivisionError("betweenness_centrality: k is 0")  # as NetworkX
    factors = np.full(totals.shape[0], elsewhere)
    factors[sources] = at_sources
    return dict(zip(G, (totals * factors)[G.live_ids()].tolist(), strict=True))


def _scaled(G: StoreGraph, degrees: np.ndarray) -> dict[Any, float]:
    if len(G) <= 1:
        return dict.fromkeys(G, 1)
    scale = 1.0 / (len(G) - 1.0)
    return {node: degree * scale for node, degree in zip(G, degrees[G.live_ids()].tolist(), strict=True)}


@offer(cheap=True)
def degree_centrality(G: StoreGraph) -> dict[Any, float]:
    """Return degrees as a share of the other nodes; a self-loop counts twice."""
    if G.is_directed():
        return _scaled(G, count_neighbours(G) + count_neighbours(G, inward=True))
    return _scaled(G, count_neighbours(G, loops=2))


@offer(cheap=True)
def in_degree_centrality(G: StoreGraph) -> dict[Any, float]:
    """Return in-degrees as a share of the other nodes."""
    return _scaled(G, count_neighbours(G, inward=True))


@offer(cheap=True)
def out_degree_centrality(G: StoreGraph) -> dict[Any, float]:
    """Return out-degrees as a share of the other nodes."""
    return _scaled(G, count_neighbours(G))
