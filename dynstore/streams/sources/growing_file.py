"""A text file that grows, as a source."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, BinaryIO

from dynstore.errors import FileFormatError, InputError, SourceGapError
from dynstore.io.dialects import SAMPLE_BYTES, Dialect, DialectChoice, find_dialect, first_rows, konect_kind
from dynstore.io.formats import find_format
from dynstore.io.json_lines import read_json_lines
from dynstore.io.packing import is_packed
from dynstore.io.text_rows import TextReader
from dynstore.io.text_values import TextBatch
from dynstore.streams.sources.base import BaseSource
from dynstore.streams.sources.file_places import Copy, Place, end_of_line, find_renamed, find_rotated, open_raw
from dynstore.streams.sources.tailed_file import MAX_READ, ChangedError, Lines, Read, TailedFile

__all__ = ["FileSource"]

BYTES_PER_ROW = 64  # so many bytes are read for each row that is wanted
STEP_S = 0.02  # between two looks at the file
KEEP_S = 60.0  # a renamed file is read until nothing was added to it for so long
# Without a header.
USUAL = ("source", "destination")
_log = logging.getLogger("dynstore")


class FileSource(BaseSource):
    """Lines of a file, and those that are added to it.

    Rows are delimited text, or lines of JSON objects. Only whole lines are read. How the text is written is found from
    the first rows, up to 1 MiB, and holds for the whole file, also after a restart: a row that does not fit ends the
    stream with an error that names its line.

    A position is a byte, the file's device and inode, and checksums of its first 4096 bytes and of the last 1024 before
    the byte. The checksums decide whether a file is the one that was read.

    If the file is renamed and another one takes its name, as by rotation, the old one is read to its end first. It is
    read until nothing was added to it for 60 s; a last line without a line feed is then left out. After a restart, the
    file is looked for in its folder, also as a copy or packed (.gz, .xz, .bz2, .zst); then come files of later
    rotations, and then the file itself. Files of rotation have the name with digits behind it, such as pay.csv.1 and
    pay.csv-20260131, or differ in digits from the name to which the old file was renamed. They are read in the order
    of their last change.

    If the file is truncated or overwritten, and its folder has a copy of what it had, the rest of the copy is read
    first. Without one, lines may be missing: see SourceGapError below. All this is logged as warnings.

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
        How often another file took the name, and how often the file was truncated or overwritten.

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
            file: Any = self._path.open("rb", buffering=0)
        except OSError as error:
            raise InputError(f"FileSource: cannot open {str(self._path)!r}: {error.strerror}") from error
        self._file = TailedFile(str(self._path), file, self._make_reader)
        self._older: list[TailedFile] = []  # which had the name before, the oldest first
        self._rotated: set[tuple[int, int]] = set()  # files with names of rotation that are not to be read
        self._note_rotated()

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
        """Go on at a position.

        Raises
        ------
        SourceGapError
            If neither the file nor one that was renamed or copied in its folder has what was read before the position.
        InputError
            For a position of a source of another kind.
        """
        if isinstance(position, int):  # of an older version, which did not say of which file
            self._seek_byte(position)
            return
        last = Place.of(position)
        older = [Place.of(each) for each in position.get("older", ())]
        mine, files = self._file, list[TailedFile]()
        with contextlib.ExitStack() as opened:  # closes what was opened, if there is a gap
            for place in older:
                found = self._find(place)
                if found is None:
                    raise self._gap(place, _position(last, [each for each in older if each != place]), is_older=True)
                opened.callback(found[0].file.close)
                files.append(found[0])
            fits = last.fits(mine.file) and (mine.node == last.node or last.byte > 0)
            found = None if fits and mine.node == last.node else self._find(last, of_node=fits)
            if found is None and not fits:
                raise self._gap(last, _position(Place.at(mine.file, 0), older))
            if found is not None:
                opened.callback(found[0].file.close)
            self._refuse_continued(found[0].file if found is not None else mine.file, last, older)
            opened.pop_all()
        between = []
        if found is not None:
            file, copy = found
            files.append(file)
            order = (last.time, copy.order[1]) if copy.node == last.node else copy.order
            between = self._between(copy.path, order, last, {each.node for each in files})
            _log.warning("FileSource: %s was replaced; the rest of what it had is read from %s", self._path, copy.path)
        if found is None or mine.node == last.node:
            self.truncations += found is not None or mine.offset > last.byte
        else:
            self.rotations += 1 + len(between)
        for file in self._older:
            file.file.close()
        self._older = [*files, *between]
        mine.restart(0 if found is not None else last.byte)
        self._note_rotated()

    def _seek_byte(self, byte: int) -> None:
        if byte > self._file.status().st_size:
            none = (0, 0)
            raise self._gap(Place(byte, *self._file.node, none, none, 0), _position(Place.at(self._file.file, 0), []))
        self._file.restart(byte)

    def poll(self, max_rows: int, timeout: float) -> tuple[Any, Any] | None:
        """Return the next whole lines.

        Raises
        ------
        SourceGapError
            If the file was truncated or overwritten, and no copy in its folder has what was read.
        """
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
        while True:
            for file in (*self._older, self._file):
                try:
                    lines = self._lines(file, num_bytes)
                except ChangedError:
                    self._replace(file)
                    break
                if lines is not None:
                    return lines, lines.position(len(lines) - 1)
            else:
                if not self._follow or not self._is_rotated():
                    return None

    def _lines(self, file: TailedFile, num_bytes: int) -> Lines | None:
        """Return the next lines of a file. One that was renamed is closed when it is over."""
        place_of = functools.partial(self._position_in, file)
        if file is self._file:
            return file.lines(num_bytes, self._follow, not self._follow, place_of)
        lines = file.lines(num_bytes, True, False, place_of)
        if lines is None and (file.is_copy or not self._follow or time.monotonic() - file.quiet_since > KEEP_S):
            lines = file.lines(num_bytes, False, False, place_of)
            if lines is None:
                if file.unfinished:
                    _log.warning(
                        "FileSource: %s: the last line, of %d bytes, has no end and is left out",
                        file.where,
                        file.unfinished,
                    )
                file.file.close()
                self._older.remove(file)
        return lines

    def _position_in(self, file: TailedFile, place: Place) -> dict[str, Any]:
        """Return the source's position for a place of one of its files.

        A file without a name is left out: no program could go on in it.
        """
        named = [each for each in self._older if each.is_copy or each.status().st_nlink]
        older = [place if each is file else each.place() for each in named]
        return _position(place if file is self._file else self._file.place(), older)

    # ------------------------------------------------------------------ other files

    def _is_rotated(self) -> bool:
        """Whether another file has the name: then it comes behind the one that had it."""
        mine = self._file
        try:
            there, before = os.stat(self._path), mine.status()
            if (there.st_ino, there.st_dev) == (before.st_ino, before.st_dev):
                return False
            fresh: Any = self._path.open("rb", buffering=0)
        except FileNotFoundError:  # it is between two names
            return False
        place, self._file = mine.place(), TailedFile(str(self._path), fresh, self._make_reader)
        if not before.st_nlink and place.byte and place.fits(fresh):
            _log.warning("FileSource: %s was replaced by a copy of itself; it is read on", self._path)
            mine.file.close()
            self._file.restart(place.byte)
            return True
        renamed = find_renamed(self._path, mine.node)
        between = self._between(
            renamed.path if renamed else None,
            (mine.time, renamed.order[1] if renamed else sys.maxsize),
            place,
            {mine.node, *self._rotated, *(file.node for file in self._older)},
        )
        _log.warning("FileSource: %s was replaced by another file", self._path)
        self.rotations += 1 + len(between)
        self._older += [mine, *between]
        self._note_rotated()
        return True

    def _replace(self, file: TailedFile) -> None:
        """Go on in the copy of a file that was truncated or overwritten."""
        place, found = file.place(), self._find(file.place())
        others = [each for each in self._older if each is not file]
        if found is None:
            last = Place.at(file.file, 0) if file is self._file else self._file.place()
            raise self._gap(
                place, _position(last, [each.place() for each in others]), file is not self._file, file.seen
            )
        copied, copy = found
        if file is not self._file:
            self._older[self._older.index(file)] = copied
            file.file.close()
            return
        known = {copied.node, *self._rotated, *(each.node for each in self._older)}
        self._older += [copied, *self._between(copy.path, copy.order, place, known)]
        size = file.status().st_size
        said = "FileSource: %s was truncated to %d bytes, or overwritten; the rest of what it had is read from %s"
        _log.warning(said, self._path, size, copy.path)
        self.truncations += 1
        file.restart(0)
        self._note_rotated()

    def _find(self, place: Place, of_node: bool = False) -> tuple[TailedFile, Copy] | None:
        """Return the file of a place, which has another name now, or a copy of it.

        ``of_node``: the same file of the file system only.
        """
        for _ in range(2):  # a file that is renamed while a folder is listed may not be on the list
            renamed = find_renamed(self._path, place.node)
            others = [] if of_node or not place.byte else find_rotated(self._path, None, wide=True)[::-1]
            for copy in [renamed, *others] if renamed is not None else others:
                opened = open_raw(copy.path)
                if opened is not None:
                    file, is_unpacked = opened
                    if place.fits(file):
                        is_copy = is_unpacked or copy.node != place.node
                        return TailedFile(str(copy.path), file, self._make_reader, place.byte, is_copy), copy
                    file.close()
        return None

    def _between(
        self, like: Path | None, order: tuple[int, int], place: Place, known: Collection[tuple[int, int]]
    ) -> list[TailedFile]:
        """Return the files that had the name between a file and the one that has it now, the oldest first.

        Parameters
        ----------
        like : Path, optional
            The name that the file before them has now.
        order : (int, int)
            Its order.
        place : Place
            Where it was read last: a packed copy of it is none of them.
        known : collection of (int, int)
            Files that are none of them.
        """
        found = []
        for copy in find_rotated(self._path, like):
            if copy.order <= order or copy.node in known:
                continue
            opened = open_raw(copy.path)
            if opened is None:
                _log.warning("FileSource: %s cannot be read, and is left out", copy.path)
            elif opened[1] and place.fits(opened[0]):
                opened[0].close()
            else:
                found.append(TailedFile(str(copy.path), opened[0], self._make_reader, is_copy=opened[1]))
        return found

    def _note_rotated(self) -> None:
        self._rotated = {copy.node for copy in find_rotated(self._path, None, wide=True)}

    def _refuse_continued(self, file: BinaryIO, place: Place, older: list[Place]) -> None:
        """Refuse to go on within a line whose first part was read as a line."""
        end = end_of_line(file, place.byte)
        if end > place.byte:
            raise SourceGapError(
                f"FileSource: the last line of {str(self._path)!r} was read up to byte {place.byte}, without a line "
                f"feed, and was continued since, up to byte {end}; the row that was read is a part of it",
                place.byte,
                end,
                end - place.byte,
                _position(Place.at(file, end), older),
            )

    def _gap(self, place: Place, resume: Any, is_older: bool = False, seen: int = 0) -> SourceGapError:
        size = self._file.status().st_size
        if is_older or self._file.node != place.node:
            why = "that file was replaced"
        elif size < place.byte:
            why = f"it has {size} bytes now: it was truncated"
        else:
            why = "it was overwritten with other content"
        known = max(0, seen - place.byte)
        return SourceGapError(
            f"FileSource: cannot go on at byte {place.byte} of {str(self._path)!r}: {why}, and no file in its folder "
            "has what was read; lines that came behind that byte are missing",
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
        for file in (*self._older, self._file):
            file.file.close()


def _position(last: Place, older: list[Place]) -> dict[str, Any]:
    return {**last._asdict(), "older": [each._asdict() for each in older]} if older else last._asdict()
