"""What an update of slab hash tables finds before it writes: one kernel of three phases, and one read-back.

Phase 1: rows of a batch that is not sorted claim their edge in a table of the batch's own; the last row wins.
Phase 2: a warp walks the chains of 32 edges. Absent ones are ranked within their bucket by its counter; those that the
first slab with free places has room for get their place at once, the others are listed.
Phase 3: the first of each bucket knows how many there are, and so how many slabs the chain needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dynstore._cuda.compiler import cuda, device, kernel
from dynstore._cuda.grid import CONTROL_SIZE, d_chunk, d_leave_sum, d_sync_grid, read_totals
from dynstore._cuda.slab_hash_device import d_count_up, d_find_bucket, d_mix, d_probe_chains
from dynstore._cuda.tiles import BOARD, d_claim
from dynstore._cuda.warp import d_lane
from dynstore.edge_batch import RawEdges
from dynstore.slabs import BUCKETS, COUNTER, END, FIRST, FREE, HEAD_WORDS, USED, Probe

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.edge_batch import EdgeBatch
    from dynstore.slabs import SlabTable
    from dynstore.typing import Array

__all__ = ["NOT_PLACED", "Tasks", "d_edge", "plan_update"]

# Rows of the sums that `control` holds.
KEYS, LOOPS, FOUND, FOUND_LOOPS, NEEDED, OVERLONG, SPILLED, POOL_USED, POOL_FREE = range(9)
# What stands for a place: -1 for an absent key whose chain has to be walked, NOT_CHOSEN for an edge that another row of
# the batch has; a free place p that an absent key gets is NOT_PLACED - p.
NOT_CHOSEN, NOT_PLACED = -2, -3


class Tasks(NamedTuple):
    """The edges of a batch as the kernels take them, one task each.

    Attributes
    ----------
    src, dst : array, shape (N,)
    mirrored : int
        1 where N more tasks are the same edges turned round.
    spilled, behind : array
        Tasks without a place, and the slab behind which they belong, END where no slab of the chain has free places;
        the first ``num_spilled``.
    emptied, num_emptied : array
        Room for the rows that a deletion leaves without edges, short ones from the front, long ones from the back, and
        how many there are.
    """

    src: Array
    dst: Array
    mirrored: int
    spilled: Array
    behind: Array
    num_spilled: int
    emptied: Array
    num_emptied: Array

    @property
    def num_tasks(self) -> int:
        return int(self.src.shape[0]) << self.mirrored


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
def d_same_edge(src, dst, mirrored, i, j):
    """Return whether two rows of a batch are one edge."""
    if src[i] == src[j] and dst[i] == dst[j]:
        return True
    return mirrored != 0 and src[i] == dst[j] and dst[i] == src[j]


@device
def d_claim_edges(src, dst, mirrored, claims, slot_of):
    """Let each row claim its edge: a slot of ``claims`` holds 1 + the last row of an edge, 0 where it is free."""
    mask = claims.shape[0] - 1
    first, end = d_chunk(np.int64(src.shape[0]))
    for i in range(first + cuda.threadIdx.x, end, cuda.blockDim.x):
        low, high = np.int64(src[i]), np.int64(dst[i])
        if mirrored != 0 and low > high:
            low, high = high, low
        slot = d_mix((d_mix((low ^ (low >> 32)) & 0xFFFFFFFF) + high + (high >> 32)) & 0xFFFFFFFF) & mask
        searching = True
        while searching:
            other = cuda.atomic.cas(claims, slot, 0, i + 1)
            if other == 0:
                searching = False
            elif d_same_edge(src, dst, mirrored, i, other - 1):
                cuda.atomic.max(claims, slot, i + 1)
                searching = False
            else:
                slot = (slot + 1) & mask
        slot_of[i] = slot


@device
def d_is_chosen(src, dst, claims, slot_of, t, i):
    """Return whether a task is to be done: no other row has its edge, and it is no self-loop a second time."""
    if claims.shape[0] > 0 and claims[slot_of[i]] != i + 1:
        return False
    return t == i or src[i] != dst[i]


@kernel
def k_plan_update(
    slabs, heads, state, words, keys, reuse, max_chain, inserting, src, dst, mirrored, counts_loops, claims, slot_of,
    places, rooms, spilled, behind, overlong, control
):  # fmt: skip
    """Blocks own neighbouring rows, then neighbouring edges. Writes counters (atomic), -1 again in the end.

    ``rooms``: free places and, in the high half, slabs of the chain, for the first absent edge of a bucket; else -1.
    """
    board = cuda.shared.array(BOARD, np.int64)
    if cuda.grid(1) == 0:
        state[FREE] = max(state[FREE], 0)
        control[POOL_USED], control[POOL_FREE] = state[USED], state[FREE]
    if claims.shape[0] > 0:
        d_claim_edges(src, dst, mirrored, claims, slot_of)
        d_sync_grid(control, 1)
    num_rows, count = heads.shape[0] // HEAD_WORDS, np.int64(src.shape[0]) << mirrored
    lane = d_lane()
    start, end = d_chunk(count)
    num_keys, num_loops = np.int64(0), np.int64(0)
    found, found_loops = np.int64(0), np.int64(0)
    first = start + (cuda.threadIdx.x - lane)
    while first < end:
        t = first + lane
        chosen, row, key = False, np.int64(0), np.int64(0)
        base = np.int64(END)
        if t < end:
            row, key, i = d_edge(src, dst, t)
            chosen = d_is_chosen(src, dst, claims, slot_of, t, i)
            if chosen and row < num_rows:
                base = np.int64(heads[HEAD_WORDS * row + FIRST])
                if base != END:
                    base += d_find_bucket(key, np.int64(heads[HEAD_WORDS * row + BUCKETS]))
        place, target, spare, room, length = d_probe_chains(slabs, words, keys, reuse, key, base)
        if chosen:
            loop = counts_loops != 0 and row == key
            num_keys += 1
            num_loops += loop
            if place >= 0:
                found += 1
                found_loops += loop
        if inserting != 0:
            absent = chosen and place < 0
            in_slab = d_count_up(slabs, max(base, 0) * words + words - 2, absent and base != END)
            in_head = d_count_up(heads, HEAD_WORDS * row + COUNTER, absent and base == END)
            rank = in_head if base == END else in_slab
            fits = absent and rank < np.int64(cuda.popc(spare))
            if fits:
                left = np.int64(spare)
                for _ in range(rank):
                    left &= left - 1
                place = NOT_PLACED - (target * words + np.int64(cuda.ffs(np.uint32(left))) - 1)
            at = d_claim(control, SPILLED, absent and not fits)
            if absent and not fits:
                spilled[at], behind[at] = t, target
            if t < end:
                rooms[t] = (length << 32) | room if absent and rank == 0 else -1
        if t < end:
            places[t] = place if chosen else NOT_CHOSEN
        first += cuda.blockDim.x
    d_leave_sum(control, KEYS, num_keys, board)
    d_leave_sum(control, LOOPS, num_loops, board)
    d_leave_sum(control, FOUND, found, board)
    d_leave_sum(control, FOUND_LOOPS, found_loops, board)
    if inserting != 0:
        d_sync_grid(control, 2 if claims.shape[0] > 0 else 1)
        needed = np.int64(0)
        first = start + (cuda.threadIdx.x - lane)
        while first < end:
            t = first + lane
            too_long, row = False, np.int64(0)
            if t < end and rooms[t] >= 0:
                row, key, i = d_edge(src, dst, t)
                base = np.int64(heads[HEAD_WORDS * row + FIRST])
                if base == END:
                    rank = np.int64(cuda.atomic.exch(heads, HEAD_WORDS * row + COUNTER, -1))
                else:
                    base += d_find_bucket(key, np.int64(heads[HEAD_WORDS * row + BUCKETS]))
                    rank = np.int64(cuda.atomic.exch(slabs, base * words + words - 2, -1))
                more = (max(rank + 1 - (rooms[t] & 0xFFFFFFFF), 0) + keys - 1) // keys
                needed += more
                too_long = more > 0 and (rooms[t] >> 32) + more > max_chain
            at = d_claim(control, OVERLONG, too_long)
            if too_long:
                overlong[at] = row
            first += cuda.blockDim.x
        d_leave_sum(control, NEEDED, needed, board)


def plan_update(
    backend: Backend, table: SlabTable, batch: EdgeBatch, max_chain: int, reuse: bool, inserting: bool
) -> Probe:
    """Find a batch's edges and, for an insertion, what the absent ones need; a raw batch is told what it has."""
    raw = batch if isinstance(batch, RawEdges) and not batch.is_settled else None
    if raw is not None:
        src, dst = (backend.xp.ascontiguousarray(column) for column in raw.columns)
        mirrored, counts_loops = int(raw.mirrored), int(raw.mirrored)
    else:
        src, dst, mirrored, counts_loops = batch.src, batch.dst, 0, int(batch.num_loops > 0)
    num_rows = int(src.shape[0])
    num_slots = 0 if raw is None else 1 << (2 * num_rows - 1).bit_length()
    count = num_rows << mirrored
    listed = count if inserting else 0
    control, num_emptied, claims, places, slot_of, rooms, spilled, behind, overlong, emptied = backend.empty_together(
        (CONTROL_SIZE, np.int64),
        (2, np.int64),
        (num_slots, np.int32),
        (count, np.int64),
        (num_rows if num_slots else 0, np.int32),
        (listed, np.int64),
        (listed, np.int64),
        (listed, np.int64),
        (listed, np.int64),
        (0 if inserting else count, np.int64),
        zeroed=3,
    )
    k_plan_update.launch_resident(
        count, table.slabs, table.heads, table.state, table.words, table.keys, int(reuse), max_chain, int(inserting),
        src, dst, mirrored, counts_loops, claims, slot_of, places, rooms, spilled, behind, overlong, control,
    )  # fmt: skip
    totals = read_totals(backend, control)
    if raw is not None:
        raw.settle_counts(totals[KEYS], totals[LOOPS])
    tasks = Tasks(src, dst, mirrored, spilled, behind, totals[SPILLED], emptied, num_emptied)
    num_overlong = totals[OVERLONG]
    return Probe(
        places,
        totals[FOUND],
        totals[FOUND_LOOPS],
        totals[NEEDED],
        totals[POOL_USED],
        totals[POOL_FREE],
        overlong[:num_overlong] if num_overlong else None,
        tasks,
    )
