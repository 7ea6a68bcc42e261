"""Breadth-first search: an algorithm that reads a part of the pages in each pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.paged.states import (
    BEGINNING,
    CONTINUING,
    COPIED,
    DIRECT,
    FOUND,
    FRONTIER,
    NOTES,
    UNREACHED,
    SearchState,
)
from dynstore.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.algorithms.paged.passes import PageReader, Piece
    from dynstore.typing import Array

__all__ = ["bfs", "make_search", "mark_leaves", "read_notes", "visit_leaves"]


def bfs(
    out: PageReader,
    start: Any,
    symmetric: bool = False,
    depth_limit: int = UNREACHED,
    predecessors: bool = False,
    into: PageReader | None = None,
) -> tuple[Array, Array | None]:
    """Find how many edges each vertex is away from the nearest start vertex.

    A level reads only leaves that it needs: out-edges of the frontier, or in-edges of the unreached vertices, whichever
    are fewer. Of the latter, the first leaf of each row is read first; most rows need no other. These are the two
    directions of Beamer, Asanovic and Patterson, "Direction-Optimizing Breadth-First Search", SC 2012.

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
        Whether to find predecessors, in the same passes.
    into : PageReader, optional
        Of all in-edges of a graph that is not symmetric, those beside its pages among them. Without them, only
        out-edges are read, and nearly all of them.

    Returns
    -------
    distances : array, shape (V,), int32
        The largest int32 for unreached vertices.
    predecessors : array, shape (V,), int32, or None
        The smallest vertex before it on a shortest path; -1 for start and unreached vertices.

    Raises
    ------
    InputError
        If a start vertex is not in the graph, or the in-edges are of another number of vertices.
    """
    packed = out.packed
    backend = packed.backend
    back = out if symmetric else into
    if back is not None and back.packed.num_vertices != packed.num_vertices:
        raise InputError(
            f"bfs: in-edges of {back.packed.num_vertices} vertices; wanted {packed.num_vertices}, as of `out`"
        )
    starts = np.unique(np.atleast_1d(np.asarray(start, np.int64)))
    if starts.size == 0 or starts[0] < 0 or starts[-1] >= packed.num_vertices:
        raise InputError(f"bfs: start is {start!r}; wanted row numbers below {packed.num_vertices}")
    distances = backend.empty(packed.num_vertices, np.int32)
    distances.fill(UNREACHED)
    distances[backend.asarray(starts)] = 0
    parents = backend.empty(packed.num_vertices if predecessors else 0, np.int32)
    parents.fill(UNREACHED)
    search = make_search(out, distances)
    depth = 0
    while depth < depth_limit and _advance(out, back, search, parents, depth):
        depth += 1
    if not predecessors:
        return distances, None
    parents[parents == UNREACHED] = -1
    return distances, parents


def _advance(out: PageReader, back: PageReader | None, search: SearchState, parents: Array, depth: int) -> bool:
    """Find the vertices of the next level, and their smallest parents; return whether there are any.

    ``back``: the reader of in-edges. ``parents`` is empty if no parents are wanted. A level reads all edges that can
    give the smallest parent: all out-edges of the frontier; or of each unreached row the first leaf, which has the
    smallest neighbours, and its other leaves if no neighbour in the first one is in the frontier.
    """
    kernels = out.packed.backend.kernels("dynstore.algorithms.paged", "searches")
    wanted = mark_leaves(out, search, depth, FRONTIER)
    pulls = False
    if back is not None:
        pulled = search._replace(active=out.packed.backend.empty(-(-back.packed.num_leaves // 32), np.uint32))
        pulled_wanted = mark_leaves(back, pulled, depth, BEGINNING)
        pulls = int(pulled_wanted.sum()) < int(wanted.sum())
        if pulls:
            visit_leaves(back, kernels.pull_leaves, pulled_wanted, pulled, parents, depth, BEGINNING)
            pulled_wanted = mark_leaves(back, pulled, depth, CONTINUING)
            visit_leaves(back, kernels.pull_leaves, pulled_wanted, pulled, parents, depth, CONTINUING)
    if not pulls:
        visit_leaves(out, kernels.push_leaves, wanted, search, parents, depth)
    # An edge may lie in pages of one orientation, and beside those of the other.
    reader = back if back is not None and pulls else out
    if reader.extra is not None:
        kernels.push_slots(reader.extra, search, parents, depth, turned=reader is not out)
    return read_notes(reader, search)


def make_search(reader: PageReader, distances: Array) -> SearchState:
    """Return a search in which no leaf is active."""
    packed, backend = reader.packed, reader.packed.backend
    words = -(-packed.num_leaves // 32)
    return SearchState(distances, backend.zeros(words, np.uint32), backend.zeros(NOTES, np.int64))


def mark_leaves(reader: PageReader, search: SearchState, depth: int, kind: int, weighted: bool = False) -> np.ndarray:
    """Mark the leaves of some kind as active; return the requests of each page that reading them takes, at most.

    ``weighted``: whether their weights are read, too.
    """
    packed, backend = reader.packed, reader.packed.backend
    requests = backend.zeros(packed.num_pages, np.int64)
    kernels = backend.kernels("dynstore.algorithms.paged", "searches")
    kernels.mark_leaves(packed, search, depth, kind, packed.lines_of_weights if weighted else 0, requests)
    return backend.to_host(requests)


def visit_leaves(
    reader: PageReader, read: Callable[..., None], wanted: np.ndarray, *arguments: Any, weighted: bool = False
) -> None:
    """Call ``read(packed, piece, *arguments, noted)`` for pieces of wanted pages; it notes its reads at ``noted``."""

    def launch(piece: Piece) -> None:
        read(reader.packed, piece, *arguments, DIRECT if piece.is_direct else COPIED)

    if wanted.any():
        reader.visit(launch, wanted, weighted)


def read_notes(reader: PageReader, search: SearchState) -> bool:
    """Count what was read in place, and clear the notes; return whether something was found."""
    notes = reader.packed.backend.to_host(search.notes).copy()
    search.notes.fill(0)
    reader.note_direct(int(notes[DIRECT]), int(notes[DIRECT + 1]))
    return bool(notes[FOUND])
