"""Merging the edges of leaves with others on the host."""

from __future__ import annotations

from dynstore.host_compiler import njit
from dynstore.stores.paged.cpu import d_has_bit
from dynstore.stores.paged.layout import LEAF, LEAF_BITS
from dynstore.typing import Array

__all__ = ["count_bits", "count_rows", "merge_leaves"]


@njit(borrows=True)
def d_count_bits(word, end):
    """Return how many of the first ``end`` bits of a word are set."""
    count = 0
    for bit in range(end):
        count += d_has_bit(word, bit)
    return count


@njit(cache=True, nogil=True)
def k_count_bits(words, counts):
    """Write how many bits are set in each word."""
    for i in range(words.shape[0]):
        counts[i] = d_count_bits(words[i], LEAF)


@njit(borrows=True)
def d_count_to(valid, before, slot):
    """Return how many edges there are before a slot."""
    count, end = before[slot >> LEAF_BITS], slot & (LEAF - 1)
    return count + d_count_bits(valid[slot >> LEAF_BITS], end) if end else count


@njit(cache=True, nogil=True)
def k_count_rows(offsets, valid, before, degrees):
    """Write how many edges each row has."""
    for row in range(degrees.shape[0]):
        begin, end = offsets[row], offsets[row + 1]
        degrees[row] = d_count_to(valid, before, end) - d_count_to(valid, before, begin) if begin < end else 0


@njit(cache=True, nogil=True)
def k_merge_leaves(keys, words, added, merged, weights, added_weights, merged_weights):
    """Write the keys of set slots and the added ones, in order, and their weights."""
    i, place, weighted = 0, 0, weights.shape[0] > 0
    for slot in range(keys.shape[0] + 1):
        while i < added.shape[0] and (slot == keys.shape[0] or added[i] <= keys[slot]):
            merged[place] = added[i]
            if weighted:
                merged_weights[place] = added_weights[i]
            i += 1
            place += 1
        if slot < keys.shape[0] and d_has_bit(words[slot >> LEAF_BITS], slot & (LEAF - 1)):
            merged[place] = keys[slot]
            if weighted:
                merged_weights[place] = weights[slot]
            place += 1


def count_bits(words: Array, counts: Array) -> None:
    """Write how many bits are set in each word, to ``counts``, uint8."""
    k_count_bits(words, counts)


def count_rows(offsets: Array, valid: Array, before: Array, degrees: Array) -> None:
    """Write how many edges each row has; ``before``: how many there are before each leaf, and in all."""
    k_count_rows(offsets, valid, before, degrees)


def merge_leaves(
    keys: Array,
    leaves: tuple[Array, Array, Array],
    added: Array,
    merged: Array,
    weights: tuple[Array, Array, Array],
) -> None:
    """Write the keys of set slots and the added ones in order; ``weights`` of the three, empty if there are none.

    ``leaves``: for each leaf the bits of its slots; the rest is for kernels of the GPU.
    """
    k_merge_leaves(keys, leaves[0], added, merged, *weights)
