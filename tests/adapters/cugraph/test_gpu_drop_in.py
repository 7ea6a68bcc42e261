"""The drop-in's functions against cuGraph's own: needs a GPU with RAPIDS."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore.errors import InputError
from tests.adapters.cugraph.pairs import KINDS, SHAPES, by_vertex, partition, real, same

__all__ = ["real"]  # a fixture

# The GPU's libraries warn of their own ways; pytest.ini of this project would make that an error.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def drop_in() -> Any:
    from dynstore.adapters import cugraph

    return cugraph


@pytest.mark.parametrize("kind", ["dense", "sparse", "wide", "strings"])
@pytest.mark.parametrize(("directed", "weighted"), SHAPES)
def test_the_drop_in_builds_what_cugraph_builds(
    real: Any, drop_in: Any, kind: str, directed: bool, weighted: bool
) -> None:
    """Duplicates, self-loops and both directions of an edge are in the frame; weights of equal rows are equal."""
    import cudf

    rng = np.random.default_rng(6)
    numbers = rng.integers(0, 60, (2, 400))
    ids = [KINDS[kind](column) for column in numbers]
    frame = cudf.DataFrame({"from": ids[0], "to": ids[1]})
    if weighted:
        frame["cost"] = (numbers.sum(axis=0) % 7 + 1).astype(np.float32)
    options = {"source": "from", "destination": "to", "edge_attr": "cost" if weighted else None}
    mine, theirs = drop_in.Graph(directed=directed), real.Graph(directed=directed)
    mine.from_cudf_edgelist(frame, **options)
    theirs.from_cudf_edgelist(frame, **options)
    assert type(mine) is real.Graph
    assert mine.renumbered == theirs.renumbered
    assert mine.nodes().to_pandas().tolist() == theirs.nodes().to_pandas().tolist()
    assert kind == "strings" or mine.nodes().dtype == theirs.nodes().dtype
    start = ids[0][0] if kind == "strings" else int(ids[0][0])
    same(*(by_vertex(drop_in.bfs(G, start), "distance") for G in (mine, theirs)), "dense")
    ranks = [by_vertex(drop_in.pagerank(G, tol=1e-6, max_iter=500), "pagerank") for G in (mine, theirs)]
    same(*ranks, "dense", 1e-5)
    if weighted:
        same(*(by_vertex(drop_in.sssp(G, start), "distance") for G in (mine, theirs)), "dense", 1e-5)
    if not directed:
        same(*(by_vertex(drop_in.triangle_count(G), "counts") for G in (mine, theirs)), "dense")
        parts = [partition(drop_in.connected_components(G)) for G in (mine, theirs)]
        assert parts[0] == parts[1]
    assert mine.number_of_edges() == theirs.number_of_edges()
    new = KINDS[kind](np.array([70, 71]))
    batch = {"from": new, "to": new[::-1].copy(), **({"cost": [1.0, 2.0]} if weighted else {})}
    assert mine.insert_edges(cudf.DataFrame(batch)).inserted == (2 if directed else 1)
    assert mine.has_edge(new[0], new[1])
    assert len(drop_in.bfs(mine, start)) == len(mine.nodes())


def test_functions_that_make_graphs_make_live_ones(drop_in: Any) -> None:
    import cudf
    import pandas as pd

    frame = pd.DataFrame({"a": [5, 6], "b": [6, 7]})
    for G in (
        drop_in.from_cudf_edgelist(cudf.DataFrame(frame), "a", "b", create_using=drop_in.Graph),
        drop_in.from_cudf_edgelist(cudf.DataFrame(frame), "a", "b", create_using=drop_in.Graph(directed=True)),
        drop_in.from_pandas_edgelist(frame, "a", "b"),
        drop_in.from_edgelist(frame, "a", "b"),
        drop_in.from_edgelist(cudf.DataFrame(frame), "a", "b"),
    ):
        assert G.insert_edges(([7], [8])).inserted == 1
        assert drop_in.bfs(G, 5)["distance"].max() == 3
    wide = cudf.DataFrame({"a": [5, 6], "b": [6, 7], "c": [6, 7], "d": [7, 8]})
    static = drop_in.from_cudf_edgelist(wide, ["a", "b"], ["c", "d"])
    assert "more than one column" in dynstore.explain(static).reason
    lists = [cudf.Series(numbers, dtype="int32") for numbers in ([0, 1, 1], [1])]
    for made in (static, drop_in.from_adjlist(*lists), drop_in.ego_graph(G, 6)):
        with pytest.raises(InputError, match="cannot be changed"):
            made.insert_edges(([7], [8]))


@pytest.mark.parametrize("directed", [False, True])
def test_matrices_lists_and_hypergraphs_make_what_cugraph_makes(real: Any, drop_in: Any, directed: bool) -> None:
    import cudf
    import pandas as pd

    matrix = np.array([[0.0, 2.0, 0.0], [2.0, 0.0, 3.0], [0.0, 3.0, 0.0]])
    events = cudf.DataFrame({"user": ["ann", "bob", "ann"], "page": ["x", "x", "y"]})

    def graphs(module: Any) -> list[Any]:
        empty = {"create_using": module.Graph(directed=directed)}
        listed = module.Graph(directed=directed)
        listed.from_cudf_edgelist(cudf.DataFrame({"a": ["u", "v"], "b": ["v", "w"]}), ["a"], ["b"])
        return [
            module.from_numpy_array(matrix, **empty),
            module.from_numpy_array(matrix, vertices=["x", "y", "z"], **empty),
            module.from_numpy_matrix(np.asmatrix(matrix), **empty),
            module.from_pandas_adjacency(pd.DataFrame(matrix, columns=[5, 6, 7], index=[5, 6, 7]), **empty),
            listed,
            module.hypergraph(events)["graph"],
        ]

    for mine, theirs in zip(graphs(drop_in), graphs(real), strict=True):
        compare_frames(mine, theirs)
        new = mine.nodes().to_pandas().tolist()[:2]
        weights = ([1.0],) if mine.is_weighted() else ()
        assert mine.insert_edges(([new[0]], [new[0]], *weights)).inserted == 1


def compare_frames(mine: Any, theirs: Any) -> None:
    """Compare what two graphs show of nodes and edges, with names and types.

    The ends of undirected edges of strings are in the order of the strings; in cuGraph they are in that of its numbers,
    which may be another one.
    """
    assert mine.nodes().to_pandas().tolist() == theirs.nodes().to_pandas().tolist()
    assert mine.nodes().dtype == theirs.nodes().dtype
    frames = [G.view_edge_list() for G in (mine, theirs)]
    assert sorted(frames[0].columns) == sorted(frames[1].columns)
    names = list(frames[0].columns)  # the ends first
    assert frames[0].dtypes.tolist() == frames[1][names].dtypes.tolist()
    rows = [sorted(frame[names].to_pandas().itertuples(index=False, name=None)) for frame in frames]
    if not mine.is_directed() and mine.renumbered:
        assert all(u <= v for u, v, *_ in rows[0])
        rows[1] = sorted((*sorted(row[:2]), *row[2:]) for row in rows[1])
    assert rows[0] == rows[1]


@pytest.mark.parametrize(("directed", "weighted"), SHAPES)
@pytest.mark.parametrize("kind", ["sparse", "strings"])
def test_views_are_cugraphs_to_the_name_and_type(
    real: Any, drop_in: Any, kind: str, directed: bool, weighted: bool
) -> None:
    import cudf

    pairs = np.unique(np.sort(np.random.default_rng(7).integers(0, 40, (2, 150)), axis=0), axis=1)
    ids = [KINDS[kind](column) for column in pairs]
    frame = cudf.DataFrame({"from": ids[0], "to": ids[1]})
    if weighted:
        frame["cost"] = np.arange(pairs.shape[1], dtype=np.float32)
    graphs = []
    for module in (drop_in, real):
        G = module.Graph(directed=directed)
        G.from_cudf_edgelist(frame, "from", "to", edge_attr="cost" if weighted else None)
        graphs.append(G)
    compare_frames(*graphs)
    mine, theirs = graphs
    given = [G.input_df.to_pandas() for G in graphs]
    assert list(given[0].columns) == list(given[1].columns)
    assert len(given[0]) == len(given[1])
    node = mine.nodes().to_pandas().tolist()[0]
    assert mine.neighbors(node).dtype == theirs.neighbors(node).dtype
    if kind == "sparse":
        table = cudf.DataFrame({"vertex": mine.nodes(), "x": 1})
        assert sorted(mine.unrenumber(table, "vertex")["vertex"].to_pandas()) == mine.nodes().to_pandas().tolist()
        assert sorted(mine.lookup_internal_vertex_id(mine.nodes()).to_pandas()) == mine.nodes().to_pandas().tolist()
        assert mine.view_adj_list()[0].dtype == np.int32


def test_an_emptied_graph_is_filled_again(drop_in: Any) -> None:
    import cudf

    frame = cudf.DataFrame({"a": [5, 6], "b": [6, 7]})
    G = drop_in.Graph(directed=True)
    assert G.insert_edges(frame, "a", "b").inserted == 2
    G.delete_edge_list()
    assert abs(drop_in.pagerank(G)["pagerank"].sum() - 1) < 1e-5
    for empty in (G.delete_edge_list, G.clear):
        empty()
        G.from_cudf_edgelist(frame[:1], "a", "b")
        G.insert_edges(([6], [9]))
        assert by_vertex(drop_in.bfs(G, 5), "distance") == {5: 0, 6: 1, 9: 2}


def test_functions_that_read_types_make_no_frame_of_all_edges(
    real: Any, drop_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cudf

    from dynstore.adapters.cugraph.edge_lists import LiveEdgeList

    rng = np.random.default_rng(3)
    frame = cudf.DataFrame(dict(zip(("a", "b"), 3 * rng.integers(0, 300, (2, 2000)), strict=True)))
    frame["w"] = rng.random(2000)
    G = drop_in.Graph()
    G.from_cudf_edgelist(frame, "a", "b", edge_attr="w")
    some = G.nodes()[:3]
    monkeypatch.setattr(LiveEdgeList, "_frame", lambda self: pytest.fail("a frame of all edges was made"))
    pairs = cudf.DataFrame({"first": some, "second": some[::-1].reset_index(drop=True)})
    personal = cudf.DataFrame({"vertex": some, "values": np.full(3, 1 / 3)})
    drop_in.pagerank(G, personalization=personal)
    drop_in.jaccard(G, pairs)
    drop_in.overlap(G, pairs)
    drop_in.sorensen(G, pairs)
    drop_in.ego_graph(G, int(some.iloc[0]))
    drop_in.induced_subgraph(G, some)
    drop_in.triangle_count(G, some.to_pandas().tolist())
    drop_in.uniform_random_walks(G, some.to_pandas().tolist(), 4)
    drop_in.homogeneous_neighbor_sample(G, some, [0, len(some)], [2, 2], with_replacement=False)
    drop_in.betweenness_centrality(G, k=some.to_pandas().tolist())
    G.degree([int(some.iloc[0])])


def test_what_cugraph_refuses_is_refused_alike(real: Any, drop_in: Any) -> None:
    import cudf

    frame = cudf.DataFrame({"a": [0, 1], "b": [1, 2], "w": [1.0, 2.0]})

    def graph(module: Any, directed: bool = False, **options: Any) -> Any:
        G = module.Graph(directed=directed)
        G.from_cudf_edgelist(frame, "a", "b", **options)
        return G

    cases: list[Callable[[Any], Any]] = [
        lambda module: module.bfs(graph(module)),
        lambda module: module.bfs(graph(module), start=0, i_start=0),
        lambda module: module.bfs(graph(module), start=0, directed=True),
        lambda module: module.bfs(graph(module), start=99),
        lambda module: module.sssp(graph(module), 0),
        lambda module: module.sssp(graph(module, edge_attr="w"), 99),
        lambda module: module.sssp(graph(module, edge_attr="w"), 0, method="x"),
        lambda module: module.triangle_count(graph(module, True)),
        lambda module: module.core_number(graph(module, True)),
        lambda module: module.weakly_connected_components(graph(module, True)),
        lambda module: module.connected_components(graph(module), connection="x"),
        lambda module: module.pagerank(graph(module, True), tol=1e-12, max_iter=1),
        lambda module: graph(module).from_cudf_edgelist(frame, "a", "b"),
        lambda module: graph(module, True, symmetrize=True),
        lambda module: graph(module, edge_attr="nothing"),
        lambda module: graph(module, edge_id="w"),
        lambda module: module.Graph(3),
        lambda module: module.Graph().from_cudf_edgelist(frame, "a", "x"),
        lambda module: module.Graph().from_cudf_edgelist("frame", "a", "b"),
        lambda module: module.Graph().from_cudf_edgelist(frame.astype({"a": "uint32"}), "a", "b", renumber=False),
    ]
    for number, case in enumerate(cases):
        with pytest.raises(Exception) as theirs:
            case(real)
        with pytest.raises(Exception) as mine:
            case(drop_in)
        assert mine.type is theirs.type, f"case {number}: {mine.type.__name__}, cuGraph: {theirs.type.__name__}"


def test_dynamic_graphs_go_straight_into_functions(drop_in: Any) -> None:
    graph = dynstore.DynamicGraph(device="cuda", directed=False, renumber=True)
    graph.insert_edges((["x", "y", "x"], ["y", "z", "z"]))
    assert by_vertex(drop_in.triangle_count(graph), "counts") == {"x": 1, "y": 1, "z": 1}
    assert by_vertex(drop_in.bfs(graph, "x"), "distance") == {"x": 0, "y": 1, "z": 1}
    graph.delete_edges((["x"], ["z"]))
    assert by_vertex(drop_in.bfs(graph, "x"), "distance") == {"x": 0, "y": 1, "z": 2}
    assert dynstore.explain(graph).name == "bfs"


def test_the_benchmark_agrees(tmp_path: Any) -> None:
    """In a process of its own: it makes a memory pool."""
    out = tmp_path / "out.json"
    command = [
        sys.executable,
        "-m",
        "benchmarks.beside_cugraph.drop_in",
        "--scale",
        "12",
        "--steps",
        "4",
        "--drift",
        "5",
    ]
    done = subprocess.run(
        [*command, "--pool", str(1 << 28), "--json", str(out)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert out.is_file()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_direct_results_are_cugraphs_own(real: Any, drop_in: Any, directed: bool, weighted: bool) -> None:
    """With cuGraph's kernels, past its Python; own kernels are in test_gpu_own.py."""
    import cudf

    rng = np.random.default_rng(5)
    src, dst = 10 + 3 * (rng.zipf(1.5, (2, 4000)) % 900)
    graph = dynstore.DynamicGraph(directed=directed, weighted=weighted, device="cuda", renumber=True)
    graph.insert_edges((src, dst, rng.integers(1, 9, 4000) / 2) if weighted else (src, dst))
    start = int(src[0])
    calls: list[tuple[str, dict[str, Any]]] = [
        ("bfs", {"start": start}),
        ("bfs", {"start": start, "depth_limit": 2}),
        ("bfs", {"start": start, "return_predecessors": False}),
        ("pagerank", {"tol": 1e-7, "max_iter": 500}),
        ("pagerank", {"max_iter": 2, "fail_on_nonconvergence": False}),
    ]
    calls += [("sssp", {"source": start}), ("sssp", {"source": start, "cutoff": 3.0})] if weighted else []
    calls += [] if directed else [("weakly_connected_components", {})]
    for name, given in calls:
        got = getattr(drop_in, name)(graph, **given, engine="cugraph")
        wanted = getattr(real, name)(drop_in.as_cugraph(graph), **given)
        assert type(got) is type(wanted)
        if isinstance(wanted, tuple):
            assert got[1] == wanted[1]
            got, wanted = got[0], wanted[0]
        assert isinstance(got, cudf.DataFrame)
        assert list(got.columns) == list(wanted.columns)
        assert got.dtypes.tolist() == wanted.dtypes.tolist()
        one, other = (frame.to_pandas().sort_values("vertex") for frame in (got, wanted))
        for column in wanted.columns:
            if name == "pagerank" and column == "pagerank":
                np.testing.assert_allclose(one[column], other[column], atol=1e-6)
            elif column == "predecessor":  # one of several may win
                assert ((one[column] < 0).to_numpy() == (other[column] < 0).to_numpy()).all()
            elif column == "labels":  # any of a component's vertices
                pairs = set(zip(one[column].tolist(), other[column].tolist(), strict=True))
                assert len(pairs) == one[column].nunique() == other[column].nunique()
            else:
                np.testing.assert_array_equal(one[column], other[column])
    with pytest.raises(real.exceptions.FailedToConvergeError):
        drop_in.pagerank(graph, tol=1e-12, max_iter=2, engine="cugraph")
