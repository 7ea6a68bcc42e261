"""GraphVine: edge blocks from a queue, linked into a complete binary tree for each vertex.

Rohith Krishnan S, V. K. Tavva, R. Nasre, "GraphVine: A Data Structure to Optimize Dynamic Graph Processing on GPUs",
preprint, 2023. ``docs/stores/graphvine.md`` lists where the paper is open or wrong, and what we do: an edge is searched
before it is appended, holes are filled, blocks return to the queue.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from dynstore.batches.sorted import EdgeBatch, sort_unique
from dynstore.config import check_share
from dynstore.errors import InputError, InputTypeError, LimitError
from dynstore.stores.base import Columns, Plan, StoreOptions
from dynstore.stores.papers.graphvine.blocks import NONE, Blocks
from dynstore.stores.rows.store import RowStore
from dynstore.stores.table.slots import SlotArrays
from dynstore.typing import Array, OnDuplicate, Path

__all__ = ["GraphVineOptions", "GraphVineStore"]

CALLER = "store 'graphvine'"
# Blocks are written anew if there are so many times more than are in use, or holes are this share of the entries.
MAX_IDLE, MAX_HOLES = 4, 0.25
MIN_BLOCK, LARGEST_BLOCK, MAX_BLOCKS = 4, 2**20, 2**30


@dataclass(frozen=True)
class GraphVineOptions(StoreOptions):
    """The paper's parameters, and ours where it gives none.

    Attributes
    ----------
    block_size : int, optional
        Edges a block. By default the average degree of the vertices in the first batch (section 4.3), 4 to 2**20.
    reserve_bytes : int
        Memory to reserve for blocks at the start. The paper reserves at least half of the GPU's (section 4.2); our
        default is none.
    refill_at, refill : float
        When the share ``refill_at`` of the blocks is in use, their number grows by the share ``refill``: 0.8 and 0.25
        (section 4.2).
    compaction : bool
        Whether a deletion fills its holes with the row's last entries and returns blocks to the queue, or only marks
        the holes, as the paper does.
    """

    block_size: int | None = None
    reserve_bytes: int = 0
    refill_at: float = 0.8
    refill: float = 0.25
    compaction: bool = True

    def __post_init__(self) -> None:
        for name, least, most in (("block_size", 1, LARGEST_BLOCK), ("reserve_bytes", 0, 2**63 - 1)):
            value = getattr(self, name)
            if name == "block_size" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                raise InputTypeError(f"{CALLER}: {name} is {value!r}; wanted an int from {least} to {most}")
            if not least <= value <= most:
                raise InputError(f"{CALLER}: {name} is {value}; wanted an int from {least} to {most}")
        check_share(CALLER, "refill_at", self.refill_at, 0.1, 1.0)
        check_share(CALLER, "refill", self.refill, 0.0, 10.0)
        if not isinstance(self.compaction, bool):
            raise InputTypeError(f"{CALLER}: compaction is {self.compaction!r}; wanted True or False")


class GraphVineStore(RowStore):
    """Rows of blocks; edges are appended at a row's end."""

    name = "graphvine"
    Options = GraphVineOptions
    options: GraphVineOptions
    _blocks: Blocks

    def _no_edges(self, num_vertices: int) -> SlotArrays:
        slots = super()._no_edges(num_vertices)
        self._blocks = self._no_blocks(num_vertices, self.options.block_size or MIN_BLOCK)
        return slots

    def plan_insert(self, batch: EdgeBatch, num_vertices: int, on_duplicate: OnDuplicate) -> Plan:
        kernels, backend = self._kernels, self.backend
        num_vertices = max(num_vertices, self.num_vertices)
        marks, num_entries = self._room_for_rows(num_vertices), self._blocks.pool.shape[0]
        blocks, path = self._settled(num_vertices, batch)
        appending = kernels.plan_append(backend, blocks, num_vertices, batch)
        if blocks.num_used + appending.num_blocks > self.options.refill_at * blocks.num_blocks:
            if self._num_edges and blocks.num_entries - self._num_edges > MAX_HOLES * blocks.num_entries:
                blocks, path = self._written_anew(num_vertices), "merge"
                appending = kernels.plan_append(backend, blocks, num_vertices, batch)
            blocks = self._refilled(blocks, appending.num_blocks)
        found = len(batch) - appending.num_new
        total = self._num_edges + appending.num_new
        self._check_num_slots(total)
        write = backend.prepare(kernels.append_keys, blocks, batch, appending, on_duplicate == "add")
        mark = self._plan_marks(marks, batch.src)

        def commit() -> None:
            write()
            self._count_appended(blocks, appending)
            self._blocks = blocks
            mark()
            self._set_rows(marks, num_vertices, total)

        loops = self._count_loops(batch, appending.places >= 0) if batch.num_loops else 0
        return Plan(found, loops, commit, blocks.pool.shape[0] > num_entries, path)

    def plan_delete(self, batch: EdgeBatch) -> Plan:
        kernels, compacting = self._kernels, self.options.compaction
        blocks, path = self._settled(self.num_vertices, None)
        removal = kernels.plan_removal(self.backend, blocks, self.num_vertices, batch, compacting)
        total = self._num_edges - removal.num_found
        write = self.backend.prepare(kernels.remove_keys, blocks, batch, removal, compacting)
        mark = self._plan_marks(self._dirty, batch.src)

        def commit() -> None:
            write()
            blocks.num_free += removal.num_blocks
            blocks.num_entries -= removal.num_entries
            self._blocks = blocks
            mark()
            self._set_rows(self._dirty, self.num_vertices, total)

        loops = self._count_loops(batch, removal.places >= 0) if batch.num_loops else 0
        return Plan(removal.num_found, loops, commit, path=path)

    def plan_vertices(self, num_vertices: int) -> Plan:
        num_vertices = max(num_vertices, self.num_vertices)
        marks, blocks = self._room_for_rows(num_vertices), self._with_rows(self._blocks, num_vertices)

        def commit() -> None:
            self._blocks = blocks
            self._set_rows(marks, num_vertices, self._num_edges)

        return Plan(0, 0, commit, path="in-place")

    def look_up(self, src: Array, dst: Array) -> tuple[Array, Array | None]:
        xp, blocks = self.backend.xp, self._blocks
        if src.shape[0] == 0:
            return src.astype(np.bool_), None if blocks.weights is None else src.astype(blocks.weights.dtype)
        order = xp.lexsort(xp.stack((dst, src)))
        src, dst = src[order], dst[order]
        first = self.backend.empty(src.shape[0], np.bool_)  # the first of equal keys: a query may repeat keys
        first[:1] = True
        first[1:] = (src[1:] != src[:-1]) | (dst[1:] != dst[:-1])
        found, _ = self._kernels.find_keys(self.backend, blocks, self.num_vertices, src[first], dst[first])
        places = self.backend.empty(src.shape[0], np.int64)
        places[order] = found[xp.cumsum(first) - 1]
        there = places >= 0
        if blocks.weights is None:
            return there, None
        nothing = self.backend.zeros(places.shape[0], blocks.weights.dtype)
        return there, xp.where(there, blocks.weights[xp.maximum(places, 0)], nothing) if blocks.num_blocks else nothing

    def row(self, number: int) -> Array:
        row = self._kernels.read_rows(self.backend, self._blocks, self.backend.asarray([number]))[1]
        row.sort()
        return row

    def copy(self) -> Self:
        twin = super().copy()
        twin._blocks = replace(self._blocks)
        for name in ("degrees", "written", "roots", "lasts", "pool", "weights", "children", "queue"):
            array = getattr(self._blocks, name)
            setattr(twin._blocks, name, None if array is None else self._duplicate(array))
        return twin

    @property
    def _kernels(self) -> Any:
        return self.backend.kernels("dynstore.stores.papers.graphvine", "update")

    def _degrees(self) -> Array:
        return self._blocks.degrees[: self.num_vertices]

    def _read_rows(self, rows: Array) -> Columns:
        return sort_unique(self.backend, *self._kernels.read_rows(self.backend, self._blocks, rows))

    def _part_sizes(self) -> dict[str, int]:
        blocks = self._blocks
        weights = 0 if blocks.weights is None else blocks.weights.itemsize
        entry = blocks.pool.itemsize + weights
        return {
            "sentinels": sum(int(part.nbytes) for part in (blocks.degrees, blocks.written, blocks.roots, blocks.lasts)),
            "blocks": blocks.num_used * blocks.size * entry,
            "free_blocks": (int(blocks.pool.shape[0]) - blocks.num_used * blocks.size) * entry,
            "trees": int(blocks.children.nbytes),
            "queue": int(blocks.queue.nbytes),
        }

    # ------------------------------------------------------------------ memory

    def _reserved_entries(self) -> int:
        entry = self.vertex_dtype.itemsize + (0 if self.weight_dtype is None else self.weight_dtype.itemsize)
        return max(self.capacity, self.options.reserve_bytes // entry)

    def _no_blocks(self, num_vertices: int, size: int) -> Blocks:
        """Return blocks without edges; reserved blocks are in the queue."""
        backend, num_rows = self.backend, _power_of_two(num_vertices)
        degrees, written = (backend.zeros(num_rows, self.vertex_dtype) for _ in range(2))
        roots, lasts = (backend.empty(num_rows, np.int32) for _ in range(2))
        roots.fill(NONE)
        lasts.fill(NONE)
        num_blocks = self._reserved_entries() // size
        pool, weights = self._reserved_pool()
        links, queue = backend.empty(2 * num_blocks, np.int32), backend.empty(num_blocks, np.int32)
        links.fill(NONE)
        queue[:] = backend.xp.arange(num_blocks, dtype=np.int32)
        return Blocks(size, degrees, written, roots, lasts, pool, weights, links, queue, 0, num_blocks)

    def _reserved_pool(self) -> tuple[Array, Array | None]:
        """Return the entries to reserve: the present ones, if these are reserved and empty."""
        num_entries = self._reserved_entries()
        present = getattr(self, "_blocks", None)
        if present is not None and self._num_edges == 0 and present.pool.shape[0] == num_entries:
            return present.pool, present.weights
        weights = None if self.weight_dtype is None else self.backend.empty(num_entries, self.weight_dtype)
        return self.backend.empty(num_entries, self.vertex_dtype), weights

    def _with_blocks(self, old: Blocks, num_blocks: int) -> Blocks:
        """Return the same blocks in larger arrays, the new ones at the end of the queue."""
        backend, before = self.backend, old.num_blocks
        if num_blocks <= before:
            return old
        if num_blocks > MAX_BLOCKS:
            raise LimitError(f"{CALLER}: {num_blocks} blocks are needed; wanted at most {MAX_BLOCKS}")

        def larger(array: Array, length: int) -> Array:
            fresh = backend.empty(length, array.dtype)
            fresh[: array.shape[0]] = array
            return fresh

        children, queue = backend.empty(2 * num_blocks, np.int32), backend.empty(num_blocks, np.int32)
        children[: 2 * before] = old.children
        children[2 * before :] = NONE
        straight = min(old.num_free, before - old.front)  # up to the ring's end; the rest wraps around
        queue[:straight] = old.queue[old.front : old.front + straight]
        queue[straight : old.num_free] = old.queue[: old.num_free - straight]
        queue[old.num_free : old.num_free + num_blocks - before] = backend.xp.arange(before, num_blocks, dtype=np.int32)
        return replace(
            old,
            pool=larger(old.pool, num_blocks * old.size),
            weights=None if old.weights is None else larger(old.weights, num_blocks * old.size),
            children=children,
            queue=queue,
            front=0,
            num_free=old.num_free + num_blocks - before,
        )

    def _refilled(self, blocks: Blocks, num_needed: int) -> Blocks:
        """Return blocks with at least ``num_needed`` free ones, of which then no more than ``refill_at`` are in use."""
        used = blocks.num_used + num_needed
        if used <= self.options.refill_at * blocks.num_blocks:
            return blocks
        grown = int(blocks.num_blocks * (1 + self.options.refill))
        return self._with_blocks(blocks, max(grown, int(np.ceil(used / self.options.refill_at))))

    def _with_rows(self, blocks: Blocks, num_vertices: int) -> Blocks:
        """Return blocks whose dictionary has at least ``num_vertices`` entries, doubled as often as needed."""
        present, num_rows = blocks.roots.shape[0], _power_of_two(num_vertices)
        if num_rows <= present:
            return blocks
        columns: dict[str, Array] = {}
        for name, nothing in (("degrees", 0), ("written", 0), ("roots", NONE), ("lasts", NONE)):
            column = getattr(blocks, name)
            columns[name] = self.backend.empty(num_rows, column.dtype)
            columns[name][:present] = column
            columns[name][present:] = nothing
        return replace(blocks, **columns)

    def _settled(self, num_vertices: int, batch: EdgeBatch | None) -> tuple[Blocks, Path]:
        """Return blocks to update: the present ones, or new ones if these are mostly idle or have no edge."""
        blocks = self._blocks
        if self._num_edges == 0 and batch is not None and len(batch):
            size = self.options.block_size or self._average_degree(batch.src)
            return self._no_blocks(num_vertices, size), "merge"
        reserved = self._reserved_entries() // blocks.size
        if blocks.num_blocks > max(MAX_IDLE * blocks.num_used, reserved, 1):
            return self._written_anew(num_vertices), "merge"
        return self._with_rows(blocks, num_vertices), "in-place"

    def _written_anew(self, num_vertices: int) -> Blocks:
        """Return fresh blocks with all edges, and a block size that fits them."""
        slots = self.slots
        size = self.options.block_size or (self._average_degree(slots.src) if self._num_edges else MIN_BLOCK)
        blocks, batch = self._no_blocks(num_vertices, size), EdgeBatch(slots.src, slots.dst, slots.weights)
        appending = self._kernels.plan_append(self.backend, blocks, num_vertices, batch)
        blocks = self._refilled(blocks, appending.num_blocks)
        self._kernels.append_keys(blocks, batch, appending, False)
        self._count_appended(blocks, appending)
        return blocks

    @staticmethod
    def _count_appended(blocks: Blocks, appending: Any) -> None:
        blocks.front = (blocks.front + appending.num_blocks) % max(blocks.num_blocks, 1)
        blocks.num_free -= appending.num_blocks
        blocks.num_entries += appending.num_new

    def _average_degree(self, src: Array) -> int:
        """Return the block size for sorted edges: the average degree of their rows."""
        num_rows = 1 + int(self.backend.xp.count_nonzero(src[1:] != src[:-1]))
        return min(max(MIN_BLOCK, round(int(src.shape[0]) / num_rows)), LARGEST_BLOCK)


def _power_of_two(count: int) -> int:
    return 1 << max(count - 1, 0).bit_length()
