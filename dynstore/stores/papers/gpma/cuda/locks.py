"""GPMA on CUDA: insertions in rounds, one key a segment and round, by locks that the lowest key of a segment gets.

M. Sha, Y. Li, B. He, K.-L. Tan, "Accelerating Dynamic Graph Analytics on GPUs", PVLDB 11(1), 2017, section 4. A round
is one launch to find the leaves and one a height: the launch is the paper's barrier. In the paper the first key to try
a lock gets it. Here the lowest key does, so that the same batch always gives the same slots. That takes no additional
launch: a key that climbs claims the parent, and the next launch looks whether it got it. A claim carries the number of
its round, so locks are never released.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from dynstore.batches.unsorted import RawEdges
from dynstore.cuda.block import d_claim
from dynstore.cuda.compiler import cuda, device, kernel, prepare
from dynstore.cuda.warp import d_lane, d_sum_lanes
from dynstore.stores.papers.gpma.cuda.respread import d_respread
from dynstore.stores.pma.cuda.delete import find_present
from dynstore.stores.pma.cuda.records import EdgeArrays
from dynstore.stores.pma.cuda.redistribute import k_set_located
from dynstore.stores.pma.cuda.segment_offsets import d_fill_edge_rows
from dynstore.stores.table.cuda.search import d_find_edge, d_find_lower_bound
from dynstore.stores.table.slots import ABSENT, PRESENT, SearchResult

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.batches.sorted import Batch, EdgeBatch
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["Rounds", "insert_in_rounds", "locate_batch", "plan_rounds"]

# The counters: keys that climb on, from even and from odd heights, and keys that wait for the next round.
WAITING, NUM_COUNTERS = 2, 3
# The counters while a batch is located.
NUM_ABSENT, NUM_PRESENT, NUM_LOOPS = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Rounds:
    """The keys to insert, and all memory that inserting them takes.

    ``lists``: rows of the batch, in any order: absent keys, room for those of the next round, and twice for those that
    climb; ``leaves``, ``heights``: for each row of the batch, its leaf and the height of the segment that took it, -1
    if it was not placed in this round; ``locks``: the last claim on each segment, numbered as in a heap.
    """

    num_keys: int
    lists: list[Array]
    leaves: Array
    heights: Array
    locks: Array
    counters: Array


@kernel
def k_locate_updates(offsets, dst, valid, num_vertices, edge_src, edge_dst, positions, states, absent, counters):
    """One thread owns one key: its lower bound inside its row, and its state. Absent keys are listed.

    Counts the states (atomic adds, one a warp). The list has no order.
    """
    i = np.int64(cuda.grid(1))
    state, loop = np.int64(-1), False
    if i < edge_src.shape[0]:
        row = np.int64(edge_src[i])
        position, found = d_find_edge(offsets, dst, valid, num_vertices, row, edge_dst[i])
        positions[i] = position
        states[i] = found
        state = np.int64(found)
        loop = found == PRESENT and row == edge_dst[i]
    place = d_claim(counters, NUM_ABSENT, state == ABSENT)
    if state == ABSENT:
        absent[place] = i
    present = d_sum_lanes(np.int64(1 if state == PRESENT else 0))
    loops = d_sum_lanes(np.int64(1 if loop else 0))
    if d_lane() == 0 and present > 0:
        cuda.atomic.add(counters, NUM_PRESENT, present)
        cuda.atomic.add(counters, NUM_LOOPS, loops)


@device
def d_stamp(turn, size, i):
    """Return what key ``i`` of ``size`` writes to a lock: more in a later round, and more for a lower key."""
    return turn * (size + 1) + (size - i)


@kernel
def k_claim_leaves(offsets, dst, new_src, new_dst, keys, num_keys, turn, top, leaves, heights, locks, counters):
    """One thread owns one key: find its leaf and claim it (atomic max). Row offsets have to be right."""
    place = cuda.grid(1)
    if place < NUM_COUNTERS:
        counters[place] = 0
    if place < num_keys:
        i = keys[place]
        row = np.int64(new_src[i])
        slot = d_find_lower_bound(dst, np.int64(offsets[row]), np.int64(offsets[row + 1]), new_dst[i])
        leaf = max(slot - 1, np.int64(0)) >> 5
        leaves[i] = leaf
        heights[i] = -1
        cuda.atomic.max(locks, (np.int64(1) << top) + leaf, d_stamp(turn, np.int64(new_src.shape[0]), i))


@partial(kernel, records={"edges": EdgeArrays, "new": EdgeArrays})
def k_try_segments(
    edges, valid, offsets, new, keys, num_keys, turn, height, top, limit, leaves, heights, locks, climbing, waiting,
    counters,
):  # fmt: skip
    """One warp owns one key that claimed a segment of ``height``; ``limit``: the highest density of such a segment.

    A key that lost its claim waits for the next round. A key without room claims the parent (atomic max). Otherwise the
    segment is redistributed with the key. A segment gets at most one key here, and segments of one height are disjoint.
    """
    warp = np.int64(cuda.grid(1) >> 5)
    if warp == 0 and d_lane() == 0:
        counters[1 - (height & 1)] = 0  # the counter of the next height
    if warp < num_keys:
        i = keys[warp]
        leaf, num_leaves = leaves[i], np.int64(edges.src.shape[0] >> 5)
        node, stamp = (np.int64(1) << (top - height)) + (leaf >> height), d_stamp(turn, np.int64(new.src.shape[0]), i)
        if locks[node] != stamp:
            if d_lane() == 0:
                waiting[cuda.atomic.add(counters, WAITING, 1)] = i
        else:
            first = (leaf >> height) << height
            end = min(first + (np.int64(1) << height), num_leaves)
            count, other = np.int64(0), first + d_lane()
            while other < end:
                count += np.int64(cuda.popc(valid[other]))
                other += 32
            count = d_sum_lanes(count)
            if height == top or count + 1 <= limit * ((end - first) * 32):
                d_respread(edges, valid, offsets, first * 32, end * 32, new, i)
                if d_lane() == 0:
                    heights[i] = height
            elif d_lane() == 0:
                climbing[cuda.atomic.add(counters, height & 1, 1)] = i
                cuda.atomic.max(locks, node >> 1, stamp)


@kernel
def k_write_round_rows(src, offsets, keys, num_keys, leaves, heights):
    """Two threads own one key of a round: write the row offsets at either edge of the segment that took it."""
    place, at_end = np.int64(cuda.grid(1) >> 1), cuda.grid(1) & 1
    leaf, height = np.int64(0), np.int64(-1)
    if place < num_keys:
        height = np.int64(heights[keys[place]])
        if height >= 0:
            leaf = (leaves[keys[place]] >> height) << height
            if at_end:
                leaf = min(leaf + (np.int64(1) << height), np.int64(src.shape[0] >> 5))
    d_fill_edge_rows(src, offsets, leaf, height >= 0)


def _locate(backend: Backend, slots: SlotArrays, batch: EdgeBatch) -> tuple[SearchResult, Array, int]:
    """Return the located keys, and a list of the absent ones with its length."""
    size = len(batch)
    counters, positions, absent, states = backend.empty_arena(
        (NUM_COUNTERS, np.int64), (size, np.int64), (size, np.int64), (size, np.uint8), zeroed=1
    )
    k_locate_updates.launch(
        size,
        slots.offsets, slots.dst, slots.valid, slots.num_vertices, batch.src, batch.dst, positions, states, absent,
        counters,
    )  # fmt: skip
    counts = backend.to_host(counters).tolist()
    loops = counts[NUM_LOOPS] if batch.num_loops else 0
    return SearchResult(positions, states, counts[NUM_PRESENT], loops), absent, counts[NUM_ABSENT]


def locate_batch(backend: Backend, slots: SlotArrays, batch: Batch) -> SearchResult:
    """Find the keys of a batch and count the present ones: one launch and one read-back, and no sort."""
    edges = batch.known()
    if isinstance(edges, RawEdges):
        return find_present(backend, slots, edges, 0.0)[0]
    return _locate(backend, slots, edges.materialized())[0]


def plan_rounds(
    backend: Backend, slots: SlotArrays, batch: Batch, limits: np.ndarray
) -> tuple[SearchResult, Rounds | None]:
    """Find the keys of a batch and reserve what inserting the absent ones takes.

    ``limits``: the highest density of each height. No rounds if the root would be denser.
    """
    edges = batch.materialized()
    located, absent, num_absent = _locate(backend, slots, edges)
    if len(edges) - located.found > slots.room_at(limits[-1]):
        return located, None
    size, kind = len(edges), np.int64
    locks, counters, next_keys, climbing, climbing_on, leaves, heights = backend.empty_arena(
        (2 << (len(limits) - 1), kind), (NUM_COUNTERS, kind), (num_absent, kind), (num_absent, kind),
        (num_absent, kind), (size, kind), (size, np.int8), zeroed=2,
    )  # fmt: skip
    lists = [absent, next_keys, climbing, climbing_on]
    return located, Rounds(num_absent, lists, leaves, heights, locks, counters)


def insert_in_rounds(
    backend: Backend,
    slots: SlotArrays,
    batch: Batch,
    located: SearchResult,
    rounds: Rounds,
    limits: np.ndarray,
    add: bool,
) -> None:
    """Write an insertion into the slots. Each height of each round ends with a read-back of three counters.

    The launches of a round are therefore prepared before anything is written.
    """
    weights = slots.src[:0] if slots.weights is None else slots.weights
    edges = batch.materialized()
    new_weights = edges.src[:0] if edges.weights is None else edges.weights
    top, num_keys, turn = len(limits) - 1, rounds.num_keys, 0
    keys, next_keys, *climbing = rounds.lists
    places = rounds.leaves, rounds.heights

    def claim_leaves() -> None:
        k_claim_leaves.launch(
            num_keys,
            slots.offsets, slots.dst, edges.src, edges.dst, keys, num_keys, turn, top, *places, rounds.locks,
            rounds.counters,
        )  # fmt: skip

    def try_segments(climbers: Array, num_climbers: int, height: int) -> None:
        k_try_segments.launch_warps(
            num_climbers,
            slots.src, slots.dst, weights, slots.valid, slots.offsets, edges.src, edges.dst, new_weights,
            climbers, num_climbers, turn, height, top, float(limits[height]), *places, rounds.locks,
            climbing[height & 1], next_keys, rounds.counters,
        )  # fmt: skip

    def write_rows() -> None:
        k_write_round_rows.launch(2 * num_keys, slots.src, slots.offsets, keys, num_keys, *places)

    prepare(claim_leaves)
    prepare(try_segments, keys, num_keys, 0)
    prepare(write_rows)
    k_set_located.launch(len(edges), weights, slots.valid, located.positions, located.states, new_weights, add)
    while num_keys:
        claim_leaves()
        climbers, num_climbers, height, counts = keys, num_keys, 0, [0] * NUM_COUNTERS
        while num_climbers:
            try_segments(climbers, num_climbers, height)
            counts = backend.to_host(rounds.counters).tolist()
            climbers, num_climbers, height = climbing[height & 1], counts[height & 1], height + 1
        write_rows()
        keys, next_keys, num_keys, turn = next_keys, keys, counts[WAITING], turn + 1
