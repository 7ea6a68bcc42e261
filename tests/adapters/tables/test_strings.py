"""Strings of cuDF: into a graph on the device and out of it. Stand-ins have the memory of NumPy arrays."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from itertools import pairwise
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore.adapters.tables import strings as adapter
from dynstore.backend import get_backend
from dynstore.cuda.compiler import around_launches
from dynstore.errors import InputError
from dynstore.graph import DynamicGraph
from dynstore.ids.columns import read_keys
from dynstore.ids.strings import CodedStrings, DeviceStrings

ON_GPU = "cuda" in os.environ.get("DYNSTORE_TEST_DEVICES", "")
INT32, INT64, STRING = 3, 4, 23


class _Span:
    def __init__(self, array: np.ndarray) -> None:
        self._array, self.ptr, self.size = array, array.ctypes.data, array.nbytes


class _Column:
    """What is used of ``pylibcudf.Column``."""

    def __init__(self, **parts: Any) -> None:
        self._parts = parts

    @classmethod
    def from_cuda_array_interface(cls, array: np.ndarray) -> _Column:
        kind = INT32 if array.dtype == np.int32 else INT64
        return cls(data_type=kind, size=array.shape[0], data=_Span(array), offset=0, children=[], values=array)

    def __getattr__(self, name: str) -> Any:
        if name == "type":
            return lambda: SimpleNamespace(id=lambda: self._parts["data_type"])
        return lambda: self._parts[name]

    def strings(self) -> list[str]:
        (offsets,) = (child.values() for child in self.children())
        data = self.data()
        array = data if isinstance(data, np.ndarray) else data._array
        first = self.offset()
        bounds = offsets[first : first + self.size() + 1].tolist()
        return [array[start:end].tobytes().decode() for start, end in pairwise(bounds)]


class _Series:
    """What is used of ``cudf.Series``."""

    def __init__(self, given: Any, offsets: type = np.int32, sliced: int = 0) -> None:
        if isinstance(given, _Series):
            given, offsets, sliced = given.given, given.offsets, given.sliced
        self.given, self.offsets, self.sliced = given, offsets, sliced
        self._pandas = pd.Series(given)
        self.dtype = self._pandas.dtype

    __module__ = "cudf.core.series"

    def __len__(self) -> int:
        return len(self._pandas) - self.sliced

    def isna(self) -> Any:
        return self._pandas.isna()

    @property
    def cat(self) -> Any:
        codes = self._pandas.cat.codes
        return SimpleNamespace(categories=self._pandas.cat.categories, codes=SimpleNamespace(values=codes.to_numpy()))

    def to_pylibcudf(self) -> tuple[_Column, dict[str, Any]]:
        nulls = int(self._pandas.isna().sum())
        if self.dtype == "category" or nulls:
            return _Column(data_type=INT32, size=len(self), null_count=nulls), {}
        encoded = [text.encode() for text in self._pandas.tolist()]
        bounds = np.cumsum([0, *map(len, encoded)]).astype(self.offsets)
        chars = np.frombuffer(b"".join(encoded), np.uint8)
        column = _Column(
            data_type=STRING,
            size=len(self),
            null_count=0,
            data=_Span(chars) if chars.size else None,
            offset=self.sliced,
            children=[_Column.from_cuda_array_interface(bounds)],
        )
        return column, {}


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put stand-ins in the place of cuDF and pylibcudf."""
    if ON_GPU:
        pytest.skip("the stand-ins have the host's memory; the tests with cuDF are below")
    owners: list[Any] = []

    def over(owner: Any, address: int, count: int, dtype: np.dtype) -> np.ndarray:
        if not count:
            return np.empty(0, dtype)
        owners.append(owner)  # an array of NumPy over an address keeps nothing
        memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
        return np.frombuffer(memory, dtype)

    def gather(table: list[_Column], rows: _Column, policy: str) -> Any:
        assert policy == "nullify"
        (column,) = table
        held = column.strings()
        found = [held[row] if row < len(held) else None for row in rows.values().tolist()]
        return SimpleNamespace(columns=lambda: [found])

    pylibcudf: Any = ModuleType("pylibcudf")
    pylibcudf.TypeId = SimpleNamespace(INT32=INT32, INT64=INT64, STRING=STRING)
    pylibcudf.DataType, pylibcudf.Column, pylibcudf.Table = int, _Column, list
    pylibcudf.gpumemoryview = _Span
    pylibcudf.copying = SimpleNamespace(gather=gather, OutOfBoundsPolicy=SimpleNamespace(NULLIFY="nullify"))
    cudf: Any = ModuleType("cudf")
    cudf.Series, cudf.DataFrame = _Series, pd.DataFrame
    monkeypatch.setitem(sys.modules, "pylibcudf", pylibcudf)
    monkeypatch.setitem(sys.modules, "cudf", cudf)
    monkeypatch.setattr(adapter, "_Memory", over)


SOME = ["ab", "", "ä", "ab", "c" * 30]


@pytest.mark.parametrize("offsets", [np.int32, np.int64])
@pytest.mark.parametrize("sliced", [0, 2])
def test_a_column_of_strings_is_read_where_it_is(stand_in: None, offsets: type, sliced: int) -> None:
    keys = read_keys("test", get_backend("cuda-sim"), "ids", _Series(SOME, offsets, sliced))
    assert isinstance(keys, DeviceStrings)
    assert keys.to_host().tolist() == SOME[sliced:]
    assert keys.starts.dtype == offsets


@pytest.mark.parametrize("values", [[], ["", ""]])
def test_a_column_without_bytes(stand_in: None, values: list[str]) -> None:
    series = _Series(pd.Series(values, dtype=object))
    assert read_keys("test", get_backend("cuda-sim"), "ids", series).to_host().tolist() == values


def test_categories_are_read_as_their_rows(stand_in: None) -> None:
    strings = _Series(pd.Categorical(SOME, categories=["z", *sorted(set(SOME))]))
    keys = read_keys("test", get_backend("cuda-sim"), "ids", strings)
    assert isinstance(keys, CodedStrings)
    assert keys.expanded().to_host().tolist() == SOME
    with pytest.raises(InputError, match="insert_edges: `src` has a null at row 1; wanted none"):
        read_keys("insert_edges", get_backend("cuda-sim"), "src", _Series(["a", None]))


def test_an_update_with_strings_on_the_device_copies_none_to_the_host(
    stand_in: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, twin = (DynamicGraph(renumber=True, device=device) for device in ("cuda-sim", "cpu"))
    names = [f"account-{number:04d}" for number in range(40)]
    rng = np.random.default_rng(2)

    def both(update: str, rows: np.ndarray) -> list[str]:
        src, dst = ([names[row] for row in column] for column in rows)
        kernels: list[str] = []
        with monkeypatch.context() as patch, around_launches(lambda name, launch: (kernels.append(name), launch())):
            patch.setattr(DeviceStrings, "to_host", None)
            patch.setattr(DeviceStrings, "of_host", None)
            report = getattr(graph, update)((_Series(src), _Series(dst)))
        assert report[:5] == getattr(twin, update)((src, dst))[:5]
        assert graph.vertex_ids().tolist() == twin.vertex_ids().tolist()
        assert graph.edge_table().equals(twin.edge_table())
        return kernels

    both("insert_edges", rng.integers(0, 30, (2, 300)))
    known = rng.integers(0, 20, (2, 9))
    assert both("insert_edges", known) == ["k_match_texts", "k_insert_lists"]
    assert both("delete_edges", known[:, :4])[:2] == ["k_match_texts", "k_find_present"]
    new = np.array([[30, 31, 3], [4, 5, 32]])
    kernels = both("insert_edges", new)
    assert kernels.count("k_match_texts") == 2
    assert kernels[-1] == "k_enter_texts"
    own = ["k_match_texts", "k_copy_texts", "k_rank_texts", "k_leave_ranks", "k_number_rows", "k_enter_texts"]
    assert [name for name in both("insert_edges", new + 5) if name in own] == own


def test_of_known_categories_each_is_looked_up_once(stand_in: None, monkeypatch: pytest.MonkeyPatch) -> None:
    names, rng = [f"n{number}" for number in range(9)], np.random.default_rng(8)
    graph, twin = (DynamicGraph(renumber=True, device=device) for device in ("cuda-sim", "cpu"))
    kernels = graph.core.backend.kernels("dynstore.ids", "strings")
    looked_up: list[list[int]] = []
    start = kernels.start_match

    def counting(backend: Any, table: Any, held: Any, mask: int, parts: Any, *others: Any) -> Any:
        looked_up.append([part.shape[0] for part in parts])
        return start(backend, table, held, mask, parts, *others)

    monkeypatch.setattr(kernels, "start_match", counting)

    def both(update: str, src: np.ndarray, dst: np.ndarray) -> None:
        given = [[names[row] for row in column] for column in (src, dst)]
        categories = pd.Categorical(given[0], categories=[*names, "in no row"])
        report = getattr(graph, update)((_Series(categories), _Series(given[1])))
        assert report[:5] == getattr(twin, update)((categories, given[1]))[:5]
        assert graph.vertex_ids().tolist() == twin.vertex_ids().tolist()
        assert graph.edge_table().equals(twin.edge_table())

    both("insert_edges", *rng.integers(0, 8, (2, 60)))
    for size in (20, 5):  # a batch may be shorter than its dictionary
        both("insert_edges", *rng.integers(0, 8, (2, size)))
        both("delete_edges", *rng.integers(0, 8, (2, size)))
    assert looked_up == [[10, 20], [10, 20], [5, 5], [5, 5]]
    both("insert_edges", np.arange(9), np.full(9, 8))
    assert graph.number_of_vertices() == 9, "a category that no row has is no vertex"


def test_strings_become_a_column_of_cudf(stand_in: None) -> None:
    backend = get_backend("cuda-sim")
    strings = DeviceStrings.of_host(backend, np.array(SOME, dtype=object))
    column = adapter.make_column(strings.rows(np.array([4, 0, 2])))
    assert column.strings() == [SOME[4], SOME[0], SOME[2]]
    assert column.children()[0].values().dtype == np.int32

    class Series:
        @staticmethod
        def from_pylibcudf(found: Any) -> Any:
            return found

    sys.modules["cudf"].Series = Series  # type: ignore[attr-defined]
    assert adapter.make_series(backend, column, np.array([2, -1, 0])) == [SOME[2], None, SOME[4]]


class _Proxy:
    """What ``cudf.pandas`` puts in the place of a frame or a series."""

    def __init__(self, held: Any) -> None:
        self._held = held

    def as_gpu_object(self) -> Any:
        return self._held


def test_a_proxy_is_read_on_the_device(stand_in: None) -> None:
    graph = DynamicGraph(renumber=True, device="cuda-sim")
    graph.insert_edges((_Proxy(_Series(["a", "b"])), _Proxy(_Series(["b", "c"]))))
    assert sorted(graph.vertex_ids().tolist()) == ["a", "b", "c"]
    plain = DynamicGraph(device="cuda-sim")
    plain.insert_edges(_Proxy(pd.DataFrame({"source": [0, 1], "destination": [1, 2]})))
    assert plain.number_of_edges() == 2
    assert graph.core.backend.to_host(graph.has_edges((_Proxy(_Series(["b"])), ["c"]))).tolist() == [True]


class _Held(_Proxy):
    """A proxy of what cuDF cannot hold."""

    shape, dtype, ndim = (2,), np.dtype(object), 1

    def as_gpu_object(self) -> Any:
        raise TypeError("cuDF has no column of these")

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        return np.array(self._held, dtype=object)


def test_a_proxy_that_cudf_cannot_hold_is_read_as_it_is() -> None:
    graph = DynamicGraph(renumber=True, device="cuda" if ON_GPU else "cuda-sim")
    graph.insert_edges((_Held(["a", "b"]), ["b", "c"]))
    assert sorted(graph.vertex_ids().tolist()) == ["a", "b", "c"]


# ---------------------------------------------------------------------- with cuDF


@pytest.fixture
def cudf() -> Any:
    if not ON_GPU:
        pytest.skip("needs a GPU: DYNSTORE_TEST_DEVICES=cuda")
    return pytest.importorskip("cudf", reason="cuDF is not installed")


@pytest.fixture
def no_host(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Refuse every copy of strings to the host or from there."""

    def refuse(*_: Any) -> None:
        raise AssertionError("strings were copied between host and device")

    monkeypatch.setattr(DeviceStrings, "to_host", refuse)
    monkeypatch.setattr(DeviceStrings, "of_host", refuse)
    return monkeypatch


def _named(cudf: Any, numbers: np.ndarray) -> Any:
    return cudf.Series([f"account-{number:06d}" for number in numbers.tolist()])


def test_cudf_strings_are_read_where_they_are(cudf: Any) -> None:
    series = cudf.Series(SOME)
    for column, wanted in (
        (series, SOME),
        (series[2:], SOME[2:]),
        (series.iloc[1:3], SOME[1:3]),
        (series[:0], []),
        (cudf.Series(["", ""]), ["", ""]),
        (cudf.Index(SOME), SOME),
        (series.astype("category"), SOME),
    ):
        keys = read_keys("test", get_backend("cuda"), "ids", column)
        strings = keys.expanded() if isinstance(keys, CodedStrings) else keys
        assert strings.to_host().tolist() == wanted
    for column in (cudf.Series(["a", None]), cudf.Series(["a", None]).astype("category")):
        with pytest.raises(InputError, match="`ids` has a null at row 1"):
            read_keys("test", get_backend("cuda"), "ids", column)


@pytest.mark.parametrize("directed", [True, False])
def test_updates_and_results_with_cudf_strings_stay_on_the_device(cudf: Any, no_host: Any, directed: bool) -> None:
    rng = np.random.default_rng(3)
    plain = DynamicGraph(directed=directed, device="cuda")
    graph = DynamicGraph(directed=directed, device="cuda", renumber=True)
    for high in (2000, 2000, 3000, 3000):
        src, dst = rng.integers(0, high, (2, 5000))
        reports = plain.insert_edges((src, dst)), graph.insert_edges((_named(cudf, src), _named(cudf, dst)))
        assert reports[0].inserted == reports[1].inserted
        gone = src[:500], dst[:500]
        reports = plain.delete_edges(gone), graph.delete_edges(tuple(_named(cudf, column) for column in gone))
        assert reports[0].deleted == reports[1].deleted
    wanted, found = dynstore.bfs(plain, int(src[0])), dynstore.bfs(graph, _named(cudf, src[:1]))
    ids = found["vertex"].str.slice(8).astype("int64")
    assert str(found["vertex"].dtype) == str(cudf.Series(["a"]).dtype)
    joined = cudf.DataFrame({"vertex": ids, "found": found["distance"], "predecessor": found["predecessor"]})
    both = joined.merge(wanted, on="vertex", suffixes=("", "_wanted"))
    assert len(both) == len(found)
    assert (both["found"] == both["distance"]).all()
    assert int(found["predecessor"].isna().sum()) == int((wanted["predecessor"] < 0).sum()) - (len(wanted) - len(found))
    no_host.undo()
    assert sorted(graph.vertex_ids().tolist()) == sorted(_named(cudf, np.unique(ids.to_numpy())).to_arrow().to_pylist())


def test_results_with_strings_equal_those_of_the_host(cudf: Any) -> None:
    rng = np.random.default_rng(4)
    names = np.array([f"n{number}" for number in range(300)], dtype=object)
    src, dst = (names[rng.integers(0, 300, 2000)] for _ in range(2))
    graph, twin = (DynamicGraph(directed=False, device=device, renumber=True) for device in ("cuda", "cpu"))
    graph.insert_edges((cudf.Series(src), cudf.Series(dst)))
    twin.insert_edges((src, dst))
    for result in (
        dynstore.weakly_connected_components,
        dynstore.triangle_count,
        lambda G: dynstore.bfs(G, src[0]),
        lambda G: G.edge_table(),
        lambda G: G.degree(),
        lambda G: G.degree(list(src[:5])),
        lambda G: G.k_hop(src[0], 1),
    ):
        found, wanted = result(graph).to_pandas(), result(twin)
        assert list(found.columns) == list(wanted.columns)
        for name in wanted.columns:
            left, right = found[name].astype(object), wanted[name].astype(object)
            assert left.where(left.notna(), None).tolist() == right.where(right.notna(), None).tolist(), name
    categories = graph.to_cudf()["source"].cat.categories.to_arrow().to_pylist()
    assert categories == twin.vertex_ids().tolist()
    packed = graph.to_cudf(compact=True)
    assert packed.to_pandas().astype(object).equals(twin.edge_table().astype(object))


PROXY_PROGRAM = """
import cudf.pandas
cudf.pandas.install()
import pandas, dynstore
from dynstore.ids.strings import DeviceStrings
DeviceStrings.of_host = None
frame = pandas.DataFrame({"source": ["a", "b", "c"], "destination": ["b", "c", "a"]})
G = dynstore.DynamicGraph(device="cuda", renumber=True)
G.insert_edges(frame)
G.delete_edges((frame["source"][:1], frame["destination"][:1]))
assert G.number_of_edges() == 2 and G.number_of_vertices() == 3
print("on the device")
"""


def test_frames_of_cudf_pandas_stay_on_the_device(cudf: Any) -> None:
    done = subprocess.run([sys.executable, "-c", PROXY_PROGRAM], capture_output=True, text=True, check=False)
    assert done.stdout == "on the device\n", done.stderr


def test_a_column_is_made_once_a_version_of_the_ids(cudf: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    make = adapter.make_column
    monkeypatch.setattr(adapter, "make_column", lambda strings: (made.append(strings.shape[0]), make(strings))[1])
    graph = DynamicGraph(device="cuda", renumber=True)
    graph.insert_edges((_named(cudf, np.arange(5)), _named(cudf, np.arange(1, 6))))
    for _ in range(2):
        dynstore.pagerank(graph)
    graph.insert_edges((_named(cudf, np.arange(2)), _named(cudf, np.arange(3, 5))))
    frame = dynstore.pagerank(graph)
    frame["vertex"] = "x"
    assert made == [6]
    graph.insert_edges((_named(cudf, np.arange(6, 7)), _named(cudf, np.arange(1))))
    assert dynstore.pagerank(graph)["vertex"].to_arrow().to_pylist() == graph.vertex_ids().tolist()
    assert made == [6, 7]
