"""A database is closed while another thread updates its graph: the file is not closed under a write."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest

from dynstore.durable import log
from dynstore.errors import LogError
from dynstore.files import Buffer
from tests.durable.scenes import FAST, Fast, opened

SOON = 20.0


class Slow(Fast):
    """Files that note what is done to them; once told to, a write waits."""

    def __init__(self) -> None:
        self.waits, self.has_come, self.gate = False, Event(), Event()
        self.closed: list[int] = []
        self.written_after_closing = False

    def write(self, file: int, offset: int, buffers: Sequence[Buffer]) -> int:
        if self.waits:
            self.has_come.set()
            self.gate.wait(SOON)
            self.written_after_closing |= file in self.closed
        return super().write(file, offset, buffers)

    def close(self, file: int) -> None:
        self.closed.append(file)
        super().close(file)


@pytest.mark.parametrize("sync", ["commit", "group", "os"])
@pytest.mark.parametrize("large", [0, 1 << 40])
def test_an_append_of_another_thread_ends_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: Any, large: int
) -> None:
    monkeypatch.setattr(log, "LARGE_BYTES", large)
    files = Slow()
    with opened(tmp_path / "db", files, sync) as db:
        files.closed.clear()
        files.waits = True
        updater = Thread(target=db.graph.insert_edges, args=((np.arange(9), np.arange(1, 10)),))
        updater.start()
        assert files.has_come.wait(SOON)
        closer = Thread(target=db._log.close)
        closer.start()
        closer.join(0.1)
        assert not files.closed
        files.gate.set()
        for thread in (updater, closer):
            thread.join(SOON)
            assert not thread.is_alive()
        assert files.closed
        assert not files.written_after_closing
        assert db.graph.number_of_edges() == 9
        with pytest.raises(LogError, match="the database is closed; open the folder again"):
            db.graph.insert_edges([(0, 5)])
    with opened(tmp_path / "db", FAST) as db:
        assert (db.graph.number_of_edges(), db.recovery.bytes_cut) == (9, 0)


def test_after_a_thread_that_could_not_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(log, "LARGE_BYTES", 0)
    with opened(tmp_path / "db", FAST, "os") as db:
        with monkeypatch.context() as patched:
            patched.setattr(log.Thread, "start", refuse)
            with pytest.raises(RuntimeError, match="can't start new thread"):
                db.graph.insert_edges([(0, 1)])
        db.close()
        assert (db.graph.number_of_edges(), db.graph.version) == (0, 0)
