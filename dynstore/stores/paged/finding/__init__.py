"""Finding the edges of a batch in pages: by the filter first, then by reads of leaves over the link."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from dynstore.batches.sorted import EdgeBatch
    from dynstore.stores.paged.filter import EdgeFilter
    from dynstore.stores.paged.layout import PagedRows
    from dynstore.typing import Array

__all__ = ["FoundEdges", "find_batch", "find_edges"]


class FoundEdges(NamedTuple):
    """Where edges are in pages.

    Attributes
    ----------
    slots : array, shape (B,), int64
        -1 for an edge that is in no page.
    live : array, shape (B,), bool
        Whether the edge is in a page and its bit is set.
    num_live, live_loops : int
        How many are live, and how many of these are self-loops; 0 for a batch that does not count these.
    num_dead : int
        How many are in a page, but their bits are cleared.
    num_searched : int
        How many searches read leaves.
    """

    slots: Array
    live: Array
    num_live: int = 0
    live_loops: int = 0
    num_dead: int = 0
    num_searched: int = 0


def find_edges(packed: PagedRows, valid: Array, passing: EdgeFilter, src: Array, dst: Array) -> FoundEdges:
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
    return _search(packed, valid, passing, src, dst, False, True)


def find_batch(packed: PagedRows, valid: Array, passing: EdgeFilter, batch: EdgeBatch, every_slot: bool) -> FoundEdges:
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
    found = _search(packed, valid, passing, batch.src, batch.dst, batch.mirrored, every_slot)
    return found if batch.num_loops else found._replace(live_loops=0)


def _search(
    packed: PagedRows, valid: Array, passing: EdgeFilter, src: Array, dst: Array, mirrored: bool, every_slot: bool
) -> FoundEdges:
    backend, count = packed.backend, int(src.shape[0])
    slots, live = backend.xp.full(count, -1, np.int64), backend.zeros(count, np.bool_)
    if not packed.num_edges or not count:
        return FoundEdges(slots, live)
    stored = packed.words, packed.places, 0, packed.page_bits
    pages = *packed.leaves, *stored, packed.offsets, valid, passing.words
    kernels = backend.kernels("dynstore.stores.paged.finding")
    return FoundEdges(
        slots, live, *kernels.search_batch(backend, pages, (src, dst), (mirrored, every_slot), slots, live)
    )
