"""``dynstore.explain``: the path of the last call on a graph, and what it copied."""

from __future__ import annotations

from typing import Any

from dynstore.algorithms.calls import Call, last_call
from dynstore.errors import InputError, InputTypeError, type_name
from dynstore.graph import DynamicGraph, GraphView

__all__ = ["explain"]


def explain(G: Any) -> Call:
    """Say how the last call on a graph was run: by which kernels, on which version, what was copied, and why.

    It shows whether a call of cuGraph has run on dynstore's kernels or on the graph's own rows, or whether cuGraph has
    built a graph of its own.

    Parameters
    ----------
    G : DynamicGraph, GraphView or cugraph.Graph
        A ``DynamicGraph`` and the ``cugraph.Graph`` that :func:`dynstore.adapters.cugraph.as_cugraph` made of it share
        their last call.

    Returns
    -------
    Call
        With the attributes ``name`` (of the function), ``path``, ``version`` (of the graph), ``copied`` (in words),
        ``copied_bytes`` and ``reason``. ``path`` is "own kernel" (dynstore's), "borrowed" (cuGraph read dynstore's
        rows) or "rebuilt" (cuGraph built its own graph). Printed, it is one line.

    Raises
    ------
    InputError
        If nothing was called on the graph so far.
    InputTypeError
        For anything that is no graph.

    Examples
    --------
    >>> import dynstore
    >>> G = dynstore.DynamicGraph(device="cpu")
    >>> _ = G.insert_edges([(0, 1), (1, 2)])
    >>> _ = dynstore.bfs(G, 0)
    >>> print(dynstore.explain(G))
    bfs on version 1: own kernel; copied: nothing: kernels read the store's slots
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
