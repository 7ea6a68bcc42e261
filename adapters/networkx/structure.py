"""NetworkX's connected components, triangles and clustering."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dynstore.adapters.networkx.offers import offer
from dynstore.adapters.networkx.search import search_edges
from dynstore.adapters.networkx.store import StoreGraph
from dynstore.adapters.networkx.traversal import Node
from dynstore.algorithms.door import find_rows

__all__ = [
    "average_clustering",
    "clustering",
    "connected_components",
    "count_neighbours",
    "is_connected",
    "is_weakly_connected",
    "node_connected_component",
    "number_connected_components",
    "number_weakly_connected_components",
    "transitivity",
    "triangles",
    "weakly_connected_components",
]


def _labels(G: StoreGraph) -> np.ndarray:
    """Return the label of every node, in node order: the number of the first node in its component."""
    store = G.structure()
    labels = find_rows(store, "weakly_connected_components")
    live: np.ndarray = store.core.backend.to_host(labels)[G.live_ids()]
    return live


def _components(G: StoreGraph) -> Iterator[set[Any]]:
    if not len(G):
        return iter(())
    labels = _labels(G)
    order = np.argsort(labels, kind="stable")
    ends = np.nonzero(np.diff(labels[order]))[0] + 1
    return (set(G.named(members)) for members in np.split(G.live_ids()[order], ends))


def _number_of_components(G: StoreGraph) -> int:
    return int(np.unique(_labels(G)).shape[0]) if len(G) else 0


def _is_one_component(G: StoreGraph) -> bool:
    if not len(G):
        import networkx as nx

        raise nx.NetworkXPointlessConcept("Connectivity is undefined for the null graph.")
    return _number_of_components(G) == 1


@offer(multigraphs=True)
def connected_components(G: StoreGraph) -> Iterator[set[Any]]:
    """Yield the components as sets, in the order of their first nodes."""
    return _components(G)


@offer(multigraphs=True)
def number_connected_components(G: StoreGraph) -> int:
    """Return the number of components."""
    return _number_of_components(G)


@offer(multigraphs=True)
def is_connected(G: StoreGraph) -> bool:
    """Return whether there is exactly one component."""
    return _is_one_component(G)


@offer(multigraphs=True)
def node_connected_component(G: StoreGraph, n: Node) -> set[Any]:
    """Return the nodes of the component of ``n``; KeyError if it is in none."""
    return set(G.named(np.nonzero(search_edges(G, [G.ids[n]]).distances >= 0)[0]))


@offer(multigraphs=True)
def weakly_connected_components(G: StoreGraph) -> Iterator[set[Any]]:
    """Yield the weak components as sets; directions of edges are ignored."""
    return _components(G)


@offer(multigraphs=True)
def number_weakly_connected_components(G: StoreGraph) -> int:
    """Return the number of weak components."""
    return _number_of_components(G)


@offer(multigraphs=True)
def is_weakly_connected(G: StoreGraph) -> bool:
    """Return whether there is exactly one weak component."""
    return _is_one_component(G)


def count_neighbours(G: StoreGraph, inward: bool = False, loops: int = 1) -> np.ndarray:
    """Return the number of edges from (``inward``: to) each number, shape (V,), int64; a self-loop counts ``loops``."""
    store = G.structure()
    view, xp = store.snapshot(), store.core.backend.xp
    mask = view.mask()
    rows, neighbours = view.sources[mask], view.indices[mask]
    counts = xp.bincount(neighbours if inward else rows, minlength=len(G.nodes))
    if loops != 1:
        counts = counts + (loops - 1) * xp.bincount(rows[rows == neighbours], minlength=len(G.nodes))
    return store.core.backend.to_host(counts).astype(np.int64)


def _chosen(G: StoreGraph, nodes: Any) -> list[Any]:
    """Read NetworkX's nbunch: None for all nodes, one node, or several; nodes that are not in the graph are skipped."""
    if nodes is None:
        return list(G)
    if nodes in G:
        return [nodes]
    import networkx as nx

    try:
        return [node for node in nodes if node in G.ids]
    except TypeError as error:
        raise nx.NetworkXError("nbunch is not a node or a sequence of nodes.") from error


def _triangles(G: StoreGraph) -> list[int]:
    """Return the number of triangles at each number."""
    store = G.structure()
    counts: list[int] = store.core.backend.to_host(find_rows(store, "triangle_count")).tolist()
    return counts


def _clustering(G: StoreGraph, nodes: Any) -> dict[Any, Any]:
    counts, degrees = _triangles(G), count_neighbours(G, loops=0).tolist()
    found = {}
    for node in _chosen(G, nodes):
        number = G.ids[node]
        degree = degrees[number]
        found[node] = 2 * counts[number] / (degree * (degree - 1)) if counts[number] else 0
    return found


def _refuse_weights_and_directions(arguments: dict[str, Any]) -> str | None:
    if arguments.get("weight") is not None:
        return "weighted clustering is not offered"
    return "clustering of directed graphs is not offered" if arguments["G"].is_directed() else None


@offer()
def triangles(G: StoreGraph, nodes: Any = None) -> Any:
    """Return the number of triangles at each node, or at a single node."""
    counts = _triangles(G)
    if nodes is not None and nodes in G:
        return counts[G.ids[nodes]]
    return {node: counts[G.ids[node]] for node in _chosen(G, nodes)}


@offer(refuses=_refuse_weights_and_directions)
def clustering(G: StoreGraph, nodes: Any = None, weight: None = None) -> Any:
    """Return the share of each node's pairs of neighbours that are neighbours, or that of a single node."""
    found = _clustering(G, nodes)
    return found[nodes] if nodes in G else found


@offer(refuses=_refuse_weights_and_directions)
def average_clustering(G: StoreGraph, nodes: Any = None, weight: None = None, count_zeros: bool = True) -> float:
    """Return the mean of the clustering coefficients."""
    found: list[float] = list(_clustering(G, nodes).values())
    if not count_zeros:
        found = [value for value in found if value > 0]
    return sum(found) / len(found)


@offer(refuses=_refuse_weights_and_directions)
def transitivity(G: StoreGraph) -> float:
    """Return the share of paths of two edges that are closed."""
    degrees = count_neighbours(G, loops=0)
    closed, pairs = 2 * sum(_triangles(G)), int((degrees * (degrees - 1)).sum())
    return closed / pairs if closed else 0
