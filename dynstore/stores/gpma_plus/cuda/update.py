"""GPMA+ on CUDA: plan in a constant number of launches, shift keys into leaves, merge wider windows by rank.

Structure and update: M. Sha, Y. Li, B. He, K.-L. Tan, "Accelerating Dynamic Graph Analytics on GPUs",
PVLDB 11(1), 2017, sections 4 and 5; ``docs/design.md`` says where we differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynstore.batches.unsorted import RawEdges
from dynstore.stores.gpma_plus.cuda.insert_buckets import BucketPlan, plan_buckets, write_buckets
from dynstore.stores.gpma_plus.cuda.plan_sorted import keep_located, start_plan
from dynstore.stores.pma.cuda.rebalance import reserve_windows, write_windows
from dynstore.stores.pma.cuda.update import delete_in_place, plan_delete
from dynstore.stores.table.cuda.arguments import with_weights

if TYPE_CHECKING:
    import numpy as np

    from dynstore.backend import Backend
    from dynstore.batches.sorted import Batch
    from dynstore.stores.pma.cuda.rebalance import Writing
    from dynstore.stores.table.slots import SearchResult, SlotArrays

__all__ = ["delete_in_place", "insert_in_place", "plan_delete", "plan_insert"]


def plan_insert(
    backend: Backend, slots: SlotArrays, batch: Batch, limits: np.ndarray
) -> tuple[SearchResult, Writing | BucketPlan | None]:
    """Find the keys of a batch and choose the windows that take the absent ones.

    ``limits``: the highest density of each height, linear in it. No windows if the root would be denser. An
    unsorted batch is sorted only if ``plan_buckets`` returns None.
    """
    edges = batch.known()
    if isinstance(edges, RawEdges):
        planned = plan_buckets(backend, slots, edges, limits)
        if planned is not None:
            return planned
    plan = start_plan(backend, slots, batch, limits, None)
    totals = plan.mailbox.read(backend, plan.ticket)
    located = keep_located(plan, batch, totals)
    if batch.count_edges() - located.found > slots.room_at(limits[-1]):
        return located, None
    return located, reserve_windows(backend, slots, plan.writing, totals)


def insert_in_place(
    backend: Backend, slots: SlotArrays, batch: Batch, located: SearchResult, plan: Writing | BucketPlan, add: bool
) -> None:
    """Write an insertion into the slots."""
    if isinstance(plan, BucketPlan):
        write_buckets(slots, plan)
    else:
        edges = batch.materialized()
        columns = with_weights(edges.src, edges.dst, edges.weights)
        write_windows(slots, columns, located.positions, located.states, plan, True, add)
