"""One rank's part of a search for shortest paths on the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.rows.cuda.rows import RESERVE_BOARD, WorkLists, count_warps, d_list_words, list_parts
from dynstore.algorithms.traversal.cuda.shortest_paths import find_predecessors, k_relax_frontier
from dynstore.cuda.compiler import cuda, kernel
from dynstore.cuda.launch import Packed
from dynstore.cuda.warp import d_ballot, d_lane
from dynstore.distributed.failures import FAILED, Failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["Paths"]


@kernel
def k_note_fallen(pending, distances):
    """Stride over the words of ``pending``: write 0 behind the distances if a bit is set (all write the same)."""
    for word in range(int(cuda.grid(1)), pending.shape[0], int(cuda.gridsize(1))):
        if pending[word] != 0:
            distances[distances.shape[0] - 1] = 0


@kernel
def k_list_fallen(offsets, nearest, distances, pending, short, rows, begins, lengths):
    """Take distances that are shorter in ``nearest``; list these vertices and those of ``pending``, clear their bits.

    Behind the distances there is 1 then. Warps stride over the words of ``pending``. Each word, and each distance of
    its 32 vertices, is written by one lane. Atomics: an add a block on the lengths of the lists.
    """
    board = cuda.shared.array(RESERVE_BOARD, np.int64)
    lists = WorkLists(short, rows, begins, lengths)
    lane = d_lane()
    num_vertices = offsets.shape[0] - 1
    if cuda.grid(1) == 0:
        distances[num_vertices] = 1
    warps = int(cuda.gridsize(1)) >> 5
    for base in range(0, pending.shape[0], warps * 32):
        first = base + (int(cuda.grid(1)) >> 5)
        word = first + lane * warps
        new = np.int64(0)
        if word < pending.shape[0]:
            new = np.int64(pending[word])
            pending[word] = 0
        for owner in range(32):  # the lane that has a word, for each lane a vertex of it
            vertex = (first + owner * warps) * 32 + lane
            fell = False
            if vertex < num_vertices:
                distance = nearest[vertex]
                fell = distance < distances[vertex]
                if fell:
                    distances[vertex] = distance
            bits = np.int64(d_ballot(fell))
            if lane == owner:
                new |= bits
        d_list_words(offsets, new, word, warps, board, lists, 0)


class Paths:
    """A rank's part of a search for shortest paths over weights of at least 0, the method of Bellman and Ford.

    In a round each rank relaxes its own edges of all vertices whose distance fell in the round before, and all take the
    shortest distances that any has found. Thresholds, as on one GPU, would save some relaxations, but need more rounds.

    Parameters
    ----------
    out : GapCSR
        The rows that this rank owns; those of other vertices are empty.
    source : int
    limit : float
        Only paths shorter than this count.

    Attributes
    ----------
    distances : array, shape (V,), weight dtype
        Of all vertices, ``finfo.max`` where unreached.
    """

    def __init__(self, out: GapCSR, source: int, limit: float) -> None:
        backend, num_vertices = out.backend, out.num_vertices
        weights: Array = out.weights
        dtype = np.dtype(weights.dtype)
        self._out, self._source, self._num_warps = out, source, count_warps(out)
        self._unreached = np.finfo(dtype).max
        # In the weight dtype, so that host and kernels compare the same numbers.
        self._limit = dtype.type(min(float(limit), float(self._unreached)))
        self._found = backend.full(num_vertices + 1, self._unreached, dtype)
        self.distances, self._state = self._found[:num_vertices], self._found[num_vertices:]
        self._lengths, self._pending, *lists = backend.empty_arena(
            (1, np.int64), (-(-num_vertices // 32), np.uint32), *list_parts(out), zeroed=2
        )
        keys = self._found.view(np.dtype(f"i{dtype.itemsize}"))
        # The step is 0: there is one entry of lengths.
        self._edges = Packed(out.offsets, out.indices, out.valid, weights, *lists, self._lengths, 0)
        self._keyed = Packed(keys, self._pending)
        self._listed = Packed(self._found, self._pending, *lists, self._lengths)
        self.failure = Failure()
        self._state.fill(FAILED)  # once here, so that later it needs no memory
        start = self._found.copy()
        start[source] = 0
        self.take(start)
        self.failure.check()

    def relax(self) -> Array:
        """Relax this rank's edges of the vertices whose distance has fallen.

        It allocates nothing. What fails is kept in ``failure``: all ranks come to the next transfer.

        Returns
        -------
        array, shape (V + 1,), weight dtype
            The distances, and behind them 0 if one has fallen, 1 if none has, FAILED if something has failed on this
            rank. The minimum over all ranks shows all of them how they did.
        """
        with self.failure:
            self._relax()
        if self.failure:
            self._state.fill(FAILED)
        return self._found

    def _relax(self) -> None:
        k_relax_frontier.launch_warps(self._num_warps, self._edges, self._limit, self._keyed)
        k_note_fallen.launch_strided(self._pending.shape[0], self._pending, self._found)

    def take(self, nearest: Array) -> None:
        """Take the shortest distances of all ranks, as :meth:`relax` has them; relax next what has fallen."""
        with self.failure:
            self._lengths.fill(0)
            k_list_fallen.launch_strided(self.distances.shape[0], self._out.offsets, nearest, self._listed)

    def find_predecessors(self, merge: Callable[[Array], Array]) -> Array:
        """Return a vertex before each on a shortest path, the smallest one, shape (V,), vertex dtype; else -1.

        Parameters
        ----------
        merge : callable
            It returns the minima of an array over all ranks.
        """
        return find_predecessors(self._out, self._source, self.distances, self._unreached, merge)
