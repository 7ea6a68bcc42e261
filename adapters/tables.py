"""The edges as columns over the store's own memory, with their gaps; pandas frames without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from dynstore.graph import DynamicGraph
    from dynstore.typing import Array

__all__ = ["GappedColumns", "gapped_columns", "to_host", "to_pandas"]


class GappedColumns(NamedTuple):
    """One row a slot.

    Attributes
    ----------
    columns : dict
        By name; each of shape (S,).
    valid : array, uint32
        One bit a row: whether it holds an edge.
    num_gaps : int
    ids : array, shape (V,), or None
        With ``renumber=True``: the ids that the numbers in ``source`` and ``destination`` stand for.
    """

    columns: dict[str, Array]
    valid: Array
    num_gaps: int
    ids: Array | None


def gapped_columns(G: DynamicGraph) -> GappedColumns:
    """Return what the store holds, without a copy and for keeps: each array owns a pin (:mod:`dynstore.pins`).

    An undirected edge has two rows, one a direction (a self-loop has one).
    """
    csr = G.snapshot()
    arrays = csr.export()
    columns = {"source": arrays["sources"], "destination": arrays["indices"]}
    if csr.is_weighted:
        columns["weight"] = arrays["weights"]
    ids = G.vertex_ids() if G.is_renumbered() else None
    return GappedColumns(columns, arrays["valid"], csr.num_slots - csr.num_edges, ids)


def to_pandas(G: DynamicGraph) -> Any:
    """Return a new pandas frame ``source, destination[, weight]``, wherever the graph is.

    The rows are those of :meth:`dynstore.DynamicGraph.edge_table`: no gaps, an undirected edge once.
    """
    import pandas

    return pandas.DataFrame({name: to_host(G, array) for name, array in G.edge_columns().items()})


def to_host(G: DynamicGraph, array: Array) -> np.ndarray:
    """Return an array of the graph, or of strings, which are on the host anyway, as a NumPy array."""
    return array if isinstance(array, np.ndarray) else G.backend.to_host(array)
