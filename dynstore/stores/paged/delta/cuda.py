"""Finding edges in two sorted runs on the GPU, and listing those that are new."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.cuda.block import BOARD, d_scan_tile
from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.cuda.control import declare
from dynstore.cuda.grid import CONTROL_SIZE, d_chunk, d_leave_sum, d_sum_blocks_before, d_sync_grid
from dynstore.cuda.mailbox import Mailbox, d_post_totals
from dynstore.stores.paged.cuda import d_find_pair
from dynstore.stores.table.cuda.search import d_test_bit

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["search_runs"]

IN_LARGE, IN_SMALL, LOOPS, NEW = declare("search of runs", IN_LARGE=0, IN_SMALL=1, LOOPS=2, NEW=3)


@device
def d_is_at(src, dst, place, row, column):
    """Return whether a place of a run holds an edge."""
    return place < src.shape[0] and src[place] == row and dst[place] == column


@device
def d_is_new(slot, is_there, elsewhere, i, takes_large):
    """Return whether edge ``i`` is to be listed."""
    return not is_there and (takes_large or slot < 0) and (elsewhere.shape[0] == 0 or elsewhere[i] < 0)


@kernel
def k_search_runs(
    large_src, large_dst, valid, small_src, small_dst, src, dst, elsewhere, takes_large, slots, places, there,
    new_src, new_dst, new_places, rows, control, mailbox, ticket,
):  # fmt: skip
    """A block owns neighbouring edges, a thread one at a time: write where it is in each run, and count.

    The counts are posted. If new edges are listed, the blocks wait for each other (one grid wait) and list theirs.
    """
    board = cuda.shared.array(BOARD, np.int64)
    first, end = d_chunk(np.int64(src.shape[0]))
    num_large, num_small, num_loops, num_new = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for i in range(first + cuda.threadIdx.x, end, cuda.blockDim.x):
        row, column = src[i], dst[i]
        slot = d_find_pair(large_src, large_dst, row, column)
        place = d_find_pair(small_src, small_dst, row, column)
        in_large = d_is_at(large_src, large_dst, slot, row, column) and d_test_bit(valid, slot)
        in_small = d_is_at(small_src, small_dst, place, row, column)
        slot = slot if in_large else np.int64(-1)
        slots[i], places[i], there[i] = slot, place, in_small
        num_large += np.int64(in_large)
        num_small += np.int64(in_small)
        num_loops += np.int64(row == column and (in_large or in_small))
        num_new += np.int64(d_is_new(slot, in_small, elsewhere, i, takes_large))
    d_leave_sum(control, IN_LARGE, num_large, board)
    d_leave_sum(control, IN_SMALL, num_small, board)
    d_leave_sum(control, LOOPS, num_loops, board)
    d_leave_sum(control, NEW, num_new, board)
    d_sync_grid(control, 1)
    if cuda.grid(1) == cuda.gridsize(1) - 1:
        d_post_totals(control, mailbox, ticket)
    if new_src.shape[0] == 0:  # the same in all threads
        return
    before = d_sum_blocks_before(control, NEW, board)
    for tile in range(first, end, cuda.blockDim.x):
        i = tile + cuda.threadIdx.x
        new = False
        if i < end:
            new = d_is_new(slots[i], there[i], elsewhere, i, takes_large)
        rank, total = d_scan_tile(np.int32(new), board)
        if i < end:
            place, to = places[i], before + rank
            places[i] = place + to
            if new:
                new_src[to], new_dst[to], new_places[to] = src[i], dst[i], place
                if rows.shape[0] > 0:
                    rows[to] = i
        before += total


def search_runs(
    backend: Backend,
    runs: tuple[Array, ...],
    edges: tuple[Array, Array],
    found: tuple[Array, Array, Array],
    listed: tuple[Array, Array, Array, Array],
    elsewhere: Array,
    takes_large: bool,
) -> list[int]:
    """Write where edges are, and list new ones; see the host's ``search_runs``."""
    count = edges[0].shape[0]
    if not count:
        return [0, 0, 0, 0]
    control, mailbox = backend.zeros(CONTROL_SIZE, np.int64), Mailbox(backend)
    ticket = mailbox.next_ticket()
    k_search_runs.launch_resident(
        count, *runs, *edges, elsewhere, takes_large, *found, *listed, control, mailbox.words, ticket
    )
    return mailbox.read(backend, ticket)[: NEW + 1]
