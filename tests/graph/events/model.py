"""A multigraph as a dict from id to row, and the answers that it gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from dynstore.typing import UpdateReport

Pair = tuple[Any, Any]
COUNTS = ("inserted", "replaced", "deleted", "absent", "duplicates", "expired", "late", "first_id")


class RefusedError(Exception):
    """A call that the graph has to refuse."""


class Row(NamedTuple):
    """An event. ``number`` counts arrivals."""

    source: Any
    destination: Any
    weight: float | int | None
    time: int | None
    values: tuple[float | int, ...]
    number: int


@dataclass
class Batch:
    """Rows to insert, column by column; None for columns that are not given."""

    pairs: list[Pair]
    weights: list[Any] | None = None
    times: list[int] | None = None
    columns: dict[str, list[Any]] = field(default_factory=dict)
    ids: list[int] | None = None

    def __len__(self) -> int:
        return len(self.pairs)


class Model:
    """What a graph of events should hold and answer.

    An update expires, deletes and inserts, as the three calls would in this order.
    """

    def __init__(self, directed: bool, weight_dtype: str | None, timed: bool, names: Iterable[str] = ()) -> None:
        self.directed, self.weight_dtype, self.timed, self.names = directed, weight_dtype, timed, tuple(names)
        self.highest, self.arrivals = -1, 0
        self.vertices: set[Any] = set()
        self._forget_all()

    def _forget_all(self) -> None:
        self.rows: dict[int, Row] = {}
        self.pairs: dict[Pair, dict[int, None]] = {}  # ids in order of arrival
        self.out: dict[Any, set[Pair]] = {}
        self.into: dict[Any, set[Pair]] = {}

    def pair(self, u: Any, v: Any) -> Pair:
        """Return the key of a pair."""
        return (u, v) if self.directed or u <= v else (v, u)

    def copy(self, kept: Callable[[int, Row], bool] = lambda _, row: True) -> Model:
        """Return an independent copy with the rows for which ``kept`` is true; all vertices stay."""
        twin = Model(self.directed, self.weight_dtype, self.timed, self.names)
        twin.highest, twin.arrivals, twin.vertices = self.highest, self.arrivals, set(self.vertices)
        for key, row in self.rows.items():
            if kept(key, row):
                twin._put(key, row)
        return twin

    def _put(self, key: int, row: Row) -> None:
        pair = self.pair(row.source, row.destination)
        self.rows[key] = row
        self.pairs.setdefault(pair, {})[key] = None
        self.out.setdefault(pair[0], set()).add(pair)
        self.into.setdefault(pair[1], set()).add(pair)

    def _drop(self, key: int) -> None:
        row = self.rows.pop(key)
        pair = self.pair(row.source, row.destination)
        del self.pairs[pair][key]
        if not self.pairs[pair]:
            del self.pairs[pair]
            self.out[pair[0]].discard(pair)
            self.into[pair[1]].discard(pair)

    # ------------------------------------------------------------------ updates

    def insert(self, batch: Batch) -> UpdateReport:
        """Insert rows."""
        return self.update(batch)

    def delete(self, pairs: list[Pair] | None = None, ids: list[int] | None = None, which: str = "all") -> UpdateReport:
        """Delete rows by pair or by id."""
        return self.update(None, pairs, ids, which)

    def expire(self, before: int) -> UpdateReport:
        """Delete rows with times below a bound."""
        return self.update(None, expire_before=before)

    def update(
        self,
        batch: Batch | None = None,
        pairs: list[Pair] | None = None,
        ids: list[int] | None = None,
        which: str = "all",
        expire_before: int | None = None,
        expire_last: bool = False,
    ) -> UpdateReport:
        """Expire, delete and insert; late rows are ignored, or with ``expire_last`` come and go at once."""
        counts: dict[str, Any] = dict.fromkeys(COUNTS, 0)
        counts["first_id"] = None
        if batch is not None:
            self._check(batch, self._leaving(pairs, ids, which, expire_before)[0])
        leaving, absent, again, expired = self._leaving(pairs, ids, which, expire_before)
        for key in leaving:
            self._drop(key)
        counts.update(deleted=len(leaving) - expired, absent=absent, duplicates=again, expired=expired)
        if batch is not None:
            self._insert(batch, expire_before, expire_last, counts)
        return UpdateReport(**counts)

    def _leaving(
        self, pairs: list[Pair] | None, ids: list[int] | None, which: str, before: int | None
    ) -> tuple[list[int], int, int, int]:
        """Return the ids of rows that leave, how many are absent, repeated, and expired (these come first)."""
        old = [] if before is None else [key for key, row in self.rows.items() if (row.time or 0) < before]
        gone = set(old)
        if ids is not None:
            wanted = dict.fromkeys(ids)
            found = [key for key in wanted if key in self.rows and key not in gone]
            return old + found, len(wanted) - len(found), len(ids) - len(wanted), len(old)
        asked = [self.pair(u, v) for u, v in pairs or ()]
        left = {pair: [key for key in self._of_pair(pair) if key not in gone] for pair in asked}
        if which == "all":
            found = [key for keys in left.values() for key in keys]
            return old + found, sum(not keys for keys in left.values()), len(asked) - len(left), len(old)
        found, absent = [], 0
        for pair in asked:
            if left[pair]:
                found.append(left[pair].pop(0 if which == "oldest" else -1))
            else:
                absent += 1
        return old + found, absent, 0, len(old)

    def _check(self, batch: Batch, leaving: list[int]) -> None:
        """Refuse rows that a graph has to refuse."""
        if batch.ids is not None:
            there = self.rows.keys() - set(leaving)
            if len(set(batch.ids)) < len(batch.ids) or not there.isdisjoint(batch.ids):
                raise RefusedError("edge_id")
        if any(not math.isfinite(weight) for weight in batch.weights or ()):
            raise RefusedError("weight")

    def _insert(self, batch: Batch, before: int | None, expire_last: bool, counts: dict[str, Any]) -> None:
        late = [False] * len(batch) if before is None else [time < before for time in batch.times or ()]
        fresh = [number for number, is_late in enumerate(late) if not is_late]
        if batch.ids is None and len(batch):  # each row takes an id, also one that does not stay
            counts["first_id"] = self.highest + 1
        for place, (u, v) in enumerate(batch.pairs):
            if not late[place] or expire_last:
                self.vertices |= {u, v}
        for place in fresh:
            key = counts["first_id"] + place if batch.ids is None else batch.ids[place]
            weight = None if batch.weights is None else batch.weights[place]
            if self.weight_dtype is not None:
                weight = np.dtype(self.weight_dtype).type(weight).item()
            time = None if batch.times is None else batch.times[place]
            values = tuple(batch.columns[name][place] for name in self.names)
            self._put(key, Row(*batch.pairs[place], weight, time, values, self.arrivals))
            self.arrivals += 1
        taken = batch.ids if batch.ids is not None else [self.highest + len(batch)]
        self.highest = max([self.highest, *taken])
        num_late = len(batch) - len(fresh)
        counts["inserted"] = len(batch) if expire_last else len(fresh)
        counts["expired" if expire_last else "late"] += num_late

    def delete_vertices(self, ids: list[Any]) -> UpdateReport:
        """Delete all rows of vertices."""
        pairs = set().union(*(self.out.get(u, set()) | self.into.get(u, set()) for u in ids))
        return self.delete(list(pairs))._replace(absent=0)

    def clear(self) -> None:
        """Remove all rows and vertices; ids are counted on."""
        self.vertices = set()
        self._forget_all()

    # ------------------------------------------------------------------ answers

    def in_order(self, keys: Iterable[int]) -> list[int]:
        """Return ids in order of time, then of arrival."""
        return sorted(keys, key=lambda key: (self.rows[key].time or 0, self.rows[key].number))

    def _of_pair(self, pair: Pair) -> list[int]:
        keys = self.pairs.get(pair, {})
        return self.in_order(keys) if self.timed else list(keys)

    def events(self, u: Any, v: Any, start: int | None = None, end: int | None = None) -> list[int]:
        """Return ids of one pair."""
        return self._between(self._of_pair(self.pair(u, v)), start, end)

    def events_of(
        self, vertex: Any, start: int | None = None, end: int | None = None, direction: str = "out"
    ) -> list[int]:
        """Return ids of one vertex."""
        keys = [key for pair in self.pairs_of(vertex, direction) for key in self.pairs[pair]]
        return self._between(self.in_order(keys), start, end)

    def pairs_of(self, vertex: Any, direction: str) -> set[Pair]:
        """Return the pairs with rows of a vertex; undirected ones have no direction."""
        sides = {"out": (self.out,), "in": (self.into,), "both": (self.out, self.into)}
        chosen = sides[direction if self.directed else "both"]
        return set().union(*(side.get(vertex, set()) for side in chosen))

    def _between(self, keys: list[int], start: int | None, end: int | None) -> list[int]:
        return [key for key in keys if is_between(self.rows[key], start, end)]

    def neighbors(self, vertex: Any, direction: str = "out") -> list[Any]:
        """Return the vertices at the other ends, each once, ascending."""
        return sorted({v if u == vertex else u for u, v in self.pairs_of(vertex, direction)})

    def degree(self, vertex: Any, direction: str = "both") -> int:
        """Return the rows from a vertex, to it, or the sum of both; undirected rows are both, a loop once in each."""
        sides = ("out", "in") if direction == "both" else (direction,)
        return sum(len(self.pairs[pair]) for side in sides for pair in self.pairs_of(vertex, side))

    def has_edge(self, u: Any, v: Any) -> bool:
        """Return whether a pair has rows."""
        return self.pair(u, v) in self.pairs

    def window(self, start: int | None, end: int | None) -> Model:
        """Return the rows of some time."""
        return self.copy(lambda _, row: is_between(row, start, end))

    def where(self, **values: set[Any]) -> Model:
        """Return the rows with one of some values in each column."""
        return self.copy(lambda key, row: all(self.value(key, name) in some for name, some in values.items()))

    def value(self, key: int, name: str) -> Any:
        """Return what a row has in a column."""
        row = self.rows[key]
        if name in ("weight", "time"):
            return getattr(row, name)
        return key if name == "edge_id" else row.values[self.names.index(name)]

    def shown(self, keys: Iterable[int]) -> list[tuple[Any, ...]]:
        """Return rows as tables have them: the pair, the weight, the other columns, the time, the id."""
        found = []
        for key in keys:
            row = self.rows[key]
            weight = () if self.weight_dtype is None else (row.weight,)
            time = (row.time,) if self.timed else ()
            found.append((*self.pair(row.source, row.destination), *weight, *row.values, *time, key))
        return found

    def aggregate(self, pair: Pair, name: str) -> tuple[float, int]:
        """Return an aggregate of a pair's weights, and the units in the last place that it may be off."""
        keys = self._of_pair(pair)
        weights: list[Any] = [self.rows[key].weight for key in keys]
        if name == "count":
            return float(len(keys)), 0
        if name in ("sum", "mean"):
            is_exact = self.weight_dtype == "int64" or all(float(weight).is_integer() for weight in weights)
            total = float(sum(weights)) if self.weight_dtype == "int64" else math.fsum(weights)
            off = 0 if is_exact else len(keys)
            return (total, off) if name == "sum" else (total / len(keys), off + (not is_exact))
        found = {"first": weights[:1], "last": weights[-1:], "min": [min(weights)], "max": [max(weights)]}[name]
        return float(found[0]), 0


def is_between(row: Row, start: int | None, end: int | None) -> bool:
    """Return whether a row is of some time."""
    time = 0 if row.time is None else row.time
    return (start is None or start <= time) and (end is None or time < end)
