"""Choosing neighbours: which ones may be chosen, how many, and how often each."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from dynstore.algorithms.sampling.fanouts import Fanout, Ranks
from dynstore.testing.arrays import gapped_csr

# A sum of squares this unlikely is a bug; the seeds are fixed, so a test passes always or never.
RARE = 1e-3


def p_value(counts: Any) -> float:
    """Return how likely such counts are, or less even ones, where all are equally likely."""
    from scipy.stats import chisquare  # takes a second to import, which each worker would pay for

    return float(chisquare(counts).pvalue)


def csr_of(rows: list[list[int]], backend: Any, density: float, weights: Any = None) -> Any:
    """Return rows of neighbours as a gap-aware CSR."""
    src = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    dst = np.concatenate([np.array(row, dtype=np.int64) for row in rows])
    return gapped_csr(
        src,
        dst,
        None if weights is None else np.concatenate([np.array(row, dtype=float) for row in weights]),
        num_vertices=max(len(rows), int(dst.max(initial=0)) + 1),
        directed=True,
        backend=backend,
        density=density,
    )


def choose(csr: Any, rows: list[int], fanout: Fanout, seed: int) -> list[list[int]]:
    """Return the chosen neighbours of each row."""
    kernels, backend = csr.backend.kernels("dynstore.algorithms.sampling"), csr.backend
    ranks = Ranks(csr.weights, backend.nothing(np.int32)) if fanout.largest else None
    places, neighbours = kernels.sample_rows(csr, backend.asarray(np.array(rows, dtype=np.int64)), fanout, seed, ranks)
    places, neighbours = backend.to_host(places), backend.to_host(neighbours)
    assert (places.dtype, neighbours.dtype) == (np.int64, np.int64)
    assert (np.diff(places) >= 0).all()
    return [neighbours[places == place].tolist() for place in range(len(rows))]


@pytest.mark.parametrize("density", [1.0, 0.5, 0.1])
def test_so_many_and_only_edges(backend: Any, density: float) -> None:
    rows = [[1, 2, 3], [], list(range(50)), [0], list(range(7))]
    csr = csr_of(rows, backend, density)
    asked = [0, 1, 2, 3, 4, 2, 5]  # one twice, and one that has no edges and is the last with a number
    edges = [rows[v] if v < len(rows) else [] for v in asked]
    for most in (0, 1, 3, 6, 40):
        for seed in range(5):
            different = choose(csr, asked, Fanout(most), seed)
            again = choose(csr, asked, Fanout(most, replace=True), seed)
            for row, chosen, drawn in zip(edges, different, again, strict=True):
                assert len(set(chosen)) == len(chosen) == min(most, len(row))
                assert len(drawn) == (most if row else 0)
                assert set(chosen) <= set(row)
                assert set(drawn) <= set(row)
    assert choose(csr, asked, Fanout(-1), 0) == edges
    assert choose(csr, asked, Fanout(-1, replace=True), 0) == edges
    assert choose(csr, [], Fanout(3), 0) == []


def test_a_seed_gives_the_same_choice_again(backend: Any) -> None:
    csr = csr_of([list(range(40))], backend, 0.5)
    chosen = [choose(csr, [0], Fanout(5), seed) for seed in (7, 7, 8, 2**64 - 1)]
    assert chosen[0] == chosen[1]
    assert len({tuple(row) for (row,) in chosen}) == 3


@pytest.mark.parametrize("density", [1.0, 0.3])
@pytest.mark.parametrize(("degree", "most"), [(6, 2), (5, 3), (6, 5), (12, 2), (3, 1)])
def test_all_subsets_are_chosen_equally_often(backend: Any, degree: int, most: int, density: float) -> None:
    """The definition of sampling without replacement: each set of ``most`` edges has the same probability."""
    csr = csr_of([list(range(degree))], backend, density)
    subsets = dict.fromkeys(combinations(range(degree), most), 0)
    for row in choose(csr, [0] * (60 * len(subsets)), Fanout(most), 20):
        subsets[tuple(sorted(row))] += 1
    assert p_value(list(subsets.values())) > RARE


@pytest.mark.parametrize("density", [1.0, 0.3])
def test_each_draw_with_replacement_is_uniform(backend: Any, density: float) -> None:
    csr = csr_of([list(range(5))], backend, density)
    pairs = np.zeros((5, 5))
    for first, second in choose(csr, [0] * 2000, Fanout(2, replace=True), 3):
        pairs[first, second] += 1
    assert p_value(pairs.ravel()) > RARE


def test_seeds_are_independent(backend: Any) -> None:
    """One row under seeds that follow each other is as random as many rows under one seed."""
    csr = csr_of([list(range(4))], backend, 1.0)
    counts = np.zeros(4)
    for seed in range(400):
        counts[choose(csr, [0], Fanout(1), seed)[0][0]] += 1
    assert p_value(counts) > RARE


@pytest.mark.parametrize("density", [1.0, 0.3])
def test_the_largest_weights(backend: Any, density: float) -> None:
    rng = np.random.default_rng(5)
    rows = [[0, 1, 2, 3, 4], [], list(range(60)), [3]]
    weights = [[5.0, 1.0, 5.0, 9.0, 5.0], [], rng.integers(0, 20, 60).tolist(), [-1.0]]
    csr = csr_of(rows, backend, density, weights)
    for most in (1, 2, 3, 17, 100):
        chosen = choose(csr, [0, 1, 2, 3, 2], Fanout(most, largest=True), 0)
        for v, row in zip([0, 1, 2, 3, 2], chosen, strict=True):
            best = sorted(zip(weights[v], rows[v], strict=True), key=lambda edge: (-edge[0], edge[1]))[:most]
            assert row == sorted(neighbour for _, neighbour in best)
    assert choose(csr, [0], Fanout(-1, largest=True), 0) == [rows[0]]


def test_keys_get_numbers_in_the_order_of_their_appearance(backend: Any) -> None:
    number_nodes = backend.kernels("dynstore.algorithms.sampling").number_nodes

    def number(nodes: list[int], keys: list[int]) -> tuple[list[int], list[int]]:
        columns = [backend.asarray(np.array(column, dtype=np.int64)) for column in (nodes, keys)]
        return tuple(backend.to_host(column).tolist() for column in number_nodes(backend, *columns))  # type: ignore[return-value]

    assert number([5, 3], [3, 9, 5, 2, 9]) == ([1, 2, 0, 3, 2], [1, 3])
    assert number([4, 4, 1], [4, 1, 0]) == ([0, 2, 3], [2])  # of equal nodes the first counts
    assert number([], [7, 7]) == ([0, 0], [0])
    assert number([1], []) == ([], [])
    many = np.random.default_rng(1).integers(0, 2**62, 3000)
    numbers, new = number(many[:1000].tolist(), many.tolist())
    assert numbers == list(range(3000))
    assert new == list(range(1000, 3000))
