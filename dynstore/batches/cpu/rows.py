"""Sorting an unsorted batch on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.batches.sorted import EdgeBatch

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["make_pairs"]


def make_pairs(backend: Backend, src: Array, dst: Array, mirrored: bool) -> EdgeBatch:
    """Sort int32 edges by (src, dst) and keep each once; ``mirrored``: in both directions, self-loops once."""
    count = int(src.shape[0])
    keys = np.empty(2 * count if mirrored else count, dtype=np.int64)
    keys[:count] = src
    keys[:count] <<= 32
    keys[:count] |= dst
    if mirrored:
        keys[count:] = dst
        keys[count:] <<= 32
        keys[count:] |= src
    keys.sort()
    ends = np.empty(keys.shape[0], dtype=np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=ends[:-1])
    ends[-1:] = True
    keys = keys[ends]
    src, dst = (keys >> 32).astype(np.int32), keys.astype(np.int32)
    return EdgeBatch(src, dst, None, int(np.count_nonzero(src == dst)) if mirrored else 0)
