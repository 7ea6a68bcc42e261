"""Finding which edges of an unsorted batch are in a packed memory array on CUDA, and deleting them speculatively."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from dynstore.batches.sorted import EdgeBatch
from dynstore.batches.unsorted import RawEdges
from dynstore.bits import unpack_bits
from dynstore.cuda.compiler import THREADS, prepare
from dynstore.cuda.grid import CONTROL_SIZE
from dynstore.cuda.launch import Packed
from dynstore.cuda.mailbox import Mailbox
from dynstore.stores.pma.cuda.delete_rows import FOUND, FOUND_LOOPS, MISSING, SPARSE, k_find_present
from dynstore.stores.pma.cuda.delete_tiles import k_find_pieces, k_mark_found
from dynstore.stores.pma.cuda.partition import order_batch, rows_of
from dynstore.stores.pma.cuda.redistribute import k_clear_located
from dynstore.stores.pma.cuda.tiles import count_tiles, fits_tiles
from dynstore.stores.table.cuda.arguments import pack_slots, with_room
from dynstore.stores.table.cuda.search import SEARCHERS, locate_edges
from dynstore.stores.table.slots import PRESENT, SearchResult

if TYPE_CHECKING:
    from dynstore.backend import Backend, Part
    from dynstore.batches.sorted import Batch
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["FoundKeys", "delete_present", "find_present", "lowest_count"]


def lowest_count(limits: np.ndarray) -> float:
    """Return the fewest edges that a deletion may leave a leaf with; an array of one leaf has no such limit."""
    return float(limits[0]) * 32 if len(limits) > 1 else 0.0


class _SearchScratch:
    """The scratch of a search, and its arguments for kernels.

    ``may_mark``: whether the kernel has been prepared that undoes what tiles have deleted.
    """

    may_mark = False

    def __init__(self, backend: Backend, control: Array, marks: Array, positions: Array, states: Array) -> None:
        self.marks, self.positions, self.states, self.mailbox = marks, positions, states, Mailbox(backend)
        words = self.mailbox.words
        self.packed = Packed(marks, positions, states, control, words)
        self.by_tiles = Packed(positions, states, control, words)


@lru_cache
def _scratch_parts(num_leaves: int, size: int) -> tuple[Part, ...]:
    """Return the scratch of a search of ``size`` rows."""
    return (CONTROL_SIZE, np.int64), (num_leaves, np.uint32), (size, np.int32), (size, np.uint8)


@dataclass(slots=True)
class FoundKeys:
    """What a search counted, and the scratch with the place of each row's edge.

    ``found``, ``found_loops``: as in :class:`~dynstore.stores.table.slots.SearchResult`; ``misses``: whether the edge
    of some row is not present; ``is_sparse``: whether some leaf would be left too empty.
    """

    scratch: _SearchScratch
    num_rows: int
    found: int
    found_loops: int
    misses: bool
    is_sparse: bool

    def located(self) -> SearchResult:
        """Return where each row's edge is."""
        scratch, num_rows = self.scratch, self.num_rows
        return SearchResult(scratch.positions[:num_rows], scratch.states[:num_rows], self.found, self.found_loops)

    def present(self) -> tuple[SearchResult, bool, Array]:
        """Return what :func:`find_present` does."""
        return self.located(), self.is_sparse, self.scratch.marks


def _find(
    backend: Backend,
    slots: SlotArrays,
    batch: Batch,
    bound: float,
    most: int,
    kind: str | None,
) -> FoundKeys:
    """Search with scratch of this kind, and delete what is found unless ``most`` is negative. Return the counts."""
    raw = batch if isinstance(batch, RawEdges) else None
    edges: RawEdges | EdgeBatch = batch.materialized() if raw is None else raw
    num_rows = edges.num_rows
    ordered = None if raw is None else order_batch(backend, slots, raw)  # goes on while scratch is acquired
    size = num_rows if kind is None else with_room(num_rows)
    scratch = slots.acquire_scratch(backend, kind, _SearchScratch, _scratch_parts(slots.num_slots >> 5, size), 2)
    ticket = scratch.mailbox.next_ticket()
    packed, mark = pack_slots(slots), None
    if ordered is not None and fits_tiles(slots, num_rows, False):
        deletes, num_tiles = most >= 0, count_tiles(slots)
        mark = partial(_mark_found, slots, scratch, num_rows, deletes)
        if not scratch.may_mark:
            prepare(mark)
            scratch.may_mark = True
        k_find_pieces.launch_resident(
            num_tiles * THREADS, packed.searched, ordered.shift, num_tiles, bound, deletes, ticket, ordered.searched,
            scratch.by_tiles,
        )  # fmt: skip
    else:
        src, dst, mirrored = (edges.src, edges.dst, False) if isinstance(edges, EdgeBatch) else rows_of(edges, ordered)
        num_threads = SEARCHERS * num_rows if num_rows <= slots.tuning.shared_search_rows else num_rows
        k_find_present.launch_resident(
            max(num_threads, 1),  # totals are posted in any case
            packed.located, src, dst, mirrored, bound, most, ticket, scratch.packed,
        )  # fmt: skip
    totals = scratch.mailbox.read(backend, ticket)
    if raw is not None and not totals[MISSING]:
        raw.keep_counts(totals[FOUND], totals[FOUND_LOOPS])
    if mark is not None and (totals[MISSING] or totals[SPARSE] or totals[FOUND] > most):
        mark()
    return FoundKeys(scratch, num_rows, totals[FOUND], totals[FOUND_LOOPS], totals[MISSING] != 0, totals[SPARSE] != 0)


def _mark_found(slots: SlotArrays, scratch: _SearchScratch, num_rows: int, were_deleted: bool) -> None:
    """Mark what tiles have found, and set the bits that they cleared."""
    k_mark_found.launch(num_rows, slots.valid, scratch.marks, scratch.positions, scratch.states, num_rows, were_deleted)


def find_present(backend: Backend, slots: SlotArrays, batch: Batch, bound: float) -> tuple[SearchResult, bool, Array]:
    """Find the present edges of a batch; an unsorted batch keeps the counts if all its edges are present.

    Parameters
    ----------
    bound : float
        The fewest edges that a leaf may be left with.

    Returns
    -------
    located : SearchResult
        For all rows of the batch, in the order of the search; one of equal rows is PRESENT.
    is_sparse : bool
        Whether some leaf would be left with fewer than ``bound``.
    marks : array of uint32 words
        The slots of the present edges.
    """
    if batch.search is not None:
        found: tuple[SearchResult, bool, Array] = batch.search
        return found
    if max(slots.num_slots, slots.num_vertices) > slots.tuning.max_numbered:
        return _find_among_many(backend, slots, batch.materialized(), bound)
    return _find(backend, slots, batch, bound, -1, None).present()


def _find_among_many(
    backend: Backend, slots: SlotArrays, batch: EdgeBatch, bound: float
) -> tuple[SearchResult, bool, Array]:
    """Do as :func:`find_present` for a sorted batch, whatever the number of slots and vertices."""
    positions, states = locate_edges(backend, slots, batch.src, batch.dst)
    there = states == PRESENT
    valid = slots.valid[: slots.num_slots >> 5]
    left = backend.empty(valid.shape, np.uint32)
    left[:] = valid
    k_clear_located.launch(len(batch), left, positions, states)
    words = left[positions[there] >> 5]
    counts = unpack_bits(backend, words, 32 * int(words.shape[0])).reshape(-1, 32).sum(axis=1)
    loops = int((there & (batch.src == batch.dst)).sum())
    return SearchResult(positions, states, int(there.sum()), loops), bool((counts < bound).any()), valid ^ left


def delete_present(backend: Backend, slots: SlotArrays, batch: Batch, bound: float, most: int) -> FoundKeys | None:
    """Delete a batch whose edges are all present, if no leaf has to be compacted; the device decides.

    The batch's ids need not be validated. (If edges were missing, distinct ones would have to be counted by a sort,
    which may fail.)

    Parameters
    ----------
    bound : float
        As in :func:`find_present`.
    most : int
        If more edges are present, nothing is deleted.

    Returns
    -------
    found : Found
        In scratch, kind "deletion". Nothing is deleted if more than ``most`` are found or a leaf is left too empty.
        None, with nothing deleted, if an edge is not present.
    """
    found = _find(backend, slots, batch, bound, most, "deletion")
    if found.misses:
        return None
    if not found.is_sparse and found.found <= most:
        slots.scratch.leave_clear("deletion")
    return found
