"""cuGraph's functions by dynstore's own kernels, with cuGraph's columns, dtypes and exceptions; when they are used.

A function here takes a call only if its result is the one that cuGraph's contract promises. It declines every other
call, and every faulty one, so that cuGraph's own function runs and words its own errors. These differences remain:

- ``bfs`` and ``sssp``: of several shortest paths, another one may be shown. cuGraph's is any of them.
- ``pagerank``: ranks differ by less than the tolerance.
- components: a label is a row of the component; which row is not defined.
- ``betweenness_centrality``: sums are float64, in cuGraph float32.
"""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.adapters.cugraph.shown import STRING, ShownIds, is_integer, shown_ids
from dynstore.adapters.libraries import require
from dynstore.algorithms.calls import SLOTS, Call, last_call, note_call
from dynstore.algorithms.centrality.scaling import scale_totals
from dynstore.algorithms.door import compute_rows, find_rows, read_inputs, tracked_rows
from dynstore.algorithms.inputs import read_vertices
from dynstore.algorithms.registry import ALGORITHMS
from dynstore.errors import FailedToConvergeError, InputError, unknown_name
from dynstore.input.frames import make_cudf_frame

if TYPE_CHECKING:
    from dynstore.graph import DynamicGraph
    from dynstore.typing import Array

__all__ = ["ENGINES", "Declined", "chosen_engine", "has_own_kernels", "run_own", "run_own_degrees", "set_engine"]

CALLER = "cuGraph"
ENGINES = ("dynstore", "cugraph")
VARIABLE = "DYNSTORE_CUGRAPH_ENGINE"
_chosen = {"engine": os.environ.get(VARIABLE, "dynstore")}
# Kind of degrees -> whether they count in-edges (True), out-edges, or both.
ORIENTATIONS = {"in_degree": (True,), "out_degree": (False,), "degree": (True, False), "degrees": (True, False)}


@dataclass(frozen=True, slots=True)
class Declined:
    """A call that dynstore's own kernels do not take, so that cuGraph's run.

    Attributes
    ----------
    reason : str
    """

    reason: str


def set_engine(engine: str) -> str:
    """Choose the kernels of all later calls in this process that do not name an engine themselves.

    The environment variable ``DYNSTORE_CUGRAPH_ENGINE`` sets the first choice; without it, that is "dynstore".

    Parameters
    ----------
    engine : {"dynstore", "cugraph"}
        "dynstore": its own kernels where their result is the same, else cuGraph's. "cugraph": always cuGraph's.

    Returns
    -------
    str
        The choice before, to go back to.

    Raises
    ------
    InputError
        For any other name.
    """
    before = chosen_engine(None)
    _chosen["engine"] = chosen_engine(engine, "set_engine")
    return before


def chosen_engine(engine: str | None, caller: str = VARIABLE) -> str:
    """Return the engine for a call that names ``engine``, or None."""
    name = _chosen["engine"] if engine is None else engine
    if name not in ENGINES:
        raise unknown_name(caller, "engine", name, ENGINES)
    return name


def has_own_kernels(name: str) -> bool:
    """Return whether dynstore has kernels for a function of cuGraph."""
    return name in _FUNCTIONS


def run_own(name: str, G: DynamicGraph, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what cuGraph's function ``name`` returns, or Declined.

    Parameters
    ----------
    name : str
    G : DynamicGraph
        The graph that the first argument shows.
    args, kwargs
        The arguments of the call, without the graph.
    """
    function, signature = _FUNCTIONS[name]
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        return Declined(f"arguments: {error}")
    return _attempt(G, name, function, given)


def run_own_degrees(G: DynamicGraph, vertex_subset: Any, degree_type: str) -> Any:
    """Return what ``Graph.degrees_function`` returns, or Declined."""
    return _attempt(G, degree_type, _degrees, {"vertex_subset": vertex_subset, "degree_type": degree_type})


def _attempt(G: DynamicGraph, name: str, function: Callable[..., Any], given: dict[str, Any]) -> Any:
    """Call one of the functions below, and note the call, unless that was done on the way."""
    if G.core.backend.name == "cpu":
        return Declined("the graph is on the host")
    call, before = Call(name, "own kernel", G.version, SLOTS), last_call(G)
    try:
        shown = shown_ids(G)
        result = function(G, shown, **given) if shown.num_vertices else Declined("the graph is empty")
    except InputError as error:
        return Declined(str(error))
    if not isinstance(result, Declined) and last_call(G) is before:
        note_call(G, call)
    return result


# ---------------------------------------------------------------------- functions: G, its ids, cuGraph's parameters


def _bfs(
    G: DynamicGraph,
    shown: ShownIds,
    start: Any = None,
    depth_limit: Any = None,
    i_start: Any = None,
    directed: Any = None,
    return_predecessors: Any = True,
) -> Any:
    chosen = start if i_start is None else i_start
    if directed is not None or (start is None) == (i_start is None) or return_predecessors is not True:
        return Declined("bfs: directed or return_predecessors is given, or not just one of start and i_start")
    if not shown.takes(chosen, many=True):
        return Declined("bfs: the start is not an id of the graph's kind, a list or a series of them")
    limit = None if is_integer(depth_limit) and depth_limit <= 0 else depth_limit
    distances, predecessors = find_rows(G, "bfs", start=chosen, depth_limit=limit)
    dtype = shown.number_map.dtype
    if distances.dtype != dtype:
        top = np.iinfo(distances.dtype).max
        distances = G.core.backend.xp.where(distances == top, np.iinfo(dtype).max, distances.astype(dtype))
    return _frame(G, shown, vertex=None, distance=distances, predecessor=predecessors)


def _sssp(
    G: DynamicGraph,
    shown: ShownIds,
    source: Any = None,
    method: Any = None,
    directed: Any = None,
    return_predecessors: Any = None,
    unweighted: Any = None,
    overwrite: Any = None,
    indices: Any = None,
    cutoff: Any = None,
) -> Any:
    others = (method, directed, return_predecessors, unweighted, overwrite, indices)
    if not G.is_weighted() or any(value is not None for value in others):
        return Declined("sssp: the graph has no weights, or more than source and cutoff are given")
    if not shown.takes(source):
        return Declined("sssp: the source is not an id of the graph's kind")
    distances, predecessors = find_rows(G, "sssp", source=source, cutoff=cutoff)
    return _frame(G, shown, distance=distances, vertex=None, predecessor=predecessors)


def _pagerank(
    G: DynamicGraph,
    shown: ShownIds,
    alpha: Any = 0.85,
    personalization: Any = None,
    precomputed_vertex_out_weight: Any = None,
    max_iter: Any = 100,
    tol: Any = 1.0e-5,
    nstart: Any = None,
    dangling: Any = None,
    fail_on_nonconvergence: Any = True,
) -> Any:
    if nstart is not None or precomputed_vertex_out_weight is not None:
        return Declined("pagerank: nstart or precomputed_vertex_out_weight is given")
    if any(isinstance(value, int | float | np.number) and value <= 0 for value in (max_iter, tol)):
        return Declined("pagerank: max_iter or tol is not above 0")
    dtype = np.dtype(G.weight_dtype if G.is_weighted() else np.float32)
    ranks, converged = None, False
    if personalization is None:
        ranks, converged = _tracked_ranks(G, alpha=alpha, tol=tol, max_iter=max_iter)
    elif not _is_usual_personalization(shown, personalization, dtype):
        return Declined("pagerank: the columns of personalization are not of the graph's types")
    if ranks is None:
        inputs = read_inputs(G, "pagerank", alpha, personalization, None, max_iter, tol)
        ranks, iterations, error = compute_rows(G, "pagerank", *inputs)
        *_, limit, tol = inputs
        # In cuGraph ranks that converge in the last iteration have not converged.
        converged = bool(error < tol) and iterations < limit
    if fail_on_nonconvergence and not converged:
        raise require(CALLER, "cugraph.exceptions").FailedToConvergeError
    frame = _frame(G, shown, vertex=None, pagerank=ranks)
    return frame if fail_on_nonconvergence else (frame, converged)


def _weakly_connected_components(
    G: DynamicGraph, shown: ShownIds, directed: Any = None, connection: Any = None, return_labels: Any = None
) -> Any:
    if G.is_directed() or directed is not None or return_labels is not None or connection not in (None, "weak"):
        return Declined("weakly_connected_components: the graph is directed, or there are arguments for matrices")
    labels = find_rows(G, "weakly_connected_components")
    return _frame(G, shown, vertex=None, labels=labels.astype(shown.number_map.dtype, copy=False))


def _connected_components(
    G: DynamicGraph, shown: ShownIds, directed: Any = None, connection: Any = "weak", return_labels: Any = None
) -> Any:
    if connection != "weak":
        return Declined("connected_components: connection is not 'weak'")
    return _weakly_connected_components(G, shown, directed, connection, return_labels)


def _triangle_count(G: DynamicGraph, shown: ShownIds, start_list: Any = None) -> Any:
    if G.is_directed():
        return Declined("triangle_count: the graph is directed")
    rows = None
    if start_list is not None:
        if shown.strings is not None or not shown.takes(start_list, many=True, exact=True):
            return Declined("triangle_count: start_list is not of the type of the graph's ids")
        rows = G.core.backend.asarray(read_vertices(G, "triangle_count", "start_list", start_list))
    counts = find_rows(G, "triangle_count").astype(shown.number_map.dtype, copy=False)
    return _frame(G, shown, rows, vertex=None, counts=counts if rows is None else counts[rows])


def _betweenness_centrality(
    G: DynamicGraph,
    shown: ShownIds,
    k: Any = None,
    normalized: Any = True,
    weight: Any = None,
    endpoints: Any = False,
    seed: Any = None,
    random_state: Any = None,
    result_dtype: Any = np.float64,
) -> Any:
    if weight is not None or seed is not None or result_dtype not in (np.float32, np.float64):
        return Declined("betweenness_centrality: weight, seed or another result_dtype is given")
    num_vertices = shown.num_vertices
    sources = np.arange(num_vertices)
    if k is not None:
        if is_integer(k) or shown.strings is not None or not shown.takes(k, many=True):
            return Declined("betweenness_centrality: k is no list or series of integer ids")
        sources = read_vertices(G, "betweenness_centrality", "k", k)
    if num_vertices < 3 or np.unique(sources).shape[0] < sources.shape[0]:
        return Declined("betweenness_centrality: a vertex is given twice, or there are fewer than three")
    totals = compute_rows(G, "betweenness_centrality", sources, bool(endpoints))
    values = scale_totals(G.core.backend, totals, sources, bool(normalized), bool(endpoints), G.is_directed())
    warnings.warn("betweenness_centrality: result_dtype is deprecated", PendingDeprecationWarning, stacklevel=5)
    return _frame(G, shown, vertex=None, betweenness_centrality=values.astype(result_dtype, copy=False))


def _degrees(G: DynamicGraph, shown: ShownIds, vertex_subset: Any, degree_type: str) -> Any:
    rows = None
    if vertex_subset is not None:
        usual = isinstance(vertex_subset, list) or shown.takes(vertex_subset, many=True, exact=True)
        if shown.strings is not None or not usual:
            return Declined(f"{degree_type}: the vertices are no list or series of the graph's ids")
        rows = G.core.backend.asarray(read_vertices(G, degree_type, "vertex_subset", vertex_subset))
    dtype = shown.number_map.dtype

    wanted = ORIENTATIONS.get(degree_type)
    if wanted is None:
        return Declined(f"unknown degrees: {degree_type!r}")
    parts = []
    for transposed in wanted if G.is_directed() else wanted[:1]:  # of undirected graphs both are the same
        lengths = G.row_lengths(transposed).astype(dtype, copy=False)
        parts.append(lengths if rows is None else lengths[rows])
    columns: dict[str, Array | None] = {"degree": parts[0]}
    if degree_type == "degree":
        columns = {"degree": parts[0] + parts[-1]}
    elif degree_type == "degrees":
        columns = {"in_degree": parts[0], "out_degree": parts[1] if G.is_directed() else parts[0].copy()}
    return _frame(G, shown, rows, **columns, vertex=None)


# ---------------------------------------------------------------------- arguments


def _is_usual_personalization(shown: ShownIds, frame: Any, dtype: np.dtype) -> bool:
    """Return whether cuGraph takes the frame as it is, without casting and warning."""
    if not isinstance(frame, require(CALLER, "cudf").DataFrame) or list(frame.columns) != ["vertex", "values"]:
        return False
    return frame["values"].dtype == dtype and shown.takes(frame["vertex"], many=True)


def _tracked_ranks(G: DynamicGraph, **params: Any) -> tuple[Array | None, bool]:
    """Return tracked ranks and True; None and False if there are none, or if they have not converged."""
    try:
        found = tracked_rows(G, "pagerank", **params)
    except FailedToConvergeError:
        return None, False
    return (None, False) if found is None else (found[0], True)


# ---------------------------------------------------------------------- results


def _frame(G: DynamicGraph, shown: ShownIds, rows: Array | None = None, **columns: Array | None) -> Any:
    """Make a result: ``vertex`` is made of ``rows``, by default all, and rows of predecessors become ids.

    With strings cuGraph has the columns of ids first, the last one made first.
    """
    made = {}
    for name, column in columns.items():
        if name == "vertex":
            made[name] = _ids(G, shown, rows)
        else:
            made[name] = _ids(G, shown, column) if name == "predecessor" else column
    cudf = require(CALLER, "cudf")
    G.core.backend.wait_for_stream()
    if shown.strings is None:
        return make_cudf_frame(cudf, made)
    ids_first = {name: made[name] for name in ("predecessor", "vertex") if name in made}
    return cudf.DataFrame(ids_first | made)  # which keeps the kind of strings


def _ids(G: DynamicGraph, shown: ShownIds, rows: Array | None) -> Any:
    """Return the ids of rows as cuGraph shows them; row -1 is -1, or "-1" among strings."""
    if shown.strings is None:
        if rows is None:
            return shown.number_map.copy()
        if not shown.renumbered:
            return rows.astype(shown.number_map.dtype, copy=False)
        return G.core.backend.xp.where(rows < 0, -1, shown.number_map[rows])
    cudf = require(CALLER, "cudf")
    if rows is None:
        return cudf.Series(shown.strings).astype(STRING)
    return cudf.Series(G.core.ids.column(shown.num_vertices, "cudf", rows)).astype(STRING).fillna("-1")


def _given_parameters(function: Callable[..., Any]) -> inspect.Signature:
    """Return the parameters of a function above that callers give."""
    return inspect.Signature(list(inspect.signature(function).parameters.values())[2:])


# cuGraph's name -> the function above, and its signature without the graph and its ids.
_FUNCTIONS: dict[str, tuple[Callable[..., Any], inspect.Signature]] = {
    name: (globals()[f"_{name}"], _given_parameters(globals()[f"_{name}"]))
    for record in ALGORITHMS.values()
    for name in record.cugraph
}
