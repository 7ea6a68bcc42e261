"""Updates as records, and back: what a call of one of the graph's methods was given, as columns on the host."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.backend import get_backend
from dynstore.durable.checking import (
    BOUNDS,
    EDGE_IDS,
    INSERTED,
    NAMES,
    OPTIONAL,
    VERTICES,
    check_change,
    check_numbers,
    is_exchange,
)
from dynstore.durable.records import LoggedUpdate
from dynstore.errors import InputError
from dynstore.graph.core import EXTRA as EDGE
from dynstore.graph.events.reading import open_rows, read_edge_ids
from dynstore.graph.exchanges import Exchange, exchange
from dynstore.graph.insertions import Request, with_weights
from dynstore.graph.recording import record, take_extra_columns
from dynstore.graph.records import WEIGHT
from dynstore.ids.base import RenumberingPlan
from dynstore.ids.columns import Keys, StringKeys, read_keys
from dynstore.input.columns import EdgeColumns, read_numbers
from dynstore.input.extra_columns import read_values
from dynstore.input.forms import check_names, on_gpu, open_edges, split_columns
from dynstore.input.times import read_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dynstore.graph import DynamicGraph

__all__ = ["as_change", "exchange_as_change", "make_change"]

ENDS = ("source", "destination", None)
INT32, INT64 = np.iinfo(np.int32), np.dtype(np.int64)


def as_change(graph: DynamicGraph, kind: str, given: Mapping[str, Any]) -> tuple[LoggedUpdate, dict[str, Any]]:
    """Read the arguments of an update.

    Parameters
    ----------
    graph : DynamicGraph
    kind : str
        The method's name.
    given : mapping
        Its arguments by name.

    Returns
    -------
    change : Change
    arguments : dict
        Those to call the method with. Edges that can be read only once were read.

    Raises
    ------
    InputError
        For what cannot be read.
    """
    change, arguments = LoggedUpdate(kind), dict(given)
    for name, value in given.items():
        if name in INSERTED and value is not None:
            inserted = INSERTED[name] and kind != "delete_edges"
            arguments |= _read_edges(graph, change, name, given, inserted)
        elif name in EDGE_IDS:
            if arguments[name] is not None:  # those of a frame's column were read with the frame
                arguments[name] = read_values(kind, graph.core.backend, name, arguments[name], INT64)
                change.columns[name] = graph.core.backend.to_host(arguments[name])
                change.rows += len(arguments[name]) if name == "edge_ids" else 0
        elif name in OPTIONAL:
            if value != OPTIONAL[name]:
                change.arguments[name] = value
        elif name == "ids":
            change.columns[name] = _read_ids(graph, kind, name, value)
            change.rows = len(change.columns[name])
        elif name in BOUNDS and value is not None:
            with suppress(InputError):  # what is no time is refused by the update itself
                value = read_time(kind, name, value)
            change.arguments[name] = value
        elif name not in (*NAMES, *INSERTED):
            change.arguments[name] = value.item() if isinstance(value, np.generic) else value
    return change, arguments


def make_change(graph: DynamicGraph, change: LoggedUpdate) -> None:
    """Make a graph's update anew.

    Raises
    ------
    RecordError
        For a change that no update of this graph can have logged; nothing is changed then.
    InputError
        If the graph refuses the update.
    """
    check_change(graph, change)
    if is_exchange(change):
        _exchange(graph, change)
        return
    arguments = dict(change.arguments)
    for name, array in change.columns.items():
        argument, _, column = name.partition(".")
        if column:
            arguments[argument] = (*arguments.get(argument, ()), array)
        else:
            arguments[argument] = array
    getattr(graph, change.kind)(**arguments)


def _read_edges(
    graph: DynamicGraph, change: LoggedUpdate, argument: str, given: Mapping[str, Any], inserted: bool
) -> dict[str, Any]:
    """Read a batch of edges into columns of a change; return the arguments with which it can be read again."""
    caller = change.kind
    names = given["source"], given["destination"], given.get("weight") if inserted else None
    check_names(caller, names)
    edges, extra, more = on_gpu(graph.core.backend, given[argument]), None, {}
    core: Any = graph.core
    if inserted and core.shows_events:
        edges = open_rows(core, caller, edges, given.get("time"))
        more["edge_id"] = read_edge_ids(core, caller, edges, given.get("edge_id"))
    if inserted:
        edges, extra = take_extra_columns(graph.core, caller, edges, names, given.get("time"))
    edges = open_edges(caller, edges)
    if inserted:
        names = with_weights(graph.core, Request(caller, edges, names, graph.core.stored_weights)).names
    columns = split_columns(caller, edges, names)
    keys = [read_keys(caller, get_backend("cpu"), *column) for column in columns[:2]]
    read = {name: _as_array(graph, key) for name, key in zip(("source", "destination"), keys, strict=True)}
    if graph.is_renumbered() and isinstance(edges, tuple):  # strings are checked one by one, so they are read once
        ends = zip(keys, edges[:2], strict=True)
        edges = (*(key if isinstance(key, StringKeys) else given_ids for key, given_ids in ends), *edges[2:])
    if len(columns) > 2 and inserted:
        weights = read_numbers(caller, get_backend("cpu"), *columns[2])
        with np.errstate(over="ignore"):
            read[WEIGHT] = np.ascontiguousarray(weights, graph.weight_dtype)
    read |= {EDGE + name: graph.core.backend.to_host(array) for name, array in (extra or {}).items()}
    change.columns |= {f"{argument}.{name}": array for name, array in read.items()}
    change.rows += len(read["source"])
    if not extra or not isinstance(edges, tuple):
        return {argument: edges, **more}
    if "time" in given:
        more["time"] = None  # times come last
    return {argument: (*edges, *extra.values()), **more}


def _read_ids(graph: DynamicGraph, caller: str, name: str, column: Any) -> np.ndarray:
    return _as_array(graph, read_keys(caller, get_backend("cpu"), name, column))


def _as_array(graph: DynamicGraph, keys: Keys) -> np.ndarray:
    """Return ids as they were given; where rows have int32 numbers, int64 ids that fit are narrowed."""
    if isinstance(keys, StringKeys):
        return keys.all()
    ids = np.ascontiguousarray(keys)
    narrow = not graph.is_renumbered() and graph.vertex_dtype == np.int32 and ids.dtype.itemsize == 8 and len(ids)
    if narrow and INT32.min <= ids.min() and ids.max() <= INT32.max:
        return ids.astype(np.int32)
    return ids


# ---------------------------------------------------------------------- rows by numbers, as windows exchange them


def exchange_as_change(
    graph: DynamicGraph, kind: str, renumbering: RenumberingPlan, deletions: EdgeColumns, insertions: EdgeColumns
) -> LoggedUpdate:
    """Return an exchange as a change: numbers of edges to delete and to insert, and the ids that the plan has read.

    New ids get the same numbers again if the same rows are read, so the numbers are right then, too. Where there are
    none, the number of vertices is enough.
    """
    read = renumbering.read_from
    assert read is not None
    arguments, columns = {VERTICES: renumbering.num_vertices}, {}
    if not renumbering.keeps_ids:
        ends = [_read_ids(graph, kind, name, column) for name, column in zip(("src", "dst"), read, strict=True)]
        arguments, columns = {}, {"entering.source": ends[0], "entering.destination": ends[1]}
    moved = {"leaving.source": deletions.src, "leaving.destination": deletions.dst}
    moved |= {"arriving.source": insertions.src, "arriving.destination": insertions.dst}
    stored, records = insertions.weights, graph.core.records
    if stored is not None:
        values = {WEIGHT: stored} if records is None else records.values(stored)
        moved |= {f"arriving.{name if name == WEIGHT else EDGE + name}": array for name, array in values.items()}
    columns |= zip(moved, graph.core.backend.all_to_host(*moved.values()), strict=True)
    return LoggedUpdate(kind, len(read[0]), arguments, columns)


def _exchange(graph: DynamicGraph, change: LoggedUpdate) -> None:
    kind, columns = change.kind, change.columns
    if VERTICES in change.arguments:
        renumbering = RenumberingPlan(change.arguments[VERTICES])
    else:
        entering = columns["entering.source"], columns["entering.destination"]
        _, renumbering = graph.core.ids.plan_edges(kind, entering, ENDS, None, graph.number_of_vertices())
    check_numbers(change, renumbering.num_vertices)

    def brought(name: str) -> Any:
        array = columns.get(name)
        return None if array is None else graph.core.backend.asarray(array)

    deletions = EdgeColumns(brought("leaving.source"), brought("leaving.destination"), None, -1)
    weights = brought(f"arriving.{WEIGHT}")
    insertions = EdgeColumns(brought("arriving.source"), brought("arriving.destination"), weights, -1)
    if graph.edge_dtypes:
        extra = {name: brought(f"arriving.{EDGE}{name}") for name in graph.edge_dtypes}
        # These are the last times already.
        insertions = record(graph.core, kind, insertions, extra, deletions=insertions)
    exchange(graph.core, kind, Exchange(deletions, insertions, renumbering))
