"""Which ids and weights a reader accepts, and whole numbers of any length."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["MAX_DIGITS", "Limits", "whole_number"]

MAX_DIGITS = 40  # more than any number that is accepted has


@dataclass(frozen=True)
class Limits:
    """What the rows of a file may hold.

    Attributes
    ----------
    max_id, min_id : int
        The highest and the lowest id.
    max_weight : float
        The largest finite weight.
    any_ids : bool
        Whether strings may be ids; they are numbered then.
    """

    max_id: int
    max_weight: float = float(np.finfo(np.float64).max)
    any_ids: bool = False
    min_id: int = 0


def whole_number(digits: str) -> int:
    """Return the number; one of more than 40 digits is cut to 40, as Python reads no numbers of thousands of digits."""
    return int(digits.lstrip("0")[:MAX_DIGITS] or "0")
