"""What each rank brings to collectives, and what it does by itself: counted from edges and owners, without ranks.

It follows ``dynstore/distributed`` call by call; a test holds it against :class:`CountingCommunicator`.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from copy import copy
from typing import NamedTuple

import numpy as np

from dynstore.backend import get_backend
from dynstore.distributed.counting import OPERATIONS, letter_bytes
from dynstore.distributed.owners import Owners

__all__ = [
    "ALGORITHMS",
    "UPDATES",
    "Graph",
    "Tally",
    "count_bfs",
    "count_components",
    "count_delete",
    "count_insert",
    "count_pagerank",
    "count_sssp",
    "count_triangles",
    "make_graph",
    "new_tally",
    "own_rows",
]

ID_BYTES, WEIGHT_BYTES, SUM_BYTES = 4, 4, 8  # the default dtypes; sums of ranks and of triangles are wider
COUNT_BYTES = 16  # two counts of a frontier
BALLOT_BYTES = 128  # about what is around a value when ranks agree
INT_BYTES = 5  # the most that a number below 2^31 takes when it is pickled


class Graph(NamedTuple):
    """Stored edges, each once, sorted by source and destination; an undirected one in both directions."""

    src: np.ndarray
    dst: np.ndarray
    weights: np.ndarray
    num_vertices: int
    directed: bool


def make_graph(src: np.ndarray, dst: np.ndarray, weights: np.ndarray, directed: bool) -> Graph:
    """Return the graph that these rows make; of equal edges the last one counts."""
    if not directed:
        src, dst, weights = (np.stack(pair, axis=1).ravel() for pair in ((src, dst), (dst, src), (weights, weights)))
    num_vertices = int(max(src.max(initial=-1), dst.max(initial=-1))) + 1
    keys = src.astype(np.int64)[::-1] * num_vertices + dst[::-1]
    keys, last = np.unique(keys, return_index=True)
    return Graph(keys // num_vertices, keys % num_vertices, weights[::-1][last], num_vertices, directed)


class Tally:
    """Counts of one call on so many ranks.

    Attributes
    ----------
    size : int
    calls : dict
        Operation -> how many there are, on each rank.
    messages, nbytes : dict
        Operation -> an entry a rank, as :class:`dynstore.distributed.Traffic` counts.
    received : numpy.ndarray, shape (P,)
        Bytes that come by ``all_to_all``.
    rounds, vertices : int
        Rounds, and vertices times how often a rank goes over all of them.
    rows : numpy.ndarray, shape (P,)
        Rows, edges or pairs that each rank works on.
    """

    def __init__(self, size: int, owner: np.ndarray) -> None:
        self.size, self.owner = size, owner
        self.calls = dict.fromkeys(OPERATIONS, 0)
        self.messages = {name: np.zeros(size, np.int64) for name in OPERATIONS}
        self.nbytes = {name: np.zeros(size, np.int64) for name in OPERATIONS}
        self.received = np.zeros(size, np.int64)
        self.rounds, self.vertices = 0, 0
        self.rows = np.zeros(size, np.int64)

    def _note(self, name: str, messages: np.ndarray | int, nbytes: np.ndarray | int) -> None:
        self.calls[name] += 1
        if self.size > 1:
            self.messages[name] += messages
            self.nbytes[name] += nbytes

    def agree(self, count: int = 1, lengths: np.ndarray | int = 0) -> None:
        """Add agreements; ``lengths``: of the pickled values, where they may not fit the envelope."""
        letters = np.array([letter_bytes(length) for length in np.atleast_1d(lengths).tolist()])
        for _ in range(count):
            self._note("all_gather", self.size - 1, (self.size - 1) * letters)

    def reduce(self, nbytes: int) -> None:
        """Add ``Collective.all_reduce``."""
        self.agree()
        self.sum_up(nbytes)

    def sum_up(self, nbytes: int) -> None:
        """Add ``Communicator.all_reduce``."""
        self._note("all_reduce", 1, nbytes)

    def broadcast(self, nbytes: int) -> None:
        """Add a broadcast of rank 0."""
        root = np.arange(self.size) == 0
        self._note("broadcast", root.astype(np.int64), root * nbytes)

    def route(self, table: np.ndarray, columns: tuple[int, ...]) -> None:
        """Add ``Collective.all_to_all``; ``table[i, j]``: rows from rank i to j, ``columns``: bytes of an item each.

        When ranks agree, each says how many rows go to each rank.
        """
        lengths: np.ndarray | int = 0
        if INT_BYTES * self.size + BALLOT_BYTES > letter_bytes(0):
            lengths = np.array([BALLOT_BYTES + len(pickle.dumps(row.tolist())) for row in table])
        self.agree(1, lengths)
        others = table * ~np.eye(self.size, dtype=np.bool_)
        self._note("all_to_all", len(columns) * np.count_nonzero(others, axis=1), sum(columns) * others.sum(axis=1))
        self.received += sum(columns) * others.sum(axis=0)
        self.rows += table.sum(axis=0)

    def grown(self) -> Tally:
        """Return the counts for a graph that is ``size`` times as large, of the same degrees and as many rounds.

        So a rank has as many vertices and edges as the whole graph has here. The rows that a rank has more than the
        mean grow as a sum of independent numbers does.
        """
        size, mean, grown = self.size, self.rows.mean(), self.times(self.size)
        grown.vertices = size * self.vertices
        grown.rows = (size * mean + size**0.5 * (self.rows - mean)).astype(np.int64)
        return grown

    def times(self, factor: int) -> Tally:
        """Return the counts for so many times as many rows in each transfer."""
        larger = copy(self)
        larger.nbytes = {name: sent if name == "all_gather" else factor * sent for name, sent in self.nbytes.items()}
        larger.received, larger.rows = factor * self.received, factor * self.rows
        return larger

    def table(self, ranks: np.ndarray, vertices: np.ndarray) -> np.ndarray:
        """Return how many rows go from rank i to rank j, for rows that some ranks send to the owners of vertices."""
        keys = ranks.astype(np.int64) * self.size + self.owner[vertices]
        return np.bincount(keys, minlength=self.size**2).reshape(self.size, self.size)


def new_tally(graph: Graph, size: int) -> Tally:
    """Return empty counts for a graph whose vertices are spread by hash."""
    backend = get_backend("cpu")
    owners = Owners(backend, "hash", size, None)
    return Tally(size, owners(np.arange(graph.num_vertices, dtype=np.int32)).astype(np.int64))


def own_rows(size: int, count: int) -> np.ndarray:
    """Return which rank brings each of ``count`` rows: a part of equal size each, in order."""
    ends = np.arange(size + 1) * count // size
    return np.repeat(np.arange(size), np.diff(ends))


# ---------------------------------------------------------------------- updates


def count_insert(graph: Graph, size: int, src: np.ndarray, dst: np.ndarray) -> Tally:
    """Count ``insert_edges`` of weighted rows, of which each rank brings a part."""
    return _count_update(graph, size, src, dst, (ID_BYTES, ID_BYTES, WEIGHT_BYTES))


def count_delete(graph: Graph, size: int, src: np.ndarray, dst: np.ndarray) -> Tally:
    """Count ``delete_edges`` of rows, of which each rank brings a part."""
    return _count_update(graph, size, src, dst, (ID_BYTES, ID_BYTES))


def _count_update(graph: Graph, size: int, src: np.ndarray, dst: np.ndarray, columns: tuple[int, ...]) -> Tally:
    tally, ranks = new_tally(graph, size), own_rows(size, len(src))
    tally.rows += np.bincount(ranks, minlength=size)
    if not graph.directed:
        proper = src != dst
        ranks, src = np.concatenate((ranks, ranks[proper])), np.concatenate((src, dst[proper]))
    if size > 1 or not graph.directed:
        tally.route(tally.table(ranks, src), columns)
    tally.agree()  # the vote
    tally.rounds, tally.vertices = 1, graph.num_vertices
    return tally


# ---------------------------------------------------------------------- algorithms


def count_bfs(graph: Graph, size: int, source: int) -> Tally:
    """Count ``bfs``: in each level all ranks get two counts, and a byte for each vertex. It searches top-down."""
    tally, levels = new_tally(graph, size), _levels(graph, source)
    reached = levels[graph.src] >= 0
    tally.rows += np.bincount(tally.owner[graph.src[reached]], minlength=size)
    tally.rounds = int(levels.max()) + 1
    tally.agree()
    for _ in range(tally.rounds):
        tally.sum_up(COUNT_BYTES)
        tally.sum_up(graph.num_vertices)
    tally.sum_up(COUNT_BYTES)  # no vertex is left
    tally.reduce(ID_BYTES * graph.num_vertices)  # predecessors
    tally.agree()
    tally.vertices = (tally.rounds + 1) * graph.num_vertices
    return tally


def _levels(graph: Graph, source: int) -> np.ndarray:
    levels = np.full(graph.num_vertices, -1)
    levels[source], frontier, level = 0, np.array([source]), 0
    starts = np.searchsorted(graph.src, np.arange(graph.num_vertices + 1))
    while len(frontier):
        found = np.unique(graph.dst[_slots(starts, frontier)])
        frontier, level = found[levels[found] < 0], level + 1
        levels[frontier] = level
    return levels


def _slots(starts: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the places of all edges of some rows."""
    counts = starts[rows + 1] - starts[rows]
    before = np.cumsum(counts) - counts
    return np.repeat(starts[rows] - before, counts) + np.arange(int(counts.sum()))


def count_sssp(graph: Graph, size: int, source: int) -> Tally:
    """Count ``sssp`` over weights above 0: in each round all ranks get the shortest distances."""
    tally, dtype = new_tally(graph, size), np.float32
    nearest = np.full(graph.num_vertices, np.inf, dtype)
    nearest[source], frontier = 0, np.array([source])
    starts, weights = np.searchsorted(graph.src, np.arange(graph.num_vertices + 1)), graph.weights.astype(dtype)
    tally.agree()
    while len(frontier):
        slots = _slots(starts, frontier)
        tally.rows += np.bincount(tally.owner[graph.src[slots]], minlength=size)
        new = nearest.copy()
        np.minimum.at(new, graph.dst[slots], nearest[graph.src[slots]] + weights[slots])
        frontier, nearest = np.flatnonzero(new < nearest), new
        tally.sum_up(WEIGHT_BYTES * (graph.num_vertices + 1))
        tally.rounds += 1
    tally.reduce(ID_BYTES * graph.num_vertices)  # predecessors
    tally.agree()
    tally.rows += np.bincount(tally.owner[graph.src[np.isfinite(nearest[graph.src])]], minlength=size)
    tally.vertices = (tally.rounds + 1) * graph.num_vertices
    return tally


def count_pagerank(graph: Graph, size: int, source: int) -> Tally:
    """Count ``pagerank`` with its defaults: an iteration is one sum of V numbers."""
    del source
    tally = new_tally(graph, size)
    tally.rounds = _iterations(graph) + 1  # the last one finds that the one before has converged
    tally.reduce(SUM_BYTES * graph.num_vertices)  # of weights
    tally.agree()
    for _ in range(tally.rounds):
        tally.sum_up(SUM_BYTES * (graph.num_vertices + 2))
    tally.agree(2)
    tally.vertices = tally.rounds * graph.num_vertices
    tally.rows += tally.rounds * np.bincount(tally.owner[graph.src], minlength=size)
    return tally


def _iterations(graph: Graph, alpha: float = 0.85, tol: float = 1e-5) -> int:
    count, weights = graph.num_vertices, graph.weights.astype(np.float64)
    sums = np.bincount(graph.src, weights, count)
    shares = weights / np.where(sums == 0, 1.0, sums)[graph.src]
    ranks, error, iterations = np.full(count, 1 / count), np.inf, 0
    while error >= tol:
        came = np.bincount(graph.dst, shares * ranks[graph.src], count)
        new = alpha * came + (1 - alpha + alpha * ranks[sums == 0].sum()) / count
        error, ranks, iterations = np.abs(new - ranks).sum(), new, iterations + 1
    return iterations


def count_components(graph: Graph, size: int, source: int) -> Tally:
    """Count ``weakly_connected_components``: in each round half of the ranks that are left give away their labels."""
    del source
    tally, ranks, distance = new_tally(graph, size), np.arange(size), 1
    tally.rows += np.bincount(tally.owner[graph.src], minlength=size)
    while distance < size:
        table = np.zeros((size, size), np.int64)
        gives = ranks[ranks % (2 * distance) == distance]
        table[gives, gives - distance] = graph.num_vertices
        tally.route(table, (ID_BYTES,))
        tally.rounds, distance = tally.rounds + 1, 2 * distance
    tally.agree()
    tally.broadcast(ID_BYTES * graph.num_vertices)
    tally.agree()
    tally.vertices = (2 * tally.rounds + 1) * graph.num_vertices
    tally.rounds += 1
    return tally


def count_triangles(graph: Graph, size: int, source: int) -> Tally:
    """Count ``triangle_count``: the parts of all ranks go round, and each rank looks its own pairs up in each."""
    del source
    tally, degrees = new_tally(graph, size), np.bincount(graph.src, minlength=graph.num_vertices)
    low, high = degrees[graph.src], degrees[graph.dst]
    up = (low < high) | ((low == high) & (graph.src < graph.dst))
    part = np.bincount(tally.owner[graph.src[up]], minlength=size)
    ups = np.bincount(graph.src[up], minlength=graph.num_vertices)
    pairs = np.bincount(tally.owner, ups * (ups - 1) // 2, size).astype(np.int64)
    tally.reduce(ID_BYTES * graph.num_vertices)
    ranks = np.arange(size)
    for step in range(size - 1):
        table = np.zeros((size, size), np.int64)
        table[ranks, (ranks + 1) % size] = part[(ranks - step) % size]
        tally.route(table, (ID_BYTES, ID_BYTES))
    tally.reduce(SUM_BYTES * graph.num_vertices)
    tally.agree()
    tally.rounds, tally.vertices = size, (size + 2) * graph.num_vertices
    tally.rows = size * pairs + np.bincount(tally.owner[graph.src], minlength=size)
    return tally


UPDATES: dict[str, Callable[[Graph, int, np.ndarray, np.ndarray], Tally]] = {
    "insert": count_insert,
    "delete": count_delete,
}
ALGORITHMS: dict[str, Callable[[Graph, int, int], Tally]] = {
    "bfs": count_bfs,
    "sssp": count_sssp,
    "pagerank": count_pagerank,
    "weakly_connected_components": count_components,
    "triangle_count": count_triangles,
}
