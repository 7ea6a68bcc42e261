"""A graph's edges by source and, once somebody has asked for in-edges, by destination as well.

The in-edges can be made anew from the out-edges at any time; so where an update that has written them fails, they are
forgotten, and the graph is as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from dynstore.batches.batch import EdgeBatch
from dynstore.interrupts import MemoryChecked
from dynstore.queries import Queries

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.stores.base import Plan, Store

__all__ = ["Orientations", "Plans"]

# Of the out-edges, and of the in-edges where these are kept.
Plans: TypeAlias = "tuple[Plan, Plan | None]"


class Orientations(Queries):
    """The part of :class:`dynstore.DynamicGraph` that keeps both orientations alike."""

    _store_options: dict[str, Any]

    def _in_store(self) -> Store:
        if self._in is None:
            with MemoryChecked("the in-edge orientation"):
                out = self.snapshot().compact()
                batch = EdgeBatch(out.sources, out.indices, out.weights).transposed(self.backend)
                store = self._store_of(batch)
            self._in = store
        return self._in

    def _store_of(self, batch: EdgeBatch) -> Store:
        """Make a store of the graph's own kind that holds exactly these edges."""
        store = type(self._out)(
            self.backend, self.vertex_dtype, self._out.weight_dtype, self._out.capacity, self._store_options
        )
        store.plan_insert(batch, self.number_of_vertices(), "replace").commit()
        return store

    def _plan(self, batch: EdgeBatch, plan: Callable[[Store, EdgeBatch], Plan]) -> Plans:
        """Plan an update of each orientation, the out-edges first: that may tell which edges the batch has."""
        out = plan(self._out, batch)
        return out, None if self._in is None else plan(self._in, batch.transposed(self.backend))

    def _write_now(
        self,
        batch: EdgeBatch,
        write: Callable[[Store, EdgeBatch], Plan | None],
        plan: Callable[[Store, EdgeBatch], Plan],
    ) -> Plans | None:
        """Update each orientation in one step by ``write``, the in-edges first.

        None, and nothing is written, where these, or out-edges by themselves, have to be planned. Once in-edges are
        written, out-edges that have to be planned are so by ``plan``; where that fails, the in-edges are forgotten.
        """
        if self._in is None:
            out = write(self._out, batch)
            return None if out is None else (out, None)
        mirror = write(self._in, batch.transposed(self.backend))
        if mirror is None:
            return None
        try:
            out = write(self._out, batch)
            if out is None:
                out = plan(self._out, batch)
                batch.count_edges()  # here it may yet fail
        except BaseException:
            self._forget_in_edges()
            raise
        return out, mirror

    def _forget_in_edges(self) -> None:
        """Keep the in-edges no longer; what shows them can no longer be read."""
        self._in = None
        view = self._views.pop(True, None)
        if view is not None:
            view.end()
