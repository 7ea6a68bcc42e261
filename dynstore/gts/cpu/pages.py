"""Reading slotted pages in kernels for the host; ``cuda/pages.py`` has the same for CUDA."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dynstore.host_compiler import njit

__all__ = [
    "Pages",
    "d_find_list",
    "d_mark_pages",
    "d_num_slots",
    "d_open_pages",
    "d_read_neighbor",
    "d_read_weight",
    "d_vertex_of",
]


class Pages(NamedTuple):
    """Neighbouring pages: their units, the id of the first, the RVT, and the format."""

    words: np.ndarray
    first: int
    starts: np.ndarray
    ranges: np.ndarray
    page_units: int
    id_units: int
    size_units: int
    pid_bits: int


@njit
def d_open_pages(words, first, starts, ranges, layout):
    """Return the pages that a kernel got."""
    return Pages(words, first, starts, ranges, layout[0], layout[1], layout[2], layout[3])


@njit(borrows=True)
def d_num_slots(pages, page):
    """Return the number of vertices of a page; 1 for a large page."""
    pid = pages.first + page
    return 1 if pages.ranges[pid] >= 0 else pages.starts[pid + 1] - pages.starts[pid]


@njit(borrows=True)
def d_read_number(words, at, units):
    """Return a number, its lowest unit first."""
    value = np.int64(words[at])
    for k in range(1, units):
        value |= np.int64(words[at + k]) << (8 * words.itemsize * k)
    return value


@njit(borrows=True)
def d_vertex_of(pages, page, slot):
    """Return a slot's vertex; VIDs are consecutive, so the RVT has it."""
    return pages.starts[pages.first + page] + slot


@njit(borrows=True)
def d_find_list(pages, page, slot):
    """Return the unit at which a slot's neighbours begin, and how many there are on this page."""
    end = (page + 1) * pages.page_units
    at = end - (slot + 1) * (pages.id_units + pages.size_units) + pages.id_units
    offset = d_read_number(pages.words, at, pages.size_units) // pages.words.itemsize
    record = page * pages.page_units + offset
    return record + pages.size_units, d_read_number(pages.words, record, pages.size_units)


@njit(borrows=True)
def d_read_neighbor(pages, begin, i):
    """Return the page of neighbour ``i`` of a record, and its vertex."""
    record = d_read_number(pages.words, begin + i * pages.id_units, pages.id_units)
    pid = record & ((np.int64(1) << pages.pid_bits) - 1)
    return pid, pages.starts[pid] + (record >> pages.pid_bits)


@njit(borrows=True)
def d_read_weight(pages, begin, size, i):
    """Return the weight of neighbour ``i`` of a record with ``size`` neighbours, float32."""
    at = begin + size * pages.id_units + i * pages.size_units
    return np.uint32(d_read_number(pages.words, at, pages.size_units)).view(np.float32)


@njit(borrows=True)
def d_mark_pages(next_pages, pages, pid):
    """Set the bits of a vertex's page, and of its further large pages."""
    for each in range(pid, pid + max(pages.ranges[pid], 0) + 1):
        next_pages[each >> 5] |= np.uint32(1) << np.uint32(each & 31)
