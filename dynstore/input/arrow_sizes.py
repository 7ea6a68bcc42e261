"""How much memory an Arrow message will take, read from its heads before anything is unpacked.

A few hundred bytes may unpack to a gigabyte. Each buffer that is packed begins with its size; where the buffers are
stands in the head of each batch, a table of FlatBuffers: its fields are found through a list of offsets, the vtable.
"""

from __future__ import annotations

import struct
from typing import Any

__all__ = ["unpacked_size"]

HEADER_TYPE, HEADER = 1, 2  # fields of a Message
DICTIONARY, BATCH = 2, 3  # values of HEADER_TYPE
DATA = 1  # field of a dictionary: its batch
ROWS, BUFFERS, COMPRESSION = 0, 2, 3  # fields of a batch
ROW_BYTES = 8  # of two ids: runs and nulls have rows without a buffer, which are written out later
_BUFFER = struct.Struct("<qq")  # offset in the body, length


def unpacked_size(pyarrow: Any, stream: Any) -> int:
    """Return the bytes of a message in Arrow's format of streams, unpacked: of all buffers, or at least 8 for each row.

    Raises
    ------
    ValueError, struct.error
        If it is none.
    OSError, pyarrow.ArrowException
        The same, by pyarrow.
    """
    size = 0
    reader = pyarrow.ipc.MessageReader.open_stream(stream)
    while True:
        try:
            message = reader.read_next_message()
        except StopIteration:
            return size
        head = memoryview(message.metadata)
        table = _root(head)
        kind = _field(head, table, HEADER_TYPE)
        if kind is None or head[kind] not in (DICTIONARY, BATCH):
            continue
        batch = _child(head, table, HEADER)
        if head[kind] == DICTIONARY and batch is not None:
            batch = _child(head, batch, DATA)
        if batch is not None:
            size += _size_of(head, batch, memoryview(message.body) if message.body is not None else memoryview(b""))


def _size_of(head: memoryview, batch: int, body: memoryview) -> int:
    rows, place = _field(head, batch, ROWS), _child(head, batch, BUFFERS)
    count = 0 if place is None else struct.unpack_from("<I", head, place)[0]
    is_packed, size = _field(head, batch, COMPRESSION) is not None, 0
    for number in range(count):
        assert place is not None
        offset, length = _BUFFER.unpack_from(head, place + 4 + number * _BUFFER.size)
        if is_packed and length:
            (unpacked,) = struct.unpack_from("<q", body, offset)
            length = unpacked if unpacked >= 0 else length  # -1: this one is as it is
        size += length
    return max(size, 0 if rows is None else ROW_BYTES * struct.unpack_from("<q", head, rows)[0])


def _root(head: memoryview) -> int:
    place: int = struct.unpack_from("<I", head, 0)[0]
    return place


def _field(head: memoryview, table: int, number: int) -> int | None:
    """Return where a field of a table is; None if it has none."""
    vtable = table - struct.unpack_from("<i", head, table)[0]
    if 4 + 2 * number >= struct.unpack_from("<H", head, vtable)[0]:
        return None
    offset: int = struct.unpack_from("<H", head, vtable + 4 + 2 * number)[0]
    return table + offset if offset else None


def _child(head: memoryview, table: int, number: int) -> int | None:
    """Return where the table or the list is that a field leads to."""
    place = _field(head, table, number)
    return None if place is None else place + int(struct.unpack_from("<I", head, place)[0])
