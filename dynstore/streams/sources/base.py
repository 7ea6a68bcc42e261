"""Where a stream's rows come from: the protocol, and sources in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from dynstore.errors import InputError
from dynstore.input.forms import check_lengths, length_of, open_edges
from dynstore.io import EventTable

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ON_GAP", "BaseSource", "IterableSource", "MessageSource", "OnGap", "Source", "TableSource"]

OnGap: TypeAlias = Literal["raise", "continue"]
ON_GAP = ("raise", "continue")


class Source(Protocol):
    """The origin of a stream's rows.

    Write a class with these methods to read from a server or file of another kind; it need not be a subclass. A stream
    calls all methods from one thread. A position may be anything that JSON can hold: numbers, strings, lists, dicts.

    A source may also have a method ``close()``; it is called once, at the end. It may have a method ``start()``, which
    returns the position before the first row; it is called before the first :meth:`poll` if no other position is known
    and the graph keeps a log. Without it, a program that ends in the midst of the first rows reads what the source has
    then, and skips the rows that were applied. It may have an attribute
    ``left_behind``: a sentence that says where it begins, if another program has read it before, else None.

    A position should say what it belongs to, so that :meth:`seek` or the next :meth:`poll` notices that the source is
    another one, or lacks what was not read. Then they raise :class:`dynstore.errors.SourceGapError`, before they change
    anything; its ``resume`` is the position behind the gap.
    """

    def poll(self, max_rows: int, timeout: float) -> tuple[Any, Any] | None:
        """Return the next rows and the position behind them, or None if nothing came in time.

        Parameters
        ----------
        max_rows : int
            About how many rows to return. More are allowed: a source may return a message as a whole.
        timeout : float
            How long to wait for the first of them, in seconds.

        Returns
        -------
        tuple or None
            The rows, and the position behind the last of them. Rows are a frame, a tuple or a dict of columns; or
            :class:`dynstore.streams.Messages`, which are read one by one, so that a bad one may be left out.

        Raises
        ------
        EOFError
            At the end, when no more rows will come.
        """

    def seek(self, position: Any) -> None:
        """Go on behind a position; it is called before the first :meth:`poll`, or not at all.

        Parameters
        ----------
        position : object
            A position that :meth:`poll` has returned.
        """

    def commit(self, position: Any) -> None:
        """Note that the rows up to a position are done: after a crash they need not come again.

        Parameters
        ----------
        position : object
            The position that :meth:`poll` has returned with the last of these rows.
        """

    def pause(self, on: bool) -> None:
        """Stop or resume fetching ahead.

        Parameters
        ----------
        on : bool
            True to stop, because the stream has no room; False to go on.
        """


class BaseSource:
    """A source that keeps no position and fetches nothing ahead."""

    left_behind: str | None = None

    def commit(self, position: Any) -> None:
        """Do nothing."""

    def pause(self, on: bool) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class MessageSource(BaseSource):
    """A source of messages, of which a stream needs some columns."""

    _columns: Collection[str] | None = None

    def choose(self, names: Collection[str] | None, named: bool) -> None:
        """Read only some columns; called by a stream. None: all."""
        self._columns = names


class IterableSource(BaseSource):
    """An iterable of batches, such as a generator. A position is a number of batches.

    Parameters
    ----------
    batches : iterable
        Each item is a batch: a frame, a tuple of columns, a list of rows, or a dict of columns.
    """

    def __init__(self, batches: Iterable[Any]) -> None:
        self._batches: Iterator[Any] = iter(batches)
        self._count = 0

    def poll(self, max_rows: int, timeout: float) -> tuple[Any, Any] | None:
        """Return the next batch, whatever its size; it waits as long as the iterable does."""
        for batch in self._batches:
            self._count += 1
            return batch, self._count
        raise EOFError

    def seek(self, position: Any) -> None:
        """Skip so many batches."""
        for _ in range(position):
            self.poll(0, 0.0)


class TableSource(BaseSource):
    """A table in memory, read in slices. A position is a number of rows.

    Parameters
    ----------
    table : frame, tuple, dict or EventTable
        A frame, a tuple of columns, a dict of columns, or a :class:`dynstore.io.EventTable`.
    """

    def __init__(self, table: Any) -> None:
        if isinstance(table, EventTable):
            table = table.columns()
        elif not isinstance(table, Mapping):
            table = open_edges("Stream", table)
        if isinstance(table, Mapping):
            table = {name: column for name, column in table.items() if column is not None}
        self._table, self._row = table, 0
        columns = list(table.items()) if isinstance(table, Mapping) else []
        if isinstance(table, tuple):
            columns = [(f"column {place}", column) for place, column in enumerate(table)]
        if isinstance(table, Mapping | tuple) and not columns:
            raise InputError("Stream: source has no columns; wanted source and destination")
        if columns:
            check_lengths("Stream", columns)
        self._length = length_of("Stream", *columns[0]) if columns else len(table)

    def __len__(self) -> int:
        return self._length

    def poll(self, max_rows: int, timeout: float) -> tuple[Any, Any] | None:
        """Return the next slice."""
        if self._row >= self._length:
            raise EOFError
        first, self._row = self._row, min(self._row + max_rows, self._length)
        return _rows(self._table, first, self._row), self._row

    def seek(self, position: Any) -> None:
        """Go on at a row."""
        self._row = position


def _rows(table: Any, first: int, last: int) -> Any:
    """Return some rows of a table of any kind."""
    if isinstance(table, tuple):
        return tuple(column[first:last] for column in table)
    if isinstance(table, Mapping):
        return {name: column[first:last] for name, column in table.items()}
    if hasattr(table, "iloc"):
        return table.iloc[first:last]
    return table.slice(first, last - first)  # polars, pyarrow
