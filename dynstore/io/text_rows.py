"""Pieces of a text file become columns: split in bulk by pyarrow; only a fault is searched for line by line."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dynstore.errors import FileFormatError
from dynstore.io.cpu import EMPTY, HEX, LONE_RETURN, PADDED, ZEROS, scan
from dynstore.io.dialects import Dialect, split_fields, split_lines

__all__ = ["Place", "TextReader", "TextRows", "shorten"]

BLANKS = np.frombuffer(b" \t", np.uint8)
# Stands for "::" while a piece is split: a character that separates units, and nothing else.
UNIT = "\x1f"
A_LONE_RETURN = re.compile(rb"\r(?!\r*(?:\n|\Z))")
LINE = re.compile(rb"[^\n]*\n|[^\n]+\Z")
EMPTY_LINE = re.compile(rb"(?m)^[ \t\r]+(?:\n|\Z)")
_log = logging.getLogger("dynstore")

Place = tuple[int, list[str]]  # the number of a line, and its fields


def shorten(text: str, limit: int = 40) -> str:
    """Return ``text`` for a message."""
    return repr(text if len(text) <= limit else text[:limit] + "...")


class TextRows:
    """The rows of a piece, as columns of strings.

    Attributes
    ----------
    table : pyarrow.Table
        Its columns are called by their numbers: "0", "1" ...
    is_padded : bool
        Whether blanks may stand around fields.
    """

    def __init__(self, reader: TextReader, piece: bytes, first_line: int, table: Any, is_padded: bool) -> None:
        self.table, self._reader, self._piece, self._first_line = table, reader, piece, first_line
        self.is_padded = is_padded

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def has_nulls(self) -> bool:
        """Whether a field of a column that was read is empty."""
        return any(column.null_count for column in self.table.columns)

    def is_text(self, number: int) -> bool:
        """Whether a column was read as strings."""
        return str(self.table.column(str(number)).type) == "string"

    def typed(self, number: int) -> Any:
        """Return a column that was read by its type: an array, or a column of pyarrow with a dictionary.

        None if it has to be looked at as text. Empty fields of floats are NaN.
        """
        column = self.table.column(str(number))
        kind = str(column.type)
        if self.is_text(number) or (column.null_count and kind != "double"):
            return None
        if kind.startswith("dictionary"):
            return None if self.is_padded else column
        return column.to_numpy()

    def fault(self, row: int, problem: str) -> FileFormatError:
        """Return the error for a row, with its line."""
        line, _ = self.place(row)
        return FileFormatError(f"{self._reader.where}:{line}: {problem}")

    def place(self, row: int) -> Place:
        """Return the line of a row, and its fields."""
        for number, place in enumerate(self._reader.rows(self._piece, self._first_line)):
            if number == row:
                return place
        raise IndexError(row)


class TextReader:
    """Reads pieces of one text file, which begin and end with whole lines.

    Parameters
    ----------
    where : str
        The file, for messages.
    dialect : Dialect
    ragged : bool
        Whether rows may have other numbers of fields than ``dialect.width``: what is missing is null, what is too much
        is left out. Of files with operations, where deletions carry no weight.
    """

    def __init__(self, where: str, dialect: Dialect, ragged: bool = False) -> None:
        self.where, self.dialect, self.ragged = where, dialect, ragged
        self._widths: list[int] = []  # of pieces that are ragged: the most fields of a row; threads add theirs
        self._said: set[str] = set()  # of the warnings that are written once
        names = dialect.names or ()
        separator = r"[ \t]+" if dialect.delimiter is None else r"[ \t]*" + re.escape(dialect.delimiter) + r"[ \t]*"
        quote = '"?' if dialect.quoted else ""
        again = separator.join(f"{quote}{re.escape(name)}{quote}" for name in names)
        # Not of KONECT: its names stand in no line.
        self._header = (
            re.compile(rf"(?m)^[ \t]*{again}[ \t\r]*(?:\n|\Z)".encode()) if names and not dialect.konect else None
        )
        marks = "|".join(map(re.escape, dialect.comments))
        self._comment = re.compile(rf"(?m)^[ \t]*(?:{marks})[^\n]*(?:\n|\Z)".encode()) if marks else None

    @property
    def widest(self) -> int:
        """The most fields of a row, where they are ragged; 0 before the first piece."""
        return max(self._widths, default=0)

    def read(
        self,
        piece: bytes,
        first_line: int,
        used: Sequence[int],
        types: Mapping[int, str] | None = None,
        exact: bool = False,
    ) -> TextRows:
        """Return some columns of a piece.

        Parameters
        ----------
        piece : bytes
        first_line : int
            The number of its first line.
        used : sequence of int
            Numbers of columns.
        types : mapping, optional
            Number of a column -> "int64", "float64" or "dictionary", of strings; by default columns are strings. Empty
            fields are nulls. Columns of integers stay strings if one of them may have another spelling than usual.
        exact : bool
            Whether integers with leading zeros are none, either.

        Raises
        ------
        FileFormatError
            For a row that does not fit, with its line.
        pyarrow.ArrowInvalid
            For what is perhaps none of the type that was asked for; never without ``types``.
        """
        import pyarrow

        if self._looks_plain(piece, types or {}, exact):
            try:
                rows = self._read(piece, first_line, used, types, exact, 0)
            except (pyarrow.ArrowInvalid, FileFormatError):  # perhaps of what a scan finds
                rows = None
            # Between tabs or blanks, no value may be a line of blanks, or two blanks that stand together.
            if rows is not None and not (self.dialect.delimiter in (None, "\t") and rows.has_nulls()):
                return rows
        return self._read(piece, first_line, used, types, exact, scan(piece, self.dialect.delimiter))

    def _looks_plain(self, piece: bytes, types: Mapping[int, str], exact: bool) -> bool:
        """Whether a piece needs no scan, which takes a third of the time of reading pairs.

        Without blanks no field is padded. Between blanks more than one makes a row too long or a number null, if all
        columns are numbers.
        """
        if exact or any(letter in piece for letter in (b"\r", b"x", b"X")):
            return False
        if self.dialect.delimiter is None:
            kinds = [types.get(number) for number in range(self.dialect.width)]
            return b"\t" not in piece and not self.ragged and all(kind in ("int64", "float64") for kind in kinds)
        return not any(blank in piece for blank in (b" ", b"\t") if blank != self.dialect.delimiter.encode())

    def _read(
        self,
        piece: bytes,
        first_line: int,
        used: Sequence[int],
        types: Mapping[int, str] | None,
        exact: bool,
        signs: int,
    ) -> TextRows:
        import pyarrow
        import pyarrow.csv

        data = self._cleaned(piece, first_line, signs)
        delimiter = " " if self.dialect.delimiter is None else self.dialect.delimiter
        width = max(self.dialect.width, max(used) + 1) if self.ragged else self.dialect.width
        if self.ragged:
            data, width = self._padded(data, delimiter.encode(), width)
        names = [str(number) for number in range(width)]
        if not data or data.isspace():
            empty = pyarrow.table({name: pyarrow.array([], pyarrow.string()) for name in map(str, used)})
            return TextRows(self, piece, first_line, empty, False)
        has_odd = bool(signs & (HEX | ZEROS if exact else HEX))
        known = {
            "int64": pyarrow.string() if has_odd else pyarrow.int64(),
            "float64": pyarrow.float64(),
            "dictionary": pyarrow.dictionary(pyarrow.int32(), pyarrow.string()),
        }
        kinds = {str(number): known.get((types or {}).get(number, ""), pyarrow.string()) for number in used}
        try:
            table = pyarrow.csv.read_csv(
                pyarrow.BufferReader(data),
                pyarrow.csv.ReadOptions(column_names=names, block_size=1 << 20),
                pyarrow.csv.ParseOptions(
                    delimiter=delimiter if len(delimiter) == 1 else UNIT,
                    quote_char='"' if self.dialect.quoted else False,
                    newlines_in_values=False,
                ),
                pyarrow.csv.ConvertOptions(
                    column_types=kinds,
                    include_columns=[str(number) for number in used],
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=True,
                ),
            )
        except pyarrow.ArrowInvalid as error:
            fault = self._find_fault(piece, first_line)
            if fault is not None:
                raise fault from error
            if types:
                raise
            why = str(error).strip().splitlines()[0]
            raise FileFormatError(f"{self.where}: the lines from {first_line} on cannot be read: {why}") from error
        return TextRows(self, piece, first_line, table, bool(signs & PADDED))

    def rows(self, piece: bytes, first_line: int) -> Iterator[Place]:
        """Yield the rows of a piece, slowly, as :meth:`read` splits them.

        Raises
        ------
        FileFormatError
            For quotation marks that enclose no field.
        """
        for number, line in enumerate(split_lines(piece.decode("utf-8", errors="replace")), start=first_line):
            stripped = line.strip()
            if not stripped or (self.dialect.comments and stripped.startswith(self.dialect.comments)):
                continue
            if self._header is not None and self._header.fullmatch(line.encode()):
                continue
            try:
                yield number, split_fields(line, self.dialect.delimiter, self.dialect.quoted)
            except ValueError as error:
                raise FileFormatError(
                    f"{self.where}:{number}: quotation marks that enclose no field: {error}"
                ) from None

    def fitting(self, piece: bytes) -> bytes:
        """Return the lines of a piece that can be split into fields, or that are no rows."""
        lines = LINE.findall(piece)
        return b"".join(line for line in lines if not A_LONE_RETURN.search(line) and self._find_fault(line, 1) is None)

    # ------------------------------------------------------------------ lines that are no rows

    def _cleaned(self, piece: bytes, first_line: int, signs: int) -> bytes:
        """Return a piece whose lines are all rows, with one character between fields."""
        if signs & LONE_RETURN:
            self._refuse_lone_returns(piece, first_line)
        data, dialect = piece, self.dialect
        if self._comment is not None and any(mark.encode() in data for mark in dialect.comments):
            marks = " or ".join(dialect.comments)
            data = self._without(data, self._comment, f"lines that begin with {marks}, which are comments,")
        if self._header is not None and dialect.names is not None and dialect.names[0].encode() in data:
            data = self._without(data, self._header, "lines that repeat the header")
        if signs & EMPTY:
            data = EMPTY_LINE.sub(b"", data)
        if dialect.delimiter is None:
            return _with_single_blanks(data) if signs & PADDED else data
        if dialect.quoted and b'"' in data:
            data = self._with_plain_quotes(data, piece, first_line)
        if len(dialect.delimiter) > 1:
            return data.replace(dialect.delimiter.encode(), UNIT.encode())
        return data

    def _without(self, data: bytes, pattern: re.Pattern[bytes], what: str) -> bytes:
        data, count = pattern.subn(b"", data)
        if count and what not in self._said:
            self._said.add(what)
            _log.warning("%s: %d %s are left out, and others below", self.where, count, what)
        return data

    def _refuse_lone_returns(self, piece: bytes, first_line: int) -> None:
        """Refuse carriage returns that end no line, at which pyarrow would end one."""
        found = A_LONE_RETURN.search(piece) if b"\r" in piece else None
        if found is not None:
            line = piece.count(b"\n", 0, found.start()) + first_line
            raise FileFormatError(
                f"{self.where}:{line}: a carriage return without a line feed; a line ends in a line feed"
            )

    def _with_plain_quotes(self, data: bytes, piece: bytes, first_line: int) -> bytes:
        """Return a piece whose quotation marks stand next to delimiters and line ends only; refuse all others.

        Others than these pyarrow would take for letters, or drop. Most pieces have no others, and stay as they are.
        """
        letters, delimiter = np.frombuffer(data, np.uint8), self.dialect.delimiter or " "
        marks = np.flatnonzero(letters == ord('"'))
        ends = np.frombuffer(b'\n\r"' + delimiter.encode(), np.uint8)
        padded = np.concatenate((ends[:1], letters, ends[:1]))
        opens, closes = padded[marks[::2]], padded[marks[1::2] + 2]
        if len(marks) % 2 == 0 and np.isin(opens, ends).all() and np.isin(closes, ends).all():
            return data
        lines = []
        for _, fields in self.rows(piece, first_line):  # raises for what encloses no field
            quoted = ['"{}"'.format(field.replace('"', '""')) if field else "" for field in fields]
            lines.append(delimiter.join(quoted))
        return "\n".join(lines).encode()

    def _padded(self, data: bytes, delimiter: bytes, width: int) -> tuple[bytes, int]:
        """Return rows of equal width: delimiters are added where fields are missing."""
        mark = (UNIT.encode() if len(delimiter) > 1 else delimiter)[0]
        letters = np.frombuffer(data if data.endswith(b"\n") else data + b"\n", np.uint8)
        ends = np.flatnonzero(letters == ord("\n"))
        if self.dialect.quoted and b'"' in data:
            fields = np.array([len(fields) for _, fields in self.rows(data, 1)])
        else:
            fields = np.diff(np.searchsorted(np.flatnonzero(letters == mark), ends), prepend=0) + 1
        full = letters[ends - 1] != ord("\n")  # an empty line has no fields
        self._widths.append(int(fields.max(initial=0)))
        width = max(width, self.widest)
        missing = np.where(full, width - fields, 0)
        before = ends - (letters[ends - 1] == ord("\r"))
        return np.insert(letters, np.repeat(before, missing), mark).tobytes(), width

    # ------------------------------------------------------------------ faults

    def _find_fault(self, piece: bytes, first_line: int) -> FileFormatError | None:
        """Return the error for the first row that cannot be split into fields."""
        try:
            piece.decode()
        except UnicodeDecodeError as error:
            line = piece.count(b"\n", 0, error.start) + first_line
            bad = piece[error.start]
            return FileFormatError(f"{self.where}:{line}: byte {bad:#04x} is not UTF-8; wanted a file in UTF-8")
        try:
            return None if self.ragged else self._find_misfit(piece, first_line)
        except FileFormatError as error:  # quotation marks
            return error

    def _find_misfit(self, piece: bytes, first_line: int) -> FileFormatError | None:
        for line, fields in self.rows(piece, first_line):
            if len(fields) != self.dialect.width:
                mark = fields[0][:1]
                hint = f". If it is a comment, say comment={mark!r} (--comment {mark})" if mark in ("#", "%") else ""
                return FileFormatError(
                    f"{self.where}:{line}: the row has {len(fields)} fields; the first row has "
                    f"{self.dialect.width}{hint}"
                )
        return None


def _with_single_blanks(data: bytes) -> bytes:
    """Return a piece with one blank between fields, and none around a line."""
    letters = np.frombuffer(data, np.uint8)
    blank = np.isin(letters, BLANKS)
    # Of each run the first blank stays, unless a line begins with it.
    starts = np.concatenate(((True,), blank[:-1] | (letters[:-1] == ord("\n"))))
    kept = np.where(blank, np.uint8(ord(" ")), letters)[~(blank & starts)]
    return kept.tobytes().replace(b" \n", b"\n").replace(b" \r", b"\r").strip(b" ")
