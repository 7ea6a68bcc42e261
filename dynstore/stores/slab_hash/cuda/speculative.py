"""Speculative updates of slab hash tables on CUDA, one kernel each: the host's side."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dynstore.batches.unsorted import RawEdges
from dynstore.cuda.launch import Packed
from dynstore.cuda.mailbox import Mailbox
from dynstore.stores.base import Reason
from dynstore.stores.slab_hash.cuda.fused import (
    CONTROL_WORDS,
    REFUSED,
    REPEATED,
    REPEATED_LOOPS,
    k_delete_batch,
    k_insert_batch,
)
from dynstore.stores.slab_hash.cuda.plan import FOUND, FOUND_LOOPS, KEYS, LOOPS, read_edges
from dynstore.stores.table.cuda.arguments import with_room
from dynstore.typing import MAX_INT32

if TYPE_CHECKING:
    from dynstore.backend import Backend, Part
    from dynstore.batches.sorted import Batch
    from dynstore.stores.slab_hash.slabs import SlabTable
    from dynstore.typing import Array

__all__ = ["try_delete", "try_insert"]

# The highest id for which edges can be claimed: two ids make one word. Tasks are numbered by int32.
MAX_ID, MAX_TASKS = MAX_INT32 - 1, 1 << 30


class _UpdateScratch:
    """The scratch of an update, packed for its kernel: ``arrays`` in the kernel's order, then controls and mailbox.

    There are two controls: the kernel that uses one clears the other for the next update.
    """

    def __init__(self, backend: Backend, *arrays: Array) -> None:
        self.mailbox = Mailbox(backend)
        controls = [backend.zeros(CONTROL_WORDS, np.int64) for _ in range(2)]
        self._next, self._later = (
            Packed(*arrays, *pair, self.mailbox.words) for pair in (controls, reversed(controls))
        )

    @property
    def packed(self) -> Packed:
        """The arguments of the next kernel."""
        return self._next

    def turn_over(self) -> None:
        """Switch to the other control, once the kernel is launched."""
        self._next, self._later = self._later, self._next


def _pack_table(table: SlabTable) -> Packed:
    """Return the arrays of a table, packed once."""
    if table.packed is None:
        table.packed = Packed(table.slabs, table.heads, table.dirty, table.unused, table.state)
    packed: Packed = table.packed
    return packed


@lru_cache
def _scratch_parts(kind: str, room: int, repeats: bool) -> tuple[Part, ...]:
    """Return the parts of the scratch for ``room`` edges: the table of claims, the places, and lists."""
    num_claims = 1 << (2 * room - 1).bit_length() if repeats else 1
    claims_and_places = (num_claims, np.int64), (room, np.int64)
    if kind == "insert":
        return *claims_and_places, ((2, room), np.int32), (room, np.int64)
    return *claims_and_places, (room, np.int64)


def _read_totals(backend: Backend, batch: Batch, scratch: _UpdateScratch, ticket: int) -> list[int] | None:
    """Wait for the counts, with each edge counted once; a raw batch keeps them. None if all was rolled back."""
    totals = scratch.mailbox.read(backend, ticket)
    if totals[REFUSED]:
        return None
    totals[KEYS] -= totals[REPEATED]
    totals[LOOPS] -= totals[REPEATED_LOOPS]
    raw = batch.known()
    if isinstance(raw, RawEdges):
        raw.keep_counts(totals[KEYS], totals[LOOPS])
    return totals


def try_insert(
    backend: Backend, table: SlabTable, batch: Batch, last_id: int, most: int, max_chain: int, reuse: bool
) -> tuple[int, int] | Reason:
    """Insert an unweighted batch speculatively; the device decides whether it stays. Ids need not be validated.

    Parameters
    ----------
    last_id : int
        The highest valid id.
    most : int
        Larger batches are planned.

    Returns
    -------
    found, found_loops : int
        As in :class:`~dynstore.stores.slab_hash.slabs.Probe`. Or a reason, with the table unchanged, if the batch must
        be planned.
    """
    src, dst, count, repeats, counts_loops = read_edges(batch)
    if count > min(most, MAX_TASKS):
        return Reason.TOO_LARGE
    room = with_room(count)
    scratch = table.acquire_scratch(backend, "insert", _UpdateScratch, _scratch_parts("insert", room, repeats))
    ticket = scratch.mailbox.next_ticket()
    k_insert_batch.launch_resident(
        max(count, 1), _pack_table(table), table.words, table.keys, reuse, max_chain, src, dst, count,
        min(last_id, MAX_ID), repeats, counts_loops, ticket, scratch.packed,
    )  # fmt: skip
    scratch.turn_over()
    totals = _read_totals(backend, batch, scratch, ticket)
    if totals is None:
        return Reason.INVALID
    return totals[FOUND] - totals[REPEATED], totals[FOUND_LOOPS] - totals[REPEATED_LOOPS]


def try_delete(backend: Backend, table: SlabTable, batch: Batch, last_id: int) -> tuple[int, int] | Reason:
    """Delete the present edges of a batch speculatively; see :func:`try_insert`.

    Returns a reason, with nothing deleted, if an id is below 0 or above ``last_id``.
    """
    src, dst, count, repeats, counts_loops = read_edges(batch)
    if count > MAX_TASKS:
        return Reason.TOO_LARGE
    room = with_room(count)
    scratch = table.acquire_scratch(backend, "delete", _UpdateScratch, _scratch_parts("delete", room, repeats))
    ticket = scratch.mailbox.next_ticket()
    k_delete_batch.launch_resident(
        max(count, 1), _pack_table(table), table.words, table.keys, src, dst, count, min(last_id, MAX_ID), repeats,
        counts_loops, ticket, scratch.packed,
    )  # fmt: skip
    scratch.turn_over()
    totals = _read_totals(backend, batch, scratch, ticket)
    return Reason.INVALID if totals is None else (totals[FOUND], totals[FOUND_LOOPS])
