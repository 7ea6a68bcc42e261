"""A batch of edges as the stores want it: sorted by (source, destination), every edge once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array, OnDuplicate

__all__ = ["EdgeBatch", "make_batch", "sort_unique"]


@dataclass(frozen=True, slots=True)
class EdgeBatch:
    """Sorted and unique edges.

    Attributes
    ----------
    src, dst : array, shape (B,), vertex dtype
    weights : array, shape (B,), or None
    num_loops : int
        Self-loops among them; only counted for undirected graphs, else 0.
    """

    src: Array
    dst: Array
    weights: Array | None
    num_loops: int = 0

    def __len__(self) -> int:
        return int(self.src.shape[0])

    def transposed(self, backend: Backend) -> EdgeBatch:
        """Return the batch with every edge turned round."""
        return EdgeBatch(*sort_unique(backend, self.dst, self.src, self.weights), self.num_loops)


def sort_unique(
    backend: Backend, src: Array, dst: Array, weights: Array | None, on_duplicate: OnDuplicate = "replace"
) -> tuple[Array, Array, Array | None]:
    """Sort edges by (src, dst) and keep each once: with the last weight, or with the sum of all.

    int32 ids are packed into one 64-bit key and sorted once; int64 ids take two passes (lexsort).
    Sums are accumulated in float64.
    """
    xp = backend.xp
    if src.shape[0] == 0:
        return src, dst, weights
    if src.dtype.itemsize == 4:
        if weights is None:
            return (*_sort_pairs(backend, src, dst, False)[:2], None)
        keys = src.astype(np.int64)
        keys <<= 32
        keys |= dst
        order = xp.argsort(keys, kind="stable")
        keys = keys[order]
        ends = _run_ends(backend, keys[1:] != keys[:-1])
        keys = keys[ends]
        src, dst = (keys >> 32).astype(src.dtype), keys.astype(src.dtype)
    else:
        order = xp.lexsort(xp.stack((dst, src)))
        src, dst = src[order], dst[order]
        ends = _run_ends(backend, (src[1:] != src[:-1]) | (dst[1:] != dst[:-1]))
        src, dst = src[ends], dst[ends]
    if weights is not None:
        weights = _resolve_weights(backend, weights[order], ends, on_duplicate)
    return src, dst, weights


def _sort_pairs(backend: Backend, src: Array, dst: Array, mirrored: bool) -> tuple[Array, Array, int]:
    sorted_pairs: tuple[Array, Array, int] = backend.kernels("dynstore", "batches").sort_pairs(
        backend, src, dst, mirrored
    )
    return sorted_pairs


def _resolve_weights(backend: Backend, weights: Array, ends: Array, on_duplicate: OnDuplicate) -> Array:
    """Return one weight for each run of equal keys: its last one, or the sum."""
    if on_duplicate == "replace":
        return weights[ends]
    xp = backend.xp
    run = xp.cumsum(ends) - ends
    return xp.bincount(run, weights=weights.astype(np.float64)).astype(weights.dtype)


def _run_ends(backend: Backend, changes: Array) -> Array:
    ends = backend.empty(changes.shape[0] + 1, np.bool_)
    ends[:-1] = changes
    ends[-1] = True
    return ends


def make_batch(
    backend: Backend,
    src: Array,
    dst: Array,
    weights: Array | None,
    directed: bool,
    on_duplicate: OnDuplicate = "replace",
) -> tuple[EdgeBatch, int]:
    """Sort a raw batch and resolve its duplicates; an undirected one is mirrored, self-loops are not.

    A weighted undirected batch is brought to (min, max) first, so that (u, v) and (v, u) are the same edge and
    the two directions cannot get different weights.

    Returns
    -------
    batch : EdgeBatch
    num_edges : int
        Distinct edges named (undirected pairs counted once).
    """
    xp = backend.xp
    if directed:
        src, dst, weights = sort_unique(backend, src, dst, weights, on_duplicate)
        return EdgeBatch(src, dst, weights), int(src.shape[0])
    if weights is None:  # nothing to resolve between the directions: mirror first, sort once
        if src.dtype.itemsize == 4:
            src, dst, num_loops = _sort_pairs(backend, src, dst, True)
        else:
            src, dst, _ = sort_unique(backend, xp.concatenate((src, dst)), xp.concatenate((dst, src)), None)
            num_loops = int(xp.count_nonzero(src == dst))
        return EdgeBatch(src, dst, None, num_loops), (int(src.shape[0]) + num_loops) // 2
    low, high, resolved = sort_unique(backend, xp.minimum(src, dst), xp.maximum(src, dst), weights, on_duplicate)
    assert resolved is not None
    num_edges = int(low.shape[0])
    proper = low != high
    num_loops = num_edges - int(xp.count_nonzero(proper))
    src = xp.concatenate((low, high[proper]))
    dst = xp.concatenate((high, low[proper]))
    resolved = xp.concatenate((resolved, resolved[proper]))
    return EdgeBatch(*sort_unique(backend, src, dst, resolved), num_loops), num_edges
