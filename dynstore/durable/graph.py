"""The graph of a database: its updates go to the log before they are made."""

from __future__ import annotations

from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from dynstore.durable.changes import as_change
from dynstore.graph import DynamicGraph
from dynstore.interrupts import MemoryChecked

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.graph.core import Journal

__all__ = ["DurableGraph"]

P = ParamSpec("P")
R = TypeVar("R")


def _logged(method: Callable[P, R]) -> Callable[P, R]:
    """Return an update that is logged, unless it is a part of one that is."""
    parameters = signature(method)

    @wraps(method)
    def update(*args: P.args, **kwargs: P.kwargs) -> R:
        graph: Any = args[0]
        journal = graph.database
        if journal is None or journal.updating:
            return method(*args, **kwargs)
        try:
            bound = parameters.bind(*args, **kwargs)
        except TypeError:
            return method(*args, **kwargs)  # which says what is wrong
        bound.apply_defaults()
        (_, *given) = bound.arguments.items()
        with MemoryChecked(method.__name__):
            change, arguments = as_change(graph, method.__name__, dict(given))
        again: Callable[..., R] = method
        result: R = journal.make(change, lambda: again(graph, **arguments))
        return result

    return update


class DurableGraph(DynamicGraph):
    """The graph of a :class:`Database`: a :class:`DynamicGraph` whose updates go to a log first.

    Copies, subgraphs and pickles of it are not logged.
    """

    @classmethod
    def over(cls, graph: DynamicGraph, database: Journal) -> Self:
        """Return a graph in the place of another one, which is not used any more."""
        durable = object.__new__(cls)
        durable.__dict__.update(graph.__dict__)
        durable.core.journal = database
        return durable

    @property
    def database(self) -> Journal | None:
        """The :class:`Database` to which updates go; None for a copy."""
        return self.core.journal

    insert_edges = _logged(DynamicGraph.insert_edges)
    delete_edges = _logged(DynamicGraph.delete_edges)
    update = _logged(DynamicGraph.update)
    expire = _logged(DynamicGraph.expire)
    insert_vertices = _logged(DynamicGraph.insert_vertices)
    delete_vertices = _logged(DynamicGraph.delete_vertices)
    reorder = _logged(DynamicGraph.reorder)
    clear = _logged(DynamicGraph.clear)
