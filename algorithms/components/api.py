"""Connected components, as in cuGraph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynstore.algorithms.calls import algorithm, run_native
from dynstore.algorithms.inputs import refuse_arguments, vertices_and
from dynstore.errors import InputTypeError
from dynstore.input.frames import make_frame

if TYPE_CHECKING:
    from dynstore.graph import AnyGraph
    from dynstore.typing import Array, Frame

__all__ = ["components_frame", "label_rows", "read_components", "weakly_connected_components"]


@algorithm(paper="Sutton, Ben-Nun, Barak: Optimizing Parallel Graph Connectivity via Subgraph Sampling, IPDPS 2018")
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


def label_rows(G: AnyGraph) -> Array:
    """Return the smallest row of each row's component, shape (V,)."""
    labels: Array = run_native(G, "weakly_connected_components")
    if labels is None:
        kernels = G.core.backend.kernels("dynstore.algorithms.components", "labels")
        labels = kernels.label_components(G.snapshot(), not G.is_directed())
    return labels


def read_components(directed: None = None, connection: str | None = None, return_labels: None = None) -> None:
    """Refuse what :func:`weakly_connected_components` refuses."""
    refuse_arguments("weakly_connected_components", directed=directed, return_labels=return_labels)
    if connection not in (None, "weak"):
        raise InputTypeError(f"weakly_connected_components: connection is {connection!r}; it must be 'weak'")


def components_frame(G: AnyGraph, labels: Array) -> Frame:
    """Return what :func:`weakly_connected_components` returns."""
    vertices, named = vertices_and(G, labels)
    return make_frame(G.core.backend, {"vertex": vertices, "labels": named}, G.core.frames)
