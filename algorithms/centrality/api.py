"""Betweenness centrality, as in cuGraph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.calls import algorithm
from dynstore.algorithms.centrality.by_row import sum_dependencies
from dynstore.algorithms.centrality.scaling import draw_sources, scale_totals
from dynstore.algorithms.inputs import all_vertices, read_vertices
from dynstore.errors import InputError, InputTypeError
from dynstore.input.frames import make_frame

if TYPE_CHECKING:
    from dynstore.graph import AnyGraph
    from dynstore.typing import Frame

__all__ = ["betweenness_centrality"]


@algorithm(
    asks="how many shortest paths lead through each vertex?",
    paper="Brandes: A Faster Algorithm for Betweenness Centrality, Journal of Mathematical Sociology 2001",
    columns={"vertex": "vertex", "betweenness_centrality": "float64"},
    compute=sum_dependencies,
    example={"k": 2},
    forms=("paged",),
    cugraph=("betweenness_centrality",),
    networkx=("betweenness_centrality",),
)
def betweenness_centrality(
    G: AnyGraph,
    k: Any = None,
    normalized: bool = True,
    weight: None = None,
    endpoints: bool = False,
    seed: int | None = None,
    random_state: int | None = None,
    result_dtype: Any = np.float64,
) -> Frame:
    """Measure how many shortest paths lead through each vertex.

    Parameters
    ----------
    G : DynamicGraph or GraphView
        Weights are not used: the length of a path is its number of edges.
    k : int, or vertices as a list, array, series or frame of one column, optional
        A number of vertices to sample, or the vertices themselves. Only paths from these are searched, and the result
        is scaled up. By default every vertex is a source: V searches. A vertex that is given twice counts twice, as in
        cuGraph.
    normalized : bool
        If True, divide by the number of ordered pairs that could have a path through the vertex: (V - 1)(V - 2), or
        V (V - 1) with ``endpoints``. If False, count paths: between ordered pairs in a directed graph, unordered pairs
        in an undirected one.
    weight : None
        Not supported, as in cuGraph.
    endpoints : bool
        If True, a path counts at its two ends as well.
    seed : int, optional
        The older name of ``random_state``.
    random_state : int, optional
        The seed for sampling ``k`` vertices.
    result_dtype : {numpy.float32, numpy.float64}
        The dtype of the result.

    Returns
    -------
    frame
        One row for each vertex, in order, with the columns ``vertex`` and ``betweenness_centrality``. With a single
        source and without ``endpoints``, that source has no pairs to count and gets NaN.

    Raises
    ------
    InputError
        If a vertex is not in the graph, ``k`` is larger than V, or weights are asked for.

    Examples
    --------
    >>> import dynstore
    >>> G = dynstore.DynamicGraph(directed=False, device="cpu")
    >>> report = G.insert_edges(([0, 1], [1, 2]))
    >>> dynstore.betweenness_centrality(G)["betweenness_centrality"].tolist()
    [0.0, 1.0, 0.0]
    """
    if weight is not None:
        raise InputError("betweenness_centrality: weight is not supported; wanted None")
    dtype = _result_dtype(result_dtype)
    sources = _sources(G, k, seed if random_state is None else random_state)
    totals = sum_dependencies(G, sources, bool(endpoints))
    scaled = scale_totals(G.core.backend, totals, sources, bool(normalized), bool(endpoints), G.is_directed())
    values = scaled.astype(dtype, copy=False)
    return make_frame(G.core.backend, {"vertex": all_vertices(G), "betweenness_centrality": values}, G.core.frames)


def _result_dtype(result_dtype: Any) -> np.dtype:
    try:
        dtype: np.dtype = np.dtype(result_dtype)
        if dtype.name in ("float32", "float64"):
            return dtype
    except TypeError:
        pass  # not a dtype
    raise InputTypeError(f"betweenness_centrality: result_dtype is {result_dtype!r}; wanted float32 or float64")


def _sources(G: AnyGraph, k: Any, seed: int | None) -> np.ndarray:
    if k is None or (isinstance(k, int | np.integer) and not isinstance(k, bool)):
        return draw_sources(G.number_of_vertices(), k, seed)
    return read_vertices(G, "betweenness_centrality", "k", k)
