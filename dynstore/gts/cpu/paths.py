"""Shortest paths over pages."""

from __future__ import annotations

from dynstore.gts.cpu.pages import (
    d_find_list,
    d_mark_pages,
    d_num_slots,
    d_open_pages,
    d_read_neighbor,
    d_read_weight,
    d_vertex_of,
)
from dynstore.host_compiler import njit

__all__ = ["FIND_PARENTS", "RELAX"]


@njit(cache=True, nogil=True)
def k_relax_pages(words, first, count, lanes, starts, ranges, layout, next_pages, turn, distances, turns, limit):
    """Relax the edges of vertices whose distances the last round has lowered; mark the pages for the next round."""
    pages = d_open_pages(words, first, starts, ranges, layout)
    for page in range(count):
        for slot in range(d_num_slots(pages, page)):
            vertex = d_vertex_of(pages, page, slot)
            if turns[vertex] != turn:
                continue
            begin, size = d_find_list(pages, page, slot)
            for i in range(size):
                pid, other = d_read_neighbor(pages, begin, i)
                distance = distances[vertex] + d_read_weight(pages, begin, size, i)
                if distance < limit and distance < distances[other]:
                    distances[other] = distance
                    turns[other] = turn + 1
                    d_mark_pages(next_pages, pages, pid)


@njit(cache=True, nogil=True)
def k_find_parents(words, first, count, lanes, starts, ranges, layout, stage, distances, stages, parents):
    """Find the smallest parents; in stage 0 those that are nearer, later those over edges of weight 0."""
    pages = d_open_pages(words, first, starts, ranges, layout)
    for page in range(count):
        for slot in range(d_num_slots(pages, page)):
            vertex = d_vertex_of(pages, page, slot)
            begin, size = d_find_list(pages, page, slot)
            for i in range(size):
                _, other = d_read_neighbor(pages, begin, i)
                near = distances[vertex]
                if near + d_read_weight(pages, begin, size, i) != distances[other] or stages[other] < stage:
                    continue
                if near < distances[other] if stage == 0 else stages[vertex] < stage:
                    stages[other] = stage
                    if vertex < parents[other]:
                        parents[other] = vertex


RELAX = k_relax_pages, k_relax_pages
FIND_PARENTS = k_find_parents, k_find_parents
