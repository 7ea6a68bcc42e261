"""How a graph changes: every update is one transaction, and its edges are written here.

An update goes through these steps:

1. **Lock and read.** The graph is locked, and memory errors become ours. The update reads its rows. Where the store
   supports speculation, ids and weights are not validated yet.
2. **Make way** (:meth:`Transaction.make_way`). Pins whose version would take too much to undo copy it. From here on no
   signal interrupts (:meth:`Transaction.writing`).
3. **Attempt.** The store writes in one step, and the device decides whether it may (:meth:`Store.try_insert`).
4. **Plan**, where that is refused. A plan reads, reserves memory, and may raise.
5. **Commit** both orientations, then the ids, then end the version. A commit cannot fail.
6. **Undo**, in place of 5. An update that deletes and then inserts takes its deletions back if the insertion fails.

An error leaves the graph as it was, unless memory runs out once more while deletions are taken back. In-edges, if they
are kept, are attempted first, so the out-edges never show half an update. They can be made anew from the out-edges: if
only they are written and the rest fails, they are dropped.

Others take part. A journal is waited for before the first write (:meth:`Transaction.await_record`). Those who have to
agree are asked when nothing can fail any more (``agree`` of an exchange). Logs of tracked answers and of pins read how
the edges were before they are written, and get that as the version ends (:meth:`GraphCore.end_version`). The ids and
the window hand in commits of their own.

If memory runs out, :meth:`Transaction.retried` frees what is kept only to be faster, then moves the edges to host
memory if the graph may spill, and does the work again.

An update that has read its rows already, as numbers of vertices, enters behind step 1: see
:func:`dynstore.graph.exchanges.exchange`. Updates of few rows can have a shorter way in the same place: with valid ids,
steps 2 to 6 ask for a batch and a plan for the ids.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from dynstore.batches.make import make_batch
from dynstore.bits import list_bits
from dynstore.errors import OutOfMemoryError
from dynstore.graph.delta import Change, Unread, read_change
from dynstore.graph.memory import choose_memory, may_move
from dynstore.input.columns import EdgeColumns
from dynstore.interrupts import Uninterrupted, memory_error
from dynstore.stores.base import Reason, Refused
from dynstore.typing import UpdateReport

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.batches.sorted import Batch
    from dynstore.graph.core import GraphCore
    from dynstore.stores.base import Plan, Store
    from dynstore.typing import OnDuplicate

__all__ = ["Deletion", "Growth", "Insertion", "Plans", "StoreUpdate", "Transaction"]

_log = logging.getLogger("dynstore")
T = TypeVar("T")


class StoreUpdate(Protocol):
    """What an update does to one store."""

    inserting: ClassVar[bool]

    def attempt(self, store: Store, batch: Batch) -> Plan | Refused: ...

    def plan(self, store: Store, batch: Batch) -> Plan: ...


@dataclass(slots=True)
class Insertion:
    """Insert a batch, and have ``num_vertices`` rows afterwards."""

    num_vertices: int
    on_duplicate: OnDuplicate
    inserting: ClassVar[bool] = True

    def attempt(self, store: Store, batch: Batch) -> Plan | Refused:
        return store.try_insert(batch, self.num_vertices, self.on_duplicate)

    def plan(self, store: Store, batch: Batch) -> Plan:
        with np.errstate(over="ignore"):  # a sum of weights that does not fit is infinite
            return store.plan_insert(batch, self.num_vertices, self.on_duplicate)


@dataclass(slots=True)
class Deletion:
    """Delete the edges of a batch; ``clearing``: so that :meth:`Store.plan_restore` can take it back."""

    clearing: bool = False
    inserting: ClassVar[bool] = False

    def attempt(self, store: Store, batch: Batch) -> Plan | Refused:
        return store.try_clear(batch) if self.clearing else store.try_delete(batch)

    def plan(self, store: Store, batch: Batch) -> Plan:
        return store.plan_clearing(batch) if self.clearing else store.plan_delete(batch)


@dataclass(slots=True)
class Growth:
    """Have at least ``num_vertices`` rows."""

    num_vertices: int
    inserting: ClassVar[bool] = True

    def attempt(self, store: Store, batch: Batch) -> Plan | Refused:
        return Refused(Reason.UNSUPPORTED, batch)

    def plan(self, store: Store, batch: Batch) -> Plan:
        return store.plan_vertices(self.num_vertices)


class Plans(NamedTuple):
    """The plans of the out-edges and, if they are kept, of the in-edges; and what a log keeps of the update."""

    out: Plan
    into: Plan | None
    change: Change | Unread | None


class Transaction:
    """One update of a graph, as a ``with`` block; see the module.

    The block takes the lock of the graph by itself, before: ``with core.lock, Transaction(core, caller) as update:``. A
    signal's handler may raise in any method of Python, and a lock that is taken there might never be given back.

    Parameters
    ----------
    core : GraphCore
    caller : str
        The public method, for messages.
    """

    __slots__ = ("caller", "core")

    def __init__(self, core: GraphCore, caller: str) -> None:
        self.core, self.caller = core, caller

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, MemoryError):
            raise memory_error(self.caller, error) from error

    # ------------------------------------------------------------------ room

    def retried(self, work: Callable[[], T]) -> T:
        """Do some work; if the device's memory runs out, free caches and do it again; at last from host memory.

        The edges move there if the graph may spill. ``work`` leaves the graph as it was if it raises.
        """
        for is_first in (True, False):
            try:
                return work()
            except MemoryError as error:
                if is_first and self.core.free_caches():
                    continue  # with the error, what the work had reserved goes
                if not may_move(self.core):
                    raise
                reason = self._why_move(error)
                break
        self._move()
        _log.warning("%s: %s; the graph's edges are in host memory from now on", self.caller, reason)
        return work()

    def _why_move(self, error: MemoryError) -> str:
        """Return why the edges move to host memory; refuse it for a graph that may not spill."""
        if not self.core.spills:
            raise OutOfMemoryError(
                f'{error}; memory="host" keeps the edges in host memory, and spill=True moves them there when '
                "they do not fit"
            ) from error
        return str(error)

    def settle(self, num_entries: int, num_vertices: int) -> None:
        """Choose the memory of a graph without edges, for a first batch, if that is to be chosen."""
        core, out = self.core, self.core.out
        if core.memory_option != "auto" or out.num_edges or not may_move(core):
            return
        kinds = core.vertex_dtype, out.weight_dtype
        entries = max(num_entries, out.capacity)
        if choose_memory(core.backend, type(out), "auto", entries, num_vertices, kinds, core.directed) == "host":
            self._move()

    def _move(self) -> None:
        """Move all edges to host memory, or raise and leave them where they are. The version stays."""
        core = self.core
        moves = [store.plan_move() for store in (core.out, core.into) if store is not None]
        for move in moves:
            move()
        core.views = {}  # they show the old arrays

    # ------------------------------------------------------------------ attempt and plan

    def make_way(self, num_rows: int | None) -> None:
        """Have pins copy their version where an update of so many rows, None for all, leaves too much to undo."""
        if self.core.undo is not None:  # tested here, as nearly all graphs have no pins
            self.core.make_way(num_rows)

    def writing(self) -> Uninterrupted:
        """Return the ``with`` block in which an update is attempted, planned and committed; no signal stops it."""
        return Uninterrupted()

    @property
    def speculates(self) -> bool:
        """Whether the stores may write without a plan: only kernels of a GPU do."""
        core = self.core
        if core.backend.family != "cuda" or not core.out.supports_speculation:
            return False
        return core.into is None or core.into.supports_speculation

    def attempt(self, operation: StoreUpdate, batch: Batch) -> Plans | Refused:
        """Write each orientation in one step, the in-edges first.

        Refused, with nothing written, if the in-edges, or out-edges without in-edges, must be planned. Once in-edges
        are written, refused out-edges are planned here; if that fails, the in-edges are dropped.
        """
        core = self.core
        self.await_record()
        into: Plan | None = None
        change = core.read_change(batch, operation.inserting)  # the write leaves no trace of what was there
        if core.into is not None:
            with core.timing_in_edges():
                turned = operation.attempt(core.into, batch.transposed(core.backend))
            if isinstance(turned, Refused):
                _log.debug("in-edges are planned: %s", turned.reason.value)
                return Refused(turned.reason, batch)
            into = turned
        try:
            out = operation.attempt(core.out, batch)
            if isinstance(out, Refused):
                _log.debug("out-edges are planned: %s", out.reason.value)
                if into is None:
                    return out
                out = operation.plan(core.out, out.batch)
                batch.count_edges()  # may still fail here
        except BaseException:
            if into is not None:
                core.forget_in_edges()
            raise
        return Plans(out, into, change)

    def plan(self, operation: StoreUpdate, batch: Batch) -> Plans:
        """Plan an update of each orientation, the out-edges first: their plan may find the distinct edges."""
        core = self.core
        if core.memory_option == "auto" and isinstance(operation, Insertion):
            self.settle(batch.num_rows * (1 if core.directed else 2), operation.num_vertices)
        out = operation.plan(core.out, _taken_by(core.out, batch))
        into = None
        if core.into is not None:
            with core.timing_in_edges():
                into = operation.plan(core.into, _taken_by(core.into, batch.transposed(core.backend)))
        change = None if out.appended or not core.logs else core.read_change(batch, operation.inserting, out.located)
        return Plans(out, into, change)

    def attempt_or_plan(self, operation: StoreUpdate, batch: Batch, may_attempt: bool) -> tuple[Plans, Batch]:
        """Attempt or plan an update; nothing fails after that. Where others have to agree, it is only planned."""
        attempts = may_attempt and self.speculates
        outcome = self.attempt(operation, batch) if attempts else Refused(Reason.UNSUPPORTED, batch)
        if isinstance(outcome, Refused):
            batch = outcome.batch
            outcome = self.plan(operation, batch)
        batch.count_edges()  # may still fail here
        return outcome, batch

    def batch_of(self, columns: EdgeColumns, on_duplicate: OnDuplicate = "replace") -> Batch:
        """Return rows as the batch that stores take."""
        core = self.core
        return make_batch(
            core.backend, columns.src, columns.dst, columns.weights, core.directed, on_duplicate, columns.max_id
        )

    # ------------------------------------------------------------------ commit

    def await_record(self) -> None:
        """Wait for what has to be done before the graph is written; a graph with a journal waits for its record.

        Whatever writes the edges of an update calls it first. It may raise, so nothing may have been changed then.
        """
        if self.core.journal is not None:
            self.core.journal.await_record()

    def write(self, plans: Plans) -> None:
        """Commit the plans of both orientations, within the version."""
        self.await_record()
        plans.out.commit()
        if plans.into is not None:
            with self.core.timing_in_edges():
                plans.into.commit()

    def commit(self, plans: Plans, follow: Callable[[], None] | None = None, more: int = 0) -> None:
        """Commit an update, and end the version.

        Parameters
        ----------
        plans : Plans
        follow : callable, optional
            The commit of the ids, and of whatever else follows the edges.
        more : int
            How many edges the graph has more than before.
        """
        self.write(plans)
        if follow is not None:
            follow()
        self.core.end_version(plans.change)
        self.core.num_edges += more

    def insertion_report(self, plans: Plans, batch: Batch, num_rows: int) -> UpdateReport:
        """Return what an insertion of ``num_rows`` rows does."""
        out, num_edges = plans.out, batch.num_edges(self.core.directed)
        replaced, kept, deleted = self.found_edges(out), num_edges, 0
        if out.appended:
            kept, deleted = (part.num_edges(self.core.directed) for part in out.appended)
        inserted, absent, duplicates = kept - replaced, num_edges - kept - deleted, num_rows - num_edges
        return UpdateReport(inserted, replaced, deleted, absent, duplicates, out.grown, out.path)

    def finish_insertion(
        self, plans: Plans, batch: Batch, num_rows: int, follow: Callable[[], None] | None
    ) -> UpdateReport:
        """Commit an insertion of ``num_rows`` rows."""
        report = self.insertion_report(plans, batch, num_rows)
        self.commit(plans, follow, report.inserted - report.deleted)
        return report

    def deletion_report(self, plans: Plans, num_edges: int, duplicates: int) -> UpdateReport:
        """Return what a deletion of ``num_edges`` edges does."""
        out, deleted = plans.out, self.found_edges(plans.out)
        return UpdateReport(0, 0, deleted, num_edges - deleted, duplicates, out.grown, out.path)

    def finish_deletion(
        self, plans: Plans, num_edges: int, duplicates: int, follow: Callable[[], None] | None = None
    ) -> UpdateReport:
        """Commit a deletion of ``num_edges`` edges."""
        report = self.deletion_report(plans, num_edges, duplicates)
        self.commit(plans, follow, -report.deleted)
        return report

    def found_edges(self, plan: Plan) -> int:
        """Count the found edges, undirected pairs once: loops are stored once, all others twice."""
        return plan.found if self.core.directed else (plan.found + plan.found_loops) // 2

    # ------------------------------------------------------------------ edges with old times

    def expired(self, bound: int) -> EdgeColumns:
        """Return the edges whose last time is below a bound, as numbers in ascending order, undirected ones once."""
        core, records, slots = self.core, self.core.records, self.core.out.slots
        assert records is not None
        kernels = core.backend.kernels("dynstore.stores.pma", "recorded")
        places = list_bits(core.backend, kernels.mark_below(core.backend, slots, records.aged, bound))
        src, dst = slots.src[places], slots.dst[places]
        if not core.directed:
            once = src <= dst
            src, dst = src[once], dst[once]
        return EdgeColumns(src, dst, None, -1)

    def attempt_expiry(self, bound: int, packing: bool) -> Plans | None:
        """Delete the edges with times below a bound in both orientations without listing them; None if refused.

        No log may follow the graph, as it would want the list. ``packing``: see :meth:`Store.try_delete_below`.
        """
        core, records, into = self.core, self.core.records, None
        assert records is not None
        if not self.speculates or core.logs:
            return None
        self.await_record()
        if core.into is not None:
            with core.timing_in_edges():
                into = core.into.try_delete_below(records.aged, bound, packing)
            if into is None:
                return None
        try:
            out = core.out.try_delete_below(records.aged, bound, packing)
            if out is None:
                if into is None:
                    return None
                out = Deletion(not packing).plan(core.out, self.batch_of(self.expired(bound)))
        except BaseException:
            if into is not None:
                core.forget_in_edges()
            raise
        return Plans(out, into, None)

    # ------------------------------------------------------------------ deletions that may be taken back

    def plan_restore(self) -> Callable[[], None] | None:
        """Plan to take back deletions with ``clearing`` of this version; None if their edges must be inserted again.

        In-edges are dropped then, and made again when they are next needed.
        """
        core = self.core
        restore, num_edges = core.out.plan_restore(), core.num_edges
        if restore is None:
            return None

        def take_back() -> None:
            restore()
            core.num_edges = num_edges
            core.forget_in_edges()

        return take_back

    def expire_first(self, bound: int) -> Callable[[], None] | None:
        """Delete the edges with times below a bound, without ending the version; return what takes that back.

        None, with nothing deleted, if they must be listed.
        """
        if not self.speculates or self.core.logs:
            return None
        restore = self.plan_restore()
        plans = None if restore is None else self.attempt_expiry(bound, False)
        if plans is None:
            return None
        self.write(plans)
        self.core.num_edges -= self.found_edges(plans.out)
        return restore

    def delete_first(self, batch: Batch, clearing: bool) -> tuple[Plans, Change | None]:
        """Delete a batch in both orientations, without ending the version.

        Parameters
        ----------
        batch : Batch
        clearing : bool
            Whether it can be taken back by what :meth:`plan_restore` has returned.

        Returns
        -------
        plans : Plans
        before : Change or None
            The state of the edges before. None if all of them were there, without weights, or it is not needed.
        """
        out, attempts, before, operation = self.core.out, self.speculates, None, Deletion(clearing)
        if attempts and not clearing and self._must_read_before(batch):
            before = read_change(out, batch, False, kept=False)
        outcome = self.attempt(operation, batch) if attempts else Refused(Reason.UNSUPPORTED, batch)
        if isinstance(outcome, Refused):
            batch = outcome.batch
            outcome = self.plan(operation, batch)
            is_read = clearing or before is not None or isinstance(outcome.change, Change)
            if not is_read and (out.weight_dtype is not None or outcome.out.found < batch.count_edges()):
                before = read_change(out, batch, False, outcome.out.located, kept=False)
            batch.count_edges()  # may still fail here
        self.write(outcome)
        return outcome, outcome.change if isinstance(outcome.change, Change) else before

    def _must_read_before(self, batch: Batch) -> bool:
        """Whether the edges of a batch must be looked up before an attempt to delete them, to be able to undo it.

        That is not so if edges have no weights and the store refuses absent ones, or if a log looks them up anyway.
        """
        core = self.core
        if core.out.weight_dtype is None and core.out.refuses_absent:
            return False
        return not (core.logs and core.logs_that_want(batch.known().num_rows))

    def insert_again(self, batch: Batch, before: Change | None, deleted: int, recorded: Change | Unread | None) -> None:
        """Insert again what a deletion of this version has removed; snapshots of the version become invalid.

        Parameters
        ----------
        batch, before
            The deleted edges; see :meth:`delete_first`.
        deleted : int
            How many were there.
        recorded : Change, Unread or None
            What logs keep of the deletion.

        Raises
        ------
        OutOfMemoryError
            If there is no memory for that either. The deletion then stays, as a version of its own.
        """
        core = self.core
        for view in core.views.values():
            view.end()
        core.views = {}
        try:
            if before is not None:
                there = before.before
                weights = None if before.weights is None else before.weights[there]
                batch = self.batch_of(EdgeColumns(before.src[there], before.dst[there], weights, -1))
            plans = self.plan(Insertion(core.out.num_vertices, "replace"), batch)
        except MemoryError as error:
            core.num_edges -= deleted
            core.end_version(recorded)
            raise OutOfMemoryError(
                "update: memory ran out twice; the deletions are made, the insertions are not"
            ) from error
        self.write(plans)


def _taken_by(store: Store, batch: Batch) -> Batch:
    """Return a batch in the form that a store takes: as it is, or sorted."""
    return batch if store.takes_unsorted else batch.materialized()
