"""What the insertions and deletions of a batch say about edges at each timestamp of it.

A *timestamp* is the place of a row of the batch in order of time. An insertion or a deletion is a *write*. Before its
first write an edge is as in the graph before the batch; after a write, as the last one has left it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynstore.backend import Backend
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["MOST_BITS", "History", "Neighbors", "Writes", "pieces", "row_bounds", "search", "split", "spread"]

# Two numbers of vertices are one int64.
MOST_BITS = 31
# Slots that are read at once, so that memory has a bound; on the host, caches hold that many.
MOST_SLOTS, MOST_SLOTS_ON_HOST = 1 << 24, 1 << 19


class Writes(NamedTuple):
    """The insertions and deletions of a batch, in order of time.

    Attributes
    ----------
    src, dst : array, shape (W,), int64
        Numbers of rows.
    timestamps : array, shape (W,), int64
        Ascending.
    inserts : array, shape (W,), bool
        Which are insertions.
    """

    src: Array
    dst: Array
    timestamps: Array
    inserts: Array


class Neighbors(NamedTuple):
    """The neighbours of some vertices, each at its own timestamp; sorted by the vertex's place, then by number.

    Attributes
    ----------
    owners : array, shape (N,), int64
        The place of the vertex among those that were given.
    numbers : array, shape (N,), int64
        The neighbour.
    slots : array, shape (N,), int64, or None
        The slot of the edge in the graph before the batch; -1 where the batch has inserted it. None where places were
        not asked for.
    writes : array, shape (N,), int64, or None
        The number of that insertion; -1 where there is a slot.
    """

    owners: Array
    numbers: Array
    slots: Array = None
    writes: Array = None


class History:
    """The writes of a batch by edge, and by timestamp within an edge.

    Parameters
    ----------
    backend : Backend
    writes : Writes
    num_timestamps : int
        A number above all timestamps.
    bits : int
        All numbers of vertices are below ``2**bits``; at most :data:`MOST_BITS`.
    transposed : bool
        Order the edges by destination.
    mirrored : bool
        An edge goes both ways.

    Attributes
    ----------
    keys : array, shape (E,), int64
        The edges that are written, ascending: the first number in the high bits, the second in the low ``bits``.
    first : array, shape (E,), int64
        The place of each edge's first write.
    places : array, shape (W,), int64
        The writes by edge and timestamp, ascending: the edge's place in ``keys`` times ``num_timestamps``, plus the
        timestamp.
    inserts : array, shape (W,), bool
        Which of them are insertions.
    bits, num_timestamps : int
    """

    def __init__(
        self, backend: Backend, writes: Writes, num_timestamps: int, bits: int, transposed: bool, mirrored: bool
    ) -> None:
        xp = backend.xp
        self._backend, self.bits, self.num_timestamps = backend, bits, num_timestamps
        src, dst = (writes.dst, writes.src) if transposed else (writes.src, writes.dst)
        rows = xp.arange(src.shape[0], dtype=np.int64)
        keys = src << bits | dst
        if mirrored:  # next to each other, so that timestamps still ascend; a loop may well come twice
            rows = xp.stack((rows, rows), axis=1).ravel()
            keys = xp.stack((keys, dst << bits | src), axis=1).ravel()
        keys, order = backend.kernels("dynstore.batches", "sort").sort_rows(backend, keys)
        self._rows = rows[order]
        begins = xp.ones(keys.shape[0], np.bool_)
        begins[1:] = keys[1:] != keys[:-1]
        self.first = xp.nonzero(begins)[0]
        self.keys = keys[self.first]
        groups = xp.cumsum(begins, dtype=np.int64) - 1
        self.places = groups * num_timestamps + writes.timestamps[self._rows]
        self.inserts = writes.inserts[self._rows]

    def last_writes(self) -> tuple[Array, Array, Array]:
        """Return all edges of the batch, as two arrays of numbers, and the row in the writes of each one's last."""
        ends = self._backend.empty(self.first.shape[0], np.int64)
        ends[:-1] = self.first[1:] - 1
        ends[-1:] = self._rows.shape[0] - 1
        return *split(self.keys, self.bits), self._rows[ends]

    def edges_at(self, src: Array, dst: Array, timestamps: Array, before: Array) -> Array:
        """Return which edges are there at their timestamps; ``before``: which were there before the batch."""
        if not self.keys.shape[0]:
            return before
        xp = self._backend.xp
        keys = src << self.bits | dst
        groups = xp.minimum(search(xp, self.keys, keys), self.keys.shape[0] - 1)
        latest, written = self._latest(groups, timestamps)
        return xp.where(written & (self.keys[groups] == keys), self.inserts[latest], before)

    def neighbors_at(self, slots: SlotArrays, vertices: Array, timestamps: Array, placed: bool) -> Neighbors:
        """Return the neighbours of vertices at timestamps: those in the graph before the batch, changed by its writes.

        Parameters
        ----------
        slots : SlotArrays
            The graph before the batch, in the orientation of the history.
        vertices, timestamps : array, shape (Q,), int64
        placed : bool
            Whether to find the edges' places.
        """
        parts = [
            self._neighbors_of(slots, vertices[part], timestamps[part], part.start, placed)
            for part in pieces(self._backend, slots, vertices)
        ]
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return Neighbors(*(self._backend.nothing(np.int64),) * 4)
        columns = [part[: 4 if placed else 2] for part in parts]
        return Neighbors(*(self._backend.xp.concatenate(column) for column in zip(*columns, strict=True)))

    def _neighbors_of(
        self, slots: SlotArrays, vertices: Array, timestamps: Array, first: int, placed: bool
    ) -> Neighbors:
        """Do the same for some of the vertices; ``first``: the place of the first one."""
        backend, xp, bits = self._backend, self._backend.xp, self.bits
        owners, held = _edges_of(backend, slots, vertices)
        numbers = slots.dst[held].astype(np.int64)
        keys = owners << bits | numbers
        changed, edges, latest = self._written_at(vertices, timestamps)
        if not changed.shape[0]:
            fresh = xp.full(held.shape[0], -1, np.int64) if placed else None
            return Neighbors(owners + first, numbers, held if placed else None, fresh)
        changed_keys = changed << bits | split(self.keys[edges], bits)[1]
        kept = xp.ones(keys.shape[0], np.bool_)
        if keys.shape[0]:
            found = xp.minimum(search(xp, keys, changed_keys), keys.shape[0] - 1)
            kept[found[keys[found] == changed_keys]] = False
        keys, there = keys[kept], self.inserts[latest]
        new_keys = changed_keys[there]
        places = search(xp, keys, new_keys) + xp.arange(new_keys.shape[0])
        old = xp.ones(keys.shape[0] + new_keys.shape[0], np.bool_)
        old[places] = False
        merged = backend.empty(old.shape[0], np.int64)
        merged[old], merged[places] = keys, new_keys
        owners, numbers = split(merged, bits)
        owners += first
        if not placed:
            return Neighbors(owners, numbers)
        merged_slots, merged_writes = (xp.full(old.shape[0], -1, np.int64) for _ in range(2))
        merged_slots[old], merged_writes[places] = held[kept], self._rows[latest[there]]
        return Neighbors(owners, numbers, merged_slots, merged_writes)

    def _latest(self, groups: Array, timestamps: Array) -> tuple[Array, Array]:
        """Return the place of the last write of each edge before a timestamp, and whether there is one."""
        xp = self._backend.xp
        latest = search(xp, self.places, groups * self.num_timestamps + timestamps) - 1
        return xp.maximum(latest, 0), latest >= self.first[groups]

    def _written_at(self, vertices: Array, timestamps: Array) -> tuple[Array, Array, Array]:
        """Return the edges of vertices that have a write before a timestamp.

        Returns
        -------
        owners, edges, latest : array, int64
            The place of the vertex, the edge, and the place of its last write; sorted.
        """
        xp = self._backend.xp
        first, behind = (search(xp, self.keys, vertices + more << self.bits) for more in (0, 1))
        owners, edges = spread(self._backend, first, behind)
        if not owners.shape[0]:
            return owners, edges, edges
        latest, written = self._latest(edges, timestamps[owners])
        return owners[written], edges[written], latest[written]


def split(keys: Array, bits: int) -> tuple[Array, Array]:
    """Return the two numbers that a key is made of."""
    return keys >> bits, keys & ((1 << bits) - 1)


def search(xp: Any, ordered: Array, values: Array) -> Array:
    """Return how many of an ascending array are below each value; CuPy's search reads before an empty array."""
    return xp.searchsorted(ordered, values) if ordered.shape[0] else xp.zeros(values.shape[0], np.int64)


def spread(backend: Backend, starts: Array, ends: Array) -> tuple[Array, Array]:
    """List the integers of ranges one range after another.

    Parameters
    ----------
    starts, ends : array, shape (R,), int64
        ``ends`` are exclusive.

    Returns
    -------
    owners, items : array, int64
        The range of each integer, and the integer.
    """
    xp = backend.xp
    lengths = ends - starts
    filled = xp.nonzero(lengths > 0)[0]
    if not filled.shape[0]:
        return filled, filled
    starts, lengths = starts[filled], lengths[filled]
    behind = xp.cumsum(lengths)
    total, begins = int(behind[-1]), behind[:-1]
    owners, items = backend.zeros(total, np.int64), xp.ones(total, np.int64)  # as differences, which are summed
    owners[:1], items[:1] = filled[:1], starts[:1]
    owners[begins] = filled[1:] - filled[:-1]
    items[begins] = starts[1:] - starts[:-1] - lengths[:-1] + 1
    return xp.cumsum(owners), xp.cumsum(items)


def pieces(backend: Backend, slots: SlotArrays, vertices: Array, most: int = 0) -> Iterator[slice]:
    """Cut vertices into runs whose rows have about ``most`` slots, or as many as are read at once."""
    if not vertices.shape[0]:
        return
    most = most or (MOST_SLOTS if backend.on_gpu else MOST_SLOTS_ON_HOST)
    starts, ends = row_bounds(backend, slots, vertices)
    behind = backend.xp.cumsum(ends - starts)
    total, first = int(behind[-1]), 0
    bounds = backend.to_host(search(backend.xp, behind, backend.xp.arange(most, total, most))).tolist()
    for last in [*bounds, vertices.shape[0]]:
        if last > first:
            yield slice(first, last)
            first = last


def row_bounds(backend: Backend, slots: SlotArrays, vertices: Array) -> tuple[Array, Array]:
    """Return where the rows of vertices begin and end, int64; rows of unknown vertices are empty."""
    xp, last = backend.xp, slots.num_vertices
    starts, ends = (slots.offsets[xp.minimum(vertices + more, last)].astype(np.int64) for more in (0, 1))
    return starts, ends


def _edges_of(backend: Backend, slots: SlotArrays, vertices: Array) -> tuple[Array, Array]:
    """Return the slots of the edges of vertices, and the place of each one's vertex; unknown vertices have none."""
    owners, places = spread(backend, *row_bounds(backend, slots, vertices))
    if not places.shape[0]:
        return owners, places
    octets = slots.valid.view(np.uint8)[places >> 3]
    octets >>= (places & 7).astype(np.uint8)
    octets &= np.uint8(1)
    held = octets.view(np.bool_)
    return owners[held], places[held]
