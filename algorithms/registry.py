"""The list of public algorithms; a decorator registers a function and checks the graphs that it gets.

``ALGORITHMS`` (name -> :class:`Algorithm`) is always complete: reading it imports the modules of this package. That is
cheap, as kernels are imported by the first call that needs them.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from dynstore.algorithms.calls import Call, note_call
from dynstore.arguments import check_name
from dynstore.errors import (
    InputError,
    InputTypeError,
    UnweightedGraphError,
    type_name,
    unknown_parameters,
)

__all__ = ["ALGORITHMS", "Algorithm", "algorithm", "find_algorithm"]

ALGORITHMS: dict[str, Algorithm]  # made by __getattr__ below, after all modules are imported

_FAMILIES = ("centrality", "community", "components", "link_analysis", "traversal")
_records: dict[str, Algorithm] = {}
_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Algorithm:
    """Properties of one algorithm, for the command line, the benchmarks and the docs.

    Attributes
    ----------
    name : str
        The public name, also in cuGraph.
    function : callable
        Called as ``function(G, ...)``.
    paper : str
        The paper whose algorithm the kernels follow.
    parameters : tuple of str
        What the function takes besides the graph.
    needs_undirected : bool
        A directed graph is refused with :class:`~dynstore.errors.InputError`.
    needs_weights : bool
        An unweighted graph is refused with :class:`~dynstore.errors.UnweightedGraphError`.
    uses_in_edges : bool
        A directed graph gets its second orientation with the first call and keeps it from then on.
    """

    name: str
    function: Callable[..., Any]
    paper: str
    parameters: tuple[str, ...]
    needs_undirected: bool = False
    needs_weights: bool = False
    uses_in_edges: bool = False

    def check_parameters(self, given: Mapping[str, Any], caller: str | None = None) -> None:
        """Refuse names that are no parameters of the function."""
        unknown = [name for name in given if name not in self.parameters]
        if unknown:
            raise unknown_parameters(caller or self.name, unknown, {"": self.parameters})

    def check(self, G: Any) -> None:
        """Refuse anything that is no graph, and graphs that the algorithm does not support."""
        if not (hasattr(G, "snapshot") and hasattr(G, "backend")):
            raise InputTypeError(f"{self.name}: G is a {type_name(G)}; wanted a dynstore.DynamicGraph")
        if self.needs_undirected and G.is_directed():
            raise InputError(f"{self.name}: input graph must be undirected; got DynamicGraph(directed=True)")
        if self.needs_weights and not G.is_weighted():
            raise UnweightedGraphError(
                f"{self.name}: requires the input graph to be weighted; got DynamicGraph(weighted=False). "
                "For paths in an unweighted graph use bfs"
            )


def algorithm(
    *, paper: str, needs_undirected: bool = False, needs_weights: bool = False, uses_in_edges: bool = False
) -> Callable[[_Function], _Function]:
    """Register a public function ``f(G, ...)`` and check its graph before every call."""

    def register(function: _Function) -> _Function:
        name = function.__name__
        parameters = tuple(inspect.signature(function).parameters)[1:]

        @functools.wraps(function)
        def checked(G: Any, *args: Any, **kwargs: Any) -> Any:
            record = _records[name]
            record.check(G)
            if kwargs:
                record.check_parameters(kwargs)
            note_call(G, Call(name, "own kernel", G.version, "nothing: kernels read the store's slots"))
            return function(G, *args, **kwargs)

        _records[name] = Algorithm(name, checked, paper, parameters, needs_undirected, needs_weights, uses_in_edges)
        return cast("_Function", checked)

    return register


def find_algorithm(name: str) -> Algorithm:
    """Return the record of a public algorithm.

    Raises
    ------
    InputError
        For an unknown name; the message lists the known ones and makes a guess.
    """
    known = _load()
    check_name("find_algorithm", "algorithm", name, known)
    return known[name]


def _load() -> dict[str, Algorithm]:
    for family in _FAMILIES:
        importlib.import_module(f"dynstore.algorithms.{family}.api")
    return _records


def __getattr__(name: str) -> Any:
    if name == "ALGORITHMS":
        return dict(sorted(_load().items()))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
