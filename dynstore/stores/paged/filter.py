"""A filter on the device that finds most of the edges that are not in pages, so that they need no look-up there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["EdgeFilter"]

# Of the filter for an edge. Of edges that are not there, about one in 20 passes.
BITS = 8
MAX_WORDS = (1 << 31) - 1


class EdgeFilter:
    """A Bloom filter in which all bits of a key lie in one word, so that a test reads one word.

    B. H. Bloom, "Space/Time Trade-offs in Hash Coding with Allowable Errors", CACM 13(7), 1970; blocks as in Putze,
    Sanders, Singler, "Cache-, Hash- and Space-Efficient Bloom Filters", JEA 14, 2009.

    Parameters
    ----------
    backend : Backend
    num_keys : int
        How many keys will be added.

    Attributes
    ----------
    words : array, uint32
    """

    def __init__(self, backend: Backend, num_keys: int) -> None:
        self._backend = backend
        self.words = backend.zeros(min(-(-num_keys * BITS // 32) or 1, MAX_WORDS), np.uint32)

    @property
    def nbytes(self) -> int:
        """Bytes of device memory."""
        return int(self.words.nbytes)

    def add(self, keys: Array) -> None:
        """Add keys, int64, not negative."""
        self._backend.kernels("dynstore.stores.paged").add_to_filter(self.words, keys)
