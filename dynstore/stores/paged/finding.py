"""Finding the edges of a batch in pages: by the filter first, then by reads of leaves over the link."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dynstore.stores.paged.merging import keys_of
from dynstore.typing import MAX_INT32

if TYPE_CHECKING:
    from dynstore.batches.sorted import EdgeBatch
    from dynstore.stores.paged.filter import EdgeFilter
    from dynstore.stores.paged.layout import PagedRows
    from dynstore.typing import Array

__all__ = ["Found", "find_batch", "find_edges"]

LARGEST_KEY = (1 << 63) - 1


class Found(NamedTuple):
    """Where edges are in pages.

    Attributes
    ----------
    slots : array, shape (B,), int64
        -1 for an edge that is in no page.
    live : array, shape (B,), bool
        Whether the edge is in a page and its bit is set.
    """

    slots: Array
    live: Array


def find_edges(packed: PagedRows, valid: Array, passing: EdgeFilter, src: Array, dst: Array) -> Found:
    """Find edges in pages.

    Parameters
    ----------
    packed : PagedRows
    valid : array of uint32 words
        A bit a slot: whether the edge is in the graph.
    passing : EdgeFilter
        The edges in pages.
    src, dst : array, shape (B,), vertex dtype
        In any order. They may be no rows.
    """
    xp, found = packed.backend.xp, _nothing(packed, src.shape[0])
    if packed.num_edges and src.shape[0]:
        maybe = (src >= 0) & (src < packed.num_vertices) & (dst >= 0) & (dst <= MAX_INT32)
        maybe &= passing.test(keys_of(src, dst) & LARGEST_KEY)
        places = xp.nonzero(maybe)[0]
        if places.shape[0]:
            slots = packed.find_edges(src[places], dst[places])
            found.slots[places], found.live[places] = slots, _are_live(packed, valid, slots)
    return found


def find_batch(packed: PagedRows, valid: Array, passing: EdgeFilter, batch: EdgeBatch, every_slot: bool) -> Found:
    """Find the edges of a batch in pages.

    Pages of an undirected graph hold both directions of an edge, with equal bits. So a mirrored batch is searched for
    in one direction, if the filter passes both, and the other direction is searched for only where it is there.

    Parameters
    ----------
    packed, valid, passing
        As in :func:`find_edges`.
    batch : EdgeBatch
    every_slot : bool
        If False, ``slots`` may give a live edge the slot of its other direction, which saves a read.
    """
    src, dst, xp = batch.src, batch.dst, packed.backend.xp
    if not batch.mirrored or not packed.num_edges or not len(batch):
        return find_edges(packed, valid, passing, src, dst)
    ends = packed.backend.to_host(src[:: max(len(batch) - 1, 1)])
    if ends[0] < 0 or ends[-1] >= packed.num_vertices:  # some are no rows, and the keys of these may not ascend
        return find_edges(packed, valid, passing, src, dst)
    found = _nothing(packed, len(batch))
    places = xp.nonzero(src <= dst)[0]
    low, high = src[places], dst[places]
    places = places[passing.test(keys_of(low, high)) & passing.test(keys_of(high, low))]
    slots = packed.find_edges(src[places], dst[places])
    places, slots = places[slots >= 0], slots[slots >= 0]
    if not places.shape[0]:
        return found
    low, high, live = src[places], dst[places], _are_live(packed, valid, slots)
    twins, others = xp.searchsorted(keys_of(src, dst), keys_of(high, low)), slots.copy()
    again = xp.nonzero(~live | every_slot)[0]
    if again.shape[0]:
        others[again] = packed.find_edges(high[again], low[again])
    for some, there in ((places, slots), (twins, others)):
        found.slots[some], found.live[some] = there, live
    return found


def _nothing(packed: PagedRows, count: int) -> Found:
    return Found(packed.backend.xp.full(count, -1, np.int64), packed.backend.zeros(count, np.bool_))


def _are_live(packed: PagedRows, valid: Array, slots: Array) -> Array:
    """Return whether slots hold edges of the graph; one of -1 does not."""
    safe = packed.backend.xp.maximum(slots, 0)
    bits = (valid[safe >> 5] >> (safe & 31).astype(np.uint32)) & np.uint32(1)
    live: Array = (slots >= 0) & (bits != 0)
    return live
