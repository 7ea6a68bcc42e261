"""A rank's rows as cuGraph numbers them on several GPUs: rank after rank, in each by falling degree.

cuGraph finds a vertex by its number there: the ranges of the ranks follow each other. It works on rows of 1024 edges
and more, of 32 and more, and on shorter ones by different kernels, so rows of a rank have to be in order of degree.
After an update they are about so: the numbers of an earlier version serve as long as the segments are not much longer
than the rows that belong into them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dynstore.adapters.cugraph.row_order import LOW, MAX_STRETCH, MEDIUM, SLACK_ROWS, WIDE
from dynstore.errors import LimitError

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.distributed import ShardedGraph
    from dynstore.distributed.calls import Collective
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["Numbering", "ShardRows", "check_limits", "key_edges", "make_rows"]


class Numbering(NamedTuple):
    """The numbers that cuGraph knows the vertices by.

    Attributes
    ----------
    order : array, shape (V,), vertex dtype
        The graph's number of each vertex, in order of cuGraph's numbers.
    places : array, shape (V,), vertex dtype
        cuGraph's number of each vertex, in order of the graph's.
    starts : tuple of int, length P + 1
        cuGraph's first number on each rank, then V.
    """

    order: Array
    places: Array
    starts: tuple[int, ...]


class ShardRows(NamedTuple):
    """Packed rows of one rank.

    Attributes
    ----------
    version : int
    offsets, indices : array, shapes (R + 1,) and (E,), vertex dtype
        ``indices`` are cuGraph's numbers of the whole graph.
    weights : array, shape (E,), or None
    numbers : array, shape (R,), vertex dtype
        The graph's number of each row.
    num_edges : int
        Of the rows of all ranks.
    segments : tuple of two ints
        Rows behind them have less than 1024 (32) edges.
    ascending : bool
        Whether ``indices`` ascend in each row.
    numbering : Numbering
    """

    version: int
    offsets: Array
    indices: Array
    weights: Array | None
    numbers: Array
    num_edges: int
    segments: tuple[int, int]
    ascending: bool
    numbering: Numbering


def check_limits(num_vertices: int, num_edges: int, dtype: np.dtype) -> None:
    """Raise a LimitError if cuGraph cannot number so many vertices or edges."""
    if num_edges >= np.iinfo(dtype).max or num_vertices >= np.iinfo(np.int32).max:
        raise LimitError(
            f"lend: the graph has {num_vertices} vertices and {num_edges} edges in its rows; cuGraph counts edges as "
            f"{dtype}, and fewer than 2^31 vertices can be lent. With vertex_dtype='int64' there can be more edges"
        )


def _number_vertices(G: ShardedGraph, degrees: Array) -> Numbering:
    """Number all vertices by their ranks, then by falling degree; each rank finds the same numbers."""
    backend, xp, dtype = G.backend, G.backend.xp, G.shard.vertex_dtype
    owners = G._owners(xp.arange(degrees.shape[0], dtype=dtype))
    keys = (owners.astype(np.int64) << 32) + (LOW - degrees.astype(np.int64))
    order = xp.argsort(keys, kind="stable")
    places = backend.empty(degrees.shape[0], dtype)
    places[order] = xp.arange(degrees.shape[0], dtype=dtype)
    counts = backend.to_host(xp.bincount(owners, minlength=G.comm.size))
    return Numbering(order.astype(dtype), places, tuple(np.concatenate(([0], np.cumsum(counts))).tolist()))


def _segments_of(backend: Backend, degrees: Array) -> tuple[tuple[int, int], bool]:
    """Return the ends of the segments of rows of so many edges, and whether they are about as short as can be."""
    xp, behind = backend.xp, backend.xp.arange(1, degrees.shape[0] + 1)
    if not degrees.shape[0]:
        return (0, 0), True
    found = []
    for least in (WIDE, MEDIUM):
        long = degrees >= least
        found += [xp.where(long, behind, 0).max(), xp.count_nonzero(long)]
    wide, wide_rows, medium, medium_rows = backend.to_host(xp.stack(found)).tolist()
    pairs = (wide, wide_rows), (medium, medium_rows)
    return (wide, medium), all(end <= MAX_STRETCH * count + SLACK_ROWS for end, count in pairs)


def key_edges(csr: GapCSR, places: Array, inward: bool) -> tuple[Array, Array | None]:
    """Return a key for each edge, which holds the places of its ends, and the weights beside it."""
    if csr.backend.family == "cuda":
        kernels = csr.backend.kernels("dynstore.adapters.cugraph", "numbering")
        keys, weights = kernels.key_edges(csr, places, inward)
        return keys, weights
    mask = csr.mask()
    rows, columns = places[csr.sources[mask]].astype(np.int64), places[csr.indices[mask]].astype(np.int64)
    if inward:
        rows, columns = columns, rows
    return rows << 32 | columns, None if csr.weights is None else csr.weights[mask]


def _pack_rows(csr: GapCSR) -> tuple[Array | None, Array]:
    """Return what is before each word of ``valid`` (on a GPU), and where each row begins once gaps are left out."""
    if csr.backend.family == "cuda":
        before, packed = csr.backend.kernels("dynstore.adapters.cugraph", "numbering").rank_rows(csr)
        return before, packed
    counted = np.zeros(csr.num_slots + 1, np.int64)
    np.cumsum(csr.mask(), out=counted[1:])
    return None, counted[csr.offsets]


def _move_edges(csr: GapCSR, before: Array | None, shifts: Array, places: Array) -> list[Array]:
    """Return the edges' other ends under cuGraph's numbers, and weights, each row moved by its shift."""
    if csr.backend.family == "cuda":
        kernels = csr.backend.kernels("dynstore.adapters.cugraph", "numbering")
        moved: list[Array] = kernels.move_edges(csr, before, shifts, places)
        return moved
    mask = csr.mask()
    targets = np.arange(csr.num_edges) + shifts[csr.sources[mask]]
    columns = [places[csr.indices[mask]], *([] if csr.weights is None else [csr.weights[mask]])]
    found = [np.empty_like(column) for column in columns]
    for column, values in zip(found, columns, strict=True):
        column[targets] = values
    return found


def make_rows(
    call: Collective, G: ShardedGraph, inward: bool, ascending: bool = True, last: Numbering | None = None
) -> ShardRows:
    """Return the rows of this rank. All ranks call it.

    The rows of a directed graph lie with the owners of sources, so in-edges travel to the owners of destinations.

    Parameters
    ----------
    call : Call
    G : ShardedGraph
    inward : bool
        Rows hold the in-edges.
    ascending : bool
        If False, neighbours in a row may come in any order, except with ``inward``. That saves the sort.
    last : Numbering, optional
        Of an earlier version of the same orientation, on all ranks. It is kept if it still serves on all.

    Raises
    ------
    LimitError
        If the graph has more edges than its vertex type can count.
    """
    shard, backend, rank = G.shard, G.backend, G.comm.rank
    csr, dtype, num_vertices = shard.snapshot(), shard.vertex_dtype, shard.number_of_vertices()
    before, packed = _pack_rows(csr)
    degrees = call.all_reduce(shard.row_lengths(True)) if inward else backend.xp.diff(packed).astype(dtype)
    fits = last is not None and last.order.shape[0] == num_vertices
    if fits:
        assert last is not None
        fits = _segments_of(backend, degrees[last.order[last.starts[rank] : last.starts[rank + 1]]])[1]
    agreed = call.agree((fits, csr.num_edges))
    num_edges = sum(count for _, count in agreed)
    check_limits(num_vertices, num_edges, dtype)
    numbering = last
    if numbering is None or not all(fits for fits, _ in agreed):
        numbering = _number_vertices(G, degrees if inward else call.all_reduce(degrees))
    starts = numbering.starts
    rows = numbering.order[starts[rank] : starts[rank + 1]]
    degrees = degrees[rows]
    offsets = backend.zeros(degrees.shape[0] + 1, dtype)
    backend.xp.cumsum(degrees, out=offsets[1:])
    if inward or ascending:
        columns = _sorted(backend, *key_edges(csr, numbering.places, inward))
        if inward and G.comm.size > 1:
            bounds = backend.asarray(np.array(starts, np.int64) << 32)
            ends = backend.to_host(backend.xp.searchsorted(columns[0], bounds))
            came, _ = call.all_to_all(columns, np.diff(ends).tolist())
            columns = _sorted(backend, *came)
        columns[0] = (columns[0] & LOW).astype(dtype)
    else:
        shifts = backend.zeros(num_vertices, np.int64)
        shifts[rows] = offsets[:-1] - packed[rows]
        columns = _move_edges(csr, before, shifts, numbering.places)
    segments, weights = _segments_of(backend, degrees)[0], columns[1] if len(columns) > 1 else None
    how = inward or ascending, numbering
    return ShardRows(G.version, offsets, columns[0], weights, rows, num_edges, segments, *how)


def _sorted(backend: Backend, keys: Array, weights: Array | None = None) -> list[Array]:
    """Return the keys in order, and the weights beside them if there are any."""
    if weights is None:
        return [backend.xp.sort(keys)]
    order = backend.xp.argsort(keys)
    return [keys[order], weights[order]]
