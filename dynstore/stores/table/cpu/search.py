"""Finding edges on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.host_compiler import njit
from dynstore.stores.table.cpu.memory import prefetch
from dynstore.stores.table.slots import ABSENT, PRESENT, TOMBSTONE

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["find_slots", "locate_edges", "look_up_edges", "read_found"]


# Keys searched side by side, so that their cache misses overlap; ranges up to SHORT are counted instead of halved.
LANES = 64
SHORT = 16


@njit(cache=True)
def _locate(offsets, dst, valid, edge_src, edge_dst, positions, states):
    """Search the rows of LANES keys in lockstep, without branches on what is read.

    Slots are unsigned: a signed index is tested for being negative, which takes as long as the search.
    """
    num_vertices = offsets.shape[0] - 1
    low, size, end = np.empty(LANES, np.uint64), np.empty(LANES, np.uint64), np.empty(LANES, np.uint64)
    none, one = np.uint64(0), np.uint64(1)
    for first in range(0, edge_src.shape[0], LANES):
        lanes = min(LANES, edge_src.shape[0] - first)
        keys = edge_dst[first : first + lanes]
        longest = none
        for lane in range(lanes):
            row = np.int64(edge_src[first + lane])
            known = row < num_vertices
            low[lane] = np.uint64(offsets[row] if known else dst.shape[0])
            end[lane] = np.uint64(offsets[row + 1] if known else dst.shape[0])
            size[lane] = end[lane] - low[lane]
            longest = max(longest, size[lane])
        while longest > SHORT:
            for lane in range(lanes):
                half = size[lane] >> one
                if half > none:
                    low[lane] += half if dst[low[lane] + half - one] < keys[lane] else none
                    size[lane] -= half
            longest -= longest >> one
        for lane in range(lanes):
            key = keys[lane]
            rest = dst[low[lane] : low[lane] + size[lane]]
            below = np.int32(0)
            for i in range(rest.shape[0]):
                below += np.int32(rest[i] < key)
            low[lane] += np.uint64(below)
            prefetch(valid, np.int64(low[lane] >> np.uint64(5)))
        for lane in range(lanes):
            position = low[lane]
            state = np.uint32(ABSENT)
            if position < end[lane]:
                bit = (valid[position >> np.uint64(5)] >> np.uint32(position & np.uint64(31))) & np.uint32(1)
                state = np.uint32(dst[position] == keys[lane]) * (np.uint32(TOMBSTONE) + bit)
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


def find_slots(backend: Backend, slots: SlotArrays, src: Array, dst: Array) -> Array:
    """Return the slot of each edge, -1 where it is absent; int64, shape (B,)."""
    positions, states = locate_edges(backend, slots, src, dst)
    positions[states != PRESENT] = -1
    return positions


def look_up_edges(backend: Backend, slots: SlotArrays, src: Array, dst: Array) -> tuple[Array, Array | None]:
    """Return whether each edge is there, bool, and its weight, 0 if absent; None if the slots have no weights."""
    positions, states = locate_edges(backend, slots, src, dst)
    return (states == PRESENT, None) if slots.weights is None else read_found(backend, slots.weights, positions, states)


def read_found(backend: Backend, stored: Array, positions: Array, states: Array) -> tuple[Array, Array]:
    """Return which located edges are there, bool, and their weights, 0 if absent; ``stored``: the slots' weights."""
    there = states == PRESENT
    weights = np.zeros(positions.shape[0], stored.dtype)
    if stored.shape[0]:
        weights = np.where(there, stored[np.where(there, positions, 0)], weights)
    return there, weights
