"""Slots by what the records of their edges hold, on CUDA."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.cuda.compiler import cuda, kernel
from dynstore.cuda.warp import d_ballot, d_lane

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["mark_between"]


@kernel
def k_mark_between(valid, numbers, column, low, high, marks):
    """Warps stride over the leaves, a lane for each slot: mark the edges whose value is in ``[low, high)``."""
    lane = d_lane()
    for leaf in range(np.int64(cuda.grid(1)) >> 5, np.int64(numbers.shape[0] >> 5), np.int64(cuda.gridsize(1)) >> 5):
        wanted = False
        if (valid[leaf] >> np.uint32(lane)) & np.uint32(1) != 0:
            value = np.int64(column[numbers[32 * leaf + lane]])
            wanted = (low <= value) & (value < high)
        word = d_ballot(wanted)
        if lane == 0:
            marks[leaf] = word


def mark_between(backend: Backend, valid: Array, numbers: Array, column: Array, low: int, high: int) -> Array:
    """Do what the host's ``mark_between`` does."""
    marks = backend.empty(numbers.shape[0] >> 5, np.uint32)
    k_mark_between.launch_strided(int(numbers.shape[0]), valid, numbers, column, low, high, marks)
    return marks
