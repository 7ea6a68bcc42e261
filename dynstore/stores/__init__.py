"""The structures that hold a graph, behind one interface; given by class, by name, or by entry point."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from dynstore.errors import InputError, unknown_name
from dynstore.stores import papers
from dynstore.stores.base import Store

__all__ = ["AUTO", "GROUP", "STORES", "choose_store", "get_store", "stores_of"]

# The entry points by which other packages bring stores: the name, and "module:class".
GROUP = "dynstore.stores"
# dynstore's own, in the same form: name -> "module:class"
STORES = {
    "gpma+": "dynstore.stores.gpma_plus.store:GPMAPlusStore",
    "lpma": "dynstore.stores.lpma.store:LPMAStore",
    "merge": "dynstore.stores.merge.store:MergeStore",
    "paged": "dynstore.stores.paged.store:PagedStore",
    "rebuild": "dynstore.stores.rebuild.store:RebuildStore",
    "slab_hash": "dynstore.stores.slab_hash.store:SlabHashStore",
    **papers.STORES,
}

AUTO = "auto"
_passed: dict[str, type[Store]] = {}  # the classes from elsewhere that this process has used, by name


def choose_store(store: str | type[Store], beside_gpu: bool = False) -> type[Store]:
    """Return the class of the store to use, for a class, or for a name of this or another package.

    Parameters
    ----------
    store : str or type
        "auto" is the store that ``docs/choosing-a-store.md`` recommends. A class that is passed has a name from then
        on, so that graphs of it can be copied, pickled and loaded in this process.
    beside_gpu : bool
        Whether the edges of a graph without extra columns will lie in host memory beside a GPU.

    Raises
    ------
    InputError
        For an unknown name, with the list of known ones, and for a class that is no store or has another one's name.
    """
    if isinstance(store, type):
        return _take_class(store)
    return get_store(store if store != AUTO else "paged" if beside_gpu else "gpma+")


def get_store(name: str) -> type[Store]:
    """Return the class of a store by its name.

    Raises
    ------
    InputError
        For an unknown name, with the list of known ones.
    """
    if isinstance(name, str):
        if name in _passed:
            return _passed[name]
        own = [EntryPoint(name, STORES[name], GROUP)] if name in STORES else []
        for point in own or entry_points(group=GROUP, name=name):
            return _take_class(point.load(), name)
    known = {*STORES, *_passed, *entry_points(group=GROUP).names, AUTO}
    raise unknown_name("DynamicGraph", "store", name, known)


def _take_class(store: Any, wanted: str | None = None) -> type[Store]:
    """Check a class from elsewhere, and keep it; ``wanted``: the name of its entry point.

    Raises
    ------
    InputError
    """
    got = f"DynamicGraph: store is {store!r}"
    if not (isinstance(store, type) and issubclass(store, Store)):
        raise InputError(f"{got}; wanted a name, or a subclass of dynstore.stores.base.Store")
    name = getattr(store, "name", None)
    if not isinstance(name, str) or name in ("", AUTO) or wanted not in (None, name):
        wish = "a name of its own" if wanted is None else repr(wanted)
        raise InputError(f"{got}, whose name is {name!r}; wanted {wish}")
    owner = _place_of(_passed[name]) if name in _passed else STORES.get(name)
    if owner not in (None, _place_of(store)):
        raise InputError(f"{got}, whose name {name!r} is that of {owner}; wanted a name of its own")
    if name not in STORES:
        _passed[name] = store
    found: type[Store] = store
    return found


def _place_of(store: type) -> str:
    """Return where a class is, as an entry point says it."""
    return f"{store.__module__}:{store.__qualname__}"


def stores_of(family: str) -> list[str]:
    """Return the names of the stores with kernels for a family of backends, "cpu" or "cuda"."""
    return [name for name in sorted(STORES) if family in get_store(name).families]
