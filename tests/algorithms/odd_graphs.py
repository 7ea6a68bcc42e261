"""Graphs of odd shapes: one vertex, loops, empty rows, hubs at either end, numbers of vertices over a power of two."""

from __future__ import annotations

import networkx as nx
import numpy as np
import scipy.sparse.csgraph as csgraph

from tests.algorithms.oracles import Edges, listed

__all__ = ["ODD_GRAPHS", "component_labels", "levels", "ranks", "rows"]

ODD_GRAPHS = (
    listed("one vertex", [], 1),
    listed("one loop", [(0, 0)], 1),
    listed("no edges", [], 33),
    listed("loops alone", [(v, v) for v in range(17)], 17),
    listed("path over 2^4", [(v, v + 1) for v in range(16)], 17),
    listed("last to all", [(32, v) for v in range(33)] + [(3, 32)], 33),
    listed("all to last", [(v, 32) for v in range(33)], 33),
    listed("every third row", [(v, (7 * v) % 31) for v in range(0, 31, 3)] + [(0, v) for v in range(15, 31)], 31),
)


def rows(edges: Edges, directed: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return offsets, destinations and weights, float32; in an undirected graph each edge is in both rows."""
    matrix = edges.scipy(directed=directed).tocsr()
    matrix.sort_indices()
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data.astype(np.float32)


def levels(edges: Edges, directed: bool, start: int, unreached: int) -> list[int]:
    found = nx.single_source_shortest_path_length(edges.networkx(directed=directed), start)
    return [found.get(vertex, unreached) for vertex in range(edges.num_vertices)]


def component_labels(edges: Edges) -> list[int]:
    """Return the smallest vertex of each vertex's weak component."""
    _, numbers = csgraph.connected_components(edges.scipy(directed=False), directed=False)
    _, first, places = np.unique(numbers, return_index=True, return_inverse=True)
    found: list[int] = first[places].tolist()
    return found


def ranks(edges: Edges, directed: bool, iterations: int) -> np.ndarray:
    """Return PageRank after some iterations from equal ranks; what has no edge gives its rank to all."""
    offsets, indices, _ = rows(edges, directed)
    degrees, found = np.diff(offsets), np.full(edges.num_vertices, 1.0 / edges.num_vertices)
    for _ in range(iterations):
        shares = np.repeat(0.85 * found / np.maximum(degrees, 1), degrees)
        lost = 0.85 * found[degrees == 0].sum()
        found = np.bincount(indices, shares, edges.num_vertices) + (0.15 + lost) / edges.num_vertices
    return found
