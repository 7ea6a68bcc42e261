"""The bulk build of a packed memory array from sorted keys on CUDA, by one kernel straight from keys to slots."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dynstore.batches.cuda.unique import RUNS
from dynstore.cuda.compiler import WARP, cuda, device, kernel
from dynstore.cuda.warp import d_ballot, d_lane, d_shuffle
from dynstore.errors import LimitError
from dynstore.stores.pma.cuda.redistribute import d_divide
from dynstore.stores.pma.cuda.row_offsets import d_write_far_rows, d_write_rows_by_warp, far_rows_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.backend import Backend
    from dynstore.batches.unsorted import RawEdges
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["Building", "plan_keys", "spread_keys"]

# Leaves that a warp writes at a time, so that the reads of their keys overlap.
LEAVES = 4
ONE = np.uint32(1)
ZERO, STEP_1, STEP_2, STEP_3 = np.uint64(0), np.uint64(WARP), np.uint64(2 * WARP), np.uint64(3 * WARP)


@dataclass(frozen=True, slots=True)
class Building:
    """Sorted keys, and what writing them takes; ``far_rows``: see ``d_write_rows_by_warp``.

    ``counted``: totals with the number of distinct keys, once the device knows it; empty if all are distinct.
    """

    keys: Array
    far_rows: Array
    counted: Array


@device
def d_advance(element, rest, whole, part, size):
    """Return quotient and remainder of a sum from those of its terms; all uint32, ``size`` below 2^31."""
    element, rest = np.uint32(element + whole), np.uint32(rest + part)
    if rest >= size:
        element, rest = np.uint32(element + ONE), np.uint32(rest - size)
    return element, rest


@device
def d_row_of(key):
    """Return a key's source, int32."""
    return np.int32(key >> 32)


@device
def d_write_slot(src, dst, slot, row, key):
    """Write a key to its slot, if that slot exists."""
    if slot < np.uint64(src.shape[0]):
        src[slot] = row
        dst[slot] = np.int32(key & 0xFFFFFFFF)


@device
def d_write_few_rows(offsets, low, high, slot):
    """Let the few rows in (low, high] start at ``slot``."""
    while low < high:
        offsets[np.uint32(high)] = slot
        high = np.int32(high - np.int32(1))


@kernel
def k_spread_keys(keys, src, dst, valid, offsets, far_rows, counted):
    """Warps stride over neighbouring leaves; slot s of c shows element floor(((s + 1) n - 1) / c) of the n keys.

    A slot is the first to show its element, and so valid, if the remainder is below n; quotient and remainder come from
    those of an earlier slot. The first warp also writes the rows behind the last key. After a grid wait all blocks
    together write the ranges of rows that are too long for a warp. Unsigned indices save a test for negative ones: the
    cost of a slot is its instructions. Nothing is written if some keys are counted as repeated.
    """
    if counted.shape[0] > 0 and counted[RUNS] < keys.shape[0]:  # the same in all threads
        return
    lane, num_slots, num_keys = d_lane(), np.int64(src.shape[0]), np.int64(keys.shape[0])
    if cuda.grid(1) < WARP:
        row = np.int64(d_row_of(keys[num_keys - 1])) if lane == 0 else np.int64(0)
        behind = np.int64(offsets.shape[0] - 1) if lane == 0 else np.int64(0)
        d_write_rows_by_warp(offsets, row, behind, num_slots, far_rows)
    start = np.int64(cuda.grid(1) >> 5) * (LEAVES * WARP) + lane
    stride = np.int64(cuda.gridsize(1)) * LEAVES
    dividend, of_leaf, of_stride = (start + 1) * num_keys - 1, WARP * num_keys, stride * num_keys
    quotient, leaf_quotient = d_divide(dividend, num_slots), d_divide(of_leaf, num_slots)
    stride_quotient = d_divide(of_stride, num_slots)
    element, rest = np.uint32(quotient), np.uint32(dividend - quotient * num_slots)
    whole, part = np.uint32(leaf_quotient), np.uint32(of_leaf - leaf_quotient * num_slots)
    far_whole, far_part = np.uint32(stride_quotient), np.uint32(of_stride - stride_quotient * num_slots)
    size, count, final = np.uint32(num_slots), np.uint32(num_keys), np.uint32(num_keys - 1)
    left, last = (lane - 1) & 31, lane == WARP - 1
    slot, end, step = np.uint64(start), np.uint64(num_slots + lane), np.uint64(stride)
    while slot < end:
        element_1, rest_1 = d_advance(element, rest, whole, part, size)
        element_2, rest_2 = d_advance(element_1, rest_1, whole, part, size)
        element_3, rest_3 = d_advance(element_2, rest_2, whole, part, size)
        key_0, key_1 = keys[element], keys[min(element_1, final)]
        key_2, key_3 = keys[min(element_2, final)], keys[min(element_3, final)]
        key_before = keys[np.uint32(element - ONE) if lane == 0 and slot > ZERO and rest < count else element]
        row_0, row_1, row_2, row_3 = d_row_of(key_0), d_row_of(key_1), d_row_of(key_2), d_row_of(key_3)
        before_0, first_before = d_shuffle(row_0, left), d_shuffle(d_row_of(key_before), 0)  # so all lanes read it
        if lane == 0:
            before_0 = first_before if slot > ZERO else np.int32(-1)
        before_1 = d_shuffle(row_0 if last else row_1, left)
        before_2 = d_shuffle(row_1 if last else row_2, left)
        before_3 = d_shuffle(row_2 if last else row_3, left)
        slot_1, slot_2, slot_3 = slot + STEP_1, slot + STEP_2, slot + STEP_3
        d_write_slot(src, dst, slot, row_0, key_0)
        d_write_slot(src, dst, slot_1, row_1, key_1)
        d_write_slot(src, dst, slot_2, row_2, key_2)
        d_write_slot(src, dst, slot_3, row_3, key_3)
        word, word_1 = d_ballot(rest < count), d_ballot(rest_1 < count)
        word_2, word_3 = d_ballot(rest_2 < count), d_ballot(rest_3 < count)
        if lane == 1:
            word = word_1
        elif lane == 2:
            word = word_2
        elif lane == 3:
            word = word_3
        leaf = (slot >> np.uint64(5)) + np.uint64(lane)
        if lane < LEAVES and leaf < np.uint64(num_slots >> 5):
            valid[leaf] = word
        longest = max(
            max(np.int32(row_0 - before_0), np.int32(row_1 - before_1)),
            max(np.int32(row_2 - before_2), np.int32(row_3 - before_3)),
        )
        if d_ballot(longest > WARP) == 0:
            d_write_few_rows(offsets, before_0, row_0, slot)
            d_write_few_rows(offsets, before_1, row_1, slot_1)
            d_write_few_rows(offsets, before_2, row_2, slot_2)
            d_write_few_rows(offsets, before_3, row_3, slot_3)
        else:
            d_write_rows_by_warp(offsets, np.int64(before_0), np.int64(row_0), np.int64(slot), far_rows)
            d_write_rows_by_warp(offsets, np.int64(before_1), np.int64(row_1), np.int64(slot_1), far_rows)
            d_write_rows_by_warp(offsets, np.int64(before_2), np.int64(row_2), np.int64(slot_2), far_rows)
            d_write_rows_by_warp(offsets, np.int64(before_3), np.int64(row_3), np.int64(slot_3), far_rows)
        element, rest = d_advance(element, rest, far_whole, far_part, size)
        slot += step
    d_write_far_rows(offsets, far_rows, 1)


def plan_keys(
    backend: Backend, batch: RawEdges, reserve: Callable[[int], SlotArrays]
) -> tuple[SlotArrays, Building | None]:
    """Reserve slots for a batch's edges, and what spreading its keys over them needs.

    Slots are reserved for all rows while the device sorts and counts these. If all rows are distinct, as in most
    builds, these slots are being written when this returns, invisible to readers, and nothing is left to do.
    """
    counted, keys, new = batch.start_counting(), batch.sort_keys(), None
    with suppress(LimitError):  # too many rows may still be few enough edges
        new = reserve(int(keys.shape[0]))
        spread_keys(new, _plan_spread(backend, new, keys, counted))
    distinct = batch.distinct_keys()
    if new is not None and distinct.shape == keys.shape:
        return new, None
    new = None  # free it before the next slots are made
    new = reserve(int(distinct.shape[0]))
    return new, _plan_spread(backend, new, distinct, backend.nothing(np.int64))


def _plan_spread(backend: Backend, new: SlotArrays, keys: Array, counted: Array) -> Building:
    return Building(keys, backend.zeros(far_rows_size(new.num_vertices), np.int64), counted)


def spread_keys(new: SlotArrays, plan: Building) -> None:
    """Write the keys evenly over all slots, and the offsets of all rows."""
    k_spread_keys.launch_resident(
        max(-(-new.num_slots // LEAVES), new.num_vertices >> 6),
        plan.keys, new.src, new.dst, new.valid, new.offsets, plan.far_rows, plan.counted,
    )  # fmt: skip
