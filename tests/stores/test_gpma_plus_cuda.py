"""What of GPMA+ is CUDA's own: deletions as they come, long ranges of rows."""

from __future__ import annotations

import numpy as np
import pytest

from dynstore import DynamicGraph
from dynstore.backend import get_backend
from dynstore.testing.invariants import check_graph


@pytest.fixture
def device():
    from dynstore._cuda import compiler

    if compiler.SIMULATED:
        return "cuda-sim"
    if not get_backend().on_gpu:
        pytest.skip("no CUDA device")
    return "cuda"


def pairs_of(graph):
    packed = graph.snapshot().compact()
    src, dst = (graph.backend.to_host(column).tolist() for column in (packed.sources, packed.indices))
    return set(zip(src, dst, strict=True))


@pytest.mark.parametrize("directed", [True, False])
def test_a_deletion_of_edges_that_are_there_sorts_nothing(device, directed, monkeypatch):
    from dynstore._cuda import batches

    rng = np.random.default_rng(3)
    src, dst = rng.integers(0, 40, 400), rng.integers(0, 40, 400)
    graph = DynamicGraph.from_edges((src, dst), device=device, directed=directed)
    graph.snapshot(transposed=True)
    before = graph.number_of_edges()
    calls = []
    monkeypatch.setattr(batches, "sort_keys", lambda *args: calls.append(args))
    some = rng.permutation(400)[:30]
    twice = np.concatenate((some, some[:7]))
    pairs = {(u, v) if directed else (min(u, v), max(u, v)) for u, v in zip(src[some], dst[some], strict=True)}
    report = graph.delete_edges((src[twice], dst[twice]))
    assert not calls
    assert (report.deleted, report.absent, report.duplicates) == (len(pairs), 0, 37 - len(pairs))
    assert graph.number_of_edges() == before - len(pairs)
    check_graph(graph)


def test_a_deletion_of_edges_that_are_not_there_counts_each_once(device):
    graph = DynamicGraph.from_edges(([0, 1, 2], [1, 2, 3]), device=device)
    report = graph.delete_edges(([0, 0, 3, 3, 9, 9], [1, 1, 0, 0, 9, 9]))
    assert (report.deleted, report.absent, report.duplicates) == (1, 2, 3)


def test_a_deletion_that_empties_leaves_packs_them(device):
    rows, columns = np.divmod(np.arange(1600), 40)
    graph = DynamicGraph.from_edges((rows, columns), device=device)
    report = graph.delete_edges((rows[400:700], columns[400:700]))
    assert (report.deleted, report.path) == (300, "in-place")
    valid = graph.backend.to_host(graph.snapshot().mask()).reshape(-1, 32).sum(axis=1)
    assert valid.min() >= 0.08 * 32
    check_graph(graph)


@pytest.mark.parametrize("directed", [True, False])
def test_rows_far_apart(device, directed):
    """Ranges of empty rows that are too long for a warp, inside windows, at their edges, and behind the last."""
    from dynstore._cuda import leaves

    step = 3 * leaves.FAR_ROWS // 2
    rng = np.random.default_rng(5)
    near = (rng.integers(0, 30, 300), rng.integers(0, 30, 300))
    graph = DynamicGraph.from_edges(near, device=device, directed=directed, merge_cost=0.0)
    there = pairs_of(graph)
    far = (30 + step * np.arange(1, 5), np.arange(4))
    many = (np.full(40, 30 + step * 2), np.arange(40))
    for edges in (far, many):
        graph.insert_edges(edges)
        check_graph(graph)
    for edges in (many, far):
        graph.delete_edges(edges)
        check_graph(graph)
    assert pairs_of(graph) == there
