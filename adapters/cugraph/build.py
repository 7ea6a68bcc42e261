"""Graphs that the drop-in's ``Graph`` builds: over a DynamicGraph if it can hold the edges, else cuGraph's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.adapters.cugraph.edge_properties import named_columns
from dynstore.adapters.cugraph.live_graph import live_graph_type
from dynstore.adapters.cugraph.names import ColumnNames
from dynstore.adapters.libraries import require
from dynstore.algorithms.calls import Call, note_call
from dynstore.backend import cuda_problem
from dynstore.errors import InputError, type_name
from dynstore.graph import DynamicGraph
from dynstore.input.forms import find_weight, open_edges, split_columns

if TYPE_CHECKING:
    from dynstore.typing import OnDuplicate, UpdateReport

__all__ = ["fill_graph", "reason_for_cugraph", "refuse_null_ids", "start_graph"]

CALLER = "cugraph.Graph"
DEFAULTS = {
    "source": "source",
    "destination": "destination",
    "edge_attr": None,
    "weight": None,
    "edge_id": None,
    "edge_type": None,
    "renumber": True,
    "store_transposed": None,  # cuGraph's False, but a live graph has both orientations, so there is no need to warn
    "symmetrize": None,
    "vertices": None,
}


def fill_graph(graph: Any, input_df: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """Do what ``graph.from_cudf_edgelist(input_df, *args, **kwargs)`` does, with a DynamicGraph if that can hold them.

    Returns
    -------
    str or None
        Why it is cuGraph's own graph that was filled; None if it is a DynamicGraph.

    Raises
    ------
    InputError
        For an id that is null.
    """
    given = {**dict(zip(DEFAULTS, args, strict=False)), **kwargs}
    options = {**DEFAULTS, **given}
    directed = graph.graph_properties.directed
    # Calls that cuGraph refuses, also those with unknown arguments, are left to cuGraph.
    odd = len(args) > len(DEFAULTS) or set(given) - set(DEFAULTS) or graph._Impl is not None
    reason = "it has its own words for that" if odd else reason_for_cugraph(input_df, directed, options)
    if not odd:
        _refuse_nulls(input_df, options)
    if reason is None:
        try:
            _show(graph, input_df, directed, options)
        except InputError as error:
            graph._Impl = None
            reason = str(error)
    if reason is not None:
        type(graph).from_cudf_edgelist(graph, input_df, *args, **kwargs)
        note_call(graph, Call("from_cudf_edgelist", "rebuilt", None, "the frame, by cuGraph", 0, reason))
    return reason


def _refuse_nulls(input_df: Any, options: dict[str, Any]) -> None:
    """Refuse edges with an id that is null, and such vertices; all else is left to who reads it.

    Raises
    ------
    InputError
    """
    labels = getattr(input_df, "columns", ())
    for end in ("source", "destination"):
        for name in options[end] if isinstance(options[end], list) else [options[end]]:
            if isinstance(name, str | int) and name in labels:
                refuse_null_ids(str(name), input_df[name])
    refuse_null_ids("vertices", options["vertices"])


def refuse_null_ids(name: str, column: Any) -> None:
    """Refuse a column of ids with a null: cuGraph takes it for vertex 0, or for another one.

    Raises
    ------
    InputError
    """
    if not hasattr(column, "isna"):
        return
    missing = column.isna()
    if bool(missing.any()):
        row = int(missing.to_numpy().argmax())
        raise InputError(f"{CALLER}: `{name}` has a null at row {row}; wanted a vertex id. Drop such rows first")


def start_graph(
    graph: Any,
    edges: Any,
    names: tuple[str, str, str | None],
    on_duplicate: OnDuplicate,
    default_weight: float | None,
    edge_id: str | None = None,
    edge_type: str | None = None,
) -> UpdateReport:
    """Do the first ``insert_edges`` on a graph that is empty; types are those of the batch, as for a frame of edges."""
    if cuda_problem() is not None:
        raise InputError(f"insert_edges: this graph cannot hold edges: {cuda_problem()}")
    edges = open_edges("insert_edges", edges)
    extra = _dtypes_of(edges, [name for name in (edge_id, edge_type) if name is not None])
    names = (*names[:2], find_weight(edges, names))
    columns = split_columns("insert_edges", edges, names)
    dtypes = [str(getattr(column, "dtype", "int64")) for _, column in columns]
    weighted = len(columns) == 3 or default_weight is not None
    G = DynamicGraph(
        directed=graph.graph_properties.directed,
        weighted=weighted,
        device="cuda",
        vertex_dtype="int64" if "int64" in dtypes[:2] else "int32",
        weight_dtype="float64" if dtypes[2:] in (["int64"], ["float64"]) else "float32",
        renumber=True,
        edge_columns=extra,
    )
    report = G.insert_edges(edges, *names, on_duplicate, default_weight)
    whole = np.dtype(dtypes[2]) if dtypes[2:] in (["int32"], ["int64"]) else None
    shown = ColumnNames(*names[:2], (names[2] or "weight") if weighted else None, whole)
    _set_live(graph, G, shown.with_properties(edge_id, edge_type), None)
    return report


def _dtypes_of(edges: Any, names: list[str]) -> dict[str, str]:
    """Return the dtypes of the columns of ids and types in the first edges; refuse those that are no integers."""
    found = {}
    for name, column in zip(names, named_columns(edges, names) if names else (), strict=True):
        dtype = found[name] = str(getattr(column, "dtype", None) or column.type).lower()
        if "int" not in dtype:
            raise InputError(f"insert_edges: `{name}` is {dtype}; wanted integers, as ids and types of edges are")
    return found


def reason_for_cugraph(input_df: Any, directed: bool, options: dict[str, Any]) -> str | None:
    """Return why a frame of edges goes to cuGraph's own Graph, or None if a DynamicGraph can take it.

    Parameters
    ----------
    input_df : cudf.DataFrame
        Anything else is left to cuGraph.
    directed : bool
    options : dict
        The arguments of ``from_cudf_edgelist``.
    """
    cudf = require(CALLER, "cudf")
    ends = [_one_name(options[end]) for end in ("source", "destination")]
    if cuda_problem() is not None:
        return cuda_problem()
    if not isinstance(input_df, cudf.DataFrame):
        return f"the edges are a {type_name(input_df)}"
    attributes = _attributes(options)
    if attributes is None:
        return "edge_attr has to be alone, and to name a weight, or a weight, an id and a type"
    weight, *extra = attributes
    properties = [name for name in extra if name is not None]
    if properties and not directed:
        return "only directed edges have ids and types in cuGraph"
    if not all(isinstance(end, str | int) for end in ends):
        return "a vertex is more than one column"
    names = [*ends, *([] if weight is None else [weight]), *properties]
    if not all(name in input_df.columns for name in names):
        return "a column was not found"
    if len(input_df) == 0 or any(bool(input_df[name].isna().any()) for name in names):
        return "there are no edges, or nulls among them"
    if directed and options["symmetrize"]:
        return "a directed graph cannot be symmetrized"
    if not directed and options["symmetrize"] is False:
        return "the caller vouches for both directions of each edge (symmetrize=False)"
    if weight is not None and input_df[weight].dtype.kind not in "if":
        return "weights are no numbers"
    if any(input_df[name].dtype.kind not in "iu" for name in properties):
        return "ids or types of edges are no integers"
    return _reason_of_ids([input_df[end] for end in ends], bool(options["renumber"]))


def _attributes(options: dict[str, Any]) -> tuple[Any, Any, Any] | None:
    """Return the names of the columns of weights, ids and types, each perhaps None; None if cuGraph takes no such."""
    single, several = tuple(options[name] for name in ("weight", "edge_id", "edge_type")), options["edge_attr"]
    if several is None:
        return single
    names = list(several) if isinstance(several, list | tuple) else [several]
    if len(names) not in (1, 3) or single != (None, None, None):
        return None
    return (*names, None, None)[:3]


def _one_name(names: Any) -> Any:
    """Return the name in a list of one, which cuGraph takes as well."""
    return names[0] if isinstance(names, list) and len(names) == 1 else names


def _reason_of_ids(ends: list[Any], renumber: bool) -> str | None:
    integers = all(str(end.dtype) in ("int32", "int64") for end in ends)
    strings = all(str(end.dtype) in ("object", "str", "string") for end in ends)
    if not integers and not (strings and renumber):
        return f"vertices are {ends[0].dtype} and {ends[1].dtype}"
    if integers and min(int(end.min()) for end in ends) < 0:
        return "a vertex is negative"
    return None


def _show(graph: Any, input_df: Any, directed: bool, options: dict[str, Any]) -> None:
    source, destination = _one_name(options["source"]), _one_name(options["destination"])
    weight, edge_id, edge_type = _attributes(options) or (None, None, None)
    columns = [input_df[source], input_df[destination]]
    if weight is not None:
        columns.append(input_df[weight])
        if not directed:
            columns = _one_weight_each(*columns)
    wide_ids = any(str(column.dtype) == "int64" for column in columns[:2])
    wide_weights = weight is not None and str(columns[2].dtype) in ("int64", "float64")
    extra = {name: str(input_df[name].dtype) for name in (edge_id, edge_type) if name is not None}
    G = DynamicGraph(
        directed=directed,
        weighted=weight is not None,
        device="cuda",
        vertex_dtype="int64" if wide_ids else "int32",
        weight_dtype="float64" if wide_weights else "float32",
        renumber=bool(options["renumber"]),
        edge_columns=extra,
    )
    G.insert_edges((*columns, *(input_df[name] for name in extra)))
    if options["vertices"] is not None:
        G.insert_vertices(options["vertices"])
    whole = None if weight is None or input_df[weight].dtype.kind != "i" else input_df[weight].dtype
    both_ways = not directed and len(input_df) >= G.snapshot().num_edges
    shown = ColumnNames(source, destination, weight, whole, both_ways).with_properties(edge_id, edge_type)
    _set_live(graph, G, shown, options["store_transposed"])
    graph._Impl.source_columns, graph._Impl.destination_columns = options["source"], options["destination"]


def _set_live(graph: Any, G: DynamicGraph, columns: ColumnNames, store_transposed: bool | None) -> None:
    live = live_graph_type()(graph.graph_properties)
    live.show(G, columns, store_transposed)
    graph._Impl = live


def _one_weight_each(src: Any, dst: Any, weights: Any) -> list[Any]:
    """Return each undirected edge's weight as cuGraph does: the least of equal rows, the mean of both directions."""
    cudf = require(CALLER, "cudf")
    if weights.dtype.kind == "i":
        weights = weights.astype(np.float32 if str(weights.dtype) == "int32" else np.float64)
    table = cudf.DataFrame({"src": src, "dst": dst, "weight": weights})
    table = table.groupby(["src", "dst"], as_index=False, sort=False).min()
    turned = table["src"] > table["dst"]
    low, high = table["src"].where(~turned, table["dst"]), table["dst"].where(~turned, table["src"])
    table = cudf.DataFrame({"src": low, "dst": high, "weight": table["weight"]})
    table = table.groupby(["src", "dst"], as_index=False, sort=False).mean()
    return [table["src"], table["dst"], table["weight"].astype(weights.dtype)]
