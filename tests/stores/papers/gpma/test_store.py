"""What is GPMA's own: rounds, locks whose winner is fixed, lazy deletion, the same slots on the host and on CUDA."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dynstore import DynamicGraph
from dynstore.errors import InputError
from dynstore.testing.invariants import check_graph, host_arrays
from dynstore.testing.pair import same_arrays
from tests.conftest import DEVICES

TIGHT = {"leaf_upper": 1.0, "root_upper": 0.97, "build_density": 0.9, "root_lower": 0.5, "leaf_lower": 0.3}


def random_batch(rng: np.random.Generator, num_vertices: int, size: int) -> tuple[np.ndarray, ...]:
    return rng.integers(0, num_vertices, size), rng.integers(0, num_vertices, size), rng.random(size)


@pytest.mark.parametrize("options", [{}, TIGHT, {"deletion": "pack"}], ids=["default", "tight", "packing"])
@pytest.mark.parametrize("vertex_dtype", ["int32", "int64"])
def test_host_and_cuda_write_the_same_slots(options: dict[str, Any], vertex_dtype: str) -> None:
    rng = np.random.default_rng(1)
    first = random_batch(rng, 40, 400)
    graphs = [
        DynamicGraph.from_edges(first, device=device, store="gpma", vertex_dtype=vertex_dtype, **options)
        for device in ("cpu", DEVICES[-1])
    ]
    for step in range(5):
        batch, mode = random_batch(rng, 40 + step, 24), ("replace", "add")[step % 2]
        reports = [graph.insert_edges(batch, on_duplicate=mode) for graph in graphs]
        assert reports[0] == reports[1]
        reports = [graph.delete_edges((batch[0][:12], batch[1][:12])) for graph in graphs]
        assert reports[0] == reports[1]
        views = [host_arrays(graph.snapshot()) for graph in graphs]
        assert same_arrays(*views)
        check_graph(graphs[1])


def test_it_holds_what_gpma_plus_holds() -> None:
    rng = np.random.default_rng(2)
    first = random_batch(rng, 300, 3000)
    graphs = [DynamicGraph.from_edges(first, device="cpu", store=store) for store in ("gpma", "gpma+")]
    for step in range(20):
        batch, mode = random_batch(rng, 300, 80), ("replace", "add")[step % 2]
        for graph in graphs:
            graph.insert_edges(batch, on_duplicate=mode)
            graph.delete_edges((batch[0][:30], batch[1][:30]))
        assert graphs[0].edge_table().equals(graphs[1].edge_table())
        check_graph(graphs[0])


@pytest.mark.skipif(DEVICES[-1] == "cpu", reason="counts launches")
def test_one_leaf_takes_one_key_a_round(launches: list[str]) -> None:
    """Keys that go into one leaf need as many rounds; keys that go into different ones share a round."""
    src, dst = np.divmod(np.arange(400), 40)
    graph = DynamicGraph.from_edges((src, 2 * dst), device=DEVICES[-1], store="gpma")
    launches.clear()
    graph.insert_edges((np.zeros(5, np.int64), [1, 3, 5, 7, 9]))
    assert launches.count("k_claim_leaves") == 5
    launches.clear()
    graph.insert_edges((np.arange(0, 10, 2), np.full(5, 41)))
    assert launches.count("k_claim_leaves") == 1
    check_graph(graph)


def test_keys_in_one_batch_and_one_by_one_lie_in_the_same_slots_when_they_do_not_compete() -> None:
    rng = np.random.default_rng(3)
    first = rng.integers(0, 2000, (2, 20_000))
    one, whole = (DynamicGraph.from_edges(tuple(first), device="cpu", store="gpma") for _ in range(2))
    src, dst = np.arange(0, 2000, 200), np.full(10, 1001)
    whole.insert_edges((src, dst))
    for row in src:
        one.insert_edges(([row], [1001]))
    assert (one.snapshot().indices == whole.snapshot().indices).all()
    assert (one.snapshot().valid == whole.snapshot().valid).all()


@pytest.mark.parametrize("device", DEVICES)
def test_a_long_gap_of_ids_is_right_from_both_sides(device: str) -> None:
    far = 3000 if device == "cuda-sim" else 1_500_000
    graph = DynamicGraph.from_edges(
        (np.full(60, 5), np.arange(60)), device=device, store="gpma", max_vertices=2_000_000
    )
    graph.insert_edges((np.full(5, far), np.arange(5)))
    check_graph(graph)
    graph.insert_edges((np.full(5, far // 2), np.arange(5)))
    check_graph(graph)
    graph.delete_edges((np.full(5, far), np.arange(5)))
    graph.insert_edges((np.full(5, 4), np.arange(5)))
    check_graph(graph)
    assert graph.core.backend.to_host(graph.successors(far // 2)).tolist() == list(range(5))


def test_a_lazy_deletion_moves_nothing_and_a_packing_one_does() -> None:
    rng = np.random.default_rng(4)
    first = random_batch(rng, 500, 20_000)
    for deletion in ("lazy", "pack"):
        graph = DynamicGraph.from_edges(first, device="cpu", store="gpma", deletion=deletion)
        before = graph.snapshot().indices.copy()
        table = graph.edge_table()
        assert graph.delete_edges(table[table.source < 60]).path == "in-place"
        assert (graph.snapshot().indices == before).all() == (deletion == "lazy")
        check_graph(graph)


def test_an_unknown_deletion_is_refused() -> None:
    with pytest.raises(InputError, match="store 'gpma': unknown deletion 'later'; known: 'lazy', 'pack'"):
        DynamicGraph(device="cpu", store="gpma", deletion="later")
