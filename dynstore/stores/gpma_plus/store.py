"""GPMA+: a packed memory array whose updates touch only the segments concerned.

M. Sha, Y. Li, B. He, K.-L. Tan, "Accelerating Dynamic Graph Analytics on GPUs", PVLDB 11(1), 2017. The
windows are the paper's (section 5), found in one pass over prefix counts instead of level by level. Where a
batch would touch so much that a merge of everything moves fewer bytes, the merge is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil

import numpy as np

from dynstore.batches.batch import EdgeBatch, RawEdges
from dynstore.stores.base import Plan
from dynstore.stores.pma.store import LEAF, linear_limits
from dynstore.stores.pma.windowed import WindowedStore, WindowOptions
from dynstore.stores.table.slots import Located, SlotArrays
from dynstore.typing import MAX_INT32, OnDuplicate

__all__ = ["GPMAPlusOptions", "GPMAPlusStore"]

# So many failures in a row, and one insertion in 2**(so many - 1) is tried unsorted.
MOST_FAILURES = 5


@dataclass(frozen=True)
class GPMAPlusOptions(WindowOptions):
    """The options of a windowed store.

    Leaves that CUDA writes while it searches for a large batch (``cuda/tile_insert.py``) do not count in
    ``merge_cost``.
    """

    who = "store 'gpma+'"


class GPMAPlusStore(WindowedStore):
    """Edges in a gapped sorted array; a batch is merged into the lowest segments that can take it."""

    name = "gpma+"
    package = "dynstore.stores.gpma_plus"
    Options = GPMAPlusOptions
    # Of insertions that were tried unsorted: how many failed in a row lately, and how many are not to be tried now.
    _num_failures = 0
    _num_untried = 0

    @property
    def writes_now(self) -> bool:
        slots = self.slots
        fits = slots.num_slots <= MAX_INT32 and slots.num_vertices <= MAX_INT32  # what unsorted updates number
        return fits and self.backend.family == "cuda"

    def insert_now(self, batch: EdgeBatch, num_vertices: int, on_duplicate: OnDuplicate) -> Plan | None:
        if not self._can_write(batch) or num_vertices > MAX_INT32:
            return None
        slots = self.slots.with_vertices(self.backend, num_vertices)
        limits, most, add, done = self._upper_limits, self._most_in_place, on_duplicate == "add", None
        raw = batch if isinstance(batch, RawEdges) else None
        if raw is not None and not raw.is_crowded:
            done = self._insert_unsorted(slots, raw, limits, most)
        if done is None and (raw is None or raw.is_crowded):
            kernels = self.backend.kernels("dynstore.stores.gpma_plus", "speculative")
            done = kernels.insert_now(self.backend, slots, batch, limits, most, add)
        if done is None:
            return None
        located, is_written = done
        change = len(batch) - located.found
        if not is_written:
            return self._plan_merge(slots, batch, located, add, slots.num_edges + change)
        return self._written(slots, located.found, located.found_loops, change)

    def _insert_unsorted(
        self, slots: SlotArrays, batch: RawEdges, limits: np.ndarray, most: int
    ) -> tuple[Located, bool] | None:
        """Try to insert a batch as it came; say in ``is_crowded`` whether it has to be sorted."""
        if self._num_untried:
            self._num_untried -= 1
            batch.is_crowded = True  # as the last ones were
            return None
        kernels = self.backend.kernels("dynstore.stores.gpma_plus", "insert_buckets")
        has_own_rows = slots.offset_buffer is self.slots.offset_buffer  # new vertices may need other memory
        done: tuple[Located, bool] | None = kernels.insert_now(
            self.backend, slots, batch, limits, most, may_take_back=has_own_rows
        )
        # One that has to be sorted is nothing unusual; the more follow on each other, the fewer are tried.
        self._num_failures = min(self._num_failures + 1, MOST_FAILURES) if batch.is_crowded else 0
        self._num_untried = (1 << self._num_failures - 1) - 1 if batch.is_crowded else 0
        return done

    def delete_now(self, batch: EdgeBatch) -> Plan | None:
        if not self._can_write(batch):
            return None
        slots, options = self.slots, self.options
        limits, fewest, most_leaves = _bound_deletion(
            slots.num_slots, options.leaf_lower, options.root_lower, options.merge_cost
        )
        most = slots.num_edges - fewest
        if most < 0:  # too empty as a whole already
            return None
        kernels = self.backend.kernels("dynstore.stores.gpma_plus", "speculative")
        done = kernels.delete_now(self.backend, slots, batch, limits, most, most_leaves)
        if done is None:
            return None
        found, found_loops = done
        return self._written(slots, found, found_loops, -found)

    def _can_write(self, batch: EdgeBatch) -> bool:
        """Whether the device may decide by itself: it writes some edges, and to slots that no export shows."""
        slots = self.slots
        return slots.num_edges > 0 and batch.num_rows > 0 and not slots.pins

    def _written(self, slots: SlotArrays, found: int, found_loops: int, change: int) -> Plan:
        """Return the plan of an update that is written; ``change``: how many more edges there are."""

        def commit() -> None:
            slots.num_edges += change
            self._take(slots)

        return Plan(found, found_loops, commit, False, "in-place")

    @property
    def _most_in_place(self) -> int:
        """For up to how many leaves a merge is not cheaper."""
        return _most_in_place(self.slots.num_slots, self.options.merge_cost)


def _most_in_place(num_slots: int, cost: float) -> int:
    num_leaves = num_slots // LEAF
    return int(num_leaves / cost) if cost > 1 else num_leaves


@lru_cache(maxsize=64)
def _bound_deletion(num_slots: int, leaf: float, root: float, merge_cost: float) -> tuple[np.ndarray, int, int]:
    """Return the lowest densities, how many edges they leave at least, and how many leaves may be packed in place."""
    limits = linear_limits(num_slots, leaf, root)
    return limits, ceil(float(limits[-1]) * num_slots), _most_in_place(num_slots, merge_cost)
