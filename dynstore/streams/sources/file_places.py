"""What a position of a file says of that file, and how the file is found again among those beside it."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import tempfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from dynstore.errors import DynstoreError, InputError, shown
from dynstore.io.packing import is_packed, open_unpacked

__all__ = [
    "HEAD_BYTES",
    "TAIL_BYTES",
    "FolderChangedError",
    "ListedFile",
    "Place",
    "RotatedNames",
    "end_of_line",
    "list_files",
    "names_of",
    "read_at",
    "read_position",
    "signature",
]

HEAD_BYTES, TAIL_BYTES = 4096, 1024  # so many of a file's first bytes, and of those before a position, are compared
PACKED = r"(?:\.(?:gz|xz|bz2|zst))?"
DIGITS = r"[.\-_]?\d[\d.\-_:T]*"
LARGEST_COUNT = 999  # larger numbers in names of rotated files are dates
COPY_BYTES = 1 << 20


class FolderChangedError(Exception):
    """A file was renamed, made, removed or truncated while the folder was looked at."""


class Place(NamedTuple):
    """A byte of a file, and what the file is recognised by.

    The head is that of all bytes that were seen, also of those that were not read yet: so a file of which nothing was
    read is recognised, too. The tail ends at the byte. Of a file that is not to be read, there is a place at byte 0.
    """

    byte: int
    device: int
    inode: int
    head_bytes: int
    head_checksum: int
    tail_bytes: int
    tail_checksum: int

    @classmethod
    def of(cls, node: tuple[int, int], head: bytes, byte: int = 0, tail: bytes = b"") -> Place:
        """Return a place in a file with a node, some first bytes, and some last bytes before the place."""
        return cls(byte, *node, *signature(head), *signature(tail))

    @property
    def node(self) -> tuple[int, int]:
        """The file of the file system; a new one may have the node of one that is removed."""
        return self.device, self.inode

    def fits(self, file: BinaryIO) -> bool:
        """Whether a file has the same bytes before the place."""
        return self.fits_head(read_at(file, 0, self.head_bytes)) and signature(
            read_at(file, self.byte - self.tail_bytes, self.tail_bytes)
        ) == (self.tail_bytes, self.tail_checksum)

    def fits_head(self, head: bytes) -> bool:
        """Whether a file that begins with these bytes may be the one."""
        return signature(head[: self.head_bytes]) == (self.head_bytes, self.head_checksum)

    def has_head(self, head: bytes) -> bool:
        """Whether the first 4096 bytes, or all, are the same: then the file is this one, or a copy of it."""
        return bool(head) and signature(head) == (self.head_bytes, self.head_checksum)


def read_position(position: Any) -> tuple[list[Place], list[Place], tuple[int, int] | None]:
    """Return what a position says.

    Returns
    -------
    places : list of Place
        In the order of reading.
    done : list of Place
        The files that are not to be read.
    first : (int, int) or None
        The number of the place from which lines come first, in spite of that order, and the byte where they end.

    Raises
    ------
    InputError
        If it is no position of a file.
    """
    try:
        places, done = ([Place(*each) for each in position[name]] for name in ("files", "done"))
        first = position.get("first")
        number, byte = first or (0, 0)
        numbers = [number, byte, *(part for each in (*places, *done) for part in each)]
        if all(isinstance(part, int) and part >= 0 for part in numbers) and number <= len(places) - bool(first):
            return places, done, (number, byte) if first else None
    except (KeyError, TypeError, ValueError):
        pass
    raise InputError(f"FileSource: cannot go on at {shown(position)}; wanted a position of a FileSource")


class ListedFile:
    """A file of a folder.

    Attributes
    ----------
    path : Path
    node : (int, int)
    order : tuple
        Of two files of rotation, that which was changed last comes last. If the clock does not tell, the names do:
        pay.csv.2 is older than pay.csv.1, and pay.csv-2026-01-01 than pay.csv-2026-01-31.
    """

    def __init__(self, path: Path, status: os.stat_result, rest: str) -> None:
        self.path, self.node = path, (status.st_dev, status.st_ino)
        numbers = [int(digits) for digits in re.findall(r"\d+", re.sub(PACKED + "$", "", rest))]
        is_count = len(numbers) == 1 and numbers[0] <= LARGEST_COUNT
        self.order = (status.st_mtime_ns, [-numbers[0]] if is_count else numbers)

    @functools.cached_property
    def head(self) -> bytes:
        """The first 4096 bytes, unpacked; none if the file cannot be read."""
        try:
            with self.path.open("rb") as file:
                head = file.read(HEAD_BYTES)
            if not is_packed(head):
                return head
            with open_unpacked(str(self.path)) as unpacked:
                return bytes(unpacked.content.read(HEAD_BYTES))
        except (OSError, DynstoreError):
            return b""

    def begin(self) -> Place:
        """Return the place at its first byte."""
        return Place.of(self.node, self.head)

    def open(self) -> BinaryIO | None:
        """Open the file without a buffer, unpacked; None if that cannot be done.

        Raises
        ------
        FolderChangedError
            If the name is that of another file now.
        """
        with contextlib.ExitStack() as opened:
            try:
                file: Any = opened.enter_context(self.path.open("rb", buffering=0))
                status = os.fstat(file.fileno())
                if (status.st_dev, status.st_ino) != self.node:
                    raise FolderChangedError
                if is_packed(read_at(file, 0, 8)):
                    packed, file = file, opened.enter_context(tempfile.TemporaryFile(buffering=0))
                    with open_unpacked(str(self.path)) as unpacked:
                        shutil.copyfileobj(unpacked.content, file, COPY_BYTES)
                    packed.close()
            except FileNotFoundError:
                raise FolderChangedError from None
            except (OSError, DynstoreError):  # no right to read it, or damaged
                return None
            opened.pop_all()
            plain: BinaryIO = file
        return plain

    def open_at(self, place: Place) -> BinaryIO | None:
        """Open the file if it has the same bytes before a place."""
        file = self.open() if place.fits_head(self.head) else None
        if file is not None and not place.fits(file):
            file.close()
            return None
        return file

    def is_begin_of(self, place: Place) -> bool:
        """Whether it is a copy that was made before the last bytes were read: it ends before the place.

        Only a file of which at least 4096 bytes were seen is recognised in this way.
        """
        if place.head_bytes < HEAD_BYTES or not place.fits_head(self.head):
            return False
        file = self.open()
        if file is None:
            return False
        with file:
            return file.seek(0, os.SEEK_END) < place.byte


class RotatedNames:
    """Which names rotation gives to ``path``: pay.csv.1 and pay.csv-2026-01-31.gz, and also pay-2026-01-31.csv."""

    def __init__(self, path: Path) -> None:
        self._behind = re.compile(re.escape(path.name) + DIGITS + PACKED)
        self._within = re.compile(re.escape(path.stem) + DIGITS + re.escape(path.suffix) + PACKED)

    def have(self, name: str, also_within: bool) -> bool:
        """Whether a name is one; ``also_within``: also with the digits before the suffix."""
        return bool(self._behind.fullmatch(name) or (also_within and self._within.fullmatch(name)))

    def are_within(self, name: str) -> bool:
        """Whether the digits of a name stand before the suffix."""
        return bool(self._within.fullmatch(name)) and not self._behind.fullmatch(name)


def list_files(path: Path, nodes: Iterable[tuple[int, int]]) -> list[ListedFile]:
    """Return the files in the folder of ``path`` whose names begin as its name does, and those of some nodes.

    A packed file is left out while its content is there unpacked, too. Of several names of one file, one is returned:
    ``path`` if it is among them.
    """
    inodes, found = {inode for _, inode in nodes}, dict[str, ListedFile]()
    with os.scandir(path.parent) as entries:
        for entry in entries:
            if entry.name.startswith(path.stem) or entry.inode() in inodes:
                try:
                    if entry.is_file():
                        rest = entry.name.removeprefix(path.stem)
                        found[entry.name] = ListedFile(Path(entry.path), entry.stat(), rest)
                except OSError:  # it was renamed
                    continue
    names = sorted(found, key=lambda name: (name == path.name, name), reverse=True)
    unpacked = [name for name in names if (plain := re.sub(PACKED + "$", "", name)) == name or plain not in found]
    by_node = {found[name].node: found[name] for name in reversed(unpacked)}
    return list(by_node.values())


def names_of(files: Iterable[ListedFile]) -> dict[Path, tuple[int, int]]:
    """Return the names of files, and the nodes that they have."""
    return {file.path: file.node for file in files}


def signature(data: bytes) -> tuple[int, int]:
    """Return the number of bytes and their checksum."""
    return len(data), zlib.crc32(data)


def read_at(file: BinaryIO, first: int, count: int) -> bytes:
    """Return some bytes of a file, fewer at its end."""
    file.seek(first)
    return file.read(count)


def end_of_line(file: BinaryIO, byte: int) -> int:
    """Return the end of the line to which a byte belongs; the byte itself if its line ends, or begins, there."""
    if not byte or read_at(file, byte - 1, 1) == b"\n" or read_at(file, byte, 1) in (b"", b"\r", b"\n"):
        return byte
    while data := read_at(file, byte, 1 << 16):
        end = data.find(b"\n") + 1
        byte += end or len(data)
        if end:
            break
    return byte
