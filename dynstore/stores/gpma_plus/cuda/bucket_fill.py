"""Put the absent keys of an unsorted batch into the buckets of their leaves, and sort the buckets."""

from __future__ import annotations

import numpy as np

from dynstore.batches.cuda.rows import d_count_rows, d_read_edge, d_read_row
from dynstore.cuda.block import BOARD, d_claim, d_claim_many, d_claim_two
from dynstore.cuda.compiler import WARP, cuda, device, kernel
from dynstore.cuda.grid import d_leave_sum
from dynstore.cuda.warp import d_ballot, d_lane, d_shuffle
from dynstore.stores.gpma_plus.cuda.bucket_layout import (
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
    OTHER_LOOPS,
    OVERFLOW,
    PLACES,
    POSITIONS,
    RESTORED,
    ROWS,
    SOURCES,
    STOPPED,
    TARGETS,
    BucketLeaves,
    LinkedBuckets,
)
from dynstore.stores.pma.cuda.records import BatchRows, SearchedSlots
from dynstore.stores.table.cuda.search import SEARCHERS, d_find_edge_together, d_find_two_edges
from dynstore.stores.table.slots import ABSENT, PRESENT, TOMBSTONE

__all__ = ["d_choose_leaf", "d_list_batch", "d_sort_lists", "k_list_rows"]

NO_KEY = np.int64(np.iinfo(np.int64).max)
NO_ROW = np.uint32(np.iinfo(np.uint32).max)


@device
def d_choose_leaf(position):
    """Return the leaf of a key that goes before a slot; all uint32."""
    return np.uint32(np.uint32(max(position, np.uint32(1)) - np.uint32(1)) >> np.uint32(5))


@device
def d_announce(marks, lists, position, state, known):
    """Count an absent key in its leaf's bucket, or mark the slot of another key. Return the old count or word."""
    before = np.uint32(0)
    if known and state == ABSENT:
        before = np.uint32(cuda.atomic.add(lists, (d_choose_leaf(position), COUNT), 1))
    elif known:
        bit = np.uint32(1) << np.uint32(position & np.uint32(31))
        before = np.uint32(cuda.atomic.or_(marks, np.uint32(position >> np.uint32(5)), bit))
    return before


@device
def d_mark(position, state, known, before):
    """Return the state of a row's key if this row has claimed it, else ABSENT; ``before``: the old word of marks."""
    is_first = (before >> np.uint32(position & np.uint32(31))) & np.uint32(1) == 0
    return np.uint8(state if known and is_first else ABSENT)


@device
def d_link_row(lists, position, i, wanted):
    """Put a row at the head of its leaf's bucket. Return the row + 1 that was there."""
    link = np.int32(0)
    if wanted:
        link = np.int32(cuda.atomic.exch(lists, (d_choose_leaf(position), HEAD), np.int32(i + np.uint32(1))))
    return link


@device
def d_note_row(following, positions, states, i, position, link, linked, marked):
    """Write what was found for a row, if the row exists."""
    if i < following.shape[0]:
        positions[i] = position
        states[i] = marked
        if linked:
            following[i] = link


@device
def d_count_marked(count, is_so, other_is_so):
    """Return a count plus how many of two conditions hold; int32, which takes fewer registers."""
    return np.int32(count + np.int32(np.int32(is_so) + np.int32(other_is_so)))


@device
def d_begin_list(listed, pairs, place, position, row, column, begins):
    """If the row ``begins`` a bucket, list its leaf and write its key, the first of the bucket."""
    if begins:
        at = np.uint32(place)
        listed[at] = d_choose_leaf(position)
        pairs[SOURCES, at], pairs[TARGETS, at], pairs[PLACES, at] = row, column, position


@device
def d_list_rows(slots, batch, leaves, buckets, states):
    """Threads stride over the rows, two at a time: claim present keys and tombstones, put absent keys into buckets.

    Both rows take each step together, so twice as many reads and atomics are in flight. A row claims a slot by setting
    its bit in ``marks`` (atomic or). The first row to arrive in a bucket writes its key to ``pairs``. Each later row is
    linked: ``lists`` holds the last row + 1 (atomic exchange), ``following`` the row + 1 before it; 0 ends the chain.
    ``lists`` also counts the rows (atomic add). All threads stop once a bucket would have more than 32 rows or an id is
    invalid. If there are enough threads, ``SEARCHERS`` of them search for one key together, and the first of them
    handles the row. Returns the numbers of present keys and tombstones, and of self-loops among each.
    """
    listed, positions = buckets.table[KEY_LEAVES], buckets.table[POSITIONS]
    num_rows, step = d_count_rows(batch.src, batch.mirrored), np.uint32(cuda.gridsize(1))
    found, found_loops, restored, restored_loops = np.int32(0), np.int32(0), np.int32(0), np.int32(0)
    arena = SEARCHERS * num_rows <= np.int64(step)
    i = np.uint32(cuda.grid(1) // SEARCHERS if arena else cuda.grid(1))
    while d_shuffle(np.int64(i), 0) < num_rows:  # the same in all lanes
        if d_shuffle(buckets.control[STOPPED], 0) > 0:
            break
        other = np.uint32(i + step)
        row, column, known = d_read_edge(batch.src, batch.dst, batch.mirrored, i, num_rows, slots.num_vertices)
        other_row, other_column, other_known = d_read_edge(
            batch.src, batch.dst, batch.mirrored, other, num_rows, slots.num_vertices
        )
        if (i < num_rows and not known) or (other < num_rows and not other_known):
            buckets.control[STOPPED] = INVALID_ID
        if arena:
            position, state = d_find_edge_together(slots.offsets, slots.dst, slots.valid, row, column)
            other_position, other_state = position, state
            if d_lane() & (SEARCHERS - 1) != 0:
                known, i = False, NO_ROW
        else:
            position, state, other_position, other_state = d_find_two_edges(
                slots.offsets, slots.dst, slots.valid, row, column, other_row, other_column
            )
        before = d_announce(leaves.marks, leaves.lists, position, state, known)
        other_before = d_announce(leaves.marks, leaves.lists, other_position, other_state, other_known)
        is_absent, other_is_absent = known and state == ABSENT, other_known and other_state == ABSENT
        begins, other_begins = is_absent and before == 0, other_is_absent and other_before == 0
        linked, other_linked = is_absent and 0 < before < WARP, other_is_absent and 0 < other_before < WARP
        link = d_link_row(leaves.lists, position, i, linked)
        other_link = d_link_row(leaves.lists, other_position, other, other_linked)
        if (is_absent and before >= WARP) or (other_is_absent and other_before >= WARP):
            buckets.control[STOPPED] = OVERFLOW
        place, other_place = d_claim_two(buckets.control, LISTED, begins, other_begins)
        marked = d_mark(position, state, known, before)
        other_marked = d_mark(other_position, other_state, other_known, other_before)
        d_note_row(buckets.following, positions, states, i, position, link, linked, marked)
        d_note_row(buckets.following, positions, states, other, other_position, other_link, other_linked, other_marked)
        d_begin_list(listed, buckets.pairs, place, position, row, column, begins)
        d_begin_list(listed, buckets.pairs, other_place, other_position, other_row, other_column, other_begins)
        is_loop, other_is_loop = row == column, other_row == other_column
        found = d_count_marked(found, marked == PRESENT, other_marked == PRESENT)
        found_loops = d_count_marked(
            found_loops, marked == PRESENT and is_loop, other_marked == PRESENT and other_is_loop
        )
        restored = d_count_marked(restored, marked == TOMBSTONE, other_marked == TOMBSTONE)
        restored_loops = d_count_marked(
            restored_loops, marked == TOMBSTONE and is_loop, other_marked == TOMBSTONE and other_is_loop
        )
        i = np.uint32(other + step)
    return found, found_loops, restored, restored_loops


@device
def d_list_batch(slots, batch, leaves, buckets, states, board):
    """Put absent keys into the buckets of their leaves, and sum up what ``d_list_rows`` returns."""
    found, found_loops, restored, loops = d_list_rows(slots, batch, leaves, buckets, states)
    d_leave_sum(buckets.control, FOUND, found, board)
    d_leave_sum(buckets.control, FOUND_LOOPS, found_loops, board)
    d_leave_sum(buckets.control, RESTORED, restored, board)
    d_leave_sum(buckets.control, OTHER_LOOPS, loops, board)


@kernel
def k_list_rows(
    offsets, dst, valid, num_vertices, edge_src, edge_dst, mirrored, marks, lists, following, table, states, pairs,
    control,
):  # fmt: skip
    """Put absent keys into the buckets of their leaves; ``lists``: see ``bucket_layout``."""
    board = cuda.shared.array(BOARD, np.int64)
    slots, batch = SearchedSlots(offsets, dst, valid, num_vertices), BatchRows(edge_src, edge_dst, mirrored)
    leaves, buckets = BucketLeaves(valid, marks, lists), LinkedBuckets(following, table, pairs, control)
    d_list_batch(slots, batch, leaves, buckets, states, board)


@device
def d_read_key(edge_src, edge_dst, mirrored, positions, link):
    """Return the key of row ``link`` - 1 and the slot that it goes before. For link 0 the key is above all others.

    No read is behind a branch, so a thread's reads of several keys overlap.
    """
    mine = np.uint32(max(link, np.int32(1)) - np.int32(1))
    row, column = d_read_row(edge_src, edge_dst, mirrored, np.int64(mine))
    return (row << 32) | column if link > 0 else NO_KEY, positions[mine]


@device
def d_join(row, column):
    """Return the key of a source and a destination."""
    return (np.int64(row) << 32) | np.int64(column)


@device
def d_put_key(key, position, place, pairs):
    """Write a key, if there is one, and its place. Return 1 if there is one, and 1 if it is a self-loop."""
    row, column, at, wanted = np.int32(key >> 32), np.int32(key), np.uint32(place), key != NO_KEY
    if wanted:
        pairs[SOURCES, at], pairs[TARGETS, at], pairs[PLACES, at] = row, column, position
    return np.int32(wanted), np.int32(wanted and row == column)


@device
def d_sort_short_list(batch, buckets, positions, first, head, rows, start):
    """A lane alone sorts a bucket of 2 to 4 rows, or none. Returns the numbers of keys and self-loops.

    ``first``: where the key of the first row is; ``head``: the last row + 1.
    """
    link1, link2, link3 = head if rows > 1 else np.int32(0), np.int32(0), np.int32(0)
    if rows > 2:
        link2 = buckets.following[np.uint32(link1 - np.int32(1))]
    if rows > 3:
        link3 = buckets.following[np.uint32(link2 - np.int32(1))]
    key0, position0 = NO_KEY, buckets.pairs[PLACES, first]
    if rows > 1:
        key0 = d_join(buckets.pairs[SOURCES, first], buckets.pairs[TARGETS, first])
    key1, position1 = d_read_key(batch.src, batch.dst, batch.mirrored, positions, link1)
    key2, position2 = d_read_key(batch.src, batch.dst, batch.mirrored, positions, link2)
    key3, position3 = d_read_key(batch.src, batch.dst, batch.mirrored, positions, link3)
    key1 = NO_KEY if key1 == key0 else key1
    key2 = NO_KEY if (key2 == key0) | (key2 == key1) else key2
    key3 = NO_KEY if (key3 == key0) | (key3 == key1) | (key3 == key2) else key3
    is_1_below_0, is_2_below_0, is_3_below_0 = np.int32(key1 < key0), np.int32(key2 < key0), np.int32(key3 < key0)
    is_2_below_1, is_3_below_1, is_3_below_2 = np.int32(key2 < key1), np.int32(key3 < key1), np.int32(key3 < key2)
    at0 = start + is_1_below_0 + is_2_below_0 + is_3_below_0
    at1 = start + 1 - is_1_below_0 + is_2_below_1 + is_3_below_1
    at2 = start + 2 - is_2_below_0 - is_2_below_1 + is_3_below_2
    at3 = start + 3 - is_3_below_0 - is_3_below_1 - is_3_below_2
    keys0, loops0 = d_put_key(key0, position0, at0, buckets.pairs)
    keys1, loops1 = d_put_key(key1, position1, at1, buckets.pairs)
    keys2, loops2 = d_put_key(key2, position2, at2, buckets.pairs)
    keys3, loops3 = d_put_key(key3, position3, at3, buckets.pairs)
    return np.int32(keys0 + keys1 + keys2 + keys3), np.int32(loops0 + loops1 + loops2 + loops3)


@device
def d_sort_list(batch, buckets, positions, first, head, rows):
    """Sort a bucket of 2 to 32 rows: each lane holds one row's key. All lanes of the warp call.

    Returns the key (``NO_KEY`` if a lower lane has the same), its place, its rank among the distinct keys, and their
    number.
    """
    pairs = buckets.pairs
    lane, mine, link = d_lane(), np.int32(0), head
    for other in range(1, rows):
        if lane == other:
            mine = link
        link = buckets.following[link - 1]
    key, position = d_read_key(batch.src, batch.dst, batch.mirrored, positions, mine)
    if lane == 0:
        key, position = d_join(pairs[SOURCES, first], pairs[TARGETS, first]), np.int32(pairs[PLACES, first])
    distinct, rank = key, np.int64(0)
    for other in range(rows):
        if d_shuffle(key, other) == key and other < lane:
            distinct = NO_KEY
    for other in range(rows):
        if d_shuffle(distinct, other) < key:
            rank += 1
    return distinct, position, rank, np.int64(cuda.popc(d_ballot(distinct != NO_KEY)))


@device
def d_sort_lists(leaves, batch, buckets, lower, num_listed):
    """A warp owns up to 32 buckets. It sorts those of several rows; the key of a single row stays where it is.

    A lane sorts each bucket of up to 4 rows alone. All lanes sort each longer one together, in turn. Sorted keys go to
    ``pairs``, behind the keys of the first rows, with room for all rows of the bucket (one atomic add a warp). Then
    ``lists`` holds the number of keys of each leaf and where they begin. Leaves without room for theirs go to a list.
    Returns the number of keys, and of self-loops among them.
    """
    table, pairs, positions = buckets.table, buckets.pairs, buckets.table[POSITIONS]
    lane, warps = np.int32(d_lane()), np.int32(cuda.gridsize(1) >> 5)
    share = np.int32(min((num_listed + warps - 1) // warps, np.int64(WARP)))
    base, added, loops = np.int32((cuda.grid(1) >> 5) * share), np.int32(0), np.int32(0)
    while base < num_listed:
        is_listed = lane < share and base + lane < num_listed
        window = np.uint32(base + lane if is_listed else 0)
        leaf, is_loop = np.uint32(table[KEY_LEAVES, window]), pairs[SOURCES, window] == pairs[TARGETS, window]
        rows, head = leaves.lists[leaf, COUNT] if is_listed else np.int32(0), leaves.lists[leaf, HEAD]
        elements = np.int32(cuda.popc(leaves.valid[leaf] | leaves.marks[leaf]))
        num_keys, start = np.int32(rows == 1), np.int32(window)
        loops = np.int32(loops + np.int32(num_keys == 1 and is_loop))
        if d_ballot(rows > 1) != 0:
            claimed = np.int32(d_claim_many(buckets.control, ROWS, rows if rows > 1 else np.int32(0)))
            start = np.int32(num_listed + claimed) if rows > 1 else start
            num_sorted, num_loops = d_sort_short_list(
                batch, buckets, positions, window, head, rows if 1 < rows <= 4 else np.int32(0), start
            )
            num_keys, loops = np.int32(num_keys + num_sorted), np.int32(loops + num_loops)
        pending = d_ballot(rows > 4)
        while pending != 0:
            owner = cuda.ffs(np.int32(pending)) - 1
            key, position, rank, num_distinct = d_sort_list(
                batch, buckets, positions,
                d_shuffle(np.int32(window), owner), d_shuffle(head, owner), d_shuffle(rows, owner),
            )  # fmt: skip
            loops = np.int32(loops + d_put_key(key, position, d_shuffle(start, owner) + rank, pairs)[1])
            if lane == owner:
                num_keys = np.int32(num_distinct)
            pending &= pending - np.uint32(1)
        if is_listed:
            table[LOW, window], table[HIGH, window] = start, start + num_keys
            leaves.lists[leaf, COUNT], leaves.lists[leaf, HEAD] = num_keys, start + 1
        is_full = is_listed and elements + num_keys > lower * 32
        place = d_claim(buckets.control, FULL, is_full)
        if is_full:
            table[CLIMBING, place] = leaf
        added = np.int32(added + num_keys)
        base = np.int32(base + np.int32(warps * share))
    return added, loops
