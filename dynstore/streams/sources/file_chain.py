"""The files that a :class:`FileSource` reads: the one that has the name, and those that had it before."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeAlias

from dynstore.streams.sources.file_places import (
    COPY_BYTES,
    FolderChangedError,
    ListedFile,
    Place,
    RotatedNames,
    list_files,
    names_of,
    read_at,
)
from dynstore.streams.sources.tailed_file import TailedFile

__all__ = ["Arranged", "Opener", "arrange"]

Opener: TypeAlias = Callable[[Path, tuple[int, int], BinaryIO, int], TailedFile]
_log = logging.getLogger("dynstore")


class Arranged(NamedTuple):
    """What is to be read.

    Attributes
    ----------
    files : list of TailedFile
        In the order of reading; that which has the name comes last.
    current : (int, int) or None
        The node of the file that has the name; None if there is none now.
    done : list of Place
        The first bytes of files beside it that are not to be read.
    missing : list of Place
        Known places of which no file is left.
    new : int
        How many of the files were not known.
    names : dict
        The names beside it, and the nodes of the files.
    """

    files: list[TailedFile]
    current: tuple[int, int] | None
    done: list[Place]
    missing: list[Place]
    new: int
    names: dict[Path, tuple[int, int]]


def arrange(path: Path, known: Sequence[Place | TailedFile], done: Sequence[Place] | None, opener: Opener) -> Arranged:
    """Find the files that are to be read.

    First each known place looks for its file: by its node, then by its content, as the file may have been copied and
    truncated, or packed. Then the files that are done are recognised in the same way. What is left with a name of
    rotation is new: no row of it was read.

    Parameters
    ----------
    path : Path
        The name.
    known : sequence of Place or TailedFile
        What is being read, the oldest first.
    done : sequence of Place, or None
        What is not to be read; None: all that has a name of rotation and is not known.
    opener : callable
        Makes a TailedFile of a path, a node, an open file and a byte.

    Raises
    ------
    FolderChangedError
        If a file was renamed, made, removed or truncated meanwhile. Nothing was changed.
    """
    search = _Search(path, known, opener)
    with contextlib.ExitStack() as opened:
        opened.callback(search.close)
        found = search.all(done)
        search.check(found.files)
        opened.pop_all()
    return found


class _Search:
    """One look at the folder."""

    def __init__(self, path: Path, known: Sequence[Place | TailedFile], opener: Opener) -> None:
        self._path, self._opener = path, opener
        self._places = [each.place() if isinstance(each, TailedFile) else each for each in known]
        self._handles = [each if isinstance(each, TailedFile) else None for each in known]
        self._nodes = [place.node for place in self._places]
        self._left = list_files(path, self._nodes)
        self._first = names_of(self._left)
        self._current = next((file for file in self._left if file.path == path), None)
        self._files: dict[int, TailedFile] = {}  # by the number of the place
        self._listed_as: dict[int, ListedFile] = {}
        self._opened: list[TailedFile] = []

    def check(self, files: Sequence[TailedFile]) -> None:
        """See whether all names are still those of the same files, and the files still begin as they did.

        A file that was truncated meanwhile would not be known as the origin of a copy, which would be read twice.
        """
        if names_of(list_files(self._path, self._nodes)) != self._first:
            raise FolderChangedError
        if not all(file.is_unchanged() for file in files):
            raise FolderChangedError

    def close(self) -> None:
        """Close what was opened."""
        for file in self._opened:
            file.file.close()

    def all(self, done: Sequence[Place] | None) -> Arranged:
        """Find all files."""
        for number in range(len(self._places)):
            self._find_node(number)
        goes_on = self._current is not None and self._current not in self._left
        for number in range(len(self._places)):
            if number not in self._files:
                self._find_content(number)
        names = RotatedNames(self._path)
        within = done is None or any(names.are_within(file.path.name) for file in self._listed_as.values())
        kept = [file.begin() for number, file in self._listed_as.items() if number not in self._files]
        kept += [file.begin() for file in self._find_done(done, names)]
        unread = []
        for file in sorted(self._left, key=lambda file: file.order):
            if file is self._current or not names.have(file.path.name, within):
                continue
            if goes_on and self._is_copy_of_current(file):
                kept.append(file.begin())
            else:
                unread.append(file)
        if self._current in self._left:
            unread.append(self._current)
        new = [opened for file in unread if (opened := self._open_new(file)) is not None]
        last = self._current.node if self._current is not None else None
        files = [self._files[number] for number in sorted(self._files)] + new
        missing = [
            place
            for number, place in enumerate(self._places)
            if number not in self._files and number not in self._listed_as
        ]
        return Arranged(sorted(files, key=lambda file: file.node == last), last, kept, missing, len(new), self._first)

    def _find_node(self, number: int) -> None:
        """Take the file of a place that has the same node."""
        place, handle = self._places[number], self._handles[number]
        listed = next((listed for listed in self._left if listed.node == place.node), None)
        if listed is None:
            return
        if handle is not None:
            if handle.is_unchanged():
                self._take(number, listed, handle)
        elif (file := listed.open_at(place)) is not None:
            self._take(number, listed, self._open(listed, file, place.byte))

    def _find_content(self, number: int) -> None:
        """Take a file that has the same bytes before a place; or the open file, if it only has no name any more."""
        place, handle = self._places[number], self._handles[number]
        is_kept = handle is not None and handle.is_unchanged()
        if handle is None or not is_kept or (handle.has_read_rows and not handle.status().st_nlink):
            for listed in [listed for listed in self._left if place.head_bytes]:
                if (file := listed.open_at(place)) is not None:
                    self._take(number, listed, self._open(listed, file, place.byte))
                    return
        if handle is not None and is_kept:
            handle.is_listed, self._files[number] = False, handle
            return
        for listed in self._left:
            if listed.node != place.node and listed.is_begin_of(place):
                self._take(number, listed, None)
                return

    def _take(self, number: int, listed: ListedFile, file: TailedFile | None) -> None:
        self._left.remove(listed)
        self._listed_as[number] = listed
        if file is not None:
            file.where, file.is_listed = str(listed.path), True  # an earlier look may have missed it
            self._files[number] = file

    def _open(self, listed: ListedFile, file: BinaryIO, byte: int) -> TailedFile:
        self._opened.append(self._opener(listed.path, listed.node, file, byte))
        return self._opened[-1]

    def _open_new(self, listed: ListedFile) -> TailedFile | None:
        file = listed.open()
        if file is None:
            _log.warning("FileSource: %s cannot be read; it is left out for now", listed.path)
            return None
        return self._open(listed, file, 0)

    def _find_done(self, done: Sequence[Place] | None, names: RotatedNames) -> list[ListedFile]:
        """Take the files that are done."""
        found = []
        others = [file for file in self._left if file is not self._current]
        if done is None:
            found = [file for file in others if names.have(file.path.name, True)]
        else:
            left = list(done)
            for is_same in (_is_same_file, _is_same_content):
                for each in list(left):
                    file = next((file for file in others if is_same(each, file)), None)
                    if file is not None:
                        left.remove(each)
                        others.remove(file)
                        found.append(file)
        for file in found:
            self._left.remove(file)
        return found

    def _is_copy_of_current(self, listed: ListedFile) -> bool:
        """Whether a file has only bytes that the file with the name has: a backup, or a copy before a truncation."""
        assert self._current is not None
        with contextlib.ExitStack() as opened:
            copy, current = listed.open(), self._current.open()
            for file in (copy, current):
                if file is not None:
                    opened.callback(file.close)
            if copy is None or current is None:
                return False
            byte = 0
            while data := read_at(copy, byte, COPY_BYTES):
                if data != read_at(current, byte, len(data)):
                    return False
                byte += len(data)
        return True


def _is_same_file(done: Place, listed: ListedFile) -> bool:
    return done.node == listed.node and done.fits_head(listed.head)


def _is_same_content(done: Place, listed: ListedFile) -> bool:
    return done.has_head(listed.head)
