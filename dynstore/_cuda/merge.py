"""Merging a sorted batch into a packed table on CUDA: every output slot finds its own source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore._cuda.compiler import cuda, device, kernel

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.edge_batch import EdgeBatch
    from dynstore.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["merge_in", "merge_out"]


@device
def d_count_below(places, limit, slope):
    """Count the ascending ``places[j] + slope * j`` that are not above ``limit``; slope is 1 or -1."""
    low, high = 0, places.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if places[middle] + slope * middle <= limit:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def k_merge_column(old, places, added, out):
    """One thread owns one output slot: the j-th added key goes to ``places[j] + j``."""
    slot = cuda.grid(1)
    if slot < out.shape[0]:
        below = d_count_below(places, slot, 1)
        if below > 0 and places[below - 1] + below - 1 == slot:
            out[slot] = added[below - 1]
        else:
            out[slot] = old[slot - below]


@kernel
def k_drop_from_column(old, places, out):
    """One thread owns one output slot: it skips the dropped keys before it."""
    slot = cuda.grid(1)
    if slot < out.shape[0]:
        out[slot] = old[slot + d_count_below(places, slot, -1)]


@kernel
def k_shift_offsets(old, rows, step, out):
    """One thread owns one row start: it moves by ``step`` for every changed key in the rows before it."""
    row = cuda.grid(1)
    if row < out.shape[0]:
        low, high = 0, rows.shape[0]
        while low < high:
            middle = (low + high) >> 1
            if rows[middle] < row:
                low = middle + 1
            else:
                high = middle
        out[row] = np.int64(old[row]) + step * low


def merge_in(backend: Backend, old: SlotArrays, added: EdgeBatch, places: Array, out: SlotArrays) -> None:
    """Write the old edges and the added ones to ``out``; ``places``: slots of ``old`` that they go before."""
    k_merge_column.launch(out.num_slots, old.src, places, added.src, out.src)
    k_merge_column.launch(out.num_slots, old.dst, places, added.dst, out.dst)
    if old.weights is not None:
        k_merge_column.launch(out.num_slots, old.weights, places, added.weights, out.weights)
    k_shift_offsets.launch(out.num_vertices + 1, old.offsets, added.src, 1, out.offsets)


def merge_out(backend: Backend, old: SlotArrays, rows: Array, places: Array, out: SlotArrays) -> None:
    """Write the old edges less those at ``places`` (ascending slots, in ``rows``) to ``out``."""
    k_drop_from_column.launch(out.num_slots, old.src, places, out.src)
    k_drop_from_column.launch(out.num_slots, old.dst, places, out.dst)
    if old.weights is not None:
        k_drop_from_column.launch(out.num_slots, old.weights, places, out.weights)
    k_shift_offsets.launch(out.num_vertices + 1, old.offsets, rows, -1, out.offsets)
