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
    from dynstore.typing import Array, Memory

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
    memory : {"device", "host"}
        Where ``src``, ``dst`` and weights lie: in device memory, or in host memory that kernels use in place. All that
        is small for each slot lies in device memory.
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
    memory: Memory = "device"
    packed: Any = field(default=None, init=False, repr=False, compare=False)  # `replace` does not copy it

    @cached_property
    def num_slots(self) -> int:
        return int(self.src.shape[0])

    @cached_property
    def num_vertices(self) -> int:
        return int(self.offsets.shape[0]) - 1

    @cached_property
    def _num_edge_bytes(self) -> int:
        return sum(int(column.nbytes) for column in self.columns if column is not None)

    @property
    def columns(self) -> tuple[Array, Array, Array | None]:
        """``src``, ``dst`` and the weights, which are most of the table."""
        return self.src, self.dst, self.weights

    def columns_of(self, start: int, end: int) -> tuple[Array, Array, Array | None]:
        """Return views of the columns of some slots."""
        part = slice(start, end)
        return self.src[part], self.dst[part], None if self.weights is None else self.weights[part]

    @property
    def host_bytes(self) -> int:
        """Bytes of the columns in host memory that kernels use in place."""
        return self._num_edge_bytes if self.memory == "host" else 0

    @classmethod
    def allocate(
        cls,
        backend: Backend,
        num_slots: int,
        num_vertices: int,
        vertex_dtype: np.dtype,
        weight_dtype: np.dtype | None,
        zeroed: bool = False,
        memory: Memory = "device",
    ) -> SlotArrays:
        """Reserve arrays without filling them (validity bits are 0); ``zeroed``: columns are filled with zeros."""

        def make(dtype: np.dtype) -> Array:
            column = backend.empty_in(memory, num_slots, dtype)
            if zeroed:
                column.fill(0)
            return column

        offsets = backend.empty(num_vertices + 1, vertex_dtype)
        return cls(
            make(vertex_dtype),
            make(vertex_dtype),
            None if weight_dtype is None else make(weight_dtype),
            backend.zeros(words_for(num_slots), np.uint32),
            offsets,
            offsets,
            memory=memory,
        )

    @classmethod
    def without_edges(
        cls,
        backend: Backend,
        num_slots: int,
        num_vertices: int,
        vertex_dtype: np.dtype,
        weight_dtype: np.dtype | None,
        memory: Memory = "device",
    ) -> SlotArrays:
        """Make arrays that never held an edge: (0, 0) in every slot, none valid."""
        slots = cls.allocate(backend, num_slots, num_vertices, vertex_dtype, weight_dtype, True, memory)
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

        valid, offsets = _duplicate(backend, "device", self.valid), _duplicate(backend, "device", self.offsets)
        src, dst, weights = (_duplicate(backend, self.memory, column) for column in self.columns)
        return SlotArrays(
            src, dst, weights, valid, offsets, offsets, self.num_edges, tuning=self.tuning, memory=self.memory
        )

    def in_host(self, backend: Backend) -> SlotArrays:
        """Return the same slots with the columns in host memory; all else is shared, the exports' pins, too."""
        src, dst, weights = (_duplicate(backend, "host", column) for column in self.columns)
        return replace(self, src=src, dst=dst, weights=weights, scratch=ScratchCache(), memory="host")

    def room_at(self, density: float) -> int:
        """Return how many more edges there may be at a density; negative if there are too many already."""
        return int(density * self.num_slots) - self.num_edges

    def acquire_scratch(
        self, backend: Backend, kind: str | None, make: Callable[..., Made], parts: tuple[Part, ...], zeroed: int
    ) -> Made:
        """Return an update's scratch, see :meth:`~dynstore.scratch.ScratchCache.take`."""
        size = 0 if self.memory == "host" else self._num_edge_bytes  # what of the table lies beside the scratch
        return self.scratch.take(backend, kind, size, make, parts, zeroed)

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


def _duplicate(backend: Backend, memory: Memory, array: Array | None) -> Array | None:
    if array is None:
        return None
    fresh = backend.empty_in(memory, array.shape, array.dtype)
    fresh[:] = array
    return fresh
