"""Files whose columns have types: Parquet (a file or a folder), Arrow, lines of JSON. They are read as frames are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from dynstore.backend import get_backend
from dynstore.errors import FileFormatError, InputError
from dynstore.ids.columns import StringKeys, read_keys
from dynstore.input.columns import read_numbers
from dynstore.input.forms import take_rows
from dynstore.input.ops import OP_DELETE, read_ops
from dynstore.input.times import read_times
from dynstore.io.columns import ColumnChoice, FileColumns, find_columns
from dynstore.io.events import EventTable
from dynstore.io.json_lines import read_json_lines
from dynstore.io.limits import Limits
from dynstore.io.numbering import number_ids
from dynstore.io.text_values import IdKind

__all__ = ["read_arrow", "read_json_file"]

MAX_INT64 = int(np.iinfo(np.int64).max)


def read_arrow(
    where: str, kind: Literal["Parquet", "Arrow"], choice: ColumnChoice, limits: Limits, ids: IdKind | None
) -> EventTable:
    """Read the chosen columns of a file of Parquet or Arrow (Feather), or of all files of Parquet in a folder.

    Those of a folder are read in the order of their names.

    Raises
    ------
    FileFormatError, InputError
    """
    import pyarrow

    try:
        with _open(where, kind) as opened:
            header = list(opened.names)
            columns = find_columns(where, choice, header, len(header))
            names = [header[number] for number in columns.used()]
            for name in names:
                if header.count(name) > 1:
                    raise FileFormatError(f"{where}: {header.count(name)} columns are called {name!r}; wanted one")
            table = opened.read(names)
        table.validate(full=True)
    except (pyarrow.ArrowException, OSError, ValueError) as error:  # damaged pages are OSErrors, names ValueErrors
        if isinstance(error, InputError):
            raise
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise FileFormatError(f"{where}: not a {kind} file that can be read: {why}") from error
    taken = f"{kind}; {columns.said(header)}"
    return replace(_events_of(where, columns, lambda number: table.column(header[number]), limits, ids), dialect=taken)


class _Table(NamedTuple):
    """A file that is open: the names of its columns, and what reads some of them."""

    names: list[str]
    read: Callable[[list[str]], Any]


@contextmanager
def _open(where: str, kind: str) -> Iterator[_Table]:
    if os.path.isdir(where):
        import pyarrow.dataset

        found = pyarrow.dataset.dataset(where, format="parquet")
        yield _Table(list(found.schema.names), lambda names: found.to_table(columns=names))
    elif kind == "Parquet":
        import pyarrow.parquet

        with pyarrow.parquet.ParquetFile(where) as file:
            yield _Table(list(file.schema_arrow.names), lambda names: file.read(columns=names))
    else:
        import pyarrow

        with pyarrow.memory_map(where) as mapped, pyarrow.ipc.open_file(mapped) as reader:
            whole = reader.read_all()
            yield _Table(list(whole.column_names), whole.select)


def read_json_file(where: str, data: bytes, choice: ColumnChoice, limits: Limits, ids: IdKind | None) -> EventTable:
    """Read lines of JSON objects; an item that a line lacks is null."""
    found = read_json_lines(where, data)
    header = list(found)
    if not header:
        empty = np.empty(0, np.int64)
        return EventTable(empty, empty.copy(), name=where)
    columns = find_columns(where, choice, header, len(header))
    taken = f"lines of JSON; {columns.said(header)}"
    return replace(_events_of(where, columns, lambda number: found[header[number]], limits, ids), dialect=taken)


def _events_of(
    where: str, columns: FileColumns, column: Callable[[int], Any], limits: Limits, ids: IdKind | None
) -> EventTable:
    """Return events of columns of any types, read as those of frames."""
    host, weight, time = get_backend("cpu"), None, None
    try:
        op = None if columns.op is None else read_ops(where, "op", column(columns.op), reweights=True)
        src, dst, names = _read_ids(where, [column(columns.source), column(columns.destination)], limits, ids)
        if columns.weight is not None:
            weight = _read_weights(where, column(columns.weight), op, limits.max_weight)
        if columns.time is not None:
            time, dated = read_times(where, host, "time", column(columns.time))
            time = time.view("M8[ns]") if dated else time
    except FileFormatError:
        raise
    except InputError as error:
        raise FileFormatError(str(error)) from error
    return EventTable(src, dst, time, weight, op, where, names)


def _read_ids(
    where: str, columns: Sequence[Any], limits: Limits, ids: IdKind | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return sources and destinations, and what they stand for where they are numbered texts."""
    host, roles = get_backend("cpu"), ("source", "destination")
    given = [
        list(map(_as_text, column)) if ids == "text" and isinstance(column, list) else column for column in columns
    ]
    keys = [read_keys(where, host, role, column) for role, column in zip(roles, given, strict=True)]
    texts = [isinstance(key, StringKeys) for key in keys]
    if (any(texts) or ids == "text") and limits.any_ids and ids != "integer":
        both = [key.all() if isinstance(key, StringKeys) else key.astype(str).astype(object) for key in keys]
        return number_ids(*both)
    for role, key, is_text in zip(roles, keys, texts, strict=True):
        if is_text:
            raise FileFormatError(f"{where}: `{role}` has {key.all()[0]!r} (str) at row 0; vertex ids are integers")
        bad = (key < 0) if key.dtype.kind == "i" else np.zeros(len(key), np.bool_)
        bad |= key > limits.max_id if limits.max_id <= MAX_INT64 or key.dtype.kind == "u" else False
        if bad.any():
            row = int(bad.argmax())
            fault = "negative" if key[row] < 0 else "too large"
            raise FileFormatError(
                f"{where}: `{role}` has {key[row]} at row {row}, which is {fault}; "
                f"vertex ids are integers from 0 to {limits.max_id}"
            )
    src, dst = (key if (key > MAX_INT64).any() else key.astype(np.int64) for key in keys)
    return src, dst, None


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _read_weights(where: str, column: Any, op: np.ndarray | None, max_weight: float) -> np.ndarray:
    found = np.full(len(column), np.nan)
    if op is None:
        found[:] = read_numbers(where, get_backend("cpu"), "weight", column)
        bad = np.isnan(found)
    else:  # rows that delete may have anything there
        given = np.flatnonzero(op != OP_DELETE)
        (chosen,) = take_rows((column,), given)
        found[given] = read_numbers(where, get_backend("cpu"), "weight", chosen)
        bad = np.isnan(found) & (op != OP_DELETE)
    if bad.any():
        raise FileFormatError(f"{where}: `weight` is NaN at row {int(bad.argmax())}; a weight must be a number")
    bad = np.isfinite(found) & (np.abs(found) > max_weight)
    if bad.any():
        row = int(bad.argmax())
        raise FileFormatError(
            f"{where}: `weight` has {found[row]:g} at row {row}, which is too large; wanted at most {max_weight:.8g}"
        )
    return found
