"""The events of a graph in order of arrival: columns in a ring.

An event has a number, which is that of its arrival. Its row in the columns is (number + ``shift``) modulo the capacity.
New events come behind the ``tail``; the ``head`` moves over events that are gone, and their rows are used again. So
events that leave in the order in which they came cost no copy, and the columns stay as long as there are events.

Numbers are no ids: they change when events that are gone take more than half of the rows, and are dropped.

``back`` has the number of the event before of the same pair. So the events of a pair are a chain, from the newest one
back. The chain of a pair may lead through events that are gone, and ends before the head.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.errors import LimitError, OutOfMemoryError
from dynstore.graph.events.layout import ALIVE, BACK, BLOCK, BLOCK_SHIFT, ID, OWN, PAIR, LogArrays
from dynstore.graph.records import TIME, WEIGHT
from dynstore.typing import MAX_INT32

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dynstore.backend import Backend
    from dynstore.typing import Array, Memory

__all__ = ["EventLog"]

GROWTH = 1.25
LEAST, GREATEST = (int(bound) for bound in (np.iinfo(np.int64).min, np.iinfo(np.int64).max))


@dataclass
class EventLog:
    """Events as columns.

    Attributes
    ----------
    columns : dict of arrays, shape (S,)
    lows, highs : arrays, shape (S / BLOCK,), int64, or None
        Bounds of the times in each block of rows; without times None.
    shift : int
        See the module.
    head, tail : int
        Events have numbers from ``head`` on, and below ``tail``.
    num_events : int
        Those that are there.
    limit : int or None
        The most bytes of all columns.
    memory : {"device", "host"}
        Where the columns lie; see :class:`dynstore.stores.base.Store`.
    """

    backend: Backend
    columns: dict[str, Array]
    lows: Array | None
    highs: Array | None
    limit: int | None = None
    memory: Memory = "device"
    shift: int = 0
    head: int = 0
    tail: int = 0
    num_events: int = 0

    @classmethod
    def allocate(
        cls, backend: Backend, dtypes: Mapping[str, np.dtype], capacity: int, limit: int | None, memory: Memory
    ) -> EventLog:
        """Make an empty log of some columns, beside :data:`OWN`."""
        rows = _rounded(max(capacity, 1))
        columns = {name: backend.empty_in(memory, rows, dtype) for name, dtype in {**OWN, **dtypes}.items()}
        log = cls(backend, columns, None, None, limit, memory)
        if TIME in dtypes:
            log.lows, log.highs = (backend.full(-(-rows >> BLOCK_SHIFT), far, np.int64) for far in (GREATEST, LEAST))
        return log

    @property
    def capacity(self) -> int:
        """Rows of the columns, S."""
        return int(self.columns[PAIR].shape[0])

    @property
    def dtypes(self) -> dict[str, np.dtype]:
        """The dtypes of the user's columns."""
        return {name: column.dtype for name, column in self.columns.items() if name not in OWN}

    @property
    def row_bytes(self) -> int:
        """The bytes of one event."""
        return sum(column.dtype.itemsize for column in self.columns.values())

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        bounds = [] if self.lows is None else [self.lows, self.highs]
        return sum(int(array.nbytes) for array in (*self.columns.values(), *bounds))

    # ------------------------------------------------------------------ rows

    def rows_of(self, numbers: Array) -> Array:
        """Return the rows of events."""
        return (numbers + self.shift) % self.capacity

    def numbers_of(self, rows: Array) -> Array:
        """Return the numbers of the events in rows, int64."""
        return (rows.astype(np.int64) - self.shift - self.head) % self.capacity + self.head

    def alive(self, first: int | None = None) -> Array:
        """Return the rows of the events that are there, from a number on, in order of arrival."""
        numbers = self.backend.xp.arange(self.head if first is None else first, self.tail, dtype=np.int64)
        rows = self.rows_of(numbers)
        return rows[self.columns[ALIVE][rows] != 0]

    def oldest(self, count: int) -> Array:
        """Return the rows of the events that came first, of those that are there; at most ``count``."""
        first = self._kernels.first_alive(self.ring) if self.num_events else self.tail
        count, reach = min(count, self.num_events), count
        while True:
            numbers = self.backend.xp.arange(first, min(first + reach, self.tail), dtype=np.int64)
            rows = self.rows_of(numbers)
            rows = rows[self.columns[ALIVE][rows] != 0]
            if rows.shape[0] >= count:
                return rows[:count]
            reach *= 2  # some of those between are gone

    def in_time(self, low: int, high: int) -> Array:
        """Return the rows of the events with ``low <= time <= high``, in order of arrival."""
        rows: Array = self._kernels.rows_in_time(self.backend, self.ring, low, high)
        return rows

    def older(self, bound: int) -> Array:
        """Return the rows of the events with times below a bound, in order of arrival."""
        return self.in_time(LEAST, bound - 1) if bound > LEAST else self.backend.nothing(np.int64)

    @property
    def ring(self) -> LogArrays:
        """The columns as kernels take them."""
        columns, nothing = self.columns, self.backend.nothing
        weights, times = columns.get(WEIGHT, nothing(np.float64)), columns.get(TIME, nothing(np.int64))
        lows, highs = (nothing(np.int64) if bounds is None else bounds for bounds in (self.lows, self.highs))
        own = columns[PAIR], columns[BACK], columns[ALIVE], columns[ID]
        return LogArrays(*own, weights, times, lows, highs, self.shift, self.head, self.tail)

    @property
    def _kernels(self) -> Any:
        return self.backend.kernels("dynstore.graph.events", "log")

    # ------------------------------------------------------------------ room

    def reserve(self, more: int, may_reuse: bool) -> bool:
        """Have rows for ``more`` events; return whether events got other numbers.

        ``may_reuse``: whether rows of events that are gone may be used again; else a pin shows them.

        Raises
        ------
        OutOfMemoryError, LimitError
            The log is as it was.
        """
        crowded = self.tail + more > MAX_INT32
        if self.tail - self.head + more <= self.capacity and not crowded:
            return False
        if may_reuse:
            self._move_head()
        held = self.tail - self.head
        if held + more <= self.capacity and not crowded:
            return False
        gone = held - self.num_events
        if crowded or 2 * gone > held:
            self._compact(more)
            return True
        self._resize(more)
        return False

    def _size_for(self, events: int) -> int:
        """Return the rows for so many events: with some to spare, if the limit allows it."""
        if events > MAX_INT32:
            raise LimitError(f"multigraph: {events} events; a graph has at most {MAX_INT32}")
        most = MAX_INT32 if self.limit is None else self.limit // self.row_bytes
        if events > most:
            raise OutOfMemoryError(
                f"multigraph: {events} events take {events * self.row_bytes} bytes; the graph was made with "
                f"event_memory={self.limit}. Delete or expire events, or give more"
            )
        return min(_rounded(int(GROWTH * events) + 1), max(most, self.capacity))

    def _move_head(self) -> None:
        """Move the head over blocks of events that are gone."""
        if self.num_events == self.tail - self.head:
            return
        if not self.num_events:
            self.head = self.tail
        else:
            self.head = self._kernels.first_alive(self.ring)

    def _resize(self, more: int) -> None:
        ring, columns = self.ring, {}
        size = self._size_for(ring.span + more)
        first = min(ring.span, self.capacity - ring.first_row)  # the others are in the first rows
        for name, column in self.columns.items():
            columns[name] = self.backend.empty_in(self.memory, size, column.dtype)
            columns[name][:first] = column[ring.first_row : ring.first_row + first]
            columns[name][first : ring.span] = column[: ring.span - first]
        self._replace(columns, self.head, self.tail)

    def _compact(self, more: int) -> None:
        rows = self.alive()
        size = self._size_for(self.num_events + more)
        columns = {}
        for name, column in self.columns.items():
            columns[name] = self.backend.empty_in(self.memory, size, column.dtype)
            columns[name][: rows.shape[0]] = column[rows]
        self._replace(columns, 0, self.num_events)

    def _replace(self, columns: dict[str, Array], head: int, tail: int) -> None:
        """Take other columns, whose first row has the event ``head``."""
        size, lows, highs = int(columns[PAIR].shape[0]), self.lows, self.highs
        shift = -head % size
        if lows is not None:
            lows, highs = (self.backend.full(-(-size >> BLOCK_SHIFT), LEAST, np.int64) for _ in range(2))
            ring = replace(self, columns=columns, lows=lows, highs=highs, shift=shift, head=head, tail=tail).ring
            self._kernels.narrow_bounds(ring, GREATEST)  # those of all blocks, as their least time is the least
        self.columns, self.lows, self.highs, self.shift, self.head, self.tail = columns, lows, highs, shift, head, tail

    # ------------------------------------------------------------------ writing

    def write(self, values: Mapping[str, Array], count: int) -> None:
        """Write the columns of events behind the tail, where there is room; nothing shows them until :meth:`advance`.

        ``values``: all columns but those that are written with the pairs' records.
        """
        first = (self.tail + self.shift) % self.capacity
        before = min(count, self.capacity - first)
        parts = (slice(first, first + before), slice(before)), (slice(count - before), slice(before, None))
        for into, part in parts[: 1 + (before < count)]:
            for name, array in values.items():
                self.columns[name][into] = array[part]
        if self.lows is not None and count:
            self._kernels.widen_bounds(self.ring, values[TIME])

    def advance(self, count: int) -> None:
        """Show the ``count`` events behind the tail."""
        self.tail += count
        self.num_events += count

    def plan_narrow(self, bound: int, count: int) -> Callable[[], None]:
        """Plan to make the bounds of blocks right again after events with times below ``bound`` have left.

        ``count``: how many events are behind the tail, and are there then.
        """
        ring = self.ring._replace(tail=self.tail + count)
        narrow: Callable[[], None] = self.backend.prepare(self._kernels.narrow_bounds, ring, bound)
        return narrow

    def copy(self) -> EventLog:
        """Return an independent copy."""
        columns = {}
        for name, column in self.columns.items():
            columns[name] = self.backend.empty_in(self.memory, self.capacity, column.dtype)
            columns[name][:] = column
        lows, highs = (None if array is None else array.copy() for array in (self.lows, self.highs))
        return replace(self, columns=columns, lows=lows, highs=highs)

    def empty_twin(self) -> EventLog:
        """Return an empty log of the same columns."""
        return EventLog.allocate(self.backend, self.dtypes, 0, self.limit, self.memory)


def _rounded(rows: int) -> int:
    """Return whole blocks."""
    return -(-rows // BLOCK) * BLOCK
