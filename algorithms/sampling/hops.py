"""Sampling some hops around nodes: what the loaders of graph learning need, without their libraries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.sampling.fanouts import Fanout, Ranks

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["Fanout", "Ranks", "Sample", "sample_hops"]


@dataclass(frozen=True, slots=True)
class Sample:
    """Nodes and edges around some seeds; all arrays are int64.

    Attributes
    ----------
    nodes : array, shape (N,)
        Row numbers: first the seeds as they were given, then each other node when it was first found.
    neighbors, centers : arrays, shape (K,)
        The ends of each edge as places in ``nodes``: the neighbour that was chosen, and the node for which it was.
    trees : array, shape (N,), or None
        The place of the seed that each node belongs to, if seeds share no nodes.
    nodes_a_hop, edges_a_hop : lists of int
        The seeds and the nodes that each hop found, H + 1 counts; the edges that it chose, H counts.
    """

    nodes: Array
    neighbors: Array
    centers: Array
    trees: Array | None
    nodes_a_hop: list[int]
    edges_a_hop: list[int]


def sample_hops(
    csr: GapCSR,
    seeds: Array,
    fanouts: list[Fanout],
    disjoint: bool,
    entropy: list[int],
    ranks: Ranks | None = None,
) -> Sample:
    """Choose neighbours of the seeds, then of the nodes that were found, one hop for each fanout.

    Parameters
    ----------
    csr : GapCSR
        Rows are what hops start from.
    seeds : array, shape (B,), int64
        Rows; the same one may be there several times.
    fanouts : list of Fanout
    disjoint : bool
        Each seed has a tree of its own: a node that two of them find is there twice.
    entropy : list of int
        The sample follows from it.
    ranks : Ranks, optional
        Wanted by fanouts with ``largest``.
    """
    xp, kernels = csr.backend.xp, csr.backend.kernels("dynstore.algorithms.sampling")
    nodes = seeds
    trees = xp.arange(seeds.shape[0]) if disjoint else None
    neighbors, centers = [xp.empty(0, dtype=np.int64)], [xp.empty(0, dtype=np.int64)]
    begin, nodes_a_hop, edges_a_hop = 0, [int(seeds.shape[0])], []
    for hop, fanout in enumerate(fanouts):
        if begin == nodes.shape[0]:  # the hop before has found no new nodes
            nodes_a_hop.append(0)
            edges_a_hop.append(0)
            continue
        places, found = kernels.sample_rows(csr, nodes[begin:], fanout, _seed_of([*entropy, hop]), ranks)
        places += begin
        if trees is None:
            numbers, new = kernels.number_nodes(csr.backend, nodes, found)
        else:  # a node and its tree are one key
            found_trees = trees[places]
            keys = found_trees * csr.num_vertices + found
            numbers, new = kernels.number_nodes(csr.backend, trees * csr.num_vertices + nodes, keys)
            trees = xp.concatenate((trees, found_trees[new]))
        neighbors.append(numbers)
        centers.append(places)
        begin = int(nodes.shape[0])
        nodes = xp.concatenate((nodes, found[new]))
        nodes_a_hop.append(int(new.shape[0]))
        edges_a_hop.append(int(found.shape[0]))
    return Sample(nodes, xp.concatenate(neighbors), xp.concatenate(centers), trees, nodes_a_hop, edges_a_hop)


def _seed_of(entropy: list[int]) -> int:
    """Return a seed below 2^64 that follows from some integers; no two lists give related ones."""
    return int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0])
