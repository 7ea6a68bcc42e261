"""Conversions between NetworkX's graphs and ours; NetworkX calls them and caches their results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dynstore.adapters.networkx.store import StoreGraph, flatten, read_values

__all__ = ["ConvertedGraph", "convert_from_nx", "convert_to_nx"]


class ConvertedGraph(StoreGraph):
    """A copy of a NetworkX graph: it keeps the order and the requested attributes, and ignores later changes."""

    def __init__(self, G: Any) -> None:
        super().__init__(G.is_directed(), list(G), G.is_multigraph())
        self._outward = flatten(G._adj, self.ids)
        self._inward = flatten(G._pred, self.ids) if self._directed else self._outward
        self._ranked: dict[bool, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
        self.attributes: dict[str, list[Any]] = {}
        self.edge_data: list[dict[str, Any]] | None = None
        self.node_data: dict[Any, dict[str, Any]] = {}
        self.graph: dict[str, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"layers": {}}  # stores are bound to a device; they are made again from the columns

    def edges(self, inward: bool = False) -> tuple[np.ndarray, np.ndarray]:
        return self._inward if inward else self._outward

    def values(self, attribute: str) -> list[Any]:
        if attribute in self.attributes:
            return self.attributes[attribute]
        if self.edge_data is None:
            raise NotImplementedError(f"edge attribute {attribute!r} was not asked for when the graph was converted")
        return [data.get(attribute, 1) for data in self.edge_data]

    def ranked_edges(self, inward: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        inward = inward and self._directed
        if inward not in self._ranked:
            rows, neighbours = self.edges(inward)
            order = np.lexsort((neighbours, rows))
            self._ranked[inward] = rows[order], neighbours[order], order
        return self._ranked[inward]

    def data(self) -> list[dict[str, Any]]:
        """Return new attribute dicts, one for each edge in the order of :meth:`edges`."""
        if self.edge_data is not None:
            return [dict(data) for data in self.edge_data]
        columns = self.attributes.items()
        return [{name: values[e] for name, values in columns} for e in range(self._outward[0].shape[0])]


def convert_from_nx(
    graph: Any,
    *,
    edge_attrs: Mapping[str, Any] | None = None,
    node_attrs: Mapping[str, Any] | None = None,
    preserve_edge_attrs: bool = False,
    preserve_node_attrs: bool = False,
    preserve_graph_attrs: bool = False,
    name: str | None = None,
    graph_name: str | None = None,
) -> Any:
    """Convert a NetworkX graph; a plain view of a ``dynstore`` graph (:func:`convert_to_nx`) back to that graph.

    Parameters
    ----------
    graph : networkx.Graph or networkx.DiGraph, or a multigraph
        Parallel edges are merged into one with the least of their values.
    edge_attrs, node_attrs : dict, optional
        Attributes to keep, each with the default for edges or nodes without it.
    preserve_edge_attrs, preserve_node_attrs, preserve_graph_attrs : bool
        Keep all attributes.
    name, graph_name : str, optional
        The function and the argument that the graph is converted for.

    Raises
    ------
    NotImplementedError
        If all edge attributes of a multigraph are to be kept, or values of parallel edges have no order.
    """
    shown = getattr(graph, "_shown_graph", None)
    if shown is not None:
        return shown
    converted = ConvertedGraph(graph)
    multigraph = converted.is_multigraph()
    if preserve_edge_attrs:
        if multigraph:
            raise NotImplementedError("the attributes of parallel edges are not kept")
        converted.edge_data = [dict(data) for row in graph._adj.values() for data in row.values()]
    else:
        try:
            for attribute, default in (edge_attrs or {}).items():
                converted.attributes[attribute] = read_values(graph._adj, attribute, default, multigraph)
        except TypeError as error:
            raise NotImplementedError(f"values of parallel edges cannot be compared: {error}") from error
    if preserve_node_attrs:
        converted.node_data = {node: dict(data) for node, data in graph._node.items()}
    elif node_attrs:
        for node, data in graph._node.items():
            converted.node_data[node] = {key: data.get(key, default) for key, default in node_attrs.items()}
    if preserve_graph_attrs:
        converted.graph = dict(graph.graph)
    return converted


def convert_to_nx(obj: Any, *, name: str | None = None) -> Any:
    """Convert back: a converted graph to a copy, a ``dynstore`` graph class to a plain view; all else is unchanged."""
    import networkx as nx

    if isinstance(obj, ConvertedGraph):
        return _copy_back(obj)
    if getattr(obj, "__networkx_backend__", None) != "dynstore":
        return obj
    # The dicts are the graph's own, so the view costs nothing and is never stale. So is the cache: it notices changes.
    base = nx.DiGraph if obj.is_directed() else nx.Graph
    view = object.__new__(base)  # `base()` would ask the backends for a class
    base.__init__(view)
    view.graph, view._node, view._adj = obj.graph, obj._node, obj._adj
    if obj.is_directed():
        view._pred = obj._pred
    view.__networkx_cache__, view._shown_graph = obj.__networkx_cache__, obj
    return view


def _copy_back(graph: ConvertedGraph) -> Any:
    import networkx as nx

    if graph.is_multigraph():
        raise NotImplementedError("parallel edges were not kept, so a multigraph cannot be converted back")
    copy = nx.DiGraph() if graph.is_directed() else nx.Graph()
    copy.graph.update(graph.graph)
    copy.add_nodes_from((node, graph.node_data.get(node, {})) for node in graph)
    shared: dict[tuple[int, int], dict[str, Any]] = {}
    # Written directly to the dicts: adding edges one by one would change the order of undirected neighbours.
    for row, neighbour, data in zip(*(ids.tolist() for ids in graph.edges()), graph.data(), strict=True):
        key = (row, neighbour) if graph.is_directed() or row <= neighbour else (neighbour, row)
        copy._adj[graph.nodes[row]][graph.nodes[neighbour]] = shared.setdefault(key, data)
    if graph.is_directed():
        for row, neighbour in zip(*(ids.tolist() for ids in graph.edges(inward=True)), strict=True):
            copy._pred[graph.nodes[row]][graph.nodes[neighbour]] = shared[neighbour, row]
    return copy
