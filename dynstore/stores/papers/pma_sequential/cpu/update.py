"""A sequential packed memory array on the host: the keys of a batch are written one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynstore.stores.papers.pma_sequential.cpu.loops import delete_keys, insert_keys
from dynstore.stores.pma.cpu.redistribute import or_none, set_located
from dynstore.stores.pma.cpu.windows import locate_batch

if TYPE_CHECKING:
    import numpy as np

    from dynstore.batches.sorted import EdgeBatch
    from dynstore.stores.table.slots import SearchResult, SlotArrays

__all__ = ["delete_one_by_one", "insert_one_by_one", "locate_batch"]


def insert_one_by_one(
    slots: SlotArrays, batch: EdgeBatch, located: SearchResult, limits: np.ndarray, add: bool
) -> None:
    """Write an insertion that fits into the root; allocates nothing.

    ``limits``: the highest density of a segment of each height.
    """
    weights, new_weights = or_none(slots.weights), or_none(batch.weights)
    set_located(weights, slots.valid, located.positions, located.states, new_weights, add)
    insert_keys(
        slots.src, slots.dst, weights, slots.valid, slots.offsets, limits,
        located.states, batch.src, batch.dst, new_weights,
    )  # fmt: skip


def delete_one_by_one(slots: SlotArrays, batch: EdgeBatch, located: SearchResult, limits: np.ndarray) -> None:
    """Write a deletion after which the root is dense enough; ``limits``: the lowest density of each height."""
    delete_keys(
        slots.src, slots.dst, or_none(slots.weights), slots.valid, slots.offsets, limits,
        located.states, batch.src, batch.dst,
    )  # fmt: skip
