"""PageRank by row: its parameters, the iterations, and the frame that the function returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.calls import run_native
from dynstore.algorithms.inputs import all_vertices, has_negative_weights, read_values
from dynstore.algorithms.link_analysis.scaling import choose_weights
from dynstore.arguments import check_integer, check_number
from dynstore.errors import InputError
from dynstore.input.frames import make_frame

if TYPE_CHECKING:
    from dynstore.graph import AnyGraph
    from dynstore.typing import Array, Frame

__all__ = ["iterate", "normalised", "pagerank_frame", "read_numbers", "read_pagerank", "read_personalization"]

DEFAULT_MAX_ITER = 100


def read_numbers(alpha: float = 0.85, tol: float = 1.0e-5, max_iter: int = 100) -> tuple[float, float, int]:
    """Return the numbers as :func:`pagerank` uses them; refuse unusable ones."""
    alpha, tol = check_number("pagerank", "alpha", alpha), check_number("pagerank", "tol", tol)
    if not 0 <= alpha <= 1:
        raise InputError(f"pagerank: alpha is {alpha}; wanted 0 to 1")
    if tol < 0:
        raise InputError(f"pagerank: tol is {tol}; wanted 0 or more")
    limit = check_integer("pagerank", "max_iter", max_iter)
    return alpha, tol, limit if limit > 0 else DEFAULT_MAX_ITER


def read_pagerank(
    G: AnyGraph,
    alpha: float = 0.85,
    personalization: Any = None,
    precomputed_vertex_out_weight: Any = None,
    max_iter: int = 100,
    tol: float = 1.0e-5,
    nstart: Any = None,
) -> tuple[Array | None, float, Array | None, Array, int, float]:
    """Return what :func:`iterate` takes: out-weights, alpha, personalization, first ranks, most iterations, tol."""
    alpha, tol, limit = read_numbers(alpha, tol, max_iter)
    dtype, targets, out_weights = np.dtype(G.weight_dtype if G.is_weighted() else np.float32), None, None
    if personalization is not None:
        targets = read_personalization(G, personalization, dtype)
    if nstart is None:
        num_vertices = G.number_of_vertices()
        start = G.core.backend.empty(num_vertices, dtype)
        start.fill(1.0 / max(num_vertices, 1))
    else:
        start = normalised(read_values(G, "pagerank", "nstart", nstart, "values", dtype))
    if precomputed_vertex_out_weight is not None:
        what = "precomputed_vertex_out_weight"
        out_weights = read_values(G, "pagerank", what, precomputed_vertex_out_weight, "sums", dtype, any_sum=True)
    return out_weights, alpha, targets, start, limit, tol


def read_personalization(G: AnyGraph, personalization: Any, dtype: np.dtype) -> Array:
    """Return the personalization, shape (V,), summing to 1."""
    return normalised(read_values(G, "pagerank", "personalization", personalization, "values", dtype))


def pagerank_frame(G: AnyGraph, ranks: Array) -> Frame:
    """Return what :func:`pagerank` returns."""
    return make_frame(G.core.backend, {"vertex": all_vertices(G), "pagerank": ranks}, G.core.frames)


def iterate(G: AnyGraph, out_weights: Array | None, *arguments: Any) -> tuple[Array, int, float]:
    """Return ranks, iterations and the last change, computed over the store's own rows or over in-edges in slots."""
    if G.store_name == "paged" or not (G.is_directed() or G.is_weighted()):
        found: tuple[Array, int, float] | None = run_native(
            G, "pagerank", out_weights, *arguments, transposed=G.is_directed()
        )
        if found is not None:
            return found
    into = G.snapshot(transposed=True)
    if has_negative_weights(into):
        raise InputError("pagerank: the graph has negative weights; wanted weights of at least 0")
    kernels = G.core.backend.kernels("dynstore.algorithms.link_analysis", "ranks")
    into, out_weights = choose_weights(kernels, into, G.snapshot(), out_weights)
    ranked: tuple[Array, int, float] = kernels.pagerank(into, out_weights, *arguments)
    return ranked


def normalised(values: Array) -> Array:
    """Return values divided by their sum."""
    return (values / values.sum(dtype=np.float64)).astype(values.dtype)
