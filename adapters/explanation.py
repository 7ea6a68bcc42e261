"""``dynstore.explain``: the path of the last call on a graph, and what it copied."""

from __future__ import annotations

from typing import Any

from dynstore.algorithms.calls import Call, last_call
from dynstore.errors import InputError, InputTypeError, type_name
from dynstore.graph import DynamicGraph, GraphView

__all__ = ["explain"]


def explain(G: Any) -> Call:
    """Return how the last call on a graph was run: its path, the version, the copied bytes, and the reason.

    Parameters
    ----------
    G : DynamicGraph, GraphView or cugraph.Graph
        A ``DynamicGraph`` and the ``cugraph.Graph`` that ``as_cugraph`` made from it share their last call.

    Returns
    -------
    Call
        Its ``path`` is "own kernel", "borrowed" (cuGraph read dynstore's rows) or "rebuilt" (cuGraph built its own
        graph). Printed, it is one line.

    Raises
    ------
    InputError
        If nothing was called on the graph so far.
    InputTypeError
        For anything that is no graph.
    """
    graph = G if isinstance(G, DynamicGraph | GraphView) else _behind(G)
    call = last_call(graph)
    if call is None:
        raise InputError("explain: nothing was called on this graph yet; call an algorithm first")
    return call


def _behind(G: Any) -> Any:
    """Return the DynamicGraph that a cugraph.Graph shows, or the cugraph.Graph itself if there is none."""
    if not hasattr(type(G), "from_cudf_edgelist"):  # decided without importing cugraph
        raise InputTypeError(f"explain: G is a {type_name(G)}; wanted a dynstore.DynamicGraph or a cugraph.Graph")
    return getattr(G._Impl, "dynamic_graph", None) or G
