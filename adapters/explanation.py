"""``dynstore.explain``: which way the last call on a graph took, and what was copied for it."""

from __future__ import annotations

from typing import Any

from dynstore.algorithms.calls import Call, last_call
from dynstore.errors import InputError, InputTypeError, type_name
from dynstore.graph import DynamicGraph

__all__ = ["explain"]


def explain(G: Any) -> Call:
    """Say for the last call on a graph which path ran, on which version, what was copied, and why.

    Parameters
    ----------
    G : DynamicGraph or cugraph.Graph
        One graph's ``DynamicGraph`` and the ``cugraph.Graph`` that ``as_cugraph`` made of it share their last call.

    Returns
    -------
    Call
        Its ``path`` is "own kernel", "borrowed" (cuGraph read rows that dynstore lent it) or "rebuilt" (cuGraph built a
        graph of its own); printed, it is one line.

    Raises
    ------
    InputError
        For a graph that nothing was called on yet.
    InputTypeError
        For what is no graph.
    """
    graph = G if isinstance(G, DynamicGraph) else _behind(G)
    call = last_call(graph)
    if call is None:
        raise InputError("explain: nothing was called on this graph yet; call an algorithm first")
    return call


def _behind(G: Any) -> Any:
    """Return the DynamicGraph that a cugraph.Graph shows, or the cugraph.Graph itself where there is none."""
    if not hasattr(type(G), "from_cudf_edgelist"):  # told without importing cugraph
        raise InputTypeError(f"explain: G is a {type_name(G)}; wanted a dynstore.DynamicGraph or a cugraph.Graph")
    return getattr(G._Impl, "dynamic_graph", None) or G
