"""A graph's edges by source and, once a call has needed in-edges, also by destination."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from dynstore.batches.sorted import EdgeBatch
from dynstore.batches.turning import transpose_pieces
from dynstore.graph.neighborhoods import Neighborhoods
from dynstore.interrupts import MemoryChecked

if TYPE_CHECKING:
    from dynstore.stores.base import Store

__all__ = ["Orientations"]

T = TypeVar("T")


class Orientations(Neighborhoods):
    """The part of :class:`dynstore.DynamicGraph` that keeps both orientations."""

    _store_options: dict[str, Any]
    in_seconds = 0.0  # what updates have spent on in-edges

    @property
    def has_in_edges(self) -> bool:
        """Whether in-edges are kept."""
        return self._in is not None

    def drop_in_edges(self) -> bool:
        """Drop the in-edges, unless there is a snapshot of them; return whether they are gone."""
        with self._out.lock:
            if True not in self._views:
                self._in = None
            return self._in is None

    @contextmanager
    def _timing_in_edges(self) -> Iterator[None]:
        begun = perf_counter()
        yield
        self.in_seconds += perf_counter() - begun

    def _with_caches_freed(self, work: Callable[[], T]) -> T:
        """Do some work; if memory runs out, free what stores keep only to be faster, and do the work again.

        ``work`` leaves the graph as it was if it raises.
        """
        try:
            return work()
        except MemoryError:
            stores = [store for store in (self._out, self._in) if store is not None]
            freed = [store.free_cache() for store in stores]
            if not any(freed):
                raise
        # The error is gone, and with it what the work had reserved.
        return work()

    def _in_store(self) -> Store:
        store = self._in
        if store is None:
            with self._out.lock:
                store = self._in
                if store is None:
                    store = self._in = self._with_caches_freed(self._make_in_store)
        return store

    def _make_in_store(self) -> Store:
        with MemoryChecked("the in-edge orientation"):
            out, num_vertices = self._out, self.number_of_vertices()
            if out.memory == "device":
                batch = EdgeBatch(*self._numbered_edges(once=False)).transposed(self.backend)
            else:
                kinds = self.vertex_dtype, out.weight_dtype
                batch = transpose_pieces(self.backend, out.edge_pieces, num_vertices, *kinds)
            return self._store_of(batch)

    def _store_of(self, batch: EdgeBatch) -> Store:
        """Make a store of the graph's own kind, in the same memory, that holds exactly these edges."""
        out = self._out
        kinds = self.vertex_dtype, out.weight_dtype
        store = type(out)(self.backend, *kinds, out.capacity, self._store_options, out.memory)
        store.plan_insert(batch, self.number_of_vertices(), "replace").commit()
        return store

    def _forget_in_edges(self) -> None:
        """Drop the in-edges; snapshots of them become invalid."""
        self._in = None
        view = self._views.pop(True, None)
        if view is not None:
            view.end()
