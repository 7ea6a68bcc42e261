"""Edges of a gap-aware CSR under other numbers of vertices, on the GPU: one key an edge, which sorts by row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.adapters.cugraph.cuda.squeezing import squeeze
from dynstore.cuda.compiler import cuda, kernel
from dynstore.snapshot import GapCSR

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = ["key_edges"]


@kernel
def k_key_slots(rows, columns, valid, num_slots, places, keys):
    """A thread a slot, in strides: where an edge is, write the place of its row, then that of its column, as one key.

    Keys of gaps are left as they are.
    """
    for slot in range(cuda.grid(1), num_slots, cuda.gridsize(1)):
        if (valid[slot >> 5] >> np.uint32(slot & 31)) & np.uint32(1) != 0:
            keys[slot] = (np.int64(places[rows[slot]]) << np.int64(32)) | np.int64(places[columns[slot]])


def key_edges(csr: GapCSR, places: Array, inward: bool) -> tuple[Array, Array | None]:
    """Return a key for each edge, which holds the places of its ends, and the weights beside it.

    Parameters
    ----------
    csr : GapCSR
    places : array, shape (V,)
        The new number of each vertex, below 2**31.
    inward : bool
        The destination is the row, the higher half of the key.

    Returns
    -------
    keys : array, shape (E,), int64
        New, in the order of the slots.
    weights : array, shape (E,), or None
        New, too.
    """
    backend = csr.backend
    keys = backend.empty(csr.num_slots, np.int64)
    ends = (csr.indices, csr.sources) if inward else (csr.sources, csr.indices)
    k_key_slots.launch_strided(csr.num_slots, *ends, csr.valid, csr.num_slots, places, keys)
    keyed = GapCSR(backend, csr.offsets, csr.sources, keys, csr.valid, csr.weights, csr.num_edges)
    _, packed, weights, _ = squeeze(keyed)
    return packed, weights
