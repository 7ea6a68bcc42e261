"""A rank's rows as cuGraph numbers them on several GPUs: rank after rank, in each by falling degree.

cuGraph finds a vertex by its number there: the ranges of the ranks follow each other. It works on rows of 1024 edges
and more, of 32 and more, and on shorter ones by different kernels, so rows of a rank have to be in order of degree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dynstore.adapters.cugraph.row_order import LOW, MEDIUM, WIDE
from dynstore.errors import LimitError

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.distributed import ShardedGraph
    from dynstore.distributed.calls import Call
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["Numbering", "ShardRows", "key_edges", "make_rows", "number_vertices"]


class Numbering(NamedTuple):
    """The numbers that cuGraph knows the vertices of one version by.

    Attributes
    ----------
    order : array, shape (V,), vertex dtype
        The graph's number of each vertex, in order of cuGraph's numbers.
    places : array, shape (V,), vertex dtype
        cuGraph's number of each vertex, in order of the graph's.
    degrees : array, shape (V,), vertex dtype
        The lengths of the rows, in order of cuGraph's numbers.
    starts : tuple of int, length P + 1
        cuGraph's first number on each rank, then V.
    """

    order: Array
    places: Array
    degrees: Array
    starts: tuple[int, ...]


class ShardRows(NamedTuple):
    """Packed rows of one rank.

    Attributes
    ----------
    version : int
    offsets, indices : array, shapes (R + 1,) and (E,), vertex dtype
        ``indices`` are cuGraph's numbers of the whole graph, ascending in each row.
    weights : array, shape (E,), or None
    numbers : array, shape (R,), vertex dtype
        The graph's number of each row.
    starts : tuple of int, length P + 1
    num_edges : int
        Of the rows of all ranks.
    segments : tuple of two ints
        How many rows have at least 1024 (32) edges; they come first.
    """

    version: int
    offsets: Array
    indices: Array
    weights: Array | None
    numbers: Array
    starts: tuple[int, ...]
    num_edges: int
    segments: tuple[int, int]


def number_vertices(call: Call, G: ShardedGraph, inward: bool) -> Numbering:
    """Number all vertices; each rank finds the same numbers.

    Parameters
    ----------
    call : Call
    G : ShardedGraph
    inward : bool
        Rows hold the in-edges.
    """
    shard, backend = G.shard, G.shard.backend
    xp, dtype = backend.xp, shard.vertex_dtype
    degrees = call.all_reduce(shard.row_lengths(inward))
    owners = G._owners(xp.arange(degrees.shape[0], dtype=dtype))
    keys = (owners.astype(np.int64) << 32) + (LOW - degrees.astype(np.int64))
    order = xp.argsort(keys, kind="stable")
    places = backend.empty(degrees.shape[0], dtype)
    places[order] = xp.arange(degrees.shape[0], dtype=dtype)
    counts = backend.to_host(xp.bincount(owners, minlength=G.comm.size))
    starts = tuple(np.concatenate(([0], np.cumsum(counts))).tolist())
    return Numbering(order.astype(dtype), places, degrees[order], starts)


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


def make_rows(call: Call, G: ShardedGraph, inward: bool) -> ShardRows:
    """Return the rows of this rank. All ranks call it.

    The rows of a directed graph lie with the owners of sources, so in-edges travel to the owners of destinations.

    Parameters
    ----------
    call : Call
    G : ShardedGraph
    inward : bool
        Rows hold the in-edges.

    Raises
    ------
    LimitError
        If the graph has more edges than its vertex type can count.
    """
    shard, backend, rank = G.shard, G.shard.backend, G.comm.rank
    numbering = number_vertices(call, G, inward)
    num_edges, starts, dtype = int(numbering.degrees.sum(dtype=np.int64)), numbering.starts, shard.vertex_dtype
    if num_edges >= np.iinfo(dtype).max or starts[-1] >= np.iinfo(np.int32).max:
        raise LimitError(
            f"lend: the graph has {starts[-1]} vertices and {num_edges} edges in its rows; cuGraph counts edges as "
            f"{dtype}, and fewer than 2^31 vertices can be lent. With vertex_dtype='int64' there can be more edges"
        )
    columns = _sorted(backend, *key_edges(shard.snapshot(), numbering.places, inward))
    if inward and G.comm.size > 1:
        bounds = backend.asarray(np.array(starts, np.int64) << 32)
        ends = backend.to_host(backend.xp.searchsorted(columns[0], bounds))
        came, _ = call.all_to_all(columns, np.diff(ends).tolist())
        columns = _sorted(backend, *came)
    own = slice(starts[rank], starts[rank + 1])
    degrees = numbering.degrees[own]
    offsets = backend.zeros(degrees.shape[0] + 1, dtype)
    backend.xp.cumsum(degrees, out=offsets[1:])
    return ShardRows(
        G.version,
        offsets,
        (columns[0] & LOW).astype(dtype),
        columns[1] if len(columns) > 1 else None,
        numbering.order[own],
        starts,
        num_edges,
        (int((degrees >= WIDE).sum()), int((degrees >= MEDIUM).sum())),
    )


def _sorted(backend: Backend, keys: Array, weights: Array | None = None) -> list[Array]:
    """Return the keys in order, and the weights beside them if there are any."""
    if weights is None:
        return [backend.xp.sort(keys)]
    order = backend.xp.argsort(keys)
    return [keys[order], weights[order]]
