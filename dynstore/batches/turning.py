"""In-edges of edges that may be more than the device can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.batches.sorted import EdgeBatch, sort_unique
from dynstore.stores.table import selection

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["transpose_slots"]

# Bytes of device memory that sorting an edge takes, at most.
SORT_BYTES = 128


def transpose_slots(backend: Backend, slots: SlotArrays, mask: Array, num_vertices: int) -> EdgeBatch:
    """Return the edges of chosen slots with source and destination exchanged, sorted, in the memory of the slots.

    Of slots in host memory the device holds a piece at a time: the edges to some neighbouring destinations. Each piece
    reads all slots once. Pieces are as large as free device memory allows.
    """
    if slots.memory == "device":
        return EdgeBatch(*selection.select(backend, slots.columns, mask)).transposed(backend)
    degrees = _count_in_edges(backend, slots, mask, num_vertices)
    total = int(degrees.sum())
    out = [
        None if column is None else backend.empty_in(slots.memory, total, column.dtype)
        for column in (slots.dst, slots.src, slots.weights)
    ]
    ends = backend.xp.cumsum(degrees, dtype=np.int64)
    low = first = 0
    most = max(selection.PIECE, (backend.free_bytes() or 0) // SORT_BYTES)
    while first < total:
        wanted = backend.asarray(np.array([first + most]))
        high = max(int(backend.xp.searchsorted(ends, wanted, side="right")[0]), low + 1)
        src, dst, weights = _edges_into(backend, slots, mask, low, high)
        sorted_columns = sort_unique(backend, dst, src, weights)
        end = first + int(sorted_columns[0].shape[0])
        for target, column in zip(out, sorted_columns, strict=True):
            if target is not None:
                target[first:end] = column
        low, first = high, end
    src, dst, weights = out
    return EdgeBatch(src, dst, weights)


def _count_in_edges(backend: Backend, slots: SlotArrays, mask: Array, num_vertices: int) -> Array:
    degrees = backend.zeros(num_vertices, np.int64)
    for begin in range(0, slots.num_slots, selection.PIECE):
        end = begin + selection.PIECE
        dst = slots.dst[begin:end][mask[begin:end]]
        if dst.shape[0]:  # CuPy cannot count an empty array
            degrees += backend.xp.bincount(dst, minlength=num_vertices)
    return degrees


def _edges_into(
    backend: Backend, slots: SlotArrays, mask: Array, low: int, high: int
) -> tuple[Array, Array, Array | None]:
    """Return the chosen edges to destinations from ``low`` to below ``high``, on the device."""
    parts: list[list[Array]] = []
    for begin in range(0, slots.num_slots, selection.PIECE):
        end = begin + selection.PIECE
        dst = slots.dst[begin:end]
        chosen = mask[begin:end] & (dst >= low) & (dst < high)
        parts.append([column[begin:end][chosen] for column in slots.columns if column is not None])
    src, dst, *weights = (backend.xp.concatenate(column) for column in zip(*parts, strict=True))
    return src, dst, weights[0] if weights else None
