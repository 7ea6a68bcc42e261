"""Sorting int64 keys on CUDA: many by CuPy; fewer by merging, in one launch.

For a CuPy sort the host launches several kernels and, if rows are wanted, gathers the keys. 1e5 keys with their rows
take the host 115 us, and 137 until the GPU is idle: longer than all else in such an update. Here it is 31 and 73 (an
H200), and the host is free meanwhile. A block sorts each tile of keys in its shared memory; then several sorted runs at
a time become one. A key finds its place by binary searches in the other runs; neighbouring keys take nearly the same
steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.cuda.compiler import SIMULATED, THREADS, cuda, device, kernel
from dynstore.cuda.grid import ARRIVALS, d_sync_grid

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["MOST_KEYS", "d_merge_keys", "merge_rows", "plan_merging", "sort_keys", "sort_rows"]

# The most keys that are merged: 3e5 with their rows took 128 us where CuPy's sort took 152, but 1e6 361 instead of 222.
MAX_MERGED = 600 if SIMULATED else 300_000
# The most keys that can be merged: places have 32 bits, and a thread searches several runs behind the last one.
MOST_KEYS = (1 << 29) - 1
# Keys of a tile that a thread owns, and runs that it searches at a time: their reads overlap. Fewer in the simulator:
# a tile is sorted whole, however few keys there are.
EACH = 2 if SIMULATED else 4
TILE = EACH * THREADS
TILE_BITS = TILE.bit_length() - 1
# The binary logarithm of the most runs that become one.
MAX_BITS = 2 if SIMULATED else 4
# Above all keys; one more is an int64, too.
NO_KEY = np.int64(np.iinfo(np.int64).max - 1)
ONE = np.uint32(1)


@device
def d_sort_tile(held, numbers):
    """Sort a tile of keys in shared memory, stably, with their numbers: runs of 1, 2, 4 ... are merged in pairs."""
    keys, bounds = cuda.local.array(EACH, np.int64), cuda.local.array(EACH, np.int64)
    moved, lows = cuda.local.array(EACH, np.int32), cuda.local.array(EACH, np.uint32)
    thread, run = np.uint32(cuda.threadIdx.x), ONE
    while run < TILE:
        cuda.syncthreads()
        for j in range(EACH):
            i = np.uint32(thread + j * THREADS)
            keys[j], moved[j] = held[i], numbers[i]
            # Of equal keys those of the first run come first. The search is in the other run, from its start.
            bounds[j] = keys[j] + np.int64((i & run) != 0)
            lows[j] = np.uint32((i ^ run) & ~np.uint32(run - ONE))
        half = np.uint32(run >> ONE)
        while half > 0:
            for j in range(EACH):
                if held[np.uint32(lows[j] + half - ONE)] < bounds[j]:
                    lows[j] = np.uint32(lows[j] + half)
            half = np.uint32(half >> ONE)
        for j in range(EACH):
            if held[lows[j]] < bounds[j]:
                lows[j] = np.uint32(lows[j] + ONE)
        cuda.syncthreads()
        for j in range(EACH):
            i = np.uint32(thread + j * THREADS)
            # The starts of both runs add up to that of the pair, twice, plus a run.
            place = np.uint32(lows[j] + (i & np.uint32(run + run - ONE)) - run)
            held[place], numbers[place] = keys[j], moved[j]
        run = np.uint32(run + run)
    cuda.syncthreads()


@device
def d_sort_tiles(keys, to_keys, to_rows):
    """Blocks stride over the tiles; the last tile is filled up with ``NO_KEY``."""
    held = cuda.shared.array(TILE, np.int64)
    numbers = cuda.shared.array(TILE, np.int32)
    size, begin, thread = np.int64(keys.shape[0]), np.int64(cuda.blockIdx.x) * TILE, np.int64(cuda.threadIdx.x)
    while begin < size:
        for j in range(EACH):
            i = thread + j * THREADS
            key = keys[min(begin + i, size - 1)]
            held[i], numbers[i] = key if begin + i < size else NO_KEY, i
        d_sort_tile(held, numbers)
        for j in range(EACH):
            i = thread + j * THREADS
            if begin + i < size:
                to_keys[begin + i] = held[i]
                if to_rows.shape[0] > 0:
                    to_rows[begin + i] = begin + numbers[i]
        cuda.syncthreads()  # the sorted tile has been written
        begin += np.int64(cuda.gridDim.x) * TILE


@device
def d_merge_runs(keys, rows, to_keys, to_rows, run_bits, bits):
    """Merge sorted runs of ``1 << run_bits`` keys, except the last one, ``1 << bits`` at a time; a thread owns a key.

    Behind the last key its run is searched as if that key were repeated.
    """
    bounds = cuda.local.array(EACH, np.int64)
    starts, lows = cuda.local.array(EACH, np.uint32), cuda.local.array(EACH, np.uint32)
    size, run = np.uint32(keys.shape[0]), np.uint32(ONE << np.uint32(run_bits))
    last = np.uint32(size - ONE)
    for i in range(cuda.grid(1), keys.shape[0], cuda.gridsize(1)):
        key, mine = keys[i], np.uint32(i >> run_bits)
        other = np.uint32(mine >> np.uint32(bits) << np.uint32(bits))
        place = np.uint32(np.uint32(other << np.uint32(run_bits)) + (np.uint32(i) & np.uint32(run - ONE)))
        end = min(np.uint32(other + (ONE << np.uint32(bits))), np.uint32((last >> np.uint32(run_bits)) + ONE))
        while other < end:
            for j in range(EACH):
                # Of equal keys those of earlier runs come first.
                bounds[j] = key + np.int64(np.uint32(other + j) < mine)
                starts[j] = lows[j] = np.uint32(np.uint32(other + j) << np.uint32(run_bits))
            half = np.uint32(run >> ONE)
            while half > 0:
                for j in range(EACH):
                    if keys[min(np.uint32(lows[j] + half - ONE), last)] < bounds[j]:
                        lows[j] = np.uint32(lows[j] + half)
                half = np.uint32(half >> ONE)
            for j in range(EACH):
                if keys[min(lows[j], last)] < bounds[j]:
                    lows[j] = np.uint32(lows[j] + ONE)
                if np.uint32(other + j) < end and np.uint32(other + j) != mine:
                    place = np.uint32(place + min(lows[j], size) - starts[j])
            other = np.uint32(other + EACH)
        to_keys[place] = key
        if to_rows.shape[0] > 0:
            to_rows[place] = rows[i]


@device
def d_merge_keys(keys, spare_rows, sorted_keys, rows, num_levels, bits, control, waits):
    """Sort as :func:`k_merge_keys` does, after so many grid waits; return how many there were then."""
    from_keys, from_rows, to_keys, to_rows = keys, spare_rows, sorted_keys, rows
    if num_levels & 1 == 0:
        from_keys, from_rows, to_keys, to_rows = to_keys, to_rows, from_keys, from_rows
    d_sort_tiles(keys, from_keys, from_rows)
    run_bits = np.int64(TILE_BITS)
    for level in range(num_levels):
        d_sync_grid(control, waits + level + 1)
        d_merge_runs(from_keys, from_rows, to_keys, to_rows, run_bits, bits)
        from_keys, from_rows, to_keys, to_rows = to_keys, to_rows, from_keys, from_rows
        run_bits += bits
    return waits + num_levels


@kernel
def k_merge_keys(keys, spare_rows, sorted_keys, rows, num_levels, bits, control):
    """Sort stably: tiles, then ``num_levels`` levels at which ``1 << bits`` runs become one, each after a grid wait.

    ``keys`` is written, too. If ``rows`` has a length, it gets the numbers of the keys; ``spare_rows`` has the same
    length. ``control`` starts as zeros.
    """
    d_merge_keys(keys, spare_rows, sorted_keys, rows, num_levels, bits, control, 0)


def plan_merging(size: int) -> tuple[int, int]:
    """Return the number of levels at which so many keys are merged, and the binary logarithm of the runs of a level."""
    runs = (max(size - 1, 0) // TILE).bit_length()  # the binary logarithm of the runs, rounded up
    num_levels = -(-runs // MAX_BITS)
    return num_levels, -(-runs // max(num_levels, 1))


def merge_rows(backend: Backend, keys: Array, num_rows: int) -> tuple[Array, Array]:
    """Sort at most ``MOST_KEYS`` keys, and as many of their rows, or none, by merging; see :func:`sort_rows`."""
    size = keys.shape[0]
    control, spare_rows, sorted_keys, rows = backend.empty_arena(
        (ARRIVALS + 1, np.int64), (num_rows, np.int64), (size, np.int64), (num_rows, np.int64), zeroed=1
    )
    k_merge_keys.launch_resident(size, keys, spare_rows, sorted_keys, rows, *plan_merging(size), control)
    return sorted_keys, rows


def sort_keys(backend: Backend, keys: Array) -> Array:
    """Return int64 keys in ascending order, maybe in the same array, which is written in any case.

    Up to ``MAX_MERGED`` keys have to be below 2^63 - 2.
    """
    if keys.shape[0] <= MAX_MERGED:
        return merge_rows(backend, keys, 0)[0]
    keys.sort()
    return keys


def sort_rows(backend: Backend, keys: Array) -> tuple[Array, Array]:
    """Return int64 keys below 2^63 - 2 in ascending order, and the row that each was in, ascending among equal keys.

    Both are int64. ``keys`` may be written.
    """
    if keys.shape[0] <= MAX_MERGED:
        return merge_rows(backend, keys, keys.shape[0])
    order = backend.xp.argsort(keys, kind="stable")
    return keys[order], order
