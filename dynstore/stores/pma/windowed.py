"""Updates that write the lowest windows with room, or merge everything if that moves fewer bytes.

M. Sha, Y. Li, B. He, K.-L. Tan, "Accelerating Dynamic Graph Analytics on GPUs", PVLDB 11(1), 2017, section 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from dynstore.batches.sorted import Batch
from dynstore.config import check_share
from dynstore.stores.base import Plan
from dynstore.stores.pma.store import LEAF, DensityOptions, PackedArrayStore
from dynstore.typing import OnDuplicate

__all__ = ["WindowOptions", "WindowedStore", "most_in_place"]

# With a lower cost of writing in place than this, a merge is never cheaper.
LOWEST_COST, NO_LIMIT = 1e-9, 1 << 62
# Of the free device memory, for leaves of a table in host memory.
SCRATCH_SHARE = 1 / 4


@dataclass(frozen=True)
class WindowOptions(DensityOptions):
    """Densities, and when everything is merged instead.

    A leaf may fill up, and may keep a single edge. The paper (figure 3) has 0.92 and 0.08. With these bounds fewer
    windows of several leaves are redistributed.

    Attributes
    ----------
    merge_cost : float
        The cost of writing one leaf in place, in leaves written by a merge.
    """

    leaf_upper: float = 1.0
    leaf_lower: float = 1 / 32
    merge_cost: float = 1.25

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share(self.caller, "merge_cost", self.merge_cost, 0.0, 1e9)


class WindowedStore(PackedArrayStore):
    """Edges in a gapped sorted array; a batch is merged into the lowest segments that can take it."""

    Options: ClassVar[type[WindowOptions]] = WindowOptions
    options: WindowOptions
    package: ClassVar[str]  # its module ``update`` chooses the windows and writes them

    def plan_insert(self, batch: Batch, num_vertices: int, on_duplicate: OnDuplicate) -> Plan:
        backend, kernels, add = self.backend, self._window_kernels, on_duplicate == "add"
        if self.num_edges == 0:
            return self._plan_build(batch, max(num_vertices, self.num_vertices))
        slots = self.slots.with_vertices(backend, num_vertices)
        located, windows = kernels.plan_insert(backend, slots, batch, self._upper_limits)
        total = slots.num_edges + batch.count_edges() - located.found
        merging = windows is None or self._merge_is_cheaper(windows.num_leaves)
        if merging:
            windows = None if windows is None else self._widen(windows)
            if windows is None:
                return self._plan_merge(slots, batch, located, add, total)
        return self._plan_in_place(
            slots,
            located,
            total,
            lambda target: backend.prepare(kernels.insert_in_place, backend, target, batch, located, windows, add),
            "merge" if merging else "in-place",
        )

    @property
    def _window_kernels(self) -> Any:
        return self.backend.kernels(self.package, "update")

    def _merge_is_cheaper(self, leaves_in_place: int) -> bool:
        return leaves_in_place > self._most_leaves

    @property
    def _most_leaves(self) -> int:
        """The most leaves that are written in place.

        Wide windows go through scratch on the device. Beside a table in host memory there may be too little for that;
        then everything is merged, from host memory to host memory.
        """
        slots = self.slots
        most = most_in_place(slots.num_slots, self.options.merge_cost)
        free = self.backend.free_bytes() if slots.memory == "host" else None
        if free is None:
            return most
        bytes_a_leaf = LEAF * sum(column.dtype.itemsize for column in slots.columns if column is not None)
        return int(min(most, SCRATCH_SHARE * free // bytes_a_leaf))


def most_in_place(num_slots: int, merge_cost: float) -> int:
    """Return the largest number of leaves for which a merge of everything is not cheaper."""
    return int(num_slots // LEAF / merge_cost) if merge_cost > LOWEST_COST else NO_LIMIT
