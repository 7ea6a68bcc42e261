"""GPMA: a packed memory array in which insertions compete for locks on segments; for small batches.

M. Sha, Y. Li, B. He, K.-L. Tan, "Accelerating Dynamic Graph Analytics on GPUs", PVLDB 11(1), 2017, section 4.1
(algorithm 1). Slots, densities and snapshots are those of ``gpma+``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from dynstore.arguments import check_name
from dynstore.batches.sorted import Batch
from dynstore.stores.base import Plan
from dynstore.stores.pma.store import DensityOptions, PackedArrayStore
from dynstore.typing import OnDuplicate

__all__ = ["GPMAOptions", "GPMAStore"]

DELETIONS = ("lazy", "pack")


@dataclass(frozen=True)
class GPMAOptions(DensityOptions):
    """Densities, and what a deletion does.

    Attributes
    ----------
    deletion : {"lazy", "pack"}
        "lazy" clears bits; later insertions use the slots again (section 6.1 of the paper, for windows). "pack" also
        compacts the segments that became too sparse. In either case the array shrinks if the root is too sparse.
    """

    caller = "store 'gpma'"
    deletion: Literal["lazy", "pack"] = "lazy"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name(self.caller, "deletion", self.deletion, DELETIONS)


class GPMAStore(PackedArrayStore):
    """Edges in a gapped sorted array; in each round a segment takes one key, the others try again in the next."""

    name = "gpma"
    divides = ("cpu", "cuda")
    Options = GPMAOptions
    options: GPMAOptions

    def plan_insert(self, batch: Batch, num_vertices: int, on_duplicate: OnDuplicate) -> Plan:
        backend, kernels, add = self.backend, self._lock_kernels, on_duplicate == "add"
        slots = self.slots.with_vertices(backend, num_vertices)
        if slots.num_edges == 0:
            return self._plan_build(batch, slots.num_vertices)
        limits = self._upper_limits
        located, rounds = kernels.plan_rounds(backend, slots, batch, limits)
        total = slots.num_edges + batch.count_edges() - located.found
        if rounds is None:
            return self._plan_merge(slots, batch, located, add, total)
        return self._plan_in_place(
            slots,
            located,
            total,
            lambda target: partial(kernels.insert_in_rounds, backend, target, batch, located, rounds, limits, add),
        )

    def plan_delete(self, batch: Batch) -> Plan:
        if self.options.deletion == "pack":
            return super().plan_delete(batch)
        backend, kernels, slots = self.backend, self._kernels, self.slots
        located = self._lock_kernels.locate_batch(backend, slots, batch)
        total = slots.num_edges - located.found
        if total < self._lower_limits[-1] * slots.num_slots and self._slots_for(total) < slots.num_slots:
            return self._plan_merge_out(slots, batch, located, total)
        return self._plan_in_place(
            slots,
            located,
            total,
            lambda target: backend.prepare(kernels.delete_in_place, backend, target, batch, located, None),
        )

    @property
    def _lock_kernels(self) -> Any:
        return self.backend.kernels("dynstore.stores.papers.gpma", "locks")
