"""List the keys of all buckets in order on CUDA, for a merge of everything."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dynstore.cuda.block import BOARD
from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.cuda.grid import d_leave_sum, d_sync_grid
from dynstore.cuda.warp import d_lane, d_scan_lanes, d_shuffle, d_sum_lanes, d_sync_warp
from dynstore.stores.gpma_plus.cuda.bucket_layout import COUNT, HEAD, PLACES, SOURCES, TARGETS, BucketLeaves
from dynstore.stores.pma.cuda.leaf_insert import d_lowest_bit
from dynstore.stores.pma.cuda.windows import COUNTS, d_chunk_blocks, d_scan_counts

if TYPE_CHECKING:
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["BucketKeys", "PlacedKeys"]

# The low half of a count (``d_count_leaf``): the keys.
KEYS = np.int64(0xFFFFFFFF)


class BucketKeys(NamedTuple):
    """The sorted buckets of a batch, valid until the next batch is put into buckets; see ``bucket_layout``.

    Attributes
    ----------
    marks : array of uint32 words
        The slots of the batch's edges that are in the table, tombstones included.
    lists, pairs : array
    """

    marks: Array
    lists: Array
    pairs: Array

    def start_ordering(
        self, slots: SlotArrays, before: Array, places: Array, new_src: Array, new_dst: Array, control: Array
    ) -> None:
        """Start the kernel that lists the keys in order; see :func:`k_order_lists`."""
        k_order_lists.launch_resident(
            slots.num_slots >> 5, slots.src, slots.dst, slots.valid, *self, before, places, new_src, new_dst, control
        )


class PlacedKeys(NamedTuple):
    """Keys in order, and the slots that they go before."""

    places: Array
    src: Array
    dst: Array


@device
def d_count_leaf(leaves, leaf):
    """Return a leaf's edges, in the high half, and its new keys, in the low half: of the bucket, or restored."""
    count = np.int64(0)
    if leaf < leaves.lists.shape[0]:
        word = leaves.valid[leaf]
        keys = np.int64(cuda.popc(np.uint32(leaves.marks[leaf] & ~word))) + np.int64(leaves.lists[leaf, COUNT])
        count = (np.int64(cuda.popc(word)) << 32) | keys
    return count


@device
def d_write_keys(src, dst, leaves, pairs, leaf, key, to, new):
    """A lane writes a leaf's keys from place ``to`` on: those of its bucket, from ``key`` on, and the restored slots.

    Keys of the bucket precede the slot that they go before.
    """
    restored = np.uint32(leaves.marks[leaf] & ~leaves.valid[leaf])
    stop = key + np.int64(leaves.lists[leaf, COUNT])
    while key < stop or restored != 0:
        slot = leaf * 32 + d_lowest_bit(restored)  # behind the leaf where there is none
        place = np.int64(pairs[PLACES, min(key, np.int64(pairs.shape[1]) - 1)])
        if key < stop and place <= slot:
            new.places[to], new.src[to], new.dst[to] = place, pairs[SOURCES, key], pairs[TARGETS, key]
            key += 1
        else:
            new.places[to], new.src[to], new.dst[to] = slot, src[slot], dst[slot]
            restored = np.uint32(restored & (restored - np.uint32(1)))
        to += 1


@kernel
def k_order_lists(src, dst, valid, marks, lists, pairs, before, places, new_src, new_dst, control):
    """List the new keys of all leaves in order, as ``full_merge.k_list_new`` does; one grid wait.

    Also count the edges ``before`` each block of 32 leaves. A warp owns one block of leaves after the other.
    """
    board = cuda.shared.array(BOARD, np.int64)
    leaves, new = BucketLeaves(valid, marks, lists), PlacedKeys(places, new_src, new_dst)
    lane, warps, counts = d_lane(), np.int64(cuda.blockDim.x >> 5), before[1:]
    first, end = d_chunk_blocks(np.int64(counts.shape[0]))
    block, total = first + (cuda.threadIdx.x >> 5), np.int64(0)
    while block < end:
        count = d_sum_lanes(d_count_leaf(leaves, (block << 5) + lane))
        if lane == 0:
            counts[block] = count
            total += count
        block += warps
    d_leave_sum(control, COUNTS, total, board)
    d_sync_grid(control, 1)
    d_scan_counts(counts, control, board)  # both halves at once
    cuda.syncthreads()
    if cuda.grid(1) == 0:
        before[0] = 0
    block = first + (cuda.threadIdx.x >> 5)
    while block < end:
        leaf, up_to = (block << 5) + lane, counts[block]
        keys = np.int32(d_count_leaf(leaves, leaf) & KEYS)
        keys_up_to = d_scan_lanes(keys)
        to = (up_to & KEYS) - d_shuffle(keys_up_to, 31) + np.int64(np.int32(keys_up_to - keys))
        d_sync_warp()  # all lanes have read the count
        if lane == 0:
            counts[block] = up_to >> 32
        if keys > 0:
            d_write_keys(src, dst, leaves, pairs, leaf, np.int64(lists[leaf, HEAD]) - 1, to, new)
        block += warps
