"""A hash table of vertex ids on CUDA."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.cuda.block import d_claim
from dynstore.cuda.compiler import SIMULATED, WARP, cuda, device, kernel
from dynstore.cuda.control import declare
from dynstore.cuda.grid import ARRIVALS
from dynstore.cuda.mailbox import Mailbox, d_post_when_last
from dynstore.cuda.warp import d_lane, d_sum_lanes
from dynstore.ids.hash_table import EMPTY, LARGEST_KEY, MULTIPLIER, REMOVED, Unknown
from dynstore.input.converting import as_signed
from dynstore.stores.table.cuda.search import d_find_lower_bound

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.ids.hash_table import HashTable
    from dynstore.typing import Array

__all__ = [
    "insert_keys",
    "k_match_keys",
    "look_up_keys",
    "match_keys",
    "number_unknown",
    "remove_keys",
    "sort_ids",
]

# Totals of a look-up: new keys, rows with an invalid key, rows with an unknown key.
NEW, WRONG, UNKNOWN = declare("look-up", NEW=0, WRONG=1, UNKNOWN=2)
RECORD_SIZE = ARRIVALS + 1

FACTOR = np.uint64(MULTIPLIER)
HALF = np.uint64(32)
# Up to so many keys are sorted by comparing each with all, in one launch. (Fewer in the simulator, to test both.)
MAX_RANKED = 32 if SIMULATED else 8192

if SIMULATED:
    # Plain integers: NumPy warns of every product that overflows.
    @device
    def d_find_home(key, shift, seed):
        """Return the home slot of a key, where its search begins."""
        bits = int(key) ^ int(seed)
        return (((bits ^ (bits >> 32)) * MULTIPLIER) & 0xFFFFFFFFFFFFFFFF) >> int(shift)

else:

    @device
    def d_find_home(key, shift, seed):
        """Return the home slot of a key, where its search begins."""
        bits = np.uint64(key) ^ np.uint64(seed)
        return np.int64(((bits ^ (bits >> HALF)) * FACTOR) >> np.uint64(shift))


@device
def d_look_up(cells, shift, seed, key):
    """Return the number of a key that is not negative, -1 if it is not in the table."""
    mask = cells.shape[0] // 2 - 1
    slot = d_find_home(key, shift, seed)
    found = cells[2 * slot]
    while found != key and found != EMPTY:
        slot = (slot + 1) & mask
        found = cells[2 * slot]
    return cells[2 * slot + 1] if found == key else np.int64(-1)


@kernel
def k_look_up_keys(cells, shift, seed, keys, numbers):
    """One thread owns one key; the table is not written meanwhile."""
    i = cuda.grid(1)
    if i < keys.shape[0]:
        numbers[i] = d_look_up(cells, shift, seed, keys[i])


@device
def d_is_first(seen, shift, seed, key):
    """Put a key + 1 into a table that was all 0 (64-bit compare and swap); return whether this thread was the first."""
    mask, wanted = seen.shape[0] - 1, np.int64(key) + 1
    slot = d_find_home(key, shift, seed)
    there = np.int64(seen[slot])
    while there != wanted:
        if there == 0:
            there = np.int64(cuda.atomic.cas(seen, slot, 0, wanted))
            if there == 0:
                return True
        else:
            slot = (slot + 1) & mask
            there = np.int64(seen[slot])
    return False


@kernel
def k_match_keys(
    cells, shift, seed, first, second, seen_shift, ticket, first_numbers, second_numbers, seen, keys, places, new,
    control, mailbox,
):  # fmt: skip
    """One thread owns one row of two columns, the second after the first: write its number, -1 for an unknown key.

    If ``seen`` has a length, unknown keys are listed in no order, with their rows, and each once in ``new``. The totals
    in ``control`` take one atomic add a warp for NEW and UNKNOWN, one a row for WRONG. The last block posts them.
    """
    i = np.int64(cuda.grid(1))
    row = i - first.shape[0]
    key, number = np.int64(0), np.int64(-1)
    unknown, is_first = False, False
    if row < second.shape[0]:
        key = np.int64(second[row]) if row >= 0 else np.int64(first[i])
        if key < 0 or key > LARGEST_KEY:
            cuda.atomic.add(control, WRONG, 1)
        else:
            number = d_look_up(cells, shift, seed, key)
            unknown = number < 0 and seen.shape[0] > 0
        if row >= 0:
            second_numbers[row] = number
        else:
            first_numbers[i] = number
    if unknown:
        is_first = d_is_first(seen, seen_shift, seed, key)
    place = d_claim(control, NEW, is_first)
    if is_first:
        new[place] = key
    place = d_claim(control, UNKNOWN, unknown)
    if unknown:
        keys[place] = key
        places[place] = i
    if mailbox.shape[0] > 0:
        d_post_when_last(control, mailbox, ticket, ARRIVALS)


@kernel
def k_rank_keys(keys, ranked):
    """A warp owns one of a few distinct keys: it counts the lower ones, and writes the key to that place."""
    lane, i = d_lane(), np.int64(cuda.grid(1)) >> 5
    if i < keys.shape[0]:
        key, lower = keys[i], np.int32(0)
        for other in range(lane, keys.shape[0], WARP):
            lower += np.int32(keys[other] < key)
        rank = d_sum_lanes(lower)
        if lane == 0:
            ranked[rank] = key


@kernel
def k_number_unknown(keys, places, ids, numbers, first_numbers, second_numbers):
    """One thread owns one unknown key: write the number at its place in ``ids`` to its row."""
    i = cuda.grid(1)
    if i < keys.shape[0]:
        number = numbers[d_find_lower_bound(ids, np.int64(0), np.int64(ids.shape[0]), keys[i])]
        row = places[i] - first_numbers.shape[0]
        if row >= 0:
            second_numbers[row] = number
        else:
            first_numbers[places[i]] = number


@kernel
def k_insert_keys(cells, shift, seed, ids, keys, numbers):
    """One thread owns one key, distinct and absent; it claims an EMPTY slot by a 64-bit compare and swap.

    It also writes the key to its number's place in ``ids``. The slots of keys depend on the order of threads; the
    results of searches do not.
    """
    i = cuda.grid(1)
    if i < keys.shape[0]:
        key, mask = keys[i], cells.shape[0] // 2 - 1
        ids[numbers[i]] = key
        if key >= 0:
            slot = d_find_home(key, shift, seed)
            while cuda.atomic.cas(cells, 2 * slot, EMPTY, key) != EMPTY:
                slot = (slot + 1) & mask
            cells[2 * slot + 1] = numbers[i]


@kernel
def k_remove_keys(cells, shift, seed, keys):
    """One thread owns one key, distinct and present; no key is inserted meanwhile."""
    i = cuda.grid(1)
    if i < keys.shape[0]:
        key, mask = keys[i], cells.shape[0] // 2 - 1
        if key >= 0:
            slot = d_find_home(key, shift, seed)
            while cells[2 * slot] != key:
                slot = (slot + 1) & mask
            cells[2 * slot] = REMOVED


def look_up_keys(backend: Backend, table: HashTable, keys: Array, dtype: np.dtype) -> Array:
    """Return the number of each key, -1 if it is not in the table; shape (B,), ``dtype``."""
    numbers = backend.empty(keys.shape[0], dtype)
    k_look_up_keys.launch(keys.shape[0], table.cells, table.shift, table.seed, keys, numbers)
    return numbers


def match_keys(
    backend: Backend, table: HashTable, parts: list[Array], dtype: np.dtype
) -> tuple[list[Array], Unknown | None]:
    """Return the numbers of one or two columns of integers; see :func:`dynstore.ids.cpu.hash_table.match_keys`."""
    parts = [backend.xp.ascontiguousarray(as_signed(backend, part)) for part in parts]
    lengths = [int(part.shape[0]) for part in parts]
    total = sum(lengths)
    num_seen = 1 << (2 * total - 1).bit_length() if total else 0
    control, seen, keys, places, new, *columns = backend.empty_arena(
        (RECORD_SIZE, np.int64), (num_seen, np.int64), *((total, np.int64),) * 3,
        *((length, dtype) for length in lengths), zeroed=2,
    )  # fmt: skip
    if not total:
        return columns, Unknown(keys, places, new)
    first, second, first_numbers, second_numbers = _pair(parts, columns)
    mailbox = Mailbox(backend)
    ticket = mailbox.next_ticket()
    k_match_keys.launch(
        total, table.cells, table.shift, table.seed, first, second, 65 - num_seen.bit_length(), ticket, first_numbers,
        second_numbers, seen, keys, places, new, control, mailbox.words,
    )  # fmt: skip
    totals = mailbox.read(backend, ticket)
    num_new, num_wrong, num_unknown = totals[NEW], totals[WRONG], totals[UNKNOWN]
    return columns, None if num_wrong else Unknown(keys[:num_unknown], places[:num_unknown], new[:num_new])


def sort_ids(backend: Backend, keys: Array) -> Array:
    """Return distinct keys, ascending."""
    if keys.shape[0] > MAX_RANKED:
        ranked = keys.copy()
        ranked.sort()
    else:
        ranked = backend.empty(keys.shape[0], np.int64)
        k_rank_keys.launch_warps(keys.shape[0], keys, ranked)
    return ranked


def number_unknown(backend: Backend, unknown: Unknown, ids: Array, numbers: Array, columns: list[Array]) -> None:
    """Give the rows of unknown keys the number at their key's place in ``ids``, which has all, ascending."""
    count = unknown.keys.shape[0]
    _, _, first, second = _pair(columns, columns)
    k_number_unknown.launch(count, unknown.keys, unknown.places, ids, numbers, first, second)


def _pair(parts: list[Array], columns: list[Array]) -> tuple[Array, Array, Array, Array]:
    """Return two parts and their columns; if there is only one, the second is empty."""
    return (
        parts[0],
        parts[1] if len(parts) > 1 else parts[0][:0],
        columns[0],
        (columns[1] if len(columns) > 1 else columns[0][:0]),
    )


def insert_keys(backend: Backend, table: HashTable, ids: Array, keys: Array, numbers: Array) -> None:
    """Add keys that are distinct, absent and no more than the table takes, and write each to its place in ``ids``.

    The table skips negative ones. The caller counts them in ``table.filled``. Allocates nothing.
    """
    k_insert_keys.launch(keys.shape[0], table.cells, table.shift, table.seed, ids, keys, numbers)


def remove_keys(backend: Backend, table: HashTable, keys: Array) -> None:
    """Remove keys that are distinct and present; negative ones are skipped."""
    k_remove_keys.launch(keys.shape[0], table.cells, table.shift, table.seed, keys)
