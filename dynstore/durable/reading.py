"""The records of a log, in order, and where they end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.durable.log import SEGMENT_HEAD, read_segment_head, seed_of
from dynstore.durable.records import HEAD, MAGIC, Head, RecordError, checksum_of, decode, read_head
from dynstore.errors import SavedGraphError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dynstore.durable.records import LoggedUpdate

__all__ = ["LogEntry", "LogReader", "Segment", "bad_record", "damaged", "list_segments"]


def damaged(caller: str, path: Path, problem: str) -> SavedGraphError:
    """Build the error for a folder or a file that cannot be read."""
    return SavedGraphError(f"{caller}: {str(path)!r} is damaged: {problem}")


def bad_record(caller: str, path: Path, version: int, start: int, problem: object) -> SavedGraphError:
    """Build the error for a record whose checksum is right, and which no update can have written."""
    return damaged(caller, path, f"the record of version {version}, at byte {start}: {problem}")


class Segment(NamedTuple):
    """A file of the log: the version of its first record."""

    first: int
    path: Path


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A record, and where it is in its segment."""

    head: Head
    change: LoggedUpdate
    segment: Segment
    start: int
    end: int


def list_segments(folder: Path) -> list[Segment]:
    """Return the files of a log by the versions in their names; a pipe or a folder of such a name is none."""
    found = [(path.stem.removeprefix("log-"), path) for path in folder.glob("log-*.wal") if path.is_file()]
    return sorted(Segment(int(digits), path) for digits, path in found if digits.isdecimal())


class LogReader:
    """Reads the records of a log after a version; files stay as they are.

    A record that is not whole ends the log if nothing says that it lasted. So what a crash has torn is left out, and
    what is damaged later is refused.

    Parameters
    ----------
    caller : str
        For messages.
    folder : Path
    token : str
    since : int
        The version of the checkpoint: it lasts, and records up to it are passed over.
    until : int, optional
        The last version to read.

    Attributes
    ----------
    last : Segment
        When all is read: the segment to go on with.
    proven : int
        Up to where it is known to have lasted.
    end : int
        Where its records end.
    cut : int
        Bytes behind that.
    empty : list of Path
        Segments behind it, which have no records.
    """

    def __init__(self, caller: str, folder: Path, token: str, since: int, until: int | None = None) -> None:
        self.caller, self.folder, self.since, self.until = caller, folder, since, until
        self._seed, self._token = seed_of(token), token
        segments = list_segments(folder)
        self._lasts = since  # the newest version that is known to have lasted
        self.empty: list[Path] = []
        while len(segments) > 1 and segments[-1].path.stat().st_size <= SEGMENT_HEAD:
            if self._is_whole(segments[-1]):  # it was begun when all before it lasted
                self._lasts = max(self._lasts, segments[-1].first - 1)
            self.empty.append(segments.pop().path)
        for segment in segments:
            if not self._is_whole(segment):
                raise damaged(caller, segment.path, "the head of the file does not match its checksum")
        reaching = [place for place, segment in enumerate(segments) if segment.first <= since + 1]
        if not reaching:
            has = f"it begins with version {segments[0].first}" if segments else "there are no files log-*.wal"
            raise damaged(caller, folder, f"the log does not reach back to version {since}: {has}")
        self._segments = segments[reaching[-1] :]
        self._lasts = max(self._lasts, segments[-1].first - 1)
        self.last, self.cut = self._segments[-1], 0
        self.proven = self.end = SEGMENT_HEAD

    def _is_whole(self, segment: Segment) -> bool:
        with segment.path.open("rb") as file:
            return read_segment_head(file.read(SEGMENT_HEAD), self._token) == segment.first

    def __iter__(self) -> Iterator[LogEntry]:
        expected = self._segments[0].first
        for segment in self._segments:
            if self.until is not None and expected > max(self.until, self.since):
                return
            if segment.first != expected:
                raise damaged(self.caller, self.folder, f"the records of version {expected} and on are missing")
            size, ends = segment.path.stat().st_size, []  # the versions of the records, and where these end
            with segment.path.open("rb") as file:
                file.seek(SEGMENT_HEAD)
                start = SEGMENT_HEAD
                while start < size and (self.until is None or expected <= self.until):
                    head, end = self._next(file, start, size, expected)
                    change = None
                    if head is not None and head.version > self.since:
                        change = self._change(file, head, segment, start)
                    if head is None or (change is None and head.version > self.since):
                        self._end_at(segment, start, size, expected)
                        break
                    self._lasts = max(self._lasts, head.durable)
                    if change is not None:
                        yield LogEntry(head, change, segment, start, end)
                    file.seek(end)
                    ends.append((expected, end))
                    start, expected = end, expected + 1
            self.end = start
            self.proven = max((end for version, end in ends if version <= self._lasts), default=SEGMENT_HEAD)
        if expected <= self.since:
            raise damaged(self.caller, self.folder, f"the log ends at version {expected - 1}, before {self.since}")

    def _next(self, file: IO[bytes], start: int, size: int, expected: int) -> tuple[Head | None, int]:
        head = read_head(file.read(HEAD), self._seed)
        if head is None or head.version != expected:
            return None, start
        end = start + HEAD + head.length
        return (head, end) if end <= size else (None, start)

    def _change(self, file: IO[bytes], head: Head, segment: Segment, start: int) -> LoggedUpdate | None:
        """Read the payload of a record; None if it does not match its checksum."""
        payload: np.ndarray[Any, Any] = np.empty(head.length, np.uint8)
        read = file.readinto(payload.data)  # type: ignore[attr-defined]
        if read != head.length or checksum_of([payload.data]) != head.checksum:
            return None
        try:
            return decode(head, payload)
        except RecordError as error:
            raise bad_record(self.caller, segment.path, head.version, start, error) from error

    def _end_at(self, segment: Segment, start: int, size: int, version: int) -> None:
        """End the log before a record that is not whole; refuse to if that record lasted once."""
        with segment.path.open("rb") as file:
            file.seek(start)
            rest = file.read()
        place = rest.find(MAGIC, 1)
        while place >= 0:
            head = read_head(rest[place : place + HEAD], self._seed)
            if head is not None:
                self._lasts = max(self._lasts, head.durable)
            place = rest.find(MAGIC, place + 1)
        if segment is not self.last or self._lasts >= version:
            problem = f"the record of version {version}, at byte {start}, does not match its checksum"
            raise damaged(self.caller, segment.path, problem)
        self.cut = size - start
