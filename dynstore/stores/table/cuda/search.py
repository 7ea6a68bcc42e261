"""Finding edges on CUDA."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.cuda.compiler import SIMULATED, cuda, device, kernel
from dynstore.cuda.warp import d_ballot, d_lane
from dynstore.stores.table.slots import ABSENT, PRESENT, TOMBSTONE

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = [
    "FOUND_EACH",
    "SEARCHERS",
    "d_find_edge",
    "d_find_edge_together",
    "d_find_edges",
    "d_find_lower_bound",
    "d_find_two_edges",
    "d_test_bit",
    "find_slots",
    "locate_edges",
    "look_up_edges",
    "read_found",
]

# How many neighbouring lanes search for an edge together; a power of 2.
SEARCHERS = 8
# How many edges a thread searches for at once in ``d_find_edges``.
FOUND_EACH = 2 if SIMULATED else 8


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
    """Return the lower bound of ``key`` inside its row, and ABSENT, TOMBSTONE or PRESENT; the row need not exist."""
    position, state = np.int64(dst.shape[0]), ABSENT
    if 0 <= row < num_vertices:
        end = np.int64(offsets[row + 1])
        position = d_find_lower_bound(dst, np.int64(offsets[row]), end, key)
        if position < end and dst[position] == key:
            state = PRESENT if d_test_bit(valid, position) else TOMBSTONE
    return position, state


@device
def d_find_two_edges(offsets, dst, valid, row, key, other_row, other_key):
    """Find two edges at once, so that the reads of both overlap; positions are uint32.

    For 1 to 2^31 - 1 slots. Row ``num_vertices`` has no edges. Returns position and state of each as ``d_find_edge``.
    """
    last_row, last_slot = np.uint32(offsets.shape[0] - 1), np.uint32(dst.shape[0] - 1)
    row, other_row = np.uint32(row), np.uint32(other_row)
    low, high = np.uint32(offsets[row]), np.uint32(offsets[min(np.uint32(row + np.uint32(1)), last_row)])
    other_low = np.uint32(offsets[other_row])
    other_high = np.uint32(offsets[min(np.uint32(other_row + np.uint32(1)), last_row)])
    end, other_end = high, other_high
    is_open, other_is_open = low < high, other_low < other_high
    while is_open | other_is_open:
        middle = np.uint32(min(np.uint32(np.uint32(low + high) >> np.uint32(1)), last_slot))
        other_middle = np.uint32(min(np.uint32(np.uint32(other_low + other_high) >> np.uint32(1)), last_slot))
        is_below, other_is_below = dst[middle] < key, dst[other_middle] < other_key
        if is_open & is_below:
            low = np.uint32(middle + np.uint32(1))
        else:
            high = middle  # also if this search is done, which changes nothing
        if other_is_open & other_is_below:
            other_low = np.uint32(other_middle + np.uint32(1))
        else:
            other_high = other_middle
        is_open, other_is_open = low < high, other_low < other_high
    slot, other_slot = np.uint32(min(low, last_slot)), np.uint32(min(other_low, last_slot))
    found, word = dst[slot], valid[np.uint32(slot >> np.uint32(5))]
    other_found, other_word = dst[other_slot], valid[np.uint32(other_slot >> np.uint32(5))]
    is_valid = (word >> np.uint32(slot & np.uint32(31))) & np.uint32(1) != 0
    other_is_valid = (other_word >> np.uint32(other_slot & np.uint32(31))) & np.uint32(1) != 0
    is_there, other_is_there = (low < end) & (found == key), (other_low < other_end) & (other_found == other_key)
    state, other_state = PRESENT if is_valid else TOMBSTONE, PRESENT if other_is_valid else TOMBSTONE
    return low, state if is_there else ABSENT, other_low, other_state if other_is_there else ABSENT


@device
def d_find_edges(offsets, dst, valid, rows, keys, positions, ends):
    """Find FOUND_EACH edges at once, as :func:`d_find_two_edges` finds two: ``rows`` become the edges' states.

    The arrays are local, in registers: ``rows``, ``positions`` and ``ends`` (work space) are uint32, ``keys`` int32.
    Row ``num_vertices`` has no edges.
    """
    last_row, last_slot = np.uint32(offsets.shape[0] - 1), np.uint32(dst.shape[0] - 1)
    highs = cuda.local.array(FOUND_EACH, np.uint32)
    for k in range(FOUND_EACH):
        positions[k] = np.uint32(offsets[rows[k]])
        ends[k] = highs[k] = np.uint32(offsets[min(np.uint32(rows[k] + np.uint32(1)), last_row)])
    some_open = True
    while some_open:
        some_open = False
        for k in range(FOUND_EACH):
            low, high = positions[k], highs[k]
            middle, is_open = np.uint32(np.uint32(low + high) >> np.uint32(1)), low < high
            is_below = dst[middle if is_open else np.uint32(0)] < keys[k]
            low = np.uint32(middle + np.uint32(1)) if is_open and is_below else low
            high = middle if is_open and not is_below else high
            positions[k], highs[k] = low, high
            some_open |= bool(low < high)
    for k in range(FOUND_EACH):
        slot = min(positions[k], last_slot)
        is_there = (positions[k] < ends[k]) & (dst[slot] == keys[k])
        is_valid = (valid[np.uint32(slot >> np.uint32(5))] >> np.uint32(slot & np.uint32(31))) & np.uint32(1) != 0
        rows[k] = np.uint32((PRESENT if is_valid else TOMBSTONE) if is_there else ABSENT)


@device
def d_find_edge_together(offsets, dst, valid, row, key):
    """Find an edge by ``SEARCHERS`` neighbouring lanes, each of which does one of a step's reads; position is uint32.

    A row of 10^5 slots takes 6 steps that wait for memory, not 17. This is for few edges, whose reads leave memory
    idle. All lanes of the warp call; those of an edge pass the same row and key and get the same results. All else is
    as in ``d_find_two_edges``.
    """
    last_row, last_slot = np.uint32(offsets.shape[0] - 1), np.uint32(dst.shape[0] - 1)
    lane, row = np.uint32(d_lane()), np.uint32(row)
    member = np.uint32(lane & np.uint32(SEARCHERS - 1))
    low, high = np.uint32(offsets[row]), np.uint32(offsets[min(np.uint32(row + np.uint32(1)), last_row)])
    end = high
    while d_ballot(low < high) != 0:
        part = np.uint32(np.uint32(np.uint32(high - low) // np.uint32(SEARCHERS + 1)) + np.uint32(1))
        mine = np.uint32(low + np.uint32(np.uint32(member * part) + np.uint32(part - np.uint32(1))))  # its last slot
        votes = d_ballot((mine < high) & (dst[min(mine, last_slot)] < key)) >> np.uint32(lane - member)
        below = np.uint32(cuda.popc(np.uint32(votes & np.uint32((1 << SEARCHERS) - 1))))
        low = np.uint32(low + np.uint32(below * part))  # unchanged if this search is done
        high = np.uint32(min(high, np.uint32(low + np.uint32(part - np.uint32(1)))))
    slot = np.uint32(min(low, last_slot))
    found, word = dst[slot], valid[np.uint32(slot >> np.uint32(5))]
    is_valid = (word >> np.uint32(slot & np.uint32(31))) & np.uint32(1) != 0
    state = PRESENT if is_valid else TOMBSTONE
    return low, state if (low < end) & (found == key) else ABSENT


@kernel
def k_locate_edges(offsets, dst, valid, num_vertices, edge_src, edge_dst, positions, states):
    """One thread owns one edge: its lower bound inside its row, and its state."""
    i = cuda.grid(1)
    if i < edge_src.shape[0]:
        position, state = d_find_edge(offsets, dst, valid, num_vertices, np.int64(edge_src[i]), edge_dst[i])
        positions[i] = position
        states[i] = state


@kernel
def k_find_slots(offsets, dst, valid, num_vertices, edge_src, edge_dst, slots):
    """One thread owns one edge: its slot, -1 if it is absent."""
    i = cuda.grid(1)
    if i < edge_src.shape[0]:
        position, state = d_find_edge(offsets, dst, valid, num_vertices, np.int64(edge_src[i]), edge_dst[i])
        slots[i] = position if state == PRESENT else np.int64(-1)


@kernel
def k_look_up_edges(offsets, dst, valid, num_vertices, edge_src, edge_dst, stored, weighted, there, weights):
    """One thread owns one edge: whether it is there and, if ``weighted``, its weight, 0 if absent."""
    i = cuda.grid(1)
    if i < edge_src.shape[0]:
        position, state = d_find_edge(offsets, dst, valid, num_vertices, np.int64(edge_src[i]), edge_dst[i])
        is_there = state == PRESENT
        there[i] = is_there
        if weighted:
            weights[i] = stored[position] if is_there else weights.dtype.type(0)


@kernel
def k_read_found(positions, states, stored, there, weights):
    """One thread owns one located edge: whether it is there, and its weight, 0 if absent."""
    i = cuda.grid(1)
    if i < positions.shape[0]:
        is_there = states[i] == PRESENT
        there[i] = is_there
        weights[i] = stored[positions[i]] if is_there else weights.dtype.type(0)


def locate_edges(backend: Backend, slots: SlotArrays, src: Array, dst: Array) -> tuple[Array, Array]:
    """Find where edges are or belong; see :func:`dynstore.stores.table.cpu.search.locate_edges`."""
    count = src.shape[0]
    positions, states = backend.empty_arena((count, np.int64), (count, np.uint8))
    k_locate_edges.launch(count, slots.offsets, slots.dst, slots.valid, slots.num_vertices, src, dst, positions, states)
    return positions, states


def find_slots(backend: Backend, slots: SlotArrays, src: Array, dst: Array) -> Array:
    """Return the slot of each edge, -1 where it is absent; int64, shape (B,)."""
    found = backend.empty(src.shape[0], np.int64)
    k_find_slots.launch(src.shape[0], slots.offsets, slots.dst, slots.valid, slots.num_vertices, src, dst, found)
    return found


def look_up_edges(backend: Backend, slots: SlotArrays, src: Array, dst: Array) -> tuple[Array, Array | None]:
    """Do what the host's ``look_up_edges`` does."""
    count, weighted = src.shape[0], slots.weights is not None
    stored: Array = backend.nothing(np.float32) if slots.weights is None else slots.weights
    there, weights = backend.empty_arena((count, np.bool_), (count if weighted else 0, stored.dtype))
    table = (slots.offsets, slots.dst, slots.valid, slots.num_vertices)
    k_look_up_edges.launch(count, *table, src, dst, stored, int(weighted), there, weights)
    return there, weights if weighted else None


def read_found(backend: Backend, stored: Array, positions: Array, states: Array) -> tuple[Array, Array]:
    """Return which located edges are there, and their weights; see :func:`dynstore.stores.table.cpu.search`."""
    count = positions.shape[0]
    there, weights = backend.empty_arena((count, np.bool_), (count, stored.dtype))
    k_read_found.launch(count, positions, states, stored, there, weights)
    return there, weights
