"""What all public functions do: check the graph, choose kernels, and note both for ``dynstore.explain``.

A store names the form of its own rows (:class:`~dynstore.stores.base.NativeRows`). Kernels for them are used if the
sorted slots would first have to be made; ``Algorithm.forms`` says which there are. Those for "slabs" are in the package
of that name here, with a ``cpu`` and a ``cuda`` module, which have a function of the public name. Pages need more than
a kernel: their functions are in ``paged.native``, for all devices, and get the graph.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary

from dynstore.errors import InputError, InputTypeError, UnweightedGraphError, type_name, unknown_parameters
from dynstore.graph.core import GraphCore
from dynstore.lookup import provided

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
    """The record of one algorithm: all that is said of it in one place, beside its public function.

    It is read by the registry, the top-level names, tracking, the adapters, streams, the warm-up, the command line, the
    tables of the pages, and tests.

    Attributes
    ----------
    name : str
        The public name, also in cuGraph.
    family : str
        The package of ``dynstore.algorithms`` that it is in.
    function : callable
        Called as ``function(G, ...)``.
    parameters : tuple of str
        What the function takes besides the graph.
    asks : str
        The question that it answers.
    paper : str
        The paper whose algorithm the kernels follow.
    columns : mapping
        The columns of the result, and the dtype of each: "vertex" (that of the graph's ids), "weight" (that of its
        weights; float32 without weights), or the name of a dtype.
    compute : callable
        ``compute(G, *inputs)`` returns the result by row, from parameters that have been read.
    read : callable or None
        ``read(G, **parameters)`` returns these inputs. None where parameters are more than inputs.
    kernels : str
        The module of the kernels over sorted slots, in the family's packages ``cpu`` and ``cuda``; "" where these are
        modules.
    forms : tuple of str
        The other forms of rows that it has kernels for: "slabs", "paged".
    start : str or None
        The parameter that says where to start; it has no default.
    example : mapping
        Parameters for any graph that has the vertex 0.
    tracked : str or None
        The class in the family's ``tracked`` that brings a tracked answer up to date.
    cugraph, networkx : tuple of str
        The functions of these libraries that run on it.
    needs_undirected : bool
        A directed graph is refused with :class:`~dynstore.errors.InputError`.
    needs_weights : bool
        An unweighted graph is refused with :class:`~dynstore.errors.UnweightedGraphError`.
    uses_in_edges : bool
        A directed graph gets its second orientation with the first call and keeps it from then on.
    parallel : {"", "sum", "min"}
        What parallel edges of a multigraph are to it: their weights are added, or without weights they are counted; the
        lightest counts; "": they are one edge.
    """

    name: str
    family: str
    function: Callable[..., Any]
    parameters: tuple[str, ...]
    asks: str
    paper: str
    columns: Mapping[str, str]
    compute: Callable[..., Any]
    read: Callable[..., tuple[Any, ...]] | None = None
    kernels: str = ""
    forms: tuple[str, ...] = ()
    start: str | None = None
    example: Mapping[str, Any] = field(default_factory=dict)
    tracked: str | None = None
    cugraph: tuple[str, ...] = ()
    networkx: tuple[str, ...] = ()
    needs_undirected: bool = False
    needs_weights: bool = False
    uses_in_edges: bool = False
    parallel: Literal["", "sum", "min"] = ""

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

    def pairs_of(self, G: Any) -> Any:
        """Return what the algorithm runs on: the graph, or that of the pairs of a multigraph."""
        if not G.core.shows_events:
            return G
        aggregate: str | None = "min" if self.parallel == "min" else "sum"
        if not G.is_weighted():
            aggregate = "count" if self.parallel == "sum" else None
        return provided("simple").simple_graph(G, aggregate)

    def suits(self, directed: bool, weighted: bool) -> bool:
        """Whether graphs of this kind are supported."""
        return not (self.needs_undirected and directed) and (weighted or not self.needs_weights)


RECORDS: dict[str, Algorithm] = {}  # of the functions that are imported so far; ``registry`` has all of them


def algorithm(
    *, asks: str, paper: str, columns: Mapping[str, str], compute: Callable[..., Any], **properties: Any
) -> Callable[[_Function], _Function]:
    """Register a public function ``f(G, ...)``, and check its graph before every call; see :class:`Algorithm`."""

    def register(function: _Function) -> _Function:
        name = function.__name__
        parameters = tuple(inspect.signature(function).parameters)[1:]

        @functools.wraps(function)
        def checked(G: Any, *args: Any, **kwargs: Any) -> Any:
            record.check(G)
            if kwargs:
                record.check_parameters(kwargs)
            note_call(G, Call(name, "own kernel", G.version, SLOTS))
            return function(record.pairs_of(G), *args, **kwargs)

        family = function.__module__.split(".")[-2]
        record = Algorithm(name, family, checked, parameters, asks, paper, columns, compute, **properties)
        RECORDS[name] = record
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
    if rows is None or rows.form not in RECORDS[name].forms:
        return None
    function: Any
    if rows.form == "paged":
        from dynstore.algorithms.paged import native

        function = partial(getattr(native, name), G)
    else:
        function = partial(getattr(G.core.backend.kernels("dynstore.algorithms.slabs"), name), G.core.backend)
    found = function(rows, *arguments)
    if found is None:
        return None
    copied, reason = f"nothing: kernels read the store's {rows.form}", "sorted slots would have to be made first"
    note_call(G, Call(name, "own kernel", G.version, copied, reason=reason))
    return found
