"""The arrays of one gap-aware edge table: ``src``, ``dst``, weights, validity bits, row offsets."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dynstore.bits import words_for
from dynstore.pins import Pins
from dynstore.scratch import ScratchCache
from dynstore.stores.table.tuning import DEFAULT_TUNING, Tuning

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.backend import Backend, Part
    from dynstore.typing import Array

__all__ = ["ABSENT", "OFFSET_SLACK", "PRESENT", "TOMBSTONE", "Attempt", "SearchResult", "SlotArrays"]

Made = TypeVar("Made")
OFFSET_SLACK = 1.25

# What a search finds for a key: nothing, the run of a deleted edge, or an edge.
ABSENT, TOMBSTONE, PRESENT = 0, 1, 2


@dataclass(slots=True)  # frozen ones take three times as long to make
class SearchResult:
    """Where the keys of a batch are or belong.

    Attributes
    ----------
    positions : array, shape (B,), int64, or int32 if that numbers all slots
        The first slot whose key is not below the batch's.
    states : array, shape (B,), uint8
        ABSENT, TOMBSTONE or PRESENT.
    found : int
        How many are PRESENT.
    found_loops : int
        Self-loops among them (counted for undirected graphs only).
    listed : object or None
        The absent and restored keys in order, for a merge of everything, if they have been sorted but the batch has
        not.
    """

    positions: Array
    states: Array
    found: int
    found_loops: int
    listed: Any = None


@dataclass(slots=True)
class Attempt:
    """A speculative insertion.

    Attributes
    ----------
    located : SearchResult
        What was found; only the counts if it is written.
    is_written : bool
        If not, everything has to be merged.
    """

    located: SearchResult
    is_written: bool


@dataclass
class SlotArrays:
    """Edges in slots, sorted by (src, dst); see ``docs/internals/table.md`` for the invariants.

    The arrays are never exchanged: ``replace`` makes an object with other ones.

    Attributes
    ----------
    src, dst : array, shape (S,), vertex dtype
    weights : array, shape (S,), or None
    valid : array of uint32 words, one bit a slot
    offsets : array, shape (V + 1,), vertex dtype
        A view of a buffer that may be longer, so that V can grow without a copy.
    num_edges : int
        Valid slots.
    pins : Pins
        Exports of these buffers that are still alive.
    scratch : ScratchCache
    tuning : Tuning
        Which path an update of these slots takes.
    packed : object or None
        The packed arguments of kernels that are launched again and again; the launching code keeps them here.
    """

    src: Array
    dst: Array
    weights: Array | None
    valid: Array
    offsets: Array
    offset_buffer: Array
    num_edges: int = 0
    pins: Pins = field(default_factory=Pins)
    scratch: ScratchCache = field(default_factory=ScratchCache)
    tuning: Tuning = DEFAULT_TUNING
    packed: Any = field(default=None, init=False, repr=False, compare=False)  # `replace` does not copy it

    @cached_property
    def num_slots(self) -> int:
        return int(self.src.shape[0])

    @cached_property
    def num_vertices(self) -> int:
        return int(self.offsets.shape[0]) - 1

    @cached_property
    def _num_edge_bytes(self) -> int:
        return sum(int(column.nbytes) for column in (self.src, self.dst, self.weights) if column is not None)

    @classmethod
    def allocate(
        cls,
        backend: Backend,
        num_slots: int,
        num_vertices: int,
        vertex_dtype: np.dtype,
        weight_dtype: np.dtype | None,
        zeroed: bool = False,
    ) -> SlotArrays:
        """Reserve arrays without filling them (validity bits are 0); ``zeroed``: columns are filled with zeros."""
        make, offsets = backend.zeros if zeroed else backend.empty, backend.empty(num_vertices + 1, vertex_dtype)
        return cls(
            make(num_slots, vertex_dtype),
            make(num_slots, vertex_dtype),
            None if weight_dtype is None else make(num_slots, weight_dtype),
            backend.zeros(words_for(num_slots), np.uint32),
            offsets,
            offsets,
        )

    @classmethod
    def without_edges(
        cls, backend: Backend, num_slots: int, num_vertices: int, vertex_dtype: np.dtype, weight_dtype: np.dtype | None
    ) -> SlotArrays:
        """Make arrays that never held an edge: (0, 0) in every slot, none valid."""
        slots = cls.allocate(backend, num_slots, num_vertices, vertex_dtype, weight_dtype, zeroed=True)
        slots.clear_rows()
        return slots

    def clear_rows(self) -> None:
        """Write the offsets of a table in which all slots carry (0, 0)."""
        self.offsets.fill(self.num_slots)
        if self.num_vertices:
            self.offsets[0] = 0

    def with_vertices(self, backend: Backend, num_vertices: int) -> SlotArrays:
        """Return the same slots with rows added at the end. Never writes what an export can see."""
        old = self.num_vertices
        if num_vertices <= old:
            return self
        buffer = self.offset_buffer
        if buffer.shape[0] <= num_vertices or old == 0:
            buffer = backend.empty(int((num_vertices + 1) * OFFSET_SLACK), buffer.dtype)
            buffer[: old + 1] = self.offsets
            if old == 0:  # the closing entry becomes the start of row 0
                buffer[0] = 0
        # Past the view of the present offsets, so it is invisible before the commit.
        buffer[old + 1 : num_vertices + 1] = self.num_slots
        return replace(self, offsets=buffer[: num_vertices + 1], offset_buffer=buffer)

    def copy(self, backend: Backend) -> SlotArrays:
        """Return a deep copy without pins."""

        def duplicate(array: Array) -> Array:
            fresh = backend.empty(array.shape, array.dtype)
            fresh[:] = array
            return fresh

        offsets = duplicate(self.offsets)
        return SlotArrays(
            duplicate(self.src),
            duplicate(self.dst),
            None if self.weights is None else duplicate(self.weights),
            duplicate(self.valid),
            offsets,
            offsets,
            self.num_edges,
            tuning=self.tuning,
        )

    def room_at(self, density: float) -> int:
        """Return how many more edges there may be at a density; negative if there are too many already."""
        return int(density * self.num_slots) - self.num_edges

    def acquire_scratch(
        self, backend: Backend, kind: str | None, make: Callable[..., Made], parts: tuple[Part, ...], zeroed: int
    ) -> Made:
        """Return an update's scratch, see :meth:`~dynstore.scratch.ScratchCache.take`."""
        return self.scratch.take(backend, kind, self._num_edge_bytes, make, parts, zeroed)

    def memory_usage(self) -> dict[str, int]:
        """Return bytes by part."""
        return {
            "src": int(self.src.nbytes),
            "dst": int(self.dst.nbytes),
            "weights": 0 if self.weights is None else int(self.weights.nbytes),
            "valid": int(self.valid.nbytes),
            "offsets": int(self.offset_buffer.nbytes),
            "scratch": self.scratch.nbytes,
        }
