"""Delimited text: parsed in bulk by pandas, then checked in bulk; only faults are searched line by line."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dynstore.errors import FileFormatError, InputError
from dynstore.io.columns import ColumnChoice, Columns, find_columns
from dynstore.io.events import OP_DELETE, OP_SYMBOLS, EventTable
from dynstore.io.limits import Limits
from dynstore.io.lines import COMMENT_MARKS, WHOLE_NUMBER, Layout, find_fault, line_of_row, shorten, split_fields
from dynstore.io.numbering import number_ids

__all__ = ["NO_ROW", "SIGNS_OF_NO_ROW", "is_header", "parse_rows", "read_text", "see_delimiter"]

# Lines that pandas would take for rows: comments, and nothing but blanks and tabs.
NO_ROW = re.compile(rb"(?m)^[ \t]*(?:[#%][^\n]*|[ \t\r])(?:\n|\Z)")
SIGNS_OF_NO_ROW = (b"#", b"%", b"\n ", b"\n\t")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_text(
    where: str, data: bytes, choice: ColumnChoice, delimiter: str | None, header: bool | None, limits: Limits
) -> EventTable:
    """Read the bytes of a delimited text file.

    Parameters
    ----------
    where : str
        The file, for messages.
    data : bytes
    choice : ColumnChoice
    delimiter : str or None
        None: detected from the first row (tab, comma or semicolon, else any run of blanks).
    header : bool or None
        None: the first row is a header if columns are chosen by name or none of its fields is a number.
    limits : Limits

    Raises
    ------
    FileFormatError, InputError
    """
    start = len(BYTE_ORDER_MARK) if data.startswith(BYTE_ORDER_MARK) else 0
    skip, line_number, first = _first_row(data, start, 1)
    if first is None:
        empty = np.empty(0, np.int64)
        return EventTable(empty, empty.copy(), name=where)
    if delimiter is None:
        delimiter = see_delimiter(first)
    fields = [field.strip() for field in split_fields(first, delimiter)]
    names = None
    if _is_header(fields, choice, header):
        names = fields
        after = data.find(b"\n", skip) + 1 or len(data)
        skip, line_number, first = _first_row(data, after, line_number + 1)
        fields = split_fields(first, delimiter) if first is not None else names
    columns = find_columns(where, choice, names, len(fields))
    layout = Layout(delimiter, skip, line_number, len(fields), ragged=columns.op is not None)
    if first is None:
        data, layout = b"", Layout(delimiter, 0, line_number, len(fields), layout.ragged)
    return parse_rows(where, data, layout, columns, limits)


def _first_row(data: bytes, start: int, line_number: int) -> tuple[int, int, str | None]:
    """Return offset, line number and text of the first line at or after ``start`` that is no comment."""
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        line = data[start:end].decode("utf-8", errors="replace").rstrip("\r")
        if line.strip() and not line.lstrip().startswith(COMMENT_MARKS):
            return start, line_number, line
        start, line_number = end + 1, line_number + 1
    return len(data), line_number, None


def see_delimiter(line: str) -> str | None:
    """Return the delimiter of a row; None for any run of blanks."""
    for mark in ("\t", ",", ";"):
        if mark in line:
            return mark
    return None


def _is_header(fields: list[str], choice: ColumnChoice, header: bool | None) -> bool:
    if header is not None:
        return header
    return choice.has_names() or is_header(fields)


def is_header(fields: list[str]) -> bool:
    """Whether a first row looks like names: none of its fields is a number."""
    return not any(_is_number(field) for field in fields)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def parse_rows(where: str, data: bytes, layout: Layout, columns: Columns, limits: Limits) -> EventTable:
    """Parse the rows of ``data`` from ``layout.skip`` on, in the file's order.

    Ids that are texts are numbered. Else ``src`` or ``dst`` is uint64 if one of its ids is too large for int64.

    Raises
    ------
    FileFormatError
        Naming the file and the line of the first bad row.
    """
    frame = _parse(where, data, layout, columns, limits)
    if frame is None:
        empty = np.empty(0, np.int64)
        return EventTable(empty, empty.copy(), name=where)
    ends = [columns.source, columns.destination]
    if limits.any_ids and not all(_is_numeric(frame[column]) for column in ends):
        texts = _parse(where, data, layout, columns, limits, dict.fromkeys(ends, "str"))
        if not all(_mostly_numbers(texts[column]) for column in ends):
            frame, limits = texts, replace(limits, texts=True)
    src, dst = (_ids(frame[column], layout.first_id, limits) for column in ends)
    if src is None or dst is None:
        raise _fault(where, data, layout, columns, limits, "the ids cannot be read")
    if not layout.ragged and frame[layout.width - 1].isna().any():  # pandas fills in NaN for missing fields
        fault = find_fault(where, data, layout, columns, limits)
        if fault is not None:
            raise fault
    op = None
    if columns.op is not None:
        op = _op_codes(frame[columns.op])
        if op is None:
            raise _fault(where, data, layout, columns, limits, "the op column cannot be read")
    weight = None
    if columns.weight is not None:
        weight = _weights(frame[columns.weight], op)
        if weight is None:
            raise _fault(where, data, layout, columns, limits, "the weights cannot be read")
        if (np.abs(weight) > limits.max_weight).any():  # perhaps infinite, which is a weight
            fault = find_fault(where, data, layout, columns, limits)
            if fault is not None:
                raise fault
    time = None
    if columns.time is not None:
        time = _times(where, data, layout, columns, frame[columns.time])
    ids = None
    if limits.texts:
        src, dst, ids = number_ids(src, dst)
    return EventTable(np.asarray(src), np.asarray(dst), time, weight, op, where, ids)


def _parse(
    where: str, data: bytes, layout: Layout, columns: Columns, limits: Limits, types: Mapping[int, str] | None = None
) -> Any:
    """Return the frame of columns, typed as ``types`` has it, else by their contents; None for no rows."""
    import pandas

    body = data[layout.skip :]
    if any(sign in body for sign in SIGNS_OF_NO_ROW):
        body = NO_ROW.sub(b"", body)
    if not body.strip():
        return None
    used = columns.used()
    width = max(layout.width, used[-1] + 1)
    options: dict[str, Any] = {"dtype": {**(types or {})}}
    if layout.delimiter != ",":
        options["quoting"] = 3  # quotation marks have no meaning
    if layout.ragged:
        options["usecols"] = used  # so pandas accepts rows longer than the first
        options["dtype"][columns.op] = "category"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pandas.errors.ParserWarning)
            return pandas.read_csv(
                io.BytesIO(body),
                sep=r"\s+" if layout.delimiter is None else layout.delimiter,
                header=None,
                names=list(range(width)),
                index_col=False,
                low_memory=False,
                skipinitialspace=True,
                keep_default_na=False,
                na_values=[""],
                **options,
            )
    except UnicodeDecodeError as error:
        fault = None if limits.any_ids else find_fault(where, data, layout, columns, limits)
        raise fault or _not_utf8(where, data) from error
    except (ValueError, OverflowError) as error:  # ParserError is a ValueError
        fault = find_fault(where, data, layout, columns, limits)
        if fault is None and "Too many columns" in str(error):
            number = used[-1]
            raise InputError(
                f"{where}: no {columns.role(number)} column {number}; no row has so many fields"
            ) from error
        raise fault or FileFormatError(f"{where}: cannot be parsed: {str(error).strip().splitlines()[0]}") from error


def _not_utf8(where: str, data: bytes) -> FileFormatError:
    """Return the error for the first line that is not UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return FileFormatError(f"{where}:{line}: byte {data[error.start]:#04x} is not UTF-8; wanted a file in UTF-8")
    return FileFormatError(f"{where}: not UTF-8")


def _fault(
    where: str, data: bytes, layout: Layout, columns: Columns, limits: Limits, otherwise: str
) -> FileFormatError:
    return find_fault(where, data, layout, columns, limits) or FileFormatError(f"{where}: {otherwise}")


def _is_numeric(column: Any) -> bool:
    return bool(column.dtype.kind in "iuf")


def _mostly_numbers(column: Any) -> bool:
    """Whether at least half of a column's texts are whole numbers, so that the others are faults."""
    texts = column.dropna().str.strip()
    return not len(texts) or bool(2 * texts.str.match(WHOLE_NUMBER).sum() >= len(texts))


def _ids(column: Any, first_id: int, limits: Limits) -> Any:
    """Return the ids as texts, int64 or uint64; None if one cannot be an id."""
    if limits.texts:
        texts = column.str.strip()
        return None if texts.isna().any() or (texts == "").any() else texts
    if column.dtype.kind not in "iu" or int(column.min()) < first_id or int(column.max()) > limits.max_id:
        return None
    return column.to_numpy()


def _op_codes(column: Any) -> np.ndarray | None:
    categories = [str(symbol).strip() for symbol in column.cat.categories]
    if column.isna().any() or any(symbol not in OP_SYMBOLS for symbol in categories):
        return None
    table = np.array([OP_SYMBOLS.index(symbol) for symbol in categories], dtype=np.uint8)
    ops: np.ndarray = table[column.cat.codes.to_numpy()]
    return ops


def _weights(column: Any, op: np.ndarray | None) -> np.ndarray | None:
    if column.dtype.kind not in "iuf":
        return None
    weight: np.ndarray = column.to_numpy(np.float64)
    missing = np.isnan(weight)
    if missing.any() and (op is None or (missing & (op != OP_DELETE)).any()):
        return None
    return weight


def _times(where: str, data: bytes, layout: Layout, columns: Columns, column: Any) -> np.ndarray:
    """Return times that sort: numbers as they are, ISO dates as datetime64[us]."""
    import pandas

    times: np.ndarray
    if column.dtype == np.int64:
        times = column.to_numpy()
        return times
    bad = column.isna()
    if column.dtype == np.float64:
        if not bad.any():
            times = column.to_numpy()
            return times
    else:
        texts = column.astype(str).str.strip()
        dates = pandas.to_datetime(texts, format="ISO8601", utc=True, errors="coerce")
        if not dates.isna().any():
            times = dates.dt.tz_localize(None).to_numpy().astype("datetime64[us]")
            return times
        numbers = pandas.to_numeric(texts, errors="coerce")
        bad = dates.isna() if numbers.isna().iloc[0] else numbers.isna()  # all rows must be like the first
    number, fields = line_of_row(data, layout, int(np.argmax(bad.to_numpy())))
    got = shorten(fields[columns.time]) if columns.time is not None and columns.time < len(fields) else "nothing"
    raise FileFormatError(
        f"{where}:{number}: time {got} cannot be sorted with the rest; wanted numbers, or ISO dates such as "
        "2004-01, 2004-01-05 or 2004-01-05T12:30:00"
    )
