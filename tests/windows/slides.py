"""A window over a model of a graph: its rows one by one, also where edges are deleted by hand, with extra columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from dynstore import Window
from dynstore.testing.model import ModelGraph

__all__ = ["Row", "Slides", "see"]


class Row(NamedTuple):
    """A row of a stream; ``pair`` is None if it counts no more."""

    pair: Any
    weight: float
    extra: list[Any]
    time: int


class Slides:
    """What slides of a window do to the model of its graph."""

    def __init__(self, window: Window, model: ModelGraph) -> None:
        self.window, self.model = window, model
        self.rows: list[Row] = []
        self.newest: int | None = None
        self.out: set[Any] = set()  # pairs that were deleted by hand

    def note_deletions(self) -> None:
        self.out |= {row.pair for row in self.rows if row.pair is not None} - self.model.edges.keys()

    def forget(self, gone: Iterable[Any]) -> None:
        """Vertices are deleted whose rows in the graph other ids may get."""
        lost, ends = Row(None, 0.0, [], 0), set(gone)
        self.rows = [
            row if row.pair is None or not ends & set(row.pair) else lost._replace(time=row.time) for row in self.rows
        ]

    def slide(self, batch: list[Row]) -> tuple[int, int]:
        """Return how many rows enter, and how many are late."""
        kept, entered = self._moved(batch)
        before = dict(self.model.edges)
        self.rows = kept + entered
        if self.window.by == "time":
            self.rows.sort(key=lambda row: row.time)
        held: dict[Any, list[Row]] = {}
        for row in self.rows:
            held.setdefault(row.pair, []).append(row)
        held.pop(None, None)
        self.model.edges = {}
        for pair, rows in held.items():
            mine = [row for row in entered if row.pair == pair]
            others = [row.time for row in kept if row.pair == pair] if self.window.by == "time" else []
            self._show(pair, rows, mine, max(others, default=None), pair in before, before.get(pair, 0.0))
        self.out &= held.keys()
        see(self.model, [end for row in entered for end in row.pair])
        self.model.version += 1
        return len(entered), (len(batch) - len(entered) if self.window.by == "time" else 0)

    def _moved(self, batch: list[Row]) -> tuple[list[Row], list[Row]]:
        """Return the rows that stay, and those that enter."""
        length, step = self.window.length, self.window.step or 1
        if self.window.by == "count":
            surplus = max(len(self.rows) + len(batch) - length, 0) // step * step
            return self.rows[surplus:], batch[max(surplus - len(self.rows), 0) :]
        if not batch:
            return self.rows, []
        batch = sorted(batch, key=lambda row: row.time)
        self.newest = max(batch[-1].time, batch[-1].time if self.newest is None else self.newest)
        bound = (self.newest - length) // step * step
        return [row for row in self.rows if row.time > bound], [row for row in batch if row.time > bound]

    def _show(
        self, pair: Any, rows: list[Row], mine: list[Row], newest: int | None, there: bool, weight: float
    ) -> None:
        """Note the edge of a pair. ``mine``: its rows that enter; ``newest``: of the others; ``weight``: before."""
        model, keep = self.model, self.window.keep
        is_late = bool(mine) and newest is not None and mine[-1].time < newest
        changes_nothing = is_late and keep == "latest" and (model.weighted or bool(model.edge_columns))
        if mine and not changes_nothing:
            self.out.discard(pair)
        if pair in self.out:
            return
        if mine and not (is_late and there):
            weight, extra = mine[-1].weight, list(mine[-1].extra)
            if model.timestamps and self.window.by == "count":
                extra.append(max([row.time for row in mine] + ([model.extra[pair][-1]] if there else [])))
            elif model.timestamps:
                extra.append(mine[-1].time)
            model.extra[pair] = extra
        weight = {"latest": weight, "count": float(len(rows)), "sum": sum(row.weight for row in rows)}[keep]
        model.edges[pair] = weight if model.weighted else 1.0


def see(model: ModelGraph, named: list[Any]) -> None:
    """Note the ids that an update names, as the first one or a later one does."""
    if model.renumber and not model.ids:
        model.ids = model._by_degree(set(named))
    model._see(named)
