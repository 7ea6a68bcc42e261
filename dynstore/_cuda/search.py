"""Finding edges on CUDA."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore._cuda.compiler import cuda, device, kernel
from dynstore.slots import ABSENT, DEAD, PRESENT

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["d_find_edge", "d_find_lower_bound", "d_test_bit", "locate_edges"]


@device
def d_find_lower_bound(keys, low, high, key):
    """Return the first position in [low, high) whose key is not below ``key``, else ``high``."""
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@device
def d_test_bit(words, slot):
    """Return whether a slot's validity bit is set."""
    return (words[slot >> 5] >> np.uint32(slot & 31)) & np.uint32(1) != 0


@device
def d_find_edge(offsets, dst, valid, num_vertices, row, key):
    """Return the lower bound of ``key`` inside its row, and ABSENT, DEAD or PRESENT; a row may be none."""
    position, state = np.int64(dst.shape[0]), ABSENT
    if 0 <= row < num_vertices:
        end = np.int64(offsets[row + 1])
        position = d_find_lower_bound(dst, np.int64(offsets[row]), end, key)
        if position < end and dst[position] == key:
            state = PRESENT if d_test_bit(valid, position) else DEAD
    return position, state


@kernel
def k_locate_edges(offsets, dst, valid, num_vertices, edge_src, edge_dst, positions, states):
    """One thread owns one edge: its lower bound inside its row, and what stands there."""
    i = cuda.grid(1)
    if i < edge_src.shape[0]:
        position, state = d_find_edge(offsets, dst, valid, num_vertices, np.int64(edge_src[i]), edge_dst[i])
        positions[i] = position
        states[i] = state


def locate_edges(backend: Backend, slots: SlotArrays, src: Array, dst: Array) -> tuple[Array, Array]:
    """Find where edges are or belong; see :func:`dynstore._cpu.search.locate_edges`."""
    positions = backend.empty(src.shape[0], np.int64)
    states = backend.empty(src.shape[0], np.uint8)
    k_locate_edges.launch(
        src.shape[0], slots.offsets, slots.dst, slots.valid, slots.num_vertices, src, dst, positions, states
    )
    return positions, states
