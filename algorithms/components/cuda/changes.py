"""Update components after edges have changed: unite them, and label split ones again, on the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynstore.algorithms.components.cuda.union_find import d_unite, flatten_trees
from dynstore.algorithms.rows.cuda.common import d_has_bit, d_open_item, d_open_tile
from dynstore.algorithms.rows.cuda.sweeps import sweep
from dynstore.cuda.compiler import cuda, kernel
from dynstore.cuda.warp import d_lane

if TYPE_CHECKING:
    from dynstore.graph.delta import Delta
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["unite_components"]


@kernel
def k_unite_inserted(src, dst, slots, before, parents):
    """One thread a change: unite the ends of an inserted edge. Atomics: ``d_unite``."""
    i = int(cuda.grid(1))
    if i < src.shape[0] and slots[i] >= 0 and not before[i]:
        d_unite(parents, int(src[i]), int(dst[i]))


@kernel
def k_unite_rows(offsets, indices, valid, vertices, scan, steps, parents):
    """One warp a tile of slots, one lane a slot: unite the ends of its edge. Atomics: ``d_unite``."""
    first, last, low, high = d_open_tile(scan, steps, int(cuda.grid(1)))
    for base in range(first, last, 32):
        item = base + d_lane()
        if item < last:
            u, slot = d_open_item(offsets, vertices, scan, low, high, item)
            if d_has_bit(valid, slot):
                d_unite(parents, u, int(indices[slot]))


def unite_components(sides: tuple[GapCSR, ...], delta: Delta, lost: Array, labels: Array) -> tuple[Array, int]:
    """Unite components that inserted edges join, and find the components of lost vertices.

    Parameters and results are those of the host's ``unite_components``.
    """
    labels[lost] = lost
    visits = len(delta)
    k_unite_inserted.launch(len(delta), delta.src, delta.dst, delta.slots, delta.before, labels)
    for csr in sides:
        visits += sweep(csr, lost, k_unite_rows, labels)
    flatten_trees(labels)
    return labels, visits
