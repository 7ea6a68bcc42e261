"""What the packed memory arrays share: densities, windows, and growing and shrinking by a merge of everything.

M. Sha, Y. Li, B. He, K.-L. Tan, "Accelerating Dynamic Graph Analytics on GPUs", PVLDB 11(1), 2017, section 5. Updates
write the lowest windows with room, or merge everything if that moves fewer bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np

from dynstore.batches.sorted import Batch, EdgeBatch
from dynstore.config import check_share
from dynstore.errors import InputError
from dynstore.stores.base import Plan, Store, StoreOptions
from dynstore.stores.table.slots import SearchResult, SlotArrays
from dynstore.stores.table.tuning import DEFAULT_TUNING, Tuning, make_tuning
from dynstore.typing import OnDuplicate, Path

__all__ = ["LEAF", "DensityOptions", "PackedArrayStore", "WindowOptions", "linear_limits", "most_in_place"]

LEAF = 32
# With a lower cost of writing in place than this, a merge is never cheaper.
LOWEST_COST, NO_LIMIT = 1e-9, 1 << 62
# Of the free device memory, for leaves of a table in host memory.
SCRATCH_SHARE = 1 / 4


@dataclass(frozen=True)
class DensityOptions(StoreOptions):
    """Densities of a segment (valid slots / slots); between leaf and root they are linear in the height.

    Attributes
    ----------
    leaf_upper, root_upper : float
        An insertion makes no segment denser than this; the array grows if the root would be.
    leaf_lower, root_lower : float
        A deletion compacts a segment that is sparser than this; the array shrinks if the root is.
    build_density : float
        The density after a bulk build, a growth or a shrinkage.
    tuning : Tuning
        Sizes from which on updates on CUDA take another path; given as a dict.
    """

    caller: ClassVar[str]

    leaf_upper: float = 0.92
    root_upper: float = 0.80
    leaf_lower: float = 0.08
    root_lower: float = 0.48
    build_density: float = 0.65
    tuning: Tuning = DEFAULT_TUNING

    def __post_init__(self) -> None:
        object.__setattr__(self, "tuning", make_tuning(self.caller, self.tuning))
        for name in ("leaf_upper", "root_upper", "leaf_lower", "root_lower", "build_density"):
            check_share(self.caller, name, getattr(self, name), 0.0, 1.0)
        order = ("leaf_lower", "root_lower", "build_density", "root_upper", "leaf_upper")
        values = [getattr(self, name) for name in order]
        ascending = values[0] <= values[1] < values[2] < values[3] <= values[4]
        if not ascending or values[2] == 0:
            shown = ", ".join(f"{name} {value}" for name, value in zip(order, values, strict=True))
            raise InputError(
                f"{self.caller}: {shown}; wanted leaf_lower <= root_lower < build_density < root_upper <= leaf_upper"
            )

    @property
    def cost_in_place(self) -> float:
        """The cost of writing one leaf in place, in leaves written by a merge; 0 never merges to save time."""
        return 0.0


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

    @property
    def cost_in_place(self) -> float:
        return self.merge_cost


class PackedArrayStore(Store):
    """Edges in a gapped sorted array; leaf segments of 32 slots, windows of 2**height leaves.

    A batch is merged into the lowest windows that can take it. A structure that inserts in another way has a
    ``plan_insert`` of its own.
    """

    Options: ClassVar[type[DensityOptions]] = DensityOptions
    takes_unsorted = True
    divides: ClassVar[tuple[str, ...]] = ("cuda",)
    package: ClassVar[str] = "dynstore.stores.pma"  # its module ``update`` chooses the windows and writes them
    options: DensityOptions

    def _no_edges(self, num_vertices: int) -> SlotArrays:
        return self._fresh(0, num_vertices)

    def plan_insert(self, batch: Batch, num_vertices: int, on_duplicate: OnDuplicate) -> Plan:
        backend, kernels, add = self.backend, self._window_kernels, on_duplicate == "add"
        slots, limits = self.slots, self._upper_limits
        if slots.num_edges == 0:
            return self._plan_build(batch, max(num_vertices, slots.num_vertices))
        if num_vertices > slots.num_vertices:
            slots = slots.with_vertices(backend, num_vertices)
        located, windows = kernels.plan_insert(backend, slots, batch, limits)
        total = slots.num_edges + batch.count_edges() - located.found
        merging = windows is None or windows.num_leaves > self._most_leaves
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

    def plan_delete(self, batch: Batch) -> Plan:
        return self._plan_delete(batch, self._lower_limits)

    def _plan_delete(self, batch: Batch, limits: np.ndarray) -> Plan:
        """Plan a deletion that leaves no segment sparser than its limit."""
        backend, kernels, slots = self.backend, self._window_kernels, self.slots
        located, windows = kernels.plan_delete(backend, slots, batch, limits)
        total = slots.num_edges - located.found
        if windows is not None:
            merging = windows.num_leaves > self._most_leaves
        else:  # the root is too empty: shrink, but keep a reserved array, since compacting frees nothing
            merging = self._slots_for(total) < slots.num_slots
        if merging:
            windows = None if windows is None else self._widen(windows)
            if windows is None:
                return self._plan_merge_out(slots, batch, located, total)
        return self._plan_in_place(
            slots,
            located,
            total,
            lambda target: backend.prepare(kernels.delete_in_place, backend, target, batch, located, windows),
            "merge" if merging else "in-place",
        )

    def _plan_in_place(
        self,
        slots: SlotArrays,
        located: SearchResult,
        total: int,
        prepare: Callable[[SlotArrays], Callable[[], None]],
        path: Path = "in-place",
    ) -> Plan:
        """Plan to write to the slots, or to a copy if an export shows them; ``total``: the number of edges afterwards.

        ``prepare`` returns the function that writes.
        """
        target, places = slots.copy(self.backend) if slots.pins else slots, self._sorted(located)
        write = prepare(target)

        def commit() -> None:
            write()
            target.num_edges = total
            self.slots = target

        return Plan(located.found, located.found_loops, commit, path=path, located=places)

    def _plan_merge_out(self, slots: SlotArrays, batch: Batch, located: SearchResult, total: int) -> Plan:
        """Plan to write all edges but those of a batch to fresh slots."""
        left = replace(slots, valid=self._kernels.clear_copy(self.backend, slots, located))
        nothing = EdgeBatch(slots.src[:0], slots.dst[:0], None if slots.weights is None else slots.weights[:0])
        plan = self._plan_merge(left, nothing, None, False, total)
        return replace(plan, found=located.found, found_loops=located.found_loops, located=self._sorted(located))

    def _plan_build(self, batch: Batch, num_vertices: int) -> Plan:
        """Plan to spread a batch over fresh slots, if there are no edges yet."""
        kernels, backend = self._kernels, self.backend
        new, left = kernels.plan_build(backend, batch, partial(self._fresh, num_vertices=num_vertices))
        write = None if left is None else backend.prepare(kernels.build, backend, new, left)

        def commit() -> None:
            if write is not None:
                write()
            self.slots = new

        return Plan(0, 0, commit, grown=new.num_slots > self.slots.num_slots)

    def _plan_merge(self, old: SlotArrays, batch: Batch, located: SearchResult | None, add: bool, total: int) -> Plan:
        """Plan to merge everything into fresh slots; ``located=None`` for an empty batch."""
        kernels, backend = self._kernels, self.backend
        reserve, write = partial(self._fresh, total, old.num_vertices), None
        if total:
            new, merging = kernels.plan_merge(backend, old, batch, located, reserve)
            write = backend.prepare(kernels.merge, backend, old, batch, located, add, new, merging)
        else:
            new = reserve()

        def commit() -> None:
            if write is not None:
                write()
            self.slots = new

        found, loops = (0, 0) if located is None else (located.found, located.found_loops)
        grown = new.num_slots > self.slots.num_slots
        return Plan(found, loops, commit, grown, located=self._sorted(located))

    def _sorted(self, located: SearchResult | None) -> SearchResult | None:
        """Return what was located if it is in the order of the sorted batch, which only the host always sorts."""
        return located if self.backend.family == "cpu" else None

    def _fresh(self, num_edges: int, num_vertices: int) -> SlotArrays:
        """Reserve slots for ``num_edges`` at the build density; without edges also write their row offsets."""
        num_slots = self._slots_for(num_edges)
        make = SlotArrays.allocate if num_edges else SlotArrays.without_edges
        new = make(self.backend, num_slots, num_vertices, self.vertex_dtype, self.weight_dtype, memory=self.memory)
        new.num_edges, new.tuning = num_edges, self.options.tuning
        return new

    @property
    def _kernels(self) -> Any:
        return self.backend.kernels("dynstore.stores.pma", "update")

    @property
    def _window_kernels(self) -> Any:
        """The kernels that choose the windows of an update and write them."""
        return self.backend.kernels(self.package, "update")

    def _slots_for(self, num_edges: int) -> int:
        """Return the slots, whole leaves, for ``num_edges`` or the capacity, if that is more, at the build density."""
        wanted = max(num_edges, self.capacity, 1) / (self.options.build_density * LEAF)
        num_slots = int(np.ceil(wanted)) * LEAF
        self._check_num_slots(num_slots)
        return num_slots

    @property
    def _most_leaves(self) -> int:
        """The most leaves that are written in place; for more, a merge of everything is cheaper.

        Wide windows go through scratch on the device. Beside a table in host memory there may be too little for that;
        then everything is merged, from host memory to host memory.
        """
        slots = self.slots
        most = most_in_place(slots.num_slots, self.options.cost_in_place)
        free = self.backend.free_bytes() if slots.memory == "host" else None
        if free is None:
            return most
        bytes_a_leaf = LEAF * sum(column.dtype.itemsize for column in slots.columns if column is not None)
        return int(min(most, SCRATCH_SHARE * free // bytes_a_leaf))

    def _widen(self, windows: Any) -> Any | None:
        """Return a window of all slots for a merge of everything that needs no fresh slots; None where it does."""
        return None

    @property
    def _upper_limits(self) -> np.ndarray:
        """The highest densities that an insertion allows segments of each height."""
        return linear_limits(self.slots.num_slots, self.options.leaf_upper, self.options.root_upper)

    @property
    def _lower_limits(self) -> np.ndarray:
        """The lowest densities that a deletion allows segments of each height."""
        return linear_limits(self.slots.num_slots, self.options.leaf_lower, self.options.root_lower)


@lru_cache(maxsize=64)
def linear_limits(num_slots: int, leaf: float, root: float) -> np.ndarray:
    """Return the densities of an array's heights from 0 to the root, linear in the height (the paper's figure 3)."""
    height = (num_slots // LEAF - 1).bit_length()
    if height == 0:
        return np.array([root])
    return leaf + (root - leaf) * np.arange(height + 1) / height


def most_in_place(num_slots: int, merge_cost: float) -> int:
    """Return the largest number of leaves for which a merge of everything is not cheaper."""
    return int(num_slots // LEAF / merge_cost) if merge_cost > LOWEST_COST else NO_LIMIT
