"""Updates of slab hash tables on CUDA that are written before the host knows what their plan has found."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dynstore._cuda.slab_hash_plan import FOUND, FOUND_LOOPS, STRANGE, count_tasks, fits, read_totals, start_plan
from dynstore._cuda.slab_hash_writing import write_deletion, write_insertion

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.edge_batch import EdgeBatch
    from dynstore.slabs import SlabTable

__all__ = ["delete_now", "insert_now"]


def insert_now(
    backend: Backend, table: SlabTable, batch: EdgeBatch, last_id: int, most: int, max_chain: int, reuse: bool
) -> tuple[int, int] | None:
    """Insert a batch without weights before the host knows what is found; the device decides whether that may be.

    Nobody need have looked at the batch's ids.

    Parameters
    ----------
    last_id : int
        The highest id there may be.
    most : int
        Batches of more edges are planned.

    Returns
    -------
    found, found_loops : int
        As in :class:`~dynstore.slabs.Probe`. None in place of both, and nothing is written, where that has to be
        planned: because of an id, a chain that would get too long, or slabs that are not there.
    """
    if count_tasks(batch) > most:
        return None
    tasks = start_plan(backend, table, batch, last_id, max_chain, reuse, partial(table.take_scratch, backend, "insert"))
    write_insertion(table, tasks, tasks.places, reuse, backend.nothing(table.slabs.dtype))
    totals = read_totals(backend, batch, tasks)
    return (totals[FOUND], totals[FOUND_LOOPS]) if fits(totals, table.num_slabs) else None


def delete_now(backend: Backend, table: SlabTable, batch: EdgeBatch, last_id: int) -> tuple[int, int] | None:
    """Delete those edges of a batch that are there before the host knows which; see :func:`insert_now`.

    None, and nothing is deleted, where an id is below 0 or above ``last_id``.
    """
    tasks = start_plan(backend, table, batch, last_id, 0, False, partial(table.take_scratch, backend, "delete"))
    write_deletion(table, tasks)
    totals = read_totals(backend, batch, tasks)
    return None if totals[STRANGE] else (totals[FOUND], totals[FOUND_LOOPS])
