"""cuDF frames over the store's own memory. What needs a GPU skips without one."""

from __future__ import annotations

import gc
import os
import statistics
import sys
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore.adapters.tables import cudf as adapter
from dynstore.errors import InputError, InputTypeError, LimitError, MissingDependencyError
from dynstore.input.forms import GAPS_MARK
from tests.adapters.graphs import (
    KINDS,
    Edges,
    edges_of,
    every_id,
    every_kind,
    gapped_graph,
    named_graph,
    named_rows,
    rows_of,
)


@pytest.fixture
def cudf() -> Any:
    if "cuda" not in os.environ.get("DYNSTORE_TEST_DEVICES", "").split(","):
        pytest.skip("needs a GPU: DYNSTORE_TEST_DEVICES=cuda")
    return pytest.importorskip("cudf")


def _pointers(frame: Any, name: str) -> tuple[int, int | None]:
    column, _ = frame[name].to_pylibcudf()
    return column.data().ptr, None if column.null_mask() is None else column.null_mask().ptr


def _rows(frame: Any) -> Edges:
    return rows_of(*(column.to_pylist() for column in frame.to_arrow(preserve_index=False).columns))


def _place(graph: dynstore.DynamicGraph) -> int:
    return int(graph.snapshot().indices.data.ptr)


def _small_update(graph: dynstore.DynamicGraph) -> None:
    graph.insert_edges(([7, 39], [7, 0], [float(graph.version), 1.0]))
    graph.delete_edges(([7], [7]))
    graph.insert_edges(([7], [7], [5.0]))


# ---------------------------------------------------------------------- on any machine


def test_without_cudf_the_line_to_type_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = gapped_graph()
    monkeypatch.setitem(sys.modules, "cudf", None)
    line = r"pip install 'dynstore\[rapids\]'"
    with pytest.raises(MissingDependencyError, match=f"^to_cudf: cudf cannot be imported .*: {line}"):
        graph.to_cudf()


@every_id
def test_ids_go_to_cudf_once_and_each_frame_has_its_own(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """pandas, whose names cuDF has, stands in for it."""
    graph, _ = named_graph(kind)
    made: list[int] = []

    def series(ids: Any) -> pd.Series:
        made.append(len(ids))
        return pd.Series(ids)

    stand_in = SimpleNamespace(Series=series, CategoricalDtype=pd.CategoricalDtype)
    first, second = (adapter._category(stand_in, graph).categories for _ in range(2))
    assert first.tolist() == second.tolist() == graph.vertex_ids().tolist()
    if kind == "integers":  # of strings pandas shows no memory
        assert not np.shares_memory(first.to_numpy(), second.to_numpy())
    assert made == [graph.number_of_vertices()]
    graph.insert_vertices(KINDS[kind](np.array([100])))
    assert adapter._category(stand_in, graph).categories.tolist() == graph.vertex_ids().tolist()
    assert made == [graph.number_of_vertices() - 1, graph.number_of_vertices()]


def test_a_cudf_with_other_private_names_copies_the_ids() -> None:
    """pandas, which has none of them, stands in for it."""
    numbers = {"source": pd.array([0, None, 2], "Int32"), "destination": pd.array([2, None, 1], "Int32")}
    frame = pd.DataFrame({**numbers, "weight": [0.5, None, 1.0]})
    for ids in (["b", "a", "c"], [2**40, 5, 7]):
        found = adapter._with_categories(pd, frame, dict.fromkeys(frame.columns), pd.CategoricalDtype(ids))
        assert [str(found[name].dtype) for name in found.columns] == ["category", "category", "float64"]
        assert found["source"].cat.categories.tolist() == ids
        assert found.dropna().to_numpy().tolist() == [[ids[0], ids[2], 0.5], [ids[2], ids[1], 1.0]]


# ---------------------------------------------------------------------- the frame


@every_kind
def test_the_gapped_frame_is_the_stores_own_memory(cudf: Any, options: dict[str, Any]) -> None:
    graph = gapped_graph("cuda", **options)
    frame, csr = graph.to_cudf(), graph.snapshot()
    assert type(frame) is cudf.DataFrame
    assert list(frame.columns) == ["source", "destination", "weight"][: 3 if graph.is_weighted() else 2]
    assert len(frame) == csr.num_slots
    for name, own in zip(frame.columns, (csr.sources, csr.indices, csr.weights), strict=False):
        data, mask = _pointers(frame, name)
        assert data == own.data.ptr, f"{name} is a copy"
        assert mask == (None if csr.is_packed else csr.valid.data.ptr), f"the mask of {name} is a copy"
        assert frame[name].dtype == own.dtype
        assert frame[name].null_count == csr.num_slots - csr.num_edges
    assert csr.is_packed == (options["store"] != "gpma+"), "the test wants gaps where the store has them"
    np.testing.assert_array_equal(frame["source"].notna().to_numpy(), csr.mask().get())
    held = frame.dropna()
    assert len(held) == csr.num_edges
    both = _rows(held)
    directed = graph.is_directed()
    assert {(u, v): weight for (u, v), weight in both.items() if directed or u <= v} == edges_of(graph)


@every_kind
def test_the_compact_frame_has_each_edge_once(cudf: Any, options: dict[str, Any]) -> None:
    graph = gapped_graph("cuda", **options)
    place = _place(graph)
    frame = graph.to_cudf(compact=True)
    assert type(frame) is cudf.DataFrame
    assert not any(frame[name].null_count for name in frame.columns)
    assert _rows(frame) == edges_of(graph)
    graph.insert_edges(([39], [0], [9.0]) if graph.is_weighted() else ([39], [0]))
    if options["store"] == "gpma+":
        assert _place(graph) == place, "a copy must not pin"


def test_libcudf_computes_on_it(cudf: Any) -> None:
    graph = gapped_graph("cuda", weighted=True)
    frame, edges = graph.to_cudf(), edges_of(graph)
    assert frame["weight"].sum() == pytest.approx(sum(edges.values()))
    heavy = frame[frame["weight"] > 2]
    assert _rows(heavy) == {edge: weight for edge, weight in edges.items() if weight > 2}
    sums = frame.groupby("source")["weight"].sum().sort_index()
    wanted: dict[int, float] = {}
    for (source, _), weight in edges.items():
        wanted[source] = wanted.get(source, 0.0) + weight
    assert sums.index.to_arrow().to_pylist() == sorted(wanted)
    np.testing.assert_allclose(sums.to_numpy(), [wanted[source] for source in sorted(wanted)])


@every_kind
def test_the_frame_comes_back_in(cudf: Any, options: dict[str, Any]) -> None:
    graph = gapped_graph("cuda", **options)
    weight = "weight" if graph.is_weighted() else None
    frame = graph.to_cudf()
    for table in (frame, frame.copy(), frame[list(frame.columns)], graph.to_cudf(compact=True)):
        for device in ("cuda", "cpu"):
            again = dynstore.DynamicGraph(device=device, **options)
            report = again.insert_edges(table, weight=weight)
            assert report.inserted == graph.number_of_edges()
            assert edges_of(again) == edges_of(graph)
    assert graph.has_edges(frame).all()
    assert graph.delete_edges(frame).absent == 0
    assert graph.number_of_edges() == 0


@every_id
@pytest.mark.parametrize("directed", [True, False])
def test_ids_of_the_users_own_are_categories(cudf: Any, kind: str, directed: bool) -> None:
    graph, wanted = named_graph(kind, "cuda", directed=directed, weighted=True)
    frame = graph.to_cudf()
    assert [str(frame[name].dtype) for name in frame.columns] == ["category", "category", "float32"]
    assert _pointers(frame, "weight") == (graph.snapshot().weights.data.ptr, graph.snapshot().valid.data.ptr)
    held = frame.dropna()
    assert len(held) == graph.snapshot().num_edges
    columns = [held[name].to_arrow().to_pylist() for name in frame.columns]
    assert named_rows(*columns, directed=directed) == wanted
    packed = graph.to_cudf(compact=True)
    assert len(packed) == len(wanted)
    assert named_rows(*(packed[name].to_arrow().to_pylist() for name in packed.columns)) == wanted
    for table in (frame, packed):
        again = dynstore.DynamicGraph(device="cuda", renumber=True, directed=directed, weighted=True)
        assert again.insert_edges(table, weight="weight").inserted == len(wanted)
        assert again.has_edges(packed).all()


@every_id
@pytest.mark.parametrize("reuse_ids", [False, True])
def test_a_changed_cudf_gives_the_same_frame(cudf: Any, kind: str, reuse_ids: bool, monkeypatch: Any) -> None:
    graph, _ = named_graph(kind, "cuda", reuse_ids=reuse_ids, weighted=True)
    wanted, require = graph.to_cudf().to_pandas(), adapter.require

    def without_private_names(caller: str, module: str) -> Any:
        if module == "cudf.core.column":
            raise MissingDependencyError("to_cudf: it is somewhere else")
        return require(caller, module)

    monkeypatch.setattr(adapter, "require", without_private_names)
    found = graph.to_cudf()
    assert [str(found[name].dtype) for name in found.columns] == ["category", "category", "float32"]
    pd.testing.assert_frame_equal(found.to_pandas().astype(object), wanted.astype(object))


@every_id
@pytest.mark.parametrize("reuse_ids", [False, True])
def test_ids_of_a_frame_are_those_of_its_version(cudf: Any, kind: str, reuse_ids: bool) -> None:
    graph, edges = named_graph(kind, "cuda", reuse_ids=reuse_ids)

    def ids_of(frame: Any, name: str = "source") -> list[Any]:
        return frame[name].cat.categories.to_arrow().to_pylist()

    def ids() -> list[Any]:
        return graph.vertex_ids().tolist()

    frames = [graph.to_cudf() for _ in range(2)]
    before = ids()
    categories = cudf.Series(frames[0]["source"].cat.categories)
    categories[:] = categories[0]
    assert ids_of(frames[1]) == ids_of(graph.to_cudf()) == before, "what is written to a frame stays there"
    graph.delete_vertices([next(iter(edges))[0]])
    graph.insert_vertices(KINDS[kind](np.array([100])))
    assert ids_of(graph.to_cudf()) == ids_of(graph.to_cudf(), "destination") == ids() != before
    graph.reorder()
    assert ids_of(graph.to_cudf()) == ids()
    assert ids_of(frames[1]) == before


def test_codes_of_many_vertices_are_the_stores_own_memory(cudf: Any) -> None:
    graph = dynstore.DynamicGraph(device="cuda", renumber=True)
    src = np.arange(70_000) * 1_000_003
    graph.insert_edges((src, np.roll(src, 1)))
    frame, csr = graph.to_cudf(), graph.snapshot()
    for name, own in (("source", csr.sources), ("destination", csr.indices)):
        assert _pointers(frame, name) == (own.data.ptr, csr.valid.data.ptr), f"{name} is a copy"
    held = frame.dropna()
    pairs = zip(held["source"].to_arrow().to_pylist(), held["destination"].to_arrow().to_pylist(), strict=True)
    assert set(pairs) == set(zip(src.tolist(), np.roll(src, 1).tolist(), strict=True))
    before = graph.edge_weights((src, np.roll(src, 1))).get()
    frame.loc[0:50, "source"] = None
    assert (graph.edge_weights((src, np.roll(src, 1))).get() == before).all()
    assert graph.number_of_edges() == graph.snapshot().mask().sum() == 70_000


def test_nulls_that_are_not_gaps_are_refused(cudf: Any) -> None:
    graph = gapped_graph("cuda", weighted=True)
    other = cudf.DataFrame({"source": [0, None], "destination": [1, None], "weight": [1.0, 2.0]})
    with pytest.raises(InputError, match="column `source` has 1 nulls, the first at row 1; wanted none"):
        graph.insert_edges(other, weight="weight")
    torn = graph.to_cudf()
    torn["weight"] = cudf.Series([None] * len(torn), dtype="float32")
    with pytest.raises(InputError, match="column `weight` has"):
        graph.insert_edges(torn, weight="weight")
    both = cudf.concat([graph.to_cudf(), other])
    assert GAPS_MARK not in both.attrs
    with pytest.raises(InputError, match=r"column `source` has \d+ nulls"):
        graph.insert_edges(both, weight="weight")


def test_a_graph_without_edges_or_vertices(cudf: Any) -> None:
    for store in dynstore.stores.stores_of("cuda"):
        graph = dynstore.DynamicGraph(weighted=True, store=store, device="cuda")
        for _ in range(2):
            for compact in (False, True):
                frame = graph.to_cudf(compact)
                assert list(frame.columns) == ["source", "destination", "weight"]
                assert len(frame.dropna()) == 0
                assert dynstore.DynamicGraph(weighted=True, device="cuda").insert_edges(frame).inserted == 0
            graph.insert_vertices(9)


# ---------------------------------------------------------------------- pins


@pytest.mark.parametrize("keep", ["frame", "series", "slice", "copy", "values"])
def test_a_frame_never_changes_and_costs_a_copy_only_while_it_lives(cudf: Any, keep: str) -> None:
    graph = gapped_graph("cuda", weighted=True)
    _small_update(graph)
    place = _place(graph)
    kept: Any = graph.to_cudf()
    if keep == "series":
        kept = kept["weight"]
    elif keep == "slice":
        kept = kept.iloc[3:40]
    elif keep == "copy":
        kept = kept.copy(deep=False)
    elif keep == "values":
        packed = gapped_graph("cuda", weighted=True, store="merge")
        kept = packed.to_cudf()["weight"].values  # without nulls a view
        before = kept.get()
        _small_update(packed)
        np.testing.assert_array_equal(kept.get(), before)
        return
    wanted = kept.to_arrow()
    _small_update(graph)
    copied = _place(graph)
    assert copied != place, "an update wrote to memory that was handed out"
    assert kept.to_arrow().equals(wanted)
    again = graph.to_cudf()
    del kept, again
    _small_update(graph)
    assert _place(graph) == copied, "an update copied for a frame that is gone, without the garbage collector"


def test_writing_to_a_frame_leaves_the_graph_alone(cudf: Any) -> None:
    graph = gapped_graph("cuda", weighted=True)
    before, place = edges_of(graph), _place(graph)

    def all_null(frame: Any) -> None:
        frame.loc[0:20, "source"] = None

    def one_value(frame: Any) -> None:
        frame.loc[0, "weight"] = 77.0

    def a_range(frame: Any) -> None:
        frame.iloc[0:30, 1] = 3

    def a_series(frame: Any) -> None:
        series = frame["destination"]
        del frame
        series[:] = 1

    def by_mask(frame: Any) -> None:
        frame.loc[(frame["weight"] > 1).fillna(False), "weight"] = 0.25

    for write in (all_null, one_value, a_range, a_series, by_mask):
        write(graph.to_cudf())
        gc.collect()
        assert edges_of(graph) == before, f"{write.__name__} wrote to the store"
        assert _place(graph) == place
    frame = graph.to_cudf()
    one_value(frame)
    assert frame["weight"].iloc[0] == 77.0, "the frame itself takes what is written"


def test_writing_to_a_result_leaves_later_results_alone(cudf: Any) -> None:
    graph = gapped_graph("cuda", weighted=True)
    size = graph.number_of_vertices()

    def one_value(frame: Any) -> None:
        frame.loc[0, "vertex"] = 77
        assert frame["vertex"].iloc[0] == 77

    def a_range(frame: Any) -> None:
        frame.iloc[0:5, 0] = 3

    def a_series(frame: Any) -> None:
        series = frame["vertex"]
        del frame
        series[:] = 1

    def an_array(frame: Any) -> None:
        frame["vertex"].values[:] = 5

    first = dynstore.weakly_connected_components(graph)
    for write in (one_value, a_range, a_series, an_array):
        write(dynstore.weakly_connected_components(graph))
        for frame in (first, dynstore.bfs(graph, start=0)):
            assert frame["vertex"].to_arrow().to_pylist() == list(range(size)), write.__name__
    graph.insert_vertices([size])
    assert dynstore.bfs(graph, start=0)["vertex"].to_arrow().to_pylist() == list(range(size + 1))
    assert first["vertex"].to_arrow().to_pylist() == list(range(size))


def test_a_frame_outlives_its_graph(cudf: Any) -> None:
    graph = gapped_graph("cuda", weighted=True)
    frame, wanted = graph.to_cudf(), edges_of(graph)
    del graph
    gc.collect()
    gapped_graph("cuda", weighted=True).clear()  # takes memory that was freed
    assert _rows(frame.dropna()) == wanted


def test_updates_on_another_stream_are_done_before_the_frame_is_made(cudf: Any) -> None:
    import cupy

    with cupy.cuda.Stream(non_blocking=True):
        graph = dynstore.DynamicGraph(weighted=True, device="cuda")
        src, dst = np.random.default_rng(1).integers(0, 2000, (2, 1_000_000))
        graph.insert_edges((src, dst, np.ones(src.size)))
        frame = graph.to_cudf()
    assert frame["weight"].sum() == graph.number_of_edges()


def test_it_takes_less_than_a_millisecond(cudf: Any) -> None:
    graph = dynstore.DynamicGraph(weighted=True, device="cuda")
    src, dst = np.random.default_rng(1).integers(0, 1_000_000, (2, 20_000_000))
    graph.insert_edges((src, dst, np.ones(src.size, np.float32)))
    graph.core.backend.synchronize()
    times = []
    for _ in range(50):
        start = time.perf_counter()
        graph.to_cudf()
        times.append(time.perf_counter() - start)
    assert statistics.median(times[10:]) < 1e-3, f"{1e3 * statistics.median(times[10:]):.3f} ms"


# ---------------------------------------------------------------------- refusals


def test_a_graph_on_the_host_is_refused(cudf: Any) -> None:
    with pytest.raises(InputError, match=r"^to_cudf: the graph is on 'cpu'; wanted 'cuda'"):
        gapped_graph("cpu").to_cudf()
    graph = gapped_graph("cpu", weighted=True)
    frame = cudf.DataFrame.from_arrow(graph.to_arrow(compact=True))
    assert _rows(frame) == edges_of(graph)
    again = dynstore.DynamicGraph.from_edges(frame, weight="weight", device="cuda")
    assert edges_of(again) == edges_of(graph)
    with pytest.raises(InputTypeError, match="wanted a pandas, pyarrow, polars or cuDF frame"):
        again.insert_edges(frame["source"])


def test_more_rows_than_a_column_has_are_refused(cudf: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = gapped_graph("cuda")
    csr = graph.snapshot()
    monkeypatch.setattr(csr, "num_slots", 2**31)
    with pytest.raises(LimitError, match=r"2147483648 rows; .* at most 2147483647; to_cudf\(compact=True\) leaves"):
        graph.to_cudf()
    monkeypatch.setattr(graph.core, "num_edges", 2**31)
    with pytest.raises(LimitError, match=r"2147483648 rows; a cuDF column has at most 2147483647$"):
        graph.to_cudf(compact=True)
