"""Components by row: the parameters, the labels, and the frame that the function returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynstore.algorithms.calls import run_native
from dynstore.algorithms.inputs import refuse_arguments, vertices_and
from dynstore.errors import InputTypeError
from dynstore.input.frames import make_frame

if TYPE_CHECKING:
    from dynstore.graph import AnyGraph
    from dynstore.typing import Array, Frame

__all__ = ["components_frame", "label_rows", "read_components"]


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
