"""The NetworkX backend as NetworkX sees it: dispatch, options, conversions, registration."""

from __future__ import annotations

import inspect
import pickle
import re
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from dynstore.adapters import networkx as adapter
from dynstore.adapters.networkx.convert import ConvertedGraph, convert_from_nx, convert_to_nx
from dynstore.adapters.networkx.offers import OFFERS
from dynstore.adapters.networkx_info import FUNCTIONS, get_info
from dynstore.errors import InputError, InputTypeError
from tests.adapters.networkx.nx_backend import GONE, plain, register, shuffled_graph

register()

# ------------------------------------------------------------------ dispatch


def test_priority_uses_the_backend_and_its_cache() -> None:
    G = nx.karate_club_graph()
    before = adapter.calls["pagerank"]
    with nx.config(backend_priority=["dynstore"]):
        first = nx.pagerank(G)
        (converted,) = G.__networkx_cache__["backends"]["dynstore"].values()
        nx.pagerank(G, alpha=0.5)
        assert adapter.calls["pagerank"] == before + 2
        assert list(G.__networkx_cache__["backends"]["dynstore"].values()) == [converted]
        G.add_edge(0, 33)
        assert nx.pagerank(G) != first


def test_degrees_are_not_worth_a_conversion() -> None:
    G = nx.karate_club_graph()
    before = adapter.calls["degree_centrality"]
    with nx.config(backend_priority=["dynstore"]):
        nx.degree_centrality(G)
        assert adapter.calls["degree_centrality"] == before
        nx.connected_components(G)  # converts
        nx.degree_centrality(G)
        assert adapter.calls["degree_centrality"] == before + 1


def test_the_device_is_an_option() -> None:
    assert nx.config.backends.dynstore.device == "auto"
    with nx.config.backends.dynstore(device="abacus"), pytest.raises(InputError, match="unknown device 'abacus'"):
        nx.number_connected_components(nx.path_graph(3), backend="dynstore")
    with nx.config.backends.dynstore(device="cpu"):
        converted = convert_from_nx(nx.path_graph(3))
        assert adapter.backend.number_connected_components(converted) == 1
        assert converted.structure().device == "cpu"


def test_only_graphs_that_were_converted_are_taken() -> None:
    with pytest.raises(InputTypeError, match=r"G is a networkx\.classes\.graph\.Graph; wanted"):
        adapter.backend.pagerank(nx.path_graph(3))
    with pytest.raises(AttributeError, match="no function 'pagerankk'"):
        _ = adapter.backend.pagerankk
    assert "pagerank" in dir(adapter.backend)


# ------------------------------------------------------------------ conversions


@pytest.mark.parametrize("directed", [False, True])
def test_a_conversion_keeps_what_was_asked_for(directed: bool) -> None:
    G = shuffled_graph(np.random.default_rng(8), directed, [1, 2, 3])
    G.graph["name"] = "it"
    G.nodes["n1"]["colour"] = "red"
    everything = {"preserve_edge_attrs": True, "preserve_node_attrs": True, "preserve_graph_attrs": True}
    back = convert_to_nx(convert_from_nx(G, **everything))
    assert type(back) is type(G)
    assert (back.graph, dict(back.nodes(data=True))) == (G.graph, dict(G.nodes(data=True)))
    assert list(back) == list(G)
    assert [(u, list(row.items())) for u, row in back.adjacency()] == [(u, list(r.items())) for u, r in G.adjacency()]
    if directed:
        assert plain({v: dict(row) for v, row in back.pred.items()}) == plain({v: dict(r) for v, r in G.pred.items()})
    some = convert_to_nx(convert_from_nx(G, edge_attrs={"weight": 7, "none": "x"}, node_attrs={"colour": "blue"}))
    for u, v, data in some.edges(data=True):
        assert data == {"weight": G.edges[u, v].get("weight", 7), "none": "x"}
    assert some.graph == {}
    assert {data["colour"] for _, data in some.nodes(data=True)} == {"red", "blue"}
    none = convert_to_nx(convert_from_nx(G))
    assert all(data == {} for _, _, data in none.edges(data=True))
    assert set(none.edges) == set(G.edges)


def test_undirected_data_is_one_dict() -> None:
    back = convert_to_nx(convert_from_nx(nx.Graph([(2, 1, {"weight": 3})]), preserve_edge_attrs=True))
    back[1][2]["weight"] = 5
    assert back[2][1]["weight"] == 5


def test_a_converted_graph_is_a_copy() -> None:
    G = nx.path_graph(4)
    converted = convert_from_nx(G, edge_attrs={"weight": 1})
    G.add_edge(0, 3)
    G[0][1]["weight"] = 100
    assert adapter.backend.single_source_dijkstra_path_length(converted, 0) == {0: 0, 1: 1, 2: 2, 3: 3}
    assert list(adapter.backend.bfs_edges(converted, 0)) == [(0, 1), (1, 2), (2, 3)]


def test_a_graph_with_a_conversion_in_its_cache_can_be_copied_and_pickled() -> None:
    G = nx.karate_club_graph()
    nx.pagerank(G, backend="dynstore")
    for twin in (pickle.loads(pickle.dumps(G)), deepcopy(G)):
        (converted,) = twin.__networkx_cache__["backends"]["dynstore"].values()
        assert isinstance(converted, ConvertedGraph)
        assert nx.pagerank(twin, backend="dynstore") == nx.pagerank(G, backend="dynstore")


def test_multigraph_conversions() -> None:
    G = nx.MultiGraph([(0, 1, {"weight": 3}), (0, 1), (1, 2, {"weight": "x"}), (1, 2)])
    with pytest.raises(NotImplementedError, match="parallel edges are not kept"):
        convert_from_nx(G, preserve_edge_attrs=True)
    with pytest.raises(NotImplementedError, match="cannot be compared"):
        convert_from_nx(G, edge_attrs={"weight": 1})
    with pytest.raises(NotImplementedError, match="cannot be converted back"):
        convert_to_nx(convert_from_nx(G))


def test_an_attribute_that_was_not_kept() -> None:
    with pytest.raises(NotImplementedError, match="'weight' was not asked for"):
        adapter.backend.pagerank(convert_from_nx(nx.path_graph(3)))


def test_a_filtered_view_is_converted_as_it_reads() -> None:
    G = shuffled_graph(np.random.default_rng(9), False, edges=120)
    view = nx.subgraph_view(G, filter_node=lambda n: n != "n1", filter_edge=lambda u, v: len(str(u) + str(v)) != 5)
    first = next(iter(view))
    assert list(nx.bfs_edges(view, first, backend="dynstore")) == list(nx.bfs_edges(view, first, backend="networkx"))
    multi = nx.subgraph_view(nx.MultiGraph(G), filter_edge=lambda u, v, k: "n4" not in (u, v))
    ours, theirs = (list(nx.connected_components(multi, backend=name)) for name in ("dynstore", "networkx"))
    assert ours == theirs


# ------------------------------------------------------------------ registration


def test_the_information_names_what_is_offered() -> None:
    assert set(FUNCTIONS) == set(OFFERS)
    assert list(FUNCTIONS) == sorted(FUNCTIONS)
    for name, offered in OFFERS.items():
        if name in GONE:
            continue
        dispatched = nx.utils.backends._registered_algorithms[name]
        ours = {key: value.default for key, value in offered.signature.parameters.items()}
        theirs = {key: value.default for key, value in inspect.signature(dispatched).parameters.items()}
        assert list(ours) == [key for key in theirs if key not in ("backend", "backend_kwargs")]
        assert ours == {key: theirs[key] for key in ours}
    assert get_info()["default_config"] == {"device": "auto"}


def test_the_information_imports_nothing() -> None:
    code = (
        "import sys; before = set(sys.modules)\n"
        "from dynstore.adapters.networkx_info import get_info; get_info()\n"
        "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before} - sys.stdlib_module_names))"
    )
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["dynstore"]


def test_the_page_about_networkx_runs_and_lists_what_is_offered() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "networkx.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        exec(block, {})
    named = set(re.findall(r"`(\w+)`", page[page.index("## What is offered") :]))
    for paths in ("single_source_shortest_path", "single_target_shortest_path", "all_pairs_shortest_path"):
        named |= {f"{paths}_length"}  # "... of these three"
    assert set(OFFERS) <= named
