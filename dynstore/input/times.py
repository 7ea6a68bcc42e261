"""Columns of times: numbers, or date-times, which become nanoseconds. A graph has one kind of them."""

from __future__ import annotations

import datetime
import re
from math import isinf
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.errors import InputError, InputTypeError, LimitError, shown
from dynstore.input.columns import read_numbers
from dynstore.input.converting import plain
from dynstore.input.forms import on_gpu
from dynstore.input.kinds import kind_of

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["NANOSECONDS", "SPANS", "TimeUnit", "is_dated", "read_span", "read_time", "read_times"]

SPANS = "a length of time, such as '30min', '1h' or '7D'"
# What pandas would read as nanoseconds.
DATED = ("dates", "date-times", "strings")
# From here on (26 April 1970) whole numbers can be nanoseconds; microseconds of today are below.
NANOSECONDS = 10**16
UNITLESS = re.compile(r"[\s\d.+-]*")


def read_times(caller: str, backend: Backend, name: str, column: Any) -> tuple[Array, bool]:
    """Read a column of times.

    Returns
    -------
    times : array, shape (B,), int64 or float64
        Date-times are nanoseconds since 1970, in UTC where they have a time zone.
    dated : bool
        Whether they are date-times.

    Raises
    ------
    InputError
        For nulls, and for what is neither a number nor a date-time.
    """
    column = plain(caller, name, on_gpu(backend, column), "time")
    if kind_of(column) in DATED or _holds(column, str, datetime.date, np.datetime64):
        return backend.asarray(_read_dates(caller, name, column)), True
    times = read_numbers(caller, backend, name, column, "time")
    if times.dtype == np.uint64 and times.shape[0] and int(times.max()) >= 2**63:
        raise InputError(f"{caller}: `{name}` has {int(times.max())}; times go to {2**63 - 1}")
    if times.dtype.kind == "f" and bool(backend.xp.isnan(times).any()):
        raise InputError(f"{caller}: `{name}` has a null at row {int(backend.xp.isnan(times).argmax())}; wanted none")
    return times.astype(np.float64 if times.dtype.kind == "f" else np.int64), False


def is_dated(value: Any) -> bool:
    """Whether one time is a date-time."""
    return isinstance(value, datetime.date | np.datetime64)


def read_time(caller: str, name: str, value: Any) -> int:
    """Read one time: an integer, or a date-time, which becomes nanoseconds since 1970 (UTC).

    Raises
    ------
    InputError
        For all else.
    """
    if is_dated(value):
        import pandas

        timestamp = pandas.Timestamp(value)
        if timestamp is pandas.NaT:
            raise InputError(f"{caller}: {name} is {shown(value)}; wanted a time")
        try:
            return int(timestamp.as_unit("ns").value)
        except ValueError as error:
            raise LimitError(
                f"{caller}: {name} is {shown(value)}; dates go from 1677 to 2262, as nanoseconds"
            ) from error
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise InputTypeError(
            f"{caller}: {name} is {shown(value)}; wanted an integer or a date-time, such as a datetime"
        )
    if not -(2**63) <= int(value) < 2**63:
        raise LimitError(f"{caller}: {name} is {value}; times go from {-(2**63)} to {2**63 - 1}")
    return int(value)


def _holds(column: Any, *types: type) -> bool:
    """Whether a list or an array of Python objects begins with a value of these types."""
    return kind_of(column) == "objects" and len(column) > 0 and isinstance(column[0], types)


def _read_dates(caller: str, name: str, column: Any) -> np.ndarray:
    """Return date-times, dates or ISO texts of any library as nanoseconds, int64."""
    import pandas

    if hasattr(getattr(column, "dtype", None), "pyarrow_dtype"):  # pandas over Arrow's memory
        column = column.array.__arrow_array__()
    if type(column).__module__.startswith(("cudf.", "polars.")):
        column = column.to_arrow()
    if hasattr(column, "type") and hasattr(column, "to_pandas"):  # pyarrow
        column = column.to_pandas()
    if kind_of(column) == "strings" or _holds(column, str):
        column = _parse_dates(caller, name, column)
    try:
        dates = pandas.DatetimeIndex(column).as_unit("ns")
    except (ValueError, TypeError) as error:
        raise InputTypeError(f"{caller}: `{name}` cannot be read as date-times: {error}") from error
    if dates.hasnans:
        raise InputError(f"{caller}: `{name}` has a null at row {int(np.argmax(dates.isna()))}; wanted none")
    return np.asarray(dates.asi8, np.int64)


def _parse_dates(caller: str, name: str, column: Any) -> Any:
    """Return texts, such as ISO dates and date-times, as date-times."""
    import pandas

    texts = np.asarray(column, dtype=object)
    try:
        return pandas.to_datetime(texts, format="ISO8601", utc=True)
    except ValueError as error:
        unread = pandas.to_datetime(texts, format="ISO8601", utc=True, errors="coerce").isna() & ~pandas.isna(texts)
        row = int(unread.argmax())
        raise InputError(
            f"{caller}: `{name}` has {shown(texts[row])} at row {row}; wanted ISO dates and times, such as "
            "'2026-01-31T10:00:00'"
        ) from error


def read_span(caller: str, name: str, value: Any) -> tuple[int | float, bool]:
    """Read a length of time: a positive number, or a string such as "1h" or a timedelta, which become nanoseconds.

    Returns
    -------
    length : int or float
    dated : bool
        Whether it is a length of date-times.
    """
    import pandas

    if isinstance(value, str | datetime.timedelta | np.timedelta64):
        try:
            length = pandas.Timedelta(value).as_unit("ns")
        except ValueError:
            length = pandas.NaT
        if length is pandas.NaT or (isinstance(value, str) and UNITLESS.fullmatch(value)):
            raise InputError(f"{caller}: {name} is {shown(value)}; wanted {SPANS}")
        span, dated = length.value, True
    elif isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        span, dated = value.item() if isinstance(value, np.generic) else value, False
        if isinstance(span, float) and span.is_integer():  # such as 60 * 1e9: as a float it would round times of today
            span = int(span)
    else:
        raise InputTypeError(f"{caller}: {name} is {shown(value)}; wanted a number, or {SPANS}")
    if not span > 0 or span == float("inf"):
        raise InputError(f"{caller}: {name} is {shown(value)}; wanted more than 0")
    return span, dated


class TimeUnit:
    """What is known of the unit of times.

    Attributes
    ----------
    newest : int or None
        No time of the graph is greater; None if there never was one.
    dated : bool
        Whether times came as date-times, so that all are nanoseconds.
    """

    def __init__(self) -> None:
        self.newest: int | None = None
        self.dated = False

    def check_times(self, caller: str, name: str, times: Array, dated: bool) -> None:
        """Refuse times in another unit than those that are there, and note whether these are date-times.

        Whole numbers may be nanoseconds among date-times, as tables of the graph have them, if they are large enough.

        Raises
        ------
        InputTypeError
        """
        if not len(times):
            return
        if self.newest is None:
            self.dated = dated
        elif dated and not self.dated:
            self.check_time(caller, name, int(times.max()), True)
            self.dated = True
        elif self.dated and not dated:
            self.check_time(caller, name, int(times.min()), False)

    def check_time(self, caller: str, name: str, time: float, dated: bool) -> None:
        """Refuse one time in another unit than those that are there; date-times are nanoseconds.

        Raises
        ------
        InputTypeError
        """
        if self.newest is None or isinf(time):
            return
        if dated and not self.dated and self.newest < NANOSECONDS <= time:
            raise InputTypeError(
                f"{caller}: `{name}` has date-times; wanted numbers, as the times in the graph, which go to "
                f"{self.newest}"
            )
        if self.dated and not dated and time < NANOSECONDS:
            raise InputTypeError(
                f"{caller}: `{name}` has the number {time}; wanted date-times, as the times in the graph (or whole "
                "numbers from 10**16 on, which count as nanoseconds since 1970)"
            )

    def guess_dated(self) -> None:
        """Guess whether times are date-times: they are if they are large enough for nanoseconds. Logs do not say it."""
        self.dated = self.newest is not None and self.newest >= NANOSECONDS
