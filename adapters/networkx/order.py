"""NetworkX's order of a search, from the distances that a kernel has found.

A kernel computes the distances. Which of several equally near parents NetworkX would take, and the order in which it
would visit the vertices, follow from the order of the neighbours in its dicts. Only *tight* edges matter for this,
those on a shortest path: distance[u] + weight == distance[v].

NetworkX's breadth-first search takes vertices in the order in which they were pushed. Its Dijkstra takes the nearest,
and among equals the one that was pushed to that distance first. Both orders are the same: level by level of equal
distance, within a level in the order of pushing. The first tight edge to a vertex pushes it (finally).
"""

from __future__ import annotations

import numpy as np

__all__ = ["Order", "TightEdges", "order_levels"]

# One level in array steps takes about as long as this many edges in the loop.
EDGES_A_LEVEL = 300


class TightEdges:
    """The tight edges of a search as rows, neighbours in NetworkX's order.

    Parameters
    ----------
    rows, neighbours, ranks : numpy.ndarray, shape (T,)
        Ranks ascend within a row in NetworkX's order.
    num_vertices : int
    """

    def __init__(self, rows: np.ndarray, neighbours: np.ndarray, ranks: np.ndarray, num_vertices: int) -> None:
        order = np.lexsort((ranks, rows))
        self.neighbours = neighbours[order].astype(np.int64)
        self.starts = np.zeros(num_vertices + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=num_vertices), out=self.starts[1:])


class Order:
    """The order of a search as in NetworkX.

    Attributes
    ----------
    ids : numpy.ndarray, shape (R,), int64
        The reached vertices, in order.
    parents : numpy.ndarray, shape (V,), int64
        The vertex that pushed each; -1 for sources and unreached vertices.
    """

    __slots__ = ("ids", "parents")

    def __init__(self, ids: np.ndarray, parents: np.ndarray) -> None:
        self.ids = ids
        self.parents = parents


def order_levels(first: list[int], levels: np.ndarray, tight: TightEdges) -> Order:
    """Put the vertices in order.

    Parameters
    ----------
    first : list of int
        The sources, in order.
    levels : numpy.ndarray, shape (V,), int64
        0 .. L - 1, in order of distance; -1 if unreached.
    tight : TightEdges
        Edges from a level to a later one, or (weight 0) to the same one.
    """
    num_levels = int(levels.max(initial=-1)) + 1
    rows = np.repeat(np.arange(levels.shape[0]), np.diff(tight.starts))
    steps = levels[tight.neighbours] - levels[rows]
    if (steps == 1).all() and tight.neighbours.shape[0] > EDGES_A_LEVEL * num_levels:
        return _order_by_arrays(first, tight)
    return _order_by_loop(first, levels, num_levels, tight)


def _order_by_arrays(first: list[int], tight: TightEdges) -> Order:
    """Process whole levels at once; every edge leads from a level to the next one."""
    num_vertices = tight.starts.shape[0] - 1
    parents = np.full(num_vertices, -1, np.int64)
    place = np.empty(num_vertices, np.int64)
    level = np.array(first, np.int64)
    found = [level]
    while level.shape[0]:
        counts = tight.starts[level + 1] - tight.starts[level]
        ends = np.cumsum(counts)
        numbers = np.arange(int(ends[-1]))
        children = tight.neighbours[np.repeat(tight.starts[level] - (ends - counts), counts) + numbers]
        place[children[::-1]] = numbers[::-1]  # the first edge to each child is written last
        pushing = place[children] == numbers
        parents[children[pushing]] = np.repeat(level, counts)[pushing]
        level = children[pushing]
        found.append(level)
    return Order(np.concatenate(found), parents)


def _order_by_loop(first: list[int], levels: np.ndarray, num_levels: int, tight: TightEdges) -> Order:
    """Process one vertex after another: for long and narrow searches, and edges that skip levels or stay in one."""
    level_of, starts, neighbours = levels.tolist(), tight.starts.tolist(), tight.neighbours.tolist()
    parents = [-1] * len(level_of)
    pushed = bytearray(len(level_of))
    waiting: list[list[int]] = [[] for _ in range(num_levels)]
    for v in first:
        pushed[v] = True
        waiting[0].append(v)
    found: list[int] = []
    for level in waiting:
        for v in level:  # edges of weight 0 extend it during the loop
            for child in neighbours[starts[v] : starts[v + 1]]:
                if not pushed[child]:
                    pushed[child] = True
                    parents[child] = v
                    waiting[level_of[child]].append(child)
        found += level
    return Order(np.array(found, np.int64), np.array(parents, np.int64))
