"""GPMA+ on the host: the same windows as on the GPU, found and written one after the other.

Structure and update: M. Sha, Y. Li, B. He, K.-L. Tan, "Accelerating Dynamic Graph Analytics on GPUs",
PVLDB 11(1), 2017, sections 4 and 5; ``docs/design.md`` says where we differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynstore.stores.pma.cpu.redistribute import or_none, set_located, write_windows_of
from dynstore.stores.pma.cpu.update import delete_in_place, plan_delete
from dynstore.stores.pma.cpu.windows import choose_windows_of, locate_batch, widen

if TYPE_CHECKING:
    import numpy as np

    from dynstore.backend import Backend
    from dynstore.batches.sorted import EdgeBatch
    from dynstore.stores.pma.cpu.redistribute import SpreadWindows
    from dynstore.stores.table.slots import SearchResult, SlotArrays

__all__ = ["delete_in_place", "insert_in_place", "locate_batch", "plan_delete", "plan_insert", "widen"]


def plan_insert(
    backend: Backend, slots: SlotArrays, batch: EdgeBatch, limits: np.ndarray
) -> tuple[SearchResult, SpreadWindows | None]:
    """Find the keys of a batch and choose the windows that take the absent ones.

    ``limits``: the highest density of each height, linear in it. No windows if the root would be denser.
    """
    located = locate_batch(backend, slots, batch)
    if slots.num_edges + batch.num_rows - located.found > limits[-1] * slots.num_slots:
        return located, None
    return located, choose_windows_of(backend, slots, located, limits, inserting=True)


def insert_in_place(
    backend: Backend, slots: SlotArrays, batch: EdgeBatch, located: SearchResult, windows: SpreadWindows, add: bool
) -> None:
    """Write an insertion into the slots. Allocates nothing."""
    weights, new_weights = or_none(slots.weights), or_none(batch.weights)
    set_located(weights, slots.valid, located.positions, located.states, new_weights, add)
    write_windows_of(slots, located, windows, (batch.src, batch.dst, new_weights))
