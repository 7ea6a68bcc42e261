"""Base of stores with separate or unordered rows: their slots are a packed copy, updated on request."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Self

import numpy as np

from dynstore.bits import full_words
from dynstore.stores.base import Columns, Plan
from dynstore.stores.derived import DerivedSlots
from dynstore.stores.table.slots import SlotArrays
from dynstore.typing import Array

__all__ = ["RowStore"]


class RowStore(DerivedSlots):
    """A store with a separate row for each vertex.

    Updates mark the rows that they touch. ``slots`` is a packed table of all edges, made from the last one: untouched
    rows are copied, only touched ones are read from the structure and sorted. Each table has its own memory, so exports
    never have to be copied.
    """

    _num_vertices: int
    _num_edges: int
    _shown: SlotArrays
    _dirty: Array

    @property
    def num_vertices(self) -> int:
        return self._num_vertices

    @property
    def num_edges(self) -> int:
        return self._num_edges

    def row_ends(self) -> Array:
        return self.backend.xp.cumsum(self._degrees(), dtype=np.int64) if self._is_stale else super().row_ends()

    def read_rows(self, low: int, high: int) -> Columns:
        return self._read_rows(self.backend.xp.arange(low, high)) if self._is_stale else super().read_rows(low, high)

    @abstractmethod
    def _degrees(self) -> Array:
        """Return the number of edges of each row, shape (V,)."""

    @abstractmethod
    def _read_rows(self, rows: Array) -> Columns:
        """Return the edges of some rows (ascending), sorted by (source, destination)."""

    @abstractmethod
    def _part_sizes(self) -> dict[str, int]:
        """Return the bytes of the structure itself by part."""

    def _no_edges(self, num_vertices: int) -> SlotArrays:
        self._check_num_slots(self.capacity)
        self._num_vertices, self._num_edges = num_vertices, 0
        slots = SlotArrays.allocate(self.backend, 0, num_vertices, self.vertex_dtype, self.weight_dtype)
        slots.offsets.fill(0)
        self._dirty = self.backend.zeros(num_vertices, np.bool_)
        return slots

    def _refresh(self) -> None:
        self._shown = self._refreshed()
        self._dirty.fill(0)

    def _refreshed(self) -> SlotArrays:
        backend, xp, old, num_edges = self.backend, self.backend.xp, self._shown, self._num_edges
        rows = xp.nonzero(self._dirty[: self._num_vertices])[0]
        offsets = backend.empty(self._num_vertices + 1, self.vertex_dtype)
        offsets[:1] = 0
        xp.cumsum(self._degrees(), out=offsets[1:])
        src, dst, weights = old.src, old.dst, old.weights
        if rows.shape[0]:
            src, dst, weights = self._read_rows(rows)
        if src.shape[0] < num_edges:  # else all edges are in touched rows, or only rows were added
            new = SlotArrays.allocate(backend, num_edges, 0, self.vertex_dtype, self.weight_dtype)
            touched = SlotArrays(src, dst, weights, old.valid, offsets, offsets)
            replace_rows = backend.kernels("dynstore.stores.rows").replace_rows
            replace_rows(backend, old, rows, touched, new)
            src, dst, weights = new.src, new.dst, new.weights
        return SlotArrays(src, dst, weights, full_words(backend, num_edges), offsets, offsets, num_edges)

    def _room_for_rows(self, num_vertices: int) -> Array:
        """Return marks for ``num_vertices`` rows: the present ones, or a larger copy that the commit installs."""
        if num_vertices <= self._dirty.shape[0]:
            return self._dirty
        marks = self.backend.zeros(max(num_vertices, 2 * self._dirty.shape[0]), np.bool_)
        marks[: self._dirty.shape[0]] = self._dirty
        return marks

    def _plan_marks(self, marks: Array, touched: Array) -> Callable[[], None]:
        """Return a function that marks an update's rows; ``marks`` are from :meth:`_room_for_rows`."""
        write = self.backend.prepare(self.backend.kernels("dynstore.stores.rows").mark_rows, marks, touched)

        def mark() -> None:
            self._is_stale = self._is_stale or bool(touched.shape[0])
            write()

        return mark

    def _set_rows(self, marks: Array, num_vertices: int, num_edges: int) -> None:
        """Set the numbers of rows and edges, and the marks."""
        self._is_stale = self._is_stale or num_vertices != self._num_vertices
        self._dirty, self._num_vertices, self._num_edges = marks, num_vertices, num_edges

    def plan_clear(self) -> Plan:
        twin = self._twin()
        twin.slots = twin._no_edges(0)
        return Plan(0, 0, lambda: self.__dict__.update(twin.__dict__))

    def copy(self) -> Self:
        twin = self._twin()
        twin._shown = self._shown.copy(self.backend)
        twin._dirty = self._duplicate(self._dirty)
        return twin

    def _duplicate(self, array: Array) -> Array:
        fresh = self.backend.empty(array.shape, array.dtype)
        fresh[:] = array
        return fresh

    def memory_usage(self) -> dict[str, int]:
        """Return bytes by part: the last packed table, then the structure."""
        return self._shown.memory_usage() | {"marks": int(self._dirty.nbytes)} | self._part_sizes()
