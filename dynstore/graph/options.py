"""Which options a graph has, for messages about those that it does not have."""

from __future__ import annotations

from dataclasses import fields
from difflib import get_close_matches
from inspect import signature
from typing import TYPE_CHECKING, Any

from dynstore.errors import unknown_name

if TYPE_CHECKING:
    from dynstore.stores.base import Store

__all__ = ["refuse_misspelt"]


def refuse_misspelt(graph: type, store: type[Store], given: dict[str, Any]) -> None:
    """Refuse a misspelt option of the graph; the store refuses all others that it does not have."""
    of_store = {field.name for field in fields(store.Options)}
    of_graph = [name for name in signature(graph).parameters if name != "store_options"]
    for name in given.keys() - of_store:
        if get_close_matches(name, of_graph, n=1, cutoff=0.75):
            raise unknown_name("DynamicGraph", "option", name, of_graph)
