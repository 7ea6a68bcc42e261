"""Packed rows of a graph's current version for cuGraph: squeezed once a version and orientation, then kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from dynstore.adapters.libraries import require
from dynstore.adapters.shown import ShownIds, shown_ids

if TYPE_CHECKING:
    from dynstore.graph import DynamicGraph
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = [
    "PackedRows",
    "degree_segments",
    "hubs_astray",
    "kept_rows",
    "order_by_degree",
    "packed_rows",
    "rows_of_edges",
]

# Where cuGraph's kernels change from a block a vertex to a warp, and from a warp to a thread.
WIDE, MEDIUM = 1024, 32
# A segment is that much longer than there are rows for it, so that few of them are left out when order has drifted ...
SLACK_SHARE, SLACK_ROWS = 8, 8
# ... and where it holds less than this share of them, rows count as being in no order.
ORDERED_SHARE = 0.5
# Rows are sorted anew where rows for a block that stand behind theirs hold more than this share of all edges.
STRAY_SHARE = 1 / 64


@dataclass(frozen=True, eq=False, slots=True)
class PackedRows:
    """One orientation of one version, on the GPU.

    Attributes
    ----------
    version : int
    transposed : bool
        Rows are destinations. False for undirected graphs, where both are the same.
    offsets, indices : CuPy arrays, shapes (V + 1,) and (E,), of the type of ``ids.number_map``
    weights : CuPy array, shape (E,), or None
    ids : ShownIds
    segments : tuple of two ints, or None
        Rows before them have mostly 1024 (32) edges and more; None where ids are in no order of degree.
    copied : str
        What was copied to make them.
    copied_bytes : int
    """

    version: int
    transposed: bool
    offsets: Array
    indices: Array
    weights: Array | None
    ids: ShownIds
    segments: tuple[int, int] | None
    copied: str
    copied_bytes: int


_kept: WeakKeyDictionary[DynamicGraph, dict[Any, PackedRows]] = WeakKeyDictionary()


def kept_rows(G: DynamicGraph, transposed: bool) -> PackedRows | None:
    """Return what an earlier call has packed of the current version, or None."""
    rows = _kept.get(G, {}).get(transposed and G.is_directed())
    return rows if rows is not None and rows.version == G.version else None


def packed_rows(G: DynamicGraph, transposed: bool = False) -> PackedRows:
    """Return the rows of the current version; later calls on it get the same ones.

    Parameters
    ----------
    G : DynamicGraph
        On the GPU; one on the host is copied there.
    transposed : bool
        Rows are destinations. A directed graph keeps its in-edges from the first time on.

    Raises
    ------
    MissingDependencyError
        Without CuPy.
    """
    kept = kept_rows(G, transposed)
    if kept is not None:
        return kept
    transposed = transposed and G.is_directed()
    orientations = _kept.setdefault(G, {})
    # Rows of earlier versions go first: their memory is what the new ones need.
    for key in [key for key, rows in orientations.items() if rows.version != G.version]:
        del orientations[key]
    cupy = require("cuGraph", "cupy")
    # The last update may have been on a stream of the user's own, which no other stream waits for.
    cupy.cuda.Device().synchronize()
    offsets, indices, weights, copied = _pack(cupy, G.snapshot(transposed))
    ids = shown_ids(G)
    if ids.number_map.dtype != offsets.dtype:
        offsets, indices = offsets.astype(ids.number_map.dtype), indices.astype(ids.number_map.dtype)
        copied += f", widened to {offsets.dtype} for the ids"
    segments = degree_segments(cupy, offsets)
    if hubs_astray(cupy, offsets, segments):
        offsets, indices, weights, ids = order_by_degree(cupy, offsets, indices, weights, ids)
        segments = degree_segments(cupy, offsets)
        copied += ", then sorted anew in order of degree"
    # cuGraph works on a stream of its own, which waits for default streams only.
    cupy.cuda.get_current_stream().synchronize()
    size = sum(array.nbytes for array in (offsets, indices, weights) if array is not None)
    rows = PackedRows(G.version, transposed, offsets, indices, weights, ids, segments, copied, size)
    orientations[transposed] = rows
    return rows


def _pack(cupy: Any, csr: GapCSR) -> tuple[Array, Array, Array | None, str]:
    backend = csr.backend
    if backend.on_gpu:
        squeeze = backend.kernels("dynstore.adapters", "squeezing").squeeze
        return (*squeeze(csr), "gaps squeezed out into arrays of their own")
    packed = csr.compact()
    weights = None if packed.weights is None else cupy.asarray(packed.weights)
    return cupy.asarray(packed.offsets), cupy.asarray(packed.indices), weights, "packed on the host, copied to the GPU"


def degree_segments(xp: Any, offsets: Array) -> tuple[int, int] | None:
    """Return where rows of 1024 edges and more end, and rows of 32 and more, if rows are ordered by falling degree.

    The order need not be perfect: cuGraph's kernels loop over the degree that a row has, so that a row in the wrong
    segment gets too many threads or too few, and the same result.

    Parameters
    ----------
    xp : module
        NumPy or CuPy.
    offsets : array, shape (V + 1,)

    Returns
    -------
    (wide, medium) or None
        None where less than half of the long rows come before an end, or no row has 32 edges.
    """
    degrees = offsets[1:] - offsets[:-1]
    long_enough = [degrees >= limit for limit in (WIDE, MEDIUM)]
    counts = _to_host(xp, xp.stack([flags.sum() for flags in long_enough])).tolist()
    if counts[1] == 0:
        return None
    ends = [min(count + count // SLACK_SHARE + SLACK_ROWS, degrees.shape[0]) if count else 0 for count in counts]
    held = _to_host(xp, xp.stack([flags[:end].sum() for flags, end in zip(long_enough, ends, strict=True)])).tolist()
    if any(here < ORDERED_SHARE * count for here, count in zip(held, counts, strict=True)):
        return None
    return ends[0], ends[1]


def hubs_astray(xp: Any, offsets: Array, segments: tuple[int, int] | None) -> bool:
    """Return whether rows of 1024 edges and more that stand behind the widest segment hold more edges than is well.

    cuGraph gives such a row one thread: that is slow, and sums so many float32 one after the other that PageRank may
    never come within its tolerance.
    """
    degrees = (offsets[1:] - offsets[:-1])[segments[0] if segments else 0 :]
    return int((degrees * (degrees >= WIDE)).sum()) > STRAY_SHARE * (int(offsets[-1]) if offsets.shape[0] else 0)


def order_by_degree(
    xp: Any, offsets: Array, indices: Array, weights: Array | None, ids: ShownIds
) -> tuple[Array, Array, Array | None, ShownIds]:
    """Return the rows in order of falling degree, numbered anew, neighbours ascending; ``ids`` says which is which."""
    degrees = offsets[1:] - offsets[:-1]
    order = xp.argsort(-degrees, kind="stable")
    ranks = xp.empty_like(order)
    ranks[order] = xp.arange(order.shape[0], dtype=order.dtype)
    keys = ranks[rows_of_edges(xp, offsets, indices.shape[0])] * order.shape[0] + ranks[indices]
    places = xp.argsort(keys)
    ordered = xp.zeros_like(offsets)
    xp.cumsum(degrees[order], out=ordered[1:])
    columns = ranks[indices[places]].astype(indices.dtype)
    moved = ShownIds(ids.number_map[order], ids.strings, True)
    return ordered, columns, None if weights is None else weights[places], moved


def rows_of_edges(xp: Any, offsets: Array, num_edges: int) -> Array:
    """Return the row of each edge, shape (E,)."""
    numbers = xp.arange(num_edges, dtype=offsets.dtype)
    return (xp.searchsorted(offsets, numbers, side="right") - 1).astype(offsets.dtype)


def _to_host(xp: Any, array: Array) -> np.ndarray:
    host: np.ndarray = array if xp is np else xp.asnumpy(array)
    return host
