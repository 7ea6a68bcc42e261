"""The strong baseline: a sorted array, merged with each sorted batch at bandwidth speed.

There are two sets of buffers; an update streams once from one to the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dynstore.batches.sorted import EdgeBatch
from dynstore.bits import set_first_bits
from dynstore.stores.base import Plan, Store
from dynstore.stores.table.slots import OFFSET_SLACK, PRESENT, SearchResult, SlotArrays
from dynstore.typing import OnDuplicate

__all__ = ["MergeStore"]

SLOT_SLACK = 1.125


class MergeStore(Store):
    """A packed CSR that is merged anew with every batch."""

    name = "merge"
    memories = ("device", "host")

    # The whole buffers under the view `slots`, and the set that the next update writes.
    _buffers: SlotArrays
    _spare: SlotArrays | None = None

    def _no_edges(self, num_vertices: int) -> SlotArrays:
        self._check_num_slots(self.capacity)
        self._buffers = SlotArrays.allocate(
            self.backend, self.capacity, num_vertices, self.vertex_dtype, self.weight_dtype, memory=self.memory
        )
        slots = _view(self._buffers, 0, num_vertices)
        slots.offsets.fill(0)
        return slots

    def plan_insert(self, batch: EdgeBatch, num_vertices: int, on_duplicate: OnDuplicate) -> Plan:
        xp, old = self.backend.xp, self.slots.with_vertices(self.backend, num_vertices)
        positions, states = self._locate(old, batch.src, batch.dst)
        new = states != PRESENT
        added, places = batch, positions
        rows = xp.flatnonzero(new)  # only once: on CUDA the host waits for the number of rows
        num_new = int(rows.shape[0])
        found_places = found_weights = None
        if num_new < len(batch):
            weights = None if batch.weights is None else batch.weights[rows]
            added, places = EdgeBatch(batch.src[rows], batch.dst[rows], weights), positions[rows]
        if num_new < len(batch) and batch.weights is not None and old.weights is not None:
            found = ~new
            # The future place of a found key: its present place plus the new keys before it.
            found_places = (positions + xp.cumsum(new))[found]
            found_weights = batch.weights[found]
            if on_duplicate == "add":
                found_weights += old.weights[positions[found]]
        buffers = self._reserve(old.num_edges + num_new, old.num_vertices)
        out = _view(buffers, old.num_edges + num_new, old.num_vertices)
        kernels = self._merging

        def commit() -> None:
            kernels.merge_in(self.backend, old.columns, (added.src, added.dst, added.weights), places, out.columns)
            kernels.shift_offsets(old.offsets, added.src, 1, out.offsets)
            if found_weights is not None and out.weights is not None:
                out.weights[found_places] = found_weights
            self._swap(buffers, out)

        grown = buffers.num_slots > self._buffers.num_slots
        located = SearchResult(positions, states, len(batch) - num_new, self._count_loops(batch, ~new))
        return Plan(located.found, located.found_loops, commit, grown, located=located)

    def plan_delete(self, batch: EdgeBatch) -> Plan:
        old = self.slots
        positions, states = self._locate(old, batch.src, batch.dst)
        found = states == PRESENT
        chosen = self.backend.xp.flatnonzero(found)
        num_found = int(chosen.shape[0])
        rows, places = batch.src, positions
        if num_found < len(batch):
            rows, places = rows[chosen], places[chosen]
        buffers = self._reserve(old.num_edges - num_found, old.num_vertices)
        out = _view(buffers, old.num_edges - num_found, old.num_vertices)
        kernels = self._merging

        def commit() -> None:
            kernels.merge_out(self.backend, old.columns, places, out.columns)
            kernels.shift_offsets(old.offsets, rows, -1, out.offsets)
            self._swap(buffers, out)

        located = SearchResult(positions, states, num_found, self._count_loops(batch, found))
        return Plan(num_found, located.found_loops, commit, located=located)

    def plan_restore(self) -> Callable[[], None]:
        """What a deletion has read is the spare set after it, which only the next commit writes."""
        buffers, slots = self._buffers, self.slots
        return lambda: self._swap(buffers, slots)

    def copy(self) -> MergeStore:
        twin = super().copy()
        assert isinstance(twin, MergeStore)
        twin._buffers, twin._spare = twin.slots, None
        return twin

    def plan_move(self) -> Callable[[], None]:
        move = super().plan_move()

        def move_all() -> None:
            move()
            self._buffers, self._spare = self.slots, None

        return move_all

    @property
    def host_bytes(self) -> int:
        return self._buffers.host_bytes + (0 if self._spare is None else self._spare.host_bytes)

    def memory_usage(self) -> dict[str, int]:
        spare = 0 if self._spare is None else sum(self._spare.memory_usage().values())
        return self._buffers.memory_usage() | {"offsets": int(self.slots.offset_buffer.nbytes), "spare": spare}

    @property
    def _merging(self) -> Any:
        return self.backend.kernels("dynstore.stores.table", "merging")

    def _reserve(self, num_slots: int, num_vertices: int) -> SlotArrays:
        """Return buffers of at least these sizes without readers: the spare ones if they fit."""
        self._check_num_slots(num_slots)
        spare = self._spare
        if (
            spare is not None
            and not spare.pins
            and spare.num_slots >= num_slots
            and spare.offset_buffer.shape[0] > num_vertices
        ):
            return spare
        capacity = max(self.capacity, self._buffers.num_slots)
        if capacity < num_slots:
            capacity = int(num_slots * SLOT_SLACK)
        rows = max(int(num_vertices * OFFSET_SLACK), self.slots.offset_buffer.shape[0] - 1)
        dtypes = self.vertex_dtype, self.weight_dtype
        return SlotArrays.allocate(self.backend, capacity, rows, *dtypes, memory=self.memory)

    def _swap(self, buffers: SlotArrays, slots: SlotArrays) -> None:
        set_first_bits(slots.valid, slots.num_slots)
        self._spare, self._buffers, self.slots = self._buffers, buffers, slots

    def plan_vertices(self, num_vertices: int) -> Plan:
        slots = self.slots.with_vertices(self.backend, num_vertices)

        def commit() -> None:
            self._buffers = replace(self._buffers, offsets=slots.offset_buffer, offset_buffer=slots.offset_buffer)
            self.slots = slots

        return Plan(0, 0, commit, path="in-place")

    def plan_clear(self) -> Plan:
        twin = object.__new__(MergeStore)
        twin.__dict__.update(self.__dict__)
        slots = twin._no_edges(0)

        def commit() -> None:
            self._buffers, self._spare, self.slots = twin._buffers, None, slots

        return Plan(0, 0, commit)


def _view(buffers: SlotArrays, num_slots: int, num_vertices: int) -> SlotArrays:
    """Return a view of the first slots and rows of some buffers; all its slots are valid."""
    return SlotArrays(
        buffers.src[:num_slots],
        buffers.dst[:num_slots],
        None if buffers.weights is None else buffers.weights[:num_slots],
        buffers.valid,
        buffers.offset_buffer[: num_vertices + 1],
        buffers.offset_buffer,
        num_slots,
        buffers.pins,
        memory=buffers.memory,
    )
