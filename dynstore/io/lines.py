"""Slow and exact reading of a text file, line by line, to find a faulty line."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass

from dynstore.errors import FileFormatError
from dynstore.io.columns import Columns
from dynstore.io.events import OP_SYMBOLS
from dynstore.io.limits import MAX_DIGITS, Limits

__all__ = ["COMMENT_MARKS", "Layout", "find_fault", "line_of_row", "shorten", "split_fields"]

COMMENT_MARKS = ("#", "%")
WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+\Z")


@dataclass(frozen=True)
class Layout:
    """The layout of a text file's rows.

    Attributes
    ----------
    delimiter : str or None
        None: any run of blanks and tabs.
    skip : int
        Bytes before the first row (comments, header).
    first_line : int
        The number (from 1) of the line that starts at ``skip``.
    width : int
        Fields of the first row.
    ragged : bool
        Whether rows may have other numbers of fields (files with an op column: deletions carry no weight).
    first_id : int
        The lowest id: 1 in Matrix Market files.
    """

    delimiter: str | None
    skip: int
    first_line: int
    width: int
    ragged: bool
    first_id: int = 0


def split_fields(line: str, delimiter: str | None) -> list[str]:
    """Split one line; only comma-separated fields may be quoted."""
    if delimiter is None:
        return line.split()
    if delimiter == ",":
        try:
            return next(csv.reader([line], skipinitialspace=True), [])
        except csv.Error:  # a field of more than 131,072 characters
            return line.split(",")
    return line.split(delimiter)


def shorten(text: str, limit: int = 40) -> str:
    """Return ``text`` for a message."""
    return repr(text if len(text) <= limit else text[:limit] + "...")


def _rows(data: bytes, layout: Layout) -> Iterator[tuple[int, list[str]]]:
    lines = data[layout.skip :].decode("utf-8", errors="replace").split("\n")
    for number, line in enumerate(lines, start=layout.first_line):
        line = line.rstrip("\r")
        stripped = line.strip()
        if stripped and not stripped.startswith(COMMENT_MARKS):
            yield number, [field.strip() for field in split_fields(line, layout.delimiter)]


def line_of_row(data: bytes, layout: Layout, row: int) -> tuple[int, list[str]]:
    """Return the line number and the fields of row ``row`` (from 0)."""
    for index, found in enumerate(_rows(data, layout)):
        if index == row:
            return found
    raise IndexError(row)


def find_fault(where: str, data: bytes, layout: Layout, columns: Columns, limits: Limits) -> FileFormatError | None:
    """Return the error for the first row that breaks a rule, or None if there is none.

    Times are not checked: their format depends on the whole column.
    """
    for number, fields in _rows(data, layout):
        problem = _row_problem(fields, layout, columns, limits)
        if problem:
            return FileFormatError(f"{where}:{number}: {problem}")
    return None


def _row_problem(fields: list[str], layout: Layout, columns: Columns, limits: Limits) -> str | None:
    count = len(fields)
    if not layout.ragged and count != layout.width:
        return f"the row has {count} fields; the first row has {layout.width}"
    op = None
    if columns.op is not None:
        op = fields[columns.op] if columns.op < count else ""
        if op not in OP_SYMBOLS:
            return f"op {shorten(op)} is none of '+', '-', 'w'"
    for role, column in (("source", columns.source), ("destination", columns.destination)):
        if column >= count:
            return f"the row has {count} fields; the {role} is column {column}"
        problem = _id_problem(role, fields[column], layout.first_id, limits)
        if problem:
            return problem
    if columns.time is not None and columns.time >= count:
        return f"the row has {count} fields; the time is column {columns.time}"
    if columns.weight is not None:
        return _weight_problem(fields, columns.weight, op, limits.max_weight)
    return None


def _id_problem(role: str, text: str, first_id: int, limits: Limits) -> str | None:
    if limits.texts:
        return None if text else f"{role} is empty; wanted an id"
    max_id = limits.max_id
    wanted = f"vertex ids are integers from {first_id} to {max_id}"
    if not WHOLE_NUMBER.match(text):
        return f"{role} {shorten(text)} is not a whole number; {wanted}" if text else f"{role} is empty; {wanted}"
    value = int(text) if len(text) < MAX_DIGITS else max_id + 1
    shown = shorten(text).strip("'")
    if value < first_id:
        return f"{role} {shown} is {'negative' if value < 0 else 'too small'}; {wanted}"
    if value > max_id:
        return f"{role} {shown} is too large; {wanted}"
    return None


def _weight_problem(fields: list[str], column: int, op: str | None, max_weight: float) -> str | None:
    text = fields[column] if column < len(fields) else ""
    if not text:
        return None if op == "-" else f"the row has no weight (column {column})"
    try:
        value = float(text)
    except ValueError:
        return f"weight {shorten(text)} is not a number"
    if value != value:
        return f"weight {shorten(text)} is not a number (NaN); wanted a number"
    if abs(value) > max_weight and "inf" not in text.lower():
        return f"weight {shorten(text)} is too large; wanted at most {max_weight:.8g}"
    return None
