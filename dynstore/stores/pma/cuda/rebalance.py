"""Writing the windows of an update of a packed memory array on CUDA, whether or not the host knows their number."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

from dynstore.cuda.compiler import MAX_STRIDE_BLOCKS, THREADS, WARP
from dynstore.cuda.launch import Packed
from dynstore.stores.pma.cuda.leaf_insert import k_shift_leaves
from dynstore.stores.pma.cuda.redistribute import k_gather_windows, k_spread_edges, k_write_edge_rows
from dynstore.stores.pma.cuda.windows import NUM_LEAVES, NUM_SCRATCH_LEAVES, NUM_WINDOWS
from dynstore.stores.table.cuda.arguments import pack_slots

if TYPE_CHECKING:
    from dynstore.backend import Backend, Part
    from dynstore.stores.pma.cuda.windows import Windows
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = [
    "Columns",
    "Writing",
    "reserve_windows",
    "scratch_parts",
    "spread_windows",
    "write_edge_rows",
    "write_windows",
]

# Sources, destinations and weights, the last of length 0 for none.
Columns = Sequence["Array"]
# The kind of scratch for the edges of wide windows, whatever the update.
KIND = "windows"


class Writing:
    """Windows to write, all memory that writing them takes, and the kernels' arguments.

    Parameters
    ----------
    granted : array
        The budget, see ``windows.py``.
    before, keys, places : array
        Edges before each block of leaves, once the update has set its bits; the rows of the pending keys in the batch,
        and the slots that they go before.
    scratch : Packed
        Columns of merged edges on their way back to slots; without those of wide windows until these are reserved.
    far_rows : array
        See ``d_write_rows_by_warp``.
    """

    def __init__(
        self, windows: Windows, granted: Array, before: Array, keys: Array, places: Array, scratch: Packed,
        far_rows: Array,
    ) -> None:  # fmt: skip
        self.windows, self.granted, self.far_rows, self.num_leaves = windows, granted, far_rows, windows.num_leaves
        self.before, self.keys, self.places = before, keys, places
        self.scratch, self.num_scratch_leaves = scratch, windows.num_scratch_leaves
        first, end, low, high, start = windows.first, windows.end, windows.low, windows.high, windows.start
        self.gathering = Packed(before, places, keys, first, end, low, high, start, granted)
        self.spreading = Packed(first, end, start, windows.count, granted, far_rows)
        self.shifting = Packed(first, end, low, high, places, keys, granted, far_rows)
        self.edges = Packed(first, end, granted, far_rows)

    def with_scratch(self, backend: Backend, slots: SlotArrays, num_leaves: int) -> Writing:
        """Return a copy with scratch for ``num_leaves``; the last update's is used again if it has that size."""
        twin = copy(self)  # a reference to this one does not keep the scratch
        twin.scratch = slots.acquire_scratch(backend, KIND, _pack_columns, scratch_parts(slots, num_leaves), 0)
        twin.num_scratch_leaves = num_leaves
        return twin

    def resized(self, num_windows: int, num_leaves: int, num_scratch_leaves: int, scratch: Packed) -> Writing:
        """Return a copy with other scratch, for windows that the host has counted."""
        windows = replace(
            self.windows, num_windows=num_windows, num_leaves=num_leaves, num_scratch_leaves=num_scratch_leaves
        )
        return Writing(windows, self.granted, self.before, self.keys, self.places, scratch, self.far_rows)


def scratch_parts(slots: SlotArrays, num_leaves: int) -> tuple[Part, Part, Part]:
    """Return shapes and dtypes of scratch for the edges of ``num_leaves``: columns as ``with_weights`` returns them."""
    size, dtype, weights = num_leaves << 5, slots.src.dtype, slots.weights
    return (size, dtype), (size, dtype), (0, dtype) if weights is None else (size, weights.dtype)


def _pack_columns(_: Backend, *columns: Array) -> Packed:
    return Packed(*columns)


def _stride_warps(num_leaves: int) -> int:
    """Return the number of threads whose warps stride over ``num_leaves``."""
    return min(num_leaves * WARP, MAX_STRIDE_BLOCKS * THREADS)


def _gather_windows(
    slots: SlotArrays, new: Columns, positions: Array, states: Array, plan: Writing, inserting: bool, add: bool
) -> None:
    """Write bits and weights of located rows; gather the edges and pending keys of windows with scratch there."""
    k_gather_windows.launch_resident(
        max(int(positions.shape[0]), int(plan.keys.shape[0]), _stride_warps(plan.num_scratch_leaves)),
        pack_slots(slots).columns, *new, inserting, add, positions, states, plan.gathering, plan.scratch,
    )  # fmt: skip


def spread_windows(slots: SlotArrays, plan: Writing) -> None:
    """Write scratch back over the windows, and the offsets of the rows inside them."""
    k_spread_edges.launch(
        _stride_warps(plan.num_scratch_leaves), pack_slots(slots).columns, slots.offsets, plan.spreading, plan.scratch
    )


def write_edge_rows(slots: SlotArrays, plan: Writing) -> None:
    """Write the offsets of the rows at the edges of windows, and of all long ranges of rows."""
    if plan.windows.num_windows:
        k_write_edge_rows.launch_resident(
            max(2 * plan.windows.num_windows, slots.num_vertices >> 6), slots.src, slots.offsets, plan.edges
        )


def write_windows(
    slots: SlotArrays, new: Columns, positions: Array, states: Array, plan: Writing, inserting: bool, add: bool
) -> None:
    """Write an update: windows of one leaf get their keys in place, all others are merged through scratch."""
    windows = plan.windows
    _gather_windows(slots, new, positions, states, plan, inserting, add)
    spread_windows(slots, plan)
    if windows.num_leaves > plan.num_scratch_leaves and int(plan.keys.shape[0]) > 0:
        k_shift_leaves.launch_strided(
            windows.num_windows, pack_slots(slots).columns, slots.offsets, *new, plan.shifting
        )
    write_edge_rows(slots, plan)


def reserve_windows(backend: Backend, slots: SlotArrays, writing: Writing, totals: list[int]) -> Writing:
    """Reserve what writing planned windows needs, now that the host knows how many there are."""
    num_windows, num_leaves, num_scratch_leaves = (totals[row] for row in (NUM_WINDOWS, NUM_LEAVES, NUM_SCRATCH_LEAVES))
    scratch = Packed(*backend.empty_arena(*scratch_parts(slots, num_scratch_leaves)))
    return writing.resized(num_windows, num_leaves, num_scratch_leaves, scratch)
