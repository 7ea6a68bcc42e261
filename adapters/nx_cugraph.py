"""A graph of nx-cugraph that always shows the current version of a DynamicGraph.

nx-cugraph keeps columns of edges, and builds a C++ graph from them in each call. Here the columns are made from the
current version on request, and the C++ graph borrows dynstore's rows.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from dynstore.adapters.cugraph.borrowed.loading import load_bridge
from dynstore.adapters.cugraph.live_graph import lend_numbered
from dynstore.adapters.cugraph.shown import shown_ids
from dynstore.adapters.libraries import require
from dynstore.adapters.tables.columns import kept_ids
from dynstore.algorithms.calls import Call, note_call
from dynstore.errors import InputError, InputTypeError, type_name
from dynstore.graph import DynamicGraph
from dynstore.graph.events.questions import refuse_multigraph

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = ["as_nx_cugraph"]

CALLER = "as_nx_cugraph"
WEIGHT = "weight"
INDEX = np.dtype(np.int32)  # nx-cugraph's nodes


def as_nx_cugraph(G: DynamicGraph) -> Any:
    """Return a graph of nx-cugraph for a dynamic graph: each call of NetworkX on it uses the edges of that moment.

    Parameters
    ----------
    G : DynamicGraph
        It should be on CUDA. The edges of a graph on the host are copied to the GPU, once for each version.

    Returns
    -------
    nx_cugraph.CudaGraph or nx_cugraph.CudaDiGraph
        Weights are in the edge attribute ``weight``. It cannot be changed; update ``G``.

    Raises
    ------
    MissingDependencyError
        Without nx-cugraph.
    InputError
        If the graph has more vertices than int32 can number.
    """
    if not isinstance(G, DynamicGraph):
        raise InputTypeError(f"{CALLER}: G is a {type_name(G)}; wanted a dynstore.DynamicGraph")
    refuse_multigraph(CALLER, G)
    if G.number_of_vertices() > np.iinfo(INDEX).max:
        raise InputError(f"{CALLER}: G has {G.number_of_vertices()} vertices; nx-cugraph takes at most 2^31 - 1")
    shown: Any = object.__new__(_live_types()[G.is_directed()])
    shown._dynamic, shown.graph, shown.__networkx_cache__ = G, {}, None
    return shown


class _LiveCudaGraph:
    """A mixin before ``CudaGraph`` and ``CudaDiGraph``: what they keep as attributes is read from the graph."""

    _dynamic: DynamicGraph
    _columns: tuple[int, dict[str, Array]] | None = None

    @property
    def dynamic_graph(self) -> DynamicGraph:
        """The DynamicGraph that it shows."""
        return self._dynamic

    def _count_nodes(self) -> int:
        return self._dynamic.number_of_vertices()

    _N = property(_count_nodes)

    @property
    def src_indices(self) -> Array:
        return self._column("sources", INDEX)

    @property
    def dst_indices(self) -> Array:
        return self._column("indices", INDEX)

    @property
    def edge_values(self) -> dict[str, Array]:
        return {WEIGHT: self._column("weights", self._dynamic.weight_dtype)} if self._dynamic.is_weighted() else {}

    @property
    def edge_masks(self) -> dict[str, Array]:
        return {}

    node_values = node_masks = edge_masks

    @property
    def key_to_id(self) -> dict[Any, int] | None:
        """The row of each id; None where they are the same."""
        return self._ids()[0]

    @property
    def _id_to_key(self) -> list[Any] | None:
        return self._ids()[1]

    @property
    def _node_ids(self) -> Array:
        return require(CALLER, "cupy").arange(self._count_nodes(), dtype=INDEX)

    def _get_plc_graph(
        self,
        edge_attr: Any = None,
        edge_default: Any = None,
        edge_dtype: Any = None,
        *,
        store_transposed: bool = False,
        switch_indices: bool = False,
        edge_array: Any = None,
        symmetrize: Any = None,
    ) -> Any:
        """Borrow the rows where the call wants the edges as they are; else let nx-cugraph build its own graph."""
        G = self._dynamic
        weighted = edge_attr == WEIGHT and G.is_weighted()
        if edge_array is not None or symmetrize is not None:
            reason = "other edges or weights than the graph's were asked for"
        elif edge_attr is not None and not weighted and edge_default is None:
            reason = f"edges have no {edge_attr!r}"
        elif weighted and edge_dtype is not None and np.dtype(edge_dtype) != G.weight_dtype:
            reason = f"{np.dtype(edge_dtype)} weights were asked for"
        elif shown_ids(G).number_map.dtype != INDEX:
            reason = "its ids are wider than nx-cugraph's"
        elif load_bridge().borrowed_graph is None:
            reason = load_bridge().reason
        else:
            inward = store_transposed != switch_indices
            return lend_numbered(G, inward, store_transposed, "nx-cugraph", weighted)
        note_call(G, Call("nx-cugraph", "rebuilt", G.version, "columns of all edges", reason=reason))
        return super()._get_plc_graph(  # type: ignore[misc]  # CudaGraph comes after this class
            edge_attr,
            edge_default,
            edge_dtype,
            store_transposed=store_transposed,
            switch_indices=switch_indices,
            edge_array=edge_array,
            symmetrize=symmetrize,
        )

    def _sort_edge_indices(self, primary: str = "src") -> None:
        """Edges are sorted by source, then by destination."""
        if primary != "src":
            self._refuse()

    def _refuse(self, *args: Any, **options: Any) -> NoReturn:
        raise InputError(f"{type(self).__name__}: it shows a DynamicGraph; update its dynamic_graph instead")

    clear = clear_edges = add_nodes_from = _become = _refuse

    def _column(self, name: str, dtype: np.dtype) -> Array:
        """Return one value for each edge, both directions of undirected ones; made once a version."""
        G = self._dynamic
        if self._columns is None or self._columns[0] != G.version:
            self._columns = G.version, {}
        kept = self._columns[1]
        if name not in kept:
            csr = G.snapshot()
            kept[name] = require(CALLER, "cupy").asarray(getattr(csr, name)[csr.mask()], dtype=dtype)
        return kept[name]

    def _ids(self) -> tuple[dict[Any, int] | None, list[Any] | None]:
        G = self._dynamic
        if not G.is_renumbered():
            return None, None
        return kept_ids(G, "nx_cugraph", lambda: _list_ids(G))


def _list_ids(G: DynamicGraph) -> tuple[dict[Any, int], list[Any]]:
    ids = list(G)
    return dict(zip(ids, range(len(ids)), strict=True)), ids


@lru_cache(maxsize=1)
def _live_types() -> tuple[type, type]:
    """Return the classes of undirected and of directed graphs; made on the first request, as they need nx-cugraph."""
    nxcg = require(CALLER, "nx_cugraph")
    bases = nxcg.CudaGraph, nxcg.CudaDiGraph
    names = {"__module__": __name__, "__doc__": "A graph of nx-cugraph that shows a DynamicGraph."}
    graph, digraph = (type(f"Live{base.__name__}", (_LiveCudaGraph, base), names) for base in bases)
    return graph, digraph
