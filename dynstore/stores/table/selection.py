"""Choosing slots of a table, in pieces where the device may not hold a column of all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dynstore.typing import Array

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Memory

__all__ = ["Columns", "count_before", "select"]

# Sources, destinations and weights (None where unweighted).
Columns: TypeAlias = tuple[Array, Array, Array | None]
# Slots of a piece: 256 MiB of int32.
PIECE = 1 << 26


def select(backend: Backend, columns: Columns, mask: Array, memory: Memory = "device") -> Columns:
    """Return the entries of a table's columns at which ``mask`` is set, in new arrays in one kind of memory."""
    src, dst, weights = columns
    if memory == "device":
        return src[mask], dst[mask], None if weights is None else weights[mask]
    size = int(backend.xp.count_nonzero(mask))
    chosen = tuple(None if column is None else backend.empty_in(memory, size, column.dtype) for column in columns)
    first = 0
    for begin in range(0, int(mask.shape[0]), PIECE):
        part = mask[begin : begin + PIECE]
        end = first + int(backend.xp.count_nonzero(part))
        for column, out in zip(columns, chosen, strict=True):
            if column is not None and out is not None:
                out[first:end] = column[begin : begin + PIECE][part]
        first = end
    return chosen[0], chosen[1], chosen[2]


def count_before(backend: Backend, mask: Array, offsets: Array) -> Array:
    """Return how many slots are chosen before each of some ascending offsets, in their dtype."""
    xp, counts, total = backend.xp, backend.zeros(offsets.shape[0], offsets.dtype), 0
    for begin in range(0, int(mask.shape[0]), PIECE):
        sums = xp.cumsum(mask[begin : begin + PIECE], dtype=offsets.dtype)
        ends = backend.asarray(np.array([begin, begin + int(sums.shape[0])], offsets.dtype))
        low, high = backend.to_host(xp.searchsorted(offsets, ends, side="right")).tolist()
        counts[low:high] = sums[offsets[low:high] - (begin + 1)] + total
        total += int(sums[-1])
    return counts
