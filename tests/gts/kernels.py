"""Kernels as users write them: a degree distribution (PageRank-like), and a k-core (BFS-like)."""

from __future__ import annotations

from typing import Any

from dynstore.cuda.compiler import cuda
from dynstore.gts.cpu import pages as on_host
from dynstore.gts.cuda.pages import (
    d_find_list,
    d_mark_pages,
    d_num_slots,
    d_open_pages,
    d_read_neighbor,
    d_share_pages,
    d_vertex_of,
)


def count_on_host(words, first, count, lanes, starts, ranges, layout, shown, degrees):
    """Add the degree of each vertex, and what ``shown`` has for it, once a page."""
    pages = on_host.d_open_pages(words, first, starts, ranges, layout)
    base = starts[first]
    for page in range(count):
        for slot in range(on_host.d_num_slots(pages, page)):
            vertex = on_host.d_vertex_of(pages, page, slot)
            _, size = on_host.d_find_list(pages, page, slot)
            degrees[vertex] += size + shown[vertex - base]


def peel_on_host(words, first, count, lanes, starts, ranges, layout, next_pages, level, degrees, turns, k):
    """Let vertices leave the k-core in turns."""
    pages = on_host.d_open_pages(words, first, starts, ranges, layout)
    for page in range(count):
        for slot in range(on_host.d_num_slots(pages, page)):
            if turns[on_host.d_vertex_of(pages, page, slot)] != level:
                continue
            begin, size = on_host.d_find_list(pages, page, slot)
            for i in range(size):
                pid, other = on_host.d_read_neighbor(pages, begin, i)
                degrees[other] -= 1
                if degrees[other] == k - 1 and turns[other] < 0:
                    turns[other] = level + 1
                    on_host.d_mark_pages(next_pages, pages, pid)


def count_small(words, first, count, lanes, starts, ranges, layout, shown, degrees):
    pages = d_open_pages(words, first, starts, ranges, layout)
    share = d_share_pages(count, lanes)
    base = d_vertex_of(pages, 0, 0)
    for page in range(share.page, count, share.step):
        for slot in range(share.worker, d_num_slots(pages, page), share.workers):
            _, size = d_find_list(pages, page, slot)
            if share.lane == 0:
                vertex = d_vertex_of(pages, page, slot)
                degrees[vertex] += size + shown[vertex - base]


def count_large(words, first, count, lanes, starts, ranges, layout, shown, degrees):
    pages = d_open_pages(words, first, starts, ranges, layout)
    share = d_share_pages(count, lanes)
    base = d_vertex_of(pages, 0, 0)
    for page in range(share.page, count, share.step):
        _, size = d_find_list(pages, page, 0)
        if share.thread == 0:
            vertex = d_vertex_of(pages, page, 0)
            cuda.atomic.add(degrees, vertex, size + shown[vertex - base])


def peel_small(words, first, count, lanes, starts, ranges, layout, next_pages, level, degrees, turns, k):
    pages = d_open_pages(words, first, starts, ranges, layout)
    share = d_share_pages(count, lanes)
    for page in range(share.page, count, share.step):
        for slot in range(share.worker, d_num_slots(pages, page), share.workers):
            if turns[d_vertex_of(pages, page, slot)] == level:
                begin, size = d_find_list(pages, page, slot)
                for i in range(share.lane, size, lanes):
                    pid, other = d_read_neighbor(pages, begin, i)
                    if cuda.atomic.sub(degrees, other, 1) == k and turns[other] < 0:
                        turns[other] = level + 1
                        d_mark_pages(next_pages, pages, pid)


def peel_large(words, first, count, lanes, starts, ranges, layout, next_pages, level, degrees, turns, k):
    pages = d_open_pages(words, first, starts, ranges, layout)
    share = d_share_pages(count, lanes)
    for page in range(share.page, count, share.step):
        if turns[d_vertex_of(pages, page, 0)] == level:
            begin, size = d_find_list(pages, page, 0)
            for i in range(share.thread, size, share.threads):
                pid, other = d_read_neighbor(pages, begin, i)
                if cuda.atomic.sub(degrees, other, 1) == k and turns[other] < 0:
                    turns[other] = level + 1
                    d_mark_pages(next_pages, pages, pid)


def kernels_of(family: str) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Return the kernels of a degree distribution and of a k-core, each for small and for large pages."""
    if family == "cpu":
        return (count_on_host, count_on_host), (peel_on_host, peel_on_host)
    return (count_small, count_large), (peel_small, peel_large)
