"""The edges as columns over the store's own memory, gaps included; the ids of all rows; pandas frames without gaps."""

from __future__ import annotations

import json
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from dynstore.input.origin import MARK, OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.graph import DynamicGraph
    from dynstore.typing import Array

__all__ = ["GappedColumns", "describe_origin", "gapped_columns", "kept_ids", "to_host", "to_pandas"]

_Ids = TypeVar("_Ids")


class GappedColumns(NamedTuple):
    """One row a slot.

    Attributes
    ----------
    columns : dict
        By name; each of shape (S,).
    valid : array, uint32
        One bit a row: set if it holds an edge.
    num_gaps : int
    """

    columns: dict[str, Array]
    valid: Array
    num_gaps: int


def gapped_columns(G: DynamicGraph) -> GappedColumns:
    """Return the store's arrays as an export, without a copy: each array owns a pin (:mod:`dynstore.pins`).

    In a graph with extra columns, these and the weights are copies.

    An undirected edge has two rows, one for each direction (a self-loop has one).
    """
    csr = G.snapshot()
    arrays = csr.export()
    columns = {"source": arrays["sources"], "destination": arrays["indices"]}
    if csr.is_weighted:
        columns["weight"] = arrays["weights"]
    columns |= G.snapshot_columns()  # copies, as are the weights beside them
    return GappedColumns(columns, arrays["valid"], csr.num_slots - csr.num_edges)


# Graph -> library -> the state that the ids were made from, and the result.
_kept: WeakKeyDictionary[DynamicGraph, dict[str, tuple[Any, Any]]] = WeakKeyDictionary()
_lock = RLock()


def kept_ids(G: DynamicGraph, library: str, make: Callable[[], _Ids]) -> _Ids:
    """Return the ids of all rows in a library's form; made anew only if a row may have got a new id.

    Parameters
    ----------
    G : DynamicGraph
    library : str
        The library's name; each library has its own ids.
    make : callable
        Makes them from the graph's ids. The result must not refer to the graph, and must not be written to.
    """
    # If numbers are reused, an update may change a number's id without changing V.
    version = G.version if G.core.ids.reuse_ids else None
    key = (G.core.ids.epoch, G.number_of_vertices(), version)
    with _lock:
        kept = _kept.setdefault(G, {})
        if library not in kept or kept[library][0] != key:
            kept.pop(library, None)  # freed first, to make room for the new ones
            kept[library] = key, make()
        made: _Ids = kept[library][1]
        return made


def to_pandas(G: DynamicGraph) -> Any:
    """Return a new pandas frame ``source, destination[, weight]`` and the extra columns, wherever the graph is.

    The rows are those of :meth:`dynstore.DynamicGraph.edge_table`: no gaps, an undirected edge once. Its ``attrs`` say
    how the graph was made, so that ``from_edges`` of the frame makes an equal one (:mod:`dynstore.input.origin`).
    """
    import pandas

    frame = pandas.DataFrame({name: to_host(G, array) for name, array in G.edge_columns().items()})
    frame.attrs[MARK] = describe_origin(G)
    return frame


def describe_origin(G: DynamicGraph) -> str:
    """Return the mark of a graph's tables, as JSON; see :mod:`dynstore.input.origin`."""
    dtypes = {name: dtype.name for name, dtype in G.edge_dtypes.items()}
    timestamps = None if G.timestamps is None else dtypes.pop("time")
    own = G.is_directed(), G.is_renumbered(), G.vertex_dtype.name, G.weight_dtype.name
    values = *own, dtypes or None, timestamps, G.is_multigraph()
    num_vertices = 0 if G.is_renumbered() else G.number_of_vertices()
    return json.dumps({**dict(zip(OPTIONS, values, strict=True)), "num_vertices": num_vertices})


def to_host(G: DynamicGraph, array: Array) -> np.ndarray:
    """Return an array of the graph as a NumPy array; strings are on the host already."""
    return array if isinstance(array, np.ndarray) else G.core.backend.to_host(array)
