"""GPMA+ on the host as in its paper: level by level, lower windows written before wider ones around them.

M. Sha, Y. Li, B. He, K.-L. Tan, "Accelerating Dynamic Graph Analytics on GPUs", PVLDB 11(1), 2017, section 5.2
(algorithm 4). The windows, and in the end the slots, are those of ``gpma_plus``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dynstore.stores.papers.gpma_level.cpu.loops import choose_levels, find_places
from dynstore.stores.pma.cpu.redistribute import Scratch, clear_located, or_none, set_located, write_windows
from dynstore.stores.pma.cpu.windows import locate_batch, reserve_scratch
from dynstore.stores.table.slots import ABSENT, PRESENT, TOMBSTONE, SearchResult

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.batches.sorted import EdgeBatch
    from dynstore.stores.table.slots import SlotArrays

__all__ = ["HeightWindows", "delete_in_place", "insert_in_place", "plan_delete", "plan_insert"]


@dataclass(frozen=True, slots=True)
class HeightWindows:
    """The windows to write, height by height, and the memory that writing them takes.

    ``bounds`` has a line for each: first leaf, last leaf + 1, first key, last key + 1 in ``placed``, which lists rows
    of the batch; ``ends``: the last window + 1 of each height; ``places``: for each row, the slot that it goes before.
    """

    bounds: np.ndarray
    ends: np.ndarray
    placed: np.ndarray
    places: np.ndarray
    scratch: Scratch
    num_leaves: int


def plan_insert(
    backend: Backend, slots: SlotArrays, batch: EdgeBatch, limits: np.ndarray
) -> tuple[SearchResult, HeightWindows | None]:
    """Find the keys of a batch and choose the windows that take the absent ones.

    ``limits``: the highest density of each height. No windows if the root would be denser.
    """
    located = locate_batch(backend, slots, batch)
    if slots.num_edges + len(batch) - located.found > limits[-1] * slots.num_slots:
        return located, None
    return located, _choose(backend, slots, located, limits, inserting=True)


def plan_delete(
    backend: Backend, slots: SlotArrays, batch: EdgeBatch, limits: np.ndarray
) -> tuple[SearchResult, HeightWindows | None]:
    """Find the keys of a batch and choose the windows to compact once the present ones are deleted.

    ``limits``: the lowest density of each height. No windows if the root would be sparser.
    """
    located = locate_batch(backend, slots, batch)
    if slots.num_edges - located.found < limits[-1] * slots.num_slots:
        return located, None
    return located, _choose(backend, slots, located, limits, inserting=False)


def _choose(
    backend: Backend, slots: SlotArrays, located: SearchResult, limits: np.ndarray, inserting: bool
) -> HeightWindows:
    keys = np.flatnonzero(located.states == (ABSENT if inserting else PRESENT))
    # An absent key belongs to the leaf of the slot before its place.
    all_leaves = np.maximum(located.positions[keys] - inserting, 0) >> 5
    tombstone_leaves = located.positions[located.states == TOMBSTONE] >> 5
    bounds, ends = backend.empty((keys.shape[0], 4), np.int64), backend.empty(len(limits), np.int64)
    placed, places = (backend.empty(count, np.int64) for count in (keys.shape[0], located.positions.shape[0]))
    num_windows, total, largest = choose_levels(
        slots.valid, slots.num_slots >> 5, limits, inserting, all_leaves, tombstone_leaves, keys, all_leaves.copy(),
        bounds, placed, ends,
    )  # fmt: skip
    scratch = reserve_scratch(backend, slots, largest * 32)
    return HeightWindows(bounds[:num_windows], ends, placed, places, scratch, int(total))


def _write(slots: SlotArrays, batch: EdgeBatch, plan: HeightWindows) -> None:
    weights, first = or_none(slots.weights), 0
    new_weights = weights[:0] if batch.weights is None else batch.weights
    target = (slots.src, slots.dst, weights, slots.valid, slots.offsets)
    for end in plan.ends:
        bounds = plan.bounds[first:end]
        find_places(slots.src, slots.dst, bounds, plan.placed, batch.src, batch.dst, plan.places)
        write_windows(*target, bounds, plan.placed, plan.places, batch.src, batch.dst, new_weights, *plan.scratch)
        first = end


def insert_in_place(
    backend: Backend, slots: SlotArrays, batch: EdgeBatch, located: SearchResult, plan: HeightWindows, add: bool
) -> None:
    """Write an insertion into the slots. Allocates nothing."""
    new_weights = or_none(batch.weights)
    set_located(or_none(slots.weights), slots.valid, located.positions, located.states, new_weights, add)
    _write(slots, batch, plan)


def delete_in_place(
    backend: Backend, slots: SlotArrays, batch: EdgeBatch, located: SearchResult, plan: HeightWindows | None
) -> None:
    """Clear the bits of the present keys and redistribute the windows that became too empty."""
    clear_located(slots.valid, located.positions, located.states)
    if plan is not None:
        _write(slots, batch, plan)
