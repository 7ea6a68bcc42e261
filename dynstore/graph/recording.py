"""Insertions into a graph with extra columns: the columns become records, whose numbers go on as weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.errors import InputError
from dynstore.graph.records import TIME, WEIGHT
from dynstore.input import extra_columns
from dynstore.input.columns import EdgeColumns
from dynstore.input.forms import check_lengths

if TYPE_CHECKING:
    from dynstore.graph.core import GraphCore
    from dynstore.ids.base import Names
    from dynstore.typing import Array, OnDuplicate

__all__ = ["record", "take_extra_columns"]


def take_extra_columns(
    core: GraphCore, caller: str, edges: Any, names: Names, time: Any = None
) -> tuple[Any, dict[str, Array] | None]:
    """Return edges without their extra columns, and these; None for a graph that has none.

    ``time``: the column of times, or its name, where the graph keeps times.
    """
    if time is not None and core.timestamps is None:
        raise InputError(f"{caller}: time was given, but the graph keeps no times; make it with timestamps='int64'")
    dtypes = core.edge_dtypes
    if not dtypes:
        return edges, None
    timed, unit = core.timestamps is not None, core.time_unit
    check = None if unit is None or _is_repeating(core) else unit.check_times
    return extra_columns.take_extra_columns(caller, core.backend, edges, names, dtypes, timed, time, check)


def _is_repeating(core: GraphCore) -> bool:
    """Whether an update reads times again that were date-times when they were read first."""
    return core.journal is not None and core.journal.updating  # the record was made of the same times


def record(
    core: GraphCore,
    caller: str,
    columns: EdgeColumns,
    extra: dict[str, Array],
    on_duplicate: OnDuplicate = "replace",
    deletions: EdgeColumns | None = None,
    expired_before: int | None = None,
    expiring_before: int | None = None,
) -> EdgeColumns:
    """Write valid edges to records; return them with the records' numbers as weights.

    They are to be inserted with ``on_duplicate="replace"``, as sums are made here.

    Parameters
    ----------
    deletions : EdgeColumns, optional
        Edges that are deleted before.
    expired_before : int, optional
        Edges with times below it are deleted before, too.
    expiring_before : int, optional
        Edges with times below it are deleted afterwards: their rows are left out.

    Raises
    ------
    InputError
        If a column has another length.
    """
    assert core.records is not None
    check_lengths(caller, [("src", columns.src)], extra)
    values, weights = extra, columns.weights
    if weights is not None:
        if on_duplicate != "replace":
            weights = _sum_weights(core, columns, weights, deletions, expired_before)
        values = {WEIGHT: weights, **extra}
    newest = None
    if core.records.timed and len(columns.src):
        times, newest = _last_times(core, columns, extra[TIME], deletions)
        values = {**values, TIME: times}
        if expiring_before is not None:
            stays = times.astype(np.int64) >= expiring_before  # the bound may not fit int32
            if not stays.all():
                rows = core.backend.xp.nonzero(stays)[0]
                columns = EdgeColumns(columns.src[rows], columns.dst[rows], None, columns.max_id)
                values = {name: array[rows] for name, array in values.items()}
    stores = [core.out] if core.into is None else [core.out, core.into]
    with core.lock:
        numbers = core.records.append(values, stores, newest)
    return EdgeColumns(columns.src, columns.dst, numbers, columns.max_id)


def _sum_weights(
    core: GraphCore, columns: EdgeColumns, weights: Array, deletions: EdgeColumns | None, expired_before: int | None
) -> Array:
    """Return for each row the sum of its edge's weights: of all rows, and of the edge that is there."""
    assert core.records is not None
    if not len(columns.src):
        return weights
    mine, there, stored = _found(core, columns, deletions)
    if expired_before is not None:  # it may not fit int32
        there &= core.records.column(TIME, stored).astype(np.int64) >= expired_before
    with np.errstate(over="ignore"):  # a sum with the stored weight may be infinite
        sums = core.backend.xp.bincount(mine, weights=weights.astype(np.float64))[mine].astype(core.weight_dtype)
        return sums + core.backend.xp.where(there, core.records.weights(stored), core.weight_dtype.type(0))


def _last_times(
    core: GraphCore, columns: EdgeColumns, times: Array, deletions: EdgeColumns | None
) -> tuple[Array, int]:
    """Return a time for each row, and the greatest of the batch.

    The last row of an edge gets the greatest time of all its rows, and of the edge that is there.
    """
    assert core.records is not None
    xp, newest = core.backend.xp, core.records.newest
    falls = (times[1:] < times[:-1]).any().astype(times.dtype)
    first, highest, falls = core.backend.to_host(xp.stack((times[0], times.max(), falls))).tolist()
    if not falls and (newest is None or newest <= first):  # as in a stream: the last row has the greatest
        return times, highest
    mine, there, stored = _found(core, columns, deletions)
    if falls:
        order = xp.lexsort(xp.stack((times.astype(np.int64), mine)))
        ends = core.backend.empty(len(order), np.bool_)
        ends[-1:] = True
        ends[:-1] = mine[order][1:] != mine[order][:-1]
        greatest = core.backend.zeros(int(mine.max()) + 1, times.dtype)
        greatest[mine[order][ends]] = times[order][ends]
        times = greatest[mine]
    before = core.records.columns[TIME][xp.clip(stored, 0, core.records.size - 1)]
    return xp.where(there, xp.maximum(times, before), times), highest


def _found(core: GraphCore, columns: EdgeColumns, deletions: EdgeColumns | None) -> tuple[Array, Array, Array]:
    """Find the edges of some rows.

    Returns
    -------
    mine : array, shape (B,), int64
        A number for each row: rows of one edge have the same.
    there : array, shape (B,), bool
        Whether the edge is in the graph, and not among the ``deletions``.
    stored : array, shape (B,)
        The number of its record; any for absent edges.
    """
    backend, xp, count = core.backend, core.backend.xp, len(columns.src)
    src, dst = columns.src, columns.dst
    if deletions is not None:
        src, dst = (xp.concatenate(pair) for pair in ((src, deletions.src), (dst, deletions.dst)))
    if not core.directed:
        src, dst = xp.minimum(src, dst), xp.maximum(src, dst)
    order = xp.lexsort(xp.stack((dst, src)))
    src, dst = src[order], dst[order]
    begins = backend.zeros(len(order), np.int64)
    begins[1:] = (src[1:] != src[:-1]) | (dst[1:] != dst[:-1])
    edges = backend.empty(len(order), np.int64)  # of each row, the number of its edge
    edges[order] = xp.cumsum(begins)
    mine = edges[:count]
    there, stored = core.out.look_up(columns.src, columns.dst)
    if deletions is not None:
        gone = backend.zeros(len(order), np.bool_)
        gone[edges[count:]] = True
        there &= ~gone[mine]
    return mine, there, stored
