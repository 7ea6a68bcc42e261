"""Records of a log that were changed, with checksums that were made right again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dynstore.durable.folder import Manifest, read_manifest
from dynstore.durable.log import SEGMENT_HEAD, seed_of
from dynstore.durable.reading import list_segments
from dynstore.durable.records import HEAD, Head, LoggedUpdate, Record, encode, read_head

__all__ = ["Raw", "craft", "read_raw", "token_of", "write_raw"]


@dataclass
class Raw:
    """A record in parts: its head, and ``[arguments, [[name, dtype, count], ...]]``, position, bytes of the columns."""

    head: Head
    meta: Any
    position: bytes
    columns: bytes

    changed: dict[str, Any] = field(default_factory=dict)  # fields of the head that are not to be made right

    def record(self, seed: int) -> Record:
        meta = self.meta if isinstance(self.meta, bytes) else json.dumps(self.meta, separators=(",", ":")).encode()
        beginning = meta + self.position
        payload = beginning + bytes(-len(beginning) % 8) + self.columns
        head = self.head._replace(meta=len(meta), position=len(self.position), length=len(payload))
        return Record(head._replace(**self.changed), [payload], seed)

    def with_columns(self, columns: dict[str, np.ndarray], **arguments: Any) -> Raw:
        """Return the same with other columns, and some other arguments."""
        change = LoggedUpdate(self.head.kind, self.head.rows, {**self.meta[0], **arguments}, columns, self.position)
        record = encode(change, self.head.version, self.head.durable, 0)
        payload = b"".join(map(bytes, record.payload))
        start = record.head.meta + record.head.position
        return Raw(self.head, json.loads(payload[: record.head.meta]), self.position, payload[start + -start % 8 :])


def token_of(folder: Path) -> Manifest:
    return read_manifest("test", folder)


def read_raw(folder: Path) -> list[Raw]:
    """Return the records of a log of one segment."""
    (segment,) = list_segments(folder)
    content, place, records = segment.path.read_bytes(), SEGMENT_HEAD, []
    seed = seed_of(token_of(folder).token)
    while place < len(content):
        head = read_head(content[place : place + HEAD], seed)
        assert head is not None
        payload = content[place + HEAD : place + HEAD + head.length]
        start = head.meta + head.position
        meta = json.loads(payload[: head.meta])
        records.append(Raw(head, meta, payload[head.meta : start], payload[start + -start % 8 :]))
        place += HEAD + head.length
    return records


def write_raw(folder: Path, records: list[Raw]) -> None:
    """Write the records of a log of one segment anew."""
    (segment,) = list_segments(folder)
    seed = seed_of(token_of(folder).token)
    written = [bytes(buffer) for raw in records for buffer in raw.record(seed).buffers()]
    segment.path.write_bytes(segment.path.read_bytes()[:SEGMENT_HEAD] + b"".join(written))


def craft(folder: Path, place: int, change: Callable[[Raw], Raw | None]) -> None:
    """Change one record of a log, by its place; a function may change it or return another one."""
    records = read_raw(folder)
    records[place] = change(records[place]) or records[place]
    write_raw(folder, records)
