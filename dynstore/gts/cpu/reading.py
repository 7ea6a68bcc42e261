"""Reading pages back into rows."""

from __future__ import annotations

from dynstore.gts.cpu.pages import d_find_list, d_num_slots, d_open_pages, d_read_neighbor, d_read_weight, d_vertex_of
from dynstore.host_compiler import njit

__all__ = ["k_read_pages"]


@njit(cache=True, nogil=True)
def k_read_pages(words, count, starts, ranges, layout, places, indices, weights):
    """Write all neighbours, and weights unless ``weights`` is empty; ``places``: each row's next place."""
    pages = d_open_pages(words, 0, starts, ranges, layout)
    weighted = weights.shape[0] > 0
    for page in range(count):
        for slot in range(d_num_slots(pages, page)):
            vertex = d_vertex_of(pages, page, slot)
            begin, size = d_find_list(pages, page, slot)
            place = places[vertex]
            places[vertex] += size
            for i in range(size):
                indices[place + i] = d_read_neighbor(pages, begin, i)[1]
                if weighted:
                    weights[place + i] = d_read_weight(pages, begin, size, i)
