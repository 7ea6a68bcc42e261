"""How far a call walks through the files: a reader has to follow it. The counts may fall, and not rise."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import dynstore
from tests.adapters.cugraph.stand_ins import rapids
from tests.conftest import DEVICES
from tools.walks import Walk, list_walks, walk_of

__all__ = ["rapids"]  # a fixture

# Files and moves, at most.
MOST = {
    "insert_edges": (20, 48),
    "delete_edges": (19, 41),
    "has_edges": (8, 11),
    "neighbors": (4, 5),
    "bfs": (11, 28),
}


def test_a_walk_is_counted() -> None:
    """From the graph to its store; the second time both files are known."""
    G = dynstore.DynamicGraph(device="cpu")
    assert walk_of(G.number_of_vertices) == Walk(("dynstore/graph/local.py", "dynstore/stores/base.py"), 2)
    assert walk_of(lambda: None) == Walk((), 0)
    assert walk_of(lambda: (G.number_of_vertices(), G.number_of_vertices())).returns == 2


@pytest.mark.parametrize("name", MOST)
def test_walks_on_the_host(walks: dict[str, Walk], name: str) -> None:
    files, moves = MOST[name]
    walk = walks[name]
    assert len(walk.files) <= files
    assert walk.moves <= moves


@pytest.fixture(scope="module")
def walks() -> dict[str, Walk]:
    found = list_walks()
    assert found.keys() == MOST.keys()
    return found


@pytest.mark.skipif("cuda-sim" not in DEVICES, reason="on a GPU the drop-in asks cuGraph, not the stand-ins")
@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_the_walk_of_the_drop_ins_bfs(rapids: SimpleNamespace) -> None:
    """Its own kernel, over stand-ins for RAPIDS."""
    rapids.modules["cugraph.exceptions"] = SimpleNamespace(FailedToConvergeError=BufferError)
    G = dynstore.DynamicGraph(directed=False, device="cuda-sim")
    G.insert_edges(tuple(np.arange(20).reshape(2, 10)))
    for start in (0, 1):
        walk = walk_of(partial(rapids.drop_in.bfs, G, start))
    assert dynstore.explain(G).path == "own kernel"
    assert len(walk.files) <= 20
    assert walk.moves <= 39
