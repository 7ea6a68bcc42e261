"""A whole text file as events, piece by piece: memory is needed for the result and two pieces."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from dynstore.errors import InputError, LimitError
from dynstore.io.columns import ColumnChoice, FileColumns, find_columns
from dynstore.io.dialects import Dialect, DialectChoice, find_dialect, first_rows
from dynstore.io.events import OP_DELETE, OP_SYMBOLS, EventTable
from dynstore.io.limits import Limits
from dynstore.io.numbering import number_texts
from dynstore.io.text_rows import TextReader, TextRows, shorten
from dynstore.io.text_values import IdKind, TextColumn, TimeKind, decide_ids, decide_times

__all__ = ["PIECE_BYTES", "Read", "pieces_of", "read_rows", "read_text"]

PIECE_BYTES = 1 << 23
# Pieces that are read at the same time: what pyarrow does in one thread, and finding the next piece, need not wait.
AT_A_TIME = 2
Read = Callable[[int], bytes]


def pieces_of(read: Read, start: bytes) -> Iterator[bytes]:
    """Yield pieces of whole lines: of the bytes ``start``, and of those that ``read`` returns."""
    left = start
    while more := read(PIECE_BYTES):
        end = more.rfind(b"\n") + 1
        if end:
            yield b"".join((left, memoryview(more)[:end]))
            left = more[end:]
        else:
            left += more
    if left:
        yield left


def read_text(
    where: str,
    head: bytes,
    read: Read,
    choice: ColumnChoice,
    dialects: DialectChoice,
    limits: Limits,
    ids: IdKind | None = None,
) -> EventTable:
    """Read delimited text.

    Parameters
    ----------
    where : str
        The file, for messages.
    head : bytes
        Its first bytes.
    read : callable
        Returns at most so many of the bytes behind; none at the end.
    choice : ColumnChoice
    dialects : DialectChoice
    limits : Limits
    ids : {"integer", "text"}, optional
        By default integers, or what the first rows say where any ids are taken.

    Raises
    ------
    FileFormatError, InputError
    """
    dialect = find_dialect(where, head, dialects, choice.has_names())
    if dialect is None:  # comments alone, so far
        head += b"".join(iter(lambda: read(PIECE_BYTES), b""))
        dialect = find_dialect(where, head, dialects, choice.has_names())
    if dialect is None:
        empty = np.empty(0, np.int64)
        return EventTable(empty, empty.copy(), name=where)
    columns = find_columns(where, choice, dialect.names, dialect.width)
    return read_rows(where, head, read, dialect, columns, limits, ids)


def read_rows(
    where: str,
    head: bytes,
    read: Read,
    dialect: Dialect,
    columns: FileColumns,
    limits: Limits,
    ids: IdKind | None = None,
) -> EventTable:
    """Read the rows of a text whose dialect and columns are known; else as :func:`read_text` does."""
    return _Reading(where, dialect, columns, limits, ids).read_all(head, read)


class _Reading:
    """A file that is read: what its first rows decided, and the columns so far."""

    def __init__(self, where: str, dialect: Dialect, columns: FileColumns, limits: Limits, ids: IdKind | None) -> None:
        self._where, self._dialect, self._columns, self._limits = where, dialect, columns, limits
        self._ids = ids if limits.any_ids else "integer"
        self._exact = limits.any_ids and ids is None  # 007 may be another id than 7
        self._reader = TextReader(where, dialect, ragged=columns.op is not None)
        self._time: TimeKind | None = None
        self._parts: dict[str, list[Any]] = {}

    def read_all(self, head: bytes, read: Read) -> EventTable:
        """Read all rows, two pieces at a time."""
        line, start = self._dialect.first_line, head[self._dialect.first_byte :]
        self._decide(first_rows(head, self._dialect))
        running: deque[Future[dict[str, Any]]] = deque()
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            for piece in pieces_of(read, start):
                running.append(pool.submit(self._read_piece, piece, line))
                line += piece.count(b"\n")
                if len(running) == AT_A_TIME:
                    self._keep(running.popleft().result())
            for each in running:
                self._keep(each.result())
        return self._table()

    def _decide(self, data: bytes) -> None:
        """Find the types of ids and times in the first rows."""
        rows = self._reader.read(data, self._dialect.first_line, self._columns.used())
        if self._ids is None:
            self._ids = decide_ids([TextColumn(rows, number, role) for role, number in self._ends()])
        if self._columns.time is not None:
            self._time = decide_times(TextColumn(rows, self._columns.time, "time"))

    def _ends(self) -> list[tuple[str, int]]:
        return [("source", self._columns.source), ("destination", self._columns.destination)]

    def _read_piece(self, piece: bytes, first_line: int) -> dict[str, Any]:
        """Return the columns of a piece: in bulk if all fits, else as texts, which are looked at one by one."""
        import pyarrow

        read, used, columns = self._reader.read, self._columns.used(), self._columns
        types = dict.fromkeys(
            (columns.source, columns.destination), "int64" if self._ids == "integer" else "dictionary"
        )
        if columns.time is not None and self._time != "date":
            types[columns.time] = "int64" if self._time == "integer" else "float64"
        if columns.weight is not None:
            types[columns.weight] = "float64"
        try:
            found = self._take(read(piece, first_line, used, types, self._exact and self._ids == "integer"))
        except pyarrow.ArrowInvalid:
            found = None
        if found is not None:
            return found
        rows = read(piece, first_line, used)
        return self._convert(rows) if len(rows) else {}

    def _keep(self, found: dict[str, Any]) -> None:
        for role, column in found.items():
            self._parts.setdefault(role, []).append(column)

    def _take(self, rows: TextRows) -> dict[str, Any] | None:
        """Return the columns of rows that were read by types; None if one has to be looked at."""
        columns, limits, found = self._columns, self._limits, {}
        for role, number in self._ends():
            found[role] = ends = rows.typed(number)
            if ends is None:
                return None
            is_number = self._ids == "integer" and len(rows) > 0
            if is_number and not limits.min_id <= int(ends.min()) <= int(ends.max()) <= limits.max_id:
                return None
        if columns.op is not None:
            found["op"] = self._read_ops(TextColumn(rows, columns.op, "op"))
        if columns.weight is not None:
            weights = rows.typed(columns.weight)
            missing = np.isnan(weights)
            if "op" in found:
                missing &= found["op"] != OP_DELETE
            if missing.any() or (np.abs(weights) > limits.max_weight).any():  # perhaps infinite, which is a weight
                return None
            found["weight"] = weights
        if columns.time is not None:
            if rows.is_text(columns.time):
                found["time"] = TextColumn(rows, columns.time, "time").times(self._time or "integer")
                return found
            found["time"] = times = rows.typed(columns.time)
            if times is None or (self._time == "float" and np.isnan(times).any()):
                return None
        return found

    def _convert(self, rows: TextRows) -> dict[str, Any]:
        """Return the columns of rows that were read as texts."""
        columns, limits, found = self._columns, self._limits, {}
        wanted = f"vertex ids are integers from {limits.min_id} to {limits.max_id}"
        if columns.op is not None:
            found["op"] = self._read_ops(TextColumn(rows, columns.op, "op"))
        for role, number in self._ends():
            column = TextColumn(rows, number, role)
            if self._ids == "text":
                found[role] = column.texts().dictionary_encode()
            else:
                found[role] = column.integers(wanted, limits.min_id, limits.max_id, self._exact)
        if columns.weight is not None:
            column, weights = TextColumn(rows, columns.weight, "weight"), np.full(len(rows), np.nan)
            given = np.arange(len(rows))
            if "op" in found:
                empty = column.array.is_null().to_numpy(zero_copy_only=False)
                given = np.flatnonzero((found["op"] != OP_DELETE) | ~empty)
            weights[given] = column.take(given).numbers(limits.max_weight)
            found["weight"] = weights
        if columns.time is not None and self._time is not None:
            found["time"] = TextColumn(rows, columns.time, "time").times(self._time)
        return found

    def _read_ops(self, column: TextColumn) -> np.ndarray:
        codes = column.array.combine_chunks().dictionary_encode()
        symbols = codes.dictionary.to_pylist()
        if codes.null_count or any(symbol not in OP_SYMBOLS for symbol in symbols):
            row = next(row for row, text in enumerate(column.values().tolist()) if text not in OP_SYMBOLS)
            raise column.fault(row, f"op {shorten(column.values()[row] or '')} is none of '+', '-', 'w'")
        table = np.array([OP_SYMBOLS.index(symbol) for symbol in symbols], np.uint8)
        ops: np.ndarray = table[codes.indices.to_numpy()]
        return ops

    def _table(self) -> EventTable:
        parts, ids, weight = self._parts, None, self._columns.weight
        if self._reader.widest and weight is not None and weight >= self._reader.widest:
            raise InputError(f"{self._where}: no weight column {weight}; no row has so many fields")
        if not parts:
            empty = np.empty(0, np.int64)
            return EventTable(empty, empty.copy(), name=self._where, dialect=self._describe())
        if self._ids == "text":
            src, dst, ids = number_texts(parts["source"], parts["destination"])
        else:
            src, dst = (np.concatenate(parts[role]) for role in ("source", "destination"))
        others = {role: np.concatenate(parts[role]) if role in parts else None for role in ("time", "weight", "op")}
        first_right = None
        if self._dialect.is_two_sided and ids is None:  # both sides are numbered from 1
            first_right = int(src.max()) + 1
            dst = dst + first_right
            self._check_shifted(dst, first_right)
        return EventTable(
            src, dst, **others, name=self._where, ids=ids, dialect=self._describe(), first_right=first_right
        )

    def _check_shifted(self, dst: np.ndarray, first_right: int) -> None:
        if int(dst.max()) > self._limits.max_id:
            raise LimitError(
                f"{self._where}: vertices of the second side begin at {first_right}, and go to {int(dst.max())}; "
                f"wanted at most {self._limits.max_id}"
            )

    def _describe(self) -> str:
        taken = self._columns.said(self._dialect.names)
        return f"{self._dialect}; {taken}; ids are {'texts' if self._ids == 'text' else 'integers'}"
