"""Streams into a database: after a crash each row is there once, wherever it happened."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore import Stream, ids
from dynstore.durable.database import Database
from dynstore.errors import InputError
from dynstore.ids.base import DenseIds
from dynstore.ids.mapped import MappedIds
from dynstore.streams.rows import RowReader
from tests.crossed import crossed
from tests.streams.scripted import Scripted

ROOT = Path(__file__).resolve().parents[2]
ROWS = 3000


def held(graph: dynstore.DynamicGraph) -> set[int]:
    """Row k is the edge (k, k + 1), so an edge says which row it is."""
    return set(graph.to_pandas()["source"].tolist())


@pytest.mark.parametrize("sync", ["commit", "group", "os"])
def test_a_stream_goes_on_where_the_log_ends(tmp_path: Path, sync: Any) -> None:
    pieces = [(np.arange(first, first + 10), np.arange(first + 1, first + 11)) for first in range(0, 100, 10)]
    with dynstore.open(tmp_path / "db", sync=sync, device="cpu") as db:
        source = Scripted(*pieces[:4])
        with Stream(db.graph, source, batch_edges=7, max_delay=60.0) as stream:
            progress = stream.run(until=lambda progress: progress.batches == 5)
        assert progress.applied == 35
        assert source.committed[-1] == 3  # five rows of the fourth piece are there, too
        assert progress.version == db.durable_version == 5
        assert progress.logged_bytes > 35 * 8
    with dynstore.open(tmp_path / "db", sync=sync, device="cpu") as db:
        source = Scripted(*pieces[3:], ends=True)
        progress = Stream(db.graph, source, batch_edges=7).run()
        assert source.sought == [3]
        assert progress.applied == 65
        assert held(db.graph) == set(range(100))
        assert db.at(5).number_of_edges() == 35
    with dynstore.open(tmp_path / "db", device="cpu") as db:
        source = Scripted(ends=True)
        assert Stream(db.graph, source).run().applied == 0
        assert source.sought == [10]


@pytest.mark.parametrize("kind", ["numbers", "mapped integers", "strings"])
def test_a_logged_batch_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """What the reader has made is what the record has and what the ids' numbers are found from."""
    ends: Any = (np.array([1, 2, 3]), np.array([4, 5, 6]))
    if kind == "strings":
        ends = tuple(np.array([f"v{end}" for end in column.tolist()], dtype=object) for column in ends)
    read, logged, planned, checked = [], [], [], []
    spied: list[tuple[type, str, Any]] = [
        (RowReader, "read", lambda _self, result, *_: read.append((result.src, result.dst))),
        (Database, "make", lambda _self, _result, change, *_: logged.append(change.columns)),
        (DenseIds, "plan_edges", lambda _self, _result, _caller, edges, *_: planned.append(edges[:2])),
        (MappedIds, "plan_edges", lambda _self, _result, _caller, edges, *_: planned.append(edges[:2])),
    ]

    def noting(method: Any, note: Any) -> Any:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = method(self, *args, **kwargs)
            note(self, result, *args)
            return result

        return call

    for owner, name, note in spied:
        monkeypatch.setattr(owner, name, noting(getattr(owner, name), note))
    check = ids.columns._checked
    monkeypatch.setattr(ids.columns, "_checked", lambda *args: checked.append(args[1]) or check(*args))
    with dynstore.open(tmp_path / "db", device="cpu", renumber=kind != "numbers") as db:
        Stream(db.graph, Scripted(ends, ends=True)).run()
        assert db.graph.number_of_edges() == 3
    ((src, dst),), (columns,) = read, logged
    assert np.shares_memory(columns["edges.source"], src)
    assert np.shares_memory(columns["edges.destination"], dst)
    assert planned
    for given in planned:
        for column, one in zip(given, (src, dst), strict=True):
            assert np.shares_memory(column.values if kind == "strings" else column, one)
    assert checked == (["source", "destination"] if kind == "strings" else [])


@pytest.mark.parametrize("position", [b"offset 17", b"17", b"\xff", b"[1, 2, 3, 4, 5]"])
def test_a_position_that_no_stream_has_stored_is_refused(tmp_path: Path, position: bytes) -> None:
    with dynstore.open(tmp_path / "db", device="cpu") as db:
        with db.positioned(position):
            db.graph.insert_edges([(0, 1)])
        with pytest.raises(InputError, match=r"Stream: the position in the log is b'.*, which no stream has stored; "):
            Stream(db.graph, [(1, 2)])
        assert (db.position, db.graph.version, db.graph.number_of_edges()) == (position, 1, 1)


@pytest.mark.parametrize("position", [np.int64(3), b"3", {1, 2}])
def test_a_position_that_the_log_cannot_hold_is_refused(tmp_path: Path, position: Any) -> None:
    class Placed(Scripted):
        def poll(self, max_rows: int, timeout: float) -> tuple[Any, Any] | None:
            got = super().poll(max_rows, timeout)
            return got and (got[0], position)

    message = r"Stream: the source's position is .*; wanted numbers, strings, lists or dicts"
    with dynstore.open(tmp_path / "db", device="cpu") as db:
        with pytest.raises(InputError, match=message):
            Stream(db.graph, Placed([(0, 1)], ends=True)).run()
        assert (db.position, db.graph.version) == (None, 0)


def test_what_is_late_is_late_after_a_restart(tmp_path: Path) -> None:
    times = [10, 20, 30, 12, 31]
    frame = {"source": range(5), "destination": range(1, 6), "time": times}
    rows = {name: list(column) for name, column in frame.items()}
    with dynstore.open(tmp_path / "db", device="cpu") as db:
        first = {name: column[:3] for name, column in rows.items()}
        Stream(db.graph, first, lateness=5).run()
    with dynstore.open(tmp_path / "db", device="cpu") as db:
        progress = Stream(db.graph, rows, lateness=5).run()
        assert (progress.applied, progress.late) == (2, 1)
        assert held(db.graph) == {0, 1, 2, 4}


def test_a_time_is_shown_once_its_kind_is_known(tmp_path: Path) -> None:
    """After a restart the log has the newest time as a number; whether it is a date-time, the first rows say."""
    times = np.array(["2026-01-01T00:00:05", "2026-01-01T00:00:07"], "datetime64[ns]")
    rows = {"source": [0, 1], "destination": [1, 2], "time": times}
    with dynstore.open(tmp_path / "db", device="cpu") as db:
        assert Stream(db.graph, rows).run().event_time == times[1]
    with dynstore.open(tmp_path / "db", device="cpu") as db:
        progress = Stream(db.graph, rows).run()  # all of its rows were applied before
        assert (progress.applied, progress.event_time, progress.event_lag) == (0, None, None)


def test_edges_expire_in_a_database(tmp_path: Path) -> None:
    table = {"source": range(9), "destination": range(1, 10), "time": range(0, 90, 10)}
    rows = {name: list(column) for name, column in table.items()}
    for last in (5, 9):  # the first run sees a part of them
        with dynstore.open(tmp_path / "db", timestamps="int64", device="cpu") as db:
            given = {name: column[:last] for name, column in rows.items()}
            progress = Stream(db.graph, given, 25, batch_edges=2).run()
            assert held(db.graph) == {last - 3, last - 2, last - 1}
    assert progress.applied == 4


def test_questions_about_older_versions(tmp_path: Path) -> None:
    with dynstore.open(tmp_path / "db", device="cpu") as db:
        source = Scripted([(0, 1)], [(1, 2)], [(2, 3)])
        with Stream(db.graph, source, batch_edges=1).start() as stream:
            stream.drain(20)
            while stream.progress().applied < 3:
                time.sleep(0.01)
            answers = [stream.ask(lambda G: G.number_of_edges(), at=version).result(60).result for version in (1, 2, 3)]
            with pytest.raises(InputError):
                stream.ask(lambda G: G.number_of_edges(), at=9).result(60)
        assert answers == [1, 2, 3]


# ---------------------------------------------------------------------- windows


def weights_of(graph: dynstore.DynamicGraph) -> dict[tuple[Any, Any], float]:
    table = graph.to_pandas()
    return dict(zip(zip(table["source"], table["destination"], strict=True), table["weight"], strict=True))


def some_rows(rng: np.random.Generator, deletes: bool) -> dict[str, list[Any]]:
    """Rows between texts, somewhat out of the order of their times."""
    count = 400
    src, dst = ([f"v{n}" for n in ends] for ends in rng.integers(0, 9, (2, count)))
    times = (np.arange(count) - rng.integers(0, 20, count)).tolist()
    ops = np.where(rng.random(count) < 0.2, "-", "+") if deletes else np.full(count, "+")
    weights = rng.integers(1, 9, count).astype(float).tolist()
    return {"source": src, "destination": dst, "weight": weights, "time": times, "op": ops.tolist()}


@crossed(
    deletes=[False, True],
    length=[{"length": 50, "by": "time"}, {"length": 30, "by": "time", "step": 20}, {"length": 64}],
    keep=["latest", "count", "sum"],
)
def test_a_window_comes_back_with_its_graph(
    tmp_path: Path, keep: Any, length: dict[str, Any], deletes: bool, rng: np.random.Generator
) -> None:
    rows, options = some_rows(rng, deletes), {"weighted": True, "renumber": True, "device": "cpu"}
    plain = dynstore.DynamicGraph(**options)
    Stream(plain, rows, dynstore.Window(plain, keep=keep, **length)).run()
    left, source = 7, Scripted()
    while left:
        left -= 1
        with dynstore.open(tmp_path / "db", **options) as db:
            window = dynstore.Window(db.graph, keep=keep, **length)
            first = {name: column[: 400 - 50 * left] for name, column in rows.items()}
            batches = [{name: column[k : k + 25] for name, column in first.items()} for k in range(0, 400, 25)]
            source = Scripted(*(batch for batch in batches if batch["source"]), ends=True)
            source.seek = lambda position, source=source: [source.poll(0, 0) for _ in range(position)]  # type: ignore
            most = 10**9 if left in (0, 3) else 4
            Stream(db.graph, source, window, batch_edges=13).run(
                until=lambda progress, most=most: progress.batches > most
            )
    assert weights_of(db.graph) == weights_of(plain)
    assert len(window) < 400


def test_a_window_comes_back_after_a_crash_while_it_did(tmp_path: Path) -> None:
    """The graph is empty then, and the log has where the window begins."""
    rows = {"source": np.arange(100), "destination": np.arange(1, 101), "time": np.arange(100)}
    for first in (True, False, False, True):
        with dynstore.open(tmp_path / "db", device="cpu") as db:
            window = dynstore.Window(db.graph, 9, by="time")
            stream = Stream(db.graph, rows, window, batch_edges=10)
            assert db.graph.number_of_edges() == 0
            if first:
                stream.run()
                assert held(db.graph) == set(range(91, 100))
            stream.stop()


def test_a_window_reads_no_more_again_than_it_holds(tmp_path: Path) -> None:
    rows = {"source": range(1000), "destination": range(1, 1001), "time": range(1000)}
    table = {name: np.array(column) for name, column in rows.items()}
    for again, length in ((100, {"length": 50, "by": "time"}), (100, {"length": 50})):
        folder = tmp_path / str(length)
        with dynstore.open(folder, device="cpu") as db:
            window = dynstore.Window(db.graph, **length)  # type: ignore[arg-type]
            assert Stream(db.graph, table, window, batch_edges=40).run().applied == 1000
            assert held(db.graph) == set(range(950, 1000))
            with Stream(db.graph, table, window) as more:  # the window is there
                assert more.run().applied == 0
        with dynstore.open(folder, device="cpu") as db:
            assert db.graph.number_of_edges() == 50
            window = dynstore.Window(db.graph, **length)  # type: ignore[arg-type]
            with pytest.raises(InputError, match="slide: the graph has edges whose rows the window does not have"):
                window.slide([(0, 1)], **({"time": np.array([1])} if "by" in length else {}))
            stream = Stream(db.graph, table, window)
            assert stream._engine.newest_applied is None  # none of the window's rows is applied yet
            assert 50 <= stream.run().applied <= again
            assert held(db.graph) == set(range(950, 1000))


def test_deletions_make_no_row_of_a_window_old(tmp_path: Path) -> None:
    """A window moves by the times of its rows: those of deletions are none of them."""
    rows = {"source": [0, 1, 2, 9, 5], "destination": [1, 2, 3, 9, 6], "time": [1, 2, 3, 100, 6], "op": list("+++-+")}
    for _ in range(2):
        with dynstore.open(tmp_path / "db", device="cpu") as db:
            Stream(db.graph, rows, dynstore.Window(db.graph, 10, by="time"), batch_edges=1).run()
            assert held(db.graph) == {0, 1, 2, 5}


def test_what_is_late_stays_late_where_a_window_is_read_again(tmp_path: Path) -> None:
    """The newest time may have come before the rows that the window still has."""
    rows = {"source": range(12), "destination": range(1, 13), "time": [100] + [85] * 9 + [70, 90]}
    for last in (10, 12):
        with dynstore.open(tmp_path / "db", device="cpu") as db:
            table = {name: list(column)[:last] for name, column in rows.items()}
            Stream(db.graph, table, dynstore.Window(db.graph, 5), lateness=20, batch_edges=1).run()
            assert held(db.graph) == ({5, 6, 7, 8, 9} if last == 10 else {6, 7, 8, 9, 11})


def test_the_source_keeps_what_a_window_reads_again(tmp_path: Path) -> None:
    with dynstore.open(tmp_path / "db", device="cpu") as db:
        source = Scripted(*[[(row, row + 1)] for row in range(20)], ends=True)
        Stream(db.graph, source, dynstore.Window(db.graph, 5), batch_edges=1).run()
        assert source.committed[-1] == 15


def test_a_window_that_cannot_come_back_is_refused(tmp_path: Path) -> None:
    rows = ([0, 1, 2], [1, 2, 3])
    with dynstore.open(tmp_path / "db", device="cpu") as db:
        Stream(db.graph, rows, dynstore.Window(db.graph, 2, step=2)).run()
    with dynstore.open(tmp_path / "db", device="cpu") as db:
        version = db.graph.version
        window = dynstore.Window(db.graph, 2, step=2)
        with pytest.raises(InputError, match="Stream: the graph of the database has 3 edges, but no position where"):
            Stream(db.graph, rows, window)
        assert (db.graph.number_of_edges(), db.graph.version) == (3, version)
        db.graph.clear()
        window.slide([(4, 5)])
        assert held(db.graph) == {4}
        with pytest.raises(InputError, match="the graph has 1 edges; wanted an empty graph"):
            dynstore.Window(db.graph.copy(), 2)


PROGRAM = """
import sys, time
import numpy as np
import dynstore
from dynstore import Stream
from dynstore.streams import FileSource

with dynstore.open(sys.argv[1], sync=sys.argv[3], device="cpu", checkpoint_bytes=20_000) as db:
    begun = db.graph.number_of_edges()
    stream = Stream(db.graph, FileSource(sys.argv[2], follow=False), batch_edges=7, max_delay=0.0)
    print(begun, flush=True)
    progress = stream.run()
    assert progress.applied == ROWS - begun, (progress, begun)
    print("done", flush=True)
""".replace("ROWS", str(ROWS))


@pytest.mark.parametrize(
    "sync", ["group", *(pytest.param(sync, marks=pytest.mark.thorough) for sync in ("commit", "os"))]
)
def test_killed_again_and_again_each_row_is_there_once(tmp_path: Path, sync: str, rng: np.random.Generator) -> None:
    """Each run checks that it applies exactly the rows that the graph did not have."""
    file = tmp_path / "e.csv"
    file.write_text("".join(f"{row},{row + 1}\n" for row in range(ROWS)))
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "db"), str(file), sync]
    begun = []
    for kill in (True, True, True, False):
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True) as process:
            assert process.stdout is not None
            begun.append(int(process.stdout.readline()))
            if kill:
                time.sleep(rng.uniform(0.02, 0.25))
                process.kill()
            elif process.stdout.readline() != "done\n":
                pytest.fail("the last run has failed")
    assert begun == sorted(begun)
    with dynstore.open(tmp_path / "db", device="cpu") as db:
        assert held(db.graph) == set(range(ROWS))
        assert db.position is not None
        assert json.loads(db.position)[0]["files"][0][0] == file.stat().st_size
