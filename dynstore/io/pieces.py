"""Pieces of text files that grow: whole lines of CSV, TSV or JSON become columns."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np

from dynstore.errors import FileFormatError
from dynstore.io.lines import COMMENT_MARKS, shorten, split_fields
from dynstore.io.text import NO_ROW, SIGNS_OF_NO_ROW, is_header, see_delimiter

__all__ = ["LineReader", "is_row", "read_json_lines"]

USUAL = ("source", "destination")


class LineReader:
    """Reads rows of delimited text.

    Parameters
    ----------
    where : str
        The file, for messages.
    first : str
        Its first row.
    delimiter : str or None
        None: seen from the first row.
    header : bool or None
        Whether the first row has names; None: if none of its fields is a number. Without names, the first two columns
        are "source" and "destination", the others "2", "3" and so on.

    Attributes
    ----------
    names : list of str
    has_header : bool
    """

    def __init__(self, where: str, first: str, delimiter: str | None, header: bool | None) -> None:
        self._where = where
        self._delimiter = see_delimiter(first) if delimiter is None else delimiter
        fields = [field.strip() for field in split_fields(first, self._delimiter)]
        self.has_header = is_header(fields) if header is None else header
        self.names = fields if self.has_header else [*USUAL, *map(str, range(2, len(fields)))][: len(fields)]
        self._texts: set[str] = set()  # columns that had texts; what looks like a number there is a text, too

    def read(self, data: bytes) -> dict[str, np.ndarray]:
        """Return the columns of some whole lines.

        Raises
        ------
        FileFormatError
            For a line with more fields than the first.
        """
        import pandas

        if data.startswith((b"#", b"%", b" ", b"\t")) or any(sign in data for sign in SIGNS_OF_NO_ROW):
            data = NO_ROW.sub(b"", data)
        options: dict[str, Any] = {"sep": r"\s+"} if self._delimiter is None else {"sep": self._delimiter}
        try:
            frame = pandas.read_csv(
                io.BytesIO(data),
                header=None,
                names=self.names,
                index_col=False,
                dtype=dict.fromkeys(self._texts, "str"),
                skipinitialspace=True,
                **options,
            )
        except (pandas.errors.ParserError, pandas.errors.ParserWarning) as error:
            raise FileFormatError(f"{self._where}: {error}; the first row has {len(self.names)} fields") from error
        except pandas.errors.EmptyDataError:
            return {name: np.empty(0, np.int64) for name in self.names}
        columns = {name: np.asarray(frame[name].to_numpy()) for name in self.names}
        self._texts |= {name for name, column in columns.items() if column.dtype == object}
        return columns


def is_row(line: str) -> bool:
    """Whether a line has a row: it is not empty, and no comment."""
    stripped = line.strip()
    return bool(stripped) and not stripped.startswith(COMMENT_MARKS)


def read_json_lines(where: str, data: bytes) -> dict[str, list[Any]]:
    """Return the columns of lines with one JSON object each; an item that a line lacks is None.

    Raises
    ------
    FileFormatError
        For a line that is no JSON object.
    """
    lines = [line for line in data.split(b"\n") if line.strip()]
    try:
        rows = json.loads(b"[" + b",".join(lines) + b"]")
    except ValueError:
        rows = [_read_object(where, line) for line in lines]
    for line, row in zip(lines, rows, strict=False):
        if not isinstance(row, dict):
            raise FileFormatError(f"{where}: {shorten(line.decode(errors='replace'))} is no JSON object")
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _read_object(where: str, line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise FileFormatError(f"{where}: {shorten(line.decode(errors='replace'))} is no JSON: {error}") from error
