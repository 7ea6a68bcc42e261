"""The rows of an update of events, as users give them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.errors import InputError, InputTypeError, shown
from dynstore.graph.events.layout import PAIR
from dynstore.graph.insertions import Request, fill_weights, with_weights
from dynstore.graph.recording import take_extra_columns
from dynstore.graph.records import TIME, WEIGHT
from dynstore.ids.hash_table import pair_keys
from dynstore.input.extra_columns import read_values
from dynstore.input.forms import (
    check_labels,
    check_lengths,
    column_names,
    is_frame,
    open_edges,
    split_columns,
    take_rows,
)
from dynstore.input.times import is_dated, read_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.backend import Backend
    from dynstore.graph.events.core import EventCore
    from dynstore.ids.base import Names, RenumberingPlan
    from dynstore.input.columns import EdgeColumns
    from dynstore.typing import Array

__all__ = [
    "WHICH",
    "Entering",
    "GivenDeletions",
    "GivenEvents",
    "Leaving",
    "find_all",
    "open_rows",
    "read_bound",
    "read_deletions",
    "read_edge_ids",
    "read_rows",
    "refuse_infinite",
    "rows_from",
]

WHICH = ("all", "oldest", "newest")
INT64 = np.dtype(np.int64)
PLAIN = ("source", "destination", None)


class GivenEvents(NamedTuple):
    """Rows to insert, as the user gives them; see :meth:`dynstore.DynamicGraph.insert_edges`."""

    rows: Any
    names: Names
    time: Any
    edge_id: Any
    default_weight: float | None


class GivenDeletions(NamedTuple):
    """What to delete, as the user names it; see :meth:`dynstore.DynamicGraph.delete_edges`."""

    edges: Any
    names: Names
    edge_ids: Any
    which: str


class Entering(NamedTuple):
    """Events to insert.

    Attributes
    ----------
    src, dst : arrays, shape (B,)
        Numbers of vertices.
    values : dict of arrays, shape (B,)
        The columns of the log, without its own.
    given : array, shape (N,), int64, or None
        The user's own ids of all rows.
    total : int
        All rows of the batch, N, from which ids are counted.
    places : array, shape (B,), int64, or None
        Which rows of the batch these are, where some are left out.
    """

    src: Array
    dst: Array
    values: dict[str, Array]
    given: Array | None
    total: int
    places: Array | None = None

    def of(self, rows: Array) -> Entering:
        """Return some of all rows."""
        values = {name: column[rows] for name, column in self.values.items()}
        return self._replace(src=self.src[rows], dst=self.dst[rows], values=values, places=rows)


class Leaving(NamedTuple):
    """Rows of the log that leave, and what a report says of them.

    Attributes
    ----------
    rows : array, int64
    absent, duplicates : int
        Of what has no rows here.
    ids : array, int64, or None
        Where events were named by ids, those: a row is negative where there is no event.
    """

    rows: Array
    absent: int = 0
    duplicates: int = 0
    ids: Array | None = None


def read_bound(core: EventCore, caller: str, name: str, value: Any) -> int:
    """Read the time before which events expire."""
    if core.timestamps is None:
        raise InputError(f"{caller}: the graph keeps no times; make it with timestamps='int64'")
    bound = read_time(caller, name, value)
    core.unit.check_time(caller, name, bound, is_dated(value))
    return bound


def read_rows(
    core: EventCore, caller: str, given: GivenEvents, bound: int | None = None
) -> tuple[Entering, RenumberingPlan, int]:
    """Read rows to insert.

    Returns
    -------
    entering : Entering
    renumbering : RenumberingPlan
    late : int
        Rows with times below the bound, which are left out; their ids make no vertices.
    """
    backend, edges = core.backend, open_rows(core, caller, given.rows, given.time)
    ids = read_edge_ids(core, caller, edges, given.edge_id)
    edges, extra = take_extra_columns(core, caller, edges, given.names, given.time)
    values: dict[str, Array] = extra or {}
    is_float = core.weighted and core.weight_dtype.kind == "f"
    request = Request(caller, edges, given.names, core.weight_dtype if is_float else None).opened(core)
    request = with_weights(core, request)
    weights: Array | None = None
    if core.weighted and not is_float:
        request, weights = _whole_weights(core, request, given.default_weight)
    columns = split_columns(caller, request.edges, request.names)
    check_lengths(caller, columns, {**values, **({} if ids is None else {"edge_id": ids})})
    late, rows = 0, None
    if bound is not None:
        rows = rows_from(backend, values[TIME], bound)
        late = 0 if rows is None else len(columns[0][1]) - len(rows)
    numbers, renumbering = core.ids.plan_edges(*request, core.num_vertices)  # late rows still have to be right
    if weights is not None:
        numbers.weights = weights
    numbers = fill_weights(core, caller, numbers, given.default_weight)
    if core.weighted:
        values = {WEIGHT: numbers.weights, **values}
    entering = Entering(numbers.src, numbers.dst, values, ids, len(numbers.src))
    if rows is not None:
        refuse_infinite(caller, backend, values.get(WEIGHT))
        entering = entering.of(rows)
        parts = take_rows(tuple(column for _, column in columns[:2]), rows)
        some, renumbering = core.ids.plan_edges(caller, parts, PLAIN, None, core.num_vertices)
        entering = entering._replace(src=some.src, dst=some.dst)
    return entering, renumbering, late


def rows_from(backend: Backend, times: Array, bound: int) -> Array | None:
    """Return the rows with times from a bound on; None if these are all."""
    if not times.shape[0] or int(times.min()) >= bound:
        return None
    rows: Array = backend.xp.nonzero(times.astype(INT64) >= bound)[0]
    return rows


def refuse_infinite(caller: str, backend: Backend, weights: Array | None) -> None:
    """Refuse weights that have no sum."""
    if weights is not None and weights.dtype.kind == "f":
        bad = ~backend.xp.isfinite(weights)
        if bool(bad.any()):
            row = int(bad.argmax())
            raise InputError(
                f"{caller}: `weight` is {float(weights[row])} at row {row}; wanted a finite number, for the sums"
            )


def open_rows(core: EventCore, caller: str, rows: Any, time: Any) -> Any:
    """Return rows of which all columns can be read, one after another."""
    names = [name for name in core.edge_dtypes if name != TIME]
    if core.timestamps is not None and (time is None or isinstance(time, str)):
        names.append(time or TIME)
    return open_edges(caller, rows, names)


def read_edge_ids(core: EventCore, caller: str, edges: Any, edge_id: Any) -> Array | None:
    """Return the user's own ids of rows, None if none are given."""
    if edge_id is None:
        return None
    if isinstance(edge_id, str):
        if not is_frame(edges):
            raise InputError(
                f"{caller}: edge_id={edge_id!r} names a column, but edges is no frame; wanted edge_id=<array>"
            )
        check_labels(caller, column_names(edges), [edge_id], "")
        return read_values(caller, core.backend, edge_id, edges[edge_id], INT64)
    return read_values(caller, core.backend, "edge_id", edge_id, INT64)


def _whole_weights(core: EventCore, request: Request, default: float | None) -> tuple[Request, Array | None]:
    """Return a request without weights, and these as integers: floats in between would round them."""
    caller = request.caller
    if default is not None and default != int(default):
        raise InputError(
            f"{caller}: default_weight is {default}; wanted a whole number, as weights are {core.weight_dtype}"
        )
    columns, weights = split_columns(caller, request.edges, request.names), None
    if len(columns) > 2:
        weights = read_values(caller, core.backend, *columns[2], core.weight_dtype)
    return request._replace(edges=(columns[0][1], columns[1][1]), names=PLAIN), weights


def read_deletions(core: EventCore, caller: str, given: GivenDeletions) -> Callable[[], Leaving]:
    """Read what to delete; return what finds the rows of the log, which may be called after others have left."""
    if not isinstance(given.which, str) or given.which not in WHICH:
        raise InputError(f"{caller}: which is {shown(given.which)}; wanted 'all', 'oldest' or 'newest'")
    if given.edge_ids is not None:
        if given.edges is not None:
            raise InputError(f"{caller}: edges and edge_ids were given; wanted one of them")
        if given.which != "all":
            raise InputError(f"{caller}: which is {given.which!r}, but edge_ids name single edges; leave it out")
        wanted = read_values(caller, core.backend, "edge_ids", given.edge_ids, INT64)
        return lambda: Leaving(core.find_ids(wanted), ids=wanted)
    if given.edges is None:
        raise InputTypeError(f"{caller}: neither edges nor edge_ids were given; wanted one of them")
    request = Request(caller, given.edges, (*given.names[:2], None), None).opened(core)
    columns = core.ids.find_edges(*request, core.num_vertices)
    return lambda: find_all(core, columns) if given.which == "all" else _find_some(core, columns, given.which)


def _records_of(core: EventCore, columns: EdgeColumns) -> tuple[Array, Array]:
    """Return the record of each pair, and which pairs have events."""
    found = core.find_records(columns.src, columns.dst)
    there = found >= 0
    there[there] = core.pairs.counts(found[there]) > 0  # not if others have left in the same update
    return found, there


def find_all(core: EventCore, columns: EdgeColumns) -> Leaving:
    """Find all events of some pairs."""
    xp = core.backend.xp
    found, there = _records_of(core, columns)
    numbers, missing = xp.unique(found[there]), ~there
    keys = pair_keys(xp, columns.src[missing], columns.dst[missing], core.directed)
    absent = int(xp.unique(keys).shape[0]) if keys.shape[0] else 0
    named = absent + int(numbers.shape[0])
    return Leaving(core.rows_of_records(numbers), absent, int(found.shape[0]) - named)


def _find_some(core: EventCore, columns: EdgeColumns, which: str) -> Leaving:
    """Find for each row the oldest or the newest event of its pair that no other row has."""
    xp = core.backend.xp
    found, there = _records_of(core, columns)
    numbers, wanted = xp.unique(found[there], return_counts=True)
    rows = core.in_order(core.rows_of_records(numbers))
    rows = rows[xp.argsort(core.columns[PAIR][rows], kind="stable")]
    counts = core.pairs.counts(numbers)
    ends, places = xp.cumsum(counts), xp.arange(rows.shape[0], dtype=INT64)
    pair = xp.searchsorted(ends, places, side="right")  # of each row, the place of its pair
    rank = places - (ends - counts)[pair]
    if which == "newest":
        rank = counts[pair] - 1 - rank
    absent = int(xp.count_nonzero(~there)) + int(xp.maximum(wanted - counts, 0).sum())
    return Leaving(rows[rank < wanted[pair]], absent)
