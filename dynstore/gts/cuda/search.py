"""Breadth-first search over pages; appendix B.1 of the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.gts.cuda.pages import (
    d_mark_pages,
    d_open_pages,
    d_read_neighbor,
    d_vertex_of,
    d_walk_large,
    d_walk_small,
)

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = ["SEARCH", "SEARCH_CHUNK", "LevelSearch"]


class LevelSearch(NamedTuple):
    """Where a level of a search writes. ``levels`` and ``parents`` are those of the vertices from ``low`` on."""

    next_pages: Array
    level: Any
    low: Any
    levels: Array
    parents: Array


@device
def d_visit(pages, begin, size, i, vertex, search):
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


@device
def d_is_of_level(pages, vertex, search):
    """Choose the vertices of the level."""
    return search.levels[vertex] == search.level


@kernel
def k_search_small(
    words, first, count, lanes, starts, ranges, layout, next_pages, level, levels, parents
):  # fmt: skip
    """``lanes`` threads a vertex of this level visit its neighbours. Atomics: see :func:`d_visit`."""
    pages, search = (
        d_open_pages(words, first, starts, ranges, layout),
        LevelSearch(next_pages, level, 0, levels, parents),
    )
    d_walk_small(pages, count, lanes, d_is_of_level, d_visit, search)


@kernel
def k_search_large(
    words, first, count, lanes, starts, ranges, layout, next_pages, level, levels, parents
):  # fmt: skip
    """One thread a neighbour, if the page's vertex is of this level. Atomics: see :func:`d_visit`."""
    pages, search = (
        d_open_pages(words, first, starts, ranges, layout),
        LevelSearch(next_pages, level, 0, levels, parents),
    )
    d_walk_large(pages, count, lanes, d_is_of_level, d_visit, search)


@device
def d_is_known_of_level(pages, vertex, state):
    """Choose the vertices of the level among those of the pages."""
    known, base, search = state
    return known[vertex - base] == search.level


@device
def d_visit_from_chunk(pages, begin, size, i, vertex, state):
    """Visit a neighbour, see :func:`d_visit`."""
    d_visit(pages, begin, size, i, vertex, state[2])


@kernel
def k_search_chunk_small(
    words, first, count, lanes, starts, ranges, layout, known, next_pages, level, low, levels, parents
):
    """As :func:`k_search_small`, for the vertices from ``low`` on; ``known``: levels of the vertices of these pages."""
    pages, search = (
        d_open_pages(words, first, starts, ranges, layout),
        LevelSearch(next_pages, level, low, levels, parents),
    )
    state = known, d_vertex_of(pages, 0, 0), search
    d_walk_small(pages, count, lanes, d_is_known_of_level, d_visit_from_chunk, state)


@kernel
def k_search_chunk_large(
    words, first, count, lanes, starts, ranges, layout, known, next_pages, level, low, levels, parents
):
    """As :func:`k_search_large`, for the vertices from ``low`` on; ``known``: levels of the vertices of these pages."""
    pages, search = (
        d_open_pages(words, first, starts, ranges, layout),
        LevelSearch(next_pages, level, low, levels, parents),
    )
    state = known, d_vertex_of(pages, 0, 0), search
    d_walk_large(pages, count, lanes, d_is_known_of_level, d_visit_from_chunk, state)


SEARCH = k_search_small, k_search_large
SEARCH_CHUNK = k_search_chunk_small, k_search_chunk_large
