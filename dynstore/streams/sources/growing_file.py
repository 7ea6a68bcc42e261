"""A text file that grows, as a source."""

from __future__ import annotations

import functools
import logging
import os
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from dynstore.errors import FileFormatError, InputError, SourceGapError, StreamError
from dynstore.io.dialects import SAMPLE_BYTES, Dialect, DialectChoice, find_dialect, first_rows, konect_kind
from dynstore.io.formats import find_format
from dynstore.io.json_lines import read_json_lines
from dynstore.io.packing import is_packed
from dynstore.io.text_rows import TextReader
from dynstore.io.text_values import TextBatch
from dynstore.streams.messages import Message, Messages
from dynstore.streams.sources.base import BaseSource
from dynstore.streams.sources.file_chain import Arranged, arrange
from dynstore.streams.sources.file_places import (
    FolderChangedError,
    Place,
    end_of_line,
    list_files,
    names_of,
    read_position,
)
from dynstore.streams.sources.tailed_file import MAX_READ, ChangedError, Lines, Read, TailedFile

__all__ = ["FileSource"]

BYTES_PER_ROW = 64  # so many bytes are read for each row that is wanted
STEP_S = 0.02  # between two looks at the file
CLOCK_NS = 100_000_000  # what a file system's clock may be behind
LOOKS = 250  # so often the folder is looked at until its names rest
KEEP_S = 60.0  # a renamed file is read until nothing was added to it for so long
# Without a header.
USUAL = ("source", "destination")
_log = logging.getLogger("dynstore")


class FileSource(BaseSource):
    """Lines of a file, and those that are added to it.

    Rows are delimited text, or lines of JSON objects. Only whole lines are read. How the text is written is found from
    the first rows, up to 1 MiB, and holds for the whole file, also after a restart: a row that does not fit ends the
    stream with an error that names its line.

    A position says for each file that is not read to its end: a byte, the file's device and inode, and checksums of its
    first 4096 bytes and of the last 1024 before the byte. The checksums decide whether a file is the one that was read.
    It also names the files of earlier rotations that are not to be read. A position before or among lines of a file
    that is not the first to be read says so, too.

    If the file is renamed and another one takes its name, as by rotation, the old one is read to its end first. It is
    read until nothing was added to it for 60 s; a last line without a line feed is then left out. After a restart, it
    is looked for in its folder, also as a copy or packed (.gz, .xz, .bz2, .zst); then come files of later rotations,
    in the order of their last change, and then the file itself. Files of rotation have the name with digits behind it,
    such as pay.csv.1 and pay.csv-2026-01-31; or before the suffix, such as pay-2026-01-31.csv.

    If the file is truncated or overwritten, and its folder has a copy of what it had, the rest of the copy is read
    first. Without one, lines may be missing: see SourceGapError below. All this is logged as warnings. What rotation
    moves to another folder is read while the source is open, but not after a restart.

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
        How often another file took the name while this one was open, and how often the file was truncated or
        overwritten.

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
        try:
            self._path.open("rb").close()
        except OSError as error:
            raise InputError(f"FileSource: cannot open {str(self._path)!r}: {error.strerror}") from error
        self._files: list[TailedFile] = []  # in the order of reading; the one that has the name comes last
        self._current: tuple[int, int] | None = None  # the node of the one that has the name
        self._done: list[Place] = []  # files beside it that are not to be read
        self._folder_time = 0  # when its names were last known to be those of the list
        self._ready: tuple[Any, Any] | None = None  # lines whose position before them was returned
        self._first: tuple[TailedFile, int] | None = None  # a file from which lines come first, and where these end
        self._use(self._look([], None))

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

    def start(self) -> dict[str, Any]:
        """Return the position before the first row."""
        return _position(self._files, self._done)

    def seek(self, position: Any) -> None:
        """Go on at a position.

        Raises
        ------
        SourceGapError
            If no file of its folder has what was read before the position.
        InputError
            For a position of a source of another kind.
        """
        if isinstance(position, int):  # of an older version, which did not say of which file
            self._seek_byte(position)
            return
        places, done, first = read_position(position)
        found = self._look(places, done)
        if found.missing:
            raise self._gap(found)
        self._refuse_continued(found)
        self._use(found)
        self._ready, self._first = None, None
        if first is not None:
            self._read_first(places[first[0]], first[1])

    def _seek_byte(self, byte: int) -> None:
        mine = self._files[-1]
        if byte > mine.status().st_size:
            raise SourceGapError(
                f"FileSource: cannot go on at byte {byte} of {str(self._path)!r}: it has {mine.status().st_size} bytes "
                "now: it was truncated or replaced; lines that came behind that byte are missing",
                byte,
                None,
                None,
                _position(self._files[:-1], self._done),
            )
        self._files[-1] = self._open(self._path, mine.node, mine.file, byte)

    def poll(self, max_rows: int, timeout: float) -> tuple[Any, Any] | None:
        """Return the next whole lines.

        If they are not of the file that comes first, the position before them is returned first, with no row: it says
        of which they are. So after a restart they come first again: a log may have a part of them.

        Raises
        ------
        SourceGapError
            If the file was truncated or overwritten, and no copy in its folder has what was read.
        """
        if self._ready is not None:
            found, self._ready = self._ready, None
            return found
        ends = time.monotonic() + timeout
        while True:
            lines = self._next(min(max_rows * BYTES_PER_ROW, MAX_READ))
            if lines is not None:
                found = lines, lines.position(len(lines) - 1)
                if len(self._files) == 1 or "first" not in (before := lines.position(-1)):
                    return found
                self._ready = found
                return Messages([Message(None, "", before)]), before
            if not self._follow:
                raise EOFError
            if time.monotonic() >= ends:
                return None
            time.sleep(STEP_S)

    def _next(self, num_bytes: int) -> Lines | None:
        lines = self._next_of_first(num_bytes)
        while lines is None:
            for file in list(self._files):
                try:
                    lines = self._lines(file, num_bytes)
                except ChangedError:
                    self._follow_change(file)
                    break
                if lines is not None:
                    break
            else:
                if not self._is_rotated():
                    return None
                self._follow_change(None)
        return lines

    def _next_of_first(self, num_bytes: int) -> Lines | None:
        """Return lines of the file that :meth:`_read_first` has chosen; None if there is none, or it is read."""
        while self._first is not None:
            (file, end), self._first = self._first, None
            try:
                lines = self._lines(file, min(num_bytes, end - file.offset))
            except ChangedError:
                place = file.place()
                self._follow_change(file)
                self._read_first(place, end)
                continue
            if lines is not None and file.offset < end:
                self._first = file, end
            return lines
        return None

    def _read_first(self, place: Place, end: int) -> None:
        """Choose the file whose lines are read next: the one that has the place; up to the byte ``end``."""
        found = [file for file in self._files if file.offset == place.byte < end and place.fits(file.file)]
        found.sort(key=lambda file: file.node != place.node)
        self._first = (found[0], end) if found else None

    def _lines(self, file: TailedFile, num_bytes: int) -> Lines | None:
        """Return the next lines of a file. One that has lost the name is closed when it is over."""
        place_of = functools.partial(self._position_in, file)
        if file.node == self._current:
            return file.lines(num_bytes, self._follow, not self._follow, place_of)
        lines = file.lines(num_bytes, True, False, place_of)
        if lines is None and (not self._follow or time.monotonic() - file.quiet_since > KEEP_S):
            lines = file.lines(num_bytes, False, False, place_of)
            if lines is None:
                if file.unfinished:
                    said = "FileSource: %s: the last line, of %d bytes, has no end and is left out"
                    _log.warning(said, file.where, file.unfinished)
                self._done.append(file.begin())
                self._files.remove(file)
                file.file.close()
        return lines

    def _position_in(self, file: TailedFile, place: Place, end: int) -> dict[str, Any]:
        return _position(self._files, self._done, (file, place, end))

    # ------------------------------------------------------------------ other files

    def _is_rotated(self) -> bool:
        """Whether another file has the name now, or names beside it have changed, as when it is copied."""
        try:
            status, folder = os.stat(self._path), os.stat(self._path.parent)
        except FileNotFoundError:  # it is between two names
            return False
        if (status.st_dev, status.st_ino) != self._current:
            return True
        if folder.st_mtime_ns == self._folder_time:
            return False
        names = names_of(list_files(self._path, [file.node for file in self._files]))
        if time.time_ns() - folder.st_mtime_ns > CLOCK_NS:  # else it may change once more without another time
            self._folder_time = folder.st_mtime_ns
        return names != self._names

    def _look(self, known: Sequence[Place | TailedFile], done: Sequence[Place] | None) -> Arranged:
        """Return the files that are to be read, once their names rest."""
        for _ in range(LOOKS):
            try:
                return arrange(self._path, known, done, self._open)
            except FolderChangedError:
                time.sleep(STEP_S)
        raise StreamError(
            f"FileSource: {str(self._path)!r}, or files beside it, are renamed or truncated again and again; wanted "
            f"{STEP_S} s without that"
        )

    def _follow_change(self, changed: TailedFile | None) -> None:
        """Go on after a rotation; or after a file was truncated or overwritten, in a copy of it."""
        found = self._look(self._files, self._done)
        if found.missing:
            self.truncations += 0 if changed is None else 1
            raise self._gap(found, changed)
        if found.current == self._current:
            self.truncations += found.new
        else:
            self.rotations += found.new
        what = "truncated or overwritten" if found.current == self._current else "replaced by another file"
        for file in found.files:
            if file not in self._files:
                _log.warning(
                    "FileSource: %s was %s; %s is read from byte %d", self._path, what, file.where, file.offset
                )
        self._use(found)

    def _use(self, found: Arranged) -> None:
        for file in self._files:
            if file not in found.files:
                file.file.close()
        self._files, self._current, self._done, self._names = found.files, found.current, found.done, found.names

    def _open(self, path: Path, node: tuple[int, int], file: BinaryIO, byte: int) -> TailedFile:
        return TailedFile(str(path), node, file, self._make_reader, byte)

    def _refuse_continued(self, found: Arranged) -> None:
        """Refuse to go on within a line whose first part was read as a line."""
        for number, file in enumerate(found.files):
            byte, end = file.offset, end_of_line(file.file, file.offset)
            if end > byte:
                found.files[number] = self._open(Path(file.where), file.node, file.file, end)
                resume = _position(found.files, found.done)
                for each in found.files:
                    each.file.close()
                raise SourceGapError(
                    f"FileSource: the last line of {file.where!r} was read up to byte {byte}, without a line feed, and "
                    f"was continued since, up to byte {end}; the row that was read is a part of it",
                    byte,
                    end,
                    end - byte,
                    resume,
                )

    def _gap(self, found: Arranged, changed: TailedFile | None = None) -> SourceGapError:
        """Return the error for places of which no file is left, and close what was opened for the others."""
        place, resume = found.missing[0], _position(found.files, found.done)
        known = changed.seen - place.byte if changed is not None and changed.node == place.node else 0
        why = "that file was replaced"
        for file in found.files:
            if file.node == place.node:
                size = file.status().st_size
                why = "it was overwritten with other content"
                if size < place.byte:
                    why = f"it has {size} bytes now: it was truncated"
            if file not in self._files:
                file.file.close()
        others = f"; so are those of {len(found.missing) - 1} files that had its name" if found.missing[1:] else ""
        return SourceGapError(
            f"FileSource: cannot go on at byte {place.byte} of {str(self._path)!r}: {why}, and no file in its folder "
            f"has what was read; lines that came behind that byte are missing{others}",
            place.byte,
            place.byte + known if known else None,
            known or None,
            resume,
        )

    def _make_reader(self, where: str, head: bytes, follow: bool) -> tuple[Read | None, int]:
        """Return what reads lines, and where the first row begins; None if there is no row."""
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
            if follow and head.count(b"\n") < 2:  # the next rows may show whether the first one has names
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

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.file.close()


def _position(
    files: Sequence[TailedFile], done: Sequence[Place], read: tuple[TailedFile, Place, int] | None = None
) -> dict[str, Any]:
    """Return a position; ``read``: a file of which lines were read, a place among them, and the byte where they end.

    A file that is read to its end and is not in the folder any more is left out: no program could go on in it.
    """
    among, place, end = read or (None, None, 0)
    kept = [file for file in files if file is among or file.is_listed or file.has_more()]
    places = [place if file is among and place is not None else file.place() for file in kept]
    position: dict[str, Any] = {"files": [list(each) for each in places], "done": [list(each) for each in done]}
    if place is not None and place.byte < end and kept[0] is not among:
        position["first"] = [next(n for n, file in enumerate(kept) if file is among), end]
    return position
