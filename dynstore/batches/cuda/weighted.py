"""Weighted edges of unsorted rows on CUDA: keys that carry their rows, and each edge once with its weight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.batches.cuda.sort import MAX_MERGED, sort_keys, sort_rows
from dynstore.batches.cuda.unique import RUN_LOOPS, RUNS, d_count_runs, d_ends_run
from dynstore.cuda.block import BOARD, d_scan_tile
from dynstore.cuda.compiler import WARP, cuda, device, kernel
from dynstore.cuda.control import declare
from dynstore.cuda.grid import ARRIVALS, CONTROL_SIZE, d_chunk, d_sum_blocks_before, d_sync_grid, read_totals
from dynstore.cuda.warp import d_ballot, d_lane, d_shuffle, d_sum_lanes
from dynstore.input.cuda import d_leave_bounds
from dynstore.stores.table.cuda.arguments import number_dtype

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.batches.unsorted import WeightedRows
    from dynstore.typing import Array

__all__ = ["SortedRows", "WeightedEdges", "keep_rows", "sort_weighted", "start_keeping"]

# Where blocks of these kernels arrive: another kernel on the same ``control`` uses the standard entry.
(KEEPING_ARRIVALS,) = declare("sorted plan", KEEPING_ARRIVALS=ARRIVALS + 1)
# Rows that a thread packs, so that fewer warps have to add their bounds.
ROWS_EACH = 4
# The most rows of one edge that a thread sums alone; a warp shares more.
FEW_ROWS = 32


class _Layout(NamedTuple):
    """The parts of a key: source and destination, of ``id_bits`` each, and its row's number in the lowest bits.

    Ids are below ``bound``. The bits are changed by exclusive or with ``flip``, so that their order is that of int64.
    """

    bound: int
    id_bits: int
    row_bits: int
    flip: int


# Without the row, which is sorted along with the key.
WIDE = _Layout(1 << 31, 32, 0, 0)


class SortedRows(NamedTuple):
    """The rows of a weighted batch, sorted.

    Attributes
    ----------
    keys : array
        Source and destination of each, in the high and the low half; ascending.
    order : array
        Their numbers in the batch; ``mirrored``: row 2 i and the mirror image behind it have the weight i.
    mirrored : bool
    weights : array
    """

    keys: Array
    order: Array
    mirrored: Any
    weights: Array


class WeightedEdges(NamedTuple):
    """Where the edges of a weighted batch are written, each once: sources, destinations, weights."""

    src: Array
    dst: Array
    weights: Array


def _choose_layout(num_vertices: int, num_rows: int) -> _Layout:
    """Return a layout of keys with their rows, if two ids and a row fit into 64 bits, else one without rows.

    No row's number has all bits set, so a key of set bits alone is no edge.
    """
    id_bits, row_bits = max(num_vertices - 1, 1).bit_length(), num_rows.bit_length()
    return _Layout(1 << id_bits, id_bits, row_bits, -1 << 63) if 2 * id_bits + row_bits <= 64 else WIDE


@device
def d_pack_key(row, column, number, id_bits, row_bits):
    """Return the bits of a key, see ``_Layout``."""
    return (((row << id_bits) | column) << row_bits) | (number & ((np.int64(1) << row_bits) - 1))


@kernel
def k_pack_rows(src, dst, weights, mirrored, bound, id_bits, row_bits, flip, keys, bounds):
    """Threads stride over the rows: pack each key, see ``_Layout``; all bits are set if an id does not fit or for NaN.

    ``mirrored``: row i goes to 2 i, its mirror image behind it. ``bounds``: the lowest and the highest source and
    destination, starting from zeros.
    """
    i = np.int64(cuda.grid(1))
    low_row, high_row, low_column, high_column = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    while i < src.shape[0]:
        row, column, weight = np.int64(src[i]), np.int64(dst[i]), weights[i]
        low_row, high_row = min(low_row, row), max(high_row, row)
        low_column, high_column = min(low_column, column), max(high_column, column)
        fits = min(row, column) >= 0 and max(row, column) < bound and weight == weight
        at = 2 * i if mirrored else i
        keys[at] = (d_pack_key(row, column, at, id_bits, row_bits) if fits else np.int64(-1)) ^ flip
        if mirrored:
            keys[at + 1] = (d_pack_key(column, row, at + 1, id_bits, row_bits) if fits else np.int64(-1)) ^ flip
        i += cuda.gridsize(1)
    d_leave_bounds(bounds, low_row, high_row, low_column, high_column)


@kernel
def k_unpack_rows(keys, id_bits, row_bits, flip, order):
    """Threads stride over keys packed with rows: leave keys without rows, -1 for no edge; the rows go to ``order``."""
    id_mask, row_mask = (np.int64(1) << id_bits) - 1, (np.int64(1) << row_bits) - 1
    for i in range(cuda.grid(1), keys.shape[0], cuda.gridsize(1)):
        key = keys[i] ^ flip
        row, column = (key >> (id_bits + row_bits)) & id_mask, (key >> row_bits) & id_mask
        keys[i] = np.int64(-1) if key == -1 else (row << 32) | column
        order[i] = min(key & row_mask, keys.shape[0] - 1)


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
    """Return the float64 sum of every ``stride``-th of ``count`` rows of a run, from number ``begin`` on.

    The first row is at ``first``; the others follow at a distance of 1, or of 2 if ``apart`` is 1.
    """
    total, i = np.float64(0.0), begin
    while i < count:
        total += np.float64(weights[order[first + (i << apart)] >> shift])
        i += stride
    return total


@device
def d_sum_run(order, shift, weights, first, apart, count):
    """Return the sum of the ``count`` rows of the lane's run; the whole warp sums those of long runs.

    The order of additions depends on ``count`` alone, so an edge and its mirror image have equal sums. All lanes call.
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
def d_resolve_runs(rows, adding, ends, count, out):
    """Write the edge of each of ``count`` runs, and its weight: the last row's, or if ``adding`` the sum of all.

    A self-loop is its own mirror image: both are in the run, next to each other, and the second is left out of the sum.
    """
    base, end = d_chunk(count)
    shift = np.int64(1) if rows.mirrored else np.int64(0)
    while base < end:
        i = base + cuda.threadIdx.x
        last, before = np.int64(0), np.int64(0)
        key = np.int64(-1)
        if i < end:
            last = np.int64(ends[i])
            before = np.int64(ends[i - 1]) if i > 0 else np.int64(-1)
            key = np.int64(rows.keys[last])
            out.src[i] = np.int32(key >> 32)
            out.dst[i] = np.int32(key & 0xFFFFFFFF)
        if adding:
            apart = np.int64(1) if rows.mirrored and (key >> 32) == (key & 0xFFFFFFFF) else np.int64(0)
            total = d_sum_run(rows.order, shift, rows.weights, before + 1, apart, (last - before) >> apart)
            if i < end:
                out.weights[i] = total
        elif i < end:
            out.weights[i] = rows.weights[rows.order[last] >> shift]
        base += cuda.blockDim.x


@kernel
def k_keep_rows(keys, order, mirrored, weights, adding, ends, out_src, out_dst, out_weights, control):
    """Keep each of sorted keys once, with its weight; two grid waits, one between any two phases.

    Leaves the numbers of keys and of self-loops in ``control``.
    """
    board = cuda.shared.array(BOARD, np.int64)
    rows, out = SortedRows(keys, order, mirrored, weights), WeightedEdges(out_src, out_dst, out_weights)
    d_count_runs(keys, control, board)
    d_sync_grid(control, 1, KEEPING_ARRIVALS)
    d_list_runs(keys, ends, control, board)
    d_sync_grid(control, 2, KEEPING_ARRIVALS)
    d_resolve_runs(rows, adding, ends, control[RUNS], out)


def sort_weighted(backend: Backend, rows: WeightedRows, num_vertices: int) -> tuple[Array, Array, Array, int]:
    """Sort the keys of weighted rows, with each row's mirror image behind it if there are any.

    Many keys are sorted with their rows in the lowest bits, if there is room: CuPy takes less time for keys alone.

    Parameters
    ----------
    num_vertices : int
        Above all int32, unless ids from it on are no vertices.

    Returns
    -------
    keys, order : array, int64
        As ``WeightedRows.sort_below`` returns them. A key is -1 if an id is negative or from ``bound`` on, or if the
        weight is NaN; the place and the row of such keys are undefined.
    bounds : array, shape (4,), int64
        The lowest and the highest source and destination; 0 is always counted as present.
    bound : int
        Above all vertices and at most 2^31; higher than needed if that takes no more bits.
    """
    src, dst = rows.columns
    count = int(src.shape[0])
    layout = _choose_layout(num_vertices, rows.num_rows) if rows.num_rows > MAX_MERGED else WIDE
    bounds, keys = backend.empty_arena((4, np.int64), (rows.num_rows, np.int64), zeroed=1)
    k_pack_rows.launch_strided(-(-count // ROWS_EACH), src, dst, rows.row_weights, rows.mirrored, *layout, keys, bounds)
    if layout is WIDE:
        return *sort_rows(backend, keys), bounds, layout.bound
    keys = sort_keys(backend, keys)
    order = backend.empty(rows.num_rows, np.int64)
    k_unpack_rows.launch_strided(rows.num_rows, keys, *layout[1:], order)
    return keys, order, bounds, layout.bound


def start_keeping(
    rows: WeightedRows,
    keys: Array,
    order: Array,
    ends: Array,
    out_src: Array,
    out_dst: Array,
    out_weights: Array,
    control: Array,
) -> None:
    """Start the kernel that writes each edge once, with its weight, to arrays that have room for all rows.

    ``keys``, ``order``: as sorted; ``control``: see ``dynstore/cuda/grid.py``; gets the numbers of edges and
    self-loops.
    """
    k_keep_rows.launch_resident(
        rows.num_rows,
        keys, order, rows.mirrored, rows.row_weights, rows.adding, ends, out_src, out_dst, out_weights, control,
    )  # fmt: skip


def keep_rows(backend: Backend, rows: WeightedRows) -> tuple[Array, Array, Array, int]:
    """Return the distinct edges of weighted rows, sorted, their weights, and how many of them are self-loops."""
    count, dtype = rows.num_rows, rows.columns[0].dtype
    control, ends, src, dst, weights = backend.empty_arena(
        (CONTROL_SIZE, np.int64), (count, number_dtype(count)), (count, dtype), (count, dtype),
        (count, rows.row_weights.dtype), zeroed=1,
    )  # fmt: skip
    start_keeping(rows, *rows.sort_below(), ends, src, dst, weights, control)
    totals = read_totals(backend, control)
    num_edges = totals[RUNS]
    return src[:num_edges], dst[:num_edges], weights[:num_edges], totals[RUN_LOOPS]
