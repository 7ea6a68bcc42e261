"""Columns of ids on CUDA: their bounds, and ids of another dtype than the graph's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.cuda.warp import d_bound_lanes, d_lane
from dynstore.input.converting import as_signed

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["convert_ids", "d_leave_bounds", "find_bounds"]


@device
def d_leave_bounds(bounds, low_first, high_first, low_second, high_second):
    """Merge the bounds of the warp's lanes; the first lane adds them to those of all (atomic min, max).

    The plain reads only save atomics, all of which are on the same four words: a read may be out of date, if the bound
    has gone further meanwhile.
    """
    low_first, high_first, low_second, high_second = d_bound_lanes(low_first, high_first, low_second, high_second)
    if d_lane() == 0:
        if low_first < bounds[0]:
            cuda.atomic.min(bounds, 0, low_first)
        if high_first > bounds[1]:
            cuda.atomic.max(bounds, 1, high_first)
        if low_second < bounds[2]:
            cuda.atomic.min(bounds, 2, low_second)
        if high_second > bounds[3]:
            cuda.atomic.max(bounds, 3, high_second)


@kernel
def k_find_bounds(first, second, bounds):
    """Threads stride over two columns; ``bounds``: the lowest and the highest value of each, starting from zeros."""
    i = np.int64(cuda.grid(1))
    low_first, high_first, low_second, high_second = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    while i < max(first.shape[0], second.shape[0]):
        if i < first.shape[0]:
            low_first = min(low_first, np.int64(first[i]))
            high_first = max(high_first, np.int64(first[i]))
        if i < second.shape[0]:
            low_second = min(low_second, np.int64(second[i]))
            high_second = max(high_second, np.int64(second[i]))
        i += cuda.gridsize(1)
    d_leave_bounds(bounds, low_first, high_first, low_second, high_second)


def find_bounds(backend: Backend, first: Array, second: Array) -> tuple[int, int, int, int]:
    """Return the lowest and highest of each of two integer columns; 0 is always counted as present."""
    columns = [backend.xp.ascontiguousarray(as_signed(backend, column)) for column in (first, second)]
    bounds = backend.zeros(4, np.int64)
    k_find_bounds.launch_strided(max(first.shape[0], second.shape[0]), *columns, bounds)
    low_first, high_first, low_second, high_second = backend.to_host(bounds).tolist()
    return low_first, high_first, low_second, high_second


@kernel
def k_convert_ids(first, second, highest, converted_first, converted_second):
    """One thread owns a row of two columns of one length: convert its ids, -1 for ids below 0 or above ``highest``."""
    i = cuda.grid(1)
    if i < first.shape[0]:
        one, other = np.int64(first[i]), np.int64(second[i])
        converted_first[i] = one if 0 <= one <= highest else np.int64(-1)
        converted_second[i] = other if 0 <= other <= highest else np.int64(-1)


def convert_ids(backend: Backend, first: Array, second: Array, dtype: np.dtype) -> list[Array]:
    """Start a kernel and return two columns of ids in a vertex dtype: -1 for ids that do not fit."""
    columns = [backend.xp.ascontiguousarray(as_signed(backend, column)) for column in (first, second)]
    count, highest = int(first.shape[0]), int(np.iinfo(dtype).max) - 1
    converted = backend.empty_arena((count, dtype), (count, dtype))
    k_convert_ids.launch(count, *columns, highest, *converted)
    return converted
