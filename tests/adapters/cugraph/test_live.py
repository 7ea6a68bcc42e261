"""A live ``cugraph.Graph``: which rows it lends to whom, and what its views show, after every update."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore.adapters.cugraph.borrowed.loading import Bridge
from dynstore.adapters.cugraph.graph import as_cugraph
from dynstore.adapters.cugraph.packed import packed_rows
from dynstore.adapters.cugraph.shown import ShownIds
from dynstore.errors import InputError, LimitError
from tests.adapters.cugraph.stand_ins import LentGraph, rapids

__all__ = ["rapids"]  # a fixture

KINDS = {
    "dense": lambda numbers: numbers,
    "sparse": lambda numbers: numbers * 37 + 5,
    "wide": lambda numbers: numbers * 7_000_000_000 + 3,
    "strings": lambda numbers: np.array([f"v{number:03}" for number in numbers.tolist()], dtype=object),
}
SHAPES = [(directed, weighted) for directed in (True, False) for weighted in (True, False)]


class Pair:
    """A DynamicGraph under updates, and the same edges in a dict: (u, v) -> weight; undirected pairs in order."""

    def __init__(self, kind: str, directed: bool, weighted: bool) -> None:
        self.rng = np.random.default_rng(3)
        self.kind, self.directed, self.weighted = kind, directed, weighted
        self.graph = dynstore.DynamicGraph(directed=directed, weighted=weighted, device="cpu", renumber=kind != "dense")
        self.edges: dict[tuple[Any, Any], float] = {}

    def update(self) -> None:
        numbers = self.rng.integers(0, 25, (2, 60))
        src, dst = (KINDS[self.kind](column) for column in numbers)
        weights = self.rng.integers(1, 9, 60).astype(np.float32)
        self.graph.insert_edges((src, dst, weights) if self.weighted else (src, dst))
        for u, v, weight in zip(src.tolist(), dst.tolist(), weights.tolist(), strict=True):
            self.edges[self.key(u, v)] = weight
        gone = self.rng.integers(0, 60, 15)
        self.graph.delete_edges((src[gone], dst[gone]))
        for u, v in zip(src[gone].tolist(), dst[gone].tolist(), strict=True):
            self.edges.pop(self.key(u, v), None)

    def key(self, u: Any, v: Any) -> tuple[Any, Any]:
        return (u, v) if self.directed or u <= v else (v, u)

    def both_ways(self) -> list[tuple[Any, ...]]:
        """Return all rows (u, v[, weight]) that are stored, sorted."""
        rows = {}
        for (u, v), weight in self.edges.items():
            rows[u, v] = weight
            if not self.directed:
                rows[v, u] = weight
        return sorted((*pair, weight) if self.weighted else pair for pair, weight in rows.items())

    def once(self) -> list[tuple[Any, ...]]:
        return sorted((*pair, weight) if self.weighted else pair for pair, weight in self.edges.items())


def tuples(frame: pd.DataFrame, names: list[str]) -> list[tuple[Any, ...]]:
    assert list(frame.columns) == names
    return sorted(frame.itertuples(index=False, name=None))


@pytest.mark.parametrize(("directed", "weighted"), SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_views_and_lent_rows_follow_every_update(
    rapids: SimpleNamespace, kind: str, directed: bool, weighted: bool
) -> None:
    pair = Pair(kind, directed, weighted)
    live = as_cugraph(pair.graph, "from", "to", "cost")
    assert type(live) is rapids.cugraph.Graph
    assert live.is_directed() == directed
    for _ in range(3):
        pair.update()
        ids = sorted(pair.graph.vertex_ids().tolist())
        cost = "cost" if directed and kind != "strings" else "weight"
        names = ["from", "to", cost] if weighted else ["from", "to"]
        table = live.view_edge_list()
        assert tuples(table, names) == pair.once() or not directed
        assert sorted(pair.key(*row[:2]) + row[2:] for row in tuples(table, names)) == pair.once()
        assert list(live.edges().columns) == ["from", "to"]
        assert live.nodes().tolist() == ids
        assert live.number_of_vertices() == len(ids)
        assert live.number_of_edges() == len(pair.edges)
        assert live.number_of_edges(directed_edges=True) == len(pair.both_ways())
        assert live.has_self_loop() == any(u == v for u, v in pair.edges)
        for u in ids[::5]:
            assert live.has_node(u)
            assert live.neighbors(u).tolist() == [row[1] for row in pair.both_ways() if row[0] == u]
            for v in ids[::4]:
                assert live.has_edge(u, v) == (pair.key(u, v) in pair.edges)
        lent = rapids.cugraph.bfs(live)
        pulled = rapids.cugraph.pagerank(live)
        assert (lent.transposed, pulled.transposed) == (False, True)
        assert lent.symmetric == pulled.symmetric == (not directed)
        numbers = dict(enumerate(pair.graph.vertex_ids().tolist()))
        for graph in (lent, pulled):
            shown = graph.edges()
            if kind == "strings":
                shown = sorted((numbers[row[0]], numbers[row[1]], *row[2:]) for row in shown)
            assert shown == pair.both_ways()
            assert graph.offsets.dtype == graph.indices.dtype == graph.number_map.dtype
            assert all(np.all(np.diff(row) > 0) for row in np.split(graph.indices, graph.offsets[1:-1]))


def test_ids_past_int32_widen_the_rows_and_others_do_not(rapids: SimpleNamespace) -> None:
    for ids, dtype in (([5, 2**31 - 2], np.int32), ([5, 2**31 - 1], np.int64), ([5, 2**40], np.int64)):
        graph = dynstore.DynamicGraph(device="cpu", renumber=True)
        graph.insert_edges((ids, ids[::-1]))
        lent = rapids.cugraph.bfs(as_cugraph(graph))
        assert lent.offsets.dtype == dtype
        assert sorted(lent.number_map.tolist()) == ids


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_adjacency_list_has_a_row_for_each_id(rapids: SimpleNamespace, kind: str) -> None:
    pair = Pair(kind, True, True)
    pair.update()
    live = as_cugraph(pair.graph)
    offsets, indices, weights = (column.to_numpy() for column in live.view_adj_list())
    assert (offsets.dtype, indices.dtype) == (np.int32, np.int32)
    rows = np.repeat(np.arange(offsets.shape[0] - 1), np.diff(offsets))
    assert list(zip(rows.tolist(), indices.tolist(), weights.tolist(), strict=True)) == pair.both_ways()
    offsets, indices, _ = (column.to_numpy() for column in live.view_transposed_adj_list())
    columns = np.repeat(np.arange(offsets.shape[0] - 1), np.diff(offsets))
    assert sorted(zip(indices.tolist(), columns.tolist(), strict=True)) == [row[:2] for row in pair.both_ways()]


def test_the_graph_keeps_the_adjacency_list_that_a_view_has_made(rapids: SimpleNamespace) -> None:
    """cuGraph's maximum_spanning_tree changes its weights for a while."""
    graph = dynstore.DynamicGraph(device="cpu", directed=False, weighted=True)
    graph.insert_edges(([0, 1], [1, 2], [2.0, 3.0]))
    live = as_cugraph(graph)
    assert (live.adjlist, live.transposedadjlist) == (None, None)
    weights = live.view_adj_list()[2]
    assert live.adjlist.weights is weights
    live.adjlist.weights = -weights
    assert live.view_adj_list()[2].tolist() == [-2.0, -2.0, -3.0, -3.0]
    assert (
        live.view_transposed_adj_list()[2].tolist() == live.transposedadjlist.weights.tolist() == [2.0, 2.0, 3.0, 3.0]
    )
    graph.insert_edges(([0], [2], [1.0]))
    assert (live.adjlist, live.transposedadjlist) == (None, None)
    live.view_adj_list()
    live.delete_adj_list()
    assert live.adjlist is None


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_the_heaviest_tree_is_found_whatever_the_ids_are(rapids: SimpleNamespace, kind: str, weighted: bool) -> None:
    name = {number: KINDS[kind](np.array([number]))[0] for number in range(1, 7)}
    weights = {(1, 2): 3.0, (2, 3): 5.0, (1, 3): 4.0, (3, 4): 1.0, (5, 6): 2.0}
    graph = dynstore.DynamicGraph(device="cpu", directed=False, weighted=weighted, renumber=kind != "dense")
    ends = tuple([name[pair[side]] for pair in weights] for side in (0, 1))
    graph.insert_edges((*ends, list(weights.values())) if weighted else ends)
    tree = rapids.drop_in.maximum_spanning_tree(as_cugraph(graph))._Impl.edgelist
    pairs = {(min(u, v), max(u, v)): weight for u, v, weight in tree.itertuples(index=False)}
    if weighted:
        kept = ((1, 3), (2, 3), (3, 4), (5, 6))
        assert pairs == {(name[u], name[v]): weights[u, v] for u, v in kept}
    else:
        assert len(pairs) == 4
        assert set(pairs.values()) == {1.0}
    assert dynstore.explain(graph).path == "rebuilt"


def test_a_tree_of_a_directed_graph_is_refused_in_cugraphs_words(rapids: SimpleNamespace) -> None:
    graph = dynstore.DynamicGraph(device="cpu", weighted=True)
    graph.insert_edges(([0], [1], [1.0]))
    with pytest.raises(ValueError, match="input graph must be undirected"):
        rapids.drop_in.maximum_spanning_tree(as_cugraph(graph))


@pytest.mark.parametrize("viewed", [False, True])
def test_cugraph_gets_no_adjacency_list_with_more_rows_than_vertices(rapids: SimpleNamespace, viewed: bool) -> None:
    """Its C++ would read behind the end of arrays: it takes the number of vertices for the number of rows."""
    graph = dynstore.DynamicGraph(device="cpu", directed=False, weighted=True, renumber=True)
    graph.insert_edges(([3, 5], [5, 9], [2.0, 3.0]))
    live = as_cugraph(graph)
    if viewed:
        assert len(live.view_adj_list()[0]) == 11
    with pytest.raises(InputError, match=r"each of the 3 vertices.*has 10, one for each id"):
        rapids.cugraph.maximum_spanning_tree(live)
    dense = dynstore.DynamicGraph(device="cpu", directed=False, weighted=True)
    dense.insert_edges(([0, 1], [1, 2], [2.0, 3.0]))
    assert rapids.cugraph.maximum_spanning_tree(as_cugraph(dense)) == (3, 3)


@pytest.mark.parametrize("strings", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_the_matrix_has_every_edge(rapids: SimpleNamespace, strings: bool, directed: bool) -> None:
    name = "v{}".format if strings else int
    graph = dynstore.DynamicGraph(device="cpu", directed=directed, weighted=True, renumber=True)
    graph.insert_edges(([name(7), name(3), name(7)], [name(3), name(5), name(9)], [2.0, 4.0, 8.0]))
    expected = np.zeros((4, 4))  # of 3, 5, 7 and 9
    expected[[2, 0, 2], [0, 1, 3]] = [2.0, 4.0, 8.0]
    assert as_cugraph(graph).to_numpy_array().tolist() == (expected if directed else expected + expected.T).tolist()


def test_what_is_no_vertex_is_in_no_edge(rapids: SimpleNamespace) -> None:
    graph = dynstore.DynamicGraph(device="cpu")
    graph.insert_edges(([1], [2]))
    live = as_cugraph(graph)
    assert live.has_edge(1.0, np.int64(2))
    for odd in (-1, 3, 2.5, "1", float("nan"), float("inf"), 2**80, None):
        assert not live.has_node(odd)
        assert not live.has_edge(1, odd)
        assert live.neighbors(odd).tolist() == []
    assert live.has_node(pd.Series([0, 7, 7]))  # compared by row, as cuGraph does


def test_an_emptied_graph_can_be_shown(rapids: SimpleNamespace) -> None:
    graph = dynstore.DynamicGraph(device="cpu", weighted=True)
    live = as_cugraph(graph)
    assert len(live.view_edge_list()) == 0
    assert live.nodes().tolist() == []
    graph.insert_edges(([0], [1], [2.0]))
    assert rapids.cugraph.bfs(live).edges() == [(0, 1, 2.0)]
    graph.delete_edges(([0], [1]))
    lent = rapids.cugraph.bfs(live)
    assert (lent.edges(), lent.offsets.tolist()) == ([], [0, 0, 0])
    assert lent.weights is not None


def test_updates_through_the_live_graph(rapids: SimpleNamespace) -> None:
    graph = dynstore.DynamicGraph(device="cpu", weighted=True)
    live = as_cugraph(graph, "a", "b", "w")
    assert live.insert_edges(pd.DataFrame({"a": [0, 1], "b": [1, 2], "w": [2.0, 3.0]})).inserted == 2
    assert live.insert_edges(([5], [6], [1.0])).inserted == 1
    assert (
        live.insert_edges(pd.DataFrame({"x": [1], "y": [2]}), "x", "y", on_duplicate="add", default_weight=1.0).replaced
        == 1
    )
    assert live.delete_edges(pd.DataFrame({"a": [0], "b": [1]})).deleted == 1
    assert live.version == graph.version == 4
    assert live.dynamic_graph is graph
    assert tuples(live.view_edge_list(), ["a", "b", "w"]) == [(1, 2, 4.0), (5, 6, 1.0)]


def test_rows_are_packed_once_a_version_and_lent_anew_each_time(rapids: SimpleNamespace) -> None:
    graph = dynstore.DynamicGraph(device="cpu")
    graph.insert_edges(([0, 1], [1, 2]))
    live = as_cugraph(graph)
    first, second = rapids.cugraph.bfs(live), rapids.cugraph.bfs(live)
    assert first is not second  # an algorithm may transpose what it got
    assert first.indices is second.indices
    before = first.edges()
    graph.insert_edges(([2], [0]))
    assert first.edges() == before
    assert rapids.cugraph.bfs(live).edges() == [(0, 1), (1, 2), (2, 0)]
    old = weakref.ref(packed_rows(graph).indices)
    del first, second
    graph.insert_edges(([4], [0]))
    rapids.cugraph.bfs(live)
    gc.collect()
    assert old() is None, "rows of an earlier version are kept"


def test_hasattr_and_getattr_are_one_request(rapids: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[LentGraph] = []

    def lend(*args: Any, **options: Any) -> LentGraph:
        made.append(LentGraph(*args, **options))
        return made[-1]

    rapids.bridge = Bridge(lend, "counting")
    graph = dynstore.DynamicGraph(device="cpu")
    graph.insert_edges(([0], [1]))
    live = as_cugraph(graph)
    for count in (1, 2, 3):
        assert rapids.cugraph.bfs(live) is made[-1]
        assert len(made) == count
    assert live._Impl._offered is None


def test_an_undirected_graph_lends_the_same_rows_both_ways(rapids: SimpleNamespace) -> None:
    graph = dynstore.DynamicGraph(device="cpu", directed=False)
    graph.insert_edges(([0, 1], [1, 2]))
    live = as_cugraph(graph)
    lent, pulled = rapids.cugraph.bfs(live), rapids.cugraph.pagerank(live)
    assert lent.indices is pulled.indices
    assert (lent.transposed, pulled.transposed) == (False, True)


def test_to_directed_and_to_undirected_make_graphs_of_their_own(rapids: SimpleNamespace) -> None:
    graph = dynstore.DynamicGraph(device="cpu", weighted=True)
    graph.insert_edges(([0, 1, 1], [1, 0, 2], [5.0, 3.0, 1.0]))
    graph.insert_vertices([4])
    live = as_cugraph(graph)
    both = live.to_undirected()
    assert not both.is_directed()
    assert tuples(both.view_edge_list(), ["source", "destination", "weight"]) == [(0, 1, 3.0), (1, 2, 1.0)]
    assert both.number_of_vertices() == 5
    back = both.to_directed()
    assert back.is_directed()
    assert back.number_of_edges() == 4
    graph.insert_edges(([7], [8], [1.0]))
    assert (both.number_of_edges(), back.number_of_edges(), both.to_undirected().number_of_edges()) == (2, 4, 2)
    named = dynstore.DynamicGraph(device="cpu", renumber=True)
    named.insert_edges((["x", "y"], ["y", "z"]))
    assert as_cugraph(named).to_undirected().neighbors("y").tolist() == ["x", "z"]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["dense", "strings"])
def test_graphs_of_the_other_direction_keep_ids_and_columns(
    rapids: SimpleNamespace, kind: str, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = dynstore.DynamicGraph(device="cpu", weighted=weighted, renumber=True, edge_columns={"id": "int64"})
    src, dst = (KINDS[kind](np.array(ends)) for ends in ([0, 1, 1, 3], [1, 0, 2, 3]))
    weights = [np.array([5.0, 3.0, 1.0, 2.0])] if weighted else []
    graph.insert_edges((src, dst, *weights, [70, 80, 90, 60]))
    monkeypatch.setattr(ShownIds, "strings_on_host", lambda ids: pytest.fail("strings are read on the host"))
    both = as_cugraph(graph).to_undirected()
    back = both.to_directed()
    for made, size in ((both, 3), (back, 5)):
        table = made.dynamic_graph.edge_table()
        assert len(table) == size
        found = dict(zip(zip(table["source"], table["destination"], strict=True), table["id"], strict=True))
        if weighted:  # of two directions the lighter one is kept
            assert found[(src[0], dst[0])] == 80
        assert found[(src[2], dst[2])] == 90
        assert found[(src[3], dst[3])] == 60
        made.insert_edges((src[:1], src[:1], *([[1.0]] if weighted else []), [7]))
        assert made.number_of_edges() == size + 1
    assert graph.number_of_edges() == 4


@pytest.mark.parametrize("kind", KINDS)
def test_cugraph_reads_types_without_a_frame_of_all_edges(
    rapids: SimpleNamespace, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Pair(kind, False, True)
    pair.update()
    live = as_cugraph(pair.graph, "from", "to", "cost")
    wanted = live.edgelist.edgelist_df
    assert type(wanted) is pd.DataFrame, "callers outside cuGraph get a frame"
    pair.update()
    made: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(rapids.modules["cudf"], "DataFrame", lambda *args, **options: made.append(1))
        first, src, has_weights, length, name, frame = rapids.cugraph.ego_graph(live, 0)
        num_rows, id_type, named, given = rapids.cugraph.louvain(live)
    assert not made
    assert name == named == "LightFrame"
    whole = live.edgelist.edgelist_df
    assert (first, src, has_weights, length) == (whole.dtypes.iloc[0], whole["src"].dtype, True, len(whole))
    assert (num_rows, id_type) == (len(live.input_df), live.input_df.dtypes.iloc[0])
    assert dict(frame.dtypes) == dict(whole.dtypes)
    assert dict(given.dtypes) == dict(live.input_df.dtypes)
    # What needs the rows gets them.
    assert frame[["src", "dst"]].equals(whole[["src", "dst"]])
    assert (frame["src"] == whole["src"]).all()
    assert frame["src"].max() == whole["src"].max()
    assert len(frame["weights"]) == len(whole)
    assert frame["weights"][0] == whole["weights"][0]
    assert frame.to_dict() == whole.to_dict()


def test_the_edges_that_were_given_have_the_users_names(rapids: SimpleNamespace) -> None:
    for kind in ("sparse", "strings"):
        for directed in (True, False):
            pair = Pair(kind, directed, True)
            pair.update()
            given = as_cugraph(pair.graph, "from", "to", "cost").input_df
            assert sorted(pair.key(*row[:2]) + row[2:] for row in tuples(given, ["from", "to", "cost"])) == pair.once()


def test_integers_have_a_map_to_themselves(rapids: SimpleNamespace) -> None:
    graph = dynstore.DynamicGraph(device="cpu", renumber=True)
    graph.insert_edges(([70, 50], [50, 90]))
    live = as_cugraph(graph)
    assert live.renumber_map.implementation.col_names == ["0"]
    assert live.unrenumber(pd.DataFrame({"vertex": [90, 50], "x": [1, 2]}), "vertex")["vertex"].tolist() == [90, 50]
    assert not live.renumbered
    plain = dynstore.DynamicGraph(device="cpu")
    plain.insert_edges(([7], [5]))
    assert as_cugraph(plain).renumber_map is None, "as in cuGraph, for renumber=False"


def test_undirected_strings_come_in_order(rapids: SimpleNamespace) -> None:
    """Numbers fall with the degree, but rows are in the order of the strings."""
    graph = dynstore.DynamicGraph(device="cpu", directed=False, renumber=True)
    graph.insert_edges((["c", "c", "c"], ["a", "b", "d"]))
    live = as_cugraph(graph)
    assert tuples(live.view_edge_list(), ["source", "destination"]) == [("a", "c"), ("b", "c"), ("c", "d")]
    for column in (live.view_edge_list()["source"], live.nodes(), live.neighbors("c"), live.neighbors("nobody")):
        assert column.dtype == "string"


def test_an_adjacency_list_of_far_ids_takes_one_number_a_row(
    rapids: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = dynstore.DynamicGraph(device="cpu", renumber=True)
    graph.insert_edges(([100_000, 3], [3, 100_000]))
    cupy, made = rapids.modules["cupy"], []
    arange = cupy.arange
    monkeypatch.setattr(cupy, "arange", lambda *args, **options: made.append(args) or arange(*args, **options))
    offsets, indices, _ = as_cugraph(graph).view_adj_list()
    assert (len(offsets), offsets.dtype, indices.tolist()) == (100_002, np.int32, [100_000, 3])
    assert offsets[3:5].tolist() == [0, 1]
    assert offsets[100_000:].tolist() == [1, 2]
    assert all(count <= 4 for (count, *_) in made)
    graph.insert_edges(([7_000_000_000], [3]))
    with pytest.raises(
        LimitError, match=r"view_adj_list: the highest id is 7000000000, .* wanted ids below 2147483647"
    ):
        as_cugraph(graph).view_adj_list()
