"""Reading the edges of pages in order, and merging others with them into new pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.bits import unpack_bits
from dynstore.stores.paged.building import PIECE_LEAVES, pack_pieces
from dynstore.stores.paged.layout import LEAF_BITS
from dynstore.stores.table.selection import Columns, count_before

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dynstore.backend import Backend
    from dynstore.stores.paged.layout import PagedRows
    from dynstore.typing import Array

__all__ = [
    "LOW_BITS",
    "count_rows",
    "count_sources",
    "keys_of",
    "merge_edges",
    "merge_sorted",
    "read_edges",
    "read_merged",
]

# A key is ``row << 32 | destination``.
LOW_BITS = 0xFFFFFFFF


def keys_of(src: Array, dst: Array) -> Array:
    """Return a key for each edge, shape (B,), int64; they are in the order of edges."""
    keys: Array = (src.astype(np.int64) << 32) | dst
    return keys


def count_sources(backend: Backend, src: Array, num_vertices: int) -> Array:
    """Return how many edges each row has in ``src``, shape (V,), int64, which is read piece by piece."""
    degrees = backend.zeros(num_vertices, np.int64)
    for begin in range(0, int(src.shape[0]), PIECE_LEAVES << LEAF_BITS):
        degrees += backend.xp.bincount(src[begin : begin + (PIECE_LEAVES << LEAF_BITS)], minlength=num_vertices)
    return degrees


def count_rows(packed: PagedRows, valid: Array) -> Array:
    """Return how many edges each row has in pages, shape (V,), int64; ``valid``: a bit a slot."""
    mask = unpack_bits(packed.backend, valid, packed.num_edges)
    degrees: Array = packed.backend.xp.diff(count_before(packed.backend, mask, packed.offsets))
    return degrees


def read_edges(packed: PagedRows, valid: Array, first: int, end: int) -> tuple[Array, Array | None]:
    """Return the keys of the edges in the slots from ``first`` to below ``end``, and their weights."""
    backend, shift = packed.backend, packed.page_bits + LEAF_BITS
    if end <= first:
        weight_dtype = None if packed.weights is None else packed.weights.dtype
        return backend.empty(0, np.int64), None if weight_dtype is None else backend.empty(0, weight_dtype)
    low, high = first >> shift, ((end - 1) >> shift) + 1
    begin = low << shift
    keys = backend.empty(min(high << shift, packed.num_edges) - begin, np.int64)
    stored = packed.words, packed.places, 0, packed.page_bits
    pages = backend.xp.arange(low, high, dtype=np.int32)
    backend.kernels("dynstore.stores.paged").decode_keys(packed.leaves, stored, packed.num_edges, pages, begin, keys)
    bits = unpack_bits(backend, valid[first >> LEAF_BITS : (end + 31) >> LEAF_BITS], end - (first & ~31))[first & 31 :]
    weights = None if packed.weights is None else packed.read_weights(first, end)[bits]
    return keys[first - begin : end - begin][bits], weights


def merge_sorted(
    backend: Backend, keys: Array, weights: Array | None, added: Array, added_weights: Array | None
) -> tuple[Array, Array | None]:
    """Merge two ascending lists of keys, which have none in common, and the weights beside them."""
    if not added.shape[0]:
        return keys, weights
    xp, size = backend.xp, int(keys.shape[0] + added.shape[0])
    places = xp.searchsorted(keys, added) + xp.arange(added.shape[0])
    others = xp.ones(size, bool)
    others[places] = False

    def merged(column: Array, more: Array) -> Array:
        both = backend.empty(size, column.dtype)
        both[places] = more
        both[others] = column
        return both

    both_weights = None if weights is None or added_weights is None else merged(weights, added_weights)
    return merged(keys, added), both_weights


def read_merged(packed: PagedRows, valid: Array, added: Columns) -> Iterator[tuple[Array, Array | None]]:
    """Yield the edges of pages and other edges, in order, piece by piece: keys and weights, on the device.

    Parameters
    ----------
    packed : PagedRows
    valid : array of uint32 words
        A bit a slot: whether the edge is there.
    added : tuple of array, shape (B,)
        The other edges, sorted: sources, destinations, and weights or None. None of them is in a page. If there are no
        pages, they are copied to the device piece by piece; otherwise the device holds a key for each.
    """
    xp, step, first = packed.backend.xp, max(PIECE_LEAVES, 1 << packed.page_bits) << LEAF_BITS, 0
    src, dst, weights = added
    if not packed.num_edges:
        for begin in range(0, int(src.shape[0]), step):
            part = slice(begin, begin + step)
            yield keys_of(src[part], dst[part]), None if weights is None else weights[part]
        return
    keys = keys_of(src, dst)
    for begin in range(0, packed.num_edges, step):
        kept, kept_weights = read_edges(packed, valid, begin, min(begin + step, packed.num_edges))
        if kept.shape[0]:
            end = int(xp.searchsorted(keys, kept[-1:], side="right")[0])
            part = slice(first, end)
            yield merge_sorted(
                packed.backend, kept, kept_weights, keys[part], None if weights is None else weights[part]
            )
            first = end
    if first < keys.shape[0]:
        yield keys[first:], None if weights is None else weights[first:]


def merge_edges(
    packed: PagedRows, valid: Array, degrees: Array, added: Columns, note: Callable[[Array], None] | None = None
) -> PagedRows:
    """Return new pages with the edges of pages and other edges; ``degrees``, shape (V,), counts all of them.

    The other parameters are those of :func:`read_merged`. The old pages are read twice. ``note`` is called with the
    keys of all edges, piece by piece.
    """
    nothing, passes = packed.backend.nothing, iter((note, None))

    def make_pieces() -> Iterator[tuple[Array, ...]]:
        noting = next(passes)
        more = () if packed.weights is None else (nothing(packed.weights.dtype),)
        yield degrees, nothing(np.int32), *more
        for merged, values in read_merged(packed, valid, added):
            if noting is not None:
                noting(merged)
            indices = (merged & LOW_BITS).astype(np.int32)
            yield (degrees[:0], indices) if values is None else (degrees[:0], indices, values)

    return pack_pieces(
        packed.backend,
        int(degrees.shape[0]),
        make_pieces,
        encode=packed.is_encoded,
        page_bits=packed.page_bits,
        weight_dtype=None if packed.weights is None else packed.weights.dtype,
    )
