"""Reading the slots of a gap-aware CSR."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.host_compiler import njit

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["d_has_edge", "pack_rows"]


@njit(inline="always")
def d_has_edge(valid, slot):
    """Whether ``slot`` holds an edge: its bit in the uint32 words ``valid``, lowest bit first."""
    return (valid[slot >> 5] >> (slot & 31)) & 1 != 0


def pack_rows(csr: GapCSR) -> tuple[Array, Array, Array]:
    """Return row starts, neighbours and weights (length 0 if unweighted) without the gaps.

    For kernels that read every edge many times: one pass here removes the gaps for all of theirs. A graph without gaps
    is not copied.
    """
    weights = np.empty(0, dtype=np.float32) if csr.weights is None else csr.weights
    if csr.is_packed:
        return csr.offsets, csr.indices, weights
    starts = np.empty_like(csr.offsets)
    neighbours = np.empty(csr.num_edges + 1, dtype=csr.indices.dtype)  # one more: a last gap goes there
    packed = np.empty(csr.num_edges + 1 if csr.is_weighted else 0, dtype=weights.dtype)
    k_pack_rows(csr.offsets, csr.indices, weights, csr.valid, starts, neighbours, packed)
    return starts, neighbours, packed


@njit(cache=True, nogil=True)
def k_pack_rows(offsets, indices, weights, valid, starts, neighbours, packed):
    """Copy the valid slots in order; a gap is overwritten by the next slot, so there is no branch."""
    weighted = weights.shape[0] > 0
    place = np.uint64(0)
    for v in range(starts.shape[0] - 1):
        starts[v] = place
        for p in range(np.uint64(offsets[v]), np.uint64(offsets[v + 1])):
            neighbours[place] = indices[p]
            if weighted:
                packed[place] = weights[p]
            place += np.uint64((valid[p >> np.uint64(5)] >> np.uint32(p & np.uint64(31))) & np.uint32(1))
    starts[starts.shape[0] - 1] = place
