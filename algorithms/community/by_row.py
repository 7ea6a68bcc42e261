"""Triangles by row: the rows to report, the counts, and the frame that the function returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynstore.algorithms.calls import run_native
from dynstore.algorithms.inputs import all_vertices, read_vertices, to_ids
from dynstore.input.frames import make_frame

if TYPE_CHECKING:
    from dynstore.graph import AnyGraph
    from dynstore.typing import Array, Frame

__all__ = ["chosen_counts", "count_at_rows", "read_chosen"]


def count_at_rows(G: AnyGraph) -> Array:
    """Return the triangles at each row, shape (V,)."""
    counts: Array = run_native(G, "triangle_count")
    if counts is None:
        counts = G.core.backend.kernels("dynstore.algorithms.community", "triangles").count_triangles(G.snapshot())
    return counts


def read_chosen(G: AnyGraph, start_list: Any) -> Array | None:
    """Return the rows to report; None for all."""
    if start_list is None:
        return None
    return G.core.backend.asarray(read_vertices(G, "triangle_count", "start_list", start_list))


def chosen_counts(G: AnyGraph, counts: Array, chosen: Array | None) -> Frame:
    """Return the frame of the chosen rows' counts; None for all rows."""
    if chosen is None:
        return make_frame(G.core.backend, {"vertex": all_vertices(G), "counts": counts}, G.core.frames)
    columns = {"vertex": to_ids(G, chosen.astype(G.vertex_dtype)), "counts": counts[chosen]}
    return make_frame(G.core.backend, columns, G.core.frames)
