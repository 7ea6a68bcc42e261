"""Shipped and generated data: the right counts, the same everywhere, clear refusals."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest

from dynstore.datasets import SHIPPED, load, resolve, rmat, uniform
from dynstore.errors import InputError, InputTypeError
from dynstore.io import EventTable


def checksum(events: EventTable) -> int:
    return zlib.crc32(events.src.astype("<i8").tobytes() + events.dst.astype("<i8").tobytes())


@pytest.mark.parametrize(
    ("name", "events", "vertices", "pairs"),
    [("mathoverflow", 506_550, 24_818, 239_978), ("collegemsg", 59_835, 1_899, 20_296)],
)
def test_shipped_graphs_have_the_published_counts(name: str, events: int, vertices: int, pairs: int) -> None:
    table = load(name)
    assert (table.name, len(table)) == (name, events)
    assert np.unique(np.concatenate((table.src, table.dst))).shape[0] == vertices
    assert len(set(zip(table.src.tolist(), table.dst.tolist(), strict=True))) == pairs
    assert table.time is not None
    assert (table.time[1:] >= table.time[:-1]).all()


def test_each_shipped_file_is_in_the_readme_beside_it() -> None:
    import dynstore.datasets

    folder = Path(dynstore.datasets.__file__).parent / "data"
    readme = (folder / "README.md").read_text(encoding="utf-8")
    files = {path.name for path in folder.iterdir()} - {"README.md"}
    assert files == {file for file, _ in SHIPPED.values()}
    assert all(f"`{file}`" in readme for file in files)


@pytest.mark.parametrize(
    ("events", "first", "crc"),
    [
        (lambda: rmat(6, 4, 3), [14, 7, 53], 3654532242),
        (lambda: rmat(21, 1, 0), [199437, 1670599, 429801], 2955890867),
        (lambda: uniform(1000, 5000, 7), [625, 897, 775], 2539868083),
        (lambda: uniform(2**31 - 1, 3_000_000, 1), [1099128568, 2041105244, 309580410], 2659102188),
    ],
)
def test_generated_graphs_are_the_same_everywhere(events, first: list[int], crc: int) -> None:
    table = events()
    assert table.src[:3].tolist() == first
    assert checksum(table) == crc


def test_rmat_has_its_quadrant_probabilities() -> None:
    scale, factor = 1, 200_000
    table = rmat(scale, factor, 5)
    shares = np.bincount(table.src * 2 + table.dst, minlength=4) / len(table)
    one, other = [0.57, 0.19, 0.19, 0.05], [0.05, 0.19, 0.19, 0.57]  # the ids may be swapped by the permutation
    assert np.allclose(shares, one, atol=0.005) or np.allclose(shares, other, atol=0.005)


def test_rmat_is_skewed_and_permuted() -> None:
    table = rmat(12, 16, 1)
    degrees = np.bincount(table.src, minlength=1 << 12)
    assert len(table) == 16 << 12
    assert degrees.max() > 20 * degrees.mean()
    assert abs(np.corrcoef(np.arange(1 << 12), degrees)[0, 1]) < 0.1
    assert checksum(rmat(12, 16, 2)) != checksum(table)


def test_uniform_covers_its_range_evenly() -> None:
    table = uniform(10, 100_000, 1)
    for column in (table.src, table.dst):
        assert np.abs(np.bincount(column, minlength=10) - 10_000).max() < 600
    assert len(uniform(5, 0)) == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rmat(0, 1), "rmat: scale is 0; wanted 1 to 30"),
        (lambda: rmat(31, 1), "rmat: scale is 31; wanted 1 to 30"),
        (lambda: rmat(4, 0), "rmat: edge_factor is 0; wanted 1 to"),
        (lambda: rmat(4, 1, -1), "rmat: seed is -1; wanted 0 or more"),
        (lambda: uniform(0, 1), "uniform: num_vertices is 0; wanted 1 to"),
        (lambda: uniform(1, -1), "uniform: num_edges is -1; wanted 0 to"),
    ],
)
def test_sizes_out_of_range_are_refused(make, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_sizes_are_integers() -> None:
    with pytest.raises(InputTypeError, match=r"rmat: scale is 1.5; wanted an integer"):
        rmat(1.5, 1)  # type: ignore[arg-type]


def test_resolve_names_generators_and_files(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("t,a,b\n2,0,1\n1,2,3\n")
    assert resolve("collegemsg").name == "collegemsg"
    assert checksum(resolve("rmat:6:4", seed=3)) == checksum(rmat(6, 4, 3))
    assert checksum(resolve("uniform:50:99", seed=1)) == checksum(uniform(50, 99, 1))
    assert resolve(str(path), source="a", destination="b", time="t").src.tolist() == [2, 0]


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ("mathoverflw", {}, "known: collegemsg, mathoverflow; generated: rmat:SCALE:EDGEFACTOR"),
        ("mathoverflw", {}, "Did you mean 'mathoverflow'?"),
        ("rmat", {}, "unknown data 'rmat'"),
        ("rmat:20", {}, "wanted rmat:SCALE:EDGEFACTOR with two whole numbers"),
        ("rmat:20:1.5", {}, "wanted rmat:SCALE:EDGEFACTOR with two whole numbers"),
        ("uniform:a:b", {}, "wanted uniform:VERTICES:EDGES with two whole numbers"),
        ("nothing.txt", {}, "no file 'nothing.txt'"),
        ("collegemsg", {"time": "2"}, "collegemsg: got time; only the columns of files can be chosen"),
        ("rmat:4:4", {"weight": "2"}, "rmat:4:4: got weight; only the columns of files can be chosen"),
    ],
)
def test_resolve_refuses_what_does_not_exist(data: str, options: dict, message: str) -> None:
    with pytest.raises(InputError) as caught:
        resolve(data, **options)
    assert message in str(caught.value)
