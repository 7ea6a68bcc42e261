"""Breadth-first search: an algorithm that reads a part of the pages in each pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.errors import InputError
from dynstore.typing import MAX_INT32

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.algorithms.paged.passes import PageReader, Piece
    from dynstore.typing import Array

__all__ = ["BEGINNING", "CONTINUING", "FRONTIER", "UNREACHED", "Search", "bfs"]

UNREACHED = MAX_INT32
# Which leaves a pass reads: those with rows of the frontier; those where a row begins whose vertex is unreached; those
# that go on with such a row.
FRONTIER, BEGINNING, CONTINUING = range(3)
# What kernels note: whether a vertex was found, then requests and sectors that they have read in place, and other ones.
FOUND, DIRECT, COPIED, NOTES = 0, 1, 3, 5


class Search(NamedTuple):
    """What the kernels of a search share.

    Attributes
    ----------
    distances : array, shape (V,), int32
    active : array, uint32
        A bit a leaf: whether the next pass reads it.
    notes : array, shape (5,), int64
    """

    distances: Array
    active: Array
    notes: Array


def bfs(
    out: PageReader, start: Any, symmetric: bool = False, depth_limit: int = UNREACHED, predecessors: bool = False
) -> tuple[Array, Array | None]:
    """Find how many edges each vertex is away from the nearest start vertex.

    A level reads only leaves that it needs: those of the frontier, or in a symmetric graph those of the unreached
    vertices, whichever are fewer. Of the latter, the first leaf of each row is read first; most rows need no other.

    Parameters
    ----------
    out : PageReader
        Of the out-edges.
    start : int or array of int
        Row numbers.
    symmetric : bool
        Whether each edge is there in both directions.
    depth_limit : int
        The largest distance to search.
    predecessors : bool
        Whether to find predecessors: one more pass over all pages.

    Returns
    -------
    distances : array, shape (V,), int32
        The largest int32 for unreached vertices.
    predecessors : array, shape (V,), int32, or None
        The smallest vertex before it on a shortest path; -1 for start and unreached vertices.

    Raises
    ------
    InputError
        If a start vertex is not in the graph.
    """
    packed = out.packed
    backend = packed.backend
    starts = np.unique(np.atleast_1d(np.asarray(start, np.int64)))
    if starts.size == 0 or starts[0] < 0 or starts[-1] >= packed.num_vertices:
        raise InputError(f"bfs: start is {start!r}; wanted row numbers below {packed.num_vertices}")
    kernels = backend.kernels("dynstore.algorithms.paged", "searches")
    distances = backend.empty(packed.num_vertices, np.int32)
    distances.fill(UNREACHED)
    distances[backend.asarray(starts)] = 0
    search = Search(distances, backend.zeros(-(-packed.num_leaves // 32), np.uint32), backend.zeros(NOTES, np.int64))
    depth = 0
    while depth < depth_limit and _advance(out, search, kernels, depth, symmetric):
        depth += 1
    if not predecessors:
        return distances, None
    parents = backend.empty(packed.num_vertices, np.int32)
    parents.fill(UNREACHED)
    out.visit(lambda piece: kernels.choose_parents(packed, piece, distances, parents))
    if out.extra is not None:
        kernels.choose_slots(out.extra, distances, parents)
    parents[parents == UNREACHED] = -1
    return distances, parents


def _advance(out: PageReader, search: Search, kernels: Any, depth: int, symmetric: bool) -> bool:
    """Find the vertices of the next level; return whether there are any."""
    search.notes.fill(0)
    wanted = _mark(out, search, kernels, depth, FRONTIER)
    pulls = False
    if symmetric:
        pulled = search._replace(active=out.packed.backend.empty(search.active.shape, np.uint32))
        pulled_wanted = _mark(out, pulled, kernels, depth, BEGINNING)
        pulls = int(pulled_wanted.sum()) < int(wanted.sum())
    if pulls:
        _visit(out, pulled, kernels.pull_leaves, depth, pulled_wanted)
        pulled_wanted = _mark(out, pulled, kernels, depth, CONTINUING)
        _visit(out, pulled, kernels.pull_leaves, depth, pulled_wanted)
    else:
        _visit(out, search, kernels.push_leaves, depth, wanted)
    if out.extra is not None:
        kernels.push_slots(out.extra, search, depth)
    notes = out.packed.backend.to_host(search.notes)
    out.note_direct(int(notes[DIRECT]), int(notes[DIRECT + 1]))
    return bool(notes[FOUND])


def _mark(out: PageReader, search: Search, kernels: Any, depth: int, kind: int) -> np.ndarray:
    """Mark the leaves of some kind as active; return the requests of each page that reading them takes, at most."""
    backend = out.packed.backend
    requests = backend.zeros(out.packed.num_pages, np.int64)
    kernels.mark_leaves(out.packed, search, depth, kind, requests)
    return backend.to_host(requests)


def _visit(out: PageReader, search: Search, read: Callable[..., None], depth: int, wanted: np.ndarray) -> None:
    def launch(piece: Piece) -> None:
        read(out.packed, piece, search, depth, DIRECT if piece.is_direct else COPIED)

    if wanted.any():
        out.visit(launch, wanted)
