"""The graph of a database: its updates go to the log before they are made."""

from __future__ import annotations

from functools import partial, wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, Self, TypeVar

from dynstore.durable.changes import as_change, exchange_as_change
from dynstore.durable.records import KINDS
from dynstore.errors import LogError
from dynstore.graph import DynamicGraph
from dynstore.interrupts import MemoryChecked

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.durable.records import Change
    from dynstore.ids.base import IdPlan
    from dynstore.input.columns import EdgeColumns
    from dynstore.typing import UpdateReport

__all__ = ["DurableGraph", "Journal"]

P = ParamSpec("P")
R = TypeVar("R")


class Journal(Protocol):
    """Where a graph's updates are written."""

    updating: bool

    def make(self, change: Change, update: Callable[[], R]) -> R:
        """Write a change, and make the update, which calls :meth:`await_record` before it writes to the graph."""

    def await_record(self) -> None:
        """Wait until the change that is being made is written."""


def _logged(method: Callable[P, R]) -> Callable[P, R]:
    """Return an update that is logged, unless it is a part of one that is."""
    parameters = signature(method)

    @wraps(method)
    def update(*args: P.args, **kwargs: P.kwargs) -> R:
        graph: Any = args[0]
        journal: Journal | None = graph._journal
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
        return journal.make(change, lambda: again(graph, **arguments))

    return update


class DurableGraph(DynamicGraph):
    """The graph of a :class:`Database`: a :class:`DynamicGraph` whose updates go to a log first.

    Copies, subgraphs and pickles of it are not logged.
    """

    _journal: Journal | None = None

    @classmethod
    def over(cls, graph: DynamicGraph, journal: Journal) -> Self:
        """Return a graph in the place of another one, which is not used any more."""
        durable = object.__new__(cls)
        durable.__dict__.update(graph.__dict__)
        durable._journal = journal
        return durable

    @property
    def database(self) -> Journal | None:
        """The :class:`Database` to which updates go; None for a copy."""
        return self._journal

    def copy(self) -> Self:
        twin = super().copy()
        twin._journal = None
        return twin

    copy.__doc__ = DynamicGraph.copy.__doc__

    def _is_repeating(self) -> bool:
        return self._journal is not None and self._journal.updating  # the record was made of the same times

    def _await_record(self) -> None:
        if self._journal is not None:
            self._journal.await_record()

    insert_edges = _logged(DynamicGraph.insert_edges)
    delete_edges = _logged(DynamicGraph.delete_edges)
    update = _logged(DynamicGraph.update)
    expire = _logged(DynamicGraph.expire)
    insert_vertices = _logged(DynamicGraph.insert_vertices)
    delete_vertices = _logged(DynamicGraph.delete_vertices)
    reorder = _logged(DynamicGraph.reorder)
    clear = _logged(DynamicGraph.clear)

    def exchange_numbers(
        self, caller: str, leaving: EdgeColumns, arriving: EdgeColumns, naming: IdPlan, *more: Any, **options: Any
    ) -> UpdateReport:
        """Do the same as :meth:`DynamicGraph.exchange_numbers`; log it, unless a logged update calls it."""
        journal = self._journal
        update = partial(super().exchange_numbers, caller, leaving, arriving, naming, *more, **options)
        if journal is None or journal.updating:
            return update()
        if naming.read_from is None or caller not in KINDS:
            raise LogError(f"{caller}: this update cannot be logged; it is not made")
        with MemoryChecked(caller):
            change = exchange_as_change(self, caller, naming, leaving, arriving)
        return journal.make(change, update)
