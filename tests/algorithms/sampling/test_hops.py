"""Samples of several hops: those that leave nothing to chance are known, and equal on all devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore.algorithms.sampling.fanouts import Fanout, Ranks
from dynstore.algorithms.sampling.hops import Sample, sample_hops
from dynstore.errors import StaleSnapshotError
from dynstore.testing.arrays import gapped_csr

EDGES = ([0, 0, 1, 2, 3], [1, 2, 2, 0, 3])  # rows are what hops start from


def csr_of(backend: Any, density: float = 0.5) -> Any:
    return gapped_csr(
        np.array(EDGES[0]),
        np.array(EDGES[1]),
        None,
        num_vertices=5,
        directed=True,
        backend=backend,
        density=density,
    )


def sampled(csr: Any, seeds: list[int], fanouts: list[Fanout], disjoint: bool = False, entropy: int = 0) -> Sample:
    rows = csr.backend.asarray(np.array(seeds, dtype=np.int64))
    return sample_hops(csr, rows, fanouts, disjoint, [entropy])


def listed(csr: Any, sample: Sample) -> tuple[Any, ...]:
    """Return nodes, edges from neighbour to centre as places, trees, and the counts."""
    host = csr.backend.to_host
    edges = list(zip(host(sample.neighbors).tolist(), host(sample.centers).tolist(), strict=True))
    trees = None if sample.trees is None else host(sample.trees).tolist()
    return host(sample.nodes).tolist(), edges, trees, sample.nodes_a_hop, sample.edges_a_hop


def test_a_node_is_found_once_and_goes_on_once(backend: Any) -> None:
    csr = csr_of(backend)
    everything = [Fanout(-1)] * 3
    assert listed(csr, sampled(csr, [0], everything)) == (
        [0, 1, 2],
        [(1, 0), (2, 0), (2, 1), (0, 2)],
        None,
        [1, 2, 0, 0],
        [2, 2, 0],
    )
    assert listed(csr, sampled(csr, [3, 4], everything)) == ([3, 4], [(0, 0)], None, [2, 0, 0, 0], [1, 0, 0])
    assert listed(csr, sampled(csr, [], everything)) == ([], [], None, [0, 0, 0, 0], [0, 0, 0])


def test_disjoint_trees_share_no_nodes(backend: Any) -> None:
    csr = csr_of(backend)
    assert listed(csr, sampled(csr, [1, 0], [Fanout(-1), Fanout(-1)], disjoint=True)) == (
        [1, 0, 2, 1, 2, 0],
        [(2, 0), (3, 1), (4, 1), (5, 2), (4, 3), (1, 4)],
        [0, 1, 0, 1, 1, 0],
        [2, 3, 1],
        [3, 3],
    )


def test_every_batch_and_every_hop_draws_anew(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same row in two hops, or under another entropy, does not get the same random numbers."""
    rows = np.repeat(np.arange(40), 40)
    csr = gapped_csr(
        rows, np.tile(np.arange(40), 40), None, num_vertices=40, directed=True, backend=backend, density=1.0
    )
    fanouts = [Fanout(20, replace=True)]
    first, again, other = (listed(csr, sampled(csr, [0], fanouts, entropy=entropy)) for entropy in (1, 1, 2))
    assert first == again != other
    picked: list[tuple[list[int], int]] = []
    kernels = backend.kernels("dynstore.algorithms.sampling")
    sample_rows = kernels.sample_rows

    def noted(csr: Any, rows: Any, fanout: Fanout, seed: int, ranks: None) -> Any:
        picked.append((backend.to_host(rows).tolist(), seed))
        return sample_rows(csr, rows, fanout, seed, ranks)

    monkeypatch.setattr(kernels, "sample_rows", noted)
    sample_hops(csr, backend.asarray(np.array([7])), [Fanout(1), Fanout(1)], False, [3])
    (seeds, first_seed), (_, second_seed) = picked
    assert seeds == [7]
    assert first_seed != second_seed


@pytest.mark.parametrize("store", ["gpma+", "slab_hash", "graphvine"])
def test_samples_of_a_graph_are_of_one_version(store: str) -> None:
    G = dynstore.DynamicGraph(device="cpu", store=store)
    G.insert_edges(EDGES)
    csr = G.snapshot(True)
    nodes, edges, *_ = listed(csr, sampled(csr, [2], [Fanout(-1)]))
    assert sorted((nodes[source], nodes[target]) for source, target in edges) == [(0, 2), (1, 2)]
    G.insert_edges(([4], [2]))
    with pytest.raises(StaleSnapshotError, match="it shows version 1 of the graph, which is now at version 2"):
        sampled(csr, [2], [Fanout(-1)])


@pytest.mark.parametrize("directed", [True, False])
def test_the_newest_edges_of_a_graph_with_times(backend: Any, directed: bool) -> None:
    """Times are read exactly: nanoseconds of this century are above 2**53."""
    G = dynstore.DynamicGraph(directed, device=backend.name, timestamps="int64", weighted=True)
    rng, now, last = np.random.default_rng(1), 1_700_000_000_000_000_000, dict[tuple[int, int], int]()
    for _ in range(3):
        src, dst, times = rng.integers(0, 6, 12), rng.integers(0, 6, 12), now + rng.permutation(12)
        weights = -times.astype(np.float32)  # the newest has the lowest weight
        now += 12
        G.insert_edges(pd.DataFrame({"source": src, "destination": dst, "weight": weights, "time": times}))
        for u, v, time in zip(src.tolist(), dst.tolist(), times.tolist(), strict=True):
            for pair in {(u, v)} if directed else {(u, v), (v, u)}:
                last[pair] = max(time, last.get(pair, 0))
    seeds = list(range(G.number_of_vertices()))
    ranks = Ranks(*G.core.slot_times(True))
    csr = G.snapshot(True)
    rows = backend.asarray(np.array(seeds, dtype=np.int64))
    for most in (1, 2, 4):
        sample = sample_hops(csr, rows, [Fanout(most, largest=True)], False, [0], ranks)
        nodes, edges, *_ = listed(csr, sample)
        chosen = sorted((nodes[source], nodes[target]) for source, target in edges)
        wanted = [
            (u, v) for v in seeds for u in sorted((u for u, w in last if w == v), key=lambda u: -last[u, v])[:most]
        ]
        assert chosen == sorted(wanted)
