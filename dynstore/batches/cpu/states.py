"""The states of edges before several updates, summed up on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.batches.sorted import sort_pairs
from dynstore.host_compiler import njit

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["d_find_pair", "sum_states"]


@njit(cache=True, borrows=True)
def d_find_pair(sorted_src, sorted_dst, u, v):
    """Return where a pair is among sorted ones, or would be."""
    low, high = 0, sorted_src.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if sorted_src[middle] < u or (sorted_src[middle] == u and sorted_dst[middle] < v):
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def _write(sorted_src, sorted_dst, src, dst, mirrored, states, to_states):
    for i in range(src.shape[0] - 1, -1, -1):  # the first row is written last
        to_states[d_find_pair(sorted_src, sorted_dst, src[i], dst[i])] = states[i]
        if mirrored:
            to_states[d_find_pair(sorted_src, sorted_dst, dst[i], src[i])] = states[i]


def sum_states(
    backend: Backend, src: Array, dst: Array, mirrored: bool, there: Array, weights: Array | None, num_vertices: int
) -> tuple[Array, Array, Array, Array | None]:
    """Sort edges, and keep each once, with the state in its first row.

    Parameters
    ----------
    src, dst : array, shape (B,), vertex dtype
        Numbers of rows; those from ``num_vertices`` on are of no vertex, and their edges are not there.
    mirrored : bool
        Whether each row stands for the edge's mirror image, too.
    there : array, shape (B,), bool
    weights : array, shape (B,), or None

    Returns
    -------
    src, dst, there, weights : array, shape (P,)
    """
    pairs = sort_pairs(backend, src, dst, mirrored)
    to_there = np.empty(pairs[0].shape[0], np.bool_)
    _write(*pairs, src, dst, mirrored, there, to_there)
    if weights is None:
        return *pairs, to_there, None
    to_weights = np.empty(pairs[0].shape[0], weights.dtype)
    _write(*pairs, src, dst, mirrored, weights, to_weights)
    return *pairs, to_there, to_weights
