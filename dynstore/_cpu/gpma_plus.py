"""GPMA+ on the host: the same windows as on the GPU, found and written one after the other.

Structure and update: M. Sha, Y. Li, B. He, K.-L. Tan, "Accelerating Dynamic Graph Analytics on GPUs",
PVLDB 11(1), 2017, sections 4 and 5; ``docs/design.md`` says where we differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dynstore._cpu.leaf_loops import clear_located, gather_all, set_located, spread, write_windows
from dynstore._cpu.scratch import Scratch, locate_batch, or_none, reserve_scratch
from dynstore._cpu.window_loops import choose_windows, group_by_leaf
from dynstore.slots import Located

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.backend import Backend
    from dynstore.edge_batch import EdgeBatch
    from dynstore.slots import SlotArrays
    from dynstore.typing import Array

__all__ = [
    "Windows",
    "build",
    "clear_copy",
    "delete_in_place",
    "insert_in_place",
    "merge",
    "plan_build",
    "plan_delete",
    "plan_insert",
    "plan_merge",
]

NO_KEYS, NO_STATES = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint8)


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows to write, ascending and disjoint, and the memory that writing them takes.

    ``bounds`` has a row for each: first leaf, last leaf + 1, first pending key, last pending key + 1.
    """

    bounds: np.ndarray
    pending: np.ndarray
    scratch: Scratch
    num_leaves: int


def _choose(backend: Backend, slots: SlotArrays, located: Located, limits: np.ndarray, inserting: bool) -> Windows:
    num_changed = located.positions.shape[0] - located.found if inserting else located.found
    num_leaves = slots.num_slots >> 5
    run_leaf, run_keys, run_pending, pending = (backend.empty(num_changed + 1, np.int64) for _ in range(4))
    bounds = backend.empty((num_changed, 4), np.int64)
    num_runs = group_by_leaf(located.positions, located.states, inserting, run_leaf, run_keys, run_pending, pending)
    num_windows, total, largest = choose_windows(
        slots.valid, num_leaves, limits, inserting, num_runs, run_leaf, run_keys, run_pending, bounds
    )
    return Windows(bounds[:num_windows], pending, reserve_scratch(backend, slots, largest * 32), int(total))


def plan_insert(
    backend: Backend, slots: SlotArrays, batch: EdgeBatch, limits: np.ndarray
) -> tuple[Located, Windows | None]:
    """Find the keys of a batch and choose the windows that take the absent ones.

    ``limits``: the highest density of each height, linear in it. No windows where the root would be denser.
    """
    located = locate_batch(backend, slots, batch)
    if len(batch) - located.found > slots.room_at(limits[-1]):
        return located, None
    return located, _choose(backend, slots, located, limits, inserting=True)


def plan_delete(
    backend: Backend, slots: SlotArrays, batch: EdgeBatch, limits: np.ndarray
) -> tuple[Located, Windows | None]:
    """Find the keys of a batch and choose the windows to pack once the present ones are gone.

    ``limits``: the lowest density of each height, linear in it. No windows where the root would be sparser.
    """
    located = locate_batch(backend, slots, batch)
    if slots.num_edges - located.found < limits[-1] * slots.num_slots:
        return located, None
    return located, _choose(backend, slots, located, limits, inserting=False)


def insert_in_place(
    backend: Backend, slots: SlotArrays, batch: EdgeBatch, located: Located, windows: Windows, add: bool
) -> None:
    """Write an insertion into the slots; allocates nothing."""
    weights, new_weights = or_none(slots.weights), or_none(batch.weights)
    set_located(weights, slots.valid, located.positions, located.states, new_weights, add)
    _write(slots, located, windows, (batch.src, batch.dst, new_weights))


def delete_in_place(
    backend: Backend, slots: SlotArrays, batch: EdgeBatch, located: Located, windows: Windows | None
) -> None:
    """Clear the bits of the present keys and pack the windows that became too empty."""
    clear_located(slots.valid, located.positions, located.states)
    if windows is not None:
        none = slots.src[:0]
        _write(slots, located, windows, (none, none, or_none(slots.weights)[:0]))


def _write(slots: SlotArrays, located: Located, windows: Windows, new: Scratch) -> None:
    weights, places = or_none(slots.weights), located.positions
    target = (slots.src, slots.dst, weights, slots.valid, slots.offsets)
    write_windows(*target, windows.bounds, windows.pending, places, *new, *windows.scratch)


def clear_copy(backend: Backend, slots: SlotArrays, located: Located) -> Array:
    """Return a copy of the validity words without the bits of the present keys."""
    words = backend.empty(slots.valid.shape, np.uint32)
    words[:] = slots.valid
    clear_located(words, located.positions, located.states)
    return words


def plan_build(
    backend: Backend, batch: EdgeBatch, reserve: Callable[[int], SlotArrays]
) -> tuple[SlotArrays, Scratch | None]:
    """Reserve fresh slots for a batch by ``reserve(num_edges)``; return what is spread over them, None for nothing."""
    return reserve(len(batch)), (batch.src, batch.dst, or_none(batch.weights)) if len(batch) else None


def build(backend: Backend, new: SlotArrays, edges: Scratch) -> None:
    """Spread the planned batch over fresh slots; ``new.num_edges`` is its size."""
    new.clear_rows()  # right for the rows behind the last one, and ``spread`` asks what is there
    weights, last_row = or_none(new.weights), edges[0][new.num_edges - 1]
    spread(new.src, new.dst, weights, new.valid, new.offsets, 0, new.num_slots, new.num_edges, last_row, *edges)


def plan_merge(
    backend: Backend, old: SlotArrays, batch: EdgeBatch, located: Located | None, reserve: Callable[[], SlotArrays]
) -> tuple[SlotArrays, Scratch]:
    """Reserve fresh slots, and what a merge of a table and a batch into them needs; ``located=None`` for no batch."""
    new = reserve()
    return new, reserve_scratch(backend, old, new.num_edges)


def merge(
    backend: Backend,
    old: SlotArrays,
    batch: EdgeBatch,
    located: Located | None,
    add: bool,
    new: SlotArrays,
    scratch: Scratch,
) -> None:
    """Write the union of a table and a batch to ``new``, which has ``new.num_edges`` set to its size."""
    positions, states = (NO_KEYS, NO_STATES) if located is None else (located.positions, located.states)
    weights, new_weights = or_none(old.weights), or_none(batch.weights)
    gather_all(
        old.src, old.dst, weights, old.valid, positions, states, batch.src, batch.dst, new_weights, add, *scratch
    )
    build(backend, new, scratch)
