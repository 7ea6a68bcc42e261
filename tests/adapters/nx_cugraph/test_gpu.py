"""NetworkX's calls on a live graph, run by nx-cugraph, against NetworkX's own: needs a GPU with nx-cugraph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore.adapters.nx_cugraph import as_nx_cugraph
from tests.conftest import DEVICES

if "cuda" not in DEVICES:
    pytest.skip("needs a GPU: DYNSTORE_TEST_DEVICES=cuda", allow_module_level=True)
nx = pytest.importorskip("networkx")
pytest.importorskip("nx_cugraph")

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("renumber", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_results_are_those_of_networkx(directed: bool, renumber: bool) -> None:
    rng = np.random.default_rng(8)
    G = dynstore.DynamicGraph(device="cuda", directed=directed, weighted=True, renumber=renumber)
    live = as_nx_cugraph(G)
    for _ in range(3):
        ends = rng.integers(0, 60, (2, 150)) * (1000 if renumber else 1)
        G.insert_edges((*ends, rng.integers(1, 9, 150).astype(np.float32)))
        G.delete_edges(G.to_pandas().iloc[::7])
        plain = G.to_networkx()
        start = int(ends[0, 0])
        assert set(live) == set(plain)
        assert live.number_of_edges() == plain.number_of_edges()
        close(nx.pagerank(live, tol=1e-8), nx.pagerank(plain, tol=1e-8, backend="networkx"))
        assert dynstore.explain(G).path == "borrowed"
        for u, v in ((live, plain), (live.reverse(), plain.reverse())) if directed else ((live, plain),):
            close(nx.single_source_shortest_path_length(u, start), distances(v, start))
        close(nx.betweenness_centrality(live), nx.betweenness_centrality(plain, backend="networkx"))
        assert nx.ancestors(live, start) == nx.ancestors(plain, start, backend="networkx") if directed else True
        find = nx.weakly_connected_components if directed else nx.connected_components
        assert parts(find(live)) == parts(find(plain, backend="networkx"))
        if not directed:
            assert nx.triangles(live) == nx.triangles(plain, backend="networkx")
        lengths = nx.single_source_dijkstra_path_length(live, start)
        close(lengths, nx.single_source_dijkstra_path_length(plain, start, backend="networkx"))


def distances(graph: Any, start: int) -> dict[Any, int]:
    return dict(nx.single_source_shortest_path_length(graph, start, backend="networkx"))


def parts(found: Any) -> set[frozenset[Any]]:
    return {frozenset(part) for part in found}


def close(found: dict[Any, float], wanted: dict[Any, float]) -> None:
    assert set(found) == set(wanted)
    nodes = list(wanted)
    np.testing.assert_allclose([found[v] for v in nodes], [wanted[v] for v in nodes], rtol=1e-3, atol=1e-6)
