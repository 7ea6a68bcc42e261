"""Merging a whole packed memory array and a batch into fresh slots on CUDA: all edges are read and written once.

Slot s of c shows element floor(((s + 1) n - 1) / c) of n. So the rank of an edge, the number of edges and new keys
before it, gives its slots directly. Validity bits follow from n and c alone, and the start of a row from the number of
elements in the rows before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dynstore.cuda.block import BOARD, d_scan_tile
from dynstore.cuda.compiler import SIMULATED, WARP, cuda, device, kernel
from dynstore.cuda.grid import CONTROL_SIZE, d_chunk, d_leave_sum, d_sum_blocks_before, d_sync_grid
from dynstore.cuda.launch import Packed
from dynstore.cuda.warp import d_count_lower, d_lane
from dynstore.stores.pma.cuda.rebalance import Writing
from dynstore.stores.pma.cuda.records import EdgeArrays
from dynstore.stores.pma.cuda.redistribute import (
    d_bound_places,
    d_count_not_above,
    d_count_valid_before,
    d_divide_by,
    d_read_slot,
)
from dynstore.stores.pma.cuda.row_offsets import far_rows_size
from dynstore.stores.pma.cuda.windows import d_count_blocks, d_scan_counts, grant_window, one_window
from dynstore.stores.table.cuda.arguments import with_weights
from dynstore.stores.table.cuda.search import d_find_lower_bound
from dynstore.stores.table.slots import ABSENT, PRESENT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dynstore.backend import Backend
    from dynstore.batches.sorted import Batch
    from dynstore.stores.table.slots import SearchResult, SlotArrays
    from dynstore.typing import Array

__all__ = ["Merging", "merge", "plan_merge", "plan_spread"]

# Neighbouring leaves of a warp, whose edges are counted together (``windows.d_count_blocks``); row offsets of a warp.
LEAVES_TOGETHER = 32
ROWS = 64 if SIMULATED else 256
ONE = np.uint32(1)


class Merging(NamedTuple):
    """What merging a table and a batch into fresh slots takes.

    Attributes
    ----------
    before : array
        Edges before each block of leaves of the table.
    places : array
        The slots of the table that the absent keys go before.
    added : Columns
        These keys.
    """

    before: Array
    places: Array
    added: EdgeArrays


@kernel
def k_list_new(
    num_leaves, valid, edge_src, edge_dst, edge_weights, positions, states, before, places, new_src, new_dst,
    new_weights, control,
):  # fmt: skip
    """List the keys without an edge in order, and count the edges before each block of leaves; one grid wait.

    Each thread block owns neighbouring keys.
    """
    board = cuda.shared.array(BOARD, np.int64)
    first, end = d_chunk(np.int64(states.shape[0]))
    counts, listed = before[1:], np.int64(0)
    for i in range(first + cuda.threadIdx.x, end, cuda.blockDim.x):
        listed += states[i] != PRESENT
    d_leave_sum(control, ABSENT, listed, board)
    d_count_blocks(valid, np.int64(num_leaves), counts, control, board)
    d_sync_grid(control, 1)
    d_scan_counts(counts, control, board)
    if cuda.grid(1) == 0:
        before[0] = 0
    base, rank = first, d_sum_blocks_before(control, ABSENT, board)
    while base < end:
        i, is_new = base + cuda.threadIdx.x, False
        if i < end:
            is_new = states[i] != PRESENT
        ahead, total = d_scan_tile(1 if is_new else 0, board)
        if is_new:
            to = rank + ahead
            places[to], new_src[to], new_dst[to] = positions[i], edge_src[i], edge_dst[i]
            if new_weights.shape[0] > 0:
                new_weights[to] = edge_weights[i]
        rank += total
        base += cuda.blockDim.x


@device
def d_find_slots(rank, num_elements, num_slots, inverse):
    """Return the first slot that shows the element of a rank, and the last + 1; ``inverse``: 1 / ``num_elements``."""
    dividend = rank * num_slots
    slot = d_divide_by(dividend, num_elements, inverse)
    rest = dividend - slot * num_elements + num_slots
    end = slot + 1
    while rest >= num_elements + num_elements:
        rest -= num_elements
        end += 1
    return slot, end


@device
def d_show_element(row, column, weights, at, slot, end, out):
    """Write an element to its slots, at least one, with the weight ``weights[at]`` if there are weights."""
    place, stop, weighted = np.uint64(slot), np.uint64(end), out.weights.shape[0] > 0
    following, third = place + np.uint64(1), place + np.uint64(2)
    out.src[place] = row
    out.dst[place] = column
    if weighted:
        out.weights[place] = weights[at]
    if following < stop:
        out.src[following] = row
        out.dst[following] = column
        if weighted:
            out.weights[following] = weights[at]
    if third < stop:  # the loop starts here, so that most elements need none
        for more in range(np.int64(third), np.int64(stop)):
            out.src[more] = row
            out.dst[more] = column
            if weighted:
                out.weights[more] = weights[at]


@device
def d_read_leaf(places, i, num_leaves):
    """Return the leaf whose warp writes a key, int32: its place's, at most the last; -1 if there is no such key."""
    return np.int32(min(places[i] >> 5, num_leaves - 1)) if i < places.shape[0] else np.int32(-1)


@device
def d_start_slots(rank, num_elements, num_slots, inverse):
    """Return the first slot that shows the element of a rank, and the remainder plus a half, float64."""
    dividend = rank * num_slots
    slot = d_divide_by(dividend, num_elements, inverse)
    return slot, np.float64(dividend - slot * num_elements) + np.float64(0.5)


@kernel
def k_merge_all(
    src, dst, weights, valid, before, places, new_src, new_dst, new_weights, elements, slots, num_elements, num_slots,
    out_src, out_dst, out_weights,
):  # fmt: skip
    """One warp owns neighbouring leaves and finds once which keys go before; ``before``: edges before each 32 leaves.

    The rank of an element is the number of edges and keys before it; it gives the slots to write. A lane owns a slot of
    the table, and some of the keys of a leaf that has any; while a leaf is written, the next two are read. The slots of
    a leaf without keys are counted from its first one in float64. This is exact: sums are whole numbers below 2^53, and
    the half keeps quotients further from the next whole number than their error. ``elements``, ``slots``:
    ``num_elements`` and ``num_slots`` as float64, converted once.
    """
    lane, block, num_leaves = d_lane(), np.int64(cuda.grid(1) >> 5), np.int64(src.shape[0] >> 5)
    first, end = np.int32(block * LEAVES_TOGETHER), np.int32(min((block + 1) * LEAVES_TOGETHER, num_leaves))
    if first >= end:
        return
    out = EdgeArrays(out_src, out_dst, out_weights)
    final, inverse, mine = np.int32(end - 1), np.float64(1) / elements, np.uint32(ONE << np.uint32(lane))
    lower = np.uint32(mine - ONE)
    edges, below = (
        np.int64(before[block]),
        d_find_lower_bound(places, np.int64(0), places.shape[0], np.int64(first) * 32),
    )
    slot, rest = d_start_slots(edges + below, num_elements, num_slots, inverse)
    next_leaf = d_read_leaf(places, below, num_leaves)
    next_word, next_row, next_column = d_read_slot(src, dst, valid, first)
    third_word, third_row, third_column = d_read_slot(src, dst, valid, min(np.int32(first + 1), final))
    for leaf in range(first, end):
        word, row, column = next_word, next_row, next_column
        next_word, next_row, next_column = third_word, third_row, third_column
        third_word, third_row, third_column = d_read_slot(src, dst, valid, min(np.int32(leaf + 2), final))
        base, is_valid, count = np.int64(leaf) * 32, np.uint32(word & mine) != 0, np.int32(cuda.popc(word))
        if next_leaf != leaf:  # the same in all lanes
            dividend = rest + np.float64(np.int32(cuda.popc(np.uint32(word & lower)))) * slots
            if is_valid:
                begin = slot + np.int32(dividend * inverse)
                stop = slot + np.int32((dividend + slots) * inverse)
                d_show_element(row, column, weights, base + lane, begin, stop, out)
            dividend = rest + np.float64(count) * slots
            step = np.int32(dividend * inverse)
            slot, rest = slot + step, dividend - np.float64(step) * elements
            edges += count
        else:
            last = base + 31 if leaf + 1 < num_leaves else base + 32
            bound = d_bound_places(places, below, np.int64(places.shape[0]), last)
            next_leaf = d_read_leaf(places, bound, num_leaves)
            if is_valid:
                rank = edges + d_count_lower(word, lane) + d_count_not_above(places, below, bound, base + lane)
                begin, stop = d_find_slots(rank, num_elements, num_slots, inverse)
                d_show_element(row, column, weights, base + lane, begin, stop, out)
            for i in range(below + lane, bound, WARP):
                place = places[i] - base
                rank = edges + i + (np.int64(count) if place > 31 else d_count_lower(word, place))
                begin, stop = d_find_slots(rank, num_elements, num_slots, inverse)
                d_show_element(new_src[i], new_dst[i], new_weights, i, begin, stop, out)
            edges += count
            below = bound
            slot, rest = d_start_slots(edges + below, num_elements, num_slots, inverse)


@kernel
def k_update_weights(valid, before, places, positions, states, edge_weights, add, num_elements, num_slots, out_weights):
    """One thread owns one key of the batch; a present one changes its edge's weight at the new slots."""
    i = cuda.grid(1)
    if i < positions.shape[0] and states[i] == PRESENT:
        place = positions[i]
        rank = d_count_valid_before(valid, before, 0, place) + d_count_not_above(places, 0, places.shape[0], place)
        slot, end = d_find_slots(rank, num_elements, num_slots, np.float64(1) / np.float64(num_elements))
        weight = out_weights[slot] + edge_weights[i] if add else edge_weights[i]
        for at in range(slot, end):
            out_weights[at] = weight


@kernel
def k_write_bits_and_rows(offsets, valid, before, new_src, num_elements, num_slots, out_valid, out_offsets):
    """One thread owns a word of validity bits; one warp owns some row offsets, and finds their rows' new keys once.

    The rank of a row's first element is the number of edges and new keys in the rows before.
    """
    thread, inverse = np.int64(cuda.grid(1)), np.float64(1) / np.float64(num_elements)
    if thread < num_slots >> 5:
        rest, word = ((thread * 32 + 1) * num_elements - 1) % num_slots, np.uint32(0)
        for bit in range(32):  # the first slot to show an element is the one whose remainder is below their number
            if rest < num_elements:
                word = np.uint32(word | np.uint32(ONE << np.uint32(bit)))
            rest += num_elements
            if rest >= num_slots:
                rest -= num_slots
        out_valid[thread] = word
    first, num_new = (thread >> 5) * ROWS, np.int64(new_src.shape[0])
    end = min(first + ROWS, np.int64(out_offsets.shape[0]))
    if first < end:
        below = d_find_lower_bound(new_src, np.int64(0), num_new, first)
        bound = d_find_lower_bound(new_src, below, num_new, end - 1)
        for row in range(first + d_lane(), end, WARP):
            elements = d_count_valid_before(valid, before, 0, np.int64(offsets[row]))
            elements += d_find_lower_bound(new_src, below, bound, row)
            out_offsets[row] = d_divide_by(elements * num_slots, num_elements, inverse)


def plan_merge(
    backend: Backend, old: SlotArrays, batch: Batch, located: SearchResult | None, reserve: Callable[[], SlotArrays]
) -> tuple[SlotArrays, Merging]:
    """Reserve fresh slots, and what a merge of a table and a batch into them needs; ``located=None`` for no batch.

    The host does not wait: the GPU lists the keys while memory is reserved.
    """
    listed, num_new = (None, 0) if located is None else (located.listed, batch.count_edges() - located.found)
    num_leaves, dtype = old.num_slots >> 5, old.src.dtype
    weights = old.src[:0] if old.weights is None else old.weights
    control, before, places, *added = backend.empty_arena(
        (CONTROL_SIZE, np.int64), (((num_leaves + 31) >> 5) + 1, np.int64), (num_new, np.int64), (num_new, dtype),
        (num_new, dtype), (0 if old.weights is None else num_new, weights.dtype), zeroed=1,
    )  # fmt: skip
    if listed is not None:
        listed.start_ordering(old, before, places, *added[:2], control)
    else:
        positions, states = places, backend.nothing(np.uint8)
        edges = with_weights(old.src[:0], old.dst[:0], weights[:0])
        if located is not None:
            positions, states = located.positions, located.states
            new_edges = batch.materialized()
            edges = with_weights(new_edges.src, new_edges.dst, new_edges.weights)
        k_list_new.launch_resident(
            max(states.shape[0], num_leaves >> 3, 1),
            num_leaves, old.valid, *edges, positions, states, before, places, *added, control,
        )  # fmt: skip
    return reserve(), Merging(before, places, EdgeArrays(*added))


def plan_spread(backend: Backend, new: SlotArrays, scratch: Sequence[Array]) -> Writing:
    """Return the plan that writes all edges from scratch to ``new``."""
    num_leaves, nothing = new.num_slots >> 5, backend.nothing(np.int64)
    far_rows = backend.zeros(far_rows_size(new.num_vertices), np.int64)
    window, granted = one_window(backend, num_leaves, 0, new.num_edges), grant_window(backend, num_leaves, 0)
    return Writing(window, granted, nothing, nothing, nothing, Packed(*scratch), far_rows)


def merge(
    backend: Backend, old: SlotArrays, batch: Batch, located: SearchResult | None, add: bool, new: SlotArrays,
    plan: Merging,
) -> None:  # fmt: skip
    """Write the union of a table and a batch to ``new``, whose ``num_edges`` is its size."""
    sizes = new.num_edges, new.num_slots
    out = with_weights(new.src, new.dst, new.weights)
    k_merge_all.launch_warps(
        -(-(old.num_slots >> 5) // LEAVES_TOGETHER),
        *with_weights(old.src, old.dst, old.weights), old.valid, plan.before, plan.places, *plan.added,
        *map(float, sizes), *sizes, *out,
    )  # fmt: skip
    if located is not None and batch.has_weights:
        edges = batch.materialized()
        k_update_weights.launch(
            edges.num_rows,
            old.valid, plan.before, plan.places, located.positions, located.states, edges.weights, add, *sizes, out[2],
        )  # fmt: skip
    k_write_bits_and_rows.launch(
        max(new.num_slots >> 5, WARP * -(-(new.num_vertices + 1) // ROWS)),
        old.offsets, old.valid, plan.before, plan.added[0], *sizes, new.valid, new.offsets,
    )  # fmt: skip
