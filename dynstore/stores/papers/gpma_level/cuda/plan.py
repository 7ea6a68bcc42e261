"""Choosing the windows of an update level by level on CUDA, as in GPMA+'s paper: one kernel a level.

M. Sha, Y. Li, B. He, K.-L. Tan, "Accelerating Dynamic Graph Analytics on GPUs", PVLDB 11(1), 2017, section 5.2
(algorithm 4). At each height the sorted updates are grouped by segment. A segment with room takes its updates, which
are then done; the others are compacted and go on at the next height. The paper writes each height before the next. Here
all levels are planned before anything is written, so an update that runs out of memory changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.cuda.block import BOARD, d_scan_tile
from dynstore.cuda.compiler import WARP, cuda, device, kernel
from dynstore.cuda.grid import CONTROL_SIZE, d_chunk, d_leave_sum, d_sum_blocks_before, d_sync_grid, read_totals
from dynstore.stores.pma.cuda.locate import FOUND_LOOPS, d_locate_keys
from dynstore.stores.pma.cuda.records import Items, SearchedSlots
from dynstore.stores.table.cuda.search import d_find_lower_bound
from dynstore.stores.table.slots import ABSENT, PRESENT, TOMBSTONE, SearchResult

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.batches.sorted import EdgeBatch
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["Found", "Level", "Listed", "PlannedLevels", "Updates", "plan_levels"]

# Entries of the sums: behind those of the states and the self-loops; those of a level.
COUNTS = 4
REFUSED, PLACED, NUM_WINDOWS = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Level:
    """The windows of one height, ascending and disjoint.

    Attributes
    ----------
    height : int
    first, end : array, shape (W,), int64
        First leaf and last leaf + 1 of each.
    low : array, shape (W,), int64
        The first key of each window among the level's ``keys``; they go up to the next window's.
    keys : array, shape (K,), int64
        Rows of the batch to merge; none for a deletion.
    num_leaves : int
        An upper bound of the leaves in the windows.
    """

    height: int
    first: Array
    end: Array
    low: Array
    keys: Array
    num_leaves: int


@dataclass(frozen=True, slots=True)
class PlannedLevels:
    """The located keys, and the levels with windows, lowest first; None if the root would leave its limit."""

    located: SearchResult
    levels: list[Level] | None
    num_tombstones: int


@device
def d_count_blocks(valid, num_leaves, before, control, board):
    """Leave the sums of the edges in blocks of 32 leaves, a thread a block; ``before`` gets each block's own count."""
    first, end = d_chunk(np.int64(before.shape[0] - 1))
    total = np.int64(0)
    for block in range(first + cuda.threadIdx.x, end, cuda.blockDim.x):
        count = np.int64(0)
        for leaf in range(block << 5, min((block + 1) << 5, num_leaves)):
            count += np.int64(cuda.popc(valid[leaf]))
        before[block + 1] = count
        total += count
    d_leave_sum(control, COUNTS, total, board)


@device
def d_sum_counts(before, control, board):
    """Turn the blocks' counts into running sums, each included."""
    base, end = d_chunk(np.int64(before.shape[0] - 1))
    rank = d_sum_blocks_before(control, COUNTS, board)
    while base < end:
        block = base + cuda.threadIdx.x
        count = before[block + 1] if block < end else np.int64(0)
        below, total = d_scan_tile(count, board)
        if block < end:
            before[block + 1] = rank + below + count
        rank += total
        base += cuda.blockDim.x


@kernel
def k_list_updates(
    offsets, dst, valid, num_vertices, edge_src, edge_dst, inserting, positions, states, keys, leaves, tombstone_leaves,
    before, control,
):  # fmt: skip
    """Locate the keys; list in order those that change a leaf, their leaves, and the leaves of tombstones.

    An absent key belongs to the leaf of the slot before its place. The edges before each block of 32 leaves are
    counted, too. One grid wait, between the two phases.
    """
    board = cuda.shared.array(BOARD, np.int64)
    count, listed = np.int64(edge_src.shape[0]), ABSENT if inserting else PRESENT
    searched = SearchedSlots(offsets, dst, valid, num_vertices)
    d_locate_keys(searched, edge_src, edge_dst, count, positions, states, control, board)
    d_count_blocks(valid, np.int64(dst.shape[0] >> 5), before, control, board)
    if cuda.grid(1) == 0:
        before[0] = 0
    d_sync_grid(control, 1)
    d_sum_counts(before, control, board)
    base, end = d_chunk(count)
    rank, dead_rank = d_sum_blocks_before(control, listed, board), d_sum_blocks_before(control, TOMBSTONE, board)
    while base < end:
        i = base + cuda.threadIdx.x
        state, position = np.int64(-1), np.int64(0)
        if i < end:
            state, position = np.int64(states[i]), positions[i]
        below, total = d_scan_tile(1 if state == listed else 0, board)
        if state == listed:
            keys[rank + below] = i
            leaves[rank + below] = max(position - 1, np.int64(0)) >> 5 if inserting else position >> 5
        rank += total
        below, total = d_scan_tile(1 if state == TOMBSTONE else 0, board)
        if state == TOMBSTONE:
            tombstone_leaves[dead_rank + below] = position >> 5
        dead_rank += total
        base += cuda.blockDim.x


@device
def d_count_between(leaves, count, first, end):
    """Return how many of ``count`` ascending leaves are in [first, end)."""
    low = d_find_lower_bound(leaves, np.int64(0), count, first)
    return d_find_lower_bound(leaves, low, count, end) - low


@device
def d_may_write(valid, before, items, first, end, limit):
    """Return whether the leaves [first, end) stay within the limit, updates placed at lower heights included."""
    if end - first > WARP:
        count = before[(end + 31) >> 5] - before[first >> 5]
    else:
        count = np.int64(0)
        for leaf in range(first, end):
            count += np.int64(cuda.popc(valid[leaf]))
    changed, bound = d_count_between(items.leaves, items.num_items, first, end), limit * ((end - first) * 32)
    if items.change > 0:
        return count + changed + d_count_between(items.tombstone_leaves, items.num_tombstones, first, end) <= bound
    return count - changed >= bound


@device
def d_find_head(leaves, k, height):
    """Return the first item of the segment that item ``k`` is in. It is quick if that is near."""
    segment, step = (leaves[k] >> height) << height, np.int64(1)
    high = np.int64(k)
    while high - step >= 0 and leaves[high - step] >= segment:
        high -= step
        step += step
    return d_find_lower_bound(leaves, max(high - step, np.int64(-1)) + 1, high, segment)


class Listed(NamedTuple):
    """The leaves of all updates, ascending, and those of the tombstones that are restored."""

    leaves: Array
    num_items: Any
    tombstone_leaves: Array
    num_tombstones: Any


class Updates(NamedTuple):
    """The updates that a height gets, or leaves to the next one: their keys and leaves."""

    keys: Array
    leaves: Array


class Found(NamedTuple):
    """What a height finds: the keys of the updates that are done, and the windows as in :class:`Level`."""

    placed: Array
    first: Array
    end: Array
    low: Array


@partial(kernel, records={"listed": Listed, "updates": Updates, "remaining": Updates, "found": Found})
def k_climb_level(
    valid, before, listed, updates, count, height, limit, at_top, num_leaves, inserting, verdicts, remaining, found,
    control,
):  # fmt: skip
    """Test the segments that have updates at one height; list the windows, the updates done, and those that go on.

    Three phases with grid waits between: the first update of each segment tests it; each update reads the result; all
    are written to their ranks.
    """
    board = cuda.shared.array(BOARD, np.int64)
    change, keys, leaves = 1 if inserting else -1, updates.keys, updates.leaves
    items = Items(listed.leaves, listed.num_items, listed.tombstone_leaves, listed.num_tombstones, change)
    chunk_first, chunk_end = d_chunk(np.int64(count))
    for k in range(chunk_first + cuda.threadIdx.x, chunk_end, cuda.blockDim.x):
        leaf = np.int64(leaves[k])
        if k == 0 or leaves[k - 1] >> height != leaf >> height:
            first = (leaf >> height) << height
            end = min(first + (np.int64(1) << height), num_leaves)
            fits = at_top or d_may_write(valid, before, items, first, end, limit)
            verdicts[k] = 1 if fits else 0
    d_sync_grid(control, 1)
    refused, windows = np.int64(0), np.int64(0)
    moving = inserting or height > 0  # a leaf that stays dense enough is not compacted
    for k in range(chunk_first + cuda.threadIdx.x, chunk_end, cuda.blockDim.x):
        head = d_find_head(leaves, k, height)
        verdict = np.int64(verdicts[head])
        refused += 1 - verdict
        windows += verdict if moving and head == k else 0
    d_leave_sum(control, REFUSED, refused, board)
    d_leave_sum(control, NUM_WINDOWS, windows, board)
    d_sync_grid(control, 2)
    base, rank = chunk_first, d_sum_blocks_before(control, REFUSED, board)
    window = d_sum_blocks_before(control, NUM_WINDOWS, board)
    while base < chunk_end:
        k = base + cuda.threadIdx.x
        verdict, head = np.int64(-1), np.int64(-1)
        if k < chunk_end:
            head = d_find_head(leaves, k, height)
            verdict = np.int64(verdicts[head])
        below, total = d_scan_tile(1 if verdict == 0 else 0, board)
        if verdict == 0:
            remaining.keys[rank + below] = keys[k]
            remaining.leaves[rank + below] = leaves[k]
        elif verdict == 1:
            found.placed[k - rank - below] = keys[k]
        leads = moving and verdict == 1 and head == k
        place = k - rank - below
        rank += total
        below, total = d_scan_tile(1 if leads else 0, board)
        if leads:
            first = (leaves[k] >> height) << height
            found.first[window + below] = first
            found.end[window + below] = min(first + (np.int64(1) << height), num_leaves)
            found.low[window + below] = place if inserting else np.int64(0)
        window += total
        base += cuda.blockDim.x


def plan_levels(
    backend: Backend, slots: SlotArrays, batch: EdgeBatch, limits: np.ndarray, inserting: bool
) -> PlannedLevels:
    """Locate a batch and go up the levels until each key has its window; one read-back a level.

    Parameters
    ----------
    limits : array
        The highest density of each height; for a deletion the lowest.
    """
    size, num_leaves, top, kind = len(batch), slots.num_slots >> 5, len(limits) - 1, np.int64
    num_blocks = (num_leaves + 31) >> 5
    control, positions, keys, leaves, tombstone_leaves, before, states = backend.empty_arena(
        (CONTROL_SIZE, kind), (size, kind), (size, kind), (size, kind), (size, kind), (num_blocks + 1, kind),
        (size, np.uint8), zeroed=1,
    )  # fmt: skip
    k_list_updates.launch_resident(
        max(size, num_blocks),
        slots.offsets, slots.dst, slots.valid, slots.num_vertices, batch.src, batch.dst, inserting,
        positions, states, keys, leaves, tombstone_leaves, before, control,
    )  # fmt: skip
    counts = read_totals(backend, control)
    located = SearchResult(positions, states, counts[PRESENT], counts[FOUND_LOOPS] if batch.num_loops else 0)
    total = slots.num_edges + size - located.found if inserting else slots.num_edges - located.found
    bound = limits[-1] * slots.num_slots
    if total > bound if inserting else total < bound:
        return PlannedLevels(located, None, counts[TOMBSTONE])
    count = num_items = counts[ABSENT] if inserting else counts[PRESENT]
    num_tombstones, all_leaves, levels = counts[TOMBSTONE], leaves, []
    placed, first, end, low, *lists, verdicts = backend.empty_arena(*((num_items, kind),) * 8, (num_items, np.int8))
    turns = [(lists[0], lists[1]), (lists[2], lists[3])]
    done = num_windows = height = 0
    while count:
        control = backend.zeros(CONTROL_SIZE, kind)
        next_keys, next_leaves = turns[height & 1]
        k_climb_level.launch_resident(
            count,
            slots.valid, before, all_leaves, num_items, tombstone_leaves, num_tombstones, keys, leaves, count, height,
            float(limits[height]), height == top, num_leaves, inserting, verdicts, next_keys, next_leaves,
            placed[done:], first[num_windows:], end[num_windows:], low[num_windows:], control,
        )  # fmt: skip
        counts = read_totals(backend, control)
        num_placed, num_new = count - counts[REFUSED], counts[NUM_WINDOWS]
        if num_new:
            chosen = slice(num_windows, num_windows + num_new)
            merged = placed[done : done + num_placed] if inserting else placed[:0]
            most_leaves = min(num_new << height, num_leaves)
            levels.append(Level(height, first[chosen], end[chosen], low[chosen], merged, most_leaves))
        keys, leaves, count = next_keys, next_leaves, counts[REFUSED]
        done, num_windows, height = done + num_placed, num_windows + num_new, height + 1
    return PlannedLevels(located, levels, num_tombstones)
