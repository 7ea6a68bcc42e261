"""The columns of a graph's edges, where it has more of them than weights: a table of records.

Stores move one number beside each edge, its weight. The stores of a graph with extra columns move the number of a
record in its place. The columns, weights among them, are indexed by these numbers. So no kernel of a store knows of
columns.

An insertion takes a fresh record for each row of its batch. Records are never written again, and nothing notes which
of them are free: records of edges that were deleted or replaced, of repeated rows, of updates that were refused. When
the fresh ones run out, a pass over the store's slots finds the records of edges; all others become fresh. If these are
few, the table grows. At least a third of it is fresh then, so a pass costs a constant time for each row inserted.

Pins read records of edges that have gone since. While there are pins, their records count as those of edges, and the
table does not shrink, which would number records anew.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

import numpy as np

from dynstore.bits import unpack_bits
from dynstore.errors import LimitError
from dynstore.input.times import TimeUnit
from dynstore.interrupts import Uninterrupted
from dynstore.stores.pma.aged import MOST_STRETCHES, Aged

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Self

    from dynstore.backend import Backend
    from dynstore.stores.base import Store
    from dynstore.typing import Array

__all__ = ["TIME", "WEIGHT", "EdgeRecords", "Holder"]

WEIGHT, TIME = "weight", "time"
MIN_RECORDS = 64
LEAST_SHIFT = 6
# The records of a table that has grown or shrunk, for each one that is in use.
ROOM = 1.5
# A table of more than so many records for each one in use shrinks.
MOST_ROOM = 3


class Holder(Protocol):
    """What reads records that no edge may have any more."""

    def record_numbers(self) -> list[Array]: ...


class EdgeRecords(TimeUnit):
    """Columns of equal length, and the numbers of the records that are fresh.

    Parameters
    ----------
    backend : Backend
    dtypes : mapping
        The dtype of each column, "weight" among them if the graph is weighted.
    number_dtype : numpy.dtype
        Of the records' numbers: int32 or int64.
    capacity : int
        Records to reserve.
    timed : bool
        Whether the column "time" has the last time of each edge.

    Attributes
    ----------
    columns : dict of arrays, shape (R,)
    holders : set of Holder
        Pins.
    timed : bool
    """

    def __init__(
        self,
        backend: Backend,
        dtypes: Mapping[str, np.dtype],
        number_dtype: np.dtype,
        capacity: int = 0,
        timed: bool = False,
    ) -> None:
        size = max(MIN_RECORDS, capacity)
        super().__init__()
        self.timed = timed
        # Of each stretch of 2**shift records, a time that no record of an edge in it is below.
        self._lows: Array | None = None
        self._shift = 0
        self.columns: dict[str, Array] = {name: backend.zeros(size, dtype) for name, dtype in dtypes.items()}
        self.holders: WeakSet[Holder] = WeakSet()
        self._holder: Holder | None = None  # of which this is the table
        self._backend = backend
        self._fresh: Array = backend.xp.arange(size, dtype=number_dtype)  # ascending
        self._taken = 0  # how many of the first of them are not fresh any more
        if timed:
            self._lows, self._shift = self._lowest(self.columns[TIME], 0)

    @property
    def aged(self) -> Aged:
        """The times, for kernels."""
        assert self._lows is not None
        return Aged(self.columns[TIME], self._lows, self._shift)

    def plan_raise(self, bound: int) -> Callable[[], None]:
        """Plan for an update after which no edge has a time below a bound; return a commit."""
        return self._backend.prepare(self._kernels.raise_stretches, self._backend, self.aged, bound)

    @property
    def _kernels(self) -> Any:
        return self._backend.kernels("dynstore.stores.pma", "recorded")

    @property
    def size(self) -> int:
        """The number of records, R."""
        return int(next(iter(self.columns.values())).shape[0])

    @property
    def number_dtype(self) -> np.dtype:
        """The dtype of the records' numbers."""
        dtype: np.dtype = self._fresh.dtype
        return dtype

    @property
    def extra_dtypes(self) -> dict[str, np.dtype]:
        """The dtypes of the columns beside the weight."""
        return {name: column.dtype for name, column in self.columns.items() if name != WEIGHT}

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(int(array.nbytes) for array in (*self.columns.values(), self._fresh))

    def values(self, numbers: Array) -> dict[str, Array]:
        """Return all columns of some records, in new arrays."""
        return {name: column[numbers] for name, column in self.columns.items()}

    def extra_values(self, numbers: Array) -> dict[str, Array]:
        """Return the columns beside the weight of some slots; a gap's number may be that of no record."""
        return {name: self.column(name, numbers) for name in self.columns if name != WEIGHT}

    def column(self, name: str, numbers: Array) -> Array:
        """Return one column of some slots; a gap's number may be that of no record."""
        column = self.columns[name]
        return column[self._backend.xp.clip(numbers, 0, column.shape[0] - 1)]

    def weights(self, numbers: Array) -> Array | None:
        """Return the weights of some slots, None if there are none; a gap's number may be that of no record."""
        return self.column(WEIGHT, numbers) if WEIGHT in self.columns else None

    def append(self, values: Mapping[str, Array], stores: Sequence[Store], newest: int | None = None) -> Array:
        """Write rows to fresh records; return their numbers, shape (B,).

        No update needs to take this back: records that no edge has are fresh again some time.

        Parameters
        ----------
        values : mapping
            The rows of each column, shape (B,).
        stores : sequence of Store
            All stores of these records, the out-edges first.
        newest : int, optional
            With times: that of the rows, or a later one; by default it is looked for.

        Raises
        ------
        OutOfMemoryError, LimitError
            If the table cannot grow. It is as it was.
        """
        count = min(int(array.shape[0]) for array in values.values())
        if self._taken + count > self._fresh.shape[0]:
            self._make_room(count, stores)
        numbers: Array = self._fresh[self._taken : self._taken + count]
        if self.timed and count:
            newest = int(values[TIME].max()) if newest is None else newest
            self.newest = newest if self.newest is None else max(self.newest, newest)
            self._kernels.lower_stretches(self._backend, self.aged, numbers, values[TIME])
        for name, column in self.columns.items():
            column[numbers] = values[name]
        self._taken += count
        return numbers

    def copy(self) -> Self:
        """Return an independent copy, with the same numbers."""
        twin = copy(self)
        twin.columns = {name: column.copy() for name, column in self.columns.items()}
        twin.holders = WeakSet()
        twin._lows = None if self._lows is None else self._lows.copy()
        return twin  # the numbers of fresh records are replaced, never written

    def held_by(self, holder: Holder) -> Self:
        """Return this table for reading only; as long as it is there, so is what holds the records that it reads."""
        twin = copy(self)
        twin._holder, twin._fresh, twin._lows = holder, self._fresh[:0].copy(), None
        return twin

    def without_records(self) -> EdgeRecords:
        """Return an empty table of the same columns."""
        dtypes = {name: column.dtype for name, column in self.columns.items()}
        return EdgeRecords(self._backend, dtypes, self.number_dtype, timed=self.timed)

    def _make_room(self, count: int, stores: Sequence[Store]) -> None:
        """Find the records that no edge has; grow or shrink, so that ``count`` records are fresh."""
        xp, slots = self._backend.xp, stores[0].slots
        used = self._backend.zeros(self.size, np.bool_)
        held = unpack_bits(self._backend, slots.valid, slots.num_slots)
        used[_numbers_in(stores[0])[held]] = True
        holders = list(self.holders)
        for numbers in (numbers for holder in holders for numbers in holder.record_numbers()):
            used[numbers] = True
        in_use = int(xp.count_nonzero(used))
        size, needed = self._size_for(in_use + count), in_use + count
        if self.size > MOST_ROOM * needed and self.size > size and not holders:
            self._compact(used, in_use, size, stores)
            return
        columns = self.columns
        if size > self.size:
            columns = {name: self._resized(column, size) for name, column in columns.items()}
            used = self._resized(used, size)
        fresh = xp.nonzero(~used)[0].astype(self.number_dtype)
        lows = self._lowest(columns[TIME], used) if self.timed else (None, 0)
        with Uninterrupted():
            self.columns.update(columns)  # pins read this dict
            self._fresh, self._taken = fresh, 0
            self._lows, self._shift = lows

    def _size_for(self, needed: int) -> int:
        most = int(np.iinfo(self.number_dtype).max)
        if needed > most:
            raise LimitError(
                f"edge columns: the edges need {needed} records (rows of values); {self.number_dtype} numbers at most "
                f'{most} of them. Make the graph with vertex_dtype="int64"'
            )
        return min(max(MIN_RECORDS, int(ROOM * needed)), most)

    def _compact(self, used: Array, in_use: int, size: int, stores: Sequence[Store]) -> None:
        """Move the records of edges to the front of a smaller table, and number them anew in all stores."""
        xp = self._backend.xp
        columns = {name: self._resized(column[used], size) for name, column in self.columns.items()}
        ranks = xp.cumsum(used, dtype=self.number_dtype) - 1
        moved = [ranks[xp.clip(_numbers_in(store), 0, self.size - 1)] for store in stores]
        fresh = xp.arange(in_use, size, dtype=self.number_dtype)
        lows = self._lowest(columns[TIME], in_use) if self.timed else (None, 0)
        with Uninterrupted():
            for store, numbers in zip(stores, moved, strict=True):
                _numbers_in(store)[:] = numbers
            self.columns, self._fresh, self._taken = columns, fresh, 0
            self._lows, self._shift = lows

    def _lowest(self, times: Array, used: Array | int) -> tuple[Array, int]:
        """Return the lowest time of the records with edges in each stretch, and the stretches' ``shift``.

        ``used``: which records have edges, bool, shape (R,); or how many of the first.
        """
        size = int(times.shape[0])
        shift = max(LEAST_SHIFT, (size - 1).bit_length() - (MOST_STRETCHES.bit_length() - 1))
        padded = self._backend.empty(-(-size >> shift) << shift, times.dtype)
        padded.fill(np.iinfo(times.dtype).max)
        if isinstance(used, int):
            padded[:used] = times[:used]
        else:
            padded[:size] = self._backend.xp.where(used, times, padded[:size])
        return padded.reshape(-1, 1 << shift).min(axis=1), shift

    def _resized(self, array: Array, size: int) -> Array:
        resized = self._backend.zeros(size, array.dtype)
        resized[: array.shape[0]] = array
        return resized


def _numbers_in(store: Store) -> Array:
    """Return the number of the record in each slot; gaps have any numbers."""
    numbers = store.slots.weights
    assert numbers is not None
    return numbers
