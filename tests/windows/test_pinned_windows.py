"""Windows of every kind while pins of older versions are read: edges, times and pins are those of a list of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from dynstore import DynamicGraph, Window
from tests.crossed import crossed

LENGTH = 14


class Rows:
    """The rows of a window, as a list."""

    def __init__(self, by: str, directed: bool) -> None:
        self.by, self.directed = by, directed
        self.rows: list[tuple[int, int, int]] = []
        self.newest: int | None = None

    def slide(self, rows: list[tuple[int, int, int]]) -> None:
        if self.by == "count":
            self.rows = [*self.rows, *rows][-LENGTH:]
        elif rows:
            times = [time for *_, time in rows]
            self.newest = max([*times, times[0] if self.newest is None else self.newest])
            self.rows = [row for row in (*self.rows, *rows) if row[2] > self.newest - LENGTH]

    def last_times(self) -> dict[tuple[int, int], int]:
        found: dict[tuple[int, int], int] = {}
        for u, v, time in self.rows:
            pair = (u, v) if self.directed else (min(u, v), max(u, v))
            found[pair] = max(time, found.get(pair, time))
        return found


def edges_of(G: Any, directed: bool) -> dict[tuple[int, int], int | None]:
    """Return the time of each edge by its ends, None where the graph keeps no times."""
    frame = G.edge_table()
    ends = zip(*(frame[end].astype(int).tolist() for end in ("source", "destination")), strict=True)
    times = frame["time"].tolist() if "time" in frame else [None] * len(frame)
    pairs = ((u, v) if directed else (min(u, v), max(u, v)) for u, v in ends)
    return dict(zip(pairs, times, strict=True))


@crossed(by=["count", "time"], directed=[False, True], named=[False, True], timed=[False, True])
def test_slides_under_pins(by: Any, directed: bool, named: bool, timed: bool, rng: np.random.Generator) -> None:
    G = DynamicGraph(directed, device="cpu", renumber=named, timestamps="int64" if timed else None)
    window, model, now = Window(G, LENGTH, by=by), Rows(by, directed), 0
    pins: list[tuple[Any, dict[Any, Any]]] = []
    for _ in range(25):
        count = int(rng.integers(1, 12))
        src, dst = rng.integers(0, 8, (2, count))
        times = now + rng.integers(-5, 10, count)
        now = max(now, int(times.max()))
        frame = pd.DataFrame({"source": src, "destination": dst, "time": times})
        if named:
            frame = frame.astype({"source": str, "destination": str})
        window.slide(frame if timed or by == "time" else frame[["source", "destination"]])
        model.slide(list(zip(src.tolist(), dst.tolist(), times.tolist(), strict=True)))
        held = edges_of(G, directed)
        assert len(window) == len(model.rows)
        assert held.keys() == model.last_times().keys()
        if timed and by == "time":
            assert held == model.last_times()
        pins.append((G.pin(), held))
        if len(pins) > int(rng.integers(1, 8)):
            pin, then = pins.pop(int(rng.integers(len(pins))))
            with pin:
                assert edges_of(pin, directed) == then
    for pin, then in pins:
        assert edges_of(pin, directed) == then
