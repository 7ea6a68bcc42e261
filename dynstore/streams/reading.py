"""The part of a stream that reads its source, on a thread of its own."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from threading import Event
from time import perf_counter
from typing import TYPE_CHECKING, Any

from dynstore.errors import DynstoreError, SourceGapError, StreamError, cause_of, type_name, without_secrets
from dynstore.streams.pending import Pending
from dynstore.streams.progress import Meter
from dynstore.streams.rows import joined
from dynstore.streams.units import One, read_units

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynstore.streams.journal import StreamJournal
    from dynstore.streams.letters import Letters
    from dynstore.streams.pending import Overflow
    from dynstore.streams.rows import RowReader, StreamRows
    from dynstore.streams.sources.base import OnGap, Source
    from dynstore.streams.units import BadUnit

__all__ = ["POLL_S", "BatchLimits", "Reading"]

POLL_S = 0.05  # how long the reader waits for rows before it looks up
PART_BYTES = 1 << 26  # of rows that are put in line together
_log = logging.getLogger("dynstore")


@dataclass(slots=True, frozen=True)
class BatchLimits:
    """The most rows of a batch and seconds until it closes; the most rows and bytes that wait; the fate of others.

    ``on_gap``: the fate of the stream when the source lacks what was not read.
    """

    batch_edges: int
    max_delay: float
    max_pending: int
    max_bytes: int
    overflow: Overflow
    on_gap: OnGap


class Reading:
    """The part of :class:`StreamEngine` that reads: rows go from the source into the queue, in parts."""

    def __init__(
        self,
        source: Source,
        limits: BatchLimits,
        rows: RowReader,
        letters: Letters,
        journal: StreamJournal | None,
    ) -> None:
        self._source, self._limits, self._rows, self._letters = source, limits, rows, letters
        self.journal = journal
        self.pending, self.meter = Pending(limits.max_pending, limits.max_bytes, limits.overflow), Meter()
        self.over = Event()
        self.failure: BaseException | None = None
        self.newest_arrived: int | float | None = None
        self._failed = self._stopping = self._is_logged = self._began_empty = False
        self._commits: deque[tuple[int, Any]] = deque()  # versions, and positions to commit when they last

    def _fail(self, error: BaseException) -> None:
        if not self._failed:
            self._failed, self.failure = True, error
            self.meter.error(str(error) or type(error).__name__)

    def _read(self) -> None:
        try:
            self._read_all()
        except EOFError:
            pass
        except DynstoreError as error:  # of a row, or of a full queue
            self._fail(error)
        except BaseException as error:  # also SystemExit: a thread that ends without a word leaves all others waiting
            why = without_secrets(str(error) or type_name(error))
            failure = StreamError(f"Stream: the source could not go on: {why}")
            failure.__cause__ = cause_of(error)
            self._fail(failure)
        self.pending.end()
        while not self.over.wait(POLL_S):
            self._commit()
        self._commit()
        self._close_source()
        self._letters.close()

    def _read_all(self) -> None:
        source, pending, limits = self._source, self.pending, self._limits
        skip = pending.position.skip
        said = getattr(source, "left_behind", None)
        if said and not self._is_logged and self._began_empty:
            _log.warning("Stream: %s. The graph is empty, and what came before that will not be in it", said)
        if pending.position.whole:
            if self._is_logged and not self._seek(pending.position.source):
                skip = 0
        elif self.journal is not None and not skip:
            self._begin()
        while not self._stopping:
            self._commit()
            room = self._await_room()
            begun = perf_counter()
            try:
                got = source.poll(min(limits.batch_edges, room), POLL_S) if room else None
            except SourceGapError as gap:
                self._pass_gap(gap)
                got, skip = None, 0
            if got is None:
                continue
            for rows, position in self._read_units(*got):
                if not self._await_room():
                    break
                known = min(skip, len(rows))
                skip -= known
                pending.put(rows, position, known)
            self.meter.stage("read", begun)

    def _seek(self, position: Any) -> bool:
        """Go on at a position; return False if it was behind a gap."""
        gap = self._gap_at(position)
        if gap is not None:
            self._pass_gap(gap)
        return gap is None

    def _gap_at(self, position: Any) -> SourceGapError | None:
        """Go on at a position, or return the gap that the source has there."""
        try:
            self._source.seek(position)
        except SourceGapError as gap:
            return gap
        return None

    def _begin(self) -> None:
        """Note the position before the first row: a batch that ends within the first piece of rows refers to it."""
        start = getattr(self._source, "start", None)
        if start is None:
            return
        try:
            self.pending.put(self._rows.nothing(), start())
        except SourceGapError as gap:
            self._pass_gap(gap)

    def _pass_gap(self, gap: SourceGapError) -> None:
        """Go on behind a gap of the source, and behind the one that this shows; or raise it."""
        found: SourceGapError | None = gap
        while found is not None and not self._stopping:
            if self._limits.on_gap == "raise":
                raise found
            self.meter.note_gap(found.count)
            _log.warning("Stream: %s; the stream goes on behind it", found)
            resume, found = found.resume, self._gap_at(found.resume)
            self.pending.put(self._rows.nothing(), resume)  # a batch may end within the rows that come next

    def _await_room(self) -> int:
        """Wait until there is room for rows, and return for how many; none if the stream is stopping."""
        if self.pending.room() <= 0:
            self._source.pause(True)
            while self.pending.room() <= 0 and not self._stopping:
                self.pending.wait_for_room(POLL_S)
                self._commit()
            self._source.pause(False)
        return max(0, self.pending.room())

    def _read_units(self, given: Any, position: Any) -> Iterator[tuple[StreamRows, Any]]:
        """Yield the rows of what a source has brought, in parts of 64 MiB or one unit, and the position behind each.

        What is left out has no rows: the position moves on. Before an error is raised, all rows before it are yielded.
        """
        units = given if hasattr(given, "place") else One(given, position, "")
        parts: list[StreamRows] = []
        behind, is_new, failure, size = None, False, None, 0
        try:
            for rows, position in read_units(self._rows, units, self._leave_out):
                behind, is_new = position, True
                if rows is not None and len(rows):
                    parts.append(rows)
                    size += rows.nbytes
                if size > PART_BYTES:
                    yield self._arrived(parts), behind
                    parts, is_new, size = [], False, 0
        except DynstoreError as error:
            failure = error
        if is_new:
            yield self._arrived(parts), behind
        if failure is not None:
            raise failure

    def _arrived(self, parts: list[StreamRows]) -> StreamRows:
        rows = joined(parts) if parts else self._rows.nothing()
        if rows.times is not None and len(rows):
            newest = rows.times.max().item()
            self.newest_arrived = newest if self.newest_arrived is None else max(newest, self.newest_arrived)
        return rows

    def _leave_out(self, unit: BadUnit) -> None:
        self._letters.take(unit)
        self.meter.left_out += 1
        _log.warning("Stream: %s is left out: %s", unit.place or "a batch", without_secrets(unit.error))

    def _commit(self) -> None:
        """Commit the newest position that lasts."""
        position, found = None, False
        while self._commits and (self.journal is None or self._commits[0][0] <= self.journal.durable_version):
            position, found = self._commits.popleft()[1], True
        if found:
            try:
                self._source.commit(position)
            except Exception as error:
                self._fail(StreamError(f"Stream: the source could not commit {position!r}: {without_secrets(error)}"))
                self._stopping = True

    def _close_source(self) -> None:
        close = getattr(self._source, "close", None)
        if close is not None:
            try:
                close()
            except Exception as error:
                self.meter.error(f"the source could not be closed: {error}")
