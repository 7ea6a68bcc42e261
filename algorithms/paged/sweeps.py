"""PageRank and components: algorithms that read every page in each pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.errors import InputError

if TYPE_CHECKING:
    from dynstore.algorithms.paged.passes import PageReader
    from dynstore.typing import Array

__all__ = ["pagerank", "weakly_connected_components"]


def pagerank(
    into: PageReader, out_degrees: Array, alpha: float = 0.85, max_iter: int = 100, tol: float = 1.0e-5
) -> tuple[Array, int, float]:
    """Rank vertices as :func:`dynstore.pagerank` does; each iteration is a pass over the in-edges.

    Parameters
    ----------
    into : PageReader
        Of the in-edges: the row of a vertex holds where its edges come from.
    out_degrees : array, shape (V,)
        How many edges leave each vertex.
    alpha, max_iter, tol
        As for :func:`dynstore.pagerank`.

    Returns
    -------
    ranks : array, shape (V,), float32
    iterations : int
    error : float
        The change of the last iteration, in sum.
    """
    packed = into.packed
    backend, num_vertices = packed.backend, packed.num_vertices
    if int(out_degrees.shape[0]) != num_vertices:
        raise InputError(f"pagerank: got {int(out_degrees.shape[0])} out_degrees; wanted {num_vertices}")
    start = backend.empty(num_vertices, np.float32)
    start.fill(1.0 / max(num_vertices, 1))
    if num_vertices == 0:
        return start, 0, 0.0
    kernels = backend.kernels("dynstore.algorithms.paged", "sweeps")
    weights = backend.asarray(out_degrees).astype(np.float32)
    found: tuple[Array, int, float] = kernels.pagerank(into, weights, alpha, start, max_iter, tol)
    return found


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
