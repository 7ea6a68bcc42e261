"""Counting the rows of a window on CUDA: up to four launches a slide, then the host waits once, for what they count."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.cuda.block import d_claim
from dynstore.cuda.compiler import cuda, device, kernel, prepare
from dynstore.cuda.control import declare
from dynstore.cuda.grid import ARRIVALS, SUMS
from dynstore.cuda.mailbox import Mailbox, d_post_when_last
from dynstore.ids.cuda.hash_table import d_find_home
from dynstore.ids.hash_table import shift_of
from dynstore.input.cuda import d_leave_bounds
from dynstore.windows.moves import CONTROL_WORDS, Counts
from dynstore.windows.pair_table import EMPTY

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.backend import Backend
    from dynstore.typing import Array
    from dynstore.windows.moves import Moves
    from dynstore.windows.pair_table import PairTable

__all__ = ["EnteringRows", "PairArrays", "place_keys", "start_moves"]

# Entries of `control`: the bounds of the entering rows' ids (``d_leave_bounds``), then the counts as in `Found`.
_, _, _, _, FIRST, GONE, LISTED, STAYING, LATE, BAD, NEGATIVE, LARGE = declare(
    "window slide",
    LOW_SOURCE=0, HIGH_SOURCE=1, LOW_DESTINATION=2, HIGH_DESTINATION=3,
    FIRST=4, GONE=5, LISTED=6, STAYING=7, LATE=8, BAD=9, NEGATIVE=10, LARGE=11,
)  # fmt: skip
BOUNDS = 4
assert CONTROL_WORDS >= SUMS, "`control` has all but the sums of blocks"
HIGHEST, LOW = 0x7FFFFFFF, 0xFFFFFFFF


@device
def d_claim_slot(keys, shift, seed, key):
    """Return the slot of a key; an absent one claims an empty slot by a 64-bit compare and swap.

    A plain read may be out of date only where it finds a slot empty, and then the swap decides: a slot keeps its key.
    """
    mask = keys.shape[0] - 1
    slot = d_find_home(key, shift, seed)
    there = np.int64(keys[slot])
    while there != key:
        if there == EMPTY:
            there = np.int64(cuda.atomic.cas(keys, slot, EMPTY, key))
            if there == EMPTY:
                there = key
        else:
            slot = (slot + 1) & mask
            there = np.int64(keys[slot])
    return slot


class EnteringRows(NamedTuple):
    """The rows that enter; ``weights`` without entries if there are none, ``summed`` if a pair has their sum."""

    src: Array
    dst: Array
    undirected: Any
    weights: Array
    summed: Any


class PairArrays(NamedTuple):
    """A table of pairs: their keys, how many rows each has in the window, and what the other column ``held``."""

    keys: Array
    shift: Any
    seed: Any
    counts: Array
    held: Array


@partial(kernel, records={"rows": EnteringRows, "pairs": PairArrays})
def k_enter_rows(rows, pairs, marks, mark, slots, saved, listed, listed_slots, control):
    """One thread owns one row that enters: it finds or claims its pair's slot, and counts the row in.

    Of several rows of a pair, the one that finds a count of 0 is the first, and the one that leaves the ``mark`` has
    marked it. If there is room, such rows are listed: those that have marked, or without marks the first ones. What the
    slot holds (``held``, which no thread writes here) is saved. Bounds of the ids and bad weights are counted.
    """
    i = cuda.grid(1)
    row, column, slot, first, chosen = np.int64(0), np.int64(0), np.int64(-1), False, False
    if i < rows.src.shape[0]:
        row, column = np.int64(rows.src[i]), np.int64(rows.dst[i])
        if min(row, column) >= 0 and max(row, column) <= HIGHEST:
            low = min(row, column) if rows.undirected else row
            slot = d_claim_slot(pairs.keys, pairs.shift, pairs.seed, (low << 32) | (row + column - low))
            first = cuda.atomic.add(pairs.counts, slot, 1) == 0
            chosen = cuda.atomic.exch(marks, slot, mark) != mark if marks.shape[0] > 0 else first
            if saved.shape[0] > 0:
                for part in range(pairs.held.shape[1]):
                    saved[i, part] = pairs.held[slot, part]
        slots[i] = slot
        if i < rows.weights.shape[0]:
            if math.isnan(rows.weights[i]) or (rows.summed and math.isinf(rows.weights[i])):
                cuda.atomic.add(control, BAD, 1)
            if rows.summed and rows.weights[i] < 0:
                control[NEGATIVE] = 1
    d_leave_bounds(control, min(row, 0), max(row, 0), min(column, 0), max(column, 0))
    d_claim(control, FIRST, first)
    if listed.shape[1] > 0:  # the same in all threads
        place = d_claim(control, LISTED, chosen)
        if chosen:
            listed[0, place] = row
            listed[1, place] = column
            if listed_slots.shape[0] > 0:
                listed_slots[place] = slot


@kernel
def k_leave_rows(leaving, keys, counts, held, entered, saved, gone, control, mailbox, ticket):
    """One thread owns one row that leaves: it counts the row out.

    Of several rows of a pair, the one that leaves a count of 0 is the last: it lists the pair. If there is room behind
    the ``entered`` rows that came before, what the slot holds is saved.
    """
    i = cuda.grid(1)
    slot = np.int64(leaving[i]) if i < leaving.shape[0] else np.int64(-1)
    last = False
    if slot >= 0:
        last = cuda.atomic.add(counts, slot, -1) == 1
        if saved.shape[0] > entered:
            for part in range(held.shape[1]):
                saved[entered + i, part] = held[slot, part]
    place = d_claim(control, GONE, last)
    if last:
        gone[0, place] = keys[slot] >> 32
        gone[1, place] = keys[slot] & LOW
    if mailbox.shape[0] > 0:  # the same in all threads
        d_post_when_last(control, mailbox, ticket, ARRIVALS)


@device
def d_add_weight(sums, slot, weight):
    """Add a weight to a pair's sum, and what is lost by that to its other part; other threads may add, too.

    The atomic addition returns the sum before, so its rounding error is known (Knuth, TAOCP 2, 4.2.2, theorem B).
    Weights that are not finite are left out: the slide is refused.
    """
    if math.isinf(weight) or math.isnan(weight):
        return
    before = cuda.atomic.add(sums, (slot, 0), weight)
    total = before + weight
    other = total - before
    cuda.atomic.add(sums, (slot, 1), (before - (total - other)) + (weight - other))


@kernel
def k_add_weights(slots, weights, kept, leaving, left, sums):
    """One thread owns one row, those that enter before those that leave: it adds or subtracts its weight."""
    i = cuda.grid(1)
    number = slots.shape[0]
    if i < number:
        kept[i] = weights[i]
        if slots[i] >= 0:
            d_add_weight(sums, np.int64(slots[i]), np.float64(weights[i]))
    elif i - number < leaving.shape[0] and leaving[i - number] >= 0:
        d_add_weight(sums, np.int64(leaving[i - number]), -left[i - number])


@kernel
def k_see_times(slots, times, saved, latest, late, control, mailbox, ticket):
    """One thread owns one row that enters: it raises the latest time of its pair, and compares it with the one before.

    ``saved``: the latest times before this slide.
    """
    i = cuda.grid(1)
    is_late = i < slots.shape[0] and slots[i] >= 0 and times[i] < saved[i, 0]
    if i < slots.shape[0]:
        late[i] = is_late
        if slots[i] >= 0:
            cuda.atomic.max(latest, slots[i], times[i])
    d_claim(control, LATE, is_late)
    d_post_when_last(control, mailbox, ticket, ARRIVALS)


@device
def d_weight(counts, sums, signed, slot):
    """Return the weight of a pair, its sum or its count; one thread owns it.

    A rounding error makes no sum negative that is none.
    """
    total = np.float64(counts[slot])
    if sums.shape[0] > 0:
        total = sums[slot, 0] + sums[slot, 1]
        rest = sums[slot, 1] - (total - sums[slot, 0])
        if total < 0 and not signed:
            total, rest = np.float64(0.0), np.float64(0.0)
        sums[slot, 0], sums[slot, 1] = total, rest
    return total


@kernel
def k_weigh_pairs(
    leaving, keys, counts, sums, signed, marks, mark, listed, listed_slots, weights, control, mailbox, ticket
):  # fmt: skip
    """One thread owns one listed pair or, behind these, one row that leaves: it writes the pair's sum or count.

    Pairs of leaving rows are listed here: those that keep others, and that no other thread has marked. The sums of all
    other such pairs become 0, so that no rounding error stays; several threads may write that.
    """
    i, number = cuda.grid(1), listed_slots.shape[0]
    j = i - number
    slot, place = np.int64(-1), np.int64(i)
    if i < control[LISTED]:  # written by the launch before
        slot = np.int64(listed_slots[i])
    elif 0 <= j < leaving.shape[0] and leaving[j] >= 0:
        if counts[leaving[j]] > 0:
            if cuda.atomic.exch(marks, leaving[j], mark) != mark:
                slot = np.int64(leaving[j])
        elif sums.shape[0] > 0:
            sums[leaving[j], 0] = sums[leaving[j], 1] = 0.0
    stays = j >= 0 and slot >= 0
    behind = control[LISTED] + d_claim(control, STAYING, stays)
    if stays:
        place = behind
        listed[0, place] = keys[slot] >> 32
        listed[1, place] = keys[slot] & LOW
    if slot >= 0:
        weights[place] = d_weight(counts, sums, signed or control[NEGATIVE] > 0, slot)
        if math.isnan(weights[place]) or math.isinf(weights[place]):
            cuda.atomic.add(control, LARGE, 1)
    d_post_when_last(control, mailbox, ticket, ARRIVALS)


@kernel
def k_restore_rows(slots, leaving, counts, held, saved):
    """One thread owns one row, those that enter before those that leave: it takes back what the slide did to its pair.

    Rows of one pair have saved the same.
    """
    i = cuda.grid(1)
    number, slot, change = slots.shape[0], np.int64(-1), np.int32(0)
    if i < number:
        slot, change = np.int64(slots[i]), np.int32(-1)
    elif i - number < leaving.shape[0]:
        slot, change = np.int64(leaving[i - number]), np.int32(1)
    if slot >= 0:
        cuda.atomic.add(counts, slot, change)
        if i < saved.shape[0]:
            for part in range(held.shape[1]):
                held[slot, part] = saved[i, part]


@kernel
def k_place_keys(keys, shift, seed, old, places):
    """One thread owns one key of another table; keys are distinct, negative ones are left out."""
    i = cuda.grid(1)
    if i < old.shape[0]:
        places[i] = -1
        if old[i] >= 0:
            places[i] = d_claim_slot(keys, shift, seed, old[i])


def start_moves(backend: Backend, table: PairTable, moves: Moves) -> tuple[Callable[[], Counts], Callable[[], None]]:
    """Start to count rows in and out; see :func:`dynstore.windows.cpu.start_moves`.

    All kernels are loaded before the first one writes.
    """
    mailbox = Mailbox(backend)
    ticket = mailbox.next_ticket()
    take_back = prepare(_restore, table, moves)
    prepare(_start, backend, table, moves, mailbox.words, ticket)()

    def read() -> Counts:
        totals = mailbox.read(backend, ticket)
        first, gone, listed, staying, late, bad, negative, large = totals[FIRST : LARGE + 1]
        return Counts(first, gone, listed, staying, late, bad, negative, large, tuple(totals[:BOUNDS]))

    return read, take_back


def _start(backend: Backend, table: PairTable, moves: Moves, words: Array, ticket: int) -> None:
    """Launch the kernels of a slide; the last one posts the totals, so it is launched even if there are no rows."""
    keys, counts, held, sums, latest, marks, signed, seed, slide = table
    (src, dst), slots, leaving, control = moves.ends, moves.slots, moves.leaving, moves.control
    number, more = int(slots.shape[0]), int(leaving.shape[0])
    k_enter_rows.launch(
        number, src, dst, moves.undirected, moves.weights, moves.summed, keys, shift_of(keys.shape[0]), seed, counts,
        held, marks, slide, slots, moves.saved, moves.listed, moves.listed_slots, control,
    )  # fmt: skip
    ends_here = moves.times is None and moves.lists != "all"
    k_leave_rows.launch(
        max(more, 1), leaving, keys, counts, held, number, moves.saved, moves.gone, control,
        words if ends_here else backend.nothing(np.int64), ticket,
    )  # fmt: skip
    if moves.summed:
        k_add_weights.launch(number + more, slots, moves.weights, moves.kept, leaving, moves.left, sums)
    if moves.times is not None:
        k_see_times.launch(max(number, 1), slots, moves.times, moves.saved, latest, moves.late, control, words, ticket)
    if moves.lists == "all":
        k_weigh_pairs.launch(
            max(number + more, 1), leaving, keys, counts, sums, signed, marks, slide, moves.listed, moves.listed_slots,
            moves.listed_weights, control, words, ticket,
        )  # fmt: skip


def _restore(table: PairTable, moves: Moves) -> None:
    k_restore_rows.launch(
        int(moves.slots.shape[0]) + int(moves.leaving.shape[0]),
        moves.slots, moves.leaving, table.counts, table.held, moves.saved,
    )  # fmt: skip


def place_keys(backend: Backend, keys: Array, seed: int, old: Array) -> Array:
    """Put distinct keys into an empty table; see :func:`dynstore.windows.cpu.place_keys`."""
    places = backend.empty(old.shape[0], np.int32)
    k_place_keys.launch(old.shape[0], keys, shift_of(keys.shape[0]), seed, old, places)
    return places
