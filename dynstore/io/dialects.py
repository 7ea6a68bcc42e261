"""How a text file is written: what stands between its fields, quotes, comments, a header. Found from its first rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dynstore.errors import FileFormatError, InputError
from dynstore.io.columns import USUAL_NAMES

__all__ = [
    "SAMPLE_BYTES",
    "Dialect",
    "DialectChoice",
    "find_dialect",
    "first_rows",
    "is_number",
    "konect_kind",
    "split_fields",
    "split_lines",
]

# What decides how a file is written, and which types its columns have: the rows in its first so many bytes.
SAMPLE_BYTES = 1 << 20
SAMPLE_ROWS = 1000
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
COMMENT_MARKS = ("#", "%")
DELIMITERS = ("::", "\t", ",", ";", "|")
# Where quotation marks have a meaning from the start; elsewhere only if fields are quoted in the first rows.
QUOTED = (",", ";")
NAMES = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars", "::": "double colons", " ": "single blanks"}
# The first line of a file of KONECT: its kind, and that of its weights.
KONECT = re.compile(r"%\s*(bip|asym|sym)\s+(un|pos|signed|multi|weight|dynamic)\w*\s*$")
KONECT_NAMES = ("source", "destination", "weight", "time")


@dataclass(frozen=True)
class DialectChoice:
    """What the caller says of a file; None: it is found.

    Attributes
    ----------
    delimiter : str or None
        Between two fields; " " means any run of blanks and tabs.
    header : bool or None
        Whether the first row has names.
    comment : str or None
        What lines begin with that are left out; "" for none.
    """

    delimiter: str | None = None
    header: bool | None = None
    comment: str | None = None


@dataclass(frozen=True)
class Dialect:
    """How a text file is written; it holds for the whole file.

    Attributes
    ----------
    delimiter : str or None
        Between two fields; None: any run of blanks and tabs.
    quoted : bool
        Whether ``"`` around a field belongs to the file, not to the field.
    comments : tuple of str
        Lines that begin with one of these are left out, wherever they stand.
    names : tuple of str, or None
        Those of the header, which may be repeated; None without one.
    width : int
        Fields of a row.
    first_byte, first_line : int
        Where the first row is: a byte, and the number of a line, from 1.
    konect : str
        "bip", "asym" or "sym" in a file of KONECT, else "".
    """

    delimiter: str | None
    quoted: bool
    comments: tuple[str, ...]
    names: tuple[str, ...] | None
    width: int
    first_byte: int
    first_line: int
    konect: str = ""

    @property
    def is_two_sided(self) -> bool:
        """Whether sources and destinations are different vertices, and both begin with 1."""
        return self.konect == "bip"

    def __str__(self) -> str:
        between = "blanks" if self.delimiter is None else NAMES.get(self.delimiter, repr(self.delimiter))
        parts = [f"{self.width} fields between {between}", 'fields may be in ""' if self.quoted else 'no ""']
        parts.append("no header" if self.names is None else f"header {', '.join(self.names)}")
        parts.append(f"comments begin with {' or '.join(self.comments)}" if self.comments else "no comments")
        return "; ".join([f"KONECT, {self.konect}", *parts] if self.konect else parts)


def find_dialect(where: str, data: bytes, choice: DialectChoice, named: bool = False) -> Dialect | None:
    """Find how a file is written; None if there is no row yet.

    Parameters
    ----------
    where : str
        The file, for messages.
    data : bytes
        Its first bytes, more than ``SAMPLE_BYTES`` if there are more.
    choice : DialectChoice
    named : bool
        Whether columns are chosen by name, so that there is a header.

    Raises
    ------
    FileFormatError
        If rows differ in their number of fields however they are split.
    InputError
        If the first row may be names or an edge.
    """
    data = _sample(data)
    start = len(BYTE_ORDER_MARK) if data.startswith(BYTE_ORDER_MARK) else 0
    ends = [len(line) + 1 for line in data[start:].split(b"\n")]  # bytes of each line
    lines = split_lines(data[start:].decode("utf-8", errors="replace"))
    top = next((number for number, line in enumerate(lines) if not _is_before_rows(line, choice)), len(lines))
    konect = konect_kind(lines[0]) if top else ""
    comments = _find_comments(lines[:top], choice)
    rows = [line for line in lines[top : top + SAMPLE_ROWS] if line.strip() and not _is_comment(line, comments)]
    if not rows:
        return None
    delimiter = _find_delimiter(rows, choice.delimiter, bool(konect))
    quoted = _is_quoted(rows, delimiter)
    first, *others = (_split_or_guess(row, delimiter, quoted) for row in rows)
    names, width = None, len(first)
    if konect:
        names = KONECT_NAMES[:width]
    elif _is_header(f"{where}:{top + 1}", first, others, choice, named):
        names, top = tuple(first), top + 1
        width = len(others[0]) if others else width
        if width != len(names):
            raise FileFormatError(
                f"{where}:{top + 1}: the row has {width} fields, the header {len(names)}. "
                "Row names, as R writes them, are no columns: write the file without them"
            )
    begin = min(start + sum(ends[:top]), len(data))
    return Dialect(delimiter, quoted, comments, names, width, begin, top + 1, konect)


def first_rows(head: bytes, dialect: Dialect) -> bytes:
    """Return the first rows of a file, which decide the types; ``head`` is as for :func:`find_dialect`."""
    return _sample(head)[dialect.first_byte :]


def _sample(head: bytes) -> bytes:
    """Return whole lines; the last one of a file that is short needs no end."""
    return head if len(head) <= SAMPLE_BYTES else head[: head.rfind(b"\n", 0, SAMPLE_BYTES) + 1 or SAMPLE_BYTES]


def konect_kind(line: str) -> str:
    """Return "bip", "asym" or "sym" for the first line of a file of KONECT, else ""."""
    found = KONECT.match(line)
    return found[1] if found else ""


def split_lines(text: str) -> list[str]:
    """Return the lines of a text, without their ends."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines[:-1] if lines and not lines[-1] else lines


def split_fields(line: str, delimiter: str | None, quoted: bool) -> list[str]:
    """Split one line into its fields, without the blanks around them.

    Raises
    ------
    ValueError
        For quotation marks that do not enclose a field.
    """
    if delimiter is None:
        return line.split()
    if not quoted or '"' not in line:
        return [field.strip() for field in line.split(delimiter)]
    fields, place = [], 0
    while True:
        while line[place : place + 1] in (" ", "\t") and line[place] != delimiter:
            place += 1
        if line[place : place + 1] == '"':
            field, place = _read_quoted(line, place, delimiter)
        else:
            end = line.find(delimiter, place)
            end = len(line) if end < 0 else end
            field, place = line[place:end].strip(), end
        fields.append(field)
        if place >= len(line):
            return fields
        place += 1


def _read_quoted(line: str, begin: int, delimiter: str) -> tuple[str, int]:
    """Return the field whose quotation mark is at ``begin``, and where the delimiter behind it is, or the end."""
    place = begin + 1
    while (place := line.find('"', place)) >= 0 and line[place + 1 : place + 2] == '"':
        place += 2
    if place < 0:
        raise ValueError(f"the one in column {begin + 1} is not closed")
    end = line.find(delimiter, place)
    end = len(line) if end < 0 else end
    if line[place + 1 : end].strip():
        raise ValueError(f"{line[place + 1 : end]!r} stands behind the one in column {place + 1}")
    return line[begin + 1 : place].replace('""', '"').strip(), end


def _split_or_guess(line: str, delimiter: str | None, quoted: bool) -> list[str]:
    """Return the fields of a line; of one with stray quotation marks as if they had no meaning."""
    try:
        return split_fields(line, delimiter, quoted)
    except ValueError:
        return split_fields(line, delimiter, False)


def is_number(text: str) -> bool:
    """Whether a text is a number, as Python writes it."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_before_rows(line: str, choice: DialectChoice) -> bool:
    marks = COMMENT_MARKS if choice.comment is None else (choice.comment,) if choice.comment else ()
    return not line.strip() or _is_comment(line, marks)


def _is_comment(line: str, marks: tuple[str, ...]) -> bool:
    return bool(marks) and line.lstrip().startswith(marks)


def _find_comments(above: Sequence[str], choice: DialectChoice) -> tuple[str, ...]:
    """Return the marks of the lines above the first row: only a mark that stands there has a meaning below."""
    if choice.comment is not None:
        return (choice.comment,) if choice.comment else ()
    return tuple(dict.fromkeys(line.lstrip()[0] for line in above if line.strip()))


def _find_delimiter(rows: Sequence[str], given: str | None, blanks: bool) -> str | None:
    """Return the first delimiter that gives all rows the same number of fields, at least two."""
    if given is not None:
        return given.strip(" ") or None
    if blanks:
        return None
    present = [mark for mark in DELIMITERS if mark in rows[0]]
    found = [mark for mark in present if len(_widths(rows, mark)) == 1]
    mixed = found[:1] == ["\t"] and any(" " in row for row in rows) and len(_widths(rows, None)) == 1
    if mixed and all(is_number(field) for row in rows for field in row.split()):  # as in some files of KONECT
        return None
    return next(iter([*found, *present]), None)


def _widths(rows: Sequence[str], delimiter: str | None) -> set[int]:
    """Return the numbers of fields that rows have."""
    quoted = delimiter is not None and len(delimiter) == 1
    return {len(_split_or_guess(row, delimiter, quoted)) for row in rows}


def _is_quoted(rows: Sequence[str], delimiter: str | None) -> bool:
    """Whether quotation marks enclose fields: between commas and semicolons they do, elsewhere if all of them do."""
    if delimiter is None or len(delimiter) > 1:
        return False
    if delimiter in QUOTED:
        return True
    marked = [field.strip() for row in rows for field in row.split(delimiter) if '"' in field]
    return bool(marked) and all(len(f) > 1 and f[0] == f[-1] == '"' and '"' not in f[1:-1] for f in marked)


def _is_header(where: str, first: list[str], others: list[list[str]], choice: DialectChoice, named: bool) -> bool:
    """Whether the first row has names.

    It has if columns are chosen by name, if two of its fields are usual names, or if none is a number and some column
    below has numbers only. A row of texts above rows of texts may be either.
    """
    if choice.header is not None or named:
        return choice.header is not False
    if len(first) < 2 or any(is_number(field) for field in first) or len(set(first)) < len(first):
        return False
    lowered = [field.lower() for field in first]
    if any(name in lowered for name in USUAL_NAMES[0]) and any(name in lowered for name in USUAL_NAMES[1]):
        return True
    columns = list(zip(*(row for row in others if len(row) == len(first)), strict=True))
    if any(all(is_number(field) for field in column) for column in columns):
        return True
    raise InputError(
        f"{where}: {', '.join(map(repr, first[:4]))} may be names of columns, or a row; say which: header=True "
        "(--header) or header=False (--no-header), or name the columns"
    )
