"""The log of a graph that lives in a database, as far as a stream uses it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from dynstore.errors import InputError, InputTypeError, shown
from dynstore.graph.core import GraphCore
from dynstore.streams.pending import Position

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from dynstore.durable.folder import Restored

__all__ = ["Start", "StreamJournal", "find_journal", "pack", "unpack"]


class StreamJournal(Protocol):
    """A database (:func:`dynstore.open`).

    Attributes
    ----------
    meanwhile : callable or None
        It is called while the record of an update is written, before the graph changes.
    """

    meanwhile: Callable[[], None] | None

    @property
    def position(self) -> bytes | None: ...

    @property
    def durable_version(self) -> int: ...

    @property
    def logged_bytes(self) -> int: ...

    def positioned(self, position: bytes) -> AbstractContextManager[None]: ...

    def flush(self) -> None: ...

    def restored_at(self, version: int) -> Restored: ...


def find_journal(G: object) -> StreamJournal | None:
    """Return the database that a graph lives in, if it does."""
    core = getattr(G, "core", None)
    return cast("StreamJournal | None", core.journal) if isinstance(core, GraphCore) else None


class Start(NamedTuple):
    """Where the rows of a window begin, and the newest time before them.

    Attributes
    ----------
    position : Position
    newest : int or float, or None
    rows, read : int
        How many rows of the source have come since, and how many of them have been read: after a restart, they are
        read again. 0 in logs of older programs.
    """

    position: Position
    newest: Any
    rows: int = 0
    read: int = 0

    @property
    def rebuilding(self) -> bool:
        """Whether some of them are still to be read again."""
        return self.read < self.rows


def pack(position: Position, newest: Any, start: Start | None = None) -> bytes:
    """Return how far a stream has come as a record of the log has it; ``start``: of the rows of its window.

    Raises
    ------
    InputTypeError
        For a position of the source that JSON cannot hold.
    """
    place = None if start is None else start.position
    more = [] if place is None or start is None else [[place.source, place.skip, place.whole], *start[1:]]
    try:
        return json.dumps([position.source, position.skip, position.whole, newest, *more]).encode()
    except (TypeError, ValueError) as error:
        raise InputTypeError(
            f"Stream: the source's position is {shown(position.source)}; wanted numbers, strings, lists or dicts, "
            f"as JSON can hold them ({error})"
        ) from error


def unpack(record: bytes) -> tuple[Position, Any, Start | None]:
    """Return what :func:`pack` was given.

    Raises
    ------
    InputError
        For a position that a program has stored by itself.
    """
    try:
        source, skip, whole, newest, *more = json.loads(record)
        return Position(source, skip, whole), newest, Start(Position(*more[0]), *more[1:]) if more else None
    except (ValueError, TypeError, IndexError):
        raise InputError(
            f"Stream: the position in the log is {shown(record)}, which no stream has stored; wanted a database "
            "without positions of db.positioned(...)"
        ) from None
