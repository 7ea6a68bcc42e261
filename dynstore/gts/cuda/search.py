"""Breadth-first search over pages; appendix B.1 of the paper."""

from __future__ import annotations

from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.gts.cuda.pages import (
    d_find_list,
    d_mark_pages,
    d_num_slots,
    d_open_pages,
    d_read_neighbor,
    d_share_pages,
    d_vertex_of,
)

__all__ = ["SEARCH"]


@device
def d_visit(pages, begin, i, next_pages, level, levels, parents, vertex):
    """Give a neighbour that was not reached the next level, and mark its pages; keep its smallest parent.

    All who write a level write the same one. A level beyond the next is that of a vertex that was not reached.
    """
    pid, other = d_read_neighbor(pages, begin, i)
    reached = levels[other]
    if reached > level + 1:
        levels[other] = level + 1
        d_mark_pages(next_pages, pages, pid)
    if parents.shape[0] > 0 and reached > level:
        cuda.atomic.min(parents, other, vertex)


@kernel
def k_search_small(
    words, first, count, lanes, starts, ranges, layout, next_pages, level, levels, parents
):  # fmt: skip
    """``lanes`` threads a vertex of this level visit its neighbours. Atomics: see :func:`d_visit`."""
    pages, share = d_open_pages(words, first, starts, ranges, layout), d_share_pages(count, lanes)
    for page in range(share.page, count, share.step):
        for slot in range(share.worker, d_num_slots(pages, page), share.workers):
            vertex = d_vertex_of(pages, page, slot)
            if levels[vertex] == level:
                begin, size = d_find_list(pages, page, slot)
                i = share.lane
                while i < size:
                    d_visit(pages, begin, i, next_pages, level, levels, parents, vertex)
                    i += lanes


@kernel
def k_search_large(
    words, first, count, lanes, starts, ranges, layout, next_pages, level, levels, parents
):  # fmt: skip
    """One thread a neighbour, if the page's vertex is of this level. Atomics: see :func:`d_visit`."""
    pages, share = d_open_pages(words, first, starts, ranges, layout), d_share_pages(count, lanes)
    for page in range(share.page, count, share.step):
        vertex = d_vertex_of(pages, page, 0)
        if levels[vertex] == level:
            begin, size = d_find_list(pages, page, 0)
            for i in range(share.thread, size, share.threads):
                d_visit(pages, begin, i, next_pages, level, levels, parents, vertex)


SEARCH = k_search_small, k_search_large
