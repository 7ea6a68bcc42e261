"""Whether a record that was read can be an update of a graph; all of it is checked before anything is applied.

A record whose checksum is right may still be wrong: it was changed later, or by somebody who can write checksums. What
:mod:`dynstore.durable.records` has read is only a list of named columns. Public updates check the values in them once
more. Numbers of rows, which windows exchange, are checked here, as no update would.
"""

from __future__ import annotations

from functools import cache
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.durable.records import LoggedUpdate, RecordError
from dynstore.errors import InputError, shown
from dynstore.graph import DynamicGraph
from dynstore.graph.core import EXTRA as EDGE
from dynstore.graph.records import WEIGHT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "BOUNDS",
    "EDGE_IDS",
    "INSERTED",
    "NAMES",
    "OPTIONAL",
    "VERTICES",
    "check_change",
    "check_numbers",
    "is_exchange",
]

# The arguments that are batches of edges, and whether these are inserted.
INSERTED = {"edges": True, "insert": True, "delete": False}
# Those that name a frame's columns, or are one.
NAMES = ("source", "destination", "weight", "time")
# Those that are ids of edges of a multigraph: of rows that come, of edges that leave.
EDGE_IDS = ("edge_id", "edge_ids")
# Those that are logged only if they are not these; logs of before they were have none.
OPTIONAL: dict[str, Any] = {"which": "all", "drop_vertices": False}
# Those that are times; they are there if they are not None.
BOUNDS = ("before", "expire_before")
# Of an exchange that names no new ids: V afterwards.
VERTICES = "num_vertices"
ENDS = ("source", "destination")
# Updates that are always logged as exchanges of numbers.
EXCHANGES = ("slide", "apply")


def is_exchange(change: LoggedUpdate) -> bool:
    """Whether a change exchanges edges by the numbers of their rows."""
    return "leaving.source" in change.columns


@cache
def _parameters(kind: str) -> tuple[str, ...]:
    return tuple(list(signature(getattr(DynamicGraph, kind)).parameters)[1:])


def check_change(graph: DynamicGraph, change: LoggedUpdate) -> None:
    """Refuse a change that no update of the graph can have logged, by its names, dtypes and rows.

    Raises
    ------
    RecordError
    """
    if is_exchange(change):
        _check_exchange(graph, change)
        return
    if change.kind in EXCHANGES:
        raise RecordError(f"a {change.kind} has row numbers to exchange; it has the columns {_listed(change.columns)}")
    parameters = _parameters(change.kind)
    columns = (*INSERTED, *NAMES, *EDGE_IDS, "ids")
    plain = [name for name in parameters if name not in columns]
    for name in change.arguments:
        if name not in plain:
            raise RecordError(f"it has the argument {shown(name)}; a {change.kind} has {_listed(plain)}")
    for name in plain:
        if name not in change.arguments and name not in BOUNDS and name not in OPTIONAL:
            raise RecordError(f"it has no argument {name!r}, which a {change.kind} has")
    wanted, sources = [], []
    for argument in parameters:
        if argument == "ids":
            wanted.append("ids")
            sources.append("ids")
        elif argument in EDGE_IDS and argument in change.columns:
            wanted.append(argument)
            sources += ["edge_ids"] if argument == "edge_ids" else []
        elif f"{argument}.source" in change.columns or (argument == "edges" and "edge_ids" not in change.columns):
            wanted += _batch_columns(graph, change, argument)
            sources.append(f"{argument}.source")
    if list(change.columns) != wanted:
        raise RecordError(f"it has the columns {_listed(change.columns)}; wanted {_listed(wanted)}")
    for name, array in change.columns.items():
        _check_dtype(graph, name, array)
    _check_rows(change, sum(len(change.columns[name]) for name in sources))


def _batch_columns(graph: DynamicGraph, change: LoggedUpdate, argument: str) -> list[str]:
    """Return the names of the columns that a batch of edges has, in order."""
    names = [*ENDS]
    if INSERTED[argument] and change.kind != "delete_edges":
        if graph.is_weighted() and f"{argument}.{WEIGHT}" in change.columns:
            names.append(WEIGHT)
        names += [EDGE + name for name in graph.edge_dtypes]
    return [f"{argument}.{name}" for name in names]


def _check_rows(change: LoggedUpdate, rows: int) -> None:
    if change.rows != rows:
        raise RecordError(f"it has {rows} rows; its head says {change.rows}")


def _check_dtype(graph: DynamicGraph, name: str, array: np.ndarray) -> None:
    column = name.partition(".")[2]
    if name in EDGE_IDS:
        if array.dtype != np.int64:
            raise RecordError(f"`{name}` is {array.dtype}; wanted int64")
        return
    if column in ("", *ENDS):
        if array.dtype.kind not in "iuO":
            raise RecordError(f"`{name}` is {array.dtype}; wanted integers or strings")
        return
    wanted = graph.weight_dtype if column == WEIGHT else graph.edge_dtypes[column.removeprefix(EDGE)]
    if array.dtype != wanted:
        raise RecordError(f"`{name}` is {array.dtype}; wanted {wanted}")


# ---------------------------------------------------------------------- rows by numbers


def _check_exchange(graph: DynamicGraph, change: LoggedUpdate) -> None:
    columns, values = change.columns, []
    if graph.is_weighted() and f"arriving.{WEIGHT}" in columns:
        values.append(f"arriving.{WEIGHT}")
    values += [f"arriving.{EDGE}{name}" for name in graph.edge_dtypes]
    names_ids = VERTICES not in change.arguments
    entering = [f"entering.{end}" for end in ENDS] if names_ids else []
    deletions, insertions = ([f"{part}.{end}" for end in ENDS] for part in ("leaving", "arriving"))
    wanted = [*entering, *deletions, *insertions, *values]
    if list(columns) != wanted:
        raise RecordError(f"it has the columns {_listed(columns)}; wanted {_listed(wanted)}")
    if set(change.arguments) - {VERTICES}:
        raise RecordError(f"it has the arguments {_listed(change.arguments)}; wanted {VERTICES}, or none")
    for name in (*deletions, *insertions):
        if columns[name].dtype != graph.vertex_dtype:
            raise RecordError(f"`{name}` is {columns[name].dtype}; wanted {graph.vertex_dtype}")
    for name in (*entering, *values):
        _check_dtype(graph, name, columns[name])
    for names in (entering, deletions, [*insertions, *values]):
        _check_lengths(columns, names)
    if graph.is_weighted() and len(columns["arriving.source"]) and f"arriving.{WEIGHT}" not in columns:
        raise RecordError("the arriving edges have no weights, and the graph is weighted")
    if names_ids:
        _check_rows(change, len(columns["entering.source"]))
    else:
        _check_num_vertices(graph, change)


def _check_lengths(columns: Mapping[str, np.ndarray], names: Sequence[str]) -> None:
    for name in names:
        if len(columns[name]) != len(columns[names[0]]):
            raise RecordError(f"`{name}` has {len(columns[name])} rows; wanted {len(columns[names[0]])}")


def _check_num_vertices(graph: DynamicGraph, change: LoggedUpdate) -> None:
    """Refuse a number of vertices that an update of the graph does not bring about."""
    count, before = change.arguments[VERTICES], graph.number_of_vertices()
    if type(count) is not int or count < before or (count > before and graph.is_renumbered()):
        raise RecordError(f"{VERTICES} is {shown(count)}; the graph has {before}")
    if count > before:
        try:
            graph.core.ids.plan_vertices(change.kind, [count - 1], before)
        except InputError as error:
            raise RecordError(f"{VERTICES} is {count}; {error}") from error


def check_numbers(change: LoggedUpdate, num_vertices: int) -> None:
    """Refuse an exchange with numbers of vertices that are not there after it, or with weights that are none.

    Edges that leave may be unknown, but no number is negative.

    Raises
    ------
    RecordError
    """
    for part in ("leaving", "arriving"):
        for end in ENDS:
            name, numbers = f"{part}.{end}", change.columns[f"{part}.{end}"]
            bad = numbers < 0
            if part == "arriving":
                bad |= numbers >= num_vertices
            if bad.any():
                row = int(bad.argmax())
                raise RecordError(f"`{name}` has {numbers[row]} at row {row}; the graph has {num_vertices} vertices")
    weights = change.columns.get(f"arriving.{WEIGHT}")
    if weights is not None and np.isnan(weights).any():
        raise RecordError(f"`arriving.{WEIGHT}` is NaN at row {int(np.isnan(weights).argmax())}; wanted a number")


def _listed(names: Any) -> str:
    return ", ".join(map(str, names)) or "none"
