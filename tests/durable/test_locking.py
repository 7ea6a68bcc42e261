"""Who has a folder open: one process, with its name in the message, and no process that it has forked."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import dynstore
from dynstore.durable import locking
from dynstore.errors import DynstoreError, InputError, LogError, SavedGraphError
from tests.durable.scenes import FAST, opened

ROOT = Path(__file__).resolve().parents[2]
IS_LINUX = sys.platform == "linux"
# Each prints a line, and then waits until its input ends.
HOLD = "db = dynstore.open({path!r}, device='cpu'); print('open', flush=True); sys.stdin.read()"
FORK = "db = dynstore.open({path!r}, device='cpu'); os.fork(); os.write(1, b'forked\\n'); sys.stdin.read()"
CLOSE = """
db = dynstore.open({path!r}, device="cpu")
reading, writing = os.pipe()
if not os.fork():
    os.close(writing)
    os.read(reading, 1)
    os._exit(0)
os.write(1, b"forked\\n")
sys.stdin.readline()
db.close()
os.write(1, b"closed\\n")
sys.stdin.read()
"""


@contextmanager
def program(text: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a program; it is killed at the end."""
    text = "import os, sys, dynstore\n" + text.format(path=str(path))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", text], text=True, env=environment, **pipes) as running:  # type: ignore[call-overload]
        try:
            yield running
        finally:
            running.kill()


def is_free(path: Path) -> bool:
    try:
        dynstore.open(path, device="cpu").close()
    except LogError:
        return False
    return True


@pytest.fixture
def database(tmp_path: Path) -> Path:
    with opened(tmp_path / "db", FAST) as db:
        db.graph.insert_edges([(0, 1)])
    return tmp_path / "db"


# ---------------------------------------------------------------------- what a refusal leaves


def broken(folder: Path) -> None:
    (folder / "MANIFEST").write_text("{}")


def newer(folder: Path) -> None:
    file = folder / "MANIFEST"
    file.write_text(file.read_text().replace('"format": 3', '"format": 4'))


def without_checkpoints(folder: Path) -> None:
    for path in folder.glob("ckpt-*"):
        shutil.rmtree(path)


@pytest.mark.parametrize("spoil", [broken, newer, without_checkpoints])
def test_a_refused_database_gets_no_lock(spoil: Callable[[Path], None], database: Path) -> None:
    (database / "LOCK").unlink()
    spoil(database)
    before = sorted(database.rglob("*"))
    with pytest.raises(SavedGraphError):
        dynstore.open(database, device="cpu")
    assert sorted(database.rglob("*")) == before


def test_other_options_leave_no_lock(database: Path) -> None:
    (database / "LOCK").unlink()
    with pytest.raises(InputError, match="has directed=True; got False"):
        dynstore.open(database, device="cpu", directed=False)
    assert not (database / "LOCK").exists()
    assert is_free(database)


def test_somebody_elses_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="wanted a database, or an empty folder"):
        dynstore.open(tmp_path, device="cpu")
    assert os.listdir(tmp_path) == ["notes.txt"]


def test_a_lock_that_was_there_stays(database: Path) -> None:
    """Another process may be waiting for it."""
    with pytest.raises(InputError, match="has directed=True"):
        dynstore.open(database, device="cpu", directed=False)
    assert (database / "LOCK").exists()


# ---------------------------------------------------------------------- modes


@pytest.mark.parametrize("mask", [0o022, 0o002, 0o077])
def test_modes_follow_the_umask_and_locks_are_private(mask: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        with opened(tmp_path / "db", FAST) as db:
            db.graph.insert_edges([(0, 1)])
            db.checkpoint()
    finally:
        os.umask(before)
    files = [path for path in (tmp_path / "db").rglob("*") if path.name != "LOCK"]
    for path in [*files, tmp_path / "db"]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o777 if path.is_dir() else 0o666) & ~mask
    assert stat.S_IMODE((tmp_path / "db" / "LOCK").stat().st_mode) == 0o600
    (tmp_path / "db" / "LOCK").chmod(0o644)  # as an older version made it
    dynstore.open(tmp_path / "db", device="cpu").close()
    assert stat.S_IMODE((tmp_path / "db" / "LOCK").stat().st_mode) == 0o600


# ---------------------------------------------------------------------- who has it


def test_this_process_is_named(database: Path) -> None:
    with (
        opened(database, FAST),
        pytest.raises(LogError, match=r"is open already, in this process( or another one)?; wanted one at a time"),
    ):
        dynstore.open(database, device="cpu")


def test_another_process_is_named(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with program(HOLD, database) as other:
        assert other.stdout is not None
        other.stdout.readline()
        named = rf"in process {other.pid} \(.+\)" if IS_LINUX else "in this process or another one"
        with pytest.raises(LogError, match=f"open: '.*' is open already, {named}; wanted one at a time"):
            dynstore.open(database, device="cpu")
        monkeypatch.setattr(locking, "_holder", lambda descriptor: "in this process or another one")
        assert not is_free(database)
    assert is_free(database)


def test_a_lock_that_is_removed_meanwhile_is_none(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the opening of the file and the lock, whoever had made it takes it back."""
    asked, is_at = [], locking._is_at

    def removed(file: Path, descriptor: int) -> bool:
        if not asked:
            file.unlink()
        asked.append(is_at(file, descriptor))
        return asked[-1]

    monkeypatch.setattr(locking, "_is_at", removed)
    with opened(database, FAST):
        assert asked == [False, True]
        assert not is_free(database)


# ---------------------------------------------------------------------- forks

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")


@forks
def test_a_child_does_not_keep_what_its_parent_has_closed(database: Path) -> None:
    with program(CLOSE, database) as parent:
        assert parent.stdout is not None
        assert parent.stdin is not None
        assert parent.stdout.readline() == "forked\n"
        assert not is_free(database)
        parent.stdin.write("close\n")
        parent.stdin.flush()
        assert parent.stdout.readline() == "closed\n"
        assert is_free(database)  # the child is still there


@forks
def test_a_child_that_has_only_begun_does_not_keep_what_its_parent_closes(database: Path) -> None:
    """Right after a fork it has the file open: Python closes it in the child's first steps."""
    lock = locking.lock_folder("open", database)
    of_child = os.dup(lock.descriptor)
    try:
        lock.release()
        locking.lock_folder("open", database).release()
    finally:
        os.close(of_child)


def test_a_child_does_not_keep_what_its_killed_parent_had(database: Path) -> None:
    with program(FORK, database) as parent:
        assert parent.stdout is not None
        assert {parent.stdout.readline() for _ in range(2)} == {"forked\n"}
        assert not is_free(database)
        parent.kill()
        parent.wait()
        assert is_free(database)  # the child is still there, and waits for its input


CHILD = """
import os, sys, dynstore
db = dynstore.open({path!r}, device="cpu")
db.graph.insert_edges([(1, 2)])
def use(name, call):
    try:
        call()
        print(name, "done")
    except dynstore.errors.DynstoreError as error:
        print(name, type(error).__name__, error)
child = os.fork()
if not child:
    use("edges", lambda: print(db.graph.number_of_edges()))
    use("update", lambda: db.graph.insert_edges([(5, 6)]))
    use("flush", db.flush)
    use("checkpoint", db.checkpoint)
    use("at", lambda: db.at(0))
    use("position", lambda: db.positioned(b"x").__enter__())
    use("close", db.close)
    sys.stdout.flush()
    os._exit(0)
os.waitpid(child, 0)
db.graph.insert_edges([(2, 3)])
db.close()
print("parent", db.graph.number_of_edges())
"""


@forks
def test_a_child_that_uses_the_database_gets_one_clear_error(database: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    text = CHILD.format(path=str(database))
    done = subprocess.run([sys.executable, "-c", text], text=True, capture_output=True, env=environment, check=True)
    lines = done.stdout.splitlines()
    assert lines[:2] == ["2", "edges done"]
    for line, name in zip(lines[2:7], ("update", "flush", "checkpoint", "at", "position"), strict=True):
        assert line.startswith(f"{name} LogError ")
        assert "was opened by process" in line
        assert "which was forked; nothing is done" in line
    assert lines[7:] == ["close done", "parent 3"]
    with opened(database, FAST) as db:
        assert db.graph.number_of_edges() == 3


@forks
def test_a_child_may_open_the_database_itself(database: Path) -> None:
    """Its parent's lock is not its own."""
    db = dynstore.open(database, device="cpu")
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            dynstore.open(database, device="cpu")
            answer = "opened"
        except DynstoreError as error:
            answer = str(error)
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answers:
        assert "is open already" in answers.read()
    os.waitpid(child, 0)
    db.graph.insert_edges([(1, 2)])
    db.close()
    assert is_free(database)
