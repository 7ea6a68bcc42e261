"""The vertices within some hops of others, each search at its own timestamp: on the host one after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.host_compiler import njit

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.operations.history import History
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["find_hops"]

# What a search has found is sorted if it is less than one in so many of all numbers; else these are looked through.
SORTED_SHARE = 64


@njit(cache=True, borrows=True)
def _latest(places, first, edge, key):
    """Return the place of an edge's last write before a timestamp, -1 if there is none; ``key``: of both."""
    latest = np.searchsorted(places[first[edge] :], key) + first[edge] - 1
    return latest if latest >= first[edge] else -1


@njit(cache=True)
def _search(
    offsets, dst, valid, keys, first, places, inserts, written, bits, num_timestamps, vertices, timestamps, limits
):
    """Search from each vertex; return the vertices found, their distances, and where those of each search end.

    Those of a search ascend. ``written``: whether a vertex has a written edge, for all numbers.
    """
    num_vertices, mask = offsets.shape[0] - 1, (np.int64(1) << bits) - 1
    seen, queue = np.full(written.shape[0], -1, np.int32), np.empty(written.shape[0], np.int64)
    hops = np.empty(written.shape[0], np.int32)
    ends, numbers, distances = np.empty(vertices.shape[0], np.int64), np.empty(1024, np.int32), np.empty(1024, np.int32)
    total = 0
    for search in range(vertices.shape[0]):
        queue[0], seen[vertices[search]], hops[vertices[search]] = vertices[search], search, 0
        head, tail, hop, timestamp = 0, 1, 0, timestamps[search]
        while head < tail and hop < limits[search]:
            end = tail
            hop += 1
            while head < end:
                vertex = queue[head]
                head += 1
                edge, last_edge = np.int64(0), np.int64(0)
                if written[vertex]:
                    edge = np.searchsorted(keys, vertex << bits)
                    last_edge = np.searchsorted(keys, (vertex + 1) << bits)
                begin, behind = np.int64(0), np.int64(0)
                if vertex < num_vertices:
                    begin, behind = np.int64(offsets[vertex]), np.int64(offsets[vertex + 1])
                written_edge = edge
                for slot in range(begin, behind):
                    other = np.int64(dst[slot])
                    if seen[other] == search:  # before the test for a gap, which is hard to predict
                        continue
                    if not (valid[slot >> 5] >> np.uint32(slot & 31)) & np.uint32(1):
                        continue
                    while written_edge < last_edge and (keys[written_edge] & mask) < other:
                        written_edge += 1
                    is_written = written_edge < last_edge and (keys[written_edge] & mask) == other
                    if (
                        is_written
                        and _latest(places, first, written_edge, written_edge * num_timestamps + timestamp) >= 0
                    ):
                        continue  # it is as its last write says
                    seen[other], hops[other], queue[tail] = search, hop, other
                    tail += 1
                for changed in range(edge, last_edge):
                    other = keys[changed] & mask
                    if seen[other] != search:
                        latest = _latest(places, first, changed, changed * num_timestamps + timestamp)
                        if latest >= 0 and inserts[latest]:
                            seen[other], hops[other], queue[tail] = search, hop, other
                            tail += 1
        room = total + tail
        if room > numbers.shape[0]:
            numbers = np.concatenate((numbers, np.empty(room, np.int32)))
            distances = np.concatenate((distances, np.empty(room, np.int32)))
        if tail * SORTED_SHARE < seen.shape[0]:
            queue[:tail].sort()
            for place in range(tail):
                numbers[total], distances[total] = queue[place], hops[queue[place]]
                total += 1
        else:
            for vertex in range(seen.shape[0]):
                if seen[vertex] == search:
                    numbers[total], distances[total] = vertex, hops[vertex]
                    total += 1
        ends[search] = total
    return numbers[:total], distances[:total], ends


def find_hops(
    backend: Backend,
    history: History,
    slots: SlotArrays,
    rows: Array,
    vertices: Array,
    timestamps: Array,
    limits: Array,
) -> tuple[Array, Array, Array]:
    """Search from each vertex along its out-edges; see :func:`dynstore.operations.cuda.find_hops`."""
    mask = (1 << history.bits) - 1
    highest = max(slots.num_vertices, int(vertices.max()))
    if history.keys.shape[0]:
        highest = max(highest, int(history.keys[-1]) >> history.bits, int((history.keys & mask).max()))
    written = backend.zeros(highest + 1, np.bool_)
    written[history.keys >> history.bits] = True
    numbers, distances, ends = _search(
        slots.offsets, slots.dst, slots.valid, history.keys, history.first, history.places, history.inserts, written,
        history.bits, history.num_timestamps, vertices, timestamps, limits,
    )  # fmt: skip
    return np.repeat(rows, np.diff(ends, prepend=0)), numbers, distances
