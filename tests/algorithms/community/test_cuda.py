"""Triangles on CUDA against NetworkX and the host; the oriented arcs, the bits of hubs, both ways to look up an arc.

Runs on a GPU or in our simulator, where each GPU thread is a greenlet: graphs are tiny.
"""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from dynstore.algorithms.community.cpu.triangles import count_triangles as count_on_host
from dynstore.backend import get_backend
from dynstore.errors import LimitError
from dynstore.testing.arrays import gapped_csr, random_edges
from tests.algorithms.oracles import Edges, listed
from tests.algorithms.problems import (
    BACKEND,
    CASES,
    PACKED_CASES,
    Problem,
    assert_same,
    every_graph,
    host,
    kernels,
)

community = BACKEND.kernels("dynstore.algorithms.community", "triangles")
arc_triangles = BACKEND.kernels("dynstore.algorithms.community", "arcs")
orientation = BACKEND.kernels("dynstore.algorithms.community", "orientation")
every_case = pytest.mark.parametrize(
    ("density", "dtype"), [(0.5, np.int64), (1.0, np.int32)], ids=["gaps-int64", "packed-int32"]
)
Pairs = tuple[np.ndarray, np.ndarray]


def build(pairs: Pairs, num_vertices: int, density: float = 0.5, dtype: Any = np.int32, device: Any = BACKEND) -> Any:
    return gapped_csr(
        *pairs, num_vertices=num_vertices, directed=False, backend=device, density=density, dtype=dtype, seed=5
    )


def skewed(seed: int, num_vertices: int, num_edges: int) -> Pairs:
    """Draw edges whose hubs have any ids."""
    rng = np.random.default_rng(seed)
    src, dst = random_edges(rng, num_vertices, num_edges, np.int64)
    names = rng.permutation(num_vertices)
    return names[src], names[dst]


def clique(size: int) -> Pairs:
    return np.tril_indices(size, -1)


@pytest.mark.parametrize("case", [CASES[1], PACKED_CASES[1]], ids=["gaps-int64", "packed-int32"])
@every_graph
def test_triangles(edges: Edges, case: tuple[Any, ...]) -> None:
    problem = Problem(edges, case)
    device, reference = kernels("community", "triangles")
    got = device.count_triangles(problem.out)
    assert_same(got, reference.count_triangles(problem.host_out))
    problem.graph.remove_edges_from(list(nx.selfloop_edges(problem.graph)))
    assert dict(enumerate(host(got).tolist())) == nx.triangles(problem.graph)


def test_triangles_of_a_clique_and_of_a_wheel() -> None:
    clique = [(u, v) for u in range(11) for v in range(u)]
    wheel = [(30, 11 + v) for v in range(18)] + [(11 + v, 11 + (v + 1) % 18) for v in range(18)]
    problem = Problem(listed("clique and wheel", clique + wheel, 31), CASES[1])
    counts = host(kernels("community", "triangles")[0].count_triangles(problem.out))
    assert counts.tolist() == [45] * 11 + [2] * 18 + [0] + [18]


@every_case
def test_each_edge_becomes_one_arc_to_the_higher_degree(density: float, dtype: Any) -> None:
    num_vertices = 30
    src, dst = skewed(1, num_vertices, 90)
    graph = nx.Graph(zip(src.tolist(), dst.tolist(), strict=True))
    graph.add_nodes_from(range(num_vertices))
    arcs = orientation.orient_edges(build((src, dst), num_vertices, density, dtype))
    ranks, starts, tails, heads = (host(array) for array in arcs)
    # A self-loop is one more slot of its row.
    degree = {v: len(graph[v]) for v in graph}
    by_rank = sorted(graph, key=lambda v: (degree[v], v), reverse=True)
    assert ranks[by_rank].tolist() == list(range(num_vertices))
    names = np.array(by_rank)
    wanted = {tuple(sorted(edge)) for edge in graph.edges if edge[0] != edge[1]}
    assert len(tails) == len(wanted)
    assert {tuple(sorted(arc)) for arc in zip(names[tails].tolist(), names[heads].tolist(), strict=True)} == wanted
    assert (heads < tails).all()
    assert (np.diff(tails.astype(np.int64) * num_vertices + heads) > 0).all()
    assert starts.tolist() == np.searchsorted(tails, np.arange(num_vertices + 1)).tolist()


@pytest.mark.parametrize("max_hubs", [1, 31, 32, 33, 65, 1000])
def test_hubs_have_a_bit_for_each_arc(monkeypatch: pytest.MonkeyPatch, max_hubs: int) -> None:
    monkeypatch.setattr(arc_triangles, "MAX_HUBS", max_hubs)
    csr = build(skewed(2, 70, 500), 70)
    arcs = orientation.orient_edges(csr)
    num_hubs, hub_bits = arc_triangles._mark_hubs(BACKEND, arcs)
    assert num_hubs == min(max_hubs, 70)
    tails, heads = host(arcs.tails), host(arcs.heads)
    words = np.arange(num_hubs) // 32 + 1  # of each row
    first = np.cumsum(words) - words
    assert host(hub_bits).shape == (words.sum(),)
    marked = np.flatnonzero(np.unpackbits(host(hub_bits).view(np.uint8), bitorder="little"))
    of_hubs = tails < num_hubs
    assert marked.tolist() == (first[tails[of_hubs]] * 32 + heads[of_hubs]).tolist()


def test_bits_take_no_more_memory_than_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arc_triangles, "MAX_HUBS", 1 << 16)
    csr = build((np.arange(600), np.arange(600) + 1), 601)
    num_hubs, hub_bits = arc_triangles._mark_hubs(BACKEND, orientation.orient_edges(csr))
    assert num_hubs == 195  # sqrt(64 * 600)
    assert hub_bits.nbytes <= 1.2 * 4 * 600


@pytest.mark.parametrize("max_hubs", [1, 5, 16, 1000], ids=lambda number: f"{number} hubs")
@every_case
def test_any_number_of_hubs_counts_the_same(
    monkeypatch: pytest.MonkeyPatch, max_hubs: int, density: float, dtype: Any
) -> None:
    monkeypatch.setattr(arc_triangles, "MAX_HUBS", max_hubs)
    for seed in range(3):
        pairs = skewed(seed, 34, 160)
        got = host(community.count_triangles(build(pairs, 34, density, dtype)))
        expected = count_on_host(build(pairs, 34, density, dtype, get_backend("cpu")))
        assert got.dtype == expected.dtype == dtype
        assert expected.sum() > 100
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("max_hubs", [1, 20, 1000], ids=lambda number: f"{number} hubs")
def test_rows_of_more_than_a_warp(monkeypatch: pytest.MonkeyPatch, max_hubs: int) -> None:
    monkeypatch.setattr(arc_triangles, "MAX_HUBS", max_hubs)
    counts = host(community.count_triangles(build(clique(38), 40)))
    assert counts.tolist() == [37 * 36 // 2] * 38 + [0, 0]


def test_many_short_rows_share_a_warp() -> None:
    # Forty triangles, each with a tail: rows of one and two arcs.
    corners = 4 * np.arange(40)
    src = np.concatenate([corners, corners, corners + 1, corners + 2])
    dst = np.concatenate([corners + 1, corners + 2, corners + 2, corners + 3])
    assert host(community.count_triangles(build((src, dst), 160))).tolist() == [1, 1, 1, 0] * 40


def test_too_many_vertices_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    csr = build(clique(4), 9)
    monkeypatch.setattr(orientation, "MAX_VERTICES", 8)
    with pytest.raises(LimitError, match="triangle_count: the graph has 9 vertices; on CUDA at most 8"):
        community.count_triangles(csr)
