"""Graphs made of the state of another one: copies, subgraphs, pickles, saved graphs, other options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dynstore.backend import get_backend
from dynstore.batches.make import make_batch
from dynstore.batches.sorted import EdgeBatch
from dynstore.errors import InputError, SavedGraphError, shown
from dynstore.graph.core import EXTRA
from dynstore.graph.saving import damaged, read_state
from dynstore.graph.transaction import Growth, Insertion, Transaction
from dynstore.interrupts import MemoryChecked
from dynstore.lookup import provided
from dynstore.snapshot import Lease
from dynstore.stores import get_store

if TYPE_CHECKING:
    from pathlib import Path

    from dynstore.graph.core import GraphCore, GraphState
    from dynstore.graph.local import LocalGraph
    from dynstore.typing import Array, Device, Frames, Memory

__all__ = ["graph_of_state", "load_graph", "made_of_state", "part_of", "redirected", "remade"]

G = TypeVar("G", bound="LocalGraph")
EDGE_COLUMNS = ("source", "destination", "weight")


def graph_of_state(kind: type[G], state: GraphState, device: str) -> G:
    """Make a graph of a state; arrays on the host are brought to the device."""
    make: Any = kind
    graph: G = make(device=device, **state.options)
    core: Any = graph.core
    if core.shows_events:
        provided("events").restore_events(core, state)
        core.lease = Lease(state.version)
        return graph
    with core.lock, Transaction(core, "DynamicGraph") as update:
        columns = _brought(update, state)
        src, dst, weights = columns["source"], columns["destination"], columns.get("weight")
        num_loops = 0 if core.directed else int(core.backend.xp.count_nonzero(src == dst))
        if core.records is not None:
            weights = _recorded(core, columns)
            core.records.guess_dated()
        batch = EdgeBatch(src, dst, weights, num_loops)
        operation = Insertion(state.num_vertices, "replace") if len(src) else Growth(state.num_vertices)
        update.commit(update.plan(operation, batch), core.ids.plan_columns(columns), batch.num_edges(core.directed))
    core.lease = Lease(state.version)
    return graph


def _brought(update: Transaction, state: GraphState) -> dict[str, Array]:
    """Return the columns of a state that a graph without edges will have: in the memory of its edges."""
    core = update.core
    update.settle(int(state.columns["source"].shape[0]), state.num_vertices)
    columns = {}
    for name, array in state.columns.items():
        place: Memory = core.out.memory if name in EDGE_COLUMNS else "device"
        columns[name] = array if array.dtype == object else core.backend.bring(place, array)
    return columns


def _recorded(core: GraphCore, columns: dict[str, Array]) -> Array:
    """Return the records' numbers of a state's edges; both directions of an undirected edge have the same."""
    assert core.records is not None
    src, dst, xp = columns["source"], columns["destination"], core.backend.xp
    once = slice(None) if core.directed else xp.nonzero(src <= dst)[0]
    values = {name: columns[EXTRA * (name != "weight") + name][once] for name in core.records.columns}
    numbers = core.records.append(values, [core.out])
    if core.directed:
        return numbers
    stored = core.backend.empty(len(src), numbers.dtype)
    stored[once] = numbers
    turned = xp.nonzero(src > dst)[0]
    by_row = xp.lexsort(xp.stack((src[turned], dst[turned])))
    stored[turned[by_row]] = stored[xp.nonzero(src < dst)[0]]
    return stored


def load_graph(kind: type[G], path: Path, device: Device, frames: Frames | None) -> G:
    """Make the graph that was saved in a folder; see :meth:`dynstore.DynamicGraph.load`."""
    with MemoryChecked("load"):
        state = read_state(path)
    if frames is not None:
        state.options["frames"] = frames
    return made_of_state(kind, path, state, device)


def made_of_state(kind: type[G], path: Path, state: GraphState, device: Device) -> G:
    """Make a graph of a state that was read from a folder.

    Raises
    ------
    InputError
        For an unknown device.
    SavedGraphError
        If the options are those of no graph, or the store is one of another package that is not installed.
    """
    get_backend(device)
    name = state.options.get("store")
    try:
        if isinstance(name, str):
            get_store(name)
    except InputError as error:
        kept = f"the saved graph {str(path)!r} is kept in store {shown(name)}"
        raise SavedGraphError(f"load: {kept}, which is not here: {error}") from error
    try:
        return graph_of_state(kind, state, device)
    except (OverflowError, TypeError, ValueError) as error:
        raise damaged(path, str(error)) from error


def part_of(core: GraphCore, vertices: Any) -> GraphState:
    """Return the state of a subgraph; see :meth:`dynstore.DynamicGraph.subgraph`."""
    with MemoryChecked("subgraph"):
        among = core.backend.zeros(core.num_vertices, np.bool_)
        among[core.ids.numbers_of("subgraph", vertices, core.num_vertices)] = True
        return core.state(among)._replace(version=0)


def redirected(graph: G, directed: bool) -> G:
    """Return a new, independent graph of the same vertices and options that is directed, or undirected.

    An undirected edge becomes one in each direction. Two directions become one edge, with what the lighter one holds;
    without weights, or if both weigh the same, it is the one from the row with the higher number. Ids stay on their
    device.
    """
    core, make = graph.core, type(graph)
    if directed == core.directed:
        twin: Any = graph
        copied: G = twin.copy()
        return copied
    new: Any = make
    other: G = new(device=core.backend.name, **{**core.options(), "directed": directed, "capacity": None})
    with other.core.lock, Transaction(other.core, "redirected") as update:
        update.core.ids = core.ids.copy()
        update.core.records = None if core.records is None else core.records.copy()
        src, dst, stored = core.numbered_edges(once=False)
        weights = core.weights_of(stored)
        if weights is not None and stored is not None and not directed:
            order = core.backend.xp.argsort(-weights, kind="stable")  # the last row of a batch counts
            src, dst, stored = src[order], dst[order], stored[order]
        batch = make_batch(core.backend, src, dst, stored, directed)
        num_vertices = core.num_vertices
        plans = update.plan(Insertion(num_vertices, "replace") if len(src) else Growth(num_vertices), batch)
        update.commit(plans, None, batch.num_edges(directed))
    return other


def remade(graph: Any, given: dict[str, Any], default_weight: float | None) -> Any:
    """Return an equal graph made with other options."""
    core = graph.core
    own = {**core.options(), "device": graph.device}
    if {**own, **given} == own:
        return graph.copy()
    other = type(graph)(**{**own, **given})
    columns = graph.edge_columns()
    kept = [
        "source",
        "destination",
        *(["weight"] if other.is_weighted() and graph.is_weighted() else []),
        *other.edge_dtypes,
    ]
    missing = [name for name in kept if name not in columns]
    if missing:
        has = ", ".join(graph.edge_dtypes) or "none"
        raise InputError(
            f"from_edges: wanted the edge columns {', '.join(missing)}; the given graph has {has}. "
            "Leave them out, or insert the edges with these columns into a new graph"
        )

    def brought(array: Any) -> Any:
        return array if other.device == graph.device or isinstance(array, np.ndarray) else core.backend.to_host(array)

    ids = {"edge_id": brought(columns["edge_id"])} if other.is_multigraph() and graph.is_multigraph() else {}
    other.insert_edges(tuple(brought(columns[name]) for name in kept), default_weight=default_weight, **ids)
    other.insert_vertices(brought(graph.vertex_ids()))
    return other
