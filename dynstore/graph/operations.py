"""Insertions, deletions and queries in one batch: answered in order of time, written as one version."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.errors import InputError, LimitError
from dynstore.graph.events.changing import change
from dynstore.graph.events.reading import Entering, GivenEvents, find_all, read_rows
from dynstore.graph.exchanges import Exchange, exchange
from dynstore.graph.insertions import Request, fill_weights, with_weights
from dynstore.graph.recording import record, take_extra_columns
from dynstore.graph.transaction import Transaction
from dynstore.ids.base import RenumberingPlan
from dynstore.ids.hash_table import pair_keys
from dynstore.input.columns import EdgeColumns
from dynstore.input.frames import frame_library, make_frame
from dynstore.operations.history import MOST_BITS, History, Neighbors, Writes, search
from dynstore.operations.reading import OperationTable
from dynstore.operations.results import Operation, OperationResults
from dynstore.typing import UpdateReport

if TYPE_CHECKING:
    from dynstore.graph.core import GraphCore
    from dynstore.ids.base import Names
    from dynstore.typing import Array, Frame

__all__ = ["Inserted", "Script", "apply"]

CALLER = "apply"
# What messages name whose row numbers count these rows only.
INSERTIONS = "apply, among the insertions"
OTHERS = "apply, among the deletions and queries"


class Inserted(NamedTuple):
    """The insertions of a batch, in order of rows.

    Attributes
    ----------
    rows : array, shape (I,), int64
        Their numbers in the batch.
    columns : EdgeColumns
    extra : dict of arrays, or None
        The extra columns of edges.
    renumbering : RenumberingPlan
    entering : Entering or None
        In a multigraph, the edges with all that they have.
    """

    rows: Array
    columns: EdgeColumns
    extra: dict[str, Array] | None
    renumbering: RenumberingPlan
    entering: Entering | None = None


class Script(NamedTuple):
    """A batch of operations under the numbers of vertices that it leads to.

    Attributes
    ----------
    table : OperationTable
    inserted : Inserted
    src, dst : array, shape (B,), int64
        Numbers by row; those that a row does not need are 0. Ids that are no vertices have numbers from V on.
    limits : array, shape (B,), int64
        The most hops.
    writes : Writes
    places : array, shape (W,), int64
        Where the values of each write are among those inserted; -1 for a deletion.
    bits : int
        All of ``src`` and ``dst`` are below ``2**bits``.
    """

    table: OperationTable
    inserted: Inserted
    src: Array
    dst: Array
    limits: Array
    writes: Writes
    places: Array
    bits: int


def apply(
    core: GraphCore,
    ops: Any,
    op: str,
    time: str | None,
    names: Names,
    k: str,
    default_weight: float | None,
) -> OperationResults:
    """Run insertions, deletions and queries in order of time; see :meth:`dynstore.DynamicGraph.apply`.

    ``names``: the columns source, destination, and weight or None.
    """
    with core.lock, Transaction(core, CALLER):
        table = OperationTable(CALLER, core.backend, ops, op, time)
        inserted = _read_insertions(core, table, names, time, default_weight)
        script = _read_script(core, table, inserted, (*names[:2], k))
        history = _history(core, script)
        if core.shows_events:
            events: Any = core
            answers = _answers(events.of_pairs(), script, history)
            return OperationResults(_run_events(events, script), *answers)
        answers = _answers(core, script, history)
    return OperationResults(_run_writes(core, script, history), *answers)


# ---------------------------------------------------------------------- reading


def _read_insertions(
    core: GraphCore,
    table: OperationTable,
    names: tuple[str, str, str | None],
    time: str | None,
    default_weight: float | None,
) -> Inserted:
    source, destination, weight = names
    rows = table.rows_of(Operation.INSERT)
    edges: tuple[Any, ...] = ([], [], []) if core.weighted else ([], [])
    more: list[Any] = []
    times: Any = None
    if core.timestamps is not None:
        if time is None:
            raise InputError(f"{CALLER}: time is None, and the graph keeps times; wanted the name of their column")
        times = table.values("time", time, rows)
    if rows.shape[0]:
        edges = table.values("source", source, rows), table.integers("destination", destination, rows)
        if weight is None and core.weighted and "weight" in table.names:
            weight = "weight"
        if weight is not None:
            edges = *edges, table.values("weight", weight, rows)
        others = list(core.edge_dtypes)[: -1 if times is not None else None]  # times are the last
        more = [table.values("edge_columns", name, rows) for name in others]
    if core.shows_events:
        given = GivenEvents((*edges, *more), (source, destination, None), times, None, default_weight)
        events: Any = core
        entering, renumbering, _ = read_rows(events, INSERTIONS, given)
        columns = EdgeColumns(entering.src, entering.dst, None, None)
        return Inserted(rows, columns, None, renumbering, entering)
    edges, extra = take_extra_columns(core, INSERTIONS, (*edges, *more), (source, destination, None), times)
    request = Request(INSERTIONS, edges, ("source", "destination", None), core.stored_weights).opened(core)
    columns, renumbering = core.ids.plan_edges(*with_weights(core, request), core.num_vertices)
    renumbering.read_from = edges[:2]
    return Inserted(rows, fill_weights(core, CALLER, columns, default_weight), extra, renumbering)


def _read_script(core: GraphCore, table: OperationTable, inserted: Inserted, names: tuple[str, str, str]) -> Script:
    source, destination, k = names
    backend, xp, count = core.backend, core.backend.xp, table.kinds.shape[0]
    src, dst, limits = (backend.zeros(count, np.int64) for _ in range(3))
    src[inserted.rows], dst[inserted.rows] = inserted.columns.src, inserted.columns.dst
    others = table.rows_of(*(kind for kind in Operation if kind != Operation.INSERT))
    pairs = table.rows_of(Operation.DELETE, Operation.HAS_EDGE)
    if others.shape[0]:
        columns = [(source, table.values("source", source, others))]
        if pairs.shape[0]:
            columns.append((destination, table.integers("destination", destination, pairs)))
        found = core.ids.find_planned(OTHERS, columns, core.num_vertices, inserted.renumbering)
        src[others] = found[0]
        if pairs.shape[0]:
            dst[pairs] = found[1]
    hops = table.rows_of(Operation.K_HOP)
    if hops.shape[0]:
        limits[hops] = table.counts("k", k, hops)
    rows = table.rows_of(Operation.INSERT, Operation.DELETE)
    rows = rows[xp.argsort(table.timestamps[rows])]
    inserts = table.kinds[rows] == int(Operation.INSERT)
    writes = Writes(src[rows], dst[rows], table.timestamps[rows], inserts)
    places = xp.where(inserts, search(xp, inserted.rows, rows), -1)
    highest = max(inserted.renumbering.num_vertices, *(int(ends.max()) if count else 0 for ends in (src, dst)))
    bits = highest.bit_length()
    if max(bits, int(count).bit_length()) > MOST_BITS:
        raise LimitError(
            f"{CALLER}: {highest} vertices and {count} operations; wanted at most {(1 << MOST_BITS) - 1} of each"
        )
    return Script(table, inserted, src, dst, limits, writes, places, bits)


# ---------------------------------------------------------------------- answering


def _history(core: GraphCore, script: Script, transposed: bool = False) -> History:
    num_timestamps = max(1, script.table.kinds.shape[0])
    return History(core.backend, script.writes, num_timestamps, script.bits, transposed, not core.directed)


def _answers(core: GraphCore, script: Script, history: History) -> list[Frame]:
    frames = [_edge_answers(core, script, history), _row_answers(core, script, history, Operation.SUCCESSORS)]
    into = history
    if core.directed and script.table.rows_of(Operation.PREDECESSORS).shape[0]:
        into = _history(core, script, transposed=True)
    frames.append(_row_answers(core, script, into, Operation.PREDECESSORS))
    return [*frames, _hop_answers(core, script, history)]


def _edge_answers(core: GraphCore, script: Script, history: History) -> Frame:
    rows = script.table.rows_of(Operation.HAS_EDGE)
    src, dst = script.src[rows], script.dst[rows]
    exists = core.backend.zeros(rows.shape[0], np.bool_)
    if rows.shape[0]:
        before, _ = core.out.look_up(_in_dtype(core, src), _in_dtype(core, dst))
        exists = history.edges_at(src, dst, script.table.timestamps[rows], before)
    return make_frame(core.backend, {"query": rows, "exists": exists}, core.frames)


def _row_answers(core: GraphCore, script: Script, history: History, kind: Operation) -> Frame:
    rows = script.table.rows_of(kind)
    near = Neighbors(*(core.backend.nothing(np.int64),) * 4)
    stored: Array | None = None
    if rows.shape[0]:
        slots = core.oriented(kind == Operation.PREDECESSORS).slots
        stored = slots.weights
        near = history.neighbors_at(slots, script.src[rows], script.table.timestamps[rows], core.weighted)
    weights = {"weight": _weights_at(core, script, near, stored)} if core.weighted else {}
    return _frame_of(core, script, rows[near.owners], near.numbers, weights)


def _weights_at(core: GraphCore, script: Script, near: Neighbors, stored: Array | None) -> Array:
    """Return the weights of neighbours; ``stored``: what the slots have as weights."""
    weights = core.backend.empty(near.slots.shape[0], core.weight_dtype)
    held, fresh = near.slots >= 0, near.writes >= 0
    given = script.inserted.columns.weights
    if stored is not None and stored.shape[0]:
        weights[held] = core.weights_of(stored[near.slots[held]])
    if given is not None and given.shape[0]:
        weights[fresh] = given[script.places[near.writes[fresh]]]
    return weights


def _hop_answers(core: GraphCore, script: Script, history: History) -> Frame:
    rows = script.table.rows_of(Operation.K_HOP)
    rows = rows[_are_vertices(core, script, rows)] if rows.shape[0] else rows
    found = (core.backend.empty(0, np.int64),) * 3
    if rows.shape[0]:
        begins, timestamps = script.src[rows], script.table.timestamps[rows]
        slots, limits = core.out.slots, script.limits[rows]
        kernels = core.backend.kernels("dynstore.operations")
        found = kernels.find_hops(core.backend, history, slots, rows, begins, timestamps, limits)
    asked, numbers, distances = found
    distances = distances.astype(core.vertex_dtype, copy=False)
    return _frame_of(core, script, asked, numbers, {"distance": distances})


def _are_vertices(core: GraphCore, script: Script, rows: Array) -> Array:
    """Return whether the source of each row is a vertex at its time."""
    xp, numbers = core.backend.xp, script.src[rows]
    renumbering, writes = script.inserted.renumbering, script.writes
    there = numbers < core.num_vertices
    if renumbering.numbers is not None:  # a new id may have a number below V
        there &= ~xp.isin(numbers, renumbering.numbers)
    timestamps = writes.timestamps[writes.inserts]
    ends = xp.concatenate((writes.src[writes.inserts], writes.dst[writes.inserts]))
    if not timestamps.shape[0]:
        return there
    order = xp.argsort(ends, kind="stable")
    ends, timestamps = ends[order], xp.concatenate((timestamps, timestamps))[order]
    if core.ids.renumbered:  # a vertex comes with its first insertion
        first = xp.lexsort(xp.stack((timestamps, ends)))
        ends, timestamps = ends[first], timestamps[first]
    else:  # a vertex comes with the first insertion of its id or a higher one
        timestamps = _running_least(core.backend, timestamps[::-1])[::-1]
    places = search(xp, ends, numbers)
    inside = xp.minimum(places, ends.shape[0] - 1)
    comes = places < ends.shape[0]
    if core.ids.renumbered:
        comes &= ends[inside] == numbers
    return there | (comes & (timestamps[inside] < script.table.timestamps[rows]))


def _frame_of(core: GraphCore, script: Script, queries: Array, numbers: Array, values: dict[str, Array]) -> Frame:
    """Make a frame of vertices that are sorted by the row that asked and by number; it is sorted by their ids."""
    backend, renumbering, before = core.backend, script.inserted.renumbering, core.num_vertices
    if core.ids.renumbered:
        xp = backend.xp
        known = xp.unique(numbers)
        places = backend.empty(renumbering.num_vertices, np.int64)
        if known.shape[0]:
            places[core.ids.planned_order(known, before, renumbering)] = xp.arange(known.shape[0])
        order = xp.argsort(queries << script.bits | places[numbers])
        queries, numbers = queries[order], numbers[order]
        values = {name: array[order] for name, array in values.items()}
    vertices = core.ids.planned_column(numbers, before, renumbering, frame_library(backend, core.frames))
    return make_frame(backend, {"query": queries, "vertex": vertices, **values}, core.frames)


def _in_dtype(core: GraphCore, numbers: Array) -> Array:
    """Return numbers in the vertex dtype; those of ids that are no vertices may get equal."""
    return core.backend.xp.minimum(numbers, np.iinfo(core.vertex_dtype).max).astype(core.vertex_dtype)


# ---------------------------------------------------------------------- writing


def _run_writes(core: GraphCore, script: Script, history: History) -> UpdateReport:
    """Write what the last operation on each edge leaves, as one version."""
    num_rows, inserted = int(script.writes.timestamps.shape[0]), script.inserted
    if not num_rows:
        return UpdateReport()
    with core.lock, Transaction(core, CALLER):
        src, dst, last = history.last_writes()
        if not core.directed:
            once = src <= dst
            src, dst, last = src[once], dst[once], last[once]
        num_edges, highest = int(last.shape[0]), (1 << script.bits) - 1
        stays = script.writes.inserts[last]
        src, dst = _in_dtype(core, src), _in_dtype(core, dst)
        places = script.places[last[stays]]
        given = inserted.columns.weights
        insertions = EdgeColumns(src[stays], dst[stays], None if given is None else given[places], highest)
        deletions = EdgeColumns(src[~stays], dst[~stays], None, highest)
        if inserted.extra is not None:
            extra = {name: array[places] for name, array in inserted.extra.items()}
            deleted = ~script.writes.inserts  # an edge that comes back has no older time
            ends = [_in_dtype(core, numbers[deleted]) for numbers in script.writes[:2]]
            gone = EdgeColumns(ends[0], ends[1], None, highest)
            insertions = record(core, CALLER, insertions, extra, deletions=gone)
    report = exchange(core, CALLER, Exchange(deletions, insertions, inserted.renumbering))
    return report._replace(duplicates=num_rows - num_edges)


def _run_events(core: Any, script: Script) -> UpdateReport:
    """Let the rows of a multigraph come that no later operation deletes; as one version.

    Ids are counted in the order in which the operations run.
    """
    xp, writes, entering = core.backend.xp, script.writes, script.inserted.entering
    assert entering is not None
    if not writes.timestamps.shape[0]:
        return UpdateReport()
    keys = pair_keys(xp, writes.src, writes.dst, core.directed)
    inserts = xp.nonzero(writes.inserts)[0]
    deletes = xp.nonzero(~writes.inserts)[0][::-1]  # the last one of a pair comes first
    gone, first = xp.unique(keys[deletes], return_index=True)
    stays = core.backend.full(inserts.shape[0], True, np.bool_)
    if gone.shape[0]:
        place = xp.minimum(search(xp, gone, keys[inserts]), gone.shape[0] - 1)
        last = writes.timestamps[deletes[first]][place]
        stays = (gone[place] != keys[inserts]) | (last < writes.timestamps[inserts])
    order = script.places[inserts]
    values = {name: column[order] for name, column in entering.values.items()}
    entering = entering._replace(src=entering.src[order], dst=entering.dst[order], values=values)
    src, dst = (_in_dtype(core, numbers[deletes[first]]) for numbers in (writes.src, writes.dst))
    named = EdgeColumns(src, dst, None, -1)
    with core.lock, Transaction(core, CALLER) as update:
        find = partial(find_all, core, named)
        report = change(update, find, entering.of(xp.nonzero(stays)[0]), script.inserted.renumbering)
    rows = report.inserted + int(gone.shape[0])
    return report._replace(duplicates=int(writes.timestamps.shape[0]) - rows)


def _running_least(backend: Any, values: Array) -> Array:
    """Return the least of the values up to each one."""
    least, step = values.copy(), 1
    while step < least.shape[0]:
        least[step:] = backend.xp.minimum(least[step:], least[:-step])
        step *= 2
    return least
