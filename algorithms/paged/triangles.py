"""Triangles: an algorithm that brings rows to the device and works on them there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.paged.states import RankedArcs
from dynstore.errors import InputError
from dynstore.stores.paged.layout import LEAF_BITS

if TYPE_CHECKING:
    from dynstore.algorithms.paged.passes import PageReader
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["triangle_count"]

# Device memory that an arc takes while triangles are counted: a key, room to sort it, tail and head, bits of hubs; and
# what is left beside it while other blocks come. A vertex takes its rank, a place in the rows, and counts.
ARC_BYTES, KEPT_ARC_BYTES, VERTEX_BYTES = 40, 8, 48
# The share of the free device memory that is taken by default.
FREE_SHARE = 0.8


def triangle_count(reader: PageReader, device_bytes: int | None = None) -> Array:
    """Count the triangles at each vertex, as :func:`dynstore.triangle_count` does.

    Each edge points to its end of higher (degree, id). These arcs come to the device in one pass, and the kernels in
    core count there. Where they do not fit, the rows are cut into blocks. A triangle has two tails, so it is counted
    where both of their blocks are on the device: for each pair of blocks, their union is counted. That counts
    triangles within a block once for each other block, so these are counted alone, too, and subtracted.

    Parameters
    ----------
    reader : PageReader
        Of rows that hold each edge in both directions. Self-loops do not count.
    device_bytes : int, optional
        How much device memory arcs may take. By default a share of what is free; on the host all fit.

    Returns
    -------
    array, shape (V,), int64

    Raises
    ------
    InputError
        If the rows are not symmetric and this is noticed.
    """
    packed, backend = reader.packed, reader.packed.backend
    num_vertices = packed.num_vertices
    extra_slots = 0 if reader.extra is None else reader.extra.num_slots
    most_arcs = (packed.num_edges + extra_slots) // 2
    ranks = _rank_vertices(reader)
    room = _arcs_that_fit(backend, num_vertices, device_bytes)
    if room is None or most_arcs * ARC_BYTES <= room:
        return _count(backend, ranks, _load(reader, ranks, (0, num_vertices), backend.empty(most_arcs, np.int64)))
    return _count_by_blocks(reader, ranks, max(room // (2 * ARC_BYTES + KEPT_ARC_BYTES), 1))


def _arcs_that_fit(backend: Backend, num_vertices: int, device_bytes: int | None) -> int | None:
    """Return the bytes for arcs; None if there is no limit."""
    if device_bytes is None and backend.on_gpu:
        free = backend.xp.cuda.runtime.memGetInfo()[0] + backend.xp.get_default_memory_pool().free_bytes()
        device_bytes = int(FREE_SHARE * free)
    return None if device_bytes is None else max(device_bytes - VERTEX_BYTES * num_vertices, 0)


def _rank_vertices(reader: PageReader) -> Array:
    """Return the rank of each vertex; slots without an edge count, too, as any order will do."""
    packed, xp = reader.packed, reader.packed.backend.xp
    degrees = xp.diff(packed.offsets)
    if reader.extra is not None:
        degrees = degrees + xp.diff(reader.extra.offsets)
    order = xp.argsort(degrees * packed.num_vertices + xp.arange(packed.num_vertices))
    ranks: Array = packed.backend.empty(packed.num_vertices, np.int32)
    ranks[order] = xp.arange(packed.num_vertices - 1, -1, -1, dtype=np.int32)
    return ranks


def _load(reader: PageReader, ranks: Array, rows: tuple[int, int], keys: Array, begin: int = 0) -> Array:
    """Write the arcs of some rows to ``keys``, from ``begin`` on; return the keys that are there then."""
    packed, backend = reader.packed, reader.packed.backend
    kernels = backend.kernels("dynstore.algorithms.paged", "triangles")
    filled = backend.zeros(1, np.int64)
    filled.fill(begin)
    arcs = RankedArcs(ranks, *rows, keys, filled)
    reader.visit(lambda piece: kernels.list_arcs(packed, piece, arcs), pages=_pages_of(reader, rows))
    if reader.extra is not None:
        kernels.list_arc_slots(reader.extra, arcs)
    count = int(filled[0])
    if count > int(keys.shape[0]):
        raise InputError("triangle_count: the rows are not symmetric; wanted each edge in both directions")
    found: Array = keys[:count]
    return found


def _pages_of(reader: PageReader, rows: tuple[int, int]) -> np.ndarray:
    """Return the numbers of the pages with slots of some rows."""
    packed, bits = reader.packed, reader.packed.page_bits + LEAF_BITS
    first, end = int(packed.offsets[rows[0]]), int(packed.offsets[rows[1]])
    return np.arange(first >> bits, (end - 1 >> bits) + 1 if end > first else first >> bits)


def _count(backend: Backend, ranks: Array, keys: Array) -> Array:
    """Return the triangles of some arcs at each vertex, int64."""
    if keys.shape[0] == 0:
        return backend.zeros(ranks.shape[0], np.int64)
    kernels: Any = backend.kernels("dynstore.algorithms.paged", "triangles")
    counts: Array = kernels.count_triangles(backend, ranks, keys)
    return counts


def _count_by_blocks(reader: PageReader, ranks: Array, most_arcs: int) -> Array:
    packed, backend = reader.packed, reader.packed.backend
    blocks = _cut_rows(reader, ranks, most_arcs)
    counts, repeated = backend.zeros(packed.num_vertices, np.int64), len(blocks) - 2
    for number, (rows, size) in enumerate(blocks):
        others = blocks[number + 1 :]
        if not others and not repeated:
            break
        own = _load(reader, ranks, rows, backend.empty(size, np.int64))
        if repeated:
            counts -= repeated * _count(backend, ranks, own.copy())
        for other, more in others:
            keys = backend.empty(size + more, np.int64)
            keys[:size] = own
            counts += _count(backend, ranks, _load(reader, ranks, other, keys, size))
            del keys
    return counts


def _cut_rows(reader: PageReader, ranks: Array, most_arcs: int) -> list[tuple[tuple[int, int], int]]:
    """Return ranges of rows and their numbers of arcs: at most ``most_arcs``, unless one row has more."""
    packed, backend = reader.packed, reader.packed.backend
    kernels = backend.kernels("dynstore.algorithms.paged", "triangles")
    counts = backend.zeros(packed.num_vertices, np.int64)
    reader.visit(lambda piece: kernels.count_arcs(packed, piece, ranks, counts))
    if reader.extra is not None:
        kernels.count_arc_slots(reader.extra, ranks, counts)
    ends = backend.xp.cumsum(counts)
    blocks, low, before = [], 0, 0
    while low < packed.num_vertices:
        limit = backend.asarray(np.array([before + most_arcs]))
        high = max(int(backend.xp.searchsorted(ends, limit, side="right")[0]), low + 1)
        end = int(ends[high - 1])
        blocks.append(((low, high), end - before))
        low, before = high, end
    return blocks
