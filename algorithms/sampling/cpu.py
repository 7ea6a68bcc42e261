"""Sampling neighbours on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.rows.cpu.slots import d_has_edge
from dynstore.host_compiler import njit

if TYPE_CHECKING:
    from dynstore.algorithms.sampling.fanouts import Fanout, Ranks
    from dynstore.backend import Backend
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["number_nodes", "sample_rows"]

# Steps and multipliers of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA
# 2014). The step also spreads keys over a hash table.
STEP = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
UNIT = 2.0**-53
FREE = -1


def sample_rows(csr: GapCSR, rows: Array, fanout: Fanout, seed: int, ranks: Ranks | None = None) -> tuple[Array, Array]:
    """Choose neighbours of each row.

    Parameters
    ----------
    csr : GapCSR
    rows : array, shape (B,), int64
        A row may be there several times; each time is chosen for by itself.
    fanout : Fanout
    seed : int
        Below 2^64; the result follows from it.
    ranks : Ranks, optional
        Wanted for ``fanout.largest``.

    Returns
    -------
    places, neighbours : arrays, shape (K,), int64
        For each chosen edge its row's place in ``rows``, ascending, and its neighbour.
    """
    ends, replace = np.empty(rows.shape[0], dtype=np.int64), fanout.replace and fanout.most >= 0
    total = k_count_choices(csr.offsets, csr.valid, rows, fanout.most, replace, ends)
    places, slots = np.empty(total, dtype=np.int64), np.empty(total, dtype=np.int64)
    if fanout.largest and fanout.most >= 0:
        assert ranks is not None
        k_choose_largest(csr.offsets, csr.valid, *ranks, rows, ends, places, slots)
    else:
        k_choose_any(csr.offsets, csr.valid, rows, ends, replace, np.uint64(seed), places, slots)
    return places, csr.indices[slots].astype(np.int64)


def number_nodes(backend: Backend, nodes: Array, keys: Array) -> tuple[Array, Array]:
    """Give each key its place in a list of nodes, to which unknown keys are appended in the order of their appearance.

    Parameters
    ----------
    backend : Backend
    nodes, keys : arrays, int64
        None negative. The first of equal nodes counts.

    Returns
    -------
    numbers : array, the shape of ``keys``, int64
    new : array, int64
        The first place in ``keys`` of each unknown key, ascending.
    """
    size = max(4, 2 * (nodes.shape[0] + keys.shape[0]))
    bits = int(size).bit_length()
    cells = np.full((1 << bits, 2), FREE, dtype=np.int64)
    numbers, new = np.empty(keys.shape[0], dtype=np.int64), np.empty(keys.shape[0], dtype=np.int64)
    count = k_number_keys(nodes, keys, cells, np.uint64(64 - bits), numbers, new)
    return numbers, new[:count]


@njit(inline="always")
def d_mix(state):
    """Return the random number of a state, uint64."""
    state = (state ^ (state >> np.uint64(30))) * FIRST
    state = (state ^ (state >> np.uint64(27))) * SECOND
    return state ^ (state >> np.uint64(31))


@njit(inline="always")
def d_below(state, limit):
    """Return a random integer from 0 to ``limit`` - 1."""
    return np.int64(np.float64(d_mix(state) >> np.uint64(11)) * UNIT * limit)


@njit(inline="always")
def d_count_bits(word):
    """Return the number of bits that are set in a uint32; Numba multiplies two of them to 64 bits."""
    word = word - ((word >> np.uint32(1)) & np.uint32(0x55555555))
    word = (word & np.uint32(0x33333333)) + ((word >> np.uint32(2)) & np.uint32(0x33333333))
    word = (word + (word >> np.uint32(4))) & np.uint32(0x0F0F0F0F)
    return np.int64(((word * np.uint32(0x01010101)) >> np.uint32(24)) & np.uint32(63))


@njit(borrows=True)
def d_count_edges(valid, begin, end):
    """Return the number of slots with an edge from ``begin`` to ``end`` - 1."""
    count = 0
    slot = begin
    while slot < end:
        word = valid[slot >> 5] >> np.uint32(slot & 31)
        length = min(32 - (slot & 31), end - slot)
        if length < 32:
            word &= (np.uint32(1) << np.uint32(length)) - np.uint32(1)
        count += d_count_bits(word)
        slot += length
    return count


@njit(cache=True, nogil=True)
def k_count_choices(offsets, valid, rows, most, replace, ends):
    """Write where each row's choices end, and return the last end."""
    total = 0
    for i in range(rows.shape[0]):
        degree = d_count_edges(valid, np.int64(offsets[rows[i]]), np.int64(offsets[rows[i] + 1]))
        if most < 0 or (degree < most and not replace):
            total += degree
        elif degree > 0:
            total += most
        ends[i] = total
    return total


@njit(cache=True, nogil=True)
def k_choose_any(offsets, valid, rows, ends, replace, seed, places, slots):
    """Choose slots of each row, all edges with the same probability; without ``replace`` all different."""
    first = 0
    for i in range(rows.shape[0]):
        begin, end = np.int64(offsets[rows[i]]), np.int64(offsets[rows[i] + 1])
        count = ends[i] - first
        # Each place has random numbers of its own, which depend on nothing but the seed and the place.
        state = d_mix(seed + STEP * np.uint64(i + 1))
        chosen = slots[first : first + count]
        if replace:
            d_draw(valid, begin, end, state, chosen)
        elif count > 0:
            degree = d_count_edges(valid, begin, end)
            # Few of many are drawn, and drawn again when they were there before; else each edge is looked at.
            if degree >= 2 * count and end - begin >= count * count:
                d_draw_different(valid, begin, end, state, chosen)
            else:
                d_select(valid, begin, degree, state, chosen)
        for j in range(first, first + count):
            places[j] = i
        first += count


@njit(borrows=True)
def d_draw(valid, begin, end, state, chosen):
    """Draw slots with an edge."""
    for j in range(chosen.shape[0]):
        slot = begin
        while True:
            state += STEP
            slot = begin + d_below(state, end - begin)
            if d_has_edge(valid, slot):
                break
        chosen[j] = slot


@njit(borrows=True)
def d_draw_different(valid, begin, end, state, chosen):
    """Draw slots with an edge, no slot twice."""
    for j in range(chosen.shape[0]):
        slot = begin
        while True:
            state += STEP
            slot = begin + d_below(state, end - begin)
            if d_has_edge(valid, slot):
                there = False
                for k in range(j):
                    there |= chosen[k] == slot
                if not there:
                    break
        chosen[j] = slot


@njit(borrows=True)
def d_select(valid, begin, degree, state, chosen):
    """Take each of ``degree`` edges with the probability that as many are chosen as are still wanted (Algorithm S).

    Knuth, The Art of Computer Programming 2, section 3.4.2.
    """
    slot, left, wanted = begin, degree, chosen.shape[0]
    while wanted > 0:
        if d_has_edge(valid, slot):
            state += STEP
            if d_below(state, left) < wanted:
                chosen[chosen.shape[0] - wanted] = slot
                wanted -= 1
            left -= 1
        slot += 1


@njit(cache=True, nogil=True)
def k_choose_largest(offsets, valid, values, records, rows, ends, places, slots):
    """Choose the slots of the highest rank of each row, of equal ones the first; they ascend."""
    first = 0
    for i in range(rows.shape[0]):
        count = ends[i] - first
        chosen = slots[first : first + count]
        held = 0
        for slot in range(np.int64(offsets[rows[i]]), np.int64(offsets[rows[i] + 1])):
            if count == 0 or not d_has_edge(valid, slot):
                continue
            if held < count:
                chosen[held] = slot
                held += 1
                if held == count:
                    for root in range(count // 2 - 1, -1, -1):
                        d_sift(values, records, chosen, root)
            elif d_rank(values, records, slot) > d_rank(values, records, chosen[0]):
                chosen[0] = slot
                d_sift(values, records, chosen, 0)
        chosen.sort()
        for j in range(first, first + count):
            places[j] = i
        first += count


@njit(inline="always")
def d_rank(values, records, slot):
    """Return the rank of the edge in a slot; see ``Ranks``."""
    return values[records[slot] if records.shape[0] > 0 else slot]


@njit(borrows=True)
def d_sift(values, records, chosen, root):
    """Move a heap's entry down to its place. On top is the lowest rank and, of equal ones, the last slot."""
    slot = chosen[root]
    while 2 * root + 1 < chosen.shape[0]:
        child = 2 * root + 1
        if child + 1 < chosen.shape[0] and d_goes_first(values, records, chosen[child + 1], chosen[child]):
            child += 1
        if not d_goes_first(values, records, chosen[child], slot):
            break
        chosen[root] = chosen[child]
        root = child
    chosen[root] = slot


@njit(inline="always")
def d_goes_first(values, records, one, other):
    """Whether slot ``one`` is given up before slot ``other``."""
    rank, another = d_rank(values, records, one), d_rank(values, records, other)
    return rank < another or (rank == another and one > other)


@njit(cache=True, nogil=True)
def k_number_keys(nodes, keys, cells, shift, numbers, new):
    """Look the keys up in a hash table of the nodes; see ``number_nodes``."""
    for i in range(nodes.shape[0]):
        d_find(cells, shift, nodes[i], i)
    count = 0
    for i in range(keys.shape[0]):
        numbers[i] = d_find(cells, shift, keys[i], nodes.shape[0] + count)
        if numbers[i] == nodes.shape[0] + count:
            new[count] = i
            count += 1
    return count


@njit(borrows=True)
def d_find(cells, shift, key, number):
    """Return a key's number; one that is not there gets ``number``."""
    cell = np.int64((np.uint64(key) * STEP) >> shift)
    while cells[cell, 0] != FREE:
        if cells[cell, 0] == key:
            return cells[cell, 1]
        cell = (cell + 1) & (cells.shape[0] - 1)
    cells[cell, 0], cells[cell, 1] = key, number
    return number
