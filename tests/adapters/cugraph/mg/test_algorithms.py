"""cuGraph's algorithms on a sharded graph: what is passed on to pylibcugraph, and the frames that come back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dynstore.adapters.cugraph import mg
from dynstore.distributed import Communicator, ShardedGraph
from dynstore.errors import InputError, InputTypeError
from tests.adapters.cugraph.mg.stand_ins import rapids, run

__all__ = ["rapids"]  # a fixture

# For each function: what it is called with, what pylibcugraph has to get, and the columns of its frame.
CALLS: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "louvain": ({"resolution": 0.5}, {"max_level": 100, "threshold": 1e-7, "resolution": 0.5}, ["partition"]),
    "leiden": (
        {"random_state": 7},
        {"max_level": 100, "resolution": 1.0, "random_state": 7, "theta": 1.0},
        ["partition"],
    ),
    "core_number": ({}, {"degree_type": "bidirectional"}, ["core_number"]),
    "hits": (
        {"tol": 1e-3},
        {
            "tol": 1e-3,
            "max_iter": 100,
            "normalized": True,
            "initial_hubs_guess_vertices": None,
            "initial_hubs_guess_values": None,
        },
        ["hubs", "authorities"],
    ),
    "katz_centrality": (
        {"max_iter": 9},
        {"betas": None, "alpha": 1 / 6, "beta": 1.0, "epsilon": 1e-6, "max_iterations": 9},
        ["katz_centrality"],
    ),
    "eigenvector_centrality": ({}, {"epsilon": 1e-6, "max_iterations": 100}, ["eigenvector_centrality"]),
}
TRANSPOSED = ("hits", "katz_centrality", "eigenvector_centrality")
EDGES = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("x", "y")]  # c has three neighbours


@pytest.mark.parametrize("name", CALLS)
def test_what_is_called_and_what_comes_back(rapids: SimpleNamespace, name: str) -> None:
    given, wanted, columns = CALLS[name]

    def function(resource_handle: Any, graph: Any, do_expensive_check: bool, **options: Any) -> Any:
        assert resource_handle == ("handle", 4711)
        assert graph.transposed == (name in TRANSPOSED)
        assert not do_expensive_check
        seed = options.get("random_state")
        assert {**options, **({} if seed is None else {"random_state": 7})} == wanted
        values = [graph.numbers * 10.0 + place for place in range(len(columns))]
        return (graph.numbers, *values, *([0.25] if columns == ["partition"] else []))

    setattr(rapids.modules["pylibcugraph"], name, function)

    def program(comm: Communicator) -> Any:
        G = ShardedGraph(comm, directed=False, renumber=True, frames="pandas")
        G.insert_edges(EDGES[comm.rank :: comm.size])
        found = getattr(mg, name)(G, **given)
        if columns == ["partition"]:
            found, modularity = found
            assert modularity == 0.25
        assert list(found.columns) == ["vertex", *columns]
        rows = {vertex: row for row, vertex in enumerate(G.vertex_ids())}
        numbers = np.array([rows[vertex] for vertex in found["vertex"]], dtype=np.int32)
        assert (np.diff(numbers) > 0).all()
        assert (G._owners(numbers) == comm.rank).all()
        for place, column in enumerate(columns):
            assert found[column].tolist() == (numbers * 10.0 + place).tolist()
        return found["vertex"].tolist()

    assert sorted(vertex for part in run(program, 2) for vertex in part) == ["a", "b", "c", "d", "x", "y"]


def test_what_is_refused(rapids: SimpleNamespace) -> None:
    def program(comm: Communicator) -> None:
        G = ShardedGraph(comm)
        for name in ("louvain", "leiden", "core_number"):
            with pytest.raises(InputError, match=f"{name}: input graph must be undirected; got ShardedGraph"):
                getattr(mg, name)(G)
        with pytest.raises(InputError, match="katz_centrality: alpha is -1; wanted more than 0, or None"):
            mg.katz_centrality(G, alpha=-1)
        for name in CALLS:
            with pytest.raises(InputTypeError, match=f"{name}: G is a .*DynamicGraph; wanted a ShardedGraph"):
                getattr(mg, name)(G.shard)

    run(program, 2)
