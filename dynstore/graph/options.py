"""Parameters of a graph: which there are, for messages about others; those that are checked here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from inspect import signature
from typing import TYPE_CHECKING, Any

from dynstore.arguments import check_dtype
from dynstore.errors import InputError, InputTypeError, type_name, unknown_parameters

if TYPE_CHECKING:
    import numpy as np

    from dynstore.stores.base import Store

__all__ = ["check_edge_columns", "refuse_unknown"]

DTYPES = (*(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "float32", "float64")
RESERVED = ("source", "destination", "weight")


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
