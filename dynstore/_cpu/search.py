"""Finding edges on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from dynstore.slots import ABSENT, DEAD, PRESENT

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["locate_edges"]


# Keys searched side by side: their cache misses overlap.
LANES = 16


@njit(cache=True)
def _locate(offsets, dst, valid, edge_src, edge_dst, positions, states):
    """Search the rows of LANES keys in lockstep, a halving of each in turn."""
    num_vertices = offsets.shape[0] - 1
    low, high, end = np.empty(LANES, np.int64), np.empty(LANES, np.int64), np.empty(LANES, np.int64)
    for first in range(0, edge_src.shape[0], LANES):
        lanes = min(LANES, edge_src.shape[0] - first)
        longest = 0
        for lane in range(lanes):
            row = edge_src[first + lane]
            low[lane] = offsets[row] if row < num_vertices else dst.shape[0]
            end[lane] = offsets[row + 1] if row < num_vertices else dst.shape[0]
            high[lane] = end[lane]
            longest = max(longest, end[lane] - low[lane])
        while longest > 0:
            for lane in range(lanes):
                if low[lane] < high[lane]:
                    middle = (low[lane] + high[lane]) >> 1
                    below = dst[middle] < edge_dst[first + lane]
                    low[lane] = middle + 1 if below else low[lane]
                    high[lane] = high[lane] if below else middle
            longest >>= 1
        for lane in range(lanes):
            position = low[lane]
            positions[first + lane] = position
            state = ABSENT
            if position < end[lane] and dst[position] == edge_dst[first + lane]:
                state = PRESENT if (valid[position >> 5] >> np.uint32(position & 31)) & np.uint32(1) else DEAD
            states[first + lane] = state


def locate_edges(backend: Backend, slots: SlotArrays, src: Array, dst: Array) -> tuple[Array, Array]:
    """Find where edges are or belong.

    Only the first slot of a key's run can be valid, so a lower bound in the row decides.

    Returns
    -------
    positions : array, shape (B,), int64
        The first slot whose key is not below the edge's; S for rows that do not exist.
    states : array, shape (B,), uint8
        ``PRESENT``, ``DEAD`` (the key is there, its edge was deleted) or ``ABSENT``.
    """
    positions = backend.empty(src.shape[0], np.int64)
    states = backend.empty(src.shape[0], np.uint8)
    _locate(slots.offsets, slots.dst, slots.valid, src, dst, positions, states)
    return positions, states
