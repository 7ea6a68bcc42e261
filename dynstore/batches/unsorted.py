"""The edges of one update as they came, on CUDA: in any order, any of them several times.

They are sorted when a method needs it. What is found out about them meanwhile, such as their number, is kept beside
them and shared by all forms of the batch, so that it is found out once.
"""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.batches.sorted import Batch, EdgeBatch
from dynstore.typing import MAX_INT32

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["RawEdges", "UnsortedBatch", "WeightedRows"]


@dataclass(slots=True)
class _Findings:
    """What is known about a batch: its sorted edges; the numbers of edges and of self-loops; sorted keys.

    ``packed``: keys that are not sorted yet; ``counting``: totals on the device, and a function that waits for them.
    """

    edges: EdgeBatch | None = None
    counts: tuple[int, int] | None = None
    packed: Array | None = None
    keys: Array | None = None
    keys_are_distinct: bool = False
    counting: tuple[Array, Callable[[], tuple[Array, int]]] | None = None
    rows: tuple[Array, Array] | None = None
    bound: int = 0  # of the ids for which ``rows`` has keys
    bounds: Array | None = None


class UnsortedBatch(Batch):
    """Edges as they came.

    Parameters
    ----------
    backend : Backend
        A CUDA backend, whose kernels sort them.
    src, dst : array, shape (N,), vertex dtype
        int64 ids may not have been validated yet.
    mirrored : bool
        Whether each edge stands for its mirror image, too, as in an undirected graph.

    Attributes
    ----------
    needs_order : bool
        Whether a plan has to sort these edges.
    num_rows : int
        The number of keys, mirror images included, before repeated ones are dropped.
    """

    needs_order = False

    def __init__(self, backend: Backend, src: Array, dst: Array, mirrored: bool) -> None:
        self.columns = src, dst
        self.mirrored = mirrored
        self.num_rows = 2 * len(src) if mirrored else len(src)
        self._backend = backend
        self._findings = _Findings()

    def keep_edges(self, src: Array, dst: Array, num_loops: int, weights: Array | None = None) -> EdgeBatch:
        """Keep the sorted edges that a plan has found; return them."""
        self._findings.edges = EdgeBatch(src, dst, weights, num_loops if self.mirrored else 0, self.mirrored)
        return self._findings.edges

    def keep_counts(self, num_edges: int, num_loops: int) -> None:
        """Keep the numbers of edges and of self-loops that a plan has counted."""
        self._findings.counts = num_edges, num_loops if self.mirrored else 0

    def known(self) -> Batch:
        edges = self._findings.edges
        return self if edges is None else edges

    def materialized(self) -> EdgeBatch:
        edges = self._findings.edges
        return self._materialize() if edges is None else edges

    def count_edges(self) -> int:
        return (self._findings.counts or self._count())[0]

    def count_loops(self) -> int:
        return (self._findings.counts or self._count())[1]

    def num_edges(self, directed: bool) -> int:
        edges, loops = self._findings.counts or self._count()
        return edges if directed else (edges + loops) // 2

    def in_order(self) -> UnsortedBatch:
        """Return the same edges for a plan that sorts them."""
        if self.needs_order:
            return self
        twin = copy(self)
        twin.needs_order = True
        return twin

    @abstractmethod
    def find_bounds(self, sorting: bool) -> tuple[int, ...]:
        """Return the lowest and the highest id of each column; 0 is always counted as present.

        A kernel finds them while it packs the keys. With ``sorting`` these are being sorted when this returns.
        """

    @abstractmethod
    def renumbered(self, src: Array, dst: Array) -> UnsortedBatch:
        """Return the same edges under other numbers."""

    def transposed(self, backend: Backend) -> UnsortedBatch:
        twin = self.renumbered(self.columns[1], self.columns[0])
        twin.needs_order = type(self).needs_order
        twin._findings.counts = self._findings.counts
        return twin

    def _count(self) -> tuple[int, int]:
        """Count the edges and the self-loops, and keep that."""
        edges = self.materialized()
        self._findings.counts = edges.num_rows, edges.num_loops
        return self._findings.counts

    @abstractmethod
    def _materialize(self) -> EdgeBatch:
        """Sort the edges and keep them."""

    def _kernels(self, module: str) -> Any:
        return self._backend.kernels("dynstore.batches", module)


class RawEdges(UnsortedBatch):
    """Unweighted edges. A plan that needs no order takes them as they are."""

    has_weights = False

    def sort_keys(self) -> Array:
        """Return all keys, sorted; int64: source in the high half, destination in the low one.

        A key is -1 if an id does not fit.
        """
        findings = self._findings
        if findings.keys is None:
            findings.keys = self._sort()
        return findings.keys

    def find_bounds(self, sorting: bool) -> tuple[int, ...]:
        packed, read_bounds = self._kernels("unique").pack_and_bound(self._backend, *self.columns, self.mirrored)
        if self._findings.keys is None:  # else nothing is left to sort
            self._findings.packed = packed
            if sorting:
                self.sort_keys()
        bounds: tuple[int, ...] = read_bounds()
        return bounds

    def _sort(self) -> Array:
        keys, self._findings.packed = self._findings.packed, None
        if keys is None:
            keys = self._kernels("unique").pack_keys(self._backend, *self.columns, self.mirrored)
        sorted_keys: Array = self._kernels("sort").sort_keys(self._backend, keys)
        return sorted_keys

    def start_counting(self) -> Array:
        """Start to count the distinct keys; return totals on the device (``cuda/unique.py``), empty if all are."""
        findings = self._findings
        if findings.keys_are_distinct:
            return self._backend.nothing(np.int64)
        if findings.counting is None:
            findings.counting = self._kernels("unique").start_keeping(self._backend, self.sort_keys())
        return findings.counting[0]

    def distinct_keys(self) -> Array:
        """Return :meth:`sort_keys`, which from then on has each key once; also counts the edges."""
        self.start_counting()
        findings = self._findings
        if findings.counting is not None:
            findings.keys, num_loops = findings.counting[1]()
            findings.counting, findings.keys_are_distinct = None, True
            self.keep_counts(int(findings.keys.shape[0]), num_loops)
        return self.sort_keys()

    def _count(self) -> tuple[int, int]:
        if self._findings.edges is None:
            self.distinct_keys()
        return self._findings.counts or super()._count()

    def renumbered(self, src: Array, dst: Array) -> RawEdges:
        twin = RawEdges(self._backend, src, dst, self.mirrored)
        twin.needs_order = self.needs_order  # most edges keep their numbers
        return twin

    def _materialize(self) -> EdgeBatch:
        return self.keep_edges(*self._kernels("unique").keep_pairs(self._backend, self.sort_keys()))


class WeightedRows(UnsortedBatch):
    """Weighted edges. An edge of several rows has the weight of the last one, or the sum of all.

    The rows of an edge and of its mirror image are the same, in the same order: their weights are equal.

    Parameters
    ----------
    row_weights : array, shape (N,), weight dtype
        They may include NaN, which counts as an id that does not fit.
    adding : bool
        Whether weights are summed, in float64.
    """

    needs_order = True
    has_weights = True

    def __init__(
        self, backend: Backend, src: Array, dst: Array, row_weights: Array, mirrored: bool, adding: bool
    ) -> None:
        super().__init__(backend, src, dst, mirrored)
        self.row_weights = row_weights
        self.adding = adding

    def sort_below(self, num_vertices: int = MAX_INT32 + 1) -> tuple[Array, Array]:
        """Return all keys, sorted, as :meth:`RawEdges.sort_keys` does, and the row of each; both int64.

        With ``mirrored``: twice the row, and one more for a mirror image. Equal keys have ascending
        rows. A key may be -1 if an id is ``num_vertices`` or more, which may be faster. Later calls for no more ids
        return the same.
        """
        findings = self._findings
        if findings.rows is None or findings.bound < min(num_vertices, MAX_INT32 + 1):
            findings.rows = None  # free them before the next are made
            keys, order, findings.bounds, findings.bound = self._kernels("weighted").sort_weighted(
                self._backend, self, num_vertices
            )
            findings.rows = keys, order
        return findings.rows

    def find_bounds(self, sorting: bool) -> tuple[int, ...]:
        if self._findings.bounds is None:
            self.sort_below()  # the sorted keys are needed in any case
        return tuple(self._backend.to_host(self._findings.bounds).tolist())

    def renumbered(self, src: Array, dst: Array) -> WeightedRows:
        return WeightedRows(self._backend, src, dst, self.row_weights, self.mirrored, self.adding)

    def _materialize(self) -> EdgeBatch:
        src, dst, weights, num_loops = self._kernels("weighted").keep_rows(self._backend, self)
        return self.keep_edges(src, dst, num_loops, weights)
