"""The edges of one update, sorted by (source, destination), each edge once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from typing import Self

    from dynstore.backend import Backend
    from dynstore.typing import Array, OnDuplicate

__all__ = ["Batch", "EdgeBatch", "sort_pairs", "sort_unique"]


class Batch(ABC):
    """The edges of one update. A batch never changes; methods that launch kernels are verbs.

    Attributes
    ----------
    num_rows : int
        The keys of the batch as it is, before repeated ones are dropped.
    has_weights : bool
    search : object or None
        What a search for these edges has found in the store's slots, for the plan of a deletion.
    """

    num_rows: int
    has_weights: bool
    search: Any = None

    @abstractmethod
    def materialized(self) -> EdgeBatch:
        """Return the edges sorted, each once; sorts them if that has not been done."""

    @abstractmethod
    def known(self) -> Batch:
        """Return the sorted edges if they are known already, else the batch as it is; sorts nothing."""

    @abstractmethod
    def count_edges(self) -> int:
        """Return how many different edges there are, both directions of undirected ones; may sort."""

    @abstractmethod
    def count_loops(self) -> int:
        """Return how many of them are self-loops, for an undirected graph, else 0; may sort."""

    def num_edges(self, directed: bool) -> int:
        """Count the edges, undirected pairs once: loops are stored once, all others twice; may sort."""
        edges = self.count_edges()
        return edges if directed else (edges + self.count_loops()) // 2

    @abstractmethod
    def transposed(self, backend: Backend) -> Batch:
        """Return the batch with every edge reversed."""

    def with_search(self, search: Any) -> Self:
        """Return the same batch with what a search for it has found."""
        twin = copy(self)
        twin.search = search
        return twin


class EdgeBatch(Batch):
    """Sorted and unique edges.

    Parameters
    ----------
    src, dst : array, shape (B,), vertex dtype
    weights : array, shape (B,), or None
    num_loops : int
        Self-loops among them; only counted for undirected graphs, else 0.
    mirrored : bool
        Whether it is known that each edge is there in both directions, and the graph is undirected.
    """

    def __init__(
        self, src: Array, dst: Array, weights: Array | None, num_loops: int = 0, mirrored: bool = False
    ) -> None:
        self.src, self.dst, self.weights, self.num_loops, self.mirrored = src, dst, weights, num_loops, mirrored
        self.num_rows = int(src.shape[0])
        self.has_weights = weights is not None

    def __len__(self) -> int:
        return self.num_rows

    def materialized(self) -> EdgeBatch:
        return self

    def known(self) -> EdgeBatch:
        return self

    def count_edges(self) -> int:
        return self.num_rows

    def count_loops(self) -> int:
        return self.num_loops

    def transposed(self, backend: Backend) -> EdgeBatch:
        return EdgeBatch(*sort_unique(backend, self.dst, self.src, self.weights), self.num_loops, self.mirrored)


def sort_unique(
    backend: Backend, src: Array, dst: Array, weights: Array | None, on_duplicate: OnDuplicate = "replace"
) -> tuple[Array, Array, Array | None]:
    """Sort edges by (src, dst) and keep each once: with the last weight, or with the sum of all.

    int32 ids are packed into one 64-bit key and sorted once; int64 ids take two passes (lexsort).
    Sums are accumulated in float64.
    """
    xp = backend.xp
    if src.shape[0] == 0:
        return src, dst, weights
    if src.dtype.itemsize == 4:
        if weights is None:
            return *sort_pairs(backend, src, dst), None
        keys = src.astype(np.int64)
        keys <<= 32
        keys |= dst
        keys, order = backend.kernels("dynstore.batches", "sort").sort_rows(backend, keys)
        ends = _run_ends(backend, keys[1:] != keys[:-1])
        last = xp.nonzero(ends)[0]
        keys = keys[last]
        src, dst = (keys >> 32).astype(src.dtype), keys.astype(src.dtype)
    else:
        order = xp.lexsort(xp.stack((dst, src)))
        src, dst = src[order], dst[order]
        ends = _run_ends(backend, (src[1:] != src[:-1]) | (dst[1:] != dst[:-1]))
        last = xp.nonzero(ends)[0]
        src, dst = src[last], dst[last]
    if weights is not None and on_duplicate != "replace":
        run = xp.cumsum(ends) - ends
        return src, dst, xp.bincount(run, weights=weights[order].astype(np.float64)).astype(weights.dtype)
    if weights is not None:
        weights = weights[order[last]]
    return src, dst, weights


def sort_pairs(backend: Backend, src: Array, dst: Array, mirrored: bool = False) -> tuple[Array, Array]:
    """Sort edges without weights by (src, dst), and keep each once; ``mirrored``: in both directions."""
    if src.dtype.itemsize == 4:
        src, dst, _ = backend.kernels("dynstore.batches", "rows").sort_pairs(backend, src, dst, mirrored)
        return src, dst
    if mirrored:
        src, dst = backend.xp.concatenate((src, dst)), backend.xp.concatenate((dst, src))
    return sort_unique(backend, src, dst, None)[:2]


def _run_ends(backend: Backend, changes: Array) -> Array:
    ends = backend.empty(changes.shape[0] + 1, np.bool_)
    ends[:-1] = changes
    ends[-1] = True
    return ends
