"""PageRank, as in cuGraph, with an optional warm start from the last computed ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload
from weakref import WeakKeyDictionary

import numpy as np

from dynstore.algorithms.calls import algorithm
from dynstore.algorithms.link_analysis.by_row import iterate, normalised, pagerank_frame, read_pagerank
from dynstore.arguments import check_flag
from dynstore.errors import FailedToConvergeError, InputError

if TYPE_CHECKING:
    from dynstore.graph import AnyGraph
    from dynstore.typing import Array, Frame

__all__ = ["pagerank"]

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
    asks="how important is each vertex?",
    parallel="sum",
    paper="Page, Brin, Motwani, Winograd: The PageRank Citation Ranking, Stanford InfoLab 1999",
    columns={"vertex": "vertex", "pagerank": "weight"},
    read=read_pagerank,
    compute=iterate,
    uses_in_edges=True,
    kernels="ranks",
    forms=("slabs", "paged"),
    tracked="PagerankAnswer",
    cugraph=("pagerank",),
    networkx=("pagerank",),
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
    if check_flag("pagerank", "warm_start", warm_start) and nstart is not None:
        raise InputError("pagerank: got both nstart and warm_start=True; wanted one of them")
    inputs = read_pagerank(G, alpha, personalization, precomputed_vertex_out_weight, max_iter, tol, nstart)
    if warm_start:
        _start_from_last(G, inputs[3])
    ranks, iterations, error = iterate(G, *inputs)
    if np.isfinite(error):  # infinite weights make the ranks NaN
        _last_ranks[G] = ranks.copy(), G.core.ids.epoch
    tol = inputs[-1]
    converged = error < tol or ranks.shape[0] == 0
    if fail_on_nonconvergence and not converged:
        raise FailedToConvergeError(
            f"pagerank: failed to converge: after {iterations} iterations the ranks still change by {error:.3g}; "
            f"wanted less than tol={tol:g}. Raise max_iter or tol, or pass fail_on_nonconvergence=False"
        )
    frame = pagerank_frame(G, ranks)
    return frame if fail_on_nonconvergence else (frame, bool(converged))


def _start_from_last(G: AnyGraph, ranks: Array) -> None:
    """Write the last computed ranks over the first ones, shape (V,), so that they sum to 1."""
    last, epoch = _last_ranks.get(G, (None, 0))
    # After a clear there are fewer vertices than before; after a reorder the rows have other vertices.
    if last is not None and last.shape[0] <= ranks.shape[0] and epoch == G.core.ids.epoch:
        ranks[: last.shape[0]] = last
        ranks[:] = normalised(ranks)
