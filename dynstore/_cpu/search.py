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


@njit(cache=True)
def _lower_bound(keys, low, high, key):
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def _locate(offsets, dst, valid, edge_src, edge_dst, positions, states):
    num_vertices = offsets.shape[0] - 1
    last_row, last_key, last_position = np.int64(-1), np.int64(-1), np.int64(0)
    for i in range(edge_src.shape[0]):
        row, key = np.int64(edge_src[i]), np.int64(edge_dst[i])
        if row >= num_vertices:
            positions[i], states[i] = dst.shape[0], ABSENT
            continue
        start, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        if row == last_row and key >= last_key:  # a sorted batch goes on where it was
            start = last_position
        position = _lower_bound(dst, start, end, key)
        last_row, last_key, last_position = row, key, position
        positions[i] = position
        if position == end or dst[position] != key:
            states[i] = ABSENT
        elif (valid[position >> 5] >> np.uint32(position & 31)) & np.uint32(1):
            states[i] = PRESENT
        else:
            states[i] = DEAD


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
