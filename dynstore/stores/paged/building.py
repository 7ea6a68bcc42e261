"""Packing rows into pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.errors import InputError
from dynstore.stores.paged.layout import LEAF, LEAF_BITS, MAX_PAGE_BITS, MIN_PAGE_BITS, START_AT, VERBATIM, PagedRows
from dynstore.stores.paged.memory import allocate_words, copy_to_host
from dynstore.typing import MAX_INT32

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["decode_rows", "pack_rows"]

# Leaves that are measured and encoded at a time: 64 MiB of plain ids.
PIECE_LEAVES = 1 << 19


def pack_rows(
    backend: Backend, offsets: Any, indices: Any, *, encode: bool = True, page_bits: int = MAX_PAGE_BITS
) -> PagedRows:
    """Pack rows into pages in host memory.

    Parameters
    ----------
    backend : Backend
    offsets : array, shape (V + 1,)
        Where each row begins in ``indices``; the last entry is its length.
    indices : array, shape (E,), int32 or int64
        The destinations, ascending in each row, none twice. On the host or the device: the device then holds a piece of
        them at a time.
    encode : bool
        Whether pages hold gaps, as wide as each leaf needs, or plain ids.
    page_bits : int
        ``2**page_bits`` leaves are a page; 5 to 15.

    Returns
    -------
    PagedRows

    Raises
    ------
    InputError
        If a row does not ascend, an id is no vertex, or there are too many vertices.
    OutOfMemoryError
        If host memory cannot be pinned, or the device has not enough for the directory.
    """
    xp, num_edges = backend.xp, int(indices.shape[0])
    offsets = backend.asarray(offsets, np.int64)
    num_vertices = int(offsets.shape[0]) - 1
    if not MIN_PAGE_BITS <= page_bits <= MAX_PAGE_BITS:
        raise InputError(f"pack_rows: page_bits is {page_bits}; wanted {MIN_PAGE_BITS} to {MAX_PAGE_BITS}")
    if num_vertices > MAX_INT32:
        raise InputError(f"pack_rows: got {num_vertices} vertices; wanted at most {MAX_INT32}")
    kernels = backend.kernels("dynstore.stores.paged")
    num_leaves = -(-num_edges // LEAF)
    marks, bases = backend.zeros(num_leaves, np.uint32), backend.zeros(num_leaves, np.uint32)
    rows = xp.flatnonzero(offsets[1:] > offsets[:-1])
    starts = offsets[:-1][rows]
    kernels.mark_starts(starts, marks)
    leaf_slots = xp.arange(num_leaves, dtype=np.int64) << LEAF_BITS
    ranks = (xp.searchsorted(starts, leaf_slots, side="right") - 1).astype(np.uint32)
    widths, wrong = backend.empty(num_leaves, np.uint8), backend.zeros(1, np.int32)
    for first, piece in _pieces(backend, indices):
        kernels.measure_leaves(piece, first, marks, num_vertices, bases, widths, wrong)
    if int(wrong[0]):
        raise InputError(
            f"pack_rows: the rows do not ascend, or ids are not below {num_vertices}; wanted sorted rows of vertices"
        )
    if not encode:
        widths.fill(LEAF)
        bases.fill(0)
    heads, places = _lay_out(backend, widths, page_bits)
    if not encode:
        heads |= np.uint32(VERBATIM)
    places_on_host = backend.to_host(places).copy()
    words, words_on_host, owner = allocate_words(backend, int(places_on_host[-1]))
    packed = PagedRows(
        backend, num_vertices, num_edges, page_bits, words, words_on_host, places, places_on_host, heads, bases, marks,
        ranks, rows.astype(np.int32), offsets, encode, owner,
    )  # fmt: skip
    _write_words(packed, indices, kernels)
    return packed


def _pieces(backend: Backend, indices: Any, leaves: int = PIECE_LEAVES) -> Iterator[tuple[int, Array]]:
    """Yield pieces of whole leaves on the device, each with the number of its first leaf."""
    for begin in range(0, int(indices.shape[0]), leaves * LEAF):
        yield begin >> LEAF_BITS, backend.asarray(indices[begin : begin + leaves * LEAF])


def _lay_out(backend: Backend, widths: Array, page_bits: int) -> tuple[Array, Array]:
    """Return the heads of all leaves, and where each page begins; a leaf has as many words as its width."""
    xp, num_leaves = backend.xp, int(widths.shape[0])
    ends = xp.cumsum(widths, dtype=np.int64)
    num_pages = -(-num_leaves >> page_bits) if num_leaves else 0
    places = backend.zeros(num_pages + 1, np.int64)
    if num_pages:
        places[1:-1] = ends[(1 << page_bits) - 1 :: 1 << page_bits][: num_pages - 1]
        places[-1] = ends[-1]
    before = ends - widths
    before -= places[:-1][xp.arange(num_leaves) >> page_bits]
    return ((before << START_AT) | widths).astype(np.uint32), places


def _write_words(packed: PagedRows, indices: Any, kernels: Any) -> None:
    """Encode piece by piece on the device, and copy each piece to its place."""
    backend, places = packed.backend, packed.places_on_host
    page_leaves = 1 << packed.page_bits
    num_pages = max(PIECE_LEAVES // page_leaves, 1)
    for first, piece in _pieces(backend, indices, num_pages * page_leaves):
        page = first >> packed.page_bits
        begin, end = int(places[page]), int(places[min(page + num_pages, packed.num_pages)])
        words = backend.zeros(end - begin, np.uint32)
        kernels.encode_leaves(piece, first, packed.leaves, packed.places, begin, packed.page_bits, words)
        copy_to_host(backend, words, packed.words_on_host[begin:end])
    backend.synchronize()


def decode_rows(packed: PagedRows) -> Array:
    """Return all destinations, shape (E,), int32, on the device."""
    backend = packed.backend
    out = backend.empty(packed.num_edges, np.int32)
    pages = backend.xp.arange(packed.num_pages, dtype=np.int32)
    stored = packed.words, packed.places, 0
    kernels = backend.kernels("dynstore.stores.paged")
    kernels.decode_leaves(packed.leaves, stored, packed.page_bits, packed.num_edges, pages, out)
    return out
