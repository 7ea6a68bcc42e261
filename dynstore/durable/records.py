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

from dynstore.errors import InputError
from dynstore.graph.checking import decoded_strings
from dynstore.graph.saving import ENDS, TEXT, encoded_columns
from dynstore.graph.state import EXTRA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from dynstore.files import Buffer

__all__ = ["HEAD", "KINDS", "MAGIC", "Change", "Head", "Record", "checksum_of", "decode", "encode", "read_head"]

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


@dataclass(slots=True)
class Change:
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


def encode(change: Change, version: int, durable: int, seed: int) -> Record:
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


def decode(head: Head, payload: np.ndarray) -> Change:
    """Read the payload of a record, uint8, whose checksum is right.

    Raises
    ------
    ValueError
        If it is none.
    """
    arguments, listed = json.loads(payload[: head.meta].tobytes())
    start = head.meta + head.position
    columns: dict[str, np.ndarray] = {}
    position = payload[head.meta : start].tobytes()
    for name, dtype, count in listed:
        start += -start % ALIGNMENT
        end = start + count * np.dtype(dtype).itemsize
        array = payload[start:end].view(dtype)
        if name.endswith(ENDS) and f".{EXTRA}" not in name:  # users may have chosen any name
            name = name.removesuffix(ENDS)
            array = decoded_strings(name, columns.pop(name + TEXT), array)
        columns[name] = array
        start = end
    return Change(head.kind, head.rows, arguments, columns, position)


def _padding(length: int) -> bytes:
    return bytes(-length % ALIGNMENT)


def _as_numbers(kind: str, columns: dict[str, np.ndarray]) -> list[tuple[str, np.ndarray]]:
    """Return the columns to write, little-endian; a column of strings becomes two."""
    try:
        numbers = list(encoded_columns(columns))
    except UnicodeEncodeError as error:
        raise InputError(f"{kind}: a vertex is {error.object!r}; wanted strings that UTF-8 can encode") from error
    return [(name, np.ascontiguousarray(array, array.dtype.newbyteorder("<"))) for name, array in numbers]
