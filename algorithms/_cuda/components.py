"""Connected components on the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore._cuda.compiler import cuda, device, kernel
from dynstore._cuda.warp import d_ballot, d_lane
from dynstore.algorithms._cuda._common import d_has_bit

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["flatten_trees", "label_components"]

# Edges of each vertex that are united, and the paths shortened, before all edges are looked at.
SAMPLED_EDGES = 2


@device
def d_find_root(parents, vertex):
    """Return the root of ``vertex``, or a vertex that has just ceased to be one; split the path to it.

    Parents only ever fall, and every value a parent has had stays in the component. So a read that misses what
    other blocks have just written is still right: it finds a vertex of the component, from which
    :func:`d_unite` goes on with atomics alone.
    """
    parent = int(parents[vertex])
    while parent < vertex:
        above = int(parents[parent])
        if above < parent:
            cuda.atomic.min(parents, vertex, above)
        vertex = parent
        parent = above
    return vertex


@device
def d_unite(parents, first, second):
    """Hook the larger root under the smaller (atomic minimum).

    Where the larger was no root any more, the minimum may have replaced its parent: that one and the smaller root are
    united in turn. The larger of the two falls each time, so this ends.
    """
    first = d_find_root(parents, first)
    second = d_find_root(parents, second)
    while first != second:
        low = min(first, second)
        high = max(first, second)
        old = int(cuda.atomic.min(parents, high, low))
        if old == high:
            second = first
        else:
            first = d_find_root(parents, old)
            second = d_find_root(parents, low)


@kernel
def k_unite_nth_edges(offsets, indices, valid, nth, parents):
    """One thread a row: unite the row with the neighbour in its ``nth`` slot. Atomics: :func:`d_unite`."""
    row = int(cuda.grid(1))
    if row < parents.shape[0]:
        slot = int(offsets[row]) + nth
        if slot < int(offsets[row + 1]) and d_has_bit(valid, slot):
            d_unite(parents, row, int(indices[slot]))


@kernel
def k_unite_edges(sources, indices, valid, parents):
    """Stride over the slots: unite the ends of every edge whose parents differ. Atomics: :func:`d_unite`."""
    for slot in range(int(cuda.grid(1)), indices.shape[0], int(cuda.gridsize(1))):
        if d_has_bit(valid, slot):
            first = int(parents[sources[slot]])
            second = int(parents[indices[slot]])
            if first != second:
                d_unite(parents, first, second)


@kernel
def k_jump_parents(parents, jumped, changed):
    """One thread a vertex: write its parent's parent; ``changed[0]`` tells (atomic maximum) if any differs."""
    vertex = int(cuda.grid(1))
    moved = False
    if vertex < parents.shape[0]:
        parent = int(parents[vertex])
        above = int(parents[parent])
        jumped[vertex] = above
        moved = above != parent
    word = d_ballot(moved)
    if word != 0 and d_lane() == 0:
        cuda.atomic.max(changed, 0, 1)


def label_components(out: GapCSR) -> Array:
    """Label each vertex with the smallest vertex of its (weak) component.

    Union-find over all edges at once: the larger root is hooked under the smaller as in Afforest (Sutton, Ben-Nun
    and Barak, "Optimizing Parallel Graph Connectivity Computation via Subgraph Sampling", IPDPS 2018, section III),
    after a sample of the edges, whose trees make most of the others cheap; paths are split on the way as in ECL-CC
    (Jaiganesh and Burtscher, "A High-Performance Connected Components Implementation for GPUs", HPDC 2018, section 3).
    Afforest's skipping of the largest component is not used: it needs both directions of each edge, and a directed
    graph brings one.

    Returns
    -------
    array, shape (V,), vertex dtype
    """
    backend = out.backend
    parents = backend.xp.arange(out.num_vertices, dtype=out.offsets.dtype)
    if out.num_edges == 0:
        return parents
    for nth in range(SAMPLED_EDGES):
        k_unite_nth_edges.launch(out.num_vertices, out.offsets, out.indices, out.valid, nth, parents)
        parents = flatten_trees(backend, parents)
    k_unite_edges.launch_strided(out.num_slots, out.sources, out.indices, out.valid, parents)
    return flatten_trees(backend, parents)


def flatten_trees(backend: Backend, parents: Array) -> Array:
    """Point each vertex at its root: jump until stable, in a number of launches logarithmic in the depth."""
    jumped = backend.empty(parents.shape[0], parents.dtype)
    while True:
        changed = backend.zeros(1, np.int32)
        k_jump_parents.launch(parents.shape[0], parents, jumped, changed)
        parents, jumped = jumped, parents
        if not int(changed[0]):
            return parents
