"""The changes between two versions of a graph, from which tracked answers are updated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dynstore.batches.unsorted import UnsortedBatch

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.batches.sorted import Batch
    from dynstore.stores.base import Store
    from dynstore.stores.table.slots import SearchResult
    from dynstore.typing import Array

__all__ = ["Change", "Delta", "DeltaLog", "Unread", "merge_changes", "net_delta", "read_change"]


@dataclass(frozen=True, slots=True)
class Change:
    """A batch that was inserted or deleted, and the state of its edges before.

    Attributes
    ----------
    src, dst : array, shape (B,), vertex dtype
        Numbers of rows.
    before : array, shape (B,), bool
        Whether each edge was there.
    weights : array, shape (B,), or None
        Weights before the update, 0 for absent edges; None for an unweighted graph. In a graph with extra columns they
        are numbers of records, any for absent edges.
    inserting : bool
        Whether the edges were inserted; else they were deleted.
    sorted : bool
        Whether the edges are sorted and unique, undirected ones in both directions. Else they are as they came.
    mirrored : bool
        Whether each edge stands for its mirror image, too.
    shown : array, shape (B,), or None
        In a weighted graph with extra columns, the weights themselves, 0 for absent edges.
    """

    src: Array
    dst: Array
    before: Array
    weights: Array | None
    inserting: bool
    sorted: bool = True
    mirrored: bool = False
    shown: Array | None = None

    @property
    def num_edges(self) -> int:
        """The edges; undirected ones count in both directions."""
        return int(self.src.shape[0]) << self.mirrored

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = self.src, self.dst, self.before, self.weights
        return sum(int(array.nbytes) for array in arrays if array is not None)


@dataclass(frozen=True, slots=True)
class Unread:
    """A batch that was inserted or deleted while no log wanted to know the state of its edges before."""

    num_edges: int
    inserting: bool


@dataclass(frozen=True, slots=True)
class Delta:
    """Edges that may differ between an earlier version and the present one.

    Attributes
    ----------
    src, dst : array, shape (B,), vertex dtype
        Sorted and unique; undirected edges in both directions.
    before : array, shape (B,), bool
        Whether each edge was there in the earlier version.
    slots : array, shape (B,), int64
        Slots in the present version's out-edges; -1 for absent edges.
    weights : array, shape (B,), or None
        Weights in the earlier version, 0 for absent edges.
    may_insert, may_delete : bool
        Whether there were updates that insert, and updates that delete.
    """

    src: Array
    dst: Array
    before: Array
    slots: Array
    weights: Array | None
    may_insert: bool
    may_delete: bool

    def __len__(self) -> int:
        return int(self.src.shape[0])


class DeltaLog:
    """The changes since an answer was last updated, as long as they are few.

    Attributes
    ----------
    changes : list of Change
    num_edges : int
        The sum over all changes, also those that were not kept; undirected edges count in both directions.
    deletes : bool
        Whether edges were deleted.
    complete : bool
        Whether ``changes`` are all there were; else the answer must be computed anew.
    counted : bool
        Whether ``num_edges`` and ``deletes`` are right: not after a change of everything.
    seconds : float
        What updates have spent on looking up what they change.
    """

    keeps_numbers = False  # whether it keeps what the store has as weights; else the weights themselves

    def __init__(self) -> None:
        self.restart()

    def wants(self, num_edges: int, most: int) -> bool:
        """Whether a change of so many edges would be kept."""
        return self.complete and self.num_edges + num_edges <= most

    def add(self, change: Change | Unread | None, most: int) -> None:
        """Keep a change, or None for a change of everything; beyond ``most`` edges, drop all."""
        if change is None:
            self.counted = False
        else:
            self.num_edges += change.num_edges
            self.deletes |= not change.inserting
        if isinstance(change, Change) and self.wants(0, most):
            self.changes.append(change)
        else:
            self.changes.clear()
            self.complete = False

    def restart(self, keep: bool = True) -> None:
        """Forget all changes, as the answer is up to date; ``keep`` the next ones, or only count them."""
        self.changes: list[Change] = []
        self.num_edges, self.deletes, self.complete, self.counted, self.seconds = 0, False, keep, True, 0.0


def read_change(
    store: Store, batch: Batch, inserting: bool, located: SearchResult | None = None, kept: bool = True
) -> Change:
    """Return a batch's edges as they are in a store before the update.

    An update that is written in one step does not sort its batch, so the batch is kept as it came, and sorted when a
    result needs it. ``located``: where the store's plan has found the sorted edges; else they are looked up. ``kept``:
    whether the change outlives the update; the caller may write to its own columns later.
    """
    batch = batch.known()
    if isinstance(batch, UnsortedBatch):
        src, dst = store.backend.copies(*batch.columns) if kept else batch.columns
        return Change(src, dst, *store.look_up(src, dst), inserting, False, batch.mirrored)
    edges = batch.materialized()
    found = store.look_up(edges.src, edges.dst) if located is None else store.read_located(located)
    return Change(edges.src, edges.dst, *found, inserting)


def net_delta(backend: Backend, store: Store, changes: list[Change]) -> Delta:
    """Combine changes: each edge's state before its first change, and its state now."""
    first = merge_changes(backend, changes, store.num_vertices)
    inserting = [change.inserting for change in changes]
    slots = store.find(first.src, first.dst)
    return Delta(first.src, first.dst, first.before, slots, first.weights, any(inserting), not all(inserting))


def merge_changes(backend: Backend, changes: list[Change], num_vertices: int) -> Change:
    """Return each edge's state before its first change, sorted by edge; the changes are in order, at least one."""
    if len(changes) == 1 and changes[0].sorted:
        return changes[0]
    parts = changes
    if not all(change.mirrored for change in changes):
        parts = [part for change in changes for part in _directions(change)]
    src, dst, before = (_joined(backend, [getattr(part, name) for part in parts]) for name in ("src", "dst", "before"))
    weights = None if parts[0].weights is None else _joined(backend, [part.weights for part in parts])
    sum_states = backend.kernels("dynstore.batches", "states").sum_states
    columns = src, dst, parts[0].mirrored, before, weights
    src, dst, before, weights = sum_states(backend, *columns, num_vertices)
    return Change(src, dst, before, weights, changes[0].inserting)


def _joined(backend: Backend, arrays: list[Array]) -> Array:
    return arrays[0] if len(arrays) == 1 else backend.xp.concatenate(arrays)


def _directions(change: Change) -> list[Change]:
    """Return a change, and the one of its mirror images if it stands for both."""
    if not change.mirrored:
        return [change]
    one = replace(change, mirrored=False)
    return [one, replace(one, src=change.dst, dst=change.src)]
