"""One rank's part of a breadth-first search on the GPU: it expands a level; what all ranks have found is merged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.rows.cuda.rows import (
    RESERVE_BOARD,
    WorkLists,
    count_warps,
    d_add_block,
    d_list_words,
    d_mark_words,
    list_parts,
)
from dynstore.algorithms.traversal.cuda.search import (
    ALPHA,
    BETA,
    MIN_PULLED_SLOTS,
    SWEEP_SHARE,
    GapArrays,
    Reached,
    d_find_parent,
    d_push_lists,
)
from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.cuda.launch import Packed
from dynstore.cuda.warp import d_lane
from dynstore.distributed.failures import FAILED, Failure

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["Search"]

# What is noted of a frontier: its vertices, its slots on this rank, the lengths of its lists.
SIZE, SLOTS, LISTS = range(3)


@device
def d_set_flag(found, child):
    """Set the child's flag; several threads may write the same."""
    found.marks[np.uint64(child)] = 1


@device
def d_read_flags(flags, word):
    """Return the flags of 32 vertices as the bits of an int64; ``flags`` has four in each item, lowest byte first."""
    bits = np.int64(0)
    for k in range(8):
        four = np.int64(flags[np.uint64(8 * word + k)])
        bits |= ((four & 1) | ((four >> 7) & 2) | ((four >> 14) & 4) | ((four >> 21) & 8)) << (4 * k)
    return bits


@kernel
def k_flag_starts(starts, flags):
    """One thread a start vertex: set its flag."""
    i = int(cuda.grid(1))
    if i < starts.shape[0]:
        flags[int(starts[i])] = 1


@kernel
def k_push_frontier(
    offsets, indices, valid, short, rows, begins, notes, visited, flags, predecessors, keep_parents
):  # fmt: skip
    """Top-down: warps stride over the frontier's pieces and short rows, and set the flags of children not ``visited``.

    Atomics: minimum on predecessors.
    """
    edges, lists = GapArrays(offsets, indices, valid), WorkLists(short, rows, begins, notes)
    thread = int(cuda.grid(1))
    d_push_lists(d_set_flag, thread, edges, lists, LISTS, visited, Reached(flags, predecessors, keep_parents))


@kernel
def k_pull_parents(offsets, indices, valid, visited, frontier, flags, predecessors, keep_parents):
    """Bottom-up: warps stride over words of vertices; those not ``visited`` take their first parent in ``frontier``.

    Rows ascend, so the first parent is the smallest. Each vertex is written only by its lane.
    """
    lane = d_lane()
    num_vertices = offsets.shape[0] - 1
    for word in range(int(cuda.grid(1)) >> 5, visited.shape[0], int(cuda.gridsize(1)) >> 5):
        before = np.int64(visited[word])
        vertex = word * 32 + lane
        slot = 0
        end = 0
        if vertex < num_vertices and (before >> lane) & 1 == 0:
            slot = int(offsets[vertex])
            end = int(offsets[vertex + 1])
        parent = d_find_parent(offsets, indices, valid, frontier, slot, end)
        if parent >= 0:
            flags[vertex] = 1
            if keep_parents:
                predecessors[vertex] = parent


@kernel
def k_list_frontier(offsets, level, flags, visited, frontier, distances, short, rows, begins, notes):
    """Set the ``level`` of the vertices with ``flags`` that are not ``visited``; list those with rows on this rank.

    Warps stride over the words of the bitmaps. Each word is written by one lane. Atomics: three adds a block.
    """
    board = cuda.shared.array(RESERVE_BOARD, np.int64)
    lists = WorkLists(short, rows, begins, notes)
    warps = int(cuda.gridsize(1)) >> 5
    size = 0
    slots = 0
    for base in range(0, visited.shape[0], warps * 32):
        word = base + (int(cuda.grid(1)) >> 5) + d_lane() * warps
        new = np.int64(0)
        if word < visited.shape[0]:
            before = np.int64(visited[word])
            new = d_read_flags(flags, word) & ~before
            frontier[word] = new
            if new != 0:
                visited[word] = before | new
        d_mark_words(distances, new, word, warps, level)
        vertices, their_slots = d_list_words(offsets, new, word, warps, board, lists, LISTS)
        size += vertices
        slots += their_slots
    d_add_block(size, board, notes, SIZE)
    d_add_block(slots, board, notes, SLOTS)


class Search:
    """A rank's part of a breadth-first search.

    Which way a level is expanded is decided as Beamer et al. do, "Direction-Optimizing Breadth-First Search", SC'12,
    from sums over all ranks.

    Parameters
    ----------
    out : GapCSR
        The rows that this rank owns; those of other vertices are empty.
    symmetric : bool
        Whether rows hold in-edges, too.
    num_slots : int
        About so many are there on all ranks.
    sources : numpy.ndarray
    parents : bool

    Attributes
    ----------
    distances : array, shape (V,), vertex dtype
        Of all vertices, ``iinfo.max`` where unreached.
    predecessors : array, shape (V,), vertex dtype
        The smallest that this rank has found, ``iinfo.max`` where it has none; no entries without ``parents``.
    """

    def __init__(self, out: GapCSR, symmetric: bool, num_slots: int, sources: np.ndarray, parents: bool) -> None:
        backend, num_vertices, dtype = out.backend, out.num_vertices, out.offsets.dtype
        unreached = int(np.iinfo(dtype).max)
        self._backend, self._out, self._num_warps = backend, out, count_warps(out)
        self.distances = backend.full(num_vertices, unreached, dtype)
        self.predecessors = backend.full(num_vertices if parents else 0, unreached, dtype)
        words = (-(-num_vertices // 32), np.uint32)
        self._notes, self._visited, self._flags, self._frontier, placeholder, *lists = backend.empty_arena(
            (3, np.int64), words, (32 * words[0], np.uint8), words, (1, dtype), *list_parts(out), zeroed=3
        )
        self._can_pull = symmetric and num_slots >= MIN_PULLED_SLOTS
        self._unchecked, self._pulls = num_slots, False
        self.failure = Failure()
        self._failed = backend.full(LISTS, FAILED, np.int64)
        found = (self.predecessors if parents else placeholder, int(parents))
        edges = (out.offsets, out.indices, out.valid)
        self._pushed = Packed(*edges, *lists, self._notes, self._visited, self._flags, *found)
        self._pulled = Packed(*edges, self._visited, self._frontier, self._flags, *found)
        self._listed = Packed(self._visited, self._frontier, self.distances, *lists, self._notes)
        starts = backend.asarray(sources, dtype=np.int64)
        k_flag_starts.launch(starts.shape[0], starts, self._flags)
        self.take(self._flags, 0)
        self.failure.check()

    def count_frontier(self) -> Array:
        """Return the vertices of the frontier, the same on all ranks, and its slots on this rank; shape (2,), int64.

        If something has failed on this rank, they are FAILED: then the sums over all ranks are below 0.
        """
        return self._failed if self.failure else self._notes[:LISTS]

    def expand(self, size: int, slots: int) -> Array:
        """Expand a frontier of so many vertices and slots on all ranks; return a flag for each vertex reached so far.

        It allocates nothing. What fails is kept in ``failure``: all ranks come to the next transfer.

        Returns
        -------
        array, shape (N,), uint8
            N is V, filled up with zeros.
        """
        with self.failure:
            self._expand(size, slots)
        return self._flags

    def _expand(self, size: int, slots: int) -> None:
        num_vertices = self.distances.shape[0]
        if self._pulls:
            self._pulls = size * BETA >= num_vertices
        else:
            wide = slots * ALPHA > self._unchecked - slots and slots * SWEEP_SHARE > num_vertices
            self._pulls = self._can_pull and wide
        self._unchecked -= slots
        if self._pulls:
            k_pull_parents.launch_strided(num_vertices, self._pulled)
        else:
            k_push_frontier.launch_warps(self._num_warps, self._pushed)

    def take(self, flags: Array, level: int) -> None:
        """Make the vertices that any rank has reached, and that were not reached before, the frontier."""
        with self.failure:
            self._notes.fill(0)
            given = self._out.offsets, level, flags.view(np.uint32)
            k_list_frontier.launch_strided(self.distances.shape[0], *given, self._listed)
