"""Parameters of a graph: which there are, for messages about others; those that are checked here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from inspect import signature
from typing import TYPE_CHECKING, Any

from dynstore.arguments import check_count, check_dtype, check_integer
from dynstore.errors import InputError, InputTypeError, type_name, unknown_parameters
from dynstore.graph.events.layout import OWN
from dynstore.graph.records import TIME

if TYPE_CHECKING:
    import numpy as np

    from dynstore.stores.base import Store

__all__ = ["check_edge_columns", "check_multigraph", "check_timestamps", "extra_names", "options_of", "refuse_unknown"]

DTYPES = (*(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "float32", "float64")
TIME_DTYPES = ("int32", "int64")
RESERVED = ("source", "destination", "weight")


def check_timestamps(caller: str, dtype: Any, store: str, columns: Any) -> dict[str, np.dtype]:
    """Return the dtype of the column of times by its name, nothing for None; refuse what is none."""
    if dtype is None:
        return {}
    if store != "gpma+":
        raise InputError(f"{caller}: timestamps needs store='gpma+'; got store={store!r}")
    if isinstance(columns, Mapping) and TIME in columns:
        raise InputError(
            f"{caller}: edge_columns has the name {TIME!r}, which timestamps={dtype!r} uses; wanted another"
        )
    return {TIME: check_dtype(caller, "timestamps", dtype, TIME_DTYPES)}


def check_edge_columns(caller: str, columns: Any, store: str) -> dict[str, np.dtype]:
    """Return the dtypes of extra columns by name; refuse what are none."""
    if columns is None:
        return {}
    if not isinstance(columns, Mapping):
        raise InputTypeError(
            f"{caller}: edge_columns is a {type_name(columns)}; wanted a dict of names and dtypes, such as "
            '{"id": "int64"}'
        )
    for name in columns:
        if not isinstance(name, str) or not name or name in RESERVED:
            raise InputError(
                f"{caller}: edge_columns has the name {name!r}; wanted strings other than "
                "'source', 'destination' and 'weight'"
            )
    if columns and store != "gpma+":
        raise InputError(f"{caller}: edge_columns needs store='gpma+'; got store={store!r}")
    return {name: check_dtype(caller, f"edge_columns[{name!r}]", dtype, DTYPES) for name, dtype in columns.items()}


def check_multigraph(
    caller: str,
    multigraph: bool,
    memory: Any,
    first_id: Any,
    vertex_dtype: np.dtype,
    store: type[Store],
    dtypes: Mapping[str, Any],
) -> int | None:
    """Return the limit of memory for events; refuse what a multigraph cannot have yet."""
    limit = check_count(caller, "event_memory", memory, least=1)
    check_integer(caller, "first_edge_id", first_id)
    if not multigraph:
        for name, given in (("event_memory", limit is not None), ("first_edge_id", first_id != 0)):
            if given:
                raise InputError(f"{caller}: {name} needs multigraph=True; got multigraph=False")
        return None
    if store.name != "gpma+":
        raise InputError(f"{caller}: multigraph=True needs store='gpma+'; got store={store.name!r}")
    if vertex_dtype.itemsize != 4:
        raise InputError(f"{caller}: multigraph=True needs vertex_dtype='int32'; got {str(vertex_dtype)!r}")
    taken = [name for name in dtypes if name in OWN]
    if taken:
        raise InputError(f"{caller}: edge_columns has the name {taken[0]!r}, which a multigraph uses; wanted another")
    return limit


def options_of(origin: dict[str, Any], names: list[Any]) -> dict[str, Any]:
    """Return the options of the graph that has made a table, for what there is of it.

    Parts of a table keep the mark of the whole; the columns that were dropped are not wanted.

    Parameters
    ----------
    origin : dict
        The options in the mark.
    names : list
        The columns that are there.
    """
    options = dict(origin)
    if options.get("edge_columns"):
        options["edge_columns"] = {name: dtype for name, dtype in origin["edge_columns"].items() if name in names}
    if options.get("timestamps") and TIME not in names:
        del options["timestamps"]
    return options


def extra_names(options: dict[str, Any], time: Any) -> list[str]:
    """Return the columns with which rows and tuples of edges end; ``time``: as :meth:`DynamicGraph.insert_edges`."""
    columns = options.get("edge_columns")
    names = list(columns) if isinstance(columns, Mapping) else []
    return [*names, TIME] if options.get("timestamps") and (time is None or isinstance(time, str)) else names


def refuse_unknown(graph: Any, store: type[Store], given: dict[str, Any]) -> None:
    """Refuse what is no option of the store. ``given``: what is no parameter of the graph.

    Parameters of ``from_edges`` are named in the message, too: what that does not know comes here.
    """
    of_store = [field.name for field in fields(store.Options)]
    unknown = [name for name in given if name not in of_store]
    if unknown:
        known = {"": _parameters(graph), f"store {store.name!r}": of_store, "from_edges": _parameters(graph.from_edges)}
        raise unknown_parameters("DynamicGraph", unknown, known)


def _parameters(function: Any) -> list[str]:
    """Return the parameters that can be left out."""
    return [name for name, each in signature(function).parameters.items() if each.default is not each.empty]
