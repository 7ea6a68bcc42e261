"""Shortest paths: an algorithm that reads weights, and a part of the pages in each pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.paged.searches import make_search, mark_leaves, read_notes, visit_leaves
from dynstore.algorithms.paged.states import FRONTIER, UNREACHED, Lengths
from dynstore.errors import InputError, UnweightedGraphError

if TYPE_CHECKING:
    from dynstore.algorithms.paged.passes import PageReader
    from dynstore.algorithms.paged.states import SearchState
    from dynstore.typing import Array

__all__ = ["sssp"]

# The threshold rises by this many mean weights, divided by the mean degree, as in core.
DELTA_WEIGHTS = 32.0
# Weights that are looked at to estimate the mean.
SAMPLE = 1 << 16


def sssp(
    out: PageReader, source: int, cutoff: float = np.inf, predecessors: bool = False
) -> tuple[Array, Array | None]:
    """Find the shortest paths from one vertex, as :func:`dynstore.sssp` does.

    In each round the rows of vertices below a threshold are read whose distance has fallen. The threshold rises when
    there are none. These are the rounds of Davidson et al., IPDPS 2014, section 4.3.

    Parameters
    ----------
    out : PageReader
        Of the out-edges, with weights of at least 0.
    source : int
        A row number.
    cutoff : float
        Only shorter paths are found.
    predecessors : bool
        Whether to find predecessors: one more pass over all pages. Where edges of length 0 leave vertices without a
        nearer parent, there is a pass for each level of these, too.

    Returns
    -------
    distances : array, shape (V,), dtype of the weights
        Rounded at each step of a path; the largest number of the dtype for unreached vertices.
    predecessors : array, shape (V,), int32, or None
        The smallest nearer vertex before it on a shortest path, else the smallest equally near one that needs fewer
        edges of length 0; -1 for the source and unreached vertices.

    Raises
    ------
    InputError
        If the source is not in the graph, or a weight is negative.
    UnweightedGraphError
    """
    packed = out.packed
    backend, num_vertices = packed.backend, packed.num_vertices
    if packed.weights is None:
        raise UnweightedGraphError("sssp: the pages have no weights; pack them with weights")
    if not 0 <= source < num_vertices:
        raise InputError(f"sssp: source is {source}; wanted a row number below {num_vertices}")
    if out.has_negative_weights():
        raise InputError("sssp: the graph has negative weights; wanted weights of at least 0")
    dtype = packed.weights.dtype
    unreached = np.finfo(dtype).max
    lengths = Lengths(
        backend.empty(num_vertices, dtype),
        backend.zeros(num_vertices, np.uint8),
        dtype.type(min(float(cutoff), float(unreached))),
    )
    lengths.distances.fill(unreached)
    lengths.distances[source] = 0
    lengths.pending[source] = 1
    _relax_all(out, lengths)
    return lengths.distances, _find_parents(out, source, lengths.distances) if predecessors else None


def _relax_all(out: PageReader, lengths: Lengths) -> None:
    """Read rows in rounds until no distance falls."""
    backend = out.packed.backend
    kernels = backend.kernels("dynstore.algorithms.paged", "paths")
    search = make_search(out, backend.zeros(out.packed.num_vertices, np.int32))
    step, threshold, turn = _estimate_step(out), lengths.distances.dtype.type(0), 0
    while True:
        pending = lengths.pending != 0
        near = pending & (lengths.distances < threshold)
        if not bool(near.any()):
            if not bool(pending.any()):
                return
            threshold = _raise_threshold(lengths.distances[pending].min(), step)
            near = pending & (lengths.distances < threshold)
        turn += 1
        search.distances[near] = turn
        lengths.pending[near] = 0
        wanted = mark_leaves(out, search, turn, FRONTIER, weighted=True)
        visit_leaves(out, kernels.relax_leaves, wanted, search, lengths, turn, weighted=True)
        if out.extra is not None:
            kernels.relax_slots(out.extra, search, lengths, turn)
        read_notes(out, search)


def _estimate_step(out: PageReader) -> float:
    """Return by how much the threshold rises, from the mean of some weights."""
    packed = out.packed
    some = packed.weights_on_host[: packed.num_edges : max(packed.num_edges // SAMPLE, 1)]
    with np.errstate(over="ignore", invalid="ignore"):  # if it is not finite, the threshold rises to infinity
        mean = float(some.mean(dtype=np.float64)) if some.shape[0] else 0.0
    return DELTA_WEIGHTS * mean * packed.num_vertices / max(packed.num_edges, 1)


def _raise_threshold(least: Any, step: float) -> Any:
    """Return ``least`` and a step more in its dtype, or infinity if that is not above it."""
    dtype, low = np.dtype(least.dtype), float(least)
    raised = low + step
    fits = raised < float(np.finfo(dtype).max) and dtype.type(raised) > dtype.type(low)
    return dtype.type(raised if fits else np.inf)


def _find_parents(out: PageReader, source: int, distances: Array) -> Array:
    packed, backend = out.packed, out.packed.backend
    kernels = backend.kernels("dynstore.algorithms.paged", "paths")
    unreached = np.finfo(distances.dtype).max
    parents = backend.empty(packed.num_vertices, np.int32)
    parents.fill(UNREACHED)
    out.visit(lambda piece: kernels.choose_nearer(packed, piece, distances, unreached, parents), weighted=True)
    if out.extra is not None:
        kernels.choose_nearer_slots(out.extra, distances, unreached, parents)
    is_orphan = (parents == UNREACHED) & (distances != unreached)
    is_orphan[source] = False
    if bool(is_orphan.any()):
        levels = backend.zeros(packed.num_vertices, np.int32)
        levels[is_orphan] = UNREACHED
        _place_orphans(out, make_search(out, levels), distances, parents)
    parents[parents == UNREACHED] = -1
    return parents


def _place_orphans(out: PageReader, search: SearchState, distances: Array, parents: Array) -> None:
    """Find parents over edges of length 0, breadth first from the vertices that need none any more."""
    kernels = out.packed.backend.kernels("dynstore.algorithms.paged", "paths")
    level, found = 0, True
    while found:
        wanted = mark_leaves(out, search, level, FRONTIER, weighted=True)
        visit_leaves(out, kernels.push_ties, wanted, search, distances, parents, level, weighted=True)
        if out.extra is not None:
            kernels.push_tied_slots(out.extra, search, distances, parents, level)
        found = read_notes(out, search)
        level += 1
