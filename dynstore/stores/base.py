"""The interface of all stores: plan an update, then commit it.

A plan only reads, and reserves all memory that the commit needs; it may raise. A commit writes and cannot fail. So an
error leaves the graph as it was.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from math import isqrt
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from dynstore.backend import Backend
from dynstore.batches.sorted import Batch, EdgeBatch
from dynstore.bits import unpack_bits
from dynstore.config import make_options
from dynstore.errors import InputError, LimitError
from dynstore.locks import Lock
from dynstore.stores.table import selection
from dynstore.stores.table.slots import PRESENT, SearchResult, SlotArrays
from dynstore.typing import Array, Memory, OnDuplicate, Path

__all__ = ["MAX_SPREAD", "Columns", "NativeRows", "Plan", "Reason", "Refused", "Store", "StoreOptions"]

# Sources, destinations and weights (None where unweighted) of some edges.
Columns: TypeAlias = tuple[Array, Array, Array | None]
# A place computed as a quotient has the dividend rank times number of slots, which must fit int64.
MAX_SPREAD = isqrt(np.iinfo(np.int64).max)


@dataclass(frozen=True)
class StoreOptions:
    """A store without options."""


@dataclass(slots=True)
class Plan:
    """An update that is ready to be written.

    Attributes
    ----------
    found : int
        How many keys of the batch are in the store.
    found_loops : int
        Self-loops among them (counted for undirected graphs only).
    commit : callable
        Writes the update; cannot fail.
    grown : bool
    path : {"in-place", "merge"}
    appended : pair of EdgeBatch, optional
        For ``on_duplicate="append"``: the edges of the batch that will be there, and those that are removed.
    located : SearchResult, optional
        Where the sorted edges of the batch are before the update, if the plan has found that out.
    """

    found: int
    found_loops: int
    commit: Callable[[], None]
    grown: bool = False
    path: Path = "merge"
    appended: tuple[EdgeBatch, EdgeBatch] | None = None
    located: SearchResult | None = None


class Reason(Enum):
    """Why an update cannot be written before it is planned."""

    UNSUPPORTED = "the store has no kernels that write before the plan"
    PINNED = "an export shows the slots"
    NOTHING = "there is no edge in the store, or no row in the batch"
    TOO_LARGE = "the batch or the store has more rows than the kernels number"
    INVALID = "an id is no vertex, a weight is NaN, or an edge to delete is not there"
    OVERFLOW = "a leaf gets too many keys: the batch has to be sorted"
    SCRATCH = "wide windows take more scratch than was reserved"
    SPARSE = "all edges are there, and deleting them takes more than clearing bits"


@dataclass(slots=True)  # frozen ones take several times as long to make
class Refused:
    """An update that was not written: the reason, and the batch to plan it with, which keeps what was found."""

    reason: Reason
    batch: Batch


@dataclass(frozen=True, slots=True)
class NativeRows:
    """A store's own rows, for algorithms that can walk them in place of sorted slots.

    Attributes
    ----------
    form : str
        The kind of rows, such as "slabs": also the name of the algorithms' module for it.
    table
        The rows, as kernels for this form take them.
    num_vertices : int
        Number of rows; the table may have room for more.
    """

    form: str
    table: Any
    num_vertices: int


class Store(ABC):
    """Edges sorted by (src, dst) in :class:`~dynstore.stores.table.slots.SlotArrays`.

    Parameters
    ----------
    backend : Backend
    vertex_dtype : numpy.dtype
        int32 or int64.
    weight_dtype : numpy.dtype or None
        float32, float64, or None for an unweighted graph.
    capacity : int
        Edges (both directions of undirected ones) to reserve.
    options : dict
        The store's own options.
    memory : {"device", "host"}
        Where the edges lie: in device memory, or in host memory that kernels use in place.

    Raises
    ------
    InputError
        For a device that the store has no kernels for, or a memory that it does not use.
    """

    name: ClassVar[str]
    families: ClassVar[tuple[str, ...]] = ("cpu", "cuda")  # the backends' families that it has kernels for
    Options: ClassVar[type[StoreOptions]] = StoreOptions
    appends: ClassVar[bool] = False  # whether on_duplicate="append" is supported
    takes_unsorted: ClassVar[bool] = False  # whether it takes unsorted batches; else each batch is sorted first
    refuses_absent: ClassVar[bool] = False  # whether `try_delete` refuses a batch with an edge that is not there
    memories: ClassVar[tuple[Memory, ...]] = ("device",)  # where its edges can lie
    divides: ClassVar[tuple[str, ...]] = ()  # families whose kernels compute places of edges as quotients

    def __init__(
        self,
        backend: Backend,
        vertex_dtype: np.dtype,
        weight_dtype: np.dtype | None,
        capacity: int,
        options: dict[str, Any],
        memory: Memory = "device",
    ) -> None:
        if memory not in self.memories:
            raise InputError(f"store {self.name!r}: got memory={memory!r}; wanted memory={self.memories[0]!r}")
        if backend.family not in self.families:
            raise InputError(
                f"store {self.name!r}: got device {backend.name!r}; wanted 'cpu', it runs on the host only"
            )
        self.backend = backend
        self.vertex_dtype = vertex_dtype
        self.weight_dtype = weight_dtype
        self.capacity = capacity
        self.memory: Memory = memory
        self.options = make_options(f"store {self.name!r}", self.Options, options)
        # Held while a read makes something of the edges; see `Lock`.
        self.lock = Lock()
        self.slots = self._no_edges(0)

    @property
    def num_vertices(self) -> int:
        """Number of rows; reading it does not update the slots."""
        return self.slots.num_vertices

    @property
    def num_edges(self) -> int:
        """Number of edges, both directions of undirected ones; reading it does not update the slots."""
        return self.slots.num_edges

    @abstractmethod
    def _no_edges(self, num_vertices: int) -> SlotArrays:
        """Return fresh arrays without edges, with the capacity reserved."""

    @abstractmethod
    def plan_insert(self, batch: Any, num_vertices: int, on_duplicate: OnDuplicate) -> Plan:
        """Plan to insert a batch and to have ``num_vertices`` rows afterwards.

        ``batch``: an :class:`~dynstore.batches.sorted.EdgeBatch`; with :attr:`takes_unsorted`, any
        :class:`~dynstore.batches.sorted.Batch`.
        """

    @abstractmethod
    def plan_delete(self, batch: Any) -> Plan:
        """Plan to delete the edges of a batch that are there; ``batch`` as in :meth:`plan_insert`."""

    def plan_exchange(
        self, leaving: EdgeBatch, arriving: EdgeBatch, num_vertices: int, on_duplicate: OnDuplicate
    ) -> tuple[Plan, Plan] | None:
        """Plan to delete a batch and then to insert another, both before anything is written.

        There are ``num_vertices`` rows afterwards. An edge in both batches is deleted first.

        Returns
        -------
        pair of Plan, or None
            The deletion, and the insertion into what it leaves; both must be committed, in this order. None if the
            insertion can only be planned once the deletion is committed.
        """
        return None

    def plan_restore(self) -> Callable[[], None] | None:
        """Plan to have the edges of this moment again; return a commit, which needs no memory.

        It may be called after deletions by :meth:`try_clear` and :meth:`plan_clearing`, until something is inserted.
        None if the store has no such plan: the edges must be inserted again.
        """
        return None

    def try_clear(self, batch: Any) -> Plan | Refused:
        """Do what :meth:`try_delete` does, so that :meth:`plan_restore` can take it back."""
        return self.try_delete(batch)

    def plan_clearing(self, batch: Any) -> Plan:
        """Do what :meth:`plan_delete` does, so that :meth:`plan_restore` can take it back."""
        return self.plan_delete(batch)

    @property
    def supports_speculation(self) -> bool:
        """Whether on CUDA :meth:`try_insert` and :meth:`try_delete` may write before the host knows what they find."""
        return False

    def try_insert(self, batch: Any, num_vertices: int, on_duplicate: OnDuplicate) -> Plan | Refused:
        """Insert edges in one step, without a plan; the device decides whether it writes.

        Only with :attr:`supports_speculation`. There are ``num_vertices`` rows afterwards. Ids of unweighted edges need
        not be validated: a batch with an invalid id is refused.

        Returns
        -------
        Plan or Refused
            A plan that is written already, and must still be committed so that the store's counts are right; or, if
            everything must be written anew, one that writes when it is committed. Refused, with nothing written, if the
            batch must be planned.
        """
        return Refused(Reason.UNSUPPORTED, batch)

    def try_delete(self, batch: Any) -> Plan | Refused:
        """Delete the edges of a batch as :meth:`try_insert` inserts them."""
        return Refused(Reason.UNSUPPORTED, batch)

    def try_delete_below(self, aged: Any, bound: int, packing: bool = True) -> Plan | None:
        """Delete the edges whose times, :class:`~dynstore.stores.pma.aged.Aged`, are below a bound, in one step.

        Only with :attr:`supports_speculation`. The weights are numbers of records. Without ``packing``,
        :meth:`plan_restore` can take it back, as :meth:`try_clear`.

        Returns
        -------
        Plan or None
            As :meth:`try_delete`; None, with nothing written, if the edges must be listed, and their deletion planned.
        """
        return None

    def plan_vertices(self, num_vertices: int) -> Plan:
        """Plan to have at least ``num_vertices`` rows."""
        slots = self.slots.with_vertices(self.backend, num_vertices)
        return Plan(0, 0, lambda: self._take(slots), path="in-place")

    def plan_clear(self) -> Plan:
        """Plan to have no edge and no vertex."""
        slots = self._no_edges(0)
        return Plan(0, 0, lambda: self._take(slots))

    def find(self, src: Array, dst: Array) -> Array:
        """Return the slot of each edge, -1 where it is absent; int64, shape (B,)."""
        slots: Array = self._search.find_slots(self.backend, self.slots, src, dst)
        return slots

    def look_up(self, src: Array, dst: Array) -> tuple[Array, Array | None]:
        """Return whether each edge is there, bool, shape (B,), and its weight, 0 if absent; None if unweighted."""
        found: tuple[Array, Array | None] = self._search.look_up_edges(self.backend, self.slots, src, dst)
        return found

    def read_located(self, located: SearchResult) -> tuple[Array, Array | None]:
        """Return the same as :meth:`look_up` for edges that a plan has located; call it before the commit."""
        if self.slots.weights is None:
            return located.states == PRESENT, None
        stored, places = self.slots.weights, (located.positions, located.states)
        found: tuple[Array, Array] = self._search.read_found(self.backend, stored, *places)
        return found

    def row(self, number: int) -> Array:
        """Return the destinations of one row's edges, ascending, in a new array."""
        slots = self.slots
        start, end = (int(slots.offsets[number + k]) for k in (0, 1))
        kept: Array = slots.dst[start:end][self._held(slots, start, end)]
        return kept

    def row_ends(self) -> Array:
        """Return a bound of the entries in the rows up to each one, shape (V,), int64; does not update the slots.

        It is an upper bound because gaps may count.
        """
        return self.slots.offsets[1:].astype(np.int64)

    def row_lengths(self) -> Array:
        """Return the number of edges in each row, shape (V,), in the vertex dtype."""
        slots = self.slots
        before = self.backend.zeros(slots.num_slots + 1, self.vertex_dtype)
        self.backend.xp.cumsum(unpack_bits(self.backend, slots.valid, slots.num_slots), out=before[1:])
        starts: Array = before[slots.offsets]
        return starts[1:] - starts[:-1]

    def read_rows(self, low: int, high: int) -> Columns:
        """Return the edges of the rows ``low`` to ``high`` (exclusive) in new arrays; does not update the slots.

        Row follows row. Within a row the edges have the structure's order, which may be arbitrary.
        """
        slots = self.slots
        start, end = (int(slots.offsets[number]) for number in (low, high))
        return selection.select(self.backend, slots.columns_of(start, end), self._held(slots, start, end))

    def edge_pieces(self) -> Iterator[Columns]:
        """Yield all edges in order, in pieces on the device."""
        slots = self.slots
        for start in range(0, slots.num_slots, selection.PIECE):
            end = min(start + selection.PIECE, slots.num_slots)
            yield selection.select(self.backend, slots.columns_of(start, end), self._held(slots, start, end))

    def destinations(self) -> Iterator[tuple[Array, Array | None]]:
        """Yield destinations in order, in pieces, and which of them are edges' (None: all)."""
        slots = self.slots
        for start in range(0, slots.num_slots, selection.PIECE):
            end = min(start + selection.PIECE, slots.num_slots)
            yield slots.dst[start:end], self._held(slots, start, end)

    def _held(self, slots: SlotArrays, start: int, end: int) -> Array:
        """Return whether each slot of a range holds an edge, bool."""
        first = start >> 5
        bits = self.backend.xp.unpackbits(slots.valid[first : (end + 31) >> 5].view(np.uint8), bitorder="little")
        held: Array = bits[start - 32 * first : end - 32 * first].view(np.bool_)
        return held

    def native_rows(self) -> NativeRows | None:
        """Return the store's own rows if sorted slots would first have to be made; None if the slots are there.

        It does not update the slots. The rows may be read until the next update.
        """
        return None

    def _locate(self, slots: SlotArrays, src: Array, dst: Array) -> tuple[Array, Array]:
        located: tuple[Array, Array] = self._search.locate_edges(self.backend, slots, src, dst)
        return located

    @property
    def _search(self) -> Any:
        return self.backend.kernels("dynstore.stores.table", "search")

    def copy(self) -> Store:
        """Return a deep copy."""
        twin = self._twin()
        twin.slots = self.slots.copy(self.backend)
        return twin

    def _twin(self) -> Self:
        """Return a store with the same attributes and a lock of its own."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.lock = Lock()
        return twin

    def plan_move(self) -> Callable[[], None]:
        """Plan to have the edges in host memory, for a store that can; return a commit, which cannot fail."""
        slots = self.slots.in_host(self.backend)

        def move() -> None:
            self.memory = "host"
            self._take(slots)

        return move

    @property
    def host_bytes(self) -> int:
        """Bytes of what lies in host memory that kernels use in place; :meth:`memory_usage` counts them, too."""
        return self.slots.host_bytes if self.memory == "host" else 0

    def statistics(self) -> dict[str, int]:
        """Return the store's counters since it was made; by default there are none."""
        return {}

    def free_cache(self) -> bool:
        """Free the device memory of what only makes reads faster; return whether there was any. By default not."""
        return False

    def memory_usage(self) -> dict[str, int]:
        """Return bytes by part."""
        return self.slots.memory_usage()

    def _count_loops(self, batch: EdgeBatch, chosen: Array) -> int:
        """Count the self-loops among the chosen keys; 0 if the batch has none or does not count them."""
        if not batch.num_loops:
            return 0
        return int(self.backend.xp.count_nonzero(chosen & (batch.src == batch.dst)))

    def _take(self, slots: SlotArrays) -> None:
        self.slots = slots

    def _check_num_slots(self, num_slots: int) -> None:
        """Refuse too many slots for the offsets' dtype (also cuDF's and cuGraph's limit) or the kernels' divisions."""
        limit = int(np.iinfo(self.vertex_dtype).max)
        if num_slots > limit:
            raise LimitError(
                f"store {self.name!r}: {num_slots} slots are needed, {self.vertex_dtype} offsets go to {limit}; "
                'use vertex_dtype="int64"'
            )
        if self.backend.family in self.divides and num_slots > MAX_SPREAD:
            raise LimitError(
                f"store {self.name!r}: {num_slots} slots are needed, on {self.backend.name!r} there can be "
                f"{MAX_SPREAD}; use store 'merge'"
            )
