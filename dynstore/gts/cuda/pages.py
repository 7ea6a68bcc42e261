"""Reading slotted pages in kernels for CUDA; ``cpu/pages.py`` has the same for the host.

A kernel gets neighbouring pages that are all small or all large, with these parameters first:

``words``
    The units of the pages, one page after the other.
``first``, ``count``
    The id of the first page, and how many there are.
``lanes``
    How many threads work on one vertex of a small page: 32 is edge-centric, 1 vertex-centric. A power of two.
``starts``, ``ranges``, ``layout``
    The RVT, and the format of the pages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.cuda.compiler import cuda, device

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = [
    "Pages",
    "Share",
    "d_find_list",
    "d_mark_pages",
    "d_num_slots",
    "d_open_pages",
    "d_read_neighbor",
    "d_read_weight",
    "d_share_pages",
    "d_vertex_of",
    "d_walk_large",
    "d_walk_small",
]


class Pages(NamedTuple):
    """Neighbouring pages: their units, the id of the first, the RVT, and the format."""

    words: Array
    first: Any
    starts: Array
    ranges: Array
    page_units: Any
    id_units: Any
    size_units: Any
    pid_bits: Any


class Share(NamedTuple):
    """What a thread does: each ``step`` th page from ``page`` on, and there each ``workers`` th vertex from ``worker``.

    Of a vertex it has each ``lanes`` th neighbour from ``lane`` on; kernels count these in a ``while`` loop, as a
    ``range`` with a step that is not known would divide once a vertex. On a large page it has each ``threads`` th
    neighbour from ``thread`` on.
    """

    page: Any
    step: Any
    worker: Any
    workers: Any
    lane: Any
    thread: Any
    threads: Any


@device
def d_open_pages(words, first, starts, ranges, layout):
    """Return the pages that a kernel got."""
    return Pages(words, first, starts, ranges, int(layout[0]), int(layout[1]), int(layout[2]), int(layout[3]))


@device
def d_share_pages(count, lanes):
    """Return the thread's share: blocks are dealt out evenly to pages, or pages to blocks if there are more pages."""
    blocks, size = int(cuda.gridDim.x), int(cuda.blockDim.x)
    parts = max(blocks // count, 1)
    page = int(cuda.blockIdx.x) // parts
    thread = (int(cuda.blockIdx.x) - page * parts) * size + int(cuda.threadIdx.x)
    threads = parts * size
    return Share(page, blocks // parts, thread // lanes, threads // lanes, thread & (lanes - 1), thread, threads)


@device
def d_num_slots(pages, page):
    """Return the number of vertices of a small page."""
    pid = np.uint64(pages.first + page)
    return int(pages.starts[pid + np.uint64(1)]) - int(pages.starts[pid])


@device
def d_vertex_of(pages, page, slot):
    """Return a slot's vertex; VIDs are consecutive, so the RVT has it."""
    return int(pages.starts[np.uint64(pages.first + page)]) + slot


@device
def d_read_number(words, at, units):
    """Return a number, its lowest unit first; int64."""
    value = np.int64(words[np.uint64(at)])
    for k in range(1, units):
        value |= np.int64(words[np.uint64(at + k)]) << (8 * words.itemsize * k)
    return value


@device
def d_find_list(pages, page, slot):
    """Return the unit at which a slot's neighbours begin, and how many there are on this page."""
    end = (page + 1) * pages.page_units
    at = end - (slot + 1) * (pages.id_units + pages.size_units) + pages.id_units
    offset = d_read_number(pages.words, at, pages.size_units) >> (pages.words.itemsize >> 1)  # bytes / (1, 2 or 4)
    record = page * pages.page_units + offset
    return record + pages.size_units, d_read_number(pages.words, record, pages.size_units)


@device
def d_read_neighbor(pages, begin, i):
    """Return the page of neighbour ``i`` of a list, and its vertex."""
    record = d_read_number(pages.words, begin + i * pages.id_units, pages.id_units)
    pid = record & ((np.int64(1) << pages.pid_bits) - 1)
    return pid, int(pages.starts[np.uint64(pid)]) + (record >> pages.pid_bits)


@device
def d_read_weight(pages, begin, size, i):
    """Return the weight of neighbour ``i`` of a list with ``size`` neighbours, float32."""
    at = begin + size * pages.id_units + i * pages.size_units
    return np.uint32(d_read_number(pages.words, at, pages.size_units)).view(np.float32)


@device
def d_mark_pages(next_pages, pages, pid):
    """Set the bits of a vertex's page, and of its further large pages (atomic or).

    The plain read only saves atomics: while a kernel runs, bits are only set.
    """
    for each in range(pid, pid + max(int(pages.ranges[np.uint64(pid)]), 0) + 1):
        bit = np.uint32(1 << (each & 31))
        if next_pages[each >> 5] & bit == 0:
            cuda.atomic.or_(next_pages, each >> 5, bit)


@device
def d_walk_small(pages, count, lanes, chosen, visit, state):
    """``lanes`` threads a vertex go through its neighbours, if it is chosen.

    ``chosen(pages, vertex, state)`` says whether; then come ``visit(pages, begin, size, i, vertex, state)``.
    """
    share = d_share_pages(count, lanes)
    for page in range(share.page, count, share.step):
        for slot in range(share.worker, d_num_slots(pages, page), share.workers):
            vertex = d_vertex_of(pages, page, slot)
            if chosen(pages, vertex, state):
                begin, size = d_find_list(pages, page, slot)
                i = share.lane
                while i < size:
                    visit(pages, begin, size, i, vertex, state)
                    i += lanes


@device
def d_walk_large(pages, count, lanes, chosen, visit, state):
    """One thread a neighbour of the page's vertex, as :func:`d_walk_small`."""
    share = d_share_pages(count, lanes)
    for page in range(share.page, count, share.step):
        vertex = d_vertex_of(pages, page, 0)
        if chosen(pages, vertex, state):
            begin, size = d_find_list(pages, page, 0)
            for i in range(share.thread, size, share.threads):
                visit(pages, begin, size, i, vertex, state)
