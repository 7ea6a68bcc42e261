"""Slab hash: a hash table of 128-byte slabs for every vertex.

M. A. Awad, S. Ashkiani, S. D. Porumbescu, J. D. Owens, "Dynamic Graphs on the GPU", IPDPS 2020. Edges have no order.
The sorted rows of a snapshot are made on request, from the rows that have changed since the last one. See
``docs/stores/slab-hash.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from dynstore.arguments import check_count, check_flag
from dynstore.batches.sorted import Batch, EdgeBatch, sort_unique
from dynstore.bits import full_words
from dynstore.config import check_share
from dynstore.errors import InputError, LimitError
from dynstore.stores.base import Columns, NativeRows, Plan, Reason, Refused, StoreOptions
from dynstore.stores.derived import DerivedSlots
from dynstore.stores.slab_hash.slabs import BUCKETS, DEGREE, END, FIRST, USED, Probe, SlabTable
from dynstore.stores.table.slots import SlotArrays
from dynstore.typing import Array, OnDuplicate

__all__ = ["SlabHashOptions", "SlabHashStore"]

CALLER = "store 'slab_hash'"
MAX_SLABS = 2**31 - 2
ANY_LENGTH = 2**31
# A full pool is rebuilt instead of grown if more than one slab in so many was returned.
FREE_SHARE = 4
# Algorithms walk slabs if at least one edge in so many is in a row that the sorted table must read anew.
STALE_SHARE = 2


@dataclass(frozen=True)
class SlabHashOptions(StoreOptions):
    """Sizes of tables, and when they change.

    Attributes
    ----------
    load_factor : float
        Edges per place in a row's base slabs when its table is made, above 0 (the paper's 0.7, section IV-A).
    max_chain : int
        The most slabs of a chain. If an insertion would make a longer one, the row gets a larger table first (the paper
        mentions rehashing, and measures that chains of five slabs cost 2.5 times, section V).
    reuse_tombstones : bool
        Insert at the place of a deleted edge, after the whole chain has been searched. The paper's insertions skip
        these places (section IV-C), so only a larger table removes tombstones.
    pool_growth : float
        The factor by which a full pool of slabs grows, above 1.
    """

    load_factor: float = 0.7
    max_chain: int = 4
    reuse_tombstones: bool = True
    pool_growth: float = 1.25

    def __post_init__(self) -> None:
        check_share(CALLER, "load_factor", self.load_factor, 0.01, 1e3)
        check_share(CALLER, "pool_growth", self.pool_growth, 1.01, 1e3)
        check_flag(CALLER, "reuse_tombstones", self.reuse_tombstones)
        if not check_count(CALLER, "max_chain", self.max_chain):
            raise InputError(f"{CALLER}: max_chain is {self.max_chain}; wanted 1 or more")


class SlabHashStore(DerivedSlots):
    """Edges in chains of slabs, found by their hash; ``slots`` is packed, and only changed rows are read anew."""

    name = "slab_hash"
    takes_unsorted = True
    Options = SlabHashOptions
    options: SlabHashOptions

    _table: SlabTable
    _shown: SlotArrays
    _num_vertices = 0
    _num_edges = 0

    def _no_edges(self, num_vertices: int) -> SlotArrays:
        self._check_num_slots(self.capacity)
        self._table = self._make_table(0, num_vertices)
        return SlotArrays.without_edges(self.backend, 0, num_vertices, self.vertex_dtype, self.weight_dtype)

    # ------------------------------------------------------------------ updates

    def plan_insert(self, batch: Batch, num_vertices: int, on_duplicate: OnDuplicate) -> Plan:
        backend, kernels, reuse = self.backend, self._kernels, self.options.reuse_tombstones
        batch = batch.materialized() if batch.has_weights else batch
        num_vertices, num_slabs = max(num_vertices, self._num_vertices), self._table.num_slabs
        if self._num_edges:
            probe = self._prepare(batch, num_vertices)
            table, fresh = self._table, False
        else:
            table, fresh = self._make_table_for(self._count_rows(batch, num_vertices)), True
            table.dirty.fill(1)  # the last view may hold edges that were deleted since
            probe = self._count_and_reserve(table, batch)
        total = self._num_edges + batch.count_edges() - probe.found
        self._check_num_slots(total)
        weights = batch.materialized().weights if batch.has_weights else None
        if weights is not None and on_duplicate == "add" and probe.found:
            weights = weights + kernels.read_weights(backend, table, probe.places, weights.dtype)
        write = backend.prepare(kernels.insert_absent, backend, table, batch, probe, reuse, weights)
        if fresh:  # it is not visible yet
            write()

        def commit() -> None:
            if not fresh:
                write()
            self._set(table, num_vertices, total)

        grown = table.num_slabs > num_slabs
        return Plan(probe.found, probe.found_loops, commit, grown, "merge" if fresh else "in-place")

    def plan_delete(self, batch: Batch) -> Plan:
        backend, kernels, table = self.backend, self._kernels, self._table
        probe = kernels.locate(backend, table, batch)
        total = self._num_edges - probe.found
        write = backend.prepare(kernels.delete_found, backend, table, batch, probe)

        def commit() -> None:
            write()
            self._set(table, self._num_vertices, total)

        return Plan(probe.found, probe.found_loops, commit, path="in-place")

    @property
    def supports_speculation(self) -> bool:
        return self._num_edges > 0  # the first edges need a new table

    def try_insert(self, batch: Batch, num_vertices: int, on_duplicate: OnDuplicate) -> Plan | Refused:
        if self.weight_dtype is not None:
            return Refused(Reason.UNSUPPORTED, batch)
        backend, options, num_vertices = self.backend, self.options, max(num_vertices, self._num_vertices)
        self._table.grow_rows(backend, num_vertices)
        most = self._max_id - self._num_edges
        found: tuple[int, int] | Reason = backend.kernels("dynstore.stores.slab_hash", "speculative").try_insert(
            backend, self._table, batch, num_vertices - 1, most, options.max_chain, options.reuse_tombstones
        )
        if isinstance(found, Reason):
            return Refused(found, batch)
        return self._written(found, batch.count_edges() - found[0], num_vertices)

    def try_delete(self, batch: Batch) -> Plan | Refused:
        last_id = self._max_id - 1
        kernels = self.backend.kernels("dynstore.stores.slab_hash", "speculative")
        found: tuple[int, int] | Reason = kernels.try_delete(self.backend, self._table, batch, last_id)
        if isinstance(found, Reason):
            return Refused(found, batch)
        return self._written(found, -found[0], self._num_vertices)

    def _written(self, found: tuple[int, int], change: int, num_vertices: int) -> Plan:
        """Return the plan of an update that is written already, with the found edges and self-loops."""
        total = self._num_edges + change
        return Plan(*found, lambda: self._set(self._table, num_vertices, total), path="in-place")

    def plan_vertices(self, num_vertices: int) -> Plan:
        table, num_vertices = self._table, max(num_vertices, self._num_vertices)
        table.grow_rows(self.backend, num_vertices)
        return Plan(0, 0, lambda: self._set(table, num_vertices, self._num_edges), path="in-place")

    def plan_clear(self) -> Plan:
        table = self._make_table(0, 0)
        view = SlotArrays.without_edges(self.backend, 0, 0, self.vertex_dtype, self.weight_dtype)

        def commit() -> None:
            self._set(table, 0, 0)
            self.slots = view

        return Plan(0, 0, commit)

    # ------------------------------------------------------------------ queries

    @property
    def num_vertices(self) -> int:
        return self._num_vertices

    @property
    def num_edges(self) -> int:
        return self._num_edges

    def look_up(self, src: Array, dst: Array) -> tuple[Array, Array | None]:
        places = self._kernels.find(self.backend, self._table, src, dst)
        there = places >= 0
        if self.weight_dtype is None:
            return there, None
        return there, self._kernels.read_weights(self.backend, self._table, places, self.weight_dtype)

    def row(self, number: int) -> Array:
        if not self._is_stale:
            return super().row(number)
        dst = self._gather(self.backend.asarray(np.array([number])))[1]
        dst.sort()
        return dst

    def row_ends(self) -> Array:
        return self.backend.xp.cumsum(self._table.column(DEGREE)[: self._num_vertices], dtype=np.int64)

    def read_rows(self, low: int, high: int) -> Columns:
        return self._gather(self.backend.xp.arange(low, high))

    def native_rows(self) -> NativeRows | None:
        if not self._is_stale:
            return None
        table, xp = self._table, self.backend.xp
        changed = int(xp.where(table.dirty != 0, table.column(DEGREE), 0).sum())
        # Without a sorted table all rows are dirty, so slabs are walked; a table that is mostly right is cheap to
        # refresh.
        if STALE_SHARE * changed < self._num_edges:
            return None
        return NativeRows("slabs", table, self._num_vertices)

    def copy(self) -> Self:
        twin = self._twin()
        twin._table, twin._shown = self._table.copy(self.backend), self._shown.copy(self.backend)
        return twin

    def memory_usage(self) -> dict[str, int]:
        return self._shown.memory_usage() | self._table.memory_usage()

    # ------------------------------------------------------------------ inside

    @cached_property
    def _max_id(self) -> int:
        return int(np.iinfo(self.vertex_dtype).max)

    @property
    def _kernels(self) -> Any:
        return self.backend.kernels("dynstore.stores.slab_hash", "update")

    @property
    def _chains(self) -> Any:
        return self.backend.kernels("dynstore.stores.slab_hash", "chains")

    def _set(self, table: SlabTable, num_vertices: int, num_edges: int) -> None:
        self._table, self._num_vertices, self._num_edges, self._is_stale = table, num_vertices, num_edges, True

    def _make_table(self, num_slabs: int, num_rows: int) -> SlabTable:
        keys = SlabTable.allocate(self.backend, 0, 0, self.vertex_dtype, self.weight_dtype).keys
        num_slabs = max(num_slabs, int(np.ceil(self.capacity / (self.options.load_factor * keys))))
        _check_num_slabs(num_slabs)
        return SlabTable.allocate(self.backend, num_slabs, num_rows, self.vertex_dtype, self.weight_dtype)

    def _make_table_for(self, degrees: Array) -> SlabTable:
        """Make a table whose rows have the base slabs for these degrees (the paper, section IV-A)."""
        buckets, num_slabs, num_rows = *self._share_out(degrees), int(degrees.shape[0])
        table = self._make_table(num_slabs, num_rows)
        table.column(BUCKETS)[:] = buckets
        table.column(FIRST)[:] = self.backend.xp.where(buckets > 0, self.backend.xp.cumsum(buckets) - buckets, END)
        table.state[USED] = num_slabs
        return table

    def _share_out(self, degrees: Array) -> tuple[Array, int]:
        """Return the number of base slabs of rows with these degrees, and the sum."""
        xp = self.backend.xp
        buckets = xp.ceil(degrees / (self.options.load_factor * self._table.keys)).astype(np.int64)
        return buckets, int(buckets.sum())

    def _count_rows(self, batch: Batch, num_rows: int) -> Array:
        """Return the number of a batch's edges in each row."""
        src = batch.materialized().src
        if not src.shape[0]:  # CuPy cannot count an empty array
            return self.backend.zeros(num_rows, np.int64)
        return self.backend.xp.bincount(src, minlength=num_rows)

    def _prepare(self, batch: Batch, num_vertices: int) -> Probe:
        """Find a batch's edges, and make rows, tables and slabs for the absent ones.

        The store's contents do not change, so this is right even if the update is dropped later.
        """
        table = self._table
        table.grow_rows(self.backend, num_vertices)
        probe = self._count(table, batch, self.options.max_chain)
        if probe.overlong is None and not self._is_fragmented(probe, probe.needed - probe.free):
            self._reserve(table, probe.used + max(probe.needed - probe.free, 0))
            return probe
        degrees = table.column(DEGREE) + self._count_rows(batch, table.num_rows)
        if probe.overlong is not None:
            rows = self.backend.xp.unique(probe.overlong)
            buckets, num_base = self._share_out(degrees[rows])
            # In the worst case all edges of a row are in one chain, whose slabs are full except the last.
            most = num_base + int(table.column(DEGREE)[rows].sum()) // table.keys
            if not self._is_fragmented(probe, most):
                self._reserve(table, probe.used + most)
                firsts = probe.used + self.backend.xp.cumsum(buckets) - buckets
                table.state[USED] = probe.used + num_base
                self._chains.rehash(self.backend, table, rows, firsts, buckets)
                return self._count_and_reserve(table, batch)
        self._table = self._rebuilt(degrees)
        return self._count_and_reserve(self._table, batch)

    def _count(self, table: SlabTable, batch: Batch, max_chain: int) -> Probe:
        reuse = self.options.reuse_tombstones
        probe: Probe = self._kernels.locate_and_count(self.backend, table, batch, max_chain, reuse)
        return probe

    def _count_and_reserve(self, table: SlabTable, batch: Batch) -> Probe:
        """Find a batch's edges, and make the slabs that the absent ones need, however long chains get."""
        probe = self._count(table, batch, ANY_LENGTH)
        self._reserve(table, probe.used + max(probe.needed - probe.free, 0))
        return probe

    def _is_fragmented(self, probe: Probe, more: int) -> bool:
        """Whether ``more`` slabs do not fit into the pool, while many returned ones cannot be used."""
        return probe.used + more > self._table.num_slabs and FREE_SHARE * probe.free > probe.used

    def _reserve(self, table: SlabTable, num_slabs: int) -> None:
        """Grow the pool to ``num_slabs``, or refuse."""
        if num_slabs > table.num_slabs:
            _check_num_slabs(num_slabs)
            grown = min(int(table.num_slabs * self.options.pool_growth), MAX_SLABS)
            table.grow_pool(self.backend, max(num_slabs, grown))

    def _rebuilt(self, degrees: Array) -> SlabTable:
        """Return a new table with the same edges, and base slabs for these degrees."""
        rows = self.backend.xp.arange(self._table.num_rows)
        batch = EdgeBatch(*sort_unique(self.backend, *self._gather(rows)))
        table = self._make_table_for(degrees)
        probe = self._count_and_reserve(table, batch)
        self._kernels.insert_absent(self.backend, table, batch, probe, True, batch.weights)
        table.dirty[:] = self._table.dirty
        return table

    def _gather(self, rows: Array) -> tuple[Array, Array, Array | None]:
        """Return the edges of some rows, row after row, unordered within a row."""
        backend, xp = self.backend, self.backend.xp
        degrees = self._table.column(DEGREE)[rows].astype(np.int64)
        ends = xp.cumsum(degrees)
        count = int(ends[-1]) if rows.shape[0] else 0
        src, dst = backend.empty(count, self.vertex_dtype), backend.empty(count, self.vertex_dtype)
        weights = None if self.weight_dtype is None else backend.empty(count, self.weight_dtype)
        self._chains.gather(backend, self._table, rows, ends - degrees, src, dst, weights)
        return src, dst, weights

    def _refresh(self) -> None:
        self._shown = self._refreshed()
        self._table.dirty.fill(0)

    def _refreshed(self) -> SlotArrays:
        """Make the sorted table anew: changed rows are gathered and sorted, all others are copied."""
        backend, xp, table, old = self.backend, self.backend.xp, self._table, self._shown
        rows, count = self._num_vertices, self._num_edges
        offsets = backend.zeros(rows + 1, self.vertex_dtype)
        new = SlotArrays(
            backend.empty(count, self.vertex_dtype),
            backend.empty(count, self.vertex_dtype),
            None if self.weight_dtype is None else backend.empty(count, self.weight_dtype),
            full_words(backend, count),
            offsets,
            offsets,
            count,
        )
        degrees, dirty = table.column(DEGREE)[:rows], table.dirty[:rows]
        xp.cumsum(degrees, out=offsets[1:])
        if old.num_edges:
            self._chains.copy_rows(backend, dirty, old, new)
        chosen = xp.nonzero(dirty)[0]
        src, dst, weights = sort_unique(backend, *self._gather(chosen))
        # The place of a sorted edge: behind the clean rows before its own.
        changed = xp.where(dirty != 0, degrees, 0)
        shifts = offsets[:-1] - (xp.cumsum(changed, dtype=np.int64) - changed)
        places = shifts[src] + xp.arange(src.shape[0])
        new.src[places], new.dst[places] = src, dst
        if new.weights is not None:
            new.weights[places] = weights
        return new


def _check_num_slabs(num_slabs: int) -> None:
    if num_slabs > MAX_SLABS:
        raise LimitError(f"{CALLER}: {num_slabs} slabs are needed; their numbers go to {MAX_SLABS}")
