"""Records of the log: one for each update, with its columns as raw numbers.

A record is a head of :data:`HEAD` bytes and a payload. All numbers are little-endian. The head has, in this order:

- ``magic``, 8 bytes; ``kind``, the place of the update's name in :data:`KINDS`; ``0``;
- the bytes of ``meta``; the graph's ``version`` after the update; a version that was ``durable`` when the record was
  written; the ``rows`` of the batch; the bytes of the payload and of ``position``;
- the checksum of the payload (:func:`checksum_of`); the CRC-32 of the head, which begins with the log's token, so that
  no record of another log, and none that users have put into a column, is read as one.

The payload is ``meta``, then ``position``, then the columns; each column begins at a multiple of 8 bytes. ``meta`` is
JSON: the update's arguments that are no columns, and a list of columns: name, dtype, number of items. Strings are two
columns: their bytes in UTF-8, and where each ends.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.errors import InputError, shown, type_name
from dynstore.graph.checking import decoded_strings
from dynstore.graph.core import EXTRA
from dynstore.graph.saving import ENDS, TEXT, encoded_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from dynstore.files import Buffer

__all__ = [
    "HEAD",
    "KINDS",
    "MAGIC",
    "Head",
    "LoggedUpdate",
    "Record",
    "RecordError",
    "checksum_of",
    "decode",
    "encode",
    "read_head",
]

KINDS = (
    "insert_edges",
    "delete_edges",
    "update",
    "insert_vertices",
    "delete_vertices",
    "reorder",
    "clear",
    "slide",
    "expire",
    "apply",
)
MAGIC = b"dynsREC1"
_HEAD = struct.Struct("<8sHHIQQQQIII")
HEAD = 64
ALIGNMENT = 8
# Bytes of a payload that get a checksum of their own: several threads make them.
PIECE = 1 << 20
# The dtypes that columns of records have.
CODES = frozenset(
    np.dtype(f"{kind}{size}").newbyteorder("<").str
    for kind, sizes in (("i", (1, 2, 4, 8)), ("u", (1, 2, 4, 8)), ("f", (4, 8)))
    for size in sizes
)


class RecordError(Exception):
    """A record is whole, and no update can have written it; the message says why."""


@dataclass(slots=True)
class LoggedUpdate:
    """What one update does.

    Attributes
    ----------
    kind : str
        One of :data:`KINDS`.
    rows : int
        Rows of its batch.
    arguments : dict
        What is no column: numbers, strings, None.
    columns : dict
        Arrays on the host, shape (B,): numbers, or strings as objects.
    position : bytes
        Where the update's source is; empty where none was given.
    """

    kind: str
    rows: int = 0
    arguments: dict[str, Any] = field(default_factory=dict)
    columns: dict[str, np.ndarray] = field(default_factory=dict)
    position: bytes = b""


class Head(NamedTuple):
    """The head of a record; see the module."""

    kind: str
    meta: int
    version: int
    durable: int
    rows: int
    length: int
    position: int
    checksum: int


class Record(NamedTuple):
    """A record that is to be written.

    Attributes
    ----------
    head : Head
        With the checksum 0.
    payload : list of buffer
    seed : int
        The CRC-32 of the log's token.
    """

    head: Head
    payload: list[Buffer]
    seed: int

    @property
    def size(self) -> int:
        """Bytes of the head and the payload."""
        return HEAD + self.head.length

    def buffers(self, apply: Callable[..., Iterable[int]] = map) -> list[Buffer]:
        """Return what is written, one buffer after another; ``apply``: see :func:`checksum_of`."""
        kind, meta, version, durable, rows, length, position, _ = self.head
        checksum = checksum_of(self.payload, apply)
        numbers = KINDS.index(kind), 0, meta, version, durable, rows, length, position, checksum, 0
        head = _HEAD.pack(MAGIC, *numbers)[:-4]
        return [head + zlib.crc32(head, self.seed).to_bytes(4, "little") + bytes(HEAD - _HEAD.size), *self.payload]


def encode(change: LoggedUpdate, version: int, durable: int, seed: int) -> Record:
    """Return the record of a change. Its payload has the change's arrays, which must stay as they are.

    Parameters
    ----------
    change : Change
    version : int
        The graph's version after it.
    durable : int
        The newest version known to last.
    seed : int
        The CRC-32 of the log's token.

    Raises
    ------
    InputError
        For strings that UTF-8 does not have.
    """
    listed, parts = [], []
    for name, array in _as_numbers(change.kind, change.columns):
        listed.append([name, array.dtype.str, int(array.shape[0])])
        parts.append(array)
    meta = json.dumps([change.arguments, listed], separators=(",", ":"), default=repr).encode()
    payload: list[Buffer] = [meta, change.position]
    payload.append(_padding(len(meta) + len(change.position)))
    for array in parts:
        payload += [array.view(np.uint8).data, _padding(array.nbytes)]
    length = sum(map(len, payload))
    head = Head(change.kind, len(meta), version, durable, change.rows, length, len(change.position), 0)
    return Record(head, payload, seed)


def checksum_of(payload: Sequence[Buffer], apply: Callable[..., Iterable[int]] = map) -> int:
    """Return the CRC-32 of the CRC-32s, little-endian, of a payload's pieces of :data:`PIECE` bytes.

    Parameters
    ----------
    payload : sequence of buffer
        One after another; where one ends makes no difference.
    apply : callable
        :func:`map`, or that of an executor, whose threads then share the work: ``zlib.crc32`` gives the lock up.
    """
    crcs = apply(_crc_of, _pieces(payload))
    return zlib.crc32(b"".join(crc.to_bytes(4, "little") for crc in crcs))


def _pieces(payload: Sequence[Buffer]) -> Iterator[list[Buffer]]:
    """Yield the pieces of a payload, each as parts of its buffers; the last one may be shorter, or empty."""
    piece: list[Buffer] = []
    room = PIECE
    for buffer in payload:
        left = memoryview(buffer)
        while len(left):
            piece.append(left[:room])
            room -= len(piece[-1])
            left = left[len(piece[-1]) :]
            if not room:
                yield piece
                piece, room = [], PIECE
    yield piece


def _crc_of(piece: list[Buffer]) -> int:
    crc = 0
    for part in piece:
        crc = zlib.crc32(part, crc)
    return crc


def read_head(content: bytes, seed: int) -> Head | None:
    """Read the head of a record; None if it is none of this log."""
    if len(content) < HEAD or content[:8] != MAGIC or any(content[_HEAD.size : HEAD]):
        return None
    _, kind, zero, meta, version, durable, rows, length, position, checksum, own = _HEAD.unpack_from(content)
    if own != zlib.crc32(content[: _HEAD.size - 4], seed) or zero or kind >= len(KINDS):
        return None
    return Head(KINDS[kind], meta, version, durable, rows, length, position, checksum)


def decode(head: Head, payload: np.ndarray) -> LoggedUpdate:
    """Read the payload of a record, uint8, whose checksum is right.

    Raises
    ------
    RecordError
        If it is none.
    """
    start, end = head.meta + head.position, len(payload)
    if start > end:
        raise RecordError(f"its description and its position are longer, {start} bytes, than the record, {end}")
    arguments, listed = _read_meta(payload[: head.meta].tobytes())
    columns: dict[str, np.ndarray] = {}
    position = payload[head.meta : start].tobytes()
    for each in listed:
        name, dtype, count = _described(each)
        start += -start % ALIGNMENT
        after = start + count * np.dtype(dtype).itemsize
        if after > end:
            raise RecordError(f"its column {name!r} of {count} {dtype} ends behind the record")
        array = payload[start:after].view(dtype)
        if name.endswith(ENDS) and f".{EXTRA}" not in name:  # users may have chosen any name
            name = name.removesuffix(ENDS)
            array = _strings(name, columns.pop(name + TEXT, None), array)
        if name in columns:
            raise RecordError(f"its column {name!r} is there twice")
        columns[name] = array
        start = after
    start += -start % ALIGNMENT
    if start != end:
        raise RecordError(f"it has {end - start} bytes behind its columns")
    return LoggedUpdate(head.kind, head.rows, arguments, columns, position)


def _read_meta(content: bytes) -> tuple[dict[str, Any], list[Any]]:
    """Return the arguments of a record, and the list of its columns."""
    try:
        meta = json.loads(content)
    except (ValueError, RecursionError):
        raise RecordError("its description is no JSON") from None
    if not isinstance(meta, list) or len(meta) != 2:
        size = f" of {len(meta)}" if isinstance(meta, list) else ""
        raise RecordError(f"its description is a {type_name(meta)}{size}; wanted a list of 2")
    arguments, listed = meta
    if not isinstance(arguments, dict):
        raise RecordError(f"its arguments are a {type_name(arguments)}; wanted a dict")
    if not isinstance(listed, list):
        raise RecordError(f"its columns are a {type_name(listed)}; wanted a list")
    return arguments, listed


def _described(column: Any) -> tuple[str, str, int]:
    """Return the name, the dtype and the items of a column."""
    if isinstance(column, list) and [*map(type, column)] == [str, str, int]:
        name, dtype, count = column
        if dtype in CODES and count >= 0:
            return name, dtype, count
    raise RecordError(f"it has the column {shown(column)}; wanted a name, a dtype and how many items there are")


def _strings(name: str, text: np.ndarray | None, ends: np.ndarray) -> np.ndarray:
    if text is None or text.dtype != np.uint8 or ends.dtype != np.int64:
        raise RecordError(f"its column {name!r} of strings has no text, or ends that are {ends.dtype}; wanted int64")
    try:
        return decoded_strings(name, text, ends)
    except ValueError as error:
        raise RecordError(str(error)) from error


def _padding(length: int) -> bytes:
    return bytes(-length % ALIGNMENT)


def _as_numbers(kind: str, columns: dict[str, np.ndarray]) -> list[tuple[str, np.ndarray]]:
    """Return the columns to write, little-endian; a column of strings becomes two."""
    try:
        numbers = list(encoded_columns(columns))
    except UnicodeEncodeError as error:
        raise InputError(f"{kind}: a vertex is {error.object!r}; wanted strings that UTF-8 can encode") from error
    return [(name, np.ascontiguousarray(array, array.dtype.newbyteorder("<"))) for name, array in numbers]
