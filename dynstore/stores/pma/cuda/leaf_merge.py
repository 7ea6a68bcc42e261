"""Merging new keys into a leaf on CUDA, in registers: a warp redistributes edges and keys."""

from __future__ import annotations

import numpy as np

from dynstore.cuda.compiler import cuda, device
from dynstore.cuda.warp import d_ballot, d_count_lower, d_lane, d_shuffle, d_sync_warp

__all__ = ["d_merge_leaf", "d_take_shown"]


@device
def d_merge_leaf(origin, word, place, num_keys):
    """Merge a leaf's elements with keys by rank, and spread them evenly over its 32 slots. All lanes of the warp call.

    Parameters
    ----------
    origin : int32 shared array with an entry a thread of the block
    word : uint32
        The slots that have an element.
    place : integer
        The slot, 0 to 32, that the lane's key goes before, if the lane has one of ``num_keys`` ascending keys.

    Returns
    -------
    source : int32
        Where the element that the lane's slot has to show is now: a slot, or 32 + a key.
    shown : uint32
        The slots that show another element than the slot before: the new ``word``.
    """
    lane = np.uint32(d_lane())
    board = np.uint32(cuda.threadIdx.x) - lane
    mine, keys_before = np.int32(place), np.uint32(0)
    for other in range(np.int32(num_keys)):
        keys_before += np.uint32(d_shuffle(mine, other) <= np.int32(lane))
    d_sync_warp()  # earlier contents of the array have been read
    if (word >> lane) & np.uint32(1) != 0:
        origin[np.uint32(board + keys_before + np.uint32(d_count_lower(word, lane)))] = lane
    if np.int32(lane) < num_keys:
        edges_before = cuda.popc(word) if mine > 31 else d_count_lower(word, mine)
        origin[np.uint32(board + lane + np.uint32(edges_before))] = np.uint32(32) + lane
    d_sync_warp()
    elements = np.uint32(cuda.popc(word)) + np.uint32(num_keys)
    following = np.uint32(lane * elements + elements - np.uint32(1))
    element = following >> np.uint32(5)
    begins = lane == 0 or (following - elements) >> np.uint32(5) != element
    return np.int32(origin[np.uint32(board + element)]), d_ballot(begins)


@device
def d_take_shown(source, value, key_value):
    """Return what the lane's slot has to show, from the lane that has it in its slot (``value``) or as its key.

    ``source``: as :func:`d_merge_leaf` returned it. All lanes of the warp call.
    """
    shown, key_shown = d_shuffle(value, source & 31), d_shuffle(key_value, source & 31)
    return key_shown if source > 31 else shown
