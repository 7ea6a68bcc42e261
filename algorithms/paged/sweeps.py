"""PageRank and components: algorithms that read every page in each pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.link_analysis.scaling import are_moderate
from dynstore.errors import InputError, UnweightedGraphError

if TYPE_CHECKING:
    from dynstore.algorithms.paged.passes import PageReader
    from dynstore.typing import Array

__all__ = ["pagerank", "sum_out_weights", "weakly_connected_components"]


def pagerank(
    into: PageReader,
    out_degrees: Array,
    alpha: float = 0.85,
    max_iter: int = 100,
    tol: float = 1.0e-5,
    weighted: bool = False,
) -> tuple[Array, int, float]:
    """Rank vertices as :func:`dynstore.pagerank` does; each iteration is a pass over the in-edges.

    Parameters
    ----------
    into : PageReader
        Of the in-edges: the row of a vertex holds where its edges come from.
    out_degrees : array, shape (V,)
        How many edges leave each vertex; with ``weighted`` the sums of their weights, as :func:`sum_out_weights` finds.
    alpha, max_iter, tol
        As for :func:`dynstore.pagerank`.
    weighted : bool
        Whether an edge counts as much as its weight.

    Returns
    -------
    ranks : array, shape (V,), float32, or the dtype of the weights
    iterations : int
    error : float
        The change of the last iteration, in sum.

    Raises
    ------
    InputError
        If there are not V degrees, a weight is negative, or a sum of weights is near the ends of its dtype's range.
    """
    packed = into.packed
    backend, num_vertices = packed.backend, packed.num_vertices
    if int(out_degrees.shape[0]) != num_vertices:
        raise InputError(f"pagerank: got {int(out_degrees.shape[0])} out_degrees; wanted {num_vertices}")
    dtype = _read_dtype(into) if weighted else np.dtype(np.float32)
    start = backend.empty(num_vertices, dtype)
    start.fill(1.0 / max(num_vertices, 1))
    if num_vertices == 0:
        return start, 0, 0.0
    kernels = backend.kernels("dynstore.algorithms.paged", "sweeps")
    with np.errstate(over="ignore"):  # a sum that does not fit is infinite
        sums = backend.asarray(out_degrees).astype(dtype)
    if weighted and not are_moderate(backend.xp, sums):
        raise InputError(f"pagerank: sums of out-weights are too large or too small for {dtype}; wanted others, or 0")
    found: tuple[Array, int, float] = kernels.pagerank(into, sums, alpha, start, max_iter, tol, weighted)
    return found


def _read_dtype(into: PageReader) -> np.dtype:
    weights = into.packed.weights
    if weights is None:
        raise UnweightedGraphError("pagerank: the pages have no weights; pack them with weights")
    if into.has_negative_weights():
        raise InputError("pagerank: the graph has negative weights; wanted weights of at least 0")
    dtype: np.dtype = np.dtype(weights.dtype)
    return dtype


def sum_out_weights(into: PageReader) -> Array:
    """Return the sum of the weights of the edges that leave each vertex, in one pass over in-edges.

    Returns
    -------
    array, shape (V,), float64
    """
    packed = into.packed
    sums: Array = packed.backend.zeros(packed.num_vertices, np.float64)
    kernels = packed.backend.kernels("dynstore.algorithms.paged", "sweeps")
    into.visit(lambda piece: kernels.sum_tails(packed, piece, sums), weighted=True)
    if into.extra is not None:
        kernels.sum_slot_tails(into.extra, sums)
    return sums


def weakly_connected_components(edges: PageReader) -> Array:
    """Label each vertex with the smallest vertex of its weak component, in one pass.

    Returns
    -------
    array, shape (V,), int32
    """
    packed = edges.packed
    parents = packed.backend.xp.arange(packed.num_vertices, dtype=np.int32)
    packed.backend.kernels("dynstore.algorithms.paged", "sweeps").unite(edges, parents)
    return parents
