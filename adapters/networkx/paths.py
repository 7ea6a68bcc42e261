"""NetworkX's Dijkstra family, and its functions that choose between weighted and unweighted paths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dynstore.adapters.networkx.offers import offer, refuse_weight_function
from dynstore.adapters.networkx.search import NodeDistances, check_weights, search_edges, search_weights
from dynstore.adapters.networkx.store import StoreGraph
from dynstore.adapters.networkx.traversal import Node, all_parents, number_of

__all__ = [
    "all_pairs_dijkstra",
    "all_pairs_dijkstra_path",
    "all_pairs_dijkstra_path_length",
    "dijkstra_path",
    "dijkstra_path_length",
    "dijkstra_predecessor_and_distance",
    "shortest_path",
    "shortest_path_length",
    "single_source_dijkstra",
    "single_source_dijkstra_path",
    "single_source_dijkstra_path_length",
]


def _search(G: StoreGraph, source: Node, weight: str | None, cutoff: float | None = None) -> NodeDistances:
    return search_weights(G, number_of(G, source, f"Node {source} not found in graph"), weight, cutoff)


def _searches(G: StoreGraph, weight: str | None, cutoff: float | None = None) -> Iterator[tuple[Any, NodeDistances]]:
    if weight is not None:
        check_weights(G, weight)  # before the first result, while NetworkX can still take over
    return ((node, search_weights(G, number, weight, cutoff)) for node, number in G.ids.items())


def _no_path(message: str) -> Exception:
    import networkx as nx

    error: Exception = nx.NetworkXNoPath(message)
    return error


def _to_target(G: StoreGraph, search: NodeDistances, target: Node) -> tuple[Any, list[Any]]:
    if target not in G or search.distances[G.ids[target]] < 0:
        raise _no_path(f"No path to {target}.")
    number = G.ids[target]
    return search.number(number), search.path(number)


def _pair_length(G: StoreGraph, source: Node, target: Node, weight: str | None) -> Any:
    number = number_of(G, source, f"Node {source} not found in graph")
    if source == target:
        return 0
    search = search_weights(G, number, weight)
    if target not in G or search.distances[G.ids[target]] < 0:
        raise _no_path(f"Node {target} not reachable from {source}")
    return search.number(G.ids[target])


@offer(multigraphs=True, refuses=refuse_weight_function)
def single_source_dijkstra(
    G: StoreGraph, source: Node, target: Node = None, cutoff: float | None = None, weight: str | None = "weight"
) -> tuple[Any, Any]:
    """Return distances and paths: of all nodes, or only of the target."""
    search = _search(G, source, weight, cutoff)
    if target is None:
        return search.lengths(ordered=True), search.paths()
    return (0, [target]) if target == source else _to_target(G, search, target)


@offer(multigraphs=True, refuses=refuse_weight_function)
def single_source_dijkstra_path(
    G: StoreGraph, source: Node, cutoff: float | None = None, weight: str | None = "weight"
) -> dict[Any, list[Any]]:
    """Return a shortest path from the source to each node."""
    return _search(G, source, weight, cutoff).paths()


@offer(multigraphs=True, refuses=refuse_weight_function)
def single_source_dijkstra_path_length(
    G: StoreGraph, source: Node, cutoff: float | None = None, weight: str | None = "weight"
) -> dict[Any, Any]:
    """Return the distance of each node from the source."""
    return _search(G, source, weight, cutoff).lengths()


@offer(multigraphs=True, refuses=refuse_weight_function)
def dijkstra_path(G: StoreGraph, source: Node, target: Node, weight: str | None = "weight") -> list[Any]:
    """Return a shortest path from the source to the target."""
    search = _search(G, source, weight)
    return [target] if target == source else _to_target(G, search, target)[1]


@offer(multigraphs=True, refuses=refuse_weight_function)
def dijkstra_path_length(G: StoreGraph, source: Node, target: Node, weight: str | None = "weight") -> Any:
    """Return the distance of the target from the source."""
    return _pair_length(G, source, target, weight)


@offer(multigraphs=True, refuses=refuse_weight_function)
def dijkstra_predecessor_and_distance(
    G: StoreGraph, source: Node, cutoff: float | None = None, weight: str | None = "weight"
) -> tuple[dict[Any, list[Any]], dict[Any, Any]]:
    """Return, for each node, all nodes before it on shortest paths, and its distance."""
    number = number_of(G, source, f"Node {source} is not found in the graph")
    search = search_weights(G, number, weight, cutoff)
    return all_parents(search), search.lengths(ordered=True)


@offer(multigraphs=True, refuses=refuse_weight_function)
def all_pairs_dijkstra(G: StoreGraph, cutoff: float | None = None, weight: str | None = "weight") -> Iterator[Any]:
    """Yield (source, (distances, paths)), one search at a time."""
    return ((node, (search.lengths(ordered=True), search.paths())) for node, search in _searches(G, weight, cutoff))


@offer(multigraphs=True, refuses=refuse_weight_function)
def all_pairs_dijkstra_path_length(
    G: StoreGraph, cutoff: float | None = None, weight: str | None = "weight"
) -> Iterator[Any]:
    """Yield (source, distances), one search at a time."""
    return ((node, search.lengths()) for node, search in _searches(G, weight, cutoff))


@offer(multigraphs=True, refuses=refuse_weight_function)
def all_pairs_dijkstra_path(G: StoreGraph, cutoff: float | None = None, weight: str | None = "weight") -> Iterator[Any]:
    """Yield (source, paths), one search at a time."""
    return ((node, search.paths()) for node, search in _searches(G, weight, cutoff))


def _refuse_method(arguments: dict[str, Any]) -> str | None:
    if arguments["weight"] is not None and arguments["method"] == "bellman-ford":
        return "method 'bellman-ford' is not offered"
    return refuse_weight_function(arguments)


def _refuse_pair(arguments: dict[str, Any]) -> str | None:
    if arguments["source"] is not None and arguments["target"] is not None:
        return "between two nodes NetworkX searches from both ends, which may give another path"
    return _refuse_method(arguments)


def _check_method(method: str) -> None:
    if method not in ("dijkstra", "bellman-ford"):
        raise ValueError(f"method not supported: {method}")


def _single(G: StoreGraph, node: Node, weight: str | None, inward: bool) -> NodeDistances:
    if weight is None:
        return search_edges(G, [number_of(G, node, f"Source {node} not in G")], inward=inward)
    return search_weights(G, number_of(G, node, f"Node {node} not found in graph"), weight, inward=inward)


@offer(multigraphs=True, refuses=_refuse_pair)
def shortest_path(
    G: StoreGraph, source: Node = None, target: Node = None, weight: str | None = None, method: str = "dijkstra"
) -> Any:
    """Return the paths from a source or to a target; for all pairs, yield (source, paths)."""
    _check_method(method)
    if source is not None:
        return _single(G, source, weight, inward=False).paths()
    if target is not None:
        return _single(G, target, weight, inward=G.is_directed()).paths(towards=True)
    return ((node, search.paths()) for node, search in _searches(G, weight))


@offer(multigraphs=True, refuses=_refuse_method)
def shortest_path_length(
    G: StoreGraph, source: Node = None, target: Node = None, weight: str | None = None, method: str = "dijkstra"
) -> Any:
    """Return the lengths of one path or of those from a source or to a target; all pairs: yield (source, lengths)."""
    _check_method(method)
    if source is None and target is None:
        return ((node, search.lengths()) for node, search in _searches(G, weight))
    if source is None:
        return _single(G, target, weight, inward=G.is_directed()).lengths()
    if target is None:
        return _single(G, source, weight, inward=False).lengths()
    if weight is not None:
        return _pair_length(G, source, target, weight)
    number = number_of(G, source, f"Source {source} is not in G")
    last = number_of(G, target, f"Target {target} is not in G")
    hops = int(search_edges(G, [number]).distances[last])
    if hops < 0:
        raise _no_path(f"No path between {source} and {target}.")
    return hops
