"""The unit of a graph's times: date-times and other numbers are not mixed."""

from __future__ import annotations

from math import isinf
from typing import TYPE_CHECKING

from dynstore.errors import InputTypeError
from dynstore.input.times import NANOSECONDS

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = ["TimeUnit"]


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
