"""Rows cut for warps: no row is too long for a warp, and no short row leaves its lanes idle.

A row of at most ``SHORT_SLOTS`` slots is read by one lane. A longer row is cut into *pieces*, each read by one warp. A
piece begins at a multiple of 32 slots, so the lanes of a warp read one line of ``indices`` and one word of ``valid``.
Lists of rows and pieces are made on the device. Their lengths stay there (``pieces << 32 | short rows``), and the warps
of a grid of fixed size stride over them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.algorithms.rows.cuda.common import RESIDENT_WARPS, d_count_bits, d_lowest_bit
from dynstore.cuda.block import BOARD, d_scan_tile
from dynstore.cuda.compiler import SIMULATED, WARP, cuda, device
from dynstore.cuda.warp import d_ballot, d_lane, d_shuffle, d_sum_lanes

if TYPE_CHECKING:
    from dynstore.backend import Backend, Part
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = [
    "LOW_BITS",
    "PIECE_BITS",
    "PIECE_SLOTS",
    "RESERVE_BOARD",
    "SHORT_SLOTS",
    "SPLIT_SPAN",
    "STEP_SLOTS",
    "STRIDING_WARPS",
    "FourSlots",
    "WorkLists",
    "count_warps",
    "d_add_block",
    "d_find_slot",
    "d_find_slots",
    "d_is_short",
    "d_list_words",
    "d_low_bits",
    "d_mark_words",
    "d_num_items",
    "d_num_pieces",
    "d_open_piece",
    "d_open_span",
    "d_read_bits",
    "d_read_words",
    "d_take_slots",
    "list_parts",
    "make_lists",
]

SHORT_SLOTS = 16 if SIMULATED else 32  # at most 32: their bits fit a word
PIECE_BITS = 6 if SIMULATED else 10
PIECE_SLOTS = 1 << PIECE_BITS
# A span is a piece's first position plus 32 times its last one. This is added if the row has other pieces.
SPLIT_SPAN = 32 << PIECE_BITS
# Slots that a warp reads at once, four a lane; their loads overlap.
STEP_SLOTS = 4 * WARP
# Warps of a striding grid: several times what fits, so that few run alone at the end.
STRIDING_WARPS = 2 if SIMULATED else 8 * RESIDENT_WARPS
# Entries of the shared int64 array that :func:`d_list_words` needs.
RESERVE_BOARD = BOARD + 1
LOW_BITS = (1 << 32) - 1


class FourSlots(NamedTuple):
    """Four slots that a lane reads at once, so that their loads overlap.

    Attributes
    ----------
    places : tuple of four uint64
        All can be read.
    live : tuple of four bool
        Whether there is an edge.
    """

    places: Any
    live: Any


class WorkLists(NamedTuple):
    """Lists of rows to visit, which kernels append to.

    Attributes
    ----------
    short : array
        The short rows.
    rows, begins : array
        The row and the first slot of each piece.
    lengths : array
        Some of its entries are packed lengths of these lists.
    """

    short: Array
    rows: Array
    begins: Array
    lengths: Array


@device
def d_is_short(begin, end):
    """Whether a row of these slots is read by one lane; it may be empty."""
    return end - begin <= SHORT_SLOTS


@device
def d_read_bits(valid, begin, end):
    """Return the validity bits of a short row, its first slot lowest."""
    bits = 0
    if begin < end:
        first = begin >> 5
        last = (end - 1) >> 5
        bits = np.int64(valid[np.uint64(first)]) >> (begin & 31)
        if last > first:
            bits |= np.int64(valid[np.uint64(last)]) << (32 - (begin & 31))
        bits &= (1 << int(end - begin)) - 1
    return bits


@device
def d_find_slot(valid, base, first, last, position):
    """Return a readable slot for ``position`` of a piece, and whether the slot at ``position`` is an edge.

    The piece has the int32 positions ``first`` to ``last`` (inclusive) behind ``base``. Both ``base`` and the position
    of the warp's first lane are multiples of 32. No branches, so that the loads of several slots overlap.
    """
    wanted = np.int32(position)
    there = min(max(wanted, first), last)
    word = valid[np.uint64((base >> 5) + (there >> 5))]
    return np.uint64(base + there), (there == wanted) & ((word & np.uint32(1 << d_lane())) != 0)


@device
def d_find_slots(valid, base, first, last, position):
    """Return the slots of four positions of a piece, each 32 behind the one before, as :func:`d_find_slot` does."""
    slot0, live0 = d_find_slot(valid, base, first, last, position)
    slot1, live1 = d_find_slot(valid, base, first, last, position + 32)
    slot2, live2 = d_find_slot(valid, base, first, last, position + 64)
    slot3, live3 = d_find_slot(valid, base, first, last, position + 96)
    return FourSlots((slot0, slot1, slot2, slot3), (live0, live1, live2, live3))


@device
def d_low_bits(word):
    """Return the lower 32 bits of an int64, whose other bits are 0, as int32."""
    return np.int32(word - ((word >> 31) << 32))


@device
def d_read_words(valid, base, last):
    """Return this lane's word of a piece's 32 words of ``valid``, as int32; past the last word, the last one."""
    return d_low_bits(np.int64(valid[np.uint64((base >> 5) + min(d_lane(), last >> 5))]))


@device
def d_take_slot(begin, bits):
    """Return the slot of the lowest of ``bits`` in a short row, whether there was such a bit, and the other bits.

    Without bits it returns another readable slot. No branches, so that the loads of several slots overlap.
    """
    live = bits != 0
    return np.uint64(begin + (d_lowest_bit(bits) if live else 0)), live, bits & (bits - 1)


@device
def d_take_slots(begin, bits):
    """Return the slots of the four lowest of ``bits`` in a short row, and the other bits; see :func:`d_take_slot`."""
    slot0, live0, bits = d_take_slot(begin, bits)
    slot1, live1, bits = d_take_slot(begin, bits)
    slot2, live2, bits = d_take_slot(begin, bits)
    slot3, live3, bits = d_take_slot(begin, bits)
    return FourSlots((slot0, slot1, slot2, slot3), (live0, live1, live2, live3)), bits


@device
def d_count_pieces(begin, end):
    """Return the number of pieces of a row; 0 if it is short."""
    pieces = 0
    if end - begin > SHORT_SLOTS:
        pieces = (end - (begin & -32) + (PIECE_SLOTS - 1)) >> PIECE_BITS
    return pieces


@device
def d_write_pieces(vertex, begin, pieces, rows, begins, place):
    """Append a row's pieces to the list."""
    for piece in range(pieces):
        rows[place + piece] = vertex
        begins[place + piece] = (begin & -32) + (piece << PIECE_BITS)


@device
def d_num_pieces(lists):
    """Return the number of pieces; ``lists`` are the packed lengths."""
    return int(lists) >> 32


@device
def d_num_items(lists):
    """Return the number of warps for the pieces and the short rows, 32 a warp; and the number of short rows."""
    shorts = int(lists) & LOW_BITS
    return (int(lists) >> 32) + ((shorts + 31) >> 5), shorts


@device
def d_open_piece(offsets, rows, begins, item):
    """Return a piece's row, the multiple of 32 where reading starts, its first and last position from there (int32)."""
    row = int(rows[np.uint64(item)])
    base = int(begins[np.uint64(item)])
    first = max(int(offsets[row]) - base, 0)
    last = min(int(offsets[row + 1]) - base, PIECE_SLOTS) - 1
    return row, base, np.int32(first), np.int32(last)


@device
def d_open_span(span):
    """Return the first and the last position of a piece (int32), and whether its row has other pieces."""
    return np.int32(span & 31), np.int32((span >> 5) & (PIECE_SLOTS - 1)), span >= SPLIT_SPAN


@device
def d_reserve(amount, board, counters, place):
    """Reserve ``amount`` entries in ``counters[place]`` for this thread; return the first: one atomic add a block.

    All threads of the block call it.
    """
    before, total = d_scan_tile(amount, board)
    if cuda.threadIdx.x == 0:
        start = 0
        if total != 0:
            start = int(cuda.atomic.add(counters, place, total))
        board[BOARD] = start
    cuda.syncthreads()
    return before + int(board[BOARD])


@device
def d_add_block(value, board, totals, place):
    """Add the sum of ``value`` over the block to ``totals[place]``: one atomic add.

    All threads of the block call it.
    """
    value = d_sum_lanes(value)
    cuda.syncthreads()  # all reads of the board are done
    if d_lane() == 0:
        board[cuda.threadIdx.x >> 5] = value
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        total = board[0]
        for warp in range(1, cuda.blockDim.x >> 5):
            total += board[warp]
        if total != 0:
            cuda.atomic.add(totals, place, total)


@device
def d_mark_words(values, new, word, stride, value):
    """Write ``value`` for the vertices of the set bits in ``new``, a lane's word as in :func:`d_list_words`."""
    first = word - d_lane() * stride
    waiting = np.int64(d_ballot(new != 0))
    while waiting != 0:  # the same in all lanes
        owner = d_lowest_bit(waiting)
        waiting &= waiting - 1
        bits = d_shuffle(new, owner)
        if (bits >> d_lane()) & 1:
            values[(first + owner * stride) * 32 + d_lane()] = value


@device
def d_list_words(offsets, new, word, stride, board, lists, place):
    """Append the vertices whose bits in ``new`` are set to the lists of short rows and of pieces; skip empty rows.

    All threads of the block call it. Each lane passes one word of a bitmap, ``stride`` words after that of the lane
    before: so neighbouring vertices of high degree are cut by many warps. One atomic add a block on the lengths of the
    ``lists`` at ``place``. Returns the number of vertices and of slots that this lane has listed.
    """
    lane = d_lane()
    first = word - lane * stride
    some = np.int64(d_ballot(new != 0))
    vertices = 0
    slots = 0
    pieces = 0
    shorts = 0
    waiting = some
    while waiting != 0:  # the same in all lanes
        owner = d_lowest_bit(waiting)
        waiting &= waiting - 1
        bits = d_shuffle(new, owner)
        begin = 0
        end = 0
        if (bits >> lane) & 1:
            vertex = (first + owner * stride) * 32 + lane
            begin = int(offsets[vertex])
            end = int(offsets[vertex + 1])
            vertices += 1
        slots += end - begin
        pieces += d_count_pieces(begin, end)
        shorts += d_count_bits(np.int64(d_ballot(begin < end and d_is_short(begin, end))))
    amount = pieces << 32
    if lane == 0:
        amount += shorts
    start = d_reserve(amount, board, lists.lengths, place)
    short_place = d_shuffle(start, 0) & LOW_BITS
    piece_place = start >> 32
    waiting = some
    while waiting != 0:
        owner = d_lowest_bit(waiting)
        waiting &= waiting - 1
        bits = d_shuffle(new, owner)
        vertex = (first + owner * stride) * 32 + lane
        begin = 0
        end = 0
        if (bits >> lane) & 1:
            begin = int(offsets[vertex])
            end = int(offsets[vertex + 1])
        pieces = d_count_pieces(begin, end)
        d_write_pieces(vertex, begin, pieces, lists.rows, lists.begins, piece_place)
        piece_place += pieces
        is_short = begin < end and d_is_short(begin, end)
        listed = np.int64(d_ballot(is_short))
        if is_short:
            lists.short[short_place + d_count_bits(listed & ((1 << lane) - 1))] = vertex
        short_place += d_count_bits(listed)
    return vertices, slots


def list_parts(csr: GapCSR, copies: int = 1) -> tuple[Part, ...]:
    """Return sizes of lists for all short rows, and for rows and first slots of all pieces, of ``copies`` copies."""
    # A row has a second piece only if it has more than a piece's slots less 31.
    pieces = min(csr.num_vertices, csr.num_slots // SHORT_SLOTS) + 2 * (csr.num_slots >> PIECE_BITS) + 1
    dtype = csr.offsets.dtype
    return (copies * csr.num_vertices, dtype), (copies * pieces, dtype), (copies * pieces, dtype)


def make_lists(backend: Backend, csr: GapCSR, copies: int = 1) -> tuple[Array, Array, Array]:
    """Allocate the lists of :func:`list_parts`."""
    short, rows, begins = backend.empty_arena(*list_parts(csr, copies))
    return short, rows, begins


def count_warps(csr: GapCSR) -> int:
    """Return the number of warps for kernels that stride over pieces and over short rows, 32 a warp."""
    return min(STRIDING_WARPS, -(-csr.num_vertices // WARP) + csr.num_slots // SHORT_SLOTS)
