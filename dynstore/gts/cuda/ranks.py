"""PageRank over pages; appendix B.2 of the paper."""

from __future__ import annotations

from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.gts.cuda.pages import (
    d_find_list,
    d_num_slots,
    d_open_pages,
    d_read_neighbor,
    d_share_pages,
    d_vertex_of,
)

__all__ = ["PUSH"]


@device
def d_give(pages, begin, i, given, low, ranks):
    """Add to a neighbour's rank, if it is one of ``ranks``, which are those from vertex ``low`` on (atomic add)."""
    place = d_read_neighbor(pages, begin, i)[1] - low
    if 0 <= place < ranks.shape[0]:
        cuda.atomic.add(ranks, place, given)


@kernel
def k_push_small(words, first, count, lanes, starts, ranges, layout, shares, low, ranks):
    """``lanes`` threads add a vertex's share to the ranks of its neighbours; atomics: see :func:`d_give`.

    ``shares``: for the vertices of these pages, from the first one on.
    """
    pages, share = d_open_pages(words, first, starts, ranges, layout), d_share_pages(count, lanes)
    base = d_vertex_of(pages, 0, 0)
    for page in range(share.page, count, share.step):
        for slot in range(share.worker, d_num_slots(pages, page), share.workers):
            given = shares[d_vertex_of(pages, page, slot) - base]
            begin, size = d_find_list(pages, page, slot)
            i = share.lane
            while i < size:
                d_give(pages, begin, i, given, low, ranks)
                i += lanes


@kernel
def k_push_large(words, first, count, lanes, starts, ranges, layout, shares, low, ranks):
    """One thread a neighbour, as :func:`k_push_small`; a share is of the whole degree, not of this page's part."""
    pages, share = d_open_pages(words, first, starts, ranges, layout), d_share_pages(count, lanes)
    base = d_vertex_of(pages, 0, 0)
    for page in range(share.page, count, share.step):
        given = shares[d_vertex_of(pages, page, 0) - base]
        begin, size = d_find_list(pages, page, 0)
        for i in range(share.thread, size, share.threads):
            d_give(pages, begin, i, given, low, ranks)


PUSH = k_push_small, k_push_large
