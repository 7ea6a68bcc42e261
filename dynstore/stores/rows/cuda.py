"""Replacing some rows of a packed table on CUDA: each output slot finds its source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.cuda.compiler import cuda, kernel
from dynstore.stores.table.cuda.search import d_find_lower_bound

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["mark_rows", "replace_rows"]


@kernel
def k_mark_rows(marks, rows):
    """One thread owns one row number; equal ones write the same value."""
    i = cuda.grid(1)
    if i < rows.shape[0] and rows[i] < marks.shape[0]:
        marks[rows[i]] = True


@kernel
def k_list_bounds(old_offsets, offsets, rows, starts, sizes, ends):
    """One thread owns one row: write its start, its length, and the end of the old row."""
    i = cuda.grid(1)
    if i < rows.shape[0]:
        row = rows[i]
        starts[i] = offsets[row]
        sizes[i] = np.int64(offsets[row + 1]) - offsets[row]
        ends[i] = old_offsets[min(row + 1, np.int64(old_offsets.shape[0] - 1))]


@kernel
def k_replace_rows(
    starts, taken, ends, old_src, old_dst, old_weights, src, dst, weights, weighted, out_src, out_dst, out_weights
):
    """One thread owns one output slot: it is in the last listed row that starts before it, or in an old row behind.

    ``taken``: inclusive sums of the edges of the listed rows.
    """
    slot = np.int64(cuda.grid(1))
    if slot < out_src.shape[0]:
        at = d_find_lower_bound(starts, np.int64(0), np.int64(starts.shape[0]), slot + 1) - 1
        if at < 0:
            place, fresh = slot, False
        else:
            before = taken[at - 1] if at > 0 else np.int64(0)
            place = before + slot - starts[at]
            fresh = place < taken[at]
            if not fresh:
                place = ends[at] + place - taken[at]
        out_src[slot] = src[place] if fresh else old_src[place]
        out_dst[slot] = dst[place] if fresh else old_dst[place]
        if weighted:
            out_weights[slot] = weights[place] if fresh else old_weights[place]


def mark_rows(marks: Array, rows: Array) -> None:
    """Set the marks of some rows; repeated and unknown rows are allowed. Allocates nothing."""
    k_mark_rows.launch(rows.shape[0], marks, rows)


def replace_rows(backend: Backend, old: SlotArrays, rows: Array, touched: SlotArrays, out: SlotArrays) -> None:
    """Write a packed table that differs from another in some rows; see ``rows.cpu.replace_rows``."""
    count = int(rows.shape[0])
    starts, sizes, ends = backend.empty_arena((count, np.int64), (count, np.int64), (count, np.int64))
    k_list_bounds.launch(count, old.offsets, touched.offsets, rows, starts, sizes, ends)
    taken = backend.xp.cumsum(sizes)
    weighted = old.weights is not None
    old_weights, weights, out_weights = (
        (old.weights, touched.weights, out.weights) if weighted else (old.src, old.src, old.src)
    )
    k_replace_rows.launch(
        out.num_slots, starts, taken, ends, old.src, old.dst, old_weights, touched.src, touched.dst, weights, weighted,
        out.src, out.dst, out_weights,
    )  # fmt: skip
