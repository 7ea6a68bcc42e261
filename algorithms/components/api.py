"""Connected components, as in cuGraph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynstore.algorithms.calls import algorithm
from dynstore.algorithms.components.by_row import components_frame, label_rows, read_components

if TYPE_CHECKING:
    from dynstore.graph import AnyGraph
    from dynstore.typing import Frame

__all__ = ["weakly_connected_components"]


@algorithm(
    asks="which vertices are connected?",
    paper="Sutton, Ben-Nun, Barak: Optimizing Parallel Graph Connectivity via Subgraph Sampling, IPDPS 2018",
    columns={"vertex": "vertex", "labels": "vertex"},
    compute=label_rows,
    kernels="labels",
    forms=("paged",),
    tracked="ComponentAnswer",
    cugraph=("connected_components", "weakly_connected_components"),
    networkx=(
        "connected_components",
        "is_connected",
        "is_weakly_connected",
        "number_connected_components",
        "number_weakly_connected_components",
        "weakly_connected_components",
    ),
)
def weakly_connected_components(
    G: AnyGraph, directed: None = None, connection: str | None = None, return_labels: None = None
) -> Frame:
    """Label each vertex with its component. The directions of edges are ignored.

    Unlike cuGraph, it accepts directed graphs too, and makes no table of in-edges for them.

    Parameters
    ----------
    G : DynamicGraph or GraphView
        Weights are not used.
    directed : None
        Must be None; cuGraph has it for matrices only.
    connection : {None, "weak"}
        For compatibility with cuGraph.
    return_labels : None
        Must be None; cuGraph has it for matrices only.

    Returns
    -------
    frame
        One row for each vertex, in order, with the columns ``vertex`` and ``labels``. The label is the smallest vertex
        of the component, in the vertex dtype. An isolated vertex is a component of its own.

    Raises
    ------
    InputTypeError
        If ``connection`` is neither None nor "weak".

    Examples
    --------
    >>> import dynstore
    >>> G = dynstore.DynamicGraph(device="cpu")
    >>> report = G.insert_edges(([0, 3], [1, 4]))
    >>> dynstore.weakly_connected_components(G)["labels"].tolist()
    [0, 0, 2, 3, 3]
    """
    read_components(directed, connection, return_labels)
    return components_frame(G, label_rows(G))
