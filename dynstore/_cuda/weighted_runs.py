"""Weighted edges of unsorted rows on CUDA: keys that remember their rows, and each edge once with its weight."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore._cuda.batches import d_leave_bounds
from dynstore._cuda.compiler import WARP, cuda, device, kernel
from dynstore._cuda.grid import ARRIVALS, CONTROL_SIZE, d_chunk, d_sum_blocks_before, d_sync_grid, read_totals
from dynstore._cuda.packed_slots import number_dtype
from dynstore._cuda.runs import RUN_LOOPS, RUNS, d_count_runs, d_ends_run
from dynstore._cuda.tiles import BOARD, d_scan_tile
from dynstore._cuda.warp import d_ballot, d_lane, d_shuffle, d_sum_lanes

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.edge_batch import WeightedRows
    from dynstore.typing import Array

__all__ = ["keep_rows", "pack_rows", "start_keeping"]

# Where blocks arrive that wait for each other: another kernel on the same ``control`` has the usual entry.
KEEPING_ARRIVALS = ARRIVALS + 1
# Rows of one edge that a thread sums by itself; a warp shares more.
FEW_ROWS = 32


@kernel
def k_pack_rows(src, dst, weights, mirrored, keys, bounds):
    """Threads stride over the rows: the key of each, source in the high half, -1 where an id or the weight is none.

    ``mirrored``: of row i at 2 i, and of its mirror image behind that. ``bounds``: the lowest and the highest source
    and destination, from zeros.
    """
    i = np.int64(cuda.grid(1))
    low_row, high_row, low_column, high_column = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    while i < src.shape[0]:
        row, column, weight = np.int64(src[i]), np.int64(dst[i]), weights[i]
        low_row, high_row = min(low_row, row), max(high_row, row)
        low_column, high_column = min(low_column, column), max(high_column, column)
        fits = min(row, column) >= 0 and max(row, column) <= 0x7FFFFFFF and weight == weight
        key, mirror = (row << 32) | column, (column << 32) | row
        if mirrored:
            keys[2 * i] = key if fits else np.int64(-1)
            keys[2 * i + 1] = mirror if fits else np.int64(-1)
        else:
            keys[i] = key if fits else np.int64(-1)
        i += cuda.gridsize(1)
    d_leave_bounds(bounds, low_row, high_row, low_column, high_column)


@device
def d_list_runs(keys, ends, control, board):
    """List where each run of sorted keys ends. Blocks have counted their shares (``d_count_runs``)."""
    place = d_sum_blocks_before(control, RUNS, board)
    base, end = d_chunk(np.int64(keys.shape[0]))
    while base < end:
        i = base + cuda.threadIdx.x
        is_end = d_ends_run(keys, np.uint64(i), np.uint64(end))
        before, total = d_scan_tile(1 if is_end else 0, board)
        if is_end:
            ends[place + before] = i
        place += total
        base += cuda.blockDim.x


@device
def d_sum_rows(order, shift, weights, first, apart, begin, stride, count):
    """Return the float64 sum of every ``stride``-th of ``count`` rows of a run, from the one numbered ``begin`` on.

    The first is at ``first``, the others 1 or, with ``apart`` 1, 2 apart.
    """
    total, i = np.float64(0.0), begin
    while i < count:
        total += np.float64(weights[order[first + (i << apart)] >> shift])
        i += stride
    return total


@device
def d_sum_run(order, shift, weights, first, apart, count):
    """Return the sum of the ``count`` rows of the lane's run; those of long ones are summed by the whole warp.

    Which row is added to which depends on their number alone, so the sums of an edge and of its mirror image are equal.
    All lanes call it.
    """
    is_long = count > FEW_ROWS
    total = d_sum_rows(order, shift, weights, first, apart, np.int64(0), np.int64(1), np.int64(0) if is_long else count)
    left = d_ballot(is_long)
    while left != 0:
        lane = np.int32(cuda.ffs(left)) - 1
        left = left & (left - np.uint32(1))
        part = d_sum_rows(
            order, shift, weights, d_shuffle(first, lane), d_shuffle(apart, lane), np.int64(d_lane()), np.int64(WARP),
            d_shuffle(count, lane),
        )  # fmt: skip
        part = d_sum_lanes(part)
        if d_lane() == lane:
            total = part
    return total


@device
def d_resolve_runs(keys, order, mirrored, weights, adding, ends, count, out_src, out_dst, out_weights):
    """Write the edge of each of ``count`` runs, and its weight: the last row's, or the sum of all.

    A self-loop is its own mirror image: both are there, next to each other, and the second is left out of the sum.
    """
    base, end = d_chunk(count)
    shift = np.int64(1) if mirrored else np.int64(0)
    while base < end:
        i = base + cuda.threadIdx.x
        last, before = np.int64(0), np.int64(0)
        key = np.int64(-1)
        if i < end:
            last = np.int64(ends[i])
            before = np.int64(ends[i - 1]) if i > 0 else np.int64(-1)
            key = np.int64(keys[last])
            out_src[i] = np.int32(key >> 32)
            out_dst[i] = np.int32(key & 0xFFFFFFFF)
        if adding:
            apart = np.int64(1) if mirrored and (key >> 32) == (key & 0xFFFFFFFF) else np.int64(0)
            total = d_sum_run(order, shift, weights, before + 1, apart, (last - before) >> apart)
            if i < end:
                out_weights[i] = total
        elif i < end:
            out_weights[i] = weights[order[last] >> shift]
        base += cuda.blockDim.x


@kernel
def k_keep_rows(keys, order, mirrored, weights, adding, ends, out_src, out_dst, out_weights, control):
    """Each of sorted keys is kept once, with its weight; a grid-wide wait after each phase.

    How many there are, and how many self-loops, is left in ``control``.
    """
    board = cuda.shared.array(BOARD, np.int64)
    d_count_runs(keys, control, board)
    d_sync_grid(control, 1, KEEPING_ARRIVALS)
    d_list_runs(keys, ends, control, board)
    d_sync_grid(control, 2, KEEPING_ARRIVALS)
    d_resolve_runs(keys, order, mirrored, weights, adding, ends, control[RUNS], out_src, out_dst, out_weights)


def pack_rows(backend: Backend, src: Array, dst: Array, weights: Array, mirrored: bool) -> tuple[Array, Array]:
    """Return the keys of weighted rows; ``mirrored``: with each row's mirror image behind it.

    Returns
    -------
    keys : array, shape (N,) or (2 N,), int64
        -1 where an id is negative, or no int32, or the weight is NaN.
    bounds : array, shape (4,), int64
        The lowest and the highest source and destination, where 0 is always counted as there.
    """
    count = int(src.shape[0])
    bounds, keys = backend.empty_together((4, np.int64), (2 * count if mirrored else count, np.int64), zeroed=1)
    k_pack_rows.launch_strided(count, src, dst, weights, mirrored, keys, bounds)
    return keys, bounds


def start_keeping(
    rows: WeightedRows, ends: Array, out_src: Array, out_dst: Array, out_weights: Array, control: Array
) -> None:
    """Start the kernel that writes each edge once, with its weight, to arrays that have room for all rows.

    ``control``: see ``grid``; gets the numbers of edges and of self-loops.
    """
    keys, order = rows.sorted_keys
    k_keep_rows.launch_resident(
        rows.num_rows,
        keys, order, rows.mirrored, rows.row_weights, rows.adding, ends, out_src, out_dst, out_weights, control,
    )  # fmt: skip


def keep_rows(backend: Backend, rows: WeightedRows) -> tuple[Array, Array, Array, int]:
    """Return the distinct edges of weighted rows, sorted, and their weights; and how many of them are self-loops."""
    count, dtype = rows.num_rows, rows.columns[0].dtype
    control, ends, src, dst, weights = backend.empty_together(
        (CONTROL_SIZE, np.int64), (count, number_dtype(count)), (count, dtype), (count, dtype),
        (count, rows.row_weights.dtype), zeroed=1,
    )  # fmt: skip
    start_keeping(rows, ends, src, dst, weights, control)
    totals = read_totals(backend, control)
    num_edges = totals[RUNS]
    return src[:num_edges], dst[:num_edges], weights[:num_edges], totals[RUN_LOOPS]
