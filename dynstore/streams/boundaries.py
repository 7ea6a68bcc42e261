"""Where batches end for answers at each full hour, or any other length of event time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np

__all__ = ["Boundaries", "Length", "next_boundary"]

# Of event time: in the unit of the times, or nanoseconds.
Length: TypeAlias = "int | float"
MAX_TIME = (1 << 63) - 1


def next_boundary(newest: float, length: Length) -> int | float | None:
    """Return the first multiple of a length that is later than a time; None if there is none.

    >>> next_boundary(3599, 3600), next_boundary(3600, 3600), next_boundary(-1, 3600)
    (3600, 7200, 0)
    """
    if not math.isfinite(newest):
        return None
    boundary = (newest // length + 1) * length
    return boundary if newest < boundary <= MAX_TIME else None


class Boundaries:
    """Cuts rows, in the order in which they came, where the newest time so far passes a boundary.

    A row at a boundary passes it. Only the first row of a batch may do so: the rows before it are in the graph then,
    and no others. A row that is older than the newest one before it passes nothing.

    Attributes
    ----------
    lengths : set
        Their multiples are the boundaries.
    newest : int or float, or None
        The newest time so far.
    """

    def __init__(self) -> None:
        self.lengths: set[Length] = set()
        self.newest: int | float | None = None

    def cut(self, parts: Iterable[tuple[int, np.ndarray | None]]) -> tuple[int, dict[Length, int | float]]:
        """Return how many of the next rows make a batch, and which boundary of each length the first of them passes.

        Parameters
        ----------
        parts : iterable of (int, numpy.ndarray or None)
            How many rows each part of them has, and their times.
        """
        count, passed = 0, dict[Length, "int | float"]()
        for rows, times in parts:
            if rows and times is not None:
                first = times[0].item()
                if not count and self.newest is not None:
                    passed = {
                        length: boundary
                        for length in self.lengths
                        if (boundary := next_boundary(self.newest, length)) is not None and boundary <= first
                    }
                if self.newest is None or (not count and first > self.newest):
                    self.newest = first
                bounds = [next_boundary(self.newest, length) for length in self.lengths]
                least = min((bound for bound in bounds if bound is not None), default=None)
                if least is not None:
                    beyond = times >= least
                    place = int(beyond.argmax())
                    if beyond[place]:
                        if place:
                            self.newest = max(self.newest, times[:place].max().item())
                        return count + place, passed
                self.newest = max(self.newest, times.max().item())
            count += rows
        return count, passed
