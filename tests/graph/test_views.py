"""Views are read as graphs are, and cannot be changed."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore import DynamicGraph, GraphView
from dynstore.errors import InputError, InputTypeError, StaleSnapshotError
from dynstore.graph.versions.view import REFUSED
from dynstore.testing.invariants import check_csr
from tests.conftest import DEVICES
from tests.crossed import crossed
from tests.graph.readings import make_random, points, read, whole

KINDS: dict[str, dict[str, Any]] = {
    "directed": {},
    "directed-weighted": {"weighted": True, "vertex_dtype": "int64"},
    "undirected": {"directed": False, "renumber": True},
    "undirected-weighted": {"directed": False, "weighted": True},
}
TIMES = {"time": "int64", "id": "int32"}
WAYS: dict[str, dict[str, Any]] = {
    "column": {"edge_columns": TIMES},
    "timestamps": {"edge_columns": {"id": "int32"}, "timestamps": "int64"},
}


def without(G: DynamicGraph, start: int, end: int) -> DynamicGraph:
    """Return a copy without the edges of other times, at the same version."""
    twin = G.copy()
    table = G.to_pandas()
    twin.delete_edges(table[(table.time < start) | (table.time >= end)])
    return twin


@crossed(kind=list(KINDS), way=list(WAYS), in_edges=[False, True], backend_name=DEVICES)
def test_a_window_is_read_as_a_graph_of_its_edges(
    kind: str, way: str, in_edges: bool, backend_name: str, rng: np.random.Generator
) -> None:
    random = make_random(backend_name, rng, 9 if backend_name != "cuda-sim" else 5, **WAYS[way], **KINDS[kind])
    G = random.G
    G.insert_edges(random.rows(40))
    G.delete_edges(random.rows(6)[:2])
    if in_edges:
        G.snapshot(transposed=True)
    times = sorted(G.core.backend.to_host(G.edge_columns()["time"]).tolist())
    start, end = times[len(times) // 3], times[2 * len(times) // 3] + 1
    view, twin = G.window(start, end), without(G, start, end)
    assert view.number_of_edges() > 0
    expected, found = ({**read(graph, points), **read(graph, whole)} for graph in (twin, view))
    for results in (expected, found):
        sizes = results["sizes"]
        results["sizes"] = [sizes[k] for k in (0, 1, 2, 4)]  # without the version
        results["copy"] = results["copy"][1]
    assert found == expected
    assert view.version == G.version


@pytest.mark.parametrize("device", ["cpu"])
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "float64"])
def test_windows_are_half_open(device: str, dtype: str) -> None:
    G = DynamicGraph(edge_columns={"time": dtype}, device=device)
    G.insert_edges(([0, 1, 2, 3], [1, 2, 3, 4], [0, 10, 20, 30]))

    def times(*bounds: Any) -> list[int]:
        return G.window(*bounds).edge_columns()["time"].tolist()

    assert times(10, 30) == [10, 20]
    assert times() == times(None, None) == times(-(10**18), 10**18) == times(-np.inf, np.inf) == [0, 10, 20, 30]
    assert times(10) == times(9.5) == [10, 20, 30]
    assert times(None, 10) == [0]
    assert times(None, 10.5) == [0, 10]
    assert times(10, 10) == times(10**18, None) == times(None, -(10**18)) == times(31) == []
    assert times(np.int64(20), np.int64(21)) == [20]


def test_windows_of_date_times() -> None:
    G = DynamicGraph(edge_columns={"time": "int64"}, device="cpu")
    days = pd.to_datetime(["2026-01-01", "2026-01-02", "2026-01-03"])
    G.insert_edges(([0, 1, 2], [1, 2, 3], days.as_unit("ns").asi8))
    assert G.window(pd.Timestamp("2026-01-02")).number_of_edges() == 2
    assert G.window(None, days[1].to_pydatetime()).neighbors(0).tolist() == [1]


def test_a_window_shares_the_graphs_arrays(backend_name: str, rng: np.random.Generator) -> None:
    random = make_random(backend_name, rng, 9, edge_columns=TIMES)
    G = random.G
    G.insert_edges(random.rows(60))
    view = G.window(30)
    csr, own = view.snapshot(), G.snapshot()
    assert all(getattr(csr, name) is getattr(own, name) for name in ("offsets", "indices", "sources"))
    assert view.memory_usage() == {"valid": csr.valid.nbytes, "total": csr.valid.nbytes}
    check_csr(csr)


def test_a_window_is_stale_after_an_update() -> None:
    G = DynamicGraph(edge_columns=TIMES, device="cpu")
    G.insert_edges(([0, 1], [1, 2], [1, 2], [0, 0]))
    view, seen = G.window(1), G.window(2)
    table = seen.edge_table()
    G.insert_edges(([5], [6], [3], [0]))
    for read_it in (
        view.edge_table,
        view.number_of_edges,
        view.number_of_vertices,
        lambda: view.neighbors(0),
        lambda: list(view),
        lambda: view.has_edges([(0, 1)]),
        view.snapshot,
        view.copy,
        view.to_pandas,
        lambda: dynstore.pagerank(view),
        lambda: view.window(1),
        lambda: view.predecessors(1),
    ):
        with pytest.raises(
            StaleSnapshotError, match=r"window: it shows version 1 of .* version 2; call window\(\) again"
        ):
            read_it()
    assert repr(view) == "GraphView(not readable any more, version=1)"
    assert table.time.tolist() == [2]


def test_a_window_of_a_window_and_of_a_pin() -> None:
    G = DynamicGraph(edge_columns={"time": "int64"}, device="cpu")
    G.insert_edges((np.arange(9), np.arange(9) + 1, np.arange(9)))
    assert G.window(2).window(None, 5).edge_columns()["time"].tolist() == [2, 3, 4]
    pin = G.pin()
    G.delete_edges(([2, 3], [3, 4]))
    view = pin.window(2, 5)
    G.clear()
    assert view.edge_columns()["time"].tolist() == [2, 3, 4]
    assert view.predecessors(4).tolist() == [3]


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ((5, 4), r"window: start is 5, end is 4; wanted an end from 5 on"),
        (("x",), r"window: start is 'x'; wanted an integer or a date-time, such as a datetime"),
        ((None, [1, 2]), r"window: end is \[1, 2\]; wanted an integer or a date-time"),
        ((True,), r"window: start is True; wanted an integer or a date-time"),
        ((pd.NaT,), r"window: start is NaT; wanted a time"),
        ((float("nan"),), r"window: "),
    ],
)
def test_wrong_bounds_are_refused(bounds: tuple[Any, ...], message: str) -> None:
    G = DynamicGraph(edge_columns={"time": "int64"}, device="cpu")
    with pytest.raises(InputError, match=message):
        G.window(*bounds)


@pytest.mark.parametrize("options", [{}, {"edge_columns": {"kind": "int8"}}, {"multigraph": True}])
def test_a_graph_without_times_has_no_windows(options: dict[str, Any]) -> None:
    G = DynamicGraph(device="cpu", **options)
    for shown in (G, G.pin(), *([G.simple()] if G.is_multigraph() else [])):
        with pytest.raises(InputError, match="window: the graph keeps no times; make it with timestamps='int64'"):
            shown.window(1)


# ---------------------------------------------------------------------- what a view is


def test_a_view_has_what_a_graph_has_or_refuses_it() -> None:
    """A new method of graphs is one of views, too, or is refused by name."""
    graphs = {name for name in dir(DynamicGraph) if not name.startswith("_")}
    makers = {name for name in graphs if inspect.ismethod(getattr(DynamicGraph, name))}
    views = {name for name in dir(GraphView) if not name.startswith("_")}
    assert graphs - makers - views == set()
    assert views - set(REFUSED) - graphs == set()


@pytest.mark.parametrize("name", REFUSED)
def test_a_view_refuses_updates(name: str) -> None:
    G = DynamicGraph.from_edges([(0, 1)], device="cpu")
    for view in (G.pin(), DynamicGraph(edge_columns=TIMES, device="cpu").window()):
        kind = type(view).__name__
        with pytest.raises(InputTypeError, match=f"{name}: got a {kind}, which is read-only; wanted a DynamicGraph"):
            getattr(view, name)([(1, 2)])
    assert G.version == 1


def test_a_copy_of_a_view_is_a_graph(tmp_path: Any) -> None:
    G = DynamicGraph(edge_columns=TIMES, renumber=True, device="cpu")
    G.insert_edges((["a", "b"], ["b", "c"], [1, 5], [7, 8]))
    view = G.window(3)
    twin = view.copy()
    assert type(twin) is DynamicGraph
    assert twin.insert_edges((["a"], ["b"], [9], [9])).inserted == 1
    assert view.to_pandas().equals(view.copy().to_pandas())
    view.save(tmp_path / "view")
    assert dynstore.load(tmp_path / "view", device="cpu").edge_table().equals(view.edge_table())
    assert DynamicGraph.from_edges(view.to_pandas(), device="cpu").edge_columns()["id"].tolist() == [8]


def test_views_show_themselves() -> None:
    G = DynamicGraph(edge_columns=TIMES, device="cpu")
    G.insert_edges(([0], [1], [1], [1]))
    assert repr(G.window(2)) == "GraphView(directed, 2 vertices, 0 edges, store='gpma+', device='cpu', version=1)"
    assert repr(G.pin()) == "PinnedGraph(directed, 2 vertices, 1 edges, store='gpma+', device='cpu', version=1)"
    assert "<caption>dynstore.GraphView</caption>" in G.window(2)._repr_html_()
