"""Graphs of dynstore beside cuGraph's own, and how their results compare: for tests on a GPU with RAPIDS.

Importing this skips the module that imports it where there is none.
"""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynstore
from tests.conftest import DEVICES

if "cuda" not in DEVICES:
    pytest.skip("needs a GPU: DYNSTORE_TEST_DEVICES=cuda", allow_module_level=True)
if importlib.util.find_spec("cugraph") is None:
    pytest.skip("needs RAPIDS: pip install 'dynstore[rapids]'", allow_module_level=True)

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
    for name in ("degree", "in_degree", "out_degree"):
        same(*(by_vertex(getattr(G, name)(), "degree") for G in (live, theirs)), kind)
    same(by_vertex(real.bfs(live, start), "distance"), by_vertex(real.bfs(theirs, start), "distance"), kind)
    if kind != "strings":  # without its isolated vertices a graph has other ranks
        ranks = [by_vertex(real.pagerank(G, tol=1e-6, max_iter=500), "pagerank") for G in (live, theirs)]
        same(*ranks, kind, 1e-5)
    if graph.is_weighted():
        same(*(by_vertex(real.sssp(G, start), "distance") for G in (live, theirs)), kind, 1e-5)
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
