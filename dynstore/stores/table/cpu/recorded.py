"""Slots by what the records of their edges hold, on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.host_compiler import njit

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["mark_between"]


@njit(cache=True, nogil=True)
def _mark_between(valid, numbers, column, low, high, marks):
    for leaf in range(numbers.shape[0] >> 5):
        word, left = np.uint32(0), valid[leaf]
        if left != 0:
            for lane in range(32):
                if (left >> np.uint32(lane)) & np.uint32(1):
                    value = np.int64(column[numbers[32 * leaf + lane]])
                    word |= np.uint32(low <= value < high) << np.uint32(lane)
        marks[leaf] = word


def mark_between(backend: Backend, valid: Array, numbers: Array, column: Array, low: int, high: int) -> Array:
    """Mark the edges whose value is in ``[low, high)``.

    Parameters
    ----------
    valid : array of uint32 words
        Which slots hold edges.
    numbers : array, shape (S,)
        The number of the record in each slot; S is a multiple of 32.
    column : array, shape (R,), int32 or int64
        The value of each record.
    low, high : int

    Returns
    -------
    array, shape (S / 32,), uint32
        A new bit for each slot.
    """
    marks = backend.empty(numbers.shape[0] >> 5, np.uint32)
    _mark_between(valid, numbers, column, np.int64(low), np.int64(high), marks)
    return marks
