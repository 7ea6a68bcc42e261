"""Copies of strings on CUDA, their bytes one after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.cuda.compiler import WARP, cuda, kernel
from dynstore.cuda.warp import d_lane

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["k_copy_texts", "pack_strings"]


@kernel
def k_copy_texts(
    first_starts, first_ends, first_chars, second_starts, second_ends, second_chars, rows, starts, ends, chars
):
    """A warp owns one of ``rows`` of two columns: it copies the string to where ``starts`` says, and writes its end."""
    lane, i = d_lane(), np.int64(cuda.grid(1)) >> 5
    if i < rows.shape[0]:
        row, to = np.int64(rows[i]), np.int64(starts[i])
        other = row - first_starts.shape[0]
        if other < 0:
            start, size = np.int64(first_starts[row]), np.int64(first_ends[row]) - first_starts[row]
            for k in range(lane, size, WARP):
                chars[to + k] = first_chars[start + k]
        else:
            start, size = np.int64(second_starts[other]), np.int64(second_ends[other]) - second_starts[other]
            for k in range(lane, size, WARP):
                chars[to + k] = second_chars[start + k]
        if lane == 0:
            ends[i] = to + size


def pack_strings(backend: Backend, starts: Array, ends: Array, chars: Array) -> tuple[Array, Array]:
    """Return offsets, int64, and the bytes of strings one after another; see ``DeviceStrings`` for the arguments."""
    count = int(starts.shape[0])
    offsets, rows = backend.zeros(count + 1, np.int64), backend.xp.arange(count)
    backend.xp.cumsum(ends.astype(np.int64) - starts, out=offsets[1:])
    packed, new_ends = backend.empty(int(offsets[-1]), np.uint8), backend.empty(count, np.int64)
    no_second = backend.nothing(np.int64), backend.nothing(np.int64), backend.nothing(np.uint8)
    k_copy_texts.launch_warps(count, starts, ends, chars, *no_second, rows, offsets[:-1], new_ends, packed)
    return offsets, packed
