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

__all__ = ["SEARCH", "SEARCH_CHUNK"]


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


@njit(cache=True, nogil=True)
def k_search_chunk(words, first, count, lanes, starts, ranges, layout, known, next_pages, level, low, levels, parents):
    """As :func:`k_search_pages`, for the vertices from ``low`` on; ``known``: levels of the vertices of these pages."""
    pages = d_open_pages(words, first, starts, ranges, layout)
    base = d_vertex_of(pages, 0, 0)
    for page in range(count):
        for slot in range(d_num_slots(pages, page)):
            vertex = d_vertex_of(pages, page, slot)
            if known[vertex - base] != level:
                continue
            begin, size = d_find_list(pages, page, slot)
            for i in range(size):
                pid, other = d_read_neighbor(pages, begin, i)
                place = other - low
                if not 0 <= place < levels.shape[0]:
                    continue
                if levels[place] > level + 1:
                    levels[place] = level + 1
                    d_mark_pages(next_pages, pages, pid)
                if parents.shape[0] > 0 and levels[place] == level + 1 and vertex < parents[place]:
                    parents[place] = vertex


SEARCH = k_search_pages, k_search_pages
SEARCH_CHUNK = k_search_chunk, k_search_chunk
