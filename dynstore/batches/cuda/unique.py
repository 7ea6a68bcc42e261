"""Keeping each of sorted keys once on CUDA: one kernel, or a phase of another kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.cuda.block import BOARD, d_scan_tile
from dynstore.cuda.compiler import SIMULATED, THREADS, WARP, cuda, device, kernel
from dynstore.cuda.control import declare
from dynstore.cuda.grid import (
    ARRIVALS,
    CONTROL_SIZE,
    SUMS,
    d_chunk,
    d_leave_sum,
    d_sum_blocks_before,
    d_sync_grid,
)
from dynstore.cuda.mailbox import Mailbox, d_post_totals, d_post_when_last
from dynstore.cuda.warp import d_ballot, d_count_lower, d_lane, d_shuffle
from dynstore.input.cuda import d_leave_bounds

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = [
    "RUNS",
    "RUN_LOOPS",
    "d_count_runs",
    "d_keep_runs",
    "keep_pairs",
    "pack_and_bound",
    "pack_keys",
    "start_keeping",
]

# Entries of ``control``, behind those of a plan (``pma/cuda/locate.py``, ``pma/cuda/windows.py``) that has this as a
# phase.
RUNS, RUN_LOOPS = declare("sorted plan", RUNS=8, RUN_LOOPS=9)


# Keys of a tile that a thread owns: even, and at most as many as a warp has lanes.
KEYS_EACH = 4 if SIMULATED else 16
# Indices are unsigned, which saves a test for negative ones, and so are the steps between them.
ONE, STEP = np.uint64(1), np.uint64(THREADS)


@device
def d_tell_run(keys, i):
    """Return whether sorted key ``i``, not the very last, is the last of its run, and if so whether it is a self-loop.

    No read is behind a branch, so that a thread's reads of several keys overlap.
    """
    key, following = keys[i], keys[i + ONE]
    return following != key, following != key and (key >> 32) == (key & 0xFFFFFFFF)


@device
def d_ends_run(keys, i, end):
    """Return whether a sorted key, if it is before ``end``, is the last of its run; no read is behind a branch."""
    final = np.uint64(keys.shape[0] - 1)
    key, following = keys[min(i, final)], keys[min(i + ONE, final)]
    return (i < end) & ((i == final) | (following != key))


@device
def d_count_runs(keys, control, board):
    """Leave how many runs end in the block's share of sorted keys, and how many of them are self-loops."""
    first, end = d_chunk(np.int64(keys.shape[0]))
    i, runs, loops = np.uint64(first + cuda.threadIdx.x), np.int64(0), np.int64(0)
    while np.int64(i) + 3 * THREADS < min(end, keys.shape[0] - 1):
        ends_0, loop_0 = d_tell_run(keys, i)
        ends_1, loop_1 = d_tell_run(keys, i + STEP)
        ends_2, loop_2 = d_tell_run(keys, i + STEP + STEP)
        ends_3, loop_3 = d_tell_run(keys, i + STEP + STEP + STEP)
        runs += np.int64(ends_0) + np.int64(ends_1) + np.int64(ends_2) + np.int64(ends_3)
        loops += np.int64(loop_0) + np.int64(loop_1) + np.int64(loop_2) + np.int64(loop_3)
        i += STEP + STEP + STEP + STEP
    while np.int64(i) < end:
        if d_ends_run(keys, i, np.uint64(end)):
            runs += 1
            loops += (keys[i] >> 32) == (keys[i] & 0xFFFFFFFF)
        i += STEP
    d_leave_sum(control, RUNS, runs, board)
    d_leave_sum(control, RUN_LOOPS, loops, board)


@device
def d_keep_runs(keys, kept, src, dst, control, board):
    """Write the last key of each run to its rank: to ``kept`` if that has room, else its halves to ``src``, ``dst``.

    Blocks have counted their shares. A warp owns neighbouring rows of a tile, a key a lane in each, and reads two rows
    at a time: lane ``r`` keeps which keys of row ``r`` end their run.
    """
    place = np.uint64(d_sum_blocks_before(control, RUNS, board))
    first, stop = d_chunk(np.int64(keys.shape[0]))
    lane, warp = d_lane(), cuda.threadIdx.x >> 5
    rows = np.int32(min((stop - first + 2 * THREADS - 1) // (2 * THREADS) * 2, np.int64(KEYS_EACH)))
    tile, end, step = np.uint64(first), np.uint64(stop), np.uint64(rows * THREADS)
    i = np.uint64(first + warp * rows * WARP + lane)
    while tile < end:
        mine, ending = np.int32(0), np.int32(0)
        for row in range(0, rows, 2):
            at = i + np.uint64(row * WARP)
            ends, ends_next = d_ends_run(keys, at, end), d_ends_run(keys, at + np.uint64(WARP), end)
            word, word_next = d_ballot(ends), d_ballot(ends_next)
            if lane == row:
                mine = np.int32(word)
            elif lane == row + 1:
                mine = np.int32(word_next)
            ending = np.int32(ending + cuda.popc(word) + cuda.popc(word_next))
        before, total = d_scan_tile(ending if lane == WARP - 1 else np.int32(0), board)
        rank = place + np.uint64(before)
        for row in range(rows):
            word = np.uint32(d_shuffle(mine, row))
            if (word >> np.uint32(lane)) & np.uint32(1) != 0:
                key, to = keys[i + np.uint64(row * WARP)], rank + np.uint64(d_count_lower(word, lane))
                if kept.shape[0] > 0:
                    kept[to] = key
                else:
                    src[to] = np.int32(key >> 32)
                    dst[to] = np.int32(key & 0xFFFFFFFF)
            rank += np.uint64(cuda.popc(word))
        place += np.uint64(total)
        tile += step
        i += step


@device
def d_write_key(keys, count, at, row, column, mirrored):
    """Write the key of edge ``at`` of ``count``, -1 if an id does not fit; its mirror image's goes behind all edges."""
    row, column = np.int64(row), np.int64(column)
    fits = min(row, column) >= 0 and max(row, column) <= 0x7FFFFFFF
    keys[at] = (row << 32) | column if fits else np.int64(-1)
    if mirrored:
        keys[count + at] = (column << 32) | row if fits else np.int64(-1)


@kernel
def k_pack_keys(src, dst, mirrored, keys, control, mailbox, ticket):
    """Threads stride over the edges: pack each key, source in the high half; if ``mirrored``, its mirror image's, too.

    The lowest and the highest source and destination, starting from zeros, become the first totals. They are posted if
    there is a mailbox.
    """
    low_row, high_row, low_column, high_column = np.int32(0), np.int32(0), np.int32(0), np.int32(0)
    step, count = np.uint64(cuda.gridsize(1)), np.uint64(src.shape[0])
    base = np.uint64(cuda.grid(1))
    while base < count:  # the reads of four edges overlap
        at0, last = base, count - np.uint64(1)
        at1 = min(at0 + step, last)
        at2 = min(at1 + step, last)
        at3 = min(at2 + step, last)
        row0, row1, row2, row3 = src[at0], src[at1], src[at2], src[at3]
        column0, column1, column2, column3 = dst[at0], dst[at1], dst[at2], dst[at3]
        low_row = min(low_row, min(min(row0, row1), min(row2, row3)))
        high_row = max(high_row, max(max(row0, row1), max(row2, row3)))
        low_column = min(low_column, min(min(column0, column1), min(column2, column3)))
        high_column = max(high_column, max(max(column0, column1), max(column2, column3)))
        d_write_key(keys, count, at0, row0, column0, mirrored)
        d_write_key(keys, count, at1, row1, column1, mirrored)
        d_write_key(keys, count, at2, row2, column2, mirrored)
        d_write_key(keys, count, at3, row3, column3, mirrored)
        base += np.uint64(4) * step
    d_leave_bounds(control, np.int64(low_row), np.int64(high_row), np.int64(low_column), np.int64(high_column))
    if mailbox.shape[0] > 0:  # the same in all threads
        d_post_when_last(control, mailbox, ticket, ARRIVALS)


@kernel
def k_keep_runs(keys, kept, src, dst, control, mailbox, ticket):
    """Keep each of sorted keys once, see ``d_keep_runs``; blocks first count their shares, then wait (one grid wait).

    Then the totals are posted. Nothing is written to ``kept`` if all keys are distinct.
    """
    board = cuda.shared.array(BOARD, np.int64)
    d_count_runs(keys, control, board)
    d_sync_grid(control, 1)
    if cuda.grid(1) == cuda.gridsize(1) - 1:
        d_post_totals(control, mailbox, ticket)
    if kept.shape[0] == 0 or control[RUNS] < keys.shape[0]:
        d_keep_runs(keys, kept, src, dst, control, board)


def pack_keys(backend: Backend, src: Array, dst: Array, mirrored: bool) -> Array:
    """Return the keys of edges, int64, source in the high half; ``mirrored``: in both directions.

    A key is -1 if an id is negative, or no int32.
    """
    return _pack(backend, src, dst, mirrored, backend.nothing(np.int64), 0)


def pack_and_bound(
    backend: Backend, src: Array, dst: Array, mirrored: bool
) -> tuple[Array, Callable[[], tuple[int, ...]]]:
    """Return what :func:`pack_keys` does, and a function that waits for the ids' bounds, but not for later work.

    The bounds are the lowest and the highest source and destination; 0 is always counted as present.
    """
    mailbox = Mailbox(backend)
    ticket = mailbox.next_ticket()
    keys = _pack(backend, src, dst, mirrored, mailbox.words, ticket)
    return keys, lambda: tuple(mailbox.read(backend, ticket)[:4])


def _pack(backend: Backend, src: Array, dst: Array, mirrored: bool, words: Array, ticket: int) -> Array:
    count = int(src.shape[0])
    control, keys = backend.empty_arena((SUMS, np.int64), (2 * count if mirrored else count, np.int64), zeroed=1)
    k_pack_keys.launch_strided(count, src, dst, mirrored, keys, control, words, ticket)
    return keys


def keep_pairs(backend: Backend, keys: Array) -> tuple[Array, Array, int]:
    """Return the distinct ones of sorted keys, each a pair of int32 with the first in the high half.

    Returns
    -------
    first, second : array, shape (N,), int32
    num_loops : int
        How many of them have equal halves.
    """
    count = int(keys.shape[0])
    control, first, second = backend.empty_arena(
        (CONTROL_SIZE, np.int64), (count, np.int32), (count, np.int32), zeroed=1
    )
    num_runs, num_loops = _start(backend, keys, backend.nothing(np.int64), first, second, control)()
    return first[:num_runs], second[:num_runs], num_loops


def start_keeping(backend: Backend, keys: Array) -> tuple[Array, Callable[[], tuple[Array, int]]]:
    """Start to keep each of sorted int64 keys once.

    Returns
    -------
    totals : array
        On the device; ``totals[RUNS]`` is the number of distinct keys.
    finish : callable
        Waits for the totals, but not for later work. Returns the distinct keys, in the same array if all are distinct,
        and how many of them have equal halves.
    """
    count = int(keys.shape[0])
    control, kept = backend.empty_arena((CONTROL_SIZE, np.int64), (count, np.int64), zeroed=1)
    halves = backend.nothing(np.int32)
    read_counts = _start(backend, keys, kept, halves, halves, control)

    def finish() -> tuple[Array, int]:
        num_runs, num_loops = read_counts()
        return keys if num_runs == count else kept[:num_runs], num_loops

    return control, finish


def _start(
    backend: Backend, keys: Array, kept: Array, first: Array, second: Array, control: Array
) -> Callable[[], tuple[int, int]]:
    """Start the kernel. Return a function that waits for the numbers of distinct keys and of self-loops."""
    if not keys.shape[0]:
        return lambda: (0, 0)
    mailbox = Mailbox(backend)
    ticket = mailbox.next_ticket()
    k_keep_runs.launch_resident(keys.shape[0], keys, kept, first, second, control, mailbox.words, ticket)

    def read_counts() -> tuple[int, int]:
        totals = mailbox.read(backend, ticket)
        return totals[RUNS], totals[RUN_LOOPS]

    return read_counts
