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
from dynstore import Stream
from dynstore.errors import InputError
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
            answers = [stream.ask(lambda G: G.number_of_edges(), at=version).result(20) for version in (1, 2, 3)]
            with pytest.raises(InputError):
                stream.ask(lambda G: G.number_of_edges(), at=9).result(20)
        assert answers == [1, 2, 3]


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


@pytest.mark.parametrize("sync", ["commit", "os"])
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
        assert json.loads(db.position)[0] == file.stat().st_size
