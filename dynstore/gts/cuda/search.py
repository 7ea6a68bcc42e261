"""Breadth-first search over pages; appendix B.1 of the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

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

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = ["SEARCH", "SEARCH_CHUNK", "Search"]


class Search(NamedTuple):
    """Where a level of a search writes. ``levels`` and ``parents`` are those of the vertices from ``low`` on."""

    next_pages: Array
    level: Any
    low: Any
    levels: Array
    parents: Array


@device
def d_visit(pages, begin, i, vertex, search):
    """Give a neighbour that was not reached the next level, and mark its pages; keep its smallest parent.

    All who write a level write the same one. A level beyond the next is that of a vertex that was not reached.
    """
    pid, other = d_read_neighbor(pages, begin, i)
    place = other - search.low
    if 0 <= place < search.levels.shape[0]:
        reached = search.levels[place]
        if reached > search.level + 1:
            search.levels[place] = search.level + 1
            d_mark_pages(search.next_pages, pages, pid)
        if search.parents.shape[0] > 0 and reached > search.level:
            cuda.atomic.min(search.parents, place, vertex)


@kernel
def k_search_small(
    words, first, count, lanes, starts, ranges, layout, next_pages, level, levels, parents
):  # fmt: skip
    """``lanes`` threads a vertex of this level visit its neighbours. Atomics: see :func:`d_visit`."""
    pages, share = d_open_pages(words, first, starts, ranges, layout), d_share_pages(count, lanes)
    search = Search(next_pages, level, 0, levels, parents)
    for page in range(share.page, count, share.step):
        for slot in range(share.worker, d_num_slots(pages, page), share.workers):
            vertex = d_vertex_of(pages, page, slot)
            if levels[vertex] == level:
                begin, size = d_find_list(pages, page, slot)
                i = share.lane
                while i < size:
                    d_visit(pages, begin, i, vertex, search)
                    i += lanes


@kernel
def k_search_large(
    words, first, count, lanes, starts, ranges, layout, next_pages, level, levels, parents
):  # fmt: skip
    """One thread a neighbour, if the page's vertex is of this level. Atomics: see :func:`d_visit`."""
    pages, share = d_open_pages(words, first, starts, ranges, layout), d_share_pages(count, lanes)
    search = Search(next_pages, level, 0, levels, parents)
    for page in range(share.page, count, share.step):
        vertex = d_vertex_of(pages, page, 0)
        if levels[vertex] == level:
            begin, size = d_find_list(pages, page, 0)
            for i in range(share.thread, size, share.threads):
                d_visit(pages, begin, i, vertex, search)


@kernel
def k_search_chunk_small(
    words, first, count, lanes, starts, ranges, layout, known, next_pages, level, low, levels, parents
):
    """As :func:`k_search_small`, for the vertices from ``low`` on; ``known``: levels of the vertices of these pages."""
    pages, share = d_open_pages(words, first, starts, ranges, layout), d_share_pages(count, lanes)
    search = Search(next_pages, level, low, levels, parents)
    base = d_vertex_of(pages, 0, 0)
    for page in range(share.page, count, share.step):
        for slot in range(share.worker, d_num_slots(pages, page), share.workers):
            vertex = d_vertex_of(pages, page, slot)
            if known[vertex - base] == level:
                begin, size = d_find_list(pages, page, slot)
                i = share.lane
                while i < size:
                    d_visit(pages, begin, i, vertex, search)
                    i += lanes


@kernel
def k_search_chunk_large(
    words, first, count, lanes, starts, ranges, layout, known, next_pages, level, low, levels, parents
):
    """As :func:`k_search_large`, for the vertices from ``low`` on; ``known``: levels of the vertices of these pages."""
    pages, share = d_open_pages(words, first, starts, ranges, layout), d_share_pages(count, lanes)
    search = Search(next_pages, level, low, levels, parents)
    base = d_vertex_of(pages, 0, 0)
    for page in range(share.page, count, share.step):
        vertex = d_vertex_of(pages, page, 0)
        if known[vertex - base] == level:
            begin, size = d_find_list(pages, page, 0)
            for i in range(share.thread, size, share.threads):
                d_visit(pages, begin, i, vertex, search)


SEARCH = k_search_small, k_search_large
SEARCH_CHUNK = k_search_chunk_small, k_search_chunk_large
