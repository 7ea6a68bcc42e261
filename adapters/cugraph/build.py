"""Graphs that the drop-in's ``Graph`` builds: over a DynamicGraph if it can hold the edges, else cuGraph's own."""

from __future__ import annotations

from typing import Any, NoReturn
from weakref import ref

import numpy as np

from dynstore.adapters.cugraph.graph import live_graph_type
from dynstore.adapters.cugraph.live_views import Columns
from dynstore.adapters.libraries import require
from dynstore.algorithms.calls import Call, note_call
from dynstore.backend import cuda_problem
from dynstore.errors import InputError, type_name
from dynstore.graph import DynamicGraph

__all__ = ["new_graph", "reason_for_cugraph", "refuse_updates"]

CALLER = "cugraph.Graph"
UPDATES = ("insert_edges", "delete_edges")
DEFAULTS = {
    "source": "source",
    "destination": "destination",
    "edge_attr": None,
    "weight": None,
    "edge_id": None,
    "edge_type": None,
    "renumber": True,
    "store_transposed": False,
    "symmetrize": None,
    "vertices": None,
}


def new_graph(m_graph: Any = None, directed: bool = False) -> Any:
    """Return an empty ``cugraph.Graph`` whose ``from_cudf_edgelist`` fills a DynamicGraph.

    Its type is exactly ``cugraph.Graph``; the method is set on the object. Input that a DynamicGraph cannot hold
    (several columns as one id, edge ids and types, negative ids, ...) goes to cuGraph's own method;
    ``dynstore.explain`` says why.
    """
    real = require(CALLER, "cugraph").Graph
    graph = real(m_graph, directed)
    refuse_updates(graph, None)
    if m_graph is None:

        def from_cudf_edgelist(input_df: Any, *args: Any, **kwargs: Any) -> None:
            _fill(graph, input_df, args, kwargs)
            # Break the cycle once there are edges, so that memory is freed with the graph. cuGraph's method refuses
            # further edges.
            graph.__dict__.pop("from_cudf_edgelist", None)

        from_cudf_edgelist.__doc__ = real.from_cudf_edgelist.__doc__
        graph.from_cudf_edgelist = from_cudf_edgelist
    return graph


def refuse_updates(graph: Any, reason: str | None) -> None:
    """Give a graph that is cuGraph's own an ``insert_edges`` and a ``delete_edges`` that raise, and say why.

    ``reason``: None for a graph that may yet be filled.
    """
    known = ref(graph)  # no cycle, so that memory is freed with the graph
    for name in UPDATES:

        def refuse(*args: Any, name: str = name, **kwargs: Any) -> NoReturn:
            why = reason
            if why is None:
                is_empty = getattr(known(), "_Impl", None) is None
                why = "it has no edges yet" if is_empty else "it was filled in another way"
                why += "; from_cudf_edgelist and from_pandas_edgelist make a graph that can be changed"
            raise InputError(f"{name}: this graph is cuGraph's own, which cannot be changed: {why}")

        setattr(graph, name, refuse)


def _fill(graph: Any, input_df: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    given = {**dict(zip(DEFAULTS, args, strict=False)), **kwargs}
    options = {**DEFAULTS, **given}
    directed = graph.graph_properties.directed
    # Calls that cuGraph refuses, also those with unknown arguments, are left to cuGraph.
    odd = len(args) > len(DEFAULTS) or set(given) - set(DEFAULTS) or graph._Impl is not None
    reason = "it has its own words for that" if odd else reason_for_cugraph(input_df, directed, options)
    if reason is None:
        try:
            _show(graph, input_df, directed, options)
        except InputError as error:
            graph._Impl = None
            reason = str(error)
    if reason is not None:
        type(graph).from_cudf_edgelist(graph, input_df, *args, **kwargs)
        refuse_updates(graph, reason)
        note_call(graph, Call("from_cudf_edgelist", "rebuilt", None, "the frame, by cuGraph", 0, reason))


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
    ends = options["source"], options["destination"]
    weight = options["edge_attr"] if options["weight"] is None else options["weight"]
    if isinstance(weight, list | tuple) and len(weight) == 1:
        weight = weight[0]
    if cuda_problem() is not None:
        return cuda_problem()
    if not isinstance(input_df, cudf.DataFrame):
        return f"the edges are a {type_name(input_df)}"
    if options["edge_id"] is not None or options["edge_type"] is not None or isinstance(weight, list | tuple):
        return "edge ids and types are cuGraph's alone"
    if options["edge_attr"] is not None and options["weight"] is not None:
        return "both edge_attr and weight were given"
    if not all(isinstance(end, str | int) for end in ends):
        return "a vertex is more than one column"
    names = [*ends, *([] if weight is None else [weight])]
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
    return _reason_of_ids([input_df[end] for end in ends], bool(options["renumber"]))


def _reason_of_ids(ends: list[Any], renumber: bool) -> str | None:
    integers = all(str(end.dtype) in ("int32", "int64") for end in ends)
    strings = all(str(end.dtype) in ("object", "str", "string") for end in ends)
    if not integers and not (strings and renumber):
        return f"vertices are {ends[0].dtype} and {ends[1].dtype}"
    if integers and min(int(end.min()) for end in ends) < 0:
        return "a vertex is negative"
    return None


def _show(graph: Any, input_df: Any, directed: bool, options: dict[str, Any]) -> None:
    source, destination = options["source"], options["destination"]
    weight = options["edge_attr"] if options["weight"] is None else options["weight"]
    weight = weight[0] if isinstance(weight, list | tuple) else weight
    columns = [input_df[source], input_df[destination]]
    if weight is not None:
        columns.append(input_df[weight])
        if not directed:
            columns = _one_weight_each(*columns)
    wide_ids = any(str(column.dtype) == "int64" for column in columns[:2])
    wide_weights = weight is not None and str(columns[2].dtype) in ("int64", "float64")
    G = DynamicGraph(
        directed=directed,
        weighted=weight is not None,
        device="cuda",
        vertex_dtype="int64" if wide_ids else "int32",
        weight_dtype="float64" if wide_weights else "float32",
        renumber=bool(options["renumber"]),
    )
    G.insert_edges(tuple(columns))
    if options["vertices"] is not None:
        G.insert_vertices(options["vertices"])
    for name in UPDATES:
        graph.__dict__.pop(name, None)
    live = live_graph_type()(graph.graph_properties)
    whole = None if weight is None or input_df[weight].dtype.kind != "i" else input_df[weight].dtype
    live.show(G, Columns(source, destination, weight, whole), options["store_transposed"])
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
