"""The part of an algorithm that reads edges in slots, beside those in pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.paged.states import UNREACHED
from dynstore.algorithms.rows.cpu.slots import d_has_edge
from dynstore.host_compiler import njit

if TYPE_CHECKING:
    from dynstore.algorithms.paged.states import SearchState
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["add_slots", "d_unite", "push_slots", "sum_slot_tails", "unite_slots"]


@njit(borrows=True)
def d_find_root(parents, v):
    """Return the root of ``v``, halving the path to it."""
    while parents[v] != v:
        parents[v] = parents[parents[v]]
        v = parents[v]
    return v


@njit(borrows=True)
def d_unite(parents, one, other):
    """Hook the larger root under the smaller."""
    first, second = d_find_root(parents, one), d_find_root(parents, other)
    parents[max(first, second)] = min(first, second)


@njit(cache=True, nogil=True)
def k_add_slots(sources, indices, valid, shares, sums):
    """Add the neighbour's share to the row's sum for each edge."""
    for slot in range(indices.shape[0]):
        if d_has_edge(valid, slot):
            sums[sources[slot]] += shares[indices[slot]]


@njit(cache=True, nogil=True)
def k_add_weighted_slots(sources, indices, valid, weights, shares, sums):
    """Add the neighbour's share, times the weight, to the row's sum for each edge."""
    for slot in range(indices.shape[0]):
        if d_has_edge(valid, slot):
            sums[sources[slot]] += np.float64(shares[indices[slot]]) * weights[slot]


@njit(cache=True, nogil=True)
def k_sum_slot_tails(indices, valid, weights, sums):
    """Add the weights of edges to the sums of their tails, the neighbours."""
    for slot in range(indices.shape[0]):
        if d_has_edge(valid, slot):
            sums[indices[slot]] += weights[slot]


@njit(cache=True, nogil=True)
def k_unite_slots(sources, indices, valid, parents):
    """Unite the ends of all edges."""
    for slot in range(indices.shape[0]):
        if d_has_edge(valid, slot):
            d_unite(parents, sources[slot], indices[slot])


@njit(cache=True, nogil=True)
def k_push_slots(sources, indices, valid, distances, notes, parents, depth):
    """Reach the unreached neighbours of the frontier, and keep the smallest parents."""
    for slot in range(indices.shape[0]):
        if d_has_edge(valid, slot) and distances[sources[slot]] == depth:
            other = indices[slot]
            if distances[other] > depth:
                notes[0] |= distances[other] == UNREACHED
                distances[other] = depth + 1
                if parents.shape[0] > 0:
                    parents[other] = min(parents[other], sources[slot])


def add_slots(edges: GapCSR, shares: Array, sums: Array, weighted: bool) -> None:
    """Add the shares of the neighbours to the sums of their rows, times the weights if ``weighted``."""
    slots = edges.sources, edges.indices, edges.valid
    if weighted:
        k_add_weighted_slots(*slots, edges.weights, shares, sums)
    else:
        k_add_slots(*slots, shares, sums)


def sum_slot_tails(edges: GapCSR, sums: Array) -> None:
    """Add the weights of edges to the sums of their tails, the neighbours."""
    k_sum_slot_tails(edges.indices, edges.valid, edges.weights, sums)


def unite_slots(edges: GapCSR, parents: Array) -> None:
    """Unite the ends of all edges."""
    slots = edges.sources, edges.indices, edges.valid
    k_unite_slots(*slots, parents)


def push_slots(edges: GapCSR, search: SearchState, parents: Array, depth: int, turned: bool = False) -> None:
    """Reach the neighbours of the frontier; ``turned``: the slots are in-edges, whose rows are their heads."""
    ends = (edges.indices, edges.sources) if turned else (edges.sources, edges.indices)
    k_push_slots(*ends, edges.valid, search.distances, search.notes, parents, depth)
