"""The drop-in for ``cugraph.dask`` on stand-ins for cuGraph: live graphs, columns, types, and what is cuGraph's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore.adapters.cugraph import dask as dcg
from dynstore.adapters.cugraph.dask.live import LiveDaskGraph
from dynstore.adapters.dask import DaskGraph
from dynstore.errors import FailedToConvergeError, InputError, UnweightedGraphError
from tests.adapters.cugraph.stand_ins import rapids
from tests.adapters.dask.clusters import edges_of, partitions

__all__ = ["rapids"]  # a fixture


class TheirsError(Exception):
    """cuGraph's error of a PageRank that does not converge."""


class TheirImpl:
    """What a distributed graph of cuGraph's own has instead of a live graph."""

    renumber_map = None

    def __init__(self, frame: Any, options: dict[str, Any]) -> None:
        self.frame, self.options, self.edgelist = frame, options, frame

    def select_random_vertices(self) -> None:
        """A method that live graphs have not."""


@pytest.fixture
def cugraph(rapids: SimpleNamespace, client: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The drop-in for ``cugraph``, over stand-ins that know Dask."""

    def from_dask_cudf_edgelist(graph: Any, input_ddf: Any, *args: Any, **options: Any) -> None:
        graph._Impl = TheirImpl(input_ddf, options)

    monkeypatch.setattr(rapids.cugraph.Graph, "from_dask_cudf_edgelist", from_dask_cudf_edgelist, raising=False)
    calls = {name: lambda *args, name=name, **given: (name, args, given) for name in (*dcg.__all__, "jaccard")}
    rapids.modules["cugraph.dask"] = SimpleNamespace(**calls, comms="their comms")
    rapids.modules["cugraph.exceptions"] = SimpleNamespace(FailedToConvergeError=TheirsError)
    name = "cugraph.structure.graph_implementation.simpleDistributedGraph"
    rapids.modules[name] = SimpleNamespace(simpleDistributedGraphImpl=TheirImpl)
    return rapids.drop_in


def named(frame: pd.DataFrame, ids: str = "int32") -> pd.DataFrame:
    frame = frame.rename(columns={"source": "src", "destination": "dst"})
    return frame.astype({"src": ids, "dst": ids, "weight": "float32"})


def by_vertex(frame: Any) -> pd.DataFrame:
    return frame.compute().sort_values("vertex", ignore_index=True)


@pytest.mark.parametrize(("ids", "renumber"), [("int32", True), ("int64", True), ("int32", False)])
def test_a_live_graph_has_cugraphs_columns_and_types(
    cugraph: Any, rng: np.random.Generator, ids: str, renumber: bool
) -> None:
    first, second = (named(edges_of(rng, 1500, 200), ids) for _ in range(2))
    G = cugraph.Graph()
    options = {"edge_attr": "weight", "renumber": renumber}
    G.from_dask_cudf_edgelist(partitions(first, 3), source="src", destination="dst", **options)
    assert isinstance(G._Impl, LiveDaskGraph)
    assert isinstance(G.dask_graph, DaskGraph)
    one = dynstore.DynamicGraph(device="cpu", directed=False, weighted=True, vertex_dtype=ids, frames="pandas")
    one.insert_edges(first, "src", "dst", "weight")
    gone = second.head(100)
    for name, frame in (("insert_edges", second), ("delete_edges", gone)):
        weights = ["weight"] if name == "insert_edges" else []
        wanted = getattr(one, name)(frame, "src", "dst", *weights)
        assert getattr(G, name)(partitions(frame, 2))[:5] == wanted[:5]  # the graph's names of columns
    assert (G.version, G.number_of_edges(), G.is_weighted(), G.is_directed()) == (3, one.number_of_edges(), True, False)
    assert G.number_of_nodes() == len(one.vertex_ids())
    loops = int(one.has_edges((range(200), range(200))).sum())
    assert G.number_of_edges(directed_edges=True) == 2 * one.number_of_edges() - loops
    assert list(G.view_edge_list().columns) == ["src", "dst", "weight"]
    start = int(second["src"].iloc[-1])
    types = {"vertex": ids, "predecessor": ids, "labels": ids, "counts": ids, "pagerank": "float32"}
    for name, args, columns, distance in (
        ("bfs", (start,), ["vertex", "distance", "predecessor"], ids),
        ("sssp", (start,), ["distance", "vertex", "predecessor"], "float32"),
        ("weakly_connected_components", (), ["vertex", "labels"], ""),
        ("triangle_count", (), ["vertex", "counts"], ""),
        ("pagerank", (), ["vertex", "pagerank"], ""),
    ):
        found = getattr(dcg, name)(G, *args)
        assert list(found.columns) == columns
        assert found.dtypes.astype(str).to_dict() == {key: types.get(key, distance) for key in columns}
        found, wanted = by_vertex(found), getattr(dynstore, name)(one, *args)
        assert found.dtypes.astype(str).to_dict() == {key: types.get(key, distance) for key in columns}
        wanted = wanted[wanted["vertex"].isin(found["vertex"])].reset_index(drop=True)
        assert found["vertex"].tolist() == wanted["vertex"].tolist()
        if name == "weakly_connected_components":
            assert len({*zip(found["labels"], wanted["labels"], strict=True)}) == wanted["labels"].nunique()
        elif name == "pagerank":
            np.testing.assert_allclose(found["pagerank"], wanted["pagerank"], atol=1e-4)
        else:
            key = columns[0] if name == "sssp" else columns[1]
            assert found[key].tolist() == wanted[key].tolist()
    G.dask_graph.close()


def test_texts_as_ids(cugraph: Any) -> None:
    G = cugraph.Graph(directed=True)
    G.from_dask_cudf_edgelist(partitions(pd.DataFrame({"a": ["x", "y", "u"], "b": ["y", "z", "v"]}), 2), "a", "b")
    found = by_vertex(dcg.bfs(G, "x"))
    top = np.iinfo(np.int32).max
    assert found["distance"].tolist() == [top, top, 0, 1, 2]
    assert found["predecessor"].tolist() == ["-1", "-1", "-1", "x", "y"]
    with pytest.raises(InputError, match="weakly_connected_components: input graph must be undirected"):
        dcg.weakly_connected_components(G)
    with pytest.raises(UnweightedGraphError, match="sssp: requires the input graph to be weighted"):
        dcg.sssp(G, "x")
    G.dask_graph.close()


def test_what_live_graphs_refuse(cugraph: Any, rapids: SimpleNamespace, rng: np.random.Generator) -> None:
    G = cugraph.Graph()
    G.from_dask_cudf_edgelist(partitions(named(edges_of(rng, 300, 40)), 2), "src", "dst")
    frame, converged = dcg.pagerank(G, max_iter=1, fail_on_nonconvergence=False)
    assert (len(frame), converged) == (G.number_of_vertices(), False)
    with pytest.raises(TheirsError):
        dcg.pagerank(G, max_iter=1)
    rapids.modules["cugraph.exceptions"] = None  # as if cuGraph were not installed
    with pytest.raises(FailedToConvergeError):
        dcg.pagerank(G, max_iter=1)
    for call, message in (
        (
            lambda: dcg.pagerank(G, nstart=1),
            "pagerank: nstart is given; on a live graph of a Dask cluster there is none",
        ),
        (lambda: dcg.jaccard(G), "jaccard: a live graph on a Dask cluster has no jaccard; it has bfs, core_number"),
        (lambda: dcg.louvain(G, max_level=1, max_iter=2), "max_iter is the old name of max_level; got both"),
        (lambda: G._plc_graph, "_plc_graph: a live graph on a Dask cluster has no _plc_graph; its dask_graph"),
        (lambda: G.select_random_vertices(), "select_random_vertices: a live graph on a Dask cluster has no"),
        (lambda: G.to_directed(), "to_directed: a live graph on a Dask cluster has no to_directed"),
        # cuGraph's algorithms want GPUs; the graph can be used afterwards.
        (
            lambda: dcg.core_number(G),
            r"core_number: rank \d refused it: the graph is on 'cpu'|lend: the graph is on 'cpu'",
        ),
    ):
        with pytest.raises(InputError, match=message):
            call()
    with pytest.raises(AttributeError):
        G.nonsense  # noqa: B018
    assert G.number_of_edges() > 0
    rapids.modules["cugraph.dask"] = None
    with pytest.raises(ImportError, match=r"cugraph\.dask: cugraph cannot be imported"):
        dcg.jaccard  # noqa: B018
    G.dask_graph.close()


def test_what_is_cugraphs_own(cugraph: Any, rng: np.random.Generator) -> None:
    frame = named(edges_of(rng, 100, 40))
    doubled = partitions(frame.assign(id=1, kind=2, text="t"), 2)
    for options in (
        {"source": ["src", "id"], "destination": ["dst", "id"]},
        {"source": "src", "destination": "dst", "edge_attr": ["weight", "id", "kind"]},
        {"source": "src", "destination": "dst", "edge_id": "id"},
        {"source": "src", "destination": "text"},
        {"source": "src", "destination": "nowhere"},
        {"source": "src", "destination": "dst", "weight": "text"},
    ):
        G = cugraph.Graph(directed=True)
        G.from_dask_cudf_edgelist(doubled, **options)
        assert isinstance(G._Impl, TheirImpl)
        assert G._Impl.options == options
        with pytest.raises(InputError, match="insert_edges: this graph is cuGraph's own, which cannot be changed: "):
            G.insert_edges(doubled)
    for name in dcg.__all__:
        args = (5,) if name in ("bfs", "sssp") else ()
        found, given, _ = getattr(dcg, name)(G, *args)
        assert (found, given[0]) == (name, G)
    assert dcg.jaccard(G)[0] == "jaccard"
    assert dcg.comms == "their comms"
    assert "jaccard" in dir(dcg)


@pytest.mark.parametrize(
    ("name", "given", "passed"),
    [
        ("louvain", {"max_level": 7, "threshold": 0.1}, (7, 1.0, 0.1)),
        ("leiden", {"random_state": 3}, (100, 1.0, 3, 1.0)),
        ("core_number", {}, ("bidirectional",)),
        ("hits", {"max_iter": 9}, (1e-5, 9, True)),
        ("katz_centrality", {"alpha": 0.1}, (0.1, 1.0, 100, 1e-6)),
        ("eigenvector_centrality", {"tol": 0.1}, (100, 0.1)),
    ],
)
def test_cugraphs_algorithms_are_called_on_the_ranks(
    cugraph: Any,
    client: Any,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    given: dict[str, Any],
    passed: tuple[Any, ...],
) -> None:
    from dynstore.adapters.cugraph import mg

    made = pd.DataFrame({"vertex": np.array([4, 2], np.int64), "value": [0.5, 0.25]})
    monkeypatch.setattr(mg, name, lambda graph, *args: (made, args) if len(args) > 2 else made)
    seen = []

    def compute(G: Any, caller: str, function: Any, *args: Any) -> Any:
        seen.append((caller, *args))
        graph = SimpleNamespace(shard=SimpleNamespace(vertex_dtype=np.dtype(np.int32)))
        found = function(graph, *args)
        assert found[0].dtypes.astype(str).to_dict() == {"vertex": "int32", "value": "float64"}
        return found

    with DaskGraph(client, directed=False) as G:
        monkeypatch.setattr(DaskGraph, "compute_frame", compute)
        getattr(dcg, name)(G, **given)
    assert seen == [(name, name, passed)]
