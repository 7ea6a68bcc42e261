"""Several threads may read a graph at once; what is made on the first read is made once, and right."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore import DynamicGraph
from dynstore.graph.core import GraphCore
from dynstore.stores import STORES
from tests.crossed import in_turn

READERS = 4
NUM_VERTICES = 600


@pytest.fixture(autouse=True)
def restless() -> Iterator[None]:
    """Threads take turns much more often than usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def read_together(*reads: Callable[[], Any]) -> list[list[Any]]:
    """Let each of several threads make all reads, each beginning with another one; return their results by read."""
    gate, errors = threading.Barrier(READERS), []
    found: list[list[Any]] = [[None] * READERS for _ in reads]

    def run(reader: int) -> None:
        gate.wait()
        try:
            for i in range(len(reads)):
                read = (i + reader) % len(reads)
                found[read][reader] = reads[read]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(reader,)) for reader in range(READERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return found


class Model:
    """The edges as sorted numbers ``source * NUM_VERTICES + destination``, and their weights."""

    def __init__(self, directed: bool) -> None:
        self.directed = directed
        self.keys, self.weights = np.empty(0, np.int64), np.empty(0, np.float32)

    def change(self, src: np.ndarray, dst: np.ndarray, weights: np.ndarray | None) -> None:
        """Insert edges with weights, or delete edges."""
        if not self.directed:
            src, dst = np.minimum(src, dst), np.maximum(src, dst)
        keys = src * NUM_VERTICES + dst
        kept = ~np.isin(self.keys, keys)
        self.keys, self.weights = self.keys[kept], self.weights[kept]
        if weights is not None:
            last, at = np.unique(keys[::-1], return_index=True)
            order = np.argsort(keys := np.concatenate((self.keys, last)))
            self.keys = keys[order]
            self.weights = np.concatenate((self.weights, weights[::-1][at]))[order]

    def check(self, columns: dict[str, Any]) -> None:
        np.testing.assert_array_equal(np.asarray(columns["source"]) * NUM_VERTICES + columns["destination"], self.keys)
        np.testing.assert_array_equal(columns["weight"], self.weights)

    def in_degrees(self) -> np.ndarray:
        """Return the in-degrees; in an undirected graph, the degrees."""
        src, dst = np.divmod(self.keys, NUM_VERTICES)
        ends = dst if self.directed else np.concatenate((dst, src[src != dst]))
        return np.bincount(ends, minlength=NUM_VERTICES)


def stir(graph: DynamicGraph, model: Model, rng: np.random.Generator, num_rows: int) -> None:
    """Insert and delete random edges."""
    src, dst = rng.integers(0, NUM_VERTICES, (2, num_rows))
    weights = rng.random(num_rows, np.float32)
    graph.insert_edges((src, dst, weights))
    model.change(src, dst, weights)
    src, dst = rng.integers(0, NUM_VERTICES, (2, num_rows))
    graph.delete_edges((src, dst))
    model.change(src, dst, None)


def check_reads(graph: DynamicGraph, model: Model) -> None:
    """Read everything that is made on the first read, in several threads, then alone."""
    ends = np.divmod(model.keys, NUM_VERTICES)

    def count_sources() -> np.ndarray:
        into = graph.snapshot(transposed=True)
        return np.bincount(into.indices[into.mask()], minlength=NUM_VERTICES)

    reads = (
        graph.edge_columns,
        lambda: graph.snapshot(transposed=True),
        graph.snapshot,
        lambda: graph.in_degree()["degree"].to_numpy(),
        lambda: graph.edge_weights(ends),
        lambda: np.concatenate([piece["source"] for piece in graph.iterate_edges(500)]),
        lambda: graph.to_arrow(compact=False).num_rows,
        lambda: dynstore.bfs(graph, 0)["distance"].to_numpy(),
        count_sources,
    )
    found = read_together(*reads)
    for columns in found[0]:
        model.check(columns)
    for views in found[1:3]:
        assert all(view is views[0] for view in views), "a view of one version was made twice"
    for degrees in found[3]:
        np.testing.assert_array_equal(degrees, model.in_degrees())
    for weights in found[4]:
        np.testing.assert_array_equal(weights, model.weights)
    for sources in found[5]:
        np.testing.assert_array_equal(np.sort(sources), ends[0])
    for other in found[6:]:
        for result in other[1:]:
            np.testing.assert_array_equal(result, other[0])
    model.check(graph.edge_columns())


@in_turn(store=sorted(STORES), directed=[True, False])
def test_reads_beside_reads_are_right(store: str, directed: bool, rng: np.random.Generator) -> None:
    graph = DynamicGraph(store=store, directed=directed, weighted=True, device="cpu")
    graph.insert_vertices(NUM_VERTICES - 1)
    model = Model(directed)
    for step in range(12):
        stir(graph, model, rng, 3000 if step == 0 else int(rng.choice([1, 20, 400])))
        check_reads(graph, model)


@pytest.mark.thorough
@pytest.mark.parametrize("store", sorted(STORES))
def test_many_reads_beside_reads_are_right(store: str, rng: np.random.Generator) -> None:
    graph = DynamicGraph(store=store, directed=bool(rng.integers(2)), weighted=True, device="cpu")
    graph.insert_vertices(NUM_VERTICES - 1)
    model = Model(graph.is_directed())
    for step in range(100):
        stir(graph, model, rng, 10000 if step == 0 else int(rng.choice([1, 20, 400])))
        check_reads(graph, model)
        if step % 10 == 9:
            graph = graph.copy()
            graph.core.into = None  # the next reads make the in-edges again


def test_in_edges_are_made_once(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    made = []
    make = GraphCore.store_of
    monkeypatch.setattr(GraphCore, "store_of", lambda self, batch: (made.append(1), make(self, batch))[1])
    graph = DynamicGraph(device="cpu")
    graph.insert_edges(tuple(rng.integers(0, NUM_VERTICES, (2, 3000))))
    read_together(lambda: graph.predecessors(1), lambda: graph.snapshot(transposed=True))
    assert len(made) == 1


def test_ids_in_a_librarys_form_are_made_once(rng: np.random.Generator) -> None:
    graph = DynamicGraph(device="cpu", renumber=True)
    src, dst = rng.integers(0, 10**9, (2, 3000))
    graph.insert_edges((src.astype(str), dst.astype(str)))
    tables = read_together(graph.to_arrow)[0]
    dictionaries = [table["source"].chunk(0).dictionary for table in tables]
    addresses = {dictionary.buffers()[-1].address for dictionary in dictionaries}
    assert len(addresses) == 1
    assert sorted(dictionaries[0].to_pylist()) == sorted(set(src.astype(str)) | set(dst.astype(str)))
