"""Kernels of several phases: one launch whose blocks wait for each other between the phases.

For small batches most of the time is spent on launching kernels. So a pipeline of small steps is one kernel, started by
``Kernel.launch_resident``: at most as many blocks as the GPU holds at once, and one such kernel at a time. Each block
owns neighbouring items. The counts of a phase are left in ``control``: a sum for each block, and the total, which the
host reads once at the end.
Precondition of each function: all threads of the block call it; of :func:`d_sync_grid`: all threads of the grid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.cuda.block import d_sum_block
from dynstore.cuda.compiler import MAX_RESIDENT_BLOCKS, cuda, device
from dynstore.cuda.warp import d_lane, d_max_lanes, d_pause

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = [
    "ANY_NUMBER",
    "ARRIVALS",
    "CONTROL_SIZE",
    "SUMS",
    "TOTALS",
    "d_chunk",
    "d_leave_greatest",
    "d_leave_sum",
    "d_reset_when_last",
    "d_sum_blocks_before",
    "d_sync_grid",
    "read_totals",
]

# Layout of `control`, int64, all 0 at first: totals; the count of arrivals at a barrier; free words for counts that the
# host does not read; then for each total a row with one sum per block.
TOTALS = 12
ARRIVALS, SUMS = 12, 20
CONTROL_SIZE = SUMS + TOTALS * MAX_RESIDENT_BLOCKS
# A limit that no count reaches.
ANY_NUMBER = 1 << 62


@device
def d_sync_grid(control, phase, arrivals=ARRIVALS):
    """Wait for all blocks; their earlier writes are visible afterwards.

    ``phase`` counts a kernel's waits, from 1. Two kernels that use one ``control`` need different entries ``arrivals``.
    """
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        cuda.threadfence()
        cuda.atomic.add(control, arrivals, 1)
        while cuda.atomic.add(control, arrivals, 0) < phase * cuda.gridDim.x:
            d_pause()
        cuda.threadfence()
    cuda.syncthreads()


@device
def d_chunk(count):
    """Return the first item that the block owns, and the last + 1; a whole number of tiles with one item per thread."""
    size, blocks = np.int64(cuda.blockDim.x), np.int64(cuda.gridDim.x)
    tiles = (count + size - 1) // size
    share = (tiles + blocks - 1) // blocks * size
    first = min(cuda.blockIdx.x * share, count)
    return first, min(first + share, count)


@device
def d_leave_sum(control, row, value, board):
    """Sum over the block's threads; write the sum to the block's entry of a row, add it to the row's total (atomic)."""
    total = d_sum_block(value, board)
    if cuda.threadIdx.x == 0 and total != 0:
        control[SUMS + row * MAX_RESIDENT_BLOCKS + cuda.blockIdx.x] = total
        cuda.atomic.add(control, row, total)


@device
def d_leave_greatest(control, row, value):
    """Raise ``control[row]`` to the greatest value of all threads (atomic, one a warp)."""
    value = d_max_lanes(value)
    if d_lane() == 0 and value > 0:
        cuda.atomic.max(control, row, value)


@device
def d_sum_blocks_before(control, row, board):
    """Return the sum of a row's entries of the blocks before this one."""
    part, block = np.int64(0), np.int64(cuda.threadIdx.x)
    while block < cuda.blockIdx.x:
        part += control[SUMS + row * MAX_RESIDENT_BLOCKS + block]
        block += cuda.blockDim.x
    return d_sum_block(part, board)


@device
def d_reset_when_last(control, arrivals):
    """Let the last block to arrive set all of ``control`` but the blocks' sums to 0; no block waits.

    ``arrivals``: an entry of ``control`` that nothing else uses. All threads of the grid call it, and read no total
    afterwards.
    """
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        cuda.threadfence()
        if cuda.atomic.add(control, arrivals, 1) == cuda.gridDim.x - 1:
            for word in range(SUMS):
                control[word] = 0


def read_totals(backend: Backend, control: Array) -> list[int]:
    """Wait for the kernel and return the totals."""
    totals: list[int] = backend.to_host(control[:TOTALS]).tolist()
    return totals
