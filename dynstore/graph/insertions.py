"""Insertions and deletions of the rows that users pass: read, written in one step, or validated and planned."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.batches.unsorted import UnsortedBatch
from dynstore.errors import InputError
from dynstore.graph.recording import record, take_extra_columns
from dynstore.graph.transaction import Deletion, Insertion, Transaction
from dynstore.input.columns import EdgeColumns
from dynstore.input.forms import bring_columns, brings_weights, check_names, find_weight
from dynstore.stores.base import Reason, Refused

if TYPE_CHECKING:
    from dynstore.batches.sorted import Batch
    from dynstore.graph.core import GraphCore
    from dynstore.ids.base import Names, RenumberingPlan
    from dynstore.typing import Array, OnDuplicate, UpdateReport

__all__ = ["Request", "check_sums", "delete", "fill_weights", "insert", "with_weights"]

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

    def opened(self, core: GraphCore) -> Request:
        """Return the same with columns that can be read twice."""
        check_names(self.caller, self.names)
        edges = bring_columns(self.caller, core.backend, self.edges)
        return self if edges is self.edges else self._replace(edges=edges)


def with_weights(core: GraphCore, request: Request) -> Request:
    """Return an opened request to insert edges that names the column of weights which is read, if any.

    Raises
    ------
    InputError
        For weights that the graph cannot hold.
    """
    source, destination, named = request.names
    weight = find_weight(request.edges, request.names)
    if not core.weighted:
        if brings_weights(request.edges, named):
            raise InputError(
                f"{request.caller}: weights were given, but the graph is unweighted; make it with weighted=True"
            )
        if weight is not None and not core.ignored_weights:
            _log.info("%s: the graph is unweighted, so the column `%s` is ignored", request.caller, weight)
            core.ignored_weights = True
        weight = None
    return request if weight == named else request._replace(names=(source, destination, weight))


def fill_weights(core: GraphCore, caller: str, columns: EdgeColumns, default_weight: float | None) -> EdgeColumns:
    """Return edges to insert with weights: in a weighted graph, those without get the default.

    Raises
    ------
    InputError
        For edges without weights, where there is no default.
    """
    if columns.weights is not None or not core.weighted:
        return columns
    if default_weight is None and len(columns.src):
        raise InputError(
            f"{caller}: the graph is weighted, and the edges have no weights; name their column "
            "(weight=...), pass (src, dst, weights), or give default_weight=1.0"
        )
    weights = core.backend.empty(len(columns.src), core.weight_dtype)
    weights.fill(1.0 if default_weight is None else default_weight)
    return EdgeColumns(columns.src, columns.dst, weights, columns.max_id)


def check_sums(core: GraphCore, caller: str, columns: EdgeColumns, on_duplicate: OnDuplicate) -> None:
    """Refuse valid edges whose weights are to be added, and in the batch do not sum to a finite number.

    A finite sum and any stored weight have a sum, perhaps an infinite one. So no stored weight becomes NaN, which would
    stand for an absent edge.

    Raises
    ------
    InputError
    """
    if on_duplicate == "replace" or not _may_overflow(core, columns):
        return
    with np.errstate(over="ignore", invalid="ignore"):
        batch = Transaction(core, caller).batch_of(columns, on_duplicate)
        sums: Array = batch.materialized().weights
    bad = ~core.backend.xp.isfinite(sums)
    if bool(bad.any()):
        raise InputError(
            f"{caller}: the weights of an edge in the batch sum to {float(sums[int(bad.argmax())])}; "
            f"wanted a finite sum with on_duplicate={on_duplicate!r}"
        )


def _may_overflow(core: GraphCore, columns: EdgeColumns) -> bool:
    """Whether weights of the batch are so large that their sum might not be finite, or NaN."""
    if columns.weights is None:
        return False
    with np.errstate(over="ignore"):
        total = float(core.backend.xp.abs(columns.weights).sum(dtype=np.float64))
    return not total <= float(np.finfo(core.weight_dtype).max)  # as float32 it would be compared with a warning


def insert(
    core: GraphCore, request: Request, on_duplicate: OnDuplicate, default_weight: float | None, time: Any = None
) -> UpdateReport:
    """Insert rows; see :meth:`dynstore.DynamicGraph.insert_edges`."""
    with core.lock, Transaction(core, request.caller) as update:
        extra: dict[str, Array] | None = None
        if core.records is not None or time is not None:
            edges, extra = take_extra_columns(core, *request[:3], time)
            request = request._replace(edges=edges)
        read = partial(request.opened, core)  # what it returns can be read twice; a stream may be read only once
        opened = update.retried(read) if isinstance(request.edges, tuple | list) else read()
        request = with_weights(core, opened)
        return update.retried(partial(_insert, update, request, on_duplicate, default_weight, extra))


def _insert(
    update: Transaction,
    request: Request,
    on_duplicate: OnDuplicate,
    default_weight: float | None,
    extra: dict[str, Array] | None,
) -> UpdateReport:
    core, caller = update.core, request.caller
    before, speculates = core.out.num_vertices, update.speculates
    validate = not speculates or core.expects_new_ids or extra is not None
    columns, renumbering = core.ids.plan_edges(*request, before, validate)
    columns = fill_weights(core, caller, columns, default_weight)
    if on_duplicate != "replace" and _may_overflow(core, columns):
        columns, renumbering = core.ids.plan_edges(*request, before)  # validated
        columns = fill_weights(core, caller, columns, default_weight)
        check_sums(core, caller, columns, on_duplicate)
    if extra is not None:
        columns = record(core, caller, columns, extra, on_duplicate)
        on_duplicate = "replace"
    batch = update.batch_of(columns, on_duplicate)
    update.make_way(None if on_duplicate == "append" else batch.num_rows)
    with update.writing():
        operation = Insertion(renumbering.num_vertices, on_duplicate)
        outcome = update.attempt(operation, batch) if speculates else Refused(Reason.UNSUPPORTED, batch)
        if isinstance(outcome, Refused) and columns.max_id is None:
            columns, renumbering, batch = _validate(update, outcome.batch, request, on_duplicate, default_weight)
            operation = Insertion(renumbering.num_vertices, on_duplicate)
            outcome = Refused(outcome.reason, batch)
            if renumbering.num_vertices > before and outcome.reason is Reason.INVALID:
                outcome = update.attempt(operation, batch)
        core.expects_new_ids = 0 < before < renumbering.num_vertices
        if isinstance(outcome, Refused):
            batch = outcome.batch if renumbering.arrange is None else renumbering.arrange(outcome.batch)
            outcome = update.plan(operation, batch)
        return update.finish_insertion(outcome, batch, len(columns.src), renumbering.commit)


def _validate(
    update: Transaction, batch: Batch, request: Request, on_duplicate: OnDuplicate, default_weight: float | None
) -> tuple[EdgeColumns, RenumberingPlan, Batch]:
    """Validate ids and weights that were not validated; return the batch with the ids' numbers.

    Raises
    ------
    InputError
    """
    core = update.core
    reading = *request, core.out.num_vertices
    if not isinstance(batch, UnsortedBatch) or core.vertex_dtype.itemsize == 8:
        columns, renumbering = core.ids.plan_edges(*reading)
        columns = fill_weights(core, request.caller, columns, default_weight)
        return columns, renumbering, update.batch_of(columns, on_duplicate)
    if not core.ids.renumbered:  # ids are numbers
        bounds = batch.find_bounds(sorting=batch.needs_order or core.out.num_edges == 0)
        return *core.ids.plan_edges(*reading, bounds=bounds), batch
    columns, renumbering = core.ids.plan_edges(*reading)
    return columns, renumbering, batch.renumbered(columns.src, columns.dst)


def delete(core: GraphCore, request: Request) -> UpdateReport:
    """Delete rows; see :meth:`dynstore.DynamicGraph.delete_edges`."""
    with core.lock, Transaction(core, request.caller) as update:
        return core.with_caches_freed(partial(_delete, update, request.opened(core)))


def _delete(update: Transaction, request: Request) -> UpdateReport:
    core = update.core
    before, speculates = core.out.num_vertices, update.speculates
    columns = core.ids.find_edges(*request, before, not speculates)
    batch = update.batch_of(columns)
    update.make_way(batch.num_rows)
    with update.writing():
        operation = Deletion()
        outcome = update.attempt(operation, batch) if speculates else Refused(Reason.UNSUPPORTED, batch)
        if isinstance(outcome, Refused):
            batch = outcome.batch
            if columns.max_id is None and outcome.reason is not Reason.SPARSE:  # the ids are valid here
                columns = core.ids.find_edges(*request, before)
                batch = update.batch_of(columns)
            outcome = update.plan(operation, batch)
        num_edges = batch.num_edges(core.directed)
        return update.finish_deletion(outcome, num_edges, len(columns.src) - num_edges)
