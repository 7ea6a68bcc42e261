"""One version of a graph, read while the graph moves on.

Until something reads all of it, a pinned version is the present graph and what updates have overwritten since
(:mod:`dynstore.graph.versions.undo`). Then it is copied, once, without gaps.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NoReturn, Self, cast
from weakref import ref

from dynstore.batches.sorted import EdgeBatch
from dynstore.batches.turning import transpose_pieces
from dynstore.bits import full_words, unpack_bits
from dynstore.errors import StaleSnapshotError
from dynstore.graph.core import MIN_KEPT
from dynstore.graph.delta import merge_changes
from dynstore.graph.versions.undo import UndoLog, UndoTable
from dynstore.graph.versions.view import GraphView, ShownStore, ViewCore, copy_store, empty_store
from dynstore.ids.pinned import PinnedIds, pin_ids
from dynstore.interrupts import MemoryChecked, Uninterrupted
from dynstore.snapshot import Lease
from dynstore.stores.base import Store
from dynstore.stores.table.selection import count_before, select
from dynstore.stores.table.slots import SlotArrays

if TYPE_CHECKING:
    from dynstore.graph.core import GraphCore
    from dynstore.graph.local import LocalGraph
    from dynstore.typing import Array

__all__ = ["PinnedCore", "PinnedGraph", "PinnedInStore", "PinnedStore", "Released", "pin_version"]


class PinnedStore(ShownStore):
    """The out-edges of a pinned version; its pins share it.

    Reads that need the graph, or what was overwritten, hold the graph's lock. Once the version is copied, reads need
    neither.
    """

    def __init__(self, core: GraphCore) -> None:
        super().__init__(core.out)
        self._graph: GraphCore | None = core
        self._guard = core.lock
        self._num_vertices, self._num_edges = core.out.num_vertices, core.out.num_edges
        self.ids = pin_ids(core.ids, self._num_vertices, core.lock)
        self._flat: Store | None = None
        self._table: UndoTable | None = None  # of the changes before the link
        self._work = 0  # the edges of all tables so far
        log = _log_of(core)
        self._log: UndoLog | None = log
        self._link, self.mark = log.last, log.num_edges
        log.versions.add(self)
        if core.records is not None:
            core.records.holders.add(self)

    @property
    def num_vertices(self) -> int:
        return self._num_vertices

    @property
    def num_edges(self) -> int:
        return self._num_edges

    def _read_slots(self) -> SlotArrays:
        return self.copied().slots

    def look_up(self, src: Array, dst: Array) -> tuple[Array, Array | None]:
        if self._flat is None:
            with self._guard:
                if self._graph is not None and not self._is_read_often():
                    found, table = self._graph.out.look_up(src, dst), self._undone()
                    return found if table is None or not src.shape[0] else table.correct(src, dst, *found)
        return self.copied().look_up(src, dst)

    def row(self, number: int) -> Array:
        if self._flat is None:
            with self._guard:
                if self._graph is not None and not self._is_read_often():
                    row, table = self._graph.out.row(number), self._undone()
                    return row if table is None else table.correct_row(number, row)
        return self.copied().row(number)

    def row_of_in_edges(self, number: int) -> Array | None:
        """Return the sources of the edges to a vertex, ascending; None if the graph's in-edges are of no use."""
        if self._flat is not None:
            return None
        with self._guard:
            into = None if self._graph is None else self._graph.into
            if into is None or self._is_read_often():
                return None
            row, table = into.row(number), self._undone()
            return row if table is None else table.correct_in_row(number, row)

    def materialize(self) -> None:
        self.copied()

    def copied(self) -> Store:
        """Return a copy of the version without gaps, which is made by the first call."""
        flat = self._flat
        if flat is None:
            with self._guard:
                if self._flat is None:
                    with MemoryChecked("pin"):
                        copy = self._copy()
                        detach = self.ids.detach() if isinstance(self.ids, PinnedIds) else None
                    with Uninterrupted():
                        if detach is not None:
                            detach()
                        self._flat = copy
                        self._graph = self._log = self._table = None
                        del self._link
                flat = self._flat
        return flat

    def record_numbers(self) -> list[Array]:
        """Return the numbers of records that the version reads and the graph's edges may not have any more."""
        if self._flat is not None:
            weights = self._flat.slots.weights
            return [] if weights is None else [weights]
        changes = self._link.changes() + ([] if self._table is None else [self._table.change])
        return [change.weights[change.before] for change in changes if change.weights is not None]

    def memory_usage(self) -> dict[str, int]:
        with self._guard:
            if self._flat is not None:
                parts = {"copy": sum(self._flat.slots.memory_usage().values())}
            else:
                table = 0 if self._table is None else self._table.nbytes
                parts = {"undo": table + sum(change.nbytes for change in self._link.changes())}
            return parts | self.ids.memory_usage()

    def _is_read_often(self) -> bool:
        """Whether reads between updates have taken more work than a copy, which ends that."""
        return self._work > max(MIN_KEPT, self._num_edges)

    def _undone(self) -> UndoTable | None:
        """Return the edges that have changed since, as they were; None if there are none."""
        changes = self._link.changes()
        if changes:
            assert self._graph is not None
            assert self._log is not None
            before = [] if self._table is None else [self._table.change]
            change = merge_changes(self.backend, before + changes, self._graph.out.num_vertices)
            self._table = UndoTable(self.backend, change)
            self._work += change.num_edges
            self._link = self._log.last
        return self._table

    def _copy(self) -> Store:
        assert self._graph is not None
        backend, table = self.backend, self._undone()
        slots = self._graph.out.slots
        self.memory = slots.memory  # the graph may have moved since
        mask = unpack_bits(backend, slots.valid, slots.num_slots)
        if table is not None:
            search = backend.kernels("dynstore.stores.table", "search")
            places = search.find_slots(backend, slots, table.change.src, table.change.dst)
            mask[places[places >= 0]] = False
        offsets = count_before(backend, mask, slots.offsets[: self._num_vertices + 1])
        src, dst, weights = select(backend, slots.columns, mask, slots.memory)
        num_edges = int(src.shape[0])
        words = full_words(backend, num_edges)
        flat = empty_store(self, self._num_edges)
        flat.slots = SlotArrays(src, dst, weights, words, offsets, offsets, num_edges, memory=slots.memory)
        change = None if table is None else table.change
        if change is not None and bool(change.before.any()):
            there = change.before
            gone = change.weights
            batch = EdgeBatch(change.src[there], change.dst[there], None if gone is None else gone[there])
            flat.plan_insert(batch, self._num_vertices, "replace").commit()
        return flat


class PinnedInStore(ShownStore):
    """The in-edges of a pinned version."""

    def __init__(self, out: PinnedStore) -> None:
        super().__init__(out)
        self._edges = out
        self._flat: Store | None = None

    @property
    def num_vertices(self) -> int:
        return self._edges.num_vertices

    @property
    def num_edges(self) -> int:
        return self._edges.num_edges

    def _read_slots(self) -> SlotArrays:
        if self._flat is None:
            slots = self._edges.slots
            with self.lock:
                if self._flat is None:
                    with MemoryChecked("the in-edge orientation"):
                        if slots.memory == "device":
                            batch = EdgeBatch(*slots.columns).transposed(self.backend)
                        else:
                            kinds = self.vertex_dtype, self.weight_dtype
                            pieces = self._edges.edge_pieces
                            batch = transpose_pieces(self.backend, pieces, self.num_vertices, *kinds)
                        self._flat = copy_store(self, batch, self.num_vertices)
        return self._flat.slots

    def look_up(self, src: Array, dst: Array) -> tuple[Array, Array | None]:
        return self._edges.look_up(dst, src)

    def row(self, number: int) -> Array:
        row = self._edges.row_of_in_edges(number) if self._flat is None else None
        return super().row(number) if row is None else row

    def memory_usage(self) -> dict[str, int]:
        return {} if self._flat is None else {"copy": sum(self._flat.slots.memory_usage().values())}


class Released:
    """What a pin has in place of its parts after its release: to read any of them is refused."""

    def __init__(self, version: int) -> None:
        self._version = version

    def __getattr__(self, name: str) -> NoReturn:
        self.read()

    def read(self) -> NoReturn:
        """Refuse."""
        raise StaleSnapshotError(
            f"pin: this pin of version {self._version} was released, so it cannot be read; call G.pin() again"
        )

    def memory_usage(self) -> dict[str, int]:
        return {}


class PinnedCore(ViewCore):
    """The core of a pin."""

    out: PinnedStore

    def _make_in_store(self) -> Store:
        return PinnedInStore(self.out)


class PinnedGraph(GraphView):
    """One version of a graph, readable while the graph is updated; :meth:`DynamicGraph.pin` returns it.

    It is a :class:`GraphView`, and a context manager that releases the pin at its end. See ``docs/guides/pins.md``.

    Examples
    --------
    >>> import dynstore
    >>> G = dynstore.DynamicGraph.from_edges([(0, 1), (1, 2)], device="cpu")
    >>> with G.pin() as pin:
    ...     _ = G.delete_edges([(0, 1)])
    ...     print(pin.number_of_edges(), pin.has_edges([(0, 1)]), G.number_of_edges())
    2 [ True] 1
    """

    def __init__(self, graph: LocalGraph, store: PinnedStore) -> None:
        core = PinnedCore(graph.core, store, Lease(graph.version), graph.number_of_edges())
        super().__init__(core, type(graph))
        core.ids = store.ids
        if core.records is not None:
            core.records = core.records.held_by(store)
        if graph.core.into is not None:
            core.into = PinnedInStore(store)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def materialize(self) -> None:
        """Copy the version now, if there is no copy yet. From then on reads need neither the graph nor its lock.

        Raises
        ------
        OutOfMemoryError
            If there is no memory for the copy. The pin stays as it is.
        """
        self.snapshot()

    def release(self) -> None:
        """Free the pin's memory. Reading it raises :class:`~dynstore.errors.StaleSnapshotError` from now on.

        A read that another thread is making meanwhile returns what it would have, or raises this error. Deleting the
        pin does the same. Snapshots, windows and tables of the pin stay readable.
        """
        core = self.core
        with core.out.lock if isinstance(core.out, PinnedStore) else nullcontext():  # no snapshot is made meanwhile
            core.out = core.ids = core.records = cast("Any", Released(self.version))
            core.into, core.views = None, {}


def pin_version(graph: LocalGraph) -> PinnedGraph:
    """Pin the present version of a graph."""
    core = graph.core
    with core.lock:
        store = core.pinned.get(graph.version)
        if not isinstance(store, PinnedStore):
            with MemoryChecked("pin"):
                store = PinnedStore(core)
            core.pinned[graph.version] = store
        return PinnedGraph(graph, store)


def _log_of(core: GraphCore) -> UndoLog:
    """Return the log that the pins of a graph follow; if there is none, begin one."""
    log = None if core.undo is None else core.undo()
    if log is None:
        log = UndoLog()
        core.undo = ref(log)
        core.add_log(log)
    return log
