"""Union-find over vertices on the GPU: an array of parents; a root is its own parent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynstore.cuda.compiler import cuda, device, kernel

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = ["d_flatten", "d_unite", "flatten_trees"]


@device
def d_find_root(parents, vertex):
    """Return the root of ``vertex``, or a vertex that has just ceased to be one; split the path to it.

    Parents only decrease, and every earlier value of a parent is in the same component. So a stale read is still right:
    it finds a vertex of the component, from which :func:`d_unite` continues with atomics alone.
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

    If the larger was no root any more, the minimum may have replaced its parent. Then this parent and the smaller root
    are united next. The larger of the two decreases each time, so this ends.
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


@device
def d_flatten(parents, vertex):
    """Point a vertex at its root, using pointers that other threads have already moved; return the root.

    A pointer that is being moved may be read before or after: both values are ancestors, and roots stay.
    """
    parent = int(parents[vertex])
    above = int(parents[parent])
    while above != parent:
        parents[vertex] = above
        parent = above
        above = int(parents[parent])
    return parent


@kernel
def k_flatten_trees(parents):
    """One thread a vertex: point it at its root."""
    vertex = int(cuda.grid(1))
    if vertex < parents.shape[0]:
        d_flatten(parents, vertex)


def flatten_trees(parents: Array) -> None:
    """Point each vertex at its root, in place; as all jump at once, it takes about log(depth) steps."""
    k_flatten_trees.launch(parents.shape[0], parents)
