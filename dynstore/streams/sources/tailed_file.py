"""One file of a :class:`FileSource`, while it is open: whole lines, and whether it is still what was read."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import numpy as np

from dynstore.errors import FileFormatError
from dynstore.io.dialects import SAMPLE_BYTES
from dynstore.streams.sources.file_places import HEAD_BYTES, TAIL_BYTES, Place, read_at

__all__ = ["MAX_READ", "ChangedError", "Lines", "Read", "TailedFile"]

MAX_READ = 64 << 20
Read = Callable[[bytes, int], Mapping[str, Any]]


class ChangedError(Exception):
    """The bytes before the position are not those that were read."""


class TailedFile:
    """A file from which whole lines are read.

    Parameters
    ----------
    where : str
        Its name, for messages.
    node : (int, int)
        The device and the inode by which it is found again: if the file is unpacked, those of the packed one.
    file : binary file
        Without a buffer, so that each look is a new one.
    begin : callable
        Gets the name, the first lines, and whether more may come. Returns what reads lines, and where the first row is;
        None if there is no row yet.
    byte : int
        Where to go on.

    Attributes
    ----------
    offset : int
        Behind the last line that was read.
    seen : int
        The bytes that the file had at the last look.
    unfinished : int
        Those of them behind the last whole line.
    quiet_since : float
        When something was added last.
    has_read_rows : bool
        Whether rows were read of it.
    is_listed : bool
        Whether it has a name in the folder.
    """

    def __init__(
        self,
        where: str,
        node: tuple[int, int],
        file: BinaryIO,
        begin: Callable[[str, bytes, bool], tuple[Read | None, int]],
        byte: int = 0,
    ) -> None:
        self.where, self.node, self.file, self._begin = where, node, file, begin
        self._read: Read | None = None
        self._line: int | None = None if byte else 1  # of the offset; None: not counted yet
        self.offset, self.seen, self.unfinished, self.has_read_rows = byte, byte, 0, False
        self._head = read_at(file, 0, HEAD_BYTES)
        first = max(0, byte - TAIL_BYTES)
        self._tail = read_at(file, first, byte - first)
        self.quiet_since, self.is_listed = time.monotonic(), True

    def status(self) -> os.stat_result:
        """Return what the file system says of the open file."""
        return os.fstat(self.file.fileno())

    def has_more(self) -> bool:
        """Whether there are bytes that were not read."""
        return self.status().st_size > self.offset

    def place(self) -> Place:
        """Return the place behind the last line that was read."""
        return self._place(self.offset, self._tail)

    def begin(self) -> Place:
        """Return the place at its first byte."""
        return Place.of(self.node, self._head)

    def _place(self, byte: int, tail: bytes) -> Place:
        return Place.of(self.node, self._head, byte, tail)

    def lines(self, num_bytes: int, follow: bool, torn: bool, place_of: Callable[[Place, int], Any]) -> Lines | None:
        """Return the next whole lines, or None if there are none yet.

        Parameters
        ----------
        num_bytes : int
            About how many bytes to read.
        follow : bool
            Whether more may come.
        torn : bool
            Whether the last line needs no line feed.
        place_of : callable
            Gives the source's position for a place of this file, and the byte where the lines end.

        Raises
        ------
        ChangedError
            If the file was truncated or overwritten; no line is read then.
        """
        if self._read is None:
            head = read_at(self.file, 0, SAMPLE_BYTES + 1)
            self._see(head[:HEAD_BYTES])
            end = head.rfind(b"\n") + 1
            whole = head if torn and len(head) <= SAMPLE_BYTES else head[: end or (len(head) if torn else 0)]
            read, start = self._begin(self.where, whole, follow) if whole else (None, 0)
            self.check()
            if read is None:
                self._look(len(head), len(head) - end)
                return None
            self._read = read
            if start > self.offset:
                self._tail = head[max(0, start - TAIL_BYTES) : start]
                self._line, self.offset = None, start
        data = read_at(self.file, self.offset, num_bytes)
        while data and b"\n" not in data and (more := self.file.read(num_bytes)):  # a long line
            data += more
            if len(data) > MAX_READ:
                raise FileFormatError(
                    f"{self.where}:{self._line_here()}: a line of more than {MAX_READ >> 20} MiB; wanted lines of rows"
                )
        known = self._head
        self.check()  # behind the reading: so these bytes follow those that were read before
        self._check_read(known, data)
        end = data.rfind(b"\n") + 1
        if not end and data and torn:
            end = len(data)
        self._look(self.offset + len(data), len(data) - end)
        if not end:
            return None
        offset, tail = self.offset, self._tail

        def position(upto: int) -> Any:
            return place_of(self._place(offset + upto, _extended(tail, data, upto)), offset + end)

        lines = Lines(self._read, data[:end], self.where, self._line_here(), position)
        self._tail = _extended(tail, data, end)
        self.offset += end
        self._line = lines.first_line + data.count(b"\n", 0, end)
        self.has_read_rows = True
        return lines

    def check(self) -> None:
        """See whether the bytes that were seen are still there.

        Raises
        ------
        ChangedError
            If not: the file was truncated or overwritten.
        """
        if read_at(self.file, self.offset - len(self._tail), len(self._tail)) != self._tail:
            raise ChangedError
        self._see(read_at(self.file, 0, HEAD_BYTES))

    def _check_read(self, known: bytes, data: bytes) -> None:
        """See whether what was read at the offset is still there, if it is among the first bytes of the file.

        Else the file may have been truncated just behind the reading, where it has only a header in common with the one
        that was read. What was read of that one tells it from others.
        """
        head = (known[: self.offset] + data)[:HEAD_BYTES]
        if not self._head.startswith(head):
            self._head = head if head.startswith(known[: len(head)]) else known
            raise ChangedError

    def _see(self, head: bytes) -> None:
        if not head.startswith(self._head):
            raise ChangedError
        self._head = head

    def is_unchanged(self) -> bool:
        """Whether the bytes that were seen are still there."""
        try:
            self.check()
        except ChangedError:
            return False
        return True

    def _look(self, seen: int, unfinished: int) -> None:
        if seen != self.seen:
            self.quiet_since = time.monotonic()
        self.seen, self.unfinished = seen, unfinished

    def _line_here(self) -> int:
        """Return the number of the line at the offset."""
        if self._line is None:
            self.file.seek(0)
            left, self._line = self.offset, 1
            while left and (data := self.file.read(min(left, MAX_READ))):
                self._line += data.count(b"\n")
                left -= len(data)
        return self._line


def _extended(tail: bytes, data: bytes, end: int) -> bytes:
    """Return the last bytes before a place, ``end`` bytes of ``data`` behind the tail."""
    return (tail + data[max(0, end - TAIL_BYTES) : end])[-TAIL_BYTES:]


class Lines:
    """Whole lines of a file, as units that are read; see :class:`~dynstore.streams.units.Units`.

    ``position``: gives the position behind so many bytes of them.
    """

    def __init__(self, read: Read, data: bytes, where: str, first_line: int, position: Callable[[int], Any]) -> None:
        self._read, self._data, self._where, self.first_line, self._place = read, data, where, first_line, position
        self._count = data.count(b"\n") + (not data.endswith(b"\n"))

    @functools.cached_property
    def _ends(self) -> np.ndarray:
        """The ends of the lines: needed only if one of them cannot be read."""
        found = np.flatnonzero(np.frombuffer(self._data, np.uint8) == ord("\n")) + 1
        return np.concatenate(([0], found, [len(self._data)]))[: self._count + 1]

    def __len__(self) -> int:
        return self._count

    def read(self, first: int, last: int) -> Mapping[str, Any]:
        """Return the rows of some lines."""
        if (first, last) == (0, self._count):
            return self._read(self._data, self.first_line)
        ends = self._ends
        return self._read(self._data[ends[first] : ends[last]], self.first_line + first)

    def place(self, number: int) -> str:
        """Return the name of a line."""
        return f"{self._where}:{self.first_line + number}"

    def value(self, number: int) -> bytes:
        """Return a line."""
        return self._data[self._ends[number] : self._ends[number + 1]]

    def position(self, number: int) -> Any:
        """Return the position of the source behind a line; before the first one for -1."""
        return self._place(len(self._data) if number + 1 == self._count else int(self._ends[number + 1]))
