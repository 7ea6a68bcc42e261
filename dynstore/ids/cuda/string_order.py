"""Strings on CUDA in ascending order: by bytes, and so by characters."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dynstore.cuda.compiler import WARP, cuda, device, kernel
from dynstore.cuda.warp import d_lane, d_sum_lanes
from dynstore.ids.cuda.hash_table import MAX_RANKED

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.ids.strings import DeviceStrings
    from dynstore.typing import Array

__all__ = ["Column", "order_ends", "order_strings", "string_arrays"]

# Bytes of a word that is compared at once, when many strings are sorted; 3 bits say how many of them there are.
WORD_BYTES = 7


class Column(NamedTuple):
    """The arrays of :class:`~dynstore.ids.strings.DeviceStrings`."""

    starts: Array
    ends: Array
    chars: Array


@device
def d_is_less(column, row, other_row):
    """Return whether a string comes before another one of its column: by bytes, and so by characters."""
    start, other_start = np.int64(column.starts[row]), np.int64(column.starts[other_row])
    size, other_size = np.int64(column.ends[row]) - start, np.int64(column.ends[other_row]) - other_start
    i, common = np.int64(0), min(size, other_size)
    while i < common and column.chars[start + i] == column.chars[other_start + i]:
        i += 1
    if i < common:
        return column.chars[start + i] < column.chars[other_start + i]
    return size < other_size


@kernel
def k_rank_texts(starts, ends, chars, order):
    """A warp owns one of a few distinct strings: it counts the lower ones, and writes the row to that place."""
    lane, i = d_lane(), np.int64(cuda.grid(1)) >> 5
    if i < starts.shape[0]:
        column, lower = Column(starts, ends, chars), np.int32(0)
        for other in range(lane, starts.shape[0], WARP):
            lower += np.int32(d_is_less(column, other, i))
        rank = d_sum_lanes(lower)
        if lane == 0:
            order[rank] = i


@kernel
def k_read_words(starts, ends, chars, rows, depth, words):
    """One thread owns one of ``rows``: it reads a word of the string, from ``depth`` on.

    The bytes come first in a word, then how many there are: so words are ordered as strings are, and only equal strings
    have equal words all along.
    """
    i = cuda.grid(1)
    if i < rows.shape[0]:
        begin, end = np.int64(starts[rows[i]]) + depth, np.int64(ends[rows[i]])
        word = np.int64(0)
        for k in range(WORD_BYTES):
            byte = np.int64(chars[begin + k]) if begin + k < end else np.int64(0)
            word = (word << 8) | byte
        words[i] = (word << 3) | min(max(end - begin, np.int64(0)), np.int64(WORD_BYTES))


@kernel
def k_order_ends(starts, ends, chars, src, dst, low, high):
    """One thread owns one pair of rows: it writes the row of the lower string to ``low``, the other one to ``high``."""
    i = cuda.grid(1)
    if i < src.shape[0]:
        turned = d_is_less(Column(starts, ends, chars), dst[i], src[i])
        low[i] = dst[i] if turned else src[i]
        high[i] = src[i] if turned else dst[i]


def order_ends(strings: DeviceStrings, src: Array, dst: Array, low: Array, high: Array) -> None:
    """Write pairs of rows with the row of the lower string first."""
    k_order_ends.launch(src.shape[0], *string_arrays(strings), src, dst, low, high)


def order_strings(backend: Backend, strings: DeviceStrings) -> Array:
    """Return the rows of distinct strings in ascending order, shape (B,), int64."""
    if strings.shape[0] > MAX_RANKED:
        return _order_by_words(backend, strings)
    order = backend.empty(strings.shape[0], np.int64)
    k_rank_texts.launch_warps(strings.shape[0], *string_arrays(strings), order)
    return order


def _order_by_words(backend: Backend, strings: DeviceStrings) -> Array:
    """Sort by one word after another; those whose words so far are equal to no others' are done."""
    xp, depth = backend.xp, 0
    order = xp.arange(strings.shape[0], dtype=np.int64)
    tied, groups = order.copy(), backend.zeros(strings.shape[0], np.int64)
    while tied.shape[0]:
        rows = order[tied]
        words = backend.empty(rows.shape[0], np.int64)
        k_read_words.launch(rows.shape[0], *string_arrays(strings), rows, depth, words)
        by_word = xp.lexsort(xp.stack((words, groups)))
        words = words[by_word]
        order[tied] = rows[by_word]
        begins = xp.ones(rows.shape[0] + 1, np.bool_)  # a group, and behind the last one
        begins[1:-1] = (groups[1:] != groups[:-1]) | (words[1:] != words[:-1])
        left = ~(begins[1:] & begins[:-1])
        groups, tied, depth = xp.cumsum(begins[:-1])[left], tied[left], depth + WORD_BYTES
    return order


def string_arrays(strings: DeviceStrings) -> tuple[Array, Array, Array]:
    """Return the arrays for a kernel, as in :class:`Column`."""
    return strings.starts, strings.ends, strings.chars
