"""Edges by the times of their records, on CUDA: finding them in one pass over the slots, and deleting what it finds."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dynstore.cuda.block import BOARD
from dynstore.cuda.compiler import WARP, cuda, device, kernel
from dynstore.cuda.grid import SUMS, d_reset_when_last, d_sync_grid
from dynstore.cuda.launch import Packed
from dynstore.cuda.mailbox import Mailbox, d_post_totals
from dynstore.cuda.warp import d_ballot, d_lane, d_max_lanes, d_shuffle
from dynstore.stores.pma.aged import MOST_STRETCHES
from dynstore.stores.pma.cuda.delete import lowest_count
from dynstore.stores.pma.cuda.delete_rows import (
    FOUND,
    FOUND_LOOPS,
    RESET_ARRIVALS,
    SPARSE,
    d_leave_found,
    d_may_delete,
)
from dynstore.stores.table.cuda.arguments import pack_slots

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.stores.pma.aged import Aged
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["Old", "Scan", "delete_below", "lower_stretches", "mark_below", "raise_stretches"]

# Words with a bit for each stretch.
FLAG_WORDS = MOST_STRETCHES >> 5
# Leaves that a warp reads at once, so that enough of them are on their way from memory.
LEAVES_EACH = 8
# Six blocks of 256 threads fit into a multiprocessor's registers.
MAX_REGISTERS = 40


@kernel
def k_flag_stretches(lows, bound, flags):
    """A thread owns a stretch; warps write a bit for each: whether records in it may have times below ``bound``."""
    i = np.int64(cuda.grid(1))
    word = d_ballot(i < lows.shape[0] and np.int64(lows[min(i, lows.shape[0] - 1)]) < bound)
    if d_lane() == 0 and i >> 5 < flags.shape[0]:
        flags[i >> 5] = word


class Old(NamedTuple):
    """What says which records are old: times below ``bound``."""

    times: Array
    bound: int


class Scan(NamedTuple):
    """The slots that are looked through, and the numbers of their records."""

    src: Array
    dst: Array
    numbers: Array
    valid: Array


@device
def d_read_numbers(numbers, first, num_leaves):
    """Return what is in the lane's slots of four leaves; of the last leaf in the place of those behind it."""
    at, last = np.uint64(32 * first + d_lane()), np.uint64(32 * (num_leaves - 1) + d_lane())
    second, third, fourth = at + np.uint64(32), at + np.uint64(64), at + np.uint64(96)
    return numbers[min(at, last)], numbers[min(second, last)], numbers[min(third, last)], numbers[min(fourth, last)]


@device
def d_may_be_old(flags, number, shift):
    """Return whether the stretch of a record has a flag; for a number of no record anything.

    Few instructions: each slot of the table comes here.
    """
    stretch = np.uint32(number >> (shift & 31))
    word = flags[(stretch >> np.uint32(5)) & np.uint32(FLAG_WORDS - 1)]
    return (word >> (stretch & np.uint32(31))) & np.uint32(1) != 0


@device
def d_choose_slots(flags, shift, one, two, three, four):
    """Return the slots of a leaf that may have old records: lanes 0, 4, 8 ... those of the first, and so on."""
    lane, first = d_lane() & 3, d_ballot(d_may_be_old(flags, one, shift))
    second = d_ballot(d_may_be_old(flags, two, shift))
    third = d_ballot(d_may_be_old(flags, three, shift))
    fourth = d_ballot(d_may_be_old(flags, four, shift))
    return second if lane == 1 else third if lane == 2 else fourth if lane == 3 else first


@device
def d_mark_leaves(scan, first, num_leaves, chosen, old, fewest):
    """Look at the records of eight leaves: lane k has the slots ``chosen`` of leaf ``first + k``, and gets its marks.

    All that a slot needs is read at once, as most that are chosen are old.

    Returns
    -------
    marks : uint32
    found, loops : int32
        Of the lane's slots: how many edges are old, and how many self-loops among them.
    sparse : bool
        Whether some leaf is left with fewer edges than ``fewest``.
    """
    lane, mine, found, loops, sparse = d_lane(), np.uint32(0), np.int32(0), np.int32(0), False
    leaves = d_ballot(chosen != 0 and lane < LEAVES_EACH and first + lane < num_leaves)
    while leaves != 0:  # the same in all lanes
        k = np.int64(cuda.popc((leaves & (~leaves + np.uint32(1))) - np.uint32(1)))
        leaves &= leaves - np.uint32(1)
        slot, word = 32 * (first + k) + lane, np.uint32(d_shuffle(np.int32(chosen), k))
        held, is_old, is_loop = scan.valid[first + k], False, False
        if (word >> np.uint32(lane)) & np.uint32(1) != 0:
            number = min(np.uint64(scan.numbers[slot]), np.uint64(old.times.shape[0] - 1))  # a gap's may be of none
            is_held = (held >> np.uint32(lane)) & np.uint32(1) != 0
            is_old = (np.int64(old.times[number]) < old.bound) & is_held
            is_loop = is_old & (scan.src[slot] == scan.dst[slot])
        marked = d_ballot(is_old)
        found, loops = found + np.int32(is_old), loops + np.int32(is_loop)
        sparse |= is_old and cuda.popc(held & ~marked) < fewest
        if lane == k:
            mine = marked
    return mine, found, loops, sparse


@partial(kernel, max_registers=MAX_REGISTERS)
def k_delete_below(
    src, dst, numbers, valid, times, shift, bound, fewest, most, ticket, flags, marks, control, mailbox,
):  # fmt: skip
    """Warps stride over the leaves, a lane for each slot: mark edges whose time is below ``bound``, and delete them.

    A block copies ``flags`` to shared memory first: neighbouring slots belong to records far apart. A record's time,
    and its slot's bit, are read only where its stretch has a flag. A warp reads eight leaves at once, so that enough of
    them are on their way from memory. After one grid wait the device decides: if at most ``most`` edges are marked, and
    no leaf would be left with fewer than ``fewest``, their bits in ``valid`` are cleared, and ``control`` is 0 again.
    If ``most`` is negative, nothing is cleared. The totals are posted after the wait.
    """
    board, shared = cuda.shared.array(BOARD, np.int64), cuda.shared.array(FLAG_WORDS, np.uint32)
    for i in range(cuda.threadIdx.x, flags.shape[0], cuda.blockDim.x):
        shared[i] = flags[i]
    cuda.syncthreads()
    scan, old = Scan(src, dst, numbers, valid), Old(times, bound)
    lane, num_leaves = d_lane(), np.int64(marks.shape[0])
    found, loops, sparse = np.int32(0), np.int32(0), False
    begin, step = (np.int64(cuda.grid(1)) >> 5) * LEAVES_EACH, (np.int64(cuda.gridsize(1)) >> 5) * LEAVES_EACH
    for first in range(begin, num_leaves, step):
        one, two, three, four = d_read_numbers(numbers, first, num_leaves)
        five, six, seven, eight = d_read_numbers(numbers, first + 4, num_leaves)
        chosen = d_choose_slots(shared, shift, one, two, three, four)
        others = d_choose_slots(shared, shift, five, six, seven, eight)
        chosen, mine = others if lane & 4 else chosen, np.uint32(0)
        if d_ballot(chosen != 0) != 0:
            mine, more, more_loops, is_sparse = d_mark_leaves(scan, first, num_leaves, chosen, old, fewest)
            found, loops, sparse = found + more, loops + more_loops, sparse | is_sparse
        if lane < LEAVES_EACH and first + lane < num_leaves:
            marks[first + lane] = mine
    d_leave_found(control, found, loops, False, sparse, board)
    d_sync_grid(control, 1)
    if cuda.grid(1) == cuda.gridsize(1) - 1:
        d_post_totals(control, mailbox, ticket)
    if d_may_delete(control, most):
        for leaf in range(cuda.grid(1), num_leaves, cuda.gridsize(1)):
            word = marks[leaf]
            if word != 0:
                valid[leaf] &= ~word
        d_reset_when_last(control, RESET_ARRIVALS)


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
    """Warps stride over the stretches. Where a bound is below ``bound``, it becomes the lowest time that is not."""
    begin, step, lane = np.int64(cuda.grid(1)) >> 5, np.int64(cuda.gridsize(1)) >> 5, d_lane()
    for stretch in range(begin, lows.shape[0], step):
        if np.int64(lows[stretch]) < bound:  # the same in all lanes
            greatest = ~np.int64(highest)  # of the complements, which fall as times rise
            for number in range((stretch << shift) + lane, min((stretch + 1) << shift, np.int64(times.shape[0])), 32):
                time = np.int64(times[number])
                if time >= bound:
                    greatest = max(greatest, ~time)
            low = ~d_max_lanes(greatest)
            if lane == 0:
                lows[stretch] = low


class _ExpiryScratch:
    """The scratch of an expiry, and its arguments for kernels."""

    def __init__(self, backend: Backend, control: Array, flags: Array, marks: Array) -> None:
        self.flags, self.marks, self.mailbox = flags, marks, Mailbox(backend)
        self.packed = Packed(flags, marks, control, self.mailbox.words)


def _start_scan(
    backend: Backend, slots: SlotArrays, aged: Aged, bound: int, fewest: float, most: int
) -> tuple[_ExpiryScratch, int]:
    """Start to mark the edges with times below ``bound``, and to delete them unless ``most`` is negative.

    Return the scratch, valid until the next call, and the ticket of the totals.
    """
    num_words, num_leaves = -(-aged.lows.shape[0] // WARP), slots.num_slots >> 5
    parts = (SUMS, np.int64), (num_words, np.uint32), (num_leaves, np.uint32)
    scratch = slots.acquire_scratch(backend, "expiry", _ExpiryScratch, parts, 1)
    ticket = scratch.mailbox.next_ticket()
    k_flag_stretches.launch(num_words * WARP, aged.lows, bound, scratch.flags)
    k_delete_below.launch_resident(
        -(-slots.num_slots // LEAVES_EACH), pack_slots(slots).columns, aged.times, aged.shift, bound, fewest, most,
        ticket, scratch.packed,
    )  # fmt: skip
    return scratch, ticket


def mark_below(backend: Backend, slots: SlotArrays, aged: Aged, bound: int) -> Array:
    """Do what the host's ``mark_below`` does; the bits are valid until the next call."""
    return _start_scan(backend, slots, aged, bound, 0.0, -1)[0].marks


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
    scratch, ticket = _start_scan(backend, slots, aged, bound, lowest_count(limits), most)
    totals = scratch.mailbox.read(backend, ticket)
    if totals[SPARSE] or totals[FOUND] > most:
        return None
    slots.scratch.leave_clear("expiry")
    return totals[FOUND], totals[FOUND_LOOPS]


def lower_stretches(backend: Backend, aged: Aged, numbers: Array, times: Array) -> None:
    """Do what the host's ``lower_stretches`` does."""
    k_lower_stretches.launch(int(numbers.shape[0]), numbers, times, aged.shift, aged.lows)


def raise_stretches(backend: Backend, aged: Aged, bound: int) -> None:
    """Do what the host's ``raise_stretches`` does."""
    highest = int(np.iinfo(aged.lows.dtype).max)
    k_raise_stretches.launch_strided(int(aged.lows.shape[0]) * WARP, aged.times, aged.shift, bound, aged.lows, highest)
