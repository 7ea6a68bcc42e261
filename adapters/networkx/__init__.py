"""NetworkX's backend ``dynstore``: ``nx.pagerank(G, backend="dynstore")``, and graph classes that never convert.

NetworkX finds ``backend`` through the entry point ``networkx.backends``. For every call it checks whether the backend
has the function and can run it. Importing this package does not import NetworkX; ``Graph`` and ``DiGraph`` are made on
first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynstore.adapters.networkx import centrality, paths, structure, traversal
from dynstore.adapters.networkx.convert import convert_from_nx, convert_to_nx
from dynstore.adapters.networkx.fallback import concerns_our_classes, is_networkx_function, run_networkx
from dynstore.adapters.networkx.graphs import FollowedGraph, graph_classes
from dynstore.adapters.networkx.offers import OFFERS, calls
from dynstore.adapters.networkx.store import store_graph_of
from dynstore.adapters.networkx.tracked import TrackedGraph
from dynstore.errors import InputTypeError

if TYPE_CHECKING:
    from networkx import DiGraph, Graph

    from dynstore.graph import DynamicGraph

# Importing these modules registers their functions.
FUNCTION_MODULES = (centrality, paths, structure, traversal)

NOT_OFFERED = "the backend does not offer it"

__all__ = ["BackendInterface", "DiGraph", "Graph", "backend", "calls", "store_of"]


def __getattr__(name: str) -> Any:
    if name in ("Graph", "DiGraph"):
        return graph_classes()[name == "DiGraph"]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class BackendInterface:
    """The object that NetworkX calls; every offered function is an attribute under its dispatch name."""

    convert_from_nx = staticmethod(convert_from_nx)
    convert_to_nx = staticmethod(convert_to_nx)

    def __getattr__(self, name: str) -> Any:
        if name in OFFERS:
            return OFFERS[name].function
        if is_networkx_function(name):
            return lambda *args, **kwargs: run_networkx(name, NOT_OFFERED, args, kwargs)
        raise AttributeError(f"the dynstore backend has no function {name!r}")

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *OFFERS})

    def can_run(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool | str:
        """Return whether a call can be served: True, or the reason why not.

        Every call with a graph of our classes can: by NetworkX's own code where the backend has none.
        """
        if name in OFFERS:
            graph = args[0] if args else kwargs["G"]
            return isinstance(graph, FollowedGraph) or OFFERS[name].problem(args, kwargs) or True
        served = not is_networkx_function(name) or concerns_our_classes(name, args, kwargs)
        return served or NOT_OFFERED

    def should_run(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool | str:
        """Return whether a call is worth a conversion: True, or the reason why not."""
        if name in OFFERS and OFFERS[name].cheap:
            graph = args[0] if args else kwargs["G"]
            cache = getattr(graph, "__networkx_cache__", None) or {}
            if not cache.get("backends", {}).get("dynstore"):
                return "NetworkX counts degrees in less time than the graph takes to be converted"
        return True

    def graph__new__(self, cls: type, *args: Any, **kwargs: Any) -> Any:
        """Make the graph of ``nx.Graph(..., backend="dynstore")``."""
        return object.__new__(_ours(cls))

    def digraph__new__(self, cls: type, *args: Any, **kwargs: Any) -> Any:
        """Make the graph of ``nx.DiGraph(..., backend="dynstore")``."""
        return object.__new__(_ours(cls))


def _ours(cls: type) -> type:
    """Return our class for one of NetworkX's; a user's own class is returned unchanged."""
    import networkx as nx

    if cls is nx.Graph:
        return graph_classes()[0]
    return graph_classes()[1] if cls is nx.DiGraph else cls


backend = BackendInterface()


def store_of(G: Any, weight: str | None = None) -> DynamicGraph:
    """Return the DynamicGraph behind a NetworkX graph of dynstore, with all changes so far.

    Read it, and run dynstore's own algorithms on it. Change it only through the NetworkX graph. Vertex ``i`` is the
    ``i``-th node added since the store was made.

    Parameters
    ----------
    G : dynstore.adapters.networkx.Graph or dynstore.adapters.networkx.DiGraph
        The NetworkX graph.
    weight : str, optional
        The edge attribute to use as weight, 1 for edges without it. By default the graph is unweighted.

    Returns
    -------
    DynamicGraph
        The same object for each call, while the graph changes by its own methods.

    Raises
    ------
    InputTypeError
        For another graph.
    """
    graph = store_graph_of(G)
    if not isinstance(graph, TrackedGraph):
        raise InputTypeError("store_of: G is a converted copy; wanted a dynstore.adapters.networkx.Graph or DiGraph")
    return graph.layer(weight).graph
