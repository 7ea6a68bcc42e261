"""Squeezing the gaps out of a CSR on the GPU, and measuring the order of its rows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.adapters.cugraph.row_order import MEDIUM, WIDE, LongRows
from dynstore.cuda.block import BOARD, d_scan_tile
from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.cuda.grid import (
    CONTROL_SIZE,
    d_chunk,
    d_leave_greatest,
    d_leave_sum,
    d_sum_blocks_before,
    d_sync_grid,
    read_totals,
)
from dynstore.cuda.warp import d_count_lower, d_lane, d_shuffle

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["NeighborArrays", "Words", "squeeze"]

LEAF = 32
# Four blocks fit on a multiprocessor: the number of reads in flight limits the kernel.
MAX_REGISTERS = 64
# The kernel's totals: the edges, then the fields of LongRows in order.
EDGES, WIDE_ROWS, MEDIUM_ROWS, WIDE_END, MEDIUM_END, WIDE_EDGES, TOTALS_END = range(7)


class Words(NamedTuple):
    """Words of validity bits.

    Attributes
    ----------
    bits : array, uint32
    number : int
        How many words there are; the array may be longer.
    before : array, shape (number + 1,)
        The number of edges before each word.
    """

    bits: Array
    number: Any
    before: Array


class NeighborArrays(NamedTuple):
    """Neighbours and weights, in slots or packed; ``weights`` has no entries for an unweighted graph."""

    indices: Array
    weights: Array


@device
def d_count_words(words, control, board):
    """Add up the number of edges in the block's share of words."""
    first, end = d_chunk(words.number)
    total = np.int64(0)
    for i in range(first + cuda.threadIdx.x, end, cuda.blockDim.x):
        total += cuda.popc(words.bits[i])
    d_leave_sum(control, EDGES, total, board)


@device
def d_place_edge(own, start, step):
    """Return the place of the edge in this lane's slot of a word, -1 for a gap; lane ``step`` has word and start."""
    word, before = np.uint32(d_shuffle(np.int32(own), step)), d_shuffle(start, step)
    there = (word >> np.uint32(d_lane())) & np.uint32(1) != 0
    return np.int32(before + np.int32(d_count_lower(word, d_lane()))) if there else np.int32(-1)


@device
def d_read_ahead(values, slot, last, step):
    """Return a lane's value of the word ``step`` words behind the first; past the last slot, that slot's value."""
    return values[slot + min(np.int32(step * LEAF + np.int32(d_lane())), last)]


@device
def d_write_edge(packed, value, rank, place):
    """Write a lane's value to its place behind ``rank``, if it has one."""
    if place >= 0:
        packed[rank + place] = value


@device
def d_move_eight(values, packed, slot, last, own, rank, start, step):
    """Copy a lane's values of eight neighbouring words; all reads are issued before the first write."""
    value0, value1 = d_read_ahead(values, slot, last, step), d_read_ahead(values, slot, last, step + 1)
    value2, value3 = d_read_ahead(values, slot, last, step + 2), d_read_ahead(values, slot, last, step + 3)
    value4, value5 = d_read_ahead(values, slot, last, step + 4), d_read_ahead(values, slot, last, step + 5)
    value6, value7 = d_read_ahead(values, slot, last, step + 6), d_read_ahead(values, slot, last, step + 7)
    d_write_edge(packed, value0, rank, d_place_edge(own, start, step))
    d_write_edge(packed, value1, rank, d_place_edge(own, start, step + 1))
    d_write_edge(packed, value2, rank, d_place_edge(own, start, step + 2))
    d_write_edge(packed, value3, rank, d_place_edge(own, start, step + 3))
    d_write_edge(packed, value4, rank, d_place_edge(own, start, step + 4))
    d_write_edge(packed, value5, rank, d_place_edge(own, start, step + 5))
    d_write_edge(packed, value6, rank, d_place_edge(own, start, step + 6))
    d_write_edge(packed, value7, rank, d_place_edge(own, start, step + 7))


@device
def d_squeeze_words(words, slots, packed, weighted, control, board):
    """A thread finds the rank of a word; then its warp writes the edges of 32 words, a word at a time, a lane a slot.

    The counts before each word are written, too. Places are int32 within the tile, for fewer instructions.
    """
    lane, rank, last_slot = d_lane(), d_sum_blocks_before(control, EDGES, board), np.int64(slots.indices.shape[0]) - 1
    base, end = d_chunk(words.number)
    while base < end:
        i = base + cuda.threadIdx.x
        own = words.bits[i] if i < end else np.uint32(0)
        count = np.int32(cuda.popc(own))
        offset, total = d_scan_tile(count, board)
        if i < end:
            words.before[i] = rank + offset
            if i + 1 == words.number:
                words.before[words.number] = rank + offset + count
        start, slot = np.int32(offset), min((i - lane) * LEAF, last_slot)
        last = np.int32(min(last_slot - slot, np.int64(LEAF * LEAF - 1)))
        for step in range(np.int32(0), np.int32(LEAF), np.int32(8)):
            d_move_eight(slots.indices, packed.indices, slot, last, own, rank, start, step)
            if weighted:
                d_move_eight(slots.weights, packed.weights, slot, last, own, rank, start, step)
        rank += total
        base += cuda.blockDim.x


@device
def d_rank_slot(words, slot):
    """Return the number of edges before a slot, which may be the end of the array."""
    rank = np.int64(words.before[slot >> 5])
    if slot >> 5 < words.number:
        rank += d_count_lower(words.bits[slot >> 5], slot & 31)
    return rank


@device
def d_pack_offsets(offsets, words, packed, control, board):
    """Write the number of edges before each row; measure the rows for a block and for a warp (:class:`LongRows`)."""
    first, end = d_chunk(np.int64(offsets.shape[0]))
    wide, medium, wide_edges = np.int64(0), np.int64(0), np.int64(0)
    wide_end, medium_end = np.int64(0), np.int64(0)
    for i in range(first + cuda.threadIdx.x, end, cuda.blockDim.x):
        rank = d_rank_slot(words, np.int64(offsets[i]))
        packed[i] = rank
        if i + 1 < offsets.shape[0]:
            degree = d_rank_slot(words, np.int64(offsets[i + 1])) - rank
            if degree >= MEDIUM:
                medium += 1
                medium_end = np.int64(i + 1)
                if degree >= WIDE:
                    wide += 1
                    wide_end = np.int64(i + 1)
                    wide_edges += degree
    d_leave_sum(control, WIDE_ROWS, wide, board)
    d_leave_sum(control, MEDIUM_ROWS, medium, board)
    d_leave_sum(control, WIDE_EDGES, wide_edges, board)
    d_leave_greatest(control, WIDE_END, wide_end)
    d_leave_greatest(control, MEDIUM_END, medium_end)


@partial(kernel, max_registers=MAX_REGISTERS)
def k_squeeze_rows(
    offsets, valid, num_words, indices, weights, weighted, before, packed, packed_indices, packed_weights, control
):
    """Count the edges, move them, pack the offsets and measure the rows; a grid-wide wait between the phases."""
    board = cuda.shared.array(BOARD, np.int64)
    words, slots = Words(valid, num_words, before), NeighborArrays(indices, weights)
    d_count_words(words, control, board)
    d_sync_grid(control, 1)
    d_squeeze_words(words, slots, NeighborArrays(packed_indices, packed_weights), weighted, control, board)
    d_sync_grid(control, 2)
    d_pack_offsets(offsets, words, packed, control, board)


def squeeze(csr: GapCSR) -> tuple[Array, Array, Array | None, LongRows]:
    """Pack the rows of a gap-aware CSR in one pass over its slots.

    Returns
    -------
    offsets : array, shape (V + 1,), vertex dtype
    indices : array, shape (E,), vertex dtype
    weights : array, shape (E,), or None
        New arrays: no update changes them.
    rows : LongRows
    """
    backend, num_words = csr.backend, -(-csr.num_slots // LEAF)
    offsets = backend.empty(csr.offsets.shape[0], csr.offsets.dtype)
    indices = backend.empty_in(csr.memory, csr.num_edges, csr.indices.dtype)
    weights = None if csr.weights is None else backend.empty_in(csr.memory, csr.num_edges, csr.weights.dtype)
    control, before = backend.empty_arena((CONTROL_SIZE, np.int64), (num_words + 1, csr.offsets.dtype), zeroed=1)
    k_squeeze_rows.launch_resident(
        max(num_words, offsets.shape[0]),
        csr.offsets,
        csr.valid,
        num_words,
        csr.indices,
        csr.indices[:0] if csr.weights is None else csr.weights,
        csr.weights is not None,
        before,
        offsets,
        indices,
        indices[:0] if weights is None else weights,
        control,
    )
    return offsets, indices, weights, LongRows(*read_totals(backend, control)[WIDE_ROWS:TOTALS_END])
