"""Sorting int64 keys on CUDA: many by CuPy; few by counting lower ones, in one launch.

CuPy's radix sort takes some 150 us of host and GPU however few keys there are, longer than all else that a small update
does. To count for each of n keys which of all are below it takes n * n comparisons: of 10^4 keys some 30 us.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore._cuda.compiler import SIMULATED, THREADS, cuda, device, kernel
from dynstore._cuda.grid import ARRIVALS, d_sync_grid

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["sort_keys", "sort_rows"]

# So many keys are counted.
MOST_COUNTED = 300 if SIMULATED else 1 << 14


@device
def d_count_below(held, first, end, bound):
    """Return how many of the keys ``held`` from ``first`` to ``end`` are below a bound."""
    count = np.int32(0)
    for j in range(first, end):
        count = np.int32(count + np.int32(held[j] < bound))
    return count


@kernel
def k_rank_keys(keys, ranks, sorted_keys, rows, control):
    """Blocks stride over pairs of tiles of the keys: how many of the one are below each of the other, or equal before.

    Then each key goes to its rank, and its number, if ``rows`` has room for them. ``ranks``, ``control``: from zeros.
    """
    held = cuda.shared.array(THREADS, np.int64)
    size, thread = np.int32(keys.shape[0]), np.int32(cuda.threadIdx.x)
    tiles = np.int32((size + np.int32(THREADS - 1)) // THREADS)
    for pair in range(cuda.blockIdx.x, tiles * tiles, cuda.gridDim.x):
        i, begin = np.int32(pair // tiles * THREADS + thread), np.int32(pair % tiles * THREADS)
        cuda.syncthreads()  # what was held has been read
        held[thread] = keys[min(begin + thread, size - 1)]
        cuda.syncthreads()
        if i < size:
            key, end = keys[i], min(np.int32(size - begin), np.int32(THREADS))
            middle = min(max(np.int32(i - begin), np.int32(0)), end)
            below = d_count_below(held, np.int32(0), middle, key + 1) + d_count_below(held, middle, end, key)
            cuda.atomic.add(ranks, i, np.int32(below))
    d_sync_grid(control, 1)
    for row in range(cuda.grid(1), size, cuda.gridsize(1)):
        rank = np.uint32(ranks[row])
        sorted_keys[rank] = keys[row]
        if rows.shape[0] > 0:
            rows[rank] = row


def _rank(backend: Backend, keys: Array, num_rows: int) -> tuple[Array, Array]:
    size = keys.shape[0]
    control, ranks, sorted_keys, rows = backend.empty_together(
        (ARRIVALS + 1, np.int64), (size, np.int32), (size, np.int64), (num_rows, np.int64), zeroed=2
    )
    tiles = -(-size // THREADS)
    k_rank_keys.launch_resident(tiles * tiles * THREADS, keys, ranks, sorted_keys, rows, control)
    return sorted_keys, rows


def sort_keys(backend: Backend, keys: Array) -> Array:
    """Return keys in ascending order, maybe in the same array."""
    if keys.shape[0] <= MOST_COUNTED:
        return _rank(backend, keys, 0)[0]
    keys.sort()
    return keys


def sort_rows(backend: Backend, keys: Array) -> tuple[Array, Array]:
    """Return keys in ascending order and the row that each was in, ascending among equal ones; all int64."""
    if keys.shape[0] <= MOST_COUNTED:
        return _rank(backend, keys, keys.shape[0])
    order = backend.xp.argsort(keys, kind="stable")
    return keys[order], order
