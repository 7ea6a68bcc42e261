"""Searches by row: their parameters, the rows that they reach, and the frames that the functions return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.calls import run_native
from dynstore.algorithms.inputs import has_negative_weights, one_of, read_vertices, refuse_arguments, vertices_and
from dynstore.arguments import check_integer, check_number
from dynstore.errors import InputError
from dynstore.input.frames import make_frame

if TYPE_CHECKING:
    from dynstore.graph import AnyGraph
    from dynstore.typing import Array, Frame

__all__ = ["bfs_frame", "read_bfs", "read_sssp", "search_hops", "search_lengths", "sssp_frame"]


def read_bfs(
    G: AnyGraph, start: Any = None, depth_limit: int | None = None, i_start: Any = None, directed: None = None
) -> tuple[np.ndarray, int]:
    """Return the rows to start from, ascending, and the largest distance."""
    refuse_arguments("bfs", directed=directed)
    start = one_of("bfs", "start", start, "i_start", i_start)
    sources = np.unique(read_vertices(G, "bfs", "the input sources", start))
    limit = int(np.iinfo(G.vertex_dtype).max)
    if depth_limit is not None and check_integer("bfs", "depth_limit", depth_limit) >= 0:
        limit = min(int(depth_limit), limit)
    return sources, limit


def search_hops(
    G: AnyGraph, sources: np.ndarray, limit: int, parents: bool = True, inward: bool = False
) -> tuple[Array, Array | None]:
    """Return distances and predecessors of all rows; predecessors are None unless ``parents``.

    ``inward``: follow edges against their direction.
    """
    found: tuple[Array, Array | None] | None = None
    if not inward:
        found = run_native(G, "bfs", sources, limit, parents)
    if found is not None:
        return found
    out = G.snapshot(transposed=inward)
    # This makes no second orientation for a directed graph: every later update would have to maintain it.
    into = None if G.is_directed() else out
    kernels = G.core.backend.kernels("dynstore.algorithms.traversal", "search")
    found = kernels.bfs(out, into, sources, limit, parents)
    return found


def bfs_frame(G: AnyGraph, distances: Array, predecessors: Array | None) -> Frame:
    """Return what :func:`bfs` returns."""
    if predecessors is None:
        predecessors = G.core.backend.xp.full(distances.shape[0], -1, dtype=G.vertex_dtype)
    vertices, before = vertices_and(G, predecessors)
    return make_frame(G.core.backend, {"vertex": vertices, "distance": distances, "predecessor": before}, G.core.frames)


def read_sssp(
    G: AnyGraph,
    source: int | None = None,
    method: str | None = None,
    directed: None = None,
    return_predecessors: None = None,
    unweighted: None = None,
    overwrite: None = None,
    indices: int | None = None,
    cutoff: float | None = None,
) -> tuple[int, float]:
    """Return the row to start from, and the length that paths must stay below."""
    if method not in (None, "auto"):
        raise InputError(f"sssp: method is {method!r}; only 'auto' is accepted")
    refuse_arguments(
        "sssp",
        directed=directed,
        return_predecessors=return_predecessors,
        unweighted=unweighted,
        overwrite=overwrite,
    )
    sources = read_vertices(G, "sssp", "source", one_of("sssp", "source", source, "indices", indices))
    if sources.shape[0] != 1:
        raise InputError(f"sssp: source has {sources.shape[0]} vertices; wanted one")
    limit = np.inf if cutoff is None else check_number("sssp", "cutoff", cutoff)
    return int(sources[0]), limit


def search_lengths(G: AnyGraph, source: int, limit: float, inward: bool = False) -> tuple[Array, Array]:
    """Return distances and predecessors of all rows; ``inward``: follow edges against their direction."""
    found: tuple[Array, Array] | None = None if inward else run_native(G, "sssp", source, limit)
    if found is not None:
        return found
    out = G.snapshot(transposed=inward)
    if has_negative_weights(out):
        raise InputError("sssp: the graph has negative weights; wanted weights of at least 0")
    kernels = G.core.backend.kernels("dynstore.algorithms.traversal", "search")
    found = kernels.sssp(out, source, limit)
    return found


def sssp_frame(G: AnyGraph, distances: Array, predecessors: Array) -> Frame:
    """Return what :func:`sssp` returns."""
    vertices, before = vertices_and(G, predecessors)
    return make_frame(G.core.backend, {"distance": distances, "vertex": vertices, "predecessor": before}, G.core.frames)
