"""Streams into graphs that keep times: edges expire with each batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from dynstore import DynamicGraph, Stream, Window
from dynstore.errors import InputTypeError


def last_times(frame: pd.DataFrame, bound: int) -> dict[tuple[int, int], int]:
    """Return the edges above a bound with their last times."""
    last: dict[tuple[int, int], int] = {}
    for row in frame.itertuples(index=False):
        key = int(row.source), int(row.destination)
        last[key] = max(last.get(key, -1), int(row.time))
    return {key: time for key, time in last.items() if time > bound}


@pytest.mark.parametrize("batch", [1, 30, 1000])
@pytest.mark.parametrize("form", ["frame", "columns", "window"])
def test_edges_expire_as_rows_leave_a_window(rng: np.random.Generator, form: str, batch: int) -> None:
    src, dst = rng.integers(0, 9, (2, 300))
    frame = pd.DataFrame({"source": src, "destination": dst, "time": np.arange(300) - rng.integers(0, 20, 300)})
    G = DynamicGraph(device="cpu", timestamps="int64")
    given = frame if form != "columns" else (src, dst, frame["time"].to_numpy())
    window: Any = Window(G, 50, by="time") if form == "window" else 50
    progress = Stream(G, given, window, batch_edges=batch).run()
    table = G.to_pandas()
    found = dict(zip(zip(table["source"], table["destination"], strict=True), table["time"], strict=True))
    assert found == last_times(frame, int(frame["time"].max()) - 50)
    assert progress.event_time == frame["time"].max()


def test_dates_and_deletions_and_late_rows() -> None:
    times = pd.to_datetime(["2026-01-01 10:00", "2026-01-01 12:00", "2026-01-01 10:30", "2026-01-01 12:01"])
    frame = pd.DataFrame({"source": range(4), "destination": range(1, 5), "time": times})
    frame = pd.concat([frame, frame[3:].assign(op="-")]).fillna({"op": "+"})
    G = DynamicGraph(device="cpu", timestamps="int64")
    progress = Stream(G, frame, "1h", batch_edges=2).run()
    assert G.to_pandas()["source"].tolist() == [1]
    assert progress.late == 2
    assert progress.event_time == np.datetime64("2026-01-01T12:01")


def test_a_length_is_for_graphs_with_times() -> None:
    with pytest.raises(InputTypeError, match="window is '1h'; wanted a"):
        Stream(DynamicGraph(device="cpu"), [], "1h")
