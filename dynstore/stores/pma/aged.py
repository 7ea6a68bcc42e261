"""The times of edges as kernels read them: a column of records, and a bound for each stretch of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = ["MOST_STRETCHES", "Aged"]

# A block holds a bit of each stretch in its shared memory.
MOST_STRETCHES = 1 << 17


class Aged(NamedTuple):
    """The times of records.

    Attributes
    ----------
    times : array, shape (R,), int32 or int64
    lows : array, shape (at most MOST_STRETCHES,), the same dtype
        Of each stretch, 2**shift neighbouring records, a time that none of its records with an edge is below. So the
        records of most edges need not be read to know that they are not old.
    shift : int
    """

    times: Array
    lows: Array
    shift: int
