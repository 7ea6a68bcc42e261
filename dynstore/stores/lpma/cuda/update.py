"""LPMA on CUDA: a packed memory array in levels; one kernel plans, a few write.

L. Zou, F. Zhang, Y. Lin, Y. Yu, "An Efficient Data Structure for Dynamic Graph on GPUs", IEEE TKDE 35(11), 2023;
``docs/stores/lpma.md`` lists the differences.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.cuda.compiler import MAX_STRIDE_BLOCKS, SIMULATED, THREADS, WARP
from dynstore.stores.lpma.cuda.edges import (
    k_clear_keys,
    k_clear_positions,
    k_copy_changed,
    k_look_up,
    k_read_row,
    k_set_weights,
    k_write_offsets,
)
from dynstore.stores.lpma.cuda.layout import memory_of
from dynstore.stores.lpma.cuda.plan import Planned, k_order_words, plan_windows
from dynstore.stores.lpma.cuda.segments import (
    k_append_first_keys,
    k_gather_segments,
    k_merge_segments,
    k_spread_segments,
    k_write_window_starts,
)
from dynstore.stores.lpma.levels import SEGMENT
from dynstore.stores.pma.cuda.redistribute import k_clear_located, k_place_keys
from dynstore.stores.pma.cuda.row_offsets import far_rows_size
from dynstore.stores.pma.cuda.windows import count_blocks, one_window

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.batches.sorted import Batch, EdgeBatch
    from dynstore.stores.lpma.levels import Levels
    from dynstore.stores.pma.cuda.windows import Windows as Spans
    from dynstore.stores.table.slots import SearchResult, SlotArrays
    from dynstore.typing import Array

__all__ = [
    "LevelBuilding",
    "PlannedWindows",
    "Rebuilding",
    "ScratchEdges",
    "Stopwatch",
    "begin_levels",
    "build",
    "delete",
    "delete_listed",
    "insert",
    "look_up",
    "plan_build",
    "plan_delete",
    "plan_insert",
    "plan_rebuild",
    "read_row_of",
    "rebuild",
    "refresh",
]


@dataclass(frozen=True, slots=True)
class ScratchEdges:
    """Edges in scratch, to be written to slots: of one window, or of all windows that need scratch."""

    src: Array
    dst: Array
    weights: Array  # of length 0 if unweighted


@dataclass(frozen=True, slots=True)
class PlannedWindows:
    """Windows to write, and all scratch for it."""

    planned: Planned
    scratch: ScratchEdges

    @property
    def num_windows(self) -> int:
        return self.planned.windows.num_windows

    @property
    def num_segments(self) -> int:
        return self.planned.windows.num_leaves

    @property
    def num_saved(self) -> int:
        return self.planned.num_saved


@dataclass(frozen=True, slots=True)
class LevelBuilding:
    """Edges to spread over all of some levels, as one window; ``far_rows``: see ``d_write_rows_by_warp``."""

    spans: Spans
    columns: ScratchEdges
    far_rows: Array


@dataclass(frozen=True, slots=True)
class Rebuilding:
    """The remaining edges of the old levels as one window, and their target."""

    source: Spans
    before: Array
    ordered: Array
    building: LevelBuilding


class Stopwatch:
    """Adds up the device's time between starts and stops; only :meth:`read` waits for the device."""

    def __init__(self) -> None:
        self._marks: list[Any] = []

    def start(self) -> None:
        self._marks.append(_now())

    stop = start

    def read(self) -> float:
        """Return the seconds."""
        pairs = zip(self._marks[::2], self._marks[1::2], strict=True)
        return sum(_seconds_between(start, stop) for start, stop in pairs)


def _now() -> Any:
    if SIMULATED:
        return perf_counter()
    import cupy

    event = cupy.cuda.Event()
    event.record()
    return event


def _seconds_between(start: Any, stop: Any) -> float:
    if SIMULATED:
        return float(stop - start)
    import cupy

    stop.synchronize()
    return float(cupy.cuda.get_elapsed_time(start, stop)) / 1000


def _columns(backend: Backend, levels: Levels, size: int) -> ScratchEdges:
    src, dst = (backend.empty(size, levels.vertex_dtype) for _ in range(2))
    return ScratchEdges(src, dst, _weights(backend, levels, size))


def _weights(backend: Backend, levels: Levels, size: int) -> Array:
    """Return room for ``size`` weights, for none if the graph is unweighted."""
    weighted = levels.weight_dtype is not None
    return backend.empty(size if weighted else 0, levels.weight_dtype if weighted else np.float32)


def _or_none(backend: Backend, weights: Array | None) -> Array:
    return backend.empty(0, np.float32) if weights is None else weights


def _stride_warps(num_leaves: int) -> int:
    """Return the number of threads for warps that stride over ``num_leaves`` segments."""
    return min(num_leaves * WARP, MAX_STRIDE_BLOCKS * THREADS)


def begin_levels(backend: Backend, levels: Levels, old_depth: int) -> None:
    """Set the first keys of the segments in levels above ``old_depth``; -1 if all levels are new."""
    ids, _, _, table, depth = memory_of(levels)
    count = levels.num_segments - (1 << old_depth if old_depth >= 0 else 0)
    k_append_first_keys.launch(count, ids, table, depth, old_depth)


def plan_insert(
    backend: Backend, levels: Levels, batch: Batch, limits: tuple[float, float], most_growth: int, top_down: bool
) -> tuple[SearchResult, int, PlannedWindows]:
    """Find the keys of a batch, the number of levels to append, and the windows for the absent keys.

    See :func:`dynstore.stores.lpma.cpu.update.plan_insert`.
    """
    planned = plan_windows(backend, levels, batch, limits, True, most_growth, top_down)
    return planned.located, planned.growth, _windows(backend, levels, planned)


def plan_delete(
    backend: Backend, levels: Levels, batch: Batch, limits: tuple[float, float]
) -> tuple[SearchResult, PlannedWindows | None]:
    """Find the keys of a batch, and choose the windows to compact after the present keys are deleted.

    ``limits``: the lowest density of a leaf and of the root. No windows if the root would be sparser.
    """
    planned = plan_windows(backend, levels, batch, limits, False)
    if levels.num_edges - planned.located.found < limits[1] * levels.num_slots:
        return planned.located, None
    return planned.located, _windows(backend, levels, planned)


def _windows(backend: Backend, levels: Levels, planned: Planned) -> PlannedWindows:
    return PlannedWindows(planned, _columns(backend, levels, planned.windows.num_scratch_leaves * SEGMENT))


def insert(
    backend: Backend, old: Levels, levels: Levels, batch: Batch, located: SearchResult, windows: PlannedWindows,
    add: bool, stamp: int,
) -> None:  # fmt: skip
    """Write an insertion; ``levels`` are the old and the appended ones."""
    edges = batch.materialized()
    if edges.weights is not None:
        _, words, weights, table, depth = memory_of(levels)
        k_set_weights.launch(
            len(edges), words, weights, table, depth, located.positions, located.states, edges.weights, add, stamp
        )
    if levels.depth > old.depth:
        begin_levels(backend, levels, old.depth)
    _write(levels, edges, windows, stamp)


def delete(
    backend: Backend, levels: Levels, batch: Batch, located: SearchResult, windows: PlannedWindows | None, stamp: int
) -> None:
    """Clear the bits of the present keys, and compact the windows that became too empty."""
    _, words, _, table, depth = memory_of(levels)
    edges = batch.materialized()
    k_clear_positions.launch(len(edges), words, table, depth, located.positions, located.states, stamp)
    if windows is not None and windows.num_windows:
        k_clear_located.launch(len(edges), windows.planned.ordered, located.positions, located.states)
        _write(levels, edges, windows, stamp)


def delete_listed(backend: Backend, levels: Levels, src: Array, dst: Array, stamp: int) -> None:
    """Delete edges, all present, without re-balancing."""
    ids, words, _, table, depth = memory_of(levels)
    k_clear_keys.launch(src.shape[0], ids, words, table, depth, levels.starts, src, dst, stamp)


def _write(levels: Levels, batch: EdgeBatch, plan: PlannedWindows, stamp: int) -> None:
    """Merge the pending keys into the windows: windows of one segment in registers, all others through scratch."""
    planned, spans, scratch = plan.planned, plan.planned.windows, plan.scratch
    ids, words, weights, table, depth = memory_of(levels)
    weighted, new_weights = levels.weight_dtype is not None, scratch.weights
    if batch.weights is not None:
        new_weights = batch.weights
    if spans.num_scratch_leaves:
        _gather(levels, spans, planned.before, planned.ordered, planned.places, scratch)
        k_place_keys.launch(
            planned.keys.shape[0],
            planned.ordered, planned.before, planned.places, planned.keys, spans.first, spans.end, spans.low,
            spans.start, spans.num_windows, True, batch.src, batch.dst, new_weights,
            scratch.src, scratch.dst, scratch.weights,
        )  # fmt: skip
        _spread(levels, spans, scratch, planned.far_rows, stamp)
    if spans.num_leaves > spans.num_scratch_leaves:
        k_merge_segments.launch_warps(
            spans.num_windows,
            ids, words, weights, table, depth, levels.starts, weighted, planned.ordered, spans.first, spans.end,
            spans.low, spans.high, spans.num_windows, planned.places, planned.keys, batch.src, batch.dst, new_weights,
            planned.far_rows, stamp,
        )  # fmt: skip
    _write_window_starts(levels, spans, planned.far_rows)


def _gather(levels: Levels, spans: Spans, before: Array, ordered: Array, places: Array, out: ScratchEdges) -> None:
    """Copy the edges of windows that need scratch to it, each to its rank among the edges and pending keys."""
    ids, _, weights, table, depth = memory_of(levels)
    k_gather_segments.launch(
        _stride_warps(spans.num_scratch_leaves),
        ids, weights, table, depth, levels.weight_dtype is not None, ordered, before, places,
        spans.first, spans.low, spans.high, spans.start, spans.num_windows, spans.num_scratch_leaves,
        out.src, out.dst, out.weights,
    )  # fmt: skip


def _spread(levels: Levels, spans: Spans, columns: ScratchEdges, far_rows: Array, stamp: int) -> None:
    """Spread scratch over the windows, and write the starts of the rows inside them."""
    k_spread_segments.launch(
        _stride_warps(spans.num_scratch_leaves),
        *memory_of(levels), levels.starts, levels.weight_dtype is not None,
        spans.first, spans.end, spans.start, spans.count, spans.num_windows, spans.num_scratch_leaves,
        columns.src, columns.dst, columns.weights, far_rows, stamp,
    )  # fmt: skip


def _write_window_starts(levels: Levels, spans: Spans, far_rows: Array) -> None:
    """Write the starts of the rows that begin between windows and their neighbours, and all remaining ones."""
    ids, _, _, table, depth = memory_of(levels)
    if spans.num_windows:
        k_write_window_starts.launch_resident(
            max(2 * spans.num_windows, levels.num_vertices >> 6),
            ids, table, depth, levels.starts, spans.first, spans.end, spans.num_windows, far_rows,
        )  # fmt: skip


def plan_build(backend: Backend, batch: EdgeBatch, levels: Levels) -> LevelBuilding:
    """Return the plan of a batch for :func:`build`."""
    return _building(backend, levels, ScratchEdges(batch.src, batch.dst, _or_none(backend, batch.weights)))


def _building(backend: Backend, levels: Levels, columns: ScratchEdges) -> LevelBuilding:
    far_rows = backend.zeros(far_rows_size(levels.num_vertices), np.int64)
    return LevelBuilding(one_window(backend, levels.num_segments, 0, levels.num_edges), columns, far_rows)


def build(backend: Backend, levels: Levels, plan: LevelBuilding, stamp: int) -> None:
    """Spread ``levels.num_edges`` sorted edges, at least one, over levels without edges."""
    _spread(levels, plan.spans, plan.columns, plan.far_rows, stamp)
    _write_window_starts(levels, plan.spans, plan.far_rows)


def plan_rebuild(backend: Backend, old: Levels, located: SearchResult, levels: Levels) -> Rebuilding:
    """Reserve the scratch of :func:`rebuild`, and count the remaining edges of the old levels."""
    _, words, _, table, depth = memory_of(old)
    ordered = backend.empty(old.num_segments, np.uint32)
    k_order_words.launch(old.num_segments, words, table, depth, ordered)
    k_clear_located.launch(located.positions.shape[0], ordered, located.positions, located.states)
    before = backend.xp.cumsum(count_blocks(backend, ordered, old.num_segments))
    source = one_window(backend, old.num_segments, 0, levels.num_edges)
    building = _building(backend, levels, _columns(backend, levels, levels.num_edges))
    return Rebuilding(source, before, ordered, building)


def rebuild(backend: Backend, old: Levels, levels: Levels, plan: Rebuilding, stamp: int) -> None:
    """Write the remaining edges of the old levels to new ones."""
    no_places = plan.source.first[:0]
    _gather(old, plan.source, plan.before, plan.ordered, no_places, plan.building.columns)
    build(backend, levels, plan.building, stamp)


def refresh(backend: Backend, levels: Levels, since: int, view: SlotArrays) -> None:
    """Update a table of all slots with the changes after stamp ``since``; -1 writes all of it."""
    weights = _or_none(backend, view.weights)
    k_copy_changed.launch(
        _stride_warps(levels.num_segments),
        *memory_of(levels), levels.weight_dtype is not None, since, view.src, view.dst, weights, view.valid,
    )  # fmt: skip
    k_write_offsets.launch(levels.num_vertices + 1, levels.starts, levels.depth, view.offsets)


def look_up(backend: Backend, levels: Levels, src: Array, dst: Array) -> tuple[Array, Array, Array | None]:
    """Return edges' slots in order, whether they are there, and their weights (0 if absent; None if unweighted)."""
    count, weighted = src.shape[0], levels.weight_dtype is not None
    positions, there = backend.empty(count, np.int64), backend.empty(count, np.bool_)
    found = _weights(backend, levels, count)
    k_look_up.launch(count, *memory_of(levels), levels.starts, weighted, src, dst, positions, there, found)
    return positions, there, found if weighted else None


def read_row_of(backend: Backend, levels: Levels, row: int) -> Array:
    """Return the destinations of one row's edges, ascending."""
    ids, words, _, table, depth = memory_of(levels)
    begin, end = (levels.in_order_slot(int(start)) for start in backend.to_host(levels.starts[row : row + 2]))
    out, there = backend.empty(end - begin, levels.vertex_dtype), backend.empty(end - begin, np.bool_)
    if end > begin:
        num_segments = ((end + 31) >> 5) - (begin >> 5)
        k_read_row.launch_warps(num_segments, ids, words, table, depth, begin, end, out, there)
    return out[there]
