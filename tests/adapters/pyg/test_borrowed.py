"""What cuGraph's sampling is given: the in-edges of the current version, turned around, under row numbers.

cuGraph cannot run here, and is a stand-in that takes each vertex's first edges. ``test_gpu.py`` has the real one.
"""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dynstore
import dynstore.adapters.cugraph.row_sampling as sampling
from dynstore.adapters.cugraph import direct
from dynstore.adapters.cugraph.borrowed.loading import Bridge
from dynstore.adapters.pyg import LiveSampler
from dynstore.algorithms.sampling.hops import Fanout, sample_hops
from dynstore.errors import MissingDependencyError
from tests.adapters.cugraph.stand_ins import rapids

__all__ = ["rapids"]  # a fixture


@pytest.fixture
def calls(rapids: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Keeps the arguments of each call of pylibcugraph's sampling."""
    found: list[dict[str, Any]] = []

    def sample(handle: Any, graph: Any, starts: Any, labels: Any, fanouts: Any, **options: Any) -> dict[str, Any]:
        found.append({"graph": graph, "starts": starts, "labels": labels, "fanouts": fanouts, **options})
        majors: list[int] = []
        minors: list[int] = []
        (most,) = fanouts.tolist()
        place = {number: row for row, number in enumerate(graph.number_map.tolist())}
        for start in sorted(starts.tolist()):  # in an order of its own
            row = graph.indices[graph.offsets[place[start]] : graph.offsets[place[start] + 1]]
            row = row if most < 0 else row[:most]
            majors += [start] * len(row)
            minors += graph.number_map[row].tolist()
        return {"majors": np.array(majors, graph.indices.dtype), "minors": np.array(minors, graph.indices.dtype)}

    rapids.modules["pylibcugraph"].homogeneous_uniform_neighbor_sample = sample
    rapids.modules["cupy"].searchsorted = np.searchsorted
    monkeypatch.setattr(direct, "_own", threading.local())
    return found


def sampled(G: dynstore.DynamicGraph, seeds: list[int], fanouts: list[Fanout], disjoint: bool = False) -> Any:
    """Return the sample that cuGraph's stand-in makes."""
    pick = sampling.pick_borrowed(G, "LiveSampler")
    return sample_hops(G.snapshot(True), np.array(seeds, dtype=np.int64), fanouts, disjoint, [1], pick)


def pairs_of(sample: Any) -> list[tuple[int, int]]:
    return list(zip(sample.nodes[sample.neighbors].tolist(), sample.nodes[sample.centers].tolist(), strict=True))


def test_it_samples_the_in_edges_of_the_current_version(calls: list[dict[str, Any]]) -> None:
    G = dynstore.DynamicGraph(device="cpu", weighted=True)
    G.insert_edges(([1, 2, 3, 0], [0, 0, 2, 4], [1.0, 2.0, 3.0, 4.0]))
    sample = sampled(G, [4, 2, 0], [Fanout(1, replace=True), Fanout(-1)])
    assert pairs_of(sample) == [(0, 4), (3, 2), (1, 0)]
    assert sample.nodes.tolist() == [4, 2, 0, 3, 1]
    first, second = calls
    assert (first["starts"].tolist(), second["starts"].tolist()) == ([4, 2, 0], [3, 1])
    assert first["starts"].dtype == first["graph"].indices.dtype == np.int32
    assert [call["fanouts"].tolist() for call in calls] == [[1], [-1]]
    assert first["fanouts"].dtype == np.int32
    assert [(call["labels"], call["with_replacement"]) for call in calls] == [(None, True), (None, False)]
    assert 0 <= first["random_state"] < 2**63
    assert first["random_state"] != second["random_state"]
    graph = first["graph"]
    assert graph is second["graph"]
    assert (graph.transposed, graph.symmetric) == (False, False)
    # Turned around: rows are destinations, though cuGraph reads them as sources.
    assert graph.edges() == [(0, 1), (0, 2), (2, 3), (4, 0)]
    assert dynstore.explain(G).path == "borrowed"
    G.delete_edges(([0], [4]))
    assert pairs_of(sampled(G, [4, 2], [Fanout(2)])) == [(3, 2)]
    assert calls[-1]["graph"].edges() == [(0, 1), (0, 2), (2, 3)]


@pytest.mark.parametrize("names", [[10, 2**40, 30, 7], ["a", "b", "c", "d"]])
def test_rows_of_any_ids_are_numbers(calls: list[dict[str, Any]], names: list[Any]) -> None:
    G = dynstore.DynamicGraph(device="cpu", renumber=True)
    G.insert_edges((names[:3], names[1:]))
    rows = G.vertex_numbers(names).tolist()
    sample = sampled(G, [rows[3], rows[1]], [Fanout(5), Fanout(5)])
    assert sorted(pairs_of(sample)) == sorted([(rows[2], rows[3]), (rows[0], rows[1]), (rows[1], rows[2])])
    assert calls[0]["graph"].number_map.tolist() == [0, 1, 2, 3]


def test_rows_in_order_of_degree_are_numbers_too(calls: list[dict[str, Any]]) -> None:
    for renumber in (False, True):
        G = dynstore.DynamicGraph(device="cpu", directed=False, renumber=renumber)
        chain = np.arange(3000)
        G.insert_edges((chain, chain + 1))
        G.insert_edges((np.full(2000, 3001), np.arange(2000)))
        hub = int(G.vertex_numbers([3001])[0])
        sample = sampled(G, [hub], [Fanout(-1)])
        assert sorted(G.vertex_ids()[sample.nodes[1:]].tolist()) == list(range(2000))
        assert calls[-1]["graph"].number_map[0] == hub


def test_our_own_kernels_choose_where_cugraph_cannot(calls: list[dict[str, Any]]) -> None:
    """A row that is there twice is sampled twice."""
    G = dynstore.DynamicGraph(device="cpu")
    G.insert_edges(([1, 2, 1], [0, 0, 2]))
    assert pairs_of(sampled(G, [0, 0], [Fanout(-1)])) == [(1, 0), (2, 0)] * 2
    assert pairs_of(sampled(G, [], [Fanout(-1)])) == []
    assert pairs_of(sampled(G, [0], [Fanout(0)])) == []
    assert calls == []
    # Both trees find vertex 1, so the next hop has it twice.
    G.insert_edges(([3], [1]))
    sample = sampled(G, [0, 2], [Fanout(-1), Fanout(-1)], disjoint=True)
    assert list(zip(sample.nodes.tolist(), sample.trees.tolist(), strict=True)) == [
        (0, 0), (2, 1), (1, 0), (2, 0), (1, 1), (3, 0), (3, 1)
    ]  # fmt: skip
    assert sorted(pairs_of(sample)) == sorted([(1, 0), (2, 0), (1, 2), (3, 1), (1, 2), (3, 1)])
    assert len(calls) == 1


def test_cugraph_samples_on_the_gpu_only(rapids: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    G = dynstore.DynamicGraph(device="cpu")
    monkeypatch.setattr(sampling, "load_bridge", lambda: rapids.bridge)
    assert not sampling.can_sample(G)
    monkeypatch.setattr(G.backend, "on_gpu", True)
    assert sampling.can_sample(G)
    monkeypatch.setattr(sampling, "load_bridge", lambda: Bridge(None, "no compiler"))
    assert not sampling.can_sample(G)

    def no_rapids() -> Bridge:
        raise MissingDependencyError("cuGraph: pylibcugraph is not installed")

    monkeypatch.setattr(sampling, "load_bridge", no_rapids)
    assert not sampling.can_sample(G)


def test_without_pytorch_the_line_to_type_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_geometric.sampler", None)
    with pytest.raises(MissingDependencyError, match=r"LiveSampler: torch_geometric cannot.*'dynstore\[pyg\]'"):
        LiveSampler(dynstore.DynamicGraph(device="cpu"), [1])
