"""PageRank over pages."""

from __future__ import annotations

from dynstore.gts.cpu.pages import d_find_list, d_num_slots, d_open_pages, d_read_neighbor, d_vertex_of
from dynstore.host_compiler import njit

__all__ = ["PUSH"]


@njit(cache=True, nogil=True)
def k_push_shares(words, first, count, lanes, starts, ranges, layout, shares, low, ranks):
    """Add each vertex's share to the ranks of its neighbours.

    ``shares``: from the first vertex of the pages on; ``ranks``: from vertex ``low`` on, perhaps not to the last one.
    """
    pages = d_open_pages(words, first, starts, ranges, layout)
    base = d_vertex_of(pages, 0, 0)
    for page in range(count):
        for slot in range(d_num_slots(pages, page)):
            given = shares[d_vertex_of(pages, page, slot) - base]
            begin, size = d_find_list(pages, page, slot)
            for i in range(size):
                place = d_read_neighbor(pages, begin, i)[1] - low
                if 0 <= place < ranks.shape[0]:
                    ranks[place] += given


PUSH = k_push_shares, k_push_shares
