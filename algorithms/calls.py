"""What all public functions do: check the graph, choose kernels, and note both for ``dynstore.explain``.

A store names the form of its own rows (:class:`~dynstore.stores.base.NativeRows`). Kernels for them are used if the
sorted slots would first have to be made. Those for "slabs" are in the package of that name here, with a ``cpu`` and a
``cuda`` module, which have a function for each supported algorithm, with the public name. Pages need more than a
kernel: their functions are in ``paged.native``, for all devices, and get the graph.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary

from dynstore.errors import InputError, InputTypeError, UnweightedGraphError, type_name, unknown_parameters
from dynstore.graph.core import GraphCore

if TYPE_CHECKING:
    from dynstore.graph import AnyGraph

__all__ = ["RECORDS", "SLOTS", "Algorithm", "Call", "CallPath", "algorithm", "last_call", "note_call", "run_native"]

CallPath: TypeAlias = Literal["own kernel", "borrowed", "rebuilt"]
SLOTS = "nothing: kernels read the store's slots"  # what a call of our own kernels copies

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Call:
    """One call.

    Attributes
    ----------
    name : str
        The called function, such as "bfs".
    path : {"own kernel", "borrowed", "rebuilt"}
        dynstore's kernels; cuGraph's kernels over dynstore's rows; cuGraph's kernels on a graph that it built from
        them.
    version : int or None
        The graph's version that it ran on; None for a graph of cuGraph's own.
    copied : str
        What the call copied.
    copied_bytes : int
    reason : str
        Why it took this path.
    """

    name: str
    path: CallPath
    version: int | None
    copied: str
    copied_bytes: int = 0
    reason: str = ""

    def __str__(self) -> str:
        where = "" if self.version is None else f" on version {self.version}"
        size = f" ({self.copied_bytes / 1e6:.1f} MB)" if self.copied_bytes else ""
        why = f"; {self.reason}" if self.reason else ""
        return f"{self.name}{where}: {self.path}; copied: {self.copied}{size}{why}"


_calls: WeakKeyDictionary[Any, Call] = WeakKeyDictionary()


def note_call(G: Any, call: Call) -> None:
    """Record ``call`` as the last one on ``G``, as long as ``G`` lives."""
    _calls[G] = call


def last_call(G: Any) -> Call | None:
    """Return the last call on ``G``, or None."""
    return _calls.get(G)


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
        if not isinstance(getattr(G, "core", None), GraphCore):
            raise InputTypeError(f"{self.name}: G is a {type_name(G)}; wanted a dynstore.DynamicGraph")
        if self.needs_undirected and G.is_directed():
            raise InputError(f"{self.name}: input graph must be undirected; got DynamicGraph(directed=True)")
        if self.needs_weights and not G.is_weighted():
            raise UnweightedGraphError(
                f"{self.name}: requires the input graph to be weighted; got DynamicGraph(weighted=False). "
                "For paths in an unweighted graph use bfs"
            )


RECORDS: dict[str, Algorithm] = {}  # of the functions that are imported so far; ``registry`` has all of them


def algorithm(
    *, paper: str, needs_undirected: bool = False, needs_weights: bool = False, uses_in_edges: bool = False
) -> Callable[[_Function], _Function]:
    """Register a public function ``f(G, ...)`` and check its graph before every call."""

    def register(function: _Function) -> _Function:
        name = function.__name__
        parameters = tuple(inspect.signature(function).parameters)[1:]

        @functools.wraps(function)
        def checked(G: Any, *args: Any, **kwargs: Any) -> Any:
            record = RECORDS[name]
            record.check(G)
            if kwargs:
                record.check_parameters(kwargs)
            note_call(G, Call(name, "own kernel", G.version, SLOTS))
            return function(G, *args, **kwargs)

        RECORDS[name] = Algorithm(name, checked, paper, parameters, needs_undirected, needs_weights, uses_in_edges)
        return cast("_Function", checked)

    return register


def run_native(G: AnyGraph, name: str, *arguments: Any, transposed: bool = False) -> Any:
    """Run a public algorithm over the store's own rows, and record the call; ``transposed``: over those of in-edges.

    Returns
    -------
    the kernels' result, or None if the sorted slots are there, the store has no other rows, or there are no
    kernels for them.
    """
    rows = G.core.native_rows(transposed)
    if rows is None:
        return None
    function: Any
    if rows.form == "paged":
        from dynstore.algorithms.paged import native

        function = partial(getattr(native, name), G)
    else:
        function = getattr(G.core.backend.kernels("dynstore.algorithms.slabs"), name, None)
        if function is None:
            return None
        function = partial(function, G.core.backend)
    found = function(rows, *arguments)
    if found is None:
        return None
    copied, reason = f"nothing: kernels read the store's {rows.form}", "sorted slots would have to be made first"
    note_call(G, Call(name, "own kernel", G.version, copied, reason=reason))
    return found
