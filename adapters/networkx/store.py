"""A NetworkX graph in dynstore's form: nodes numbered in order of insertion, edges in a DynamicGraph."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from dynstore.errors import InputTypeError, type_name
from dynstore.graph import DynamicGraph

__all__ = ["GONE", "Layer", "StoreGraph", "flatten", "new_store", "read_numbers", "read_values", "store_graph_of"]

GONE = object()  # marks a removed node in `StoreGraph.nodes`; its number is not used again
MAX_NODES = 2**31 - 1
MAX_EXACT = float(2**53)  # whole numbers up to here are exact in float64


@dataclass(slots=True)
class Layer:
    """The edges with one attribute as weight.

    Attributes
    ----------
    graph : DynamicGraph
    integral : bool
        Whether all weights are Python ints, so that sums must be, too.
    largest : float
        Largest absolute weight so far.
    """

    graph: DynamicGraph
    integral: bool = True
    largest: float = 0.0


class StoreGraph:
    """The graph that the backend's functions run on.

    Attributes
    ----------
    nodes : list
        Number -> node, or ``GONE``. Numbers ascend in the order of insertion.
    ids : dict
        Node -> number, in the order of the graph's nodes.
    layers : dict
        Name of an edge attribute, or None for no weights -> :class:`Layer`. Made on the first request.
    """

    __networkx_backend__ = "dynstore"

    def __init__(self, directed: bool, nodes: list[Any], multigraph: bool = False) -> None:
        self.nodes = nodes
        self.ids: dict[Hashable, int] = dict(zip(nodes, range(len(nodes)), strict=True))
        self.layers: dict[str | None, Layer] = {}
        self._directed = directed
        self._multigraph = multigraph

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.ids)

    def __contains__(self, node: object) -> bool:
        try:
            return node in self.ids
        except TypeError:  # not hashable
            return False

    def is_directed(self) -> bool:
        """Whether (u, v) and (v, u) are different edges."""
        return self._directed

    def is_multigraph(self) -> bool:
        """Whether the converted graph is a multigraph; parallel edges are stored once."""
        return self._multigraph

    def number_of_nodes(self) -> int:
        """Return the number of nodes."""
        return len(self.ids)

    def live_ids(self) -> np.ndarray:
        """Return the numbers of the nodes, ascending, shape (N,), int64."""
        return np.fromiter(self.ids.values(), np.int64, len(self.ids))

    def named(self, ids: np.ndarray) -> list[Any]:
        """Return the nodes with these numbers."""
        return list(map(self.nodes.__getitem__, ids.tolist()))

    # Implemented by subclasses.

    def edges(self, inward: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return sources and destinations, shape (E,), in NetworkX's order; both directions of undirected edges.

        With ``inward``, edges are listed by destination: rows are nodes, neighbours their predecessors.
        """
        raise NotImplementedError

    def values(self, attribute: str) -> list[Any]:
        """Return the attribute of every edge, 1 if not set, in the order of :meth:`edges`."""
        raise NotImplementedError

    def ranked_edges(self, inward: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return rows, neighbours and ranks, sorted by (row, neighbour).

        In a row, ranks ascend in the order in which NetworkX lists the neighbours.
        """
        raise NotImplementedError

    # Used by the functions.

    def structure(self) -> DynamicGraph:
        """Return a store of the edges, with any weights."""
        for layer in self.layers.values():
            return layer.graph
        return self.unweighted()

    def unweighted(self) -> DynamicGraph:
        """Return the store of the edges without weights."""
        if None not in self.layers:
            self.layers[None] = Layer(self._build(None))
        return self.layers[None].graph

    def weighted(self, attribute: str) -> Layer:
        """Return the store of the edges with an attribute as weight.

        Raises
        ------
        NotImplementedError
            For weights that are not int or float: NetworkX then uses its own function.
        """
        if attribute not in self.layers:
            weights, integral, largest = read_numbers(attribute, self.values(attribute))
            self.layers[attribute] = Layer(self._build(weights), integral, largest)
        return self.layers[attribute]

    def _build(self, weights: np.ndarray | None) -> DynamicGraph:
        graph = new_store(self._directed, weights is not None)
        if self.nodes:
            graph.insert_vertices(len(self.nodes) - 1)
        src, dst = self.edges()
        if not self._directed:
            once = src <= dst
            src, dst = src[once], dst[once]
            weights = None if weights is None else weights[once]
        if src.shape[0]:
            graph.insert_edges((src, dst) if weights is None else (src, dst, weights))
        return graph


def new_store(directed: bool, weighted: bool, device: str | None = None) -> DynamicGraph:
    """Return an empty DynamicGraph, by default on the device that ``nx.config.backends.dynstore.device`` names."""
    if device is None:
        import networkx as nx

        device = getattr(getattr(nx.config.backends, "dynstore", None), "device", "auto")
    return DynamicGraph(
        directed=directed,
        weighted=weighted,
        weight_dtype="float64",
        device=device,  # type: ignore[arg-type]  # a wrong name is refused with the list of right ones
        max_vertices=MAX_NODES,
    )


def flatten(adjacency: Mapping[Any, Any], ids: dict[Any, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the rows and neighbours of a dict of dicts, in its order: two arrays, shape (E,), int32."""
    rows = np.fromiter(map(ids.__getitem__, adjacency), np.int32)
    listed = list(map(list, adjacency.values()))  # rows of a filtered view may report a wrong length
    counts = np.fromiter(map(len, listed), np.int64, len(listed))
    neighbours = chain.from_iterable(listed)
    return np.repeat(rows, counts), np.fromiter(map(ids.__getitem__, neighbours), np.int32, int(counts.sum()))


def read_values(adjacency: Mapping[Any, Any], attribute: Any, default: Any, multigraph: bool = False) -> list[Any]:
    """Return an attribute of every edge in the order of :func:`flatten`; the least value for parallel edges."""
    if multigraph:
        return [
            min(data.get(attribute, default) for data in parallel.values())
            for row in adjacency.values()
            for parallel in row.values()
        ]
    return [data.get(attribute, default) for row in adjacency.values() for data in row.values()]


def read_numbers(attribute: str, values: list[Any]) -> tuple[np.ndarray, bool, float]:
    """Return weights as float64, whether all are ints, and the largest absolute weight.

    Raises
    ------
    NotImplementedError
        For values that are no int or float, not finite, or not exact in float64.
    """
    kinds = set(map(type, values))
    if not kinds <= {int, float, bool}:
        others = ", ".join(sorted(kind.__name__ for kind in kinds - {int, float, bool}))
        raise NotImplementedError(f"edge attribute {attribute!r} has values of type {others}; wanted int or float")
    try:
        weights = np.array(values, dtype=np.float64)
    except OverflowError:
        raise NotImplementedError(f"edge attribute {attribute!r} has an int that is too large") from None
    largest = float(np.abs(weights).max(initial=0.0))
    if not np.isfinite(largest):
        raise NotImplementedError(f"edge attribute {attribute!r} has values that are not finite")
    if kinds - {float} and largest > MAX_EXACT:
        raise NotImplementedError(f"edge attribute {attribute!r} has ints above 2**53, which float64 rounds")
    return weights, float not in kinds, largest


def store_graph_of(G: Any) -> StoreGraph:
    """Return the updated StoreGraph of a ``dynstore`` graph."""
    current = getattr(G, "_current_store", None)
    if current is None:
        raise InputTypeError(
            f"dynstore backend: G is a {type_name(G)}; wanted a graph that was converted, as NetworkX does when called "
            "with backend='dynstore', or a dynstore.adapters.networkx.Graph"
        )
    graph: StoreGraph = current()
    return graph
