"""The power fails after any write: what was acknowledged is there, and no update is there by half."""

from __future__ import annotations

import ast
import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore.durable import log
from dynstore.errors import DynstoreError, LogError
from dynstore.graph.saving import write_state
from tests.durable.scenes import (
    BETWEEN,
    FAST,
    KINDS,
    Disk,
    Keep,
    Operation,
    Recording,
    Update,
    content,
    make_update,
    opened,
    random_update,
)

RANDOM = 2  # random ways in which each moment is left
STEPS = 12  # updates between two openings of the database


def any_updates(rng: np.random.Generator, kind: str) -> Iterator[Update]:
    """Yield random updates, for ever."""
    while True:
        yield random_update(rng, kind)


def growing() -> Iterator[Update]:
    """Yield updates of which each makes a version with more edges, so that each file of a checkpoint has contents."""
    for number in itertools.count():
        yield "insert_edges", ((list(range(20)), [20 + number] * 20),), {}


def record(tmp_path: Path, kind: str, sync: Any, updates: Iterator[Update], drop: str = "") -> list[Operation]:
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
            for step, update in enumerate(itertools.islice(updates, STEPS)):
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


def any_ways(rng: np.random.Generator) -> list[Keep]:
    """Return ways to lose the power: without all that is not synced, with it, and with random parts of it."""
    return [_nothing, _everything, *[lambda operation, behind: float(rng.choice([0.0, 0.5, 1.0]))] * RANDOM]


def listed_ways() -> list[Keep]:
    """Return ways in which the disk keeps all but one kind of operation, or of each file only the last few."""
    kinds = ("write", "cut", "add", "remove", "rename")
    losing: list[Keep] = [lambda operation, behind, kind=kind: operation[0] != kind for kind in kinds]  # type: ignore[misc]
    last: list[Keep] = [lambda operation, behind, most=most: behind < most for most in (1, 2, 3)]  # type: ignore[misc]
    return [_nothing, _everything, *losing, *last]


def _nothing(operation: Operation, behind: int) -> float:
    return 0.0


def _everything(operation: Operation, behind: int) -> float:
    return 1.0


def moments(
    operations: list[Operation], tmp_path: Path, ways: list[Keep], kind: str, every: int = 1, first: int = 0
) -> int:
    """Lose the power after each of the operations, or one in ``every``, in several ways; return how many."""
    disk, acknowledged, may = Disk(tmp_path / "disk"), None, {}
    examined = 0
    for number, operation in enumerate(operations):
        if operation[0] == "acknowledged":
            _, acknowledged, may = operation
            continue
        if operation[0] == "may":
            may = operation[1]
            continue
        disk.apply(operation)
        if number % every != first:
            continue
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


# The kind of ids, the sync, and the bytes of records that a thread appends.
SCENES = [("int32", "commit", 0), ("strings", "commit", log.LARGE_BYTES), ("int32", "os", 0)]


@pytest.mark.thorough
@pytest.mark.parametrize(("kind", "sync", "large"), SCENES)
@pytest.mark.parametrize("turn", range(10))
def test_power_loss_at_every_moment(
    turn: int,
    kind: str,
    sync: Any,
    large: int,
    tmp_path: Path,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log, "SEGMENT_BYTES", 1500)
    monkeypatch.setattr(log, "LARGE_BYTES", large)
    moments(record(tmp_path, kind, sync, any_updates(rng, kind)), tmp_path, any_ways(rng), kind)


@pytest.mark.parametrize(("kind", "sync", "large"), SCENES)
def test_power_loss(
    kind: str, sync: Any, large: int, tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "SEGMENT_BYTES", 1500)
    monkeypatch.setattr(log, "LARGE_BYTES", large)
    operations = record(tmp_path, kind, sync, any_updates(rng, kind))
    assert sum(operation[0] == "create" and operation[1].suffix == ".wal" for operation in operations) > 2
    assert moments(operations, tmp_path, any_ways(rng), kind, every=5, first=int(rng.integers(5))) > 60


# The functions that sync.
SITES = (
    "_begin_segment:sync",
    "_begin_segment:sync_folder",
    "_sync_now:sync",
    "make_folder:sync_folder",
    "write:sync",
    "write:sync_folder",
    "_write_part:sync",
    "_write_manifest:sync",
    "_write_manifest:sync_folder",
    "write_state:sync_folder",
)
AFTER_A_FAILED_SYNC = "go_on:sync"
# That of a saved graph that is replaced; a database replaces none.
ELSEWHERE = "_replace:sync_folder"


@pytest.mark.parametrize("drop", SITES)
def test_no_sync_can_be_left_out(drop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here is random: each update and each checkpoint writes something, and each listed loss is tried."""
    monkeypatch.setattr(log, "SEGMENT_BYTES", 1500)
    monkeypatch.setattr(log, "LARGE_BYTES", 0)
    operations = record(tmp_path, "int32", "commit", growing(), drop)
    with pytest.raises((AssertionError, DynstoreError, KeyError)):
        moments(operations, tmp_path, listed_ways(), "int32")


def test_with_all_syncs_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same updates and losses as above."""
    monkeypatch.setattr(log, "SEGMENT_BYTES", 1500)
    monkeypatch.setattr(log, "LARGE_BYTES", 0)
    operations = record(tmp_path, "int32", "commit", growing())
    assert moments(operations, tmp_path, listed_ways(), "int32", every=7) > 100


def test_each_function_that_syncs_is_among_them() -> None:
    package = Path(dynstore.__file__).parent
    written = set()
    for path in (*(package / "durable").glob("*.py"), package / "graph" / "saving.py"):
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef) and function.name not in BETWEEN:
                calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
                methods = [call.attr for call in calls if isinstance(call, ast.Attribute) and _is_files(call.value)]
                written |= {f"{function.name}:{SYNCING[method]}" for method in methods if method in SYNCING}
    assert written == {*SITES, AFTER_A_FAILED_SYNC, ELSEWHERE}


SYNCING = {"sync": "sync", "write_new": "sync", "sync_folder": "sync_folder"}


def _is_files(value: ast.expr) -> bool:
    return ast.unparse(value) in ("files", "self.files", "self._files")


class FailsOnce(Recording):
    """Files of which one sync of the log fails."""

    fails = False

    def sync(self, file: int) -> None:
        if self.fails:
            self.fails = False
            self.note("failed_sync", file)
            raise OSError(5, "Input/output error")
        super().sync(file)


@pytest.mark.parametrize("drop", ["", AFTER_A_FAILED_SYNC])
def test_what_a_failed_sync_has_left_is_written_again(tmp_path: Path, drop: str) -> None:
    """The next opener finds the record in the system's memory, not on the disk, and a sync of it does nothing."""
    files, disk = FailsOnce(drop), Disk(tmp_path / "disk")
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
    disk.lose_power(tmp_path / "after", _nothing)
    with opened(tmp_path / "after" / "db", FAST) as db:
        assert (content(db.graph) == wanted) == (not drop)


def _replaced(tmp_path: Path, drop: str) -> tuple[list[Operation], list[Any]]:
    """Save a graph over another one; return what was done to the files, and both graphs' contents."""
    files, contents, root = Recording(drop), [], tmp_path / "disk"
    root.mkdir()
    files.note("begin")
    for count in (1, 2):
        graph = dynstore.DynamicGraph(device="cpu", weighted=True)
        graph.insert_edges((list(range(count)), list(range(count)), [1.0] * count))
        contents.append(graph.to_pandas().values.tolist())
        write_state(graph.core.state(), root / "saved", count > 1, files)
        files.note("saved", count)
    return files.operations[1:], contents


@pytest.mark.parametrize("drop", ["", ELSEWHERE])
def test_a_saved_graph_that_is_replaced_is_the_old_or_the_new_one(
    drop: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    operations, contents = _replaced(tmp_path, drop)
    disk, saved, faults = Disk(tmp_path / "disk"), 0, 0
    for operation in operations:
        if operation[0] == "saved":
            saved = operation[1]
        else:
            disk.apply(operation)
        for keep in (*listed_ways(), *any_ways(rng)[-RANDOM:]):
            target = tmp_path / "after"
            shutil.rmtree(target, ignore_errors=True)
            disk.lose_power(target, keep)
            if saved:
                try:
                    found = dynstore.load(target / "saved", device="cpu").to_pandas().values.tolist()
                    faults += found not in contents[saved - 1 :]
                except DynstoreError:
                    faults += 1
    assert (faults > 0) == bool(drop), faults
