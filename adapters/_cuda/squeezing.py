"""Squeezing the gaps out of a CSR on the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynstore._cuda.compiler import cuda, kernel
from dynstore.algorithms._cuda._common import d_has_bit, d_rank, rank_offsets

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["squeeze"]


@kernel
def k_squeeze_slots(valid, before, indices, weights, weighted, packed_indices, packed_weights):
    """One thread a slot: an edge is written to its rank among the edges, a gap nowhere.

    ``before[i]`` are the edges before word ``i``; a warp's edges go to neighbouring places.
    """
    slot = int(cuda.grid(1))
    if slot < indices.shape[0] and d_has_bit(valid, slot):
        place = d_rank(valid, before, slot)
        packed_indices[place] = indices[slot]
        if weighted:
            packed_weights[place] = weights[slot]


def squeeze(csr: GapCSR) -> tuple[Array, Array, Array | None]:
    """Pack the rows of a gap-aware CSR in one pass over its slots.

    Returns
    -------
    offsets : array, shape (V + 1,), vertex dtype
    indices : array, shape (E,), vertex dtype
    weights : array, shape (E,), or None
        Arrays of their own: no update changes them.
    """
    backend = csr.backend
    before, packed = rank_offsets(backend, csr.offsets, csr.valid, csr.num_slots)
    indices = backend.empty(csr.num_edges, csr.indices.dtype)
    weights = None if csr.weights is None else backend.empty(csr.num_edges, csr.weights.dtype)
    unread = backend.empty(1, csr.indices.dtype)  # stands for arrays that an unweighted graph does not have
    if csr.num_edges:
        k_squeeze_slots.launch(
            csr.num_slots,
            csr.valid,
            before,
            csr.indices,
            unread if csr.weights is None else csr.weights,
            int(csr.weights is not None),
            indices,
            unread if weights is None else weights,
        )
    return packed.astype(csr.offsets.dtype), indices, weights
