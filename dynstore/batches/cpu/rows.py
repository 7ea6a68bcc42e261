"""Sorting the rows of a batch on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.host_compiler import njit

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["sort_pairs"]


def sort_pairs(backend: Backend, src: Array, dst: Array, mirrored: bool) -> tuple[Array, Array, int]:
    """Sort int32 edges by (src, dst) and keep each once; ``mirrored``: in both directions, self-loops once.

    Also returns how many are self-loops.
    """
    count = int(src.shape[0])
    keys = np.empty(2 * count if mirrored else count, dtype=np.int64)
    _pack(src, dst, keys[:count])
    if mirrored:
        _pack(dst, src, keys[count:])
    keys.sort()  # NumPy's sort uses vectors
    some_src, some_dst = np.empty(keys.shape[0], np.int32), np.empty(keys.shape[0], np.int32)
    kept, loops = _unpack_once(keys, some_src, some_dst)
    return some_src[:kept], some_dst[:kept], int(loops)


@njit(cache=True)
def _pack(src, dst, keys):
    for i in range(keys.shape[0]):
        keys[i] = np.int64(src[i]) << 32 | np.int64(dst[i])


@njit(cache=True)
def _unpack_once(keys, src, dst):
    """Write each different key's ends in order; return their number, and that of the self-loops."""
    kept, loops = np.uint64(0), 0
    for i in range(keys.shape[0]):
        key = keys[i]
        src[kept], dst[kept] = key >> 32, np.int32(key)
        last = i + 1 == keys.shape[0] or keys[i + 1] != key
        kept += np.uint64(last)
        loops += last and (key >> 32) == (key & 0xFFFFFFFF)
    return np.int64(kept), loops
