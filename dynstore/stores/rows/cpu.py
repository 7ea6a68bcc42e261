"""Replacing some rows of a packed table on the host, with block copies of the rows between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.host_compiler import njit

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["mark_rows", "replace_rows"]


@njit(cache=True)
def _splice(old, old_offsets, rows, new, offsets, out):
    """Write a column: the old rows, with the given rows taken from ``new``."""
    old_rows, taken, done, written = old_offsets.shape[0] - 1, np.int64(0), np.int64(0), np.int64(0)
    for i in range(rows.shape[0]):
        row = rows[i]
        start = np.int64(old_offsets[min(row, old_rows)])
        kept, size = start - done, np.int64(offsets[row + 1] - offsets[row])
        out[written : written + kept] = old[done:start]
        written += kept
        out[written : written + size] = new[taken : taken + size]
        written, taken = written + size, taken + size
        done = np.int64(old_offsets[min(row + 1, old_rows)])
    out[written:] = old[done:]


@njit(cache=True, borrows=True)
def _mark(marks, rows):
    for i in range(rows.shape[0]):
        if rows[i] < marks.shape[0]:
            marks[rows[i]] = True


def mark_rows(marks: Array, rows: Array) -> None:
    """Set the marks of some rows; repeated and unknown rows are allowed. Allocates nothing."""
    _mark(marks, rows)


def replace_rows(backend: Backend, old: SlotArrays, rows: Array, touched: SlotArrays, out: SlotArrays) -> None:
    """Write a packed table that differs from another in some rows.

    Parameters
    ----------
    old : SlotArrays
        Packed; may have fewer rows.
    rows : array, ascending
        The rows that differ.
    touched : SlotArrays
        The edges of these rows; its offsets are those of the whole new table.
    out : SlotArrays
        The table to write.
    """
    columns = [(old.src, touched.src, out.src), (old.dst, touched.dst, out.dst)]
    if old.weights is not None:
        columns.append((old.weights, touched.weights, out.weights))
    for before, changed, after in columns:
        _splice(before, old.offsets, rows, changed, touched.offsets, after)
