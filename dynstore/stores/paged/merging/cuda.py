"""Merging the edges of leaves with others on the GPU: a warp owns a leaf, and the others that go between its slots."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.cuda.warp import d_count_lower, d_lane
from dynstore.stores.paged.layout import LEAF, LEAF_BITS
from dynstore.stores.table.cuda.search import d_find_lower_bound

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = ["count_bits", "count_rows", "merge_leaves"]


@kernel
def k_count_bits(words, counts):
    """One thread a word: count its bits."""
    i = int(cuda.grid(1))
    if i < words.shape[0]:
        counts[i] = np.uint8(cuda.popc(np.uint32(words[i])))


@device
def d_count_to(valid, before, slot):
    """Return how many edges there are before a slot."""
    count, lane = before[slot >> LEAF_BITS], slot & (LEAF - 1)
    if lane != 0:
        count += d_count_lower(valid[slot >> LEAF_BITS], lane)
    return count


@kernel
def k_count_rows(offsets, valid, before, degrees):
    """One thread a row: count its edges."""
    row = int(cuda.grid(1))
    if row < degrees.shape[0]:
        begin, end = offsets[row], offsets[row + 1]
        count = np.int64(0)
        if begin < end:
            count = d_count_to(valid, before, end) - d_count_to(valid, before, begin)
        degrees[row] = count


@kernel
def k_split_added(keys, added, splits):
    """One thread a leaf, and one for the end: write how many of the added keys go before the leaf's first key.

    All that go before the first leaf are counted to it.
    """
    leaf = int(cuda.grid(1))
    if leaf < splits.shape[0]:
        split, slot = np.int64(added.shape[0]), leaf << LEAF_BITS
        if slot < keys.shape[0]:
            split = np.int64(d_find_lower_bound(added, np.int64(0), split, keys[slot])) if leaf > 0 else np.int64(0)
        splits[leaf] = split


@kernel
def k_merge_leaves(keys, words, before, added, splits, merged, weights, added_weights, merged_weights):
    """One warp a leaf: write its edges, and those of ``added`` from its first key on, below the next leaf's first key.

    A lane owns a slot, and then every 32nd of the added keys. Its place is the number of keys before it of both kinds.
    """
    lane, leaf = d_lane(), int(cuda.grid(1)) >> 5
    begin = leaf << LEAF_BITS
    if begin >= keys.shape[0]:  # the same in all lanes
        return
    num_slots = min(LEAF, keys.shape[0] - begin)
    low, high = splits[leaf], splits[leaf + 1]
    word, first = words[leaf], before[leaf] - before[0]
    if lane < num_slots and (word >> np.uint32(lane)) & np.uint32(1) != 0:
        key = keys[begin + lane]
        place = first + d_count_lower(word, lane) + d_find_lower_bound(added, low, high, key)
        merged[place] = key
        if weights.shape[0] > 0:
            merged_weights[place] = weights[begin + lane]
    for i in range(low + lane, high, 32):
        key = added[i]
        slot = np.int64(d_find_lower_bound(keys, begin, begin + num_slots, key)) - begin
        place = first + i
        if slot < LEAF:
            place += d_count_lower(word, slot)
        else:
            place += np.int64(cuda.popc(np.uint32(word)))
        merged[place] = key
        if weights.shape[0] > 0:
            merged_weights[place] = added_weights[i]


def count_bits(words: Array, counts: Array) -> None:
    """Write how many bits are set in each word, to ``counts``, uint8."""
    k_count_bits.launch(words.shape[0], words, counts)


def count_rows(offsets: Array, valid: Array, before: Array, degrees: Array) -> None:
    """Write how many edges each row has; ``before``: how many there are before each leaf, and in all."""
    k_count_rows.launch(degrees.shape[0], offsets, valid, before, degrees)


def merge_leaves(
    keys: Array,
    leaves: tuple[Array, Array, Array],
    added: Array,
    merged: Array,
    weights: tuple[Array, Array, Array],
) -> None:
    """Write the keys of set slots and the added ones in order; ``weights`` of the three, empty if there are none.

    ``leaves``: for each leaf the bits of its slots, and how many edges are before it, of which only the differences
    count; then scratch, int64, for an entry a leaf and one more.
    """
    words, before, splits = leaves
    k_split_added.launch(splits.shape[0], keys, added, splits)
    k_merge_leaves.launch_warps(words.shape[0], keys, words, before, added, splits, merged, *weights)
