"""The states of edges of a batch, written to sorted edges, on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynstore.host_compiler import njit

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["write_states"]


@njit(cache=True)
def _find_pair(sorted_src, sorted_dst, u, v):
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
    for i in range(src.shape[0]):
        to_states[_find_pair(sorted_src, sorted_dst, src[i], dst[i])] = states[i]
        if mirrored:
            to_states[_find_pair(sorted_src, sorted_dst, dst[i], src[i])] = states[i]


def write_states(
    backend: Backend,
    pairs: tuple[Array, Array],
    src: Array,
    dst: Array,
    mirrored: bool,
    states: Array,
    to_states: Array,
) -> None:
    """Write the state of each edge of a batch to the place of its pair.

    Parameters
    ----------
    pairs : (src, dst)
        Sorted, each once; all edges of the batch are among them.
    src, dst : array, shape (B,)
        Rows of equal edges have equal states.
    mirrored : bool
        Whether each edge stands for its mirror image, too.
    states : array, shape (B,)
    to_states : array, shape (P,)
    """
    _write(*pairs, src, dst, mirrored, states, to_states)
