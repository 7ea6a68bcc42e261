"""Bringing a packed memory array's windows to scratch, in order, and spreading them back, on CUDA."""

from __future__ import annotations

import numpy as np

from dynstore._cuda.compiler import SIMULATED, WARP, cuda, device, kernel
from dynstore._cuda.grid import SUMS, d_sync_grid
from dynstore._cuda.packed_slots import with_room
from dynstore._cuda.search import d_test_bit
from dynstore._cuda.tiles import d_claim
from dynstore._cuda.warp import d_ballot, d_count_lower, d_lane, d_shuffle, d_sum_lanes
from dynstore._cuda.windows import KEYS, ROWS, SCRATCH_LEAVES, WINDOWS, d_count_before_leaf
from dynstore.slots import ABSENT, DEAD, PRESENT

__all__ = [
    "FAR_START",
    "d_count_before_by_warp",
    "d_count_not_above",
    "d_count_valid_before",
    "d_divide",
    "d_divide_by",
    "d_find_window",
    "d_list_ranges",
    "d_write_edge_rows",
    "d_write_far_rows",
    "d_write_rows",
    "d_write_rows_by_warp",
    "far_rows_size",
    "k_clear_located",
    "k_gather_windows",
    "k_place_keys",
    "k_set_located",
    "k_spread_edges",
    "k_write_edge_rows",
]


# A lane writes a range of up to WARP rows by itself, a warp a longer one, all blocks together one of FAR_ROWS or more.
# ``far_rows`` lists the latter two: how many all blocks write, how many warps, what a grid-wide wait needs, then (low,
# high, slot) of the former; those of warps stand at its end, the first of them last.
FAR_ROWS = 96 if SIMULATED else 8192
FAR_RANGES, LONG_RANGES = range(2)
FAR_START = SUMS


def far_rows_size(num_vertices: int, num_again: int = 0) -> int:
    """Return how many int64 entries the lists of ranges of so many rows, or of some more, need.

    Up to ``num_again`` ranges are listed three times. The first ``FAR_START`` entries are to be zeros.
    """
    num_ranges = num_vertices // (WARP + 1) + 1
    return FAR_START + 3 * with_room(num_ranges + 2 * min(num_ranges, num_again))


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
def d_count_pending(places, low, high, slot):
    """Return how many of the keys [low, high) go before slots up to ``slot``; quick where none does.

    Of new vertices nearly all slots are before all keys.
    """
    if low >= high or places[low] > slot:
        return np.int64(0)
    return d_count_not_above(places, low, high, slot) - low


@device
def d_find_window(start, num_windows, leaf):
    """Return the window that holds the ``leaf``-th leaf of all windows."""
    return d_find_window_between(start, np.int64(0), np.int64(num_windows), leaf)


@device
def d_find_window_between(start, low, high, leaf):
    """Return what ``d_find_window`` does, where that is in [low, high)."""
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
    """Return what ``d_count_before_leaf`` does, the same in all lanes; each looks at one leaf of the block."""
    block = leaf >> 5
    mine = (block << 5) + d_lane()
    inside = first <= mine and mine < leaf
    count = np.int64(d_sum_lanes(cuda.popc(valid[mine]) if inside else 0))
    return count if block == first >> 5 else count + before[block] - before[first >> 5]


@device
def d_list_ranges(far_rows, low, high, slot):
    """Leave the lanes' ranges of more rows than a warp has lanes to ``d_write_far_rows``: they go to lists.

    One atomic add a warp, and one each range that is too long for a warp.
    """
    length = high - low
    if d_ballot(length > WARP) == 0:
        return
    place = np.uint32(far_rows.shape[0] - 3 - 3 * d_claim(far_rows, LONG_RANGES, WARP < length < FAR_ROWS))
    if length >= FAR_ROWS:
        place = np.uint32(FAR_START + 3 * cuda.atomic.add(far_rows, FAR_RANGES, 1))
    if length > WARP:
        far_rows[place], far_rows[np.uint32(place + 1)], far_rows[np.uint32(place + 2)] = low, high, slot


@device
def d_write_rows(offsets, low, high, slot, far_rows):
    """Let the rows in (low, high] start at ``slot``; a thread by itself, which lists a long range.

    As ``d_list_ranges`` does, but with an atomic add each.
    """
    length = np.int64(high) - np.int64(low)
    if length <= WARP:
        row = np.uint64(high)
        while row != np.uint64(low):
            offsets[row] = slot
            row -= np.uint64(1)
    else:
        if length < FAR_ROWS:
            place = far_rows.shape[0] - 3 - 3 * cuda.atomic.add(far_rows, LONG_RANGES, 1)
        else:
            place = FAR_START + 3 * cuda.atomic.add(far_rows, FAR_RANGES, 1)
        far_rows[place], far_rows[place + 1], far_rows[place + 2] = low, high, slot


@device
def d_write_rows_by_warp(offsets, low, high, slot, far_rows):
    """Let the rows in (low, high] start at ``slot``; each lane brings its own, and leaves a long range to others.

    That goes to ``far_rows``, see ``d_list_ranges``.
    """
    if d_ballot(low != high) == 0:
        return
    if high - low <= WARP:
        for row in range(low + 1, high + 1):
            offsets[row] = slot
    d_list_ranges(far_rows, low, high, slot)


@device
def d_write_far_rows(offsets, far_rows, phase):
    """Write the ranges that were too long for a lane, once no block finds more of them: a warp each, or all together.

    ``phase``: which of the kernel's waits on ``far_rows`` that is, see ``d_sync_grid``.
    """
    d_sync_grid(far_rows, phase)
    for i in range(cuda.grid(1) >> 5, far_rows[LONG_RANGES], cuda.gridsize(1) >> 5):
        place = far_rows.shape[0] - 3 - 3 * i
        slot = far_rows[place + 2]
        for row in range(far_rows[place] + 1 + d_lane(), far_rows[place + 1] + 1, WARP):
            offsets[row] = slot
    for i in range(far_rows[FAR_RANGES]):
        place = FAR_START + 3 * i
        slot = far_rows[place + 2]
        for row in range(far_rows[place] + 1 + cuda.grid(1), far_rows[place + 1] + 1, cuda.gridsize(1)):
            offsets[row] = slot


@device
def d_set_located(weights, valid, positions, states, new_weights, add, i):
    """Give the key ``i`` its weight where it is present or dead, a dead one its bit (atomic or)."""
    if states[i] != ABSENT:
        slot = positions[i]
        if weights.shape[0] > 0:
            if add and states[i] == PRESENT:
                weights[slot] += new_weights[i]
            else:
                weights[slot] = new_weights[i]
        if states[i] == DEAD:
            cuda.atomic.or_(valid, slot >> 5, np.uint32(1) << np.uint32(slot & 31))


@device
def d_clear_located(valid, positions, states, i):
    """Take its bit from the key ``i`` where it is present (atomic and)."""
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
def d_place_key(
    valid, before, places, keys, first, end, low, start, merged, new_src, new_dst, new_weights,
    t_src, t_dst, t_weights, window, i,
):  # fmt: skip
    """Send the pending key ``i`` of a window to its rank in scratch: its index there, and the edges below it.

    With ``merged`` those in windows of one leaf are left to who shifts these in.
    """
    if merged and end[window] - first[window] == 1:
        return
    edges = d_count_valid_before(valid, before, first[window], places[i])
    rank = start[window] * 32 + (i - low[window]) + edges
    key = keys[i]
    t_src[rank] = new_src[key]
    t_dst[rank] = new_dst[key]
    if t_weights.shape[0] > 0:
        t_weights[rank] = new_weights[key]


@kernel
def k_place_keys(
    valid, before, places, keys, first, end, low, start, num_windows, merged, new_src, new_dst, new_weights,
    t_src, t_dst, t_weights,
):  # fmt: skip
    """One thread owns one pending key, see ``d_place_key``."""
    i = cuda.grid(1)
    if i < keys.shape[0]:
        d_place_key(
            valid, before, places, keys, first, end, low, start, merged, new_src, new_dst, new_weights,
            t_src, t_dst, t_weights, d_find_window(low, num_windows, i), i,
        )  # fmt: skip


@device
def d_place_keys(
    valid, before, places, keys, num_keys, first, end, low, start, num_windows, new_src, new_dst, new_weights,
    t_src, t_dst, t_weights,
):  # fmt: skip
    """Warps own neighbouring pending keys, see ``d_place_key``; those in windows of one leaf are left.

    Each window has a key, so that of a key is at most as much further as the key is.
    """
    lane, warps = d_lane(), cuda.gridsize(1) >> 5
    share = -(-num_keys // (warps * WARP)) * WARP
    base = (cuda.grid(1) >> 5) * share
    stop = min(base + share, num_keys)
    window = d_find_window(low, num_windows, base) if base < stop else np.int64(0)
    while base < stop:  # the same in all lanes
        i = min(base + lane, stop - 1)
        window = d_find_window_between(low, window, min(window + WARP + 1, num_windows), i)
        if base + lane < stop:
            d_place_key(
                valid, before, places, keys, first, end, low, start, True, new_src, new_dst, new_weights,
                t_src, t_dst, t_weights, window, i,
            )  # fmt: skip
        window = d_shuffle(window, WARP - 1)
        base += WARP


@kernel
def k_gather_windows(
    src, dst, weights, valid, new_src, new_dst, new_weights, inserting, add,
    positions, states, before, places, keys, first, end, low, high, start, granted, t_src, t_dst, t_weights,
):  # fmt: skip
    """Write what of located rows needs no place, wait, then bring edges and pending keys to scratch, in order.

    Warps stride over the leaves of windows with scratch; each lane sends its slot's edge to its rank in the window:
    the edges before it, and the pending keys that go before its slot. Then those keys are sent.
    """
    if granted[ROWS] > 0:  # the same in all threads
        for i in range(cuda.grid(1), granted[ROWS], cuda.gridsize(1)):
            if inserting:
                d_set_located(weights, valid, positions, states, new_weights, add, i)
            else:
                d_clear_located(valid, positions, states, i)
        d_sync_grid(granted, 1)
    lane, num_leaves, num_windows = d_lane(), granted[SCRATCH_LEAVES], granted[WINDOWS]
    if num_leaves == 0:
        return
    warp = cuda.grid(1) >> 5
    while warp < num_leaves:
        window = d_find_window(start, num_windows, warp)
        leaf = first[window] + warp - start[window]
        slot = leaf * 32 + lane
        edges = d_count_before_by_warp(valid, before, first[window], leaf)
        if d_test_bit(valid, slot):
            edges += d_count_lower(valid[leaf], lane)
            pending = d_count_pending(places, low[window], high[window], slot)
            rank = start[window] * 32 + edges + pending
            t_src[rank] = src[slot]
            t_dst[rank] = dst[slot]
            if weights.shape[0] > 0:
                t_weights[rank] = weights[slot]
        warp += cuda.gridsize(1) >> 5
    d_place_keys(
        valid, before, places, keys, granted[KEYS], first, end, low, start, num_windows, new_src, new_dst, new_weights,
        t_src, t_dst, t_weights,
    )  # fmt: skip


@device
def d_correct_quotient(dividend, divisor, quotient):
    """Return the floor of a quotient that is known but for one more or less."""
    rest = dividend - quotient * divisor
    if rest < 0:
        quotient -= 1
    elif rest >= divisor:
        quotient += 1
    return quotient


@device
def d_divide(dividend, divisor):
    """Return the floor of a quotient of int64 that are not negative, the quotient below 2^50.

    By one division of float64, whose floor is right, one too large where the quotient rounds up to a whole number, or
    one too small where a dividend from 2^53 on rounds down.
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
    warp's leaf before, if that was of the same window. Rows that begin inside the window get their start; those at its
    first slot are left to ``k_write_edge_rows``.
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
    """Two lanes own a window, one each edge: the rows between its neighbour's slots and its own.

    None for a window without a leaf. At an edge shared with the next window, if that has a leaf, only that one writes.
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
    """Write the rows that begin at the edges of windows, then those of the long ranges."""
    d_write_edge_rows(src, offsets, first, end, granted[WINDOWS], far_rows)
    d_write_far_rows(offsets, far_rows, 1)
