"""The states of edges before several updates, summed up on CUDA: one launch."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.batches.cuda.sort import MOST_KEYS, d_merge_keys, plan_merging
from dynstore.cuda.block import BOARD, d_scan_tile
from dynstore.cuda.compiler import MAX_RESIDENT_BLOCKS, cuda, device, kernel
from dynstore.cuda.control import declare
from dynstore.cuda.grid import SUMS, d_chunk, d_leave_sum, d_sum_blocks_before, d_sync_grid
from dynstore.cuda.mailbox import Mailbox, d_post_totals
from dynstore.typing import MAX_INT32

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["States", "UpdatedRows", "sum_states"]

(EDGES,) = declare("states", EDGES=0)
CONTROL_SIZE = SUMS + MAX_RESIDENT_BLOCKS


@device
def d_pack_edge(u, v):
    """Return the key of an edge; -1 if an id does not fit, as those of no vertex may."""
    return (u << 32) | v if min(u, v) >= 0 and max(u, v) <= 0x7FFFFFFF else np.int64(-1)


@device
def d_begins_run(keys, i):
    """Return whether a sorted key is the first of its run."""
    return i == 0 or keys[i] != keys[i - 1]


class UpdatedRows(NamedTuple):
    """The rows of all updates, and the state of each edge before its update; ``weights`` may be empty.

    ``mirrored``: rows also stand for their mirror images.
    """

    src: Array
    dst: Array
    mirrored: Any
    there: Array
    weights: Array


class States(NamedTuple):
    """The distinct edges, with the state of each before all updates."""

    src: Array
    dst: Array
    there: Array
    weights: Array


@partial(kernel, records={"given": UpdatedRows, "kept": States})
def k_sum_states(
    given, keys, spare_rows, sorted_keys, rows, num_levels, bits, kept, control, mailbox, ticket
):  # fmt: skip
    """Pack the keys of all rows, sort them with their rows, and keep the first row of each key.

    If rows are ``mirrored``, the mirror image of row ``r`` is row ``2 r + 1``, behind the row itself: rows stay in the
    order in which they came. The grid waits ``num_levels`` + 3 times. The number of edges is posted before they are
    written.
    """
    board = cuda.shared.array(BOARD, np.int64)
    for i in range(cuda.grid(1), given.src.shape[0], cuda.gridsize(1)):
        u, v = np.int64(given.src[i]), np.int64(given.dst[i])
        if given.mirrored:
            keys[2 * i] = d_pack_edge(u, v)
            keys[2 * i + 1] = d_pack_edge(v, u)
        else:
            keys[i] = d_pack_edge(u, v)
    d_sync_grid(control, 1)
    waits = d_merge_keys(keys, spare_rows, sorted_keys, rows, num_levels, bits, control, 1)
    d_sync_grid(control, waits + 1)
    first, end = d_chunk(np.int64(sorted_keys.shape[0]))
    count = np.int64(0)
    for i in range(first + cuda.threadIdx.x, end, cuda.blockDim.x):
        count += np.int64(d_begins_run(sorted_keys, i))
    d_leave_sum(control, EDGES, count, board)
    d_sync_grid(control, waits + 2)
    if cuda.grid(1) == cuda.gridsize(1) - 1:
        d_post_totals(control, mailbox, ticket)
    place = np.int64(d_sum_blocks_before(control, EDGES, board))
    for base in range(first, end, cuda.blockDim.x):
        i = base + cuda.threadIdx.x
        wanted = i < end and d_begins_run(sorted_keys, i)
        before, total = d_scan_tile(np.int64(wanted), board)
        if wanted:
            to, key, row = place + before, sorted_keys[i], rows[i]
            if given.mirrored:
                row = row >> 1
            kept.src[to] = np.int32(key >> 32)
            kept.dst[to] = np.int32(key & 0xFFFFFFFF)
            kept.there[to] = given.there[row]
            if given.weights.shape[0] > 0:
                kept.weights[to] = given.weights[row]
        place += total


def sum_states(
    backend: Backend, src: Array, dst: Array, mirrored: bool, there: Array, weights: Array | None, num_vertices: int
) -> tuple[Array, Array, Array, Array | None]:
    """Sort edges, and keep each once, with the state in its first row; see the host's ``sum_states``."""
    size = int(src.shape[0]) << mirrored
    if not size:
        return src, dst, there, weights
    if num_vertices > MAX_INT32 or size > MOST_KEYS:
        return _sum_wide(backend, src, dst, mirrored, there, weights)
    none = weights is None
    stored: Array = backend.nothing(np.float32) if weights is None else weights
    numbers, ids = (size, np.int64), (size, src.dtype)
    control, keys, spare_rows, sorted_keys, rows, *kept = backend.empty_arena(
        (CONTROL_SIZE, np.int64), numbers, numbers, numbers, numbers, ids, ids, (size, np.bool_),
        (0 if none else size, stored.dtype), zeroed=1,
    )  # fmt: skip
    mailbox = Mailbox(backend)
    ticket = mailbox.next_ticket()
    k_sum_states.launch_resident(
        size, src, dst, mirrored, there, stored, keys, spare_rows, sorted_keys, rows, *plan_merging(size), *kept,
        control, mailbox.words, ticket,
    )  # fmt: skip
    num_edges = mailbox.read(backend, ticket)[EDGES]
    src, dst, there, stored = (array[:num_edges] for array in kept)
    return src, dst, there, None if none else stored


def _sum_wide(
    backend: Backend, src: Array, dst: Array, mirrored: bool, there: Array, weights: Array | None
) -> tuple[Array, Array, Array, Array | None]:
    """Do the same for ids of more than 31 bits, or very many rows."""
    xp = backend.xp
    rows = xp.arange(src.shape[0])
    if mirrored:
        src, dst, rows = xp.concatenate((src, dst)), xp.concatenate((dst, src)), xp.concatenate((rows, rows))
    order = xp.lexsort(xp.stack((rows, dst, src)))
    src, dst, rows = src[order], dst[order], rows[order]
    begins = backend.empty(src.shape[0], np.bool_)
    begins[:1] = True
    begins[1:] = (src[1:] != src[:-1]) | (dst[1:] != dst[:-1])
    rows = rows[begins]
    return src[begins], dst[begins], there[rows], None if weights is None else weights[rows]
