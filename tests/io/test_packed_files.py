"""METIS files, bzip2, and archives as SuiteSparse packs them."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
from pathlib import Path

import pytest

from dynstore.errors import FileFormatError, InputError
from dynstore.io import EventTable, packing, read_events


def read(folder: Path, name: str, content: bytes, **options: str) -> EventTable:
    (folder / name).write_bytes(content)
    return read_events(folder / name, **options)


def pairs(events: EventTable) -> list[tuple[int, int]]:
    return list(zip(events.src.tolist(), events.dst.tolist(), strict=True))


TRIANGLE = [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3 3\n2 3\n1 3\n1 2\n", TRIANGLE),
        ("% made by hand\n3 3 0\n2 3\n% in between\n 1  3 \n1\t2", TRIANGLE),
        ("3 3\r\n2 3\r\n1 3\r\n1 2\r\n\r\n", TRIANGLE),
        ("5 1\n\n3\n2\n\n\n", [(1, 2), (2, 1)]),
        ("4 1\n2\n1\n\n", [(0, 1), (1, 0)]),
        ("2 0\n\n\n", []),
        ("0 0\n", []),
    ],
)
@pytest.mark.parametrize(
    ("ending", "pack"), [("", bytes), (".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)]
)
def test_metis(tmp_path: Path, text: str, expected: list, ending: str, pack) -> None:
    events = read(tmp_path, f"g.graph{ending}", pack(text.encode()))
    assert pairs(events) == expected
    assert events.weight is None
    assert events.name == f"g.graph{ending}"


def test_metis_with_weights(tmp_path: Path) -> None:
    events = read(tmp_path, "g.graph", b"3 2 001\n2 7 3 9\n1 7\n1 9\n")
    assert pairs(events) == [(0, 1), (0, 2), (1, 0), (2, 0)]
    assert events.weight is not None
    assert events.weight.tolist() == [7, 9, 7, 9]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3\n", "g.graph: the header is '3'; wanted 'VERTICES EDGES [0 or 1]'"),
        ("3 1 10\n", "g.graph: the header is '3 1 10'"),
        ("", "g.graph: the header is ''"),
        ("2 1\n2\n1.5\n", "g.graph:3: '.5' is not a whole number"),
        ("2 1\n-2\n1\n", "g.graph:2: '-2' is not a whole number"),
        ("% c\n2 1\nbob\n1\n", "g.graph: 'bob' is not a whole number"),
        ("4 1\n2\n1\n", "g.graph: 4 vertices are announced, the file has 2 lines"),
        ("2 2\n2\n1\n", "g.graph: 2 edges are announced, 4 numbers of neighbours; the file has 2"),
        ("2 1\n2\n1\n1\n", "g.graph: 1 edges are announced, 2 numbers of neighbours; the file has 3"),
        ("2 1 1\n2 4 1\n1\n", "g.graph: 1 edges are announced, 4 numbers"),
        ("2 1\n3\n1\n", "g.graph: a neighbour is outside of 1 to 2"),
        ("2 1\n0\n1\n", "g.graph: a neighbour is outside of 1 to 2"),
        ("2147483648 0\n", "g.graph: 2147483648 vertices; wanted at most 2147483647"),
    ],
)
def test_metis_files_with_faults(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(FileFormatError) as caught:
        read(tmp_path, "g.graph", text.encode())
    assert message in str(caught.value)


def test_metis_files_know_their_columns(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"g\.graph: got weight; the columns of a METIS file are fixed"):
        read(tmp_path, "g.graph", b"0 0\n", weight="weight")


def archive(mode: str, files: dict[str, str]) -> bytes:
    into = io.BytesIO()
    with tarfile.open(fileobj=into, mode=mode) as tar:
        for name, text in files.items():
            about = tarfile.TarInfo(name)
            about.size = len(text)
            tar.addfile(about, io.BytesIO(text.encode()))
    return into.getvalue()


MATRIX = "%%MatrixMarket matrix coordinate pattern general\n3 3 2\n2 1\n3 1\n"


@pytest.mark.parametrize(
    ("ending", "mode"), [(".tar.gz", "w:gz"), (".tar", "w"), (".tar.bz2", "w:bz2"), (".tar.xz", "w:xz")]
)
def test_the_matrix_of_an_archives_name_is_read(tmp_path: Path, ending: str, mode: str) -> None:
    content = archive(mode, {"m/m_coord.mtx": "no", "m/m.mtx": MATRIX, "m/README": "x"})
    assert pairs(read(tmp_path, f"m{ending}", content)) == [(1, 0), (2, 0)]


def test_archives_without_it_and_damaged_files(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"no m\.mtx in the archive; it has README, other\.mtx"):
        read(tmp_path, "m.tar.gz", archive("w:gz", {"m/other.mtx": MATRIX, "m/README": "x"}))
    with pytest.raises(FileFormatError, match="damaged or cut short"):
        read(tmp_path, "m.tar", archive("w", {"m/m.mtx": MATRIX * 99})[:600])
    with pytest.raises(FileFormatError, match="damaged or cut short"):
        read(tmp_path, "g.graph.bz2", bz2.compress(b"3 3\n2 3\n1 3\n1 2\n")[:-9])


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_what_unpacks_to_very_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack) -> None:
    text = "".join(f"{number} {number * number % 9973}\n" for number in range(20_000))
    monkeypatch.setattr(packing, "FREE_BYTES", 1 << 16)
    assert len(read(tmp_path, "edges.txt.gz", pack(text.encode()))) == 20_000, "a thousand times its size is allowed"
    monkeypatch.setattr(packing, "MOST_TIMES", 2)
    with pytest.raises(FileFormatError, match=r"unpacks to more than [\d,]+ bytes.*unpack it first"):
        read(tmp_path, "edges.txt.gz", pack(text.encode()))
    assert len(read(tmp_path, "edges.txt", text.encode())) == 20_000, "a file that is not packed has no limit"
