"""The core of a graph: its state, and how long each part of it lives.

A graph that users hold (:class:`dynstore.DynamicGraph`, a view, a pin) has its questions and its updates; all that it
consists of is in its ``core``. Algorithms, adapters and other packages work on the core. Its edges are
written by :class:`dynstore.graph.transaction.Transaction` alone.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from threading import RLock
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeAlias, TypeVar
from weakref import WeakValueDictionary, ref

import numpy as np

from dynstore.batches.sorted import EdgeBatch
from dynstore.batches.turning import transpose_pieces
from dynstore.graph.delta import Change, Delta, DeltaLog, Unread, net_delta, read_change
from dynstore.graph.records import TIME
from dynstore.interrupts import MemoryChecked
from dynstore.snapshot import GapCSR, Lease
from dynstore.stores.table.selection import select

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dynstore.backend import Backend
    from dynstore.batches.sorted import Batch
    from dynstore.graph.records import EdgeRecords
    from dynstore.graph.versions.undo import Pinned, UndoLog
    from dynstore.ids.base import RenumberingPlan, VertexIds
    from dynstore.input.columns import EdgeColumns
    from dynstore.input.times import TimeUnit
    from dynstore.stores.base import Columns, NativeRows, Store
    from dynstore.stores.table.slots import SearchResult
    from dynstore.typing import Array, Frames, Memory, UpdateReport

__all__ = ["EXTRA", "MIN_KEPT", "Agree", "GraphCore", "GraphState", "Journal", "NumberedWindow"]

T = TypeVar("T")
Agree: TypeAlias = "Callable[[UpdateReport], object]"

EXTRA = "edge."
# Beyond this share of the graph's edges an answer is computed anew, so no changes are kept. ``MIN_KEPT`` edges always
# are.
MAX_SHARE = 1 / 16
MIN_KEPT = 4096
# Beyond this share of the graph's edges a pin copies its version, and needs no more changes.
MAX_UNDONE = 1 / 4


class Journal(Protocol):
    """Where the updates of a graph are written; see :class:`dynstore.Database`.

    Attributes
    ----------
    updating : bool
        Whether an update is being made whose record is there, or comes; its parts have none of their own.
    """

    updating: bool

    def make(self, change: Any, update: Callable[[], T]) -> T:
        """Write a change, and make the update, which calls :meth:`await_record` before it writes to the graph."""

    def await_record(self) -> None:
        """Wait until the record of the update that is being made is written. It may raise."""

    def exchange(
        self,
        caller: str,
        deletions: EdgeColumns,
        insertions: EdgeColumns,
        renumbering: RenumberingPlan,
        update: Callable[[], T],
    ) -> T:
        """Write an exchange of rows by numbers, unless it is a part of an update that is written; make it."""


class NumberedWindow(Protocol):
    """What a graph calls when the numbers of its vertices change; see :class:`dynstore.Window`.

    Each method plans, may raise, and returns a commit that cannot fail.
    """

    def plan_renumber(self, ranks: Array) -> Callable[[], None]: ...

    def plan_forget(self, numbers: Array) -> Callable[[], None]: ...

    def plan_clear(self) -> Callable[[], None]: ...


class GraphState(NamedTuple):
    """All that makes a graph equal to another, on any device and in any process.

    Attributes
    ----------
    options : dict
        The arguments of :class:`dynstore.DynamicGraph` without the device; numbers, strings, bools and None.
    num_vertices : int
        V.
    version : int
    columns : dict
        ``source``, ``destination``: row numbers, shape (E,), vertex dtype, sorted; undirected edges in both
        directions, so that they need not be sorted again; in a multigraph in order of arrival, and once. ``weight``,
        shape (E,), weight dtype, if the graph is weighted. Extra columns, shape (E,), with :data:`EXTRA` before their
        names. The columns of :meth:`dynstore.ids.base.VertexIds.columns`.
    """

    options: dict[str, Any]
    num_vertices: int
    version: int
    columns: dict[str, Array]

    def moved(self, move: Callable[[Array], Array]) -> GraphState:
        """Return the same with ``move`` applied to all arrays of numbers; strings are on the host everywhere."""
        columns = {name: array if array.dtype == object else move(array) for name, array in self.columns.items()}
        return self._replace(columns=columns)


class GraphCore:
    """The state of a graph: edges, ids, options, the present version, and what follows the graph.

    What a query makes for later ones (views, in-edges) is made under the lock of the out-edges' store.

    Attributes
    ----------
    backend : Backend
        Of the graph's device.
    ids : VertexIds
        The ids of the vertices, which are rows 0 to V - 1 everywhere else.
    out, into : Store
        The edges by source, and by destination; ``into`` is None until a call needs it. :meth:`oriented` makes it.
    records : EdgeRecords or None
        Of a graph with extra columns; its stores have numbers of records as weights.
    num_edges : int
        Undirected edges count once.
    lease : Lease
        The present version, and how long its views can be read.
    directed, weighted, vertex_dtype, weight_dtype, frames, store_name, store_options, memory_option, spills
        The options, as :class:`dynstore.DynamicGraph` describes them.
    stored_weights : numpy.dtype or None
        The dtype in which edges to insert bring weights; None for an unweighted graph.
    lock : RLock
        Held by an update from before it writes until its version has ended, and by reads of pins that need the graph.
    logs : set of weak references
        The logs that get what each update changes: of tracked answers and of pins.
    undo : weak reference or None
        The log that pins follow, one of the above.
    pinned : mapping
        The pinned versions, by number.
    window : weak reference or None
        The window that fills the graph.
    journal : Journal or None
        Where the updates are written first.
    agreement : callable or None
        It is asked before an update writes, within :meth:`agreeing`.
    in_seconds : float
        What updates have spent on in-edges.
    views : dict
        The snapshots of the present version, by orientation.
    expects_new_ids, ignored_weights : bool
        What insertions remember of those before: whether the last edges brought new ids; whether it was logged that a
        column of weights is ignored.
    """

    shows_events = False  # whether a pair of vertices may have several edges

    out: Store
    into: Store | None
    records: EdgeRecords | None
    window: ref[NumberedWindow] | None
    undo: ref[UndoLog] | None
    journal: Journal | None
    agreement: Agree | None

    def __init__(
        self,
        backend: Backend,
        ids: VertexIds,
        out: Store,
        records: EdgeRecords | None,
        *,
        directed: bool,
        weighted: bool,
        weight_dtype: np.dtype,
        frames: Frames,
        store_name: str,
        store_options: dict[str, Any],
        memory: str,
        spills: bool,
    ) -> None:
        self.backend, self.ids, self.out, self.into, self.records = backend, ids, out, None, records
        self.directed, self.weighted = directed, weighted
        self.stored_weights = weight_dtype if weighted else None
        self.vertex_dtype, self.weight_dtype, self.frames = out.vertex_dtype, weight_dtype, frames
        self.store_name, self.store_options = store_name, store_options
        self.memory_option, self.spills = memory, spills
        self.num_edges, self.in_seconds = 0, 0.0
        self.expects_new_ids = False  # whether the last edges brought new ids: the next ones are validated at once
        self.ignored_weights = False  # whether a column of weights was ignored, which is logged once
        self.begin_alone(0)

    def begin_alone(self, version: int) -> None:
        """Begin without snapshots, and with nothing that follows the graph."""
        self.lease, self.lock = Lease(version), RLock()
        self.views: dict[bool, GapCSR] = {}
        # Every update tests whether it is empty, which takes longer for a WeakSet.
        self.logs: set[ref[DeltaLog]] = set()
        self.pinned: WeakValueDictionary[int, Pinned] = WeakValueDictionary()
        self.undo = self.window = self.journal = self.agreement = None

    def copy(self) -> Self:
        """Return an independent copy, which nothing follows."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        with MemoryChecked("copy"):
            twin.out = self.out.copy()
            twin.into = None if self.into is None else self.into.copy()
            twin.records = None if self.records is None else self.records.copy()
            twin.ids = self.ids.copy()
        twin.begin_alone(self.lease.version)
        return twin

    # ------------------------------------------------------------------ the state as a whole

    @property
    def num_vertices(self) -> int:
        """V."""
        return self.out.num_vertices

    @property
    def memory(self) -> Memory:
        """Where the edges lie: "device" or "host"."""
        return "host" if self.backend.family == "cpu" else self.out.memory

    @property
    def timestamps(self) -> np.dtype | None:
        """The dtype of the times of edges; None for a graph that keeps none."""
        records = self.records
        return records.columns[TIME].dtype if records is not None and records.timed else None

    @property
    def time_unit(self) -> TimeUnit | None:
        """The unit of the times of edges; None for a graph that keeps none."""
        return self.records if self.records is not None and self.records.timed else None

    @property
    def edge_dtypes(self) -> dict[str, np.dtype]:
        """The extra columns of edges and their dtypes, in order."""
        return {} if self.records is None else self.records.extra_dtypes

    def memory_of_columns(self) -> dict[str, int]:
        """Return the bytes of what holds the columns of edges, by part."""
        return {} if self.records is None else {"edge_columns": self.records.nbytes}

    @property
    def host_bytes(self) -> int:
        """Bytes that lie in host memory beside a GPU."""
        return sum(store.host_bytes for store in (self.out, self.into) if store is not None)

    def options(self) -> dict[str, Any]:
        """Return the arguments that make an empty graph like this one, without the device."""
        dtypes = {name: str(dtype) for name, dtype in self.edge_dtypes.items()}
        return {
            "directed": self.directed,
            "weighted": self.weighted,
            "store": self.store_name,
            "vertex_dtype": str(self.vertex_dtype),
            "weight_dtype": str(self.weight_dtype),
            "capacity": self.out.capacity // (1 if self.directed else 2),
            "max_vertices": self.ids.max_vertices,
            "renumber": self.ids.renumbered,
            "reuse_ids": self.ids.reuse_ids,
            "frames": self.frames,
            **({"timestamps": dtypes.pop(TIME)} if self.timestamps is not None else {}),
            **({"edge_columns": dtypes} if dtypes else {}),
            **({} if self.memory_option == "device" else {"memory": self.memory_option}),
            **({"spill": True} if self.spills else {}),
            **self.store_options,
        }

    def state(self, among: Array | None = None) -> GraphState:
        """Return the graph's state in new arrays of its backend.

        ``among``, bool, shape (V,): that of the subgraph of these rows; see :meth:`dynstore.DynamicGraph.subgraph`.
        """
        num_vertices, xp = self.num_vertices, self.backend.xp
        src, dst, stored = self.numbered_edges(once=False, among=among)
        kept = None
        if among is not None and self.ids.renumbered:
            kept = xp.nonzero(among)[0]
            ranks = xp.cumsum(among, dtype=self.vertex_dtype) - 1
            src, dst, num_vertices = ranks[src], ranks[dst], int(kept.shape[0])
        columns = {"source": src, "destination": dst}
        columns |= {EXTRA * (name != "weight") + name: array for name, array in self.values_of(stored).items()}
        columns |= self.ids.columns(self.num_vertices, kept)
        return GraphState(self.options(), num_vertices, self.lease.version, columns)

    # ------------------------------------------------------------------ edges under the numbers of their vertices

    def oriented(self, transposed: bool) -> Store:
        """Return the edges by source, or by destination; undirected graphs have only one orientation."""
        if not transposed or not self.directed:
            return self.out
        store = self.into
        if store is None:
            with self.out.lock:
                store = self.into
                if store is None:
                    store = self.into = self.with_caches_freed(self._make_in_store)
        return store

    def _make_in_store(self) -> Store:
        with MemoryChecked("the in-edge orientation"):
            out = self.out
            if out.memory == "device":
                batch = EdgeBatch(*self.numbered_edges(once=False)).transposed(self.backend)
            else:
                kinds = self.vertex_dtype, out.weight_dtype
                batch = transpose_pieces(self.backend, out.edge_pieces, self.num_vertices, *kinds)
            return self.store_of(batch)

    def store_of(self, batch: EdgeBatch) -> Store:
        """Make a store of the graph's own kind, in the same memory, that holds exactly these edges."""
        out = self.out
        store = type(out)(
            self.backend, self.vertex_dtype, out.weight_dtype, out.capacity, self.store_options, out.memory
        )
        store.plan_insert(batch, self.num_vertices, "replace").commit()
        return store

    def drop_in_edges(self) -> bool:
        """Drop the in-edges, unless there is a snapshot of them; return whether they are gone."""
        with self.out.lock:
            if True not in self.views:
                self.into = None
            return self.into is None

    def forget_in_edges(self) -> None:
        """Drop the in-edges; snapshots of them become invalid."""
        self.into = None
        view = self.views.pop(True, None)
        if view is not None:
            view.end()

    @contextmanager
    def timing_in_edges(self) -> Iterator[None]:
        """Count what a ``with`` block takes as time spent on in-edges."""
        begun = perf_counter()
        yield
        self.in_seconds += perf_counter() - begun

    def with_caches_freed(self, work: Callable[[], T]) -> T:
        """Do some work; if memory runs out, free what stores keep only to be faster, and do the work again.

        ``work`` leaves the graph as it was if it raises.
        """
        try:
            return work()
        except MemoryError:
            if not self.free_caches():
                raise
        # The error is gone, and with it what the work had reserved.
        return work()

    def free_caches(self) -> bool:
        """Free what stores keep only to be faster; return whether there was any."""
        freed = [store.free_cache() for store in (self.out, self.into) if store is not None]
        return any(freed)

    def snapshot(self, transposed: bool = False) -> GapCSR:
        """Return the present version, without a copy; see :meth:`dynstore.DynamicGraph.snapshot`."""
        transposed = transposed and self.directed
        view = self.views.get(transposed)
        if view is None:
            with self.out.lock:
                view = self.views.get(transposed)
                if view is None:
                    view = self.views[transposed] = self._view_of(self.oriented(transposed))
        return view

    def _view_of(self, store: Store) -> GapCSR:
        slots = store.slots
        return GapCSR(
            self.backend,
            slots.offsets,
            slots.src,
            slots.dst,
            slots.valid,
            self._weights_for_view(slots.weights),
            slots.num_edges,
            self.lease,
            slots.pins,
            slots.memory,
        )

    def _weights_for_view(self, stored: Array | None) -> Array | Callable[[], Array] | None:
        """Return the weights of all slots, or what makes them when they are first read, for what the store has."""
        if self.records is None:
            return stored
        return partial(self.records.weights, stored) if self.weighted else None

    def native_rows(self, transposed: bool = False) -> NativeRows | None:
        """Return the store's own rows, for algorithms that can read them, until the next update.

        None if :meth:`snapshot` has nothing to make.
        """
        return self.oriented(transposed).native_rows()

    def slot_times(self, transposed: bool = False) -> tuple[Array, Array]:
        """Return the last times of a graph with ``timestamps``, and where those of :meth:`snapshot`'s slots are.

        Returns
        -------
        times : array, shape (R,)
        records : array, shape (S,)
            The place in ``times`` of each slot. Gaps have any number.
        """
        assert self.records is not None
        records = self.oriented(transposed).slots.weights
        assert records is not None
        return self.records.columns[TIME], records

    def row_lengths(self, transposed: bool = False) -> Array:
        """Return the number of edges in each row; see :meth:`dynstore.DynamicGraph.row_lengths`."""
        if not self.lacks_in_edges(transposed):
            return self.oriented(transposed).row_lengths()
        counts = self.backend.zeros(self.num_vertices, np.int64)
        for destinations, held in self.out.destinations():
            there = destinations if held is None else destinations[held]
            counts += self.backend.xp.bincount(there, minlength=self.num_vertices)
        return counts.astype(self.vertex_dtype)

    def row_length(self, number: int, transposed: bool) -> int:
        """Return the number of edges in one row."""
        if not self.lacks_in_edges(transposed):
            return int(self.oriented(transposed).row(number).shape[0])
        count = 0
        for destinations, held in self.out.destinations():
            equal = destinations == number
            count += int(self.backend.xp.count_nonzero(equal if held is None else equal & held))
        return count

    def lacks_in_edges(self, transposed: bool) -> bool:
        """Whether a caller needs in-edges that are not kept: to search all edges is faster than to make in-edges."""
        return transposed and self.directed and self.into is None

    def numbered_edges(self, once: bool, among: Array | None = None) -> Columns:
        """Return all edges as row numbers in new, sorted arrays, and what the store has as weights.

        Parameters
        ----------
        once : bool
            Leave out the edges from a higher number to a lower one: the second direction of undirected edges.
        among : array, shape (V,), bool, optional
            Only the edges between these rows.
        """
        slots = self.out.slots
        chosen = self.snapshot().mask()
        if once:
            chosen = chosen & (slots.src <= slots.dst)
        if among is not None and among.shape[0]:
            chosen = chosen & among[slots.src] & among[slots.dst]
        src, dst, stored = select(self.backend, slots.columns, chosen, slots.memory)
        return src, dst, stored

    def has_numbers(self, src: Array, dst: Array) -> Array:
        """Return whether edges between rows of these numbers are there, bool, shape (B,)."""
        return self.out.look_up(src, dst)[0]

    def columns_of_numbers(self, src: Array, dst: Array) -> tuple[Array, dict[str, Array]]:
        """Return whether edges between rows of these numbers are there, and the extra columns of those that are."""
        there, stored = self.out.look_up(src, dst)
        assert self.records is not None
        return there, self.records.extra_values(stored)

    def columns_of(self, src: Array, dst: Array, stored: Array | None, library: str | None = None) -> dict[str, Array]:
        """Return edges as named columns of ids; ``stored``: what the store has as weights.

        ``library``: that of the frame they are for; strings are in a form of its own.
        """
        src, dst = self.ids.ends(src, dst, self.num_vertices, not self.directed, library)
        return {"source": src, "destination": dst, **self.values_of(stored)}

    def all_columns(self, library: str | None = None) -> dict[str, Array]:
        """Return all edges as :meth:`columns_of` does, undirected ones once."""
        return self.columns_of(*self.numbered_edges(once=not self.directed), library)

    def values_of(self, stored: Array | None) -> dict[str, Array]:
        """Return the weights and the extra columns of edges, for what the store has as weights."""
        if stored is None:
            return {}
        return {"weight": stored} if self.records is None else self.records.values(stored)

    def weights_of(self, stored: Array | None) -> Array | None:
        """Return the weights of edges, for what the store has as weights."""
        return stored if self.records is None else self.records.weights(stored)

    # ------------------------------------------------------------------ what follows the graph

    def attached_window(self) -> NumberedWindow | None:
        """Return the :class:`dynstore.Window` that fills this graph, if there is one."""
        return None if self.window is None else self.window()

    @contextmanager
    def agreeing(self, agree: Agree) -> Iterator[None]:
        """Have the updates of a ``with`` block ask ``agree`` before they write; see :func:`exchange`."""
        self.agreement = agree
        try:
            yield
        finally:
            self.agreement = None

    def follow(self) -> DeltaLog:
        """Start a log, to which every update from now on adds its change as long as the log is alive."""
        log = DeltaLog()
        self.add_log(log)
        return log

    def add_log(self, log: DeltaLog) -> None:
        """Have a log get the changes of all updates from now on."""
        self.logs.add(ref(log, self.logs.discard))

    def net_delta(self, log: DeltaLog) -> Delta | None:
        """Return the net effect of a log's changes up to the present version; None if there is none."""
        return net_delta(self.backend, self.out, log.changes) if log.changes else None

    def read_change(self, batch: Batch, inserting: bool, located: SearchResult | None = None) -> Change | Unread | None:
        """Return the state of the edges that a batch is about to change, if a log wants to keep it.

        ``located``: where the store's plan has found them. None if there are no logs.
        """
        if not self.logs:  # tested here, as nearly all graphs have none
            return None
        begun, num_edges = perf_counter(), batch.known().num_rows
        logs = self.logs_that_want(num_edges)
        if not logs:
            return Unread(num_edges, inserting)
        change = read_change(self.out, batch, inserting, located)
        if self.records is not None and any(not log.keeps_numbers for log in logs):
            change = replace(change, shown=self._weights_before(change))
        seconds = perf_counter() - begun
        for log in logs:
            log.seconds += seconds
        return change

    def logs_that_want(self, num_edges: int) -> list[DeltaLog]:
        """Return the logs that would keep a change of so many edges."""
        most = self._most_kept
        return [log for log in self._live_logs() if log.wants(num_edges, most)]

    def record_change(self, change: Change | Unread | None) -> None:
        """Add a change to all logs; None for one of everything. It cannot fail: the graph is written already."""
        numbered = change
        if self.records is not None and isinstance(change, Change):
            numbered, change = replace(change, shown=None), replace(change, weights=change.shown, shown=None)
        most = self._most_kept
        for log in self._live_logs():
            log.add(numbered if log.keeps_numbers else change, most)

    def _weights_before(self, change: Change) -> Array | None:
        """Return the weights of a change whose edges have records, 0 for absent edges; None if there are none."""
        assert self.records is not None
        weights = self.records.weights(change.weights)
        return None if weights is None else self.backend.xp.where(change.before, weights, weights.dtype.type(0))

    @property
    def _most_kept(self) -> int:
        return max(MIN_KEPT, int(MAX_SHARE * self.out.num_edges))

    def _live_logs(self) -> list[DeltaLog]:
        logs = [reference() for reference in list(self.logs)]  # one may end meanwhile
        return [log for log in logs if log is not None]

    def make_way(self, num_edges: int | None) -> None:
        """Have pins copy their version where an update of so many edges, None for all, would leave too much to undo.

        Raises
        ------
        OutOfMemoryError
            Pins and the graph stay as they are.
        """
        log = None if self.undo is None else self.undo()
        if log is not None:
            log.make_way(num_edges, max(MIN_KEPT, int(MAX_UNDONE * self.out.num_edges)))

    def end_version(self, change: Change | Unread | None) -> None:
        """Begin the next version: views of this one become invalid, and logs get what has changed."""
        lease = self.lease
        lease.ended_by = lease.version + 1
        self.lease = Lease(lease.ended_by)
        self.views = {}
        if self.logs:
            self.record_change(change)
