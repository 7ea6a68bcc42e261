"""Squeezing the gaps out of a CSR on the GPU, and measuring in which order its rows are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore._cuda.compiler import cuda, device, kernel
from dynstore._cuda.tiles import BOARD, d_scan_block, d_sum_block, d_sum_tiles_before, d_tally, make_tallies
from dynstore._cuda.warp import d_ballot, d_lane, d_shuffle, d_sum_lanes
from dynstore.adapters.row_order import MEDIUM, SLACK_ROWS, SLACK_SHARE, WIDE, LongRows

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["squeeze"]

LEAF = 32


@device
def d_count_below(word, lane):
    """Return how many bits of a word are set below bit ``lane``."""
    return np.int64(cuda.popc(word & ((np.uint32(1) << np.uint32(lane)) - np.uint32(1))))


@kernel
def k_tally_words(words, num_words, tallies):
    """One thread owns one word of 32 validity bits; a block counts its edges."""
    board = cuda.shared.array(BOARD, np.int64)
    i = cuda.grid(1)
    total = d_sum_block(np.int64(cuda.popc(words[i])) if i < num_words else np.int64(0), board)
    if cuda.threadIdx.x == 0:
        d_tally(tallies, 0, total)


@kernel
def k_squeeze_words(words, num_words, tallies, indices, weights, weighted, before, packed_indices, packed_weights):
    """One thread owns one word and finds its rank; then a warp writes its 32 words' edges, a word at a time.

    ``before[i]``: the edges before word ``i``. A lane owns a slot; a word's edges go to neighbouring places.
    """
    board = cuda.shared.array(BOARD, np.int64)
    i, lane = np.int64(cuda.grid(1)), d_lane()
    own = words[i] if i < num_words else np.uint32(0)
    count = np.int64(cuda.popc(own))
    rank = d_sum_tiles_before(tallies, 0, board) + d_scan_block(count, board)
    if i < num_words:
        before[i] = rank
        if i + 1 == num_words:
            before[num_words] = rank + count
    first = (i - lane) * LEAF
    for step in range(LEAF):
        word, start = np.uint32(d_shuffle(np.int64(own), step)), d_shuffle(rank, step)
        if (word >> np.uint32(lane)) & np.uint32(1) != 0:
            slot, place = first + step * LEAF + lane, start + d_count_below(word, lane)
            packed_indices[place] = indices[slot]
            if weighted:
                packed_weights[place] = weights[slot]


@kernel
def k_pack_offsets(offsets, words, num_words, before, packed):
    """One thread owns one row's start: the edges before it."""
    i = cuda.grid(1)
    if i < offsets.shape[0]:
        slot = np.int64(offsets[i])
        rank = np.int64(before[slot >> 5])
        if slot >> 5 < num_words:
            rank += d_count_below(words[slot >> 5], slot & 31)
        packed[i] = rank


@device
def d_end_of(count, num_rows):
    """Return where the segment ends that so many rows should be in; see ``row_order.segment_end``."""
    return min(count + count // SLACK_SHARE + SLACK_ROWS, num_rows) if count > 0 else np.int64(0)


@kernel
def k_count_long_rows(packed, record):
    """One thread owns one row; rows for a block and for a warp are counted (atomic adds of warps that have any)."""
    i, num_rows = cuda.grid(1), packed.shape[0] - 1
    degree = np.int64(packed[i + 1]) - np.int64(packed[i]) if i < num_rows else np.int64(0)
    wide, medium = d_ballot(degree >= WIDE), d_ballot(degree >= MEDIUM)
    if d_lane() == 0 and medium != 0:
        cuda.atomic.add(record, 0, np.int64(cuda.popc(wide)))
        cuda.atomic.add(record, 1, np.int64(cuda.popc(medium)))


@kernel
def k_measure_segments(packed, record):
    """One thread owns one row: which of the long rows counted stand before the ends of their segments (atomic add)."""
    i, num_rows = cuda.grid(1), np.int64(packed.shape[0] - 1)
    degree = np.int64(packed[i + 1]) - np.int64(packed[i]) if i < num_rows else np.int64(0)
    wide_end = d_end_of(record[0], num_rows)
    if d_ballot(degree >= MEDIUM) != 0:
        held_wide = d_ballot(degree >= WIDE and i < wide_end)
        held_medium = d_ballot(degree >= MEDIUM and i < d_end_of(record[1], num_rows))
        edges = d_sum_lanes(degree if degree >= WIDE else np.int64(0))
        stray = d_sum_lanes(degree if degree >= WIDE and i >= wide_end else np.int64(0))
        if d_lane() == 0:
            cuda.atomic.add(record, 2, np.int64(cuda.popc(held_wide)))
            cuda.atomic.add(record, 3, np.int64(cuda.popc(held_medium)))
            cuda.atomic.add(record, 4, edges)
            cuda.atomic.add(record, 5, stray)


def squeeze(csr: GapCSR) -> tuple[Array, Array, Array | None, LongRows]:
    """Pack the rows of a gap-aware CSR in one pass over its slots.

    Returns
    -------
    offsets : array, shape (V + 1,), vertex dtype
    indices : array, shape (E,), vertex dtype
    weights : array, shape (E,), or None
        Arrays of their own: no update changes them.
    rows : LongRows
    """
    backend, num_words = csr.backend, -(-csr.num_slots // LEAF)
    offsets = backend.empty(csr.offsets.shape[0], csr.offsets.dtype)
    indices = backend.empty(csr.num_edges, csr.indices.dtype)
    weights = None if csr.weights is None else backend.empty(csr.num_edges, csr.weights.dtype)
    before, tallies = backend.empty(num_words + 1, csr.offsets.dtype), make_tallies(backend, num_words)
    k_tally_words.launch(num_words, csr.valid, num_words, tallies)
    k_squeeze_words.launch(
        num_words,
        csr.valid,
        num_words,
        tallies,
        csr.indices,
        csr.indices[:0] if csr.weights is None else csr.weights,
        csr.weights is not None,
        before,
        indices,
        indices[:0] if weights is None else weights,
    )
    k_pack_offsets.launch(offsets.shape[0], csr.offsets, csr.valid, num_words, before, offsets)
    return offsets, indices, weights, _measure_rows(backend, offsets)


def _measure_rows(backend: Backend, offsets: Array) -> LongRows:
    record = backend.zeros(6, np.int64)
    k_count_long_rows.launch(offsets.shape[0] - 1, offsets, record)
    k_measure_segments.launch(offsets.shape[0] - 1, offsets, record)
    return LongRows(*backend.to_host(record).tolist())
