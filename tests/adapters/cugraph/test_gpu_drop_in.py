"""The drop-in's functions against cuGraph's own: needs a GPU with RAPIDS."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynstore
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
    static = drop_in.from_cudf_edgelist(cudf.DataFrame(frame), ["a"], ["b"])
    assert "more than one column" in dynstore.explain(static).reason


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
        "dynstore.benchmarks.drop_in_suite",
        "--scale",
        "12",
        "--steps",
        "4",
        "--drift",
        "5",
    ]
    done = subprocess.run(
        [*command, "--pool", str(1 << 28), "--json", str(out)], capture_output=True, text=True, check=False
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
