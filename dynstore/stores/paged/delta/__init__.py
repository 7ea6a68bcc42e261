"""The edges of a store of pages that are in no page: sorted runs on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.batches.sorted import EdgeBatch
from dynstore.bits import full_words, unpack_bits
from dynstore.locks import Lock
from dynstore.snapshot import GapCSR
from dynstore.stores.table.selection import Columns, select

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array, OnDuplicate

__all__ = ["PagedDelta"]

# The runs are put together if more than this share of the large one's edges was deleted.
MAX_DEAD = 1 / 8


class _Runs(NamedTuple):
    """Two runs of edges, each sorted. An edge that is there is in one of them.

    Attributes
    ----------
    large, small : columns
    valid : array of uint32 words
        A bit for each edge of the large run: whether it is there. All of the small run are.
    num_dead : int
        Edges of the large run that are not there.
    num_moved : int
        Edges that were written to the small run since the runs were put together.
    """

    large: Columns
    small: Columns
    valid: Array
    num_dead: int = 0
    num_moved: int = 0

    @property
    def num_edges(self) -> int:
        return _length(self.large) + _length(self.small) - self.num_dead

    @property
    def are_one(self) -> bool:
        return not self.num_dead and not _length(self.small)


class _Found(NamedTuple):
    """Where edges are in the runs.

    Attributes
    ----------
    slots : array, shape (B,), int64
        Places in the large run; -1 for edges that are not there.
    places : array, shape (B,), int64
        Places in the small run; for edges that are not there, those of the next larger ones. If new edges are listed,
        the places are those in the small run that has these, too.
    there : array, shape (B,), bool
        Whether an edge is in the small run.
    num_large, num_small, num_loops : int
        How many are in each run, and how many of all these are self-loops.
    """

    slots: Array
    places: Array
    there: Array
    num_large: int
    num_small: int
    num_loops: int

    def counts(self, batch: EdgeBatch) -> tuple[int, int]:
        """Return how many edges of a batch are there, and the self-loops among these if the batch counts its own."""
        return self.num_large + self.num_small, self.num_loops if batch.num_loops else 0


class PagedDelta:
    """Edges on the device, in two sorted runs. A delta keeps its edges: an update returns another one.

    An insertion merges its edges into the small run. When insertions have written as many edges to the small run as
    the large one has, both become one. So the large run is not written for each batch, and all edges are moved a few
    times only, as in a log-structured merge tree (O'Neil, Cheng, Gawlick, O'Neil, Acta Informatica 33, 1996). A
    deletion clears bits of the large run, and writes the small one anew.

    Parameters
    ----------
    backend : Backend
    vertex_dtype, weight_dtype : numpy.dtype
        No weights if None.
    """

    # Another thread that reads may put them together at any time, so each method reads this once.
    _runs: _Runs

    def __init__(self, backend: Backend, vertex_dtype: np.dtype, weight_dtype: np.dtype | None) -> None:
        self._backend, self._lock = backend, Lock()
        none = backend.nothing(vertex_dtype)
        edges = none, none, None if weight_dtype is None else backend.nothing(weight_dtype)
        self._runs = _Runs(edges, edges, full_words(backend, 0))

    def _with(self, runs: _Runs) -> PagedDelta:
        twin = object.__new__(PagedDelta)
        twin._backend, twin._runs, twin._lock = self._backend, runs, Lock()
        return twin

    @property
    def num_edges(self) -> int:
        return self._runs.num_edges

    @property
    def nbytes(self) -> int:
        """Bytes of device memory."""
        runs = self._runs
        arrays = *runs.large, *runs.small, runs.valid
        return sum(int(array.nbytes) for array in arrays if array is not None)

    # ------------------------------------------------------------------ updates

    def insert(
        self, batch: EdgeBatch, on_duplicate: OnDuplicate, elsewhere: Array | None = None
    ) -> tuple[PagedDelta, int, int]:
        """Return a delta that has the edges of a batch, too; how many it had before; self-loops among these.

        Parameters
        ----------
        batch : EdgeBatch
        on_duplicate : {"replace", "add"}
            Whether the weight of an edge that is there becomes the new one, or the sum.
        elsewhere : array, shape (B,), int64, optional
            The delta does not get the edges with numbers of at least 0; it has none of them.
        """
        if not len(batch):
            return self, 0, 0
        runs, weights = self._runs, batch.weights
        found, (src, dst, places, rows) = _search_new(self._backend, runs, batch, elsewhere)
        if weights is None and not len(src):  # all are there
            return self, *found.counts(batch)
        valid, num_dead, adding = runs.valid, runs.num_dead, on_duplicate == "add"
        if weights is not None and found.num_large:  # these edges move to the small run, with their new weights
            valid, num_dead = self._cleared(valid, found), num_dead + found.num_large
            if adding:
                weights = weights + self._weights_in(runs.large, found.slots, found.slots >= 0)
        small = self._merged(runs.small, (src, dst, None if weights is None else weights[rows]), places)
        if weights is not None and found.num_small:
            stored, changed, values = small[2], found.places[found.there], weights[found.there]
            assert stored is not None
            stored[changed] = values + stored[changed] if adding else values
        after = _Runs(runs.large, small, valid, num_dead, runs.num_moved + _length(small))
        return self._with(self._balanced(after)), *found.counts(batch)

    def delete(self, batch: EdgeBatch) -> tuple[PagedDelta, int, int]:
        """Return a delta without the edges of a batch; how many of them it had; self-loops among these."""
        if not len(batch):
            return self, 0, 0
        runs = self._runs
        found, valid, small = _search(self._backend, runs, batch.src, batch.dst), runs.valid, runs.small
        if found.num_large:
            valid = self._cleared(valid, found)
        if found.num_small:
            kept = self._backend.empty(_length(small), np.bool_)
            kept.fill(True)
            kept[found.places[found.there]] = False
            small = select(self._backend, small, kept)
        after = _Runs(runs.large, small, valid, runs.num_dead + found.num_large, runs.num_moved)
        return self._with(self._balanced(after)), *found.counts(batch)

    def _balanced(self, runs: _Runs) -> _Runs:
        size = _length(runs.large)
        return self._together(runs) if runs.num_moved >= size or runs.num_dead > MAX_DEAD * size else runs

    def settle(self) -> PagedDelta:
        """Make one run of both, and return the delta, whose edges stay the same.

        Several threads may call this at once: one of them makes the run.
        """
        if not self._runs.are_one:
            with self._lock:
                runs = self._runs
                if not runs.are_one:
                    self._runs = self._together(runs)
        return self

    def _together(self, runs: _Runs) -> _Runs:
        """Return all edges as a large run."""
        backend, large, small = self._backend, runs.large, runs.small
        if runs.num_dead:
            large = select(backend, large, unpack_bits(backend, runs.valid, _length(large)))
        large = self._joined(large, small)
        return _Runs(large, _part(large, slice(0)), full_words(backend, _length(large)))

    def _joined(self, large: Columns, small: Columns) -> Columns:
        """Return the edges of two runs, in order; they are the arrays of one of them if the other has no edges."""
        if not _length(large) or not _length(small):
            return large if _length(large) else small
        beside = _Runs(_part(large, slice(0)), large, self._backend.nothing(np.uint32))
        return self._merged(large, small, _search(self._backend, beside, *small[:2]).places)

    def _merged(self, old: Columns, added: Columns, places: Array) -> Columns:
        size = _length(old) + _length(added)
        src, dst, weights = old
        empty = self._backend.empty
        out = empty(size, src.dtype), empty(size, dst.dtype), None if weights is None else empty(size, weights.dtype)
        self._backend.kernels("dynstore.stores.table", "merging").merge_in(self._backend, old, added, places, out)
        return out

    def _cleared(self, valid: Array, found: _Found) -> Array:
        """Return the bits of the large run without those of found edges."""
        valid = valid.copy()
        slots = found.slots[found.slots >= 0]
        self._backend.kernels("dynstore.stores.paged").write_bits(valid, slots, False)
        return valid

    # ------------------------------------------------------------------ reading

    def _weights_in(self, run: Columns, places: Array, there: Array) -> Array:
        """Return the weights at some places of a run that are there, and 0 for others."""
        xp, stored = self._backend.xp, run[2]
        assert stored is not None
        if not stored.shape[0]:
            return self._backend.zeros(places.shape[0], stored.dtype)
        return xp.where(there, stored[xp.where(there, places, 0)], stored.dtype.type(0))

    def look_up(self, src: Array, dst: Array) -> tuple[Array, Array | None]:
        """Return which edges are there, bool, shape (B,), and their weights, 0 for others; None if unweighted."""
        runs = self._runs
        found = _search(self._backend, runs, src, dst)
        in_large = found.slots >= 0
        there = found.there | in_large
        if runs.large[2] is None:
            return there, None
        weights = self._weights_in(runs.large, found.slots, in_large)
        return there, weights + self._weights_in(runs.small, found.places, found.there)

    def read_rows(self, low: int, high: int) -> Columns:
        """Return the edges of the rows from ``low`` to below ``high``, sorted, in new arrays or in views."""
        backend, xp, runs = self._backend, self._backend.xp, self._runs
        ends = backend.asarray(np.array([low, high], runs.large[0].dtype))
        bounds = [xp.searchsorted(run[0], ends) for run in (runs.large, runs.small)]
        first, end, small_first, small_end = backend.to_host(xp.concatenate(bounds)).tolist()
        large, small = _part(runs.large, slice(first, end)), _part(runs.small, slice(small_first, small_end))
        if runs.num_dead:
            begin = first & ~31
            held = unpack_bits(backend, runs.valid[begin >> 5 : -(-end // 32)], end - begin)[first - begin :]
            large = select(backend, large, held)
        return self._joined(large, small)

    @property
    def columns(self) -> Columns:
        """All edges, sorted. They become one run for this."""
        return self.settle()._runs.large

    def rows(self, num_vertices: int) -> GapCSR:
        """Return all edges as rows without gaps. They become one run for this."""
        backend, runs = self._backend, self.settle()._runs
        src, dst, weights = runs.large
        offsets = backend.empty(num_vertices + 1, src.dtype)
        kernels = backend.kernels("dynstore.stores.table", "merging")
        kernels.shift_offsets(backend.nothing(src.dtype), src, 1, offsets)
        return GapCSR(backend, offsets, src, dst, runs.valid, weights, runs.num_edges)


def _search(backend: Backend, runs: _Runs, src: Array, dst: Array) -> _Found:
    """Find edges in any order; they may be no vertices."""
    count, none, no_list = int(src.shape[0]), backend.nothing(np.int64), backend.nothing(src.dtype)
    found = tuple(backend.empty_arena((count, np.int64), (count, np.int64), (count, np.bool_)))
    listed, elsewhere = (no_list, no_list, none, none), none
    *counts, _ = _kernels(backend).search_runs(backend, _arrays(runs), (src, dst), found, listed, elsewhere, False)
    return _Found(*found, *counts)


def _search_new(
    backend: Backend, runs: _Runs, batch: EdgeBatch, elsewhere: Array | None
) -> tuple[_Found, tuple[Array, ...]]:
    """Find a batch, and list its new edges: those that have to come to the small run.

    Returns
    -------
    found : _Found
        The places are those that edges have once the new ones were merged into the small run.
    new : tuple of array, shape (N,)
        Sources, destinations, places in the present small run, and, with weights, places in the batch.
    """
    count, weighted, dtype = len(batch), batch.weights is not None, batch.src.dtype
    slots, places, new_places, rows, src, dst, there = backend.empty_arena(
        *((count, np.int64),) * 3, (count if weighted else 0, np.int64), *((count, dtype),) * 2, (count, np.bool_)
    )
    elsewhere = backend.nothing(np.int64) if elsewhere is None else elsewhere
    found, listed, edges = (slots, places, there), (src, dst, new_places, rows), (batch.src, batch.dst)
    *counts, num_new = _kernels(backend).search_runs(backend, _arrays(runs), edges, found, listed, elsewhere, weighted)
    return _Found(*found, *counts), tuple(column[:num_new] for column in listed)


def _kernels(backend: Backend) -> Any:
    return backend.kernels("dynstore.stores.paged.delta")


def _arrays(runs: _Runs) -> tuple[Array, ...]:
    return (*runs.large[:2], runs.valid, *runs.small[:2])


def _length(columns: Columns) -> int:
    return int(columns[0].shape[0])


def _part(columns: Columns, part: slice | Array) -> Columns:
    src, dst, weights = columns
    return src[part], dst[part], None if weights is None else weights[part]
