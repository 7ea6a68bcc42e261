"""Sampling on a GPU: needs a GPU with RAPIDS, PyTorch and PyG."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore.adapters.pyg import LiveSampler
from tests.adapters.cugraph.pairs import KINDS, SHAPES, Pair, real

__all__ = ["real"]  # a fixture

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
from scipy.stats import chisquare  # noqa: E402
from torch_geometric.data import Data  # noqa: E402
from torch_geometric.loader import NodeLoader  # noqa: E402
from torch_geometric.sampler import NodeSamplerInput  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def sampled(sampler: LiveSampler, seeds: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the sampled edges as rows."""
    out = sampler.sample_from_nodes(NodeSamplerInput(None, torch.as_tensor(seeds)))
    assert {tensor.device.type for tensor in (out.node, out.row, out.col)} == {"cuda"}
    return tuple(out.node[ends].cpu().numpy() for ends in (out.row, out.col))  # type: ignore[return-value]


def in_edges(G: dynstore.DynamicGraph) -> Any:
    """Return the in-edges as a matrix on the host: entry (v, u) is 1 for an edge from u to v."""
    csr = G.snapshot().compact()
    sources, targets = (G.core.backend.to_host(column) for column in (csr.sources, csr.indices))
    there = np.zeros((csr.num_vertices, csr.num_vertices), dtype=bool)
    there[targets, sources] = True
    return there


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("directed", "weighted"), SHAPES)
def test_all_sampled_edges_are_of_the_current_version(real: Any, kind: str, directed: bool, weighted: bool) -> None:
    pair = Pair(kind, directed, weighted)
    G = pair.graph
    samplers = [
        LiveSampler(G, [fanout], replace=replace, seed=1) for fanout, replace in ((7, False), (7, True), (-1, False))
    ]
    for _ in range(3):
        seeds = np.arange(G.number_of_vertices())
        there = in_edges(G)
        degrees = there.sum(axis=1)
        wanted = np.minimum(degrees, 7), np.where(degrees > 0, 7, 0), degrees
        for sampler, counts in zip(samplers, wanted, strict=True):
            sources, targets = sampled(sampler, seeds)
            assert dynstore.explain(G).path == "own kernel"
            assert there[targets, sources].all()
            assert np.array_equal(np.bincount(targets, minlength=counts.shape[0]), counts)
            if not (counts == wanted[1]).all():
                assert len(set(zip(sources.tolist(), targets.tolist(), strict=True))) == sources.shape[0]
        pair.update()


@pytest.mark.parametrize("vertex_dtype", ["int32", "int64"])
def test_all_subsets_are_chosen_equally_often(real: Any, vertex_dtype: str) -> None:
    degree, most, copies = 6, 2, 3000
    centers = np.repeat(np.arange(copies), degree)
    leaves = copies + np.arange(copies * degree)
    G = dynstore.DynamicGraph(device="cuda", vertex_dtype=vertex_dtype)
    G.insert_edges((leaves, centers))
    sources, targets = sampled(LiveSampler(G, [most], seed=4), np.arange(copies))
    places = np.sort(((sources - copies) % degree)[np.argsort(targets, kind="stable")].reshape(copies, most), axis=1)
    counts = dict.fromkeys(combinations(range(degree), most), 0)
    for subset in places.tolist():
        counts[tuple(subset)] += 1
    assert chisquare(list(counts.values())).pvalue > 1e-3


def test_seeds_without_neighbours(real: Any) -> None:
    G = dynstore.DynamicGraph(device="cuda")
    G.insert_edges(([0, 1], [1, 2]))
    sources, targets = sampled(LiveSampler(G, [2, 2]), [0])
    assert (sources.tolist(), targets.tolist()) == ([], [])
    assert sampled(LiveSampler(G, [2, 2]), [2])[0].tolist() == [1, 0]


def test_a_seed_gives_the_same_samples_again(real: Any) -> None:
    G = Pair("dense", True, False).graph
    seeds = np.arange(0, 3000, 3)
    first, again, other = (sampled(LiveSampler(G, [5, 5], seed=seed), seeds) for seed in (3, 3, 4))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_features_on_the_gpu(real: Any) -> None:
    G = Pair("dense", False, True).graph
    rows = torch.arange(G.number_of_vertices(), device="cuda")
    data = Data(x=rows[:, None].float(), edge_index=torch.empty(2, 0, dtype=torch.long, device="cuda"))
    sampler = LiveSampler(G, [5, 5])
    for batch in NodeLoader(data, sampler, batch_size=1000, transform=sampler.add_weights):
        assert {value.device.type for value in (batch.x, batch.edge_index, batch.n_id, batch.edge_weight)} == {"cuda"}
        assert torch.equal(batch.x[:, 0].long(), batch.n_id)
        assert batch.edge_weight.shape[0] == batch.edge_index.shape[1]
        assert not batch.edge_weight.isnan().any()
