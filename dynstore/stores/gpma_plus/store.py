"""GPMA+: a packed memory array whose updates change only the segments of the batch.

M. Sha, Y. Li, B. He, K.-L. Tan, "Accelerating Dynamic Graph Analytics on GPUs", PVLDB 11(1), 2017. The windows are the
paper's (section 5), found in one pass over prefix counts instead of level by level. If a batch changes so many leaves
that a merge of everything moves fewer bytes, everything is merged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from typing import Any

import numpy as np

from dynstore.batches.sorted import Batch, EdgeBatch
from dynstore.batches.unsorted import RawEdges, UnsortedBatch
from dynstore.stores.base import Plan, Reason, Refused
from dynstore.stores.pma.aged import Aged
from dynstore.stores.pma.store import PackedArrayStore, WindowOptions, linear_limits, most_in_place
from dynstore.stores.table.slots import Attempt, SlotArrays
from dynstore.typing import OnDuplicate

__all__ = ["GPMAPlusOptions", "GPMAPlusStore"]


@dataclass(frozen=True)
class GPMAPlusOptions(WindowOptions):
    """Densities, and when everything is merged.

    Leaves that CUDA writes while it searches for a large batch (``cuda/tile_insert.py``) do not count in
    ``merge_cost``.
    """

    caller = "store 'gpma+'"


class GPMAPlusStore(PackedArrayStore):
    """Edges in a gapped sorted array; a batch is merged into the lowest segments that can take it."""

    name = "gpma+"
    package = "dynstore.stores.gpma_plus"
    Options = GPMAPlusOptions
    options: GPMAPlusOptions
    refuses_absent = True
    memories = ("device", "host")
    # How many unsorted attempts have failed in a row, and how many of the next insertions are not tried unsorted.
    _num_failures = 0
    _num_untried = 0

    def plan_exchange(
        self, leaving: EdgeBatch, arriving: EdgeBatch, num_vertices: int, on_duplicate: OnDuplicate
    ) -> tuple[Plan, Plan] | None:
        """Plan both on the host: the deletion only clears bits, so it moves no key that the insertion looks for.

        Leaves that it leaves too empty are compacted by a later deletion, or with the whole table.
        """
        backend, kernels, slots = self.backend, self._window_kernels, self.slots
        if backend.family != "cpu" or slots.pins or not slots.num_edges:
            return None
        gone = kernels.locate_batch(backend, slots, leaving)
        if slots.num_edges - gone.found < self._lower_limits[-1] * slots.num_slots:
            return None
        slots = slots.with_vertices(backend, num_vertices)
        words = self._kernels.clear_copy(backend, slots, gone)
        left = replace(slots, valid=words, num_edges=slots.num_edges - gone.found)
        located, windows = kernels.plan_insert(backend, left, arriving, self._upper_limits)
        if windows is None:  # the table has to grow
            return None
        total = left.num_edges + len(arriving) - located.found
        merging = windows.num_leaves > self._most_leaves
        windows = self._widen(windows) if merging else windows
        clear = backend.prepare(kernels.delete_in_place, backend, slots, leaving, gone, None)
        add = on_duplicate == "add"
        insertion = self._plan_in_place(
            slots,
            located,
            total,
            lambda target: backend.prepare(kernels.insert_in_place, backend, target, arriving, located, windows, add),
            "merge" if merging else "in-place",
        )
        return Plan(gone.found, gone.found_loops, clear, path="in-place"), insertion

    @property
    def supports_speculation(self) -> bool:
        slots = self.slots
        return max(slots.num_slots, slots.num_vertices) <= self.options.tuning.max_numbered

    def try_insert(self, batch: Batch, num_vertices: int, on_duplicate: OnDuplicate) -> Plan | Refused:
        reason = self._may_write(batch)
        if reason is not None or num_vertices > self.options.tuning.max_numbered:
            return Refused(reason or Reason.TOO_LARGE, batch)
        slots = self.slots.with_vertices(self.backend, num_vertices)
        limits, add = self._upper_limits, on_duplicate == "add"
        most = self._most_leaves
        outcome: Attempt | Reason = Reason.OVERFLOW
        if isinstance(batch, RawEdges) and not batch.needs_order:
            outcome = self._try_buckets(slots, batch, limits, most)
        if outcome is Reason.OVERFLOW:
            batch = batch.in_order() if isinstance(batch, UnsortedBatch) else batch
            kernels = self.backend.kernels("dynstore.stores.gpma_plus", "speculative")
            outcome = kernels.try_insert(self.backend, slots, batch, limits, most, add)
        if isinstance(outcome, Reason):
            return Refused(outcome, batch)
        located, change = outcome.located, batch.count_edges() - outcome.located.found
        if not outcome.is_written:
            return self._plan_merge(slots, batch, located, add, slots.num_edges + change)
        return self._written(slots, located.found, located.found_loops, change)

    def _try_buckets(self, slots: SlotArrays, batch: RawEdges, limits: np.ndarray, most: int) -> Attempt | Reason:
        """Try to insert a batch without sorting it.

        Bucket overflows are common. The more of them follow each other, the fewer insertions are tried unsorted.
        """
        if self._num_untried:
            self._num_untried -= 1
            return Reason.OVERFLOW  # as the last ones did
        kernels = self.backend.kernels("dynstore.stores.gpma_plus", "insert_buckets")
        has_own_rows = slots.offset_buffer is self.slots.offset_buffer  # new vertices may need other memory
        outcome: Attempt | Reason = kernels.try_insert(
            self.backend, slots, batch, limits, most, may_take_back=has_own_rows
        )
        overflows = outcome is Reason.OVERFLOW
        self._num_failures = min(self._num_failures + 1, self.options.tuning.max_overflows) if overflows else 0
        self._num_untried = (1 << self._num_failures - 1) - 1 if overflows else 0
        return outcome

    def plan_restore(self) -> Callable[[], None]:
        """Without packing, deletions only clear bits, or write all edges to fresh slots: keep these slots and bits."""
        slots, backend, num_edges = self.slots, self.backend, self.slots.num_edges
        (words,) = backend.copies(slots.valid)

        def restore() -> None:
            backend.overwrite(slots.valid, words)
            slots.num_edges = num_edges
            self.slots = slots

        return restore

    def plan_clearing(self, batch: Batch) -> Plan:
        return self._plan_delete(batch, _without_packing(self._lower_limits))

    def try_clear(self, batch: Batch) -> Plan | Refused:
        return self._try_delete(batch, False)

    def try_delete(self, batch: Batch) -> Plan | Refused:
        return self._try_delete(batch, True)

    def _try_delete(self, batch: Batch, packing: bool) -> Plan | Refused:
        reason = self._may_write(batch)
        if reason is not None:
            return Refused(reason, batch)
        slots = self.slots
        limits, most, most_leaves = self._deletion_bounds(packing)
        if most < 0:  # the whole table is too empty already
            return Refused(Reason.UNSUPPORTED, batch)
        kernels = self.backend.kernels("dynstore.stores.gpma_plus", "speculative")
        outcome: tuple[int, int] | Refused = kernels.try_delete(self.backend, slots, batch, limits, most, most_leaves)
        if isinstance(outcome, Refused):
            return outcome
        return self._written(slots, *outcome, change=-outcome[0])

    def try_delete_below(self, aged: Aged, bound: int, packing: bool = True) -> Plan | None:
        slots = self.slots
        limits, most, _ = self._deletion_bounds(packing)
        if most < 0 or slots.pins or not slots.num_edges:
            return None
        kernels = self.backend.kernels("dynstore.stores.pma", "recorded")
        outcome: tuple[int, int] | None = kernels.delete_below(self.backend, slots, aged, bound, limits, most)
        return None if outcome is None else self._written(slots, *outcome, change=-outcome[0])

    def _deletion_bounds(self, packing: bool) -> tuple[np.ndarray, int, int]:
        """Return the lowest densities, the most edges to delete, and the most leaves to compact in place.

        Without ``packing`` the densities are those of :func:`_without_packing`.
        """
        slots, options = self.slots, self.options
        limits, fewest, most_leaves = _bound_deletion(
            slots.num_slots, options.leaf_lower, options.root_lower, options.merge_cost
        )
        if slots.memory == "host":
            most_leaves = min(most_leaves, self._most_leaves)
        return limits if packing else _without_packing(limits), slots.num_edges - fewest, most_leaves

    def _widen(self, windows: Any) -> Any | None:
        """On the host writing all slots in place takes less time than fresh slots, unless an export shows them."""
        if self.backend.family != "cpu" or self.slots.pins:
            return None
        return self._window_kernels.widen(self.backend, self.slots, windows)

    def _may_write(self, batch: Batch) -> Reason | None:
        """Return why the update cannot be speculative; None if both have edges and no export shows the slots."""
        slots = self.slots
        if slots.num_edges == 0 or batch.num_rows == 0:
            return Reason.NOTHING
        return Reason.PINNED if slots.pins else None

    def _written(self, slots: SlotArrays, found: int, found_loops: int, change: int) -> Plan:
        """Return the plan of an update that is written; ``change``: how many edges it added."""

        def commit() -> None:
            slots.num_edges += change
            self.slots = slots

        return Plan(found, found_loops, commit, False, "in-place")


def _without_packing(limits: np.ndarray) -> np.ndarray:
    """Return lowest densities that only the whole table has: a deletion moves no edge, or writes all to fresh slots.

    Leaves that it leaves too empty are packed by a later deletion, or with the whole table.
    """
    loose = np.zeros_like(limits)
    loose[-1] = limits[-1]
    return loose


@lru_cache(maxsize=64)
def _bound_deletion(num_slots: int, leaf: float, root: float, merge_cost: float) -> tuple[np.ndarray, int, int]:
    """Return the lowest densities, the fewest edges that they allow, and the most leaves to compact in place."""
    limits = linear_limits(num_slots, leaf, root)
    return limits, ceil(float(limits[-1]) * num_slots), most_in_place(num_slots, merge_cost)
