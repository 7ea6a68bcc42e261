"""The arrays of a leveled packed memory array: one allocation a level, and the table by which kernels find them.

Segments have 32 slots. Level 0 is one segment, the head; level x >= 1 has 2**(x - 1). Segment ``p`` in physical order
is number ``p - 2**(x - 1)`` of level ``x = bit_length(p)``; this never changes. Its place in the sorted order follows
from the number of levels, see ``docs/internals/lpma.md``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dynstore.stores.table.slots import OFFSET_SLACK

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = [
    "DST",
    "END",
    "FIRST_DST",
    "FIRST_SRC",
    "MAX_LEVELS",
    "MEMORY_BASE",
    "SEGMENT",
    "SRC",
    "STAMP",
    "VALID",
    "WEIGHT",
    "Levels",
]

SEGMENT = 32
# Columns of a level: a word of validity bits a segment; source, destination, weight a slot; a segment's first key (with
# the source -1 - source if the segment was never written) and the stamp of the update that last changed it.
VALID, SRC, DST, WEIGHT, FIRST_SRC, FIRST_DST, STAMP = range(7)
# Entries of the table for each column.
MAX_LEVELS = 64
# The start of a row that begins behind all slots.
END = -1
# Kernels see all memory as one array per dtype, which begins at this address.
MEMORY_BASE = 64


class _Part(NamedTuple):
    """One column of one level: its place, its bytes, and its items per segment."""

    address: int
    item_size: int
    num_items: int
    per_segment: int


@dataclass(frozen=True, slots=True)
class Levels:
    """Edges in segments of several levels, and the start of each row.

    Attributes
    ----------
    blocks : tuple of arrays
        The memory of each level.
    addresses : array, shape (7, 64), int64, on the host
        For each column and level the index, in items from ``MEMORY_BASE``, that physical slot (or segment) 0 would have
        if the array began there.
    table : array, shape (7 * 64,), int64
        The same for the kernels.
    starts : array, shape (V + 1,), vertex dtype
        Physical slot (32 p + place) of the first slot whose source is at least v; END if there is none.
    start_buffer : array
        The array under the view ``starts``, so that V can grow without a copy.
    vertex_dtype : numpy.dtype
    weight_dtype : numpy.dtype or None
    num_edges : int
    """

    blocks: tuple[Array, ...]
    addresses: np.ndarray
    table: Array
    starts: Array
    start_buffer: Array
    vertex_dtype: np.dtype
    weight_dtype: np.dtype | None
    num_edges: int = 0

    @property
    def depth(self) -> int:
        """The number of levels besides the head."""
        return len(self.blocks) - 1

    @property
    def num_segments(self) -> int:
        return 1 << self.depth

    @property
    def num_slots(self) -> int:
        return SEGMENT << self.depth

    def growth_for(self, num_edges: int, density: float) -> int:
        """Return how many levels to append so that ``num_edges`` edges fill at most a share of ``density``."""
        growth = 0
        while num_edges > density * (self.num_slots << growth):
            growth += 1
        return growth

    @property
    def num_vertices(self) -> int:
        return int(self.starts.shape[0]) - 1

    @classmethod
    def allocate(
        cls, backend: Backend, depth: int, num_vertices: int, vertex_dtype: np.dtype, weight_dtype: np.dtype | None
    ) -> Levels:
        """Reserve levels 0 to ``depth`` without edges; first keys and slots are not written."""
        starts = backend.empty(num_vertices + 1, vertex_dtype)
        starts.fill(END)
        if num_vertices:
            starts[0] = 0
        addresses = np.zeros((7, MAX_LEVELS), dtype=np.int64)
        none = cls((), addresses, backend.empty(0, np.int64), starts, starts, vertex_dtype, weight_dtype)
        return none.with_depth(backend, depth)

    def with_depth(self, backend: Backend, depth: int) -> Levels:
        """Return the same levels with empty ones behind them; only the table is copied."""
        blocks, addresses = list(self.blocks), self.addresses.copy()
        for level in range(len(blocks), depth + 1):
            first = 0 if level == 0 else 1 << (level - 1)
            block = self._allocate_level(backend, max(first, 1))
            start = int(block.data.ptr if backend.on_gpu else block.ctypes.data)
            for column, part in enumerate(self._parts(start, max(first, 1))):
                item = (part.address - MEMORY_BASE) // part.item_size
                addresses[column, level] = item - first * part.per_segment
            blocks.append(block)
        table = backend.asarray(addresses.reshape(-1))
        return replace(self, blocks=tuple(blocks), addresses=addresses, table=table)

    def _allocate_level(self, backend: Backend, num_segments: int) -> Array:
        parts = self._parts(0, num_segments)
        block = backend.empty(sum(_padded(part) for part in parts), np.uint8)
        words = block[: _padded(parts[VALID])]
        words.fill(0)
        return block

    def _parts(self, start: int, num_segments: int) -> list[_Part]:
        """Lay out the columns of a level of ``num_segments`` segments behind each other, the validity words first."""
        item, weight = self.vertex_dtype.itemsize, 0 if self.weight_dtype is None else self.weight_dtype.itemsize
        shapes = [(4, 1), (item, SEGMENT), (item, SEGMENT), (weight, SEGMENT), (item, 1), (item, 1), (4, 1)]
        parts = []
        for size, per_segment in shapes:
            part = _Part(start, max(size, 1), num_segments * per_segment if size else 0, per_segment)
            parts.append(part)
            start += _padded(part)
        return parts

    def with_vertices(self, backend: Backend, num_vertices: int) -> Levels:
        """Return the same levels with rows added at the end; present rows are not written."""
        old, buffer = self.num_vertices, self.start_buffer
        if num_vertices <= old:
            return self
        if buffer.shape[0] <= num_vertices or old == 0:
            buffer = backend.empty(int((num_vertices + 1) * OFFSET_SLACK), buffer.dtype)
            buffer[: old + 1] = self.starts
            if old == 0:  # the closing entry becomes the start of row 0
                buffer[0] = 0
        buffer[old + 1 : num_vertices + 1] = END
        return replace(self, starts=buffer[: num_vertices + 1], start_buffer=buffer)

    def copy(self, backend: Backend) -> Levels:
        """Return a deep copy."""
        fresh = Levels.allocate(backend, self.depth, self.num_vertices, self.vertex_dtype, self.weight_dtype)
        for block, old in zip(fresh.blocks, self.blocks, strict=True):
            block[:] = old
        fresh.starts[:] = self.starts
        return replace(fresh, num_edges=self.num_edges)

    def in_order_slot(self, start: int) -> int:
        """Return the slot in order of a row's start; see :attr:`starts`."""
        if start == END:
            return self.num_slots
        p, place = divmod(start, SEGMENT)
        level = p.bit_length()
        segment = 0 if p == 0 else (2 * (p - (1 << (level - 1))) + 1) << (self.depth - level)
        return segment * SEGMENT + place

    def memory_usage(self) -> dict[str, int]:
        """Return bytes by part; ``index``: the segments' first keys and stamps, and the table."""
        sizes = [0] * 7
        for level in range(len(self.blocks)):
            for column, part in enumerate(self._parts(0, max(1, (1 << level) >> 1))):
                sizes[column] += _padded(part)
        return {
            "src": sizes[SRC],
            "dst": sizes[DST],
            "weights": sizes[WEIGHT],
            "valid": sizes[VALID],
            "offsets": int(self.start_buffer.nbytes),
            "index": sizes[FIRST_SRC] + sizes[FIRST_DST] + sizes[STAMP] + int(self.table.nbytes),
        }


def _padded(part: _Part) -> int:
    """Return the bytes of a column, rounded up to a multiple of 256."""
    return -(-part.num_items * part.item_size // 256) * 256
