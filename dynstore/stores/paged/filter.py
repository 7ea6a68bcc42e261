"""A filter on the device that finds most of the edges that are not in pages, so that they need no look-up there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.stores.paged.layout import FILTER_WORDS

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["EdgeFilter"]


class EdgeFilter:
    """A Bloom filter in which all bits of an edge lie in one word, so that a test reads one word.

    A row has as many words as its slots in the pages take. So rows that are added one after the other write words
    beside each other.

    B. H. Bloom, "Space/Time Trade-offs in Hash Coding with Allowable Errors", CACM 13(7), 1970; blocks as in Putze,
    Sanders, Singler, "Cache-, Hash- and Space-Efficient Bloom Filters", JEA 14, 2009.

    Parameters
    ----------
    backend : Backend
    num_edges : int
        How many edges will be added.

    Attributes
    ----------
    words : array, uint64
        Edges whose words would lie behind the last one use that.
    """

    def __init__(self, backend: Backend, num_edges: int) -> None:
        self._backend = backend
        self.words = backend.zeros(max(-(-num_edges * FILTER_WORDS // 16), 1), np.uint64)

    def pass_all(self) -> None:
        """Pass every edge from now on."""
        self.words.fill(np.iinfo(self.words.dtype).max)

    @property
    def nbytes(self) -> int:
        """Bytes of device memory."""
        return int(self.words.nbytes)

    def add(self, offsets: Array, keys: Array) -> None:
        """Add edges: keys ``row << 32 | destination``, int64; ``offsets``, shape (V + 1,): where each row begins."""
        self._backend.kernels("dynstore.stores.paged").add_to_filter(self.words, offsets, keys)
