"""``as_cugraph``: a genuine ``cugraph.Graph`` that always shows the current version of a DynamicGraph.

Its type is exactly ``cugraph.Graph``, which cuGraph tests for. Its implementation object is replaced by one that reads
the store. cuGraph's algorithms read that object's ``_plc_graph``, the C++ graph: they get packed rows lent by dynstore.
"""

from __future__ import annotations

from typing import Any

from dynstore.adapters.cugraph.live_graph import live_graph_type
from dynstore.adapters.cugraph.methods import set_methods
from dynstore.adapters.cugraph.names import ColumnNames
from dynstore.adapters.libraries import require
from dynstore.errors import InputTypeError, type_name
from dynstore.graph import DynamicGraph
from dynstore.graph.events.questions import refuse_multigraph

__all__ = ["as_cugraph"]

CALLER = "as_cugraph"


def as_cugraph(
    G: DynamicGraph, source: str = "source", destination: str = "destination", weight: str = "weight"
) -> Any:
    """Return a ``cugraph.Graph`` of a dynamic graph: each call on it uses the edges of that moment.

    Parameters
    ----------
    G : DynamicGraph
        It should be on CUDA. The rows of a graph on the host are copied to the GPU, once for each version.
    source, destination, weight : str
        Names of the columns of ``view_edge_list()``, and of frames passed to its ``insert_edges`` and ``delete_edges``.

    Returns
    -------
    cugraph.Graph
        Of exactly this type, so all functions of cuGraph take it. Its ``insert_edges`` and ``delete_edges`` update
        ``G``, which is its attribute ``dynamic_graph``.

    Raises
    ------
    MissingDependencyError
        Without cuGraph; the message has the command that installs it.
    InputTypeError
        For anything that is no DynamicGraph.
    """
    if not isinstance(G, DynamicGraph):
        raise InputTypeError(f"{CALLER}: G is a {type_name(G)}; wanted a dynstore.DynamicGraph")
    refuse_multigraph(CALLER, G)
    cugraph = require(CALLER, "cugraph")
    graph = cugraph.Graph(directed=G.is_directed())
    live = live_graph_type()(graph.graph_properties)
    live.show(G, ColumnNames(source, destination, weight if G.is_weighted() else None))
    graph._Impl = live
    set_methods(graph)
    return graph
