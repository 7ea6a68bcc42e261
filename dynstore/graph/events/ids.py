"""The ids of events: counted up, or the user's own; and the search for them.

Ids that ascend in order of arrival, as those that are counted, are searched in their column. Once others have come,
there is a hash table, which holds the rows of events only: ids are read from the column. A cell of an event that is
gone does no harm, so deletions write nothing here.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.errors import InputError, LimitError
from dynstore.graph.events.layout import EMPTY
from dynstore.ids.hash_table import is_crowded, slots_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.backend import Backend
    from dynstore.graph.events.log import EventLog
    from dynstore.typing import Array

__all__ = ["EventIds"]


class EventIds:
    """What is known of the ids of a log.

    Attributes
    ----------
    highest : int
        No event has, or had, a greater id. Ids are counted up behind it.
    ascending : bool
        Whether ids ascend along the log.
    """

    def __init__(self, backend: Backend, highest: int = -1) -> None:
        self.backend, self.highest, self.ascending = backend, highest, True
        self._cells: Array | None = None
        self._seed, self._filled = secrets.randbits(63), 0

    @property
    def nbytes(self) -> int:
        """Bytes of the table."""
        return 0 if self._cells is None else int(self._cells.nbytes)

    def find(self, log: EventLog, wanted: Array) -> Array:
        """Return the row of the event with each id, int64, -1 if there is none."""
        if self.ascending:
            return self._kernels.find_ascending(self.backend, log.ring, wanted)
        if self._cells is None:
            self.place_all(log, 0)
        return self._kernels.find_hashed(self.backend, log.ring, self._cells, self._seed, wanted)

    def plan(self, caller: str, log: EventLog, given: Array | None, count: int) -> tuple[Array, int, bool]:
        """Return the ids of new events; with them what :attr:`highest` and :attr:`ascending` are afterwards.

        Parameters
        ----------
        given : array, shape (B,), int64, or None
            The user's own; else they are counted up from the highest one.

        Raises
        ------
        InputError
            For an id that is there already, in the batch or in the log.
        """
        xp = self.backend.xp
        if given is None:
            if self.highest + count > np.iinfo(np.int64).max - 1:
                raise LimitError(f"{caller}: ids after {self.highest} do not fit int64; give them (edge_id=...)")
            first = self.highest + 1
            return xp.arange(first, first + count, dtype=np.int64), self.highest + count, self.ascending
        if not count:
            return given, self.highest, self.ascending
        ascends = bool((given[1:] > given[:-1]).all())
        ordered = given if ascends else xp.sort(given)
        if not ascends and bool((ordered[1:] == ordered[:-1]).any()):
            value = int(ordered[int((ordered[1:] == ordered[:-1]).argmax())])
            raise InputError(f"{caller}: edge_id has {value} twice; wanted an id of its own for each row")
        lowest, highest = int(ordered[0]), int(ordered[-1])
        if lowest <= self.highest:
            found = self.find(log, given) >= 0
            if bool(found.any()):
                raise InputError(
                    f"{caller}: edge_id has {int(given[int(found.argmax())])} at row {int(found.argmax())}, which is "
                    "there already; wanted a new id, or delete that edge before"
                )
        return given, max(highest, self.highest), self.ascending and ascends and lowest > self.highest

    def reserve(self, log: EventLog, more: int, ascending: bool) -> None:
        """Have cells for ``more`` ids that will be written, if they, or those before, need the table."""
        if ascending:
            return
        if self._cells is None or is_crowded(self._cells.shape[0], self._filled + more):
            self.place_all(log, more)

    def place_all(self, log: EventLog, more: int) -> None:
        """Make the table anew, with room for ``more`` ids."""
        cells = self.backend.full(slots_for(log.num_events + more), EMPTY, np.int32)
        self._kernels.place_ids(log.ring, cells, self._seed, log.alive())
        self._cells, self._filled = cells, log.num_events

    def forget_rows(self) -> None:
        """Drop the table, as events have other rows; it is made again when it is needed."""
        self._cells, self._filled = None, 0

    def plan_new(self, log: EventLog, count: int, highest: int, ascending: bool) -> Callable[[], None]:
        """Plan to put ids of ``count`` events behind the tail into the table, if there is one; return the commit."""
        write = None
        if self._cells is not None:
            rows = log.rows_of(self.backend.xp.arange(log.tail, log.tail + count, dtype=np.int64))
            write = self.backend.prepare(self._kernels.place_ids, log.ring, self._cells, self._seed, rows)

        def commit() -> None:
            self.highest, self.ascending = highest, ascending
            if write is not None:
                write()
                self._filled += count

        return commit

    def copy(self) -> EventIds:
        """Return an independent copy."""
        twin = EventIds(self.backend, self.highest)
        twin.ascending = self.ascending
        return twin

    @property
    def _kernels(self) -> Any:
        return self.backend.kernels("dynstore.graph.events", "log")
