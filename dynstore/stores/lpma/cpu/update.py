"""LPMA on the host: a packed memory array in levels; windows are found and written one after the other.

L. Zou, F. Zhang, Y. Lin, Y. Yu, "An Efficient Data Structure for Dynamic Graph on GPUs", IEEE TKDE 35(11), 2023;
``docs/stores/lpma.md`` lists the differences.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dynstore.stores.lpma.cpu.loops import (
    append_first_keys,
    clear_keys,
    clear_located_keys,
    copy_changed,
    gather_all,
    locate,
    read_row,
    read_weights,
    renumber,
    set_weights,
    spread,
    write_windows,
)
from dynstore.stores.lpma.cpu.mapping import all_memory
from dynstore.stores.lpma.cpu.windows import choose_bottom_up, choose_top_down, collect_windows, count_before
from dynstore.stores.lpma.levels import SEGMENT
from dynstore.stores.pma.cpu.windows import count_states, group_by_leaf
from dynstore.stores.table.slots import PRESENT, SearchResult

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.batches.sorted import EdgeBatch
    from dynstore.stores.lpma.levels import Levels
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = [
    "SegmentWindows",
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

NO_WEIGHTS = np.empty(0, dtype=np.float32)
# Sources, destinations and weights (length 0 if unweighted).
Columns: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True, slots=True)
class SegmentWindows:
    """The windows to write, ascending and disjoint, and the scratch for it.

    ``bounds`` has a row for each: first segment in order, last + 1, first pending key, last + 1. ``num_saved``:
    segments that re-balancing layer by layer would have moved twice.
    """

    bounds: np.ndarray
    pending: np.ndarray
    scratch: Columns
    num_segments: int
    num_saved: int

    @property
    def num_windows(self) -> int:
        return int(self.bounds.shape[0])


class Stopwatch:
    """Adds up the time between starts and stops."""

    def __init__(self) -> None:
        self._seconds = self._started = 0.0

    def start(self) -> None:
        self._started = perf_counter()

    def stop(self) -> None:
        self._seconds += perf_counter() - self._started

    def read(self) -> float:
        """Return the seconds."""
        return self._seconds


def _memory(levels: Levels) -> tuple[Any, ...]:
    """Return the first arguments of every kernel: memory as ids, as words and as weights, the table, the depth."""
    weight_dtype = np.float32 if levels.weight_dtype is None else levels.weight_dtype
    return (
        all_memory(levels.vertex_dtype), all_memory(np.uint32), all_memory(weight_dtype), levels.table, levels.depth,
    )  # fmt: skip


def _search(levels: Levels) -> tuple[Any, ...]:
    ids, words, _, table, depth = _memory(levels)
    return ids, words, table, depth, levels.starts


def _or_none(weights: Array | None) -> np.ndarray:
    return NO_WEIGHTS if weights is None else weights


def _columns(backend: Backend, levels: Levels, size: int) -> Columns:
    weights = NO_WEIGHTS if levels.weight_dtype is None else backend.empty(size, levels.weight_dtype)
    return backend.empty(size, levels.vertex_dtype), backend.empty(size, levels.vertex_dtype), weights


def _locate(backend: Backend, levels: Levels, src: Array, dst: Array) -> tuple[Array, Array]:
    positions, states = backend.empty(src.shape[0], np.int64), backend.empty(src.shape[0], np.uint8)
    locate(*_search(levels), src, dst, positions, states)
    return positions, states


def _located(backend: Backend, levels: Levels, batch: EdgeBatch) -> SearchResult:
    positions, states = _locate(backend, levels, batch.src, batch.dst)
    loops = np.count_nonzero((states == PRESENT) & (batch.src == batch.dst)) if batch.num_loops else 0
    return SearchResult(positions, states, int(count_states(states)), int(loops))


def begin_levels(backend: Backend, levels: Levels, old_depth: int) -> None:
    """Set the first keys of the segments in levels above ``old_depth``; -1 if all levels are new."""
    ids, _, _, table, depth = _memory(levels)
    append_first_keys(ids, table, depth, old_depth)


def plan_insert(
    backend: Backend, levels: Levels, batch: EdgeBatch, limits: tuple[float, float], most_growth: int, top_down: bool
) -> tuple[SearchResult, int, SegmentWindows | None]:
    """Find the keys of a batch, the number of levels to append, and the windows for the absent keys.

    Parameters
    ----------
    limits : pair of float
        The highest density of a leaf and of the root; linear in the layer in between.
    most_growth : int
        Levels that would be needed if all keys were absent.
    top_down : bool

    Returns
    -------
    located, growth, windows
    """
    located = _located(backend, levels, batch)
    growth = levels.growth_for(levels.num_edges + len(batch) - located.found, limits[1])
    renumber(located.positions, growth)
    return located, growth, _choose(backend, levels, located, limits, growth, True, top_down)


def plan_delete(
    backend: Backend, levels: Levels, batch: EdgeBatch, limits: tuple[float, float]
) -> tuple[SearchResult, SegmentWindows | None]:
    """Find the keys of a batch, and choose the windows to compact after the present keys are deleted.

    ``limits``: the lowest density of a leaf and of the root. No windows if the root would be sparser.
    """
    located = _located(backend, levels, batch)
    if levels.num_edges - located.found < limits[1] * levels.num_slots:
        return located, None
    return located, _choose(backend, levels, located, limits, 0, False, False)


def _choose(
    backend: Backend, levels: Levels, located: SearchResult, limits: tuple[float, float], growth: int, inserting: bool,
    top_down: bool,
) -> SegmentWindows:  # fmt: skip
    num_changed = located.positions.shape[0] - located.found if inserting else located.found
    run_leaf, run_keys, run_pending, pending = (backend.empty(num_changed + 1, np.int64) for _ in range(4))
    heights, bounds = backend.empty(num_changed, np.int8), backend.empty((num_changed, 4), np.int64)
    num_runs = group_by_leaf(located.positions, located.states, inserting, run_leaf, run_keys, run_pending, pending)
    _, words, _, table, depth = _memory(levels)
    runs, saved = (num_runs, run_leaf, run_keys, heights), 0
    if top_down:
        choose_top_down(count_before(words, table, depth), depth, growth, *limits, *runs)
    else:
        saved = choose_bottom_up(words, table, depth, growth, *limits, inserting, *runs)
    num_windows, total, largest = collect_windows(num_runs, run_leaf, run_pending, heights, bounds)
    scratch = _columns(backend, levels, largest * SEGMENT)
    return SegmentWindows(bounds[:num_windows], pending, scratch, int(total), int(saved))


def insert(
    backend: Backend, old: Levels, levels: Levels, batch: EdgeBatch, located: SearchResult, windows: SegmentWindows,
    add: bool, stamp: int,
) -> None:  # fmt: skip
    """Write an insertion; ``levels`` are the old and the appended ones. Allocates nothing."""
    memory, new_weights = _memory(levels), _or_none(batch.weights)
    if levels.weight_dtype is not None:
        _, words, weights, table, depth = memory
        set_weights(words, weights, table, depth, located.positions, located.states, new_weights, add, stamp)
    if levels.depth > old.depth:
        begin_levels(backend, levels, old.depth)
    new = batch.src, batch.dst, new_weights
    weighted = levels.weight_dtype is not None
    write_windows(
        *memory, levels.starts, weighted, windows.bounds, windows.pending, located.positions, new, windows.scratch,
        stamp,
    )  # fmt: skip


def delete(
    backend: Backend,
    levels: Levels,
    batch: EdgeBatch,
    located: SearchResult,
    windows: SegmentWindows | None,
    stamp: int,
) -> None:
    """Clear the bits of the present keys, and compact the windows that became too empty."""
    _, words, _, table, depth = _memory(levels)
    clear_located_keys(words, table, depth, located.positions, located.states, stamp)
    if windows is not None:
        none = levels.starts[:0]
        new = none, none, windows.scratch[2][:0]
        weighted = levels.weight_dtype is not None
        write_windows(
            *_memory(levels), levels.starts, weighted, windows.bounds, windows.pending, located.positions, new,
            windows.scratch, stamp,
        )  # fmt: skip


def delete_listed(backend: Backend, levels: Levels, src: Array, dst: Array, stamp: int) -> None:
    """Delete edges, all present, without re-balancing."""
    clear_keys(*_search(levels), src, dst, stamp)


def build(backend: Backend, levels: Levels, columns: Columns, stamp: int) -> None:
    """Spread ``levels.num_edges`` sorted edges, at least one, over levels without edges."""
    weighted = levels.weight_dtype is not None
    spread(
        *_memory(levels), levels.starts, weighted, 0, levels.num_segments, levels.num_edges, *columns, stamp
    )  # fmt: skip


def plan_build(backend: Backend, batch: EdgeBatch, levels: Levels) -> Columns:
    """Return a batch's columns for :func:`build`."""
    return batch.src, batch.dst, _or_none(batch.weights)


def plan_rebuild(backend: Backend, old: Levels, located: SearchResult, levels: Levels) -> tuple[SearchResult, Columns]:
    """Reserve the scratch of :func:`rebuild`: room for all edges."""
    return located, _columns(backend, levels, levels.num_edges)


def rebuild(backend: Backend, old: Levels, levels: Levels, plan: tuple[SearchResult, Columns], stamp: int) -> None:
    """Write the old edges, without the located ones, to new levels."""
    located, scratch = plan
    _, words, _, table, depth = _memory(old)
    clear_located_keys(words, table, depth, located.positions, located.states, stamp)
    gather_all(*_memory(old), old.weight_dtype is not None, located.positions[:0], scratch)
    build(backend, levels, scratch, stamp)


def refresh(backend: Backend, levels: Levels, since: int, view: SlotArrays) -> None:
    """Update a table of all slots with the changes after stamp ``since``; -1 writes all of it."""
    weights = _or_none(view.weights)
    columns = view.src, view.dst, weights, view.valid, view.offsets
    copy_changed(*_memory(levels), levels.starts, levels.weight_dtype is not None, since, *columns)


def look_up(backend: Backend, levels: Levels, src: Array, dst: Array) -> tuple[Array, Array, Array | None]:
    """Return edges' slots in order, whether they are there, and their weights (0 if absent; None if unweighted)."""
    positions, states = _locate(backend, levels, src, dst)
    if levels.weight_dtype is None:
        return positions, states == PRESENT, None
    found = backend.empty(src.shape[0], levels.weight_dtype)
    _, _, weights, table, depth = _memory(levels)
    read_weights(weights, table, depth, positions, states, found)
    return positions, states == PRESENT, found


def read_row_of(backend: Backend, levels: Levels, row: int) -> Array:
    """Return the destinations of one row's edges, ascending."""
    ids, words, _, table, depth = _memory(levels)
    ends = np.int64(levels.starts[row]), np.int64(levels.starts[row + 1])
    out = backend.empty(0, levels.vertex_dtype)
    out = backend.empty(read_row(ids, words, table, depth, *ends, out), levels.vertex_dtype)
    if out.shape[0]:
        read_row(ids, words, table, depth, *ends, out)
    return out
