"""The edge list of a live ``cugraph.Graph``: a frame that is made only if something reads more of it than its types.

Many functions of cuGraph read ``G.edgelist.edgelist_df`` for the type of a column, or for whether there are weights. A
frame of all edges would take several times the memory of the graph for that.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.adapters.cugraph.edge_properties import named_properties, reads_properties, vertex_type
from dynstore.adapters.cugraph.packed import packed_rows
from dynstore.adapters.cugraph.row_order import rows_of_edges
from dynstore.adapters.cugraph.shown import shown_ids
from dynstore.adapters.libraries import require

if TYPE_CHECKING:
    from types import FrameType

    from dynstore.adapters.cugraph.names import ColumnNames
    from dynstore.graph import DynamicGraph

__all__ = ["WEIGHTS", "LightColumn", "LightFrame", "LiveEdgeList", "column_types", "is_read_by_cugraph", "weight_type"]

CALLER = "cugraph.Graph"
SOURCE, DESTINATION, WEIGHTS = "src", "dst", "weights"
# Modules of cuGraph that compute with the frame, or are tests.
READERS = ("cugraph.structure.hypergraph", "cugraph.experimental.", "cugraph.testing", "cugraph.tests.")
PASSING = ("cugraph.structure.graph_classes", "dynstore.adapters.")
# What Python looks up in a class, not in an object.
OPERATIONS = (
    "__add__", "__and__", "__bool__", "__eq__", "__floordiv__", "__ge__", "__gt__", "__invert__", "__iter__", "__le__",
    "__lt__", "__mod__", "__mul__", "__ne__", "__neg__", "__or__", "__pow__", "__radd__", "__repr__", "__rmul__",
    "__rsub__", "__setitem__", "__sub__", "__truediv__",
)  # fmt: skip


def is_read_by_cugraph(frame: FrameType | None) -> bool:
    """Return whether the nearest caller is a function of cuGraph that may get a light frame, seen from ``frame`` up."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if not module.startswith(PASSING):
            return module.startswith("cugraph.") and not module.startswith(READERS)
        frame = frame.f_back
    return False


def _is_read_for_properties(frame: FrameType | None) -> bool:
    """Return whether a function that gets ids and types of edges is among the callers, seen from ``frame`` up."""
    while frame is not None:
        if reads_properties(frame.f_code.co_name) and str(frame.f_globals.get("__name__", "")).startswith("cugraph."):
            return True
        frame = frame.f_back
    return False


def weight_type(G: DynamicGraph, names: ColumnNames) -> np.dtype:
    """Return the type in which the weights of the current version are shown."""
    if names.weight_dtype is None:
        return G.weight_dtype
    shown: np.dtype = names.show_weights(packed_rows(G).weights).dtype  # whole numbers, as long as all of them are
    return shown


def column_types(G: DynamicGraph, names: ColumnNames) -> dict[str, Any]:
    """Return the types of the columns of edges under the user's names."""
    ids = shown_ids(G)
    shown = ids.number_map.dtype if ids.strings is None else require(CALLER, "pandas").api.types.pandas_dtype("string")
    types = {names.source: shown, names.destination: shown}
    if G.is_weighted():
        types[names.weight or "weight"] = weight_type(G, names)
    for own in named_properties(G, names.edge_id, names.edge_type).values():
        types[own] = G.edge_dtypes[own]
    return types


class _Light:
    """Stands for an object that is made when first needed."""

    __hash__ = None  # type: ignore[assignment]  # as frames and columns

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def __getattr__(self, name: str) -> Any:
        return getattr(self._make(), name)


def _forward(name: str) -> Callable[..., Any]:
    def operation(self: _Light, *args: Any) -> Any:
        return getattr(self._make(), name)(*args)

    return operation


for _name in OPERATIONS:
    setattr(_Light, _name, _forward(_name))


class LightColumn(_Light):
    """A column whose type is known.

    Attributes
    ----------
    dtype : numpy.dtype
    """

    def __init__(self, dtype: np.dtype, make: Callable[[], Any]) -> None:
        super().__init__(make)
        self.dtype = dtype

    def __len__(self) -> int:
        return len(self._make())

    def __getitem__(self, key: Any) -> Any:
        return self._make()[key]


class LightFrame(_Light):
    """A frame whose number of rows and whose columns' types are known.

    Parameters
    ----------
    types : dict
        The type of each column, by name.
    num_rows : int
    make : callable
        Returns the frame.
    """

    def __init__(self, types: dict[str, Any], num_rows: int, make: Callable[[], Any]) -> None:
        super().__init__(make)
        self._types, self._num_rows = types, num_rows

    @property
    def dtypes(self) -> Any:
        """A pandas Series, as of a frame."""
        return require(CALLER, "pandas").Series(self._types)

    def __len__(self) -> int:
        return self._num_rows

    def __contains__(self, name: Any) -> bool:
        return name in self._types

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str) and key in self._types:
            return LightColumn(self._types[key], lambda: self._make()[key])
        return self._make()[key]


class LiveEdgeList:
    """The edges of a graph's current version under the names of cuGraph's classes."""

    def __init__(self, G: DynamicGraph, names: ColumnNames) -> None:
        self._graph, self._names = G, names
        self.weights = G.is_weighted()
        self._kept: tuple[int, Any] | None = None

    @property
    def edgelist_df(self) -> Any:
        """A cuDF frame ``src, dst[, weights]`` of all edges stored: undirected ones in both directions.

        cuGraph's own functions get one that is made only if they read more of it than its types. Those that read ids
        of edges see the vertices in the type of the graph that is built for them.
        """
        caller, G = sys._getframe(1), self._graph
        if not is_read_by_cugraph(caller):
            return self._frame()
        shown = ids = shown_ids(G).number_map.dtype
        if _is_read_for_properties(caller):
            shown = vertex_type(G, named_properties(G, self._names.edge_id, self._names.edge_type))
        if shown == ids and self._kept is not None and self._kept[0] == G.version:
            return self._frame()
        ends = {SOURCE: shown, DESTINATION: shown}
        types = {**ends, WEIGHTS: weight_type(G, self._names)} if self.weights else ends
        make = self._frame if shown == ids else lambda: self._frame().astype(ends)
        return LightFrame(types, G.snapshot().num_edges, make)

    @edgelist_df.setter
    def edgelist_df(self, frame: Any) -> None:
        """Show another frame until the next version; as in cuGraph, the graph itself does not change."""
        self._kept = self._graph.version, frame

    def _frame(self) -> Any:
        if self._kept is None or self._kept[0] != self._graph.version:
            rows = packed_rows(self._graph)
            number_map = rows.ids.number_map
            sources = rows_of_edges(require(CALLER, "cupy"), rows.offsets, rows.indices.shape[0])
            columns = {SOURCE: number_map[sources], DESTINATION: number_map[rows.indices]}
            if rows.weights is not None:
                columns[WEIGHTS] = self._names.show_weights(rows.weights)
            self._kept = rows.version, require(CALLER, "cudf").DataFrame(columns)
        return self._kept[1]
