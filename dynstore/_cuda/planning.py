"""Planning an update of a packed memory array on CUDA: one kernel and one read-back, whatever the batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dynstore._cuda.compiler import cuda, kernel
from dynstore._cuda.grid import CONTROL_SIZE, d_sync_grid, read_totals
from dynstore._cuda.leaves import far_rows_size
from dynstore._cuda.located import FOUND_LOOPS, d_list_keys, d_locate_keys
from dynstore._cuda.runs import RUN_LOOPS, RUNS, d_count_runs, d_keep_runs
from dynstore._cuda.tiles import BOARD
from dynstore._cuda.windows import (
    NUM_LEAVES,
    NUM_SCRATCH_LEAVES,
    NUM_WINDOWS,
    Windows,
    d_climb_leaves,
    d_collect_windows,
    d_count_blocks,
    d_cover_leaves,
    d_scan_counts,
)
from dynstore.edge_batch import RawEdges
from dynstore.slots import ABSENT, DEAD, PRESENT, Located

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.edge_batch import EdgeBatch
    from dynstore.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["Planned", "plan_windows"]

# Arrays of the batch's length that the kernel works in: keys, places, leaves, dead leaves, then those of the windows.
NUM_LISTS, NUM_WINDOW_ARRAYS = 4, 6


@dataclass(frozen=True, slots=True)
class Planned:
    """What an update does.

    ``windows`` is None where the root would leave its limit. ``before``: edges before each block of leaves after the
    update's bits; ``keys``, ``places``: the absent keys' rows in the batch and the slots that they go before;
    ``num_dead``: keys that only get their bit back; ``far_rows``: zeros, for writing.
    """

    located: Located
    windows: Windows | None
    before: Array
    keys: Array
    places: Array
    far_rows: Array
    num_dead: int


@kernel
def k_plan_update(
    offsets, dst, valid, num_vertices, sorted_keys, edge_src, edge_dst, low, high, top, inserting,
    positions, states, heights, work, before, marks, control,
):  # fmt: skip
    """Locate the keys, list those that change a leaf, choose the windows; a grid-wide wait after each phase.

    ``sorted_keys``, if any, become ``edge_src`` and ``edge_dst`` first, each once. ``work`` holds lists of the
    batch's length. Atomics: see the phases.
    """
    board = cuda.shared.array(BOARD, np.int64)
    size, num_leaves = np.int64(edge_src.shape[0]), np.int64(dst.shape[0] >> 5)
    count, counts, waits = size, before[1:], 0
    if sorted_keys.shape[0] > 0:
        d_count_runs(sorted_keys, control, board)
        d_sync_grid(control, 1)
        d_keep_runs(sorted_keys, sorted_keys[:0], edge_src, edge_dst, control, board)
        count = control[RUNS]
        d_sync_grid(control, 2)
        waits = 2
    keys, places = work[:size], work[size : 2 * size]
    leaves, dead_leaves = work[2 * size : 3 * size], work[3 * size : 4 * size]
    d_locate_keys(offsets, dst, valid, num_vertices, edge_src, edge_dst, count, positions, states, control, board)
    d_count_blocks(valid, num_leaves, counts, control, board)
    d_sync_grid(control, waits + 1)
    d_list_keys(positions, states, count, inserting, counts, keys, places, leaves, dead_leaves, control, board)
    num_items, num_dead = control[ABSENT if inserting else PRESENT], control[DEAD]
    d_sync_grid(control, waits + 2)
    d_scan_counts(counts, control, board)
    if cuda.grid(1) == 0:
        before[0] = 0
    d_sync_grid(control, waits + 3)
    d_climb_leaves(
        valid, before, leaves, num_items, dead_leaves, num_dead, low, high, top, num_leaves, inserting, marks
    )
    d_sync_grid(control, waits + 4)
    d_cover_leaves(leaves, num_items, num_leaves, top, marks, heights, control, board)
    d_sync_grid(control, waits + 5)
    d_collect_windows(
        valid, before, leaves, num_items, dead_leaves, num_dead, num_leaves, inserting, heights, control, board,
        work[4 * size : 5 * size], work[5 * size : 6 * size], work[6 * size : 7 * size],
        work[7 * size : 8 * size], work[8 * size : 9 * size], work[9 * size : 10 * size],
    )  # fmt: skip


def plan_windows(backend: Backend, slots: SlotArrays, batch: EdgeBatch, limits: np.ndarray, inserting: bool) -> Planned:
    """Launch the whole plan, then read one record back; what it decides on is on the device until then.

    Parameters
    ----------
    limits : array
        The density that no window of each height may pass, linear in it; for a deletion the lowest.
    """
    sorted_keys = batch.keys if isinstance(batch, RawEdges) and not batch.is_settled else backend.nothing(np.int64)
    pending = int(sorted_keys.shape[0])
    size, num_leaves, top = pending or len(batch), slots.num_slots >> 5, len(limits) - 1
    num_blocks, num_marks = (num_leaves + 31) >> 5, (2 << top) // 32 + 1
    work_size, vertex_dtype = (NUM_LISTS + NUM_WINDOW_ARRAYS) * size, slots.src.dtype
    control, marks, far_rows, work, positions, before, states, heights, edge_src, edge_dst = backend.empty_together(
        (CONTROL_SIZE, np.int64), (num_marks, np.uint32), (far_rows_size(slots.num_vertices), np.int64),
        (work_size, np.int64), (size, np.int64), (num_blocks + 1, np.int64), (size, np.uint8), (size, np.int8),
        (pending, vertex_dtype), (pending, vertex_dtype), zeroed=3,
    )  # fmt: skip
    if not pending:
        edge_src, edge_dst = batch.src, batch.dst
    k_plan_update.launch_resident(
        max(size, num_leaves >> 3),
        slots.offsets, slots.dst, slots.valid, slots.num_vertices, sorted_keys, edge_src, edge_dst,
        float(limits[0]), float(limits[-1]), top, inserting,
        positions, states, heights, work, before, marks, control,
    )  # fmt: skip
    counts = read_totals(backend, control)
    if pending:
        assert isinstance(batch, RawEdges)
        batch.settle(edge_src[: counts[RUNS]], edge_dst[: counts[RUNS]], counts[RUN_LOOPS])
    num_keys = len(batch)
    located = Located(positions[:num_keys], states[:num_keys], counts[PRESENT], counts[FOUND_LOOPS])
    total = slots.num_edges + num_keys - located.found if inserting else slots.num_edges - located.found
    bound, num_absent = limits[-1] * slots.num_slots, counts[ABSENT] if inserting else 0
    windows = None
    if total <= bound if inserting else total >= bound:
        first = NUM_LISTS * size
        ends = (first + place * size for place in range(NUM_WINDOW_ARRAYS))
        arrays = (work[at : at + counts[NUM_WINDOWS]] for at in ends)
        windows = Windows(*arrays, *(counts[row] for row in (NUM_WINDOWS, NUM_LEAVES, NUM_SCRATCH_LEAVES)))
    keys, places = work[:num_absent], work[size : size + num_absent]
    return Planned(located, windows, before, keys, places, far_rows, counts[DEAD])
