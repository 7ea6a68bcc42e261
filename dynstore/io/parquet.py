"""Parquet files, through pyarrow (optional)."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynstore.errors import FileFormatError, MissingDependencyError
from dynstore.io.columns import ColumnChoice, find_columns
from dynstore.io.events import OP_DELETE, OP_SYMBOLS, EventTable

__all__ = ["read_parquet"]


def read_parquet(where: str, path: str, choice: ColumnChoice, max_id: int) -> EventTable:
    """Read the chosen columns; rows are counted from 0 in messages.

    Raises
    ------
    MissingDependencyError
        Without pyarrow.
    FileFormatError, InputError
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingDependencyError(
            f"read_events: {where}: Parquet files need pyarrow: pip install 'dynstore[arrow]'"
        ) from error
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            header = list(file.schema_arrow.names)
            columns = find_columns(where, choice, header, len(header))
            table = file.read(columns=[header[number] for number in columns.used()])
    except pyarrow.ArrowException as error:
        raise FileFormatError(f"{where}: not a Parquet file that can be read: {str(error).splitlines()[0]}") from error

    def column(number: int | None) -> Any:
        return None if number is None else table.column(header[number])

    src = _ids(where, "source", column(columns.source), max_id)
    dst = _ids(where, "destination", column(columns.destination), max_id)
    op = None if columns.op is None else _ops(where, column(columns.op))
    weight = None if columns.weight is None else _weights(where, column(columns.weight), op)
    time = None if columns.time is None else _times(where, column(columns.time))
    return EventTable(src, dst, time, weight, op, where)


def _fault(where: str, row: Any, problem: str) -> FileFormatError:
    return FileFormatError(f"{where}: row {int(row)}: {problem}")


def _no_nulls(where: str, role: str, column: Any) -> None:
    if column.null_count:
        row = np.argmax(column.is_null().to_numpy())
        raise _fault(where, row, f"the {role} is null; wanted a value")


def _ids(where: str, role: str, column: Any, max_id: int) -> np.ndarray:
    import pyarrow

    if not pyarrow.types.is_integer(column.type):
        raise FileFormatError(f"{where}: the {role} column has type {column.type}; vertex ids are integers")
    _no_nulls(where, role, column)
    raw: np.ndarray = column.to_numpy()
    bad = raw > max_id if raw.dtype.kind == "u" else (raw < 0) | (raw > max_id)
    if bad.any():
        row = np.argmax(bad)
        fault = "negative" if raw[row] < 0 else "too large"
        raise _fault(where, row, f"{role} {raw[row]} is {fault}; vertex ids are integers from 0 to {max_id}")
    return raw.astype(np.int64)


def _ops(where: str, column: Any) -> np.ndarray:
    values = column.to_pylist()
    codes = np.empty(len(values), np.uint8)
    for row, symbol in enumerate(values):
        if symbol not in OP_SYMBOLS:
            raise _fault(where, row, f"op {symbol!r} is none of '+', '-', 'w'")
        codes[row] = OP_SYMBOLS.index(symbol)
    return codes


def _weights(where: str, column: Any, op: np.ndarray | None) -> np.ndarray:
    import pyarrow

    kind = column.type
    if not (pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind)):
        raise FileFormatError(f"{where}: the weight column has type {kind}; weights are numbers")
    weight: np.ndarray = column.cast(pyarrow.float64(), safe=False).to_numpy()  # nulls become NaN
    bad = np.isnan(weight)
    if op is not None:
        bad &= op != OP_DELETE
    if bad.any():
        raise _fault(where, np.argmax(bad), "the weight is NaN or null; wanted a number")
    return weight


def _times(where: str, column: Any) -> np.ndarray:
    import pandas
    import pyarrow

    _no_nulls(where, "time", column)
    kind = column.type
    time: np.ndarray
    if pyarrow.types.is_integer(kind):
        time = column.to_numpy().astype(np.int64)
        return time
    if pyarrow.types.is_temporal(kind):
        time = column.to_numpy().astype("datetime64[us]")
        return time
    if pyarrow.types.is_floating(kind):
        time = column.to_numpy().astype(np.float64)
        if np.isnan(time).any():
            raise _fault(where, np.argmax(np.isnan(time)), "the time is NaN; wanted a number")
        return time
    dates = pandas.to_datetime(pandas.Series(column.to_pylist()), format="ISO8601", utc=True, errors="coerce")
    if dates.isna().any():
        row = int(np.argmax(dates.isna().to_numpy()))
        raise _fault(where, row, f"time {str(column[row])!r} is neither a number nor an ISO date")
    time = dates.dt.tz_localize(None).to_numpy().astype("datetime64[us]")
    return time
