"""Appending to edge blocks on CUDA: prefix sums assign blocks of the queue to rows, and entries to keys."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.cuda.block import BOARD, d_sum_block
from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.stores.papers.graphvine.cuda.rows import Runs, d_blocks_for, d_walk, locate_runs, or_other
from dynstore.stores.table.cuda.search import d_find_lower_bound

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.batches.sorted import EdgeBatch
    from dynstore.stores.papers.graphvine.blocks import Blocks
    from dynstore.typing import Array

__all__ = ["Appending", "NewEdges", "append_keys", "d_before", "flag_keys", "plan_append"]


@dataclass(frozen=True, slots=True)
class Appending:
    """A planned insertion; its blocks may still have to be reserved.

    Attributes
    ----------
    places : array, shape (B,), int64
        Place of each key in the pool; -1 for absent ones, which will be appended.
    num_new, num_blocks : int
        Keys to append, and blocks to take from the queue for them.
    news, needs : array, shape (B,), int64
        Inclusive sums: of keys to append, by key; of blocks to take, by row.
    runs : Runs
    """

    places: Array
    num_new: int
    num_blocks: int
    news: Array
    needs: Array
    runs: Runs | None


@device
def d_before(sums, index):
    """Return the exclusive sum at an index, from inclusive sums."""
    return sums[index - 1] if index > 0 else np.int64(0)


@kernel
def k_flag_keys(places, wanted, flags):
    """One thread owns one key: set its flag if it is there (``wanted``), or if it is not."""
    i = cuda.grid(1)
    if i < places.shape[0]:
        flags[i] = 1 if (places[i] >= 0) == wanted else 0


@kernel
def k_plan_blocks(src, ranks, starts, news, num_rows, size, written, needs, record):
    """One thread owns one row: count the blocks that its new keys need after the free entries of its last block.

    ``record``: the totals of keys to append and blocks to take (one atomic add each a block).
    """
    board = cuda.shared.array(BOARD, np.int64)
    run = np.int64(cuda.grid(1))
    new, need = np.int64(0), np.int64(0)
    if run < ranks[src.shape[0] - 1]:
        row = np.int64(src[starts[run]])
        new = news[starts[run + 1] - 1] - d_before(news, starts[run])
        length = np.int64(written[row]) if row < num_rows else np.int64(0)
        need = d_blocks_for(length + new, size) - d_blocks_for(length, size)
    if run < src.shape[0]:
        needs[run] = need
    all_new, all_needed = d_sum_block(new, board), d_sum_block(need, board)
    if cuda.threadIdx.x == 0 and all_new != 0:
        cuda.atomic.add(record, 0, all_new)
        cuda.atomic.add(record, 1, all_needed)


@kernel
def k_hang_blocks(src, ranks, starts, needs, num_blocks, size, written, roots, children, queue, front):
    """One thread owns one block of the queue: link it at its row's next place in level order.

    Its parent is an old block, found over links that no thread writes now, or another block of the queue.
    """
    j = np.int64(cuda.grid(1))
    if j < num_blocks:
        run = d_find_lower_bound(needs, np.int64(0), ranks[src.shape[0] - 1], j + 1)
        before, row = d_before(needs, run), np.int64(src[starts[run]])
        count = d_blocks_for(np.int64(written[row]), size)
        number = count + j - before + 1
        block = queue[(front + j) % queue.shape[0]]
        if number == 1:
            roots[row] = block
        else:
            above = number >> 1
            if above <= count:
                parent = d_walk(children, roots[row], above)
            else:
                parent = np.int64(queue[(front + before + above - count - 1) % queue.shape[0]])
            children[2 * parent + (number & 1)] = block


class NewEdges(NamedTuple):
    """The edges of a batch; ``weights`` is any array unless they are ``weighted``."""

    src: Array
    dst: Array
    weights: Array
    weighted: Any


@partial(kernel, records={"new": NewEdges})
def k_append_keys(
    new, add, places, ranks, starts, news, needs, size, written, lasts, pool, weights, queue, front
):  # fmt: skip
    """One thread owns one key: write a present edge's weight; append an absent one to its row, at its rank."""
    i = cuda.grid(1)
    if i < new.src.shape[0]:
        place = places[i]
        if place >= 0:
            if new.weighted:
                weights[place] = weights[place] + new.weights[i] if add else new.weights[i]
        else:
            run, row = ranks[i] - 1, np.int64(new.src[i])
            length = np.int64(written[row])
            entry = length + news[i] - 1 - d_before(news, starts[run])
            count, which = d_blocks_for(length, size), entry // size
            if which < count:
                block = np.int64(lasts[row])
            else:
                block = np.int64(queue[(front + d_before(needs, run) + which - count) % queue.shape[0]])
            place = (block - which) * size + entry
            pool[place] = new.dst[i]
            if new.weighted:
                weights[place] = new.weights[i]


@kernel
def k_finish_rows(src, ranks, starts, news, needs, degrees, written, lasts, queue, front):
    """One thread owns one row: write its counts, and its last block."""
    run = np.int64(cuda.grid(1))
    if run < ranks[src.shape[0] - 1]:
        row = np.int64(src[starts[run]])
        new = news[starts[run + 1] - 1] - d_before(news, starts[run])
        degrees[row] += new
        written[row] += new
        if needs[run] > d_before(needs, run):
            lasts[row] = queue[(front + needs[run] - 1) % queue.shape[0]]


def flag_keys(backend: Backend, places: Array, wanted: bool) -> Array:
    """Return inclusive counts of the keys that are there (``wanted``), or that are not; int64."""
    flags = backend.empty(places.shape[0], np.int64)
    k_flag_keys.launch(places.shape[0], places, wanted, flags)
    sums: Array = backend.xp.cumsum(flags)
    return sums


def plan_append(backend: Backend, blocks: Blocks, num_rows: int, batch: EdgeBatch) -> Appending:
    """Find the keys of a batch, and the blocks that the absent ones need: one small read-back."""
    src, count = batch.src, len(batch)
    if count == 0:
        nothing = backend.empty(0, np.int64)
        return Appending(nothing, 0, 0, nothing, nothing, None)
    runs, places, _ = locate_runs(backend, blocks, num_rows, src, batch.dst)
    news = flag_keys(backend, places, False)
    record, needs = backend.empty_arena((2, np.int64), (count, np.int64), zeroed=1)
    k_plan_blocks.launch(
        count, src, runs.ranks, runs.starts, news, num_rows, blocks.size, blocks.written, needs, record
    )
    needs = backend.xp.cumsum(needs)
    num_new, num_blocks = backend.to_host(record).tolist()
    return Appending(places, num_new, num_blocks, news, needs, runs)


def append_keys(blocks: Blocks, batch: EdgeBatch, appending: Appending, add: bool) -> None:
    """Write an insertion; the queue must have the blocks. Allocates nothing."""
    if appending.runs is None:
        return
    src, ranks, starts = batch.src, appending.runs.ranks, appending.runs.starts
    news, needs, queue, front, size = appending.news, appending.needs, blocks.queue, blocks.front, blocks.size
    k_hang_blocks.launch(
        appending.num_blocks, src, ranks, starts, needs, appending.num_blocks, size, blocks.written, blocks.roots,
        blocks.children, queue, front,
    )  # fmt: skip
    k_append_keys.launch(
        len(batch), src, batch.dst, or_other(batch.weights, batch.dst), blocks.weights is not None, add,
        appending.places, ranks, starts, news, needs, size, blocks.written, blocks.lasts, blocks.pool,
        or_other(blocks.weights, batch.dst), queue, front,
    )  # fmt: skip
    k_finish_rows.launch(
        len(batch), src, ranks, starts, news, needs, blocks.degrees, blocks.written, blocks.lasts, queue, front
    )
