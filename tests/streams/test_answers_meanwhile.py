"""A stream with a log answers after a batch while the next batch's record is written, before that one is applied."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from threading import Semaphore
from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore import Database, DynamicGraph, Stream
from dynstore.durable import log
from dynstore.errors import LogError
from dynstore.files import Buffer
from dynstore.streams.monitors import StreamMonitor
from dynstore.streams.questions import VersionTime
from tests.conftest import DEVICES
from tests.crossed import crossed
from tests.durable.scenes import FAST, Fast, content
from tests.streams.scripted import SOON, Scripted, wait_until


class OneByOne(Fast):
    """Files of which each write waits until it may go on; the last one may fail."""

    def __init__(self) -> None:
        self.turns, self.begun, self.fails = Semaphore(1000), 0, False

    def write(self, file: int, offset: int, buffers: Sequence[Buffer]) -> int:
        self.begun += 1
        assert self.turns.acquire(timeout=SOON)
        if self.fails:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(file, offset, buffers)

    def hold(self) -> None:
        """Have the next writes wait."""
        while self.turns.acquire(blocking=False):
            pass
        self.begun = 0


@pytest.fixture(autouse=True)
def _threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have threads append every record."""
    monkeypatch.setattr(log, "LARGE_BYTES", 0)


def database(path: Path, files: Any = FAST, device: str = "cpu", **options: Any) -> Database:
    return Database(path, "group", 1 << 40, 2, {"device": device, **options}, files)


def chain(number: int) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(4 * number, 4 * number + 4), np.arange(4 * number + 1, 4 * number + 5)


def test_answers_come_while_the_next_record_is_written(tmp_path: Path) -> None:
    files, source = OneByOne(), Scripted()
    with database(tmp_path / "db", files) as db:
        stream = Stream(db.graph, source, batch_edges=4)
        monitor = stream.monitor("weakly_connected_components")
        files.hold()
        stream.start()
        for number in range(3):
            source.queue.put(chain(number))
        wait_until(lambda: files.begun == 1 and stream.progress().arrived == 12)
        assert (db.graph.version, monitor.latest) == (0, None)
        files.turns.release()
        wait_until(lambda: files.begun == 2 and monitor.latest is not None)  # the second record is not written
        assert (db.graph.version, db._log.version, monitor.latest.version) == (1, 1, 1)
        wait_until(lambda: stream.progress().applied == 4)
        assert not source.committed or source.committed == [1]
        files.turns.release()
        wait_until(lambda: files.begun == 3 and monitor.latest.version == 2)
        assert (db.graph.version, db._log.version) == (2, 2)
        files.turns.release(100)
        wait_until(lambda: monitor.latest.version == 3)  # nothing comes behind, so nothing is waited for
        source.queue.put(EOFError())
        assert stream._engine.over.wait(SOON)
        stream.stop()
        assert (db.graph.version, source.committed[-1]) == (3, 3)


def test_a_record_that_cannot_be_written_ends_the_stream_with_the_last_batch_answered(tmp_path: Path) -> None:
    files, source = OneByOne(), Scripted(*map(chain, range(3)))
    with database(tmp_path / "db", files) as db:
        stream = Stream(db.graph, source, batch_edges=4)
        monitor = stream.monitor("weakly_connected_components")
        files.hold()
        stream.start()
        files.turns.release()
        wait_until(lambda: files.begun == 2 and stream.progress().arrived == 12)
        files.fails = True
        files.turns.release(100)
        with pytest.raises(LogError, match="insert_edges: the log cannot be written"):
            stream.drain(SOON)
        assert (db.graph.version, monitor.latest.version) == (1, 1)
        assert source.committed in ([], [1])  # it may not have been synced yet
        files.fails = False
        wanted = content(db.graph)
    with database(tmp_path / "db") as db:
        assert content(db.graph) == wanted
        source = Scripted(*map(chain, range(1, 3)), ends=True)
        assert Stream(db.graph, source, batch_edges=4).run().applied == 8
        assert source.sought == [1]
        assert db.graph.number_of_edges() == 12


@crossed(
    device=DEVICES,
    kind=[  # options, whether there is a window, and deletions
        ({}, False, False),
        ({}, True, True),
        ({"renumber": True, "weighted": True}, True, False),
        ({"renumber": True, "directed": False}, False, True),
        ({"timestamps": "int64"}, False, False),
    ],
    every=[1, 2],
)
def test_answers_are_those_of_a_stream_without_a_log(
    device: str,
    kind: tuple[dict[str, Any], bool, bool],
    every: int,
    tmp_path: Path,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options, windowed, deletes = kind
    answer, found = StreamMonitor._bring_up, list[Any]()

    def noting(self: StreamMonitor, version_time: VersionTime, boundary: Any) -> None:
        answer(self, version_time, boundary)
        assert self.latest is not None
        frame = self.latest.result  # of cuDF on a GPU, if that is installed
        result = (frame.to_pandas() if hasattr(frame, "to_pandas") else frame).to_dict("list")
        found.append((self.latest.version, version_time.event_time, result))

    monkeypatch.setattr(StreamMonitor, "_bring_up", noting)
    count = 60 if device == "cpu" else 24
    rows: dict[str, Any] = {name: rng.integers(0, 14, count) for name in ("source", "destination")}
    if options.get("renumber"):
        rows = {name: np.array([f"vertex {number}" for number in column]) for name, column in rows.items()}
    if options.get("weighted"):
        rows["weight"] = rng.integers(1, 9, count).astype(np.float32)
    if deletes:
        rows["op"] = np.where(rng.integers(0, 4, count) == 0, "-", "+")
    if "timestamps" in options:
        rows["time"] = np.arange(count)

    def run(G: DynamicGraph) -> list[Any]:
        found.clear()
        window = dynstore.Window(G, 15) if windowed else None
        stream = Stream(G, {name: column.copy() for name, column in rows.items()}, window, batch_edges=6)
        monitor = stream.monitor("weakly_connected_components", every=every)
        progress = stream.run()
        assert not progress.errors
        assert (progress.applied, progress.batches) == (count, count // 6)
        assert monitor.latest is not None
        assert monitor.latest.version == G.version
        return list(found)

    wanted = run(DynamicGraph(device=device, **options))
    with database(tmp_path / "db", device=device, **options) as db:
        assert run(db.graph) == wanted
    assert len(wanted) == -(-(count // 6) // every)


def test_a_question_finds_its_batch_answered(tmp_path: Path) -> None:
    source = Scripted()
    with database(tmp_path / "db") as db, Stream(db.graph, source, batch_edges=4) as stream:
        monitor = stream.monitor("weakly_connected_components")
        stream.start()
        for number in range(30):
            source.queue.put(chain(number))
            version, answered = stream.ask(lambda G: (G.version, monitor.latest)).result(SOON).result
            assert version == (0 if answered is None else answered.version)
        stream.drain(SOON)
        assert stream.progress().applied <= 120


def test_a_monitor_that_fails_meanwhile_harms_no_update(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: StreamMonitor, *given: Any) -> None:
        raise MemoryError("none is left for answers")

    monkeypatch.setattr(StreamMonitor, "_bring_up", fail)
    with database(tmp_path / "db") as db:
        stream = Stream(db.graph, Scripted(*map(chain, range(5)), ends=True), batch_edges=4)
        stream.monitor("weakly_connected_components")
        progress = stream.run()
        assert progress.errors == (
            "weakly_connected_components could not be brought up to date: none is left for answers",
        )
        assert (progress.applied, db.graph.version, db.graph.number_of_edges()) == (20, 5, 20)
