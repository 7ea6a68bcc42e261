"""Edges of a gap-aware CSR under other numbers of vertices, on the GPU: as keys that sort by row, or moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.adapters.cugraph.cuda.squeezing import squeeze
from dynstore.algorithms.rows.cuda.common import d_rank, rank_offsets
from dynstore.cuda.compiler import cuda, kernel
from dynstore.snapshot import GapCSR

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = ["key_edges", "move_edges", "rank_rows"]


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


@kernel
def k_move_edges(rows, columns, valid, num_slots, before, shifts, places, weights, moved, moved_weights):
    """A thread a slot, in strides: write an edge's other end to its place among all edges, moved by its row's shift."""
    for slot in range(cuda.grid(1), num_slots, cuda.gridsize(1)):
        if (valid[slot >> 5] >> np.uint32(slot & 31)) & np.uint32(1) != 0:
            place = d_rank(valid, before, slot) + shifts[rows[slot]]
            moved[place] = places[columns[slot]]
            if weights.shape[0] > 0:
                moved_weights[place] = weights[slot]


def rank_rows(csr: GapCSR) -> tuple[Array, Array]:
    """Return the number of edges before each word of ``valid``, and before each row; as ``rank_offsets`` does."""
    return rank_offsets(csr.backend, csr.offsets, csr.valid, csr.num_slots)


def move_edges(csr: GapCSR, before: Array, shifts: Array, places: Array) -> list[Array]:
    """Return the edges with each row moved, under other numbers.

    Parameters
    ----------
    csr : GapCSR
    before : array
        From :func:`rank_rows`.
    shifts : array, shape (V,), int64
        How much further the edges of each row begin than without gaps.
    places : array, shape (V,)
        The new number of each vertex.

    Returns
    -------
    list of arrays, shape (E,)
        Destinations, and weights if there are any.
    """
    backend, weighted = csr.backend, csr.weights is not None
    moved = [backend.empty(csr.num_edges, places.dtype)]
    weights: Array = csr.weights if weighted else backend.nothing(np.float32)
    moved_weights = backend.empty(csr.num_edges if weighted else 0, weights.dtype)
    edges = (csr.sources, csr.indices, csr.valid, csr.num_slots)
    k_move_edges.launch_strided(csr.num_slots, *edges, before, shifts, places, weights, moved[0], moved_weights)
    return moved + [moved_weights] * weighted
