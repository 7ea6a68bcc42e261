"""``as_cugraph``: a genuine ``cugraph.Graph`` that shows the current version of a DynamicGraph, whenever it is asked.

Its type is exactly ``cugraph.Graph``, which is what cuGraph tests for; its implementation object is replaced by one
that reads the store. cuGraph's algorithms ask that object for ``_plc_graph``, the graph in C++: they get packed rows
that are lent to them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from dynstore.adapters.cugraph.borrowed.loading import load_bridge
from dynstore.adapters.cugraph.live_graph import LiveGraph
from dynstore.adapters.cugraph.live_views import Columns
from dynstore.adapters.libraries import require
from dynstore.errors import InputTypeError, type_name
from dynstore.graph import DynamicGraph

__all__ = ["as_cugraph", "live_graph_type"]

CALLER = "as_cugraph"


def as_cugraph(
    G: DynamicGraph, source: str = "source", destination: str = "destination", weight: str = "weight"
) -> Any:
    """Return a ``cugraph.Graph`` that shows the graph live: each call on it sees the edges of that moment.

    Parameters
    ----------
    G : DynamicGraph
        On CUDA; the rows of one on the host are copied to the GPU once a version.
    source, destination, weight : str
        Names of the columns of ``view_edge_list()``, and of frames passed to its ``insert_edges`` and ``delete_edges``.

    Returns
    -------
    cugraph.Graph
        Exactly of that type. ``insert_edges`` and ``delete_edges`` on it update ``G``, too; ``G`` is its
        ``dynamic_graph``.

    Raises
    ------
    MissingDependencyError
        Without cuGraph; the message has the line to type.
    InputTypeError
        For what is no DynamicGraph.
    """
    if not isinstance(G, DynamicGraph):
        raise InputTypeError(f"{CALLER}: G is a {type_name(G)}; wanted a dynstore.DynamicGraph")
    cugraph = require(CALLER, "cugraph")
    load_bridge()  # now, so that the first algorithm does not pay for the build
    graph = cugraph.Graph(directed=G.is_directed())
    live = live_graph_type()(graph.graph_properties)
    live.show(G, Columns(source, destination, weight if G.is_weighted() else None))
    graph._Impl = live
    return graph


@lru_cache(maxsize=1)
def live_graph_type() -> Any:
    """Return the implementation class: :class:`LiveGraph` over the class that every ``cugraph.Graph`` has."""
    module = require(CALLER, "cugraph.structure.graph_implementation.simpleGraph")
    return type("LiveGraphImpl", (LiveGraph, module.simpleGraphImpl), {"__module__": __name__})
