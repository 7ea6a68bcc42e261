"""Weakly connected components over pages: union-find in one pass."""

from __future__ import annotations

from dynstore.algorithms.components.cpu.labels import d_find_root
from dynstore.gts.cpu.pages import d_find_list, d_num_slots, d_open_pages, d_read_neighbor, d_vertex_of
from dynstore.host_compiler import njit

__all__ = ["UNITE", "flatten_trees"]


@njit(cache=True, nogil=True)
def k_unite_pages(words, first, count, lanes, starts, ranges, layout, parents):
    """Unite each vertex with its neighbours: the larger root is hooked under the smaller."""
    pages = d_open_pages(words, first, starts, ranges, layout)
    for page in range(count):
        for slot in range(d_num_slots(pages, page)):
            root = d_find_root(parents, d_vertex_of(pages, page, slot))
            begin, size = d_find_list(pages, page, slot)
            for i in range(size):
                other = d_find_root(parents, d_read_neighbor(pages, begin, i)[1])
                low, high = min(root, other), max(root, other)
                parents[high] = low
                root = low


@njit(cache=True, nogil=True)
def flatten_trees(parents):
    """Point each vertex at its root, in place; parents are smaller than their children."""
    for vertex in range(parents.shape[0]):
        parents[vertex] = parents[parents[vertex]]


UNITE = k_unite_pages, k_unite_pages
