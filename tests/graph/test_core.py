"""What a graph's core keeps, and what an update takes and gives back."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dynstore
from dynstore import DynamicGraph
from dynstore.errors import InputTypeError
from dynstore.graph.transaction import Transaction

UPDATES: dict[str, tuple[Any, ...]] = {
    "insert_edges": ([(0, 3, 1)],),
    "delete_edges": ([(0, 1)],),
    "update": ([(0, 3, 1)], [(0, 1)]),
    "expire": (0,),
    "apply": ({"op": ["insert"], "source": [0], "destination": [4], "time": [5]},),
    "insert_vertices": ([7],),
    "delete_vertices": ([0],),
    "reorder": (),
    "clear": (),
}


def is_locked(G: DynamicGraph) -> bool:
    """Whether this thread holds the lock of a graph; another thread would wait for ever."""
    lock: Any = G.core.lock
    return bool(lock._is_owned())


def make() -> DynamicGraph:
    G = DynamicGraph(renumber=True, timestamps="int64", device="cpu")
    G.insert_edges([(0, 1, 1), (1, 2, 2)])
    return G


@pytest.mark.parametrize("method", ["__enter__", "__exit__"])
@pytest.mark.parametrize("name", UPDATES)
def test_a_signal_at_the_edge_of_an_update_leaves_no_lock(
    name: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python calls handlers between any two of its instructions, also in the methods of a ``with`` block."""

    def interrupted(*given: Any) -> Any:
        raise KeyboardInterrupt

    G = make()
    with monkeypatch.context() as patch:
        patch.setattr(Transaction, method, interrupted)
        with pytest.raises(KeyboardInterrupt):
            getattr(G, name)(*UPDATES[name])
    assert not is_locked(G)
    getattr(G, name)(*UPDATES[name])
    assert not is_locked(G)


@pytest.mark.parametrize("name", ["insert_edges", "update", "apply"])
def test_a_database_writes_its_record_while_the_graph_is_not_locked(name: str, tmp_path: Path) -> None:
    """Pins are read by other threads meanwhile, and a disk may be slow."""
    locked = []
    with dynstore.open(tmp_path / "db", device="cpu", timestamps="int64", renumber=True) as db:
        db.graph.insert_edges([(0, 1, 1), (1, 2, 2)])
        db.meanwhile = lambda: locked.append(is_locked(db.graph))
        getattr(db.graph, name)(*UPDATES[name])
    assert locked == [False]


class Labelled(DynamicGraph):
    """A user's own graph."""

    def __init__(self, *args: Any, label: str = "", **options: Any) -> None:
        super().__init__(*args, **options)
        self.label = label
        self.components = self.track("weakly_connected_components")


def test_what_a_subclass_keeps_is_copied() -> None:
    G = Labelled(directed=False, device="cpu", label="x")
    G.insert_edges([(0, 1)])
    for H in (G.copy(), copy.copy(G), copy.deepcopy(G)):
        assert (type(H), H.label) == (Labelled, "x")
        H.insert_edges([(1, 2)])
        assert (G.number_of_edges(), H.number_of_edges()) == (1, 2)


def test_what_a_subclass_makes_follows_a_graph_made_of_a_state(tmp_path: Path) -> None:
    G = Labelled(directed=False, device="cpu")
    G.insert_edges([(0, 1)])
    G.insert_edges([(2, 3)])
    G.save(tmp_path / "graph")
    for H in (pickle.loads(pickle.dumps(G)), Labelled.load(tmp_path / "graph"), G.subgraph([0, 1, 2, 3])):
        H.insert_edges([(1, 2)])
        assert H.components.result()["labels"].to_numpy().tolist() == [0, 0, 0, 0]


def test_a_frame_with_a_column_called_core_is_no_graph() -> None:
    with pytest.raises(InputTypeError, match=r"bfs: G is a pandas\.[\w.]*DataFrame; wanted a dynstore\.DynamicGraph"):
        dynstore.bfs(pd.DataFrame({"core": [1]}), 0)


def test_no_lock_of_a_graph_is_taken_by_python() -> None:
    """A handler may raise within a method of Python, behind the moment at which the lock is held."""
    G = make()
    G.predecessors(1)
    for lock in (G.core.lock, G.core.out.lock, *(() if G.core.into is None else [G.core.into.lock])):
        assert {type(getattr(type(lock), name)).__name__ for name in ("__enter__", "__exit__")} == {"method_descriptor"}
    assert G.core.into is not None
    assert copy.deepcopy(G.core.out.lock) is not G.core.out.lock
