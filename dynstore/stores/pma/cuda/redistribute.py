"""Gathering a packed memory array's windows to scratch, in order, and spreading them back, on CUDA."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dynstore.cuda.compiler import WARP, cuda, device, kernel
from dynstore.cuda.grid import d_sync_grid
from dynstore.cuda.warp import d_ballot, d_count_lower, d_lane, d_shuffle, d_sum_lanes
from dynstore.stores.pma.cuda.records import EdgeArrays, Located, NewKeys, ScratchWindows
from dynstore.stores.pma.cuda.row_offsets import d_write_far_rows, d_write_rows_by_warp
from dynstore.stores.pma.cuda.windows import KEYS, ROWS, SCRATCH_LEAVES, WINDOWS, d_count_before_leaf
from dynstore.stores.table.slots import ABSENT, PRESENT, TOMBSTONE

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = [
    "GatheredWindows",
    "d_bound_places",
    "d_count_before_by_warp",
    "d_count_before_lanes",
    "d_count_not_above",
    "d_count_valid_before",
    "d_divide",
    "d_divide_by",
    "d_find_place_by_warp",
    "d_find_window",
    "d_read_slot",
    "d_write_edge_rows",
    "k_clear_located",
    "k_gather_windows",
    "k_place_keys",
    "k_set_located",
    "k_spread_edges",
    "k_write_edge_rows",
]


@device
def d_count_not_above(places, low, high, slot):
    """Return the first index in [low, high) whose place is above ``slot``, else ``high``."""
    while low < high:
        middle = (low + high) >> 1
        if places[middle] <= slot:
            low = middle + 1
        else:
            high = middle
    return low


@device
def d_bound_places(places, below, high, last):
    """Return how many ascending places before ``high`` are not above ``last``; ``below`` are known to be; by a warp."""
    j = below + d_lane()
    more = np.int64(cuda.popc(d_ballot(j < high and places[j] <= last)))
    return below + more if more < WARP else d_count_not_above(places, below + more, high, last)


@device
def d_find_place_by_warp(places, low, high, slot):
    """Return the first index in [low, high) whose place is not below ``slot``, else ``high``; the same in all lanes.

    Each lane does one read of a step: 10^6 places take 4 steps that wait for memory.
    """
    lane, low, high = np.int64(d_lane()), np.int64(low), np.int64(high)
    while high - low > WARP:
        part = (high - low + (WARP - 1)) >> 5
        mine = low + lane * part + (part - 1)  # the last of the lane's part
        low += part * np.int64(cuda.popc(d_ballot(mine < high and places[mine] < slot)))
        high = min(high, low + (part - 1))
    return low + np.int64(cuda.popc(d_ballot(low + lane < high and places[low + lane] < slot)))


@device
def d_count_before_lanes(places, low, high, slot):
    """Do as ``d_count_not_above`` for the neighbouring slots of a warp's lanes; all lanes call."""
    first = slot - d_lane()
    below = d_find_place_by_warp(places, low, high, first)
    bound = d_bound_places(places, below, np.int64(high), first + (WARP - 1))
    return d_count_not_above(places, below, bound, slot)


@device
def d_read_slot(src, dst, valid, leaf):
    """Return a leaf's word and the edge of the lane's slot; used later, so that the reads overlap."""
    slot = np.uint64(np.int64(leaf) * 32 + d_lane())
    return np.uint32(valid[np.uint32(leaf)]), src[slot], dst[slot]


@device
def d_find_window(start, num_windows, leaf):
    """Return the window that holds the ``leaf``-th leaf of all windows."""
    return d_find_window_between(start, np.int64(0), np.int64(num_windows), leaf)


@device
def d_find_window_between(start, low, high, leaf):
    """Return what ``d_find_window`` does, if that is in [low, high)."""
    while high - low > 1:
        middle = (low + high) >> 1
        if start[middle] <= leaf:
            low = middle
        else:
            high = middle
    return low


@device
def d_count_valid_before(valid, before, first, slot):
    """Count the edges in the slots from leaf ``first`` up to ``slot`` (exclusive)."""
    leaf = slot >> 5
    count = d_count_before_leaf(valid, before, first, leaf)
    if slot & 31 != 0:
        count += cuda.popc(valid[leaf] & ((np.uint32(1) << np.uint32(slot & 31)) - np.uint32(1)))
    return count


@device
def d_count_before_by_warp(valid, before, first, leaf):
    """Return what ``d_count_before_leaf`` does, the same in all lanes; each reads one leaf of the block."""
    block = leaf >> 5
    mine = (block << 5) + d_lane()
    inside = first <= mine and mine < leaf
    count = np.int64(d_sum_lanes(cuda.popc(valid[mine]) if inside else 0))
    return count if block == first >> 5 else count + before[block] - before[first >> 5]


@device
def d_set_located(weights, valid, positions, states, new_weights, add, i):
    """Give the key ``i`` its weight if it is present or a tombstone, and a tombstone its bit (atomic or)."""
    if states[i] != ABSENT:
        slot = positions[i]
        if weights.shape[0] > 0:
            if add and states[i] == PRESENT:
                weights[slot] += new_weights[i]
            else:
                weights[slot] = new_weights[i]
        if states[i] == TOMBSTONE:
            cuda.atomic.or_(valid, slot >> 5, np.uint32(1) << np.uint32(slot & 31))


@device
def d_clear_located(valid, positions, states, i):
    """Clear the bit of the key ``i`` if it is present (atomic and)."""
    if states[i] == PRESENT:
        slot = positions[i]
        cuda.atomic.and_(valid, slot >> 5, ~(np.uint32(1) << np.uint32(slot & 31)))


@kernel
def k_set_located(weights, valid, positions, states, new_weights, add):
    """One thread owns one key, see ``d_set_located``."""
    i = cuda.grid(1)
    if i < positions.shape[0]:
        d_set_located(weights, valid, positions, states, new_weights, add, i)


@kernel
def k_clear_located(valid, positions, states):
    """One thread owns one key, see ``d_clear_located``."""
    i = cuda.grid(1)
    if i < positions.shape[0]:
        d_clear_located(valid, positions, states, i)


@device
def d_place_key(valid, before, new, windows, merged, scratch, window, i):
    """Send the pending key ``i`` of a window to its rank in scratch: its index there, and the edges below it.

    With ``merged`` keys in windows of one leaf are skipped: ``k_shift_leaves`` inserts them.
    """
    if merged and windows.end[window] - windows.first[window] == 1:
        return
    edges = d_count_valid_before(valid, before, windows.first[window], new.places[i])
    rank = windows.start[window] * 32 + (i - windows.low[window]) + edges
    key = new.numbers[i]
    scratch.src[rank] = new.src[key]
    scratch.dst[rank] = new.dst[key]
    if scratch.weights.shape[0] > 0:
        scratch.weights[rank] = new.weights[key]


@kernel
def k_place_keys(
    valid, before, places, keys, first, end, low, start, num_windows, merged, new_src, new_dst, new_weights,
    t_src, t_dst, t_weights,
):  # fmt: skip
    """One thread owns one pending key, see ``d_place_key``."""
    windows = ScratchWindows(first, end, low, start, num_windows)
    new = NewKeys(places, keys, True, new_src, new_dst, new_weights)
    scratch, i = EdgeArrays(t_src, t_dst, t_weights), cuda.grid(1)
    if i < keys.shape[0]:
        d_place_key(valid, before, new, windows, merged, scratch, d_find_window(low, num_windows, i), i)


@device
def d_gather_leaves(edges, valid, before, places, windows, high, num_leaves, scratch):
    """A warp owns neighbouring leaves of the windows with scratch; each lane sends its slot's edge to its rank there.

    The rank is the number of edges before it in the window, and of pending keys that go before its slot: counted once
    for the warp's first leaf, then carried on. While a leaf is sent, the next one is read.
    """
    lane, warps = d_lane(), np.int64(cuda.gridsize(1) >> 5)
    share = (num_leaves + warps - 1) // warps
    item = np.int64(cuda.grid(1) >> 5) * share
    last, stop = min(item + share, num_leaves), np.int64(0)
    leaf, rank, below, bound, keys_end = np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    next_word, next_row, next_column = np.uint32(0), edges.src.dtype.type(0), edges.dst.dtype.type(0)
    while item < last:  # the same in all lanes, as is all but the values of their slots
        if item >= stop:
            window = d_find_window(windows.start, windows.num_windows, item)
            leaf = windows.first[window] + item - windows.start[window]
            stop = windows.start[window] + windows.end[window] - windows.first[window]
            next_word, next_row, next_column = d_read_slot(edges.src, edges.dst, valid, leaf)
            below, keys_end = np.int64(windows.low[window]), np.int64(high[window])
            rank = (
                windows.start[window] * 32 - below + d_count_before_by_warp(valid, before, windows.first[window], leaf)
            )
            if below < keys_end:
                below = d_find_place_by_warp(places, below, keys_end, leaf * 32)
        word, row, column = next_word, next_row, next_column
        if item + 1 < stop:
            next_word, next_row, next_column = d_read_slot(edges.src, edges.dst, valid, leaf + 1)
        slot, at = leaf * 32 + lane, rank + d_count_lower(word, lane) + below
        bound = below
        if below < keys_end:
            bound = d_bound_places(places, below, keys_end, leaf * 32 + (WARP - 1))
            at += d_count_not_above(places, below, bound, slot) - below
        if (word >> np.uint32(lane)) & np.uint32(1) != 0:
            scratch.src[at] = row
            scratch.dst[at] = column
            if edges.weights.shape[0] > 0:
                scratch.weights[at] = edges.weights[slot]
        rank += np.int64(cuda.popc(word))
        below = bound
        leaf += 1
        item += 1


@device
def d_place_keys(valid, before, new, num_keys, windows, scratch):
    """Warps own neighbouring pending keys, see ``d_place_key``; those in windows of one leaf are skipped.

    Each window has a key, so between two keys there are at most as many windows as keys.
    """
    lane, warps = d_lane(), cuda.gridsize(1) >> 5
    share = -(-num_keys // (warps * WARP)) * WARP
    base = (cuda.grid(1) >> 5) * share
    stop = min(base + share, num_keys)
    window = d_find_window(windows.low, windows.num_windows, base) if base < stop else np.int64(0)
    while base < stop:  # the same in all lanes
        i = min(base + lane, stop - 1)
        window = d_find_window_between(windows.low, window, min(window + WARP + 1, windows.num_windows), i)
        if base + lane < stop:
            d_place_key(valid, before, new, windows, True, scratch, window, i)
        window = d_shuffle(window, WARP - 1)
        base += WARP


class GatheredWindows(NamedTuple):
    """The arrays of ``windows.Windows`` that gathering reads."""

    first: Array
    end: Array
    low: Array
    high: Array
    start: Array


@partial(
    kernel,
    records={
        "edges": EdgeArrays,
        "added": EdgeArrays,
        "located": Located,
        "chosen": GatheredWindows,
        "scratch": EdgeArrays,
    },
)
def k_gather_windows(
    edges, valid, added, inserting, add, located, before, places, keys, chosen, granted, scratch
):  # fmt: skip
    """Write bits and weights of located rows, wait, then gather edges and pending keys in scratch, in order.

    Warps share the leaves of windows with scratch, see ``d_gather_leaves``, then the pending keys. One grid wait.
    """
    if granted[ROWS] > 0:  # the same in all threads
        for i in range(cuda.grid(1), granted[ROWS], cuda.gridsize(1)):
            if inserting:
                d_set_located(edges.weights, valid, located.positions, located.states, added.weights, add, i)
            else:
                d_clear_located(valid, located.positions, located.states, i)
        d_sync_grid(granted, 1)
    windows = ScratchWindows(chosen.first, chosen.end, chosen.low, chosen.start, granted[WINDOWS])
    new = NewKeys(places, keys, True, added.src, added.dst, added.weights)
    if granted[SCRATCH_LEAVES] == 0:
        return
    d_gather_leaves(edges, valid, before, places, windows, chosen.high, granted[SCRATCH_LEAVES], scratch)
    d_place_keys(valid, before, new, granted[KEYS], windows, scratch)


@device
def d_correct_quotient(dividend, divisor, quotient):
    """Return the floor of a quotient that is known up to one more or less."""
    rest = dividend - quotient * divisor
    if rest < 0:
        quotient -= 1
    elif rest >= divisor:
        quotient += 1
    return quotient


@device
def d_divide(dividend, divisor):
    """Return the floor of a quotient of int64 that are not negative; the quotient is below 2^50.

    The floor of a float64 division is right, or one too large if the quotient rounds up to a whole number, or one too
    small if a dividend of at least 2^53 rounds down; that is corrected.
    """
    quotient = np.int64(np.float64(dividend) / np.float64(divisor))
    return d_correct_quotient(dividend, divisor, quotient)


@device
def d_divide_by(dividend, divisor, inverse):
    """Return what ``d_divide`` does, by a product with 1 / ``divisor``, float64."""
    return d_correct_quotient(dividend, divisor, np.int64(np.float64(dividend) * inverse))


@kernel
def k_spread_edges(
    src, dst, weights, valid, offsets, first, end, start, count, granted, far_rows, t_src, t_dst, t_weights
):
    """Warps stride over the windows' leaves and write them: slot s of c shows element floor(((s + 1) n - 1) / c).

    The first slot to show it is the one whose remainder is below n; quotient and remainder come from those of the
    warp's previous leaf, if that was in the same window. Rows that begin inside the window get their offsets; those at
    its first slot are left to ``k_write_edge_rows``.
    """
    lane, held, num_windows, num_leaves = d_lane(), np.int64(-1), granted[WINDOWS], granted[SCRATCH_LEAVES]
    warp, warps = np.int64(cuda.grid(1) >> 5), np.int64(cuda.gridsize(1) >> 5)
    shift, base, size, elements = np.int64(0), np.int64(0), np.int64(1), np.int64(0)
    element, rest, whole, part = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    while warp < num_leaves:
        window = d_find_window(start, num_windows, warp)
        if window == held:
            element += whole
            rest += part
            if rest >= size:
                element += 1
                rest -= size
        else:
            held, base, elements = window, start[window] * 32, count[window]
            shift, size = first[window] * 32 - base + lane, (end[window] - first[window]) * 32
            dividend = (warp * 32 - base + lane + 1) * elements - 1
            element = d_divide(dividend, size)
            rest = dividend - element * size
            whole = d_divide(warps * 32 * elements, size)
            part = warps * 32 * elements - whole * size
        slot, source, begins = np.uint64(shift + warp * 32), np.uint64(base + element), rest < elements
        row, column = np.int64(t_src[source]), t_dst[source]
        first_before = np.int64(t_src[np.uint64(base + element - (lane == 0 and begins and element > 0))])
        if weights.shape[0] > 0:
            weights[slot] = t_weights[source]
        row_before = d_shuffle(row, (lane - 1) & 31)
        if lane == 0:
            row_before = first_before
        src[slot] = row
        dst[slot] = column
        word = d_ballot(begins)
        if lane == 0:
            valid[slot >> np.uint64(5)] = word
        d_write_rows_by_warp(offsets, row_before, row, np.int64(slot), far_rows)
        warp += warps


@device
def d_write_edge_rows(src, offsets, first, end, num_windows, far_rows):
    """Two lanes own a window, one each edge: write the rows between its neighbour's slots and its own.

    None for a window without a leaf. At an edge shared with the next window, only that one writes, if it has a leaf.
    """
    lane = d_lane()
    for base in range(cuda.grid(1) - lane, 2 * num_windows, cuda.gridsize(1)):
        window, at_end = (base + lane) >> 1, lane & 1
        low, high, slot = np.int64(0), np.int64(0), np.int64(0)
        if window < num_windows and first[window] < end[window]:
            if at_end == 0:
                slot = first[window] * 32
                low = np.int64(src[slot - 1]) if slot > 0 else np.int64(-1)
                high = np.int64(src[slot])
            else:
                following = min(window + 1, num_windows - 1)
                if first[following] != end[window] or end[following] == first[following]:
                    slot = end[window] * 32
                    low = np.int64(src[slot - 1])
                    high = np.int64(src[slot]) if slot < src.shape[0] else np.int64(offsets.shape[0] - 1)
        d_write_rows_by_warp(offsets, low, high, slot, far_rows)


@kernel
def k_write_edge_rows(src, offsets, first, end, granted, far_rows):
    """Write the offsets of rows that begin at the edges of windows, then those of the long ranges."""
    d_write_edge_rows(src, offsets, first, end, granted[WINDOWS], far_rows)
    d_write_far_rows(offsets, far_rows, 1)
