"""The power fails after any write: what was acknowledged is there, and no update is there by half."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynstore.durable import log
from dynstore.errors import DynstoreError, LogError
from tests.durable.scenes import FAST, KINDS, Disk, Operation, Recording, content, make_update, opened, random_update

RANDOM = 2  # random ways in which each moment is left


def record(tmp_path: Path, kind: str, sync: Any, rng: np.random.Generator, drop: str = "") -> list[Operation]:
    """Run updates with segments that are soon full, and checkpoints; return what was done to the files."""
    files = Recording(drop)
    files.note("acknowledged", None, {})
    contents: dict[int, Any] = {}
    root = tmp_path / "disk"
    root.mkdir()
    for part in range(2):
        with opened(root / "db", files, sync, 1, **KINDS[kind]) as db:
            contents[db.graph.version] = content(db.graph)
            files.note("acknowledged", db.graph.version, dict(contents))
            for step in range(12):
                update = random_update(rng, kind)
                contents[db.graph.version + 1] = None  # what it will be; noted below
                twin = db.graph.copy()
                make_update(twin, update)
                if twin.version > db.graph.version:
                    contents[twin.version] = content(twin)
                files.note("may", dict(contents))
                make_update(db.graph, update)
                if sync == "commit" or step == 9:
                    db.flush()
                    files.note("acknowledged", db.graph.version, dict(contents))
                if step == 5 + part:
                    db.checkpoint()
                    files.note("acknowledged", db.graph.version, dict(contents))
    return files.operations


def moments(operations: list[Operation], tmp_path: Path, rng: np.random.Generator, kind: str, every: int = 1) -> int:
    """Lose the power after each of the operations, or one in ``every``, in several ways; return how many."""
    disk, acknowledged, may = Disk(tmp_path / "disk"), None, {}
    examined, chosen = 0, int(rng.integers(every))
    for number, operation in enumerate(operations):
        if operation[0] == "acknowledged":
            _, acknowledged, may = operation
            continue
        if operation[0] == "may":
            may = operation[1]
            continue
        disk.apply(operation)
        if number % every != chosen:
            continue
        ways = [lambda _: 0.0, lambda _: 1.0]
        ways += [lambda _: float(rng.choice([0.0, 0.5, 1.0]))] * RANDOM
        for keep in ways:
            target = tmp_path / "after"
            shutil.rmtree(target, ignore_errors=True)
            disk.lose_power(target, keep)
            examined += 1
            with opened(target / "db", FAST, **KINDS[kind]) as db:
                version = db.graph.version
                if acknowledged is not None:
                    assert version >= acknowledged, f"{acknowledged} was acknowledged; {version} is there"
                    assert content(db.graph) == may[version]
                else:
                    assert version == 0
    return examined


SCENES = [("int32", "commit"), ("strings", "commit"), ("int32", "os")]


@pytest.mark.thorough
@pytest.mark.parametrize(("kind", "sync"), SCENES)
@pytest.mark.parametrize("turn", range(10))
def test_power_loss_at_every_moment(
    turn: int, kind: str, sync: Any, tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "SEGMENT_BYTES", 1500)
    moments(record(tmp_path, kind, sync, rng), tmp_path, rng, kind)


@pytest.mark.parametrize(("kind", "sync"), SCENES)
def test_power_loss(
    kind: str, sync: Any, tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "SEGMENT_BYTES", 1500)
    operations = record(tmp_path, kind, sync, rng)
    assert sum(operation[0] == "create" and operation[1].suffix == ".wal" for operation in operations) > 2
    assert moments(operations, tmp_path, rng, kind, every=5) > 60


DROPPED = [
    ("records", "commit"),
    (".wal", "commit"),
    (".wal", "os"),
    (".bin", "commit"),
    ("manifest.json", "commit"),
    ("MANIFEST.part", "commit"),
    ("folder after parent", "commit"),
    ("folder after log", "commit"),
    ("folder after saving", "commit"),
    ("folder after ckpt", "commit"),
    ("folder after MANIFEST", "commit"),
]


@pytest.mark.parametrize(("drop", "sync"), DROPPED)
def test_no_sync_can_be_left_out(
    drop: str, sync: Any, tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "SEGMENT_BYTES", 1500)
    operations = record(tmp_path, "int32", sync, rng, drop)
    found = (AssertionError, DynstoreError, KeyError)
    with pytest.raises(found):
        [moments(operations, tmp_path, rng, "int32", every=3) for _ in range(50)]


class FailsOnce(Recording):
    """Files of which one sync of the log fails."""

    fails = False

    def sync(self, file: int) -> None:
        if self.fails:
            self.fails = False
            self.note("failed_sync", file)
            raise OSError(5, "Input/output error")
        super().sync(file)


def test_what_a_failed_sync_has_left_is_written_again(tmp_path: Path) -> None:
    """The next opener finds the record in the system's memory, not on the disk, and a sync of it does nothing."""
    files, disk = FailsOnce(), Disk(tmp_path / "disk")
    (tmp_path / "disk").mkdir()
    files.note("begin")
    with opened(tmp_path / "disk" / "db", files) as db:
        db.graph.insert_edges([(0, 1)])
        files.fails = True
        with pytest.raises(LogError, match="insert_edges: the log could not be synced"):
            db.graph.insert_edges([(1, 2)])
        assert db.graph.version == 1
    with opened(tmp_path / "disk" / "db", files) as db:
        assert db.graph.version == db.durable_version == 2
        wanted = content(db.graph)
    for operation in files.operations[1:]:
        disk.apply(operation)
    (tmp_path / "after").mkdir()
    disk.lose_power(tmp_path / "after", lambda _: 0.0)
    with opened(tmp_path / "after" / "db", FAST) as db:
        assert content(db.graph) == wanted
