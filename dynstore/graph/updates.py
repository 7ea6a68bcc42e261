"""How a graph changes: every update is one transaction.

An insertion or a deletion goes through these steps, in this order:

1. Read the columns of the batch. Where the store supports speculation, ids and weights are not validated yet.
2. Attempt: the store writes in one step, and the device decides whether it may (:meth:`Store.try_insert`).
3. Where that is refused: validate, which raises for bad input, and plan. A plan reads, reserves memory, and may raise.
4. Commit both orientations, then the ids, then end the version. A commit cannot fail.

An error leaves the graph as it was. In-edges, if they are kept, are attempted first, so the out-edges never show half
an update. They can be made anew from the out-edges: if only they are written and the rest fails, they are dropped.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np

from dynstore.batches.make import make_batch
from dynstore.batches.unsorted import UnsortedBatch
from dynstore.errors import InputError
from dynstore.graph.recording import Recording
from dynstore.graph.spilling import Spilling
from dynstore.graph.tracked import Tracked
from dynstore.input.columns import EdgeColumns
from dynstore.input.forms import bring_columns, brings_weights, check_names, find_weight
from dynstore.interrupts import MemoryChecked, Uninterrupted
from dynstore.snapshot import Lease
from dynstore.stores.base import Reason, Refused
from dynstore.typing import UpdateReport

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.batches.sorted import Batch
    from dynstore.graph.delta import Change, Unread
    from dynstore.ids.base import IdPlan, Names
    from dynstore.stores.base import Plan, Store
    from dynstore.typing import Array, OnDuplicate

__all__ = ["Deletion", "Growth", "Insertion", "Operation", "Plans", "Request", "Updates"]

_log = logging.getLogger("dynstore")


class Request(NamedTuple):
    """Which edges an update reads, and how; it may read them twice.

    Attributes
    ----------
    caller : str
        The public method, for messages.
    edges : frame or tuple
    names : tuple
        The frame's columns: source, destination, and weight or None.
    weight_dtype : numpy.dtype or None
    """

    caller: str
    edges: Any
    names: Names
    weight_dtype: np.dtype | None


class Operation(Protocol):
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


class Updates(Recording, Tracked, Spilling):
    """The part of :class:`dynstore.DynamicGraph` that changes it."""

    _num_edges: int
    # Whether the last edges brought new ids: the next ones are then validated before they are attempted.
    _expects_new_ids: bool
    # Whether a column of weights was ignored, which is logged once.
    _ignored_weights: bool

    # ------------------------------------------------------------------ the two transactions

    def _insert(
        self, request: Request, on_duplicate: OnDuplicate, default_weight: float | None, time: Any = None
    ) -> UpdateReport:
        with MemoryChecked(request.caller), self._lock:
            extra: dict[str, Array] | None = None
            if self._records is not None or time is not None:
                edges, extra = self.take_extra_columns(*request[:3], time)
                request = request._replace(edges=edges)
            read = partial(self._opened, request)  # what it returns can be read twice; a stream may be read only once
            opened = self._or_spill(request.caller, read) if isinstance(request.edges, tuple | list) else read()
            request = self.with_weights(opened)
            insert = partial(self._insert_opened, request, on_duplicate, default_weight, extra)
            return self._or_spill(request.caller, insert)

    def _insert_opened(
        self,
        request: Request,
        on_duplicate: OnDuplicate,
        default_weight: float | None,
        extra: dict[str, Array] | None,
    ) -> UpdateReport:
        before, speculates = self._out.num_vertices, self._supports_speculation
        validate = not speculates or self._expects_new_ids or extra is not None
        columns, naming = self.ids.plan_edges(*request, before, validate)
        columns = self.fill_weights(request.caller, columns, default_weight)
        if on_duplicate != "replace" and self._may_overflow(columns):
            columns, naming = self.ids.plan_edges(*request, before)  # validated
            columns = self.fill_weights(request.caller, columns, default_weight)
            self._check_sums(request.caller, columns, on_duplicate)
        if extra is not None:
            columns = self.record(request.caller, columns, extra, on_duplicate)
            on_duplicate = "replace"
        batch = self._batch(columns, on_duplicate)
        self._make_way(None if on_duplicate == "append" else batch.num_rows)
        with Uninterrupted():
            operation = Insertion(naming.num_vertices, on_duplicate)
            outcome = self._attempt(operation, batch) if speculates else Refused(Reason.UNSUPPORTED, batch)
            if isinstance(outcome, Refused) and columns.max_id is None:
                columns, naming, batch = self._validate(outcome.batch, request, before, on_duplicate, default_weight)
                operation = Insertion(naming.num_vertices, on_duplicate)
                outcome = Refused(outcome.reason, batch)
                if naming.num_vertices > before and outcome.reason is Reason.INVALID:
                    outcome = self._attempt(operation, batch)
            self._expects_new_ids = 0 < before < naming.num_vertices
            if isinstance(outcome, Refused):
                batch = outcome.batch if naming.arrange is None else naming.arrange(outcome.batch)
                outcome = self._plan(operation, batch)
            return self._finish_insertion(outcome, batch, len(columns.src), naming)

    def _delete(self, request: Request) -> UpdateReport:
        with MemoryChecked(request.caller), self._lock:
            return self._with_caches_freed(partial(self._delete_opened, self._opened(request)))

    def _delete_opened(self, request: Request) -> UpdateReport:
        before, speculates = self._out.num_vertices, self._supports_speculation
        columns = self.ids.find_edges(*request, before, not speculates)
        batch = self._batch(columns, "replace")
        self._make_way(batch.num_rows)
        with Uninterrupted():
            operation = Deletion()
            outcome = self._attempt(operation, batch) if speculates else Refused(Reason.UNSUPPORTED, batch)
            if isinstance(outcome, Refused):
                batch = outcome.batch
                if columns.max_id is None and outcome.reason is not Reason.SPARSE:  # the ids are valid here
                    columns = self.ids.find_edges(*request, before)
                    batch = self._batch(columns, "replace")
                outcome = self._plan(operation, batch)
            num_edges = batch.num_edges(self._directed)
            return self._finish_deletion(outcome, num_edges, len(columns.src) - num_edges)

    # ------------------------------------------------------------------ their steps

    @property
    def _supports_speculation(self) -> bool:
        """Whether the stores may write without a plan."""
        return self._out.supports_speculation and (self._in is None or self._in.supports_speculation)

    def _opened(self, request: Request) -> Request:
        check_names(request.caller, request.names)
        edges = bring_columns(request.caller, self.backend, request.edges)
        return request if edges is request.edges else request._replace(edges=edges)

    def with_weights(self, request: Request) -> Request:
        """Return an opened request to insert edges that names the column of weights which is read, if any.

        Raises
        ------
        InputError
            For weights that the graph cannot hold.
        """
        source, destination, named = request.names
        weight = find_weight(request.edges, request.names)
        if not self._weighted:
            if brings_weights(request.edges, named):
                raise InputError(
                    f"{request.caller}: weights were given, but the graph is unweighted; make it with weighted=True"
                )
            if weight is not None and not self._ignored_weights:
                _log.info("%s: the graph is unweighted, so the column `%s` is ignored", request.caller, weight)
                self._ignored_weights = True
            weight = None
        return request if weight == named else request._replace(names=(source, destination, weight))

    def fill_weights(self, caller: str, columns: EdgeColumns, default_weight: float | None) -> EdgeColumns:
        """Return edges to insert with weights: in a weighted graph, those without get the default.

        Raises
        ------
        InputError
            For edges without weights, where there is no default.
        """
        if columns.weights is not None or not self._weighted:
            return columns
        if default_weight is None and len(columns.src):
            raise InputError(
                f"{caller}: the graph is weighted, and the edges have no weights; name their column "
                "(weight=...), pass (src, dst, weights), or give default_weight=1.0"
            )
        weights = self.backend.empty(len(columns.src), self.weight_dtype)
        weights.fill(1.0 if default_weight is None else default_weight)
        return EdgeColumns(columns.src, columns.dst, weights, columns.max_id)

    def _batch(self, columns: EdgeColumns, on_duplicate: OnDuplicate) -> Batch:
        return make_batch(
            self.backend, columns.src, columns.dst, columns.weights, self._directed, on_duplicate, columns.max_id
        )

    def check_sums(self, caller: str, columns: EdgeColumns, on_duplicate: OnDuplicate) -> None:
        """Refuse valid edges whose weights are to be added, and in the batch have no finite sum."""
        if on_duplicate != "replace" and self._may_overflow(columns):
            self._check_sums(caller, columns, on_duplicate)

    def _may_overflow(self, columns: EdgeColumns) -> bool:
        """Whether weights of the batch are so large that their sum might not be finite, or NaN."""
        if columns.weights is None:
            return False
        with np.errstate(over="ignore"):
            total = float(self.backend.xp.abs(columns.weights).sum(dtype=np.float64))
        return not total <= float(np.finfo(self.weight_dtype).max)  # as float32 it would be compared with a warning

    def _check_sums(self, caller: str, columns: EdgeColumns, on_duplicate: OnDuplicate) -> None:
        """Refuse valid edges whose weights in the batch do not sum to a finite number.

        A finite sum and any stored weight have a sum, perhaps an infinite one. So no stored weight becomes NaN, which
        would stand for an absent edge.

        Raises
        ------
        InputError
        """
        with np.errstate(over="ignore", invalid="ignore"):
            sums: Array = self._batch(columns, on_duplicate).materialized().weights
        bad = ~self.backend.xp.isfinite(sums)
        if bool(bad.any()):
            raise InputError(
                f"{caller}: the weights of an edge in the batch sum to {float(sums[int(bad.argmax())])}; "
                f"wanted a finite sum with on_duplicate={on_duplicate!r}"
            )

    def _validate(
        self,
        batch: Batch,
        request: Request,
        num_vertices: int,
        on_duplicate: OnDuplicate,
        default_weight: float | None,
    ) -> tuple[EdgeColumns, IdPlan, Batch]:
        """Validate ids and weights that were not validated; return the batch with the ids' numbers.

        Raises
        ------
        InputError
        """
        reading = *request, num_vertices
        if not isinstance(batch, UnsortedBatch) or self.vertex_dtype.itemsize == 8:
            columns, naming = self.ids.plan_edges(*reading)
            columns = self.fill_weights(request.caller, columns, default_weight)
            return columns, naming, self._batch(columns, on_duplicate)
        if not self.ids.renumbered:  # ids are numbers
            bounds = batch.find_bounds(sorting=batch.needs_order or self._out.num_edges == 0)
            return *self.ids.plan_edges(*reading, bounds=bounds), batch
        columns, naming = self.ids.plan_edges(*reading)
        return columns, naming, batch.renumbered(columns.src, columns.dst)

    def _attempt(self, operation: Operation, batch: Batch) -> Plans | Refused:
        """Write each orientation in one step, the in-edges first.

        Refused, with nothing written, if the in-edges, or out-edges without in-edges, must be planned. Once in-edges
        are written, refused out-edges are planned here; if that fails, the in-edges are dropped.
        """
        self._await_record()
        into: Plan | None = None
        change = self._read_change(batch, operation.inserting)  # the write leaves no trace of what was there
        if self._in is not None:
            with self._timing_in_edges():
                turned = operation.attempt(self._in, batch.transposed(self.backend))
            if isinstance(turned, Refused):
                _log.debug("in-edges are planned: %s", turned.reason.value)
                return Refused(turned.reason, batch)
            into = turned
        try:
            out = operation.attempt(self._out, batch)
            if isinstance(out, Refused):
                _log.debug("out-edges are planned: %s", out.reason.value)
                if into is None:
                    return out
                out = operation.plan(self._out, out.batch)
                batch.count_edges()  # may still fail here
        except BaseException:
            if into is not None:
                self._forget_in_edges()
            raise
        return Plans(out, into, change)

    def _plan(self, operation: Operation, batch: Batch) -> Plans:
        """Plan an update of each orientation, the out-edges first: their plan may find the distinct edges."""
        if isinstance(operation, Insertion):
            self._settle(batch.num_rows * (1 if self._directed else 2), operation.num_vertices)
        out = operation.plan(self._out, _taken_by(self._out, batch))
        into = None
        if self._in is not None:
            with self._timing_in_edges():
                into = operation.plan(self._in, _taken_by(self._in, batch.transposed(self.backend)))
        change = None if out.appended else self._read_change(batch, operation.inserting, out.located)
        return Plans(out, into, change)

    def _report_insertion(self, plans: Plans, batch: Batch, num_rows: int) -> UpdateReport:
        out, num_edges = plans.out, batch.num_edges(self._directed)
        replaced, kept, deleted = self._found_edges(out), num_edges, 0
        if out.appended:
            kept, deleted = (part.num_edges(self._directed) for part in out.appended)
        inserted, absent, duplicates = kept - replaced, num_edges - kept - deleted, num_rows - num_edges
        return UpdateReport(inserted, replaced, deleted, absent, duplicates, out.grown, out.path)

    def _finish_insertion(self, plans: Plans, batch: Batch, num_rows: int, naming: IdPlan) -> UpdateReport:
        report = self._report_insertion(plans, batch, num_rows)
        self._commit(plans, naming.commit)
        self._num_edges += report.inserted - report.deleted
        return report

    def _report_deletion(self, plans: Plans, num_edges: int, duplicates: int) -> UpdateReport:
        out, deleted = plans.out, self._found_edges(plans.out)
        return UpdateReport(0, 0, deleted, num_edges - deleted, duplicates, out.grown, out.path)

    def _finish_deletion(
        self, plans: Plans, num_edges: int, duplicates: int, forget: Callable[[], None] | None = None
    ) -> UpdateReport:
        report = self._report_deletion(plans, num_edges, duplicates)
        self._commit(plans, forget)
        self._num_edges -= report.deleted
        return report

    def _found_edges(self, plan: Plan) -> int:
        """Count the found edges, undirected pairs once: loops are stored once, all others twice."""
        return plan.found if self._directed else (plan.found + plan.found_loops) // 2

    def _await_record(self) -> None:
        """Wait for what has to be done before the graph is written; a graph with a log waits for its record.

        Whatever writes the edges of an update calls it first. It may raise, so nothing may have been changed then.
        """

    def _write(self, plans: Plans) -> None:
        self._await_record()
        plans.out.commit()
        if plans.into is not None:
            with self._timing_in_edges():
                plans.into.commit()

    def _commit(self, plans: Plans, naming: Callable[[], None] | None) -> None:
        self._write(plans)
        if naming is not None:
            naming()
        self._end_version(plans.change)

    def _end_version(self, change: Change | Unread | None) -> None:
        lease = self._lease
        lease.ended_by = lease.version + 1
        self._lease = Lease(lease.ended_by)
        self._views = {}
        if self._logs:
            self._record(change)


def _taken_by(store: Store, batch: Batch) -> Batch:
    """Return a batch in the form that a store takes: as it is, or sorted."""
    return batch if store.takes_unsorted else batch.materialized()
