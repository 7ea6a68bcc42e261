"""A batch of edges for the stores, made of columns as they came."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.batches.sorted import EdgeBatch, sort_unique
from dynstore.batches.unsorted import RawEdges, WeightedRows
from dynstore.typing import MAX_INT32

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.batches.sorted import Batch
    from dynstore.typing import Array, OnDuplicate

__all__ = ["make_batch"]


def make_batch(
    backend: Backend,
    src: Array,
    dst: Array,
    weights: Array | None,
    directed: bool,
    on_duplicate: OnDuplicate = "replace",
    max_id: int | None = -1,
) -> Batch:
    """Make a batch whose duplicates are resolved, now or once materialized; mirror undirected edges, except loops.

    A weighted undirected batch is first brought to (min, max), so that (u, v) and (v, u) are the same edge and both
    directions get the same weight. int64 ids that fit are sorted as int32 ones, by one key.

    ``max_id``: the highest id, -1 if it is not known; None if the ids are not validated, which is then left to the
    kernel that tries them (:meth:`~dynstore.stores.base.Store.try_insert`).
    """
    xp, dtype = backend.xp, src.dtype
    if not len(src):
        return EdgeBatch(src, dst, weights)
    if max_id is None or dtype.itemsize == 4:
        if backend.family == "cuda":
            if weights is None:
                return RawEdges(backend, src, dst, not directed)
            return WeightedRows(backend, src, dst, weights, not directed, on_duplicate != "replace")
        if weights is None:
            kernels, mirrored = backend.kernels("dynstore.batches", "rows"), not directed
            src, dst, num_loops = kernels.sort_pairs(backend, src, dst, mirrored)
            return EdgeBatch(src, dst, None, num_loops if mirrored else 0, mirrored)
    if dtype.itemsize == 8 and max_id is not None and 0 <= max_id < MAX_INT32:
        src, dst = src.astype(np.int32), dst.astype(np.int32)
        batch = make_batch(backend, src, dst, weights, directed, on_duplicate).materialized()
        return EdgeBatch(batch.src.astype(dtype), batch.dst.astype(dtype), batch.weights, batch.num_loops, not directed)
    if directed:
        return EdgeBatch(*sort_unique(backend, src, dst, weights, on_duplicate))
    if weights is None:  # nothing to resolve between the directions: mirror first, sort once
        src, dst, _ = sort_unique(backend, xp.concatenate((src, dst)), xp.concatenate((dst, src)), None)
        return EdgeBatch(src, dst, None, int(xp.count_nonzero(src == dst)), mirrored=True)
    low, high, resolved = sort_unique(backend, xp.minimum(src, dst), xp.maximum(src, dst), weights, on_duplicate)
    assert resolved is not None
    proper = low != high
    num_loops = int(low.shape[0]) - int(xp.count_nonzero(proper))
    src = xp.concatenate((low, high[proper]))
    dst = xp.concatenate((high, low[proper]))
    resolved = xp.concatenate((resolved, resolved[proper]))
    return EdgeBatch(*sort_unique(backend, src, dst, resolved), num_loops, mirrored=True)
