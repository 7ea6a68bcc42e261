"""Sorting int64 keys on CUDA: many by CuPy; few by counting lower ones, in one launch.

CuPy's radix sort takes some 150 us of host and GPU however few keys there are, longer than all else that a small update
does. To count for each of n keys which of all are below it takes n * n comparisons.
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
def d_read_bound(keys, i, begin):
    """Return key ``i``, of any for none, and what keys of a tile that count before it are below."""
    key = keys[min(i, keys.shape[0] - 1)]
    return key, key + np.int64(i >= begin + THREADS)


@device
def d_add_rank(ranks, held, begin, i, key, count):
    """Add what a tile counts before key ``i``, if there is one: in its own tile also equal ones that come first."""
    if i < ranks.shape[0]:
        if begin <= i < begin + THREADS:
            for j in range(i - begin):
                count += np.int64(held[j] == key)
        cuda.atomic.add(ranks, i, np.int32(count))


@kernel
def k_rank_keys(keys, ranks, sorted_keys, rows, control):
    """Blocks stride over tiles of the keys, each with a group of keys, four a thread: how many of the tile come before.

    Then each key goes to its rank, and its number, if ``rows`` has room for them. ``ranks``, ``control``: from zeros.
    """
    held = cuda.shared.array(THREADS, np.int64)
    size, thread = np.int64(keys.shape[0]), np.int64(cuda.threadIdx.x)
    tiles, groups = (size + THREADS - 1) // THREADS, (size + 4 * THREADS - 1) // (4 * THREADS)
    for item in range(cuda.blockIdx.x, tiles * groups, cuda.gridDim.x):
        begin, i0 = np.int64(item % tiles) * THREADS, np.int64(item // tiles) * (4 * THREADS) + thread
        i1, i2, i3 = i0 + THREADS, i0 + 2 * THREADS, i0 + 3 * THREADS
        cuda.syncthreads()  # what was held has been read
        held[thread] = keys[min(begin + thread, size - 1)]
        key0, bound0 = d_read_bound(keys, i0, begin)
        key1, bound1 = d_read_bound(keys, i1, begin)
        key2, bound2 = d_read_bound(keys, i2, begin)
        key3, bound3 = d_read_bound(keys, i3, begin)
        cuda.syncthreads()
        count0, count1, count2, count3 = np.int32(0), np.int32(0), np.int32(0), np.int32(0)
        for j in range(min(size - begin, np.int64(THREADS))):
            other = held[j]
            count0 = np.int32(count0 + np.int32(other < bound0))
            count1 = np.int32(count1 + np.int32(other < bound1))
            count2 = np.int32(count2 + np.int32(other < bound2))
            count3 = np.int32(count3 + np.int32(other < bound3))
        d_add_rank(ranks, held, begin, i0, key0, np.int64(count0))
        d_add_rank(ranks, held, begin, i1, key1, np.int64(count1))
        d_add_rank(ranks, held, begin, i2, key2, np.int64(count2))
        d_add_rank(ranks, held, begin, i3, key3, np.int64(count3))
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
    items = -(-size // THREADS) * -(-size // (4 * THREADS))
    k_rank_keys.launch_resident(items * THREADS, keys, ranks, sorted_keys, rows, control)
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
