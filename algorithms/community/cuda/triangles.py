"""Triangle counting on the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynstore.algorithms.community.cuda.arcs import count_arc_triangles
from dynstore.algorithms.community.cuda.orientation import orient_edges

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["count_triangles"]


def count_triangles(csr: GapCSR) -> Array:
    """Count the triangles at each vertex.

    The *forward* algorithm of Schank and Wagner, "Finding, Counting and Listing All Triangles in Large Graphs, An
    Experimental Study", WEA 2005, section 3, on the A edges that point from the lower to the higher (degree, id): every
    triangle is found once, as an arc between two heads of a row, and no row is longer than sqrt(2 A). Arcs of hubs are
    looked up as bits, as in Bisson and Fatica, "High Performance Exact Triangle Counting on GPUs", IEEE TPDS 28(12),
    2017; other arcs by binary search, as in Hu, Liu and Huang, "TriCore: Parallel Triangle Counting on GPUs", SC'18,
    section 4.

    Parameters
    ----------
    csr : GapCSR
        A symmetric graph; self-loops are ignored.

    Returns
    -------
    array, shape (V,), vertex dtype
        Every triangle counts at its three corners.

    Raises
    ------
    LimitError
        For more than 2^31 vertices.
    """
    backend, dtype = csr.backend, csr.offsets.dtype
    if csr.num_edges == 0:
        return backend.zeros(csr.num_vertices, dtype)
    return count_arc_triangles(backend, orient_edges(csr), dtype)
