"""Updates of vertices: new ones, those that lose their edges, another order of rows, none at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.batches.make import make_batch
from dynstore.batches.sorted import EdgeBatch, sort_unique
from dynstore.graph.transaction import Deletion, Growth, Plans, Transaction
from dynstore.typing import ReorderReport, UpdateReport

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.graph.core import GraphCore

__all__ = ["clear", "delete_vertices", "insert_vertices", "reorder"]


def insert_vertices(core: GraphCore, ids: Any) -> UpdateReport:
    """Add vertices without edges; see :meth:`dynstore.DynamicGraph.insert_vertices`."""
    with core.lock, Transaction(core, "insert_vertices") as update:
        renumbering = core.ids.plan_vertices(update.caller, ids, core.num_vertices)
        nothing = core.backend.empty(0, core.vertex_dtype)
        plans = update.plan(Growth(renumbering.num_vertices), EdgeBatch(nothing, nothing, None))
        with update.writing():
            update.commit(plans, renumbering.commit)
    return UpdateReport()


def delete_vertices(core: GraphCore, ids: Any) -> UpdateReport:
    """Delete all edges of vertices; see :meth:`dynstore.DynamicGraph.delete_vertices`."""
    backend, xp = core.backend, core.backend.xp
    with core.lock, Transaction(core, "delete_vertices") as update:
        numbers, forget = core.ids.plan_deletion(update.caller, ids, core.num_vertices)
        window = core.attached_window()
        if window is not None and core.ids.reuse_ids:
            forget = _both(forget, window.plan_forget(numbers))
        gone = backend.zeros(core.num_vertices, np.bool_)
        gone[numbers] = True
        slots = core.out.slots
        concerned = gone[slots.src] | gone[slots.dst] if gone.shape[0] else backend.zeros(slots.num_slots, bool)
        chosen = xp.nonzero(concerned & core.snapshot().mask())[0]
        batch = make_batch(backend, slots.src[chosen], slots.dst[chosen], None, core.directed)
        num_edges = batch.num_edges(core.directed)
        update.make_way(batch.num_rows)
        plans = update.plan(Deletion(), batch)
        with update.writing():
            return update.finish_deletion(plans, num_edges, 0, forget)


def reorder(core: GraphCore, threshold: float) -> ReorderReport:
    """Sort the rows by falling degree; see :meth:`dynstore.DynamicGraph.reorder`.

    ``threshold``: do nothing if at most this share of the edges is out of order; below 0, restore the order always.
    """
    with core.lock, Transaction(core, "reorder") as update:
        src, dst, stored = core.numbered_edges(once=False)
        bincount, num_vertices = core.backend.xp.bincount, core.num_vertices
        degrees = bincount(src, minlength=num_vertices) + bincount(dst, minlength=num_vertices)
        order = core.ids.plan_order(degrees)
        window = core.attached_window()
        if order.edge_drift <= threshold:
            return ReorderReport(order.vertex_drift, order.edge_drift, moved=0)
        columns = sort_unique(core.backend, order.ranks[src], order.ranks[dst], stored)
        batch = EdgeBatch(*columns)
        out = core.store_of(batch)
        into = None if core.into is None else core.store_of(batch.transposed(core.backend))
        follow = None if window is None else window.plan_renumber(order.ranks)
        update.make_way(None)
        with update.writing():
            core.out, core.into = out, into
            order.commit()
            if follow is not None:
                follow()
            core.end_version(None)
    return ReorderReport(order.vertex_drift, order.edge_drift, order.moved)


def clear(core: GraphCore) -> None:
    """Remove all edges and all vertices; see :meth:`dynstore.DynamicGraph.clear`."""
    with core.lock, Transaction(core, "clear") as update:
        plan, forget, window = core.out.plan_clear(), core.ids.plan_clear(), core.attached_window()
        if window is not None:
            forget = _both(forget, window.plan_clear())
        records = None if core.records is None else core.records.without_records()
        update.make_way(None)
        with update.writing():
            core.into, core.records = None, records
            update.commit(Plans(plan, None, None), forget, -core.num_edges)


def _both(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    """Return two commits as one."""

    def commit() -> None:
        first()
        second()

    return commit
