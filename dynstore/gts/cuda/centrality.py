"""Betweenness centrality over pages: Brandes' two passes, level by level."""

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
    d_walk_large,
    d_walk_small,
)

__all__ = ["COUNT_PATHS", "GATHER"]


@device
def d_extend(pages, begin, size, i, vertex, state):
    """Visit a neighbour as a breadth-first search does; add to its number of shortest paths (atomic add)."""
    next_pages, level, levels, paths = state
    pid, other = d_read_neighbor(pages, begin, i)
    reached = levels[other]
    if reached > level + 1:
        levels[other] = level + 1
        d_mark_pages(next_pages, pages, pid)
    if reached > level:
        cuda.atomic.add(paths, other, paths[vertex])


@device
def d_is_of_level(pages, vertex, state):
    """Choose the vertices of the level."""
    _, level, levels, _ = state
    return levels[vertex] == level


@kernel
def k_count_paths_small(
    words, first, count, lanes, starts, ranges, layout, next_pages, level, levels, paths
):  # fmt: skip
    """``lanes`` threads a vertex of this level. Atomics: see :func:`d_extend`."""
    pages, state = d_open_pages(words, first, starts, ranges, layout), (next_pages, level, levels, paths)
    d_walk_small(pages, count, lanes, d_is_of_level, d_extend, state)


@kernel
def k_count_paths_large(
    words, first, count, lanes, starts, ranges, layout, next_pages, level, levels, paths
):  # fmt: skip
    """One thread a neighbour, if the page's vertex is of this level. Atomics: see :func:`d_extend`."""
    pages, state = d_open_pages(words, first, starts, ranges, layout), (next_pages, level, levels, paths)
    d_walk_large(pages, count, lanes, d_is_of_level, d_extend, state)


@device
def d_take(pages, begin, i, level, levels, paths, dependencies):
    """Return what a neighbour one level on gives each path that leads to it, 0 for other neighbours."""
    other = d_read_neighbor(pages, begin, i)[1]
    return (1.0 + dependencies[other]) / paths[other] if levels[other] == level + 1 else 0.0


@kernel
def k_gather_small(
    words, first, count, lanes, starts, ranges, layout, level, levels, paths, dependencies
):  # fmt: skip
    """``lanes`` threads sum the dependencies of a vertex of this level (an atomic add each)."""
    pages, share = d_open_pages(words, first, starts, ranges, layout), d_share_pages(count, lanes)
    for page in range(share.page, count, share.step):
        for slot in range(share.worker, d_num_slots(pages, page), share.workers):
            vertex = d_vertex_of(pages, page, slot)
            if levels[vertex] == level:
                begin, size = d_find_list(pages, page, slot)
                total = 0.0
                i = share.lane
                while i < size:
                    total += d_take(pages, begin, i, level, levels, paths, dependencies)
                    i += lanes
                if total != 0.0:
                    cuda.atomic.add(dependencies, vertex, total * paths[vertex])


@kernel
def k_gather_large(
    words, first, count, lanes, starts, ranges, layout, level, levels, paths, dependencies
):  # fmt: skip
    """All threads of the page sum the dependencies of its vertex (an atomic add each)."""
    pages, share = d_open_pages(words, first, starts, ranges, layout), d_share_pages(count, lanes)
    for page in range(share.page, count, share.step):
        vertex = d_vertex_of(pages, page, 0)
        if levels[vertex] == level:
            begin, size = d_find_list(pages, page, 0)
            total = 0.0
            for i in range(share.thread, size, share.threads):
                total += d_take(pages, begin, i, level, levels, paths, dependencies)
            if total != 0.0:
                cuda.atomic.add(dependencies, vertex, total * paths[vertex])


COUNT_PATHS = k_count_paths_small, k_count_paths_large
GATHER = k_gather_small, k_gather_large
