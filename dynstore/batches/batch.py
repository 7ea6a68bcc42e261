"""A batch of edges as the stores want it: sorted by (source, destination), every edge once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.typing import MAX_INT32

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.backend import Backend
    from dynstore.stores.table.slots import Located
    from dynstore.typing import Array, OnDuplicate

__all__ = ["EdgeBatch", "RawEdges", "UnsortedBatch", "WeightedRows", "make_batch", "sort_unique"]


class EdgeBatch:
    """Sorted and unique edges.

    Parameters
    ----------
    src, dst : array, shape (B,), vertex dtype
    weights : array, shape (B,), or None
    num_loops : int
        Self-loops among them; only counted for undirected graphs, else 0.

    Attributes
    ----------
    num_rows : int
        How many keys whoever takes the batch as it is has to look at; B.
    present : tuple of Located, bool and array, or None
        What a search for them has found in the store's slots, where all are there, for the deletion's plan to use:
        where they are, whether some leave a leaf too empty, and which slots are theirs, one bit each.
    """

    present: tuple[Located, bool, Array] | None = None

    def __init__(self, src: Array, dst: Array, weights: Array | None, num_loops: int = 0) -> None:
        self.num_rows = len(src)
        self._settled: tuple[Array, Array, Array | None, int] | None = (src, dst, weights, num_loops)

    @property
    def src(self) -> Array:
        return self._settle()[0]

    @property
    def dst(self) -> Array:
        return self._settle()[1]

    @property
    def weights(self) -> Array | None:
        return self._settle()[2]

    @property
    def num_loops(self) -> int:
        return self._settle()[3]

    def __len__(self) -> int:
        return int(self._settle()[0].shape[0])

    def count_edges(self) -> int:
        """Return the length, for who need not know which edges there are."""
        return len(self)

    def num_edges(self, directed: bool) -> int:
        """Count the edges, undirected pairs once: loops are stored once, all others twice."""
        return len(self) if directed else (len(self) + self.num_loops) // 2

    def transposed(self, backend: Backend) -> EdgeBatch:
        """Return the batch with every edge turned round."""
        return EdgeBatch(*sort_unique(backend, self.dst, self.src, self.weights), self.num_loops)

    def _settle(self) -> tuple[Array, Array, Array | None, int]:
        assert self._settled is not None
        return self._settled


class UnsortedBatch(EdgeBatch, ABC):
    """Edges as they came: in any order, any of them several times. int64 ones nobody has looked at yet.

    They are sorted when somebody asks for that. A plan that sorts them may tell in passing which edges there are.

    Parameters
    ----------
    backend : Backend
        One of CUDA, whose kernels sort them.
    src, dst : array, shape (N,), vertex dtype
    mirrored : bool
        Whether each edge stands for its mirror image, too; of an undirected graph.

    Attributes
    ----------
    is_crowded : bool
        Whether these edges have to be sorted for a plan.
    num_rows : int
        How many keys there are, mirror images included, before each is kept once.
    """

    is_crowded = False
    _settled = None
    _counts: tuple[int, int] | None = None

    def __init__(self, backend: Backend, src: Array, dst: Array, mirrored: bool) -> None:
        self.columns = src, dst
        self.mirrored = mirrored
        self.num_rows = 2 * len(src) if mirrored else len(src)
        self._backend = backend

    @property
    def is_settled(self) -> bool:
        """Whether the edges are known."""
        return self._settled is not None

    def settle(self, src: Array, dst: Array, num_loops: int, weights: Array | None = None) -> None:
        """Take the edges from who has found them."""
        self._settled = src, dst, weights, num_loops if self.mirrored else 0

    def settle_counts(self, num_edges: int, num_loops: int) -> None:
        """Take how many edges there are from who has counted them, and how many self-loops among them."""
        self._counts = num_edges, num_loops if self.mirrored else 0

    @property
    def num_loops(self) -> int:
        return super().num_loops if self._counts is None else self._counts[1]

    def __len__(self) -> int:
        return super().__len__() if self._counts is None else self._counts[0]

    @abstractmethod
    def find_bounds(self, sorting: bool) -> tuple[int, ...]:
        """Return the lowest and the highest id of each column, where 0 is always counted as there.

        By a kernel that packs the keys in passing: who asks has not found another use for the batch. With ``sorting``
        they are being sorted when this returns.
        """

    @abstractmethod
    def renumbered(self, src: Array, dst: Array) -> UnsortedBatch:
        """Return the same edges under other numbers."""

    def _kernels(self, module: str) -> Any:
        return self._backend.kernels("dynstore.batches", module)


class RawEdges(UnsortedBatch):
    """Unweighted edges as they came. A plan that needs no order takes them as they are.

    ``is_crowded``: whether one has found that they have to be sorted for it.
    """

    weights = None
    _packed: Array | None = None
    _keys: Array | None = None
    _keys_are_distinct = False
    _counting: tuple[Array, Callable[[], tuple[Array, int]]] | None = None

    @property
    def keys(self) -> Array:
        """All keys, sorted; int64: source in the high half, destination in the low one, -1 where one does not fit."""
        if self._keys is None:
            self._keys = self._sort()
        return self._keys

    def find_bounds(self, sorting: bool) -> tuple[int, ...]:
        packed, read_bounds = self._kernels("unique").pack_and_bound(self._backend, *self.columns, self.mirrored)
        if self._keys is None:  # else there is nothing left to sort
            self._packed = packed
            if sorting:
                self._keys = self._sort()
        bounds: tuple[int, ...] = read_bounds()
        return bounds

    def _sort(self) -> Array:
        keys, self._packed = self._packed, None
        if keys is None:
            keys = self._kernels("unique").pack_keys(self._backend, *self.columns, self.mirrored)
        sorted_keys: Array = self._kernels("sort").sort_keys(self._backend, keys)
        return sorted_keys

    def start_counting(self) -> Array:
        """Have the device count the distinct keys; return its totals (``cuda/unique.py``), empty where all are."""
        if self._keys_are_distinct:
            return self._backend.nothing(np.int64)
        if self._counting is None:
            self._counting = self._kernels("unique").start_keeping(self._backend, self.keys)
        return self._counting[0]

    def distinct_keys(self) -> Array:
        """Return :attr:`keys`, of which each is there once from then on; tells in passing how many edges there are."""
        self.start_counting()
        if self._counting is not None:
            self._keys, num_loops = self._counting[1]()
            self._counting, self._keys_are_distinct = None, True
            self.settle_counts(int(self._keys.shape[0]), num_loops)
        return self.keys

    def count_edges(self) -> int:
        if not self.is_settled and self._counts is None:
            self.distinct_keys()
        return len(self)

    def renumbered(self, src: Array, dst: Array) -> RawEdges:
        twin = RawEdges(self._backend, src, dst, self.mirrored)
        twin.is_crowded = self.is_crowded  # most have the numbers that they had
        return twin

    def transposed(self, backend: Backend) -> EdgeBatch:
        twin = RawEdges(backend, self.columns[1], self.columns[0], self.mirrored)
        twin._counts = self._counts
        return twin

    def _settle(self) -> tuple[Array, Array, Array | None, int]:
        if self._settled is None:
            self.settle(*self._kernels("unique").keep_pairs(self._backend, self.keys))
        return super()._settle()


class WeightedRows(UnsortedBatch):
    """Weighted edges as they came. An edge of several rows has the weight of the last one, or the sum of all.

    The rows of an edge and of its mirror image are the same, and are taken in the same order: their weights are equal.

    Parameters
    ----------
    row_weights : array, shape (N,), weight dtype
        Nobody need have looked for NaN among them, which counts as an id that does not fit.
    adding : bool
        Whether weights are summed, in float64.
    """

    is_crowded = True
    _sorted: tuple[Array, Array] | None = None
    _bound = 0  # of the ids that these have keys for
    _bounds: Array | None = None

    def __init__(
        self, backend: Backend, src: Array, dst: Array, row_weights: Array, mirrored: bool, adding: bool
    ) -> None:
        super().__init__(backend, src, dst, mirrored)
        self.row_weights = row_weights
        self.adding = adding

    @property
    def sorted_keys(self) -> tuple[Array, Array]:
        """All keys, sorted, as :attr:`RawEdges.keys`, and of each the row that it is of; both int64.

        With ``mirrored``: twice the row, and one more for a mirror image. Equal keys have ascending rows.
        """
        return self.sorted_below(MAX_INT32 + 1)

    def sorted_below(self, num_vertices: int) -> tuple[Array, Array]:
        """Return :attr:`sorted_keys`, where -1 may stand for keys with ids that are no vertices: that may be quicker.

        Who asks for no more ids than these were sorted for gets the same again.
        """
        if self._sorted is None or self._bound < min(num_vertices, MAX_INT32 + 1):
            self._sorted = None  # to free it before the next is made
            keys, order, self._bounds, self._bound = self._kernels("weighted").sort_weighted(
                self._backend, self, num_vertices
            )
            self._sorted = keys, order
        return self._sorted

    def find_bounds(self, sorting: bool) -> tuple[int, ...]:
        if self._bounds is None:
            _ = self.sorted_keys  # they are needed in any case
        return tuple(self._backend.to_host(self._bounds).tolist())

    def renumbered(self, src: Array, dst: Array) -> WeightedRows:
        return WeightedRows(self._backend, src, dst, self.row_weights, self.mirrored, self.adding)

    def transposed(self, backend: Backend) -> EdgeBatch:
        twin = self.renumbered(self.columns[1], self.columns[0])
        twin._counts = self._counts
        return twin

    def _settle(self) -> tuple[Array, Array, Array | None, int]:
        if self._settled is None:
            src, dst, weights, num_loops = self._kernels("weighted").keep_rows(self._backend, self)
            self.settle(src, dst, num_loops, weights)
        return super()._settle()


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
            batch = _make_pairs(backend, src, dst, False)
            return batch.src, batch.dst, None
        keys = src.astype(np.int64)
        keys <<= 32
        keys |= dst
        order = xp.argsort(keys, kind="stable")
        keys = keys[order]
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


def _make_pairs(backend: Backend, src: Array, dst: Array, mirrored: bool) -> EdgeBatch:
    batch: EdgeBatch = backend.kernels("dynstore.batches", "rows").make_pairs(backend, src, dst, mirrored)
    return batch


def _run_ends(backend: Backend, changes: Array) -> Array:
    ends = backend.empty(changes.shape[0] + 1, np.bool_)
    ends[:-1] = changes
    ends[-1] = True
    return ends


def make_batch(
    backend: Backend,
    src: Array,
    dst: Array,
    weights: Array | None,
    directed: bool,
    on_duplicate: OnDuplicate = "replace",
    max_id: int | None = -1,
) -> EdgeBatch:
    """Sort a raw batch and resolve its duplicates; an undirected one is mirrored, self-loops are not.

    A weighted undirected batch is brought to (min, max) first, so that (u, v) and (v, u) are the same edge and
    the two directions cannot get different weights. int64 ids that fit are sorted as int32 ones, by one key.

    ``max_id``: the highest id, -1 where it is not known; None where nobody has looked at the ids, which are for one
    kernel to try then (:meth:`~dynstore.stores.base.Store.insert_now`).
    """
    xp, dtype = backend.xp, src.dtype
    if len(src) and (max_id is None or dtype.itemsize == 4):
        if backend.family == "cuda":
            if weights is None:
                return RawEdges(backend, src, dst, not directed)
            return WeightedRows(backend, src, dst, weights, not directed, on_duplicate != "replace")
        if weights is None:
            return _make_pairs(backend, src, dst, not directed)
    if dtype.itemsize == 8 and max_id is not None and 0 <= max_id < MAX_INT32:
        src, dst = src.astype(np.int32), dst.astype(np.int32)
        batch = make_batch(backend, src, dst, weights, directed, on_duplicate)
        return EdgeBatch(batch.src.astype(dtype), batch.dst.astype(dtype), batch.weights, batch.num_loops)
    if directed:
        return EdgeBatch(*sort_unique(backend, src, dst, weights, on_duplicate))
    if weights is None:  # nothing to resolve between the directions: mirror first, sort once
        src, dst, _ = sort_unique(backend, xp.concatenate((src, dst)), xp.concatenate((dst, src)), None)
        return EdgeBatch(src, dst, None, int(xp.count_nonzero(src == dst)))
    low, high, resolved = sort_unique(backend, xp.minimum(src, dst), xp.maximum(src, dst), weights, on_duplicate)
    assert resolved is not None
    proper = low != high
    num_loops = int(low.shape[0]) - int(xp.count_nonzero(proper))
    src = xp.concatenate((low, high[proper]))
    dst = xp.concatenate((high, low[proper]))
    resolved = xp.concatenate((resolved, resolved[proper]))
    return EdgeBatch(*sort_unique(backend, src, dst, resolved), num_loops)
