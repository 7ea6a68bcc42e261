"""Files that are packed: they are recognised by their first bytes, and unpacked while they are read."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from dynstore.errors import FileFormatError, InputError

__all__ = ["Opened", "is_packed", "open_unpacked", "plain_suffix"]

GZIP, XZ, BZIP2, ZSTD, ZIP = b"\x1f\x8b", b"\xfd7zXZ\x00", b"BZh", b"\x28\xb5\x2f\xfd", b"PK\x03\x04"
SUFFIXES = (".gz", ".xz", ".bz2", ".zst", ".zip")
# A packed file may unpack to so many bytes, or to so many times its size if that is more. Lists of edges are packed to
# a third up to a twentieth; gzip can pack to a thousandth, the others to less than a millionth.
FREE_BYTES, MOST_TIMES = 1 << 30, 1000
TAR, TAR_PLACE = b"ustar", 257
TAR_HEAD = 512


class Opened:
    """The contents of a file.

    Attributes
    ----------
    content : object
        It has the method ``read`` of a binary file. Unpacked.
    size : int
        Bytes of the file on the disk.
    """

    def __init__(self, raw: BinaryIO, content: Any) -> None:
        self._raw, self.content = raw, content
        self.size = os.fstat(raw.fileno()).st_size

    def done(self) -> int:
        """Return how many of the bytes on the disk are read."""
        return self._raw.tell()


def is_packed(start: bytes) -> bool:
    """Whether a file that begins with ``start`` is packed."""
    return start.startswith((GZIP, XZ, BZIP2, ZSTD, ZIP))


def plain_suffix(where: str) -> str:
    """Return the suffix of the format, in lower case, without that of a compression."""
    path = Path(where.lower())
    return (path.with_suffix("") if path.suffix in SUFFIXES else path).suffix


@contextmanager
def open_unpacked(where: str) -> Iterator[Opened]:
    """Open a file, unpacked: of an archive (tar, zip) the only file, or the one that has the archive's name.

    Raises
    ------
    InputError
        If there is no such file, or it cannot be opened.
    FileFormatError
        If it is damaged or cut short, or an archive of several files of other names; when more than 1 GiB and a
        thousand times its size are read.
    """
    try:
        with open(where, "rb") as raw:
            start = raw.read(len(XZ))
            raw.seek(0)
            content = _unpack(where, start, raw)
            opened = Opened(raw, content)
            if is_packed(start):
                opened.content = _Bounded(where, content, max(FREE_BYTES, MOST_TIMES * opened.size))
            yield opened
    except FileNotFoundError:
        raise InputError(f"read_events: no file {where!r}") from None
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile, tarfile.TarError, zipfile.BadZipFile) as error:
        raise FileFormatError(f"{where}: damaged or cut short: {error}") from error
    except OSError as error:
        if error.errno is None:  # of a decompressor
            raise FileFormatError(f"{where}: damaged or cut short: {error}") from error
        raise InputError(f"read_events: cannot open {where!r}: {error.strerror or error}") from error


def _unpack(where: str, start: bytes, raw: BinaryIO) -> Any:
    if start.startswith(ZIP):
        return _open_zipped(where, raw)
    content: Any = raw
    if start.startswith(GZIP):
        content = gzip.GzipFile(fileobj=raw)
    elif start.startswith(XZ):
        content = lzma.LZMAFile(raw)  # noqa: SIM115
    elif start.startswith(BZIP2):
        content = bz2.BZ2File(raw)
    elif start.startswith(ZSTD):
        content = _open_zstandard(where, raw)
    content = io.BufferedReader(content, 1 << 20) if not isinstance(content, io.BufferedIOBase) else content
    head = content.read(TAR_HEAD)
    content = _Rest(head, content)
    return _open_member(where, content) if head.startswith(TAR, TAR_PLACE) else content


class _Rest(io.RawIOBase):
    """A file whose first bytes were read already."""

    def __init__(self, head: bytes, rest: Any) -> None:
        self._head, self._rest = head, rest

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if not self._head:
            found: bytes = self._rest.read(size)
            return found
        if size < 0:
            head, self._head = self._head, b""
            return head + bytes(self._rest.read())
        head, self._head = self._head[:size], self._head[size:]
        return head if len(head) == size else head + bytes(self._rest.read(size - len(head)))


class _Bounded:
    """What is unpacked, up to a limit: a small file may unpack to more than any memory holds."""

    def __init__(self, where: str, content: Any, most: int) -> None:
        self._where, self._content, self._left, self._most = where, content, most, most

    def read(self, size: int) -> bytes:
        found = bytes(self._content.read(size))
        self._left -= len(found)
        if self._left < 0:
            raise FileFormatError(
                f"{self._where}: unpacks to more than {self._most:,} bytes, which is more than lists of edges do; if "
                "it is meant, unpack it first"
            )
        return found


def _open_zstandard(where: str, raw: BinaryIO) -> Any:
    import pyarrow

    return pyarrow.CompressedInputStream(pyarrow.PythonFile(raw, "r"), "zstd")


def _open_zipped(where: str, raw: BinaryIO) -> Any:
    archive = zipfile.ZipFile(raw)
    files = [name for name in archive.namelist() if not name.endswith("/")]
    if any(name == "[Content_Types].xml" for name in files):
        raise FileFormatError(f"{where}: a document of Office; pandas.read_excel reads tables of Excel")
    if files and all(name.endswith(".npy") for name in files):
        raise FileFormatError(f"{where}: arrays of NumPy; numpy.load or scipy.sparse.load_npz reads them")
    return _Rest(b"", archive.open(_chosen(where, files)))


def _open_member(where: str, content: Any) -> Any:
    archive = tarfile.open(fileobj=content, mode="r|")  # noqa: SIM115
    wanted = f"{Path(where).name.split('.tar')[0]}.mtx"
    names = []
    for member in archive:
        if member.isfile():
            names.append(Path(member.name).name)
            if names[-1] == wanted:
                return archive.extractfile(member)
    raise FileFormatError(f"{where}: no {wanted} in the archive; it has {', '.join(sorted(names)) or 'no file'}")


def _chosen(where: str, files: list[str]) -> str:
    """Return the name of the only file of an archive, or of the one that is called as the archive."""
    stem = Path(where).name.removesuffix(".zip")
    named = [name for name in files if Path(name).name in (stem, f"{stem}.mtx", f"{stem}.txt", f"{stem}.csv")]
    if len(files) == 1 or len(named) == 1:
        return (files if len(files) == 1 else named)[0]
    raise FileFormatError(f"{where}: the archive has {', '.join(sorted(files)) or 'no file'}; wanted one file")
