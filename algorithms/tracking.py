"""Tracked answers: brought up to date from the changes of a graph's updates instead of from the whole graph."""

from __future__ import annotations

import importlib
import inspect
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from dynstore.algorithms.registry import find_algorithm
from dynstore.errors import InputError, InputTypeError, unknown_name

if TYPE_CHECKING:
    from dynstore.graph import DynamicGraph
    from dynstore.graph.delta import Delta, DeltaLog

__all__ = ["TRACKED", "Answer", "Monitor", "track"]

# Name of the function -> module and class of its answer.
_ANSWERS = {
    "bfs": ("traversal.tracked", "BfsAnswer"),
    "pagerank": ("link_analysis.tracked", "PagerankAnswer"),
    "sssp": ("traversal.tracked", "SsspAnswer"),
    "triangle_count": ("community.tracked", "TriangleAnswer"),
    "weakly_connected_components": ("components.tracked", "ComponentAnswer"),
}
TRACKED = tuple(_ANSWERS)


class Answer(ABC):
    """One answer's state, indexed by row number.

    Attributes
    ----------
    edge_visits : int
        Edge visits of the last call of :meth:`recompute` or :meth:`advance`; repeated visits count.
    """

    edge_visits = 0

    def __init__(self, G: DynamicGraph, **params: Any) -> None:
        self.G = G
        self.params = params

    @abstractmethod
    def read_params(self) -> bool:
        """Read the parameters as the function does; return False if they mean other vertices than last time."""

    @abstractmethod
    def recompute(self) -> None:
        """Compute the state anew."""

    @abstractmethod
    def advance(self, delta: Delta) -> bool:
        """Bring the state up to date; return False if it must be computed anew."""

    @abstractmethod
    def frame(self) -> Any:
        """Return the state as the function returns it."""


class Monitor:
    """An answer that follows its graph; made by :func:`track`.

    :meth:`result` and :meth:`refresh` do the work, once for all updates since the last call. A monitor keeps its graph
    alive, but the graph does not keep the monitor alive.

    Attributes
    ----------
    name : str
        The name of the function.
    version : int
        The version of the graph that the last result is for.
    path : {"incremental", "recomputed"}
        How that result was computed: from the changes, or anew.
    edge_visits : int
        Edge visits for that result; repeated visits count.
    """

    version: int
    path: Literal["incremental", "recomputed"]
    edge_visits: int

    def __init__(self, G: DynamicGraph, name: str, answer: Answer) -> None:
        self.name = name
        self._graph, self._answer = G, answer
        self._log: DeltaLog | None = G.follow()
        self._answer.read_params()
        self._recompute(self._log)

    def __repr__(self) -> str:
        state = "closed" if self._log is None else self.path
        return f"Monitor({self.name!r}, version={self.version}, {state}, edge_visits={self.edge_visits})"

    def __reduce__(self) -> NoReturn:
        raise InputTypeError(
            "Monitor: it cannot be pickled or copied, because it follows its graph; "
            "pickle or copy the graph, and track the answer there"
        )

    def result(self) -> Any:
        """Return what the function returns for the current graph.

        Returns
        -------
        frame
            The result of the function of this name.

        Raises
        ------
        InputError
            As :meth:`refresh`.
        """
        self.refresh()
        return self._answer.frame()

    def refresh(self) -> None:
        """Bring the answer up to date without making a frame: the main part of :meth:`result`, ahead of time.

        Raises
        ------
        InputError
            If the function would raise it, or after :meth:`close`. The monitor continues with the next version.
        """
        log = self._log
        if log is None:
            raise InputError(f"Monitor: {self.name} was closed; track it again")
        unchanged = self._answer.read_params()
        if not unchanged or self._graph.version != self.version:
            delta = self._graph.net_delta(log) if unchanged and log.complete else None
            log.add(None, 0)  # if this fails half-way, the next call computes anew
            if delta is not None and self._answer.advance(delta):
                self._note(log, "incremental")
            else:
                self._recompute(log)

    def close(self) -> None:
        """Stop following the graph; its updates then do no work for this monitor."""
        self._log = None

    def _recompute(self, log: DeltaLog) -> None:
        self._answer.recompute()
        self._note(log, "recomputed")

    def _note(self, log: DeltaLog, path: Literal["incremental", "recomputed"]) -> None:
        log.restart()
        self.version, self.path, self.edge_visits = self._graph.version, path, self._answer.edge_visits


def track(G: DynamicGraph, name: str, **params: Any) -> Monitor:
    """Keep an answer up to date with a graph; also ``G.track(name, **params)``.

    Parameters
    ----------
    G : DynamicGraph
        The graph to follow.
    name : str
        "bfs", "pagerank", "sssp", "triangle_count" or "weakly_connected_components".
    **params
        Parameters of the function of this name.

    Returns
    -------
    Monitor
        It has the answer for the current graph.

    Raises
    ------
    InputError
        If the name is unknown, or the function refuses the parameters or the graph.

    Examples
    --------
    >>> import dynstore
    >>> G = dynstore.DynamicGraph(directed=False, device="cpu")
    >>> report = G.insert_edges(([0, 0, 1], [1, 2, 2]))
    >>> triangles = G.track("triangle_count")
    >>> report = G.delete_edges(([0], [1]))
    >>> triangles.result()["counts"].tolist()
    [0, 0, 0]
    """
    if name not in _ANSWERS:
        raise unknown_name("track", "answer", name, _ANSWERS)
    record = find_algorithm(name)
    record.check(G)
    try:
        inspect.signature(record.function).bind(G, **params)
    except TypeError as error:
        raise InputTypeError(f"track: {name}: {error}") from error
    module, kind = _ANSWERS[name]
    answer: Answer = getattr(importlib.import_module(f"dynstore.algorithms.{module}"), kind)(G, **params)
    return Monitor(G, name, answer)
