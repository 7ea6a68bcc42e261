"""NetworkX's PageRank, betweenness and degree centralities."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dynstore.adapters.networkx.offers import offer
from dynstore.adapters.networkx.store import StoreGraph
from dynstore.adapters.networkx.structure import count_neighbours
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
    into = store.snapshot(transposed=True)
    if has_negative_weights(into):
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

    kernels = backend.kernels("dynstore.algorithms.link_analysis", "ranks")
    sums = kernels.sum_out_weights(store.snapshot()).astype(np.float64)
    limit = len(G) * tol
    ranks, _, error = kernels.pagerank(
        into, sums, float(alpha), None if targets is None else spread(targets), spread(start), max_iter, limit
    )
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
        out = store.snapshot()
        kernels = store.core.backend.kernels("dynstore.algorithms.centrality")
        into = None if G.is_directed() else out
        totals = store.core.backend.to_host(kernels.accumulate_dependencies(out, into, sources, bool(endpoints)))
    at_sources, elsewhere = _scales(len(G), k, bool(normalized), bool(endpoints), G.is_directed())
    factors = np.full(totals.shape[0], elsewhere)
    factors[sources] = at_sources
    return dict(zip(G, (totals * factors)[G.live_ids()].tolist(), strict=True))


def _scales(n: int, k: int | None, normalized: bool, endpoints: bool, directed: bool) -> tuple[float, float]:
    """Return NetworkX's scaling factors for sampled sources, and for other nodes.

    Without endpoints a source is no inner node of its own paths, so its sum comes from one source fewer.
    """
    others = n if endpoints else n - 1
    if others < 2:
        return 1.0, 1.0

    def scale(speaking: int) -> float:
        if normalized:
            return 1 / (speaking * (others - 1))
        return others / (speaking * (1 if directed else 2))

    if k is None:
        return scale(others), scale(others)
    if endpoints:
        return scale(k), scale(k)
    return scale(k - 1) if k > 1 else math.nan, scale(k)


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
