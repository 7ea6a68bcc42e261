"""One rank's part of a breadth-first search on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.distributed.failures import FAILED, Failure

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR

__all__ = ["Search"]


class Search:
    """A rank's part of a breadth-first search, top-down; see the one of ``cuda``."""

    def __init__(self, out: GapCSR, symmetric: bool, num_slots: int, sources: np.ndarray, parents: bool) -> None:
        num_vertices, dtype = out.num_vertices, out.offsets.dtype
        self._out, self._unreached = out, np.iinfo(dtype).max
        self.distances = np.full(num_vertices, self._unreached, dtype)
        self.predecessors = np.full(num_vertices if parents else 0, self._unreached, dtype)
        self.distances[sources] = 0
        self._frontier = sources
        self.failure = Failure()
        self._failed = np.full(2, FAILED)
        self._flags = np.zeros(num_vertices, np.uint8)

    def count_frontier(self) -> np.ndarray:
        """Return the vertices of the frontier, the same on all ranks, and its slots on this rank; or FAILED, twice."""
        counts = self._failed
        with self.failure:
            offsets = self._out.offsets
            slots = (offsets[self._frontier + 1] - offsets[self._frontier]).sum(dtype=np.int64)
            counts = np.array((len(self._frontier), slots))
        return self._failed if self.failure else counts

    def expand(self, size: int, slots: int) -> np.ndarray:
        """Expand the frontier; return a flag for each vertex reached so far. What fails is kept in ``failure``."""
        with self.failure:
            self._expand()
        return self._flags

    def _expand(self) -> None:
        slots_there, places = _slots_of(self._out, self._frontier)
        children = self._out.indices[slots_there]
        new = self.distances[children] == self._unreached
        self._flags[children] = 1
        if len(self.predecessors):
            np.minimum.at(self.predecessors, children[new], self._frontier[places[new]].astype(self._out.offsets.dtype))

    def take(self, flags: np.ndarray, level: int) -> None:
        """Make the vertices that any rank has reached, and that were not reached before, the frontier."""
        with self.failure:
            self._frontier = np.flatnonzero((flags != 0) & (self.distances == self._unreached))
            self.distances[self._frontier] = level


def _slots_of(out: GapCSR, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the slots of all edges of some rows, and for each slot the place of its row among these rows."""
    starts, ends = out.offsets[rows].astype(np.int64), out.offsets[rows + 1].astype(np.int64)
    before = np.cumsum(ends - starts)
    numbers = np.arange(int(before[-1]) if len(rows) else 0, dtype=np.int64)
    places = np.searchsorted(before, numbers, side="right")
    slots = ends[places] - before[places] + numbers
    there = (out.valid[slots >> 5] >> (slots & 31).astype(np.uint32)) & np.uint32(1) != 0
    return slots[there], places[there]
