"""The arrays of one slab hash table per vertex; see ``docs/stores/slab-hash.md``."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from dynstore.scratch import ScratchCache
from dynstore.stores.table.slots import OFFSET_SLACK

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.backend import Backend, Part
    from dynstore.typing import Array

__all__ = [
    "BUCKETS",
    "COUNTER",
    "DEGREE",
    "EMPTY",
    "END",
    "FIRST",
    "FREE",
    "HEAD_WORDS",
    "LOCKED",
    "SLAB_BYTES",
    "TOMBSTONE",
    "USED",
    "Probe",
    "SlabTable",
    "clear_heads",
]

Made = TypeVar("Made")
SLAB_BYTES = 128
# Marks in place of a key in a slab; keys are not negative. All bits of an unused slab are ones.
EMPTY, TOMBSTONE = -1, -2
# Marks in place of a slab's number: the end of a chain, and the locked end of a chain that is being extended.
END, LOCKED = -1, -2
# Words of a row's head; COUNTER is -1 except while a plan counts on the host.
FIRST, BUCKETS, DEGREE, COUNTER = 0, 1, 2, 3
HEAD_WORDS = 4
# Words of a pool's state.
USED, FREE = 0, 1


class Probe(NamedTuple):
    """The places of a batch's edges, and the slabs needed to insert the absent ones.

    Attributes
    ----------
    places : array, shape (B,), int64
        The word of each present key, else -1.
    found, found_loops : int
        Number of present edges, and of self-loops among them if the batch counts these.
    needed : int
        The most slabs that the absent edges take; 0 if not counted.
    used, free : int
        State of the pool: slabs that were ever taken, and those of them that were returned.
    overlong : array, int64, or None
        Rows with a chain that would get too long, perhaps repeatedly; None for none.
    tasks
        Further arguments for the writing kernels of this device.
    """

    places: Array
    found: int
    found_loops: int
    needed: int
    used: int
    free: int
    overlong: Array | None
    tasks: Any = None


@dataclass
class SlabTable:
    """A dictionary of rows, and the pool of the slabs that their chains are made of.

    Attributes
    ----------
    slabs : array, shape (N * words,), vertex dtype
        A slab holds ``keys`` keys, their weights, a counter (-1 except while a plan counts on the host) and the next
        slab's number.
    heads : array, shape (4 * R,), int32
        First base slab (END for a row without a table), buckets, degree and a counter of each row.
    dirty : array, shape (R,), uint8
        Rows that differ from the last sorted view of them.
    unused : array, shape (N,), int32
        A stack of returned slabs, whose bits are all ones.
    state : array, shape (2,), int64
        USED: number of slabs ever taken, from the first on; FREE: number of slabs on the stack.
    weight_words : int
        Words of a weight.
    scratch : ScratchCache
    packed
        The arrays packed for the kernels of this device; None until they are first needed.
    """

    slabs: Array
    heads: Array
    dirty: Array
    unused: Array
    state: Array
    weight_words: int
    scratch: ScratchCache = field(default_factory=ScratchCache)
    packed: Any = None

    @classmethod
    def allocate(
        cls, backend: Backend, num_slabs: int, num_rows: int, vertex_dtype: np.dtype, weight_dtype: np.dtype | None
    ) -> SlabTable:
        """Make tables of rows without edges."""
        word, num_slabs = vertex_dtype.itemsize, max(num_slabs, 1)  # kernels read slab 0 for rows without slabs
        table = cls(
            backend.empty(num_slabs * (SLAB_BYTES // word), vertex_dtype),
            backend.empty(num_rows * HEAD_WORDS, np.int32),
            backend.zeros(num_rows, np.uint8),
            backend.empty(num_slabs, np.int32),
            backend.zeros(2, np.int64),
            0 if weight_dtype is None else -(-weight_dtype.itemsize // word),
        )
        table.slabs.fill(EMPTY)
        clear_heads(table.heads)
        return table

    @cached_property
    def words(self) -> int:
        """Words of a slab."""
        return SLAB_BYTES // int(self.slabs.dtype.itemsize)

    @cached_property
    def keys(self) -> int:
        """Keys that a slab holds."""
        return (self.words - 2) // (1 + self.weight_words)

    @property
    def num_slabs(self) -> int:
        return int(self.unused.shape[0])

    @property
    def num_rows(self) -> int:
        return int(self.dirty.shape[0])

    def column(self, word: int) -> Array:
        """Return a view of one word of each row's head."""
        return self.heads[word::HEAD_WORDS]

    def weights_as_words(self, weights: Array) -> Array:
        """Return the same memory as the words that slabs hold."""
        size = min(int(weights.dtype.itemsize), int(self.slabs.dtype.itemsize))
        return weights.view(np.int32 if size == 4 else np.int64)

    def grow_pool(self, backend: Backend, num_slabs: int) -> None:
        """Grow the pool to ``num_slabs``; the table's contents are unchanged, even if memory runs out."""
        slabs = backend.empty(num_slabs * self.words, self.slabs.dtype)
        unused = backend.empty(num_slabs, np.int32)
        old = self.slabs.shape[0]
        slabs[:old] = self.slabs
        slabs[old:] = EMPTY
        unused[: self.num_slabs] = self.unused
        self.slabs, self.unused, self.packed = slabs, unused, None

    def grow_rows(self, backend: Backend, num_rows: int) -> None:
        """Grow to at least ``num_rows`` rows; the table's contents are unchanged, even if memory runs out."""
        if num_rows <= self.num_rows:
            return
        num_rows = int(num_rows * OFFSET_SLACK)
        heads, dirty = backend.empty(num_rows * HEAD_WORDS, np.int32), backend.zeros(num_rows, np.uint8)
        old = self.num_rows
        heads[: old * HEAD_WORDS] = self.heads
        clear_heads(heads[old * HEAD_WORDS :])
        dirty[:old] = self.dirty
        self.heads, self.dirty, self.packed = heads, dirty, None

    def acquire_scratch(self, backend: Backend, kind: str, make: Callable[..., Made], parts: tuple[Part, ...]) -> Made:
        """Return an update's scratch, not cleared; see :meth:`~dynstore.scratch.ScratchCache.take`."""
        return self.scratch.take(backend, kind, self.slabs.nbytes, make, parts)

    def copy(self, backend: Backend) -> SlabTable:
        """Return a deep copy, without scratch."""

        def duplicate(array: Array) -> Array:
            fresh = backend.empty(array.shape, array.dtype)
            fresh[:] = array
            return fresh

        return SlabTable(
            duplicate(self.slabs),
            duplicate(self.heads),
            duplicate(self.dirty),
            duplicate(self.unused),
            duplicate(self.state),
            self.weight_words,
        )

    def memory_usage(self) -> dict[str, int]:
        """Return bytes by part."""
        return {
            "slabs": int(self.slabs.nbytes),
            "slab_stack": int(self.unused.nbytes),
            "heads": int(self.heads.nbytes + self.dirty.nbytes),
            "scratch": self.scratch.nbytes,
        }


def clear_heads(heads: Array) -> None:
    """Initialize heads of rows without a table."""
    heads.fill(0)
    heads[FIRST::HEAD_WORDS] = END
    heads[COUNTER::HEAD_WORDS] = -1
