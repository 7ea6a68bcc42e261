"""The core of a graph of events: pairs of vertices in a store, and the events of each pair in a log.

The store has each pair once, with the number of its record (:mod:`dynstore.graph.events.pairs`) as a weight. Algorithms
run on the pairs, under weights that are aggregates of the events' (:mod:`dynstore.graph.events.simple`).
"""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakSet, WeakValueDictionary

import numpy as np

from dynstore.errors import InputError
from dynstore.graph.core import EXTRA, GraphCore, GraphState
from dynstore.graph.events.aggregates import FLOAT64, OF_RECORDS, Aggregate, of_rows
from dynstore.graph.events.ids import EventIds
from dynstore.graph.events.layout import HIGH, ID, OWN, PAIR, PEAK, STATE
from dynstore.graph.events.log import EventLog
from dynstore.graph.events.pairs import PairRecords
from dynstore.graph.records import TIME, WEIGHT
from dynstore.input.times import TimeUnit
from dynstore.interrupts import MemoryChecked
from dynstore.lookup import provided

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from dynstore.backend import Backend
    from dynstore.ids.base import RenumberingPlan
    from dynstore.typing import Array, Memory

__all__ = ["Deaths", "EventCore", "Events", "MultiCore", "width_of"]


class Deaths:
    """A place in the chain of what left the log since: a pin holds the link that was the last one when it was made.

    Attributes
    ----------
    rows : array or None
        None for the last link.
    next : Deaths or None
    """

    __slots__ = ("next", "rows")

    def __init__(self) -> None:
        self.rows: Array | None = None
        self.next: Deaths | None = None


def width_of(dtype: np.dtype | None) -> int:
    """Return the columns of a pair's record for weights of a dtype."""
    if dtype is None:
        return STATE + 1
    return HIGH + 1 if dtype.kind in "iu" else PEAK + 1


class Events:
    """The events of a graph.

    Attributes
    ----------
    table : PairRecords
    log : EventLog
    ids : EventIds
    holders : set
        Pins: as long as there are any, no row and no record is used again.
    deaths : Deaths
        The last link.
    uses : array, shape (V,), int64, or None
        How many ends of events each vertex is; None until an update drops vertices.
    """

    def __init__(self, backend: Backend, table: PairRecords, log: EventLog, ids: EventIds) -> None:
        self.backend, self.table, self.log, self.ids = backend, table, log, ids
        self.uses: Array | None = None
        self.holders: WeakSet[Any] = WeakSet()
        self.deaths = Deaths()

    @classmethod
    def allocate(
        cls,
        backend: Backend,
        dtypes: Mapping[str, np.dtype],
        capacity: int,
        limit: int | None,
        first_id: int,
        memory: Memory = "device",
    ) -> Events:
        """Make events of some columns, none yet; ids are counted up from ``first_id``."""
        log = EventLog.allocate(backend, dtypes, capacity, limit, memory)
        table = PairRecords.allocate(backend, width_of(dtypes.get(WEIGHT)))
        return cls(backend, table, log, EventIds(backend, first_id - 1))

    def memory_usage(self) -> dict[str, int]:
        """Return bytes by part."""
        ids = self.ids.nbytes
        return {"log": self.log.nbytes, "pairs": self.table.nbytes, **({"edge_ids": ids} if ids else {})}

    def reserve(self, more: int) -> None:
        """Have room for ``more`` events of as many new pairs.

        Raises
        ------
        OutOfMemoryError, LimitError
            All that can be asked stays the same.
        """
        is_pinned = bool(self.holders)
        if self.table.waiting and not is_pinned:
            self.table.free_waiting()
        log, columns = self.log, self.log.columns
        if log.reserve(more, not is_pinned):
            self.table.kernels.relink_events(self.backend, self.table.arrays, self.table.used, log.ring)
        if log.columns is not columns:  # pins keep the old ones, as they were
            self.ids.forget_rows()
            self.deaths = Deaths()
        self.table.reserve(more)

    def uses_after(self, left: list[Array], entering: tuple[Array, Array] | None, plan: RenumberingPlan) -> Array:
        """Return :attr:`uses` as they are after an update, in a new array.

        ``left``: rows that have left the log, and may not be there any more; ``entering``: ends of new events.
        """
        uses, size = self.backend.zeros(plan.num_vertices, np.int64), plan.num_vertices
        if self.uses is None:
            parts = [(self.log.alive(), 1)]
        else:
            uses[: self.uses.shape[0]] = self.uses
            parts = [(rows, -1) for rows in left]
        counted = [(self.table.ends(self.log.columns[PAIR][rows]), sign) for rows, sign in parts]
        if entering is not None:
            src, dst = entering if plan.ranks is None else (plan.ranks[end] for end in entering)
            counted.append(((src, dst), 1))
        for ends, sign in counted:
            for end in ends:
                if end.shape[0]:
                    uses += sign * self.backend.xp.bincount(end, minlength=size)
        return uses

    def bury(self, left: list[Array]) -> None:
        """Note for pins which rows have left."""
        for rows in left:
            self.deaths.rows, self.deaths.next = rows, Deaths()
            self.deaths = self.deaths.next

    def copy(self) -> Events:
        """Return an independent copy, which nothing follows."""
        return Events(self.backend, self.table.copy(), self.log.copy(), self.ids.copy())


class MultiCore(GraphCore):
    """The core of what shows events: a graph of them, a view of it, a pin.

    A subclass says which events there are (:meth:`event_rows`), and where they lie (``columns``, ``pairs``).

    Attributes
    ----------
    simple : mapping
        The graphs of pairs, by aggregate, as long as somebody holds them.
    """

    shows_events = True
    takes_updates = False
    reads_graph = True  # whether the graph has not changed as long as this can be read
    simple: WeakValueDictionary[str | None, Any]

    @property
    def columns(self) -> dict[str, Array]:
        """The columns of the log."""
        raise NotImplementedError

    @property
    def pairs(self) -> PairRecords:
        """The pairs of the log's events."""
        raise NotImplementedError

    def event_rows(self) -> Array:
        """Return the rows of the events in the log, in order of arrival."""
        raise NotImplementedError

    def rows_between(self, low: int, high: int) -> Array:
        """Return the rows of the events with ``low <= time <= high``, in order of arrival."""
        return self.of_time(self.event_rows(), low, high)

    def of_time(self, rows: Array, low: int, high: int) -> Array:
        """Return those of some rows whose events have ``low <= time <= high``."""
        times = self.columns[TIME][rows]
        return rows[(times >= low) & (times <= high)]

    def rows_of_records(self, numbers: Array) -> Array:
        """Return the rows of the events of some pairs, in order of arrival."""
        rows = self.event_rows()
        wanted = self.backend.zeros(self.pairs.used, np.bool_)
        wanted[numbers] = True
        return rows[wanted[self.columns[PAIR][rows]]]

    def drop_in_edges(self) -> bool:
        shown = [self.views, *(graph.core.views for graph in list(self.simple.values()))]
        with self.out.lock:
            if not any(True in views for views in shown):
                self.into = None
            return self.into is None

    # ------------------------------------------------------------------ the state

    unit: TimeUnit

    @property
    def timestamps(self) -> np.dtype | None:
        return self.columns[TIME].dtype if TIME in self.columns else None

    @property
    def time_unit(self) -> TimeUnit | None:
        return self.unit if TIME in self.columns else None

    @property
    def edge_dtypes(self) -> dict[str, np.dtype]:
        return {name: array.dtype for name, array in self.columns.items() if name not in OWN and name != WEIGHT}

    def options(self) -> dict[str, Any]:
        return {**super().options(), "multigraph": True}

    def memory_of_columns(self) -> dict[str, int]:
        return {}

    def state(self, among: Array | None = None) -> GraphState:
        """Return the state in new arrays; undirected edges stand there once, and all in order of arrival."""
        rows, num_vertices, kept = self.event_rows(), self.num_vertices, None
        src, dst = self.pairs.ends(self.columns[PAIR][rows])
        if among is not None:
            inside = among[src] & among[dst] if among.shape[0] else self.backend.zeros(src.shape[0], np.bool_)
            rows, src, dst = rows[inside], src[inside], dst[inside]
            if self.ids.renumbered:
                kept = self.backend.xp.nonzero(among)[0]
                ranks = self.backend.xp.cumsum(among, dtype=self.vertex_dtype) - 1
                src, dst, num_vertices = ranks[src], ranks[dst], int(kept.shape[0])
        columns = {"source": src, "destination": dst}
        for name in (*((WEIGHT,) if self.weighted else ()), *self.edge_dtypes, ID):
            columns[EXTRA * (name != WEIGHT) + name] = self.columns[name][rows]
        columns |= self.ids.columns(self.num_vertices, kept)
        return GraphState(self.options(), num_vertices, self.lease.version, columns)

    # ------------------------------------------------------------------ events as columns

    def columns_of_rows(self, rows: Array, library: str | None = None) -> dict[str, Array]:
        """Return events as named columns of ids."""
        src, dst = self.pairs.ends(self.columns[PAIR][rows])
        src, dst = self.ids.ends(src, dst, self.num_vertices, not self.directed, library)
        names = (*((WEIGHT,) if self.weighted else ()), *self.edge_dtypes, ID)
        return {"source": src, "destination": dst, **{name: self.columns[name][rows] for name in names}}

    def in_order(self, rows: Array) -> Array:
        """Return rows, which are in order of arrival, in order of time."""
        if TIME not in self.columns or rows.shape[0] < 2:
            return rows
        times = self.columns[TIME][rows]
        if bool((times[1:] >= times[:-1]).all()):
            return rows
        return rows[self.backend.xp.argsort(times, kind="stable")]

    def sorted_rows(self) -> tuple[Array, Array]:
        """Return the rows of all events by source and destination, those of a pair by time; and their sources."""
        rows, xp = self.in_order(self.event_rows()), self.backend.xp
        src, dst = self.pairs.ends(self.columns[PAIR][rows])
        order = xp.lexsort(xp.stack((dst, src))) if rows.shape[0] else rows
        return rows[order], src[order]

    def all_columns(self, library: str | None = None) -> dict[str, Array]:
        """Return all events in the order of :meth:`sorted_rows`."""
        return self.columns_of_rows(self.sorted_rows()[0], library)

    def event_pieces(self, max_edges: int) -> Iterator[dict[str, Array]]:
        """Yield :meth:`all_columns` in pieces that begin and end with a source."""
        rows, src = self.sorted_rows()
        find, count, low = self.backend.xp.searchsorted, int(rows.shape[0]), 0
        while low < count:
            high = min(low + max_edges, count)
            if high < count:
                first = int(find(src, src[high : high + 1], side="left")[0])
                high = first if first > low else int(find(src, src[low : low + 1], side="right")[0])
            yield self.columns_of_rows(rows[low:high])
            low = high

    def row_lengths(self, transposed: bool = False) -> Array:
        """Return the number of events in each row; undirected ones count at both ends, a loop once."""
        src, dst = self.pairs.ends(self.columns[PAIR][self.event_rows()])
        bincount, size = self.backend.xp.bincount, self.num_vertices
        if self.directed:
            return bincount(dst if transposed else src, minlength=size).astype(self.vertex_dtype)
        return (bincount(src, minlength=size) + bincount(dst[src != dst], minlength=size)).astype(self.vertex_dtype)

    def row_length(self, number: int, transposed: bool) -> int:
        return int(self.rows_of_vertex(number, transposed).shape[0])

    def rows_of_vertex(self, number: int, transposed: bool) -> Array:
        """Return the rows of the events from a vertex, or to it, in order of arrival."""
        return self.rows_of_records(self.records_of_row(number, transposed))

    def records_of_row(self, number: int, transposed: bool) -> Array:
        """Return the records of the pairs of one vertex."""
        store = self.oriented(transposed)
        row = store.row(number)
        stored = store.look_up(self.backend.full(row.shape[0], number, row.dtype), row)[1]
        assert stored is not None
        return stored

    def of_pairs(self) -> GraphCore:
        """Return a core with each pair of vertices once, without weights."""
        pairs: GraphCore = provided("simple").SimpleCore(self, None)
        return pairs

    def find_records(self, src: Array, dst: Array) -> Array:
        """Return the record of each pair, negative for those without events."""
        pairs = self.pairs
        found: Array = pairs.kernels.find_records(self.backend, pairs.arrays, src, dst, not self.directed)
        return found

    def find_ids(self, wanted: Array) -> Array:
        """Return the row of the event with each id, -1 for those that are none."""
        rows, xp = self.event_rows(), self.backend.xp
        ids = self.columns[ID][rows]
        order = xp.argsort(ids)
        places = xp.searchsorted(ids, wanted, sorter=order)
        if not rows.shape[0]:
            return self.backend.full(wanted.shape[0], -1, np.int64)
        rows = rows[order[xp.minimum(places, rows.shape[0] - 1)]]
        return xp.where(self.columns[ID][rows] == wanted, rows, -1)

    def weights_of(self, stored: Array | None) -> Array | None:
        raise InputError(
            "multigraph: a pair of vertices may have several edges, so it has no weight; wanted simple(...) or events()"
        )

    def _weights_for_view(self, stored: Array | None) -> Any:
        return partial(self.aggregate("sum").weights, stored) if self.weighted else None

    def aggregate(self, name: str) -> Aggregate:
        """Return an aggregate of what is shown."""
        dtype = self.weight_dtype if self.weight_dtype.kind == "f" else FLOAT64
        values = self.aggregated(name) if self.takes_updates and name not in OF_RECORDS else None
        make = None if self.takes_updates else partial(self.aggregated, name)
        return Aggregate(name, dtype, values, lambda: self.pairs, make)

    def aggregated(self, name: str) -> Array:
        """Return an aggregate by the record of the pair, float64, made anew."""
        return of_rows(self.backend, self.columns, name, self.event_rows(), self.pairs.used)


class EventCore(MultiCore):
    """The core of a graph of events that takes updates."""

    takes_updates = True

    def __init__(self, *arguments: Any, events: Events, **options: Any) -> None:
        self.events, self.unit = events, TimeUnit()
        super().__init__(*arguments, **options)

    def begin_alone(self, version: int) -> None:
        super().begin_alone(version)
        self.simple = WeakValueDictionary()
        self.following: list[Callable[[], None]] | None = None  # commits of the graphs of pairs, while events change

    def end_version(self, change: Any) -> None:
        super().end_version(change)
        if self.following is not None:
            for commit in self.following:
                commit()
        else:
            for graph in list(self.simple.values()):
                core: Any = graph.core
                if core.aggregate is not None and core.aggregate.values is not None and not self.pairs.used:
                    core.aggregate.values = self.backend.nothing(FLOAT64)  # all edges are gone; else records stay
                core.begin_version(None)

    @property
    def num_edges(self) -> int:
        """The number of events."""
        return self.events.log.num_events

    @num_edges.setter
    def num_edges(self, num_pairs: int) -> None:
        """Take no notice: updates count pairs."""

    @property
    def columns(self) -> dict[str, Array]:
        return self.events.log.columns

    @property
    def pairs(self) -> PairRecords:
        return self.events.table

    def event_rows(self) -> Array:
        return self.events.log.alive()

    def rows_between(self, low: int, high: int) -> Array:
        return self.events.log.in_time(low, high)

    def rows_of_records(self, numbers: Array) -> Array:
        log, pairs = self.events.log, self.pairs
        rows = pairs.kernels.collect_rows(self.backend, pairs.arrays, log.ring, numbers, pairs.counts(numbers))
        return rows[self.backend.xp.argsort(log.numbers_of(rows))]

    def find_ids(self, wanted: Array) -> Array:
        return self.events.ids.find(self.events.log, wanted)

    def options(self) -> dict[str, Any]:
        limit = self.events.log.limit
        options = {**super().options(), "first_edge_id": self.events.ids.highest + 1}
        return {**options, **({} if limit is None else {"event_memory": limit})}

    def memory_of_columns(self) -> dict[str, int]:
        return self.events.memory_usage()

    @property
    def host_bytes(self) -> int:
        log = self.events.log
        return super().host_bytes + (log.nbytes if log.memory == "host" else 0)

    def copy(self) -> Self:
        twin = super().copy()
        with MemoryChecked("copy"):
            twin.events, twin.unit = self.events.copy(), copy(self.unit)
        return twin

    # ------------------------------------------------------------------ what updates of vertices call

    def attached_window(self) -> Self:
        """Return what is called when the numbers of vertices change: a :class:`~dynstore.graph.core.NumberedWindow`."""
        return self

    def plan_renumber(self, ranks: Array) -> Callable[[], None]:
        table = self.events.table.renumbered(ranks, self.directed, self.backend.nothing(np.int32))

        def commit() -> None:
            self.events.table, self.events.uses = table, None

        return commit

    def plan_forget(self, numbers: Array) -> Callable[[], None]:
        raise AssertionError("vertices of a graph of events are deleted with their events")

    def plan_clear(self) -> Callable[[], None]:
        events = self.events
        table = PairRecords.allocate(self.backend, int(events.table.records.shape[1]))
        log, ids = events.log.empty_twin(), EventIds(self.backend, events.ids.highest)

        def commit() -> None:
            events.table, events.log, events.ids, events.deaths, events.uses = table, log, ids, Deaths(), None
            self.unit = TimeUnit()

        return commit
