"""Deleting and inserting in one step equals doing one after the other, and gpma+ plans both before it writes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from dynstore import DynamicGraph
from dynstore.batches.make import make_batch
from dynstore.batches.sorted import EdgeBatch
from dynstore.pins import export
from dynstore.stores.base import Store
from dynstore.testing.invariants import check_against_model, check_graph
from dynstore.testing.model import ModelGraph

Columns = tuple[np.ndarray, ...]


def pairs_of(rng: np.random.Generator, num_vertices: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return random pairs with skewed rows: some leaves get many keys, most get none."""
    src = (num_vertices * rng.random(count) ** 3).astype(np.int32)
    return src, rng.integers(0, num_vertices, count).astype(np.int32)


def chosen_of(rng: np.random.Generator, held: Sequence[tuple[int, int]], count: int) -> tuple[np.ndarray, np.ndarray]:
    chosen = np.array([held[i] for i in rng.integers(0, len(held), count)])
    return chosen[:, 0], chosen[:, 1]


@pytest.mark.parametrize("store", ["gpma+", "merge"])
@pytest.mark.parametrize("directed", [True, False], ids=["directed", "undirected"])
@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("add", [False, True], ids=["replace", "add"])
def test_an_exchange_is_a_deletion_and_then_an_insertion(
    store: str, directed: bool, weighted: bool, add: bool, rng: np.random.Generator
) -> None:
    graph = DynamicGraph(directed=directed, weighted=weighted, store=store, device="cpu")
    model = ModelGraph(directed=directed, weighted=weighted)

    def with_weights(pairs: Columns) -> Columns:
        return (*pairs, rng.integers(1, 9, pairs[0].size).astype(np.float32)) if weighted else pairs

    first = with_weights(pairs_of(rng, 150, 1500))
    graph.insert_edges(first)
    model.insert_edges(first)
    graph.predecessors(0)  # in-edges from here on
    for size in (3, 40, 600, 200, 900):
        leaving = chosen_of(rng, sorted(model.edges), size)
        again = tuple(column[: size // 3] for column in leaving)  # these are deleted and inserted
        more = pairs_of(rng, 150 + size // 100, size)
        arriving = with_weights(tuple(np.concatenate(columns) for columns in zip(again, more, strict=True)))
        how = "add" if add else "replace"
        report = graph.update(insert=arriving, delete=leaving, on_duplicate=how)
        deleted, inserted = model.delete_edges(leaving), model.insert_edges(arriving, on_duplicate=how)
        model.version -= 1  # two for the model, one for the graph
        assert report.deleted == deleted.deleted
        assert (report.inserted, report.replaced) == (inserted.inserted, inserted.replaced)
        check_graph(graph, transposed=True)
        check_against_model(graph, model, transposed=True)


@pytest.fixture
def store(rng: np.random.Generator) -> Store:
    graph = DynamicGraph(store="gpma+", device="cpu")
    graph.insert_edges(pairs_of(rng, 1000, 6000))
    return graph.core.out


def batch_of(store: Store, rng: np.random.Generator, count: int) -> EdgeBatch:
    return make_batch(store.backend, *pairs_of(rng, 1000, count), None, True, max_id=1000).materialized()


def test_a_plan_of_an_exchange_writes_nothing(store: Store, rng: np.random.Generator) -> None:
    before = store.slots.copy(store.backend)
    gone, more = batch_of(store, rng, 400), batch_of(store, rng, 400)
    assert store.plan_exchange(gone, more, store.num_vertices, "replace") is not None
    for name in ("src", "dst", "valid", "offsets"):
        assert np.array_equal(getattr(store.slots, name), getattr(before, name))
    assert store.num_edges == before.num_edges


def test_an_exchange_is_not_planned_as_one_while_an_export_shows_the_slots(
    store: Store, rng: np.random.Generator
) -> None:
    gone, more = batch_of(store, rng, 10), batch_of(store, rng, 10)
    shown = export(store.slots.src, store.slots.pins)
    assert store.plan_exchange(gone, more, store.num_vertices, "replace") is None
    del shown
    assert store.plan_exchange(gone, more, store.num_vertices, "replace") is not None


def test_restored_edges_have_room_when_everything_is_merged(rng: np.random.Generator) -> None:
    graph, model = DynamicGraph(store="gpma+", device="cpu"), ModelGraph(directed=True)
    for side in (graph, model):
        side.insert_edges(pairs_of(np.random.default_rng(1), 300, 4000))
    leaving = chosen_of(rng, sorted(model.edges), 1500)
    for side in (graph, model):
        side.delete_edges(leaving)
    arriving = tuple(np.concatenate(columns) for columns in zip(leaving, pairs_of(rng, 300, 1500), strict=True))
    assert graph.insert_edges(arriving).path == "merge"
    model.insert_edges(arriving)
    check_graph(graph)
    check_against_model(graph, model)
