"""Finding edges on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.host_compiler import njit
from dynstore.stores.table.slots import ABSENT, PRESENT, TOMBSTONE

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["locate_edges"]


# Keys searched side by side, so that their cache misses overlap; ranges up to SHORT are counted instead of halved.
LANES = 32
SHORT = 32


@njit(cache=True)
def _locate(offsets, dst, valid, edge_src, edge_dst, positions, states):
    """Search the rows of LANES keys in lockstep, without branches on what is read."""
    num_vertices = offsets.shape[0] - 1
    low, size, end = np.empty(LANES, np.int64), np.empty(LANES, np.int64), np.empty(LANES, np.int64)
    for first in range(0, edge_src.shape[0], LANES):
        lanes = min(LANES, edge_src.shape[0] - first)
        longest = np.int64(0)
        for lane in range(lanes):
            row = np.int64(edge_src[first + lane])
            known = row < num_vertices
            low[lane] = offsets[row] if known else dst.shape[0]
            end[lane] = offsets[row + 1] if known else dst.shape[0]
            size[lane] = end[lane] - low[lane]
            longest = max(longest, size[lane])
        while longest > SHORT:
            for lane in range(lanes):
                half = size[lane] >> 1
                if half > 0:
                    low[lane] += half if dst[low[lane] + half - 1] < edge_dst[first + lane] else 0
                    size[lane] -= half
            longest -= longest >> 1
        for lane in range(lanes):
            key = edge_dst[first + lane]
            rest = dst[low[lane] : low[lane] + size[lane]]
            below = np.int32(0)
            for i in range(rest.shape[0]):
                below += np.int32(rest[i] < key)
            position = low[lane] + below
            state = ABSENT
            if position < end[lane] and dst[position] == key:
                state = PRESENT if (valid[position >> 5] >> np.uint32(position & 31)) & np.uint32(1) else TOMBSTONE
            positions[first + lane], states[first + lane] = position, state


def locate_edges(backend: Backend, slots: SlotArrays, src: Array, dst: Array) -> tuple[Array, Array]:
    """Find where edges are or belong.

    Only the first slot of a key's run can be valid, so a lower bound in the row decides.

    Returns
    -------
    positions : array, shape (B,), int64
        The first slot whose key is not below the edge's; S for rows that do not exist.
    states : array, shape (B,), uint8
        ``PRESENT``, ``TOMBSTONE`` (the key is there, its edge was deleted) or ``ABSENT``.
    """
    positions = backend.empty(src.shape[0], np.int64)
    states = backend.empty(src.shape[0], np.uint8)
    _locate(slots.offsets, slots.dst, slots.valid, src, dst, positions, states)
    return positions, states
