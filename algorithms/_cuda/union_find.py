"""Union-find over vertices on the GPU: an array of parents, roots being their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore._cuda.compiler import cuda, device, kernel
from dynstore._cuda.warp import d_ballot, d_lane

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["d_unite", "flatten_trees"]


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


def flatten_trees(backend: Backend, parents: Array) -> Array:
    """Point each vertex at its root: jump until stable, in a number of launches logarithmic in the depth."""
    jumped = backend.empty(parents.shape[0], parents.dtype)
    while True:
        changed = backend.zeros(1, np.int32)
        k_jump_parents.launch(parents.shape[0], parents, jumped, changed)
        parents, jumped = jumped, parents
        if not int(changed[0]):
            return parents
