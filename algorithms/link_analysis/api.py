"""PageRank, as in cuGraph, with an optional warm start from the last computed ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload
from weakref import WeakKeyDictionary

import numpy as np

from dynstore.algorithms.calls import algorithm, run_native
from dynstore.algorithms.inputs import all_vertices, has_negative_weights, read_values
from dynstore.algorithms.link_analysis.scaling import choose_weights
from dynstore.arguments import check_flag, check_integer, check_number
from dynstore.errors import FailedToConvergeError, InputError
from dynstore.input.frames import make_frame

if TYPE_CHECKING:
    from dynstore.graph import AnyGraph
    from dynstore.typing import Array, Frame

__all__ = ["iterate", "pagerank", "pagerank_frame", "read_numbers", "read_personalization"]

DEFAULT_MAX_ITER = 100

# The last computed ranks of a graph, of any version, and the epoch of its row numbers; dropped with the graph.
_last_ranks: WeakKeyDictionary[AnyGraph, tuple[Array, int]] = WeakKeyDictionary()


@overload
def pagerank(
    G: AnyGraph,
    alpha: float = ...,
    personalization: Any = ...,
    precomputed_vertex_out_weight: Any = ...,
    max_iter: int = ...,
    tol: float = ...,
    nstart: Any = ...,
    dangling: Any = ...,
    fail_on_nonconvergence: Literal[True] = ...,
    warm_start: bool = ...,
) -> Frame: ...


@overload
def pagerank(
    G: AnyGraph,
    alpha: float = ...,
    personalization: Any = ...,
    precomputed_vertex_out_weight: Any = ...,
    max_iter: int = ...,
    tol: float = ...,
    nstart: Any = ...,
    dangling: Any = ...,
    *,
    fail_on_nonconvergence: Literal[False],
    warm_start: bool = ...,
) -> tuple[Frame, bool]: ...


@algorithm(
    paper="Page, Brin, Motwani, Winograd: The PageRank Citation Ranking, Stanford InfoLab 1999", uses_in_edges=True
)
def pagerank(
    G: AnyGraph,
    alpha: float = 0.85,
    personalization: Any = None,
    precomputed_vertex_out_weight: Any = None,
    max_iter: int = 100,
    tol: float = 1.0e-5,
    nstart: Any = None,
    dangling: Any = None,
    fail_on_nonconvergence: bool = True,
    warm_start: bool = False,
) -> Frame | tuple[Frame, bool]:
    """Rank vertices by the chance that a random surfer is there.

    Parameters
    ----------
    G : DynamicGraph or GraphView
        The weights of a vertex's out-edges, none negative, are their relative probabilities. On a directed graph the
        first call makes a table of in-edges, which updates keep from then on.
    alpha : float
        The probability of following an edge, 0 to 1.
    personalization : frame with columns ``vertex`` and ``values``, optional
        Where the surfer goes if it follows no edge, also from vertices without out-edges. Vertices that are not named
        count 0. The values are divided by their sum. By default all vertices are equally probable.
    precomputed_vertex_out_weight : frame with columns ``vertex`` and ``sums``, optional
        The sum of out-weights of each vertex; 0 for vertices that are not named. It saves a pass over the edges.
    max_iter : int
        The most iterations; 0 or less means 100.
    tol : float
        Stop when an iteration changes the ranks by less than this in sum. 0 does all ``max_iter`` iterations.
    nstart : frame with columns ``vertex`` and ``values``, optional
        The ranks to start from; 0 for vertices that are not named. The values are divided by their sum.
    dangling : optional
        Ignored, as in cuGraph.
    fail_on_nonconvergence : bool
        If False, return ``(frame, converged)`` and never raise :class:`FailedToConvergeError`.
    warm_start : bool
        If True, start from the ranks of the last call on this graph. After few updates that needs few iterations.
        Vertices added since then start at 1 / V. Without an earlier call it has no effect.

    Returns
    -------
    frame
        One row for each vertex, in order, with the columns ``vertex`` and ``pagerank``. The ranks sum to 1. They are
        float32 for an unweighted graph, else in the weight dtype.

    Raises
    ------
    FailedToConvergeError
        If ``max_iter`` iterations are not enough. A call with ``warm_start=True`` continues from there.
    InputError
        If a frame, a number or a weight cannot be used, or both ``nstart`` and ``warm_start`` are given.

    Examples
    --------
    >>> import dynstore
    >>> G = dynstore.DynamicGraph(device="cpu")
    >>> report = G.insert_edges(([0, 1, 2], [1, 2, 0]))
    >>> dynstore.pagerank(G).round(3)
       vertex  pagerank
    0       0     0.333
    1       1     0.333
    2       2     0.333
    """
    alpha, tol, limit = read_numbers(alpha, tol, max_iter)
    if check_flag("pagerank", "warm_start", warm_start) and nstart is not None:
        raise InputError("pagerank: got both nstart and warm_start=True; wanted one of them")
    dtype = np.dtype(G.weight_dtype if G.is_weighted() else np.float32)
    targets = None
    if personalization is not None:
        targets = read_personalization(G, personalization, dtype)
    start = _first_ranks(G, nstart, warm_start, dtype)
    out_weights = None
    if precomputed_vertex_out_weight is not None:
        what = "precomputed_vertex_out_weight"
        out_weights = read_values(G, "pagerank", what, precomputed_vertex_out_weight, "sums", dtype, any_sum=True)
    ranks, iterations, error = iterate(G, out_weights, alpha, targets, start, limit, tol)
    if np.isfinite(error):  # infinite weights make the ranks NaN
        _last_ranks[G] = ranks.copy(), G.core.ids.epoch
    converged = error < tol or ranks.shape[0] == 0
    if fail_on_nonconvergence and not converged:
        raise FailedToConvergeError(
            f"pagerank: failed to converge: after {iterations} iterations the ranks still change by {error:.3g}; "
            f"wanted less than tol={tol:g}. Raise max_iter or tol, or pass fail_on_nonconvergence=False"
        )
    frame = pagerank_frame(G, ranks)
    return frame if fail_on_nonconvergence else (frame, bool(converged))


def read_numbers(alpha: float = 0.85, tol: float = 1.0e-5, max_iter: int = 100) -> tuple[float, float, int]:
    """Return the numbers as :func:`pagerank` uses them; refuse unusable ones."""
    alpha, tol = check_number("pagerank", "alpha", alpha), check_number("pagerank", "tol", tol)
    if not 0 <= alpha <= 1:
        raise InputError(f"pagerank: alpha is {alpha}; wanted 0 to 1")
    if tol < 0:
        raise InputError(f"pagerank: tol is {tol}; wanted 0 or more")
    limit = check_integer("pagerank", "max_iter", max_iter)
    return alpha, tol, limit if limit > 0 else DEFAULT_MAX_ITER


def read_personalization(G: AnyGraph, personalization: Any, dtype: np.dtype) -> Array:
    """Return the personalization, shape (V,), summing to 1."""
    return _normalised(read_values(G, "pagerank", "personalization", personalization, "values", dtype))


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


def _first_ranks(G: AnyGraph, nstart: Any, warm_start: bool, dtype: np.dtype) -> Array:
    """Return the ranks of iteration 0, shape (V,), summing to 1."""
    if nstart is not None:
        return _normalised(read_values(G, "pagerank", "nstart", nstart, "values", dtype))
    num_vertices = G.number_of_vertices()
    ranks = G.core.backend.empty(num_vertices, dtype)
    ranks.fill(1.0 / max(num_vertices, 1))
    last, epoch = _last_ranks.get(G, (None, 0)) if warm_start else (None, 0)
    # After a clear there are fewer vertices than before; after a reorder the rows have other vertices.
    if last is not None and last.shape[0] <= num_vertices and epoch == G.core.ids.epoch:
        ranks[: last.shape[0]] = last
        ranks = _normalised(ranks)
    return ranks


def _normalised(values: Array) -> Array:
    return (values / values.sum(dtype=np.float64)).astype(values.dtype)
