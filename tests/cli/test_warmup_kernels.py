"""``dynstore warmup`` compiles what a first call through the drop-in launches: the same kernels for the same types."""

from __future__ import annotations

import os
import sys
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore.cli import warmup
from tests.adapters.cugraph.stand_ins import rapids
from tests.cli.launched import launches
from tests.crossed import pair_up

__all__ = ["rapids"]  # a fixture

pytestmark = [
    pytest.mark.skipif(os.environ.get("NUMBA_ENABLE_CUDASIM") != "1", reason="launches are listed in the simulator"),
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),
]
BUILT, FIRST = 40, 40  # edges that the warm-up, and a user's program, begin with
FUNCTIONS = (
    "bfs", "sssp", "pagerank", "weakly_connected_components", "triangle_count", "louvain", "betweenness_centrality"
)  # fmt: skip


@pytest.fixture
def cugraph(rapids: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The drop-in over stand-ins, its graphs in the simulator."""
    pytest.importorskip("greenlet", reason="the simulator needs greenlet")
    from dynstore.adapters.cugraph import build

    for name in FUNCTIONS:
        setattr(rapids.cugraph, name, lambda G, *args, **options: G._plc_graph)
    rapids.modules["cugraph.exceptions"] = SimpleNamespace(FailedToConvergeError=BufferError)
    monkeypatch.setitem(sys.modules, "cudf", rapids.modules["cudf"])
    monkeypatch.setattr(
        build, "DynamicGraph", lambda **options: dynstore.DynamicGraph(**{**options, "device": "cuda-sim"})
    )
    return rapids.drop_in


@pytest.fixture(scope="module")
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def first_calls(cugraph: Any, frame: pd.DataFrame, directed: bool, renumber: bool) -> None:
    """Fill a graph and call all functions that have own kernels; then update it and call some again."""
    G, start = cugraph.Graph(directed=directed), frame["source"][0]
    G.from_cudf_edgelist(frame, edge_attr="weight" if "weight" in frame else None, renumber=renumber)
    start = start if isinstance(start, str) else int(start)
    for engine in ("dynstore", "cugraph"):
        cugraph.bfs(G, start, engine=engine)
        cugraph.pagerank(G, max_iter=500, engine=engine)
    cugraph.bfs(G, start, depth_limit=2)
    if "weight" in frame:
        cugraph.sssp(G, start)
        cugraph.sssp(G, start, cutoff=4)
    if not directed:
        cugraph.weakly_connected_components(G)
        cugraph.triangle_count(G)
    cugraph.betweenness_centrality(G, k=None if isinstance(start, str) else [start])
    G.degree()
    G.insert_edges(frame[:3])
    G.delete_edges(frame[:3])
    cugraph.bfs(G, start)
    cugraph.pagerank(G, max_iter=500)


def test_a_first_call_launches_what_was_compiled(
    cugraph: Any, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(warmup.BUILT, "cuda-sim", 20)  # enough for first calls
    with launches() as compiled:
        for step in warmup._drop_in_steps(BUILT):
            step.run()
        for directed, weighted, ids in product((True, False), (False, True), warmup.ID_KINDS):
            warmup._Example("cuda-sim", directed, weighted, ids).update()
            if ids == warmup.ID_KINDS[0]:
                warmup._Example("cuda-sim", directed, weighted, ids).compute()
    ids = [("int32", True), ("int32", False), ("int64", True), ("int64", False), ("str", True)]
    missed = {}
    for directed, weights, (dtype, renumber) in pair_up(
        (True, False), (None, "float32", "float64", "int32", "int64"), ids
    ):
        ends = rng.integers(0, 9, (2, FIRST)).astype(dtype)
        frame = pd.DataFrame({"source": ends[0], "destination": ends[1]})
        if weights is not None:
            frame["weight"] = rng.integers(1, 9, FIRST).astype(weights)
        with launches() as wanted:
            first_calls(cugraph, frame, directed, renumber)
        assert len(wanted) > 15
        if wanted - compiled:
            missed[directed, weights, dtype, renumber] = sorted(wanted - compiled, key=str)
    assert missed == {}
