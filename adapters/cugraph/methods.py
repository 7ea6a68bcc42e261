"""The methods of a ``cugraph.Graph`` of the drop-in that differ from its class's: they fill it, empty it and change it.

They are set on the object, since its type has to be exactly ``cugraph.Graph``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn
from weakref import ref

from dynstore.adapters.cugraph.build import fill_graph, refuse_null_ids, start_graph
from dynstore.adapters.cugraph.dask.live import LiveDaskGraph, fill_dask_graph
from dynstore.adapters.cugraph.live_graph import LiveGraph
from dynstore.adapters.libraries import require
from dynstore.errors import InputError

if TYPE_CHECKING:
    from dynstore.typing import OnDuplicate, UpdateReport

__all__ = ["Method", "State", "new_graph", "refuse_updates", "set_methods"]

CALLER = "cugraph.Graph"


def new_graph(m_graph: Any = None, directed: bool = False) -> Any:
    """Return an empty ``cugraph.Graph`` whose ``from_cudf_edgelist`` and ``insert_edges`` fill a DynamicGraph.

    Its type is exactly ``cugraph.Graph``; the methods are set on the object. Input that a DynamicGraph cannot hold
    (several columns as one id, ids of undirected edges, negative ids, ...) goes to cuGraph's own method;
    ``dynstore.explain`` says why.
    """
    graph = require(CALLER, "cugraph").Graph(m_graph, directed)
    set_methods(graph)
    return graph


def set_methods(graph: Any, reason: str | None = None) -> None:
    """Give a ``cugraph.Graph`` the methods that fill it with a DynamicGraph, empty it, and change it.

    ``reason``: why its edges cannot be changed, for a graph that is filled with cuGraph's own. A live graph has
    ``insert_edges`` and ``delete_edges`` already.
    """
    live = isinstance(graph._Impl, LiveGraph | LiveDaskGraph)
    state = State(graph.graph_properties.directed, graph._Impl, reason)
    for name in METHODS:
        if live and name in UPDATES:
            graph.__dict__.pop(name, None)
        else:
            setattr(graph, name, Method(graph, name, state))


def refuse_updates(result: Any, reason: str) -> None:
    """Let each graph of cuGraph's own in a function's result say why its edges cannot be changed.

    The graphs may be in a tuple, a list or a dict.
    """
    if isinstance(result, tuple | list | dict):
        for part in result.values() if isinstance(result, dict) else result:
            refuse_updates(part, reason)
    elif type(result) is require(CALLER, "cugraph").Graph and not hasattr(result, "insert_edges"):
        set_methods(result, reason)


class State(NamedTuple):
    """What a graph was when its methods were set: whether directed, its ``_Impl``, and why edges cannot be changed."""

    directed: bool
    impl: Any
    reason: str | None


class Method:
    """A method of one graph, which it does not keep alive; a copy or pickle of the graph has methods of its own."""

    def __init__(self, graph: Any, name: str, state: State) -> None:
        self._graph, self._class, self._name, self._state = ref(graph), type(graph), name, state
        self.__doc__ = getattr(type(graph), name, METHODS[name]).__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method; of a graph that is gone, as in ``made().to_directed()``, another one shows the same."""
        graph = self._graph()
        if graph is None:
            graph = self._class(directed=self._state.directed)
            graph._Impl = self._state.impl
        return METHODS[self._name](graph, self._state.reason, *args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        return Method, (self._graph(), self._name, self._state)


def _fill(graph: Any, fill: Callable[[], str | None]) -> None:
    """Fill a graph, which may be a live one whose edge list was deleted, as in cuGraph; if that fails, it is as it was.

    ``fill`` returns why the graph cannot be changed then, or None.
    """
    before = graph._Impl
    if isinstance(before, LiveGraph) and before.edgelist is None:
        graph._Impl = None
    try:
        reason = fill()
    except BaseException:
        graph._Impl = before
        raise
    set_methods(graph, reason)


def _from_cudf_edgelist(graph: Any, reason: str | None, /, input_df: Any, *args: Any, **kwargs: Any) -> None:
    _fill(graph, lambda: fill_graph(graph, input_df, args, kwargs))


def _from_dask_cudf_edgelist(graph: Any, reason: str | None, /, input_ddf: Any, *args: Any, **kwargs: Any) -> None:
    _fill(graph, lambda: fill_dask_graph(graph, input_ddf, args, kwargs))


def _from_cudf_adjlist(graph: Any, reason: str | None, /, *args: Any, **kwargs: Any) -> None:
    def fill() -> str:
        refuse_null_ids("index_col", kwargs.get("index_col", args[1] if len(args) > 1 else None))
        type(graph).from_cudf_adjlist(graph, *args, **kwargs)
        return "an adjacency list may repeat edges; from_cudf_edgelist makes a graph that can be changed"

    _fill(graph, fill)


def _clear(graph: Any, reason: str | None, /) -> None:
    type(graph).clear(graph)
    set_methods(graph)


def _to_directed(graph: Any, reason: str | None, /) -> Any:
    _refuse_dask("to_directed", graph)
    return _with_methods(graph, type(graph).to_directed(graph), "to_directed")


def _to_undirected(graph: Any, reason: str | None, /) -> Any:
    _refuse_dask("to_undirected", graph)
    return _with_methods(graph, type(graph).to_undirected(graph), "to_undirected")


def _refuse_dask(name: str, graph: Any) -> None:
    if isinstance(graph._Impl, LiveDaskGraph):
        raise InputError(f"{name}: a live graph on a Dask cluster has no {name}; make another one of view_edge_list()")


def _with_methods(graph: Any, made: Any, name: str) -> Any:
    """Give a graph that a method has made of another one the methods of the drop-in."""
    set_methods(made, None if isinstance(graph._Impl, LiveGraph) else f"{name} has made it of a graph of that kind")
    return made


def _insert_edges(
    graph: Any,
    reason: str | None,
    /,
    edges: Any,
    source: str | None = None,
    destination: str | None = None,
    weight: str | None = None,
    on_duplicate: OnDuplicate = "replace",
    default_weight: float | None = None,
    edge_id: str | None = None,
    edge_type: str | None = None,
) -> UpdateReport:
    """Insert a batch; an empty graph becomes a live one. See :meth:`dynstore.DynamicGraph.insert_edges`."""
    _refuse_fixed("insert_edges", graph, reason)
    names = source or "source", destination or "destination", weight
    report = start_graph(graph, edges, names, on_duplicate, default_weight, edge_id, edge_type)
    set_methods(graph)
    return report


def _delete_edges(graph: Any, reason: str | None, /, *args: Any, **kwargs: Any) -> NoReturn:
    """Refuse: an empty graph has no edges, another one is cuGraph's own."""
    _refuse_fixed("delete_edges", graph, reason)
    raise InputError("delete_edges: this graph has no edges yet")


def _refuse_fixed(name: str, graph: Any, reason: str | None) -> None:
    if reason is None and graph._Impl is None:
        return
    why = reason or (
        "it was filled in another way; from_cudf_edgelist and from_pandas_edgelist make a graph that can be changed"
    )
    raise InputError(f"{name}: this graph is cuGraph's own, which cannot be changed: {why}")


UPDATES = ("insert_edges", "delete_edges")
# The methods that are set on an object; each gets the graph, and the reason why its edges cannot be changed.
METHODS: dict[str, Callable[..., Any]] = {
    "from_cudf_edgelist": _from_cudf_edgelist,
    "from_cudf_adjlist": _from_cudf_adjlist,
    "from_dask_cudf_edgelist": _from_dask_cudf_edgelist,
    "clear": _clear,
    "to_directed": _to_directed,
    "to_undirected": _to_undirected,
    "insert_edges": _insert_edges,
    "delete_edges": _delete_edges,
}
