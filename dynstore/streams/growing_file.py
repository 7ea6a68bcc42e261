"""A text file that grows, as a source."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from dynstore.errors import InputError
from dynstore.io.pieces import LineReader, is_row, read_json_lines
from dynstore.streams.source import BaseSource

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["FileSource"]

JSON = (".json", ".jsonl", ".ndjson")
BYTES_PER_ROW = 64  # so many bytes are read for each row that is wanted
MAX_READ = 64 << 20
STEP_S = 0.02  # between two looks at the file
_log = logging.getLogger("dynstore")


class FileSource(BaseSource):
    """Lines of a file, and those that are added to it.

    Rows are CSV, TSV or separated by blanks, or lines of JSON objects in files called ``.jsonl``, ``.ndjson`` or
    ``.json``. Only whole lines are read. A position is a number of bytes.

    If the file is renamed and another one takes its name, as by rotation, the old one is read to its end first. If it
    is truncated, reading goes on from its new start. Both are logged as warnings and counted.

    Parameters
    ----------
    path : str or path
        The file. "~" stands for the home folder.
    follow : bool
        Wait for more at the end. If False, the source ends there, and the last line needs no line feed.
    delimiter : str, optional
        The character between two fields. By default it is found from the first row.
    header : bool, optional
        Whether the first row has names. By default it has if none of its fields is a number. Without names, the first
        two columns are "source" and "destination", the others "2", "3" and so on.

    Attributes
    ----------
    rotations, truncations : int
        How often that happened.

    Raises
    ------
    InputError
        If there is no such file.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        follow: bool = True,
        delimiter: str | None = None,
        header: bool | None = None,
    ) -> None:
        self._path, self._follow = Path(path).expanduser(), follow
        self._is_json = self._path.suffix in JSON
        self._given = delimiter, header
        self.rotations = self.truncations = 0
        self._wanted = 0
        try:
            self._file: BinaryIO = self._path.open("rb")
        except OSError as error:
            raise InputError(f"FileSource: cannot open {str(self._path)!r}: {error.strerror}") from error
        self._read: Callable[[bytes], Mapping[str, Any]] | None = None
        self._offset = 0

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
        whole = data.rfind(b"\n") + 1
        if not whole and data and not self._follow:
            whole = len(data)
        if not whole:
            self._look_for_changes(self._offset, len(data))
            return None
        self._offset += whole
        assert self._read is not None
        return self._read(data[:whole]), self._offset

    def _begin(self) -> bool:
        """Read the first line; return False if it is not there yet, and look whether there is another file then."""
        if self._is_json:
            self._read = lambda data: read_json_lines(str(self._path), data)
            self._offset = self._wanted
            return True
        self._file.seek(0)
        offset = 0
        while (line := self._file.readline()) and (line.endswith(b"\n") or not self._follow):
            text = line.decode("utf-8", errors="replace").removeprefix("\ufeff").rstrip("\r\n")
            if is_row(text):
                reader = LineReader(str(self._path), text, *self._given)
                self._offset = max(self._wanted, offset + len(line) if reader.has_header else offset)
                self._read = reader.read
                return True
            offset += len(line)
        self._look_for_changes(offset, len(line))
        return False

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
        self._read, self._offset, self._wanted = None, 0, 0

    def close(self) -> None:
        """Close the file."""
        self._file.close()
