"""Where cuGraph runs, plain calls go to pylibcugraph straight away, all others to its Python; results are the same."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore.adapters.cugraph import direct
from tests.adapters.cugraph.stand_ins import LentGraph, rapids

__all__ = ["rapids"]  # a fixture

EDGES = np.array([10, 20, 20]), np.array([20, 30, 10])


@pytest.fixture
def straight(rapids: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The stand-ins with functions of pylibcugraph that return three columns, and keep what they were given."""
    calls: list[tuple[str, dict[str, Any]]] = []

    def stand_in(name: str, columns: int) -> Any:
        def function(**given: Any) -> Any:
            calls.append((name, given))
            return tuple(np.arange(3) + 10 * place for place in range(columns))

        return function

    plc = rapids.modules["pylibcugraph"]
    for name, columns in (("bfs", 3), ("sssp", 3), ("weakly_connected_components", 2)):
        setattr(plc, name, stand_in(name, columns))
    plc.pagerank = lambda fail_on_nonconvergence, **given: stand_in("pagerank", 2 if fail_on_nonconvergence else 3)(
        **given
    )
    plc.exceptions = SimpleNamespace(FailedToConvergeError=ArithmeticError)
    for name in ("sssp", "weakly_connected_components"):
        setattr(rapids.cugraph, name, lambda G, *args, name=name, **kwargs: f"cuGraph's {name}")
    monkeypatch.setattr(direct, "load_bridge", lambda: rapids.bridge)
    monkeypatch.setattr(direct, "_own", threading.local())
    rapids.calls = calls
    return rapids


def test_plain_calls_see_the_current_edges(straight: SimpleNamespace) -> None:
    cugraph = straight.drop_in
    G = dynstore.DynamicGraph(device="cpu", renumber=True)
    G.insert_edges(EDGES)
    frame = cugraph.bfs(G, 20)
    assert list(frame.columns) == ["vertex", "distance", "predecessor"]
    name, given = straight.calls[-1]
    assert (name, given["sources"].tolist(), given["depth_limit"]) == ("bfs", [20], -1)
    assert given["graph"].edges() == [(10, 20), (20, 10), (20, 30)]
    assert dynstore.explain(G).path == "borrowed"
    G.delete_edges(([20], [30]))
    cugraph.bfs(cugraph.as_cugraph(G), start=np.int64(10), depth_limit=2)
    given = straight.calls[-1][1]
    assert (given["graph"].edges(), given["depth_limit"]) == ([(10, 20), (20, 10)], 2)


def test_every_function_has_cugraphs_columns(straight: SimpleNamespace) -> None:
    cugraph = straight.drop_in
    G = dynstore.DynamicGraph(device="cpu", directed=False, weighted=True)
    G.insert_edges(([0, 1], [1, 2], [1.0, 2.0]))
    assert list(cugraph.sssp(G, 1).columns) == ["distance", "vertex", "predecessor"]
    assert straight.calls[-1][1]["cutoff"] == np.inf
    assert list(cugraph.pagerank(G, tol=1e-6).columns) == ["vertex", "pagerank"]
    assert straight.calls[-1][1]["graph"].transposed
    frame, converged = cugraph.pagerank(G, fail_on_nonconvergence=False)
    assert (list(frame.columns), converged.tolist()) == (["vertex", "pagerank"], [20, 21, 22])
    assert list(cugraph.weakly_connected_components(G).columns) == ["vertex", "labels"]


def test_a_pagerank_that_does_not_converge_raises_cugraphs_error(straight: SimpleNamespace) -> None:
    def fail(**given: Any) -> Any:
        raise ArithmeticError

    straight.modules["pylibcugraph"].pagerank = fail
    straight.modules["cugraph.exceptions"] = SimpleNamespace(FailedToConvergeError=BufferError)
    G = dynstore.DynamicGraph(device="cpu")
    G.insert_edges(([0], [1]))
    with pytest.raises(BufferError):
        straight.drop_in.pagerank(G)


def test_all_else_goes_to_cugraph(straight: SimpleNamespace) -> None:
    cugraph = straight.drop_in
    G = dynstore.DynamicGraph(device="cpu", renumber=True)
    G.insert_edges(EDGES)
    for start in (None, "20", [20], True, -1, 2**40):
        assert isinstance(cugraph.bfs(G, start), LentGraph)
    with pytest.raises(TypeError, match="nonsense"):
        cugraph.bfs(G, 20, nonsense=1)
    assert cugraph.sssp(G, 20) == "cuGraph's sssp"  # of a graph without weights
    assert cugraph.weakly_connected_components(G) == "cuGraph's weakly_connected_components"  # of a directed graph
    strings = dynstore.DynamicGraph(device="cpu", renumber=True)
    strings.insert_edges((["a"], ["b"]))
    assert isinstance(cugraph.pagerank(strings), LentGraph)
    assert straight.calls == []


def test_a_graph_made_with_the_usual_options_takes_pagerank_directly(straight: SimpleNamespace) -> None:
    cugraph = straight.drop_in
    live = cugraph.Graph(directed=True)
    live.from_cudf_edgelist(straight.modules["cudf"].DataFrame({"a": EDGES[0], "b": EDGES[1]}), "a", "b")
    cugraph.pagerank(live)
    ((name, given),) = straight.calls
    assert (name, given["graph"].transposed) == ("pagerank", True)


def test_a_search_starts_on_the_null_stream_with_a_handle_of_the_thread_and_device(straight: SimpleNamespace) -> None:
    cuda, streams = straight.modules["cupy"].cuda, []

    class Null:
        def __enter__(self) -> None:
            streams.append("entered")

        def __exit__(self, *error: object) -> None:
            streams.append("left")

    cuda.Stream = SimpleNamespace(null=Null())
    straight.modules["pylibcugraph"].ResourceHandle = object
    G = dynstore.DynamicGraph(device="cpu")
    G.insert_edges(([0], [1]))

    def handle() -> Any:
        straight.drop_in.bfs(G, 0)
        return straight.calls[-1][1]["handle"]

    first = handle()
    assert streams == ["entered", "left"]
    assert handle() is first
    cuda.Device = lambda: SimpleNamespace(id=1)
    second = handle()
    assert second is not first
    cuda.Device = lambda: SimpleNamespace(id=0)
    assert handle() is first
    others: list[Any] = []
    thread = threading.Thread(target=lambda: others.append(handle()))
    thread.start()
    thread.join()
    assert others[0] not in (first, second)
