"""Calls that cannot work raise one clear error of the fitting type, and leave the graph as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore import DynamicGraph, distributed
from dynstore.adapters.networkx import store_of
from dynstore.errors import InputError, InputTypeError, LimitError, UnweightedGraphError, unknown_name
from dynstore.io import read_events

Call = Callable[[DynamicGraph], Any]
TWICE = pd.DataFrame([[0, 1, 2]], columns=["source", "source", "destination"])
NUMBERED = pd.DataFrame({0: [0], 1: [1]})

CALLS: list[tuple[Call, type[Exception], str]] = [
    (lambda G: G.insert_edges(NUMBERED, 0, 1), InputTypeError, "insert_edges: source is 0; wanted the name of a"),
    (lambda G: G.insert_edges(NUMBERED, None, "b"), InputTypeError, "insert_edges: source is None; wanted the name"),
    (lambda G: G.delete_edges(NUMBERED, "a", 1), InputTypeError, "delete_edges: destination is 1; wanted the name"),
    (lambda G: G.insert_edges(TWICE), InputError, "insert_edges: the frame has 2 columns `source`; wanted one"),
    (lambda G: G.insert_edges([0, 1]), InputTypeError, "insert_edges: edges is a list; wanted a pandas, pyarrow"),
    (lambda G: G.insert_edges(None), InputTypeError, "insert_edges: edges is a NoneType; wanted"),
    (
        lambda G: G.insert_edges(([0.5], [1])),
        InputTypeError,
        r"`src` has 0\.5 \(float\) at row 0; vertex ids must be integers",
    ),
    (lambda G: G.insert_edges(([1, -1], [1, 1])), InputError, "`src` has -1 at row 1; vertex ids must not be"),
    (
        lambda _: DynamicGraph(vertex_dtype=">i4"),
        InputError,
        "DynamicGraph: unknown vertex_dtype '>i4'; known: 'int32'",
    ),
    (lambda G: G.insert_edges(([0, 1], [1])), InputError, "`dst` has 1 items, `src` has 2; they must be equal"),
    (lambda G: G.insert_edges(([0], [2**31])), LimitError, "`dst` has 2147483648 at row 0; int32 ids go to 2147483646"),
    (lambda G: G.insert_edges(([0], [10**9])), LimitError, "id 1000000000 would make rows for all 1000000001 ids"),
    (
        lambda G: G.insert_edges(([0], [1], [np.nan])),
        InputError,
        "`weights` is NaN at row 0; a weight must be a number",
    ),
    (lambda G: G.insert_edges(([0], [1], [1e300])), LimitError, "`weights` has 1e.300 at row 0; that does not fit"),
    (
        lambda G: G.insert_edges(([0], [1]), "a", "b", None, np.ones(2)),
        InputError,
        r"unknown on_duplicate array\(\[1., 1.\]\); known: 'add'",
    ),
    (lambda _: DynamicGraph(store=["gpma+"]), InputError, r"unknown store \['gpma\+'\]; known: 'adjlists'"),
    (
        lambda _: DynamicGraph(store="paged", delta_edges=None, device="cpu"),
        InputTypeError,
        "delta_edges is None; wanted an integer",
    ),
    (lambda G: G.track(["bfs"]), InputError, r"track: unknown answer \['bfs'\]; known: 'bfs'"),
    (lambda _: distributed.run(len, ranks=None), InputTypeError, "run: ranks is None; wanted an integer"),  # type: ignore[arg-type]
    (lambda G: G.insert_edges(([0], [1]), on_duplicate="sum"), InputError, "unknown on_duplicate 'sum'; known: 'add'"),
    (lambda G: G.delete_vertices(1.5), InputTypeError, "delete_vertices: got 1.5; a vertex is an integer"),
    (lambda G: G.neighbors(99), InputError, "neighbors: vertex 99 is not in the graph; ids go to 3"),
    (lambda G: G.iterate_edges(-1), InputError, "iterate_edges: max_edges is -1; wanted 1 or more"),
    (
        lambda G: G.insert_edges(([0], [1]), default_weight=np.zeros(99)),
        InputTypeError,
        "insert_edges: default_weight is a numpy.ndarray; wanted a number",
    ),
    (
        lambda G: dynstore.bfs(G, 99),
        InputError,
        "bfs: Found invalid vertex in the input sources: got 99; the graph has 4",
    ),
    (lambda G: dynstore.bfs(G, []), InputError, "bfs: no vertex is given as the input sources; wanted at least one"),
    (lambda G: dynstore.bfs(G, 0, depth_limit="a"), InputTypeError, "bfs: depth_limit is 'a'; wanted an integer"),
    (lambda G: dynstore.bfs(G, 0, depth_limit=1.5), InputTypeError, "bfs: depth_limit is 1.5; wanted an integer"),
    (lambda G: dynstore.bfs(nx.path_graph(3), 0), InputTypeError, "bfs: G is a networkx.classes.graph.Graph; wanted"),
    (lambda G: dynstore.sssp(G, 0, cutoff="a"), InputTypeError, "sssp: cutoff is 'a'; wanted a number"),
    (lambda G: dynstore.sssp(G, 0, cutoff=np.nan), InputError, "sssp: cutoff is NaN; wanted a number"),
    (lambda G: dynstore.pagerank(G, alpha="a"), InputTypeError, "pagerank: alpha is 'a'; wanted a number"),
    (lambda G: dynstore.pagerank(G, tol="x"), InputTypeError, "pagerank: tol is 'x'; wanted a number"),
    (lambda G: dynstore.pagerank(G, max_iter=1.5), InputTypeError, "pagerank: max_iter is 1.5; wanted an integer"),
    (lambda G: dynstore.pagerank(G, warm_start="x"), InputTypeError, "pagerank: warm_start is 'x'; wanted True or"),
    (
        lambda G: dynstore.pagerank(G, personalization=pd.DataFrame({"v": [0]})),
        InputError,
        "columns not found: vertex, values; the frame has v",
    ),
    (lambda G: G.track("pagerank", max_iter="a"), InputTypeError, "pagerank: max_iter is 'a'; wanted an integer"),
    (
        lambda G: dynstore.betweenness_centrality(G, k=2, seed="a"),
        InputTypeError,
        "betweenness_centrality: random_state is 'a'; wanted an integer",
    ),
    (lambda G: store_of(nx.path_graph(3)), InputTypeError, "G is a networkx.classes.graph.Graph; wanted a graph that"),
    (lambda G: store_of(None), InputTypeError, "G is a NoneType; wanted a graph that was converted"),
    (lambda G: DynamicGraph(device="gpu"), InputError, "known: 'auto', 'cpu', 'cuda'. Did you mean 'cuda'"),
    (
        lambda G: DynamicGraph(direted=False),
        InputTypeError,
        "DynamicGraph: unknown parameter 'direted'; known: 'directed', .*Did you mean 'directed'",
    ),
    (
        lambda G: DynamicGraph(leaf=1),
        InputTypeError,
        r"unknown parameter 'leaf'; .*; store 'gpma\+': 'leaf_upper', .*; from_edges: 'source', .*mean 'leaf_",
    ),
    (
        lambda G: DynamicGraph.from_edges(pd.DataFrame({"a": [0], "b": [1]}), src="a", dst="b"),
        InputTypeError,
        "unknown parameters 'src', 'dst'; .*from_edges: 'source', 'destination', .*mean 'source', 'destination'",
    ),
    (lambda G: G.track("bfs", source=0), InputTypeError, "^track: bfs: unknown parameter 'source'; known: 'start', "),
    (lambda G: dynstore.bfs(G, source=0), InputTypeError, "^bfs: unknown parameter 'source'; known: 'start', "),
    (lambda G: dynstore.sssp(G, start=0), InputTypeError, "^sssp: unknown parameter 'start'; known: 'source', "),
    (lambda G: dynstore.pagerank(G, personalisation=0), InputTypeError, "^pagerank: .*Did you mean 'personalization'"),
    (lambda G: DynamicGraph(store="GPMA+"), InputError, r"unknown store 'GPMA\+'.*Did you mean 'gpma\+'"),
    (lambda G: read_events(None), InputTypeError, "read_events: path is a NoneType; wanted a str or a path"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "kind", "message"), CALLS, ids=[message for *_, message in CALLS])
def test_a_wrong_call_says_what_was_wanted(call: Call, kind: type[Exception], message: str) -> None:
    graph = DynamicGraph(weighted=True, device="cpu")
    graph.insert_edges(([0, 1, 2], [1, 2, 3], [1.0, 2.0, 3.0]))
    before, version = graph.to_pandas(), graph.version
    with pytest.raises(kind, match=message):
        call(graph)
    pd.testing.assert_frame_equal(graph.to_pandas(), before)
    assert (graph.version, graph.number_of_vertices()) == (version, 4)


def test_weights_are_for_weighted_graphs() -> None:
    graph = DynamicGraph(device="cpu")
    with pytest.raises(InputError, match="insert_edges: weights were given, but the graph is unweighted"):
        graph.insert_edges(([0], [1], [1.0]))
    graph.insert_edges(([0], [1]))
    with pytest.raises(UnweightedGraphError, match="sssp: requires the input graph to be weighted"):
        dynstore.sssp(graph, 0)
    assert (graph.version, graph.number_of_edges()) == (1, 1)


def test_numbers_of_numpy_are_numbers() -> None:
    graph = DynamicGraph(weighted=True, device="cpu")
    graph.insert_edges(([0, 1, 2], [1, 2, 3]), default_weight=1.0)
    assert dynstore.bfs(graph, 0, depth_limit=np.int8(1))["distance"].tolist()[:2] == [0, 1]
    assert dynstore.sssp(graph, 0, cutoff=np.float32(1.5))["distance"].tolist()[:2] == [0.0, 1.0]
    ranks = dynstore.pagerank(graph, alpha=np.float32(0.5), max_iter=np.int64(50))
    assert abs(ranks["pagerank"].sum() - 1) < 1e-6


def test_a_name_is_guessed_whatever_its_case() -> None:
    assert "Did you mean 'coAuthorsDBLP'?" in str(unknown_name("bench", "data set", "COAUTHORSdblp", ["coAuthorsDBLP"]))
