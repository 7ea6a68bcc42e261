"""The papers' data sets: files as they are published, stand-ins of the right size and shape, streams of pairs."""

from __future__ import annotations

import bz2
import gzip
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from benchmarks.papers.data import DATA_SETS, Ring, arrange, check_data_dir, fingerprint, load_ring
from benchmarks.papers.stand_ins import make_edges, mesh
from dynstore.backend import get_backend
from dynstore.errors import InputError

CPU = get_backend("cpu")


def load(name: str, folder: Path | None = None, directed: bool = True, shrink: int = 20_000) -> Ring:
    return load_ring(CPU, name, directed, folder, shrink, 1)


def pairs(ring: Ring) -> list[tuple[int, int]]:
    return list(zip(ring.src.tolist(), ring.dst.tolist(), strict=True))


@pytest.mark.parametrize("name", list(DATA_SETS))
@pytest.mark.parametrize("directed", [True, False])
def test_every_stand_in_is_a_stream_of_different_pairs(name: str, directed: bool) -> None:
    data = DATA_SETS[name]
    shrink = max(20_000, data.num_edges // 20_000)  # at most 20,000 edges of the largest
    ring = load(name, directed=directed, shrink=shrink)
    found = pairs(ring)
    assert len(set(found)) == len(found) == len(ring)
    assert all(u != v if directed else u < v for u, v in found)
    assert max(max(pair) for pair in found) < ring.num_vertices
    assert len(found) <= max(64, data.num_edges // shrink)
    assert f"for {name}, 1/{shrink}" in ring.label
    assert pairs(load(name, directed=directed, shrink=shrink)) == found
    if data.mirrored and directed:
        whole = make_edges(data.shape, 500, 3000, True, 0)
        assert set(zip(*whole, strict=True)) == set(zip(*whole[::-1], strict=True))


@pytest.mark.parametrize(("per_vertex", "least", "most"), [(2.1, 1, 4), (2.4, 1, 4), (6.0, 2, 6), (47.8, 10, 48)])
def test_meshes_have_the_degrees_asked_for(per_vertex: float, least: int, most: int) -> None:
    src, dst = mesh(10_000, int(10_000 * per_vertex), 1.0, 3)
    assert src.shape[0] == pytest.approx(10_000 * per_vertex, rel=0.08)
    degrees = np.bincount(src, minlength=10_000)
    assert least <= degrees.min() <= degrees.max() <= most
    assert len(set(zip(src.tolist(), dst.tolist(), strict=True))) == src.shape[0]


def test_scattered_meshes_have_binomial_degrees() -> None:
    src, _ = mesh(40_000, 40_000 * 16, 0.25, 3)
    degrees = np.bincount(src, minlength=40_000)
    assert degrees.mean() == pytest.approx(16, rel=0.08)
    assert 3 < degrees.std() < 5
    assert degrees.max() < 45


def test_a_ring_goes_round() -> None:
    ring = Ring("x", "x", 9, np.arange(5, dtype=np.int32), np.arange(1, 6, dtype=np.int32))
    assert ring.rows(np, 3, 5)[0].tolist() == [3, 4]
    assert [column.tolist() for column in ring.rows(np, 8, 12)] == [[3, 4, 0, 1], [4, 5, 1, 2]]


def test_pairs_are_kept_once_without_loops_in_order_of_time_or_mixed() -> None:
    src, dst = np.array([7, 2, 7, 3, 2, 9]), np.array([1, 2, 1, 7, 5, 0])
    timed = arrange(CPU, src, dst, True, True, 0)
    assert [column.tolist() for column in timed] == [[7, 3, 2, 9], [1, 7, 5, 0]]
    assert [column.tolist() for column in arrange(CPU, src, dst, False, True, 0)] == [[1, 3, 2, 0], [7, 7, 5, 9]]
    mixed = [tuple(map(tuple, arrange(CPU, np.arange(99), np.arange(1, 100), True, False, seed))) for seed in (0, 1)]
    assert mixed[0] != mixed[1]
    assert sorted(mixed[0][0]) == list(range(99)) != list(mixed[0][0])


def test_a_fingerprint_sees_each_pair_and_no_order(rng: np.random.Generator) -> None:
    src, dst = rng.integers(0, 1000, (2, 300), dtype=np.int32)
    order = rng.permutation(300)
    assert fingerprint(np, src, dst) == fingerprint(np, src[order], dst[order])
    assert fingerprint(np, src, dst) != fingerprint(np, dst, src)
    assert fingerprint(np, src, dst) != fingerprint(np, src[1:], dst[1:])
    assert fingerprint(np, src[:0], dst[:0]) == (0, 0)


def archive(name: str, text: str) -> bytes:
    into = io.BytesIO()
    with tarfile.open(fileobj=into, mode="w:gz") as tar:
        for member, content in ((f"{name}/{name}_coord.mtx", "not this one"), (f"{name}/{name}.mtx", text)):
            about = tarfile.TarInfo(member)
            about.size = len(content)
            tar.addfile(about, io.BytesIO(content.encode()))
    return into.getvalue()


MATRIX = "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 1\n"


@pytest.mark.parametrize(
    ("name", "file", "content", "expected"),
    [
        (
            "pokec",
            "soc-pokec-relationships.txt.gz",
            gzip.compress(b"1\t2\n2\t1\n3\t4\n", mtime=0),
            {(1, 2), (2, 1), (3, 4)},
        ),
        ("orkut", "com-orkut.ungraph.txt", b"# x\n1\t2\n3\t4\n", {(1, 2), (3, 4)}),
        ("soc-orkut", "com-orkut.ungraph.txt", b"# x\n1\t2\n", {(1, 2), (2, 1)}),
        (
            "hollywood-2009",
            "hollywood-2009.tar.gz",
            archive("hollywood-2009", MATRIX),
            {(0, 1), (1, 0), (0, 2), (2, 0)},
        ),
        ("road_usa", "road_usa/road_usa.mtx", MATRIX.encode(), {(0, 1), (1, 0), (0, 2), (2, 0)}),
        ("europe_osm", "europe.osm.graph.bz2", bz2.compress(b"3 2\n2 3\n1\n1\n"), {(0, 1), (1, 0), (0, 2), (2, 0)}),
    ],
    ids=["pokec", "orkut", "soc-orkut", "hollywood-2009", "road_usa", "europe_osm"],
)
def test_files_are_read_as_they_are_published(
    tmp_path: Path, name: str, file: str, content: bytes, expected: set[tuple[int, int]]
) -> None:
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    ring = load(name, tmp_path)
    assert set(pairs(ring)) == expected
    assert ring.label == f"{name} ({path.name})"


def test_temporal_files_keep_their_order(tmp_path: Path) -> None:
    (tmp_path / "sx-stackoverflow.txt").write_text("5 6 30\n1 2 10\n3 4 20\n1 2 40\n")
    assert pairs(load("stack", tmp_path)) == [(1, 2), (3, 4), (5, 6)]


def test_what_is_no_folder_or_no_data_set() -> None:
    with pytest.raises(InputError, match="--data-dir is '/no/folder', which is no folder"):
        check_data_dir(Path("/no/folder"))
    with pytest.raises(InputError, match="unknown data set 'wikis'"):
        load("wikis")
