"""Updates that are planned, although the store could write them at once: what others are compared with."""

from __future__ import annotations

from dynstore.graph import DynamicGraph

__all__ = ["PlannedGraph", "plan_updates"]


class PlannedGraph(DynamicGraph):
    """A graph whose updates are planned."""

    _supports_speculation = False  # type: ignore[assignment]


def plan_updates(graph: DynamicGraph, wanted: bool = True) -> DynamicGraph:
    """Have a graph's updates planned from now on, or not any more; return the graph."""
    graph.__class__ = PlannedGraph if wanted else DynamicGraph
    return graph
