"""Disks that are full or broken, files that are cut or changed: a clear error or the last good state, never another."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynstore.durable import log
from dynstore.errors import DynstoreError, LogError
from dynstore.files import Buffer
from tests.conftest import PROFILE
from tests.durable.scenes import FAST, KINDS, Fast, content, make_update, opened, random_update

MORE = 20 if PROFILE == "thorough" else 1  # times as many flipped bits, and each cut of the last file


class Failing(Fast):
    """Files of which one call fails: number ``fail_at`` of those that write or sync."""

    def __init__(self, calls: str, number: int) -> None:
        self.calls, self.fail_at, self.errno, self.count = calls, -1, number, 0
        self.open_files: set[int] = set()

    def _count(self, calls: str) -> None:
        if calls == self.calls:
            self.count += 1
            if self.count == self.fail_at + 1:
                raise OSError(self.errno, os.strerror(self.errno))

    def create(self, path: Path) -> int:
        self._count("write")
        file = super().create(path)
        self.open_files.add(file)
        return file

    def open(self, path: Path) -> int:
        file = super().open(path)
        self.open_files.add(file)
        return file

    def close(self, file: int) -> None:
        self.open_files.discard(file)
        super().close(file)

    def write(self, file: int, offset: int, buffers: Sequence[Buffer]) -> int:
        try:
            self._count("write")
        except OSError:
            super().write(file, offset, buffers[: len(buffers) // 2])  # a part is written
            raise
        return super().write(file, offset, buffers)

    def make_folder(self, path: Path) -> None:
        self._count("write")
        super().make_folder(path)

    def rename(self, path: Path, target: Path) -> None:
        self._count("write")
        super().rename(path, target)

    def sync(self, file: int) -> None:
        self._count("sync")

    def sync_folder(self, path: Path) -> None:
        self._count("sync")


def _run(path: Path, files: Failing, kind: str, rng: np.random.Generator, sync: Any) -> None:
    """Run updates and a checkpoint while one call fails, and compare what comes back."""
    with opened(path, files, sync, 1, **KINDS[kind]) as db:
        files.count = 0
        before, fallen = content(db.graph), False
        maybe = [before]
        for step in range(6):
            twin, update = db.graph.copy(), random_update(rng, kind)
            made = make_update(twin, update)
            try:
                assert make_update(db.graph, update) == made
            except LogError:
                assert content(db.graph) == before, "an update that was not logged is in the graph"
                assert not made or not fallen or db._log.is_dead
                maybe.append(content(twin))
                fallen = True
            else:
                assert not db._log.is_dead or twin.version == before["version"]  # its record could not be taken back
                before = content(db.graph)
                if not db._log.is_dead:  # else an update was refused, which says nothing of those before
                    maybe = [before]
            if step == 3:
                try:
                    db.checkpoint()
                except OSError:
                    fallen = True
            if db._log.is_dead:
                with pytest.raises(LogError, match="open the folder again"):
                    db.graph.insert_vertices(named_one(kind))
                with pytest.raises(LogError):
                    db.flush()
    with opened(path, FAST, **KINDS[kind]) as db:
        assert content(db.graph) in maybe


def named_one(kind: str) -> Any:
    return "a" if kind == "strings" else 1


@pytest.mark.parametrize(("kind", "large"), [("int32", 0), ("strings", 0), ("int32", log.LARGE_BYTES)])
@pytest.mark.parametrize(("calls", "number"), [("write", errno.ENOSPC), ("write", errno.EIO), ("sync", errno.EIO)])
def test_any_call_may_fail(
    kind: str,
    large: int,
    calls: str,
    number: int,
    tmp_path: Path,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``large``: bytes of the records that a thread appends."""
    monkeypatch.setattr(log, "SEGMENT_BYTES", 1000)
    monkeypatch.setattr(log, "LARGE_BYTES", large)
    for fail_at in range(200):
        files = Failing(calls, number)
        files.fail_at = fail_at
        path = tmp_path / str(fail_at)
        try:
            _run(path, files, kind, rng, "commit")
        except OSError:
            assert files.count <= fail_at + 1  # when it was made, or opened
            assert not files.open_files
        shutil.rmtree(path, ignore_errors=True)
        if files.count <= fail_at and files.count:
            break
    assert 10 < fail_at < 200


def test_a_sync_in_the_background_fails(tmp_path: Path) -> None:
    files = Failing("sync", errno.EIO)
    with opened(tmp_path / "db", files, "group") as db:
        db.graph.insert_edges([(0, 1)])
        db.flush()
        files.fail_at = files.count
        db.graph.insert_edges([(1, 2)])
        db._log._syncer.join(10)
        with pytest.raises(LogError, match=r"delete_edges: the log could not be synced \(.*\); open the folder again"):
            db.graph.delete_edges([(0, 1)])
        assert (db.graph.version, db.durable_version) == (2, 1)


def test_a_full_disk_that_has_room_again(tmp_path: Path) -> None:
    files = Failing("write", errno.ENOSPC)
    with opened(tmp_path / "db", files) as db:
        db.graph.insert_edges([(0, 1)])
        size = (tmp_path / "db" / "log-0000000000000001.wal").stat().st_size
        files.count, files.fail_at = 0, 0
        message = r"insert_edges: the log cannot be written \(.*No space left on device\); the update is not made"
        with pytest.raises(LogError, match=message):
            db.graph.insert_edges([(1, 2)])
        assert db.graph.version == 1
        assert (tmp_path / "db" / "log-0000000000000001.wal").stat().st_size == size
        db.graph.insert_edges([(2, 3)])
        wanted = content(db.graph)
    with opened(tmp_path / "db") as db:
        assert content(db.graph) == wanted


def test_what_the_graph_refuses_leaves_no_record(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with opened(path, weighted=True) as db:
        db.graph.insert_edges([(0, 1, 1.0)])
        before = (path / "log-0000000000000001.wal").read_bytes()
        nan, mixed = [(0, 1, float("nan"))], [("a", "b", 1.0)]
        for edges in (nan, mixed, [(-1, 1, 1.0)], ([0], [1, 2], [1.0]), [(0, 2**33, 1.0)], 3):
            with pytest.raises(DynstoreError, match="insert_edges"):
                db.graph.insert_edges(edges)
        with pytest.raises(DynstoreError, match="insert_edges: `weights` has 2 items, `src` has 1; they must be equal"):
            db.graph.insert_edges(([0], [1], [1.0, 2.0]))
        with pytest.raises(TypeError):
            db.graph.insert_edges()
        with pytest.raises(DynstoreError, match="on_duplicate"):
            db.graph.insert_edges([(0, 1, 1.0)], on_duplicate=object())
        assert (path / "log-0000000000000001.wal").read_bytes() == before
        assert (db.graph.version, db._log.version) == (1, 1)


def test_a_refused_update_that_a_crash_left_in_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "db"
    with opened(path, weighted=True) as db:
        db.graph.insert_edges([(0, 1, 1.0)])
        wanted = content(db.graph)
        monkeypatch.setattr(db._log, "take_back", lambda: None)
        with pytest.raises(DynstoreError):
            db.graph.insert_edges([(0, 1, float("nan"))])
        db._log.kill("test")
    for _ in range(2):
        with opened(path) as db:
            assert content(db.graph) == wanted
            db.graph.insert_edges([(1, 2, 1.0)])
            wanted = content(db.graph)


# ---------------------------------------------------------------------- damage


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, Any]]:
    """Return a closed database of two checkpoints and several segments, and its content at each version."""
    path, rng = tmp_path_factory.mktemp("damage") / "db", np.random.default_rng(5)
    contents = {}
    with pytest.MonkeyPatch.context() as patched, opened(path, FAST, **KINDS["sparse"]) as db:
        patched.setattr(log, "SEGMENT_BYTES", 1200)
        while db.graph.version < 16:
            make_update(db.graph, random_update(rng, "sparse", 12))
            contents[db.graph.version] = content(db.graph)
            if db.graph.version in (5, 9) and db._manifest.checkpoints[-1].version != db.graph.version:
                db.checkpoint()
    return path, contents


def _examine(path: Path, contents: dict[int, Any], least: int) -> str:
    """Open a damaged database: it raises a clear error, or is as it was at a version; return which."""
    refused = ""
    try:
        with opened(path, FAST) as db:
            assert content(db.graph) == contents[db.graph.version]
            assert db.graph.version >= least
            return "whole" if db.graph.version == max(contents) else "older"
    except DynstoreError as error:
        refused = str(error)
    assert str(path) in refused
    return "refused"


def test_flipped_bits(folder: tuple[Path, dict[int, Any]], tmp_path: Path, rng: np.random.Generator) -> None:
    path, contents = folder
    found: dict[str, set[str]] = {}
    for file in sorted(path.rglob("*")):
        if not file.is_file() or not file.stat().st_size:
            continue
        for _ in range((6 if file.suffix != ".wal" else 30) * MORE):
            twin = tmp_path / "twin"
            shutil.rmtree(twin, ignore_errors=True)
            shutil.copytree(path, twin)
            damaged = twin / file.relative_to(path)
            bits = bytearray(damaged.read_bytes())
            bits[int(rng.integers(len(bits)))] ^= 1 << int(rng.integers(8))
            damaged.write_bytes(bits)
            outcome = _examine(twin, contents, max(contents) - 1)  # the last record may look torn
            found.setdefault(file.suffix or file.name, set()).add(outcome)
    assert found["MANIFEST"] == {"refused"}
    assert "refused" in found[".wal"]
    assert found[".bin"] == {"whole"}  # an older checkpoint and the log give the same


def test_cut_files(folder: tuple[Path, dict[int, Any]], tmp_path: Path, rng: np.random.Generator) -> None:
    path, contents = folder
    last = max(path.glob("*.wal"))
    for file in sorted(path.rglob("*")):
        if not file.is_file() or not file.stat().st_size:
            continue
        size = file.stat().st_size
        sizes = range(size) if file == last else rng.integers(0, size, 5).tolist()
        if file == last:
            sizes = sorted({*range(0, size, 41 if MORE == 1 else 1), size - 1, 63, 64, 65})
        for cut in sizes:
            twin = tmp_path / "twin"
            shutil.rmtree(twin, ignore_errors=True)
            shutil.copytree(path, twin)
            os.truncate(twin / file.relative_to(path), cut)
            outcome = _examine(twin, contents, 0 if file == last else max(contents))
            assert outcome in (("older",) if file == last else ("refused", "whole"))


def test_missing_files(folder: tuple[Path, dict[int, Any]], tmp_path: Path) -> None:
    path, contents = folder
    segments = sorted(path.glob("*.wal"))
    assert len(segments) > 2
    for file in [*segments[:-1], path / "MANIFEST", *path.glob("ckpt-*/*")]:
        twin = tmp_path / "twin"
        shutil.rmtree(twin, ignore_errors=True)
        shutil.copytree(path, twin)
        (twin / file.relative_to(path)).unlink()
        _examine(twin, contents, max(contents))
