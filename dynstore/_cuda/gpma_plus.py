"""GPMA+ on CUDA: plan in a constant number of launches, merge by rank, write back evenly.

Structure and update: M. Sha, Y. Li, B. He, K.-L. Tan, "Accelerating Dynamic Graph Analytics on GPUs",
PVLDB 11(1), 2017, sections 4 and 5; ``docs/design.md`` says where we differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dynstore._cuda.building import Building, plan_keys, spread_keys
from dynstore._cuda.compiler import MAX_STRIDE_BLOCKS, THREADS, WARP
from dynstore._cuda.leaf_merge import k_merge_leaves
from dynstore._cuda.leaves import (
    far_rows_size,
    k_clear_located,
    k_gather_edges,
    k_place_keys,
    k_set_located,
    k_spread_edges,
    k_update_weights,
    k_write_edge_rows,
)
from dynstore._cuda.planning import Planned, plan_windows
from dynstore._cuda.present import find_present
from dynstore._cuda.search import locate_edges
from dynstore._cuda.unsorted import ListPlan, plan_lists, write_lists
from dynstore._cuda.windows import Windows, count_blocks, no_windows, one_window
from dynstore.edge_batch import RawEdges
from dynstore.slots import PRESENT, Located

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.edge_batch import EdgeBatch
    from dynstore.slots import SlotArrays
    from dynstore.typing import Array

__all__ = [
    "Scratch",
    "Writing",
    "build",
    "clear_copy",
    "delete_in_place",
    "insert_in_place",
    "merge",
    "plan_build",
    "plan_delete",
    "plan_insert",
    "plan_merge",
]


@dataclass(frozen=True, slots=True)
class Scratch:
    """Merged edges on their way back to slots; weights of length 0 where there are none."""

    src: Array
    dst: Array
    weights: Array


@dataclass(frozen=True, slots=True)
class Writing:
    """Windows to write, and all memory that writing them takes.

    ``before``: edges before each block of leaves after the update's bits; ``keys``, ``places``: the pending keys'
    rows in the batch and the slots that they go before; ``num_dead``: keys that only get their bit back; ``target``:
    where a merge writes, if not to the same windows; ``far_rows``: see ``d_write_rows_by_warp``.
    """

    windows: Windows
    before: Array
    keys: Array
    places: Array
    scratch: Scratch
    far_rows: Array
    num_dead: int = 0
    target: Windows | None = None

    @property
    def num_leaves(self) -> int:
        return self.windows.num_leaves

    def or_empty(self, weights: Array | None) -> Array:
        """Return an array for a kernel: length 0 where there are no weights."""
        return self.scratch.weights if weights is None else weights


def plan_insert(
    backend: Backend, slots: SlotArrays, batch: EdgeBatch, limits: np.ndarray
) -> tuple[Located, Writing | ListPlan | None]:
    """Find the keys of a batch and choose the windows that take the absent ones.

    ``limits``: the highest density of each height, linear in it. No windows where the root would be denser.
    Only a batch that a leaf gets too many keys of has to be sorted.
    """
    if isinstance(batch, RawEdges) and not batch.is_settled:
        unsorted = plan_lists(backend, slots, batch, limits)
        if unsorted is not None:
            return unsorted
    planned = plan_windows(backend, slots, batch, limits, inserting=True)
    return planned.located, _reserve(backend, slots, planned)


def plan_delete(
    backend: Backend, slots: SlotArrays, batch: EdgeBatch, limits: np.ndarray
) -> tuple[Located, Writing | None]:
    """Find the keys of a batch and choose the windows to pack once the present ones are gone.

    ``limits``: the lowest density of each height, linear in it. No windows where the root would be sparser.
    Only a batch that leaves a leaf too empty has to be sorted.
    """
    if isinstance(batch, RawEdges) and not batch.is_settled:
        bound = limits[0] * 32 if len(limits) > 1 else 0.0
        located, num_sparse = find_present(backend, slots, batch, float(bound))
        if slots.num_edges - located.found < limits[-1] * slots.num_slots:
            return located, None
        if not num_sparse:
            return located, _nothing_to_write(backend, slots)
    planned = plan_windows(backend, slots, batch, limits, inserting=False)
    return planned.located, _reserve(backend, slots, planned)


def _reserve(backend: Backend, slots: SlotArrays, planned: Planned) -> Writing | None:
    """Reserve what writing the windows needs, if there are any."""
    if planned.windows is None:
        return None
    scratch = _scratch(backend, slots, planned.windows.num_scratch_leaves * 32)
    return Writing(
        planned.windows, planned.before, planned.keys, planned.places, scratch, planned.far_rows, planned.num_dead
    )


def _nothing_to_write(backend: Backend, slots: SlotArrays) -> Writing:
    empty = backend.nothing(np.int64)
    return Writing(no_windows(empty), empty, empty, empty, Scratch(slots.src[:0], slots.dst[:0], empty), empty)


def plan_merge(
    backend: Backend, old: SlotArrays, batch: EdgeBatch, located: Located | None, new: SlotArrays
) -> Writing:
    """Reserve what a merge of a table and a batch into ``new`` needs; ``located=None`` for an empty batch.

    Keys that were located as they came are sorted here, and located again.
    """
    xp = backend.xp
    before = count_blocks(backend, old.valid, old.num_slots >> 5)
    before = xp.cumsum(before)
    keys = places = backend.nothing(np.int64)
    if located is not None:
        positions, states = located.positions, located.states
        if isinstance(batch, RawEdges) and not batch.is_settled:
            positions, states = locate_edges(backend, old, batch.src, batch.dst)
        keys = xp.nonzero(states != PRESENT)[0]
        places = positions[keys]
    windows = one_window(backend, old.num_slots >> 5, int(keys.shape[0]), new.num_edges)
    target = one_window(backend, new.num_slots >> 5, 0, new.num_edges)
    scratch = _scratch(backend, old, new.num_edges)
    return Writing(windows, before, keys, places, scratch, _no_far_rows(backend, new), target=target)


def plan_build(backend: Backend, batch: EdgeBatch, new: SlotArrays) -> Writing | Building:
    """Reserve what spreading a batch over fresh slots needs."""
    if isinstance(batch, RawEdges) and not batch.is_settled:
        return plan_keys(backend, batch, new)
    windows = one_window(backend, new.num_slots >> 5, 0, new.num_edges)
    weights = backend.nothing(np.float32) if batch.weights is None else batch.weights
    nothing, scratch = windows.first, Scratch(batch.src, batch.dst, weights)
    return Writing(windows, nothing, nothing, nothing, scratch, _no_far_rows(backend, new))


def _scratch(backend: Backend, slots: SlotArrays, size: int) -> Scratch:
    reserve = backend.empty if size else lambda _, dtype: backend.nothing(dtype)
    weights = backend.nothing(np.float32) if slots.weights is None else reserve(size, slots.weights.dtype)
    return Scratch(reserve(size, slots.src.dtype), reserve(size, slots.src.dtype), weights)


def _no_far_rows(backend: Backend, slots: SlotArrays) -> Array:
    return backend.zeros(far_rows_size(slots.num_vertices), np.int64)


def _stride_warps(num_leaves: int) -> int:
    """Return how many threads let warps stride over so many leaves."""
    return min(num_leaves * WARP, MAX_STRIDE_BLOCKS * THREADS)


def _gather(slots: SlotArrays, batch: EdgeBatch | None, plan: Writing, merged: bool) -> None:
    """Bring the edges and the pending keys of windows with scratch there, in order."""
    windows, scratch = plan.windows, plan.scratch
    out = (scratch.src, scratch.dst, scratch.weights)
    k_gather_edges.launch(
        _stride_warps(windows.num_scratch_leaves),
        slots.src, slots.dst, plan.or_empty(slots.weights), slots.valid, plan.before, plan.places,
        windows.first, windows.low, windows.high, windows.start, windows.num_windows, windows.num_scratch_leaves, *out,
    )  # fmt: skip
    if batch is not None:
        k_place_keys.launch(
            plan.keys.shape[0],
            slots.valid, plan.before, plan.places, plan.keys, windows.first, windows.end, windows.low, windows.start,
            windows.num_windows, merged, batch.src, batch.dst, plan.or_empty(batch.weights), *out,
        )  # fmt: skip


def _spread(slots: SlotArrays, plan: Writing) -> None:
    """Write scratch back over the windows, and the offsets of the rows inside them."""
    windows, scratch = plan.target or plan.windows, plan.scratch
    k_spread_edges.launch(
        _stride_warps(windows.num_scratch_leaves),
        slots.src, slots.dst, plan.or_empty(slots.weights), slots.valid, slots.offsets,
        windows.first, windows.end, windows.start, windows.count, windows.num_windows, windows.num_scratch_leaves,
        scratch.src, scratch.dst, scratch.weights, plan.far_rows,
    )  # fmt: skip


def _write_edge_rows(slots: SlotArrays, plan: Writing) -> None:
    """Write the offsets of the rows that begin between windows and their neighbours, and of all that are left."""
    windows = plan.target or plan.windows
    if windows.num_windows:
        k_write_edge_rows.launch_resident(
            max(2 * windows.num_windows, slots.num_vertices >> 6),
            slots.src, slots.offsets, windows.first, windows.end, windows.num_windows, plan.far_rows,
        )  # fmt: skip


def _write(slots: SlotArrays, batch: EdgeBatch, plan: Writing) -> None:
    """Merge the pending keys into the windows: those of one leaf in registers, all others through scratch."""
    windows = plan.windows
    if windows.num_scratch_leaves:
        _gather(slots, batch, plan, merged=True)
        _spread(slots, plan)
    if windows.num_leaves > windows.num_scratch_leaves:
        k_merge_leaves.launch_warps(
            windows.num_windows,
            slots.src, slots.dst, plan.or_empty(slots.weights), slots.valid, slots.offsets, windows.first, windows.end,
            windows.low, windows.high, windows.num_windows, plan.places, plan.keys, batch.src, batch.dst,
            plan.or_empty(batch.weights), plan.far_rows,
        )  # fmt: skip
    _write_edge_rows(slots, plan)


def insert_in_place(
    backend: Backend, slots: SlotArrays, batch: EdgeBatch, located: Located, plan: Writing | ListPlan, add: bool
) -> None:
    """Write an insertion into the slots."""
    if isinstance(plan, ListPlan):
        write_lists(slots, plan)
        return
    if plan.num_dead or slots.weights is not None:
        k_set_located.launch(
            len(batch),
            plan.or_empty(slots.weights), slots.valid, located.positions, located.states,
            plan.or_empty(batch.weights), add,
        )  # fmt: skip
    _write(slots, batch, plan)


def delete_in_place(
    backend: Backend, slots: SlotArrays, batch: EdgeBatch, located: Located, plan: Writing | None
) -> None:
    """Clear the bits of the present keys and pack the windows that became too empty."""
    k_clear_located.launch(located.positions.shape[0], slots.valid, located.positions, located.states)
    if plan is not None:
        _write(slots, batch, plan)


def clear_copy(backend: Backend, slots: SlotArrays, located: Located) -> Array:
    """Return a copy of the validity words without the bits of the present keys."""
    words = backend.empty(slots.valid.shape, np.uint32)
    words[:] = slots.valid
    k_clear_located.launch(located.positions.shape[0], words, located.positions, located.states)
    return words


def merge(
    backend: Backend, old: SlotArrays, batch: EdgeBatch, located: Located | None, add: bool, new: SlotArrays,
    plan: Writing,
) -> None:  # fmt: skip
    """Write the union of a table and a batch to ``new``, which has ``new.num_edges`` set to its size."""
    _gather(old, batch, plan, merged=False)
    if located is not None and batch.weights is not None:
        k_update_weights.launch(
            len(batch),
            old.valid, plan.before, plan.places, located.positions, located.states, batch.weights, add,
            plan.scratch.weights,
        )  # fmt: skip
    _spread(new, plan)
    _write_edge_rows(new, plan)


def build(backend: Backend, new: SlotArrays, plan: Writing | Building) -> None:
    """Spread the planned batch over fresh slots; ``new.num_edges`` is its size."""
    if isinstance(plan, Building):
        spread_keys(new, plan)
    else:
        _spread(new, plan)
        _write_edge_rows(new, plan)
