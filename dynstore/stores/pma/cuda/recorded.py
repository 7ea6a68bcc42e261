"""Edges by the times of their records, on CUDA: finding them in one pass over the slots, and deleting what it finds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dynstore.cuda.block import BOARD
from dynstore.cuda.compiler import WARP, cuda, device, kernel
from dynstore.cuda.control import declare
from dynstore.cuda.grid import ARRIVALS, SUMS
from dynstore.cuda.mailbox import Mailbox, d_post_when_last
from dynstore.cuda.warp import d_ballot, d_lane, d_max_lanes
from dynstore.stores.pma.aged import MOST_STRETCHES
from dynstore.stores.pma.cuda.delete import lowest_count
from dynstore.stores.pma.cuda.delete_rows import FOUND, FOUND_LOOPS, SPARSE, d_leave_found, d_may_delete

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.stores.pma.aged import Aged
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["Old", "delete_below", "lower_stretches", "mark_below", "raise_stretches"]

# Words with a bit for each stretch.
FLAG_WORDS = MOST_STRETCHES >> 5
# Leaves that a warp reads at once, so that enough of them are on their way from memory.
LEAVES_EACH = 4
(POST_ARRIVALS,) = declare("deletion", POST_ARRIVALS=ARRIVALS + 3)


@kernel
def k_flag_stretches(lows, bound, flags):
    """A thread owns a stretch; warps write a bit for each: whether records in it may have times below ``bound``."""
    i = np.int64(cuda.grid(1))
    word = d_ballot(i < lows.shape[0] and np.int64(lows[min(i, lows.shape[0] - 1)]) < bound)
    if d_lane() == 0 and i >> 5 < flags.shape[0]:
        flags[i >> 5] = word


class Old(NamedTuple):
    """What says which records are old: times below ``bound``; ``flags`` has the bits of stretches that may have one."""

    times: Array
    flags: Array
    shift: int
    bound: int


@device
def d_read_leaf(valid, numbers, leaf, last):
    """Return a leaf's validity bits, and the number in the lane's slot; of the ``last`` leaf for those behind it."""
    leaf = min(leaf, last)
    return valid[leaf], numbers[32 * leaf + d_lane()]


@device
def d_mark_leaf(marks, leaf, num_leaves, word, number, old):
    """Mark the old edges of a leaf with these validity bits, a lane for each slot; return the marks.

    All lanes call it; nothing is done for a leaf that does not exist.
    """
    marked = np.uint32(0)
    if leaf < num_leaves:  # the same in all lanes
        is_old = False
        if (word >> np.uint32(d_lane())) & np.uint32(1) != 0:
            stretch = np.int64(number) >> old.shift
            if (old.flags[stretch >> 5] >> np.uint32(stretch & 31)) & np.uint32(1) != 0:
                is_old = np.int64(old.times[number]) < old.bound
        marked = d_ballot(is_old)
        if d_lane() == 0:
            marks[leaf] = marked
    return marked


@device
def d_count_marked(src, dst, leaf, word, marked, fewest):
    """Count for the lane what is marked of a leaf: the edge, a self-loop; and whether the leaf is left too empty."""
    found, loop, sparse = np.int32((marked >> np.uint32(d_lane())) & np.uint32(1)), np.int32(0), False
    if found:
        slot = 32 * leaf + d_lane()
        loop = np.int32(src[slot] == dst[slot])
        sparse = cuda.popc(word & ~marked) < fewest
    return found, loop, sparse


@kernel
def k_mark_below(src, dst, valid, numbers, times, shift, flags, bound, fewest, marks, control):
    """Warps stride over the leaves, a lane for each slot: mark edges whose time is below ``bound``, and count them.

    A block copies ``flags`` to shared memory first: neighbouring slots belong to records far apart. The time of a
    record is read only where its stretch has a flag. ``control`` gets the number of marked edges, that of self-loops
    among them, and whether a leaf is left with fewer than ``fewest``. A warp reads four leaves before it looks at the
    first, so that enough of them are on their way from memory.
    """
    board, shared = cuda.shared.array(BOARD, np.int64), cuda.shared.array(FLAG_WORDS, np.uint32)
    for i in range(cuda.threadIdx.x, flags.shape[0], cuda.blockDim.x):
        shared[i] = flags[i]
    cuda.syncthreads()
    old, num_leaves = Old(times, shared, shift, bound), np.int64(marks.shape[0])
    found, loops, sparse = np.int32(0), np.int32(0), False
    begin, step = (np.int64(cuda.grid(1)) >> 5) * LEAVES_EACH, (np.int64(cuda.gridsize(1)) >> 5) * LEAVES_EACH
    for first in range(begin, num_leaves, step):
        second, third, fourth, last = first + 1, first + 2, first + 3, num_leaves - 1
        word_one, number_one = d_read_leaf(valid, numbers, first, last)
        word_two, number_two = d_read_leaf(valid, numbers, second, last)
        word_three, number_three = d_read_leaf(valid, numbers, third, last)
        word_four, number_four = d_read_leaf(valid, numbers, fourth, last)
        marked_one = d_mark_leaf(marks, first, num_leaves, word_one, number_one, old)
        marked_two = d_mark_leaf(marks, second, num_leaves, word_two, number_two, old)
        marked_three = d_mark_leaf(marks, third, num_leaves, word_three, number_three, old)
        marked_four = d_mark_leaf(marks, fourth, num_leaves, word_four, number_four, old)
        if marked_one | marked_two | marked_three | marked_four:
            more, loop, is_sparse = d_count_marked(src, dst, first, word_one, marked_one, fewest)
            found, loops, sparse = found + more, loops + loop, sparse | is_sparse
            more, loop, is_sparse = d_count_marked(src, dst, second, word_two, marked_two, fewest)
            found, loops, sparse = found + more, loops + loop, sparse | is_sparse
            more, loop, is_sparse = d_count_marked(src, dst, third, word_three, marked_three, fewest)
            found, loops, sparse = found + more, loops + loop, sparse | is_sparse
            more, loop, is_sparse = d_count_marked(src, dst, fourth, word_four, marked_four, fewest)
            found, loops, sparse = found + more, loops + loop, sparse | is_sparse
    d_leave_found(control, found, loops, False, sparse, board)


@kernel
def k_clear_marked(valid, marks, most, ticket, control, mailbox):
    """Threads stride over the leaves: clear the marked bits, if these are at most ``most`` and no leaf gets too empty.

    The last block posts the totals.
    """
    if d_may_delete(control, most):
        for leaf in range(cuda.grid(1), marks.shape[0], cuda.gridsize(1)):
            word = marks[leaf]
            if word != 0:
                valid[leaf] &= ~word
    d_post_when_last(control, mailbox, ticket, POST_ARRIVALS)


@kernel
def k_lower_stretches(numbers, times, shift, lows):
    """A thread owns a record: it lowers the bound of its stretch (atomic min, where a plain read is above)."""
    i = cuda.grid(1)
    if i < numbers.shape[0]:
        stretch = np.int64(numbers[i]) >> shift
        if times[i] < lows[stretch]:
            cuda.atomic.min(lows, stretch, times[i])


@kernel
def k_raise_stretches(times, shift, bound, lows, highest):
    """A warp owns a stretch whose bound is below ``bound``: the lowest time that is not becomes its bound."""
    stretch, lane = np.int64(cuda.grid(1)) >> 5, d_lane()
    is_mine = stretch < lows.shape[0]
    if is_mine and np.int64(lows[stretch]) < bound:  # the same in all lanes
        greatest = ~np.int64(highest)  # of the complements, which fall as times rise
        for number in range((stretch << shift) + lane, min((stretch + 1) << shift, np.int64(times.shape[0])), 32):
            time = np.int64(times[number])
            if time >= bound:
                greatest = max(greatest, ~time)
        low = ~d_max_lanes(greatest)
        if lane == 0:
            lows[stretch] = low


def _start_marking(
    backend: Backend, slots: SlotArrays, aged: Aged, bound: int, fewest: float = 0.0
) -> tuple[Array, Array]:
    """Start to mark the edges with times below ``bound``; return the marks and the ``control`` with the counts."""
    num_leaves = slots.num_slots >> 5
    num_words = -(-aged.lows.shape[0] // WARP)
    control, flags, marks = backend.empty_arena(
        (SUMS, np.int64), (num_words, np.uint32), (num_leaves, np.uint32), zeroed=1
    )
    k_flag_stretches.launch(num_words * WARP, aged.lows, bound, flags)
    k_mark_below.launch_strided(
        -(-slots.num_slots // LEAVES_EACH), slots.src, slots.dst, slots.valid, slots.weights, aged.times, aged.shift,
        flags, bound, fewest, marks, control,
    )  # fmt: skip
    return marks, control


def mark_below(backend: Backend, slots: SlotArrays, aged: Aged, bound: int) -> Array:
    """Do what the host's ``mark_below`` does."""
    return _start_marking(backend, slots, aged, bound)[0]


def delete_below(
    backend: Backend, slots: SlotArrays, aged: Aged, bound: int, limits: np.ndarray, most: int
) -> tuple[int, int] | None:
    """Delete the edges whose time is below ``bound``, if that only clears bits; the device decides.

    Parameters
    ----------
    limits : array
        As in :func:`dynstore.stores.pma.cuda.update.plan_delete`.
    most : int
        If more edges are old, nothing is deleted.

    Returns
    -------
    pair of int, or None
        The number of deleted keys, and of self-loops among them; None, with nothing deleted, if that is refused.
    """
    marks, control = _start_marking(backend, slots, aged, bound, lowest_count(limits))
    mailbox = Mailbox(backend)
    ticket = mailbox.next_ticket()
    k_clear_marked.launch_strided(int(marks.shape[0]), slots.valid, marks, most, ticket, control, mailbox.words)
    totals = mailbox.read(backend, ticket)
    if totals[SPARSE] or totals[FOUND] > most:
        return None
    return totals[FOUND], totals[FOUND_LOOPS]


def lower_stretches(backend: Backend, aged: Aged, numbers: Array, times: Array) -> None:
    """Do what the host's ``lower_stretches`` does."""
    k_lower_stretches.launch(int(numbers.shape[0]), numbers, times, aged.shift, aged.lows)


def raise_stretches(backend: Backend, aged: Aged, bound: int) -> None:
    """Do what the host's ``raise_stretches`` does."""
    highest = int(np.iinfo(aged.lows.dtype).max)
    k_raise_stretches.launch_warps(int(aged.lows.shape[0]), aged.times, aged.shift, bound, aged.lows, highest)
