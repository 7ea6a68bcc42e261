"""The structures that hold a graph, behind one interface; looked up by name."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dynstore.errors import unknown_name

if TYPE_CHECKING:
    from dynstore.stores.base import Store

__all__ = ["STORES", "get_store", "stores_of"]

# name -> (module, class)
STORES = {
    "adjlists": ("dynstore.stores.adjlists", "AdjListsStore"),
    "gpma": ("dynstore.stores.gpma", "GPMAStore"),
    "gpma+": ("dynstore.stores.gpma_plus", "GPMAPlusStore"),
    "graphvine": ("dynstore.stores.graphvine", "GraphVineStore"),
    "lpma": ("dynstore.stores.lpma", "LPMAStore"),
    "merge": ("dynstore.stores.merge", "MergeStore"),
    "pma": ("dynstore.stores.pma", "PMAStore"),
    "rebuild": ("dynstore.stores.rebuild", "RebuildStore"),
    "slab_hash": ("dynstore.stores.slab_hash", "SlabHashStore"),
}


def get_store(name: str) -> type[Store]:
    """Return the class of a store.

    Raises
    ------
    InputError
        For a name that does not exist, with the list of those that do.
    """
    if name not in STORES:
        raise unknown_name("DynamicGraph", "store", name, STORES)
    module, attribute = STORES[name]
    store: Any = getattr(importlib.import_module(module), attribute)
    return store


def stores_of(family: str) -> list[str]:
    """Return the names of the stores with kernels for a family of backends, "cpu" or "cuda"."""
    return [name for name in sorted(STORES) if family in get_store(name).families]
