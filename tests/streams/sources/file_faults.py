"""What happens to a file that is read: it is rotated, truncated, rewritten, and the reader killed. No row is lost or
doubled, unless an error says so. What a file delivers twice is there twice: no row of a file has an id, so duplicate
delivery is no fault of files.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dynstore
from dynstore import Stream
from dynstore.errors import SourceGapError
from dynstore.streams import FileSource
from tests.streams.scripted import wait_until
from tests.streams.sources.file_writer import OPTIONS, Drawn, Result, Writer, marked, read

ROOT = Path(__file__).resolve().parents[3]


def follow(writer: Writer, tmp_path: Path, act: Callable[[FileSource], None]) -> Result:
    """Let a stream follow the file while something happens."""
    source = FileSource(writer.path)
    with dynstore.open(tmp_path / "db", **OPTIONS) as db:
        stream = Stream(db.graph, source, max_delay=0.0, transform=marked)
        with stream.start():
            act(source)
            wait_until(lambda: stream.progress().applied >= len(writer.truth))
            stream.drain(20)
        return writer.result(db.graph)


def read_some(writer: Writer, tmp_path: Path) -> None:
    """Let a program read a part of what there is: then it is stopped."""
    with dynstore.open(tmp_path / "db", **OPTIONS) as db:
        most, batch = int(writer.rng.integers(1, 4)), int(writer.rng.integers(1, 5))
        stream = Stream(
            db.graph, FileSource(writer.path, follow=False), batch_edges=batch, max_delay=0.0, transform=marked
        )
        stream.run(until=lambda progress: progress.batches >= most)


# ---------------------------------------------------------------------- faults


def rotated_while_running(rng: Drawn, tmp_path: Path) -> Result:
    writer = Writer(rng, tmp_path)

    def act(source: FileSource) -> None:
        for number in range(3):
            writer.rows()
            if rng.random() < 0.5:
                wait_until(lambda number=number: source.rotations == number)
            old = writer.rotate()
            writer.rows()
            wait_until(lambda number=number: source.rotations == number + 1)
            writer.rows(file=old)  # as a program does that has not noticed the rotation
            old.close()

    return follow(writer, tmp_path, act)


def rotated_faster_than_read(rng: Drawn, tmp_path: Path) -> Result:
    writer = Writer(rng, tmp_path)

    def act(source: FileSource) -> None:
        writer.rows()
        wait_until(lambda: source.dialect is not None)
        for _ in range(int(rng.integers(2, 5))):
            writer.rotate().close()
            writer.rows()

    return follow(writer, tmp_path, act)


def rotated_while_down(rng: Drawn, tmp_path: Path) -> Result:
    writer = Writer(rng, tmp_path)
    writer.rows()
    for _ in range(3):
        read_some(writer, tmp_path)
        writer.rows()
        for _ in range(int(rng.integers(1, 4))):
            old = writer.rotate()
            if rng.random() < 0.3:
                writer.rows(file=old)
            old.close()
            writer.rows()
            if rng.random() < 0.3:
                writer.pack(int(rng.integers(1, writer.rotations + 1)))
    return writer.result(read(writer, tmp_path))


def copied_and_truncated_while_running(rng: Drawn, tmp_path: Path) -> Result:
    writer = Writer(rng, tmp_path)

    def act(source: FileSource) -> None:
        for number in range(3):
            writer.rows(least=30)
            wait_until(lambda number=number: source.dialect is not None and source.truncations == number)
            writer.copy_and_truncate()
            writer.rows(most=200)

    return follow(writer, tmp_path, act)


def copied_and_truncated_while_down(rng: Drawn, tmp_path: Path) -> Result:
    writer = Writer(rng, tmp_path)
    writer.rows()
    for _ in range(3):
        read_some(writer, tmp_path)
        writer.rows()
        for _ in range(int(rng.integers(1, 3))):
            writer.copy_and_truncate()
            writer.rows(most=200)
            if rng.random() < 0.3:
                writer.pack(int(rng.integers(1, writer.rotations + 1)))
    return writer.result(read(writer, tmp_path))


def _gone(writer: Writer, tmp_path: Path, spoil: Callable[[], None]) -> Result:
    """Something is gone while the reader is down: an error says so; then what there is is read."""
    writer.rows()
    read(writer, tmp_path)
    old = set(writer.truth)
    writer.rows()
    unread = writer.truth - old
    spoil()
    with pytest.raises(SourceGapError, match="cannot go on at byte") as caught:
        read(writer, tmp_path)
    assert isinstance(caught.value.first, int)
    return writer.result(read(writer, tmp_path, "continue"), unread)


def truncated(rng: Drawn, tmp_path: Path) -> Result:
    writer = Writer(rng, tmp_path)

    def spoil() -> None:
        writer.file.truncate(0)
        if rng.random() < 0.5:
            writer.file.write(b"source,destination\n" if writer.header else b"")
            writer.rows()

    return _gone(writer, tmp_path, spoil)


def rewritten(rng: Drawn, tmp_path: Path) -> Result:
    writer = Writer(rng, tmp_path)

    def spoil() -> None:
        with writer.path.open("r+b", buffering=0) as file:  # of any length: shorter, equal, longer
            first = writer.count
            writer.count, size = first + 1000, writer.path.stat().st_size
            rows = b"".join(b"%d,%d\n" % (row, row + 1) for row in range(first, first + int(rng.integers(1, 200))))
            head = b"source,destination\n" if writer.header else b""
            file.write(head + rows)
            file.truncate()
            writer.truth.update(range(first, first + rows.count(b"\n")))
            assert size

    return _gone(writer, tmp_path, spoil)


def made_anew(rng: Drawn, tmp_path: Path) -> Result:
    writer = Writer(rng, tmp_path)

    def spoil() -> None:
        writer.file.close()
        writer.path.unlink()
        writer.file = writer._fresh()
        writer.rows(most=200)

    return _gone(writer, tmp_path, spoil)


def replaced_while_running(rng: Drawn, tmp_path: Path) -> Result:
    """The file is removed, and comes back: what the reader has open it reads to its end."""
    writer = Writer(rng, tmp_path)

    def act(source: FileSource) -> None:
        for number in range(3):
            writer.rows()
            wait_until(lambda number=number: source.dialect is not None and source.rotations == number)
            writer.rows()
            writer.path.unlink()
            old, writer.file = writer.file, writer._fresh()
            writer.rows()
            writer.rows(file=old)
            old.close()

    return follow(writer, tmp_path, act)


def poison(rng: Drawn, tmp_path: Path) -> Result:
    """Only the bad line is left out."""
    writer = Writer(rng, tmp_path, header=True)
    bad = 0
    for _ in range(int(rng.integers(3, 9))):
        writer.rows()
        if rng.random() < 0.7:
            writer.file.write((b"no\n", b"1,2,3\n", b'"\n', b"\xff,1\n")[int(rng.integers(0, 4))])
            bad += 1
    left: list[Any] = []
    graph = read(writer, tmp_path, on_error=left.append)
    assert len(left) == bad
    return writer.result(graph)


def killed(rng: Drawn, tmp_path: Path) -> Result:
    """The reader is killed by signal 9 again and again, while the file grows and is rotated."""
    program = [
        sys.executable,
        "-m",
        "tests.streams.sources.follow_killed",
        str(tmp_path),
        str(int(rng.integers(0, 1 << 30))),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(program, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return Result(*map(int, done.stdout.split()[-2:]))


FAULTS: dict[str, Callable[[Drawn, Path], Result]] = {
    "killed": killed,
    "rotated while running": rotated_while_running,
    "rotated faster than read": rotated_faster_than_read,
    "rotated while down": rotated_while_down,
    "copied and truncated while running": copied_and_truncated_while_running,
    "copied and truncated while down": copied_and_truncated_while_down,
    "truncated": truncated,
    "rewritten": rewritten,
    "made anew": made_anew,
    "removed and made anew while running": replaced_while_running,
    "poison": poison,
}
