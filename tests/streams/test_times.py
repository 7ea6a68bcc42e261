"""Streams of rows with times: late ones, windows, and edges that expire with each batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from dynstore import DynamicGraph, Stream, Window
from dynstore.errors import InputError, InputTypeError
from tests.streams.scripted import graph, pairs_of


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
    assert progress.late == 1  # the row of 10:00 was in time, and left
    assert progress.event_time == np.datetime64("2026-01-01T12:01")


def test_a_length_is_for_graphs_with_times() -> None:
    with pytest.raises(InputTypeError, match="window is '1h'; wanted a"):
        Stream(DynamicGraph(device="cpu"), [], "1h")


LOW, HIGH = -(2**63), 2**63 - 1


@pytest.mark.parametrize(
    ("times", "length", "left"),
    [
        ([4, 5], 1.5, 2),
        ([4, 5], 0.5, 1),
        ([4, 5], 1.0, 1),
        ([LOW, LOW + 9, LOW + 10], 10, 2),
        ([LOW, HIGH - 1, HIGH], 10, 2),
        ([2**60, 2**60 + 9, 2**60 + 10], 10.0, 2),
        ([2**60, 2**60 + 9, 2**60 + 10], 9.5, 2),
        ([0, HIGH], 1e300, 2),
    ],
)
@pytest.mark.parametrize("form", ["length", "window"])
def test_lengths_are_exact(form: str, times: list[int], length: float, left: int) -> None:
    """An edge stays while its time is above the newest one minus the length: fractions and the ends of int64, too."""
    G = graph(timestamps="int64")
    window: Any = length if form == "length" else Window(G, length, by="time")
    rows = {"source": range(len(times)), "destination": range(1, len(times) + 1), "time": times}
    assert Stream(G, rows, window, batch_edges=1).run().late == 0
    assert {src for src, _ in pairs_of(G)} == {*range(len(times) - left, len(times))}


@pytest.mark.parametrize(
    ("times", "lateness", "late"),
    [
        ([LOW, LOW + 3, LOW], 3, 0),
        ([LOW, LOW + 3, LOW], 2.5, 1),
        ([LOW, HIGH, LOW], 2**64 - 1, 0),
        ([LOW, HIGH, LOW], 2**64 - 2, 1),
        ([0, HIGH, 0], 1e300, 0),
        ([0, 2**60 + 10, 2**60, 2**60 - 1], 10.0, 1),
        ([0.0, 1.5, 0.5, 0.25], 1, 1),
        ([float("inf"), 3.0], 1, 1),
    ],
)
@pytest.mark.parametrize("batch", [1, 10])
def test_lateness_is_exact(batch: int, times: list[Any], lateness: float, late: int) -> None:
    rows = {"source": range(len(times)), "destination": range(1, len(times) + 1), "time": times}
    G = graph()
    progress = Stream(G, rows, lateness=lateness, batch_edges=batch).run()
    assert (progress.late, G.number_of_edges()) == (late, len(times) - late)


def test_late_and_future_and_repeated_events() -> None:
    frame = pd.DataFrame({"source": range(8), "destination": range(1, 9), "time": [10, 12, 9, 11, 100, 99, 12, 100]})
    for batch in (1, 3, 100):  # what is late does not depend on how rows are cut into batches
        G = graph()
        progress = Stream(G, frame, batch_edges=batch, lateness=2).run()
        assert {src for src, _ in pairs_of(G)} == {0, 1, 3, 4, 5, 7}
        assert (progress.late, progress.applied, progress.event_time) == (2, 8, 100)
    G = graph()
    assert Stream(G, pd.concat([frame, frame])).run().late == 0  # by default none is late
    assert G.number_of_edges() == 8


def test_dates_with_lateness_and_lag() -> None:
    times = pd.to_datetime(["2026-01-01 10:00", "2026-01-01 10:30", "2026-01-01 10:05"])
    frame = pd.DataFrame({"source": [0, 1, 2], "destination": [1, 2, 3], "when": times})
    G = graph()
    progress = Stream(G, frame, lateness="10min", columns={"time": "when"}).run()
    assert pairs_of(G) == {(0, 1), (1, 2)}
    assert progress.event_time == np.datetime64("2026-01-01T10:30")
    assert progress.event_lag == np.timedelta64(0, "ns")
    with pytest.raises(InputTypeError, match="`when` has date-times; wanted numbers, as in the batches before"):
        Stream(graph(), frame, lateness=10, columns={"time": "when"}).run()


@pytest.mark.parametrize("by", ["count", "time"])
@pytest.mark.parametrize("dated", [False, True])
def test_a_window_slides_and_applies_its_own_rule(rng: np.random.Generator, by: Any, dated: bool) -> None:
    if dated and by == "count":
        pytest.skip("it has no times")
    count = 900
    time_of = np.arange(count) - rng.integers(0, 30, count)
    frame = pd.DataFrame(
        {"source": rng.integers(0, 9, count), "destination": rng.integers(0, 9, count), "time": time_of}
    )
    if dated:
        frame["time"] = pd.to_datetime(frame["time"], unit="s")
    length: Any = "100s" if dated else 100
    G, H = graph(), graph()
    window, other = Window(G, length, by), Window(H, length, by)
    progress = Stream(G, frame, window, batch_edges=70).run()
    late = 0
    for first in range(0, count, 70):
        late += other.slide(frame[first : first + 70], **({"time": "time"} if by == "time" else {})).late
    assert pairs_of(G) == pairs_of(H)
    assert (len(window), progress.late, G.version) == (len(other), late, H.version)


def test_a_window_with_deletions() -> None:
    frame = {"source": [0, 1, 2, 0], "destination": [1, 2, 3, 1], "op": ["insert", "insert", "insert", "delete"]}
    G = graph()
    Stream(G, frame, Window(G, 10)).run()
    assert pairs_of(G) == {(1, 2), (2, 3)}


@pytest.mark.parametrize("window", [None, 30])
@pytest.mark.parametrize("directed", [True, False])
def test_deletions_beside_rows_out_of_order(rng: np.random.Generator, directed: bool, window: Any) -> None:
    """An edge has the greatest time of its rows since it was deleted, in batches of any size."""
    src, dst = rng.integers(0, 5, (2, 300))
    times = np.arange(300) - rng.integers(0, 20, 300)
    ops = np.where(rng.random(300) < 0.3, "-", "+")
    frame = {"source": src, "destination": dst, "time": times, "op": ops}
    last: dict[tuple[int, int], int] = {}
    for u, v, time, op in zip(src.tolist(), dst.tolist(), times.tolist(), ops, strict=True):
        key = (u, v) if directed or u <= v else (v, u)
        if op == "-":
            last.pop(key, None)
        else:
            last[key] = max(time, last.get(key, time))
    bound = -100 if window is None else int(times.max()) - window
    for batch in (1, 40, 300):
        G = DynamicGraph(directed, device="cpu", timestamps="int64")
        Stream(G, frame, window, batch_edges=batch).run()
        table = G.to_pandas()
        found = dict(zip(zip(table["source"], table["destination"], strict=True), table["time"], strict=True))
        assert found == {key: time for key, time in last.items() if time > bound}


@pytest.mark.parametrize("time", [1, 102], ids=["late", "in-time"])
@pytest.mark.parametrize("renumber", [False, True])
@pytest.mark.parametrize("kind", ["lateness", "window", "length"])
def test_ids_are_right_in_late_rows_too(kind: str, renumber: bool, time: int) -> None:
    G = DynamicGraph(device="cpu", renumber=renumber, timestamps="int64" if kind == "length" else None)
    given: dict[str, Any] = {"lateness": 5} if kind == "lateness" else {"window": 10}
    if kind == "window":
        given["window"] = Window(G, 10, by="time")
    batches = [{"source": [1, 2], "destination": [2, 3], "time": [100, 101]}]
    batches.append({"source": [-5], "destination": [3], "time": [time]})
    stream = Stream(G, batches, batch_edges=1, **given)
    with pytest.raises(InputError, match="`source` has -5 at row 0; vertex ids must not be negative"):
        stream.run()
    assert stream.progress().state == "failed"
    assert set(G.to_pandas()["source"]) == {1, 2}


@pytest.mark.parametrize("ids", [[7, 8], ["c", "d"]])
def test_ids_of_late_rows_make_no_vertices(ids: list[Any]) -> None:
    G = DynamicGraph(device="cpu", renumber=True)
    known = [1, 2] if isinstance(ids[0], int) else ["a", "b"]
    batches = [{"source": known, "destination": known[::-1], "time": [100, 101]}]
    batches.append({"source": ids, "destination": ids, "time": [1, 102]})
    assert Stream(G, batches, lateness=5).run().late == 1
    assert G.number_of_vertices() == 3
