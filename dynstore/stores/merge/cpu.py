"""Merging a sorted batch into a packed table on the host: block copies between the changed keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynstore.host_compiler import njit

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.batches.sorted import EdgeBatch
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["merge_in", "merge_out"]


@njit(cache=True)
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


def merge_in(backend: Backend, old: SlotArrays, added: EdgeBatch, places: Array, out: SlotArrays) -> None:
    """Write the old and the added edges to ``out``; ``places``: the slots of ``old`` that the added ones go before."""
    _merge_column(old.src, places, added.src, out.src)
    _merge_column(old.dst, places, added.dst, out.dst)
    if old.weights is not None:
        _merge_column(old.weights, places, added.weights, out.weights)
    _shift_offsets(old.offsets, added.src, 1, out.offsets)


def merge_out(backend: Backend, old: SlotArrays, rows: Array, places: Array, out: SlotArrays) -> None:
    """Write the old edges except those at ``places`` (ascending slots, in ``rows``) to ``out``."""
    _drop_from_column(old.src, places, out.src)
    _drop_from_column(old.dst, places, out.dst)
    if old.weights is not None:
        _drop_from_column(old.weights, places, out.weights)
    _shift_offsets(old.offsets, rows, -1, out.offsets)
