"""Updates that are planned, although the store could write them at once: what others are compared with."""

from __future__ import annotations

from functools import cache

from dynstore.graph import DynamicGraph
from dynstore.stores.base import Store

__all__ = ["are_planned", "plan_updates"]


@cache
def _planned(kind: type[Store]) -> type[Store]:
    """Return a store of the same kind that has its updates planned."""
    return type(kind.__name__, (kind,), {"supports_speculation": False})


def are_planned(graph: DynamicGraph) -> bool:
    """Return whether a graph's updates are planned by :func:`plan_updates`."""
    return "supports_speculation" in vars(type(graph.core.out)) and not type(graph.core.out).supports_speculation


def plan_updates(graph: DynamicGraph, wanted: bool = True) -> DynamicGraph:
    """Have a graph's updates planned from now on, or not any more; return the graph."""
    if are_planned(graph) != wanted:
        for store in (graph.core.out, graph.core.into):
            if store is not None:
                store.__class__ = _planned(type(store)) if wanted else type(store).__mro__[1]
    return graph
