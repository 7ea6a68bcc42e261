"""Updates that expire, delete and insert in one version."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from dynstore.batches.sorted import EdgeBatch
from dynstore.errors import InputError
from dynstore.graph.delta import Change, Unread
from dynstore.graph.insertions import Request, check_sums, fill_weights, with_weights
from dynstore.graph.recording import record, take_extra_columns
from dynstore.graph.records import TIME
from dynstore.graph.transaction import Deletion, Insertion, Plans, Transaction
from dynstore.ids.base import RenumberingPlan
from dynstore.input.columns import EdgeColumns
from dynstore.input.forms import check_lengths, check_names, split_columns, take_rows
from dynstore.input.times import is_dated, read_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.backend import Backend
    from dynstore.batches.sorted import Batch
    from dynstore.graph.core import Agree, GraphCore
    from dynstore.ids.base import Names
    from dynstore.typing import Array, OnDuplicate, UpdateReport

__all__ = ["Exchange", "Follow", "GivenInsertions", "exchange", "expire", "update"]

# Plans what else an update does, and returns its commit.
Follow: TypeAlias = "Callable[[RenumberingPlan], Callable[[], None]]"


class GivenInsertions(NamedTuple):
    """What :func:`update` inserts, as the user names it.

    Attributes
    ----------
    rows : frame, tuple, list or None
    names : tuple
        The columns of both batches: source, destination, and weight or None.
    time, default_weight, on_duplicate
        As :meth:`dynstore.DynamicGraph.update` has them.
    """

    rows: Any
    names: Names
    time: Any
    default_weight: float | None
    on_duplicate: OnDuplicate


class Exchange(NamedTuple):
    """Edges to delete, and others to insert, as one version. Ids and weights are validated already.

    Attributes
    ----------
    deletions, insertions : EdgeColumns
        Numbers of rows. In a graph with extra columns, those that arrive have records (:func:`record`).
    renumbering : RenumberingPlan
        What the insertions do to the ids.
    on_duplicate : {"replace", "add"}
    follow : callable or None
        It is called before the insertion, and may raise.
    expire_before : int or None
        Edges whose last time is below it are deleted first.
    agree : callable or None
        It gets the report when nothing can fail any more, once, and may raise: then the graph stays as it was. The
        insertion is planned, and not attempted. Memory that runs out before is no reason to call it: edges that may
        move to host memory do so first. By default that of :meth:`GraphCore.agreeing`.
    """

    deletions: EdgeColumns
    insertions: EdgeColumns
    renumbering: RenumberingPlan
    on_duplicate: OnDuplicate = "replace"
    follow: Follow | None = None
    expire_before: int | None = None
    agree: Agree | None = None


def update(
    core: GraphCore, given: GivenInsertions, delete: Any = None, expire_before: Any = None, expire_last: bool = False
) -> UpdateReport:
    """Expire and delete edges, and insert others; see :meth:`dynstore.DynamicGraph.update`."""
    with core.lock, Transaction(core, "update") as one:
        bound = None if expire_before is None else _read_bound(core, "update", "expire_before", expire_before)
        if bound is not None and given.rows is None and delete is None:
            check_names("update", given.names)
            return _expire(one, bound)
        deletions = _read_deletions(core, delete, given.names)
        first, last = (None, bound) if expire_last else (bound, None)
        columns, extra, renumbering, late = _read_insertions(core, given, first)
        on_duplicate = given.on_duplicate
        if extra is not None:
            columns = record(core, "update", columns, extra, on_duplicate, deletions, first, last)
            on_duplicate = "replace"
        report = exchange(core, "update", Exchange(deletions, columns, renumbering, on_duplicate, expire_before=bound))
    return report._replace(late=late) if late else report


def expire(core: GraphCore, before: Any) -> UpdateReport:
    """Delete the edges whose last time is before a bound; see :meth:`dynstore.DynamicGraph.expire`."""
    with core.lock, Transaction(core, "expire") as one:
        return _expire(one, _read_bound(core, "expire", "before", before))


def _read_bound(core: GraphCore, caller: str, name: str, value: Any) -> int:
    if core.timestamps is None:
        raise InputError(f"{caller}: the graph keeps no times; make it with timestamps='int64'")
    bound = read_time(caller, name, value)
    assert core.records is not None
    core.records.check_time(caller, name, bound, is_dated(value))
    return bound


def _expire(one: Transaction, bound: int) -> UpdateReport:
    """Delete the edges with times below a bound: without listing them, or, where that is refused, as a batch."""
    core = one.core
    assert core.records is not None
    commit = core.records.plan_raise(bound)
    with one.writing():
        plans = one.attempt_expiry(bound, True)
        if plans is not None:
            report = one.finish_deletion(plans, 0, 0, commit)
            return report._replace(deleted=0, absent=0, expired=report.deleted)
    nothing = _nothing(core)
    return exchange(
        core, one.caller, Exchange(nothing, nothing, RenumberingPlan(core.num_vertices), expire_before=bound)
    )


# ---------------------------------------------------------------------- what an update reads


def _nothing(core: GraphCore) -> EdgeColumns:
    """Return no edges, as numbers."""
    none = core.backend.nothing(core.vertex_dtype)
    return EdgeColumns(none, none, None, -1)


def _read_deletions(core: GraphCore, delete: Any, names: Names) -> EdgeColumns:
    if delete is None:
        return _nothing(core)
    request = Request("update", delete, (*names[:2], None), None).opened(core)
    return core.ids.find_edges(*request, core.num_vertices)


def _read_insertions(
    core: GraphCore, given: GivenInsertions, bound: int | None
) -> tuple[EdgeColumns, dict[str, Array] | None, RenumberingPlan, int]:
    """Read the edges to insert.

    Returns
    -------
    numbers : EdgeColumns
        With weights in a weighted graph.
    extra : dict of arrays, or None
        Their extra columns.
    renumbering : RenumberingPlan
    late : int
        Rows with a time below the bound, which are left out.
    """
    if given.rows is None:
        check_names("update", given.names)
        if given.time is not None:
            take_extra_columns(core, "update", ([], []), given.names, given.time)
        return _nothing(core), None, RenumberingPlan(core.num_vertices), 0
    late = 0
    edges, extra = take_extra_columns(core, "update", given.rows, given.names, given.time)
    whole = request = with_weights(core, Request("update", edges, given.names, core.stored_weights).opened(core))
    if bound is not None and extra:
        columns = split_columns("update", request.edges, request.names)
        check_lengths("update", columns, extra)
        parts = tuple(column for _, column in columns)
        xp = core.backend.xp
        is_old = extra[TIME].astype(np.int64) < bound  # the bound may not fit int32
        late = int(xp.count_nonzero(is_old))
        if late:  # ids of late rows make no vertices
            rows, old = xp.nonzero(~is_old)[0], xp.nonzero(is_old)[0]
            extra = {name: array[rows] for name, array in extra.items()}
            some = request._replace(names=("source", "destination", None))
            request, ignored = (some._replace(edges=take_rows(parts, which)) for which in (rows, old))
    try:
        numbers, renumbering = core.ids.plan_edges(*request, core.num_vertices)
        if late:  # they are ignored, and still have to be right
            core.ids.find_edges(*ignored, core.num_vertices)
    except InputError:
        if late:  # say which row of the whole batch it is
            core.ids.plan_edges(*whole, core.num_vertices)
        raise
    numbers = fill_weights(core, "update", numbers, given.default_weight)
    check_sums(core, "update", numbers, given.on_duplicate)
    return numbers, extra, renumbering, late


# ---------------------------------------------------------------------- the exchange


def exchange(core: GraphCore, caller: str, given: Exchange) -> UpdateReport:
    """Delete edges, then insert others, as one version. If the insertion fails, the deletion is taken back.

    Parameters
    ----------
    core : GraphCore
    caller : str
        The public method, for messages.
    given : Exchange
    """
    if given.agree is None:
        given = given._replace(agree=core.agreement)

    def make() -> UpdateReport:
        with core.lock, Transaction(core, caller) as update:
            return update.retried(partial(_exchange_once, update, given))

    if core.journal is None:
        return make()
    return core.journal.exchange(caller, given.deletions, given.insertions, given.renumbering, make)


def _exchange_once(update: Transaction, given: Exchange) -> UpdateReport:
    core, bound, num_deletions = update.core, given.expire_before, len(given.deletions.src)
    restore, before, num_expired, num_wanted = None, core.num_edges, 0, None
    inserts = len(given.insertions.src) > 0 or given.renumbering.num_vertices > core.num_vertices
    with update.writing():
        if bound is not None:
            given = given._replace(follow=_raising(core, bound))
            restore = update.expire_first(bound) if inserts else None
            num_expired = before - core.num_edges
        try:
            gone = wanted = update.batch_of(given.deletions)
            if bound is not None and restore is None:
                expired = update.expired(bound)
                num_expired = len(expired.src)
                if num_expired:
                    num_wanted = wanted.num_edges(core.directed)
                    gone = update.batch_of(_joined(core.backend, expired, given.deletions))
            batch = update.batch_of(given.insertions, given.on_duplicate)
            update.make_way(gone.num_rows + batch.num_rows)
        except BaseException:
            if restore is not None:
                restore()
            raise
        if inserts:
            report, num_gone = _delete_and_insert(update, given, gone, batch, restore)
        else:
            report, num_gone = _delete_alone(update, given, gone)
    deleted = report.deleted - (0 if num_wanted is None else num_expired)
    num_wanted = num_gone if num_wanted is None else num_wanted
    return report._replace(
        deleted=deleted,
        absent=num_wanted - deleted,
        duplicates=report.duplicates + num_deletions - num_wanted,
        expired=num_expired,
    )


def _raising(core: GraphCore, bound: int) -> Follow:
    """Return the last step of an update that has deleted all edges older than a bound: the records note the bound."""
    records = core.records
    assert records is not None
    return lambda _: records.plan_raise(bound)


def _joined(backend: Backend, first: EdgeColumns, second: EdgeColumns) -> EdgeColumns:
    """Return the edges of both."""
    join = backend.xp.concatenate
    return EdgeColumns(join((first.src, second.src)), join((first.dst, second.dst)), None, -1)


def _delete_alone(update: Transaction, given: Exchange, gone: Batch) -> tuple[UpdateReport, int]:
    """Do what :func:`_delete_and_insert` does where nothing is inserted."""
    finish = None if given.follow is None else given.follow(given.renumbering)
    plans, gone = update.attempt_or_plan(Deletion(), gone, given.agree is None)
    num_gone = gone.num_edges(update.core.directed)
    if given.agree is not None:
        given.agree(update.deletion_report(plans, num_gone, 0))
    report = update.finish_deletion(plans, num_gone, 0, given.renumbering.commit)
    if finish is not None:
        finish()
    return report, num_gone


def _delete_and_insert(
    update: Transaction, given: Exchange, gone: Batch, batch: Batch, restore: Callable[[], None] | None
) -> tuple[UpdateReport, int]:
    """Delete one batch and insert another; also return how many edges the first one has.

    ``restore``: what takes this version's deletions back, if there have been any.
    """
    core, renumbering, num_rows = update.core, given.renumbering, len(given.insertions.src)
    together = None if restore is not None else _plan_together(core, given, gone, batch)
    before: Change | None = None
    deletion, is_written = None if together is None else together[0], restore is not None
    try:
        if together is None and gone.num_rows:
            restore = update.plan_restore() if restore is None else restore
            deletion, before = update.delete_first(gone, restore is not None)
            is_written = True
        num_gone = gone.num_edges(core.directed)
        deleted = 0 if deletion is None else update.found_edges(deletion.out)
        if renumbering.arrange is not None:
            batch = renumbering.arrange(batch)
        finish = None if given.follow is None else given.follow(renumbering)
        if together is None:
            operation = Insertion(renumbering.num_vertices, given.on_duplicate)
            plans, batch = update.attempt_or_plan(operation, batch, given.agree is None)
        else:
            plans = together[1]
        grown = plans.out.grown or (deletion is not None and deletion.out.grown)
        if given.agree is not None:
            report = update.insertion_report(plans, batch, num_rows)
            given.agree(report._replace(deleted=deleted, absent=num_gone - deleted, grown=grown))
    except BaseException:
        if is_written and restore is not None:
            restore()
        elif is_written and deletion is not None:
            update.insert_again(gone, before, deleted, deletion.change)
        raise
    if together is not None:
        update.write(together[0])
    if core.logs and deletion is not None:
        core.record_change(deletion.change)
    core.num_edges -= deleted
    report = update.finish_insertion(plans, batch, num_rows, renumbering.commit)
    if finish is not None:
        finish()
    return report._replace(deleted=deleted, grown=grown), num_gone


def _plan_together(core: GraphCore, given: Exchange, gone: Batch, batch: Batch) -> tuple[Plans, Plans] | None:
    """Plan the deletion and the insertion before anything is written, where stores can.

    No log may want the changes: the deletion's would have to be looked up.
    """
    if not (isinstance(gone, EdgeBatch) and isinstance(batch, EdgeBatch) and len(gone)):  # as on the host
        return None
    if given.renumbering.arrange is not None:
        return None
    if core.logs and core.logs_that_want(len(gone)):
        return None
    how, into = (given.renumbering.num_vertices, given.on_duplicate), None
    out = core.out.plan_exchange(gone, batch, *how)
    if out is not None and core.into is not None:
        into = core.into.plan_exchange(gone.transposed(core.backend), batch.transposed(core.backend), *how)
    if out is None or (core.into is not None and into is None):
        return None
    changes = Unread(len(gone), False), Unread(len(batch), True)
    first, second = (None, None) if into is None else into
    return Plans(out[0], first, changes[0]), Plans(out[1], second, changes[1])
