"""NetworkX's own code on the graph classes, for every call that the backend does not serve."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from dynstore.adapters.networkx.graphs import FollowedGraph, graph_classes

__all__ = ["concerns_our_classes", "is_networkx_function", "run_networkx"]

_log = logging.getLogger("dynstore")


def is_networkx_function(name: str) -> bool:
    """Whether NetworkX has code of its own under a dispatch name, for graphs that it gets as arguments."""
    function = _dispatched(name)
    return function is not None and bool(function.graphs) and "networkx" in function.backends


def concerns_our_classes(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a graph argument of a call is of our classes."""
    function = _dispatched(name)
    return function is not None and any(isinstance(graph, FollowedGraph) for graph in _graphs(function, args, kwargs))


def run_networkx(name: str, reason: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run NetworkX's own function, and write to the log why.

    The function gets plain NetworkX graphs over the dicts of ours (:func:`convert_to_nx`), so nothing is copied. If it
    changes its argument, it gets our graph itself, which logs the changes. New graphs in the result become graphs of
    our classes, because NetworkX refuses calls that mix graphs of two backends.

    Parameters
    ----------
    name : str
        The dispatch name.
    reason : str
        Why the backend does not serve the call.
    args, kwargs
        NetworkX's arguments.
    """
    _log.debug("networkx.%s: %s; NetworkX's own code runs on the graph", name, reason)
    function = _dispatched(name)
    if function.__wrapped__._will_call_mutate_input(args, kwargs):
        result = function.orig_func(*args, **kwargs)
    else:
        result = function(*args, backend="networkx", **kwargs)
    if not function._returns_graph:
        return result
    given = {id(value) for value in (*args, *kwargs.values())}
    if type(result) in (tuple, list):
        return type(result)(_in_our_class(item, given) for item in result)
    return _in_our_class(result, given)


def _in_our_class(graph: Any, given: set[int]) -> Any:
    import networkx as nx

    shown = getattr(graph, "_shown_graph", None)
    if shown is not None:
        return shown
    if type(graph) not in (nx.Graph, nx.DiGraph) or id(graph) in given:
        return graph
    # The graph is new and has no other owner yet, so it may change its class: no edge is copied.
    graph.__class__ = graph_classes()[graph.is_directed()]
    graph._follow_anew()
    return graph


def _dispatched(name: str) -> Any:
    import networkx as nx

    return nx.utils.backends._registered_algorithms.get(name)


def _graphs(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
    """Yield the graphs among a call's arguments."""
    for name, position in function.graphs.items():
        value: Any = args[position] if position < len(args) else kwargs.get(name)
        if name in function.list_graphs:
            yield from value
        else:
            yield value
