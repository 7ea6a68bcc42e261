"""A text file that grows, as a source."""

from __future__ import annotations

import functools
import logging
import os
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from dynstore.errors import FileFormatError, InputError
from dynstore.io.dialects import SAMPLE_BYTES, Dialect, DialectChoice, find_dialect, first_rows, konect_kind
from dynstore.io.formats import find_format
from dynstore.io.json_lines import read_json_lines
from dynstore.io.packing import is_packed
from dynstore.io.text_rows import TextReader
from dynstore.io.text_values import TextBatch
from dynstore.streams.sources.base import BaseSource

__all__ = ["FileSource"]

BYTES_PER_ROW = 64  # so many bytes are read for each row that is wanted
MAX_READ = 64 << 20
STEP_S = 0.02  # between two looks at the file
# Without a header.
USUAL = ("source", "destination")
Read = Callable[[bytes, int], Mapping[str, Any]]
_log = logging.getLogger("dynstore")


class FileSource(BaseSource):
    """Lines of a file, and those that are added to it.

    Rows are delimited text, or lines of JSON objects. Only whole lines are read. A position is a number of bytes. How
    the text is written is found from the first rows, up to 1 MiB, and holds for the whole file, also after a restart:
    a row that does not fit ends the stream with an error that names its line.

    If the file is renamed and another one takes its name, as by rotation, the old one is read to its end first. If it
    is truncated, reading goes on from its new start. Both are logged as warnings and counted.

    Parameters
    ----------
    path : str or path
        The file. "~" stands for the home folder.
    follow : bool
        Wait for more at the end. If False, the source ends there, and the last line needs no line feed.
    delimiter : str, optional
        What stands between two fields: a character, or "::"; " " means any run of blanks and tabs. By default it is
        found.
    header : bool, optional
        Whether the first row has names. By default it has if the stream names columns, if two of its fields are usual
        names such as source and target, or if a column of texts above numbers shows it. Without names, the first two
        columns are "source" and "destination", the others "2", "3" and so on.
    comment : str, optional
        What lines begin with that are left out; "" for none. By default "#" and "%", if there are such lines above the
        first row.

    Attributes
    ----------
    dialect : Dialect or None
        How the file is written, once that is known; ``str`` of it says so in words.
    on_dialect : callable or None
        If set, it gets the dialect when it is found.
    rotations, truncations : int
        How often that happened.

    Raises
    ------
    InputError
        If there is no such file.
    FileFormatError
        In :meth:`poll`, for a file of another format, one that is packed, and a row that does not fit.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        follow: bool = True,
        delimiter: str | None = None,
        header: bool | None = None,
        comment: str | None = None,
    ) -> None:
        self._path, self._follow = Path(path).expanduser(), follow
        self._given = DialectChoice(delimiter, header, comment)
        self._named, self._wanted_names = False, frozenset[str]()
        self.dialect: Dialect | None = None
        self.on_dialect: Callable[[Dialect], None] | None = None
        self.rotations = self.truncations = 0
        self._wanted = 0
        try:
            self._file: BinaryIO = self._path.open("rb")
        except OSError as error:
            raise InputError(f"FileSource: cannot open {str(self._path)!r}: {error.strerror}") from error
        self._read: Read | None = None
        self._offset = 0
        self._line: int | None = 1  # of the offset; None: not counted yet

    @staticmethod
    def can_follow(path: str | os.PathLike[str]) -> bool:
        """Whether a file is one of lines, which may grow; others are read by :func:`dynstore.io.read_events`."""
        if os.path.isdir(path):
            return False
        with open(path, "rb") as file:
            head = file.read(SAMPLE_BYTES)
        try:
            kind = find_format(os.fspath(path), head)
            first = head.partition(b"\n")[0].decode(errors="replace")
            return not is_packed(head) and kind in ("text", "json lines") and konect_kind(first) != "bip"
        except FileFormatError:
            return head[:4] not in (b"PAR1", b"ARRO")

    def choose(self, names: Collection[str] | None, named: bool) -> None:
        """Read only some columns; called by a stream, before the first :meth:`poll`.

        Parameters
        ----------
        names : collection of str, or None
            The columns that are read, where they are there; None: all.
        named : bool
            Whether some were named, so that the file has a header.
        """
        self._wanted_names, self._named = frozenset(names or ()), named

    def seek(self, position: Any) -> None:
        """Go on at a byte.

        Raises
        ------
        InputError
            If the file is shorter: it is another one.
        """
        size = os.fstat(self._file.fileno()).st_size
        if position > size:
            raise InputError(
                f"FileSource: cannot go on at byte {position} of {str(self._path)!r}, which has {size} bytes: it was "
                "truncated or replaced"
            )
        self._wanted = position

    def poll(self, max_rows: int, timeout: float) -> tuple[Any, Any] | None:
        """Return the next whole lines."""
        ends = time.monotonic() + timeout
        while True:
            found = self._next(min(max_rows * BYTES_PER_ROW, MAX_READ))
            if found is not None:
                return found
            if not self._follow:
                raise EOFError
            if time.monotonic() >= ends:
                return None
            time.sleep(STEP_S)

    def _next(self, num_bytes: int) -> tuple[Any, Any] | None:
        if self._read is None and not self._begin():
            return None
        self._file.seek(self._offset)
        data = self._file.read(num_bytes)
        while data and b"\n" not in data and (more := self._file.read(num_bytes)):  # a long line
            data += more
            if len(data) > MAX_READ:
                raise FileFormatError(
                    f"{self._path}:{self._line_here()}: a line of more than {MAX_READ >> 20} MiB; wanted lines of rows"
                )
        whole = data.rfind(b"\n") + 1
        if not whole and data and not self._follow:
            whole = len(data)
        if not whole:
            self._look_for_changes(self._offset, len(data))
            return None
        assert self._read is not None
        lines = _Lines(self._read, data[:whole], str(self._path), self._line_here(), self._offset)
        self._offset += whole
        self._line = lines.first_line + data.count(b"\n", 0, whole)
        return lines, self._offset

    def _line_here(self) -> int:
        """Return the number of the line at the offset."""
        if self._line is None:
            self._file.seek(0)
            left, self._line = self._offset, 1
            while left and (data := self._file.read(min(left, MAX_READ))):
                self._line += data.count(b"\n")
                left -= len(data)
        return self._line

    def _begin(self) -> bool:
        """Find how the file is written; return False if no row is there yet, and look whether there is another file."""
        self._file.seek(0)
        head = self._file.read(SAMPLE_BYTES + 1)
        end = head.rfind(b"\n") + 1
        if head and (end or not self._follow):
            whole = head[: end or len(head)] if self._follow or len(head) > SAMPLE_BYTES else head
            read, start = self._make_reader(whole)
            if read is not None:
                self._read, self._offset = read, max(start, self._wanted)
                self._line = None
                return True
        self._look_for_changes(end, len(head) - end)
        return False

    def _make_reader(self, head: bytes) -> tuple[Read | None, int]:
        """Return what reads lines, and where the first row begins; None if there is no row."""
        where = str(self._path)
        if is_packed(head):
            raise FileFormatError(f"{where}: a packed file is not followed; dynstore.io.read_events reads it")
        kind = find_format(where, head)
        if kind == "json lines":
            return lambda data, line: read_json_lines(where, data, line), 0
        if kind != "text":
            raise FileFormatError(f"{where}: a file of {kind} is not followed; dynstore.io.read_events reads it")
        try:
            dialect = find_dialect(where, head, self._given, self._named)
        except InputError:
            if self._follow and head.count(b"\n") < 2:  # the next rows may show whether the first one has names
                return None, 0
            raise
        if dialect is None:
            return None, 0
        if dialect.is_two_sided:
            raise FileFormatError(
                f"{where}: a file of KONECT with two sides is not followed, as both begin with vertex 1; "
                "dynstore.io.read_events reads it, and keeps them apart"
            )
        self.dialect = dialect
        names = dialect.names or (*USUAL, *map(str, range(2, dialect.width)))[: dialect.width]
        _log.info("FileSource: %s: %s", where, dialect)
        if self.on_dialect is not None:
            self.on_dialect(dialect)
        reader = TextReader(where, dialect)
        used = [n for n, name in enumerate(names) if not self._wanted_names or name in self._wanted_names]
        used = used or list(range(len(names)))

        numbers = {names[number]: number for number in used}

        def read(data: bytes, line: int, first: TextBatch | None) -> TextBatch:
            return TextBatch(numbers, lambda types, exact: reader.read(data, line, used, types, exact), first)

        sample = first_rows(head, dialect)
        first = read(sample, dialect.first_line, None)
        try:
            first.texts  # noqa: B018
        except FileFormatError:  # of a row, which is refused, or left out, when it comes
            first = read(reader.fitting(sample), dialect.first_line, None)
        return lambda data, line: read(data, line, first), dialect.first_byte

    def _look_for_changes(self, read: int, unfinished: int) -> None:
        """Go on with another file of the same name, or from the start of one that was truncated.

        ``read``, ``unfinished``: the bytes of whole lines that were read, and those behind them.
        """
        if not self._follow:
            return
        try:
            there, mine = os.stat(self._path), os.fstat(self._file.fileno())
        except FileNotFoundError:  # it is between two names
            return
        if there.st_ino != mine.st_ino or there.st_dev != mine.st_dev:
            if mine.st_size > read + unfinished:  # lines that came before it was replaced
                return
            try:
                fresh = self._path.open("rb")
            except FileNotFoundError:  # it has gone again
                return
            lost = f"; its last line, of {unfinished} bytes, has no end and is left out" if unfinished else ""
            _log.warning("FileSource: %s was replaced by another file%s", self._path, lost)
            self.rotations += 1
            self._file.close()
            self._file = fresh
        elif there.st_size < read:
            _log.warning("FileSource: %s was truncated to %d bytes; it is read anew", self._path, there.st_size)
            self.truncations += 1
        else:
            return
        self._read, self._offset, self._wanted, self._line = None, 0, 0, 1

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class _Lines:
    """Whole lines of a file, as units that are read; see :class:`~dynstore.streams.units.Units`."""

    def __init__(self, read: Read, data: bytes, where: str, first_line: int, offset: int) -> None:
        self._read, self._data, self._where, self.first_line, self._offset = read, data, where, first_line, offset
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

    def position(self, number: int) -> int:
        """Return the byte behind a line."""
        return self._offset + (len(self._data) if number + 1 == self._count else int(self._ends[number + 1]))
