"""Building, merging and deleting in a packed memory array on the host: what all stores of this structure share.

Structure: M. Sha, Y. Li, B. He, K.-L. Tan, "Accelerating Dynamic Graph Analytics on GPUs", PVLDB 11(1), 2017,
sections 4 and 5; ``docs/design.md`` says where we differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.stores.pma.cpu.redistribute import (
    Scratch,
    SpreadWindows,
    clear_located,
    gather_all,
    or_none,
    spread,
    write_windows_of,
)
from dynstore.stores.pma.cpu.windows import choose_windows_of, locate_batch, reserve_scratch
from dynstore.stores.table.slots import SearchResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.backend import Backend
    from dynstore.batches.sorted import EdgeBatch
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = [
    "build",
    "clear_copy",
    "delete_in_place",
    "merge",
    "plan_build",
    "plan_delete",
    "plan_merge",
]

NO_KEYS, NO_STATES = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint8)


def plan_delete(
    backend: Backend, slots: SlotArrays, batch: EdgeBatch, limits: np.ndarray
) -> tuple[SearchResult, SpreadWindows | None]:
    """Find the keys of a batch and choose the windows to compact once the present ones are deleted.

    ``limits``: the lowest density of each height, linear in it. No windows if the root would be sparser.
    """
    located = locate_batch(backend, slots, batch)
    if slots.num_edges - located.found < limits[-1] * slots.num_slots:
        return located, None
    return located, choose_windows_of(backend, slots, located, limits, inserting=False)


def delete_in_place(
    backend: Backend, slots: SlotArrays, batch: EdgeBatch, located: SearchResult, windows: SpreadWindows | None
) -> None:
    """Clear the bits of the present keys and redistribute the windows that became too empty."""
    clear_located(slots.valid, located.positions, located.states)
    if windows is not None:
        none = slots.src[:0]
        write_windows_of(slots, located, windows, (none, none, or_none(slots.weights)[:0]))


def clear_copy(backend: Backend, slots: SlotArrays, located: SearchResult) -> Array:
    """Return a copy of the validity words without the bits of the present keys."""
    words = backend.empty(slots.valid.shape, np.uint32)
    words[:] = slots.valid
    clear_located(words, located.positions, located.states)
    return words


def plan_build(
    backend: Backend, batch: EdgeBatch, reserve: Callable[[int], SlotArrays]
) -> tuple[SlotArrays, Scratch | None]:
    """Reserve fresh slots for a batch by ``reserve(num_edges)``. Return them and the edges, None if there are none."""
    return reserve(len(batch)), (batch.src, batch.dst, or_none(batch.weights)) if len(batch) else None


def build(backend: Backend, new: SlotArrays, edges: Scratch) -> None:
    """Spread the planned batch over fresh slots; ``new.num_edges`` is its size."""
    new.clear_rows()  # right for the rows behind the last one; ``spread`` reads the old starts
    weights, last_row = or_none(new.weights), edges[0][new.num_edges - 1]
    spread(new.src, new.dst, weights, new.valid, new.offsets, 0, new.num_slots, new.num_edges, last_row, *edges)


def plan_merge(
    backend: Backend, old: SlotArrays, batch: EdgeBatch, located: SearchResult | None, reserve: Callable[[], SlotArrays]
) -> tuple[SlotArrays, Scratch]:
    """Reserve fresh slots, and scratch for a merge of a table and a batch into them; ``located=None`` for no batch."""
    new = reserve()
    return new, reserve_scratch(backend, old, new.num_edges)


def merge(
    backend: Backend,
    old: SlotArrays,
    batch: EdgeBatch,
    located: SearchResult | None,
    add: bool,
    new: SlotArrays,
    scratch: Scratch,
) -> None:
    """Write the union of a table and a batch to ``new``, whose ``num_edges`` is its size."""
    positions, states = (NO_KEYS, NO_STATES) if located is None else (located.positions, located.states)
    weights, new_weights = or_none(old.weights), or_none(batch.weights)
    gather_all(
        old.src, old.dst, weights, old.valid, positions, states, batch.src, batch.dst, new_weights, add, *scratch
    )
    build(backend, new, scratch)
