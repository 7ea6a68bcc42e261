"""Vertices of any ids: the hash table, columns of every kind, strings whose hashes are equal, results under the ids."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore import id_tables
from dynstore.backend import Backend, get_backend
from dynstore.datasets import rmat
from dynstore.errors import InputError, InputTypeError, LimitError
from dynstore.graph import DynamicGraph
from dynstore.hash_table import EMPTY, REMOVED, HashTable
from dynstore.id_columns import StringKeys, read_keys
from dynstore.id_tables import IntegerTable, StringTable
from dynstore.testing.pair import ID_KINDS, Pair
from dynstore.testing.parity import check_parity

DEVICES = ("cpu", "cuda" if "cuda" in os.environ.get("DYNSTORE_TEST_DEVICES", "") else "cuda-sim")
every_kind_of_id = pytest.mark.parametrize("kind", ["sparse", "strings"])


# ---------------------------------------------------------------------- the hash table


def _filled(backend: Backend, keys: list[int]) -> HashTable:
    kernels = backend.kernels("dynstore", "vertex_map")
    table = HashTable.allocate(backend, len(keys))
    kernels.insert_keys(backend, table, backend.asarray(keys, np.int64), backend.xp.arange(len(keys), dtype=np.int64))
    return table


def _look_up(backend: Backend, table: HashTable, keys: list[int]) -> list[int]:
    kernels = backend.kernels("dynstore", "vertex_map")
    found = kernels.look_up_keys(backend, table, backend.asarray(keys, np.int64), np.dtype(np.int32))
    return backend.to_host(found).tolist()


def test_keys_are_found_and_others_are_not(backend: Backend) -> None:
    keys = [0, 1, 2**62, 2**63 - 2, 7 << 40, 8 << 40, 9 << 40, 2**32, 2**32 + 1]
    table = _filled(backend, keys)
    assert _look_up(backend, table, [*keys, 3, 2**61, 10 << 40]) == [*range(9), -1, -1, -1]
    assert table.filled == 9
    assert _look_up(backend, table, []) == []


def test_a_chain_of_slots_goes_round_the_end(backend: Backend) -> None:
    """Keys that all want the last slot stand in the first ones, and are still found when one of them is removed."""
    kernels = backend.kernels("dynstore", "vertex_map")
    table = HashTable.allocate(backend, 1)
    keys = [key for key in range(60_000) if _home(key, table.shift) == table.num_slots - 1][:5]
    numbers = backend.xp.arange(5, dtype=np.int64)
    kernels.insert_keys(backend, table, backend.asarray(keys, np.int64), numbers)
    cells = backend.to_host(table.cells)[::2].tolist()
    assert sorted([cells[-1], *cells[:4]]) == keys
    assert _look_up(backend, table, keys) == [0, 1, 2, 3, 4]
    kernels.remove_keys(backend, table, backend.asarray([keys[0], keys[3], REMOVED], np.int64))
    assert _look_up(backend, table, keys) == [-1, 1, 2, -1, 4]
    cells = backend.to_host(table.cells)[::2].tolist()
    assert (cells.count(REMOVED), cells.count(EMPTY)) == (2, 59)


def _home(key: int, shift: int) -> int:
    return (((key ^ (key >> 32)) * 0x9E3779B97F4A7C15) & (2**64 - 1)) >> shift


def test_a_table_says_how_much_it_takes(backend: Backend) -> None:
    table = HashTable.allocate(backend, 100)
    assert (table.num_slots, table.shift) == (256, 56)
    assert table.takes(160)
    assert not table.takes(161)


@pytest.mark.parametrize("sizes", [(17, 40), (0, 40), (40, 0), (33,)])
def test_unknown_ids_are_new_once_and_get_their_numbers(backend: Backend, sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    parts = [rng.integers(0, 30, size) << 50 for size in sizes]
    known = np.array([3, 8, 20]) << 50
    table = IntegerTable(backend)
    table.plan_write(backend.asarray(known), backend.asarray(np.arange(3)), 3, False)()
    columns = [backend.asarray(part) for part in parts]
    match = table.match("test", ["src", "dst"][: len(parts)], columns, np.dtype(np.int32))
    wanted = np.setdiff1d(np.concatenate(parts), known)
    assert backend.to_host(match.new).tolist() == wanted.tolist()
    match.number(backend.asarray(100 + np.arange(wanted.shape[0])))
    for part, column in zip(parts, match.columns, strict=True):
        numbers = backend.to_host(column)
        assert numbers.dtype == np.int32
        old = np.isin(part, known)
        assert numbers[old].tolist() == np.searchsorted(known, part[old]).tolist()
        assert numbers[~old].tolist() == (100 + np.searchsorted(wanted, part[~old])).tolist()


def test_a_table_grows_and_forgets(backend: Backend) -> None:
    table, held = IntegerTable(backend), {}
    for step in range(6):
        ids = np.arange(12) * 10**9 + step
        numbers = np.arange(12) + 6 * step  # half of them belong to others
        held |= dict(zip(numbers.tolist(), ids.tolist(), strict=True))
        table.plan_write(backend.asarray(ids), backend.asarray(numbers), len(held), step > 0)()
        assert backend.to_host(table.all()).tolist() == [held[number] for number in range(len(held))]
    found = backend.to_host(table.look_up(table.all(), np.dtype(np.int64)))
    assert found.tolist() == list(range(len(held)))
    gone = backend.asarray(np.arange(6, 12) * 10**9)
    assert backend.to_host(table.look_up(gone, np.dtype(np.int64))).tolist() == [-1] * 6


# ---------------------------------------------------------------------- strings


def _poor_hash(values: np.ndarray) -> np.ndarray:
    return np.array([len(value) for value in values], dtype=np.int64)


def test_strings_with_equal_hashes_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(id_tables, "hash_strings", _poor_hash)
    pair = Pair(renumber=True, reuse_ids=True, device="cpu", directed=False)
    pair.insert(["a", "b", "cc", "b"], ["b", "dd", "a", "e"])
    assert len(pair.graph.ids._table.twins) == 3
    pair.insert(["f", "gg"], ["gg", "hhh"])
    assert pair.graph.has_edges((["a", "x", "f"], ["b", "b", "gg"])).tolist() == [True, False, True]
    pair.update("delete_vertices", ["a", "dd", "hhh"])
    pair.insert(["i", "jj"], ["k", "i"])
    pair.check_queries()
    other = pair.copy()
    pair.update("delete_vertices", ["i", "b"])
    pair.update("reorder")
    pair.insert(["lll", "m", "b"], ["m", "n", "n"])
    pair.check_queries()
    other.check_queries()


def test_hashes_are_keys_of_the_table() -> None:
    values = np.array([f"{n}" for n in range(10_000)], dtype=object)
    hashes = id_tables.hash_strings(values)
    assert hashes.min() >= 0
    assert np.unique(hashes).shape == hashes.shape
    assert id_tables.hash_strings(np.array(["17"], dtype=object))[0] == hashes[17]
    assert id_tables.hash_strings(np.empty(0, dtype=object)).shape == (0,)


# ---------------------------------------------------------------------- columns

TEXTS = ["ab", "c", "ab", "", "ä"]


def _string_columns() -> dict[str, Callable[[], Any]]:
    def arrow(make: Callable[[Any], Any]) -> Callable[[], Any]:
        return lambda: make(pytest.importorskip("pyarrow"))

    def polars(make: Callable[[Any], Any]) -> Callable[[], Any]:
        return lambda: make(pytest.importorskip("polars"))

    return {
        "list": lambda: TEXTS,
        "tuple": lambda: tuple(TEXTS),
        "numpy-fixed": lambda: np.array(TEXTS),
        "numpy-object": lambda: np.array(TEXTS, dtype=object),
        "numpy-variable": lambda: np.array(TEXTS, dtype=np.dtypes.StringDType()),
        "pandas": lambda: pd.Series(TEXTS),
        "pandas-object": lambda: pd.Series(TEXTS, dtype=object),
        "pandas-nullable": lambda: pd.Series(TEXTS, dtype="string"),
        "pandas-index": lambda: pd.Index(TEXTS),
        "pandas-category": lambda: pd.Series(TEXTS, dtype="category"),
        "pandas-category-reversed": lambda: pd.Series(TEXTS[::-1], dtype="category")[::-1],
        "pandas-categorical": lambda: pd.Categorical(TEXTS, categories=["z", "ä", "c", "", "ab", "y"]),
        "arrow": arrow(lambda pa: pa.array(TEXTS)),
        "arrow-large": arrow(lambda pa: pa.array(TEXTS, pa.large_string())),
        "arrow-chunks": arrow(lambda pa: pa.chunked_array([TEXTS[:1], [], TEXTS[1:]])),
        "arrow-dictionary": arrow(lambda pa: pa.array(TEXTS).dictionary_encode()),
        "arrow-dictionary-chunks": arrow(
            lambda pa: pa.chunked_array([pa.array(part).dictionary_encode() for part in (TEXTS[:2], TEXTS[2:])])
        ),
        "polars": polars(lambda pl: pl.Series(TEXTS)),
        "polars-categorical": polars(lambda pl: pl.Series(TEXTS, dtype=pl.Categorical)),
        "polars-enum": polars(lambda pl: pl.Series(TEXTS, dtype=pl.Enum(["ab", "c", "", "ä", "unused"]))),
    }  # fmt: skip


@pytest.mark.parametrize("make", _string_columns().values(), ids=_string_columns().keys())
def test_columns_of_strings(make: Callable[[], Any]) -> None:
    keys = read_keys("test", get_backend("cpu"), "ids", make())
    assert isinstance(keys, StringKeys)
    assert keys.shape == (5,)
    assert keys.rows(np.arange(5)).tolist() == TEXTS
    assert set(keys.values) == set(TEXTS), "a category that no row has is no vertex"


NUMBERS = [7, 2**62, 7, 0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: NUMBERS,
        lambda: np.array(NUMBERS),
        lambda: np.array(NUMBERS, dtype=np.uint64),
        lambda: np.array(NUMBERS, dtype=object),
        lambda: pd.Series(NUMBERS, dtype="category"),
        lambda: pd.Series(NUMBERS, dtype="Int64"),
        lambda: pytest.importorskip("pyarrow").array(NUMBERS).dictionary_encode(),
    ],
    ids=["list", "array", "unsigned", "objects", "category", "nullable", "dictionary"],
)
def test_columns_of_integers(make: Callable[[], Any], backend: Backend) -> None:
    if isinstance(make(), np.ndarray) and make().dtype == object:
        with pytest.raises(InputTypeError, match="mixes types"):
            read_keys("test", backend, "ids", make())
        return
    keys = read_keys("test", backend, "ids", make())
    assert keys.dtype.kind in "iu"
    assert backend.to_host(keys).tolist() == NUMBERS


@pytest.mark.parametrize(
    ("column", "error", "match"),
    [
        (["a", None], InputError, "null at row 1"),
        (["a", float("nan")], InputError, "null at row 1"),
        (["a", 1], InputTypeError, "1 .int. at row 1"),
        ([1, "a"], InputTypeError, "1 .int. at row 0"),
        (np.array(["a", 1], dtype=object), InputTypeError, "1 .int. at row 1"),
        (pd.Series(["a", None]), InputError, "null at row 1"),
        (pd.Series(["a", None, "b"], dtype="category"), InputError, "null at row 1"),
        (pd.Series([5, None, 6], dtype="Int64").astype("category"), InputError, "null at row 1"),
        (pd.Series([0.5], dtype="category"), InputTypeError, "float64"),
        (np.array([b"a"]), InputTypeError, "ids"),
        ([["a"]], InputError, "ids"),
        (np.array([["a"]]), InputError, "ids"),
        (0.5, InputTypeError, "0.5"),
        (True, InputTypeError, "True"),
        (-1, InputError, "-1"),
        ([2**63 - 1], LimitError, str(2**63 - 1)),
        (pd.Series(["2020-01-01"], dtype="datetime64[ns]"), InputTypeError, "datetime64"),
    ],
)
def test_columns_that_are_refused(column: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        DynamicGraph(renumber=True, device="cpu").insert_vertices(column)


def test_arrow_strings_with_nulls_are_refused() -> None:
    pa = pytest.importorskip("pyarrow")
    for column in (pa.array(["a", None]), pa.array(["a", None]).dictionary_encode(), pa.chunked_array([["a"], [None]])):
        with pytest.raises(InputError, match="null at row 1"):
            read_keys("test", get_backend("cpu"), "ids", column)


def test_empty_columns_of_any_kind_suit_any_graph() -> None:
    for kind in ("sparse", "strings"):
        graph = DynamicGraph(renumber=True, device="cpu")
        graph.insert_edges(([], []))
        graph.insert_edges(([ID_KINDS[kind](1)], [ID_KINDS[kind](2)]))
        for nothing in ([], np.empty(0, np.int64), pd.Series([], dtype="str"), pd.Series([], dtype="category")):
            assert graph.insert_edges((nothing, nothing)).inserted == 0
            assert graph.has_edges((nothing, nothing)).shape == (0,)
            graph.insert_vertices(nothing)
        assert graph.number_of_vertices() == 2


def test_cudf_columns() -> None:
    cudf = pytest.importorskip("cudf", reason="cuDF is not installed")
    for column in (cudf.Series(TEXTS), cudf.Series(TEXTS, dtype="category")):
        assert read_keys("test", get_backend("cuda"), "ids", column).rows(np.arange(5)).tolist() == TEXTS


# ---------------------------------------------------------------------- graphs


def test_options_that_need_each_other() -> None:
    with pytest.raises(InputError, match="reuse_ids=True is for renumber=True"):
        DynamicGraph(device="cpu", reuse_ids=True)
    with pytest.raises(InputTypeError, match="renumber is 'yes'"):
        DynamicGraph(device="cpu", renumber="yes")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="make it with renumber=True"):
        DynamicGraph(device="cpu").reorder()
    with pytest.raises(InputError, match="threshold is 2"):
        DynamicGraph(device="cpu", renumber=True).reorder(threshold=2)


def test_a_graph_that_is_not_renumbered_knows_its_ids(backend_name: str) -> None:
    graph = DynamicGraph(device=backend_name)
    graph.insert_edges(([3], [1]))
    host = graph.backend.to_host
    assert host(graph.vertex_ids()).tolist() == [0, 1, 2, 3]
    assert host(graph.vertex_numbers([3, 9, 0])).tolist() == [3, -1, 0]
    assert not graph.is_renumbered()
    assert "vertex_map" not in graph.memory_usage()


def test_reordering_an_empty_graph() -> None:
    graph = DynamicGraph(renumber=True, device="cpu")
    report = graph.reorder()
    assert (report.vertex_drift, report.edge_drift, report.moved) == (0.0, 0.0, 0)


def test_exports_outlive_a_reordering() -> None:
    graph = DynamicGraph(renumber=True, device="cpu")
    graph.insert_edges((["a", "b"], ["b", "c"]))
    graph.insert_edges((["c", "c", "c"], ["a", "b", "c"]))
    arrays = graph.snapshot().export()
    before = {name: array.copy() for name, array in arrays.items()}
    graph.reorder()
    graph.insert_edges((["a"], ["a"]))
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, before[name])


def test_the_callers_arrays_are_neither_kept_nor_written() -> None:
    graph = DynamicGraph(renumber=True, device="cpu")
    src, dst = np.array([5, 9]), np.array([9, 7])
    graph.insert_edges((src, dst))
    assert (src.tolist(), dst.tolist()) == ([5, 9], [9, 7])
    src[:], dst[:] = 0, 0
    ids = graph.vertex_ids()
    ids[:] = 0
    assert graph.edge_table().to_numpy().tolist() == [[9, 7], [5, 9]]


def test_the_drift_is_counted_in_degree_classes() -> None:
    graph = DynamicGraph(renumber=True, device="cpu", directed=True)
    graph.insert_edges((list("aaab"), list("bccb")))
    graph.insert_edges((["x"], ["y"]))
    degrees = dict(zip(*(column.tolist() for _, column in graph.degree().items()), strict=True))
    assert degrees == {"b": 3, "a": 2, "c": 1, "x": 1, "y": 1}
    assert graph.reorder(threshold=1.0) == dynstore.ReorderReport(0.0, 0.0, 0)
    graph.insert_edges((list("yyyy"), list("abcy")))  # b 4, a 3, c 2, x 1, y 6
    report = graph.reorder(threshold=0.5)
    assert report.vertex_drift == pytest.approx(3 / 5)  # sorted, 4-7, 2-3 and 1 stand at the places of a, x and y
    assert report.edge_drift == pytest.approx((3 + 1 + 6) / 16)
    assert graph.vertex_ids().tolist() == list("ybacx")


@every_kind_of_id
def test_frames_of_ids(kind: str) -> None:
    frame = pd.DataFrame({"a": [ID_KINDS[kind](n) for n in (1, 2, 3)], "b": [ID_KINDS[kind](n) for n in (2, 3, 3)]})
    for table in (frame, frame.astype("category")):
        graph = DynamicGraph.from_edges(table, "a", "b", renumber=True, device="cpu", directed=False)
        rows = {frozenset(row) for row in graph.edge_table().to_numpy().tolist()}
        assert rows == {frozenset(row) for row in frame.to_numpy().tolist()}
        assert (graph.edge_table()["source"] <= graph.edge_table()["destination"]).all()
        assert graph.backend.to_host(graph.has_edges(table, "b", "a")).all()
        assert graph.delete_edges(table.iloc[:2], "a", "b").deleted == 2


@every_kind_of_id
@pytest.mark.parametrize("directed", [True, False])
def test_the_same_on_the_host_and_on_cuda(kind: str, directed: bool) -> None:
    def history(device: str) -> Any:
        graph = DynamicGraph(renumber=True, reuse_ids=True, directed=directed, weighted=True, device=device)
        rng = np.random.default_rng(5)
        seen: list[Any] = []
        for step in range(3):
            src, dst = ([ID_KINDS[kind](n) for n in column] for column in rng.integers(0, 9 + 4 * step, (2, 20)))
            seen.append(graph.insert_edges((src, dst, rng.integers(0, 9, 20) / 2)))
            seen.append(graph.delete_edges((dst[:9], src[:9])))
            seen.append(graph.delete_vertices(src[9:11]))
            seen.append(graph.backend.to_host(graph.vertex_ids()).tolist())
        seen.append(graph.reorder())
        seen += [graph.edge_table(), graph.degree(), graph.backend.to_host(graph.vertex_ids()).tolist()]
        seen += [graph.backend.to_host(graph.neighbors(src[0])).tolist(), graph.number_of_vertices()]
        return seen

    check_parity(history, DEVICES)


@pytest.mark.parametrize(
    "body",
    [
        lambda graph: graph.neighbors(5),
        lambda graph: graph.insert_edges((["a"], ["b"])),
        lambda graph: graph.insert_edges(([2**63], [1])),
        lambda graph: graph.insert_edges(([50, 51], [52, 53])),
    ],
)
def test_the_same_errors_on_the_host_and_on_cuda(body: Callable[[DynamicGraph], Any]) -> None:
    def refused(device: str) -> Any:
        graph = DynamicGraph(renumber=True, device=device, max_vertices=4)
        graph.insert_edges(([10**12], [7]))
        return body(graph)

    check_parity(refused, DEVICES)


# ---------------------------------------------------------------------- algorithms


class Twins:
    """One graph whose ids are its numbers, and one with ids of another kind that are numbered another way."""

    def __init__(self, kind: str, device: str, directed: bool, scale: int = 4) -> None:
        events = rmat(scale, 3, seed=11)
        weights = 1.0 + np.arange(len(events)) % 5
        self.name = ID_KINDS[kind]
        self.plain = DynamicGraph(directed=directed, weighted=True, device=device)
        self.plain.insert_edges((events.src, events.dst, weights))
        self.named = DynamicGraph(directed=directed, weighted=True, device=device, renumber=True)
        src, dst = ([self.name(number) for number in column.tolist()] for column in (events.src, events.dst))
        self.named.insert_edges((src[:30], dst[:30], weights[:30]))
        self.named.insert_edges((src[30:], dst[30:], weights[30:]))
        self.named.insert_vertices([self.name(n) for n in range(self.plain.number_of_vertices())])

    def same(self, algorithm: Callable[..., Any], *args: Any, column: str, **kwargs: Any) -> tuple[Any, Any]:
        """Return both frames, the second brought to the first's order; compare a column."""
        plain = _pandas(algorithm(self.plain, *args, **kwargs)).set_index("vertex")
        named = _pandas(algorithm(self.named, *map(self._translate, args), **kwargs)).set_index("vertex")
        named = named.loc[[self.name(number) for number in plain.index]]
        np.testing.assert_allclose(named[column].to_numpy(), plain[column].to_numpy(), rtol=1e-5, atol=1e-7)
        return plain, named

    def _translate(self, value: Any) -> Any:
        return [self.name(number) for number in value] if isinstance(value, list) else value


@every_kind_of_id
@pytest.mark.parametrize("directed", [True, False])
def test_searches_under_ids(kind: str, directed: bool, backend_name: str) -> None:
    twins = Twins(kind, backend_name, directed)
    none = -1 if kind == "sparse" else None
    for algorithm, column in ((dynstore.bfs, "distance"), (dynstore.sssp, "distance")):
        plain, named = twins.same(algorithm, [3], column=column)
        numbers = [twins.name(n) for n in range(twins.plain.number_of_vertices())]
        parents = named["predecessor"]
        assert parents.isna().to_numpy().tolist() == ((plain["predecessor"] < 0) & (none is None)).tolist()
        reached = (plain["predecessor"] >= 0).to_numpy()
        assert reached.any()
        assert set(parents[reached]) <= set(numbers)
        if none == -1:
            assert parents.dtype == np.int64
            assert (parents[~reached] == -1).all()
        # Every parent is one step nearer, by an edge that there is.
        children = named.index[reached].tolist()
        assert twins.named.backend.to_host(twins.named.has_edges((parents[reached].tolist(), children))).all()
        nearer = named.loc[parents[reached].tolist(), "distance"].to_numpy()
        assert (nearer < named["distance"].to_numpy()[reached]).all()


@every_kind_of_id
def test_ranks_and_counts_under_ids(kind: str) -> None:
    for directed in (True, False):
        twins = Twins(kind, "cpu", directed, scale=6)
        twins.same(dynstore.pagerank, column="pagerank", tol=1e-7)
        twins.same(dynstore.betweenness_centrality, [1, 5, 9], column="betweenness_centrality")
        _, named = twins.same(lambda graph: _sizes(dynstore.weakly_connected_components(graph)), column="size")
        assert set(named["labels"]) <= set(named.index)
        weights = {n: float(n) for n in (1, 4, 6)}
        frame = pd.DataFrame({"vertex": list(weights), "values": list(weights.values())})
        plain = dynstore.pagerank(twins.plain, personalization=frame, tol=1e-7)["pagerank"].to_numpy()
        frame["vertex"] = [twins.name(n) for n in weights]
        named = dynstore.pagerank(twins.named, personalization=frame, tol=1e-7).set_index("vertex")
        named = named.loc[[twins.name(n) for n in range(plain.shape[0])], "pagerank"].to_numpy()
        np.testing.assert_allclose(named, plain, rtol=1e-4)
    twins.same(dynstore.triangle_count, column="counts")
    plain, named = (dynstore.triangle_count(*args) for args in (
        (twins.plain, [5, 2]), (twins.named, [twins.name(5), twins.name(2)])
    ))  # fmt: skip
    assert named["vertex"].tolist() == [twins.name(5), twins.name(2)]
    assert named["counts"].tolist() == plain["counts"].tolist()


def _sizes(components: pd.DataFrame) -> pd.DataFrame:
    components["size"] = components.groupby("labels")["vertex"].transform("size")
    return components


@every_kind_of_id
def test_ids_that_an_algorithm_does_not_find(kind: str) -> None:
    twins, stranger = Twins(kind, "cpu", True), ID_KINDS[kind](999)
    for call in (
        lambda: dynstore.bfs(twins.named, stranger),
        lambda: dynstore.sssp(twins.named, [stranger]),
        lambda: dynstore.betweenness_centrality(twins.named, pd.DataFrame({"v": [twins.name(1), stranger]})),
    ):
        with pytest.raises(InputError, match=rf"Found invalid vertex in .*{stranger}.*16 vertices$"):
            call()
    frame = pd.DataFrame({"vertex": [twins.name(1), stranger], "values": [1.0, 2.0]})
    with pytest.raises(InputError, match=f"personalization names vertex '?{stranger}"):
        dynstore.pagerank(twins.named, personalization=frame)
    other = ID_KINDS["sparse" if kind == "strings" else "strings"](1)
    with pytest.raises(InputTypeError, match="bfs: "):
        dynstore.bfs(twins.named, other)


@pytest.mark.parametrize("change", ["reorder", "clear"])
def test_ranks_from_before_other_numbers_are_not_used(change: str) -> None:
    def first_ranks(warm: bool) -> pd.DataFrame:
        graph = DynamicGraph(renumber=True, device="cpu")
        graph.insert_edges((list("aab"), list("bca")))
        graph.insert_edges((list("dddd"), list("abcd")))
        if warm:
            dynstore.pagerank(graph)
        getattr(graph, change)()
        if change == "clear":
            graph.insert_edges((list("wxyz"), list("xxwx")))
        options = {"max_iter": 1, "fail_on_nonconvergence": False, "warm_start": warm}
        return dynstore.pagerank(graph, **options)[0]

    pd.testing.assert_frame_equal(first_ranks(warm=True), first_ranks(warm=False))


def test_the_page_about_ids_prints_what_it_shows() -> None:
    page = (Path(__file__).resolve().parents[1] / "docs" / "vertex-ids.md").read_text(encoding="utf-8")
    (program,), (shown,) = (
        re.findall(rf"```{language}\n(.*?)```", page, flags=re.DOTALL) for language in ("python", "text")
    )
    program = program.replace("renumber=True", 'renumber=True, device="cpu"')
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(program, {})
    # pandas before 3.0 shows a missing string as None
    assert printed.getvalue().replace("None", " NaN") == shown


def test_a_string_table_holds_its_strings_memory() -> None:
    table = StringTable(get_backend("cpu"))
    empty = table.memory_usage()
    table.plan_write(np.array(["x" * 1000], dtype=object), np.array([0]), 1, False)()
    assert table.memory_usage() > empty + 1000


def _pandas(frame: Any) -> Any:
    return frame.to_pandas() if hasattr(frame, "to_pandas") else frame
