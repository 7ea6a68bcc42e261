"""Sorting keys with their rows on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.host_compiler import njit

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["sort_rows"]

WORD, HALF, LOWER = 64, 32, 0xFFFFFFFF


@njit(cache=True)
def _pack_rows(keys, lower_bits, row_bits, words):
    """Pack the halves of a key and its row into a word, without the bits that no key has."""
    lower_bits, row_bits = np.uint64(lower_bits), np.uint64(row_bits)
    for i in range(keys.shape[0]):
        key = np.uint64(keys[i] >> HALF) << lower_bits | np.uint64(keys[i] & LOWER)
        words[i] = key << row_bits | np.uint64(i)


@njit(cache=True)
def _unpack_rows(words, lower_bits, row_bits, keys, order):
    lower_bits, row_bits, one = np.uint64(lower_bits), np.uint64(row_bits), np.uint64(1)
    rows, lowers = (one << row_bits) - one, (one << lower_bits) - one
    for i in range(words.shape[0]):
        key = words[i] >> row_bits
        keys[i] = np.int64((key >> lower_bits) << np.uint64(HALF) | (key & lowers))
        order[i] = np.int64(words[i] & rows)


def sort_rows(backend: Backend, keys: Array) -> tuple[Array, Array]:
    """Return int64 keys in ascending order, and the row that each was in, ascending among equal keys, int64.

    ``keys`` may be written. NumPy sorts words with vector instructions, but not rows by their keys. So a key, without
    the bits that no key has, and its row are one word, where 64 bits are enough (``docs/notes/events.md``, "Sorting").
    """
    count, bits = int(keys.shape[0]), int(np.bitwise_or.reduce(keys))
    lower_bits, row_bits = (bits & LOWER).bit_length(), (count - 1).bit_length()
    if bits < 0 or (bits >> HALF).bit_length() + lower_bits + row_bits > WORD:
        order = np.argsort(keys, kind="stable")
        return keys[order], order
    words, order = np.empty(count, np.uint64), np.empty(count, np.int64)
    _pack_rows(keys, lower_bits, row_bits, words)
    words.sort()
    _unpack_rows(words, lower_bits, row_bits, keys, order)
    return keys, order
