"""Checkpoints keep short what opening a folder repeats: by the log's bytes, and by the time of the updates."""

from __future__ import annotations

from pathlib import Path

import pytest

import dynstore
from dynstore.durable import growth
from dynstore.durable.growth import LogGrowth
from dynstore.errors import InputError
from tests.durable.scenes import content


class Clock:
    """A clock that a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(growth, "perf_counter", lambda: self.now)
        monkeypatch.setattr(growth, "compilations", self)

    seconds = 0.0  # of compiling


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def update_for(growing: LogGrowth, clock: Clock, seconds: float, size: int = 1) -> bool:
    growing.begin()
    clock.now += seconds
    growing.add(size)
    return growing.is_due()


def test_time_and_bytes_are_bounds(clock: Clock) -> None:
    growing = LogGrowth(100, 5.0)
    assert [update_for(growing, clock, 1.0) for _ in range(5)] == [False] * 4 + [True]
    with growing.restarted():
        pass
    assert not update_for(growing, clock, 4.0, 99)
    assert update_for(growing, clock, 0.0)


def test_waiting_and_compiling_do_not_count(clock: Clock) -> None:
    growing = LogGrowth(100, 5.0)
    growing.begin()

    def wait() -> None:
        clock.now += 60

    growing.leave_out(wait)
    clock.now, clock.seconds = clock.now + 30, 30.0
    growing.add(1)
    assert (growing.seconds, growing.is_due()) == (0.0, False)


def test_checkpoints_of_a_large_graph_are_a_small_part_of_the_time(clock: Clock) -> None:
    growing = LogGrowth(100, 5.0)
    with growing.restarted():
        clock.now += 2.0
    assert not update_for(growing, clock, 19.0)
    assert update_for(growing, clock, 1.0)


def test_a_database_repeats_no_more_than_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(10**6))
    monkeypatch.setattr(growth, "perf_counter", lambda: next(times) / 4)  # an update takes a second
    with dynstore.open(tmp_path / "db", device="cpu", checkpoint_seconds=6) as db:
        for number in range(40):
            db.graph.insert_edges([(number, number + 1)])
            db._join()
        wanted, checkpoint = content(db.graph), db._manifest.checkpoints[-1].version
        assert checkpoint > 40 - 24
    with dynstore.open(tmp_path / "db", device="cpu") as db:
        assert content(db.graph) == wanted
        assert db.recovery.records == 40 - checkpoint


def test_what_was_repeated_counts_after_opening(tmp_path: Path) -> None:
    """A program that always ends before its first checkpoint is due would have ever more to repeat."""
    sizes = []
    for number in range(8):
        with dynstore.open(tmp_path / "db", device="cpu", checkpoint_bytes=500) as db:
            db.graph.insert_edges([(number, number + 1)])
            db._join()
            sizes.append(db.recovery.records)
        assert db.logged_bytes < 500
    assert max(sizes) < 5


@pytest.mark.parametrize("seconds", [-1, float("nan")])
def test_what_is_no_time_is_refused(tmp_path: Path, seconds: float) -> None:
    with pytest.raises(InputError, match="open: checkpoint_seconds is"):
        dynstore.open(tmp_path / "db", device="cpu", checkpoint_seconds=seconds)
