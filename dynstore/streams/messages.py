"""What messages hold: many rows each, as Arrow's stream format, or as lines of JSON."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from dynstore.adapters.libraries import require
from dynstore.arguments import check_name
from dynstore.errors import FileFormatError, InputError
from dynstore.input.arrow_sizes import unpacked_size
from dynstore.input.forms import column_names, is_frame, open_edges
from dynstore.io.json_lines import read_json_rows
from dynstore.io.text_values import TextBatch
from dynstore.streams.units import MixedUnitsError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

__all__ = ["Message", "Messages", "decode", "encode"]

ARROW_START, ARROW_FILE = b"\xff\xff\xff\xff", b"ARROW1"
FILE_HEAD = 8
MAX_BYTES = 1 << 28  # of a message, unpacked; and of all that are read together
JSON_FACTOR = 16  # about how much more memory the objects of JSON take than their text
FORMATS = ("arrow", "json")
NAMES = ("source", "destination", "weight")


def encode(edges: Any, format: Literal["arrow", "json"] = "arrow") -> bytes:  # noqa: A002
    """Return rows as the bytes of one message.

    Parameters
    ----------
    edges : frame, dict, tuple or list
        A frame or a dict of columns, with any names; or edges in another form that
        :meth:`dynstore.DynamicGraph.insert_edges` takes, whose columns get the names "source", "destination" and
        "weight".
    format : {"arrow", "json"}
        Arrow's stream format, or a JSON object a line.

    Returns
    -------
    bytes
        What :func:`decode` reads.

    Raises
    ------
    InputError
        For another format, and for what is neither a frame, a dict of columns nor edges.
    MissingDependencyError
        Without pyarrow.

    Examples
    --------
    >>> from dynstore.streams import decode, encode
    >>> encode([(0, 1)], "json")
    b'{"source": 0, "destination": 1}\\n'
    >>> decode(encode([(0, 1), (1, 2)]))["destination"].to_pylist()
    [1, 2]
    """
    check_name("encode", "format", format, FORMATS)
    pyarrow = require("encode", "pyarrow")
    table = _as_table(pyarrow, edges)
    if format == "json":
        return b"".join(json.dumps(row, default=_as_json).encode() + b"\n" for row in table.to_pylist())
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _as_json(value: Any) -> Any:
    """Return what JSON has for a value that it does not know: a number for a decimal, a text for all else."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return str(value)


def _as_table(pyarrow: Any, edges: Any) -> Any:
    if isinstance(edges, Mapping):
        return pyarrow.table({name: pyarrow.array(column) for name, column in edges.items()})
    edges = open_edges("encode", edges)
    if isinstance(edges, tuple):
        if len(edges) not in (2, 3):
            raise InputError(f"encode: got a tuple of {len(edges)} columns; wanted (src, dst[, weights])")
        return pyarrow.table(dict(zip(NAMES, map(pyarrow.array, edges), strict=False)))
    if hasattr(edges, "column_names"):
        return edges
    if hasattr(edges, "to_arrow"):  # polars, cuDF
        return edges.to_arrow()
    if is_frame(edges):
        return pyarrow.table({name: pyarrow.array(edges[name]) for name in column_names(edges)})
    raise InputError(f"encode: got a {type(edges).__name__}; wanted a frame, a dict of columns or edges")


def decode(message: bytes, columns: Collection[str] | None = None) -> Any:
    """Return the rows of a message.

    Parameters
    ----------
    message : bytes
        What :func:`encode` makes, in any language: Arrow's format of streams or files; or JSON: an object a line, an
        array of objects, or an object of lists, which are columns.
    columns : collection of str, optional
        The columns that are read; others are skipped. By default all.

    Returns
    -------
    pyarrow.Table or dict
        A dict of columns for JSON. Without columns for a message of no bytes.

    Raises
    ------
    FileFormatError
        If it is neither; if an Arrow message is damaged; if it has more than 256 MiB, or would have them unpacked.
    MissingDependencyError
        Without pyarrow, for a message in Arrow's format.
    """
    if message.startswith((ARROW_START, ARROW_FILE)):
        return _decode_arrow(message, columns)
    if len(message) > MAX_BYTES:
        raise _too_large(message, "has")
    found = _columns_of(_read_objects(message))
    return found if columns is None else {name: column for name, column in found.items() if name in columns}


def _decode_arrow(message: bytes, columns: Collection[str] | None, is_measured: bool = False) -> Any:
    """Return the rows of an Arrow message, validated: what others have sent may point anywhere.

    ``is_measured``: what it unpacks to is known to be within the limit.
    """
    pyarrow = require("decode", "pyarrow")
    opened = pyarrow.ipc.open_stream
    try:
        stream = _stream_of(message)
        if not is_measured and unpacked_size(pyarrow, stream) > MAX_BYTES:
            raise _too_large(message, "unpacks to")
        schema = opened(stream).schema
        chosen = [n for n, name in enumerate(schema.names) if columns is None or name in columns]
        options = {} if len(chosen) == len(schema) else {"options": pyarrow.ipc.IpcReadOptions(included_fields=chosen)}
        batches = []
        for batch in opened(stream, **options):
            batch.validate(full=True)
            batches.append(batch)
        return pyarrow.Table.from_batches(batches, batches[0].schema if batches else schema)
    except (pyarrow.ArrowException, OSError, ValueError, KeyError, struct.error, IndexError) as error:
        if isinstance(error, FileFormatError):
            raise
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise FileFormatError(f"decode: a message of {len(message)} bytes is no Arrow stream: {why}") from error


def _stream_of(message: bytes) -> Any:
    """Return an Arrow message in the format of streams, which a file has between its magic and its footer."""
    return memoryview(message)[FILE_HEAD:] if message.startswith(ARROW_FILE) else message


def _too_large(message: bytes, what: str) -> FileFormatError:
    return FileFormatError(f"decode: a message of {len(message)} bytes {what} more than {MAX_BYTES >> 20} MiB")


def _read_objects(message: bytes) -> list[dict[str, Any]] | dict[str, list[Any]]:
    """Return what a message of JSON has: a list of objects, or an object of lists, which are columns.

    Raises
    ------
    FileFormatError
        For anything else.
    """
    if not message.strip():
        return []
    try:
        found = json.loads(message)
    except (ValueError, RecursionError):  # several lines, or none of JSON
        return read_json_rows("decode", message)
    if isinstance(found, list) and all(isinstance(row, dict) for row in found):
        return found
    if not isinstance(found, dict):
        return read_json_rows("decode", message)
    if found and all(isinstance(column, list) for column in found.values()):
        return found
    return [found]


def _columns_of(rows: list[dict[str, Any]] | dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Return rows as columns; an item that a row lacks is None."""
    if isinstance(rows, dict):
        return rows
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _size_together(values: list[bytes]) -> int:
    """Return how much memory Arrow messages take, unpacked.

    Raises
    ------
    MixedUnitsError
        If one is damaged: which one is found when each is read alone.
    """
    pyarrow = require("decode", "pyarrow")
    try:
        return sum(unpacked_size(pyarrow, _stream_of(value)) for value in values)
    except (pyarrow.ArrowException, OSError, ValueError, struct.error, IndexError):
        raise MixedUnitsError from None


class Message(NamedTuple):
    """A message of a server.

    Parameters
    ----------
    value : bytes, dict or None
        Its contents; a dict of fields, of which each is a text.
    place : str
        Its name, for errors.
    position : object
        The source's, behind it.
    """

    value: bytes | Mapping[str, str] | None
    place: str
    position: Any


class Messages:
    """Messages that have arrived, as units that are read; see :class:`~dynstore.streams.units.Units`.

    Parameters
    ----------
    messages : sequence of Message
    columns : collection of str, or None
        The columns that are read; None: all.
    """

    def __init__(self, messages: Sequence[Message], columns: Collection[str] | None = None) -> None:
        self._messages, self._columns = messages, columns

    def __len__(self) -> int:
        return len(self._messages)

    def place(self, number: int) -> str:
        """Return the name of a message."""
        return self._messages[number].place

    def value(self, number: int) -> Any:
        """Return the contents of a message."""
        return self._messages[number].value

    def position(self, number: int) -> Any:
        """Return the position behind a message."""
        return self._messages[number].position

    def read(self, first: int, last: int) -> Any:
        """Return the rows of some messages; of several only if they are of one kind, with equal types."""
        held = [message for message in self._messages[first:last] if message.value]  # without a value: no rows
        packed = [message.value for message in held if isinstance(message.value, bytes)]
        if not held:
            return {}
        if not packed:
            return self._read_fields(held)
        if len(held) == 1:
            return decode(packed[0], self._columns)
        are_arrow = {value.startswith((ARROW_START, ARROW_FILE)) for value in packed}
        if len(packed) < len(held) or len(are_arrow) > 1:
            raise MixedUnitsError
        return self._read_tables(packed) if are_arrow.pop() else self._read_json(packed)

    def _read_tables(self, values: list[bytes]) -> Any:
        if _size_together(values) > MAX_BYTES:
            raise MixedUnitsError
        tables = [_decode_arrow(value, self._columns, is_measured=True) for value in values]
        if any(table.schema != tables[0].schema for table in tables):
            raise MixedUnitsError
        return require("decode", "pyarrow").concat_tables(tables)

    def _read_json(self, values: list[bytes]) -> dict[str, list[Any]]:
        if sum(map(len, values)) > MAX_BYTES // JSON_FACTOR:
            raise MixedUnitsError
        rows: list[dict[str, Any]] = []
        for value in values:
            found = _read_objects(value)
            if isinstance(found, dict):
                raise MixedUnitsError
            rows += found
        if self._columns is not None:
            rows = [{name: row[name] for name in row if name in self._columns} for row in rows]
        if len({tuple((name, type(item)) for name, item in row.items()) for row in rows}) > 1:
            raise MixedUnitsError
        return _columns_of(rows)

    def _read_fields(self, messages: Sequence[Message]) -> Any:
        """Return the fields of messages as columns of texts, a row for each message."""
        pyarrow = require("decode", "pyarrow")
        fields: list[Any] = [message.value for message in messages]
        names = list(fields[0])
        if any(list(each) != names for each in fields):
            raise MixedUnitsError
        columns = [pyarrow.array([each[name] for each in fields], pyarrow.string()) for name in names]
        rows: Any = _FieldRows(pyarrow.table(columns, list(map(str, range(len(names))))), messages)
        kept = [n for n, name in enumerate(names) if self._columns is None or name in self._columns]
        return TextBatch({names[n]: n for n in kept}, lambda types, exact: rows)


class _FieldRows:
    """Fields of messages, as :class:`~dynstore.io.text_values.TextColumn` reads them."""

    is_padded = True

    def typed(self, number: int) -> None:
        """Return nothing: fields are texts."""

    def __init__(self, table: Any, messages: Sequence[Message]) -> None:
        self.table, self._messages = table, messages

    def fault(self, row: int, problem: str) -> FileFormatError:
        """Return the error for a message."""
        return FileFormatError(f"Stream: {self._messages[row].place}: {problem}")
