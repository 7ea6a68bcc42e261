"""``dynstore.from_networkx`` and ``G.to_networkx``: a NetworkX graph as a DynamicGraph, and back."""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.adapters.libraries import require
from dynstore.adapters.networkx.store import flatten
from dynstore.errors import InputError, InputTypeError, type_name
from dynstore.graph import DynamicGraph

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["from_networkx", "to_networkx"]

MAX_ID = 2**63 - 2
DEFAULT_WEIGHT = "weight"  # as in NetworkX; the only attribute that may be missing at all edges


def from_networkx(nx_graph: Any, *, weight: str | None = DEFAULT_WEIGHT, **graph_options: Any) -> DynamicGraph:
    """Make a dynamic graph of a NetworkX graph.

    Parameters
    ----------
    nx_graph : networkx.Graph, DiGraph, MultiGraph or MultiDiGraph
        A multigraph becomes a multigraph. Its keys become the ids of edges, if they are integers and all different;
        else ids are counted, in the order of ``nx_graph.edges``. Nodes are integers from 0 on, or strings. They keep
        their ids, with ``renumber=True`` unless they are 0 .. V-1. Isolated nodes are kept.
    weight : str, optional
        The edge attribute that becomes the weight. An edge without it weighs 1, as in NetworkX. If no edge has it, or
        for None, the graph is unweighted.
    **graph_options
        As for :class:`dynstore.DynamicGraph`, without ``directed``. ``weight_dtype`` is float64 by default, as in
        NetworkX. ``edge_columns`` are read from the attributes of their names, the times of ``timestamps`` from the
        attribute "time".

    Returns
    -------
    DynamicGraph
        A copy: later changes of one graph do not change the other.

    Raises
    ------
    InputError
        For other nodes, weights that are no numbers, a ``weight`` other than "weight" that no edge has, an edge without
        an attribute that becomes a column, and a multigraph with ``multigraph=False``.
    InputTypeError
        For anything that is no NetworkX graph.
    MissingDependencyError
        Without NetworkX.

    Examples
    --------
    >>> import dynstore, networkx as nx
    >>> G = dynstore.from_networkx(nx.Graph([("a", "b"), ("b", "c")]), device="cpu")
    >>> G.number_of_edges(), sorted(G.vertex_ids().tolist())
    (2, ['a', 'b', 'c'])
    """
    networkx = require("from_networkx", "networkx")
    if not isinstance(nx_graph, networkx.Graph):
        raise InputTypeError(
            f"from_networkx: got a {type_name(nx_graph)}; wanted a networkx.Graph, DiGraph, MultiGraph or MultiDiGraph"
        )
    multigraph = nx_graph.is_multigraph()
    if multigraph and not graph_options.setdefault("multigraph", True):
        raise InputError(
            f"from_networkx: got a {type_name(nx_graph)}, and multigraph is False; wanted multigraph=True, or "
            "networkx.Graph(graph), which keeps one edge a pair"
        )
    if "directed" in graph_options:
        raise InputError(
            "from_networkx: `directed` was given; leave it out, because the NetworkX graph is directed or not"
        )
    nodes = list(nx_graph)
    _check_nodes(nodes)
    dense = nodes == list(range(len(nodes))) or set(nodes) == set(range(len(nodes)))
    if not graph_options.setdefault("renumber", not dense) and not dense:
        raise InputError("from_networkx: the nodes are not 0 .. V-1, and renumber is False; wanted renumber=True")
    numbers, keys = dict(zip(nodes, range(len(nodes)), strict=True)), None
    if multigraph:
        edges = list(nx_graph.edges(keys=True, data=True))
        sources, destinations = (np.array([numbers[edge[end]] for edge in edges], np.int64) for end in (0, 1))
        attributes, keys = [edge[3] for edge in edges], _as_ids([edge[2] for edge in edges])
    else:
        sources, destinations = flatten(nx_graph._adj, numbers)
        chosen = np.ones(len(sources), bool) if nx_graph.is_directed() else sources <= destinations
        attributes = [data for row in nx_graph._adj.values() for data in row.values()]
        attributes = list(compress(attributes, chosen.tolist()))
        sources, destinations = sources[chosen], destinations[chosen]
    weights = None if weight is None else _weights(attributes, weight)
    graph_options.setdefault("weighted", weights is not None)
    graph_options.setdefault("weight_dtype", "float64")
    ids = np.array(nodes, dtype=object if nodes and isinstance(nodes[0], str) else np.int64)
    columns: list[Any] = [ids[sources], ids[destinations]]
    graph = DynamicGraph(directed=nx_graph.is_directed(), **graph_options)
    if graph.is_weighted():
        columns.append(np.ones(columns[0].shape[0]) if weights is None else weights)
    columns += [_column(attributes, name) for name in graph.edge_dtypes]
    if columns[0].shape[0]:
        # first, so that rows are numbered by falling degree
        graph.insert_edges(tuple(columns), edge_id=keys)
    if nodes:
        graph.insert_vertices(ids)
    return graph


def to_networkx(G: DynamicGraph) -> Any:
    """Return the graph as a NetworkX graph.

    Returns
    -------
    networkx.Graph, DiGraph, MultiGraph or MultiDiGraph
        A copy, by whether ``G`` is directed. Nodes are Python ints or strings, in the order of ``G.vertex_ids()``,
        isolated ones included. The weights of a weighted graph are floats in the edge attribute "weight";
        extra columns are attributes of their names. Edges of a multigraph have their ids as keys.

    Raises
    ------
    MissingDependencyError
        Without NetworkX.
    """
    networkx = require("to_networkx", "networkx")
    to_host = G.core.backend.to_host
    kinds = (networkx.Graph, networkx.DiGraph, networkx.MultiGraph, networkx.MultiDiGraph)
    graph = kinds[G.is_directed() + 2 * G.is_multigraph()]()
    graph.add_nodes_from(_listed(to_host, G.vertex_ids()))
    columns = {name: _listed(to_host, column) for name, column in G.edge_columns().items()}
    ends: tuple[list[Any], ...] = (columns.pop("source"), columns.pop("destination"))
    if G.is_multigraph():
        ends = *ends, columns.pop("edge_id")  # the keys of edges
    if columns:
        values = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
        graph.add_edges_from(zip(*ends, values, strict=True))
    else:
        graph.add_edges_from(zip(*ends, strict=True))
    return graph


def _listed(to_host: Callable[[Any], np.ndarray], array: Any) -> list[Any]:
    listed: list[Any] = (array if isinstance(array, np.ndarray) else to_host(array)).tolist()
    return listed


def _check_nodes(nodes: list[Any]) -> None:
    strings = bool(nodes) and isinstance(nodes[0], str)
    for node in nodes:
        if not (isinstance(node, str) if strings else _is_id(node)):
            raise InputError(
                f"from_networkx: got a node {node!r} of type {type_name(node)}; wanted only integers, 0 to {MAX_ID}, "
                "or only strings. networkx.convert_node_labels_to_integers numbers any nodes"
            )


def _is_id(node: Any) -> bool:
    return isinstance(node, (int, np.integer)) and not isinstance(node, bool) and 0 <= int(node) <= MAX_ID


def _as_ids(keys: list[Any]) -> np.ndarray | None:
    """Return the keys of edges as ids; None if they cannot be, as those that NetworkX counts for each pair."""
    if not all(type(key) is int and abs(key) < MAX_ID for key in keys) or len(set(keys)) < len(keys):
        return None
    return np.array(keys, np.int64)


def _column(attributes: list[dict[str, Any]], name: str) -> list[Any]:
    """Return what all edges have under a name."""
    for place, data in enumerate(attributes):
        if name not in data:
            raise InputError(f"from_networkx: edge {place} has no attribute {name!r}, which is a column of the graph")
    return [data[name] for data in attributes]


def _weights(attributes: list[dict[str, Any]], weight: str) -> np.ndarray | None:
    """Return the weights of edges, None if none has one."""
    if not any(weight in data for data in attributes):
        if attributes and weight != DEFAULT_WEIGHT:
            raise InputError(f"from_networkx: no edge has the attribute {weight!r}; wanted the name of one, or None")
        return None
    values = [data.get(weight, 1) for data in attributes]
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
            raise InputError(
                f"from_networkx: {weight!r} of an edge is {value!r} of type {type_name(value)}; wanted a number"
            )
    try:
        weights = np.array(values, np.float64)
    except OverflowError:
        raise InputError(f"from_networkx: {weight!r} of an edge is an int too large for float64") from None
    if np.isnan(weights).any():
        raise InputError(f"from_networkx: {weight!r} of an edge is NaN; wanted a number")
    return weights
