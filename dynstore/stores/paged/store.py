"""Edges in pages of host memory, which are never changed, and a delta on the device.

An insertion goes to the delta, a deletion clears the bit of a slot. When the delta has grown, or too many bits are
cleared, an update writes all edges to new pages. ``docs/internals/paged.md`` says more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np

from dynstore.batches.sorted import EdgeBatch
from dynstore.bits import full_words
from dynstore.errors import LimitError
from dynstore.snapshot import GapCSR
from dynstore.stores.base import Columns, NativeRows, Plan
from dynstore.stores.derived import DerivedSlots
from dynstore.stores.paged.building import pack_rows
from dynstore.stores.paged.delta import PagedDelta
from dynstore.stores.paged.filter import EdgeFilter
from dynstore.stores.paged.finding import FoundEdges, find_batch, find_edges
from dynstore.stores.paged.layout import PagedRows
from dynstore.stores.paged.memory import SpareMemory
from dynstore.stores.paged.merging import (
    LOW_BITS,
    count_live,
    count_rows,
    count_sources,
    keys_of,
    merge_edges,
    read_merged,
    read_slots,
)
from dynstore.stores.paged.options import CALLER, PagedOptions
from dynstore.stores.paged.resident import ResidentPages
from dynstore.stores.table.slots import SlotArrays
from dynstore.typing import MAX_INT32, Array, OnDuplicate

__all__ = ["PagedStore", "PagedTable"]

# The delta grows by at most one of so many parts of the free device memory; an edge is there twice as runs become one.
FREE_PARTS, COPIES = 4, 2


class PagedTable(NamedTuple):
    """The rows of a store as algorithms read them, until the next update.

    Attributes
    ----------
    packed : PagedRows
    valid : array of uint32 words
        A bit for each slot of the pages: whether the edge is in the graph.
    extra : GapCSR or None
        The edges that are not in pages, on the device.
    count_degrees : callable
        Returns the number of edges of each row, shape (V,), int64.
    resident : ResidentPages
    """

    packed: PagedRows
    valid: Array
    extra: GapCSR | None
    count_degrees: Callable[[], Array]
    resident: ResidentPages


class _Bits(NamedTuple):
    """Slots of pages whose bits are set (``on``) or cleared by an update."""

    slots: Array
    on: bool


class PagedStore(DerivedSlots):
    """Rows in pages of host memory, with a bit a slot, and a delta on the device."""

    name = "paged"
    memories = ("host",)
    Options = PagedOptions
    options: PagedOptions

    _base: PagedRows
    _valid: Array
    _filter: EdgeFilter  # of the edges in pages
    _num_dead: int  # slots of the pages whose bits are cleared
    _delta: PagedDelta  # no edge of it has a bit in a page
    _resident: ResidentPages  # of `_base`
    _spare: SpareMemory  # of pages that were written earlier
    _num_merges = 0

    @property
    def num_vertices(self) -> int:
        return self._base.num_vertices

    @property
    def num_edges(self) -> int:
        return self._base.num_edges - self._num_dead + self._delta.num_edges

    # ------------------------------------------------------------------ updates

    def plan_insert(self, batch: EdgeBatch, num_vertices: int, on_duplicate: OnDuplicate) -> Plan:
        base = self._with_rows(max(num_vertices, self.num_vertices))
        if not self.num_edges and len(batch) > self._most_beside():
            return self._plan_build(base, batch)
        found = find_batch(base, self._valid, self._filter, batch, every_slot=batch.weights is not None)
        in_pages = None
        if batch.weights is None:  # an edge that comes back to a page gets its bit again
            changes, in_pages = _Bits(self._chosen(found, False), True), found.slots
        else:  # pages are never written, so an edge with a new weight moves to the delta
            changes = _Bits(self._chosen(found, True), False)
            if on_duplicate == "add" and found.num_live and base.weights is not None:
                weights = batch.weights.copy()
                weights[found.live] += base.weights[changes.slots]
                batch = EdgeBatch(batch.src, batch.dst, weights, batch.num_loops)
        delta, num_found, loops = self._delta.insert(batch, on_duplicate, in_pages)
        merging = delta.num_edges > self._most_beside()
        return self._plan(base, changes, delta, merging, found.num_live + num_found, found.live_loops + loops)

    def plan_delete(self, batch: EdgeBatch) -> Plan:
        base = self._base
        found = find_batch(base, self._valid, self._filter, batch, every_slot=True)
        changes = _Bits(self._chosen(found, True), False)
        delta, num_found, loops = self._delta.delete(batch)
        dead = self._num_dead + found.num_live
        merging = dead > self.options.delta_edges and dead > (1 - self.options.density) * base.num_edges
        return self._plan(base, changes, delta, merging, found.num_live + num_found, found.live_loops + loops)

    def _chosen(self, found: FoundEdges, live: bool) -> Array:
        """Return the slots of edges whose bits are set, or are cleared."""
        if not (found.num_live if live else found.num_dead):
            return self.backend.nothing(np.int64)
        return found.slots[found.live if live else (found.slots >= 0) & ~found.live]

    def plan_vertices(self, num_vertices: int) -> Plan:
        none = _Bits(self.backend.nothing(np.int64), True)
        return self._plan(self._with_rows(num_vertices), none, self._delta, False, 0, 0)

    def plan_clear(self) -> Plan:
        twin = self._twin()
        twin.slots = twin._no_edges(0)
        return Plan(0, 0, lambda: self.__dict__.update(twin.__dict__))

    def _no_edges(self, num_vertices: int) -> SlotArrays:
        self._base, self._resident = self._empty_pages(num_vertices), self._no_resident()
        self._filter, self._spare = EdgeFilter(self.backend, 0), SpareMemory(self.backend)
        self._valid, self._num_dead, self._delta = self._base.all_valid(), 0, self._make_delta()
        dtypes = self.vertex_dtype, self.weight_dtype
        return SlotArrays.without_edges(self.backend, 0, num_vertices, *dtypes, self.memory)

    def _empty_pages(self, num_vertices: int) -> PagedRows:
        backend, options = self.backend, self.options
        weights = None if self.weight_dtype is None else backend.empty(0, self.weight_dtype)
        offsets, indices = backend.zeros(num_vertices + 1, np.int64), backend.empty(0, np.int32)
        return pack_rows(backend, offsets, indices, encode=options.encode, page_bits=options.page_bits, weights=weights)

    def _no_resident(self) -> ResidentPages:
        return ResidentPages(partial(_room_for_pages, self.backend, self.options.resident_share))

    def _make_delta(self) -> PagedDelta:
        return PagedDelta(self.backend, self.vertex_dtype, self.weight_dtype)

    def _with_rows(self, num_vertices: int) -> PagedRows:
        if num_vertices > MAX_INT32:
            raise LimitError(f"{CALLER}: {num_vertices} vertices are needed; there can be {MAX_INT32}")
        return self._base.with_vertices(num_vertices)

    def _most_beside(self) -> int:
        """Return how many edges the delta may have.

        A share of the edges in pages, unless that takes much of the device's free memory; but always ``delta_edges``:
        what is free inside a pool of RMM is not known, so little may seem to be free.
        """
        most, free = int(self.options.delta_share * self._base.num_edges), self.backend.free_bytes()
        if free is not None:
            weight = 0 if self.weight_dtype is None else self.weight_dtype.itemsize
            num_bytes = COPIES * (2 * self.vertex_dtype.itemsize + weight)
            most = min(most, free // FREE_PARTS // num_bytes + self._delta.num_edges)
        return min(max(most, self.options.delta_edges), MAX_INT32)  # slots of int32 ids have int32 numbers

    def _plan(
        self, base: PagedRows, changes: _Bits, delta: PagedDelta, merging: bool, num_found: int, num_loops: int
    ) -> Plan:
        """Plan to change bits of slots and to have another delta; with ``merging``, to write all to new pages.

        ``num_found``, ``num_loops``: how many edges of the batch are there, and how many of these are self-loops.
        """
        slots, on = changes
        count, valid = int(slots.shape[0]), self._valid
        if merging:
            if count:
                valid = valid.copy()
                self._kernels.write_bits(valid, slots, on)
            live = valid, count_live(base, valid)
            added = delta.columns
            degrees = count_rows(base, *live) + count_sources(self.backend, added[0], base.num_vertices)
            grown = int(degrees.sum()) > base.num_edges
            return Plan(num_found, num_loops, self._plan_merge(base, live, degrees, added), grown, "merge")
        write = self.backend.prepare(self._kernels.write_bits, valid, slots, on) if count else None

        def commit() -> None:
            if write is not None:
                write()
            self._base, self._delta, self._num_dead = base, delta, self._num_dead + (-count if on else count)
            self._shown, self._is_stale = None, True

        return Plan(num_found, num_loops, commit, path="in-place")

    @property
    def _kernels(self) -> Any:
        return self.backend.kernels("dynstore.stores.paged")

    def _plan_build(self, base: PagedRows, batch: EdgeBatch) -> Plan:
        """Plan pages of a batch alone, of which the device holds a piece at a time."""
        empty = self._empty_pages(base.num_vertices)
        degrees = count_sources(self.backend, batch.src, base.num_vertices)
        valid = empty.all_valid()
        live = valid, count_live(empty, valid)
        commit = self._plan_merge(empty, live, degrees, (batch.src, batch.dst, batch.weights))
        return Plan(0, 0, commit, True, "merge")

    def _plan_merge(
        self, base: PagedRows, live: tuple[Array, Array], degrees: Array, added: Columns
    ) -> Callable[[], None]:
        """Merge edges with those of pages into new pages; return a commit after which these hold all edges.

        ``live``: the bits of the slots, and how many are set before each leaf.
        """
        self._resident = self._no_resident()  # the merge has its memory
        offsets = self.backend.zeros(base.num_vertices + 1, np.int64)
        self.backend.xp.cumsum(degrees, out=offsets[1:])
        passing = EdgeFilter(self.backend, int(offsets[-1]))
        new = merge_edges(base, live, degrees, added, self._spare.take, partial(passing.add, offsets))
        delta, all_valid, resident = self._make_delta(), new.all_valid(), self._no_resident()

        def commit() -> None:
            self._base, self._valid, self._num_dead, self._delta = new, all_valid, 0, delta
            self._filter, self._resident = passing, resident
            self._num_merges += 1
            self._shown, self._is_stale = None, True

        return commit

    # ------------------------------------------------------------------ reading

    def look_up(self, src: Array, dst: Array) -> tuple[Array, Array | None]:
        base, found = self._base, find_edges(self._base, self._valid, self._filter, src, dst)
        there, weights = self._delta.look_up(src, dst)
        if base.weights is not None and weights is not None and base.num_edges:
            in_pages = base.weights[self.backend.xp.maximum(found.slots, 0)]
            weights = self.backend.xp.where(found.live, in_pages, weights)
        return there | found.live, weights

    def row(self, number: int) -> Array:
        dst: Array = self.read_rows(number, number + 1)[1]
        return dst

    def row_ends(self) -> Array:
        return self._base.offsets[1:] + self.backend.xp.cumsum(self._count_added())

    def row_lengths(self) -> Array:
        return self._degrees().astype(self.vertex_dtype)

    def read_rows(self, low: int, high: int) -> Columns:
        base = self._base
        first, end = self.backend.to_host(base.offsets[self.backend.asarray(np.array([low, high]))]).tolist()
        src, dst, more = self._delta.read_rows(low, high)
        keys, weights = read_slots(base, self._valid, first, end, (keys_of(src, dst), more))
        return *self._ends(keys), weights

    def edge_pieces(self) -> Iterator[Columns]:
        before = count_live(self._base, self._valid)
        for keys, weights in read_merged(self._base, self._valid, before, self._delta.columns):
            yield *self._ends(keys), weights

    def destinations(self) -> Iterator[tuple[Array, Array | None]]:
        return ((dst, None) for _, dst, _ in self.edge_pieces())

    def native_rows(self) -> NativeRows:
        extra = self._delta.rows(self.num_vertices) if self._delta.num_edges else None
        table = PagedTable(self._base, self._valid, extra, self._degrees, self._resident)
        return NativeRows("paged", table, self.num_vertices)

    def _ends(self, keys: Array) -> tuple[Array, Array]:
        return (keys >> 32).astype(self.vertex_dtype), (keys & LOW_BITS).astype(self.vertex_dtype)

    def _degrees(self) -> Array:
        """Return the number of edges of each row, shape (V,), int64."""
        return count_rows(self._base, self._valid, count_live(self._base, self._valid)) + self._count_added()

    def _count_added(self) -> Array:
        return count_sources(self.backend, self._delta.columns[0], self.num_vertices)

    def _refresh(self) -> None:
        """Make a table of all edges in host memory, a piece of it at a time on the device."""
        backend, xp, num_edges = self.backend, self.backend.xp, self.num_edges
        self._check_num_slots(num_edges)
        offsets = backend.zeros(self.num_vertices + 1, self.vertex_dtype)
        offsets[1:] = xp.cumsum(self._degrees())
        make = partial(backend.empty_in, self.memory, num_edges)
        out_src, out_dst = make(self.vertex_dtype), make(self.vertex_dtype)
        out_weights = None if self.weight_dtype is None else make(self.weight_dtype)
        first = 0
        for src, dst, weights in self.edge_pieces():
            end = first + int(src.shape[0])
            out_src[first:end], out_dst[first:end] = src, dst
            if out_weights is not None:
                out_weights[first:end] = weights
            first = end
        words = full_words(backend, num_edges)
        self._shown = SlotArrays(out_src, out_dst, out_weights, words, offsets, offsets, num_edges, memory=self.memory)

    # ------------------------------------------------------------------ the store as a whole

    def copy(self) -> Self:
        """Return a deep copy, which shares the pages and the delta: nothing writes these, once the delta is one run."""
        self._delta.settle()
        twin = self._twin()
        twin._valid = self.backend.copies(self._valid)[0]
        twin._shown, twin._is_stale, twin._spare = None, True, SpareMemory(self.backend)
        return twin

    def free_cache(self) -> bool:
        had, self._resident = self._resident.nbytes > 0, self._no_resident()
        return self._spare.clear() or had

    def memory_usage(self) -> dict[str, int]:
        """Return bytes by part.

        ``pages``, ``page_weights``, ``spare_pages``, ``src``, ``dst`` and ``weights`` lie in host memory.
        """
        parts = self._base.memory_usage()
        table = self._table.memory_usage()
        return table | {
            "pages": parts.pop("pages"),
            "page_weights": parts.pop("weights"),
            "spare_pages": self._spare.nbytes,
            "directory": sum(parts.values()),
            "bits": int(self._valid.nbytes),
            "filter": self._filter.nbytes,
            "resident_pages": self._resident.nbytes,
            "delta": self._delta.nbytes,
        }

    @property
    def host_bytes(self) -> int:
        parts = self._base.memory_usage()
        return parts["pages"] + parts["weights"] + self._spare.nbytes + self._table.host_bytes

    @property
    def _table(self) -> SlotArrays:
        """The table of all edges if there is one, else an empty one."""
        if self._shown is not None:
            return self._shown
        return SlotArrays.without_edges(self.backend, 0, 0, self.vertex_dtype, self.weight_dtype, self.memory)

    def statistics(self) -> dict[str, int]:
        """Return how often new pages were written, and how many edges and dead slots are beside the pages now."""
        return {"merges": self._num_merges, "delta_edges": self._delta.num_edges, "dead_slots": self._num_dead}


def _room_for_pages(backend: Any, share: float) -> int:
    """Return how many bytes pages may take that stay on the device; none where there is no other memory."""
    free = backend.free_bytes()
    return 0 if free is None else int(share * free)
