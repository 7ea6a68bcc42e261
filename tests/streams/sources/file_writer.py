"""What writes a file in tests, rotates it and packs what was rotated; and what reads it into a database."""

from __future__ import annotations

import bz2
import gzip
import os
import uuid
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import dynstore
from dynstore import Stream
from dynstore.streams import FileSource

OPTIONS: dict[str, Any] = {"renumber": True, "device": "cpu"}
Drawn = np.random.Generator


class Result(NamedTuple):
    """Rows of the truth that the graph lacks, and those that it has more than once."""

    lost: int
    doubled: int


class Writer:
    """Writes rows: row k begins at the vertex k, so that an edge says which row it is."""

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
        self.file.close()
        sources = [int(source) for source in graph.to_pandas()["source"]]
        seen = set(sources)
        assert seen <= set(range(self.count)), f"rows not written: {sorted(seen - set(range(self.count)))[:5]}"
        return Result(len(self.truth - seen - (excused or set())), len(sources) - len(seen))


def marked(frame: Any) -> Any:
    """Give each row that is read a destination of its own, so that a row that is read twice is two edges."""
    frame["destination"] = [uuid.uuid4().hex for _ in range(len(frame))]
    return frame


def read(writer: Writer, tmp_path: Path, on_gap: Any = "raise", **options: Any) -> dynstore.DynamicGraph:
    """Let a program read what there is, and end."""
    with dynstore.open(tmp_path / "db", **OPTIONS) as db:
        source = FileSource(writer.path, follow=False)
        batch = int(writer.rng.integers(5, 50))
        Stream(db.graph, source, batch_edges=batch, max_delay=0.0, on_gap=on_gap, transform=marked, **options).run()
        return db.graph.copy()
