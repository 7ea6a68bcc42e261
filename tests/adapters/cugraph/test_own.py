"""dynstore's own kernels behind cuGraph's names: cuGraph's columns, dtypes and values, and which calls they decline."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore.adapters.cugraph import live_views
from dynstore.adapters.cugraph.own import set_engine
from dynstore.errors import InputError
from tests.adapters.cugraph.stand_ins import LentGraph, rapids
from tests.conftest import DEVICES

__all__ = ["rapids"]  # a fixture

pytestmark = [
    pytest.mark.skipif("cuda-sim" not in DEVICES, reason="on a GPU, test_gpu_own.py compares with cuGraph itself"),
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),
]
IDS = {"dense": lambda x: x, "sparse": lambda x: 1000 * x + 7, "wide": lambda x: x + 2**40}
EDGES = np.array([0, 0, 1, 2, 3, 5, 5]), np.array([1, 2, 2, 3, 4, 6, 7])
COSTS = np.array([1.0, 5.0, 1.0, 2.0, 1.0, 1.0, 1.0], dtype=np.float32)


@pytest.fixture
def cugraph(rapids: SimpleNamespace) -> SimpleNamespace:
    """The drop-in over stand-ins: cuGraph's functions return the graph that they were given."""
    for name in ("sssp", "weakly_connected_components", "triangle_count", "betweenness_centrality"):
        setattr(rapids.cugraph, name, lambda G, *args, **kwargs: G._plc_graph)
    rapids.cugraph.connected_components = rapids.cugraph.weakly_connected_components
    rapids.modules["cugraph.exceptions"] = SimpleNamespace(FailedToConvergeError=BufferError)
    return rapids.drop_in


def make(kind: str = "dense", directed: bool = False, weighted: bool = False) -> dynstore.DynamicGraph:
    options = {"renumber": kind != "dense", "vertex_dtype": "int64" if kind == "wide" else "int32"}
    G = dynstore.DynamicGraph(directed, weighted, device="cuda-sim", **options)
    columns = [IDS[kind](column) for column in EDGES]
    G.insert_edges((*columns, COSTS) if weighted else tuple(columns))
    return G


def reference(directed: bool = False) -> Any:
    graph: Any = nx.DiGraph() if directed else nx.Graph()
    graph.add_weighted_edges_from(zip(*(column.tolist() for column in (*EDGES, COSTS)), strict=True))
    return graph


def as_map(frame: pd.DataFrame, column: str, kind: str) -> dict[int, Any]:
    back = {int(IDS[kind](number)): number for number in range(8)}
    return {back[int(vertex)]: value for vertex, value in zip(frame["vertex"], frame[column].tolist(), strict=True)}


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kind", IDS)
def test_searches_return_cugraphs_frames(cugraph: Any, kind: str, directed: bool) -> None:
    G, dtype = make(kind, directed, weighted=True), "int64" if kind == "wide" else "int32"
    start = int(IDS[kind](0))
    frame = cugraph.bfs(G, start)
    assert dynstore.explain(G).path == "own kernel"
    assert {name: str(kind) for name, kind in frame.dtypes.items()} == dict.fromkeys(
        ["vertex", "distance", "predecessor"], dtype
    )
    far = np.iinfo(dtype).max
    hops = nx.single_source_shortest_path_length(reference(directed), 0)
    assert as_map(frame, "distance", kind) == {vertex: hops.get(vertex, far) for vertex in range(8)}
    before = dict(zip(frame["vertex"].tolist(), frame["predecessor"].tolist(), strict=True))
    assert before[start] == before[int(IDS[kind](6))] == -1
    assert before[int(IDS[kind](4))] == int(IDS[kind](3))
    near = as_map(cugraph.bfs(cugraph.as_cugraph(G), [start], 1), "distance", kind)
    assert near == {vertex: hops[vertex] if hops.get(vertex, 2) < 2 else far for vertex in range(8)}
    frame = cugraph.sssp(G, source=start, cutoff=4.5)
    assert list(frame.columns) == ["distance", "vertex", "predecessor"]
    lengths = nx.single_source_dijkstra_path_length(reference(directed), 0, cutoff=4.5)
    most = float(np.finfo(np.float32).max)
    assert as_map(frame, "distance", kind) == {vertex: lengths.get(vertex, most) for vertex in range(8)}


def test_a_wide_id_widens_the_distances(cugraph: Any) -> None:
    G = dynstore.DynamicGraph(device="cuda-sim", renumber=True)
    G.insert_edges(([2**40, 1], [5, 2]))
    frame = cugraph.bfs(G, 2**40)
    distances = dict(zip(frame["vertex"], frame["distance"], strict=True))
    assert distances == {2**40: 0, 5: 1, 1: 2**63 - 1, 2: 2**63 - 1}
    assert str(frame["distance"].dtype) == "int64"


@pytest.mark.parametrize("kind", IDS)
def test_answers_of_undirected_graphs(cugraph: Any, kind: str) -> None:
    G, dtype, graph = make(kind), "int64" if kind == "wide" else "int32", reference()
    for function in (cugraph.weakly_connected_components, cugraph.connected_components):
        labels = function(G)
        assert [str(kind) for kind in labels.dtypes] == [dtype, dtype]
        label = as_map(labels, "labels", kind)
        assert [label[vertex] == label[0] for vertex in range(8)] == 5 * [True] + 3 * [False]
        assert label[5] == label[6] == label[7]
    counts = cugraph.triangle_count(G)
    assert [*counts.columns, str(counts["counts"].dtype)] == ["vertex", "counts", dtype]
    assert as_map(counts, "counts", kind) == nx.triangles(graph)
    some = cugraph.triangle_count(G, pd.Series([IDS[kind](2), IDS[kind](4)], dtype=dtype))
    assert some["vertex"].tolist() == [IDS[kind](2), IDS[kind](4)]
    assert some["counts"].tolist() == [1, 0]
    central = cugraph.betweenness_centrality(G)
    assert as_map(central, "betweenness_centrality", kind) == pytest.approx(nx.betweenness_centrality(graph))
    assert str(cugraph.betweenness_centrality(G, result_dtype=np.float32).dtypes.iloc[1]) == "float32"
    assert dynstore.explain(G).path == "own kernel"


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kind", IDS)
def test_degrees(cugraph: Any, kind: str, directed: bool) -> None:
    live = cugraph.as_cugraph(make(kind, directed))
    into, out = live.degrees_function(None, "in_degree"), live.degrees_function(None, "out_degree")
    assert list(into.columns) == ["degree", "vertex"]
    both, each = live.degrees_function(None, "degree"), live.degrees_function(None, "degrees")
    assert list(each.columns) == ["in_degree", "out_degree", "vertex"]
    assert both["degree"].tolist() == (into["degree"] + out["degree"]).tolist()
    graph = reference(directed)
    wanted = dict(graph.in_degree() if directed else graph.degree())
    assert as_map(into, "degree", kind) == wanted
    assert each["in_degree"].tolist() == into["degree"].tolist()
    some = live.degrees_function([int(IDS[kind](3)), int(IDS[kind](2))], "in_degree")
    assert some["degree"].tolist() == [wanted[3], wanted[2]]
    assert some["vertex"].tolist() == [IDS[kind](3), IDS[kind](2)]


def test_pagerank_converges_as_cugraphs_does(cugraph: Any) -> None:
    G = make(directed=True)
    wanted = nx.pagerank(reference(True), weight=None, tol=1e-9, max_iter=500)
    assert as_map(cugraph.pagerank(G, tol=1e-6), "pagerank", "dense") == pytest.approx(wanted, abs=1e-5)
    frame, converged = cugraph.pagerank(G, max_iter=1, fail_on_nonconvergence=False)
    assert (list(frame.columns), converged) == (["vertex", "pagerank"], False)
    with pytest.raises(BufferError):
        cugraph.pagerank(G, max_iter=1)
    enough = next(n for n in range(1, 100) if cugraph.pagerank(G, max_iter=n, fail_on_nonconvergence=False)[1])
    # The iteration before is the one that converged; being the last, it counts as a failure in cuGraph.
    ranks = dynstore.pagerank(G, max_iter=enough - 1)
    assert ranks["pagerank"].tolist() == cugraph.pagerank(G, max_iter=enough)["pagerank"].tolist()
    favoured = pd.DataFrame({"vertex": np.array([2], dtype=np.int32), "values": np.array([1.0], dtype=np.float32)})
    assert as_map(cugraph.pagerank(G, personalization=favoured, tol=1e-6), "pagerank", "dense") == pytest.approx(
        nx.pagerank(reference(True), personalization={2: 1}, weight=None, tol=1e-9, max_iter=500), abs=1e-5
    )


def test_a_tracked_answer_is_returned_for_the_same_call(cugraph: Any) -> None:
    G = make()
    monitors = [G.track("bfs", start=0), G.track("triangle_count"), G.track("pagerank", tol=1e-6)]
    G.insert_edges(([4, 1], [5, 4]))
    frame = cugraph.bfs(G, 0)
    assert dynstore.explain(G).reason.startswith("its tracked answer")
    assert frame["distance"].tolist() == dynstore.bfs(G, 0)["distance"].tolist()
    assert cugraph.triangle_count(G)["counts"].tolist() == dynstore.triangle_count(G)["counts"].tolist()
    assert dynstore.explain(G).name == "triangle_count"
    cugraph.pagerank(G, tol=1e-6)
    assert dynstore.explain(G).reason.startswith("its tracked answer")
    for other in (lambda: cugraph.bfs(G, 1), lambda: cugraph.bfs(G, 0, 2), lambda: cugraph.pagerank(G)):
        other()
        assert dynstore.explain(G).reason == ""
    for monitor in monitors:
        monitor.close()
    cugraph.bfs(G, 0)
    assert dynstore.explain(G).reason == ""


DECLINED = {
    "no start": lambda cugraph, G: cugraph.bfs(G),
    "a start that is no vertex": lambda cugraph, G: cugraph.bfs(G, 99),
    "a fraction": lambda cugraph, G: cugraph.bfs(G, 1.5),
    "a flag": lambda cugraph, G: cugraph.bfs(G, True),
    "a string": lambda cugraph, G: cugraph.bfs(G, "1"),
    "wide starts": lambda cugraph, G: cugraph.bfs(G, pd.Series([1], dtype="int64")),
    "a frame": lambda cugraph, G: cugraph.bfs(G, pd.DataFrame({"start": [1]})),
    "no predecessors": lambda cugraph, G: cugraph.bfs(G, 0, return_predecessors=False),
    "another depth": lambda cugraph, G: cugraph.bfs(G, 0, "deep"),
    "no source": lambda cugraph, G: cugraph.sssp(G, 99),
    "no iterations": lambda cugraph, G: cugraph.pagerank(G, max_iter=0),
    "no tolerance": lambda cugraph, G: cugraph.pagerank(G, tol=0.0),
    "too large an alpha": lambda cugraph, G: cugraph.pagerank(G, alpha=2.0),
    "first ranks": lambda cugraph, G: cugraph.pagerank(G, nstart=pd.DataFrame({"vertex": [1], "values": [1.0]})),
    "another width": lambda cugraph, G: cugraph.pagerank(
        G, personalization=pd.DataFrame({"vertex": [1], "values": [1.0]})
    ),
    "for matrices": lambda cugraph, G: cugraph.weakly_connected_components(G, connection="strong"),
    "strong": lambda cugraph, G: cugraph.connected_components(G, connection="strong"),
    "a list that cuGraph casts": lambda cugraph, G: cugraph.triangle_count(G, [1]),
    "a sample": lambda cugraph, G: cugraph.betweenness_centrality(G, k=3, random_state=1),
    "twice": lambda cugraph, G: cugraph.betweenness_centrality(G, k=[1, 1]),
    "weights": lambda cugraph, G: cugraph.betweenness_centrality(G, weight=1),
}


@pytest.mark.parametrize("case", DECLINED)
def test_cugraph_words_its_own_errors(
    rapids: SimpleNamespace, cugraph: Any, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    G = make(weighted=True)
    for name in ("bfs", "pagerank", "sssp", "triangle_count", "betweenness_centrality", "connected_components"):
        monkeypatch.setattr(rapids.cugraph, name, lambda G, *args, **kwargs: G._plc_graph)
        vars(cugraph).pop(name, None)
    assert isinstance(DECLINED[case](cugraph, G), LentGraph)
    call = dynstore.explain(G)
    assert call.path == "borrowed"
    assert len(call.reason) > len("a stand-in; ")


def test_negative_weights_are_cugraphs(cugraph: Any) -> None:
    G = dynstore.DynamicGraph(weighted=True, device="cuda-sim")
    G.insert_edges(([0, 1], [1, 2], [1.0, -1.0]))
    for result in (cugraph.sssp(G, 0), cugraph.pagerank(G)):
        assert isinstance(result, LentGraph)
        assert "negative weights" in dynstore.explain(G).reason


def test_the_engine_is_chosen_for_a_call_or_for_the_process(
    cugraph: Any, rapids: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    G = make()
    assert isinstance(cugraph.triangle_count(G, engine="cugraph"), LentGraph)
    assert "the engine is 'cugraph'" in dynstore.explain(G).reason
    assert set_engine("cugraph") == "dynstore"
    try:
        assert isinstance(cugraph.triangle_count(G), LentGraph)
        assert isinstance(cugraph.triangle_count(G, engine="dynstore"), pd.DataFrame)
        asked, _ = cugraph.as_cugraph(G).degrees_function([1], "degree")
        assert asked.tolist() == [1]
    finally:
        assert set_engine("dynstore") == "cugraph"
    for wrong in (lambda: set_engine("cuda"), lambda: cugraph.triangle_count(G, engine="cuda")):
        with pytest.raises(InputError, match="engine 'cuda'"):
            wrong()
    assert live_views.chosen_engine(None) == "dynstore"


def test_graphs_on_the_host_stay_with_cugraph(cugraph: Any) -> None:
    G = dynstore.DynamicGraph(directed=False, device="cpu")
    G.insert_edges(EDGES)
    assert isinstance(cugraph.triangle_count(G), LentGraph)
    assert "the graph is on the host" in dynstore.explain(G).reason
