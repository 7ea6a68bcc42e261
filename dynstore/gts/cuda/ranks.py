"""PageRank over pages; appendix B.2 of the paper."""

from __future__ import annotations

from dynstore.cuda.compiler import cuda, kernel
from dynstore.gts.cuda.pages import (
    d_find_list,
    d_num_slots,
    d_open_pages,
    d_read_neighbor,
    d_share_pages,
    d_vertex_of,
)

__all__ = ["PUSH"]


@kernel
def k_push_small(words, first, count, lanes, starts, ranges, layout, shares, ranks):
    """``lanes`` threads add a vertex's share to the ranks of its neighbours (atomic add).

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
                cuda.atomic.add(ranks, d_read_neighbor(pages, begin, i)[1], given)
                i += lanes


@kernel
def k_push_large(words, first, count, lanes, starts, ranges, layout, shares, ranks):
    """One thread a neighbour, as :func:`k_push_small`; a share is of the whole degree, not of this page's part."""
    pages, share = d_open_pages(words, first, starts, ranges, layout), d_share_pages(count, lanes)
    base = d_vertex_of(pages, 0, 0)
    for page in range(share.page, count, share.step):
        given = shares[d_vertex_of(pages, page, 0) - base]
        begin, size = d_find_list(pages, page, 0)
        for i in range(share.thread, size, share.threads):
            cuda.atomic.add(ranks, d_read_neighbor(pages, begin, i)[1], given)


PUSH = k_push_small, k_push_large
