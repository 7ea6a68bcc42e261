"""Warp-wide operations: the intrinsics on a device, an emulation in the simulator.

Precondition of each: all 32 lanes of the warp call it.
"""

from __future__ import annotations

import numpy as np

from dynstore.cuda.compiler import SIMULATED, cuda, device

__all__ = [
    "FULL_WARP",
    "d_ballot",
    "d_bound_lanes",
    "d_count_lower",
    "d_find_owner",
    "d_lane",
    "d_max_lanes",
    "d_pause",
    "d_scan_lanes",
    "d_scan_lanes_64",
    "d_shuffle",
    "d_shuffle_up",
    "d_sum_lanes",
    "d_sync_warp",
]

FULL_WARP = np.uint32(0xFFFFFFFF)

if SIMULATED:
    from dynstore.cuda import simulator

    @device
    def d_lane():
        """Return this thread's lane, 0 to 31."""
        return cuda.threadIdx.x & 31

    @device
    def d_pause():
        """Let other blocks run, in a loop that waits for them; a single thread may call it."""
        simulator.pause()

    @device
    def d_sync_warp():
        """Wait for all lanes; their earlier writes are visible afterwards."""
        cuda.syncthreads()

    @device
    def d_ballot(predicate):
        """Return the uint32 word whose bit ``l`` is set if lane ``l`` passed a true predicate."""
        return simulator.combine(bool(predicate), simulator.pack_votes)

    @device
    def d_shuffle(value, source_lane):
        """Return lane ``source_lane``'s value."""
        return simulator.exchange(value)[int(source_lane) & 31]

    @device
    def d_shuffle_up(value, step):
        """Return the value of the lane ``step`` before this one; if there is none, this lane's own value."""
        lane = cuda.threadIdx.x & 31
        return simulator.exchange(value)[lane - step if lane >= step else lane]

    @device
    def d_sum_lanes(value):
        """Return the sum of the value over all lanes, in every lane."""
        return simulator.combine(value, simulator.add_up)

    @device
    def d_max_lanes(value):
        """Return the greatest of all lanes' values, in every lane."""
        return simulator.combine(value, max)

    @device
    def d_bound_lanes(low, high, other_low, other_high):
        """Return the least and the greatest of all lanes' values, for two pairs, in every lane."""
        low, high = simulator.combine(low, min), simulator.combine(high, max)
        return low, high, simulator.combine(other_low, min), simulator.combine(other_high, max)

    @device
    def d_scan_lanes(value):
        """Return the int32 sum of ``value`` over the lanes of the warp up to this one."""
        return simulator.combine(np.int32(value), simulator.scan)[cuda.threadIdx.x & 31]

    @device
    def d_scan_lanes_64(value):
        """Return the int64 sum of ``value`` over the lanes of the warp up to this one."""
        return simulator.combine(np.int64(value), simulator.scan)[cuda.threadIdx.x & 31]

else:

    @device
    def d_lane():
        """Return this thread's lane, 0 to 31."""
        return cuda.threadIdx.x & 31

    @device
    def d_pause():
        """Let other blocks run, in a loop that waits for them; a single thread may call it."""

    @device
    def d_sync_warp():
        """Wait for all lanes; their earlier writes are visible afterwards."""
        cuda.syncwarp(FULL_WARP)

    @device
    def d_ballot(predicate):
        """Return the uint32 word whose bit ``l`` is set if lane ``l`` passed a true predicate."""
        return np.uint32(cuda.ballot_sync(FULL_WARP, predicate))

    @device
    def d_shuffle(value, source_lane):
        """Return lane ``source_lane``'s value."""
        return cuda.shfl_sync(FULL_WARP, value, source_lane)

    @device
    def d_shuffle_up(value, step):
        """Return the value of the lane ``step`` before this one; if there is none, this lane's own value."""
        return cuda.shfl_up_sync(FULL_WARP, value, step)

    @device
    def d_sum_lanes(value):
        """Return the sum of the value over all lanes, in every lane."""
        total = value
        for step in (16, 8, 4, 2, 1):
            total += cuda.shfl_xor_sync(FULL_WARP, total, step)
        return total

    @device
    def d_max_lanes(value):
        """Return the greatest of all lanes' values, in every lane."""
        lane = d_lane()
        for step in (16, 8, 4, 2, 1):
            value = max(value, d_shuffle(value, lane ^ step))
        return value

    @device
    def d_bound_lanes(low, high, other_low, other_high):
        """Return the least and the greatest of all lanes' values, for two pairs, in every lane."""
        for step in (16, 8, 4, 2, 1):
            lane = d_lane() ^ step
            low = min(low, d_shuffle(low, lane))
            high = max(high, d_shuffle(high, lane))
            other_low = min(other_low, d_shuffle(other_low, lane))
            other_high = max(other_high, d_shuffle(other_high, lane))
        return low, high, other_low, other_high

    @device
    def d_scan_lanes(value):
        """Return the int32 sum of ``value`` over the lanes of the warp up to this one."""
        lane, total = d_lane(), np.int32(value)
        for step in (1, 2, 4, 8, 16):
            other = d_shuffle_up(total, step)
            total = np.int32(total + (other if lane >= step else np.int32(0)))
        return total

    @device
    def d_scan_lanes_64(value):
        """Return the int64 sum of ``value`` over the lanes of the warp up to this one."""
        lane, total = d_lane(), np.int64(value)
        for step in (1, 2, 4, 8, 16):
            other = d_shuffle(total, (lane - step) & 31)
            if lane >= step:
                total += other
        return total


@device
def d_count_lower(word, lane):
    """Return the number of set bits below bit ``lane`` in a uint32 word; int64."""
    return np.int64(cuda.popc(word & ((np.uint32(1) << np.uint32(lane)) - np.uint32(1))))


@device
def d_find_owner(ends, item):
    """Return the first lane whose end is above an item, or the last lane if there is none; ``ends`` ascend."""
    owner = np.int32(0)
    for step in (16, 8, 4, 2, 1):
        is_behind = d_shuffle(ends, owner + step - 1) <= item
        owner = np.int32(owner + np.int32(step if is_behind else 0))
    return owner
