"""Algorithms that walk slabs of ``store="slab_hash"``: results as from sorted slots, which nobody makes for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore import DynamicGraph
from dynstore.backend import Backend
from dynstore.stores.slab_hash.slabs import BUCKETS, END, TOMBSTONE
from dynstore.stores.slab_hash.store import SlabHashStore

SIZES = {"cpu": (60, 500), "cuda": (60, 500), "cuda-sim": (16, 60)}
KINDS = [
    {"vertex_dtype": "int32"},
    {"vertex_dtype": "int64", "weighted": True, "weight_dtype": "float64"},
    {"vertex_dtype": "int64", "reuse_tombstones": False, "load_factor": 3.0},
]
every_kind = pytest.mark.parametrize("options", KINDS, ids=["int32", "weighted", "overflowing"])


class SlotsError(Exception):
    """Somebody asked for sorted slots."""


@pytest.fixture
def without_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(store: SlabHashStore) -> None:
        raise SlotsError

    monkeypatch.setattr(SlabHashStore, "slots", property(refuse, SlabHashStore.slots.fset))


def make(device: str, **options: Any) -> DynamicGraph:
    return DynamicGraph(store="slab_hash", device=device, **options)


def churned(device: str, rng: np.random.Generator, directed: bool, **options: Any) -> tuple[DynamicGraph, DynamicGraph]:
    """Return a graph whose rows have tombstones and were rehashed, and its twin in sorted slots on the host."""
    num_vertices, size = SIZES[device]
    graph = make(device, directed=directed, max_chain=1, **options)
    kind = {name: value for name, value in options.items() if name in ("vertex_dtype", "weighted", "weight_dtype")}
    twin = DynamicGraph(store="merge", device="cpu", directed=directed, **kind)
    hub = np.append(np.zeros(num_vertices, int), 1), np.append(np.arange(num_vertices), 2)  # and a triangle: 0, 1, 2
    for _ in range(4):
        src, dst = (rng.integers(0, num_vertices, size) for _ in range(2))
        src[: size // 4] = src[: size // 4] ** 2 // num_vertices  # some are of higher degree, loops are among them
        for each in (graph, twin):
            each.insert_edges((src, dst), default_weight=1.0)
            each.delete_edges((src[::3], dst[::3]))
            each.insert_edges(hub, default_weight=1.0)
            each.insert_vertices([num_vertices + 3])
    for each in (graph, twin):  # of edges that are there, last: an insertion may rehash every row that has tombstones
        each.delete_edges((hub[0][:num_vertices:3], hub[1][:num_vertices:3]))
    table = graph.core.out._table
    assert bool((table.slabs.reshape(-1, table.words)[:, : table.keys] == TOMBSTONE).any())
    if num_vertices > table.keys:
        links = table.slabs.reshape(-1, table.words)[:, -1]
        assert bool((table.column(BUCKETS) > 1).any() or (links != END).any())
    return graph, twin


def columns(graph: DynamicGraph, frame: Any) -> dict[str, np.ndarray]:
    return {name: graph.core.backend.to_host(frame[name].values) for name in frame.columns}


def assert_same(graph: DynamicGraph, got: Any, twin: DynamicGraph, expected: Any) -> None:
    got, expected = columns(graph, got), columns(twin, expected)
    assert list(got) == list(expected)
    for name, values in expected.items():
        assert got[name].dtype == values.dtype
        np.testing.assert_array_equal(got[name], values, err_msg=name)


def check_call(graph: DynamicGraph, name: str) -> None:
    call = dynstore.explain(graph)
    assert (call.name, call.path, call.version) == (name, "own kernel", graph.version)
    assert (call.copied, call.copied_bytes) == ("nothing: kernels read the store's slabs", 0)


@pytest.fixture(params=["probed", "sorted"])
def few_or_many_pairs(request: pytest.FixtureRequest, backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """On CUDA few pairs are probed, lists that make many are sorted; the host marks lists in any case."""
    if backend.family == "cuda":
        most = {"probed": 1 << 40, "sorted": 0}[request.param]
        monkeypatch.setattr(backend.kernels("dynstore.algorithms.slabs"), "MAX_PROBES", most)
    elif request.param == "sorted":
        pytest.skip("the same as before on the host")


@every_kind
def test_triangles(
    backend_name: str,
    rng: np.random.Generator,
    without_slots: None,
    few_or_many_pairs: None,
    options: dict[str, Any],
) -> None:
    graph, twin = churned(backend_name, rng, directed=False, **options)
    expected = dynstore.triangle_count(twin)
    assert expected["counts"].sum() > 0
    assert_same(graph, dynstore.triangle_count(graph), twin, expected)
    check_call(graph, "triangle_count")
    some = [3, 0, 2]
    assert_same(graph, dynstore.triangle_count(graph, some), twin, dynstore.triangle_count(twin, some))


@every_kind
@pytest.mark.parametrize("directed", [True, False])
def test_levels_and_smallest_parents(
    backend_name: str, rng: np.random.Generator, without_slots: None, directed: bool, options: dict[str, Any]
) -> None:
    graph, twin = churned(backend_name, rng, directed, **options)
    for start, limit in (([1], None), ([5, 2, 5], None), ([0], 1), ([3], 0), ([SIZES[backend_name][0] + 1], None)):
        for parents in (True, False):
            arguments = {"depth_limit": limit, "return_predecessors": parents}
            assert_same(graph, dynstore.bfs(graph, start, **arguments), twin, dynstore.bfs(twin, start, **arguments))
            check_call(graph, "bfs")


@pytest.mark.parametrize("options", [KINDS[0], {"vertex_dtype": "int64", "load_factor": 3.0}], ids=["int32", "int64"])
def test_ranks(backend_name: str, rng: np.random.Generator, without_slots: None, options: dict[str, Any]) -> None:
    """Sums are in another order, so the last bits may differ."""
    graph, twin = churned(backend_name, rng, directed=False, **options)
    some = pd.DataFrame({"vertex": [2, 5], "values": [1.0, 3.0]})
    sums = pd.DataFrame({"vertex": np.arange(10), "sums": np.arange(10.0)})
    for arguments in ({}, {"personalization": some, "alpha": 0.5}, {"precomputed_vertex_out_weight": sums}):
        arguments |= {"tol": 0.0, "max_iter": 3 if backend_name == "cuda-sim" else 12, "fail_on_nonconvergence": False}
        (got, _), (expected, _) = dynstore.pagerank(graph, **arguments), dynstore.pagerank(twin, **arguments)
        check_call(graph, "pagerank")
        ranks = columns(graph, got)["pagerank"]
        assert ranks.dtype == np.float32
        np.testing.assert_allclose(ranks, columns(twin, expected)["pagerank"], rtol=1e-5)
    if backend_name != "cuda-sim":
        first = columns(graph, dynstore.pagerank(graph))["pagerank"]
        np.testing.assert_allclose(first, columns(twin, dynstore.pagerank(twin))["pagerank"], rtol=1e-4)
        again = columns(graph, dynstore.pagerank(graph, warm_start=True))["pagerank"]
        np.testing.assert_allclose(again, first, rtol=1e-3)


@pytest.mark.parametrize("options", [{"directed": True}, {"directed": False, "weighted": True}], ids=str)
def test_ranks_of_other_graphs_are_of_slots(options: dict[str, Any]) -> None:
    graph = make("cpu", **options)
    graph.insert_edges(([0, 1, 2], [1, 2, 0]), default_weight=1.0)
    dynstore.pagerank(graph)
    assert dynstore.explain(graph).copied == "nothing: kernels read the store's slots"
    assert not graph.core.out._is_stale


def test_a_path_and_ids_of_the_users_own(backend_name: str, without_slots: None) -> None:
    length = 6 if backend_name == "cuda-sim" else 300
    names = [f"v{number}" for number in range(length)]
    graph = make(backend_name, renumber=True)
    graph.insert_edges((names[:-1], names[1:]))
    table = dynstore.bfs(graph, names[0])
    if hasattr(table, "to_pandas"):
        table = table.to_pandas()
    distances = graph.core.backend.to_host(table["distance"].values)
    by_name = dict(zip(table["vertex"].tolist(), distances.tolist(), strict=True))
    assert by_name == {name: number for number, name in enumerate(names)}


def test_rows_of_more_than_a_warp(backend_name: str, without_slots: None, few_or_many_pairs: None) -> None:
    """Of a clique each pair of higher neighbours is a triangle; loops count nothing."""
    size = 9 if backend_name == "cuda-sim" else 100
    graph = make(backend_name, directed=False)
    graph.insert_edges(np.tril_indices(size))
    counts = columns(graph, dynstore.triangle_count(graph))["counts"]
    assert counts.tolist() == [(size - 1) * (size - 2) // 2] * size


def test_graphs_without_edges(backend_name: str, without_slots: None) -> None:
    graph = make(backend_name, directed=False)
    graph.insert_edges(([], []))
    assert graph.core.native_rows() is not None
    assert columns(graph, dynstore.triangle_count(graph))["counts"].tolist() == []
    assert columns(graph, dynstore.pagerank(graph))["pagerank"].tolist() == []
    graph.insert_edges(([0, 1], [1, 2]))
    graph.delete_edges(([0, 1], [1, 2]))
    assert columns(graph, dynstore.triangle_count(graph))["counts"].tolist() == [0, 0, 0]
    check_call(graph, "triangle_count")
    table = columns(graph, dynstore.bfs(graph, 1))
    assert table["distance"].tolist()[1] == 0
    assert table["predecessor"].tolist() == [-1, -1, -1]
    np.testing.assert_allclose(columns(graph, dynstore.pagerank(graph))["pagerank"], [1 / 3] * 3, rtol=1e-6)


def test_sorted_slots_are_read_where_they_are_mostly_right(backend_name: str) -> None:
    graph = make(backend_name, directed=False)
    src = np.arange(12)
    graph.insert_edges((src, (src + 1) % 12))
    dynstore.bfs(graph, 0)
    check_call(graph, "bfs")
    assert graph.core.out._is_stale, "the sorted table was made"
    graph.snapshot()
    assert graph.core.native_rows() is None
    graph.insert_edges(([0], [5]))
    assert graph.core.native_rows() is None, "two rows of twelve changed"
    graph.insert_edges((src[:8], (src[:8] + 2) % 12))
    rows = graph.core.native_rows()
    assert rows is not None, "most rows changed"
    assert (rows.form, rows.table, rows.num_vertices) == ("slabs", graph.core.out._table, 12)


def test_others_read_sorted_slots() -> None:
    """Stores that have no other rows, and algorithms that have no kernels for slabs."""
    graph = DynamicGraph(store="merge", device="cpu", directed=False)
    graph.insert_edges(([0, 1], [1, 2]))
    assert graph.core.native_rows() is None
    dynstore.bfs(graph, 0)
    assert dynstore.explain(graph).copied == "nothing: kernels read the store's slots"
    graph = make("cpu", directed=False)
    graph.insert_edges(([0, 1], [1, 2]))
    dynstore.weakly_connected_components(graph)
    assert not graph.core.out._is_stale
