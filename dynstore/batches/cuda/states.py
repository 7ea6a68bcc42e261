"""The states of edges of a batch, written to sorted edges, on CUDA."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynstore.cuda.compiler import cuda, device, kernel

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["write_states"]


@device
def d_find_pair(sorted_src, sorted_dst, u, v):
    """Return the place of a pair that is there."""
    low, high = 0, sorted_src.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if sorted_src[middle] < u or (sorted_src[middle] == u and sorted_dst[middle] < v):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def k_write_states(sorted_src, sorted_dst, src, dst, mirrored, states, to_states):
    """One thread a row: write its state to its pair, and to the mirror image. Equal rows write equal states."""
    i = int(cuda.grid(1))
    if i < src.shape[0]:
        to_states[d_find_pair(sorted_src, sorted_dst, src[i], dst[i])] = states[i]
        if mirrored:
            to_states[d_find_pair(sorted_src, sorted_dst, dst[i], src[i])] = states[i]


def write_states(
    backend: Backend,
    pairs: tuple[Array, Array],
    src: Array,
    dst: Array,
    mirrored: bool,
    states: Array,
    to_states: Array,
) -> None:
    """Write the state of each edge of a batch to the place of its pair; see the host's ``write_states``."""
    k_write_states.launch(src.shape[0], *pairs, src, dst, mirrored, states, to_states)
