"""Writing slotted pages; this is done on the host, whatever the device that reads them."""

from __future__ import annotations

from dynstore.host_compiler import njit

__all__ = ["k_assign_pages", "k_write_pages"]


@njit(cache=True, nogil=True)
def k_assign_pages(offsets, sizes, starts, ranges, records):
    """Give each vertex its record id, in order; return the number of pages.

    ``sizes``: page, vertex and entry in bytes, slots of a small page, neighbours of a large page, bits of a page id.
    With ``starts``, ``ranges`` and ``records`` of length 0 the pages are only counted. A small page ends where the next
    vertex does not fit.
    """
    page_bytes, vertex_bytes, entry_bytes, max_slots, capacity, pid_bits = sizes
    writes = starts.shape[0] > 0
    pages, used, slots = 0, 0, 0
    is_open = False
    for vertex in range(offsets.shape[0] - 1):
        degree = offsets[vertex + 1] - offsets[vertex]
        size = vertex_bytes + degree * entry_bytes
        if size > page_bytes:
            parts = (degree + capacity - 1) // capacity
            if writes:
                records[vertex] = pages
                for k in range(parts):
                    starts[pages + k] = vertex
                    ranges[pages + k] = parts - 1 - k
            pages += parts
            is_open = False
            continue
        if not is_open or used + size > page_bytes or slots == max_slots:
            if writes:
                starts[pages] = vertex
                ranges[pages] = -1
            pages += 1
            used, slots, is_open = 0, 0, True
        if writes:
            records[vertex] = (pages - 1) | (slots << pid_bits)
        used += size
        slots += 1
    return pages


@njit(cache=True, nogil=True)
def k_write_pages(first, last, pages, layout, capacity, starts, ranges, records, offsets, indices, weight_bits):
    """Write rows into the pages ``first`` to ``last`` (exclusive) of ``pages``, shape (pages, units), which are zero.

    ``records``: the record id of each vertex. ``weight_bits``: the weights as uint32; empty for pages without weights.
    """
    page_units, id_units, size_units, pid_bits = layout
    bits = 8 * pages.itemsize
    first_page = (1 << pid_bits) - 1
    slot_units = id_units + size_units
    weighted = weight_bits.shape[0] > 0
    for pid in range(first, last):
        page = pages[pid]
        low = starts[pid]
        high = low + 1 if ranges[pid] >= 0 else starts[pid + 1]
        at = 0
        for vertex in range(low, high):
            begin, end = offsets[vertex], offsets[vertex + 1]
            if ranges[pid] >= 0:
                begin += (pid - (records[vertex] & first_page)) * capacity
                end = min(end, begin + capacity)
            slot = page_units - (vertex - low + 1) * slot_units
            d_write(page, slot, id_units, bits, vertex)
            d_write(page, slot + id_units, size_units, bits, at * pages.itemsize)
            d_write(page, at, size_units, bits, end - begin)
            at += size_units
            for edge in range(begin, end):
                d_write(page, at, id_units, bits, records[indices[edge]])
                at += id_units
            if weighted:
                for edge in range(begin, end):
                    d_write(page, at, size_units, bits, weight_bits[edge])
                    at += size_units


@njit(borrows=True)
def d_write(page, at, units, bits, value):
    """Write a number, its lowest unit first."""
    page[at] = value & ((1 << bits) - 1)
    for k in range(1, units):
        page[at + k] = (value >> (bits * k)) & ((1 << bits) - 1)
