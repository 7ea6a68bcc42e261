"""Row offsets for ``gpma`` and ``gpma_level`` on CUDA: written as they are found, a warp at a time."""

from __future__ import annotations

import numpy as np

from dynstore.cuda.compiler import WARP, cuda, device, kernel
from dynstore.cuda.warp import d_ballot, d_lane, d_shuffle

__all__ = ["d_fill_edge_rows", "d_fill_rows_by_warp", "k_fill_edge_rows"]


@device
def d_share_rows(offsets, low, high, slot, wanted):
    """All lanes together let the rows in (low, high] start at ``slot``, for each lane that wants it in turn."""
    pending = d_ballot(wanted)
    while pending != 0:
        lane = cuda.ffs(np.int32(pending)) - 1
        shared_low, shared_high, shared_slot = d_shuffle(low, lane), d_shuffle(high, lane), d_shuffle(slot, lane)
        row = shared_low + 1 + d_lane()
        while row <= shared_high:
            offsets[row] = shared_slot
            row += WARP
        pending &= pending - np.uint32(1)


@device
def d_fill_rows_by_warp(offsets, low, high, slot):
    """Let the rows in (low, high] start at ``slot``, however many they are; each lane has its own range."""
    long = high - low > WARP
    if not long:
        for row in range(low + 1, high + 1):
            offsets[row] = slot
    d_share_rows(offsets, low, high, slot, long)


@device
def d_fill_edge_rows(src, offsets, leaf, wanted):
    """Write the offsets of rows that begin at a leaf's first slot, or behind the last leaf; idle lanes want none."""
    low, high, slot = np.int64(0), np.int64(0), leaf * 32
    if wanted:
        low = np.int64(src[slot - 1]) if slot > 0 else np.int64(-1)
        high = np.int64(src[slot]) if slot < src.shape[0] else np.int64(offsets.shape[0] - 1)
    d_fill_rows_by_warp(offsets, low, high, slot)


@kernel
def k_fill_edge_rows(src, offsets, first, end, num_windows):
    """Two threads own a window of whole leaves, one each edge: write the offsets of rows that begin there."""
    window, at_end = np.int64(cuda.grid(1) >> 1), cuda.grid(1) & 1
    leaf = np.int64(0)
    if window < num_windows:
        leaf = np.int64(end[window] if at_end else first[window])
    d_fill_edge_rows(src, offsets, leaf, window < num_windows)
