"""The updates of a log are made anew, neighbours of one kind as one update where the graph is the same then."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dynstore.durable.changes import make_change
from dynstore.durable.checking import check_change
from dynstore.durable.reading import bad_record, damaged
from dynstore.durable.records import LoggedUpdate, RecordError
from dynstore.errors import InputError
from dynstore.snapshot import Lease

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dynstore.durable.reading import LogEntry
    from dynstore.graph import DynamicGraph

__all__ = ["Replayed", "replay"]

# The most rows that are put together into one update.
FOLD_ROWS = 1 << 21
# The updates that may be put together.
FOLDED = ("insert_edges", "delete_edges")


class Replayed(NamedTuple):
    """What was made anew.

    Attributes
    ----------
    records : int
    position : bytes or None
        The last one that a record had.
    refused : Entry or None
        The last record, if the graph has refused its update: it had been refused before, too.
    bytes : int
        Of all records, that one too.
    """

    records: int
    position: bytes | None
    refused: LogEntry | None
    bytes: int


def replay(caller: str, graph: DynamicGraph, entries: Iterable[LogEntry]) -> Replayed:
    """Make the updates of a log anew; ``caller``: for messages.

    Raises
    ------
    SavedGraphError
        If the graph refuses one of them, except for the last, or no update can have written a record.
    OutOfMemoryError
    """
    return _Replay(caller, graph).run(entries)


class _Replay:
    def __init__(self, caller: str, graph: DynamicGraph) -> None:
        self.caller, self.graph = caller, graph
        self._waiting: list[LogEntry] = []
        self._rows = 0
        self._refused: tuple[LogEntry, str] | None = None

    def run(self, entries: Iterable[LogEntry]) -> Replayed:
        records, size, position, before = 0, 0, None, None
        if (times := self.graph.core.time_unit) is not None:
            times.dated = False  # the log has numbers for date-times
        for entry in entries:
            if self._waiting and not (self._rows + entry.change.rows <= FOLD_ROWS and self._goes_with(entry)):
                self._make()
            self._refuse_more(entry)
            self._check(entry)
            self._waiting.append(entry)
            self._rows += entry.change.rows
            records, size, before = records + 1, size + entry.end - entry.start, position
            position = entry.change.position or position
        self._make()
        if (times := self.graph.core.time_unit) is not None:  # another one, if the graph was cleared
            times.guess_dated()
        if self._refused is None:
            return Replayed(records, position, None, size)
        return Replayed(records - 1, before, self._refused[0], size)

    def _check(self, entry: LogEntry) -> None:
        """Refuse a record that no update of this graph can have written; now, if it may wait for others."""
        if entry.change.kind in FOLDED:
            with self._naming(entry):
                check_change(self.graph, entry.change)

    @contextmanager
    def _naming(self, entry: LogEntry) -> Iterator[None]:
        try:
            yield
        except RecordError as error:
            path, version = entry.segment.path, entry.head.version
            raise bad_record(self.caller, path, version, entry.start, error) from error

    def _goes_with(self, entry: LogEntry) -> bool:
        """Whether an update can be put together with those that wait."""
        first, change = self._waiting[0].change, entry.change
        if change.kind not in FOLDED or change.kind != first.kind or change.arguments != first.arguments:
            return False
        if [*map(_form, change.columns.items())] != [*map(_form, first.columns.items())]:
            return False
        if change.kind == "delete_edges":
            return True
        if self.graph.is_renumbered():  # new ids are numbered update by update
            return False
        return not self.graph.is_weighted() or change.arguments["on_duplicate"] == "replace"

    def _make(self) -> None:
        """Make the updates that wait."""
        waiting, rows, self._waiting, self._rows = self._waiting, self._rows, [], 0
        if len(waiting) > 1:
            first = waiting[0].change
            columns = {
                name: np.concatenate([entry.change.columns[name] for entry in waiting]) for name in first.columns
            }
            try:
                make_change(self.graph, LoggedUpdate(first.kind, rows, first.arguments, columns))
            except InputError:
                pass  # one of them is refused, or is allowed only by those before it
            else:
                self.graph.core.lease = Lease(waiting[-1].head.version)
                return
        for entry in waiting:
            self._refuse_more(entry)
            self._make_one(entry)

    def _make_one(self, entry: LogEntry) -> None:
        with self._naming(entry):
            try:
                make_change(self.graph, entry.change)
            except (InputError, TypeError) as error:
                self._refused = entry, str(error)
                return
        if self.graph.version != entry.head.version:
            self._refused = entry, f"it has made version {self.graph.version}"

    def _refuse_more(self, entry: LogEntry) -> None:
        if self._refused is not None:
            refused, problem = self._refused
            problem = f"the graph refuses the record of version {refused.head.version}: {problem}"
            raise damaged(self.caller, refused.segment.path, problem)


def _form(column: tuple[str, np.ndarray]) -> tuple[str, np.dtype]:
    return column[0], column[1].dtype
