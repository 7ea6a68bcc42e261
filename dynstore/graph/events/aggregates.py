"""Aggregates of the weights of a pair's events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from dynstore.graph.events.layout import COUNT, HIGH, LOW, PAIR, PEAK, STATE
from dynstore.graph.records import TIME, WEIGHT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dynstore.backend import Backend
    from dynstore.graph.events.pairs import PairRecords
    from dynstore.typing import Array

__all__ = ["AGGREGATES", "FLOAT64", "OF_RECORDS", "Aggregate", "of_records", "of_rows"]

Name = Literal["sum", "count", "mean", "last", "first", "min", "max"]
AGGREGATES = get_args(Name)
OF_RECORDS = ("sum", "count", "mean")  # what the records of a graph that takes updates have
FLOAT64 = np.dtype(np.float64)


def of_records(name: str, records: Array) -> Array:
    """Return sums, counts or means that records have, float64; ``records``: shape (N, W)."""
    counts = (records[:, STATE] & COUNT).astype(FLOAT64)
    if name == "count":
        return counts
    if records.shape[1] <= PEAK:
        sums = records[:, HIGH].astype(FLOAT64)
    else:
        floats = records.view(FLOAT64)
        sums = floats[:, HIGH] + floats[:, LOW]
    return sums if name == "sum" else sums / counts.clip(1)


def of_rows(backend: Backend, columns: Mapping[str, Array], name: str, rows: Array, size: int) -> Array:
    """Return an aggregate of some events by the record of their pair, float64, shape (size,); 0 without events.

    Parameters
    ----------
    backend : Backend
    columns : mapping
        Those of the log.
    name : str
    rows : array, int64
        In order of arrival.
    size : int
    """
    xp = backend.xp
    numbers = columns[PAIR][rows]
    if name == "count":
        return xp.bincount(numbers, minlength=size).astype(FLOAT64)
    weights = columns[WEIGHT][rows]
    if name in OF_RECORDS:
        sums: Array = backend.kernels("dynstore.graph.events", "pairs").sum_weights(backend, numbers, weights, size)
        return sums if name == "sum" else sums / xp.bincount(numbers, minlength=size).clip(1)
    values = backend.zeros(size, FLOAT64)
    if not rows.shape[0]:
        return values
    if name in ("first", "last"):
        keys = columns[TIME][rows].astype(np.int64) if TIME in columns else xp.arange(rows.shape[0], dtype=np.int64)
    else:
        keys = weights
    order = xp.argsort(keys, kind="stable")
    ordered, places = backend.kernels("dynstore.batches", "sort").sort_rows(backend, numbers[order].astype(np.int64))
    ends = backend.empty(ordered.shape[0], np.bool_)
    if name in ("last", "max"):
        ends[-1:] = True
        ends[:-1] = ordered[1:] != ordered[:-1]
    else:
        ends[:1] = True
        ends[1:] = ordered[1:] != ordered[:-1]
    values[ordered[ends]] = weights[order[places[ends]]]
    return values


class Aggregate:
    """The weights of pairs, by the number of their record.

    Parameters
    ----------
    name : str
    dtype : numpy.dtype
        Of the weights: float32 or float64.
    values : array, shape (R,), float64, or None
        None: the records have them, or ``make`` makes them.
    find_pairs : callable
        Returns the table of pairs as it is now.
    make : callable, optional
        Returns the values when they are first read; components of a window read none (``docs/notes/events.md``).
    """

    def __init__(
        self,
        name: str,
        dtype: np.dtype,
        values: Array | None,
        find_pairs: Callable[[], PairRecords],
        make: Callable[[], Array] | None = None,
    ) -> None:
        self.name, self.dtype, self.values, self._find_pairs, self._make = name, dtype, values, find_pairs, make

    def at(self, numbers: Array) -> Array:
        """Return the weights of records, float64."""
        make = self._make  # another thread may have made them since
        if make is not None:
            self.values = make()
            self._make = None
        if self.values is None:
            return of_records(self.name, self._find_pairs().records[numbers])
        values: Array = self.values[numbers]
        return values

    def weights(self, stored: Array) -> Array:
        """Return the weights of some slots; a gap's number may be that of no record."""
        pairs = self._find_pairs()
        if not pairs.used:
            return pairs.backend.zeros(stored.shape[0], self.dtype)
        return self.at(pairs.backend.xp.clip(stored, 0, pairs.used - 1)).astype(self.dtype, copy=False)
