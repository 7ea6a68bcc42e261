"""Lists of vertices that kernels make, and kernels over the slots of listed rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.rows.cuda.common import count_tiles
from dynstore.cuda.block import d_claim
from dynstore.cuda.compiler import device

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.cuda.compiler import Kernel
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["VertexList", "d_append", "sweep"]


@device
def d_append(items, lengths, word, item, wanted):
    """Append the items of lanes with ``wanted`` to a list of ``lengths[word]``; one atomic add a warp.

    All 32 lanes call.
    """
    place = d_claim(lengths, word, wanted)
    if wanted:
        items[place] = item


class VertexList:
    """A list of vertices that kernels append to; each part is read once.

    Attributes
    ----------
    outputs : tuple of arrays
        The items and their number, for :func:`d_append`.
    """

    def __init__(self, backend: Backend, capacity: int, dtype: Any) -> None:
        self._backend = backend
        self._items = backend.empty(capacity, dtype)
        self._size = backend.zeros(1, np.int64)
        self._taken = 0
        self.outputs = (self._items, self._size)

    def take(self) -> Array:
        """Return the vertices appended since the last call; waits for the kernels."""
        size = int(self._size[0])
        part = self._items[self._taken : size]
        self._taken = size
        return part


def sweep(csr: GapCSR, vertices: Array, kernel: Kernel, *state: Any) -> int:
    """Launch ``kernel`` over the slots of some rows; return the number of slots."""
    if not vertices.shape[0]:
        return 0
    scan = csr.backend.xp.cumsum((csr.offsets[vertices + 1] - csr.offsets[vertices]).astype(np.int64))
    num_slots = int(scan[-1])
    num_tiles, steps = count_tiles(num_slots)
    kernel.launch_warps(num_tiles, csr.offsets, csr.indices, csr.valid, vertices, scan, steps, *state)
    return num_slots
