"""Edges by the times of their records, on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.host_compiler import njit

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.stores.pma.aged import Aged
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["lower_stretches", "mark_below", "raise_stretches"]


@njit(cache=True, nogil=True)
def _mark_below(valid, numbers, times, flags, shift, bound, marks):
    for leaf in range(numbers.shape[0] >> 5):
        word, held = np.uint32(0), valid[leaf]
        if held != 0:
            for lane in range(32):
                if (held >> np.uint32(lane)) & np.uint32(1):
                    number = np.int64(numbers[32 * leaf + lane])
                    if flags[number >> shift] and times[number] < bound:
                        word |= np.uint32(1) << np.uint32(lane)
        marks[leaf] = word


def mark_below(backend: Backend, slots: SlotArrays, aged: Aged, bound: int) -> Array:
    """Return a new bit for each slot: whether it has an edge whose time is below ``bound``; shape (S / 32,), uint32."""
    marks = backend.empty(slots.num_slots >> 5, np.uint32)
    _mark_below(slots.valid, slots.weights, aged.times, aged.lows < bound, aged.shift, np.int64(bound), marks)
    return marks


@njit(cache=True, nogil=True)
def _lower_stretches(numbers, times, shift, lows):
    for row in range(numbers.shape[0]):
        stretch = np.int64(numbers[row]) >> shift
        lows[stretch] = min(lows[stretch], times[row])


def lower_stretches(backend: Backend, aged: Aged, numbers: Array, times: Array) -> None:
    """Lower the bounds for ``times`` that are about to be written to the records of these numbers."""
    _lower_stretches(numbers, times, aged.shift, aged.lows)


@njit(cache=True, nogil=True)
def _raise_stretches(times, shift, bound, lows, highest):
    for stretch in range(lows.shape[0]):
        if lows[stretch] < bound:
            low = highest
            for time in times[stretch << shift : (stretch + 1) << shift]:
                if time >= bound:
                    low = min(low, np.int64(time))
            lows[stretch] = low


def raise_stretches(backend: Backend, aged: Aged, bound: int) -> None:
    """Raise the bounds after all edges with times below ``bound`` have been deleted."""
    _raise_stretches(aged.times, aged.shift, np.int64(bound), aged.lows, np.int64(np.iinfo(aged.lows.dtype).max))
