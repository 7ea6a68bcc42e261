"""Shared by the kernels: reading slots, ranks of bits, and work balanced over the slots of many rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.cuda.compiler import SIMULATED, WARP, cuda, device, kernel
from dynstore.cuda.warp import d_ballot, d_lane, d_shuffle, d_sum_lanes

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.cuda.compiler import Kernel
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = [
    "Frontier",
    "count_tiles",
    "d_count_bits",
    "d_count_steps",
    "d_enqueue",
    "d_find_row",
    "d_has_bit",
    "d_lowest_bit",
    "d_open_item",
    "d_open_tile",
    "d_rank",
    "d_read_once",
    "rank_offsets",
]

# A tile is one warp's part of a frontier's slots. It is large enough that finding its rows costs little, and small
# enough that a small frontier still fills the GPU.
MAX_TILE_STEPS = 4 if SIMULATED else 16
RESIDENT_WARPS = 2 if SIMULATED else 132 * 64


@device
def d_has_bit(words, position):
    """Whether bit ``position`` is set in uint32 ``words``, lowest bit first: an edge in its slot, a vertex in a set.

    The index is unsigned, and 32 bits wide if possible: a signed one takes four instructions more, for negative values.
    """
    return (words[np.uint64(position >> 5)] & np.uint32(1 << (position & 31))) != 0


if SIMULATED:

    @device
    def d_count_bits(word):
        """Return the number of set bits of a non-negative word."""
        return int(word).bit_count()

    @device
    def d_read_once(array, place):
        """Return an item without caching it in L1; only for arrays that the kernel does not write."""
        return array[place]

else:

    @device
    def d_count_bits(word):
        """Return the number of set bits of a non-negative word."""
        return cuda.popc(word)

    @device
    def d_read_once(array, place):
        """Return an item without caching it in L1; only for arrays that the kernel does not write."""
        return cuda.ldcg(array, np.uint64(place) & np.uint64(0x7FFFFFFFFFFFFFFF))  # never negative


@device
def d_lowest_bit(word):
    """Return the position of the lowest set bit of an int64 word that is not 0."""
    return d_count_bits((word & -word) - 1)


@device
def d_rank(words, before, position):
    """Return the number of set bits below ``position``; ``before[i]`` is that of the words below ``i``."""
    whole = position >> 5
    rank = int(before[whole])
    if position & 31:
        # Only in this case: past the last slot there may be no word to read.
        rank += d_count_bits(int(words[whole]) & ((1 << (position & 31)) - 1))
    return rank


@device
def d_find_row(scan, low, high, item):
    """Return the first row in [low, high) whose inclusive ``scan`` is above ``item``; one must exist."""
    while low < high:
        middle = (low + high) >> 1
        if scan[middle] > item:
            high = middle
        else:
            low = middle + 1
    return low


@device
def d_open_tile(scan, steps, thread):
    """Return a warp's tile of the items under ``scan``: first item, end of the items, first row, end of the rows.

    The tile has at most ``steps`` times 32 items, and none (end below first) past the last item.
    """
    first = (thread >> 5) * steps * 32
    last = min(first + steps * 32, int(scan[scan.shape[0] - 1]))
    low = 0
    high = 0
    if first < last:
        low = d_find_row(scan, 0, scan.shape[0], first)
        high = d_find_row(scan, low, scan.shape[0], last - 1) + 1
    return first, last, low, high


@device
def d_open_item(offsets, frontier, scan, low, high, item):
    """Return the frontier's vertex that ``item`` belongs to, and the slot of its row."""
    row = d_find_row(scan, low, high, item)
    vertex = int(frontier[row])
    return vertex, int(offsets[vertex + 1]) - (int(scan[row]) - item)


@device
def d_count_steps(num_items, num_warps):
    """Return the steps of 32 items in a tile, for the items that so many warps share; see :func:`count_tiles`."""
    return max(1, min(MAX_TILE_STEPS, num_items // (WARP * num_warps)))


def count_tiles(num_items: int) -> tuple[int, int]:
    """Return the number of tiles (one a warp) for ``num_items``, and the steps of 32 items in a tile."""
    steps = max(1, min(MAX_TILE_STEPS, num_items // (WARP * RESIDENT_WARPS)))
    return -(-num_items // (WARP * steps)), steps


@kernel
def k_count_words(words, counts):
    """One thread a word: write its number of set bits."""
    i = int(cuda.grid(1))
    if i < counts.shape[0]:
        counts[i] = d_count_bits(words[i])


@kernel
def k_rank_offsets(offsets, words, before, ranks):
    """One thread a row border: write the number of set bits below it."""
    i = int(cuda.grid(1))
    if i < ranks.shape[0]:
        ranks[i] = d_rank(words, before, int(offsets[i]))


def rank_offsets(backend: Backend, offsets: Array, words: Array, num_slots: int) -> tuple[Array, Array]:
    """Count the set bits before each word and before each row; long rows take no extra time.

    Parameters
    ----------
    offsets : array, shape (V + 1,)
        First slot of each row.
    words : array, uint32
        One bit a slot.

    Returns
    -------
    before : array, shape (ceil(num_slots / 32) + 1,), int64
        For :func:`d_rank`.
    packed : array, shape (V + 1,), int64
        Number of set bits before each row: the offsets after packing. Its differences are degrees.
    """
    num_words = -(-num_slots // WARP)
    counts = backend.empty(num_words, np.int64)
    k_count_words.launch(num_words, words, counts)
    before = backend.zeros(num_words + 1, np.int64)
    if num_words:
        backend.xp.cumsum(counts, out=before[1:])
    packed = backend.empty(offsets.shape[0], np.int64)
    k_rank_offsets.launch(packed.shape[0], offsets, words, before, packed)
    return before, packed


@device
def d_enqueue(offsets, queue, counts, counters, entry, vertex, wanted):
    """Append the entries of lanes with ``wanted`` to ``queue``, and their vertices' numbers of slots to ``counts``.

    All 32 lanes call. See :class:`Frontier`; one atomic add a warp to each of the ``counters``.
    """
    lane = d_lane()
    word = int(d_ballot(wanted))
    if word != 0:  # the same in all lanes
        slots = 0
        if wanted:
            slots = int(offsets[vertex + 1]) - int(offsets[vertex])
        sum_slots = d_sum_lanes(slots)
        start = 0
        if lane == 0:
            start = int(cuda.atomic.add(counters, 0, d_count_bits(word)))
            cuda.atomic.add(counters, 1, sum_slots)
        place = d_shuffle(start, 0) + d_count_bits(word & ((1 << lane) - 1))
        if wanted:
            queue[place] = entry
            counts[place] = slots


class Frontier:
    """A queue that holds every entry at most once; the entries added last are the frontier.

    Kernels add entries, the number of slots of each, and the totals of both. Only the totals are read back, once a
    level.

    Attributes
    ----------
    size, num_slots : int
        Entries of the frontier, and the sum of their slots.
    queue : array, shape (V,)
    counts : array, shape (V,), int64
        Slots of each entry.
    counters : array, shape (2,), int64
        Number of entries and of slots since the start.
    """

    def __init__(self, out: GapCSR, starts: Array | None = None) -> None:
        """Start with the vertices ``starts``."""
        backend = self.backend = out.backend
        self.queue = backend.empty(out.num_vertices, out.offsets.dtype)
        self.counts = backend.empty(out.num_vertices, np.int64)
        self.counters = backend.zeros(2, np.int64)
        self.begin = self.end = self.size = self.num_slots = self.total_slots = 0
        if starts is not None:
            num_starts = int(starts.shape[0])
            self.queue[:num_starts] = starts
            self.counts[:num_starts] = out.offsets[starts + 1] - out.offsets[starts]
            self.counters[0] = num_starts
            self.counters[1] = self.counts[:num_starts].sum()
            self.advance()

    @property
    def entries(self) -> Array:
        """The frontier, shape (size,)."""
        return self.queue[self.begin : self.end]

    @property
    def outputs(self) -> tuple[Array, Array, Array]:
        """The arrays that kernels append to."""
        return self.queue, self.counts, self.counters

    def push(
        self, kernel: Kernel, edges: tuple[Array, ...], state: tuple[Any, ...], target: Frontier | None = None
    ) -> None:
        """Launch ``kernel`` over the frontier's slots; it appends to ``target``, by default this one; advance that."""
        target = target or self
        if self.num_slots:
            scan = self.backend.xp.cumsum(self.counts[self.begin : self.end])
            num_tiles, steps = count_tiles(self.num_slots)
            kernel.launch_warps(num_tiles, *edges, self.entries, scan, steps, *state, *target.outputs)
        target.advance()

    def advance(self) -> None:
        """Make the entries added since the last call the frontier."""
        end, total_slots = (int(number) for number in self.backend.to_host(self.counters))
        self.begin, self.end = self.end, end
        self.size = self.end - self.begin
        self.num_slots, self.total_slots = total_slots - self.total_slots, total_slots

    def clear(self) -> None:
        """Forget all entries."""
        self.counters.fill(0)
        self.begin = self.end = self.size = self.num_slots = self.total_slots = 0
