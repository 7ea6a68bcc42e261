"""What a position of a file says of that file, and where the file is after it was renamed, copied or packed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from dynstore.errors import DynstoreError, InputError, shown
from dynstore.io.packing import is_packed, open_unpacked

__all__ = [
    "HEAD_BYTES",
    "TAIL_BYTES",
    "Copy",
    "Place",
    "end_of_line",
    "find_renamed",
    "find_rotated",
    "open_raw",
    "read_at",
    "signature",
]

HEAD_BYTES, TAIL_BYTES = 4096, 1024  # so many of a file's first bytes, and of those before a position, are compared
PACKED = r"(?:\.(?:gz|xz|bz2|zst))?"
DIGITS = r"[.\-_]?\d[\d.\-_:T]*"
LARGEST_COUNT = 9999  # larger numbers in names of rotated files are dates


class Place(NamedTuple):
    """A byte of a file, and what the file is recognised by.

    Attributes
    ----------
    byte : int
    device, inode : int
    head, tail : (int, int)
        How many bytes, and their checksum: of the first bytes, and of the last ones before the byte.
    time : int
        When the file was last changed, as known when these bytes were read, in nanoseconds.
    """

    byte: int
    device: int
    inode: int
    head: Sequence[int]
    tail: Sequence[int]
    time: int

    @classmethod
    def of(cls, position: Any) -> Place:
        """Return what a position says.

        Raises
        ------
        InputError
            If it is none of a file.
        """
        try:
            place = cls(**{name: position[name] for name in cls._fields})
            if [len(place.head), len(place.tail), min(place.byte, *place.head, *place.tail) >= 0] == [2, 2, True]:
                return place
        except (KeyError, TypeError):
            pass
        raise InputError(f"FileSource: cannot go on at {shown(position)}; wanted a position of a FileSource")

    @classmethod
    def at(cls, file: BinaryIO, byte: int) -> Place:
        """Return a place of an open file."""
        status, first = os.fstat(file.fileno()), max(0, byte - TAIL_BYTES)
        head, tail = read_at(file, 0, min(byte, HEAD_BYTES)), read_at(file, first, byte - first)
        return cls(byte, status.st_dev, status.st_ino, signature(head), signature(tail), status.st_mtime_ns)

    @property
    def node(self) -> tuple[int, int]:
        """The file of the file system; a new one may have the node of one that is removed."""
        return self.device, self.inode

    def fits(self, file: BinaryIO) -> bool:
        """Whether a file has the same bytes before the place."""
        head = signature(read_at(file, 0, self.head[0]))
        tail = signature(read_at(file, self.byte - self.tail[0], self.tail[0]))
        return (list(head), list(tail)) == (list(self.head), list(self.tail))


class Copy(NamedTuple):
    """A file beside another one, with a name that rotation gives.

    ``order``: of two files, that which was changed last comes last; if the clock does not tell, the names do.
    """

    path: Path
    node: tuple[int, int]
    order: tuple[int, int]


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


def open_raw(path: Path) -> tuple[BinaryIO, bool] | None:
    """Open a file without a buffer, and say whether it was unpacked for that; None if there is none to be read."""
    with contextlib.ExitStack() as opened:
        try:
            file: Any = opened.enter_context(path.open("rb", buffering=0))
            is_one = is_packed(read_at(file, 0, 8))
            if is_one:
                packed, file = file, opened.enter_context(tempfile.TemporaryFile(buffering=0))
                with open_unpacked(str(path)) as unpacked:
                    shutil.copyfileobj(unpacked.content, file, 1 << 20)
                packed.close()
        except (OSError, DynstoreError):  # it has just been renamed, or is being packed
            return None
        opened.pop_all()
        return file, is_one


def find_renamed(path: Path, node: tuple[int, int]) -> Copy | None:
    """Return the file of the file system with another name in the folder of ``path``."""
    for entry in _entries(path.parent):
        if entry.inode() == node[1] and entry.name != path.name:
            found = _copy(path, entry)
            if found is not None and found.node == node:
                return found
    return None


def find_rotated(path: Path, like: Path | None, wide: bool = False) -> list[Copy]:
    """Return files beside ``path`` with names that rotation gives, the oldest first.

    These are the name with digits behind it, such as pay.csv.1 and pay.csv-20260131.gz, and names that differ from
    ``like`` in digits only. With ``wide`` the digits may stand before the suffix, as in pay-20260131.csv. A packed file
    is left out if it is there unpacked, too.
    """
    names = [re.escape(path.name) + DIGITS]
    if wide:
        names.append(re.escape(path.stem) + DIGITS + re.escape(path.suffix))
    if like is not None:
        name, shared = re.sub(PACKED + "$", "", like.name), 0
        while name[: shared + 1] == path.name[: shared + 1] and shared < len(name):
            shared += 1
        names.append(re.escape(name[:shared]) + re.sub(r"\d+", r"\\d+", re.escape(name[shared:])))
    pattern, found = re.compile(f"(?P<plain>{'|'.join(names)}){PACKED}"), dict[str, Copy]()
    for entry in _entries(path.parent):
        said = pattern.fullmatch(entry.name)
        if said and entry.name != path.name and (said["plain"] not in found or said["plain"] == entry.name):
            copy = _copy(path, entry)
            if copy is not None:
                found[said["plain"]] = copy
    return sorted(found.values(), key=lambda copy: copy.order)


def _copy(path: Path, entry: os.DirEntry[str]) -> Copy | None:
    try:
        status = entry.stat()
    except OSError:  # it was renamed
        return None
    # Of two files with the same time, pay.csv.2 is older than pay.csv.1, and pay.csv-20260101 than pay.csv-20260131.
    rest = re.sub(PACKED + "$", "", entry.name.removeprefix(path.name))
    number = int("".join(re.findall(r"\d", rest)) or 0)
    order = status.st_mtime_ns, -number if number <= LARGEST_COUNT else number
    return Copy(Path(entry.path), (status.st_dev, status.st_ino), order)


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                if entry.is_file():
                    yield entry
            except OSError:
                continue
