"""The live graph and the drop-in against cuGraph's own graphs, built afresh: needs a GPU with RAPIDS.

Everything runs on borrowed graphs and, as where there is no compiler, on SGGraph.
"""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore.adapters import live_graph
from dynstore.adapters.borrowed.loading import Bridge, load_bridge
from dynstore.adapters.cugraph_graph import as_cugraph
from dynstore.adapters.packed import packed_rows
from tests.conftest import DEVICES

if "cuda" not in DEVICES:
    pytest.skip("needs a GPU: DYNSTORE_TEST_DEVICES=cuda", allow_module_level=True)
if importlib.util.find_spec("cugraph") is None:
    pytest.skip("needs RAPIDS: pip install 'dynstore[rapids]'", allow_module_level=True)

# The GPU's libraries warn of their own ways; pytest.ini of this project would make that an error.
pytestmark = pytest.mark.filterwarnings("ignore")

KINDS: dict[str, Callable[[np.ndarray], Any]] = {
    "dense": lambda numbers: numbers,
    "sparse": lambda numbers: numbers * 37 + 5,
    "wide": lambda numbers: numbers * 7_000_000_000 + 3,
    "strings": lambda numbers: np.array([f"v{number:05}" for number in numbers.tolist()], dtype=object),
}
SHAPES = [(directed, weighted) for directed in (True, False) for weighted in (True, False)]
VERTICES = 3000


@pytest.fixture(scope="module")
def real() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module("cugraph")


@pytest.fixture(params=["borrowed", "rebuilt"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    bridge = load_bridge()
    if request.param == "rebuilt":
        monkeypatch.setattr(live_graph, "load_bridge", lambda: Bridge(None, "as without a compiler"))
    elif bridge.borrowed_graph is None:
        pytest.skip(f"no library to borrow graphs with: {bridge.reason}")
    return str(request.param)


def test_the_library_was_built_and_passed_its_test() -> None:
    bridge = load_bridge()
    if "BorrowedGraph: " in bridge.reason:  # what building needs is not there, and the reason says what
        pytest.skip(bridge.reason)
    assert bridge.borrowed_graph is not None, bridge.reason


class Pair:
    """A DynamicGraph under updates; hubs of more than 1024 edges, self-loops and isolated vertices among them."""

    def __init__(self, kind: str, directed: bool, weighted: bool, **options: Any) -> None:
        self.rng = np.random.default_rng(11)
        self.kind, self.weighted = kind, weighted
        self.graph = dynstore.DynamicGraph(
            directed=directed, weighted=weighted, device="cuda", renumber=kind != "dense", **options
        )
        hub = np.zeros(VERTICES // 2, np.int64), self.rng.permutation(VERTICES)[: VERTICES // 2]
        rest = self.rng.zipf(1.6, (2, 9000)) % VERTICES
        self.insert(np.concatenate((hub[0], rest[0])), np.concatenate((hub[1], rest[1])))
        self.graph.insert_vertices(KINDS[kind](np.arange(VERTICES + 20)))

    def insert(self, src: np.ndarray, dst: np.ndarray) -> None:
        ids = [KINDS[self.kind](column) for column in (src, dst)]
        weights = self.rng.integers(1, 64, src.shape[0]) / 16
        self.graph.insert_edges((*ids, weights) if self.weighted else tuple(ids))

    def update(self) -> None:
        """Insert some edges, and delete a tenth of them all."""
        table = self.graph.edge_table()
        src, dst = table["source"].to_pandas().to_numpy(), table["destination"].to_pandas().to_numpy()
        gone = self.rng.random(src.shape[0]) < 0.1
        self.graph.delete_edges((src[gone], dst[gone]))
        new = self.rng.integers(0, VERTICES + 40, (2, 800))
        self.insert(*new)

    def afresh(self, real: Any) -> Any:
        """Build cuGraph's own graph of the same edges and vertices."""
        import cudf

        table, vertices = cudf.DataFrame(self.graph.edge_table()), None
        if self.kind != "strings":  # cuGraph cannot be told of isolated vertices by strings
            dtype = "int64" if self.kind == "wide" else self.graph.vertex_dtype.name
            table = table.astype({"source": dtype, "destination": dtype})
            vertices = cudf.Series(self.graph.vertex_ids()).astype(dtype)
        made = real.Graph(directed=self.graph.is_directed())
        weight = "weight" if self.weighted else None
        made.from_cudf_edgelist(table, "source", "destination", edge_attr=weight, vertices=vertices)
        return made


def by_vertex(frame: Any, column: str) -> dict[Any, Any]:
    table = frame.to_pandas()
    return dict(zip(table["vertex"].tolist(), table[column].tolist(), strict=True))


def partition(frame: Any) -> set[frozenset[Any]]:
    table = frame.to_pandas()
    return {frozenset(group["vertex"].tolist()) for _, group in table.groupby("labels")}


def same(mine: dict[Any, Any], theirs: dict[Any, Any], kind: str, tolerance: float = 0.0) -> None:
    """Compare results by vertex; cuGraph's own graph of strings has no isolated vertices."""
    missing = set(theirs) ^ set(mine) if kind != "strings" else set(theirs) - set(mine)
    assert not missing, f"{len(missing)} vertices differ, such as {sorted(missing)[:3]}"
    for vertex, value in theirs.items():
        assert mine[vertex] == pytest.approx(value, abs=tolerance, rel=tolerance), f"vertex {vertex}"


def compare(real: Any, pair: Pair, live: Any) -> None:
    theirs, kind, graph = pair.afresh(real), pair.kind, pair.graph
    start = KINDS[kind](np.array([0]))[0]
    start = start if kind == "strings" else int(start)
    same(by_vertex(real.bfs(live, start), "distance"), by_vertex(real.bfs(theirs, start), "distance"), kind)
    if kind != "strings":  # without its isolated vertices a graph has other ranks
        ranks = [by_vertex(real.pagerank(G, tol=1e-6, max_iter=500), "pagerank") for G in (live, theirs)]
        same(*ranks, kind, 1e-5)
    if graph.is_weighted():
        same(*(by_vertex(real.sssp(G, start), "distance") for G in (live, theirs)), kind, 1e-5)
    for name in ("degree", "in_degree", "out_degree"):
        same(*(by_vertex(getattr(G, name)(), "degree") for G in (live, theirs)), kind)
    if not graph.is_directed():
        same(*(by_vertex(real.triangle_count(G), "counts") for G in (live, theirs)), kind)
        same(*(by_vertex(real.core_number(G), "core_number") for G in (live, theirs)), kind)
        parts = [partition(real.weakly_connected_components(G)) for G in (live, theirs)]
        assert {part for part in parts[0] if len(part) > 1} == {part for part in parts[1] if len(part) > 1}
    compare_views(pair, live, theirs)


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(frame.to_pandas().itertuples(index=False, name=None))


def compare_views(pair: Pair, live: Any, theirs: Any) -> None:
    names = list(live.view_edge_list().columns)
    assert sorted(names) == sorted(theirs.view_edge_list().columns)
    undirected = not pair.graph.is_directed()

    def turned(table: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return sorted((*sorted(row[:2]), *row[2:]) if undirected else row for row in table)

    assert turned(rows(live.view_edge_list())) == turned(rows(theirs.view_edge_list()[names]))
    assert turned(rows(live.edges())) == turned(rows(theirs.edges()))
    assert live.number_of_edges() == theirs.number_of_edges()
    assert live.number_of_edges(directed_edges=True) == theirs.number_of_edges(directed_edges=True)
    if pair.kind == "strings":
        assert set(theirs.nodes().to_pandas()) <= set(live.nodes().to_pandas())
    else:
        assert live.nodes().to_pandas().tolist() == theirs.nodes().to_pandas().tolist()
        assert live.nodes().dtype == theirs.nodes().dtype
        assert live.number_of_vertices() == theirs.number_of_vertices()
        assert live.density() == pytest.approx(theirs.density())
    assert live.is_weighted() == theirs.is_weighted()
    assert live.is_directed() == theirs.is_directed()
    edges = rows(pair.graph.edge_table())
    for u, v, *_ in edges[:: max(1, len(edges) // 10)]:
        assert live.has_edge(u, v)
        assert live.has_node(u)
        found = set(live.neighbors(u).to_pandas())
        wanted = {b for a, b, *_ in edges if a == u} | ({a for a, b, *_ in edges if b == u} if undirected else set())
        assert found == wanted
    assert not live.has_node("nobody" if pair.kind == "strings" else 10**9 + 1)
    if pair.kind == "dense" and not undirected:
        for mine, own in zip(live.view_adj_list(), theirs.view_adj_list(), strict=True):
            assert (mine is None) == (own is None)
            if mine is not None and len(mine) == len(own):  # cuGraph's rows end at the highest source or target
                assert mine.to_pandas().tolist() == pytest.approx(own.to_pandas().tolist())


@pytest.mark.parametrize(("directed", "weighted"), SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_live_graph_agrees_with_one_built_afresh(
    real: Any, path: str, kind: str, directed: bool, weighted: bool
) -> None:
    pair = Pair(kind, directed, weighted)
    live = as_cugraph(pair.graph)
    assert type(live) is real.Graph
    compare(real, pair, live)
    assert dynstore.explain(live).path == path
    pair.update()
    compare(real, pair, live)


@pytest.mark.parametrize(("vertex_dtype", "weight_dtype"), [("int64", "float32"), ("int32", "float64")])
def test_other_types(real: Any, path: str, vertex_dtype: str, weight_dtype: str) -> None:
    pair = Pair("dense", True, True, vertex_dtype=vertex_dtype, weight_dtype=weight_dtype)
    live = as_cugraph(pair.graph)
    compare(real, pair, live)
    assert real.bfs(live, 0)["vertex"].dtype == vertex_dtype
    assert real.pagerank(live)["pagerank"].dtype == weight_dtype


@pytest.mark.parametrize("weighted", [False, True])
def test_algorithms_that_pull_and_others_take_turns(real: Any, path: str, weighted: bool) -> None:
    """Whatever transposes its graph in place leaves the rows that it was lent as they are."""
    pair = Pair("sparse", True, weighted)
    live = as_cugraph(pair.graph)
    theirs = pair.afresh(real)
    kept = [packed_rows(pair.graph, way) for way in (False, True)]
    before = [(kept_rows.offsets.copy(), kept_rows.indices.copy()) for kept_rows in kept]
    for _ in range(2):
        same(*(by_vertex(real.hits(G, max_iter=500, tol=1e-6), "hubs") for G in (live, theirs)), "sparse", 1e-3)
        same(*(by_vertex(real.bfs(G, 5), "distance") for G in (live, theirs)), "sparse")
        same(*(by_vertex(real.pagerank(G, tol=1e-6, max_iter=500), "pagerank") for G in (live, theirs)), "sparse", 1e-5)
    for (offsets, indices), after in zip(before, kept, strict=True):
        assert bool((offsets == after.offsets).all())
        assert bool((indices == after.indices).all())


def test_the_wrong_orientation_gives_the_same_ranks(real: Any, path: str) -> None:
    import pylibcugraph

    pair = Pair("sparse", True, True)
    live, handle = as_cugraph(pair.graph), pylibcugraph.ResourceHandle()
    found = []
    for transposed in (True, False):
        graph = live._Impl.lend(transposed)
        vertices, ranks = pylibcugraph.pagerank(handle, graph, None, None, None, None, 0.85, 1e-6, 500, False)
        found.append(dict(zip(vertices.tolist(), ranks.tolist(), strict=True)))
    assert found[0] == pytest.approx(found[1], abs=1e-6)
    assert live.number_of_edges(directed_edges=True) == len(live.decompress_to_edgelist())


def test_segments_of_a_drifted_order_change_no_result(real: Any) -> None:
    """Hubs that come after the build stand behind the segments; those whose edges went stay in front."""
    if load_bridge().borrowed_graph is None:
        pytest.skip(load_bridge().reason)
    pair = Pair("sparse", False, False)
    late = np.full(1600, VERTICES + 15), np.arange(1600)
    pair.insert(*late)
    gone = np.zeros(VERTICES // 4, np.int64), np.arange(VERTICES // 4)
    pair.graph.delete_edges(tuple(KINDS["sparse"](column) for column in gone))
    assert packed_rows(pair.graph).segments is not None
    compare(real, pair, as_cugraph(pair.graph))
    before = packed_rows(pair.graph).segments
    pair.graph.reorder()
    compare(real, pair, as_cugraph(pair.graph))
    assert packed_rows(pair.graph).segments is not None, before


def test_a_lent_graph_outlives_later_versions(real: Any) -> None:
    import pylibcugraph

    if load_bridge().borrowed_graph is None:
        pytest.skip(load_bridge().reason)
    graph = dynstore.DynamicGraph(device="cuda")
    graph.insert_edges(([0, 1], [1, 2]))
    live, handle = as_cugraph(graph), pylibcugraph.ResourceHandle()
    lent = live._Impl.lend()
    for number in range(20):
        graph.insert_edges((np.arange(50) + number, np.arange(50) * 3))
        real.bfs(live, 0)
    assert lent.number_of_vertices() == 3
    distances, _, vertices = pylibcugraph.bfs(handle, lent, _array([0]), False, -1, True, False)
    assert dict(zip(vertices.tolist(), distances.tolist(), strict=True)) == {0: 0, 1: 1, 2: 2}


def _array(values: list[int]) -> Any:
    import cupy

    return cupy.asarray(values, dtype=np.int32)


def test_lending_leaks_no_memory(real: Any) -> None:
    import cupy

    if load_bridge().borrowed_graph is None:
        pytest.skip(load_bridge().reason)
    pair = Pair("sparse", True, True)
    live = as_cugraph(pair.graph)
    real.pagerank(live), real.bfs(live, 5)
    free = cupy.cuda.runtime.memGetInfo()[0]
    for _ in range(2000):
        live._Impl.lend(False), live._Impl.lend(True)
    assert free - cupy.cuda.runtime.memGetInfo()[0] < 64 << 20


def test_updates_on_a_stream_of_the_users_own_are_seen(real: Any, path: str) -> None:
    import cupy

    graph = dynstore.DynamicGraph(device="cuda", directed=False)
    live = as_cugraph(graph)
    for number in range(5):
        with cupy.cuda.Stream(non_blocking=True):
            leaves = cupy.arange(1, 200_000 * (number + 1), dtype=np.int32)
            graph.insert_edges((cupy.zeros_like(leaves), leaves))
        labels = real.weakly_connected_components(live)["labels"]
        assert labels.nunique() == 1


def test_an_emptied_graph(real: Any, path: str) -> None:
    graph = dynstore.DynamicGraph(device="cuda", weighted=True)
    graph.insert_edges(([0, 1], [1, 2], [1.0, 2.0]))
    live = as_cugraph(graph)
    graph.delete_edges(([0, 1], [1, 2]))
    assert live.number_of_edges() == 0
    assert len(live.view_edge_list()) == 0
    distances = by_vertex(real.bfs(live, 0), "distance")
    assert distances == {0: 0, 1: np.iinfo(np.int32).max, 2: np.iinfo(np.int32).max}


def test_more_of_cugraph_runs_on_a_live_graph(real: Any, path: str) -> None:
    pair = Pair("sparse", False, True)
    live = as_cugraph(pair.graph)
    parts, modularity = real.louvain(live)
    assert len(parts) == pair.graph.number_of_vertices()
    assert modularity > 0
    betweenness = real.betweenness_centrality(live, k=5, random_state=1)
    assert len(betweenness) == pair.graph.number_of_vertices()
    assert real.k_core(live, 2).number_of_edges() > 0
    assert real.katz_centrality(live, alpha=1e-4)["katz_centrality"].sum() > 0
    assert real.eigenvector_centrality(live, max_iter=1000, tol=1e-3)["eigenvector_centrality"].sum() > 0
    assert live.select_random_vertices(num_vertices=5).isin(live.nodes()).all()
    assert live.to_directed().number_of_edges() == live.number_of_edges(directed_edges=True)
    assert set(live.get_two_hop_neighbors(live.nodes()[:1]).columns) == {"first", "second"}


def test_a_graph_on_the_host_is_copied_to_the_gpu(real: Any, path: str) -> None:
    graph = dynstore.DynamicGraph(device="cpu")
    graph.insert_edges(([0, 1], [1, 2]))
    live = as_cugraph(graph)
    assert by_vertex(real.bfs(live, 0), "distance") == {0: 0, 1: 1, 2: 2}
    assert "copied to the GPU" in dynstore.explain(live).copied or path == "rebuilt"


# ---------------------------------------------------------------------- the drop-in


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
