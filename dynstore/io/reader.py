"""One function for every file; the format is found from the first bytes, and where these are not enough, the name."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from dynstore.arguments import check_name
from dynstore.errors import InputError, InputTypeError, type_name, without_secrets
from dynstore.io.columns import ColumnChoice
from dynstore.io.dialects import SAMPLE_BYTES, DialectChoice
from dynstore.io.dimacs import read_dimacs
from dynstore.io.events import EventTable
from dynstore.io.formats import Format, find_format
from dynstore.io.graphalytics import is_graphalytics, read_graphalytics
from dynstore.io.limits import Limits
from dynstore.io.matrix_market import read_matrix_market
from dynstore.io.metis import read_metis
from dynstore.io.networkx_files import read_by_networkx
from dynstore.io.numbering import MAX_ANY_ID, renumbered
from dynstore.io.packing import open_unpacked
from dynstore.io.tables import read_arrow, read_json_file
from dynstore.io.text import PIECE_BYTES, Read, read_text
from dynstore.io.text_values import IdKind
from dynstore.terminal import Advance, show_progress

__all__ = ["read_events"]

PARQUET, ARROW = b"PAR1", b"ARROW1"
# 2^31 - 1 means "unreachable" in BFS, as in the stores.
MAX_ID = {"int32": 2**31 - 2, "int64": 2**63 - 2}
MAX_WEIGHT = {name: float(np.finfo(name).max) for name in ("float32", "float64")}
# Their columns are fixed; the text says what may be chosen.
FIXED: dict[Format, str] = {"matrix market": "a Matrix Market file", "metis": "a METIS file", "dimacs": "a DIMACS file"}


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
    comment: str | None = None,
    ids: Literal["integer", "text"] | None = None,
    vertex_dtype: str = "int32",
    weight_dtype: str = "float64",
    renumber: bool = False,
    progress: bool = False,
) -> EventTable:
    """Read an edge list or a stream of edge events.

    The format is known by the file's content: delimited text, Matrix Market (coordinate), METIS, DIMACS, SNAP, KONECT,
    LDBC Graphalytics (its file of properties), lines of JSON objects, Parquet (a file or a folder), Arrow; GraphML, GML
    and Pajek through NetworkX. Text may be packed: gzip, bzip2, xz, zstd, zip, and tar archives like those of
    SuiteSparse, of which the file with the archive's name is read. Text is read in pieces of 8 MiB. How it is written
    is found from its first rows, and holds for the whole file. ``docs/reading.md`` has the rules.

    Parameters
    ----------
    path : str or path
        The file. "~" is the home folder.
    source, destination, weight, time, op : str or int, optional
        Columns by name (of the header or the schema) or by number, counted from 0; a number may be given as text.
        Without ``source`` or ``destination``: columns with the usual names (source, src, from, u ...; destination, dst,
        target, to, v ...), and in a file without a header the first columns that no other option takes. ``weight``,
        ``time`` and ``op`` are read only if given. A time column (numbers such as Unix times or yyyymmdd, or ISO dates
        and date-times) sorts the events, equal times keep the file's order. An op column holds ``+`` (insert), ``-``
        (delete) or ``w`` (new weight); deletions may omit the weight.
        Matrix Market, METIS, DIMACS, GraphML, GML and Pajek have fixed columns: only ``weight="weight"`` may be given,
        and of METIS none.
    delimiter : str, optional
        What stands between two fields: a character, or "::"; " " means any run of blanks and tabs. By default it is
        found.
    header : bool, optional
        True if the first row has names. By default it has if columns are given by name, if two of its fields are usual
        names, or if there are texts above a column of numbers.
    comment : str, optional
        What lines begin with that are left out; "" for none. By default "#" and "%", if there are such lines above the
        first row.
    ids : {"integer", "text"}, optional
        What ids in text and JSON are, with ``renumber=True``. By default integers if all in the first rows are, and
        would be written so again; 007 would not.
    vertex_dtype : {"int32", "int64"}
        Ids above 2^31 - 2 (2^63 - 2) are refused, or numbered.
    weight_dtype : {"float32", "float64"}
        Finite weights that it cannot hold are refused.
    renumber : bool
        Take any ids: strings, and whole numbers up to 2^64 - 1. Strings, ids above ``vertex_dtype``'s limit and ids far
        apart (the highest is above 2^20 and above 16 times the number of rows) are numbered 0, 1, 2, ... in the order
        of their first occurrence in the file; other ids stay as they are. By default ids are whole numbers, and stay as
        they are.
    progress : bool
        Show on a terminal how much of the file is read.

    Returns
    -------
    EventTable
        Its name is the file's name. ``ids`` has the ids of numbered vertices, if there are any; ``dialect`` says how
        the file is written and which columns were taken.

    Raises
    ------
    FileFormatError
        For rows that do not fit, ids that are no integers, negative or too large, and weights that are no numbers; the
        message starts with "FILE:LINE: ". For formats that are not read: it says what reads them.
    InputError
        For a file that does not exist or cannot be opened, for columns that it does not have, and where it is not clear
        which columns are meant, or whether the first row has names.
    MissingDependencyError
        For GraphML, GML and Pajek without NetworkX.
    """
    check_name("read_events", "vertex_dtype", vertex_dtype, MAX_ID)
    check_name("read_events", "weight_dtype", weight_dtype, MAX_WEIGHT)
    check_name("read_events", "ids", "integer" if ids is None else ids, ("integer", "text"))
    if not isinstance(path, str | os.PathLike):
        raise InputTypeError(f"read_events: path is a {type_name(path)}; wanted a str or a path")
    if ids == "text" and not renumber:
        raise InputError("read_events: ids is 'text', which needs renumber=True")
    choice = ColumnChoice(source, destination, weight, time, op)
    where = os.path.expanduser(os.fspath(path))
    if "://" in where and not os.path.exists(where):
        raise InputError(
            f"read_events: {without_secrets(where)!r} is an address; wanted the path of a file. dynstore.Stream reads "
            "addresses"
        )
    max_id = MAX_ID[vertex_dtype]
    limits = Limits(MAX_ANY_ID if renumber else max_id, MAX_WEIGHT[weight_dtype], renumber)
    with show_progress(progress) as (advance, _):
        table = _read(where, choice, DialectChoice(_check_delimiter(delimiter), header, comment), limits, ids, advance)
    if renumber:
        table = renumbered(table, max_id)
    return replace(table, name=Path(where).name).sorted_by_time()


def _check_delimiter(delimiter: str | None) -> str | None:
    if delimiter is None or len(delimiter) == 1 or delimiter == "::":
        return delimiter
    raise InputError(f"read_events: delimiter {delimiter!r}; wanted one character, or '::'")


def _read(
    where: str, choice: ColumnChoice, dialects: DialectChoice, limits: Limits, ids: IdKind | None, advance: Advance
) -> EventTable:
    if os.path.isdir(where):
        if not any(name.endswith(".parquet") for _, _, names in os.walk(where) for name in names):
            raise InputError(f"read_events: cannot open {where!r}: Is a directory without files of Parquet")
        return read_arrow(where, "Parquet", choice, limits, ids)
    if is_graphalytics(where):
        found = read_graphalytics(where)
        if found.weighted and choice.weight == "weight":
            choice = replace(choice, weight=2)
        return _read(str(found.edges), choice, dialects, limits, ids, advance)
    with open_unpacked(where) as opened:
        name = Path(where).name

        def read(size: int) -> bytes:
            advance(name, opened.done(), opened.size)
            found: bytes = opened.content.read(size)
            return found

        head = b""
        while len(head) <= SAMPLE_BYTES and (more := read(SAMPLE_BYTES + 1)):
            head += more
        if head.startswith(PARQUET):
            return read_arrow(where, "Parquet", choice, limits, ids)
        if head.startswith(ARROW):
            return read_arrow(where, "Arrow", choice, limits, ids)
        return _read_other(where, find_format(where, head), head, read, choice, dialects, limits, ids)


def _read_other(
    where: str,
    kind: Format,
    head: bytes,
    read: Read,
    choice: ColumnChoice,
    dialects: DialectChoice,
    limits: Limits,
    ids: IdKind | None,
) -> EventTable:
    if kind in FIXED or kind in ("graphml", "gml", "pajek"):
        allowed = (ColumnChoice(), replace(ColumnChoice(), weight=choice.weight))
        if choice not in (allowed[:1] if kind == "metis" else allowed):
            raise InputError(
                f"{where}: got {choice.named()}; the columns of {FIXED.get(kind, f'a file of {kind}')} are fixed. "
                "Leave these options out" + ("" if kind == "metis" else "; weight='weight' reads the values")
            )
    if kind == "text":
        return read_text(where, head, read, choice, dialects, limits, ids)
    if kind == "matrix market":
        return read_matrix_market(where, head, read, choice.weight is not None, limits)
    if kind == "dimacs":
        return read_dimacs(where, head, read, choice.weight is not None, limits)
    data = head + b"".join(iter(lambda: read(PIECE_BYTES), b""))
    if kind == "metis":
        return read_metis(where, data, limits.max_id)
    if kind == "json lines":
        return read_json_file(where, data, choice, limits, ids)
    return read_by_networkx(where, data, kind, None if choice.weight is None else str(choice.weight))
