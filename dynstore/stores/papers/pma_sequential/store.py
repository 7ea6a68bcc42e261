"""A sequential packed memory array: the host baseline of the papers on packed memory arrays.

M. Sha, Y. Li, B. He, K.-L. Tan, "Accelerating Dynamic Graph Analytics on GPUs", PVLDB 11(1), 2017, section 4.1: the
keys of a batch are inserted one after the other: binary search, climb to the lowest segment with room, even spread of
that segment. Deletion is the converse. Slots, densities and snapshots are those of ``gpma+``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from dynstore.batches.sorted import Batch
from dynstore.stores.base import Plan
from dynstore.stores.pma.store import DensityOptions, PackedArrayStore
from dynstore.typing import OnDuplicate

__all__ = ["PMAOptions", "PMAStore"]


@dataclass(frozen=True)
class PMAOptions(DensityOptions):
    """Densities; see :class:`~dynstore.stores.pma.store.DensityOptions`."""

    caller = "store 'pma'"


class PMAStore(PackedArrayStore):
    """Edges in a sorted array with gaps; takes the keys of a batch one by one, on the host only."""

    name = "pma"
    Options = PMAOptions
    families = ("cpu",)
    divides = ("cpu",)

    def plan_insert(self, batch: Batch, num_vertices: int, on_duplicate: OnDuplicate) -> Plan:
        loops, add = self._loops, on_duplicate == "add"
        slots = self.slots.with_vertices(self.backend, num_vertices)
        if slots.num_edges == 0:
            return self._plan_build(batch, slots.num_vertices)
        located = loops.locate_batch(self.backend, slots, batch)
        total = slots.num_edges + batch.count_edges() - located.found
        limits = self._upper_limits
        if total > limits[-1] * slots.num_slots:
            return self._plan_merge(slots, batch, located, add, total)
        return self._plan_in_place(
            slots, located, total, lambda target: partial(loops.insert_one_by_one, target, batch, located, limits, add)
        )

    def plan_delete(self, batch: Batch) -> Plan:
        loops, slots = self._loops, self.slots
        located = loops.locate_batch(self.backend, slots, batch)
        total = slots.num_edges - located.found
        limits = self._lower_limits
        if total < limits[-1] * slots.num_slots:
            if self._slots_for(total) < slots.num_slots:
                return self._plan_merge_out(slots, batch, located, total)
            limits = limits * 0  # a reserved array does not shrink
        return self._plan_in_place(
            slots, located, total, lambda target: partial(loops.delete_one_by_one, target, batch, located, limits)
        )

    @property
    def _loops(self) -> Any:
        return self.backend.kernels("dynstore.stores.papers.pma_sequential", "update")
