"""Copies and pickles are independent graphs, equal in everything."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dynstore import DynamicGraph
from dynstore.errors import InputTypeError
from dynstore.stores import STORES
from tests.conftest import DEVICES
from tests.crossed import crossed
from tests.graph.cases import IDS, assert_equal, every_store_and_device, host_columns, make_graph

WAYS: dict[str, Callable[[DynamicGraph], DynamicGraph]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda G: pickle.loads(pickle.dumps(G)),
}
every_way = pytest.mark.parametrize("way", WAYS)


# All ways read the same state of a graph; the simulator shows that of each store once.
COPIED = [
    pytest.param(way, store, device, marks=pytest.mark.thorough if device == "cuda-sim" and way != "pickle" else ())
    for way in WAYS
    for store, device in every_store_and_device(DEVICES)
]


@pytest.mark.parametrize(("way", "store", "device"), COPIED)
def test_every_store_with_options_and_weights(way: str, store: str, device: str) -> None:
    G = make_graph(store, device, directed=False, weighted=True, frames="pandas")
    assert_equal(G, WAYS[way](G))


@crossed(way=list(WAYS), ids=list(IDS), directed=[True, False], weighted=[True, False], backend_name=DEVICES)
def test_every_kind_of_graph_and_ids(way: str, ids: str, directed: bool, weighted: bool, backend_name: str) -> None:
    G = make_graph("gpma+", backend_name, directed, weighted, ids, vertex_dtype="int64", weight_dtype="float64")
    assert_equal(G, WAYS[way](G))


@every_way
@pytest.mark.parametrize("store", sorted(STORES))
def test_neither_sees_what_the_other_does(way: str, store: str) -> None:
    G = make_graph(store, "cpu", directed=False, weighted=False)
    H = WAYS[way](G)
    before, version = host_columns(G), G.version
    H.insert_edges(([5], [16]))
    H.delete_vertices(0)
    assert (host_columns(G), G.version, G.number_of_vertices()) == (before, version, 14)
    after = host_columns(H)
    G.insert_edges(([17], [18]))
    assert len(G.edge_table()) == G.number_of_edges()
    assert host_columns(H) == after


@every_way
def test_an_empty_graph_and_one_without_edges(way: str, backend_name: str) -> None:
    for renumber in (False, True):
        G = DynamicGraph(renumber=renumber, device=backend_name, frames="pandas")
        H = WAYS[way](G)
        assert (len(H), H.number_of_edges(), H.version) == (0, 0, 0)
        G.insert_vertices([4, 2])
        H = WAYS[way](G)
        assert (list(H), H.number_of_edges(), H.version) == (list(G), 0, 1)
        H.insert_edges(([4], [2]))
        assert (H.number_of_edges(), G.number_of_edges()) == (1, 0)


def test_a_graph_in_a_container_is_copied_once() -> None:
    G = make_graph("gpma+", "cpu", directed=True, weighted=False)
    first, second = copy.deepcopy([G, G])
    assert first is second
    assert first is not G


def test_monitors_stay_with_their_graph() -> None:
    G = DynamicGraph(directed=False, device="cpu")
    G.insert_edges(([0, 1], [1, 2]))
    monitor = G.track("weakly_connected_components")
    for way in WAYS.values():
        H = way(G)
        H.insert_edges(([3], [4]))
        assert monitor.result()["labels"].tolist() == [0, 0, 0]


def test_a_subclass_stays_one() -> None:
    G = Named(device="cpu")
    assert {type(way(G)) for way in WAYS.values()} == {Named}


class Named(DynamicGraph):
    pass


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_another_process_works_on_a_copy(method: str) -> None:
    G = make_graph("gpma+", "cpu", directed=False, weighted=True, ids="strings")
    with multiprocessing.get_context(method).Pool(1) as pool:
        H = pool.apply(_insert_one, (G,))
    assert ("new" in H, "new" in G) == (True, False)
    assert H.number_of_edges() == G.number_of_edges() + 1


def _insert_one(G: DynamicGraph) -> DynamicGraph:
    G.insert_edges((["new"], ["ann"], [1.0]))
    return G


@pytest.mark.parametrize("what", ["snapshot", "monitor"])
@pytest.mark.parametrize("dump", [pickle.dumps, copy.copy, copy.deepcopy], ids=["pickle", "copy", "deepcopy"])
def test_snapshots_and_monitors_are_bound_to_their_graph(what: str, dump: Callable[[Any], Any]) -> None:
    G = DynamicGraph(directed=False, device="cpu")
    G.insert_edges((np.arange(3), np.arange(3)))
    bound = G.snapshot() if what == "snapshot" else G.track("bfs", start=0)
    with pytest.raises(InputTypeError, match="cannot be pickled or copied"):
        dump(bound)
