"""Deleting from edge blocks on CUDA: holes are filled with the rows' last entries, by rank.

A row that loses edges has as many holes before its new end as remaining edges behind it. So the n-th hole of the batch
takes the n-th of these edges, over all rows, and ranks are prefix sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dynstore.cuda.block import BOARD, d_sum_block
from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.stores.papers.graphvine.blocks import HOLE, NONE
from dynstore.stores.papers.graphvine.cuda.append import d_before, flag_keys
from dynstore.stores.papers.graphvine.cuda.rows import Runs, d_blocks_for, d_walk, locate_runs, or_other
from dynstore.stores.table.cuda.search import d_find_lower_bound

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.batches.sorted import EdgeBatch
    from dynstore.stores.papers.graphvine.blocks import Blocks
    from dynstore.typing import Array

__all__ = ["Removal", "plan_removal", "remove_keys"]


@dataclass(frozen=True, slots=True)
class Removal:
    """A deletion ready to be written.

    Attributes
    ----------
    places : array, shape (B,), int64
        Place of each key in the pool; -1 for absent ones.
    num_found, num_blocks, num_entries : int
        Keys to delete, blocks to return to the queue, entries that fall out of use.
    founds, frees : array, shape (B,), int64
        Inclusive sums: of keys to delete, by key; of blocks to return, by row.
    holes : array, shape (B,), int64
        Inclusive sums of holes to fill, by key.
    fillers : array, int64
        The place from which each hole is filled.
    freed, links : array, shape (num_blocks,), int64
        The blocks to return, and the links to them, -1 for roots.
    runs : Runs
    """

    places: Array
    num_found: int
    num_blocks: int
    num_entries: int
    founds: Array
    frees: Array
    holes: Array
    fillers: Array
    freed: Array
    links: Array
    runs: Runs | None


@device
def d_kept_entries(length, degree, found, compacting):
    """Return the number of entries that a row uses after a deletion."""
    if compacting:
        return length - found
    return length if degree > found else np.int64(0)


@device
def d_read_run(src, starts, founds, run, degrees, written, compacting):
    """Return a row with keys to delete: its number, the number of keys, its entries before and after."""
    row = np.int64(src[starts[run]])
    found = founds[starts[run + 1] - 1] - d_before(founds, starts[run])
    length, kept = np.int64(0), np.int64(0)
    if found > 0:
        length = np.int64(written[row])
        kept = d_kept_entries(length, np.int64(degrees[row]), found, compacting)
    return row, found, length, kept


@kernel
def k_plan_frees(src, ranks, starts, founds, compacting, size, degrees, written, frees, record):
    """One thread owns one row: count the blocks that it returns.

    ``record``: the totals of keys to delete, blocks and entries to return (one atomic add each a block).
    """
    board = cuda.shared.array(BOARD, np.int64)
    run = np.int64(cuda.grid(1))
    found, free, entries = np.int64(0), np.int64(0), np.int64(0)
    if run < ranks[src.shape[0] - 1]:
        _, found, length, kept = d_read_run(src, starts, founds, run, degrees, written, compacting)
        free = d_blocks_for(length, size) - d_blocks_for(kept, size)
        entries = length - kept
    if run < src.shape[0]:
        frees[run] = free
    all_found, all_freed, all_entries = d_sum_block(found, board), d_sum_block(free, board), d_sum_block(entries, board)
    if cuda.threadIdx.x == 0 and all_found != 0:
        cuda.atomic.add(record, 0, all_found)
        cuda.atomic.add(record, 1, all_freed)
        cuda.atomic.add(record, 2, all_entries)


@kernel
def k_list_tails(src, ranks, starts, founds, size, degrees, written, roots, children, tails, staying):
    """One thread owns one entry behind a row's new end: list its place, and mark it as remaining."""
    t = np.int64(cuda.grid(1))
    if t < tails.shape[0]:
        key = d_find_lower_bound(founds, np.int64(0), np.int64(src.shape[0]), t + 1)
        run = ranks[key] - 1
        row, _, _, kept = d_read_run(src, starts, founds, run, degrees, written, True)
        entry = kept + t - d_before(founds, starts[run])
        tails[t] = d_walk(children, roots[row], entry // size + 1) * size + entry % size
        staying[t] = 1


@kernel
def k_strike_tails(src, places, numbers, ranks, starts, founds, degrees, written, staying, holes):
    """One thread owns one key to delete: mark a hole, or unmark an entry behind the new end."""
    i = cuda.grid(1)
    if i < src.shape[0]:
        hole = 0
        if places[i] >= 0:
            run = ranks[i] - 1
            _, _, _, kept = d_read_run(src, starts, founds, run, degrees, written, True)
            if numbers[i] < kept:
                hole = 1
            else:
                staying[d_before(founds, starts[run]) + numbers[i] - kept] = 0
        holes[i] = hole


@kernel
def k_list_fillers(tails, ranks, fillers):
    """One thread owns one entry behind a row's new end: if it remains, write its place at its rank."""
    t = np.int64(cuda.grid(1))
    if t < tails.shape[0] and ranks[t] > d_before(ranks, t):
        fillers[ranks[t] - 1] = tails[t]


@kernel
def k_list_freed(src, ranks, starts, founds, frees, compacting, size, degrees, written, roots, children, freed, links):
    """One thread owns one block to return: list it, and the link to it."""
    j = np.int64(cuda.grid(1))
    if j < freed.shape[0]:
        run = d_find_lower_bound(frees, np.int64(0), ranks[src.shape[0] - 1], j + 1)
        row, _, _, kept = d_read_run(src, starts, founds, run, degrees, written, compacting)
        number = d_blocks_for(kept, size) + j - d_before(frees, run) + 1
        freed[j] = d_walk(children, roots[row], number)
        link = np.int64(NONE)
        if number > 1:
            link = 2 * d_walk(children, roots[row], number >> 1) + (number & 1)
        links[j] = link


@kernel
def k_fill_holes(places, holes, fillers, pool, weights, weighted):
    """One thread owns one key: fill its hole from behind the rows' new ends, where no thread writes."""
    i = np.int64(cuda.grid(1))
    if i < places.shape[0] and holes[i] > d_before(holes, i):
        filler = fillers[holes[i] - 1]
        pool[places[i]] = pool[filler]
        if weighted:
            weights[places[i]] = weights[filler]


@kernel
def k_mark_holes(places, pool):
    """One thread owns one key: a deleted one becomes a hole."""
    i = cuda.grid(1)
    if i < places.shape[0] and places[i] >= 0:
        pool[places[i]] = HOLE


@kernel
def k_free_blocks(freed, links, children, queue, back):
    """One thread owns one block: append it to the queue, and clear the link to it."""
    j = np.int64(cuda.grid(1))
    if j < freed.shape[0]:
        queue[(back + j) % queue.shape[0]] = freed[j]
        if links[j] >= 0:
            children[links[j]] = NONE


@kernel
def k_shorten_rows(src, ranks, starts, founds, frees, compacting, size, degrees, written, roots, lasts, children):
    """One thread owns one row: write its counts, its last block, and its root if no block is left."""
    run = np.int64(cuda.grid(1))
    if run < ranks[src.shape[0] - 1]:
        row, found, _, kept = d_read_run(src, starts, founds, run, degrees, written, compacting)
        if found > 0:
            degrees[row] -= found
            written[row] = kept
            if frees[run] > d_before(frees, run):
                if kept > 0:
                    lasts[row] = d_walk(children, roots[row], d_blocks_for(kept, size))
                else:
                    lasts[row] = NONE
                    roots[row] = NONE


def plan_removal(backend: Backend, blocks: Blocks, num_rows: int, batch: EdgeBatch, compacting: bool) -> Removal:
    """Find the keys of a batch, and what their deletion moves and returns: one small read-back.

    ``compacting``: a row's last entries fill the holes. Otherwise the holes stay until the row has no edge left.
    """
    xp, src, count = backend.xp, batch.src, len(batch)
    nothing = backend.empty(0, np.int64)
    if count == 0:
        return Removal(nothing, 0, 0, 0, *(nothing,) * 6, None)
    runs, places, numbers = locate_runs(backend, blocks, num_rows, src, batch.dst)
    ranks, starts, size, degrees, written = runs.ranks, runs.starts, blocks.size, blocks.degrees, blocks.written
    founds = flag_keys(backend, places, True)
    record, frees = backend.empty_arena((3, np.int64), (count, np.int64), zeroed=1)
    k_plan_frees.launch(count, src, ranks, starts, founds, compacting, size, degrees, written, frees, record)
    frees = xp.cumsum(frees)
    num_found, num_blocks, num_entries = backend.to_host(record).tolist()
    holes = fillers = nothing
    if compacting and num_found:
        tails, staying, fillers, holes = backend.empty_arena(
            *((length, np.int64) for length in (*(num_found,) * 3, count))
        )
        k_list_tails.launch(
            num_found, src, ranks, starts, founds, size, degrees, written, blocks.roots, blocks.children, tails, staying
        )
        k_strike_tails.launch(count, src, places, numbers, ranks, starts, founds, degrees, written, staying, holes)
        k_list_fillers.launch(num_found, tails, xp.cumsum(staying), fillers)
        holes = xp.cumsum(holes)
    freed = links = nothing
    if num_blocks:
        freed, links = backend.empty_arena((num_blocks, np.int64), (num_blocks, np.int64))
        k_list_freed.launch(
            num_blocks, src, ranks, starts, founds, frees, compacting, size, degrees, written, blocks.roots,
            blocks.children, freed, links,
        )  # fmt: skip
    return Removal(places, num_found, num_blocks, num_entries, founds, frees, holes, fillers, freed, links, runs)


def remove_keys(blocks: Blocks, batch: EdgeBatch, removal: Removal, compacting: bool) -> None:
    """Write a deletion. Allocates nothing."""
    if removal.runs is None or removal.num_found == 0:
        return
    places = removal.places
    if compacting:
        weights, weighted = or_other(blocks.weights, removal.fillers), blocks.weights is not None
        k_fill_holes.launch(len(batch), places, removal.holes, removal.fillers, blocks.pool, weights, weighted)
    else:
        k_mark_holes.launch(len(batch), places, blocks.pool)
    back = blocks.front + blocks.num_free
    k_free_blocks.launch(removal.num_blocks, removal.freed, removal.links, blocks.children, blocks.queue, back)
    k_shorten_rows.launch(
        len(batch), batch.src, removal.runs.ranks, removal.runs.starts, removal.founds, removal.frees, compacting,
        blocks.size, blocks.degrees, blocks.written, blocks.roots, blocks.lasts, blocks.children,
    )  # fmt: skip
