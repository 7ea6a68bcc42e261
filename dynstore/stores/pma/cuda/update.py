"""Building, merging and deleting in a packed memory array on CUDA: what all stores of this structure share.

Structure: M. Sha, Y. Li, B. He, K.-L. Tan, "Accelerating Dynamic Graph Analytics on GPUs", PVLDB 11(1), 2017,
sections 4 and 5; ``docs/design.md`` says where we differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.batches.unsorted import RawEdges
from dynstore.cuda.launch import Packed
from dynstore.stores.pma.cuda.build_keys import Building, plan_keys, spread_keys
from dynstore.stores.pma.cuda.compact import start_compaction
from dynstore.stores.pma.cuda.delete import find_present, lowest_count
from dynstore.stores.pma.cuda.full_merge import Merging, merge, plan_merge, plan_spread
from dynstore.stores.pma.cuda.rebalance import (
    Columns,
    Writing,
    reserve_windows,
    spread_windows,
    write_edge_rows,
    write_windows,
)
from dynstore.stores.pma.cuda.redistribute import k_clear_located
from dynstore.stores.pma.cuda.windows import (
    no_windows,
)
from dynstore.stores.table.cuda.arguments import with_weights
from dynstore.stores.table.slots import SearchResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.backend import Backend
    from dynstore.batches.sorted import Batch
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = [
    "Merging",
    "build",
    "clear_copy",
    "delete_in_place",
    "merge",
    "plan_build",
    "plan_delete",
    "plan_merge",
]


def plan_delete(
    backend: Backend, slots: SlotArrays, batch: Batch, limits: np.ndarray
) -> tuple[SearchResult, Writing | None]:
    """Find the keys of a batch and choose the windows to compact once the present ones are deleted.

    ``limits``: the lowest density of each height, linear in it. No windows if the root would be sparser.
    """
    located, is_sparse, marks = find_present(backend, slots, batch, lowest_count(limits))
    if slots.num_edges - located.found < limits[-1] * slots.num_slots:
        return located, None
    if not is_sparse:
        empty = backend.nothing(np.int64)
        return located, Writing(no_windows(empty), empty, empty, empty, empty, Packed(), empty)
    num_rows = int(located.positions.shape[0])
    size = min(num_rows, slots.num_slots >> 5)
    plan = start_compaction(backend, slots, marks, num_rows, limits, None, size)
    return located, reserve_windows(backend, slots, plan.writing, plan.mailbox.read(backend, plan.ticket))


def plan_build(
    backend: Backend, batch: Batch, reserve: Callable[[int], SlotArrays]
) -> tuple[SlotArrays, Writing | Building | None]:
    """Reserve fresh slots for a batch by ``reserve(num_edges)``, and what spreading it over them needs.

    The latter is None if nothing is to be written, or nothing is left to write, see :func:`~.build_keys.plan_keys`.
    """
    batch = batch.known()
    if isinstance(batch, RawEdges):
        return plan_keys(backend, batch, reserve)
    edges = batch.materialized()
    new, columns = reserve(edges.num_rows), with_weights(edges.src, edges.dst, edges.weights)
    return new, plan_spread(backend, new, columns) if edges.num_rows else None


def delete_in_place(
    backend: Backend, slots: SlotArrays, batch: Batch, located: SearchResult, plan: Writing | None
) -> None:
    """Clear the bits of the present keys and redistribute the windows that became too empty."""
    if plan is None or not plan.num_leaves:
        k_clear_located.launch(located.positions.shape[0], slots.valid, located.positions, located.states)
    else:
        write_windows(slots, _no_columns(slots), located.positions, located.states, plan, False, False)


def clear_copy(backend: Backend, slots: SlotArrays, located: SearchResult) -> Array:
    """Return a copy of the validity words without the bits of the present keys."""
    words = backend.empty(slots.valid.shape, np.uint32)
    words[:] = slots.valid
    k_clear_located.launch(located.positions.shape[0], words, located.positions, located.states)
    return words


def build(backend: Backend, new: SlotArrays, plan: Writing | Building) -> None:
    """Spread the planned batch over fresh slots; ``new.num_edges`` is its size."""
    if isinstance(plan, Building):
        spread_keys(new, plan)
    else:
        spread_windows(new, plan)
        write_edge_rows(new, plan)


def _no_columns(slots: SlotArrays) -> Columns:
    return with_weights(slots.src[:0], slots.dst[:0], None if slots.weights is None else slots.weights[:0])
