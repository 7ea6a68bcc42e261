"""Packed rows of a graph's current version for cuGraph: squeezed once a version and orientation, then kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from dynstore.adapters.cugraph.row_order import (
    LongRows,
    hubs_out_of_place,
    measure_rows,
    order_by_degree,
    segments_of,
)
from dynstore.adapters.cugraph.shown import ShownIds, shown_ids
from dynstore.adapters.libraries import require
from dynstore.locks import Lock

if TYPE_CHECKING:
    from dynstore.graph import DynamicGraph
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["PackedRows", "kept_rows", "packed_rows"]


@dataclass(frozen=True, eq=False, slots=True)
class PackedRows:
    """One orientation of one version, on the GPU.

    Attributes
    ----------
    version : int
    transposed : bool
        Rows are destinations. Always False for undirected graphs.
    offsets, indices : CuPy arrays, shapes (V + 1,) and (E,), of the type of ``ids.number_map``
    weights : CuPy array, shape (E,), or None
    ids : ShownIds
    order : CuPy array, shape (V,), or None
        The graph's row of each packed row; None if rows are in the graph's order.
    segments : tuple of two ints, or None
        Rows behind them have less than 1024 (32) edges; None if rows are not ordered by degree.
    copied : str
        What was copied for it.
    copied_bytes : int
    """

    version: int
    transposed: bool
    offsets: Array
    indices: Array
    weights: Array | None
    ids: ShownIds
    order: Array | None
    segments: tuple[int, int] | None
    copied: str
    copied_bytes: int


_kept: WeakKeyDictionary[DynamicGraph, dict[Any, PackedRows]] = WeakKeyDictionary()
_lock = Lock()  # one for all graphs: rows that are packed at once need their memory at once


def kept_rows(G: DynamicGraph, transposed: bool) -> PackedRows | None:
    """Return the rows of the current version that an earlier call has packed, or None."""
    rows = _kept.get(G, {}).get(transposed and G.is_directed())
    return rows if rows is not None and rows.version == G.version else None


def packed_rows(G: DynamicGraph, transposed: bool = False) -> PackedRows:
    """Return the rows of the current version; later calls on the same version return the same rows.

    Parameters
    ----------
    G : DynamicGraph
        On the GPU; a graph on the host is copied there.
    transposed : bool
        Rows are destinations. A directed graph keeps its in-edges from the first such call on.

    Raises
    ------
    MissingDependencyError
        Without CuPy.
    """
    kept = kept_rows(G, transposed)
    if kept is not None:
        return kept
    with _lock:
        return kept_rows(G, transposed) or _make_rows(G, transposed and G.is_directed())


def _make_rows(G: DynamicGraph, transposed: bool) -> PackedRows:
    orientations = _kept.setdefault(G, {})
    # Free the rows of earlier versions first: the new ones need the memory.
    for key in [key for key, rows in orientations.items() if rows.version != G.version]:
        del orientations[key]
    cupy = require("cuGraph", "cupy")
    # The last update may have used a user's stream, for which no other stream waits.
    cupy.cuda.Device().synchronize()
    offsets, indices, weights, long_rows, copied = _pack(cupy, G.snapshot(transposed))
    ids = shown_ids(G)
    if ids.number_map.dtype != offsets.dtype:
        offsets, indices = offsets.astype(ids.number_map.dtype), indices.astype(ids.number_map.dtype)
        copied += f", widened to {offsets.dtype} for the ids"
    segments, order = segments_of(long_rows), None
    if hubs_out_of_place(long_rows, segments, int(indices.shape[0])):
        offsets, indices, weights, order = order_by_degree(cupy, offsets, indices, weights)
        ids = ShownIds(ids.number_map[order], ids.strings, True)
        segments = long_rows.wide, long_rows.medium
        copied += ", then sorted anew in order of degree"
    # cuGraph works on its own stream, which waits only for default streams.
    cupy.cuda.get_current_stream().synchronize()
    size = sum(array.nbytes for array in (offsets, indices, weights) if array is not None)
    rows = PackedRows(G.version, transposed, offsets, indices, weights, ids, order, segments, copied, size)
    orientations[transposed] = rows
    return rows


def _pack(cupy: Any, csr: GapCSR) -> tuple[Array, Array, Array | None, LongRows, str]:
    backend = csr.backend
    if backend.on_gpu:
        squeeze = backend.kernels("dynstore.adapters.cugraph", "squeezing").squeeze
        return (*squeeze(csr), "gaps squeezed out into arrays of their own")
    packed = csr.compact()
    columns = (
        cupy.asarray(packed.offsets),
        cupy.asarray(packed.indices),
        None if packed.weights is None else cupy.asarray(packed.weights),
    )
    return (*columns, measure_rows(packed.offsets), "packed on the host, copied to the GPU")
