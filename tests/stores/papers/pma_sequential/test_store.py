"""What is the sequential packed memory array's own: keys one by one, windows spread in place, the host only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dynstore import DynamicGraph
from dynstore.errors import InputError
from dynstore.testing.invariants import check_graph
from tests.conftest import DEVICES

LEAF = 32
TIGHT = {"leaf_upper": 1.0, "root_upper": 0.97, "build_density": 0.95, "root_lower": 0.9, "leaf_lower": 0.5}


def random_batch(rng: np.random.Generator, num_vertices: int, size: int) -> tuple[np.ndarray, ...]:
    return rng.integers(0, num_vertices, size), rng.integers(0, num_vertices, size), rng.random(size)


@pytest.mark.parametrize("device", [name for name in DEVICES if name != "cpu"])
def test_other_devices_are_refused_with_one_clear_error(device: str) -> None:
    with pytest.raises(InputError) as caught:
        DynamicGraph(store="pma", device=device)
    assert str(caught.value) == f"store 'pma': got device {device!r}; wanted 'cpu', it runs on the host only"


@pytest.mark.parametrize("options", [{}, TIGHT], ids=["default", "tight"])
def test_it_holds_what_gpma_plus_holds(options: dict[str, Any]) -> None:
    rng = np.random.default_rng(1)
    first = random_batch(rng, 300, 3000)
    graphs = [DynamicGraph.from_edges(first, device="cpu", store=store, **options) for store in ("pma", "gpma+")]
    for step in range(30):
        batch, mode = random_batch(rng, 300, 80), ("replace", "add")[step % 2]
        reports = [graph.insert_edges(batch, on_duplicate=mode) for graph in graphs]
        assert reports[0].inserted == reports[1].inserted
        for graph in graphs:
            graph.delete_edges((batch[0][:40], batch[1][:40]))
        assert graphs[0].edge_table().equals(graphs[1].edge_table())
        check_graph(graphs[0])


def test_keys_one_by_one_and_keys_in_one_batch_lie_in_the_same_slots() -> None:
    rng = np.random.default_rng(2)
    first = random_batch(rng, 200, 4000)
    one, whole = (DynamicGraph.from_edges(first, device="cpu", store="pma") for _ in range(2))
    src, dst, weights = random_batch(rng, 200, 300)
    keys, last = np.unique((src * 200 + dst)[::-1], return_index=True)
    weights = weights[::-1][last]
    assert whole.insert_edges((keys // 200, keys % 200, weights)).path == "in-place"
    for key, weight in zip(keys, weights, strict=True):
        one.insert_edges(([key // 200], [key % 200], [weight]))
    assert (one.snapshot().indices == whole.snapshot().indices).all()
    assert (one.snapshot().valid == whole.snapshot().valid).all()


def test_no_leaf_gets_full() -> None:
    """An insertion takes no leaf past its limit, and spreads wider windows so that none is either."""
    rng = np.random.default_rng(4)
    graph = DynamicGraph.from_edges(random_batch(rng, 2000, 20_000), device="cpu", store="pma")
    hub = np.arange(1500)
    for part in np.array_split(rng.permutation(hub), 10):
        assert graph.insert_edges((np.full(part.size, 7), part, part / 2)).path == "in-place"
        counts = graph.snapshot().mask().reshape(-1, LEAF).sum(axis=1)
        assert counts.max() <= np.ceil(0.92 * LEAF)
    check_graph(graph)


def test_deletions_pack_what_became_too_empty() -> None:
    rng = np.random.default_rng(5)
    graph = DynamicGraph.from_edges(random_batch(rng, 500, 20_000), device="cpu", store="pma")
    table = graph.edge_table()
    for vertex in range(60):
        assert graph.delete_edges(table[table.source == vertex]).path == "in-place"
    assert (graph.snapshot().mask().reshape(-1, LEAF).sum(axis=1) >= np.floor(0.08 * LEAF)).all()
    check_graph(graph)


def test_a_reserved_array_stays_as_it_is() -> None:
    graph = DynamicGraph(device="cpu", store="pma", weighted=True, capacity=20_000)
    slots = graph.snapshot().num_slots
    rng = np.random.default_rng(6)
    batches = [random_batch(rng, 2000, 2000) for _ in range(10)]
    for batch in batches:
        assert not graph.insert_edges(batch).grown
    for batch in batches:
        graph.delete_edges(batch)
        check_graph(graph)
    assert graph.snapshot().num_slots == slots


def test_the_array_grows_and_shrinks_as_a_whole() -> None:
    rng = np.random.default_rng(3)
    graph = DynamicGraph.from_edges(random_batch(rng, 500, 5000), device="cpu", store="pma")
    slots = graph.snapshot().num_slots
    report = graph.insert_edges(random_batch(rng, 500, 3000))
    assert (report.grown, report.path) == (True, "merge")
    assert graph.snapshot().num_slots > slots
    graph.delete_edges(graph.edge_table()[1000:])
    assert graph.snapshot().num_slots < slots
    check_graph(graph)
