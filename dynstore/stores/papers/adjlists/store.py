"""Adjacency lists on the host: a sorted row for each vertex, which grows separately in one pool.

The CPU baseline of M. Sha, Y. Li, B. He, K.-L. Tan, "Accelerating Dynamic Graph Analytics on GPUs", PVLDB 11(1),
2017, section 6.1: a vector of |V| sorted containers. Theirs are red-black trees; ours are sorted arrays with room at
the end, which have the same order and scan faster. As there, one thread updates a row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from dynstore.batches.sorted import EdgeBatch
from dynstore.config import check_share
from dynstore.stores.base import Columns, Plan, StoreOptions
from dynstore.stores.papers.adjlists.lists import Lists
from dynstore.stores.rows.store import RowStore
from dynstore.stores.table.slots import SlotArrays
from dynstore.typing import Array, OnDuplicate

__all__ = ["AdjListsOptions", "AdjListsStore"]

# A pool with at least so many times the edges is freed.
MAX_IDLE = 6


@dataclass(frozen=True)
class AdjListsOptions(StoreOptions):
    """How rows grow.

    Attributes
    ----------
    growth : float
        The room of a row that outgrows its old one, and the size of a new pool, as a multiple of the entries: 1 to 4.
    """

    growth: float = 1.5

    def __post_init__(self) -> None:
        check_share("store 'adjlists'", "growth", self.growth, 1.0, 4.0)


class AdjListsStore(RowStore):
    """A sorted array for each vertex; on the host only."""

    name = "adjlists"
    families = ("cpu",)
    Options = AdjListsOptions
    options: AdjListsOptions
    _lists: Lists

    def _no_edges(self, num_vertices: int) -> SlotArrays:
        backend = self.backend
        slots = super()._no_edges(num_vertices)
        weights = None if self.weight_dtype is None else backend.empty(self.capacity, self.weight_dtype)
        starts, lengths, rooms = (backend.zeros(num_vertices, np.int64) for _ in range(3))
        self._lists = Lists(starts, lengths, rooms, backend.empty(self.capacity, self.vertex_dtype), weights)
        return slots

    def plan_insert(self, batch: EdgeBatch, num_vertices: int, on_duplicate: OnDuplicate) -> Plan:
        kernels, growth = self._kernels, self.options.growth
        num_vertices = max(num_vertices, self.num_vertices)
        positions, found = kernels.locate_keys(self.backend, self._lists, self.num_vertices, batch.src, batch.dst)
        num_found = int(np.count_nonzero(found))
        total = self._num_edges + len(batch) - num_found
        self._check_num_slots(total)
        lists, marks = self._with_rows(num_vertices), self._room_for_rows(num_vertices)
        copied = lists.tail + kernels.count_room(lists, growth, batch, found) > lists.pool.shape[0]
        grown = False
        if copied:
            size = lists.pool.shape[0]
            lists = self._copied(lists, batch, found, self.capacity)
            grown = lists.pool.shape[0] > size
        mark = self._plan_marks(marks, batch.src)

        def commit() -> None:
            kernels.insert_keys(lists, growth, batch, positions, found, on_duplicate == "add")
            self._lists = lists
            mark()
            self._set_rows(marks, num_vertices, total)

        loops = self._count_loops(batch, found)
        return Plan(num_found, loops, commit, grown, path="merge" if copied else "in-place")

    def plan_delete(self, batch: EdgeBatch) -> Plan:
        kernels, lists, num_vertices = self._kernels, self._lists, self.num_vertices
        positions, found = kernels.locate_keys(self.backend, lists, num_vertices, batch.src, batch.dst)
        num_found = int(np.count_nonzero(found))
        total = self._num_edges - num_found
        marks = self._dirty
        gone = EdgeBatch(batch.src[found], batch.dst[found], None)
        copied = lists.pool.shape[0] > MAX_IDLE * max(total, self.capacity, 1)
        if copied:
            lists = self._copied(lists, gone, np.ones(num_found, np.bool_), self.capacity)
        places, there = positions[found], np.ones(num_found, np.bool_)
        mark = self._plan_marks(marks, gone.src)

        def commit() -> None:
            kernels.delete_keys(lists, gone.src, places, there)
            self._lists = lists
            mark()
            self._set_rows(marks, num_vertices, total)

        loops = self._count_loops(batch, found)
        return Plan(num_found, loops, commit, path="merge" if copied else "in-place")

    def plan_vertices(self, num_vertices: int) -> Plan:
        num_vertices = max(num_vertices, self.num_vertices)
        lists, marks = self._with_rows(num_vertices), self._room_for_rows(num_vertices)

        def commit() -> None:
            self._lists = lists
            self._set_rows(marks, num_vertices, self._num_edges)

        return Plan(0, 0, commit, path="in-place")

    def look_up(self, src: Array, dst: Array) -> tuple[Array, Array | None]:
        lists = self._lists
        positions, found = self._kernels.locate_keys(self.backend, lists, self.num_vertices, src, dst)
        if lists.weights is None:
            return found, None
        weights = self.backend.zeros(src.shape[0], lists.weights.dtype)
        weights[found] = lists.weights[lists.starts[src[found]] + positions[found]]
        return found, weights

    def row(self, number: int) -> Array:
        start = int(self._lists.starts[number])
        return self._lists.pool[start : start + int(self._lists.lengths[number])].copy()

    def copy(self) -> Self:
        twin = super().copy()
        lists = self._lists
        twin._lists = replace(
            lists,
            starts=self._duplicate(lists.starts),
            lengths=self._duplicate(lists.lengths),
            rooms=self._duplicate(lists.rooms),
            pool=self._duplicate(lists.pool),
            weights=None if lists.weights is None else self._duplicate(lists.weights),
        )
        return twin

    @property
    def _kernels(self) -> Any:
        return self.backend.kernels("dynstore.stores.papers.adjlists")

    def _degrees(self) -> Array:
        return self._lists.lengths[: self.num_vertices]

    def _read_rows(self, rows: Array) -> Columns:
        columns: Columns = self._kernels.read_rows(self.backend, self._lists, rows)
        return columns

    def _part_sizes(self) -> dict[str, int]:
        lists = self._lists
        return {
            "pool": int(lists.pool.nbytes) + (0 if lists.weights is None else int(lists.weights.nbytes)),
            "rows": int(lists.starts.nbytes + lists.lengths.nbytes + lists.rooms.nbytes),
        }

    def _with_rows(self, num_vertices: int) -> Lists:
        """Return lists of at least ``num_vertices`` rows: the present ones, or larger copies of the rows' arrays."""
        lists, present = self._lists, self._lists.starts.shape[0]
        if num_vertices <= present:
            return lists
        columns = []
        for column in (lists.starts, lists.lengths, lists.rooms):
            larger = self.backend.zeros(max(num_vertices, 2 * present), np.int64)
            larger[:present] = column
            columns.append(larger)
        return replace(lists, starts=columns[0], lengths=columns[1], rooms=columns[2])

    def _copied(self, lists: Lists, batch: EdgeBatch, found: Array, num_places: int) -> Lists:
        """Copy all rows into a fresh pool, with room for the keys of a batch that were not found."""
        new = replace(lists)
        new.starts, new.lengths, new.rooms = (self.backend.empty(lists.starts.shape[0], np.int64) for _ in range(3))
        self._kernels.copy_rows(self.backend, lists, self.options.growth, batch, found, num_places, new)
        return new
