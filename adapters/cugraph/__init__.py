"""The drop-in for cuGraph: ``from dynstore.adapters import cugraph`` instead of ``import cugraph``.

All names come from the real cuGraph and behave as there, with these differences:

- a function takes a ``DynamicGraph`` wherever cuGraph's takes a ``Graph``, and uses its current edges
- ``bfs``, ``sssp``, ``pagerank``, ``weakly_connected_components``, ``connected_components``, ``triangle_count`` and
  ``betweenness_centrality``, and the degrees of a graph, run dynstore's own kernels where their result is the same
  (``own``); ``engine="cugraph"`` in a call, or :func:`set_engine` for all, runs cuGraph's
- where cuGraph runs, plain calls of its searches, PageRank and components skip cuGraph's Python (``direct``)
- ``Graph`` makes a genuine ``cugraph.Graph`` that keeps its edges in a ``DynamicGraph``: ``insert_edges`` and
  ``delete_edges`` on it replace building the next graph; the same for graphs from ``from_cudf_edgelist``,
  ``from_pandas_edgelist`` and ``from_edgelist``
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from typing import Any

from dynstore.adapters.cugraph.direct import behind, route
from dynstore.adapters.cugraph.graph import as_cugraph
from dynstore.adapters.cugraph.methods import new_graph, refuse_updates
from dynstore.adapters.cugraph.own import has_own_kernels, set_engine
from dynstore.adapters.cugraph.spanning import find_maximum_tree
from dynstore.adapters.libraries import require
from dynstore.graph import DynamicGraph

__all__ = ["as_cugraph", "set_engine"]  # all other public names are cuGraph's: see __getattr__

CALLER = "dynstore.adapters.cugraph"
SUBMODULES = frozenset({"dask", "mg"})  # of dynstore's own that are imported from here


def __getattr__(name: str) -> Any:
    if name.startswith("__") and name not in ("__version__", "__git_commit__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    real = require(CALLER, "cugraph")
    if name == "Graph":
        value = _make_graph_class(real.Graph)
    elif name == "hypergraph":
        value = _wrap_hypergraph(real.hypergraph, real.Graph)
    elif name in _BUILDERS:
        value = _wrap_builder(getattr(real, name), *_BUILDERS[name])
    else:
        value = getattr(real, name)
        if inspect.isroutine(value):
            value = _wrap_function(value, real.Graph)
            if has_own_kernels(name):
                value = route(value, name)
            elif name == "maximum_spanning_tree":
                value = _wrap_maximum_tree(value)
    setattr(sys.modules[__name__], name, value)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(require(CALLER, "cugraph"))})


def _wrap_function(function: Any, real_graph: Any) -> Any:
    """Let a function of cuGraph take DynamicGraphs, and this module's ``Graph`` where it takes a class."""

    def translate(value: Any) -> Any:
        if isinstance(value, DynamicGraph):
            return as_cugraph(value)
        # Compared by identity: the class compares equal to cuGraph's.
        return real_graph if value is sys.modules[__name__].__dict__.get("Graph") else value

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        result = function(*map(translate, args), **{key: translate(value) for key, value in kwargs.items()})
        refuse_updates(result, f"{function.__name__} has made it")
        return result

    return wrapped


def _wrap_maximum_tree(function: Any) -> Any:
    """Find the tree of an undirected live graph by its rows; cuGraph's function reads an adjacency list."""

    @functools.wraps(function)
    def wrapped(G: Any, *args: Any, **kwargs: Any) -> Any:
        live = behind(G)
        if live is None or live.is_directed():  # which cuGraph refuses
            return function(G, *args, **kwargs)
        tree = find_maximum_tree(live)
        refuse_updates(tree, "maximum_spanning_tree has made it")
        return tree

    return wrapped


# name -> the method that fills the graph, and the module of its frame; None means either of the two.
_BUILDERS = {
    "from_cudf_edgelist": ("from_cudf_edgelist", "cudf"),
    "from_pandas_edgelist": ("from_pandas_edgelist", "pandas"),
    "from_edgelist": (None, None),
    "from_numpy_array": ("from_numpy_array", ""),
    "from_numpy_matrix": ("from_numpy_matrix", ""),
    "from_pandas_adjacency": ("from_pandas_adjacency", "pandas"),
}


def _wrap_builder(function: Any, method: str | None, library: str | None) -> Any:
    """Let a function that makes a graph from a frame make it as this module's ``Graph`` does."""
    signature = inspect.signature(function)
    wrapped = _wrap_function(function, require(CALLER, "cugraph").Graph)

    @functools.wraps(function)
    def build(*args: Any, **kwargs: Any) -> Any:
        try:
            given = dict(signature.bind(*args, **kwargs).arguments)
        except TypeError:
            return wrapped(*args, **kwargs)  # cuGraph raises its own error
        frame, using = given.pop(next(iter(signature.parameters))), given.pop("create_using", None)
        graph = _empty_like(using)
        name = method or {"cudf": "from_cudf_edgelist", "pandas": "from_pandas_edgelist"}.get(_library_of(frame))
        if graph is None or name is None or library not in (None, _library_of(frame)):
            return wrapped(*args, **kwargs)
        if "vertices" in given and name == "from_numpy_array":
            given["nodes"] = given.pop("vertices")  # the method's name for them
        getattr(graph, name)(frame, **given)
        return graph

    return build


def _wrap_hypergraph(function: Any, real_graph: Any) -> Any:
    """Let ``hypergraph`` make its graph as this module's ``Graph`` does, if it is to be a plain one."""
    signature, wrapped = inspect.signature(function), _wrap_function(function, real_graph)

    @functools.wraps(function)
    def build(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        if given.arguments.get("graph_class", real_graph) in (real_graph, sys.modules[__name__].__dict__.get("Graph")):
            given.arguments["graph_class"] = new_graph
        return wrapped(*given.args, **given.kwargs)

    return build


def _library_of(frame: Any) -> str:
    return type(frame).__module__.partition(".")[0] if type(frame).__name__ == "DataFrame" else ""


def _empty_like(using: Any) -> Any:
    """Return an empty graph for a ``create_using`` that means a plain Graph, or None."""
    real_graph = require(CALLER, "cugraph").Graph
    if using is None or using is real_graph or using is sys.modules[__name__].__dict__.get("Graph"):
        return new_graph()
    if type(using) is real_graph:
        return new_graph(directed=using.is_directed())
    return None


def _make_graph_class(real: Any) -> Any:
    """Make the class ``Graph``: calling it returns an object of cuGraph's class, which ``isinstance`` accepts."""

    class GraphType(type):
        """The metaclass of ``Graph``; a user's subclasses of ``Graph`` are ordinary classes."""

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            return new_graph(*args, **kwargs) if cls is made else super().__call__(*args, **kwargs)

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, real) if cls is made else super().__instancecheck__(instance)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, real) if cls is made else super().__subclasscheck__(subclass)

        # type(G) is cuGraph's class: it must be found where this class is a key, or in a list.
        def __eq__(cls, other: object) -> bool:
            return cls is other or (cls is made and other is real)

        def __hash__(cls) -> int:
            return hash(real) if cls is made else super().__hash__()

    made = GraphType("Graph", (real,), {"__doc__": real.__doc__, "__module__": __name__})
    return made
