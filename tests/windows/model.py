"""A window as a list of rows, counted anew at every slide."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["WindowModel"]

Row = tuple[Any, Any, float, float]  # source, destination, weight, time


class WindowModel:
    """The same rules as :class:`dynstore.Window`, one row at a time."""

    def __init__(self, length: float, by: str, keep: str, step: float | None, directed: bool, weighted: bool) -> None:
        self.length, self.by, self.keep, self.step = length, by, keep, step
        self.directed, self.weighted = directed, weighted
        self.rows: list[Row] = []
        self.newest: float | None = None
        self.out: set[tuple[Any, Any]] = set()  # pairs that were deleted by hand
        self.late = 0

    def pair(self, row: Row) -> tuple[Any, Any]:
        u, v = row[:2]
        return (u, v) if self.directed or u <= v else (v, u)

    def slide(self, batch: Iterable[Row]) -> None:
        batch = list(batch)
        if self.by == "count":
            self.rows += batch
            over = max(len(self.rows) - int(self.length), 0)
            over -= over % int(self.step) if self.step else 0
            self.rows = self.rows[over:]
            entered = batch[max(over - (len(self.rows) + over - len(batch)), 0) :]
        else:
            times = [row[3] for row in batch] + ([] if self.newest is None else [self.newest])
            if not times:
                return
            self.newest = max(times)
            bound = self.newest - self.length
            bound = bound // self.step * self.step if self.step else bound
            entered = [row for row in batch if row[3] > bound]
            self.late = len(batch) - len(entered)
            self.rows = [row for row in self.rows if row[3] > bound] + entered
        self.out -= {self.pair(row) for row in entered}
        self.out &= {self.pair(row) for row in self.rows}

    def delete(self, pair: tuple[Any, Any]) -> None:
        self.out.add(self.pair((*pair, 0.0, 0.0)))

    def edges(self) -> dict[tuple[Any, Any], float]:
        """Return the edges and their weights, both directions of undirected ones."""
        found: dict[tuple[Any, Any], list[Row]] = {}
        for row in self.rows:
            found.setdefault(self.pair(row), []).append(row)
        edges = {}
        for pair, rows in found.items():
            if pair in self.out:
                continue
            newest = sorted(rows, key=lambda row: row[3] if self.by == "time" else 0)[-1]  # of equals, the last to come
            weight = {"latest": newest[2], "count": float(len(rows)), "sum": sum(row[2] for row in rows)}[self.keep]
            edges[pair] = weight if self.weighted else 1.0
            if not self.directed:
                edges[pair[::-1]] = edges[pair]
        return edges
