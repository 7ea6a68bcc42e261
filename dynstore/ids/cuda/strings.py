"""A hash table of strings on CUDA.

The key of a string in the table is its hash. Strings of one hash have a slot each: a search goes on until the bytes are
equal, too. So hashes that collide cost time, and nothing else.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dynstore.cuda.block import d_claim, d_claim_many
from dynstore.cuda.compiler import SIMULATED, cuda, device, kernel
from dynstore.cuda.control import declare
from dynstore.cuda.grid import ARRIVALS
from dynstore.cuda.launch import Packed
from dynstore.cuda.mailbox import Mailbox, d_post_when_last
from dynstore.ids.cuda.hash_table import d_find_home
from dynstore.ids.cuda.string_copies import k_copy_texts
from dynstore.ids.cuda.string_order import Column, order_ends, order_strings, string_arrays
from dynstore.ids.hash_table import EMPTY, REMOVED
from dynstore.ids.strings import DeviceStrings
from dynstore.stores.table.cuda.arguments import with_room

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.ids.hash_table import HashTable
    from dynstore.scratch import ScratchCache
    from dynstore.typing import Array

__all__ = [
    "NewStrings",
    "Scattered",
    "enter_strings",
    "match_strings",
    "number_rows",
    "order_ends",
    "order_strings",
    "rank_new",
    "remove_strings",
    "start_match",
]

# Totals of a look-up of strings: new ones, their bytes, rows with an unknown one.
NEW, SIZE, UNKNOWN = declare("look-up of strings", NEW=0, SIZE=1, UNKNOWN=2)
RECORD_SIZE = ARRIVALS + 1
# The hash FNV-1a: its first state and its factor.
BASIS, PRIME = 0xCBF29CE484222325, 0x100000001B3


class Scattered(NamedTuple):
    """Rows whose string is not in the table, in any order; and the first of them of each string.

    Attributes
    ----------
    seen : array, int64
        A hash table: a row of the string + 1, 0 for none.
    places, slots : array, shape (N,), int64
        The rows, those of a second column numbered on from the first; and where their strings stand in ``seen``.
    new_rows, new_slots, new_starts : array, shape (B,), int64
        A row of each new string, where that stands in ``seen``, and where its bytes begin if all are put together.
    """

    seen: Array
    places: Array
    slots: Array
    new_rows: Array
    new_slots: Array
    new_starts: Array


class NewStrings(NamedTuple):
    """What :func:`match_strings` has found.

    Attributes
    ----------
    columns : list of arrays
        The number of each row, -1 for unknown strings.
    strings : DeviceStrings
        The unknown strings, each once, in any order.
    rows : Scattered
    """

    columns: list[Array]
    strings: DeviceStrings
    rows: Scattered


if SIMULATED:
    # Plain integers: NumPy warns of every product that overflows.
    @device
    def d_hash_text(column, row, seed, mask):
        """Return the hash of a string; ``mask`` chooses its bits, and leaves no sign."""
        bits = BASIS ^ int(seed)
        for i in range(int(column.starts[row]), int(column.ends[row])):
            bits = ((bits ^ int(column.chars[i])) * PRIME) & 0xFFFFFFFFFFFFFFFF
        return (bits ^ (bits >> 32)) & int(mask)

else:

    @device
    def d_hash_text(column, row, seed, mask):
        """Return the hash of a string; ``mask`` chooses its bits, and leaves no sign."""
        bits = np.uint64(BASIS) ^ np.uint64(seed)
        for i in range(np.int64(column.starts[row]), np.int64(column.ends[row])):
            bits = (bits ^ np.uint64(column.chars[i])) * np.uint64(PRIME)
        return np.int64((bits ^ (bits >> np.uint64(32))) & np.uint64(mask))


@device
def d_are_same(one, row, other, other_row):
    """Return whether two strings are equal."""
    start, other_start = np.int64(one.starts[row]), np.int64(other.starts[other_row])
    size = np.int64(one.ends[row]) - start
    same = size == np.int64(other.ends[other_row]) - other_start
    i = np.int64(0)
    while same and i < size:
        same = one.chars[start + i] == other.chars[other_start + i]
        i += 1
    return same


@device
def d_find_text(cells, shift, seed, names, column, row, key):
    """Return the number of a string whose hash is ``key``, -1 if it is not in the table."""
    mask = cells.shape[0] // 2 - 1
    slot = d_find_home(key, shift, seed)
    found, number = np.int64(cells[2 * slot]), np.int64(-1)
    while found != EMPTY and number < 0:
        if found == key and d_are_same(names, cells[2 * slot + 1], column, row):
            number = np.int64(cells[2 * slot + 1])
        slot = (slot + 1) & mask
        found = np.int64(cells[2 * slot])
    return number


@device
def d_are_same_rows(first, second, row, other_row):
    """Return whether two rows of two columns, the second after the first, have equal strings."""
    size = first.starts.shape[0]
    if row < size:
        if other_row < size:
            return d_are_same(first, row, first, other_row)
        return d_are_same(first, row, second, other_row - size)
    if other_row < size:
        return d_are_same(second, row - size, first, other_row)
    return d_are_same(second, row - size, second, other_row - size)


@device
def d_see_row(seen, shift, seed, first, second, row, key):
    """Put a row + 1 into a table that was all 0, if its string is not there (64-bit compare and swap).

    Return the string's slot, and whether this thread was the first.
    """
    mask = seen.shape[0] - 1
    slot = d_find_home(key, shift, seed)
    there, is_first, done = np.int64(seen[slot]), False, False
    while not done:
        if there == 0:
            there = np.int64(cuda.atomic.cas(seen, slot, 0, row + 1))
            is_first = there == 0
            done = is_first
        elif d_are_same_rows(first, second, row, there - 1):
            done = True
        else:
            slot = (slot + 1) & mask
            there = np.int64(seen[slot])
    return slot, is_first


@partial(kernel, records={"names": Column, "first": Column, "second": Column, "found": Scattered})
def k_match_texts(
    cells, names, shift, seed, hash_mask, first, second, seen_shift, ticket, first_numbers, second_numbers, found,
    control, mailbox,
):  # fmt: skip
    """One thread owns one row of two columns, the second after the first: write its number, -1 for an unknown string.

    If ``found.seen`` has a length, unknown strings are listed in no order, with one row of each as a new one. The
    totals in ``control`` take an atomic add a warp each. The last block posts them.
    """
    i, seen = np.int64(cuda.grid(1)), found.seen
    row = i - first.starts.shape[0]
    slot, size, key, number = np.int64(0), np.int64(0), np.int64(0), np.int64(-1)
    unknown, is_first = False, False
    if row < 0:
        key = d_hash_text(first, i, seed, hash_mask)
        number = d_find_text(cells, shift, seed, names, first, i, key)
        first_numbers[i] = number
        unknown = number < 0 and seen.shape[0] > 0
    elif row < second.starts.shape[0]:
        key = d_hash_text(second, row, seed, hash_mask)
        number = d_find_text(cells, shift, seed, names, second, row, key)
        second_numbers[row] = number
        unknown = number < 0 and seen.shape[0] > 0
    if unknown:
        slot, is_first = d_see_row(seen, seen_shift, seed, first, second, i, key)
    place = d_claim(control, UNKNOWN, unknown)
    if unknown:
        found.places[place] = i
        found.slots[place] = slot
    if is_first:
        size = np.int64(first.ends[i]) - first.starts[i] if row < 0 else np.int64(second.ends[row]) - second.starts[row]
    place, start = d_claim(control, NEW, is_first), d_claim_many(control, SIZE, size)
    if is_first:
        found.new_rows[place] = i
        found.new_slots[place] = slot
        found.new_starts[place] = start
    if mailbox.shape[0] > 0:
        d_post_when_last(control, mailbox, ticket, ARRIVALS)


@kernel
def k_leave_ranks(order, new_slots, seen):
    """One thread owns one new string: it writes its rank to its slot of ``seen``."""
    i = cuda.grid(1)
    if i < order.shape[0]:
        seen[new_slots[order[i]]] = i


@kernel
def k_number_rows(places, slots, seen, numbers, first_numbers, second_numbers):
    """One thread owns one row of an unknown string: it writes the number of the string's rank to it."""
    i = cuda.grid(1)
    if i < places.shape[0]:
        number, row = numbers[seen[slots[i]]], places[i] - first_numbers.shape[0]
        if row >= 0:
            second_numbers[row] = number
        else:
            first_numbers[places[i]] = number


@kernel
def k_enter_texts(cells, shift, seed, hash_mask, name_starts, name_ends, starts, ends, chars, moved, numbers):
    """One thread owns one string, distinct and absent: it claims an EMPTY slot by a 64-bit compare and swap.

    It also writes where the string's bytes are: ``moved`` behind where they are in ``chars``.
    """
    i = cuda.grid(1)
    if i < starts.shape[0]:
        mask, number = cells.shape[0] // 2 - 1, np.int64(numbers[i])
        key = d_hash_text(Column(starts, ends, chars), i, seed, hash_mask)
        slot = d_find_home(key, shift, seed)
        while cuda.atomic.cas(cells, 2 * slot, EMPTY, key) != EMPTY:
            slot = (slot + 1) & mask
        cells[2 * slot + 1] = number
        name_starts[number] = starts[i] + moved
        name_ends[number] = ends[i] + moved


@kernel
def k_remove_texts(cells, shift, seed, hash_mask, name_starts, name_ends, name_chars, numbers):
    """One thread owns one number whose string is in the table; no string is entered meanwhile."""
    i = cuda.grid(1)
    if i < numbers.shape[0]:
        mask, number = cells.shape[0] // 2 - 1, np.int64(numbers[i])
        key = d_hash_text(Column(name_starts, name_ends, name_chars), number, seed, hash_mask)
        slot = d_find_home(key, shift, seed)
        while cells[2 * slot] != key or cells[2 * slot + 1] != number:
            slot = (slot + 1) & mask
        cells[2 * slot] = REMOVED


class _StringNumbers:
    """Columns of numbers that a look-up writes without a wait, and the arguments of its kernel."""

    def __init__(self, _: Backend, control: Array, nothing: Array, first: Array, second: Array) -> None:
        self.first, self.second = first, second
        self.packed = Packed(first, second, *[nothing] * 6, control, nothing)


def start_match(
    backend: Backend, table: HashTable, names: DeviceStrings, hash_mask: int, parts: list[DeviceStrings],
    dtype: np.dtype, scratch: ScratchCache,
) -> tuple[Array, Array]:  # fmt: skip
    """Start a kernel; return two columns of strings as numbers, -1 for unknown ones.

    In ``scratch``, valid until the next call with it.
    """
    counts = [part.shape[0] for part in parts]
    numbers = scratch.take(
        backend, "look-up", table.cells.nbytes, _StringNumbers,
        ((RECORD_SIZE, np.int64), (0, np.int64), *((with_room(count), dtype) for count in counts)),
    )  # fmt: skip
    k_match_texts.launch(
        sum(counts), table.cells, *string_arrays(names), table.shift, table.seed, hash_mask, *string_arrays(parts[0]),
        *string_arrays(parts[1]), 0, 0, numbers.packed,
    )  # fmt: skip
    return numbers.first[: counts[0]], numbers.second[: counts[1]]


def match_strings(
    backend: Backend,
    table: HashTable,
    names: DeviceStrings,
    hash_mask: int,
    parts: list[DeviceStrings],
    dtype: np.dtype,
) -> NewStrings:
    """Look one or two columns of strings up."""
    lengths = [part.shape[0] for part in parts]
    total = sum(lengths)
    num_seen = 1 << (2 * total - 1).bit_length() if total else 0
    control, seen, *found = backend.empty_arena(
        (RECORD_SIZE, np.int64), (num_seen, np.int64), *((total, np.int64),) * 5,
        *((length, dtype) for length in lengths), zeroed=2,
    )  # fmt: skip
    places, slots, new_rows, new_slots, new_starts, *columns = found
    rows = Scattered(seen, places, slots, new_rows, new_slots, new_starts)
    if not total:
        return NewStrings(columns, DeviceStrings.nothing(backend), rows)
    second = parts[1] if len(parts) > 1 else DeviceStrings.nothing(backend)
    both = (*string_arrays(parts[0]), *string_arrays(second))
    mailbox = Mailbox(backend)
    ticket = mailbox.next_ticket()
    k_match_texts.launch(
        total, table.cells, *string_arrays(names), table.shift, table.seed, hash_mask, *both,
        65 - num_seen.bit_length(), ticket, *_pair(columns), *rows, control, mailbox.words,
    )  # fmt: skip
    totals = mailbox.read(backend, ticket)
    count, unknown = totals[NEW], totals[UNKNOWN]
    rows = Scattered(seen, places[:unknown], slots[:unknown], new_rows[:count], new_slots[:count], new_starts[:count])
    if not count:
        return NewStrings(columns, DeviceStrings.nothing(backend), rows)
    ends, chars = backend.empty_arena((count, np.int64), (totals[SIZE], np.uint8))
    k_copy_texts.launch_warps(count, *both, rows.new_rows, rows.new_starts, ends, chars)
    return NewStrings(columns, DeviceStrings(backend, rows.new_starts, ends, chars), rows)


def rank_new(backend: Backend, found: NewStrings) -> DeviceStrings:
    """Return the new strings in ascending order; :func:`number_rows` may then be called."""
    if not found.strings.shape[0]:
        return found.strings
    order = order_strings(backend, found.strings)
    k_leave_ranks.launch(order.shape[0], order, found.rows.new_slots, found.rows.seen)
    return found.strings.rows(order)


def number_rows(backend: Backend, found: NewStrings, numbers: Array) -> None:
    """Give the rows of unknown strings the numbers of these, which are in ascending order of the strings."""
    rows = found.rows
    k_number_rows.launch(rows.places.shape[0], rows.places, rows.slots, rows.seen, numbers, *_pair(found.columns))


def enter_strings(
    table: HashTable, hash_mask: int, starts: Array, ends: Array, strings: DeviceStrings, moved: int, numbers: Array
) -> None:
    """Add strings that are distinct, absent and no more than the table takes. Allocates nothing.

    ``starts``, ``ends`` get where their bytes are, by number: ``moved`` behind where they are in ``strings``.
    """
    k_enter_texts.launch(
        strings.shape[0],
        table.cells,
        table.shift,
        table.seed,
        hash_mask,
        starts,
        ends,
        *string_arrays(strings),
        moved,
        numbers,
    )


def remove_strings(table: HashTable, hash_mask: int, names: DeviceStrings, numbers: Array) -> None:
    """Remove the strings of distinct numbers. Allocates nothing."""
    k_remove_texts.launch(
        numbers.shape[0], table.cells, table.shift, table.seed, hash_mask, *string_arrays(names), numbers
    )


def _pair(columns: list[Array]) -> tuple[Array, Array]:
    """Return two columns; if there is only one, the second is empty."""
    return columns[0], columns[1] if len(columns) > 1 else columns[0][:0]
