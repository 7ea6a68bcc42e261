"""The windows of an update of a packed memory array on the host: choose them, and write each once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dynstore.stores.pma.cpu.redistribute import write_windows
from dynstore.stores.pma.cpu.scratch import Scratch, or_none, reserve_scratch
from dynstore.stores.pma.cpu.windows import choose_windows, group_by_leaf

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.stores.table.slots import SearchResult, SlotArrays

__all__ = ["Windows", "choose_windows_of", "widen", "write_windows_of"]


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows to write, ascending and disjoint, and the memory that writing them takes.

    ``bounds`` has one line for each: first leaf, last leaf + 1, first pending key, last pending key + 1.
    ``num_leaves``: the time that writing them takes, in redistributed leaves.
    """

    bounds: np.ndarray
    pending: np.ndarray
    scratch: Scratch
    num_leaves: int
    num_pending: int


def choose_windows_of(
    backend: Backend, slots: SlotArrays, located: SearchResult, limits: np.ndarray, inserting: bool
) -> Windows:
    num_changed = located.positions.shape[0] - located.found if inserting else located.found
    num_leaves = slots.num_slots >> 5
    run_leaf, run_keys, run_pending, pending = (backend.empty(num_changed + 1, np.int64) for _ in range(4))
    bounds = backend.empty((num_changed, 4), np.int64)
    num_runs = group_by_leaf(located.positions, located.states, inserting, run_leaf, run_keys, run_pending, pending)
    num_windows, total, largest = choose_windows(
        slots.valid, num_leaves, limits, inserting, num_runs, run_leaf, run_keys, run_pending, bounds
    )
    scratch = reserve_scratch(backend, slots, largest * 32)
    return Windows(bounds[:num_windows], pending, scratch, int(total), int(run_pending[num_runs]))


def widen(backend: Backend, slots: SlotArrays, windows: Windows) -> Windows:
    """Return one window of all leaves in place of several: writing it is a merge of everything without fresh slots."""
    num_leaves = slots.num_slots >> 5
    bounds = np.array([[0, num_leaves, 0, windows.num_pending]], np.int64)
    most = slots.num_edges + windows.pending.shape[0]  # restored keys are not pending, but become edges
    scratch = reserve_scratch(backend, slots, most)
    return Windows(bounds, windows.pending, scratch, num_leaves, windows.num_pending)


def write_windows_of(slots: SlotArrays, located: SearchResult, windows: Windows, new: Scratch) -> None:
    weights, places = or_none(slots.weights), located.positions
    target = (slots.src, slots.dst, weights, slots.valid, slots.offsets)
    write_windows(*target, windows.bounds, windows.pending, places, *new, *windows.scratch)
