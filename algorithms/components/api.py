"""Connected components, as in cuGraph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynstore.algorithms.inputs import all_vertices, refuse_arguments, to_ids
from dynstore.algorithms.registry import algorithm
from dynstore.errors import InputTypeError
from dynstore.input.frames import make_frame

if TYPE_CHECKING:
    from dynstore.graph import DynamicGraph
    from dynstore.typing import Array, Frame

__all__ = ["components_frame", "read_components", "weakly_connected_components"]


@algorithm(paper="Sutton, Ben-Nun, Barak: Optimizing Parallel Graph Connectivity via Subgraph Sampling, IPDPS 2018")
def weakly_connected_components(
    G: DynamicGraph, directed: None = None, connection: str | None = None, return_labels: None = None
) -> Frame:
    """Label each vertex with its component; the directions of edges are ignored.

    Unlike cuGraph, it also accepts directed graphs, and makes no second orientation for them. A label is the smallest
    vertex of the component.

    Parameters
    ----------
    G : DynamicGraph
        Directed or not; weights are not used.
    directed, return_labels : None
        For cuGraph's matrices only; anything but None is refused.
    connection : {None, "weak"}

    Returns
    -------
    frame of V rows in order of vertex
        ``vertex``; ``labels``, in the vertex dtype. An isolated vertex is a component of its own.

    Raises
    ------
    InputTypeError
        For another ``connection``.
    """
    read_components(directed, connection, return_labels)
    kernels = G.backend.kernels("dynstore.algorithms.components", "labels")
    return components_frame(G, kernels.label_components(G.snapshot(), not G.is_directed()))


def read_components(directed: None = None, connection: str | None = None, return_labels: None = None) -> None:
    """Refuse what :func:`weakly_connected_components` refuses."""
    refuse_arguments("weakly_connected_components", directed=directed, return_labels=return_labels)
    if connection not in (None, "weak"):
        raise InputTypeError(f"weakly_connected_components: connection is {connection!r}; it must be 'weak'")


def components_frame(G: DynamicGraph, labels: Array) -> Frame:
    """Return what :func:`weakly_connected_components` returns."""
    return make_frame(G.backend, {"vertex": all_vertices(G), "labels": to_ids(G, labels)}, G.frames)
