"""Answers say which rows they are of: the version, the event time, the full hour, and whether a window is whole."""

from __future__ import annotations

import math
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore import DynamicGraph, Stream, Window
from dynstore.distributed import Communicator, ShardedGraph, run
from dynstore.errors import InputError
from dynstore.streams import Answer, Tick
from dynstore.streams.boundaries import Boundaries, next_boundary
from dynstore.streams.journal import Start, pack, unpack
from dynstore.streams.pending import Position
from tests.streams.scripted import SOON, Scripted, graph, wait_until


def rows_of(times: Any, **more: Any) -> dict[str, Any]:
    """A path; row k is the edge (k, k + 1)."""
    count = len(times)
    return {"source": np.arange(count), "destination": np.arange(count) + 1, "time": np.asarray(times), **more}


def newest(G: DynamicGraph) -> int:
    return int(G.edge_columns()["time"].max())


# ---------------------------------------------------------------------- questions


@pytest.mark.parametrize("window", ["length", "window"])
def test_an_answer_has_the_version_and_the_newest_time_of_its_rows(window: str) -> None:
    G = graph(timestamps="int64")
    times = pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(3000), unit="s")
    days: Any = "1D" if window == "length" else Window(G, "1D", by="time")
    stream, answers = Stream(G, rows_of(times), days, batch_edges=100), list[Answer[Any]]()

    def until(_: Any) -> bool:
        answers.append(stream.ask(lambda g: (g.version, newest(g) if len(g) else None)).result(SOON))
        return False

    stream.run(until=until)
    answers.append(stream.ask(lambda g: (g.version, newest(g))).result())
    assert answers[-1].event_time == times[-1].to_datetime64()
    for answer in answers:
        version, time = answer.result
        assert (answer.version, answer.rebuilding) == (version, False)
        assert (None if answer.event_time is None else answer.event_time.astype(np.int64)) == time


def test_an_older_version_has_its_own_event_time(tmp_path: Path) -> None:
    with dynstore.open(tmp_path, device="cpu", timestamps="int64") as db:
        stream = Stream(db.graph, rows_of([5, 9, 7]), batch_edges=1)
        stream.run()
        found = [stream.ask(newest, at=version).result(SOON) for version in (1, 2, 3)]
    assert found == [Answer(5, 1, 5), Answer(9, 2, 9), Answer(9, 3, 9)]


def test_an_answer_of_several_ranks_has_the_newest_time_of_all() -> None:
    def program(comm: Communicator) -> Any:
        G = ShardedGraph(comm)
        source = Scripted(*([rows_of([3, 40, 8])] if comm.rank else []))
        with Stream(G, source, lateness=100, max_delay=0.005) as stream:
            stream.start()
            wait_until(lambda: stream.progress().applied_by_all == 3)
            answer = stream.ask(lambda graph: graph.version).result(SOON)
            assert answer.version == answer.result
            return answer.event_time, stream.progress().event_time

    assert run(program, 2) == [(40, 40)] * 2


# ---------------------------------------------------------------------- each full hour


def ticks_of(G: DynamicGraph, rows: Any, every: Any, **options: Any) -> list[Tick]:
    """What a monitor of components gets; each row of a path is a component more."""
    ticks: list[Tick] = []
    by = options.pop("by", None)
    with Stream(G, rows, **options) as stream:
        stream.monitor("weakly_connected_components", ticks.append, every=every, by=by)
        stream.run()
    return ticks


def by_the_rule(times: list[int], length: int) -> list[tuple[int | None, int, int]]:
    """The boundaries of times in their order, the newest times and the numbers of rows before: a row at a time."""
    found, latest = list[tuple[int | None, int, int]](), times[0]
    for row, time in enumerate(times):
        if time // length > latest // length:
            found.append(((latest // length + 1) * length, latest, row))
        latest = max(latest, time)
    return [*found, (None, latest, len(times))]


@pytest.mark.parametrize("batch_edges", [1, 7, 1000])
@pytest.mark.parametrize("logged", [False, True])
def test_each_full_hour_gets_its_answer_for_the_rows_before(
    batch_edges: int, logged: bool, rng: np.random.Generator, tmp_path: Path
) -> None:
    """Rows are out of order, some hours have none, and all rows are there from the beginning."""
    times = (np.cumsum(rng.exponential(15, 200)) - rng.integers(0, 40, 200) - 100).astype(np.int64)
    G = dynstore.open(tmp_path, device="cpu").graph if logged else graph()
    ticks = ticks_of(G, rows_of(times), 60, by="time", batch_edges=batch_edges)
    seen = [(tick.boundary, tick.event_time, len(tick.result) - 1) for tick in ticks]
    assert seen == by_the_rule(times.tolist(), 60)
    assert len(seen) > 20


def test_hours_are_full_hours_of_the_clock() -> None:
    times = pd.DatetimeIndex(["2026-03-01 09:59:59", "2026-03-01 10:00", "2026-03-01 12:30", "2026-03-01 12:10"])
    ticks = ticks_of(graph(), rows_of(times), "1h")
    assert [(str(tick.boundary)[11:16], len(tick.result) - 1) for tick in ticks] == [
        ("10:00", 1),
        ("11:00", 2),
        ("", 4),
    ]
    assert ticks[1].event_time == np.datetime64("2026-03-01T10:00", "ns")


def test_late_rows_count_for_no_hour_and_others_for_the_next() -> None:
    times = [100, 105, 111, 104, 112, 98, 121]  # 98 is late; 104 comes behind the boundary at 110
    ticks = ticks_of(graph(), rows_of(times), 10, by="time", lateness=10)
    assert [(tick.boundary, tick.event_time, tick.result["vertex"].max()) for tick in ticks] == [
        (110, 105, 2), (120, 112, 5), (None, 121, 7),
    ]  # fmt: skip
    seen = [len(np.unique(tick.result["labels"])) for tick in ticks]
    assert seen == [1, 1, 2]  # without the edge (5, 6)


def test_two_lengths_at_once() -> None:
    found: dict[str, list[Any]] = {"pagerank": [], "weakly_connected_components": []}
    with Stream(graph(), rows_of(range(0, 100, 3)), batch_edges=9) as stream:
        for length, (name, ticks) in zip((10, 25.0), found.items(), strict=True):
            stream.monitor(name, ticks.append, every=length, by="time")
        stream.run()
    assert [tick.boundary for tick in found["pagerank"]] == [*range(10, 91, 10), None]
    assert [tick.boundary for tick in found["weakly_connected_components"]] == [25, 50, 75, None]
    assert [tick.event_time for tick in found["weakly_connected_components"]] == [24, 48, 72, 99]


def test_a_slow_function_gets_each_hour() -> None:
    release, ticks = Event(), list[Tick]()

    def slow(tick: Tick) -> None:
        assert release.wait(SOON)
        ticks.append(tick)

    with Stream(graph(), rows_of(range(0, 50, 5))) as stream:
        stream.monitor("weakly_connected_components", slow, every=10, by="time")
        stream.start()
        wait_until(lambda: stream.progress().applied == 10)
        release.set()
        stream.drain(SOON)
    assert [tick.boundary for tick in ticks] == [10, 20, 30, 40, None]
    assert [tick.changed["vertex"].tolist() for tick in ticks[1:]] == [[3, 4], [5, 6], [7, 8], [9, 10]]


def test_a_restart_goes_on_with_the_hours(tmp_path: Path) -> None:
    seen: list[Any] = []
    for last in (3, 5):
        with dynstore.open(tmp_path, device="cpu") as db:
            rows = {name: column[:last] for name, column in rows_of([1, 8, 12, 25, 26]).items()}
            ticks = ticks_of(db.graph, rows, 10, by="time")
            seen += [(tick.boundary, len(tick.result) - 1) for tick in ticks]
    assert seen == [(10, 2), (None, 3), (20, 3), (None, 5)]


WRONG = [
    (0, None, "wanted 1 or more"),
    ("1h", "batches", "wanted a number of batches"),
    ("soon", None, "a length of time"),
    (-1, "time", "more than 0"),
    (1, "hours", "by"),
    (1.5, None, "every"),
]


@pytest.mark.parametrize(("every", "by", "wanted"), WRONG)
def test_what_an_answer_may_not_come_after(every: Any, by: Any, wanted: str) -> None:
    with pytest.raises(InputError, match=wanted):
        Stream(graph(), rows_of([1, 2])).monitor("pagerank", every=every, by=by)


def test_hours_need_times_of_their_kind() -> None:
    stream = Stream(graph(), rows_of([1, 2]))
    stream.monitor("pagerank", every=10, by="time")
    with pytest.raises(InputError, match="every is '1h', and the times of the rows are numbers; wanted by='time'"):
        stream.monitor("pagerank", every="1h")
    timeless = Stream(graph(), {"source": [0], "destination": [1]})
    timeless.monitor("pagerank", every="1h")
    with pytest.raises(InputError, match="columns not found: time"):
        timeless.run()


def test_boundaries_at_the_ends_of_numbers() -> None:
    assert next_boundary(2**63 - 2, 10) is None
    assert next_boundary(-(2**63), 10) == -(2**63) + 8
    assert next_boundary(math.inf, 10) is None
    assert next_boundary(0.25, 0.1) == pytest.approx(0.3)
    cuts = Boundaries()
    cuts.lengths = {10}
    assert cuts.cut([(1, np.array([-math.inf])), (3, np.array([5.0, math.inf, 7.0]))]) == (4, {})


# ---------------------------------------------------------------------- a window that is read again


@pytest.mark.parametrize("by", ["time", "count"])
def test_a_window_that_is_read_again_is_rebuilding(by: Any, tmp_path: Path) -> None:
    """100 rows are in the window; the program dies twice, the second time while it reads them again."""
    rows = rows_of(np.arange(400))
    seen: list[tuple[int, bool]] = []

    def follow(last: int, most: int, batch_edges: int) -> Any:
        seen.clear()
        with dynstore.open(tmp_path, device="cpu") as db:
            given = {name: column[:last] for name, column in rows.items()}
            recent = Window(db.graph, 100, by=by)
            source = (
                {name: column[first : first + 5] for name, column in given.items()} for first in range(0, last, 5)
            )
            stream = Stream(db.graph, source, recent, batch_edges=batch_edges, max_pending=batch_edges)
            name = "weakly_connected_components"
            stream.monitor(name, changed_only=False)
            monitor = stream._engine.monitors[0]
            answer = monitor._bring_up

            def note(*given: Any) -> None:
                answer(*given)
                assert monitor.latest is not None
                seen.append((db.graph.number_of_edges(), monitor.latest.rebuilding))
                if len(seen) == most:
                    raise SystemExit("the program dies")

            monitor._bring_up = note  # type: ignore[method-assign]
            before = stream.progress().rebuilding, stream.ask(lambda g: 0).result(SOON).rebuilding
            if most < 1000:
                with pytest.raises(SystemExit):
                    stream.run()
            else:
                assert not stream.run().rebuilding
            return before

    assert follow(300, 1000, 7) == (False, False)
    assert not any(rebuilding for _, rebuilding in seen)
    assert follow(400, 5, 10) == (True, True)
    assert all(rebuilding for _, rebuilding in seen)
    assert follow(400, 1000, 9) == (True, True)
    whole = [edges for edges, rebuilding in seen if not rebuilding]
    assert len(seen) > len(whole) > 5
    assert set(whole) == {100}
    assert max(edges for edges, rebuilding in seen if rebuilding) >= 90
    assert [rebuilding for _, rebuilding in seen] == sorted((rebuilding for _, rebuilding in seen), reverse=True)


def test_logs_of_older_programs_say_nothing_of_it() -> None:
    old = b"[7, 0, true, 30, [4, 0, true], 12]"
    assert unpack(old) == (Position(7, 0, True), 30, Start(Position(4, 0, True), 12))
    new = Start(Position(4, 0, True), 12, 9, 3)
    assert unpack(pack(Position(7, 0, True), 30, new)) == (Position(7, 0, True), 30, new)
    assert new.rebuilding
