"""Databases are opened by one process at a time, with the options that they have; what is wrong is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import dynstore
from dynstore.errors import InputError, InputTypeError, LogError
from tests.durable.scenes import opened

ROOT = Path(__file__).resolve().parents[2]


def test_one_opener_at_a_time(tmp_path: Path) -> None:
    with opened(tmp_path / "db"):
        message = "is open already, in "
        with pytest.raises(LogError, match=message):
            dynstore.open(tmp_path / "db", device="cpu")
        found: list[Any] = []
        thread = Thread(target=lambda: found.append(_error_of(tmp_path / "db")))
        thread.start()
        thread.join()
        assert message in found[0]
        program = f"import dynstore; dynstore.open({str(tmp_path / 'db')!r}, device='cpu')"
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment
        )
        assert message in done.stderr
    dynstore.open(tmp_path / "db", device="cpu").close()


def _error_of(path: Path) -> str:
    try:
        dynstore.open(path, device="cpu")
    except LogError as error:
        return str(error)
    return ""


def test_options_are_those_of_the_graph(tmp_path: Path) -> None:
    options: dict[str, Any] = {"directed": False, "store": "gpma+", "build_density": 0.5, "capacity": 10}
    with opened(tmp_path / "db", **options) as db:
        assert not db.graph.is_directed()
    with opened(tmp_path / "db", **options, frames="pyarrow") as db:
        assert db.graph.core.frames == "pyarrow"
    message = "open: the graph in '.*' has directed=False; got True"
    for _ in range(2):
        with pytest.raises(InputError, match=message):
            dynstore.open(tmp_path / "db", directed=True, device="cpu")
    with pytest.raises(InputTypeError, match="unknown parameter 'direct'"):
        dynstore.open(tmp_path / "db", direct=True, device="cpu")
    with opened(tmp_path / "db") as db:
        assert db.graph.core.options()["build_density"] == 0.5


def test_columns_of_edges_come_in_the_same_order(tmp_path: Path) -> None:
    """Tuples of columns have no names."""
    with opened(tmp_path / "db", edge_columns={"a": "int64", "b": "int64"}) as db:
        db.graph.insert_edges(([0], [1], [7], [8]))
    with opened(tmp_path / "db", edge_columns={"a": "int64", "b": "int64"}) as db:
        assert db.graph.version == 1
    with pytest.raises(InputError, match=r"open: the graph in '.*' has edge_columns=\{'a': .*; got \{'b': "):
        dynstore.open(tmp_path / "db", device="cpu", edge_columns={"b": "int64", "a": "int64"})


def test_a_damaged_checkpoint_does_not_count(tmp_path: Path) -> None:
    """The next one is written, also of the same version, and the older ones stay until there are two."""
    with opened(tmp_path / "db") as db:
        for version in range(1, 3):
            db.graph.insert_edges([(0, version)])
            db.checkpoint()
    part = next((tmp_path / "db" / f"ckpt-{2:016d}").glob("source-*"))
    part.write_bytes(b"x" * part.stat().st_size)
    with opened(tmp_path / "db") as db:
        assert (db.recovery.checkpoint, len(db.recovery.passed_over)) == (1, 1)
        db.checkpoint()
    with opened(tmp_path / "db") as db:
        assert (db.recovery.checkpoint, db.recovery.passed_over) == (2, ())
        assert (db.at(1).number_of_edges(), db.graph.number_of_edges()) == (1, 2)


def test_wrong_calls(tmp_path: Path) -> None:
    for arguments, error, message in (
        ({"sync": "fsync"}, InputError, "open: unknown sync 'fsync'"),
        ({"keep": 0}, InputError, "open: keep is 0; wanted 1 or more"),
        ({"checkpoint_bytes": -1}, InputError, "open: checkpoint_bytes is -1; wanted 1 or more"),
        ({"store": "gmpa"}, InputError, "DynamicGraph: unknown store 'gmpa'"),
    ):
        with pytest.raises(error, match=message):
            dynstore.open(tmp_path / "db", device="cpu", **arguments)
        assert not (tmp_path / "db").exists()
    with pytest.raises(InputTypeError, match="open: path is a int; wanted a str or a path"):
        dynstore.open(3)
    with pytest.raises(FileNotFoundError, match="open: there is no folder"):
        dynstore.open(tmp_path / "no" / "db", device="cpu")
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="is a file; wanted a folder"):
        dynstore.open(tmp_path / "file", device="cpu")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("x")
    with pytest.raises(InputError, match=r"has no MANIFEST, but 'mine\.txt'; wanted a database"):
        dynstore.open(tmp_path / "other", device="cpu")


def test_a_lost_manifest_does_not_make_a_new_database(tmp_path: Path) -> None:
    with opened(tmp_path / "db") as db:
        db.graph.insert_edges([(0, 1)])
    (tmp_path / "db" / "MANIFEST").unlink()
    with pytest.raises(InputError, match="has no MANIFEST"):
        dynstore.open(tmp_path / "db", device="cpu")


def test_it_shows_itself(tmp_path: Path) -> None:
    with opened(tmp_path / "db") as db:
        assert repr(db).startswith(
            f"Database({str(tmp_path / 'db')!r}, sync='commit', DurableGraph(directed, 0 vertices"
        )
