"""Triangle counting on the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.community.cuda.arcs import count_arc_triangles
from dynstore.algorithms.community.cuda.orientation import Arcs, orient_edges

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["Part", "count_triangles"]


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


class Part:
    """The arcs of some rows of a graph.

    Parameters
    ----------
    csr : GapCSR
        A symmetric graph, of which other rows are empty.
    degrees : array, shape (V,)
        Of the whole graph.

    Attributes
    ----------
    arcs : tuple of two arrays, shape (A,)
        Tails and heads, sorted, for :meth:`count_closed` of all parts.
    """

    def __init__(self, csr: GapCSR, degrees: Array) -> None:
        self._backend, self._arcs = csr.backend, orient_edges(csr, degrees)
        self.arcs = self._arcs.tails, self._arcs.heads

    def count_closed(self, tails: Array, heads: Array) -> Array:
        """Count the triangles whose first two arcs are here, and whose third is among others.

        Returns
        -------
        array, shape (V,), int64
            Every triangle counts at its three corners.
        """
        xp, ranks = self._backend.xp, self._arcs.ranks
        starts = xp.searchsorted(tails, xp.arange(ranks.shape[0] + 1, dtype=tails.dtype))
        return count_arc_triangles(self._backend, self._arcs, np.dtype(np.int64), Arcs(ranks, starts, tails, heads))
