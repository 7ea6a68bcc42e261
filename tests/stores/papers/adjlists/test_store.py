"""What is the adjacency lists' own: rows that grow by themselves, the pool, native queries, the host only."""

from __future__ import annotations

import numpy as np
import pytest

from dynstore import DynamicGraph
from dynstore.backend import Backend
from dynstore.errors import InputError
from dynstore.stores.papers.adjlists.store import AdjListsStore
from dynstore.testing.pair import Pair


def make(**options):
    return Pair(store="adjlists", device="cpu", **options)


def check_lists(graph):
    """Rows lie inside the pool, apart from each other, each ascending within its room."""
    lists = graph.core.out._lists
    rows = np.flatnonzero(lists.rooms)
    rows = rows[np.argsort(lists.starts[rows])]
    ends = lists.starts[rows] + lists.rooms[rows]
    assert (ends[:-1] <= lists.starts[rows][1:]).all()
    assert (lists.lengths <= lists.rooms).all()
    assert ends.max(initial=0) <= lists.tail <= lists.pool.shape[0]
    for row in rows:
        edges = lists.pool[lists.starts[row] : lists.starts[row] + lists.lengths[row]]
        assert (np.diff(edges) > 0).all()


@pytest.mark.parametrize("family", ["cuda", "cuda-sim"])
def test_other_devices_are_refused_with_one_clear_error(family):
    with pytest.raises(InputError, match=f"store 'adjlists': got device '{family}'; wanted 'cpu'"):
        AdjListsStore(Backend(family, np, "cuda"), np.dtype(np.int32), None, 0, {})


@pytest.mark.parametrize("growth", [1.0, 1.5, 4.0])
def test_rows_stay_in_order_whatever_comes(growth):
    pair = make(weighted=True, growth=growth)
    rng = np.random.default_rng(1)
    for step in range(30):
        src, dst = rng.integers(0, 30, (2, 60))
        pair.insert(src, dst, rng.integers(0, 9, 60) / 2, on_duplicate=("add", "replace")[step % 2])
        check_lists(pair.graph)
        pair.delete(*rng.integers(0, 30, (2, 40)))
        check_lists(pair.graph)
    pair.check_queries()


def test_a_row_that_outgrows_its_room_moves_and_nothing_else_does():
    pair = make()
    pair.insert(np.repeat(np.arange(50), 20), np.tile(np.arange(20), 50))
    lists = pair.graph.core.out._lists
    before = lists.starts.copy()
    assert pair.insert(np.full(40, 7), np.arange(100, 140)).path == "in-place"
    moved = np.flatnonzero(before != pair.graph.core.out._lists.starts[:50])
    assert moved.tolist() == [7]
    assert pair.insert([3], [400]).path == "in-place"
    check_lists(pair.graph)


def test_the_pool_is_given_back():
    pair = make()
    src, dst = np.divmod(np.arange(8000), 80)
    pair.insert(src, dst)
    full = pair.graph.memory_usage()["pool"]
    pair.delete(src[100:], dst[100:])
    pair.delete(src[:50], dst[:50])
    assert pair.graph.memory_usage()["pool"] < full / 8
    check_lists(pair.graph)


def test_reserved_capacity_is_kept():
    graph = DynamicGraph(store="adjlists", device="cpu", capacity=5000)
    pool = graph.memory_usage()["pool"]
    src, dst = np.divmod(np.arange(3000), 60)
    assert not graph.insert_edges((src, dst)).grown
    graph.delete_edges((src, dst))
    graph.delete_edges((src, dst))
    assert graph.memory_usage()["pool"] == pool


def test_only_rows_that_were_touched_are_read_again(monkeypatch):
    pair = make(weighted=True)
    src, dst = np.divmod(np.arange(600), 20)
    pair.insert(src, dst, src / 2)
    seen = []
    read = AdjListsStore._read_rows
    monkeypatch.setattr(
        AdjListsStore, "_read_rows", lambda self, rows: (seen.append(rows.tolist()), read(self, rows))[1]
    )
    pair.insert([4, 9, 4], [50, 1, 51], [1.0, 2.0, 3.0])
    pair.delete([2, 25], [3, 99])
    assert seen == [[4, 9], [2]]


def test_queries_leave_the_table_as_it_is():
    graph = DynamicGraph(store="adjlists", device="cpu", weighted=True)
    graph.insert_edges(([0, 0, 3], [4, 2, 1], [1.0, 2.0, 3.0]))
    graph.has_edges(([0, 7], [4, 7])), graph.edge_weights(([0], [2])), graph.successors(0), graph.number_of_vertices()
    assert graph.core.out._is_stale
    assert graph.memory_usage()["dst"] == 0


@pytest.mark.parametrize("growth", [0.5, 5, "x"])
def test_a_growth_that_makes_no_sense_is_refused(growth):
    with pytest.raises(InputError, match="store 'adjlists': growth is"):
        DynamicGraph(store="adjlists", device="cpu", growth=growth)
