"""The part of an algorithm that reads edges in slots on the device, beside those in pages: a thread a slot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.components.cuda.union_find import d_unite
from dynstore.algorithms.paged.states import UNREACHED
from dynstore.algorithms.rows.cuda.common import d_has_bit
from dynstore.cuda.compiler import cuda, kernel

if TYPE_CHECKING:
    from dynstore.algorithms.paged.states import SearchState
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["add_slots", "push_slots", "sum_slot_tails", "unite_slots"]


@kernel
def k_add_slots(sources, indices, valid, shares, sums):
    """Threads stride over slots: add the neighbour's share to the row's sum (atomic add)."""
    for slot in range(int(cuda.grid(1)), indices.shape[0], int(cuda.gridsize(1))):
        if d_has_bit(valid, slot):
            cuda.atomic.add(sums, int(sources[slot]), np.float64(shares[indices[slot]]))


@kernel
def k_add_weighted_slots(sources, indices, valid, weights, shares, sums):
    """Threads stride over slots: add the neighbour's share, times the weight, to the row's sum (atomic add)."""
    for slot in range(int(cuda.grid(1)), indices.shape[0], int(cuda.gridsize(1))):
        if d_has_bit(valid, slot):
            share = np.float64(shares[indices[slot]]) * np.float64(weights[slot])
            cuda.atomic.add(sums, int(sources[slot]), share)


@kernel
def k_sum_slot_tails(indices, valid, weights, sums):
    """Threads stride over slots: add the weight to the sum of the edge's tail, the neighbour (atomic add)."""
    for slot in range(int(cuda.grid(1)), indices.shape[0], int(cuda.gridsize(1))):
        if d_has_bit(valid, slot):
            cuda.atomic.add(sums, int(indices[slot]), np.float64(weights[slot]))


@kernel
def k_unite_slots(sources, indices, valid, parents):
    """Threads stride over slots: unite the ends of all edges; atomics as in :func:`d_unite`."""
    for slot in range(int(cuda.grid(1)), indices.shape[0], int(cuda.gridsize(1))):
        if d_has_bit(valid, slot):
            d_unite(parents, int(sources[slot]), int(indices[slot]))


@kernel
def k_push_slots(sources, indices, valid, distances, notes, parents, depth):
    """Threads stride over slots: reach the unreached neighbours of the frontier; keep parents (atomic minimum)."""
    for slot in range(int(cuda.grid(1)), indices.shape[0], int(cuda.gridsize(1))):
        if d_has_bit(valid, slot) and distances[sources[slot]] == depth:
            other = int(indices[slot])
            reached = int(distances[other])
            if reached == UNREACHED:
                distances[other] = depth + 1
                notes[0] = 1
            if reached > depth and parents.shape[0] > 0:
                cuda.atomic.min(parents, other, int(sources[slot]))


def add_slots(edges: GapCSR, shares: Array, sums: Array, weighted: bool) -> None:
    """Add the shares of the neighbours to the sums of their rows, times the weights if ``weighted``."""
    slots = edges.sources, edges.indices, edges.valid
    if weighted:
        k_add_weighted_slots.launch_strided(edges.num_slots, *slots, edges.weights, shares, sums)
    else:
        k_add_slots.launch_strided(edges.num_slots, *slots, shares, sums)


def sum_slot_tails(edges: GapCSR, sums: Array) -> None:
    """Add the weights of edges to the sums of their tails, the neighbours."""
    k_sum_slot_tails.launch_strided(edges.num_slots, edges.indices, edges.valid, edges.weights, sums)


def unite_slots(edges: GapCSR, parents: Array) -> None:
    """Unite the ends of all edges."""
    slots = edges.sources, edges.indices, edges.valid
    k_unite_slots.launch_strided(edges.num_slots, *slots, parents)


def push_slots(edges: GapCSR, search: SearchState, parents: Array, depth: int, turned: bool = False) -> None:
    """Reach the neighbours of the frontier; ``turned``: the slots are in-edges, whose rows are their heads."""
    ends = (edges.indices, edges.sources) if turned else (edges.sources, edges.indices)
    k_push_slots.launch_strided(edges.num_slots, *ends, edges.valid, search.distances, search.notes, parents, depth)
