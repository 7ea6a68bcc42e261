"""Updates of events: rows come, rows leave, as one version.

An update reads its rows, and finds the rows of the log that leave. Then the events that leave are taken out of the
records of their pairs, and those that come are put in; all records are kept as they were. What is left is an exchange
of pairs (:mod:`dynstore.graph.exchanges`): those that have their first event come, and those without events leave. Its
transaction ends the version, and the log shows the new events. If anything fails, the records are written back.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.errors import InputError
from dynstore.graph.events.layout import ID, PAIR
from dynstore.graph.events.reading import (
    Entering,
    GivenDeletions,
    GivenEvents,
    Leaving,
    read_bound,
    read_deletions,
    read_rows,
    refuse_infinite,
    rows_from,
)
from dynstore.graph.exchanges import Exchange, exchange
from dynstore.graph.records import TIME, WEIGHT
from dynstore.graph.transaction import Transaction
from dynstore.ids.base import RenumberingPlan
from dynstore.input.columns import EdgeColumns
from dynstore.input.forms import check_names
from dynstore.typing import UpdateReport

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.graph.events.core import EventCore
    from dynstore.graph.events.layout import Entered, Touched
    from dynstore.typing import Array

__all__ = ["change", "delete_events", "delete_events_of", "expire_events", "insert_events", "update_events"]


# ---------------------------------------------------------------------- the updates


def insert_events(core: EventCore, given: GivenEvents) -> UpdateReport:
    """Insert events; see :meth:`dynstore.DynamicGraph.insert_edges`."""
    caller = "insert_edges"
    with core.lock, Transaction(core, caller) as update:
        entering, renumbering, _ = update.retried(partial(read_rows, core, caller, given))
        return change(update, None, entering, renumbering)


def delete_events(core: EventCore, given: GivenDeletions) -> UpdateReport:
    """Delete events; see :meth:`dynstore.DynamicGraph.delete_edges`."""
    caller = "delete_edges"
    with core.lock, Transaction(core, caller) as update:
        return change(update, read_deletions(core, caller, given), None, RenumberingPlan(core.num_vertices))


def expire_events(core: EventCore, before: Any) -> UpdateReport:
    """Delete the events with times before a bound; see :meth:`dynstore.DynamicGraph.expire`."""
    with core.lock, Transaction(core, "expire") as update:
        bound = read_bound(core, "expire", "before", before)
        return change(update, None, None, RenumberingPlan(core.num_vertices), bound)


def update_events(
    core: EventCore,
    given: GivenEvents,
    delete: GivenDeletions,
    expire_before: Any,
    expire_last: bool,
    drop_vertices: bool = False,
) -> UpdateReport:
    """Expire, delete and insert events as one version; see :meth:`dynstore.DynamicGraph.update`."""
    caller, late, expired = "update", 0, 0
    if drop_vertices and not core.ids.reuse_ids:
        raise InputError(
            f"{caller}: drop_vertices is True, but rows of the graph keep their ids; make it with renumber=True and "
            "reuse_ids=True"
        )
    with core.lock, Transaction(core, caller) as update:
        bound = None if expire_before is None else read_bound(core, caller, "expire_before", expire_before)
        find = None
        if delete.edges is not None or delete.edge_ids is not None:
            find = read_deletions(core, caller, delete)
        entering, renumbering = None, RenumberingPlan(core.num_vertices)
        if given.rows is None:
            check_names(caller, given.names)
        else:
            entering, renumbering, late = read_rows(core, caller, given, None if expire_last else bound)
            if expire_last and bound is not None:
                rows = rows_from(core.backend, entering.values[TIME], bound)
                if rows is not None:
                    refuse_infinite(caller, core.backend, entering.values.get(WEIGHT))
                    expired = entering.total - int(rows.shape[0])
                    entering = entering.of(rows)
        report = change(update, find, entering, renumbering, bound, drop_vertices)
    return report._replace(late=late, inserted=report.inserted + expired, expired=report.expired + expired)


def delete_events_of(core: EventCore, ids: Any) -> UpdateReport:
    """Delete all events of vertices; see :meth:`dynstore.DynamicGraph.delete_vertices`."""
    caller = "delete_vertices"
    with core.lock, Transaction(core, caller) as update:
        numbers, forget = core.ids.plan_deletion(caller, ids, core.num_vertices)
        gone = core.backend.zeros(max(core.num_vertices, 1), np.bool_)
        gone[numbers] = True

        def find() -> Leaving:
            rows = core.event_rows()
            src, dst = core.pairs.ends(core.columns[PAIR][rows])
            return Leaving(rows[gone[src] | gone[dst]])

        return change(update, find, None, RenumberingPlan(core.num_vertices, forget))


# ---------------------------------------------------------------------- the change


def change(
    update: Transaction,
    find: Callable[[], Leaving] | None,
    entering: Entering | None,
    renumbering: RenumberingPlan,
    bound: int | None = None,
    drops: bool = False,
) -> UpdateReport:
    """Let events leave and others come, as one version; nothing has changed if this raises.

    Parameters
    ----------
    update : Transaction
        Of an :class:`~dynstore.graph.events.core.EventCore`.
    find : callable or None
        Finds the rows of the log to delete.
    entering : Entering or None
    renumbering : RenumberingPlan
        What the events that come do to the ids.
    bound : int, optional
        Events with times below it expire, before others are deleted.
    drops : bool
        Whether vertices without events are deleted.
    """
    core: Any = update.core
    caller, events, made = update.caller, core.events, _Change()
    count = 0 if entering is None else int(entering.src.shape[0])
    events.reserve(count)  # from here on events keep their rows
    num_left, num_expired, absent, duplicates = 0, 0, 0, 0
    highest, ascending, first_id = events.ids.highest, events.ids.ascending, None
    with update.writing():
        try:
            if bound is not None:
                num_expired, _ = _leave(core, made, events.log.older(bound))
            if find is not None:
                leaving = find()
                num_left, missing = _leave(core, made, leaving.rows)
                if leaving.ids is not None and missing:
                    missing = int(core.backend.xp.unique(leaving.ids[leaving.rows < 0]).shape[0])
                absent = leaving.absent + missing
                duplicates = leaving.duplicates + int(leaving.rows.shape[0]) - num_left - missing
            if entering is not None and entering.total:
                ids, highest, ascending = events.ids.plan(caller, events.log, entering.given, entering.total)
                first_id = None if entering.given is not None else highest - entering.total + 1
                if count:
                    events.ids.reserve(events.log, count, ascending)
                    _enter(core, caller, made, entering, ids if entering.places is None else ids[entering.places])
            report = _exchange(core, caller, made, renumbering, entering, (highest, ascending), bound, drops)
        except BaseException:
            for step in reversed(made.undo):
                step()
            raise
        finally:
            core.following = None
    return UpdateReport(
        inserted=count,
        deleted=num_left,
        absent=absent,
        duplicates=duplicates,
        grown=report.grown,
        path=report.path,
        expired=num_expired,
        first_id=first_id,
    )


class _Change:
    """What a change has done to the records so far.

    Attributes
    ----------
    undo : list of callables
        They write the records back, the last one first.
    touched : list
        The records before, and whether events came to them.
    left, gone : lists of arrays
        Rows of the log that left, and records that they left without events.
    fresh : array, int32
        Records of new pairs.
    returned : int
        How many pairs had lost all events when others came.
    newest : int or None
        The greatest time of the events that came.
    """

    def __init__(self) -> None:
        self.undo: list[Callable[[], None]] = []
        self.touched: list[tuple[Touched, bool]] = []
        self.left: list[Array] = []
        self.gone: list[Array] = []
        self.fresh: Array | None = None
        self.returned = 0
        self.newest: int | None = None


def _enter(core: EventCore, caller: str, made: _Change, entering: Entering, ids: Array) -> None:
    """Put events behind the tail of the log, and into the records of their pairs."""
    table, log = core.events.table, core.events.log
    values = entering.values
    rows = entering.src, entering.dst, not core.directed, values.get(WEIGHT), values.get(TIME)
    entered = _kernels(core).enter_rows(core.backend, table.arrays, table.fresh, log.ring, *rows)
    made.fresh, made.returned, made.newest = entered.fresh, entered.returned, entered.newest
    made.undo.append(partial(_take_out, core, entered))
    made.touched.append((entered.touched, True))
    if entered.bad:
        _refuse_weights(core, caller, values[WEIGHT])
    log.write({**values, ID: ids}, int(entering.src.shape[0]))


def _leave(core: EventCore, made: _Change, rows: Array) -> tuple[int, int]:
    """Take events out of the records of their pairs; return how many there are, and how many rows are negative."""
    if not rows.shape[0]:
        return 0, 0
    table, log = core.events.table, core.events.log
    left = _kernels(core).leave_rows(core.backend, table.arrays, log.ring, rows)
    made.undo.append(partial(_kernels(core).restore_records, table.arrays, log.ring, left.touched, left.rows))
    made.touched.append((left.touched, False))
    made.left.append(left.rows)
    made.gone.append(left.gone)
    return int(left.rows.shape[0]), left.missing


def _take_out(core: EventCore, entered: Entered) -> None:
    """Take back that events came; nothing shows their rows."""
    table, log = core.events.table, core.events.log
    table.kernels.remove_records(table.arrays, entered.fresh)
    table.filled += int(entered.fresh.shape[0])
    _kernels(core).restore_records(table.arrays, log.ring, entered.touched, core.backend.nothing(np.int64))


def _refuse_weights(core: EventCore, caller: str, weights: Array) -> None:
    refuse_infinite(caller, core.backend, weights)
    raise InputError(f"{caller}: the weights of a pair sum to more than {weights.dtype} holds; wanted smaller ones")


def _exchange(
    core: EventCore,
    caller: str,
    made: _Change,
    renumbering: RenumberingPlan,
    entering: Entering | None,
    ids: tuple[int, bool],
    bound: int | None,
    drops: bool,
) -> UpdateReport:
    """Let pairs come and leave as their events do, end the version, and show the new events."""
    backend, xp, events = core.backend, core.backend.xp, core.events
    ids_of_vertices: Any = core.ids
    table, log, count = events.table, events.log, 0 if entering is None else int(entering.src.shape[0])
    gone = made.gone[0] if len(made.gone) == 1 else backend.nothing(np.int32)
    if len(made.gone) > 1:
        gone = xp.concatenate(made.gone)
    gone = gone[table.counts(gone) == 0] if made.returned else gone
    fresh = backend.nothing(np.int32) if made.fresh is None else made.fresh
    insertions = EdgeColumns(*table.ends(fresh), fresh.astype(core.vertex_dtype, copy=False), -1)
    deletions = EdgeColumns(*table.ends(gone), None, -1)

    def follow(plan: RenumberingPlan) -> Callable[[], None]:
        renumbered = table if plan.ranks is None else table.renumbered(plan.ranks, core.directed, fresh)
        simple: list[Any] = [graph.core for graph in list(core.simple.values())]
        core.following = [pairs.plan_update(made.touched, plan.ranks is not None) for pairs in simple]
        times = [time for time in (core.unit.newest, made.newest) if time is not None]
        write_ids = events.ids.plan_new(log, count, *ids)
        narrow = None if bound is None else log.plan_narrow(bound, count)
        release = renumbered.plan_release(gone, bool(events.holders))
        uses = None
        if drops or events.uses is not None:
            uses = events.uses_after(made.left, None if entering is None else (entering.src, entering.dst), plan)
        forget = ids_of_vertices.plan_forget(xp.nonzero(uses == 0)[0], plan.num_vertices) if drops else None

        def finish() -> None:
            events.table = renumbered
            renumbered.take(int(fresh.shape[0]))
            log.advance(count)
            log.num_events -= sum(int(rows.shape[0]) for rows in made.left)
            core.unit.newest = max(times, default=None)
            write_ids()
            release()
            events.uses = uses
            if forget is not None:
                forget()
            if events.holders:
                events.bury(made.left)
            if narrow is not None:
                narrow()

        return finish

    return exchange(core, caller, Exchange(deletions, insertions, renumbering, follow=follow))


def _kernels(core: EventCore) -> Any:
    """Return those of rows that come and leave."""
    return core.backend.kernels("dynstore.graph.events", "rows")
