"""The log of a graph that lives in a database, as far as a stream uses it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

from dynstore.streams.pending import Position

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from dynstore.graph import DynamicGraph

__all__ = ["Journal", "find_journal", "pack", "unpack"]


class Journal(Protocol):
    """A database (:func:`dynstore.open`)."""

    @property
    def position(self) -> bytes | None: ...

    @property
    def durable_version(self) -> int: ...

    @property
    def logged_bytes(self) -> int: ...

    def positioned(self, position: bytes) -> AbstractContextManager[None]: ...

    def flush(self) -> None: ...

    def at(self, version: int) -> DynamicGraph: ...


def find_journal(G: object) -> Journal | None:
    """Return the database that a graph lives in, if it does."""
    return getattr(G, "_journal", None)


def pack(position: Position, newest: Any, reach: Position | None = None) -> bytes:
    """Return how far a stream has come as a record of the log has it; ``reach``: where the rows of its window begin."""
    more = [] if reach is None else [[reach.source, reach.skip, reach.whole]]
    return json.dumps([position.source, position.skip, position.whole, newest, *more]).encode()


def unpack(record: bytes) -> tuple[Position, Any, Position | None]:
    """Return what :func:`pack` was given."""
    source, skip, whole, newest, *more = json.loads(record)
    return Position(source, skip, whole), newest, Position(*more[0]) if more else None
