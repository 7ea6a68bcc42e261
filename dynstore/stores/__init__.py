"""The structures that hold a graph, behind one interface; looked up by name."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dynstore.errors import unknown_name

if TYPE_CHECKING:
    from dynstore.stores.base import Store

__all__ = ["AUTO", "STORES", "choose_store", "get_store", "stores_of"]

# name -> (module, class)
STORES = {
    "adjlists": ("dynstore.stores.adjlists.store", "AdjListsStore"),
    "gpma": ("dynstore.stores.gpma.store", "GPMAStore"),
    "gpma+": ("dynstore.stores.gpma_plus.store", "GPMAPlusStore"),
    "graphvine": ("dynstore.stores.graphvine.store", "GraphVineStore"),
    "lpma": ("dynstore.stores.lpma.store", "LPMAStore"),
    "merge": ("dynstore.stores.merge.store", "MergeStore"),
    "pma": ("dynstore.stores.pma_sequential.store", "PMAStore"),
    "rebuild": ("dynstore.stores.rebuild.store", "RebuildStore"),
    "slab_hash": ("dynstore.stores.slab_hash.store", "SlabHashStore"),
}

AUTO = "auto"
# Up to so many entries a copy of everything on the host is faster than touching a part: docs/choosing-a-store.md.
SMALL = 1 << 18


def choose_store(name: str, family: str, capacity: int) -> str:
    """Return the name of the store that is meant; "auto" follows ``docs/choosing-a-store.md``.

    Parameters
    ----------
    name : str
    family : {"cpu", "cuda"}
    capacity : int
        Entries to reserve, 0 where nobody said.
    """
    if name != AUTO:
        return name
    return "merge" if family == "cpu" and 0 < capacity <= SMALL else "gpma+"


def get_store(name: str) -> type[Store]:
    """Return the class of a store.

    Raises
    ------
    InputError
        For a name that does not exist, with the list of those that do.
    """
    if name not in STORES:
        raise unknown_name("DynamicGraph", "store", name, [*STORES, AUTO])
    module, attribute = STORES[name]
    store: Any = getattr(importlib.import_module(module), attribute)
    return store


def stores_of(family: str) -> list[str]:
    """Return the names of the stores with kernels for a family of backends, "cpu" or "cuda"."""
    return [name for name in sorted(STORES) if family in get_store(name).families]
