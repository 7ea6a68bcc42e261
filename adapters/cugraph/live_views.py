"""Views of a live ``cugraph.Graph``'s current version, with cuGraph's names, columns and dtypes."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.adapters.cugraph.edge_lists import WEIGHTS, is_read_by_cugraph
from dynstore.adapters.cugraph.edge_properties import EDGE_ID, EDGE_TYPE, named_properties, stored_edges
from dynstore.adapters.cugraph.own import Declined, chosen_engine, run_own_degrees
from dynstore.adapters.cugraph.packed import PackedRows, packed_rows
from dynstore.adapters.cugraph.row_order import rows_of_edges
from dynstore.adapters.cugraph.shown import STRING, ShownIds, shown_ids
from dynstore.adapters.libraries import require
from dynstore.errors import InputError, LimitError

if TYPE_CHECKING:
    from dynstore.adapters.cugraph.names import ColumnNames
    from dynstore.graph import DynamicGraph
    from dynstore.typing import Array

__all__ = ["LiveViews", "expand_rows"]

CALLER = "cugraph.Graph"
# What decompress_to_edgelist calls the columns beside the ends.
CUGRAPHS_NAMES = {WEIGHTS: "weight", EDGE_ID: "edge_ids", EDGE_TYPE: "edge_type_ids"}
# The rows of an adjacency list: cuGraph counts them in int32.
MAX_ROWS = np.iinfo(np.int32).max


def expand_rows(rows: PackedRows) -> Array:
    """Return the row of each edge, shape (E,)."""
    return rows_of_edges(require(CALLER, "cupy"), rows.offsets, rows.indices.shape[0])


def _kept_list(name: str) -> property:
    """Return a property: what a view has made of this version, as an object of cuGraph's; None before.

    Setting it, which cuGraph does to None, forgets it.
    """

    def read(views: LiveViews) -> Any:
        kept = views._kept_adjacencies().get(name)
        if kept is not None and is_read_by_cugraph(sys._getframe(1)):
            views._check_rows(views.number_of_vertices(), int(kept.offsets.shape[0]) - 1)
        return kept

    def forget(views: LiveViews, value: None) -> None:
        views._kept_adjacencies().pop(name, None)

    return property(read, forget)


class LiveViews:
    """The methods of ``simpleGraphImpl`` that read edges and vertices."""

    _columns: ColumnNames
    _properties: Any
    _sorted_nodes: tuple[Any, Any] | None = None
    # The places of strings in their order, by number.
    _ranks: tuple[Any, Array] | None = None
    # The version whose edge list was deleted.
    _deleted: int | None = None
    # The lists that the views of a version have made, by name.
    _adjacencies: tuple[int, dict[str, Any]] | None = None

    @property
    def dynamic_graph(self) -> DynamicGraph:
        """The DynamicGraph that it shows."""
        raise NotImplementedError

    def view_edge_list(self) -> Any:
        """Return the edges: directed ones under the user's names, undirected ones once, source <= destination."""
        self._refuse_deleted("view_edge_list")
        # cuGraph's name where it does not show the user's frame, whatever the user's name is
        is_own = self.dynamic_graph.is_directed() and shown_ids(self.dynamic_graph).strings is None
        frame = self._edge_frame(is_own)
        self._properties.edge_count = len(frame)
        return frame

    def _edge_frame(self, own_names: bool, both_ways: bool = False) -> Any:
        """Return the edges under the user's names, or the columns beside the ends under cuGraph's."""
        G, names = self.dynamic_graph, self._columns
        ids, src, dst, columns = self._read_edges()
        if not G.is_directed() and not both_ways:
            once = src <= dst if ids.strings is None else self._comes_first(src, dst)
            src, dst = src[once], dst[once]
            columns = {name: column[once] for name, column in columns.items()}
        if WEIGHTS in columns:
            columns[WEIGHTS] = names.show_weights(columns[WEIGHTS])
        shown = {WEIGHTS: names.weight or "weight", EDGE_ID: names.edge_id, EDGE_TYPE: names.edge_type}
        if not own_names:
            shown = CUGRAPHS_NAMES
        return require(CALLER, "cudf").DataFrame(
            {names.source: self._named(src), names.destination: self._named(dst)}
            | {shown[name]: column for name, column in columns.items()}
        )

    def _read_edges(self) -> tuple[ShownIds, Array, Array, dict[str, Array]]:
        """Return the ids, and all stored edges: the ends as cuGraph shows them, weights, ids and types."""
        G, names = self.dynamic_graph, self._columns
        extra = named_properties(G, names.edge_id, names.edge_type)
        if extra:
            ids = shown_ids(G)
            src, dst, weights, values = stored_edges(G, extra.values())
            columns = {name: values[own] for name, own in extra.items()}
        else:
            rows = packed_rows(G)
            ids, src, dst, weights, columns = rows.ids, expand_rows(rows), rows.indices, rows.weights, {}
        if weights is not None:
            columns = {WEIGHTS: weights, **columns}
        return ids, ids.number_map[src], ids.number_map[dst], columns

    def _comes_first(self, src: Array, dst: Array) -> Array:
        """Return for each pair of numbers whether the first one's string is not behind the second one's."""
        cupy, ids = require(CALLER, "cupy"), shown_ids(self.dynamic_graph)
        if self._ranks is None or self._ranks[0] is not ids:
            order = cupy.asarray(self._named(ids.number_map).argsort())
            ranks = cupy.empty_like(order)
            ranks[order] = cupy.arange(order.shape[0], dtype=order.dtype)
            self._ranks = ids, ranks
        ranks = self._ranks[1]
        return ranks[src] <= ranks[dst]

    def _named(self, numbers: Array) -> Any:
        """Return a column of ids; numbers that stand for strings are translated."""
        strings = shown_ids(self.dynamic_graph).strings
        if strings is None:
            return numbers
        cudf = require(CALLER, "cudf")
        return cudf.Series(strings).take(cudf.Series(numbers)).reset_index(drop=True).astype(STRING)

    def view_adj_list(self) -> tuple[Any, Any, Any]:
        """Return offsets, indices and weights (or None) as Series; int32, as in cuGraph, if that is enough.

        Rows are ids from 0 to the highest. Undirected edges are in both rows.
        """
        return self._show("adjlist", "AdjList", transposed=False, for_cugraph=is_read_by_cugraph(sys._getframe(1)))

    def view_transposed_adj_list(self) -> tuple[Any, Any, Any]:
        """As :meth:`view_adj_list`, but rows are destinations."""
        by_cugraph = is_read_by_cugraph(sys._getframe(1))
        return self._show("transposedadjlist", "transposedAdjList", transposed=True, for_cugraph=by_cugraph)

    adjlist = _kept_list("adjlist")
    transposedadjlist = _kept_list("transposedadjlist")

    def _kept_adjacencies(self) -> dict[str, Any]:
        version = getattr(getattr(self, "_dynamic", None), "version", -1)
        if self._adjacencies is None or self._adjacencies[0] != version:
            self._adjacencies = version, {}
        return self._adjacencies[1]

    def _show(self, name: str, kind: str, transposed: bool, for_cugraph: bool) -> tuple[Any, Any, Any]:
        """Return a kept list's columns, made on request; cuGraph's functions may change them and change them back."""
        kept = self._kept_adjacencies()
        made = kept.get(name)
        if made is None:
            self._refuse_deleted("view_adj_list" if name == "adjlist" else "view_transposed_adj_list")
            made = getattr(self, kind)(*self._adjacency(packed_rows(self.dynamic_graph, transposed)))
        if for_cugraph:
            self._check_rows(self.number_of_vertices(), int(made.offsets.shape[0]) - 1)
        kept[name] = made
        return made.offsets, made.indices, made.weights

    def _refuse_deleted(self, call: str) -> None:
        """Refuse to make a list from an edge list that was deleted, as cuGraph does; lists made before will do.

        Raises
        ------
        InputError
        """
        if self._deleted == self.dynamic_graph.version and not self._kept_adjacencies():
            raise InputError(f"{call}: the edge list was deleted; update the graph, or fill it again")

    @staticmethod
    def _check_rows(num_vertices: int, num_rows: int) -> None:
        """Refuse a list for code of cuGraph that takes the number of vertices for the number of its rows.

        Raises
        ------
        InputError
        """
        if num_rows != num_vertices:
            raise InputError(
                f"cugraph.Graph: this function of cuGraph reads an adjacency list with a row for each of the "
                f"{num_vertices} vertices; that of the live graph has {num_rows}, one for each id up to the highest. "
                "Number the vertices from 0 without gaps, or call the function of dynstore.adapters.cugraph"
            )

    def _adjacency(self, rows: PackedRows) -> tuple[Any, Any, Any]:
        cudf, cupy = require(CALLER, "cudf"), require(CALLER, "cupy")
        offsets, indices, weights = rows.offsets, rows.indices, rows.weights
        number_map = rows.ids.number_map
        num_rows = int(number_map.max()) + 1 if number_map.shape[0] else 0
        if num_rows > MAX_ROWS:
            raise LimitError(
                f"view_adj_list: the highest id is {num_rows - 1}, and the list has a row for each id up to it; wanted "
                f"ids below {MAX_ROWS}. view_edge_list() takes any ids"
            )
        dtype = np.dtype(np.int32 if max(int(indices.shape[0]), num_rows) < MAX_ROWS else np.int64)
        if rows.ids.renumbered:
            majors, minors = number_map[expand_rows(rows)], number_map[indices]
            order = cupy.lexsort(cupy.stack((minors, majors)))
            indices = minors[order]
            weights = None if weights is None else weights[order]
            degrees = offsets[1:] - offsets[:-1]
            offsets = cupy.zeros(num_rows + 1, dtype=dtype)
            offsets[number_map.astype(np.int64) + 1] = degrees
            cupy.cumsum(offsets, out=offsets)
        return (
            cudf.Series(offsets.astype(dtype)),
            cudf.Series(indices.astype(dtype)),
            None if weights is None else cudf.Series(weights.copy()),
        )

    def to_numpy_array(self) -> np.ndarray:
        """Return the matrix of weights, shape (V, V), float64; its rows and columns are the vertices, ascending."""
        if not self.dynamic_graph.is_weighted():
            return np.asarray(super().to_numpy_array())  # type: ignore[misc]  # which raises
        rows, on_host = packed_rows(self.dynamic_graph), require(CALLER, "cupy").asnumpy
        shown = on_host(rows.ids.number_map) if rows.ids.strings is None else rows.ids.strings_on_host()
        places = np.empty(shown.shape[0], np.int64)
        places[np.argsort(shown, kind="stable")] = np.arange(shown.shape[0])
        matrix = np.zeros((shown.shape[0], shown.shape[0]))
        matrix[places[on_host(expand_rows(rows))], places[on_host(rows.indices)]] = on_host(rows.weights)
        return matrix

    def nodes(self) -> Any:
        """Return all vertices, ascending."""
        cudf, ids = require(CALLER, "cudf"), shown_ids(self.dynamic_graph)
        if self._sorted_nodes is None or self._sorted_nodes[0] is not ids:
            if ids.strings is not None:
                nodes = cudf.Series(ids.strings).astype(STRING).sort_values(ignore_index=True)
            else:
                cupy = require(CALLER, "cupy")
                nodes = cudf.Series(cupy.sort(ids.number_map) if ids.renumbered else ids.number_map.copy())
            self._sorted_nodes = ids, nodes
        return self._sorted_nodes[1].copy()

    def extract_vertex_list(self, return_unrenumbered_vertices: bool = True) -> Any:
        """Return all vertices, ascending; for strings, on request, the numbers that stand for them."""
        ids = shown_ids(self.dynamic_graph)
        if ids.strings is not None and not return_unrenumbered_vertices:
            return require(CALLER, "cudf").Series(ids.number_map.copy())
        return self.nodes()

    def number_of_vertices(self) -> int:
        """Return V, isolated vertices included."""
        self._properties.node_count = self.dynamic_graph.number_of_vertices()
        return int(self._properties.node_count)

    def number_of_edges(self, directed_edges: bool = False) -> int:
        """Return the number of edges; an undirected pair counts once, or with ``directed_edges`` twice."""
        G = self.dynamic_graph
        if directed_edges:
            return G.snapshot().num_edges
        self._properties.edge_count = G.number_of_edges()
        return G.number_of_edges()

    def has_node(self, n: Any) -> bool:
        """Return whether ``n`` is a vertex."""
        if hasattr(n, "shape") and np.ndim(n) > 0:
            return bool(super().has_node(n))  # type: ignore[misc]
        return self._vertex(n) is not None

    def has_edge(self, u: Any, v: Any) -> bool:
        """Return whether the edge is there."""
        ends = self._vertex(u), self._vertex(v)
        return None not in ends and bool(self.dynamic_graph.has_edges(([ends[0]], [ends[1]]))[0])

    def has_self_loop(self) -> bool:
        """Return whether an edge leads from a vertex to itself."""
        rows = packed_rows(self.dynamic_graph)
        return bool((expand_rows(rows) == rows.indices).any())

    def neighbors(self, n: Any) -> Any:
        """Return a Series of the ids that edges from ``n`` lead to; empty if ``n`` is no vertex."""
        cudf, G = require(CALLER, "cudf"), self.dynamic_graph
        vertex, ids = self._vertex(n), shown_ids(G)
        if ids.strings is not None:
            return cudf.Series([] if vertex is None else list(G.neighbors(vertex)), dtype=STRING)
        if vertex is None:
            return cudf.Series([], dtype=ids.number_map.dtype)
        return cudf.Series(require(CALLER, "cupy").array(G.neighbors(vertex), dtype=ids.number_map.dtype))

    def _vertex(self, n: Any) -> Any:
        """Return the id that is equal to ``n``, or None if it is no vertex."""
        value = n.item() if hasattr(n, "item") else n
        strings = shown_ids(self.dynamic_graph).strings is not None
        if not isinstance(value, str):
            if strings or not isinstance(value, int | float) or not math.isfinite(value) or value != int(value):
                return None
            value = int(value)
            if value < 0:
                return None
        elif not strings:
            return None
        try:
            number = int(self.dynamic_graph.vertex_numbers([value])[0])
        except InputError:  # above the largest possible id
            return None
        return None if number < 0 else value

    def degrees_function(self, vertex_subset: Any = None, degree_type: str = "in_degree") -> Any:
        """See cuGraph; a list of integers becomes a Series of the ids' type without reading the edges."""
        G = self.dynamic_graph
        if chosen_engine(None) == "dynstore":
            found = run_own_degrees(G, vertex_subset, degree_type)
            if not isinstance(found, Declined):
                return found
        cudf, ids = require(CALLER, "cudf"), shown_ids(G)
        if vertex_subset is not None and not isinstance(vertex_subset, cudf.Series) and ids.strings is None:
            vertex_subset = cudf.Series(vertex_subset).astype(ids.number_map.dtype)
        return super().degrees_function(vertex_subset, degree_type)  # type: ignore[misc]
