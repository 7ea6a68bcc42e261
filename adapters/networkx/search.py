"""Searches on a store, with distances from the kernels, in NetworkX's order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.adapters.networkx.order import Order, TightEdges, order_levels
from dynstore.adapters.networkx.store import MAX_EXACT, Layer, StoreGraph
from dynstore.algorithms.door import compute_rows
from dynstore.algorithms.inputs import has_negative_weights

if TYPE_CHECKING:
    from dynstore.graph import DynamicGraph

__all__ = ["NodeDistances", "check_weights", "search_edges", "search_weights"]


class NodeDistances:
    """The distances of the nodes from the sources.

    Attributes
    ----------
    G : StoreGraph
    first : list of int
        The sources, in order.
    distances : numpy.ndarray, shape (V,)
        int64 (hops) or float64 (sums of weights); -1 if unreached.
    integral : bool
        Whether distances are Python ints.
    weight : str or None
    inward : bool
        Whether edges were followed against their direction.
    """

    def __init__(
        self, G: StoreGraph, first: list[int], distances: np.ndarray, integral: bool, weight: str | None, inward: bool
    ) -> None:
        self.G = G
        self.first = first
        self.distances = distances
        self.integral = integral
        self.weight = weight
        self.inward = inward
        self._order: Order | None = None

    def lengths(self, ordered: bool = False) -> dict[Any, Any]:
        """Return node -> distance, by distance, then in the order of the nodes; ``ordered``: in NetworkX's order."""
        if ordered:
            reached = self.order().ids
        else:
            reached = np.nonzero(self.distances >= 0)[0]
            reached = reached[np.argsort(self.distances[reached], kind="stable")]
        return dict(zip(self.G.named(reached), self.numbers(reached), strict=True))

    def numbers(self, ids: np.ndarray) -> list[Any]:
        """Return distances in NetworkX's types: int, or float if weights are; a source's is always the int 0."""
        distances = self.distances[ids]
        if self.integral:
            steps: list[Any] = distances.astype(np.int64).tolist()
            return steps
        numbers: list[Any] = distances.tolist()
        for at in np.nonzero(np.isin(ids, self.first))[0].tolist():
            numbers[at] = 0
        return numbers

    def number(self, vertex: int) -> Any:
        """Return one distance."""
        return self.numbers(np.array([vertex]))[0]

    def tight_edges(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return rows, neighbours and ranks of the edges that lie on shortest paths."""
        rows, neighbours, ranks = self.G.ranked_edges(self.inward)
        start, end = self.distances[rows], self.distances[neighbours]
        if self.weight is None:
            tight = (start >= 0) & (start + 1 == end)
        else:
            # Sorted by (row, neighbour) like the ranked edges, so both list the same edges.
            graph = self.G.weighted(self.weight).graph
            packed = graph.snapshot(transposed=self.inward).compact()
            tight = (start >= 0) & (start + graph.core.backend.to_host(packed.weights) == end)
        return rows[tight], neighbours[tight], ranks[tight]

    def order(self) -> Order:
        """Return the reached nodes in the order in which NetworkX visits them, and their parents."""
        if self._order is None:
            tight = TightEdges(*self.tight_edges(), len(self.G.nodes))
            self._order = order_levels(self.first, self._levels(), tight)
        return self._order

    def _levels(self) -> np.ndarray:
        if self.weight is None:
            return self.distances
        reached = self.distances >= 0
        levels = np.full(self.distances.shape[0], -1, np.int64)
        levels[reached] = np.unique(self.distances[reached], return_inverse=True)[1]
        return levels

    def paths(self, towards: bool = False) -> dict[Any, list[Any]]:
        """Return node -> the path from the source to it, or, with ``towards``, from it to the source."""
        order = self.order()
        ids = order.ids.tolist()
        nodes, parents = self.G.nodes, order.parents[order.ids].tolist()
        paths: dict[int, list[Any]] = {}
        for v, parent in zip(ids, parents, strict=True):
            if parent < 0:
                paths[v] = [nodes[v]]
            else:
                paths[v] = [nodes[v], *paths[parent]] if towards else [*paths[parent], nodes[v]]
        return {nodes[v]: path for v, path in paths.items()}

    def path(self, target: int) -> list[Any]:
        """Return the path from the source to one reached node."""
        parents = self.order().parents
        path = []
        while target >= 0:
            path.append(self.G.nodes[target])
            target = int(parents[target])
        return path[::-1]


def search_edges(
    G: StoreGraph, first: Sequence[int], limit: float | None = None, inward: bool = False, weight: None = None
) -> NodeDistances:
    """Count the edges on the shortest path from the sources (node numbers) to every node.

    Parameters
    ----------
    limit : float, optional
        As in NetworkX: a level is opened while its number is below the limit.
    inward : bool
        Follow edges against their direction.
    """
    store = G.structure()
    distances = np.full(len(G.nodes), -1, np.int64)
    if first:
        sources = np.array(first, np.int64)
        found, _ = compute_rows(store, "bfs", sources, _depth(limit, store), False, inward=inward)
        hops = store.core.backend.to_host(found).astype(np.int64)
        reached = hops != np.iinfo(store.vertex_dtype).max
        distances[reached] = hops[reached]
    return NodeDistances(G, list(first), distances, True, None, inward)


def _depth(limit: float | None, store: DynamicGraph) -> int:
    deepest = int(np.iinfo(store.vertex_dtype).max)
    if limit is None or limit >= deepest:
        return deepest
    return math.ceil(limit) if limit > 0 else 0  # NaN opens no level either


def check_weights(G: StoreGraph, weight: str) -> Layer:
    """Return the layer of a weight that the shortest-path kernel supports.

    Raises
    ------
    NotImplementedError
        For negative weights, for ints whose sums may be inexact in float64, and for sums that may overflow it.
    """
    layer = G.weighted(weight)
    if has_negative_weights(layer.graph.snapshot()):
        raise NotImplementedError(f"edge attribute {weight!r} has negative values")
    longest = layer.largest * len(G.nodes)
    if layer.integral and longest > MAX_EXACT:
        raise NotImplementedError(f"edge attribute {weight!r}: sums may exceed 2**53, which float64 rounds")
    if math.isinf(longest):
        raise NotImplementedError(f"edge attribute {weight!r}: sums may overflow float64")
    return layer


def search_weights(
    G: StoreGraph, source: int, weight: str | None, cutoff: float | None = None, inward: bool = False
) -> NodeDistances:
    """Sum the weights on the shortest paths from a node (its number); ``weight=None`` counts edges.

    Parameters
    ----------
    cutoff : float, optional
        Longer paths are not searched.
    """
    cutoff = math.inf if cutoff is None or math.isnan(cutoff) else cutoff  # nothing is longer than NaN
    if weight is None:
        # A path of `cutoff` edges is allowed, so levels are opened completely or not at all.
        return search_edges(G, [source], math.floor(cutoff) if math.isfinite(cutoff) else cutoff, inward)
    layer = check_weights(G, weight)
    limit = math.nextafter(cutoff, math.inf)  # the kernel's cutoff is strict
    store = layer.graph
    found, _ = compute_rows(store, "sssp", source, limit, inward=inward)
    distances = store.core.backend.to_host(found)
    distances = np.where(distances == np.finfo(np.float64).max, -1.0, distances)
    return NodeDistances(G, [source], distances, layer.integral, weight, inward)
