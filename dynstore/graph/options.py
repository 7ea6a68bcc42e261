"""Which parameters a graph has, for messages about those that it does not have."""

from __future__ import annotations

from dataclasses import fields
from inspect import signature
from typing import TYPE_CHECKING, Any

from dynstore.errors import unknown_parameters

if TYPE_CHECKING:
    from dynstore.stores.base import Store

__all__ = ["refuse_unknown"]


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
