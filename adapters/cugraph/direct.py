"""How a call of a function of cuGraph runs: by own kernels, directly in pylibcugraph, or in cuGraph.

Own kernels (``own``) come first. cuGraph's Python code around a search or a PageRank takes about a millisecond: it
sorts all vertices to find their type. A call with only usual arguments skips it, and goes to pylibcugraph. Every other
call, and every faulty one, goes to cuGraph's own function. A live graph lends either orientation, so ``pagerank`` need
not warn of a graph with ``store_transposed=False``.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dynstore.adapters.cugraph.borrowed.loading import load_bridge
from dynstore.adapters.cugraph.live_graph import LiveGraph, lend_graph
from dynstore.adapters.cugraph.own import Declined, chosen_engine, run_own
from dynstore.adapters.cugraph.shown import is_integer, shown_ids
from dynstore.adapters.libraries import require
from dynstore.algorithms.calls import last_call, note_call
from dynstore.graph import DynamicGraph
from dynstore.graph.events.questions import refuse_multigraph
from dynstore.input.frames import make_cudf_frame

__all__ = ["behind", "route", "thread_handle"]

CALLER = "cuGraph"
_own = threading.local()


def behind(value: Any) -> DynamicGraph | None:
    """Return the DynamicGraph that is the value, or that a live graph shows; None for anything else."""
    if isinstance(value, DynamicGraph):
        if value.core.shows_events:  # tested here, so that the walk of a call has a room less
            refuse_multigraph(CALLER, value)
        return value
    live = getattr(value, "_Impl", None)
    if type(value) is not require(CALLER, "cugraph").Graph or not isinstance(live, LiveGraph):
        return None
    return live._dynamic


def route(function: Any, name: str) -> Any:
    """Run a function of cuGraph by dynstore's own kernels where they take the call, else by cuGraph's."""
    parameters = inspect.signature(function).parameters
    graph_name = next(iter(parameters))

    @functools.wraps(function)
    def wrapped(*args: Any, engine: str | None = None, **kwargs: Any) -> Any:
        first = args[0] if args else kwargs.get(graph_name)
        G, chosen = behind(first), chosen_engine(engine, name)
        if G is None:
            return function(*args, **kwargs)
        rest = args[1:], {key: value for key, value in kwargs.items() if args or key != graph_name}
        if name == "pagerank" and getattr(first, "store_transposed", None) is False:  # as the user has chosen
            why = Declined("pagerank: cuGraph warns of a graph that is made with store_transposed=False")
            return _note_reason(G, why, lambda: function(*args, **kwargs))
        if chosen == "dynstore":
            result = run_own(name, G, *rest)
            if not isinstance(result, Declined):
                return result
        else:
            result = Declined(f"{name}: the engine is {chosen!r}")

        def run_cugraph() -> Any:
            direct = _call_directly(name, G, *rest)
            return function(*args, **kwargs) if direct is NotImplemented else direct

        return _note_reason(G, result, run_cugraph)

    shown = [*parameters.values(), inspect.Parameter("engine", inspect.Parameter.KEYWORD_ONLY, default=None)]
    shown.sort(key=lambda parameter: parameter.kind)  # stable: only `engine` moves, to before `**options`
    wrapped.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    return wrapped


def _note_reason(G: DynamicGraph, declined: Declined, call: Callable[[], Any]) -> Any:
    """Make a call that cuGraph runs, and have ``dynstore.explain`` say why dynstore's own kernels did not."""
    before = last_call(G)
    result = call()
    after = last_call(G)
    if after is not None and after is not before:
        note_call(G, replace(after, reason=f"{declined.reason}; {after.reason}"))
    return result


def _call_directly(name: str, G: DynamicGraph, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what cuGraph's function returns, or NotImplemented if the call is not plain.

    ``args``, ``kwargs``: the arguments without the graph.
    """
    if name not in _FUNCTIONS:
        return NotImplemented
    function, signature = _FUNCTIONS[name]
    try:
        given = signature.bind(G, *args, **kwargs).arguments
    except TypeError:
        return NotImplemented
    if load_bridge().borrowed_graph is None or shown_ids(G).strings is not None:
        return NotImplemented
    return function(**given)


def _bfs(G: DynamicGraph, start: Any = None, depth_limit: Any = None) -> Any:
    if not is_integer(start) or not (depth_limit is None or is_integer(depth_limit)):
        return NotImplemented
    dtype = shown_ids(G).number_map.dtype
    if not 0 <= start <= np.iinfo(dtype).max:
        return NotImplemented
    cupy, graph = require(CALLER, "cupy"), lend_graph(G, False, "bfs")
    with cupy.cuda.Stream.null:  # for which cuGraph's stream waits, whatever the caller's stream is
        sources = cupy.asarray(np.array([start], dtype=dtype))  # a copy: no kernel to compile or load
    distances, predecessors, vertices = require(CALLER, "pylibcugraph").bfs(
        handle=thread_handle(),
        graph=graph,
        sources=sources,
        direction_optimizing=False,
        depth_limit=-1 if depth_limit is None else int(depth_limit),
        compute_predecessors=True,
        do_expensive_check=False,
    )
    return _frame(vertex=vertices, distance=distances, predecessor=predecessors)


def _sssp(G: DynamicGraph, source: Any = None, cutoff: Any = None) -> Any:
    if not G.is_weighted() or not is_integer(source) or not (cutoff is None or isinstance(cutoff, int | float)):
        return NotImplemented
    if not 0 <= source <= np.iinfo(np.int64).max - 1 or int(G.vertex_numbers([int(source)])[0]) < 0:
        return NotImplemented
    vertices, distances, predecessors = require(CALLER, "pylibcugraph").sssp(
        resource_handle=thread_handle(),
        graph=lend_graph(G, False, "sssp"),
        source=int(source),
        cutoff=np.inf if cutoff is None else cutoff,
        compute_predecessors=True,
        do_expensive_check=False,
    )
    return _frame(distance=distances, vertex=vertices, predecessor=predecessors)


def _pagerank(
    G: DynamicGraph, alpha: Any = 0.85, max_iter: Any = 100, tol: Any = 1.0e-5, fail_on_nonconvergence: Any = True
) -> Any:
    plc = require(CALLER, "pylibcugraph")
    try:
        vertices, ranks, *converged = plc.pagerank(
            resource_handle=thread_handle(),
            graph=lend_graph(G, True, "pagerank"),
            precomputed_vertex_out_weight_vertices=None,
            precomputed_vertex_out_weight_sums=None,
            initial_guess_vertices=None,
            initial_guess_values=None,
            alpha=alpha,
            epsilon=tol,
            max_iterations=max_iter,
            do_expensive_check=False,
            fail_on_nonconvergence=fail_on_nonconvergence,
        )
    except plc.exceptions.FailedToConvergeError as error:
        raise require(CALLER, "cugraph.exceptions").FailedToConvergeError from error
    frame = _frame(vertex=vertices, pagerank=ranks)
    return frame if fail_on_nonconvergence else (frame, *converged)


def _weakly_connected_components(G: DynamicGraph) -> Any:
    if G.is_directed():
        return NotImplemented
    vertices, labels = require(CALLER, "pylibcugraph").weakly_connected_components(
        resource_handle=thread_handle(),
        graph=lend_graph(G, False, "weakly_connected_components"),
        offsets=None,
        indices=None,
        weights=None,
        labels=None,
        do_expensive_check=False,
    )
    return _frame(vertex=vertices, labels=labels)


def _frame(**columns: Any) -> Any:
    return make_cudf_frame(require(CALLER, "cudf"), columns)


def thread_handle() -> Any:
    """Return this thread's handle of pylibcugraph for the current device."""
    device = require(CALLER, "cupy").cuda.Device().id
    handles = _own.__dict__.setdefault("handles", {})
    if device not in handles:
        handles[device] = require(CALLER, "pylibcugraph").ResourceHandle()
    return handles[device]


# A plain call passes no other parameters than these.
_FUNCTIONS: dict[str, tuple[Callable[..., Any], inspect.Signature]] = {
    name: (function, inspect.signature(function))
    for name, function in (
        ("bfs", _bfs),
        ("sssp", _sssp),
        ("pagerank", _pagerank),
        ("weakly_connected_components", _weakly_connected_components),
    )
}
