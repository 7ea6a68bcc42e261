"""Insertions, deletions and queries in one batch, against the same operations one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest

import dynstore
from dynstore import DynamicGraph, Operation
from dynstore.errors import InputError
from dynstore.stores import STORES
from dynstore.testing.invariants import check_graph, named_edges
from dynstore.testing.pair import ID_KINDS
from tests.conftest import DEVICES
from tests.crossed import in_turn

KINDS = [operation.name.lower() for operation in Operation]
FRAMES = ("has_edge", "successors", "predecessors", "k_hop")


def stores_of(device: str) -> list[str]:
    return [name for name in sorted(STORES) if device == "cpu" or name not in ("adjlists", "pma")]


CASES = [(device, store) for device in DEVICES for store in stores_of(device)]


def random_operations(
    rng: np.random.Generator, size: int, num_ids: int, name: Callable[[int], Any] = int, writes: float = 0.5
) -> pandas.DataFrame:
    """Return operations with few ids and few times, so that edges repeat and times tie."""
    share = [writes * 0.6, writes * 0.4, *[(1 - writes) / 4] * 4]
    ids = np.array([name(number) for number in range(num_ids + 1)], dtype=object)
    ends = ids[rng.integers(0, num_ids, (2, size))]
    frame = pandas.DataFrame(
        {
            "op": rng.choice(KINDS, size, p=share),
            "time": rng.integers(0, max(2, size // 4), size),
            "source": ends[0].tolist(),
            "destination": ends[1].tolist(),
            "weight": rng.integers(-8, 8, size) / 4,
            "k": rng.integers(0, 4, size),
        }
    )
    queries = frame["op"].isin(["has_edge", *KINDS[3:]])
    frame.loc[queries & (rng.random(size) < 0.1), "source"] = ids[-1]  # a vertex that never is one
    return frame


class Model:
    """A dict of edges and the operations on it, one by one."""

    def __init__(self, directed: bool, dense: bool) -> None:
        self.directed, self.dense = directed, dense
        self.edges: dict[tuple[Any, Any], float] = {}
        self.vertices: set[Any] = set()

    def both(self, u: Any, v: Any) -> set[tuple[Any, Any]]:
        return {(u, v)} if self.directed else {(u, v), (v, u)}

    def insert(self, u: Any, v: Any, weight: float) -> None:
        self.edges |= dict.fromkeys(self.both(u, v), weight)
        self.vertices |= set(range(max(u, v) + 1)) if self.dense else {u, v}

    def delete(self, u: Any, v: Any) -> None:
        for pair in self.both(u, v):
            self.edges.pop(pair, None)

    def row(self, u: Any, into: bool) -> list[tuple[Any, float]]:
        ends = ((b, a) if into else (a, b) for a, b in self.edges)
        return sorted((b, w) for (a, b), w in zip(ends, self.edges.values(), strict=True) if a == u)

    def hops(self, u: Any, k: int) -> list[tuple[Any, int]]:
        if u not in self.vertices:
            return []
        found, last = {u: 0}, {u}
        for hop in range(1, k + 1):
            last = {b for a, b in self.edges if a in last} - set(found)
            found |= dict.fromkeys(last, hop)
        return sorted(found.items())

    def run(self, ops: pandas.DataFrame) -> dict[str, list[tuple[Any, ...]]]:
        answers: dict[str, list[tuple[Any, ...]]] = {name: [] for name in FRAMES}
        for row, one in ops.sort_values("time", kind="stable").iterrows():
            u, v = one["source"], one["destination"]
            if one["op"] == "insert":
                self.insert(u, v, one["weight"])
            elif one["op"] == "delete":
                self.delete(u, v)
            elif one["op"] == "has_edge":
                answers["has_edge"].append((row, (u, v) in self.edges))
            elif one["op"] == "k_hop":
                answers["k_hop"] += [(row, *found) for found in self.hops(u, int(one["k"]))]
            else:
                answers[one["op"]] += [(row, *found) for found in self.row(u, one["op"] == "predecessors")]
        return {name: sorted(rows) for name, rows in answers.items()}


def run_on_graph(G: DynamicGraph, ops: pandas.DataFrame) -> dict[str, list[tuple[Any, ...]]]:
    """Run operations one by one through the methods of a graph."""
    answers: dict[str, list[tuple[Any, ...]]] = {name: [] for name in FRAMES}
    for row, one in ops.sort_values("time", kind="stable").iterrows():
        u, v = one["source"], one["destination"]
        if one["op"] == "insert":
            G.insert_edges([(u, v, one["weight"])] if G.is_weighted() else [(u, v)])
        elif one["op"] == "delete":
            G.delete_edges([(u, v)])
        elif one["op"] == "has_edge":
            answers["has_edge"].append((row, bool(G.has_edges([(u, v)])[0])))
        elif u in G and one["op"] == "k_hop":
            answers["k_hop"] += [(row, *found) for found in G.k_hop(u, int(one["k"])).itertuples(index=False)]
        elif u in G:
            columns = getattr(G, one["op"])(u, weights=True)
            answers[one["op"]] += [(row, *found) for found in zip(*columns, strict=True)]
    return {name: sorted(rows) for name, rows in answers.items()}


def listed(results: dynstore.OperationResults) -> dict[str, list[tuple[Any, ...]]]:
    """Return the answers as lists of rows, in their own order."""
    return {name: list(getattr(results, name).itertuples(index=False, name=None)) for name in FRAMES}


def unweighted(answers: dict[str, list[tuple[Any, ...]]]) -> dict[str, list[tuple[Any, ...]]]:
    return {
        name: rows if name in ("has_edge", "k_hop") else [row[:2] for row in rows] for name, rows in answers.items()
    }


@in_turn(case=CASES, directed=[True, False], weighted=[False, True])
def test_a_batch_answers_as_if_one_by_one(
    case: tuple[str, str], directed: bool, weighted: bool, rng: np.random.Generator
) -> None:
    device, store = case
    batches, size, num_ids = (4, 90, 12) if device == "cpu" else (2, 24, 6)
    G = DynamicGraph(directed, weighted, store, device=device, frames="pandas")
    other = DynamicGraph(directed, weighted, device="cpu", frames="pandas")
    model = Model(directed, dense=True)
    for batch in range(batches):
        ops = random_operations(rng, size, num_ids + batch)
        expected = model.run(ops)
        expected = expected if weighted else unweighted(expected)
        results = G.apply(ops)
        assert listed(results) == expected
        assert run_on_graph(other, ops) == expected or not weighted
        assert set(named_edges(G)) == set(model.edges)
        assert not weighted or named_edges(G) == model.edges
        assert G.number_of_vertices() == len(model.vertices)
        assert G.version == batch + 1
        check_graph(G, transposed=directed)
        counted = sum(results.report[:5])
        assert counted == int(ops["op"].isin(["insert", "delete"]).sum())


@pytest.mark.parametrize("ids", ["sparse", "strings"])
@pytest.mark.parametrize("directed", [True, False])
def test_ids_of_any_kind(backend_name: str, directed: bool, ids: str, rng: np.random.Generator) -> None:
    size, num_ids = (80, 10) if backend_name == "cpu" else (20, 5)
    G = DynamicGraph(directed, True, device=backend_name, renumber=True, frames="pandas")
    other, model = DynamicGraph(directed, True, device="cpu", renumber=True), Model(directed, dense=False)
    for batch in range(4 if backend_name == "cpu" else 2):
        ops = random_operations(rng, size, num_ids + 3 * batch, ID_KINDS[ids])
        results = G.apply(ops)
        expected = model.run(ops)
        assert listed(results) == expected
        assert run_on_graph(other, ops) == expected
        assert named_edges(G) == model.edges
        assert set(G) == model.vertices
        check_graph(G, transposed=directed)
        if batch == 1 and backend_name == "cpu":
            G.reorder()


@pytest.mark.parametrize("vertex_dtype", ["int32", "int64"])
@pytest.mark.parametrize("writes", [0.0, 0.1, 0.9, 1.0])
def test_few_and_many_writes(writes: float, vertex_dtype: str, rng: np.random.Generator) -> None:
    G = DynamicGraph(weighted=True, device="cpu", vertex_dtype=vertex_dtype, weight_dtype="float64")
    model = Model(directed=True, dense=True)
    for ops in (random_operations(rng, 200, 25, writes=0.8), random_operations(rng, 300, 30, writes=writes)):
        assert listed(G.apply(ops)) == model.run(ops)
    assert named_edges(G) == model.edges
    assert G.version == 2 - (writes == 0)
    assert G.apply(ops.iloc[:0]).report == dynstore.UpdateReport()


def test_ties_go_by_row_and_rows_may_be_in_any_order_of_time() -> None:
    G = DynamicGraph(device="cpu")
    found = G.apply(
        {
            "op": ["has_edge", "has_edge", "insert", "has_edge", "delete", "has_edge"],
            "time": [9, 5, 5, 5, 7, 7],
            "source": [0] * 6,
            "destination": [1] * 6,
        }
    )
    assert found.has_edge["query"].tolist() == [0, 1, 3, 5]
    assert found.has_edge["exists"].tolist() == [False, False, True, False]
    in_rows = G.apply({"op": ["insert", "has_edge"], "source": [0, 0], "destination": [1, 1]}, time=None)
    assert in_rows.has_edge["exists"].tolist() == [True]


def test_a_vertex_is_one_from_its_first_insertion_on() -> None:
    for renumber in (False, True):
        G = DynamicGraph(device="cpu", renumber=renumber)
        ops = {
            "op": ["k_hop", "insert", "k_hop", "delete", "k_hop", "k_hop"],
            "source": [3, 3, 3, 3, 2, 3],
            "destination": [None, 1, None, 1, None, None],
            "k": [1] * 6,
        }
        found = G.apply(ops, time=None).k_hop
        dense = [(4, 2, 0)] * (not renumber)
        assert list(found.itertuples(index=False, name=None)) == [(2, 1, 1), (2, 3, 0), *dense, (5, 3, 0)]
        assert G.number_of_vertices() == (2 if renumber else 4)  # the vertices stay, though no edge does
        assert G.number_of_edges() == 0


def test_the_report_counts_the_last_operation_on_each_edge() -> None:
    G = DynamicGraph.from_edges([(0, 1), (1, 2), (2, 3)], device="cpu")
    ops = pandas.DataFrame(
        [
            ("insert", 0, 1), ("delete", 0, 1), ("insert", 0, 1),  # was there, stays: replaced
            ("insert", 1, 2), ("delete", 1, 2),  # deleted
            ("insert", 7, 7), ("delete", 7, 7),  # never there: absent
            ("delete", 5, 5), ("insert", 5, 5),  # inserted
        ],
        columns=["op", "source", "destination"],
    )  # fmt: skip
    report = G.apply(ops, time=None).report
    assert (report.inserted, report.replaced, report.deleted, report.absent, report.duplicates) == (1, 1, 1, 1, 5)
    assert set(named_edges(G)) == {(0, 1), (2, 3), (5, 5)}


def test_followed_answers_and_extra_columns(rng: np.random.Generator) -> None:
    G = DynamicGraph(directed=False, weighted=True, device="cpu", edge_columns={"id": "int64"})
    monitor = G.track("triangle_count")
    model, ids = Model(directed=False, dense=True), {}
    for batch in range(4):
        ops = random_operations(rng, 120, 12)
        ops["id"] = np.arange(120) + 1000 * batch
        assert listed(G.apply(ops)) == model.run(ops)
        for one in ops.sort_values("time", kind="stable").itertuples():
            if one.op == "insert":
                ids |= dict.fromkeys(model.both(one.source, one.destination), one.id)
        table = G.edge_table()
        assert [ids[pair] for pair in zip(table["source"], table["destination"], strict=True)] == table["id"].tolist()
        np.testing.assert_array_equal(monitor.result()["counts"], dynstore.triangle_count(G)["counts"])


@pytest.mark.parametrize("directed", [True, False])
def test_times_of_edges_are_those_of_one_by_one(directed: bool, rng: np.random.Generator) -> None:
    G, other = (DynamicGraph(directed, True, device="cpu", timestamps="int64") for _ in range(2))
    for batch in (3, 1, 2, 0):  # some are late
        ops = random_operations(rng, 90, 9).rename(columns={"time": "when"})
        ops["when"] += 20 * batch
        G.apply(ops, time="when")
        for one in ops.sort_values("when", kind="stable").itertuples():
            if one.op == "insert":
                other.insert_edges([(one.source, one.destination, one.weight, one.when)])
            elif one.op == "delete":
                other.delete_edges([(one.source, one.destination)])
        assert G.edge_table().equals(other.edge_table())
        check_graph(G)
    with pytest.raises(InputError, match="apply: time is None, and the graph keeps times; wanted the name of their"):
        G.apply(ops, time=None)


@pytest.mark.parametrize("weighted", [False, True])
def test_deletions_alone_from_a_graph_with_extra_columns(weighted: bool) -> None:
    G = DynamicGraph(weighted=weighted, device="cpu", edge_columns={"id": "int64"})
    columns = [0, 1, 2], [1, 2, 3], *([[1.0, 2.0, 3.0]] * weighted), [7, 8, 9]
    G.insert_edges(columns)
    ops = {"op": ["delete", "successors"], "source": [0, 1], "destination": [1, None]}
    assert G.apply(ops, time=None).successors["vertex"].tolist() == [2]
    more = {"op": ["insert", "delete"], "source": [5, 5], "destination": [6, 6], "weight": [1.0, None], "id": [1, None]}
    report = G.apply(more, time=None).report
    assert (report.inserted, report.absent, report.duplicates) == (0, 1, 1)
    assert G.edge_table()["id"].tolist() == [8, 9]
    check_graph(G)


def test_a_deleted_vertex_whose_row_is_taken_is_unknown() -> None:
    G = DynamicGraph(device="cpu", renumber=True, reuse_ids=True)
    G.insert_edges([("ann", "bob"), ("bob", "cid")])
    G.delete_vertices(["ann"])
    ops = {
        "op": ["k_hop", "insert", "k_hop", "successors", "k_hop", "has_edge", "k_hop"],
        "source": ["dan", "dan", "ann", "dan", "dan", "ann", "bob"],
        "destination": [None, "bob", None, None, None, "bob", None],
        "k": [1, None, 1, None, 2, None, 1],
    }
    found = G.apply(ops, time=None)
    assert found.successors["vertex"].tolist() == ["bob"]
    assert found.has_edge["exists"].tolist() == [False]
    assert list(found.k_hop.itertuples(index=False, name=None)) == [
        (4, "bob", 1), (4, "cid", 2), (4, "dan", 0), (6, "bob", 0), (6, "cid", 1),
    ]  # fmt: skip
    assert "ann" not in G
