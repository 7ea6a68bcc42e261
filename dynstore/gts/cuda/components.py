"""Weakly connected components over pages: union-find in one pass."""

from __future__ import annotations

from dynstore.algorithms.components.cuda.union_find import d_unite, flatten_trees
from dynstore.cuda.compiler import kernel
from dynstore.gts.cuda.pages import (
    d_find_list,
    d_num_slots,
    d_open_pages,
    d_read_neighbor,
    d_share_pages,
    d_vertex_of,
)

__all__ = ["UNITE", "flatten_trees"]


@kernel
def k_unite_small(words, first, count, lanes, starts, ranges, layout, parents):
    """``lanes`` threads unite a vertex with its neighbours; atomics: see ``d_unite``."""
    pages, share = d_open_pages(words, first, starts, ranges, layout), d_share_pages(count, lanes)
    for page in range(share.page, count, share.step):
        for slot in range(share.worker, d_num_slots(pages, page), share.workers):
            begin, size = d_find_list(pages, page, slot)
            i = share.lane
            while i < size:
                d_unite(parents, d_vertex_of(pages, page, slot), d_read_neighbor(pages, begin, i)[1])
                i += lanes


@kernel
def k_unite_large(words, first, count, lanes, starts, ranges, layout, parents):
    """One thread a neighbour, as :func:`k_unite_small`."""
    pages, share = d_open_pages(words, first, starts, ranges, layout), d_share_pages(count, lanes)
    for page in range(share.page, count, share.step):
        begin, size = d_find_list(pages, page, 0)
        for i in range(share.thread, size, share.threads):
            d_unite(parents, d_vertex_of(pages, page, 0), d_read_neighbor(pages, begin, i)[1])


UNITE = k_unite_small, k_unite_large
