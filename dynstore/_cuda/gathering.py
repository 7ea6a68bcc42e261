"""Bringing a whole packed memory array and sorted keys to scratch on CUDA, in order: the first half of a merge."""

from __future__ import annotations

import numpy as np

from dynstore._cuda.compiler import WARP, cuda, device, kernel
from dynstore._cuda.leaves import d_count_not_above, d_count_valid_before
from dynstore._cuda.search import d_find_lower_bound
from dynstore._cuda.warp import d_ballot, d_count_lower, d_lane
from dynstore.slots import PRESENT

__all__ = ["LEAVES_TOGETHER", "k_gather_all", "k_update_weights"]

# Neighbouring leaves of a warp, whose edges are counted together (``windows.count_blocks``).
LEAVES_TOGETHER = 32


@device
def d_bound_places(places, below, last):
    """Return how many ascending places are not above ``last``, of which ``below`` are known to be."""
    j, count = below + d_lane(), np.int64(places.shape[0])
    more = np.int64(cuda.popc(d_ballot(j < count and places[j] <= last)))
    return below + more if more < WARP else d_count_not_above(places, below + more, count, last)


@device
def d_read_slot(src, dst, valid, leaf):
    """Return a leaf's word and what is in the lane's slot of it; used later, so that the reads wait together."""
    slot = leaf * 32 + d_lane()
    return np.uint32(valid[leaf]), src[slot], dst[slot]


@kernel
def k_gather_all(
    src, dst, weights, valid, num_leaves, before, places, keys, new_src, new_dst, new_weights, t_src, t_dst, t_weights
):
    """One warp owns some neighbouring leaves, and finds once which keys come before; ``before``: edges before each 32.

    Each element goes to its rank: the edges before it, and the keys before it. A lane has a slot, and some of the keys;
    while a leaf is written the next one is read.
    """
    lane, block = d_lane(), np.int64(cuda.grid(1) >> 5)
    first, end = block * LEAVES_TOGETHER, min((block + 1) * LEAVES_TOGETHER, num_leaves)
    if first >= end:
        return
    edges, below = np.int64(before[block]), d_find_lower_bound(places, np.int64(0), places.shape[0], first * 32)
    next_word, next_row, next_column = d_read_slot(src, dst, valid, first)
    for leaf in range(first, end):
        slot, base = leaf * 32 + lane, leaf * 32
        word, row, column = next_word, next_row, next_column
        next_word, next_row, next_column = d_read_slot(src, dst, valid, min(leaf + 1, end - 1))
        bound = d_bound_places(places, below, base + 31 if leaf + 1 < num_leaves else base + 32)
        if (word >> np.uint32(lane)) & np.uint32(1) != 0:
            rank = edges + d_count_lower(word, lane) + d_count_not_above(places, below, bound, slot)
            t_src[rank] = row
            t_dst[rank] = column
            if t_weights.shape[0] > 0:
                t_weights[rank] = weights[slot]
        for i in range(below + lane, bound, WARP):
            place, key = places[i] - base, keys[i]
            rank = edges + i + (np.int64(cuda.popc(word)) if place > 31 else d_count_lower(word, place))
            t_src[rank] = new_src[key]
            t_dst[rank] = new_dst[key]
            if t_weights.shape[0] > 0:
                t_weights[rank] = new_weights[key]
        edges += np.int64(cuda.popc(word))
        below = bound


@kernel
def k_update_weights(valid, before, places, positions, states, new_weights, add, t_weights):
    """One thread owns one key of the batch; a present one changes its edge's weight in scratch."""
    i = cuda.grid(1)
    if i < positions.shape[0] and states[i] == PRESENT:
        slot = positions[i]
        rank = d_count_valid_before(valid, before, 0, slot) + d_count_not_above(places, 0, places.shape[0], slot)
        if add:
            t_weights[rank] += new_weights[i]
        else:
            t_weights[rank] = new_weights[i]
