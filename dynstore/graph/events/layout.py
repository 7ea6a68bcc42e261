"""How events and their pairs lie in memory, as kernels take them.

A record of a pair is a row of int64: the pair, its newest event and how many it has, and the sum of its weights. A sum
is kept in two floats, whose sum is the sum (T. J. Dekker, "A floating-point technique for extending the available
precision", Numerische Mathematik 18, 1971), or in an int64. ``PEAK`` is the greatest magnitude that it had since it was
made: where much less than that is left, it is made anew from the events that are left, and so has no old errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = [
    "ALIVE",
    "BACK",
    "BLOCK",
    "BLOCK_SHIFT",
    "COUNT",
    "EMPTY",
    "FLAG",
    "HALF",
    "HIGH",
    "ID",
    "KEPT",
    "KEY",
    "LOW",
    "LOWER",
    "NO_EVENT",
    "OWN",
    "PAIR",
    "PEAK",
    "REMOVED",
    "STATE",
    "Entered",
    "FreeRecords",
    "Left",
    "LogArrays",
    "RecordArrays",
    "Touched",
]  # fmt: skip

# Columns of a record. STATE has the number of the newest event in its upper half (-1 for none), and how many events
# there are in its lower one.
KEY, STATE, HIGH, LOW, PEAK = range(5)
HALF, LOWER = 32, 0xFFFFFFFF
COUNT = LOWER >> 1  # the bits of how many there are
FLAG = 1 << 31  # in STATE, while events leave: the pair is listed already
NO_EVENT = -1 << HALF
# Cells without a pair: never used, and used before.
EMPTY, REMOVED = -1, -2
# Below this share of its greatest magnitude, a sum is made anew.
KEPT = 2.0**-20

# Columns of the log beside those of the user: the pair's record, the event before, whether it is there, its id.
PAIR, BACK, ALIVE, ID = "(pair)", "(back)", "(alive)", "edge_id"
OWN = {PAIR: np.dtype(np.int32), BACK: np.dtype(np.int32), ALIVE: np.dtype(np.uint8), ID: np.dtype(np.int64)}
# The least and the greatest time are known of each block of so many rows.
BLOCK_SHIFT = 12
BLOCK = 1 << BLOCK_SHIFT


class RecordArrays(NamedTuple):
    """A table of pairs.

    Attributes
    ----------
    cells : array, shape (C,), int32
        Open addressing with linear probing, over a power of two of cells: numbers of records, EMPTY or REMOVED.
    shift, seed : int
        See :mod:`dynstore.ids.hash_table`.
    records : array, shape (R, W), int64
    sums : array, shape (R, W), float64
        The same memory.
    """

    cells: Array
    shift: int
    seed: int
    records: Array
    sums: Array


class FreeRecords(NamedTuple):
    """The records that new pairs get: the first ``num_free`` numbers, the last one first, then those from ``used``."""

    numbers: Array
    num_free: int
    used: int


class LogArrays(NamedTuple):
    """The columns of a log; see :class:`dynstore.graph.events.log.EventLog`.

    Attributes
    ----------
    pair, back, alive, ids : arrays, shape (S,)
    weights, times : arrays, shape (S,) or (0,)
    lows, highs : arrays, int64
        The bounds of the times in each block, without entries if there are no times.
    shift, head, tail : int
    """

    pair: Array
    back: Array
    alive: Array
    ids: Array
    weights: Array
    times: Array
    lows: Array
    highs: Array
    shift: int
    head: int
    tail: int

    @property
    def capacity(self) -> int:
        """Rows of the columns, S."""
        return int(self.pair.shape[0])

    @property
    def first_row(self) -> int:
        """The row of the oldest event."""
        return (self.head + self.shift) % self.capacity

    @property
    def next_row(self) -> int:
        """The row of the next event."""
        return (self.tail + self.shift) % self.capacity

    @property
    def span(self) -> int:
        """How many events have numbers, also those that are gone."""
        return self.tail - self.head


class Touched(NamedTuple):
    """The records that an update writes to, each once, as they were.

    Attributes
    ----------
    numbers : array, shape (T,), int32
    before : array, shape (T, W), int64
    """

    numbers: Array
    before: Array


class Entered(NamedTuple):
    """What has been done for events that came.

    Attributes
    ----------
    touched : Touched
    fresh : array, int32
        The records that pairs without one got; they are among those touched.
    returned : int
        How many pairs had a record, and no events.
    bad : int
        How many weights are not finite, or make an integer sum too large.
    newest : int or None
        The greatest time, None if there are no times.
    """

    touched: Touched
    fresh: Array
    returned: int
    bad: int
    newest: int | None


class Left(NamedTuple):
    """What has been done for events that left.

    Attributes
    ----------
    rows : array, int64
        Of the log; each once.
    touched : Touched
    gone : array, int32
        The records that have no events any more.
    missing : int
        How many of the given rows are negative.
    """

    rows: Array
    touched: Touched
    gone: Array
    missing: int
