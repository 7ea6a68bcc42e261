"""``cugraph.Graph.from_dask_cudf_edgelist`` with a graph that can be changed, on the workers of a Dask cluster."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

from dynstore.adapters.dask import DaskGraph
from dynstore.adapters.dask.partitions import is_dask_frame
from dynstore.adapters.libraries import require
from dynstore.errors import InputError
from dynstore.input.forms import column_names

if TYPE_CHECKING:
    from dynstore.typing import OnDuplicate, UpdateReport

__all__ = [
    "LiveDaskGraph",
    "check_undirected",
    "cugraphs_own",
    "dask_graph_behind",
    "fill_dask_graph",
    "refuse_given",
]

DEFAULTS = {
    "source": "source",
    "destination": "destination",
    "edge_attr": None,
    "weight": None,
    "edge_id": None,
    "edge_type": None,
    "renumber": True,
    "store_transposed": None,  # a live graph has what is needed either way, so there is no need to warn
}
INTEGERS, TEXTS = ("int32", "int64"), ("object", "str", "string")


class LiveDaskGraph:
    """The implementation object of such a ``cugraph.Graph``, in place of ``simpleDistributedGraphImpl``.

    Parameters
    ----------
    G : DaskGraph
    ends : tuple of str
        The names of the columns of edges.
    weight : str or None
        The name of the column of weights.
    directed : bool
    """

    def __init__(self, G: DaskGraph, ends: tuple[str, str], weight: str | None, directed: bool) -> None:
        self.dask_graph = G
        self.source_columns, self.destination_columns = ends
        self.weight_column = weight
        self.vertex_columns = list(ends)
        self.store_transposed = None
        self.properties = SimpleNamespace(
            directed=directed, weighted=weight is not None, multi_edge=False, renumbered=False, store_transposed=None
        )

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        theirs = require("cugraph.Graph", "cugraph.structure.graph_implementation.simpleDistributedGraph")
        if name == "_plc_graph" or hasattr(theirs.simpleDistributedGraphImpl, name):
            raise InputError(
                f"{name}: a live graph on a Dask cluster has no {name}; its dask_graph, a DaskGraph, has other "
                "methods, and dynstore.adapters.cugraph.dask has algorithms"
            )
        raise AttributeError(name)

    @property
    def version(self) -> int:
        """The version number; every update adds one."""
        return self.dask_graph.version

    def insert_edges(
        self,
        edges: Any,
        source: str | None = None,
        destination: str | None = None,
        weight: str | None = None,
        on_duplicate: OnDuplicate = "replace",
        default_weight: float | None = None,
    ) -> UpdateReport:
        """Insert a batch; see :meth:`DaskGraph.insert_edges`. Names default to the graph's columns."""
        there = list(edges.columns) if is_dask_frame(edges) else column_names(edges)
        if weight is None and self.weight_column in there:
            weight = self.weight_column
        ends = source or self.source_columns, destination or self.destination_columns
        return self.dask_graph.insert_edges(edges, *ends, weight, on_duplicate, default_weight)

    def delete_edges(self, edges: Any, source: str | None = None, destination: str | None = None) -> UpdateReport:
        """Delete a batch; see :meth:`DaskGraph.delete_edges`. Names default to the graph's columns."""
        ends = source or self.source_columns, destination or self.destination_columns
        return self.dask_graph.delete_edges(edges, *ends)

    def number_of_vertices(self) -> int:
        """Return V."""
        return self.dask_graph.number_of_vertices()

    def number_of_nodes(self) -> int:
        """Return V."""
        return self.dask_graph.number_of_vertices()

    def number_of_edges(self, directed_edges: bool = False) -> int:
        """Return the number of edges; undirected ones once, or with ``directed_edges`` in both directions."""
        edges = self.dask_graph.number_of_edges()
        if not directed_edges or self.properties.directed:
            return edges
        return int(self.dask_graph.out_degree()["degree"].sum().compute())

    def view_edge_list(self) -> Any:
        """Return the edges as a Dask frame under the graph's names, undirected ones once."""
        names = {"source": self.source_columns, "destination": self.destination_columns, "weight": self.weight_column}
        return self.dask_graph.edge_table().rename(columns=names)

    def in_degree(self) -> Any:
        """Return ``vertex`` and ``degree`` of all vertices."""
        return self.dask_graph.in_degree()

    def out_degree(self) -> Any:
        """Return ``vertex`` and ``degree`` of all vertices."""
        return self.dask_graph.out_degree()

    def degree(self) -> Any:
        """Return ``vertex`` and ``degree`` of all vertices."""
        return self.dask_graph.degree()


def dask_graph_behind(value: Any) -> DaskGraph | None:
    """Return the DaskGraph that a value is, or that a live ``cugraph.Graph`` shows; None for anything else."""
    if isinstance(value, DaskGraph):
        return value
    live = getattr(value, "__dict__", {}).get("_Impl")
    return live.dask_graph if isinstance(live, LiveDaskGraph) else None


def fill_dask_graph(graph: Any, input_ddf: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """Do what ``graph.from_dask_cudf_edgelist(input_ddf, *args, **kwargs)`` does, with a DaskGraph if that can hold it.

    Returns
    -------
    str or None
        Why it is cuGraph's own graph that was filled; None if it is a DaskGraph.
    """
    given = {**dict(zip(DEFAULTS, args, strict=False)), **kwargs}
    options = {**DEFAULTS, **given}
    odd = len(args) > len(DEFAULTS) or set(given) - set(DEFAULTS) or graph._Impl is not None
    reason = "it has its own words for that" if odd else _reason_for_cugraph(input_ddf, options)
    if reason is not None:
        type(graph).from_dask_cudf_edgelist(graph, input_ddf, *args, **kwargs)
        return reason
    ends, weight = (options["source"], options["destination"]), _weight(options)
    kinds = {name: str(dtype) for name, dtype in input_ddf.dtypes.items()}
    directed = graph.graph_properties.directed
    G = DaskGraph(
        directed=directed,
        weighted=weight is not None,
        vertex_dtype="int64" if "int64" in (kinds[ends[0]], kinds[ends[1]]) else "int32",
        weight_dtype="float64" if weight is not None and kinds[weight] in ("int64", "float64") else "float32",
        renumber=bool(options["renumber"]),
    )
    try:
        G.insert_edges(input_ddf, *ends, weight)
    except BaseException:
        G.close()
        raise
    graph._Impl = LiveDaskGraph(G, ends, weight, directed)
    return None


def _weight(options: dict[str, Any]) -> str | None:
    """Return the name of the column of weights."""
    weight: Any = options["edge_attr"] if options["weight"] is None else options["weight"]
    single: str | None = weight[0] if isinstance(weight, list) and len(weight) == 1 else weight
    return single


def _reason_for_cugraph(input_ddf: Any, options: dict[str, Any]) -> str | None:
    """Return why a frame goes to cuGraph's own graph, or None."""
    if not is_dask_frame(input_ddf):
        return "the edges are no Dask frame"
    if options["edge_attr"] is not None and options["weight"] is not None:
        return "edge_attr has to be alone"
    if options["edge_id"] is not None or options["edge_type"] is not None:
        return "edges with ids or types are not kept on several workers"
    ends, weight = (options["source"], options["destination"]), _weight(options)
    if not all(isinstance(name, str | int) for name in ends) or not isinstance(weight, str | int | None):
        return "a vertex is more than one column, or an edge has ids and types"
    kinds = {name: str(dtype) for name, dtype in input_ddf.dtypes.items()}
    if not all(name in kinds for name in (*ends, *([] if weight is None else [weight]))):
        return "a column was not found"
    if weight is not None and not kinds[weight].startswith(("int", "float")):
        return "weights are no numbers"
    found = [kinds[name] for name in ends]
    if all(kind in INTEGERS for kind in found) or (all(kind in TEXTS for kind in found) and options["renumber"]):
        return None
    return f"vertices are {found[0]} and {found[1]}"


def cugraphs_own(name: str) -> Any:
    """Return cuGraph's own function."""
    return getattr(require(name, "cugraph.dask"), name)


def check_undirected(name: str, G: Any) -> None:
    """Refuse a directed graph."""
    if G.is_directed():
        raise InputError(f"{name}: input graph must be undirected; got a directed one")


def refuse_given(name: str, extra: dict[str, Any]) -> None:
    """Refuse parameters that only graphs of cuGraph's own have."""
    given = next((option for option, value in extra.items() if value is not None), None)
    if given is not None:
        raise InputError(f"{name}: {given} is given; on a live graph of a Dask cluster there is none yet; leave it out")
