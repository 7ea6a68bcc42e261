"""Rows that have arrived and wait to be applied: bounded, in order, cut into batches."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from threading import Condition
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from dynstore.errors import StreamError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from dynstore.streams.boundaries import Boundaries, Length
    from dynstore.streams.rows import StreamRows

__all__ = ["OVERFLOW", "Chunk", "Overflow", "Pending", "Position", "Taken"]

Overflow: TypeAlias = Literal["block", "drop-oldest", "error"]
OVERFLOW = ("block", "drop-oldest", "error")


@dataclass(slots=True)
class Position:
    """How far a stream has come: ``skip`` rows behind a position of the source.

    ``whole``: whether ``source`` is a position that the source gave.
    """

    source: Any = None
    skip: int = 0
    whole: bool = False


@dataclass(slots=True)
class Chunk:
    """What one call of the source has brought; ``position``: the source's behind it."""

    rows: StreamRows
    arrived: float
    position: Any
    nbytes: int
    taken: int = 0
    skipped: int = 0  # rows before the first, which were there before a restart


@dataclass(slots=True)
class Taken:
    """The rows of a batch.

    Attributes
    ----------
    parts : list of Rows
    arrivals : list of (float, int)
        When the rows of each part arrived, and how many they are.
    begins, position : Position
        Before the first row, and behind the last one.
    upto : int
        The number of rows that have arrived up to the last row, also those that were dropped.
    passed : dict
        The boundaries of event time that the first row passes, by their length.
    """

    begins: Position
    position: Position
    parts: list[StreamRows] = field(default_factory=list)
    arrivals: list[tuple[float, int]] = field(default_factory=list)
    upto: int = 0
    passed: dict[Length, int | float] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(count for _, count in self.arrivals)


class Pending:
    """A bounded queue of rows. All that may change is changed under ``changed``, a condition.

    Parameters
    ----------
    max_pending : int
        The most rows that wait.
    max_bytes : int
        The most bytes that they have.
    overflow : {"block", "drop-oldest", "error"}

    Attributes
    ----------
    arrived, dropped : int
        Rows so far.
    ended : bool
        Whether nothing will come any more.
    """

    def __init__(self, max_pending: int, max_bytes: int, overflow: Overflow) -> None:
        self.changed = Condition()
        self.max_pending, self.max_bytes, self.overflow = max_pending, max_bytes, overflow
        self.arrived = self.dropped = self.size = self.nbytes = 0
        self.ended = False
        self.position = Position()
        self._chunks: deque[Chunk] = deque()

    def room(self) -> int:
        """Return how many rows would be taken in without waiting."""
        with self.changed:
            if self.overflow != "block":
                return self.max_pending
            return self.max_pending - self.size if self.nbytes < self.max_bytes else 0

    def wait_for_room(self, timeout: float) -> None:
        """Wait until there is room, but not longer than ``timeout`` seconds."""
        with self.changed:
            self.changed.wait_for(
                lambda: (self.size < self.max_pending and self.nbytes < self.max_bytes) or self.ended, timeout
            )

    def put(self, rows: StreamRows, position: Any, skip: int = 0) -> None:
        """Add rows that have arrived.

        With ``overflow="block"`` they are taken in whatever their number: the caller has looked for room.

        Parameters
        ----------
        position : object
            The source's position behind them.
        skip : int
            How many of the first rows were there before a restart.

        Raises
        ------
        StreamError
            With ``overflow="error"``, if there is no room for them. None is taken in.
        """
        count, nbytes = len(rows) - skip, rows.nbytes
        with self.changed:
            over = self.size + count - self.max_pending
            too_large = self.size and self.nbytes + nbytes > self.max_bytes
            if (over > 0 or too_large) and self.overflow == "error":
                limit = f"max_pending is {self.max_pending}" if over > 0 else f"max_pending_bytes is {self.max_bytes}"
                raise StreamError(
                    f"Stream: {self.size} rows wait and {count} more came; {limit}. "
                    "Wanted a slower source, a larger limit, or overflow='block' or 'drop-oldest'"
                )
            self._chunks.append(Chunk(rows[skip:] if skip else rows, perf_counter(), position, nbytes, skipped=skip))
            self.size += count
            self.nbytes += nbytes
            self.arrived += count
            if over > 0 and self.overflow == "drop-oldest":
                self.dropped += over
                self._take(over)
            if too_large and self.overflow == "drop-oldest":
                self._drop_down_to(self.max_bytes)
            self.changed.notify_all()

    def _drop_down_to(self, nbytes: int) -> None:
        """Drop the oldest rows until the others take at most so many bytes, or are what came last."""
        while self.nbytes > nbytes and len(self._chunks) > 1:
            oldest = len(self._chunks[0].rows) - self._chunks[0].taken
            self.dropped += oldest
            self._take(oldest)

    def end(self) -> None:
        """Note that nothing will come any more."""
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def age(self) -> float:
        """Return the seconds since the oldest row arrived; 0 if none waits."""
        with self.changed:
            return perf_counter() - self._chunks[0].arrived if self._chunks else 0.0

    def take(self, most: int, boundaries: Boundaries | None = None) -> Taken:
        """Take the oldest rows, at most so many, and none behind the next boundary but the first."""
        with self.changed:
            passed: dict[Length, int | float] = {}
            if boundaries is not None and boundaries.lengths:
                most, passed = boundaries.cut(self._next(most))
            taken = self._take(most)
            taken.passed = passed
            self.changed.notify_all()
            return taken

    def _next(self, most: int) -> Iterator[tuple[int, np.ndarray | None]]:
        """Yield how many of the oldest rows are in each part, and their times."""
        for chunk in self._chunks:
            first, last = chunk.taken, min(chunk.taken + most, len(chunk.rows))
            yield last - first, None if chunk.rows.times is None else chunk.rows.times[first:last]
            most -= last - first
            if not most:
                return

    def _take(self, most: int) -> Taken:
        taken = Taken(self.position, self.position)
        left = most
        while self._chunks and (left or not len(self._chunks[0].rows)):
            chunk = self._chunks[0]
            first, last = chunk.taken, min(chunk.taken + left, len(chunk.rows))
            if last > first:
                taken.parts.append(chunk.rows[first:last])
                taken.arrivals.append((chunk.arrived, last - first))
            chunk.taken, left = last, left - (last - first)
            if last == len(chunk.rows):
                self._chunks.popleft()
                self.nbytes -= chunk.nbytes
                self.position = Position(chunk.position, 0, True)
            else:
                self.position = Position(self.position.source, chunk.skipped + last, self.position.whole)
        self.size -= most - left
        taken.position, taken.upto = self.position, self.arrived - self.size
        return taken
