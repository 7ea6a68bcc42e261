"""Merging sorted edges into others on the host, and taking edges out: block copies between the changed keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.host_compiler import njit

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.stores.table.selection import Columns
    from dynstore.typing import Array

__all__ = ["merge_in", "merge_out", "shift_offsets"]


@njit(cache=True, borrows=True)
def _copy(source, start, end, target, to, shift):
    """Copy source[start:end] plus ``shift`` to target[to:]; slices indexed from 0 are vectorized."""
    taken, written = source[start:end], target[to : to + end - start]
    for i in range(taken.shape[0]):
        written[i] = taken[i] + shift


@njit(cache=True)
def _merge_column(old, places, added, out):
    done = 0
    for i in range(places.shape[0]):
        place = places[i]
        _copy(old, done, place, out, done + i, 0)
        out[place + i] = added[i]
        done = place
    _copy(old, done, old.shape[0], out, done + places.shape[0], 0)


@njit(cache=True)
def _drop_from_column(old, places, out):
    done = 0
    for i in range(places.shape[0]):
        _copy(old, done, places[i], out, done - i, 0)
        done = places[i] + 1
    _copy(old, done, old.shape[0], out, done - places.shape[0], 0)


@njit(cache=True)
def _shift_offsets(old, rows, step, out):
    """Shift each row's start by ``step`` for every changed key in the rows before it."""
    row, shift = 0, 0
    for i in range(rows.shape[0]):
        if rows[i] >= row:
            _copy(old, row, rows[i] + 1, out, row, shift)
            row = rows[i] + 1
        shift += step
    _copy(old, row, old.shape[0], out, row, shift)


def merge_in(backend: Backend, old: Columns, added: Columns, places: Array, out: Columns) -> None:
    """Write old and added edges to ``out``, packed; ``places``: the slots of ``old`` that the added ones go before."""
    for before, new, column in zip(old, added, out, strict=True):
        if column is not None:
            _merge_column(before, places, new, column)


def merge_out(backend: Backend, old: Columns, places: Array, out: Columns) -> None:
    """Write the old edges except those at ``places`` (ascending slots) to ``out``, all packed."""
    for before, column in zip(old, out, strict=True):
        if column is not None:
            _drop_from_column(before, places, column)


def shift_offsets(old: Array, rows: Array, step: int, out: Array) -> None:
    """Write where rows begin after edges in ``rows`` (ascending) came (``step`` 1) or left (-1).

    ``old``: where they began, of the shape of ``out``; empty if there were no edges.
    """
    _shift_offsets(old if old.shape[0] else np.zeros_like(out), rows, step, out)
