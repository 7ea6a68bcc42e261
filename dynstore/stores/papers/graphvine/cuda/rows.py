"""Reading edge blocks in a binary tree for each vertex on CUDA: rows are divided into stretches of 32 blocks.

The lanes of a warp each walk to one of 32 neighbouring blocks, then the warp reads the entries of all of them in order.
So many warps share a row of many blocks, and each block is walked to once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dynstore.cuda.block import d_claim
from dynstore.cuda.compiler import WARP, cuda, device, kernel
from dynstore.cuda.warp import d_lane, d_shuffle
from dynstore.stores.papers.graphvine.blocks import HOLE, NONE
from dynstore.stores.table.cuda.search import d_find_lower_bound

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.stores.papers.graphvine.blocks import Blocks
    from dynstore.typing import Array

__all__ = ["Runs", "d_blocks_for", "d_walk", "find_keys", "locate_runs", "or_other", "read_rows"]

# Even a few keys may be in long rows, so at least so many warps are started.
MIN_WARPS = 4096


@dataclass(frozen=True, slots=True)
class Runs:
    """The rows of a batch's sorted keys.

    Attributes
    ----------
    ranks : array, shape (B,), int64
        The number of each key's row among them, from 1; the last is the number of rows.
    starts : array, shape (B + 1,), int64
        The first key of each row, and B behind the last.
    """

    ranks: Array
    starts: Array


@device
def d_blocks_for(entries, size):
    """Return the number of blocks for ``entries`` entries."""
    return (entries + size - 1) // size


@device
def d_walk(children, root, number):
    """Return a row's block by its number in level order; the binary digits after the first are the path, 0 is left."""
    step = np.int64(1)
    while step <= number:
        step <<= 1
    step >>= 2
    block = np.int64(root)
    while step > 0:
        side = 1 if (number & step) != 0 else 0
        block = np.int64(children[2 * block + side])
        step >>= 1
    return block


@device
def d_walk_to_lanes(children, root, first, count):
    """Return to each lane the block number ``first`` + lane, counted from 1; NONE behind the row's last."""
    number = first + d_lane() + 1
    block = np.int64(NONE)
    if number <= count:
        block = d_walk(children, root, number)
    return block


@device
def d_share(items, count):
    """Return the first and the last + 1 of the stretches that the warp owns, and the row of the first.

    ``items``: inclusive sums of the stretches of ``count`` rows.
    """
    warps = np.int64(cuda.gridsize(1)) // WARP
    total = items[count - 1]
    share = (total + warps - 1) // warps
    first = min(np.int64(cuda.grid(1)) // WARP * share, total)
    return first, min(first + share, total), d_find_lower_bound(items, np.int64(0), count, first + 1)


@device
def d_divide(entries, size):
    """Return the quotient of two numbers below 2**32: a 64-bit division takes several times as long."""
    return np.int64(np.uint32(entries) // np.uint32(size))


@kernel
def k_flag_runs(src, flags):
    """One thread owns one key: set its flag if it is its row's first."""
    i = cuda.grid(1)
    if i < src.shape[0]:
        flags[i] = 1 if i == 0 or src[i] != src[i - 1] else 0


@kernel
def k_list_runs(src, ranks, num_rows, size, written, starts, items, places):
    """One thread owns one key: the first of a row lists the row, and its number of stretches."""
    i = cuda.grid(1)
    if i < src.shape[0]:
        run = ranks[i] - 1
        if i == 0 or src[i] != src[i - 1]:
            row = np.int64(src[i])
            length = np.int64(written[row]) if row < num_rows else np.int64(0)
            starts[run] = i
            items[run] = d_blocks_for(d_blocks_for(length, size), WARP)
        if i == src.shape[0] - 1:
            starts[run + 1] = src.shape[0]
        places[i] = -1


@kernel
def k_find_keys(src, dst, ranks, starts, items, size, written, roots, children, pool, places, numbers):
    """A warp owns neighbouring stretches of rows' blocks: it searches each entry among the row's keys.

    ``items``: inclusive sums of the rows' stretches.
    """
    item, last, run = d_share(items, ranks[src.shape[0] - 1])
    while item < last:
        while items[run] <= item:
            run += 1
        before = items[run - 1] if run > 0 else np.int64(0)
        low, high = starts[run], starts[run + 1]
        row, first = np.int64(src[low]), (item - before) * WARP
        length = np.int64(written[row])
        block = d_walk_to_lanes(children, roots[row], first, d_blocks_for(length, size))
        begin = first * size
        end = min(length, begin + WARP * size)
        tile = begin
        while tile < end:
            entry = tile + d_lane()
            which = d_divide(entry - begin, size)
            held = d_shuffle(block, which & 31)
            if entry < end:
                place = (held - which) * size + entry - begin
                key = pool[place]
                at = d_find_lower_bound(dst, low, high, key)
                if at < high and dst[at] == key:
                    places[at] = place
                    numbers[at] = entry
            tile += WARP
        item += 1


@kernel
def k_list_reads(rows, size, degrees, written, items, sizes):
    """One thread owns one row: write its numbers of stretches and of edges."""
    i = cuda.grid(1)
    if i < rows.shape[0]:
        row = rows[i]
        items[i] = d_blocks_for(d_blocks_for(np.int64(written[row]), size), WARP)
        sizes[i] = degrees[row]


@kernel
def k_read_rows(rows, items, cursors, size, written, roots, children, pool, weights, weighted, src, dst, read_weights):
    """A warp owns neighbouring stretches of rows' blocks: it copies their edges to the rows' next places.

    ``items``: inclusive sums of the rows' stretches. ``cursors``: each row's next place (one atomic add a warp and
    tile), so the order inside a row is arbitrary.
    """
    item, last, at = d_share(items, np.int64(rows.shape[0]))
    while item < last:
        while items[at] <= item:
            at += 1
        before = items[at - 1] if at > 0 else np.int64(0)
        row, first = np.int64(rows[at]), (item - before) * WARP
        length = np.int64(written[row])
        block = d_walk_to_lanes(children, roots[row], first, d_blocks_for(length, size))
        begin = first * size
        end = min(length, begin + WARP * size)
        tile = begin
        while tile < end:
            entry = tile + d_lane()
            which = d_divide(entry - begin, size)
            held = d_shuffle(block, which & 31)
            place = (held - which) * size + entry - begin
            there = entry < end
            if there:
                there = pool[place] != HOLE
            to = d_claim(cursors, at, there)
            if there:
                src[to] = row
                dst[to] = pool[place]
                if weighted:
                    read_weights[to] = weights[place]
            tile += WARP
        item += 1


def or_other(weights: Array | None, other: Array) -> Array:
    """Return the weights, or ``other`` for unweighted graphs: a placeholder that kernels do not write."""
    return other if weights is None else weights


def locate_runs(backend: Backend, blocks: Blocks, num_rows: int, src: Array, dst: Array) -> tuple[Runs, Array, Array]:
    """Find sorted and distinct keys, at least one; return their rows and the results of :func:`find_keys`."""
    xp, count = backend.xp, int(src.shape[0])
    items, flags, starts, places, numbers = backend.empty_arena(
        (count, np.int64), (count, np.int64), (count + 1, np.int64), (count, np.int64), (count, np.int64), zeroed=1
    )
    k_flag_runs.launch(count, src, flags)
    ranks = xp.cumsum(flags)
    k_list_runs.launch(count, src, ranks, num_rows, blocks.size, blocks.written, starts, items, places)
    k_find_keys.launch_strided(
        max(count, MIN_WARPS) * WARP, src, dst, ranks, starts, xp.cumsum(items), blocks.size, blocks.written,
        blocks.roots, blocks.children, blocks.pool, places, numbers,
    )  # fmt: skip
    return Runs(ranks, starts), places, numbers


def find_keys(backend: Backend, blocks: Blocks, num_rows: int, src: Array, dst: Array) -> tuple[Array, Array]:
    """Find sorted and distinct keys; see :func:`dynstore.stores.papers.graphvine.cpu.update.find_keys`."""
    if src.shape[0] == 0:
        return backend.empty(0, np.int64), backend.empty(0, np.int64)
    _, places, numbers = locate_runs(backend, blocks, num_rows, src, dst)
    return places, numbers


def read_rows(backend: Backend, blocks: Blocks, rows: Array) -> tuple[Array, Array, Array | None]:
    """Return the edges of some rows, unordered within a row."""
    xp, count = backend.xp, int(rows.shape[0])
    items, sizes = backend.empty_arena((count, np.int64), (count, np.int64))
    k_list_reads.launch(count, rows, blocks.size, blocks.degrees, blocks.written, items, sizes)
    ends = xp.cumsum(sizes)
    total = int(ends[-1]) if count else 0
    src, dst = backend.empty(total, blocks.pool.dtype), backend.empty(total, blocks.pool.dtype)
    weights = None if blocks.weights is None else backend.empty(total, blocks.weights.dtype)
    if total:
        k_read_rows.launch_strided(
            max(count, MIN_WARPS) * WARP, rows, xp.cumsum(items), ends - sizes, blocks.size, blocks.written,
            blocks.roots, blocks.children, blocks.pool, or_other(blocks.weights, rows), weights is not None,
            src, dst, or_other(weights, rows),
        )  # fmt: skip
    return src, dst, weights
