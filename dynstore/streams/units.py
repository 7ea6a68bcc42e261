"""What a source brings comes in units: messages, or lines. Each is read as if it had come alone.

Units that look alike are read together, which is much faster and gives the same. If that fails, halves are read, down
to the unit that cannot be read: so the rows before it are known, and its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from dynstore.errors import DynstoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dynstore.streams.rows import RowReader, StreamRows

__all__ = ["BadUnit", "MixedUnitsError", "One", "Units", "read_units"]


class MixedUnitsError(Exception):
    """Units that cannot be read together; each of them may be right."""


class Units(Protocol):
    """Messages or lines that have arrived."""

    def __len__(self) -> int: ...

    def read(self, first: int, last: int) -> Any:
        """Return the rows of some units, in any form that :class:`RowReader` takes.

        Raises
        ------
        MixedUnitsError
            For several units of which each may have to be read differently.
        DynstoreError
            For a unit that cannot be read.
        """

    def place(self, number: int) -> str:
        """Return the name of a unit: the id of its message, its offset, or its line."""

    def value(self, number: int) -> Any:
        """Return the contents of a unit, as they came."""

    def position(self, number: int) -> Any:
        """Return the position of the source behind a unit; behind those before the first one for -1."""


class One:
    """Rows of a source that knows no units, as one."""

    def __init__(self, rows: Any, position: Any, place: str) -> None:
        self._rows, self._position, self._place = rows, position, place

    def __len__(self) -> int:
        return 1

    def read(self, first: int, last: int) -> Any:
        """Return the rows."""
        return self._rows

    def place(self, number: int) -> str:
        """Return the name."""
        return self._place

    def value(self, number: int) -> Any:
        """Return the rows."""
        return self._rows

    def position(self, number: int) -> Any:
        """Return the position behind the rows."""
        return self._position


class BadUnit(NamedTuple):
    """A unit that cannot be read.

    Attributes
    ----------
    place : str
        Its name: the id of a message, an offset, or a line.
    value : object
        Its contents, as they came: bytes, mostly.
    error : DynstoreError
        What is wrong; its text names the place.
    """

    place: str
    value: Any
    error: DynstoreError


def read_units(
    reader: RowReader, units: Units, leave_out: Callable[[BadUnit], None]
) -> Iterator[tuple[StreamRows | None, Any]]:
    """Yield rows, and the position of the source behind them.

    Parameters
    ----------
    reader : RowReader
    units : Units
    leave_out : callable
        Gets each unit that cannot be read. If it returns, the unit is left out: None is yielded in place of its rows.
        If it raises, all rows before have been yielded.
    """
    yield from _read(reader, units, 0, len(units), leave_out)


def _read(
    reader: RowReader, units: Units, first: int, last: int, leave_out: Callable[[BadUnit], None]
) -> Iterator[tuple[StreamRows | None, Any]]:
    if first == last:
        return
    rows: StreamRows | None = None
    try:
        with reader.unchanged_on_error():
            rows = reader.read(units.read(first, last))
    except (DynstoreError, MixedUnitsError) as error:
        if last - first > 1:
            middle = (first + last) // 2
            yield from _read(reader, units, first, middle, leave_out)
            yield from _read(reader, units, middle, last, leave_out)
            return
        if isinstance(error, MixedUnitsError):
            raise
        leave_out(BadUnit(units.place(first), units.value(first), _named(error, units.place(first))))
    yield rows, units.position(last - 1)


def _named(error: DynstoreError, place: str) -> DynstoreError:
    """Return the error with the name of the unit, unless it has it."""
    said = str(error)
    if not place or place in said:
        return error
    head, colon, rest = said.partition(": ")
    known = head in ("Stream", "decode")
    named = type(error)(f"Stream: {place}: {rest if known and colon else said}")
    named.__cause__ = error
    return named
