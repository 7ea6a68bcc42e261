"""GPMA+ on CUDA as in its paper: level by level, each window written by a warp, a block or the whole GPU.

M. Sha, Y. Li, B. He, K.-L. Tan, "Accelerating Dynamic Graph Analytics on GPUs", PVLDB 11(1), 2017, section 5.2. The
windows, and in the end the slots, are those of ``gpma_plus``; here windows inside a wider one are written, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dynstore.cuda.compiler import MAX_STRIDE_BLOCKS, THREADS, WARP
from dynstore.cuda.grid import CONTROL_SIZE
from dynstore.stores.papers.gpma_level.cuda.device_windows import (
    k_gather_items,
    k_place_items,
    k_scan_items,
    k_spread_items,
)
from dynstore.stores.papers.gpma_level.cuda.plan import Level, plan_levels
from dynstore.stores.papers.gpma_level.cuda.small_windows import BLOCK_HEIGHT, k_merge_by_blocks, k_merge_by_warps
from dynstore.stores.pma.cuda.redistribute import k_clear_located, k_set_located
from dynstore.stores.pma.cuda.segment_offsets import k_fill_edge_rows

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.batches.sorted import Batch, EdgeBatch
    from dynstore.stores.table.slots import SearchResult, SlotArrays
    from dynstore.typing import Array

__all__ = ["LevelWindows", "Scratch", "delete_in_place", "insert_in_place", "plan_delete", "plan_insert"]


@dataclass(frozen=True, slots=True)
class Scratch:
    """Scratch for the windows that are wider than a block's; of length 0 if there are none.

    ``src``, ``dst``, ``weights``: edges in order; ``before``: edges before each leaf; ``places``: the slots that keys
    go before; ``controls``: for each level with such windows one row of zeros.
    """

    src: Array
    dst: Array
    weights: Array
    before: Array
    places: Array
    controls: Array


@dataclass(frozen=True, slots=True)
class LevelWindows:
    """Windows to write, lowest first, and the memory that this takes; ``num_tombstones``: how many are restored."""

    levels: list[Level]
    scratch: Scratch
    num_tombstones: int

    @property
    def num_leaves(self) -> int:
        return sum(level.num_leaves for level in self.levels)

    def or_empty(self, weights: Array | None) -> Array:
        """Return an array for a kernel: of length 0 if there are no weights."""
        return self.scratch.weights[:0] if weights is None else weights


def plan_insert(
    backend: Backend, slots: SlotArrays, batch: Batch, limits: np.ndarray
) -> tuple[SearchResult, LevelWindows | None]:
    """Find the keys of a batch and choose the windows that take the absent ones.

    ``limits``: the highest density of each height. No windows if the root would be denser.
    """
    return _plan(backend, slots, batch.materialized(), limits, inserting=True)


def plan_delete(
    backend: Backend, slots: SlotArrays, batch: Batch, limits: np.ndarray
) -> tuple[SearchResult, LevelWindows | None]:
    """Find the keys of a batch and choose the windows to compact once the present ones are deleted.

    ``limits``: the lowest density of each height. No windows if the root would be sparser.
    """
    return _plan(backend, slots, batch.materialized(), limits, inserting=False)


def _plan(
    backend: Backend, slots: SlotArrays, batch: EdgeBatch, limits: np.ndarray, inserting: bool
) -> tuple[SearchResult, LevelWindows | None]:
    planned = plan_levels(backend, slots, batch, limits, inserting)
    if planned.levels is None:
        return planned.located, None
    wide = [level for level in planned.levels if level.height > BLOCK_HEIGHT]
    num_leaves = max((level.num_leaves for level in wide), default=0)
    num_keys = max((level.keys.shape[0] for level in wide), default=0)
    kind, size = slots.src.dtype, num_leaves * 32
    controls, src, dst, weights, before, places = backend.empty_arena(
        (len(wide) * CONTROL_SIZE, np.int64), (size, kind), (size, kind),
        (0, np.float32) if slots.weights is None else (size, slots.weights.dtype),
        (num_leaves + 1, np.int64), (num_keys, np.int64), zeroed=1,
    )  # fmt: skip
    scratch = Scratch(src, dst, weights, before, places, controls.reshape(len(wide), CONTROL_SIZE))
    return planned.located, LevelWindows(planned.levels, scratch, planned.num_tombstones)


def _merge_wide(slots: SlotArrays, batch: EdgeBatch, level: Level, plan: LevelWindows, control: Array) -> None:
    """Write the windows of a level through scratch."""
    weights, new_weights, scratch = plan.or_empty(slots.weights), plan.or_empty(batch.weights), plan.scratch
    num_windows, num_keys = int(level.first.shape[0]), int(level.keys.shape[0])
    threads = min(level.num_leaves * WARP, MAX_STRIDE_BLOCKS * THREADS)
    edges = (scratch.src, scratch.dst, scratch.weights)
    k_scan_items.launch_resident(
        max(level.num_leaves, num_keys),
        slots.src, slots.dst, slots.valid, level.first, level.end, level.low, num_windows, level.height,
        level.keys, num_keys, batch.src, batch.dst, scratch.places, scratch.before, control,
    )  # fmt: skip
    k_gather_items.launch(
        threads,
        slots.src, slots.dst, weights, slots.valid, level.first, level.end, level.low, num_windows, level.height,
        num_keys, scratch.places, scratch.before, *edges,
    )  # fmt: skip
    k_place_items.launch(
        num_keys,
        slots.valid, level.first, level.low, num_windows, level.height, level.keys, num_keys, scratch.places,
        scratch.before, batch.src, batch.dst, new_weights, *edges,
    )  # fmt: skip
    k_spread_items.launch(
        threads,
        slots.src, slots.dst, weights, slots.valid, slots.offsets, level.first, level.end, level.low, num_windows,
        level.height, num_keys, scratch.before, *edges,
    )  # fmt: skip


def _write(slots: SlotArrays, batch: EdgeBatch, plan: LevelWindows) -> None:
    """Write the levels, lowest first; after each the row offsets are right, as the next one requires."""
    new = (batch.src, batch.dst, plan.or_empty(batch.weights))
    target = (slots.src, slots.dst, plan.or_empty(slots.weights), slots.valid, slots.offsets)
    controls = iter(plan.scratch.controls)
    for level in plan.levels:
        num_windows, keys = int(level.first.shape[0]), (level.keys, int(level.keys.shape[0]))
        if level.height == 0:
            k_merge_by_warps.launch_warps(num_windows, *target, level.first, level.low, num_windows, *keys, *new)
        elif level.height <= BLOCK_HEIGHT:
            k_merge_by_blocks.launch(
                num_windows * THREADS, *target, level.first, level.end, level.low, num_windows, *keys, *new
            )
        else:
            _merge_wide(slots, batch, level, plan, next(controls))
        k_fill_edge_rows.launch(2 * num_windows, slots.src, slots.offsets, level.first, level.end, num_windows)


def insert_in_place(
    backend: Backend, slots: SlotArrays, batch: Batch, located: SearchResult, plan: LevelWindows, add: bool
) -> None:
    """Write an insertion into the slots."""
    edges = batch.materialized()
    if plan.num_tombstones or slots.weights is not None:
        weights, new_weights = plan.or_empty(slots.weights), plan.or_empty(edges.weights)
        k_set_located.launch(len(edges), weights, slots.valid, located.positions, located.states, new_weights, add)
    _write(slots, edges, plan)


def delete_in_place(
    backend: Backend, slots: SlotArrays, batch: Batch, located: SearchResult, plan: LevelWindows | None
) -> None:
    """Clear the bits of the present keys and redistribute the windows that became too empty."""
    edges = batch.materialized()
    k_clear_located.launch(len(edges), slots.valid, located.positions, located.states)
    if plan is not None:
        _write(slots, edges, plan)
