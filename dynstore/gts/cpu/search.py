"""Breadth-first search over pages."""

from __future__ import annotations

from dynstore.gts.cpu.pages import (
    d_find_list,
    d_mark_pages,
    d_num_slots,
    d_open_pages,
    d_read_neighbor,
    d_vertex_of,
)
from dynstore.host_compiler import njit

__all__ = ["SEARCH"]


@njit(cache=True, nogil=True)
def k_search_pages(words, first, count, lanes, starts, ranges, layout, next_pages, level, levels, parents):
    """Give the neighbours of this level's vertices the next level, and mark their pages."""
    pages = d_open_pages(words, first, starts, ranges, layout)
    for page in range(count):
        for slot in range(d_num_slots(pages, page)):
            vertex = d_vertex_of(pages, page, slot)
            if levels[vertex] != level:
                continue
            begin, size = d_find_list(pages, page, slot)
            for i in range(size):
                pid, other = d_read_neighbor(pages, begin, i)
                if levels[other] > level + 1:
                    levels[other] = level + 1
                    d_mark_pages(next_pages, pages, pid)
                if parents.shape[0] > 0 and levels[other] == level + 1 and vertex < parents[other]:
                    parents[other] = vertex


SEARCH = k_search_pages, k_search_pages
