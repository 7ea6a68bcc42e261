"""What replaces cuGraph's ``simpleGraphImpl`` inside a live ``cugraph.Graph``: it holds nothing but its DynamicGraph.

cuGraph's class keeps an edge list, counts and a C++ graph from the moment it is built. Here each of them is made of the
current version when it is asked for: the graph for pylibcugraph and the attributes here, the views in ``live_views``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.adapters.cugraph.borrowed.loading import load_bridge
from dynstore.adapters.cugraph.callers import Caller
from dynstore.adapters.cugraph.live_views import Columns, LiveEdgeList, LiveViews, expand_rows
from dynstore.adapters.cugraph.number_maps import make_number_map
from dynstore.adapters.cugraph.packed import PackedRows, kept_rows, packed_rows
from dynstore.adapters.cugraph.shown import ShownIds, shown_ids
from dynstore.adapters.libraries import require
from dynstore.algorithms.calls import Call, note_call
from dynstore.graph import DynamicGraph

if TYPE_CHECKING:
    from dynstore.typing import OnDuplicate, UpdateReport

__all__ = ["LiveGraph", "build_graph", "lend_graph"]

CALLER = "cugraph.Graph"


class LiveGraph(LiveViews):
    """Mixed in before ``cugraph``'s ``simpleGraphImpl``, which sets attributes of its own first."""

    _dynamic: DynamicGraph | None = None
    _properties: Any
    _columns = Columns("source", "destination", None)
    _edges: tuple[int, LiveEdgeList] | None = None
    _rebuilt: tuple[int, dict[bool, Any]] | None = None
    _translation: tuple[ShownIds, Any] | None = None
    # The graph handed to hasattr() a moment ago, for the getattr() that follows.
    _offered: tuple[Caller, Any] | None = None

    def show(self, G: DynamicGraph, columns: Columns, store_transposed: bool | None = None) -> None:
        """Show ``G`` from now on.

        ``store_transposed`` is what the user asked for; None where nobody did: both are there, so cuGraph, which
        compares with True and False, warns of neither.
        """
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
        """The graph behind it."""
        if self._dynamic is None:
            raise RuntimeError("Graph is Empty")
        return self._dynamic

    @property
    def version(self) -> int:
        """The number that every update raises by one."""
        return self.dynamic_graph.version

    def insert_edges(
        self,
        edges: Any,
        source: str | None = None,
        destination: str | None = None,
        weight: str | None = None,
        on_duplicate: OnDuplicate = "replace",
    ) -> UpdateReport:
        """Insert a batch, see :meth:`dynstore.DynamicGraph.insert_edges`; a frame's columns default to the graph's."""
        names = self._columns
        if weight is None and names.weight is not None and names.weight in getattr(edges, "columns", ()):
            weight = names.weight
        return self.dynamic_graph.insert_edges(
            edges, source or names.source, destination or names.destination, weight, on_duplicate
        )

    def delete_edges(self, edges: Any, source: str | None = None, destination: str | None = None) -> UpdateReport:
        """Delete a batch, see :meth:`dynstore.DynamicGraph.delete_edges`."""
        names = self._columns
        return self.dynamic_graph.delete_edges(edges, source or names.source, destination or names.destination)

    def lend(self, transposed: bool = False, call: str = "lend") -> Any:
        """Return the current version as a graph for one call of pylibcugraph.

        Parameters
        ----------
        transposed : bool
            Rows are destinations, as ``pylibcugraph.pagerank``, ``hits``, ``katz_centrality`` and
            ``eigenvector_centrality`` want them; all else wants False. The wrong ones cost time, and change no result.
        call : str
            For ``dynstore.explain``.
        """
        G, bridge = self.dynamic_graph, load_bridge()
        if bridge.borrowed_graph is None:
            return self._rebuild(transposed, call, bridge.reason)
        return lend_graph(G, transposed, call)

    def _rebuild(self, transposed: bool, call: str, reason: str) -> Any:
        """Hand the rows to SGGraph, which sorts and numbers them anew, once a version and orientation."""
        G = self.dynamic_graph
        if self._rebuilt is None or self._rebuilt[0] != G.version:
            self._rebuilt = G.version, {}
        kept = self._rebuilt[1]
        copied = "nothing: an earlier call had this version built", 0
        if transposed not in kept:
            rows = packed_rows(G, False)
            kept[transposed] = build_graph(rows, not G.is_directed(), transposed)
            copied = f"{rows.copied}; sorted and numbered anew by SGGraph", 2 * rows.copied_bytes
        note_call(G, Call(call, "rebuilt", G.version, *copied, reason))
        return kept[transposed]

    # ------------------------------------------------------------------ what cuGraph's class keeps as attributes

    @property
    def properties(self) -> Any:
        """``renumbered`` is cuGraph's word for ids that are translated in Python; integers are translated in C++."""
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
        if self._offered is not None and caller.follows(self._offered[0]):
            graph = self._offered[1]
            self._offered = None
            return graph
        try:
            graph = self.lend(caller.pulls, caller.name)
        except AttributeError as error:  # Graph.__getattr__ would take it for an attribute that is not there
            raise RuntimeError(f"{CALLER}: the graph cannot be lent: {error}") from error
        self._offered = (caller, graph) if caller.asks_twice else None
        return graph

    @property
    def edgelist(self) -> Any:
        if self._dynamic is None:
            return None
        if self._edges is None or self._edges[0] != self._dynamic.version:
            self._edges = self._dynamic.version, LiveEdgeList(packed_rows(self._dynamic), self._columns)
        return self._edges[1]

    @edgelist.setter
    def edgelist(self, value: None) -> None:
        """``simpleGraphImpl`` begins with None; what is shown comes from the store."""

    @property
    def input_df(self) -> Any:
        return None if self._dynamic is None else self.view_edge_list()

    @input_df.setter
    def input_df(self, value: None) -> None:
        """See ``edgelist``."""

    @property
    def renumber_map(self) -> Any:
        """cuGraph's own map between strings and numbers; None for integers."""
        ids = None if self._dynamic is None else shown_ids(self._dynamic)
        if ids is None or ids.strings is None:
            return None
        if self._translation is None or self._translation[0] is not ids:
            self._translation = ids, make_number_map(ids, self._columns)
        return self._translation[1]

    @renumber_map.setter
    def renumber_map(self, value: None) -> None:
        """See ``edgelist``."""

    # ------------------------------------------------------------------ other graphs

    def to_directed(self, other: Any, store_transposed: bool = False) -> None:
        """Make ``other`` a graph of its own with each edge in both directions, as they are stored."""
        self._fill(other, directed=True)

    def to_undirected(self, other: Any, store_transposed: bool = False) -> None:
        """Make ``other`` an undirected graph of its own; of two weights the smaller one counts, as in cuGraph."""
        if not self.dynamic_graph.is_directed():
            other.show(self.dynamic_graph.copy(), self._columns)
            return
        self._fill(other, directed=False)

    def _fill(self, other: Any, directed: bool) -> None:
        G, rows = self.dynamic_graph, packed_rows(self.dynamic_graph)
        twin = DynamicGraph(
            directed=directed,
            weighted=G.is_weighted(),
            store=G.store_name,
            device=G.device,  # type: ignore[arg-type]
            vertex_dtype=G.vertex_dtype.name,
            weight_dtype=G.weight_dtype.name,
            renumber=G.is_renumbered(),
        )
        src, dst, weights = expand_rows(rows), rows.indices, rows.weights
        if weights is not None and not directed:
            # The last one of a batch wins: the smallest has to come last.
            order = require(CALLER, "cupy").argsort(-weights)
            src, dst, weights = src[order], dst[order], weights[order]
        ids, shown = G.vertex_ids(), rows.ids
        ends = shown.number_map[src], shown.number_map[dst]
        if isinstance(ids, np.ndarray):  # strings, or a graph on the host
            ends = tuple(require(CALLER, "cupy").asnumpy(column) for column in ends)
        if shown.strings is not None:
            ends = tuple(shown.strings[column] for column in ends)
        twin.insert_edges(ends if weights is None else (*ends, weights))
        if G.number_of_vertices():
            twin.insert_vertices(ids)
        other.show(twin, self._columns)

    def delete_edge_list(self) -> None:
        """Let go of the store: from here on this is an empty graph of cuGraph's own, as after cuGraph's method."""
        own = next(cls for cls in type(self).__mro__ if cls.__name__ == "simpleGraphImpl")
        self._dynamic = self._edges = self._rebuilt = self._translation = self._offered = None
        properties = self._properties
        self.__class__ = own
        self.properties = properties
        self.edgelist = None
        self.input_df = None
        self.renumber_map = None
        self.adjlist = None


def lend_graph(G: DynamicGraph, transposed: bool, call: str) -> Any:
    """Return the current version as a BorrowedGraph, which has to be there, for one call; see ``LiveGraph.lend``."""
    bridge, new = load_bridge(), kept_rows(G, transposed) is None
    rows = packed_rows(G, transposed)
    wide, medium = rows.segments or (-1, -1)
    graph = bridge.borrowed_graph(
        rows.offsets,
        rows.indices,
        rows.weights,
        rows.ids.number_map,
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
    """Have pylibcugraph build an SGGraph of out-edges, without the checks that ``cugraph.Graph`` asks for."""
    plc = require(CALLER, "pylibcugraph")
    number_map, offsets, indices = rows.ids.number_map, rows.offsets, rows.indices
    columns, form, vertices = (offsets, indices), "CSR", None
    # Only edge lists may have any ids; and of int64 rows cuGraph's C API refuses the float32 weights.
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
