"""One batch becomes one change of the graph, or one slide of its window."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from math import floor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.errors import InputError
from dynstore.ids.columns import StringKeys
from dynstore.streams.rows import (
    StreamRows,
    joined,
    last_of_each_pair,
    needs_times,
    refuse_known,
    settled,
    settled_by_id,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from dynstore.distributed import ShardedGraph
    from dynstore.graph import DynamicGraph
    from dynstore.streams.pending import Taken
    from dynstore.streams.staging import Staging
    from dynstore.typing import Array
    from dynstore.windows.window import Window

__all__ = ["Applier", "Ready"]

# The least time.
LEAST = -(1 << 63)


class Ready(NamedTuple):
    """A batch that is ready, or on its way to the device.

    Attributes
    ----------
    taken : Taken
    columns : callable
        Returns the columns: of rows that are inserted, and the ends of those that are deleted.
    width : int
        How many of them are inserted; if there are times, they are the last.
    timed : bool
        Whether there are times.
    dates : numpy.ndarray or None
        The times of the inserted rows, where a window wants them as date-times.
    deletes : bool
        Whether the others are there.
    keyed : bool
        Whether rows are events with ids: behind those that are inserted come their ids, and of those that are deleted
        there are only the ids.
    passing : numpy.ndarray or None
        Ids of events that come and go within the batch.
    rows, late : int
        Rows that are inserted, and rows that stay out.
    newest, entered : int or float, or None
        The newest time so far: of all rows, and of those that are inserted.
    others : tuple of Ready
        The same batch for other graphs.
    """

    taken: Taken
    columns: Callable[[], list[Array]]
    width: int
    timed: bool
    dates: np.ndarray | None
    deletes: bool
    rows: int
    late: int
    newest: int | float | None
    entered: int | float | None
    keyed: bool = False
    passing: np.ndarray | None = None
    others: tuple[Ready, ...] = ()


class Applier:
    """Prepares batches and applies them.

    Parameters
    ----------
    G : DynamicGraph or ShardedGraph
    window : Window or None
    length : int or None
        Edges expire when their last time is at most the newest time minus this; for graphs with times.
    lateness : int or float, or None
        Rows that are older than the newest time before them minus ``lateness`` stay out. None: none does.
    staging : Staging
    """

    def __init__(
        self,
        G: DynamicGraph | ShardedGraph,
        window: Window | None,
        length: int | None,
        lateness: int | float | None,
        staging: Staging,
    ) -> None:
        self.G, self.window, self._length, self._lateness, self._staging = G, window, length, lateness, staging
        self._needs_times = needs_times(G, window)
        self.newest: int | float | None = None
        self._entered: int | float | None = None if window is None else window.newest

    @property
    def graphs(self) -> tuple[Any, ...]:
        """What questions get."""
        return (self.G,)

    def edges_of(self, rows: StreamRows) -> tuple[np.ndarray, ...]:
        """Return the columns of rows that the graph has."""
        return rows.edges()

    def prepare(self, taken: Taken, dated: bool | None) -> Ready:
        """Put out late rows, settle insertions and deletions of the same pair, and start the copy."""
        parts = [part for part in taken.parts if len(part)]
        late = 0
        if parts and all(part.times is not None for part in parts):
            times = [part.times for part in parts if part.times is not None]
            lowest, highest = min(each.min().item() for each in times), max(each.max().item() for each in times)
            highest = highest if self.newest is None else max(highest, self.newest)
            limits = [limit for limit in (self._lateness, self._length) if limit is not None]
            if limits and highest - lowest > min(limits) - 1:  # as most batches have no such rows
                parts, late = self._without_late(joined(parts))
            self.newest = highest
        deletions: StreamRows | None = None
        keyed, gone, passing = any(part.edge_ids is not None for part in parts), list[np.ndarray](), None
        if any(part.deletes is not None for part in parts):
            rows = joined(parts)
            if keyed:
                if self.window is not None and self.window.by == "count":
                    raise InputError(
                        "Stream: rows delete edges by id, and the window is by='count': which rows it has would depend "
                        "on where batches end; wanted by='time'"
                    )
                entering, ids, passing = settled_by_id(rows)
                gone = [ids] if len(ids) else []
            elif self.window is None:
                entering, deletions = settled(rows, self.G.is_directed())
            else:  # the window slides first
                assert rows.deletes is not None
                last = last_of_each_pair(rows, self.G.is_directed())
                entering, deletions = rows[~rows.deletes], last[last.deletes]
            parts = [entering]
        parts = [part for part in parts if len(part)]
        columns = [list(column) for column in zip(*(self.edges_of(part) for part in parts), strict=True)]
        dates, timed = None, bool(parts) and self._needs_times
        if timed:
            times = [part.times for part in parts if part.times is not None]
            highest = max(part.max().item() for part in times)
            self._entered = highest if self._entered is None else max(highest, self._entered)
            if dated and self.window is not None:
                dates = np.concatenate(times).view("M8[ns]")
            else:
                columns.append(times)
        width = len(columns)
        if keyed:
            columns += [[part.edge_ids for part in parts if part.edge_ids is not None]] if parts else []
        elif deletions is not None and len(deletions):
            gone = [deletions.src, deletions.dst]
        columns += [[column] for column in gone]
        rows_in = sum(len(part) for part in parts)
        bring, newest = self._staging.bring(columns), (self.newest, self._entered)
        return Ready(taken, bring, width, timed, dates, bool(gone), rows_in, late, *newest, keyed, passing)

    def _without_late(self, rows: StreamRows) -> tuple[list[StreamRows], int]:
        """Return the rows that are not late, and how many are; each is held against the newest one before it.

        So it does not matter where batches end. A deletion is not too late for the length of time that edges stay.
        """
        times = rows.times
        assert times is not None
        newest = np.maximum.accumulate(times)
        if self.newest is not None:
            newest = np.maximum(newest, self.newest)
        keep = np.ones(len(rows), np.bool_)
        if self._lateness is not None:
            keep = _within(times, newest, self._lateness)
        if self._length is not None:
            stays = _within(times, newest, self._length - 1)
            keep &= stays if rows.deletes is None else stays | rows.deletes
        late = len(rows) - int(np.count_nonzero(keep))
        return [rows[keep] if late else rows], late

    def apply(self, ready: Ready, logged: AbstractContextManager[None] | None = None) -> int:
        """Apply a batch; return how many rows the window counted as late.

        ``logged``: around the last update, gives its record in the log the source's position.
        """
        late, updates = 0, self.updates(ready)
        for update in updates:
            with nullcontext() if logged is None or update is not updates[-1] else logged:
                late += update()
        return late

    def updates(self, ready: Ready) -> list[Callable[[], int]]:
        """Return what applies a batch, a call for each version; it returns how many rows the window counted as late."""
        columns: list[Any] = [
            StringKeys(column) if column.dtype == object else column for column in ready.columns()
        ]  # the reader has checked that ids are strings
        insert, delete = tuple(columns[: ready.width]), tuple(columns[ready.width :])
        given: dict[str, Any] = {}
        if ready.keyed and insert:
            given["edge_id"], delete = delete[0], delete[1:]
        if ready.timed:
            given["time"] = insert[-1] if ready.dates is None else ready.dates
            insert = insert if ready.dates is not None else insert[:-1]
        if self.window is not None:
            slides = [partial(self._slide, self.window, insert, given)] if insert else []
            if ready.keyed:  # what is deleted may come again in the same batch
                self._refuse_known(ready.passing)
                return [*([partial(self._update_events, (), delete, {})] if delete else []), *slides]
            return [*slides, *([partial(self._update, (), delete, {})] if delete else [])]
        if self._length is not None and ready.newest is not None:
            given["expire_before"] = max(ready.newest - self._length + 1, LEAST)
            given["expire_last"] = True  # as its row, one by one, would expire what is old by then
        update = self._update
        if ready.keyed:
            self._refuse_known(ready.passing)
            update = self._update_events
        return [partial(update, insert, delete, given)] if insert or delete else []

    def _slide(self, window: Window, insert: tuple[Array, ...], given: dict[str, Any]) -> int:
        return window.slide(insert, **given).late

    def _update(self, insert: tuple[Array, ...], delete: tuple[Array, ...], given: dict[str, Any]) -> int:
        if "expire_before" in given or (insert and delete):
            self.G.update(insert or None, delete or None, **given)
        elif insert:
            self.G.insert_edges(insert, **given)
        else:
            self.G.delete_edges(delete)
        return 0

    def _update_events(self, insert: tuple[Array, ...], delete: tuple[Array, ...], given: dict[str, Any]) -> int:
        G: Any = self.G
        if delete:
            given["edge_ids"] = delete[0]
        if "expire_before" in given or (insert and delete):
            G.update(insert or None, **given)
        elif insert:
            G.insert_edges(insert, **given)
        else:
            G.delete_edges(**given)
        return 0

    def _refuse_known(self, passing: np.ndarray | None) -> None:
        """Refuse events that come and go in a batch if the graph has them: one by one, they could not come."""
        if passing is None or not len(passing):
            return
        G: Any = self.G
        core = G.core
        known = core.backend.to_host(core.find_ids(core.backend.asarray(passing))) >= 0
        if known.any():
            refuse_known(int(passing[known.argmax()]))


def _within(times: np.ndarray, newest: np.ndarray, most: int | float) -> np.ndarray:
    """Return which times are at most so much older than the newest ones."""
    if newest.dtype.kind == "f":
        return times >= newest - most
    # the difference of two int64 may need all bits of a uint64
    return newest.view(np.uint64) - times.view(np.uint64) <= min(floor(most), (1 << 64) - 1)
