"""Parquet files, through pyarrow (optional)."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynstore.errors import FileFormatError, InputError, MissingDependencyError
from dynstore.io.columns import ColumnChoice, find_columns
from dynstore.io.events import OP_DELETE, OP_SYMBOLS, EventTable
from dynstore.io.limits import Limits
from dynstore.io.numbering import number_ids

__all__ = ["read_parquet"]

MAX_INT64 = int(np.iinfo(np.int64).max)


def read_parquet(where: str, path: str, choice: ColumnChoice, limits: Limits) -> EventTable:
    """Read the chosen columns; rows are counted from 0 in messages.

    Ids that are texts are numbered. Else ``src`` or ``dst`` is uint64 if one of its ids is too large for int64.

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
            names = [header[number] for number in columns.used()]
            _refuse_repeated(where, names, header)
            table = file.read(columns=names)
            table.validate(full=True)
    except (pyarrow.ArrowException, OSError, ValueError) as error:  # damaged pages are OSErrors, names ValueErrors
        if isinstance(error, InputError):
            raise
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise FileFormatError(f"{where}: not a Parquet file that can be read: {why}") from error

    def column(number: int | None) -> Any:
        return None if number is None else table.column(header[number])

    src, dst, ids = _read_ids(where, column(columns.source), column(columns.destination), limits)
    op = None if columns.op is None else _ops(where, column(columns.op))
    weight = None if columns.weight is None else _weights(where, column(columns.weight), op, limits.max_weight)
    time = None if columns.time is None else _times(where, column(columns.time))
    return EventTable(src, dst, time, weight, op, where, ids)


def _refuse_repeated(where: str, names: list[str], header: list[str]) -> None:
    for name in names:
        if header.count(name) > 1:
            raise FileFormatError(f"{where}: {header.count(name)} columns are called {name!r}; wanted one")


def _fault(where: str, row: Any, problem: str) -> FileFormatError:
    return FileFormatError(f"{where}: row {int(row)}: {problem}")


def _no_nulls(where: str, role: str, column: Any) -> None:
    if column.null_count:
        row = np.argmax(column.is_null().to_numpy())
        raise _fault(where, row, f"the {role} is null; wanted a value")


def _is_text(kind: Any) -> bool:
    import pyarrow

    if pyarrow.types.is_dictionary(kind):
        kind = kind.value_type
    is_view = getattr(pyarrow.types, "is_string_view", lambda kind: False)  # newer than the oldest pyarrow we take
    return bool(pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind) or is_view(kind))


def _read_ids(where: str, src: Any, dst: Any, limits: Limits) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return sources and destinations, and what they stand for where they are numbered texts."""
    import pyarrow

    texts = limits.any_ids and (_is_text(src.type) or _is_text(dst.type))
    for role, column in (("source", src), ("destination", dst)):
        if not pyarrow.types.is_integer(column.type) and not (texts and _is_text(column.type)):
            wanted = "integers or texts" if limits.any_ids else "integers"
            raise FileFormatError(f"{where}: the {role} column has type {column.type}; vertex ids are {wanted}")
    if texts:
        src, dst = (column.cast(pyarrow.large_string()) for column in (src, dst))
    _no_nulls(where, "source", src)
    _no_nulls(where, "destination", dst)
    if texts:
        return number_ids(src.to_pandas(), dst.to_pandas())
    return _ids(where, "source", src, limits.max_id), _ids(where, "destination", dst, limits.max_id), None


def _ids(where: str, role: str, column: Any, max_id: int) -> np.ndarray:
    raw: np.ndarray = column.to_numpy()
    bad = raw > max_id if raw.dtype.kind == "u" else (raw < 0) | (raw > max_id)
    if bad.any():
        row = np.argmax(bad)
        fault = "negative" if raw[row] < 0 else "too large"
        raise _fault(where, row, f"{role} {raw[row]} is {fault}; vertex ids are integers from 0 to {max_id}")
    return raw if (raw > MAX_INT64).any() else raw.astype(np.int64)


def _ops(where: str, column: Any) -> np.ndarray:
    values = column.to_pylist()
    codes = np.empty(len(values), np.uint8)
    for row, symbol in enumerate(values):
        if symbol not in OP_SYMBOLS:
            raise _fault(where, row, f"op {symbol!r} is none of '+', '-', 'w'")
        codes[row] = OP_SYMBOLS.index(symbol)
    return codes


def _weights(where: str, column: Any, op: np.ndarray | None, max_weight: float) -> np.ndarray:
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
    bad = np.isfinite(weight) & (np.abs(weight) > max_weight)
    if bad.any():
        row = np.argmax(bad)
        raise _fault(where, row, f"weight {weight[row]:g} is too large; wanted at most {max_weight:.8g}")
    return weight


def _times(where: str, column: Any) -> np.ndarray:
    import pandas
    import pyarrow

    _no_nulls(where, "time", column)
    kind = column.type
    time: np.ndarray
    if pyarrow.types.is_integer(kind):
        raw: np.ndarray = column.to_numpy()
        if (raw > MAX_INT64).any():
            row = int(np.argmax(raw > MAX_INT64))
            raise _fault(where, row, f"time {raw[row]} is too large; wanted at most {MAX_INT64}")
        return raw.astype(np.int64)
    if pyarrow.types.is_date(kind) or pyarrow.types.is_timestamp(kind):
        time = column.to_numpy().astype("datetime64[us]")
        return time
    if pyarrow.types.is_floating(kind):
        time = column.to_numpy().astype(np.float64)
        if np.isnan(time).any():
            raise _fault(where, np.argmax(np.isnan(time)), "the time is NaN; wanted a number")
        return time
    if not _is_text(kind):
        raise FileFormatError(f"{where}: the time column has type {kind}; times are numbers, dates or texts")
    dates = pandas.to_datetime(pandas.Series(column.to_pylist()), format="ISO8601", utc=True, errors="coerce")
    if dates.isna().any():
        row = int(np.argmax(dates.isna().to_numpy()))
        raise _fault(where, row, f"time {str(column[row])!r} is neither a number nor an ISO date")
    time = dates.dt.tz_localize(None).to_numpy().astype("datetime64[us]")
    return time
