"""What happens to a file that is read: it is rotated, truncated, rewritten, and the reader killed. No row is lost or
doubled, unless an error says so. What a file delivers twice is there twice: no row of a file has an id, so duplicate
delivery is no fault of files.
"""

from __future__ import annotations

import bz2
import gzip
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import dynstore
from dynstore import Stream
from dynstore.errors import SourceGapError
from dynstore.streams import FileSource
from tests.conftest import PROFILE
from tests.streams.scripted import wait_until

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 200 if PROFILE == "thorough" else 5
OPTIONS: dict[str, Any] = {"weighted": True, "on_duplicate": "add", "device": "cpu"}
Drawn = np.random.Generator


class Result(NamedTuple):
    """Rows of the truth that the graph lacks, and those that it has more than once."""

    lost: int
    doubled: int


class Writer:
    """Writes rows: row k is the edge (k, k + 1), so that an edge says which row it is."""

    def __init__(self, rng: Drawn, folder: Path, header: bool | None = None) -> None:
        self.rng, self.path, self.count, self.truth = rng, folder / "pay.csv", 0, set[int]()
        self.header = bool(rng.random() < 0.5) if header is None else header
        self.rotations = 0
        self.file = self._fresh()

    def _fresh(self) -> Any:
        file = self.path.open("ab", buffering=0)
        file.write(b"source,destination\n" if self.header else b"")
        return file

    def rows(self, most: int = 60, file: Any = None, least: int = 1) -> list[int]:
        """Write some rows, in pieces that end anywhere."""
        count = int(self.rng.integers(least, most + 1))
        new = list(range(self.count, self.count + count))
        data = b"".join(b"%d,%d\n" % (row, row + 1) for row in new)
        self.count += count
        self.truth.update(new)
        cut = int(self.rng.integers(0, len(data) + 1))
        for piece in (data[:cut], data[cut:]):
            (file or self.file).write(piece)
        return new

    def shift(self) -> None:
        """Rename pay.csv.1 to pay.csv.2, and so on; pack some."""
        for number in range(self.rotations, 0, -1):
            for suffix in ("", ".gz", ".bz2"):
                old = Path(f"{self.path}.{number}{suffix}")
                if old.exists():
                    new = Path(f"{self.path}.{number + 1}{suffix}")
                    old.rename(new)
        self.rotations += 1

    def pack(self, number: int) -> None:
        """Pack a rotated file, with its times, as gzip does."""
        plain = Path(f"{self.path}.{number}")
        if plain.exists():
            suffix, compress = ((".gz", gzip.compress), (".bz2", bz2.compress))[int(self.rng.integers(0, 2))]
            packed, times = Path(f"{plain}{suffix}"), plain.stat()
            packed.write_bytes(compress(plain.read_bytes()))
            os.utime(packed, ns=(times.st_atime_ns, times.st_mtime_ns))
            plain.unlink()

    def rotate(self) -> Any:
        """Rename the file, and make a new one; return the old one, which may get more rows."""
        self.shift()
        self.path.rename(f"{self.path}.1")
        old, self.file = self.file, self._fresh()
        return old

    def copy_and_truncate(self) -> None:
        self.shift()
        Path(f"{self.path}.1").write_bytes(self.path.read_bytes())
        self.file.truncate(0)
        self.file.write(b"source,destination\n" if self.header else b"")

    def result(self, graph: dynstore.DynamicGraph, excused: set[int] | None = None) -> Result:
        table = graph.to_pandas()
        times = dict(zip(table["source"].tolist(), table["weight"].tolist(), strict=True))
        false = times.keys() - set(range(self.count))
        assert not false, f"rows that nobody wrote: {sorted(false)[:5]}"
        lost = self.truth - times.keys() - (excused or set())
        return Result(len(lost), sum(int(times[row]) - 1 for row in times))


def follow(writer: Writer, tmp_path: Path, act: Callable[[FileSource], None]) -> Result:
    """Let a stream follow the file while something happens."""
    source = FileSource(writer.path)
    with dynstore.open(tmp_path / "db", **OPTIONS) as db:
        with Stream(db.graph, source, max_delay=0.0).start() as stream:
            act(source)
            wait_until(lambda: stream.progress().applied >= len(writer.truth))
            stream.drain(20)
        return writer.result(db.graph)


def read(writer: Writer, tmp_path: Path, on_gap: Any = "raise", **options: Any) -> dynstore.DynamicGraph:
    """Let a program read what there is, and end."""
    with dynstore.open(tmp_path / "db", **OPTIONS) as db:
        source = FileSource(writer.path, follow=False)
        batch = int(writer.rng.integers(5, 50))
        Stream(db.graph, source, batch_edges=batch, max_delay=0.0, on_gap=on_gap, **options).run()
        return db.graph.copy()


def read_some(writer: Writer, tmp_path: Path) -> None:
    """Let a program read a part of what there is: then it is stopped."""
    with dynstore.open(tmp_path / "db", **OPTIONS) as db:
        most, batch = int(writer.rng.integers(1, 4)), int(writer.rng.integers(1, 5))
        stream = Stream(db.graph, FileSource(writer.path, follow=False), batch_edges=batch, max_delay=0.0)
        stream.run(until=lambda progress: progress.batches >= most)


# ---------------------------------------------------------------------- faults


def rotated_while_running(rng: Drawn, tmp_path: Path) -> Result:
    writer = Writer(rng, tmp_path)

    def act(source: FileSource) -> None:
        for number in range(3):
            writer.rows()
            if rng.random() < 0.5:
                wait_until(lambda: source.rotations == number)
            old = writer.rotate()
            writer.rows()
            wait_until(lambda: source.rotations == number + 1)
            writer.rows(file=old)  # as a program does that was not told of the rotation
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
            wait_until(lambda: source.dialect is not None and source.truncations == number)
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
            wait_until(lambda: source.dialect is not None and source.rotations == number)
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
    program = [sys.executable, "-m", "tests.streams.follow_killed", str(tmp_path), str(int(rng.integers(0, 1 << 30)))]
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


@pytest.mark.parametrize("fault", FAULTS)
def test_no_row_is_lost_or_doubled(fault: str, tmp_path: Path, rng: np.random.Generator) -> None:
    for number in range(1 if fault == "killed" and PROFILE != "thorough" else ROUNDS):  # several kills each
        folder = tmp_path / str(number)
        folder.mkdir()
        assert FAULTS[fault](rng, folder) == (0, 0), number
