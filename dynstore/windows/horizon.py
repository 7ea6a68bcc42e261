"""Which rows of a stream are in a window."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.arguments import check_count
from dynstore.errors import InputError, InputTypeError
from dynstore.input.forms import NAME_TIMES, check_labels, column_names, is_frame, open_edges, split_columns, take_rows
from dynstore.input.times import SPANS, read_span, read_times

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["BY", "Horizon", "Selection", "make_horizon"]

BY = ("count", "time")


class Selection(NamedTuple):
    """The rows of a batch that enter a window.

    Attributes
    ----------
    columns : tuple
        Sources, destinations, and weights if there are any, by ascending time.
    times : array, shape (B,), or None
    newest : int or float, or None
        The newest time so far.
    leaving : int
        The oldest rows of the window that leave.
    skipped : int
        Rows that came before so many others that they leave at once.
    late : int
        Rows that are too old.
    rows : array, shape (B,), or None
        Which rows of the batch enter, in the order of the columns; None for all in their own.
    """

    columns: tuple[Any, ...]
    times: Array | None
    newest: int | float | None
    leaving: int
    skipped: int
    late: int
    rows: Array | None

    def ignored(self, backend: Backend, columns: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Return the rows of the whole batch's columns that do not enter; None if all do."""
        count = len(columns[0])
        if self.rows is None or len(self.rows) == count:
            return None
        stays_out = backend.xp.ones(count, bool)
        stays_out[backend.asarray(self.rows)] = False
        return take_rows(columns, backend.xp.nonzero(stays_out)[0])


@dataclass(frozen=True, slots=True)
class Horizon:
    """The rule by which rows leave.

    Attributes
    ----------
    by : {"count", "time"}
    length, step : int or float
        Rows, or time; date-times are nanoseconds. ``step`` may be None.
    dated : bool
        Whether times are date-times.
    """

    by: str
    length: int | float
    step: int | float | None
    dated: bool

    def surplus(self, rows: int) -> int:
        """Return how many of so many rows have to leave, by count."""
        over = max(rows - int(self.length), 0)
        return over if self.step is None else over - over % int(self.step)

    def bound(self, newest: int | float) -> int | float:
        """Return the time up to which rows leave."""
        length = math.ceil(self.length) if isinstance(newest, int) else self.length  # so integers stay exact
        bound = newest - length
        if self.step is not None:
            bound = bound // self.step * self.step
        return math.floor(bound) if isinstance(newest, int) else bound

    def count_old(self, backend: Backend, times: Array, newest: int | float) -> int:
        """Return how many of ascending times are up to the bound."""
        bound = self.bound(newest)
        if times.dtype.kind == "i" and bound < np.iinfo(times.dtype).min:
            return 0
        place = backend.xp.searchsorted(times, backend.asarray(np.array([bound], times.dtype)), side="right")
        return int(place[0])

    def select(
        self,
        backend: Backend,
        edges: Any,
        columns: tuple[Any, ...],
        time: Any,
        held: int,
        newest: int | float | None,
        kept: Any,
    ) -> Selection:
        """Select the rows of a batch that enter.

        Parameters
        ----------
        edges : frame or tuple
        columns : tuple
            Their sources, destinations, and weights if there are any, of equal lengths.
        time : str or array, or None
            The column of times, or its name.
        held : int
            Rows in the window.
        newest : int or float, or None
            The newest time before.
        kept : array or None
            The times of the rows in the window, ascending; None if there never was one.
        """
        if self.by == "count":
            if time is not None:
                raise InputError("slide: time was given, but the window is by='count'; make it with by='time'")
            count = len(columns[0])
            surplus = self.surplus(held + count)
            skipped = max(surplus - held, 0)
            chosen = np.arange(skipped, count) if skipped else None
            if chosen is not None:
                columns = take_rows(columns, chosen)
            return Selection(columns, None, None, surplus - skipped, skipped, 0, chosen)
        times = self.read_times(backend, edges, time, len(columns[0]), kept)
        if not times.shape[0]:
            return Selection(columns, times, newest, 0, 0, 0, None)
        chosen = None
        if bool((times[1:] < times[:-1]).any()):
            chosen = backend.xp.argsort(times, kind="stable")
            times = times[chosen]
        last = times[-1].item()
        newest = last if newest is None else max(last, newest)
        late = self.count_old(backend, times, newest)
        if late:
            chosen = backend.xp.arange(late, times.shape[0]) if chosen is None else chosen[late:]
        if chosen is not None:
            columns = take_rows(columns, chosen)
        leaving = 0 if kept is None else self.count_old(backend, kept, newest)
        return Selection(columns, times[late:], newest, leaving, 0, late, chosen)

    def share_times(self, edges: Any, time: Any, kept: Any, columns: list[str]) -> tuple[Any, Any, Any]:
        """Return a batch, and who reads its times: what the graph gets for ``time``, and what the window gets.

        Each of the two is the times, the name of their column, or None. ``kept``: the dtype of the graph's times, if it
        keeps any; tuples and rows then end with them. ``columns``: all with which they end.
        """
        if kept is None:
            return edges, None, time
        if self.by == "count":
            return edges, time, None
        edges = open_edges("slide", edges, columns) if time is None else edges
        is_tuple = time is None and isinstance(edges, tuple) and len(edges) > 0
        return edges, time, edges[-1] if is_tuple else time

    def read_times(self, backend: Backend, edges: Any, time: Any, count: int, kept: Any) -> Array:
        """Read the times of a batch, in the dtype of those in the window."""
        name = time if isinstance(time, str) else "time"
        if time is None or isinstance(time, str):
            if isinstance(edges, tuple):
                raise InputError(
                    "slide: got edges without times, which a window by='time' needs; pass time=<array of times>, or a "
                    "frame"
                )
            if is_frame(edges):
                check_labels("slide", column_names(edges), [name], NAME_TIMES)
            time = split_columns("slide", edges, (name, name, None))[0][1]
        times, dated = read_times("slide", backend, name, time)
        if times.shape[0] != count:
            raise InputError(f"slide: `{name}` has {times.shape[0]} items, the edges have {count}; they must be equal")
        if count and dated != self.dated:
            got, wanted = ("date-times", "numbers") if dated else ("numbers", "date-times")
            own, other = (
                ("a number", "a length such as '1h'") if dated else ("a length of time", "a number as its length")
            )
            raise InputTypeError(
                f"slide: `{name}` has {got}; wanted {wanted}, as the window's length is {own}. For {got}, make the "
                f"window with {other}"
            )
        if kept is None or kept.dtype == times.dtype:
            return times
        if count and times.dtype == np.float64:
            raise InputTypeError(f"slide: `{name}` is float64; wanted integers, as in the batches before")
        return times.astype(kept.dtype)


def make_horizon(by: str, length: Any, step: Any) -> Horizon:
    """Read a window's arguments."""
    if by == "count":
        if isinstance(length, str):
            raise InputTypeError(f"Window: length is {length!r}; wanted a number of rows, or by='time' and {SPANS}")
        counts = [check_count("Window", name, value, least=1) for name, value in (("length", length), ("step", step))]
        if counts[0] is None:
            raise InputTypeError("Window: length is None; wanted a number of rows")
        return Horizon(by, counts[0], counts[1], False)
    span, dated = read_span("Window", "length", length)
    if step is None:
        return Horizon(by, span, None, dated)
    stride, also = read_span("Window", "step", step)
    if also != dated:
        raise InputError(f"Window: step is {step!r}, length is {length!r}; wanted two numbers or two lengths of time")
    return Horizon(by, span, stride, dated)
