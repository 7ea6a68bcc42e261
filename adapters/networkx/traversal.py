"""NetworkX's breadth-first searches and unweighted shortest paths."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

import numpy as np

from dynstore.adapters.networkx.graphs import graph_classes
from dynstore.adapters.networkx.offers import offer
from dynstore.adapters.networkx.search import NodeDistances, search_edges
from dynstore.adapters.networkx.store import StoreGraph
from dynstore.adapters.networkx.tracked import TrackedGraph

__all__ = [
    "all_pairs_shortest_path",
    "all_pairs_shortest_path_length",
    "all_parents",
    "bfs_edges",
    "bfs_layers",
    "bfs_predecessors",
    "bfs_successors",
    "bfs_tree",
    "descendants_at_distance",
    "generic_bfs_edges",
    "has_path",
    "number_of",
    "predecessor",
    "single_source_shortest_path",
    "single_source_shortest_path_length",
    "single_target_shortest_path",
    "single_target_shortest_path_length",
]

Node = Hashable
Edge = tuple[Any, Any]
# The release of NetworkX from which on `bfs_predecessors` warns; 3.9 has none.
PREDECESSORS_WARN_FROM = (3, 7)


def number_of(G: StoreGraph, node: Node, message: str) -> int:
    """Return a node's number; NodeNotFound with ``message`` if there is none."""
    if node not in G:
        import networkx as nx

        raise nx.NodeNotFound(message)
    return G.ids[node]


def _refuse_sorting(arguments: dict[str, Any]) -> str | None:
    return "sort_neighbors is a function that orders every row anew" if arguments["sort_neighbors"] else None


def _refuse_neighbors(arguments: dict[str, Any]) -> str | None:
    return "neighbors is a function" if arguments["neighbors"] else None


def _edges(G: StoreGraph, source: Node, depth_limit: float | None, reverse: bool = False) -> Iterator[Edge]:
    if source not in G:
        import networkx as nx

        kind = "digraph" if G.is_directed() else "graph"
        raise nx.NetworkXError(f"The node {source} is not in the {kind}.")
    order = search_edges(G, [G.ids[source]], depth_limit, inward=reverse and G.is_directed()).order()
    children = order.ids[1:]
    return zip(G.named(order.parents[children]), G.named(children), strict=True)


@offer(multigraphs=True, refuses=_refuse_neighbors)
def generic_bfs_edges(
    G: StoreGraph, source: Node, neighbors: None = None, depth_limit: float | None = None
) -> Iterator[Edge]:
    """Yield the edges of the search tree; the first edge to a node counts."""
    return _edges(G, source, depth_limit)


@offer(multigraphs=True, refuses=_refuse_sorting)
def bfs_edges(
    G: StoreGraph,
    source: Node,
    reverse: bool = False,
    depth_limit: float | None = None,
    sort_neighbors: Callable[..., Any] | None = None,
) -> Iterator[Edge]:
    """Yield the edges of the search tree; ``reverse`` follows edges against their direction."""
    return _edges(G, source, depth_limit, reverse)


@offer(multigraphs=True, refuses=_refuse_sorting)
def bfs_tree(
    G: StoreGraph,
    source: Node,
    reverse: bool = False,
    depth_limit: float | None = None,
    sort_neighbors: Callable[..., Any] | None = None,
) -> Any:
    """Return the search tree: of a graph of our classes as our DiGraph, else as a networkx.DiGraph."""
    import networkx as nx

    tree = graph_classes()[1]() if isinstance(G, TrackedGraph) else nx.DiGraph()
    tree.add_node(source)
    tree.add_edges_from(_edges(G, source, depth_limit, reverse))
    return tree


@offer(multigraphs=True, refuses=_refuse_sorting)
def bfs_predecessors(
    G: StoreGraph, source: Node, depth_limit: float | None = None, sort_neighbors: Callable[..., Any] | None = None
) -> Iterator[Edge]:
    """Yield ( node, parent) in order, with the warning of the NetworkX that is installed, if it gives one."""
    return _children_first(_edges(G, source, depth_limit))


def _children_first(edges: Iterator[Edge]) -> Iterator[Edge]:
    """Yield ( node, parent). NetworkX warns when the first pair is asked for, and names the line that asks."""
    import networkx as nx

    release = re.match(r"(\d+)\.(\d+)", nx.__version__)
    if release and tuple(map(int, release.groups())) >= PREDECESSORS_WARN_FROM:
        warnings.warn(
            "\n\nbfs_predecessors is deprecated and will be removed in NetworkX 3.9\n"
            "Use ``(t, s) for (s, t) in bfs_edges`` instead",
            DeprecationWarning,
            stacklevel=2,
        )
    for parent, child in edges:
        yield child, parent


@offer(multigraphs=True, refuses=_refuse_sorting)
def bfs_successors(
    G: StoreGraph, source: Node, depth_limit: float | None = None, sort_neighbors: Callable[..., Any] | None = None
) -> Iterator[tuple[Any, list[Any]]]:
    """Yield ( node, its children in the tree), without nodes that have none, except for a lone source."""
    return _grouped(source, _edges(G, source, depth_limit))


def _grouped(source: Node, edges: Iterable[Edge]) -> Iterator[tuple[Any, list[Any]]]:
    last: Any = source
    children: list[Any] = []
    for parent, child in edges:
        if parent != last:
            yield last, children
            last, children = parent, []
        children.append(child)
    yield last, children


@offer(multigraphs=True)
def bfs_layers(G: StoreGraph, sources: Any) -> Iterator[list[Any]]:
    """Yield lists of the nodes at distance 0, 1, ... from one or several sources."""
    first = list({sources} if sources in G else set(sources))
    for source in first:
        if source not in G:
            import networkx as nx

            raise nx.NetworkXError(f"The node {source} is not in the graph.")
    search = search_edges(G, [G.ids[source] for source in first])
    ids = search.order().ids
    ends = np.nonzero(np.diff(search.distances[ids]))[0] + 1
    return (G.named(layer) for layer in np.split(ids, ends) if layer.shape[0])


@offer(multigraphs=True)
def descendants_at_distance(G: StoreGraph, source: Node, distance: float) -> set[Any]:
    """Return the nodes at one distance."""
    if source not in G:
        import networkx as nx

        raise nx.NetworkXError(f"The node {source} is not in the graph.")
    hops = search_edges(G, [G.ids[source]], distance).distances
    return set(G.named(np.nonzero((hops == distance) & (hops >= 0))[0]))


@offer(multigraphs=True)
def single_source_shortest_path_length(G: StoreGraph, source: Node, cutoff: float | None = None) -> dict[Any, int]:
    """Return the number of edges from the source to each node."""
    return search_edges(G, [number_of(G, source, f"Source {source} is not in G")], cutoff).lengths()


@offer(multigraphs=True)
def single_target_shortest_path_length(G: StoreGraph, target: Node, cutoff: float | None = None) -> dict[Any, int]:
    """Return the number of edges from each node to the target."""
    first = [number_of(G, target, f"Target {target} is not in G")]
    return search_edges(G, first, cutoff, inward=G.is_directed()).lengths()


@offer(multigraphs=True)
def all_pairs_shortest_path_length(G: StoreGraph, cutoff: float | None = None) -> Iterator[tuple[Any, dict[Any, int]]]:
    """Yield ( source, its lengths), one search at a time."""
    return ((node, search_edges(G, [number], cutoff).lengths()) for node, number in G.ids.items())


@offer(multigraphs=True)
def single_source_shortest_path(G: StoreGraph, source: Node, cutoff: float | None = None) -> dict[Any, list[Any]]:
    """Return a shortest path from the source to each node."""
    return search_edges(G, [number_of(G, source, f"Source {source} not in G")], cutoff).paths()


@offer(multigraphs=True)
def single_target_shortest_path(G: StoreGraph, target: Node, cutoff: float | None = None) -> dict[Any, list[Any]]:
    """Return a shortest path from each node to the target."""
    first = [number_of(G, target, f"Target {target} not in G")]
    return search_edges(G, first, cutoff, inward=G.is_directed()).paths(towards=True)


@offer(multigraphs=True)
def all_pairs_shortest_path(G: StoreGraph, cutoff: float | None = None) -> Iterator[tuple[Any, dict[Any, list[Any]]]]:
    """Yield ( source, its paths), one search at a time."""
    return ((node, search_edges(G, [number], cutoff).paths()) for node, number in G.ids.items())


@offer(multigraphs=True)
def has_path(G: StoreGraph, source: Node, target: Node) -> bool:
    """Return whether the target can be reached."""
    first = number_of(G, source, f"Source {source} is not in G")
    last = number_of(G, target, f"Target {target} is not in G")
    return bool(search_edges(G, [first]).distances[last] >= 0)


@offer(multigraphs=True)
def predecessor(
    G: StoreGraph, source: Node, target: Node = None, cutoff: float | None = None, return_seen: bool | None = None
) -> Any:
    """Return, for each node, all nodes before it on shortest paths from the source."""
    first = number_of(G, source, f"Source {source} not in G")
    # NetworkX always opens the first level, and treats a cutoff of 0 as none.
    search = search_edges(G, [first], max(cutoff, 1) if cutoff else None)
    before = all_parents(search)
    if target is None:
        return (before, search.lengths(ordered=True)) if return_seen else before
    if target not in before:
        return ([], -1) if return_seen else []
    return (before[target], int(search.distances[G.ids[target]])) if return_seen else before[target]


def all_parents(search: NodeDistances) -> dict[Any, list[Any]]:
    """Return node -> its parents over all tight edges, in NetworkX's order; sources have none."""
    G = search.G
    rows, neighbours, ranks = search.tight_edges()
    order = search.order().ids
    place = np.zeros(len(G.nodes), np.int64)
    place[order] = np.arange(order.shape[0])
    by_place = np.lexsort((ranks, place[rows]))
    before: dict[Any, list[Any]] = {node: [] for node in G.named(order)}
    for parent, child in zip(G.named(rows[by_place]), G.named(neighbours[by_place]), strict=True):
        before[child].append(parent)
    return before
