"""Finding, changing and reading single edges of a leveled packed memory array on CUDA."""

from __future__ import annotations

import numpy as np

from dynstore.cuda.compiler import cuda, kernel
from dynstore.cuda.warp import d_lane
from dynstore.stores.lpma.cuda.layout import (
    SearchedLevels,
    d_base_of,
    d_find_key,
    d_in_order_slot,
    d_physical_of,
    d_word_of,
)
from dynstore.stores.lpma.levels import DST, FIRST_DST, FIRST_SRC, SRC, STAMP, VALID, WEIGHT
from dynstore.stores.table.slots import PRESENT

__all__ = [
    "k_clear_keys",
    "k_clear_positions",
    "k_copy_changed",
    "k_look_up",
    "k_read_row",
    "k_set_weights",
    "k_write_offsets",
]


@kernel
def k_look_up(ids, words, weights, table, depth, starts, weighted, edge_src, edge_dst, positions, there, found):
    """One thread owns one edge: write its slot in order, whether it is there, and its weight, 0 if absent."""
    i = cuda.grid(1)
    if i < edge_src.shape[0]:
        levels = SearchedLevels(ids, words, table, depth, starts)
        place, present = d_find_key(levels, np.int64(edge_src[i]), edge_dst[i])
        positions[i] = place
        there[i] = present
        if weighted:
            weight = found.dtype.type(0)
            if present:
                p = d_physical_of(place >> 5, depth)
                weight = weights[d_base_of(table, WEIGHT, p) + p * 32 + (place & 31)]
            found[i] = weight


@kernel
def k_set_weights(words, weights, table, depth, positions, states, new_weights, add, stamp):
    """One thread owns one key: write the weight of a present one."""
    i = cuda.grid(1)
    if i < positions.shape[0] and states[i] == PRESENT:
        p = d_physical_of(positions[i] >> 5, depth)
        item = d_base_of(table, WEIGHT, p) + p * 32 + (positions[i] & 31)
        if add:
            weights[item] += new_weights[i]
        else:
            weights[item] = new_weights[i]
        words[d_base_of(table, STAMP, p) + p] = stamp


@kernel
def k_clear_keys(ids, words, table, depth, starts, edge_src, edge_dst, stamp):
    """One thread owns one edge: if it is there, clear its bit (atomic and)."""
    i = cuda.grid(1)
    if i < edge_src.shape[0]:
        levels = SearchedLevels(ids, words, table, depth, starts)
        place, present = d_find_key(levels, np.int64(edge_src[i]), edge_dst[i])
        if present:
            p = d_physical_of(place >> 5, depth)
            cuda.atomic.and_(words, d_base_of(table, VALID, p) + p, ~(np.uint32(1) << np.uint32(place & 31)))
            words[d_base_of(table, STAMP, p) + p] = stamp


@kernel
def k_clear_positions(words, table, depth, positions, states, stamp):
    """One thread owns one key: clear the bit of a present one (atomic and)."""
    i = cuda.grid(1)
    if i < positions.shape[0] and states[i] == PRESENT:
        p = d_physical_of(positions[i] >> 5, depth)
        cuda.atomic.and_(words, d_base_of(table, VALID, p) + p, ~(np.uint32(1) << np.uint32(positions[i] & 31)))
        words[d_base_of(table, STAMP, p) + p] = stamp


@kernel
def k_read_row(ids, words, table, depth, begin, end, out, there):
    """One warp owns one segment of the slots [begin, end) in order: write destinations, and which hold an edge."""
    lane = d_lane()
    segment = (begin >> 5) + (cuda.grid(1) >> 5)
    slot = segment * 32 + lane
    if begin <= slot and slot < end:
        p = d_physical_of(segment, depth)
        present = (d_word_of(words, table, p) >> np.uint32(lane)) & np.uint32(1) != 0
        there[slot - begin] = present
        if present:
            out[slot - begin] = ids[d_base_of(table, DST, p) + p * 32 + lane]


@kernel
def k_copy_changed(ids, words, weights, table, depth, weighted, since, src, dst, out_weights, valid):
    """Warps stride over the segments in order; copy those that changed after ``since`` (-1: all) to their places."""
    lane = d_lane()
    segment = np.int64(cuda.grid(1) >> 5)
    while segment < np.int64(1) << depth:
        p = d_physical_of(segment, depth)
        if np.int64(words[d_base_of(table, STAMP, p) + p]) > since:
            slot, source = segment * 32 + lane, np.int64(ids[d_base_of(table, FIRST_SRC, p) + p])
            if source >= 0:
                src[slot] = ids[d_base_of(table, SRC, p) + p * 32 + lane]
                dst[slot] = ids[d_base_of(table, DST, p) + p * 32 + lane]
                if weighted:
                    out_weights[slot] = weights[d_base_of(table, WEIGHT, p) + p * 32 + lane]
            else:  # never written: all slots show its first key
                src[slot] = -1 - source
                dst[slot] = ids[d_base_of(table, FIRST_DST, p) + p]
                if weighted:
                    out_weights[slot] = 0
            if lane == 0:
                valid[segment] = d_word_of(words, table, p)
        segment += cuda.gridsize(1) >> 5


@kernel
def k_write_offsets(starts, depth, offsets):
    """One thread owns one row: write its first slot in order."""
    row = cuda.grid(1)
    if row < offsets.shape[0]:
        offsets[row] = d_in_order_slot(starts[row], depth)
