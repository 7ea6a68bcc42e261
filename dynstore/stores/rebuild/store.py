"""The baseline: every update sorts the whole edge list anew, as a pipeline without dynstore does.

Sort the keys, drop duplicates, compress the row offsets: as cuSPARSE users do with ``coosort`` and ``coo2csr``, here
with NumPy's or CuPy's sort.
"""

from __future__ import annotations

import numpy as np

from dynstore.batches.sorted import EdgeBatch, sort_unique
from dynstore.bits import full_words
from dynstore.stores.base import Plan, Store
from dynstore.stores.table.slots import SlotArrays
from dynstore.typing import Array, OnDuplicate

__all__ = ["RebuildStore"]


class RebuildStore(Store):
    """A packed CSR that is built from scratch by every update."""

    name = "rebuild"

    def _no_edges(self, num_vertices: int) -> SlotArrays:
        slots = SlotArrays.allocate(self.backend, 0, num_vertices, self.vertex_dtype, self.weight_dtype)
        slots.offsets.fill(0)
        return slots

    def plan_insert(self, batch: EdgeBatch, num_vertices: int, on_duplicate: OnDuplicate) -> Plan:
        xp, old = self.backend.xp, self.slots
        self._check_num_slots(old.num_edges + len(batch))
        src = xp.concatenate((old.src, batch.src))
        dst = xp.concatenate((old.dst, batch.dst))
        weights = None if old.weights is None else xp.concatenate((old.weights, batch.weights))
        src, dst, weights = sort_unique(self.backend, src, dst, weights, on_duplicate)
        new = self._packed(src, dst, weights, max(num_vertices, old.num_vertices))
        found = old.num_edges + len(batch) - new.num_edges
        loops = self._all_loops(old) + batch.num_loops - self._all_loops(new) if batch.num_loops else 0
        return Plan(found, loops, lambda: self._take(new), grown=new.num_slots > old.num_slots)

    def plan_delete(self, batch: EdgeBatch) -> Plan:
        old = self.slots
        found = self.find(batch.src, batch.dst)
        there = found >= 0
        keep = self.backend.empty(old.num_slots, np.bool_)
        keep.fill(True)
        keep[found[there]] = False
        weights = None if old.weights is None else old.weights[keep]
        new = self._packed(old.src[keep], old.dst[keep], weights, old.num_vertices)
        return Plan(old.num_edges - new.num_edges, self._count_loops(batch, there), lambda: self._take(new))

    def _packed(self, src: Array, dst: Array, weights: Array | None, num_vertices: int) -> SlotArrays:
        xp, num_edges = self.backend.xp, int(src.shape[0])
        offsets = self.backend.zeros(num_vertices + 1, self.vertex_dtype)
        if num_edges:
            xp.cumsum(xp.bincount(src, minlength=num_vertices), out=offsets[1:])
        return SlotArrays(src, dst, weights, full_words(self.backend, num_edges), offsets, offsets, num_edges)

    def _all_loops(self, slots: SlotArrays) -> int:
        return int(self.backend.xp.count_nonzero(slots.src == slots.dst))
