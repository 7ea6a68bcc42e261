"""A sharded graph beside one graph that gets the rows of all ranks in their order: both must be the same."""

from __future__ import annotations

from typing import Any

import numpy as np

import dynstore
from dynstore import distributed
from dynstore.distributed import Communicator, ShardedGraph
from dynstore.testing.model import COUNTS

__all__ = ["Script", "compare", "state_of", "whole"]

Columns = tuple[np.ndarray, ...]


class Script:
    """Random updates: for each the method, and the columns of each batch for each rank.

    Parameters
    ----------
    seed : int
    ranks : int
    num_ids : int
        Small, so that edges repeat.
    weighted : bool
    name : callable
        Makes an id of a number.
    """

    def __init__(self, seed: int, ranks: int, num_ids: int, weighted: bool, name: Any = int, most: int = 12) -> None:
        self.random, self.ranks, self.num_ids, self.most = np.random.default_rng(seed), ranks, num_ids, most
        self.weighted, self.name = weighted, name
        self.dtype = object if isinstance(name(0), str) else np.int64

    def ids(self, count: int) -> np.ndarray:
        return np.array([self.name(int(n)) for n in self.random.integers(0, self.num_ids, count)], dtype=self.dtype)

    def batch(self, weighted: bool) -> list[Columns]:
        sizes = self.random.integers(0, self.most, self.ranks) * (self.random.random(self.ranks) < 0.8)
        columns = [(self.ids(size), self.ids(size)) for size in sizes]
        return [(*pair, self.random.random(len(pair[0]))) if weighted else pair for pair in columns]

    def steps(self, count: int) -> list[tuple[str, list[list[Columns]], dict[str, Any]]]:
        steps: list[tuple[str, list[list[Columns]], dict[str, Any]]] = []
        for method in self.random.choice(["insert_edges", "delete_edges", "update"], count, p=[0.5, 0.2, 0.3]).tolist():
            add = {"on_duplicate": "add"} if method != "delete_edges" and self.random.random() < 0.3 else {}
            inserts = [] if method == "delete_edges" else [self.batch(self.weighted)]
            deletes = [] if method == "insert_edges" else [self.batch(False)]
            steps.append((method, [*inserts, *deletes], add))
        return steps


def whole(batch: list[Columns]) -> Columns:
    """Return the rows of all ranks."""
    return tuple(np.concatenate(parts) for parts in zip(*batch, strict=True))


def listed(values: Any) -> list[Any]:
    """Return a column's values, also of cuDF, which wants to be asked for a copy on the host."""
    return (values.to_pandas() if hasattr(values, "to_pandas") else values).tolist()


def by_edge(table: Any, directed: bool) -> dict[tuple[Any, Any], Any]:
    """Return the rows of an edge table, undirected ones with the lower id first."""
    rows = list(zip(*(listed(table[name]) for name in table.columns), strict=True))
    edges = {(row[:2] if directed else tuple(sorted(row[:2]))): row[2:] for row in rows}
    assert len(edges) == len(rows), "an edge is shown twice"
    return edges


def state_of(G: ShardedGraph) -> tuple[Any, ...]:
    """Return all that a refused update must leave as it was, on this rank."""
    table = G.edge_table()
    columns = [listed(table[name]) for name in table.columns]
    arcs = [column.tolist() for column in G.shard.edge_columns().values()]
    return G.number_of_edges(), G.number_of_vertices(), G.version, listed(G.vertex_ids()), columns, arcs


def compare(script: Script, count: int, device: str, partition: str = "hash", **options: Any) -> None:
    """Do updates to a sharded graph and to one graph, and compare reports and contents after each."""
    options = {"frames": "pandas", **options}
    one = dynstore.DynamicGraph(device=device, **options)
    host = one.core.backend.to_host
    steps = script.steps(count)
    asked = whole(script.batch(False))

    def program(comm: Communicator) -> list[Any]:
        G = ShardedGraph(comm, partition=partition, **options)
        log = []
        for method, batches, more in steps:
            report = getattr(G, method)(*(batch[comm.rank] for batch in batches), **more)
            log.append((report, state_of(G), G.edge_table(), G.has_edges(asked).tolist(), G.edge_weights(asked)))
        return [*log, (G.out_degree(), G.in_degree(), G.degree(), G.gather(comm.size - 1))]

    logs = distributed.run(program, ranks=script.ranks, device=device)  # type: ignore[arg-type]
    for place, (method, batches, more) in enumerate(steps):
        wanted = getattr(one, method)(*(whole(batch) for batch in batches), **more)
        tables = {}
        for rank, log in enumerate(logs):
            report, state, table, there, weights = log[place]
            assert {name: getattr(report, name) for name in COUNTS} == {name: getattr(wanted, name) for name in COUNTS}
            assert state[:3] == (one.number_of_edges(), one.number_of_vertices(), one.version), (place, rank)
            assert sorted(state[3]) == sorted(one.vertex_ids().tolist())
            assert there == one.has_edges(asked).tolist()
            np.testing.assert_array_equal(host(weights), host(one.edge_weights(asked)), strict=True)
            edges = by_edge(table, one.is_directed())
            assert not tables.keys() & edges.keys(), "an edge is shown by two ranks"
            tables |= edges
        assert tables == by_edge(one.edge_table(), one.is_directed())
    *degrees, gathered = logs[-1][-1]
    assert [log[-1][-1] for log in logs[:-1]] == [None] * (len(logs) - 1)
    for found, wanted in zip(degrees, (one.out_degree(), one.in_degree(), one.degree()), strict=True):
        assert list(found.columns) == list(wanted.columns)
        assert found["degree"].dtype == wanted["degree"].dtype
        by_id = dict(zip(wanted["vertex"], wanted["degree"], strict=True))
        assert dict(zip(found["vertex"], found["degree"], strict=True)) == by_id
    assert by_edge(gathered.edge_table(), one.is_directed()) == by_edge(one.edge_table(), one.is_directed())
    assert (gathered.version, gathered.number_of_vertices()) == (one.version, one.number_of_vertices())
    assert gathered.number_of_edges() == one.number_of_edges()
