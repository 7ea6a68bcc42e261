"""Planning an update of slab hash tables before anything is written: one kernel of one phase, and one read-back.

A thread owns an edge. In an unsorted batch each edge is claimed in a table of the batch: one of equal edges is chosen,
any of them, as they have no weights. A warp walks the chains of its 32 edges. Absent keys are ranked within their
bucket, whose count is in the same table. Keys that fit into the first slab with free places get their place at once;
the others are listed. A key's rank decides whether its chain needs one more slab, so the needed slabs are counted on
the way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dynstore.batches.unsorted import RawEdges
from dynstore.cuda.block import d_claim
from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.cuda.control import declare
from dynstore.cuda.grid import ARRIVALS
from dynstore.cuda.warp import d_ballot, d_count_lower, d_lane, d_shuffle
from dynstore.stores.slab_hash.cuda.probe import d_find_bucket, d_mix, d_probe_chains, d_read_head, d_touch_slab
from dynstore.stores.slab_hash.slabs import END, FREE, TOMBSTONE, USED, Probe

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.batches.sorted import Batch
    from dynstore.stores.slab_hash.slabs import SlabTable
    from dynstore.typing import Array

__all__ = [
    "FOUND",
    "FOUND_LOOPS",
    "KEYS",
    "LOOPS",
    "NOT_PLACED",
    "SHORT_ROWS",
    "SPILLED",
    "Tasks",
    "d_edge",
    "d_end_claim",
    "d_tally",
    "d_try_claim",
    "plan_update",
    "read_edges",
]

# Entries of `control`, int64, all 0 at first: sums tallied by blocks, lengths of lists, the state of the pool, and the
# number of rows that a deletion has emptied, first short, then long ones. Last, the arrivals of the deletion's blocks
# at a barrier (``grid``).
KEYS, LOOPS, FOUND, FOUND_LOOPS, NEEDED, SPILLED, OVERLONG, POOL_USED, POOL_FREE, SHORT_ROWS = declare(
    "hash plan", KEYS=0, LOOPS=1, FOUND=2, FOUND_LOOPS=3, NEEDED=4, SPILLED=5, OVERLONG=6, POOL_USED=7, POOL_FREE=8,
    SHORT_ROWS=10,
)  # fmt: skip
TALLIES, CONTROL_SIZE = 5, ARRIVALS + 1
# Codes in ``places``: -1 for an absent key whose chain must be walked, NOT_CHOSEN for an edge that another row of the
# batch has claimed, NOT_PLACED - p for an absent key that gets the free place p.
NOT_CHOSEN, NOT_PLACED = -2, -3
# Bits of a bucket's count; the bits above it name the bucket.
COUNT_BITS = 31
COUNT_MASK = (1 << COUNT_BITS) - 1


class Tasks(NamedTuple):
    """The edges of a batch in the form for kernels, one task each.

    Attributes
    ----------
    src, dst : array, shape (N,)
        If there are twice as many places, N more tasks are the reversed edges.
    places : array, int64
        The word of each present key; else see NOT_PLACED.
    listed : array, int64
        For an insertion: first the tasks without a place; in the high half the slab after which they belong, END if no
        slab of the chain has free places. For a deletion: the rows that become empty, short ones from the front, long
        ones from the back.
    control : array
        Has the number of these tasks or rows.
    """

    src: Array
    dst: Array
    places: Array
    listed: Array
    control: Array


@device
def d_edge(src, dst, t):
    """Return row, key and place in the batch of a task."""
    count = src.shape[0]
    i = t
    if t >= count:
        i = t - count
        return np.int64(dst[i]), np.int64(src[i]), i
    return np.int64(src[i]), np.int64(dst[i]), i


@device
def d_try_claim(table, edge, slot):
    """Claim an edge in a slot if it is free; return the slot's old content: 1 + an edge, or 0."""
    return np.int64(cuda.atomic.cas(table, slot, 0, edge + 1))


@device
def d_end_claim(table, mask, edge, slot, other):
    """Claim the edge, given its first slot and that slot's old content; return whether this thread was the first."""
    while other != 0 and other != edge + 1:
        slot = (slot + 1) & mask
        other = d_try_claim(table, edge, slot)
    return other == 0


@device
def d_count_keys(table, mask, bucket, added):
    """Add to a bucket's count of keys, in the last slots of the table; return the old count."""
    slot = d_mix((bucket ^ (bucket >> 32)) & 0xFFFFFFFF) & mask
    start = table.shape[0] - 1 - mask
    entry = (bucket << COUNT_BITS) + added
    other = np.int64(cuda.atomic.cas(table, start + slot, 0, entry))
    while other != 0 and other >> COUNT_BITS != bucket:
        slot = (slot + 1) & mask
        other = np.int64(cuda.atomic.cas(table, start + slot, 0, entry))
    if other != 0:
        other = np.int64(cuda.atomic.add(table, start + slot, added))
    return other & COUNT_MASK


@device
def d_rank_keys(table, mask, bucket, active):
    """Return each active lane's rank among the keys of its bucket; all lanes of the warp call it.

    Lanes with the first active lane's bucket share one atomic add; all others make one each.
    """
    lane, word = d_lane(), d_ballot(active)
    leader = cuda.ffs(word) - 1 if word != 0 else 0
    shared = d_shuffle(bucket, leader)
    with_leader = active and bucket == shared
    same = d_ballot(with_leader)
    rank = np.int32(0)
    if active and (lane == leader or not with_leader):
        rank = np.int32(d_count_keys(table, mask, bucket, np.int64(cuda.popc(same)) if with_leader else np.int64(1)))
    start = d_shuffle(rank, leader)
    if with_leader:
        rank = start + np.int32(d_count_lower(same, lane))
    return rank


@device
def d_tally(board, keys, loops, found, needed):
    """Add to each of the block's tallies the number of lanes with that flag (atomic); a lane writes one tally."""
    lane, mine = d_lane(), d_ballot(keys)
    word = d_ballot(found)
    if lane == FOUND:
        mine = word
    word = d_ballot(needed)
    if lane == NEEDED:
        mine = word
    word = d_ballot(loops)
    if lane == LOOPS:
        mine = word
    word = d_ballot(loops and found)
    if lane == FOUND_LOOPS:
        mine = word
    if lane < TALLIES and mine != 0:
        cuda.atomic.add(board, lane, np.int32(cuda.popc(mine)))


@device
def d_place_key(target, spare, rank, words):
    """Return the code of the free place of this rank in a slab; the bits of ``spare`` are its free places."""
    for _ in range(rank):
        spare &= spare - np.uint32(1)
    return NOT_PLACED - (np.int64(target) * words + np.int64(cuda.ffs(spare)) - 1)


@kernel
def k_plan_update(
    slabs, heads, state, words, keys, reuse, max_chain, src, dst, repeats, counts_loops, mask, table, places, listed,
    control
):  # fmt: skip
    """One thread owns one task; its warp walks the chain. ``max_chain`` is 0 for a deletion.

    ``listed``: tasks without a place, as in ``Tasks``; in its second half the rows with a chain that would get too
    long.
    """
    board = cuda.shared.array(TALLIES, np.int32)
    t = np.int64(cuda.grid(1))
    if cuda.threadIdx.x < TALLIES:
        board[cuda.threadIdx.x] = 0
    cuda.syncthreads()
    if t == 0:
        state[FREE] = max(state[FREE], 0)
        control[POOL_USED], control[POOL_FREE] = state[USED], state[FREE]
    chosen, loop, row, key, base = False, False, np.int64(0), np.int64(0), np.int64(END)
    if t < places.shape[0]:
        row, key, _ = d_edge(src, dst, t)
        # The head and then the slab are loaded while the edge is claimed.
        first, buckets = d_read_head(heads, row)
        edge, slot, other = (row << 32) | key, np.int64(0), np.int64(0)
        if repeats != 0:
            slot = d_mix((d_mix(row & 0xFFFFFFFF) + key) & 0xFFFFFFFF) & mask
            other = d_try_claim(table, edge, slot)
        base = first + d_find_bucket(key, buckets)
        touched = d_touch_slab(slabs, words, keys, base)
        chosen = d_end_claim(table, mask, edge, slot, other)
        loop = chosen and counts_loops != 0 and row == key
        if not chosen or min(min(touched[0], touched[1]), min(touched[2], touched[3])) < TOMBSTONE:  # which no key is
            base = np.int64(END)
    adds = False
    place, target, spare, room, length, _ = d_probe_chains(slabs, words, keys, reuse, key, base)
    found = place >= 0
    if max_chain > 0:
        absent = chosen and not found
        bucket = base
        if absent and base == END:
            bucket = -1 - d_edge(src, dst, t)[0]
        rank = d_rank_keys(table, mask, bucket, absent)
        spills = absent and rank >= np.int32(cuda.popc(spare))
        if absent and not spills:
            place = d_place_key(target, spare, rank, words)
        if d_ballot(spills) != 0:
            at = d_claim(control, SPILLED, spills)
            if spills:
                listed[at] = (np.int64(target) << 32) | t
            over = rank - room
            more = max(over, 0) // keys
            adds = spills and over == more * keys
            too_long = adds and length + more + 1 > max_chain
            at = d_claim(control, OVERLONG, too_long)
            if too_long:
                listed[places.shape[0] + at] = d_edge(src, dst, t)[0]
    if t < places.shape[0]:
        places[t] = place if chosen else NOT_CHOSEN
    d_tally(board, chosen, loop, found, adds)
    cuda.syncthreads()
    if cuda.threadIdx.x < TALLIES and board[cuda.threadIdx.x] != 0:
        cuda.atomic.add(control, cuda.threadIdx.x, np.int64(board[cuda.threadIdx.x]))


def read_edges(batch: Batch) -> tuple[Array, Array, int, bool, bool]:
    """Return a batch's columns, its number of tasks, whether edges may repeat, and whether loops are counted."""
    batch = batch.known()
    if isinstance(batch, RawEdges):
        return *batch.columns, batch.num_rows, True, batch.mirrored
    edges = batch.materialized()
    return edges.src, edges.dst, len(edges), False, edges.num_loops > 0


def plan_update(backend: Backend, table: SlabTable, batch: Batch, max_chain: int, reuse: bool) -> Probe:
    """Find a batch's edges and, if ``max_chain`` is not 0, the slabs that the absent ones need."""
    src, dst, count, repeats, counts_loops = read_edges(batch)
    inserting = max_chain > 0
    num_slots = 1 << (2 * count - 1).bit_length() if count else 1
    control, slots, places, listed = backend.empty_arena(
        (CONTROL_SIZE, np.int64),
        (num_slots * (repeats + inserting), np.int64),
        (count, np.int64),
        (count * (1 + inserting), np.int64),
        zeroed=2,
    )
    k_plan_update.launch(
        count, table.slabs, table.heads, table.state, table.words, table.keys, int(reuse), max_chain, src, dst,
        int(repeats), int(counts_loops), num_slots - 1, slots, places, listed, control,
    )  # fmt: skip
    totals: list[int] = backend.to_host(control).tolist()
    if isinstance(batch, RawEdges) and repeats:
        batch.keep_counts(totals[KEYS], totals[LOOPS])
    num_overlong = totals[OVERLONG]
    return Probe(
        places,
        totals[FOUND],
        totals[FOUND_LOOPS],
        totals[NEEDED],
        totals[POOL_USED],
        totals[POOL_FREE],
        listed[count : count + num_overlong] if num_overlong else None,
        Tasks(src, dst, places, listed, control),
    )
