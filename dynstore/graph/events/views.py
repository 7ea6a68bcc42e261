"""Views of events: those of some time, those with some values, all of one version."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import ceil
from threading import RLock
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary, ref

import numpy as np

from dynstore.batches.make import make_batch
from dynstore.bits import full_words
from dynstore.errors import InputError
from dynstore.graph.core import EXTRA
from dynstore.graph.events.changing import change
from dynstore.graph.events.core import Deaths, EventCore, MultiCore
from dynstore.graph.events.layout import ALIVE, ID, KEY, OWN, PAIR
from dynstore.graph.events.reading import Entering
from dynstore.graph.records import WEIGHT
from dynstore.graph.transaction import Transaction
from dynstore.graph.versions.pinned import PinnedGraph, Released
from dynstore.graph.versions.view import GraphView, ShownStore, copy_store, empty_store, read_bounds
from dynstore.ids.base import RenumberingPlan
from dynstore.ids.hash_table import pair_keys
from dynstore.ids.pinned import pin_ids
from dynstore.input.columns import read_numbers
from dynstore.interrupts import MemoryChecked
from dynstore.snapshot import Lease
from dynstore.stores.table.slots import SlotArrays

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.graph.core import GraphState
    from dynstore.graph.events.pairs import PairRecords
    from dynstore.graph.local import LocalGraph
    from dynstore.stores.base import Store
    from dynstore.typing import Array

__all__ = [
    "EventPin",
    "EventViewCore",
    "PairsOfRows",
    "PinnedEvents",
    "bounds_of",
    "in_bounds",
    "pin_events",
    "restore_events",
    "where_of",
    "window_of_events",
]


LEAST, GREATEST = (int(limit) for limit in (np.iinfo(np.int64).min, np.iinfo(np.int64).max))
MANY = (list, tuple, set, frozenset)
# The share of the pairs from which on they are selected.
SELECTED = 1 / 16


class PairsOfRows(ShownStore):
    """The pairs of some events, made when they are first read."""

    def __init__(self, core: EventViewCore, store: Store) -> None:
        super().__init__(store)
        self._view, self._num_vertices = ref(core), store.num_vertices  # no circle: a pin that is dropped ends at once
        self._flat: Store | None = None
        self._shown, self._is_current = store, core.reads_graph

    @property
    def _core(self) -> EventViewCore:
        core = self._view()
        assert core is not None
        return core

    @property
    def num_vertices(self) -> int:
        return self._num_vertices

    @property
    def num_edges(self) -> int:
        return self._made().num_edges

    def _read_slots(self) -> SlotArrays:
        return self._made().slots

    def _made(self) -> Store:
        self._core.check()
        if self._flat is None:
            rows = self._core.event_rows()
            with self.lock:
                if self._flat is None:
                    self._flat = self._make(rows)
        return self._flat

    def _make(self, rows: Array) -> Store:
        """Sort the pairs; or select them in the graph's store, where it still has this version's, and they are many.

        Selecting a tenth of 4 M pairs takes 0.67 of the time on the host, and 0.93 on an H200
        (``benchmarks/events.py``, selections).
        """
        core, backend, xp = self._core, self.backend, self.backend.xp
        is_there = backend.zeros(core.pairs.used, np.bool_)
        is_there[core.columns[PAIR][rows]] = True
        if self._is_current and rows.shape[0] > SELECTED * self._shown.num_edges:
            return self._selected(is_there)
        numbers = xp.nonzero(is_there)[0].astype(self.vertex_dtype)
        batch = make_batch(backend, *core.pairs.ends(numbers), numbers, core.directed).materialized()
        return copy_store(self._shown, batch, self._num_vertices)

    def _selected(self, is_there: Array) -> Store:
        backend, slots, core = self.backend, self._shown.slots, self._core
        most = int(backend.xp.count_nonzero(is_there)) * (1 if core.directed else 2)
        src, dst, numbers, offsets = core.pairs.kernels.select_pairs(backend, slots, self._num_vertices, is_there, most)
        num_edges = int(src.shape[0])
        flat, words = empty_store(self, num_edges), full_words(backend, num_edges)
        flat.slots = SlotArrays(src, dst, numbers, words, offsets, offsets, num_edges, memory=slots.memory)
        return flat

    def memory_usage(self) -> dict[str, int]:
        return {} if self._flat is None else {"pairs": sum(self._flat.slots.memory_usage().values())}


class EventViewCore(MultiCore):
    """The core of a view of events.

    Parameters
    ----------
    core : MultiCore
        Of the graph, or of another view of it.
    find_rows : callable
        It returns the rows of the view's events, in order of arrival; it is called once.
    lease : Lease
        The version that the view shows.
    """

    def __init__(self, core: MultiCore, find_rows: Callable[[], Array] | None, lease: Lease) -> None:
        self.__dict__.update(
            {name: value for name, value in core.__dict__.items() if name not in ("events", "following")}
        )
        self.begin_alone(lease.version)
        self.lock, self.lease = core.lock, lease
        self.simple = WeakValueDictionary()
        self._shown, self._pairs, self._find_rows = core, core.pairs, find_rows
        self._columns: dict[str, Array] | None = None  # those that the rows are of
        self._rows: Array | None = None
        self.reads_graph = core.reads_graph and self.reads_graph
        self.out, self.into = PairsOfRows(self, core.out), None

    @property
    def columns(self) -> dict[str, Array]:
        self.check()
        return self._shown.columns if self._columns is None else self._columns

    def check(self) -> None:
        """Refuse to be read after an update, or once the pin is released that this is a view of."""
        self.lease.check("window")
        if isinstance(self._shown, EventViewCore):
            self._shown.check()

    def _columns_now(self) -> dict[str, Array]:
        return self._shown.columns

    def _found_rows(self) -> Array:
        assert self._find_rows is not None
        return self._find_rows()

    @property
    def pairs(self) -> PairRecords:
        return self._pairs

    def event_rows(self) -> Array:
        self.check()
        if self._rows is None:
            with self.lock:
                if self._rows is None:
                    with MemoryChecked("window"):
                        columns, self._rows = dict(self._columns_now()), self._found_rows()
                        self._columns = columns
        return self._rows

    def find_records(self, src: Array, dst: Array) -> Array:
        return self._shown.find_records(src, dst)

    @property
    def num_edges(self) -> int:  # type: ignore[override]
        return int(self.event_rows().shape[0])

    def store_of(self, batch: Any) -> Store:
        return copy_store(self.out, batch, self.num_vertices)


def window_of_events(graph: LocalGraph, start: Any, end: Any) -> GraphView:
    """Return a view of the events of some time; see :meth:`dynstore.DynamicGraph.window`."""
    core: Any = graph.core
    bounds = bounds_of(core, "window", start, end)
    find = core.event_rows if start is None and end is None else partial(core.rows_between, *bounds)
    return _view(graph, EventViewCore(core, find, core.lease))


def restore_events(core: EventCore, state: GraphState) -> None:
    """Put the events of a state into a graph without any."""
    columns = {
        name: array if array.dtype == object else core.backend.asarray(array) for name, array in state.columns.items()
    }
    names = (*((WEIGHT,) if core.weighted else ()), *core.edge_dtypes)
    values = {name: columns[EXTRA * (name != WEIGHT) + name] for name in names}
    ends = columns["source"], columns["destination"]
    entering = Entering(*ends, values, columns[EXTRA + ID], len(ends[0]))
    plan = RenumberingPlan(state.num_vertices, core.ids.plan_columns(columns))
    with core.lock, Transaction(core, "DynamicGraph") as update:
        change(update, None, entering, plan)
    core.unit.guess_dated()


def in_bounds(core: MultiCore, caller: str, rows: Array, start: Any, end: Any) -> Array:
    """Return the rows of the events with ``start <= time < end``; None is no bound."""
    return core.of_time(rows, *bounds_of(core, caller, start, end))


def bounds_of(core: Any, caller: str, start: Any, end: Any) -> tuple[int, int]:
    """Return the first and the last time of a window."""
    first, last = read_bounds(caller, core.time_unit, start, end)
    low = LEAST if first is None or first < LEAST else _least_from(first)
    high = GREATEST if last is None or last > GREATEST else _least_from(last) - 1
    return (low, high) if low <= GREATEST and high >= LEAST else (0, -1)  # no time is in an empty window


def _least_from(bound: float) -> int:
    """Return the least integer that is not below a bound, or one that no int64 is below."""
    return LEAST if bound < LEAST else GREATEST + 1 if bound > GREATEST else ceil(bound)


def where_of(graph: LocalGraph, values: dict[str, Any]) -> GraphView:
    """Return a view of the events with some values; see :meth:`dynstore.DynamicGraph.where`."""
    core: Any = graph.core
    known = {name: name for name in core.columns if name not in OWN or name == ID}
    if not values:
        raise InputError(f"where: no column was given; wanted one or more of {', '.join(known)}")
    wanted = {}
    for name, value in values.items():
        if name not in known:
            raise InputError(f"where: the graph has no column {name!r}; wanted one of {', '.join(known)}")
        is_one = isinstance(value, np.generic) or not (hasattr(value, "__array__") or isinstance(value, MANY))
        given = [value] if is_one else list(value) if isinstance(value, set | frozenset) else value
        wanted[name] = read_numbers("where", core.backend, name, given)

    def find() -> Array:
        rows = core.event_rows()
        for name, given in wanted.items():
            values = core.columns[name][rows]
            same = given.astype(values.dtype) if values.dtype.kind == "f" else given  # 0.1 is that of the column
            rows = rows[core.backend.xp.isin(values, same)]
        return rows

    return _view(graph, EventViewCore(core, find, core.lease))


def _view(graph: LocalGraph, core: EventViewCore) -> GraphView:
    return GraphView(core, getattr(graph, "_graph_type", type(graph)))


class EventPin(PinnedGraph):
    """One version of a multigraph. As long as there are pins, the graph uses no row of its log twice, so it grows."""

    def __init__(self, graph: LocalGraph) -> None:
        core: Any = graph.core
        GraphView.__init__(self, PinnedEvents(core), type(graph))

    def release(self) -> None:
        """Free the pin's memory. Reading it, or views of it, raises StaleSnapshotError from now on."""
        core: Any = self.core
        core.release()


class PinnedEvents(EventViewCore):
    """The core of a pin: the columns as they were, and what has left since."""

    reads_graph = False

    def __init__(self, core: EventCore) -> None:
        log, events = core.events.log, core.events
        ring = log.ring
        self._released: Released | None = None
        self._first, self._capacity, self._count = ring.first_row, ring.capacity, ring.span
        self._link, self._num_events = events.deaths, log.num_events
        super().__init__(core, None, Lease(core.lease.version))
        self._guard = core.lock
        self._kept = dict(core.columns)
        self.lock = RLock()
        self.ids = pin_ids(core.ids, core.num_vertices, core.lock)
        self._sorted: tuple[Array, Array] | None = None
        self._pairs = replace(events.table)
        self.events_held = events.holders
        events.holders.add(self)

    @property
    def columns(self) -> dict[str, Array]:
        self.check()
        return self._kept

    def check(self) -> None:
        if self._released is not None:
            self._released.read()

    @property
    def num_edges(self) -> int:  # type: ignore[override]
        self.check()
        return self._num_events

    def _columns_now(self) -> dict[str, Array]:
        return self._kept

    def find_records(self, src: Array, dst: Array) -> Array:
        """Return the record of each pair, negative for those without events; the table of records may have changed."""
        xp, rows = self.backend.xp, self.event_rows()
        if self._sorted is None:
            numbers = xp.unique(self.columns[PAIR][rows])
            keys = self.pairs.records[numbers, KEY]
            order = xp.argsort(keys)
            self._sorted = keys[order], numbers[order]
        keys, numbers = self._sorted
        wanted = pair_keys(xp, src, dst, self.directed)
        if not keys.shape[0]:
            return self.backend.full(wanted.shape[0], -1, np.int32)
        places = xp.minimum(xp.searchsorted(keys, wanted), keys.shape[0] - 1)
        return xp.where(keys[places] == wanted, numbers[places], -1).astype(np.int32)

    def _found_rows(self) -> Array:
        """Return the rows that were there: those that are, and those that left since. No update runs meanwhile."""
        rows = (self.backend.xp.arange(self._count, dtype=np.int64) + self._first) % self._capacity
        with self._guard:
            alive = self._kept[ALIVE] != 0
            link = self._link
            while link.rows is not None and link.next is not None:
                alive[link.rows] = True
                link = link.next
            self._link = Deaths()
        return rows[alive[rows]]

    def release(self) -> None:
        """Let the graph use the rows again, and free the copy of the pairs."""
        if self._released is None:
            self._released = Released(self.lease.version)
            self._columns = self._rows = self._sorted = None
            self._kept, self._link = {}, Deaths()
            self.views = {}
            self.events_held.discard(self)


def pin_events(graph: LocalGraph) -> EventPin:
    """Pin the present version of a graph of events."""
    core: Any = graph.core
    with core.lock, MemoryChecked("pin"):
        return EventPin(graph)
