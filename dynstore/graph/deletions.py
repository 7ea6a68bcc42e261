"""Deletions that are a part of an update: of edges with old times, and those that may be taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from dynstore.bits import list_bits
from dynstore.errors import InputError, OutOfMemoryError
from dynstore.graph.delta import Change, Unread, read_change
from dynstore.graph.updates import Deletion, Insertion, Plans, Updates
from dynstore.input.columns import EdgeColumns
from dynstore.input.times import is_dated, read_time
from dynstore.interrupts import Uninterrupted
from dynstore.stores.base import Reason, Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.batches.sorted import Batch
    from dynstore.ids.base import IdPlan
    from dynstore.typing import UpdateReport

__all__ = ["Deletions", "Follow"]

# Plans what else an update does, and returns its commit.
Follow: TypeAlias = "Callable[[IdPlan], Callable[[], None]]"


class Deletions(Updates):
    """The part of :class:`dynstore.DynamicGraph` that deletes edges with old times, and takes deletions back."""

    def _read_bound(self, caller: str, name: str, value: Any) -> int:
        if self.timestamps is None:
            raise InputError(f"{caller}: the graph keeps no times; make it with timestamps='int64'")
        bound = read_time(caller, name, value)
        assert self._records is not None
        self._records.check_time(caller, name, bound, is_dated(value))
        return bound

    def _expired(self, bound: int) -> EdgeColumns:
        """Return the edges whose last time is below a bound, as numbers in ascending order, undirected ones once."""
        records, slots = self._records, self._out.slots
        assert records is not None
        kernels = self.backend.kernels("dynstore.stores.pma", "recorded")
        places = list_bits(self.backend, kernels.mark_below(self.backend, slots, records.aged, bound))
        src, dst = slots.src[places], slots.dst[places]
        if not self._directed:
            once = src <= dst
            src, dst = src[once], dst[once]
        return EdgeColumns(src, dst, None, -1)

    def _raising(self, bound: int) -> Follow:
        """Return what else an update does that leaves no edge with a time below a bound."""
        records = self._records
        assert records is not None
        return lambda _: records.plan_raise(bound)

    def _try_expire(self, bound: int) -> UpdateReport | None:
        """Delete the edges with times below a bound without listing them; None if that is refused."""
        assert self._records is not None
        commit = self._records.plan_raise(bound)
        with Uninterrupted():
            plans = self._attempt_expiry(bound, True)
            if plans is None:
                return None
            report = self._finish_deletion(plans, 0, 0, commit)
        return report._replace(deleted=0, absent=0, expired=report.deleted)

    def _attempt_expiry(self, bound: int, packing: bool) -> Plans | None:
        """Delete the edges with times below a bound in both orientations without listing them; None if refused.

        No log may follow the graph, as it would want the list. ``packing``: see :meth:`Store.try_delete_below`.
        """
        records, into = self._records, None
        assert records is not None
        if not self._supports_speculation or self._logs:
            return None
        self._await_record()
        if self._in is not None:
            with self._timing_in_edges():
                into = self._in.try_delete_below(records.aged, bound, packing)
            if into is None:
                return None
        try:
            out = self._out.try_delete_below(records.aged, bound, packing)
            if out is None:
                if into is None:
                    return None
                out = Deletion(not packing).plan(self._out, self._batch(self._expired(bound), "replace"))
        except BaseException:
            if into is not None:
                self._forget_in_edges()
            raise
        return Plans(out, into, None)

    # ------------------------------------------------------------------ deletions that may be taken back

    def _plan_restore(self) -> Callable[[], None] | None:
        """Plan to take back deletions with ``clearing`` of this version; None if their edges must be inserted again.

        In-edges are dropped then, and made again when they are next needed.
        """
        restore, num_edges = self._out.plan_restore(), self._num_edges
        if restore is None:
            return None

        def take_back() -> None:
            restore()
            self._num_edges = num_edges
            self._forget_in_edges()

        return take_back

    def _expire_first(self, bound: int) -> Callable[[], None] | None:
        """Delete the edges with times below a bound, without ending the version; return what takes that back.

        None, with nothing deleted, if they must be listed.
        """
        if not self._supports_speculation or self._logs:
            return None
        restore = self._plan_restore()
        plans = None if restore is None else self._attempt_expiry(bound, False)
        if plans is None:
            return None
        self._write(plans)
        self._num_edges -= self._found_edges(plans.out)
        return restore

    def _commit_deletion(self, batch: Batch, clearing: bool) -> tuple[Plans, Change | None]:
        """Delete a batch in both orientations, without ending the version.

        Parameters
        ----------
        batch : Batch
        clearing : bool
            Whether it can be taken back by what :meth:`_plan_restore` has returned.

        Returns
        -------
        plans : Plans
        before : Change or None
            The state of the edges before. None if all of them were there, without weights, or it is not needed.
        """
        attempts, before, operation = self._supports_speculation, None, Deletion(clearing)
        if attempts and not clearing and self._must_read_before(batch):
            before = read_change(self._out, batch, False, kept=False)
        outcome = self._attempt(operation, batch) if attempts else Refused(Reason.UNSUPPORTED, batch)
        if isinstance(outcome, Refused):
            batch = outcome.batch
            outcome = self._plan(operation, batch)
            is_read = clearing or before is not None or isinstance(outcome.change, Change)
            if not is_read and (self._out.weight_dtype is not None or outcome.out.found < batch.count_edges()):
                before = read_change(self._out, batch, False, outcome.out.located, kept=False)
            batch.count_edges()  # may still fail here
        self._write(outcome)
        return outcome, outcome.change if isinstance(outcome.change, Change) else before

    def _must_read_before(self, batch: Batch) -> bool:
        """Whether an attempt to delete a batch leaves no trace of what was there, and no log looks that up."""
        if self._out.weight_dtype is None and self._out.refuses_absent:
            return False
        return not (self._logs and self._logs_that_want(batch.known().num_rows))

    def _take_back(self, batch: Batch, before: Change | None, deleted: int, recorded: Change | Unread | None) -> None:
        """Insert again what a deletion of this version has removed; snapshots of the version become invalid.

        Parameters
        ----------
        batch, before
            The deleted edges; see :meth:`_commit_deletion`.
        deleted : int
            How many were there.
        recorded : Change, Unread or None
            What logs keep of the deletion.

        Raises
        ------
        OutOfMemoryError
            If there is no memory for that either. The deletion then stays, as a version of its own.
        """
        for view in self._views.values():
            view.end()
        self._views = {}
        try:
            if before is not None:
                there = before.before
                weights = None if before.weights is None else before.weights[there]
                batch = self._batch(EdgeColumns(before.src[there], before.dst[there], weights, -1), "replace")
            plans = self._plan(Insertion(self._out.num_vertices, "replace"), batch)
        except MemoryError as error:
            self._num_edges -= deleted
            self._end_version(recorded)
            raise OutOfMemoryError(
                "update: memory ran out twice; the deletions are made, the insertions are not"
            ) from error
        self._write(plans)
