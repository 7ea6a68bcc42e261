"""Rows brought into the order of their owners on the host: a stable sort."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynstore.backend import Backend

__all__ = ["find_owners", "sort_rows"]


def find_owners(backend: Backend, width: int, size: int, numbers: np.ndarray) -> np.ndarray:
    """Return the rank that owns each number, uint16; ``width`` and ``size`` are those of ``owners.Owners``."""
    if width:
        found: np.ndarray = np.minimum(numbers // width, size - 1)
    else:
        found = _hash(numbers) % np.uint32(size)
    return found.astype(np.uint16)


def _hash(numbers: np.ndarray) -> np.ndarray:
    """Return MurmurHash3 (Appleby; 32 bits, seed 0) of numbers of 4 or 8 bytes, uint32."""
    words = np.ascontiguousarray(numbers).view(np.uint32).reshape(numbers.shape[0], numbers.dtype.itemsize // 4)
    state = np.zeros(numbers.shape[0], np.uint32)
    for place in range(words.shape[1]):
        word = _turned(words[:, place] * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        state = _turned(state ^ word, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    state ^= np.uint32(numbers.dtype.itemsize)
    state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return state ^ (state >> np.uint32(16))


def _turned(words: np.ndarray, bits: int) -> np.ndarray:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))


def sort_rows(
    backend: Backend, width: int, size: int, columns: Sequence[np.ndarray], both: bool, want_order: bool
) -> tuple[np.ndarray | None, list[np.ndarray], list[int]]:
    """Do what ``owners.sort_by_owner`` says."""
    given = _in_both_directions(columns) if both else list(columns)
    ranks = find_owners(backend, width, size, given[0])
    order = np.argsort(ranks, kind="stable")
    counts = np.bincount(ranks, minlength=size).tolist()
    return order if want_order else None, [column[order] for column in given], counts


def _in_both_directions(columns: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return each row followed by the same edge in the other direction, loops once."""
    src, dst = columns[:2]
    proper = np.stack((np.ones(len(src), np.bool_), src != dst), axis=1).reshape(-1)
    pairs = [(src, dst), (dst, src), *((each, each) for each in columns[2:])]
    return [np.stack(pair, axis=1).reshape(-1)[proper] for pair in pairs]
