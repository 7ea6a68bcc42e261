"""Reading the edges of pages in order, and merging others with them into new pages."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.stores.paged.building import PIECE_LEAVES, pack_pieces
from dynstore.stores.paged.layout import LEAF, LEAF_BITS
from dynstore.stores.paged.memory import BufferRing
from dynstore.stores.table.selection import Columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dynstore.backend import Backend
    from dynstore.stores.paged.building import Allocate
    from dynstore.stores.paged.layout import PagedRows
    from dynstore.typing import Array

__all__ = [
    "LOW_BITS",
    "count_live",
    "count_rows",
    "count_sources",
    "keys_of",
    "merge_edges",
    "read_merged",
    "read_slots",
]

# A key is ``row << 32 | destination``.
LOW_BITS = 0xFFFFFFFF
# Edges whose rows are counted at once: it takes a byte of device memory for each.
COUNTED = 1 << 28
# While one buffer is merged, the next ones are filled.
BUFFERS = 3


def keys_of(src: Array, dst: Array) -> Array:
    """Return a key for each edge, shape (B,), int64; they are in the order of edges."""
    keys: Array = (src.astype(np.int64) << 32) | dst
    return keys


def count_sources(backend: Backend, src: Array, num_vertices: int) -> Array:
    """Return how many edges each row has in ``src``, shape (V,), int64, which is read piece by piece."""
    degrees = backend.zeros(num_vertices, np.int64)
    for begin in range(0, int(src.shape[0]), COUNTED):
        degrees += backend.xp.bincount(src[begin : begin + COUNTED], minlength=num_vertices)
    return degrees


def count_live(packed: PagedRows, valid: Array) -> Array:
    """Return how many edges there are before each leaf, and in all, shape (L + 1,), int64; ``valid``: a bit a slot."""
    return _count_before(packed.backend, valid[: packed.num_leaves])


def _count_before(backend: Backend, words: Array) -> Array:
    counts, before = backend.empty(words.shape[0], np.uint8), backend.zeros(words.shape[0] + 1, np.int64)
    backend.kernels("dynstore.stores.paged.merging").count_bits(words, counts)
    backend.xp.cumsum(counts, dtype=np.int64, out=before[1:])
    return before


def count_rows(packed: PagedRows, valid: Array, before: Array) -> Array:
    """Return how many edges each row has in pages, shape (V,), int64; ``before``: see :func:`count_live`."""
    degrees: Array = packed.backend.empty(packed.num_vertices, np.int64)
    packed.backend.kernels("dynstore.stores.paged.merging").count_rows(packed.offsets, valid, before, degrees)
    return degrees


def read_slots(
    packed: PagedRows, valid: Array, first: int, end: int, added: tuple[Array, Array | None] | None = None
) -> tuple[Array, Array | None]:
    """Return the edges in the slots from ``first`` to below ``end``, and others, in order: keys and weights.

    ``added``: ascending keys of edges that are in no page, and their weights.
    """
    backend = packed.backend
    more, more_weights = added or (backend.nothing(np.int64), _no_weights(packed))
    if end <= first:
        return more, more_weights
    begin, stop = first & ~(LEAF - 1), min(-(-end // LEAF) * LEAF, packed.num_edges)
    words = valid[begin >> LEAF_BITS : -(-end // LEAF)].copy()
    words[:1] &= np.uint32((0xFFFFFFFF << (first - begin)) & 0xFFFFFFFF)
    words[-1:] &= np.uint32(0xFFFFFFFF >> (-end & (LEAF - 1)))
    before = _count_before(backend, words)
    keys = _decode(packed, begin, stop, packed.words, 0)
    weights = None if packed.weights is None else packed.read_weights(begin, stop)
    return _merge(backend, (keys, weights), (words, before, int(before[-1])), (more, more_weights))


def _no_weights(packed: PagedRows) -> Array | None:
    return None if packed.weights is None else packed.backend.nothing(packed.weights.dtype)


def _decode(packed: PagedRows, begin: int, end: int, words: Array, shift: int) -> Array:
    """Return the keys of the slots from ``begin`` to ``end``; page p begins at ``words[places[p] - shift]``."""
    backend, page_slots = packed.backend, LEAF << packed.page_bits
    low, high = begin // page_slots, -(-end // page_slots)
    keys = backend.empty(min(high * page_slots, packed.num_edges) - low * page_slots, np.int64)
    stored = words, packed.places, shift, packed.page_bits
    pages = backend.xp.arange(low, high, dtype=np.int32)
    kernels = backend.kernels("dynstore.stores.paged")
    kernels.decode_keys(packed.leaves, stored, packed.num_edges, pages, low * page_slots, keys)
    return keys[begin - low * page_slots : end - low * page_slots]


def _merge(
    backend: Backend,
    slots: tuple[Array, Array | None],
    live: tuple[Array, Array, int],
    added: tuple[Array, Array | None],
) -> tuple[Array, Array | None]:
    """Return the edges of some whole leaves that are there, and other edges, in order.

    ``slots``: keys and weights of all slots of the leaves; ``live``: the words of their bits, how many are set before
    each of them, counted from anywhere, and how many are set in all; ``added``: the others, keys and weights.
    """
    keys, weights = slots
    words, before, count = live
    more, more_weights = added
    size = count + int(more.shape[0])
    merged, nothing = backend.empty(size, np.int64), backend.nothing(np.float32)
    columns = (nothing,) * 3
    if weights is not None:
        columns = weights, more_weights, backend.empty(size, weights.dtype)
    kernels = backend.kernels("dynstore.stores.paged.merging")
    leaves = words, before, backend.empty(words.shape[0] + 1, np.int64)
    kernels.merge_leaves(keys, leaves, more, merged, columns)
    return merged, None if weights is None else columns[2]


def read_merged(packed: PagedRows, valid: Array, before: Array, added: Columns) -> Iterator[tuple[Array, Array | None]]:
    """Yield the edges of pages and other edges, in order, piece by piece: keys and weights, on the device.

    Parameters
    ----------
    packed : PagedRows
    valid : array of uint32 words
        A bit a slot: whether the edge is there.
    before : array, shape (L + 1,), int64
        See :func:`count_live`.
    added : tuple of array, shape (B,)
        The other edges, sorted: sources, destinations, and weights or None. None of them has a bit in a page. If there
        are no pages, they are copied to the device piece by piece; otherwise the device holds a key for each.
    """
    backend, shift = packed.backend, packed.page_bits + LEAF_BITS
    step, first = max(PIECE_LEAVES << LEAF_BITS, 1 << shift), 0
    src, dst, weights = added
    if not packed.num_edges:
        for begin in range(0, int(src.shape[0]), step):
            part = slice(begin, begin + step)
            yield keys_of(src[part], dst[part]), None if weights is None else weights[part]
        return
    keys = keys_of(src, dst)
    bounds = np.append(np.arange(0, packed.num_edges, step), packed.num_edges)
    counts = np.diff(backend.to_host(before[backend.asarray(-(-bounds // LEAF))])).tolist()
    pages = (-(-bounds // (1 << shift))).tolist()
    brought = _bring_pages(packed, pages)
    for (begin, end), count, (words, shift, *values) in zip(pairwise(bounds.tolist()), counts, brought, strict=True):
        slots = _decode(packed, begin, end, words, shift)
        last = int(backend.xp.searchsorted(keys, slots[-1:], side="right")[0])
        leaves = slice(begin >> LEAF_BITS, -(-end // LEAF))
        yield _merge(
            backend,
            (slots, values[0] if values else None),
            (valid[leaves], before[leaves], count),
            (keys[first:last], None if weights is None else weights[first:last]),
        )
        first = last
    for begin in range(first, int(keys.shape[0]), step):
        part = slice(begin, begin + step)
        yield keys[part], None if weights is None else weights[part]


def _bring_pages(packed: PagedRows, bounds: list[int]) -> Iterator[tuple[Any, ...]]:
    """Yield the words of the pages between each two bounds, the number of the first word, and weights if any."""
    if packed.words_on_host.shape != packed.words.shape:  # the words lie in device memory
        yield from ((packed.words, 0) for _ in bounds[1:])
        return
    parts = [packed.stored_pages(low, high) for low, high in pairwise(bounds)]
    ring = BufferRing.for_pieces(packed.backend, parts, BUFFERS)
    for page, brought in zip(bounds, ring.bring(parts), strict=False):
        yield brought[0], int(packed.places_on_host[page]), *brought[1:]


def merge_edges(
    packed: PagedRows,
    live: tuple[Array, Array],
    degrees: Array,
    added: Columns,
    allocate: Allocate,
    note: Callable[[Array], None] | None = None,
) -> PagedRows:
    """Return new pages with the edges of pages and other edges; ``degrees``, shape (V,), counts all of them.

    ``live`` are ``valid`` and ``before`` of :func:`read_merged`. The old pages are read twice. ``allocate``: see
    :func:`~dynstore.stores.paged.building.pack_pieces`. ``note`` is called with the keys of all edges, piece by piece.
    """
    nothing, passes = packed.backend.nothing, iter((note, None))

    def make_pieces() -> Iterator[tuple[Array, ...]]:
        noting = next(passes)
        more = () if packed.weights is None else (nothing(packed.weights.dtype),)
        yield degrees, nothing(np.int32), *more
        for merged, values in read_merged(packed, *live, added):
            if noting is not None:
                noting(merged)
            indices = merged.astype(np.int32)  # the low half
            yield (degrees[:0], indices) if values is None else (degrees[:0], indices, values)

    return pack_pieces(
        packed.backend,
        int(degrees.shape[0]),
        make_pieces,
        encode=packed.is_encoded,
        page_bits=packed.page_bits,
        weight_dtype=None if packed.weights is None else packed.weights.dtype,
        allocate=allocate,
    )
