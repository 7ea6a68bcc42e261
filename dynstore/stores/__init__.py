"""The structures that hold a graph, behind one interface; looked up by name."""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any

from dynstore.arguments import check_name

if TYPE_CHECKING:
    from dynstore.stores.base import Store

__all__ = ["AUTO", "STORES", "choose_store", "get_store", "resolve_strategy", "stores_of"]

# name -> (module, class)
STORES = {
    "adjlists": ("dynstore.stores.adjlists.store", "AdjListsStore"),
    "gpma": ("dynstore.stores.gpma.store", "GPMAStore"),
    "gpma+": ("dynstore.stores.gpma_plus.store", "GPMAPlusStore"),
    "gpma_level": ("dynstore.stores.gpma_level.store", "GPMALevelStore"),
    "graphvine": ("dynstore.stores.graphvine.store", "GraphVineStore"),
    "lpma": ("dynstore.stores.lpma.store", "LPMAStore"),
    "merge": ("dynstore.stores.merge.store", "MergeStore"),
    "paged": ("dynstore.stores.paged.store", "PagedStore"),
    "pma": ("dynstore.stores.pma_sequential.store", "PMAStore"),
    "rebuild": ("dynstore.stores.rebuild.store", "RebuildStore"),
    "slab_hash": ("dynstore.stores.slab_hash.store", "SlabHashStore"),
}

AUTO = "auto"
# Former strategies of "gpma+" -> the stores that they are now.
STRATEGIES = {"one-pass": "gpma+", "level": "gpma_level"}


def choose_store(name: str, beside_gpu: bool = False) -> str:
    """Return the name of the store to use; "auto" is the one that ``docs/choosing-a-store.md`` recommends.

    ``beside_gpu``: whether the edges of a graph without extra columns will lie in host memory beside a GPU.
    """
    if name != AUTO:
        return name
    return "paged" if beside_gpu else "gpma+"


def get_store(name: str) -> type[Store]:
    """Return the class of a store.

    Raises
    ------
    InputError
        For an unknown name, with the list of known ones.
    """
    check_name("DynamicGraph", "store", name, [*STORES, AUTO])
    module, attribute = STORES[name]
    store: type[Store] = getattr(importlib.import_module(module), attribute)
    return store


def resolve_strategy(name: str, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the store and its options; resolves ``strategy``, a former option of "gpma+".

    Raises
    ------
    InputError
        For a strategy that "gpma+" never had.
    """
    if name != "gpma+" or "strategy" not in options:
        return name, options
    strategy = options["strategy"]
    check_name("store 'gpma+'", "strategy", strategy, STRATEGIES)
    meant = STRATEGIES[strategy]
    message = f"DynamicGraph: store='gpma+', strategy={strategy!r} is deprecated; use store={meant!r}"
    warnings.warn(message, DeprecationWarning, stacklevel=3)
    return meant, {key: value for key, value in options.items() if key != "strategy"}


def stores_of(family: str) -> list[str]:
    """Return the names of the stores with kernels for a family of backends, "cpu" or "cuda"."""
    return [name for name in sorted(STORES) if family in get_store(name).families]
