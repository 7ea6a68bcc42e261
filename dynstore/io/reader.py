"""One function for every file; the format is detected from the first bytes and the name."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import tarfile
import zlib
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import numpy as np

from dynstore.errors import FileFormatError, InputError, InputTypeError, type_name, unknown_name
from dynstore.io.columns import ColumnChoice
from dynstore.io.events import EventTable
from dynstore.io.limits import Limits
from dynstore.io.matrix_market import BANNER, read_matrix_market
from dynstore.io.metis import read_metis
from dynstore.io.numbering import MAX_ANY_ID, renumbered
from dynstore.io.parquet import read_parquet
from dynstore.io.text import read_text

__all__ = ["read_events"]

GZIP_MAGIC = b"\x1f\x8b"
XZ_MAGIC = b"\xfd7zXZ\x00"
BZIP2_MAGIC = b"BZh"
TAR_MAGIC, TAR_PLACE = b"ustar", 257
PARQUET_MAGIC = b"PAR1"
# 2^31 - 1 means "unreachable" in BFS, as in the stores.
MAX_ID = {"int32": 2**31 - 2, "int64": 2**63 - 2}
MAX_WEIGHT = {name: float(np.finfo(name).max) for name in ("float32", "float64")}
LONE_RETURN = re.compile(rb"\r(?!\r*(?:\n|\Z))")


def read_events(
    path: str | os.PathLike[str],
    source: str | int | None = None,
    destination: str | int | None = None,
    weight: str | int | None = None,
    time: str | int | None = None,
    op: str | int | None = None,
    delimiter: str | None = None,
    *,
    header: bool | None = None,
    vertex_dtype: str = "int32",
    weight_dtype: str = "float64",
    renumber: bool = False,
) -> EventTable:
    """Read an edge list or a stream of edge events.

    It reads text with blanks, tabs, commas or semicolons between fields, Matrix Market (coordinate), METIS (``.graph``)
    and Parquet files. All except Parquet may be compressed with gzip, xz or bzip2, or be in a tar archive like those of
    SuiteSparse: the file with the archive's name is read. Lines that start with ``#`` or ``%`` are comments.

    Parameters
    ----------
    path : str or path
        The file. "~" is the home folder.
    source, destination, weight, time, op : str or int, optional
        Columns by name (of the header or the Parquet schema) or by number, counted from 0; a number may be given as
        text. Without ``source`` or ``destination``: columns with the usual names (source, src, from, u; destination,
        dst, target, to, v), else the first columns that no other option takes. ``weight``, ``time`` and ``op`` are read
        only if given. A time column (numbers such as Unix times or yyyymmdd, or ISO dates and date-times) sorts the
        events, equal times keep the file's order. An op column holds ``+`` (insert), ``-`` (delete) or ``w`` (new
        weight); deletions may omit the weight.
        Matrix Market files have fixed columns: only ``weight="weight"`` may be given, not for a pattern; values always
        become weights. METIS files have fixed columns: none may be given.
    delimiter : str, optional
        One character; default: detected from the first row.
    header : bool, optional
        True if the first row holds names. By default it does if columns are given by name, or if none of its fields is
        a number.
    vertex_dtype : {"int32", "int64"}
        Ids above 2^31 - 2 (2^63 - 2) are refused, or numbered.
    weight_dtype : {"float32", "float64"}
        Finite weights that it cannot hold are refused.
    renumber : bool
        Take any ids: texts, and whole numbers up to 2^64 - 1. Ids are texts if fewer than half of a column are whole
        numbers. Texts, ids above ``vertex_dtype``'s limit and ids far apart (the highest is above 2^20 and above 16
        times the number of rows) are numbered 0, 1, 2, ... in the order of their first occurrence in the file; other
        ids stay as they are. By default ids are whole numbers, and stay as they are.

    Returns
    -------
    EventTable
        Its name is the file's name. ``ids`` has the ids of numbered vertices, if there are any.

    Raises
    ------
    FileFormatError
        For malformed rows, ids that are no integers, negative or too large, and weights that are no numbers; the
        message starts with "FILE:LINE: ".
    InputError
        For a file that does not exist or cannot be opened, and for columns that it does not have.
    MissingDependencyError
        For Parquet without pyarrow.
    """
    if vertex_dtype not in MAX_ID:
        raise unknown_name("read_events", "vertex_dtype", vertex_dtype, MAX_ID)
    if delimiter is not None and len(delimiter) != 1:
        raise InputError(f"read_events: delimiter {delimiter!r}; wanted one character")
    if not isinstance(path, str | os.PathLike):
        raise InputTypeError(f"read_events: path is a {type_name(path)}; wanted a str or a path")
    if weight_dtype not in MAX_WEIGHT:
        raise unknown_name("read_events", "weight_dtype", weight_dtype, MAX_WEIGHT)
    choice = ColumnChoice(source, destination, weight, time, op)
    where = os.path.expanduser(os.fspath(path))
    max_id = MAX_ID[vertex_dtype]
    limits = Limits(MAX_ANY_ID if renumber else max_id, MAX_WEIGHT[weight_dtype], renumber)
    data = _read_bytes(where)
    if data.startswith(PARQUET_MAGIC):
        table = read_parquet(where, where, choice, limits)
    else:
        _refuse_lone_returns(where, data)
        table = _read_other(where, data, choice, delimiter, header, limits)
    if renumber:
        table = renumbered(table, max_id)
    return replace(table, name=Path(where).name).sorted_by_time()


def _read_other(
    where: str, data: bytes, choice: ColumnChoice, delimiter: str | None, header: bool | None, limits: Limits
) -> EventTable:
    """Read the contents of a file that is not Parquet, though its name may say so."""
    if data.startswith(BANNER) or _suffix(where) == ".mtx":
        if choice not in (ColumnChoice(), ColumnChoice(weight="weight")):
            raise InputError(
                f"{where}: got {choice.named()}; the columns of a Matrix Market file are fixed. Leave these options "
                "out; weight='weight' reads the values"
            )
        table = read_matrix_market(where, data, limits)
        if choice.weight is not None and table.weight is None:
            raise InputError(
                f"{where}: got weight='weight'; a matrix of the field 'pattern' has no values. Leave it out"
            )
        return table
    if _suffix(where) == ".graph":
        if choice != ColumnChoice():
            raise InputError(
                f"{where}: got {choice.named()}; the columns of a METIS file are fixed. Leave these options out"
            )
        return read_metis(where, data, limits.max_id)
    if _suffix(where) == ".parquet":
        raise FileFormatError(f"{where}: not a Parquet file: it does not start with 'PAR1'")
    return read_text(where, data, choice, None if delimiter in (None, " ") else delimiter, header, limits)


def _refuse_lone_returns(where: str, data: bytes) -> None:
    """Refuse carriage returns that end no line, at which pandas would end one."""
    found = LONE_RETURN.search(data) if b"\r" in data else None
    if found is not None:
        line = data.count(b"\n", 0, found.start()) + 1
        raise FileFormatError(f"{where}:{line}: a carriage return without a line feed; a line ends in a line feed")


def _suffix(where: str) -> str:
    """Return the suffix of the format, without that of a compression."""
    path = Path(where.lower())
    return (path.with_suffix("") if path.suffix in (".gz", ".xz", ".bz2") else path).suffix


def _read_bytes(where: str) -> bytes:
    """Return the whole file, decompressed; for a Parquet file only its first bytes."""
    try:
        with open(where, "rb") as file:
            start = file.read(len(XZ_MAGIC))
            if start.startswith(PARQUET_MAGIC):
                return start
            file.seek(0)
            data = _unpack(start, file)
            return _read_member(where, data) if data.startswith(TAR_MAGIC, TAR_PLACE) else data
    except FileNotFoundError:
        raise InputError(f"read_events: no file {where!r}") from None
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile, tarfile.TarError) as error:
        raise FileFormatError(f"{where}: damaged or cut short: {error}") from error
    except OSError as error:
        raise InputError(f"read_events: cannot open {where!r}: {error.strerror or error}") from error


def _unpack(start: bytes, file: BinaryIO) -> bytes:
    """Return the decompressed contents of a file that begins with ``start``."""
    if start.startswith(GZIP_MAGIC):
        return gzip.GzipFile(fileobj=file).read()
    if start.startswith(XZ_MAGIC):
        return lzma.LZMAFile(file).read()
    return bz2.BZ2File(file).read() if start.startswith(BZIP2_MAGIC) else file.read()


def _read_member(where: str, data: bytes) -> bytes:
    """Return the archive's file with the archive's name: NAME.tar.gz holds NAME/NAME.mtx, and perhaps others."""
    name = Path(where).name.split(".tar")[0]
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        files = {Path(member.name).name: member for member in archive.getmembers() if member.isfile()}
        chosen = files.get(f"{name}.mtx")
        content = None if chosen is None else archive.extractfile(chosen)
        if content is None:
            raise FileFormatError(
                f"{where}: no {name}.mtx in the archive; it has {', '.join(sorted(files)) or 'no file'}"
            )
        return content.read()
