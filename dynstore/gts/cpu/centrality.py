"""Betweenness centrality over pages: Brandes' two passes, level by level."""

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

__all__ = ["COUNT_PATHS", "GATHER"]


@njit(cache=True, nogil=True)
def k_count_paths(words, first, count, lanes, starts, ranges, layout, next_pages, level, levels, paths):
    """Search one level on, and count the shortest paths to each vertex."""
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
                if levels[other] == level + 1:
                    paths[other] += paths[vertex]


@njit(cache=True, nogil=True)
def k_gather_dependencies(words, first, count, lanes, starts, ranges, layout, level, levels, paths, dependencies):
    """Sum the dependencies of this level's vertices over their neighbours one level on."""
    pages = d_open_pages(words, first, starts, ranges, layout)
    for page in range(count):
        for slot in range(d_num_slots(pages, page)):
            vertex = d_vertex_of(pages, page, slot)
            if levels[vertex] != level:
                continue
            begin, size = d_find_list(pages, page, slot)
            for i in range(size):
                _, other = d_read_neighbor(pages, begin, i)
                if levels[other] == level + 1:
                    dependencies[vertex] += (1.0 + dependencies[other]) / paths[other] * paths[vertex]


COUNT_PATHS = k_count_paths, k_count_paths
GATHER = k_gather_dependencies, k_gather_dependencies
