"""Lists of rows that a resident kernel makes and reads, round after round, without the host.

A listed row is cut into *parts* of at most ``PART_SLOTS`` slots. A warp takes a part, so no warp waits for a long row.
Rows may be of two orientations at once; a part of a row of the second one has the complement of the row's number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.algorithms.rows.cuda.common import d_has_bit
from dynstore.cuda.block import d_claim_many
from dynstore.cuda.compiler import SIMULATED, WARP, cuda, device

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = [
    "ROUND_THREADS",
    "Parts",
    "RowArrays",
    "Side",
    "Sides",
    "count_parts",
    "d_open_part",
    "d_push_rows",
    "d_read_edge",
    "d_warps",
]

PART_BITS = 6 if SIMULATED else 8
PART_SLOTS = 1 << PART_BITS
# Threads of a kernel of many rounds: each round waits for all of them, and few rows are listed.
ROUND_THREADS = 2 * WARP if SIMULATED else 132 * 16 * WARP


class Side(NamedTuple):
    """The rows of one orientation; the edge in slot ``p`` is ``lengths[p * stride]`` long."""

    offsets: Array
    indices: Array
    valid: Array
    lengths: Array
    stride: Any


class Sides(NamedTuple):
    """The rows to visit: those of ``first`` and, if ``both``, those of ``second``."""

    first: Side
    second: Side
    both: Any


class RowArrays(NamedTuple):
    """The arrays of both orientations, as kernels take them, which make a :class:`Side` of each."""

    in_offsets: Array
    in_indices: Array
    in_valid: Array
    in_lengths: Array
    out_offsets: Array
    out_indices: Array
    out_valid: Array
    out_lengths: Array
    stride: Any
    both_ways: Any


class Parts(NamedTuple):
    """Several lists of parts, each of ``capacity``: rows and first slots; their lengths are words of ``control``."""

    rows: Array
    begins: Array
    capacity: Any
    control: Array


def count_parts(csr: GapCSR) -> int:
    """Return how many parts a list of distinct rows has at most."""
    return csr.num_vertices + csr.num_slots // PART_SLOTS


@device
def d_warps():
    """Return the number of this warp and of all warps of the grid."""
    return int(cuda.grid(1)) >> 5, int(cuda.gridsize(1)) >> 5


@device
def d_push_rows(sides, parts, which, word, row, wanted):
    """Append the rows of lanes with ``wanted`` to list number ``which``, whose length is ``control[word]``.

    All 32 lanes call; one atomic add a warp.
    """
    begin, end, other_begin, other_end = 0, 0, 0, 0
    if wanted:
        begin, end = int(sides.first.offsets[row]), int(sides.first.offsets[row + 1])
        if sides.both:
            other_begin, other_end = int(sides.second.offsets[row]), int(sides.second.offsets[row + 1])
    own = (end - begin + PART_SLOTS - 1) >> PART_BITS
    others = (other_end - other_begin + PART_SLOTS - 1) >> PART_BITS
    place = which * parts.capacity + d_claim_many(parts.control, word, np.int64(own + others))
    for k in range(own):
        parts.rows[place + k] = row
        parts.begins[place + k] = begin + k * PART_SLOTS
    for k in range(others):
        parts.rows[place + own + k] = ~row
        parts.begins[place + own + k] = other_begin + k * PART_SLOTS


@device
def d_open_part(sides, parts, which, item):
    """Return a part's row, its first slot, the end of its slots, and whether it is of the second orientation."""
    row, begin = int(parts.rows[which * parts.capacity + item]), int(parts.begins[which * parts.capacity + item])
    other = row < 0
    row = ~row if other else row
    last = int(sides.second.offsets[row + 1]) if other else int(sides.first.offsets[row + 1])
    return row, begin, min(begin + PART_SLOTS, last), other


@device
def d_read_edge(sides, other, slot, end):
    """Return the neighbour in a slot, the edge's length, and whether there is an edge; past ``end`` there is none."""
    side = sides.first
    if other:
        side = sides.second
    live = slot < end
    there = slot if live else end - 1
    return int(side.indices[there]), side.lengths[there * side.stride], live and d_has_bit(side.valid, there)
