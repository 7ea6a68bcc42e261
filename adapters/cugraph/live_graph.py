"""Replaces cuGraph's ``simpleGraphImpl`` inside a live ``cugraph.Graph``; it holds only its DynamicGraph.

cuGraph's class keeps an edge list, counts and a C++ graph from the time it is built. Here each of them is made from the
current version on request: the graph for pylibcugraph and the attributes here, the views in ``live_views``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dynstore.adapters.cugraph.borrowed.loading import load_bridge
from dynstore.adapters.cugraph.callers import Caller
from dynstore.adapters.cugraph.edge_lists import LightFrame, LiveEdgeList, column_types, is_read_by_cugraph
from dynstore.adapters.cugraph.edge_properties import (
    build_with_properties,
    named_columns,
    named_properties,
    reads_properties,
)
from dynstore.adapters.cugraph.live_views import LiveViews, expand_rows
from dynstore.adapters.cugraph.names import ColumnNames
from dynstore.adapters.cugraph.number_maps import make_number_map
from dynstore.adapters.cugraph.packed import PackedRows, kept_rows, packed_rows
from dynstore.adapters.cugraph.shown import ShownIds, shown_ids
from dynstore.adapters.libraries import require
from dynstore.algorithms.calls import Call, note_call
from dynstore.errors import InputError
from dynstore.graph import DynamicGraph
from dynstore.graph.state import redirected
from dynstore.input.forms import column_names, find_weight

if TYPE_CHECKING:
    from dynstore.typing import OnDuplicate, UpdateReport

__all__ = ["LiveGraph", "build_graph", "lend_graph", "lend_numbered", "live_graph_type"]

CALLER = "cugraph.Graph"


class LiveGraph(LiveViews):
    """A mixin before ``cugraph``'s ``simpleGraphImpl``, which first sets its own attributes."""

    _dynamic: DynamicGraph | None = None
    _properties: Any
    _columns = ColumnNames("source", "destination", None)
    _edges: LiveEdgeList | None = None
    _rebuilt: tuple[int, dict[tuple[bool, bool], Any]] | None = None
    _translation: tuple[ShownIds, Any] | None = None
    # The graph just returned to hasattr(), for the getattr() that follows.
    _offered: tuple[Caller, Any] | None = None

    def show(self, G: DynamicGraph, columns: ColumnNames, store_transposed: bool | None = None) -> None:
        """Show ``G`` from now on.

        ``store_transposed`` is the user's choice, or None. With None cuGraph, which compares with True and False, does
        not warn; both orientations are there. The library that lends graphs is loaded now, not by the first algorithm.
        """
        load_bridge()
        self._dynamic, self._columns = G, columns
        self.store_transposed = store_transposed
        self.properties.weighted = G.is_weighted()
        self.properties.directed = G.is_directed()
        self.source_columns, self.destination_columns = columns.source, columns.destination
        self.vertex_columns = [columns.source, columns.destination]
        self.weight_column = columns.weight

    # ------------------------------------------------------------------ dynstore's own

    @property
    def dynamic_graph(self) -> DynamicGraph:
        """The DynamicGraph that it shows."""
        if self._dynamic is None:
            raise RuntimeError("Graph is Empty")
        return self._dynamic

    @property
    def version(self) -> int:
        """The version number; every update adds one."""
        return self.dynamic_graph.version

    def insert_edges(
        self,
        edges: Any,
        source: str | None = None,
        destination: str | None = None,
        weight: str | None = None,
        on_duplicate: OnDuplicate = "replace",
        default_weight: float | None = None,
        edge_id: str | None = None,
        edge_type: str | None = None,
    ) -> UpdateReport:
        """Insert a batch, see :meth:`dynstore.DynamicGraph.insert_edges`; a frame's columns default to the graph's.

        ``edge_id``, ``edge_type``: other names that these columns have in the frame.
        """
        names = self._columns
        if weight is None and names.weight is not None and names.weight in column_names(edges):
            weight = names.weight
        G, ends = self.dynamic_graph, (source or names.source, destination or names.destination)
        if edge_id is None and edge_type is None:
            return G.insert_edges(edges, *ends, weight, on_duplicate, default_weight)
        others = {
            own: name for own, name in ((names.edge_id, edge_id), (names.edge_type, edge_type)) if name is not None
        }
        unknown = [name for own, name in others.items() if own not in G.edge_dtypes]
        if unknown:
            raise InputError(f"insert_edges: edges of this graph have no column for {', '.join(unknown)}; leave it out")
        if weight is None and G.is_weighted():
            weight = find_weight(edges, (*ends, None))
        weights = [] if weight is None else [weight]
        columns = named_columns(edges, [*ends, *weights, *(others.get(own, own) for own in G.edge_dtypes)])
        return G.insert_edges(columns, on_duplicate=on_duplicate, default_weight=default_weight)

    def delete_edges(self, edges: Any, source: str | None = None, destination: str | None = None) -> UpdateReport:
        """Delete a batch, see :meth:`dynstore.DynamicGraph.delete_edges`."""
        names = self._columns
        return self.dynamic_graph.delete_edges(edges, source or names.source, destination or names.destination)

    def lend(self, transposed: bool = False, call: str = "lend") -> Any:
        """Return the current version as a graph for one call of pylibcugraph.

        Parameters
        ----------
        transposed : bool
            Rows are destinations, which ``pylibcugraph.pagerank``, ``hits``, ``katz_centrality`` and
            ``eigenvector_centrality`` need; all others need False. The wrong orientation costs time, but does not
            change results.
        call : str
            For ``dynstore.explain``.
        """
        G, bridge = self.dynamic_graph, load_bridge()
        names = self._columns
        properties = named_properties(G, names.edge_id, names.edge_type) if reads_properties(call) else {}
        if properties:
            return self._rebuild(transposed, call, "borrowed rows have no ids and types of edges", properties)
        if bridge.borrowed_graph is None:
            return self._rebuild(transposed, call, bridge.reason)
        return lend_graph(G, transposed, call)

    def _rebuild(
        self, transposed: bool, call: str, reason: str, properties: Mapping[str, str] = MappingProxyType({})
    ) -> Any:
        """Pass the rows to SGGraph, which sorts and numbers them anew, once a version and orientation.

        ``properties``: the extra columns to pass on, by cuGraph's name.
        """
        G = self.dynamic_graph
        if self._rebuilt is None or self._rebuilt[0] != G.version:
            self._rebuilt = G.version, {}
        kept, key = self._rebuilt[1], (transposed, bool(properties))
        copied = "nothing: an earlier call had this version built", 0
        if key not in kept and properties:
            kept[key], size = build_with_properties(G, properties, transposed)
            copied = f"the edges with {' and '.join(properties)}; sorted and numbered anew by SGGraph", 2 * size
        elif key not in kept:
            rows = packed_rows(G, False)
            kept[key] = build_graph(rows, not G.is_directed(), transposed)
            copied = f"{rows.copied}; sorted and numbered anew by SGGraph", 2 * rows.copied_bytes
        note_call(G, Call(call, "rebuilt", G.version, *copied, reason))
        return kept[key]

    # ------------------------------------------------------------------ what cuGraph's class keeps as attributes

    @property
    def properties(self) -> Any:
        """cuGraph's properties; ``renumbered`` means ids translated in Python, while integers are translated in C++."""
        if self._dynamic is not None:
            self._properties.renumbered = shown_ids(self._dynamic).strings is not None
        return self._properties

    @properties.setter
    def properties(self, value: Any) -> None:
        self._properties = value

    @property
    def _plc_graph(self) -> Any:
        if self._dynamic is None:
            raise AttributeError("_plc_graph")
        caller = Caller.find()
        offered, self._offered = self._offered, None  # read once: other threads may ask, too
        if offered is not None and caller.follows(offered[0]):
            return offered[1]
        try:
            graph = self.lend(caller.pulls, caller.name)
        except AttributeError as error:  # Graph.__getattr__ would treat it as a missing attribute
            raise RuntimeError(f"{CALLER}: the graph cannot be borrowed: {error}") from error
        self._offered = (caller, graph) if caller.asks_twice else None
        return graph

    @property
    def edgelist(self) -> Any:
        if self._dynamic is None or self._deleted == self._dynamic.version:
            return None
        if self._edges is None:
            self._edges = LiveEdgeList(self._dynamic, self._columns)
        return self._edges

    @edgelist.setter
    def edgelist(self, value: None) -> None:
        """Ignored: ``simpleGraphImpl`` first sets None, but the edge list comes from the store."""

    @property
    def input_df(self) -> Any:
        """The edges as :meth:`from_cudf_edgelist` got them: the user's names, undirected ones once or both ways."""
        G, names = self._dynamic, self._columns
        if G is None:
            return None

        def make() -> Any:
            return self._edge_frame(True, names.both_ways)

        if is_read_by_cugraph(sys._getframe(1)):
            return LightFrame(column_types(G, names), self.number_of_edges(names.both_ways), make)
        return make()

    @input_df.setter
    def input_df(self, value: None) -> None:
        """See ``edgelist``."""

    @property
    def renumber_map(self) -> Any:
        """cuGraph's own map between ids and the numbers that it uses inside; None if ids are used as they are."""
        if self._dynamic is None or not self._dynamic.is_renumbered():
            return None
        ids = shown_ids(self._dynamic)
        if self._translation is None or self._translation[0] is not ids:
            self._translation = ids, make_number_map(ids, self._columns)
        return self._translation[1]

    @renumber_map.setter
    def renumber_map(self, value: None) -> None:
        """See ``edgelist``."""

    # ------------------------------------------------------------------ other graphs

    def to_directed(self, other: Any, store_transposed: bool = False) -> None:
        """Make ``other`` an independent graph with each edge in both directions, as they are stored."""
        other.show(redirected(self.dynamic_graph, True), self._columns)

    def to_undirected(self, other: Any, store_transposed: bool = False) -> None:
        """Make ``other`` an independent undirected graph; of two weights the smaller one counts, as in cuGraph.

        As in cuGraph, directed edges with ids or types raise an InputError, which is a ValueError: an undirected edge
        would need one for two.
        """
        properties = named_properties(self.dynamic_graph, self._columns.edge_id, self._columns.edge_type)
        if self.dynamic_graph.is_directed() and properties:
            named = ", ".join(properties.values())
            raise InputError(
                f"to_undirected: the edges have ids or types ({named}); wanted a graph without them, as an undirected "
                "edge has one for both directions"
            )
        other.show(redirected(self.dynamic_graph, False), self._columns)

    def delete_edge_list(self) -> None:
        """Release what was made of the edges, as cuGraph does; the graph stays, and can be filled again or updated."""
        self._edges, self._deleted = None, self.dynamic_graph.version


@lru_cache(maxsize=1)
def live_graph_type() -> Any:
    """Return the implementation class: :class:`LiveGraph` over the class that every ``cugraph.Graph`` has."""
    module = require(CALLER, "cugraph.structure.graph_implementation.simpleGraph")
    return type("LiveGraphImpl", (LiveGraph, module.simpleGraphImpl), {"__module__": __name__})


def lend_graph(G: DynamicGraph, transposed: bool, call: str) -> Any:
    """Return the current version as a BorrowedGraph for one call; the class must be loaded. See ``LiveGraph.lend``."""
    return _lend(G, transposed, transposed, call)


def lend_numbered(G: DynamicGraph, inward: bool, transposed: bool, call: str, weighted: bool = True) -> Any:
    """Return the current version under its row numbers as a BorrowedGraph.

    Parameters
    ----------
    G : DynamicGraph
    inward : bool
        Rows hold the in-edges of ``G``.
    transposed : bool
        cuGraph takes rows for destinations. If this is not ``inward``, it sees each edge turned around.
    call : str
        For ``dynstore.explain``.
    weighted : bool
        If False, weights are left out.
    """
    return _lend(G, inward, transposed, call, by_number=True, weighted=weighted)


def _lend(
    G: DynamicGraph, inward: bool, transposed: bool, call: str, by_number: bool = False, weighted: bool = True
) -> Any:
    bridge, new = load_bridge(), kept_rows(G, inward) is None
    rows = packed_rows(G, inward)
    vertices = rows.ids.number_map
    if by_number and G.is_renumbered():
        vertices = require(CALLER, "cupy").arange(vertices.shape[0]) if rows.order is None else rows.order
    # A copy: functions of cuGraph that transpose the graph sort its vertices in place.
    number_map = vertices.astype(rows.indices.dtype)
    G.core.backend.wait_for_stream()
    wide, medium = rows.segments or (-1, -1)
    graph = bridge.borrowed_graph(
        rows.offsets,
        rows.indices,
        rows.weights if weighted else None,
        number_map,
        symmetric=not G.is_directed(),
        transposed=transposed,
        end_of_wide=wide,
        end_of_medium=medium,
    )
    reason = bridge.reason
    if rows.segments is None:
        reason += "; rows are in no order of degree, so cuGraph gives every vertex one thread"
    copied = (rows.copied, rows.copied_bytes) if new else ("nothing: an earlier call packed this version", 0)
    note_call(G, Call(call, "borrowed", rows.version, *copied, reason))
    return graph


def build_graph(rows: PackedRows, symmetric: bool, transposed: bool) -> Any:
    """Let pylibcugraph build an SGGraph of out-edges, without the checks that ``cugraph.Graph`` requests."""
    plc = require(CALLER, "pylibcugraph")
    number_map, offsets, indices = rows.ids.number_map, rows.offsets, rows.indices
    columns, form, vertices = (offsets, indices), "CSR", None
    # Only edge lists may have arbitrary ids; and with int64 rows cuGraph's C API refuses float32 weights.
    if rows.ids.renumbered or indices.dtype.itemsize == 8:
        columns, form, vertices = (number_map[expand_rows(rows)], number_map[indices]), "COO", number_map
    return plc.SGGraph(
        plc.ResourceHandle(),
        plc.GraphProperties(is_symmetric=symmetric, is_multigraph=False),
        *columns,
        weight_array=rows.weights,
        store_transposed=transposed,
        renumber=True,
        do_expensive_check=False,
        input_array_format=form,
        vertices_array=vertices,
    )
