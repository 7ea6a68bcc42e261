"""Writing planned updates of slab hash tables on CUDA."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.cuda.compiler import MAX_STRIDE_BLOCKS, THREADS, WARP, cuda, device, kernel
from dynstore.cuda.grid import d_sync_grid
from dynstore.cuda.warp import d_ballot, d_lane, d_shuffle
from dynstore.stores.slab_hash.cuda.plan import NOT_PLACED, SHORT_ROWS, SPILLED, d_edge
from dynstore.stores.slab_hash.cuda.probe import d_add_slab, d_append_key, d_find_bucket, d_flush_chain
from dynstore.stores.slab_hash.slabs import BUCKETS, DEGREE, END, FIRST, HEAD_WORDS, TOMBSTONE

if TYPE_CHECKING:
    from dynstore.stores.slab_hash.cuda.plan import Tasks
    from dynstore.stores.slab_hash.slabs import SlabTable
    from dynstore.typing import Array

__all__ = ["d_add_degree", "d_flush_rows", "d_list_emptied", "write_deletion", "write_insertion"]

# All warps together empty a row with more buckets than this.
LONG_ROW = 32


@device
def d_write_weight(slabs, words, keys, place, weight_words, weights, i):
    """Write row ``i``'s weight beside the key at a place."""
    at = place & (words - 1)
    to = place - at + keys + at * weight_words
    for k in range(weight_words):
        slabs[to + k] = weights[i * weight_words + k]


@device
def d_add_degree(heads, row, change, active):
    """Each active lane of the warp changes its row's degree by one, ``change``.

    Lanes with the first active lane's row share one atomic add; all others make one each. Return the degree before the
    lane's atomic add, and the number of lanes that it was for, 0 for a lane that made none.
    """
    lane, word = d_lane(), d_ballot(active)
    leader = cuda.ffs(word) - 1 if word != 0 else 0
    shared = d_shuffle(row, leader)
    same = d_ballot(active and row == shared)
    before, added = np.int64(0), np.int64(0)
    if active and (lane == leader or row != shared):
        added = np.int64(cuda.popc(same)) if lane == leader else np.int64(1)
        before = np.int64(cuda.atomic.add(heads, HEAD_WORDS * row + DEGREE, change * added))
    return before, added


@kernel
def k_insert_edges(
    slabs, heads, dirty, unused, state, words, keys, reuse, src, dst, places, listed, control, weight_words, weights
):  # fmt: skip
    """One thread owns one edge, then warps stride over the edges without a place.

    An absent edge is written to its chosen place; a present one gets its weight. An edge without a place belongs after
    the slab whose free places are all chosen, so these two kinds do not collide; its warp extends a full chain.
    """
    t, lane = np.int64(cuda.grid(1)), d_lane()
    num_spilled, warp, spilled = control[SPILLED], t >> 5, np.int64(0)
    if warp < num_spilled:
        spilled = listed[warp]  # loaded early
    row, placed = np.int64(0), False
    if t < places.shape[0]:
        row, key, i = d_edge(src, dst, t)
        place = places[t]
        placed = place <= NOT_PLACED
        if placed:
            place = NOT_PLACED - place
            slabs[place] = key
        if place >= 0 and (placed or weight_words > 0):
            dirty[row] = 1
            d_write_weight(slabs, words, keys, place, weight_words, weights, i)
    d_add_degree(heads, row, 1, placed)
    while warp < num_spilled:
        row, key, i = d_edge(src, dst, spilled & 0xFFFFFFFF)
        head, slab = HEAD_WORDS * row, spilled >> 32
        if lane == 0:
            if slab != END:
                slab = d_add_slab(slabs, slab * words + words - 1, unused, state)
            else:
                # For a row that has just got its only base slab, the read may still return 0 buckets.
                buckets = np.int64(heads[head + BUCKETS])
                slab = d_add_slab(heads, head + FIRST, unused, state)
                if buckets == 0:
                    heads[head + BUCKETS] = 1
                slab += d_find_bucket(key, buckets)
        place = d_append_key(slabs, unused, state, words, keys, reuse, d_shuffle(slab, 0), key)
        if lane == 0:
            dirty[row] = 1
            cuda.atomic.add(heads, head + DEGREE, 1)
            d_write_weight(slabs, words, keys, place, weight_words, weights, i)
        warp += np.int64(cuda.gridsize(1)) >> 5
        if warp < num_spilled:
            spilled = listed[warp]


@device
def d_list_emptied(heads, row, is_empty, emptied, control):
    """List a row that has lost its last edge (atomic): short rows from the front, long ones from the back."""
    if is_empty:
        if heads[HEAD_WORDS * row + BUCKETS] > LONG_ROW:
            emptied[emptied.shape[0] - 1 - cuda.atomic.add(control, SHORT_ROWS + 1, 1)] = row
        else:
            emptied[cuda.atomic.add(control, SHORT_ROWS, 1)] = row


@device
def d_flush_rows(slabs, heads, unused, state, words, emptied, control):
    """Warps stride over short empty rows, then over the chains of each long one; base slabs stay."""
    first, step = np.int64(cuda.grid(1)) >> 5, np.int64(cuda.gridsize(1)) >> 5
    r = first
    while r < control[SHORT_ROWS]:
        head = HEAD_WORDS * emptied[r]
        for bucket in range(heads[head + BUCKETS]):
            d_flush_chain(slabs, unused, state, words, np.int64(heads[head + FIRST]) + bucket, 1)
        r += step
    for k in range(control[SHORT_ROWS + 1]):
        head = HEAD_WORDS * emptied[emptied.shape[0] - 1 - k]
        chain = first
        while chain < heads[head + BUCKETS]:
            d_flush_chain(slabs, unused, state, words, np.int64(heads[head + FIRST]) + chain, 1)
            chain += step


@kernel
def k_delete_edges(slabs, heads, dirty, unused, state, words, src, dst, places, emptied, control):
    """Warps stride over the edges: each is replaced by a tombstone.

    Rows that lose their last edge are listed (atomic), and emptied after all blocks are done with the edges.
    """
    lane = d_lane()
    for base in range(cuda.grid(1) - lane, places.shape[0], cuda.gridsize(1)):
        t, row, there = np.int64(base + lane), np.int64(0), False
        if t < places.shape[0]:
            row, _, _ = d_edge(src, dst, t)
            there = places[t] >= 0
            if there:
                slabs[places[t]] = TOMBSTONE
                dirty[row] = 1
        before, gone = d_add_degree(heads, row, -1, there)
        d_list_emptied(heads, row, gone > 0 and before == gone, emptied, control)
    d_sync_grid(control, 1)
    d_flush_rows(slabs, heads, unused, state, words, emptied, control)


def write_insertion(table: SlabTable, tasks: Tasks, places: Array, reuse: bool, weights: Array) -> None:
    """Launch the writing of an insertion: a thread for each edge; for few edges a warp, as all may lack a place."""
    count = int(places.shape[0])
    k_insert_edges.launch(
        max(count, min(WARP * int(tasks.src.shape[0]), MAX_STRIDE_BLOCKS * THREADS)), table.slabs, table.heads,
        table.dirty, table.unused, table.state, table.words, table.keys, int(reuse), tasks.src, tasks.dst, places,
        tasks.listed, tasks.control, table.weight_words, weights,
    )  # fmt: skip


def write_deletion(table: SlabTable, tasks: Tasks) -> None:
    """Launch the writing of a deletion."""
    k_delete_edges.launch_resident(
        int(tasks.places.shape[0]), table.slabs, table.heads, table.dirty, table.unused, table.state, table.words,
        tasks.src, tasks.dst, tasks.places, tasks.listed, tasks.control,
    )  # fmt: skip
