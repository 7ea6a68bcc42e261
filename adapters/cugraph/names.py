"""Names of the columns that a live ``cugraph.Graph`` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dynstore.adapters.cugraph.edge_properties import EDGE_ID, EDGE_TYPE

if TYPE_CHECKING:
    import numpy as np

    from dynstore.typing import Array

__all__ = ["ColumnNames"]


class ColumnNames(NamedTuple):
    """Names of the user's columns; ``weight`` is None for a graph without weights.

    ``weight_dtype``: the type of integer weights; edge lists keep it as long as all weights are whole numbers.
    ``both_ways``: undirected edges were given in both directions, as cuGraph's example data sets have them.
    ``edge_id``, ``edge_type``: the extra columns that are ids and types for cuGraph, if the graph has them.
    """

    source: str
    destination: str
    weight: str | None
    weight_dtype: np.dtype | None = None
    both_ways: bool = False
    edge_id: str = EDGE_ID
    edge_type: str = EDGE_TYPE

    def with_properties(self, edge_id: str | None, edge_type: str | None) -> ColumnNames:
        """Return the same with the user's names of ids and types of edges, where there are some."""
        return self._replace(edge_id=edge_id or EDGE_ID, edge_type=edge_type or EDGE_TYPE)

    def show_weights(self, weights: Array) -> Array:
        """Return weights of the store in an edge list's form, in a new array."""
        if self.weight_dtype is None or bool((weights != weights.astype(self.weight_dtype)).any()):
            return weights.copy()
        return weights.astype(self.weight_dtype)
