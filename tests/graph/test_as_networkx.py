"""Vertices, neighbours, degrees, hops and subgraphs are those of the same graph in NetworkX."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore import DynamicGraph
from dynstore.errors import InputError, InputTypeError
from tests.conftest import DEVICES
from tests.crossed import in_turn
from tests.graph.cases import IDS, KIND_NAMES, KINDS, every_store_and_device, host_columns, make_graph


def to_networkx(G: DynamicGraph) -> nx.Graph:
    made = nx.DiGraph() if G.is_directed() else nx.Graph()
    made.add_nodes_from(list(G))
    columns = host_columns(G)
    weights = columns.get("weight", [1.0] * len(columns["source"]))
    made.add_weighted_edges_from(zip(columns["source"], columns["destination"], weights, strict=True))
    return made


def check(G: DynamicGraph) -> None:
    """Compare all queries about vertices."""
    whole, host = to_networkx(G), G.core.backend.to_host
    assert (len(G), G.number_of_nodes(), bool(G)) == (len(whole), len(whole), True)
    ins, outs = (whole.pred, whole.succ) if G.is_directed() else (whole.adj, whole.adj)
    for v in whole:
        assert v in G
        for name, rows in (("successors", outs), ("neighbors", outs), ("predecessors", ins)):
            wanted = {u: rows[v][u]["weight"] for u in sorted(rows[v])}
            ids, weights = (host(column) for column in getattr(G, name)(v, weights=True))
            assert (ids.tolist(), weights.tolist()) == (list(wanted), list(wanted.values()))
            assert weights.dtype == G.weight_dtype
            assert host(getattr(G, name)(v)).tolist() == list(wanted)
        found = [G.in_degree(v), G.out_degree(v), G.degree(v)]
        assert found == [len(ins[v]), len(outs[v]), len(ins[v]) + len(outs[v])]
        assert {type(degree) for degree in found} == {int}
        assert G.degree(v) == (whole.degree(v) if G.is_directed() else 2 * (whole.degree(v) - whole.has_edge(v, v)))
    some = list(whole)[::-2] + list(whole)[:1] * 2
    for name in ("in_degree", "out_degree", "degree"):
        frame, everyone = getattr(G, name)(some), getattr(G, name)()
        of = dict(zip(everyone["vertex"].tolist(), everyone["degree"].tolist(), strict=True))
        assert frame.to_dict("list") == {"vertex": some, "degree": [of[v] for v in some]}
        assert frame.dtypes.tolist() == everyone.dtypes.tolist()
    for starts in ([next(iter(whole))], list(whole)[1:4]):
        for k in (0, 1, 2, 30):
            far = [nx.single_source_shortest_path_length(whole, v, cutoff=k) for v in starts]
            wanted = {v: min(hops[v] for hops in far if v in hops) for v in sorted(set().union(*far))}
            given = starts[0] if len(starts) == 1 else starts
            assert G.k_hop(given, k).to_dict("list") == {"vertex": list(wanted), "distance": list(wanted.values())}


def check_subgraph(G: DynamicGraph) -> None:
    whole = to_networkx(G)
    for vertices in (list(whole)[:9], list(whole)[::-3], list(whole)[:1] * 2, list(whole)):
        H, wanted = G.subgraph(vertices), whole.subgraph(vertices)
        found = to_networkx(H)
        found.remove_nodes_from([v for v in list(whole) if v not in wanted and not G.is_renumbered()])
        assert nx.utils.graphs_equal(found, wanted)
        assert list(H) == [v for v in G if v in wanted or not G.is_renumbered()]
        assert H.core.state().options == G.core.state().options
        assert (H.version, H.device, H.number_of_edges()) == (0, G.device, wanted.number_of_edges())


@pytest.mark.parametrize("ids", IDS)
@pytest.mark.parametrize(("directed", "weighted"), KINDS, ids=KIND_NAMES)
def test_every_kind_of_graph_and_ids(ids: str, directed: bool, weighted: bool) -> None:
    G = make_graph("gpma+", "cpu", directed, weighted, ids)
    check(G)
    check_subgraph(G)


@in_turn(case=every_store_and_device(DEVICES), directed=[True, False])
def test_every_store(case: tuple[str, str], directed: bool) -> None:
    store, device = case
    G = make_graph(store, device, directed, weighted=True, frames="pandas")
    check(G)
    check_subgraph(G)


def test_random_graphs(rng: np.random.Generator) -> None:
    for directed in (True, False):
        G = DynamicGraph(directed, weighted=True, device="cpu")
        src, dst = rng.integers(0, 40, (2, 120))
        G.insert_edges((src, dst, rng.random(120)))
        G.delete_edges((src[::3], dst[::3]))
        check(G)
        check_subgraph(G)


# ---------------------------------------------------------------------- vertices


@pytest.mark.parametrize("ids", IDS)
def test_what_is_no_vertex(ids: str, backend_name: str) -> None:
    G = make_graph("gpma+", backend_name, directed=True, weighted=False, ids=ids)
    first = next(iter(G))
    foreign: list[Any] = [-1, 999, 2**31, 2**63, 2**200, -(2**63), "nobody", b"ann", None, 0.5, True, np.nan]
    foreign += [[first], (first,), {first}, {}, np.array([first]), np.array(first), slice(None), object(), str, G]
    foreign += [first.encode() if isinstance(first, str) else float(first)]
    assert [v for v in foreign if v in G] == []
    assert first in G
    assert (np.str_(first) if isinstance(first, str) else np.int64(first)) in G
    assert all(v in G for v in G)


def test_an_empty_graph_is_true_and_has_no_vertex(backend_name: str) -> None:
    for renumber in (False, True):
        G = DynamicGraph(renumber=renumber, device=backend_name)
        assert (len(G), bool(G), list(G), G.number_of_nodes(), 0 in G, "a" in G) == (0, True, [], 0, False, False)


def test_vertices_are_python_objects_of_one_version(backend_name: str) -> None:
    G = DynamicGraph(device=backend_name)
    G.insert_edges(([0, 1], [1, 2]))
    assert {type(v) for v in G} == {int}
    for v in G:
        G.insert_edges(([v], [v + 3]))
    assert len(G) == 6


def test_a_deleted_vertex_is_one_until_its_number_is_used() -> None:
    G = DynamicGraph(renumber=True, reuse_ids=True, device="cpu")
    G.insert_edges((["a", "b"], ["b", "c"]))
    G.delete_vertices("a")
    assert ("a" in G, len(G)) == (True, 3)
    G.insert_vertices("d")
    assert ("a" in G, "d" in G, len(G)) == (False, True, 3)


# ---------------------------------------------------------------------- degrees


def test_one_degree_costs_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    G = make_graph("gpma+", "cpu", directed=True, weighted=False)
    for name in ("snapshot", "vertex_ids", "row_lengths"):
        monkeypatch.setattr(G, name, None)
    assert G.out_degree(0) == len(G.neighbors(0))


@pytest.mark.parametrize("store", ["gpma+", "slab_hash"])
def test_degrees_make_no_in_edges(store: str, backend_name: str) -> None:
    """They would slow all later updates down."""
    G = make_graph(store, backend_name, directed=True, weighted=True, frames="pandas")
    found = [G.in_degree(5), G.degree(5), G.in_degree(), G.degree()]
    assert not [part for part in G.memory_usage() if part.startswith("in_")]
    G.predecessors(0)
    for before, after in zip(found, [G.in_degree(5), G.degree(5), G.in_degree(), G.degree()], strict=True):
        assert after == before if isinstance(before, int) else after.equals(before)
    assert [part for part in G.memory_usage() if part.startswith("in_")]


def test_degrees_of_some_vertices() -> None:
    G = DynamicGraph(device="cpu")
    G.insert_edges(([0, 0, 1], [1, 2, 2]))
    for vertices in ([2, 0], (2, 0), np.array([2, 0]), pd.Series([2, 0])):
        assert G.degree(vertices)["degree"].tolist() == [2, 2]
    assert G.degree([]).shape == (0, 2)
    assert G.degree(np.int8(0)) == 2


@pytest.mark.parametrize("name", ["degree", "in_degree", "out_degree", "subgraph"])
def test_unknown_vertices_are_refused(name: str) -> None:
    G = DynamicGraph(device="cpu")
    G.insert_edges(([0, 0, 1], [1, 2, 2]))
    with pytest.raises(InputError, match=f"{name}: vertex 3 is not in the graph"):
        getattr(G, name)(3)
    with pytest.raises(InputError, match=f"{name}: vertex 7 is not in the graph; ids go to 2"):
        getattr(G, name)([0, 7])
    with pytest.raises(InputError, match=f"{name}: `ids` has -1 at row 1; vertex ids must not be negative"):
        getattr(G, name)([0, -1])
    with pytest.raises(InputTypeError, match=f"{name}: "):
        getattr(G, name)("ann")
    with pytest.raises(InputTypeError, match=f"{name}: got True; a vertex is an integer"):
        getattr(G, name)(True)


@pytest.mark.parametrize("ids", IDS)
def test_vertices_as_networkx_takes_them(ids: str) -> None:
    G = make_graph("gpma+", "cpu", directed=True, weighted=False, ids=ids)
    some = list(G)[2:5]
    for make in (set, frozenset, tuple, iter, lambda names: dict.fromkeys(names).keys()):
        assert sorted(G.degree(make(some))["vertex"].tolist()) == sorted(some)
        assert host_columns(G.subgraph(make(some))) == host_columns(G.subgraph(some))
        assert G.k_hop(make(some), 1).equals(G.k_hop(some, 1))
        assert dynstore.bfs(G, make(some)).equals(dynstore.bfs(G, some))


# ---------------------------------------------------------------------- hops


def test_wrong_hops_are_refused() -> None:
    G = DynamicGraph(device="cpu")
    G.insert_edges(([0, 0, 1], [1, 2, 2]))
    for vertices, k, kind, message in (
        (0, -1, InputError, "k_hop: k is -1; wanted 0 or more"),
        (0, 1.5, InputTypeError, "k_hop: k is 1.5; wanted an integer"),
        (0, None, InputTypeError, "k_hop: k is None; wanted an integer"),
        (3, 1, InputError, "k_hop: Found invalid vertex in vertices: got 3"),
        ([], 1, InputError, "k_hop: no vertex is given as vertices"),
    ):
        with pytest.raises(kind, match=message):
            G.k_hop(vertices, k)
    assert G.k_hop(0, 2**70)["vertex"].tolist() == [0, 1, 2]


def test_hops_make_no_table_of_slab_hash() -> None:
    """Its slabs are searched as they are."""
    G = DynamicGraph(store="slab_hash", device="cpu")
    G.insert_edges((np.arange(100), np.arange(1, 101)))
    assert G.core.native_rows() is not None
    assert G.k_hop(3, 2)["vertex"].tolist() == [3, 4, 5]
    assert G.core.native_rows() is not None


# ---------------------------------------------------------------------- subgraphs


def test_a_subgraph_is_independent(backend_name: str) -> None:
    G = make_graph("gpma+", backend_name, directed=False, weighted=True)
    before = host_columns(G)
    H = G.subgraph([0, 1, 3])
    H.insert_edges(([0], [6], [9.0]))
    assert host_columns(G) == before
    after = host_columns(H)
    G.delete_vertices([0, 1, 3])
    assert host_columns(H) == after


def test_a_subgraph_without_vertices(backend_name: str) -> None:
    for ids, left in (("dense", 14), ("sparse", 0), ("strings", 0)):
        G = make_graph("gpma+", backend_name, directed=True, weighted=True, ids=ids)
        H = G.subgraph([])
        assert (len(H), H.number_of_edges()) == (left, 0)
        assert len(DynamicGraph(renumber=ids != "dense", device=backend_name).subgraph([])) == 0


def test_a_subgraph_keeps_which_numbers_are_free() -> None:
    G = DynamicGraph(renumber=True, reuse_ids=True, device="cpu")
    G.insert_edges((["a", "b", "c"], ["b", "c", "d"]))
    G.delete_vertices(["b", "c"])
    H = G.subgraph(["a", "c", "d"])
    H.insert_vertices(["e", "f"])
    assert set(H) == {"a", "d", "e", "f"}


def test_the_answer_on_a_subgraph_has_the_rows_of_the_whole() -> None:
    G = DynamicGraph(directed=False, device="cpu")
    G.insert_edges(([0, 1, 2, 4], [1, 2, 0, 5]))
    inside = dynstore.triangle_count(G.subgraph([0, 1, 4]))
    assert inside["vertex"].tolist() == dynstore.triangle_count(G)["vertex"].tolist()
    assert inside["counts"].tolist() == [0] * 6


# ---------------------------------------------------------------------- display


def test_a_notebook_shows_a_table() -> None:
    G = DynamicGraph(directed=False, weighted=True, store="merge", device="cpu")
    G.insert_edges((np.arange(2000), np.arange(1, 2001), np.ones(2000)))
    text = G._repr_html_()
    for name, value in (
        ("vertices", "2,001"), ("edges", "2,000"), ("directed", "no"), ("weighted", "yes"), ("store", "merge"),
        ("device", "cpu"), ("version", "1"),
    ):  # fmt: skip
        assert f"<tr><th>{name}</th><td>{value}</td></tr>" in text
    ElementTree.fromstring(text)  # well-formed
    size = G.memory_usage()["total"] / 1024
    assert f"<th>memory</th><td>{size:.1f} KiB</td>" in text
    assert (
        repr(G)
        == "DynamicGraph(undirected weighted, 2001 vertices, 2000 edges, store='merge', device='cpu', version=1)"
    )
