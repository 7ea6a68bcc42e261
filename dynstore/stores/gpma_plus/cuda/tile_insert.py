"""Inserting a large batch tile by tile, in a block's shared memory: keys are found, sorted, and shifted into leaves.

Keys for which a leaf has no room go to its bucket, as in ``bucket_fill.py``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dynstore.cuda.block import d_claim
from dynstore.cuda.compiler import THREADS, WARP, cuda, device, kernel
from dynstore.cuda.grid import TOTALS, d_reset_when_last
from dynstore.cuda.memory import COPY_ALIGNMENT, d_await_copies
from dynstore.cuda.warp import d_ballot, d_count_lower, d_lane, d_scan_lanes, d_shuffle
from dynstore.stores.gpma_plus.cuda.bucket_layout import (
    ADDED,
    CLIMBING,
    COUNT,
    FOUND,
    FOUND_LOOPS,
    FULL,
    HEAD,
    HIGH,
    INVALID_ID,
    KEY_LEAVES,
    LISTED,
    LOW,
    MOVED,
    NARROW_WINDOWS,
    OTHER_LOOPS,
    OVERFLOW,
    PLACES,
    POSITIONS,
    POST_ARRIVALS,
    RESTORED,
    ROWS,
    SOURCES,
    STOPPED,
    TARGETS,
)
from dynstore.stores.gpma_plus.cuda.tile_keys import (
    NO_KEY,
    d_leaf_of,
    d_make_note,
    d_rank_of,
    d_slot_of,
    d_sort_in_leaves,
    d_with_rank,
)
from dynstore.stores.gpma_plus.cuda.tile_shift import d_shift_leaf, d_stays_in_row
from dynstore.stores.pma.cuda.leaf_insert import d_write_leaf_rows
from dynstore.stores.pma.cuda.partition import INVALID_ID_ROWS
from dynstore.stores.pma.cuda.records import Slots
from dynstore.stores.pma.cuda.row_offsets import d_write_far_rows
from dynstore.stores.pma.cuda.tiles import (
    HELD,
    MARKED,
    MAX_ABSENT,
    TILE_LEAVES,
    TileRows,
    d_claim_tile,
    d_find_in_tile,
    d_first_leaf,
    d_first_slot,
    d_hold_tile,
    d_hold_words,
    d_is_of_tile,
    d_mark_marks,
    d_next_tile,
    d_read_bounds,
    d_rows_of_tile,
)
from dynstore.stores.table.slots import ABSENT, PRESENT, TOMBSTONE

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = ["Buckets", "InsertTile", "k_list_pieces"]

# Counts of a tile: rows whose edges are absent; leaves with buckets; those of them that may be full; places for keys;
# leaves that get their keys at once.
ABSENT_ROWS, LEAVES, FULL_LEAVES, PLACED, SHIFTED = range(5)
COUNTS = 5
# Words with a bit a leaf.
LEAF_WORDS = THREADS // WARP
# A block claims places in lists that all blocks share, in the order of its counts: for leaves, full leaves, keys.
CLAIMS = 3
# The place of a leaf that is not full.
NOWHERE = np.int32(-1)
# The entry of ``far_rows`` that counts the tiles which blocks have claimed.
CLAIMED = 13
# Five blocks fit into a multiprocessor's shared memory, and then into its registers.
MAX_REGISTERS = 48


class InsertTile(NamedTuple):
    """What a block works in, all of it shared memory: a record of the kernel's arrays, as device functions take it.

    Attributes
    ----------
    held, words, marked : array
        Destinations, validity bits, and a bit for each slot that a row has claimed.
    keys, noted, by_leaf : array
        Absent keys, what is noted of each (``tile_keys.py``), and their numbers in the order of the leaves.
    rows_of_leaf, firsts, crosses, to_shift, shifted : array
        Of each leaf: its keys, where they begin, whether one would move edges of other rows; then the leaves to be
        shifted, and a bit for each.
    counts, claims, sums, has_repeated : array
    """

    held: Array
    words: Array
    marked: Array
    keys: Array
    noted: Array
    by_leaf: Array
    rows_of_leaf: Array
    firsts: Array
    crosses: Array
    to_shift: Array
    shifted: Array
    counts: Array
    claims: Array
    sums: Array
    has_repeated: Array


class Buckets(NamedTuple):
    """What all blocks share of an insertion's scratch; see ``bucket_layout.py``."""

    lists: Array
    table: Array
    states: Array
    pairs: Array
    control: Array


@device
def d_clear_counts(work):
    """Reset the counts for a tile."""
    thread = np.uint32(cuda.threadIdx.x)
    if thread < TILE_LEAVES:
        work.rows_of_leaf[thread], work.crosses[thread] = 0, 0
    if thread == 0:
        work.has_repeated[0] = 0
    if thread < COUNTS:
        work.counts[thread] = 0


@device
def d_mark_found(words, marked, at, is_there):
    """Claim the slot of a present edge or tombstone: set its bit in ``marked``, shared (atomic or).

    Returns its state; ABSENT if the edge is absent or another row of the tile has claimed it.
    """
    state, word = ABSENT, np.uint32(at >> np.uint32(5))
    if is_there:
        bit = np.uint32(1) << np.uint32(at & np.uint32(31))
        if np.uint32(cuda.atomic.or_(marked, word, bit)) & bit == 0:
            state = PRESENT if words[word] & bit != 0 else TOMBSTONE
    return state


@device
def d_find_rows(rows, j, end, bounds, tile, work, buckets, writes):
    """Threads stride over the rows among which a tile's are: claim edges that are there, note the keys of absent ones.

    If the tile ``writes``, positions are not written. A leaf ``crosses`` if a key would move edges of other rows.

    ``bounds``: what ``d_read_bounds`` returns for the thread's first row. ``sums``, shared: the block's part of the
    totals.
    """
    pair, low, high = bounds
    first_slot = d_first_slot(tile)
    while j < end:
        row, column = np.int32(pair >> 32), np.int32(pair)
        if row < 0 or column < 0:
            buckets.control[STOPPED] = INVALID_ID
        elif d_is_of_tile(rows.offsets, rows.dst, row, column, tile, rows.shift):
            at, is_there = d_find_in_tile(work.held, low, high, column, tile)
            state = d_mark_found(work.words, work.marked, at, is_there)
            buckets.states[j] = state
            if not writes:
                buckets.table[POSITIONS, j] = np.int32(first_slot + at)
            if state != ABSENT:
                cuda.atomic.add(work.sums, FOUND if state == PRESENT else RESTORED, np.int32(1))
                if row == column:
                    cuda.atomic.add(work.sums, FOUND_LOOPS if state == PRESENT else OTHER_LOOPS, np.int32(1))
            if not is_there:
                k = np.uint32(cuda.atomic.add(work.counts, ABSENT_ROWS, np.int32(1)))
                if k < MAX_ABSENT:
                    behind = np.uint32(np.uint32(first_slot + at) - low)
                    note = d_make_note(at, behind, np.uint32(high - first_slot) - at)
                    leaf = d_leaf_of(note)
                    before = cuda.atomic.add(work.rows_of_leaf, leaf, np.uint32(1))
                    work.keys[k], work.noted[k] = pair, d_with_rank(note, np.int32(before))
                    if not d_stays_in_row(note, leaf, work.words[leaf]):
                        work.crosses[leaf] = 1
                else:
                    buckets.control[STOPPED] = OVERFLOW
        j = np.uint32(j + np.uint32(THREADS))
        if j < end:
            pair, low, high = d_read_bounds(rows.offsets, rows.ordered, j)


@device
def d_place_leaves(work, tile, num_leaves, most, writes, control):
    """A thread owns a leaf: places its keys side by side, and the leaf among those with buckets and the full ones.

    Elements include the edges that rows of the tile have claimed. A row of the previous tile may have claimed the first
    slot of the first leaf: if that slot is no edge, it counts as one, and the leaf gets a bucket. Repeated keys count,
    too. A leaf is full if it would have more than ``most`` elements. If the tile ``writes``, leaves that are not full
    and do not cross (``crosses``) get their keys now: they are in ``to_shift``, their bits in ``shifted``. Returns the
    two places, NOWHERE for none.
    """
    thread, lane = np.uint32(cuda.threadIdx.x), np.int32(d_lane())
    leaf, rows, word, may_shift = np.uint32(d_first_leaf(tile) + thread), np.int32(0), np.uint32(0), False
    if thread < TILE_LEAVES and leaf < num_leaves:
        rows, word = np.int32(work.rows_of_leaf[thread]), np.uint32(work.words[thread] | work.marked[thread])
        may_shift = writes & (work.crosses[thread] == 0)
    is_open = (thread == 0) & (tile > 0) & (word & np.uint32(1) == 0)
    is_full = (rows > 0) & (np.int32(np.int32(cuda.popc(word)) + rows) > most - np.int32(is_open))
    is_shifted = (rows > 0) & may_shift & (not is_full) & (not is_open)
    is_listed = (rows > 0) & (not is_shifted)
    listed, full, now, before = d_ballot(is_listed), d_ballot(is_full), d_ballot(is_shifted), d_scan_lanes(rows)
    start, first_listed, first_full, first_now = np.int32(0), np.int32(0), np.int32(0), np.int32(0)
    if lane == WARP - 1:
        work.shifted[thread >> np.uint32(5)] = now
        start = np.int32(cuda.atomic.add(work.counts, PLACED, before))
        first_listed = np.int32(cuda.atomic.add(work.counts, LEAVES, np.int32(cuda.popc(listed))))
        first_full = np.int32(cuda.atomic.add(work.counts, FULL_LEAVES, np.int32(cuda.popc(full))))
        first_now = np.int32(cuda.atomic.add(work.counts, SHIFTED, np.int32(cuda.popc(now))))
    start, first_now = d_shuffle(start, WARP - 1), d_shuffle(first_now, WARP - 1)
    first_listed, first_full = d_shuffle(first_listed, WARP - 1), d_shuffle(first_full, WARP - 1)
    if thread < TILE_LEAVES:
        work.firsts[thread] = np.uint32(start + np.int32(before - rows))
    if is_shifted:
        work.to_shift[np.uint32(first_now + np.int32(d_count_lower(now, lane)))] = np.uint16(thread)
    if rows > WARP:
        control[STOPPED] = OVERFLOW
    listed_place = np.int32(first_listed + np.int32(d_count_lower(listed, lane)))
    full_place = np.int32(first_full + np.int32(d_count_lower(full, lane)))
    return listed_place if is_listed else NOWHERE, full_place if is_full else NOWHERE


@device
def d_claim_places(counts, control):
    """Each of the block's first threads claims places for one count in a list that all blocks share."""
    claimed, thread = np.int64(0), cuda.threadIdx.x
    if thread < CLAIMS:
        row = LISTED if thread == 0 else FULL if thread == 1 else ROWS
        claimed = np.int64(cuda.atomic.add(control, row, np.int64(counts[LEAVES + thread])))
    return claimed


@device
def d_sort_keys(work, num_keys, control):
    """Rank the keys of a tile within their leaves, see ``d_sort_in_leaves``, and claim places for all.

    Keys are ranked while the claims are on their way; then the claimed places are in ``claims``.
    """
    claimed, thread = d_claim_places(work.counts, control), np.uint32(cuda.threadIdx.x)
    d_sort_in_leaves(work.keys, work.noted, work.by_leaf, work.rows_of_leaf, work.firsts, num_keys, work.has_repeated)
    if thread < CLAIMS:
        work.claims[thread] = claimed
    cuda.syncthreads()


@device
def d_list_leaf(work, tile, listed_place, full_place, buckets):
    """A thread owns a leaf: if the leaf has a place, list it with its keys, and as full if it may be."""
    if listed_place != NOWHERE:
        thread = np.uint32(cuda.threadIdx.x)
        leaf, window = np.uint32(d_first_leaf(tile) + thread), np.uint32(work.claims[0] + listed_place)
        start, num_keys = np.int32(work.claims[2] + work.firsts[thread]), np.int32(work.rows_of_leaf[thread])
        buckets.table[KEY_LEAVES, window] = np.int32(leaf)
        buckets.table[LOW, window], buckets.table[HIGH, window] = start, np.int32(start + num_keys)
        buckets.lists[leaf, COUNT], buckets.lists[leaf, HEAD] = num_keys, np.int32(start + np.int32(1))
        if full_place != NOWHERE:
            buckets.table[CLIMBING, np.uint32(work.claims[1] + full_place)] = np.int32(leaf)


@device
def d_send_keys(work, num_keys, tile, buckets):
    """Threads stride over the keys of a tile: each distinct key goes to its rank among the keys of its leaf.

    It goes to ``by_leaf`` if the leaf is shifted, to ``pairs`` if the leaf has a bucket.
    """
    first_slot, k, added = d_first_slot(tile), np.uint32(cuda.threadIdx.x), np.int32(0)
    while k < num_keys:
        key, note = work.keys[k], work.noted[k]
        if key != NO_KEY:
            leaf, row, column = d_leaf_of(note), np.int32(key >> 32), np.int32(key)
            at = np.uint32(work.firsts[leaf] + np.uint32(d_rank_of(note)))
            if (work.shifted[leaf >> np.uint32(5)] >> np.uint32(leaf & np.uint32(31))) & np.uint32(1) != 0:
                work.by_leaf[at] = np.uint16(k)
            else:
                at = np.uint32(work.claims[2] + at)
                buckets.pairs[SOURCES, at], buckets.pairs[TARGETS, at] = row, column
                buckets.pairs[PLACES, at] = np.int32(first_slot + np.uint32(d_slot_of(note)))
            added = np.int32(added + np.int32(1))
            if row == column:
                cuda.atomic.add(work.sums, OTHER_LOOPS, np.int32(1))
        k = np.uint32(k + np.uint32(THREADS))
    if added > 0:
        cuda.atomic.add(work.sums, ADDED, added)


@device
def d_write_leaves(slots, work, tile, buckets):
    """Each of the first threads owns a leaf to be shifted and inserts its keys. Claimed tombstones get their bits.

    In leaves that get keys, the bits are written with the keys, unless the leaf has a bucket. Leaves whose first or
    last row changes go to a list: the row offsets at their edges are written later.
    """
    thread, first_leaf, has_moved, leaf = np.uint32(cuda.threadIdx.x), d_first_leaf(tile), False, np.uint32(0)
    if thread < work.counts[SHIFTED]:
        number = np.uint32(work.to_shift[thread])
        leaf = np.uint32(first_leaf + number)
        word, changed = d_shift_leaf(
            slots.src, slots.dst, work, d_first_slot(tile), number, np.uint32(work.words[number] | work.marked[number]),
            work.firsts[number], work.rows_of_leaf[number],
        )  # fmt: skip
        slots.valid[leaf] = word
        if changed != 0:
            base = np.uint64(leaf) << np.uint64(5)
            has_moved = d_write_leaf_rows(slots.src, slots.offsets, base, changed, slots.far_rows)
    if thread < TILE_LEAVES and work.rows_of_leaf[thread] == 0 and work.marked[thread] != 0:
        slots.valid[np.uint32(first_leaf + thread)] = np.uint32(work.words[thread] | work.marked[thread])
    place = d_claim(buckets.control, MOVED, has_moved)
    if has_moved:
        buckets.table[NARROW_WINDOWS, np.uint32(buckets.table.shape[1] - 1 - place)] = np.int32(leaf)


@partial(kernel, max_registers=MAX_REGISTERS, records={"buckets": Buckets})
def k_list_pieces(
    src, dst, valid, offsets, shift, num_tiles, most, ordering, starts, ordered, marks, buckets, far_rows
):  # fmt: skip
    """Insert absent keys, or put them into buckets, sorted, each once: a block that is done claims the next tile.

    It writes ``marks`` and ``buckets`` as ``d_sort_lists`` does; a leaf in the list of full ones
    may turn out to have room. Once a leaf or tile has too many rows, or an id is invalid, the remaining results are of
    no use.

    Leaves that have room get their keys and the bits of tombstones at once. Only others get buckets and marks. The
    first slot of a tile does not change, nor do row offsets at the edges of leaves (``bucket_write.d_write_starts``).
    So other blocks, which read offsets and first slots meanwhile, find the same before and after. Nothing is written if
    ``ordering`` has seen an invalid id.
    """
    held = cuda.shared.array(HELD, np.int32, alignment=COPY_ALIGNMENT)
    keys = cuda.shared.array(MAX_ABSENT, np.int64)
    noted = cuda.shared.array(MAX_ABSENT, np.int32)
    by_leaf = cuda.shared.array(MAX_ABSENT, np.uint16)
    rows_of_leaf = cuda.shared.array(TILE_LEAVES, np.uint32)
    firsts = cuda.shared.array(TILE_LEAVES, np.uint32)
    to_shift = cuda.shared.array(TILE_LEAVES, np.uint16)
    crosses = cuda.shared.array(TILE_LEAVES, np.int8)
    words = cuda.shared.array(MARKED, np.uint32)
    marked = cuda.shared.array(MARKED, np.uint32)
    shifted = cuda.shared.array(LEAF_WORDS, np.uint32)
    counts = cuda.shared.array(COUNTS, np.int32)
    claims = cuda.shared.array(CLAIMS, np.int64)
    has_repeated = cuda.shared.array(1, np.int32)
    following = cuda.shared.array(2, np.int64)
    sums = cuda.shared.array(TOTALS, np.int32)
    work = InsertTile(
        held, words, marked, keys, noted, by_leaf, rows_of_leaf, firsts, crosses, to_shift, shifted, counts, claims,
        sums, has_repeated,
    )  # fmt: skip
    slots = Slots(src, dst, dst, False, valid, offsets, far_rows)
    rows, control = TileRows(offsets, dst, ordered, shift), buckets.control
    writes = ordering[INVALID_ID_ROWS] == 0
    for row in range(cuda.threadIdx.x, TOTALS, THREADS):
        sums[row] = 0
    tile, turn = np.int64(cuda.blockIdx.x), np.uint32(0)
    while tile < num_tiles:
        claimed = d_claim_tile(far_rows, CLAIMED)  # waited for at the end
        begin, end = d_rows_of_tile(starts, tile, shift)
        if begin < end:  # the same in all threads
            j = np.uint32(begin + np.uint32(cuda.threadIdx.x))
            # Before the tile is read, so that both reads overlap.
            bounds = d_read_bounds(offsets, ordered, min(j, np.uint32(end - np.uint32(1))))
            d_hold_tile(dst, tile, held)
            d_hold_words(valid, tile, words, marked)
            d_clear_counts(work)
            d_await_copies()
            cuda.syncthreads()
            d_find_rows(rows, j, end, bounds, tile, work, buckets, writes)
            cuda.syncthreads()
            num_keys = np.uint32(min(counts[ABSENT_ROWS], np.int32(MAX_ABSENT)))
            listed_place, full_place = d_place_leaves(
                work, tile, np.uint32(buckets.lists.shape[0]), np.int32(most), writes, control
            )
            cuda.syncthreads()
            d_sort_keys(work, num_keys, control)
            d_list_leaf(work, tile, listed_place, full_place, buckets)
            d_send_keys(work, num_keys, tile, buckets)
            d_mark_marks(marked, tile, marks, (listed_place != NOWHERE) | (not writes))
            if writes:  # the same in all threads
                cuda.syncthreads()
                d_write_leaves(slots, work, tile, buckets)
        tile, turn = d_next_tile(following, turn, claimed), np.uint32(turn ^ np.uint32(1))  # all threads have read
    for row in range(cuda.threadIdx.x, TOTALS, THREADS):
        if sums[row] > 0:
            cuda.atomic.add(control, row, np.int64(sums[row]))
    if writes:
        d_write_far_rows(offsets, far_rows, 1)
        d_reset_when_last(far_rows, POST_ARRIVALS)
