"""Read-only views of a graph, and the view of the edges of some time."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from dynstore.arguments import check_number
from dynstore.bits import pack_bits, unpack_bits
from dynstore.errors import InputError, InputTypeError, StaleSnapshotError
from dynstore.graph.core import GraphCore
from dynstore.graph.local import LocalGraph
from dynstore.graph.records import TIME
from dynstore.graph.state import graph_of_state, part_of
from dynstore.input.times import is_dated, read_time
from dynstore.interrupts import MemoryChecked
from dynstore.locks import Lock
from dynstore.lookup import provided
from dynstore.scratch import ScratchCache
from dynstore.stores import get_store
from dynstore.stores.base import Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.batches.sorted import EdgeBatch
    from dynstore.input.times import TimeUnit
    from dynstore.snapshot import Lease
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array, OnDuplicate

__all__ = [
    "REFUSED",
    "FixedStore",
    "GraphView",
    "ShownStore",
    "ViewCore",
    "copy_store",
    "empty_store",
    "read_bounds",
    "window_of",
]


# What a DynamicGraph can do and a view cannot.
REFUSED = (
    "apply",
    "clear",
    "delete_edges",
    "delete_vertices",
    "expire",
    "insert_edges",
    "insert_vertices",
    "pin",
    "reorder",
    "track",
    "update",
)
FLAT = "merge"


class ShownStore(Store):
    """Edges that are another store's, or were: they can only be read."""

    name = "view"

    def __init__(self, store: Store) -> None:
        self.backend, self.options = store.backend, store.options
        self.vertex_dtype, self.weight_dtype = store.vertex_dtype, store.weight_dtype
        self.capacity, self.memory = store.capacity, store.memory
        self.lock = Lock()

    @property
    def slots(self) -> SlotArrays:
        return self._read_slots()

    @slots.setter
    def slots(self, slots: SlotArrays) -> NoReturn:
        raise NotImplementedError

    @abstractmethod
    def _read_slots(self) -> SlotArrays: ...

    def _no_edges(self, num_vertices: int) -> NoReturn:
        raise NotImplementedError

    def plan_insert(self, batch: Any, num_vertices: int, on_duplicate: OnDuplicate) -> NoReturn:
        raise NotImplementedError

    def plan_delete(self, batch: Any) -> NoReturn:
        raise NotImplementedError


class FixedStore(ShownStore):
    """Slots that share most arrays with those of a graph; they can be read as long as the graph's version is.

    Parameters
    ----------
    store : Store
        The store of the other arrays.
    slots : SlotArrays
        They have validity bits of their own.
    lease : Lease
    """

    def __init__(self, store: Store, slots: SlotArrays, lease: Lease) -> None:
        super().__init__(store)
        self._slots, self._lease = slots, lease

    def _read_slots(self) -> SlotArrays:
        self._lease.check("window")
        return self._slots

    def memory_usage(self) -> dict[str, int]:
        return {"valid": int(self._slots.valid.nbytes)}


def empty_store(store: Store, num_edges: int) -> Store:
    """Return a store without gaps for edges of another one, with room for ``num_edges`` once it gets some."""
    flat: Store = get_store(FLAT)(store.backend, store.vertex_dtype, store.weight_dtype, 0, {}, store.memory)
    flat.capacity = num_edges
    return flat


def copy_store(store: Store, batch: EdgeBatch, num_vertices: int) -> Store:
    """Return a store without gaps of exactly these edges, for edges of another one."""
    flat = empty_store(store, len(batch))
    flat.plan_insert(batch, num_vertices, "replace").commit()
    return flat


class ViewCore(GraphCore):
    """The core of a view: that of a graph, with other edges and a version of its own.

    Parameters
    ----------
    core : GraphCore
        Of the graph, or of another view of it.
    out : Store
        The edges by source.
    lease : Lease
        The version that the view shows.
    num_edges : int
    make_in : callable
        It returns the edges by destination, or None if they are made from ``out``.
    """

    def __init__(
        self,
        core: GraphCore,
        out: Store,
        lease: Lease,
        num_edges: int,
        make_in: Callable[[], Store | None] = lambda: None,
    ) -> None:
        self.__dict__.update(core.__dict__)
        self.begin_alone(lease.version)
        self.out, self.into, self.lease, self.num_edges = out, None, lease, num_edges
        self._make_in = make_in

    def _make_in_store(self) -> Store:
        store = self._make_in()
        return super()._make_in_store() if store is None else store

    def store_of(self, batch: EdgeBatch) -> Store:
        return copy_store(self.out, batch, self.num_vertices)


def window_of(graph: LocalGraph, start: Any, end: Any) -> GraphView:
    """Return a view of the edges of some time; see :meth:`dynstore.DynamicGraph.window`."""
    core = graph.core
    if core.shows_events:
        shown_events: GraphView = provided("events").window_of_events(graph, start, end)
        return shown_events
    start, end = read_bounds("window", core.records if TIME in core.edge_dtypes else None, start, end)
    lease = core.lease

    def shown(store: Store) -> FixedStore:
        return FixedStore(store, _between(core, store.slots, start, end), lease)

    with MemoryChecked("window"):
        out = shown(core.out)
        slots = out.slots
        num_edges = slots.num_edges
        if not core.directed:
            num_edges = int(core.backend.xp.count_nonzero(_held(core, slots) & (slots.src <= slots.dst)))
    view = ViewCore(core, out, lease, num_edges, lambda: None if core.into is None else shown(core.into))
    return GraphView(view, getattr(graph, "_graph_type", type(graph)))


def read_bounds(caller: str, unit: TimeUnit | None, start: Any, end: Any) -> tuple[float | None, float | None]:
    """Return the bounds of a window as numbers; None is no bound. ``unit``: of the graph's times; None: it has none.

    Raises
    ------
    InputError
        For what are no bounds.
    """
    given, bounds = {"start": start, "end": end}, {}
    for name, value in given.items():
        bounds[name] = _read_bound(caller, name, value)
    if unit is None:
        raise InputError(f"{caller}: the graph keeps no times; make it with timestamps='int64'")
    for name, bound in bounds.items():
        if bound is not None:
            unit.check_time(caller, name, bound, is_dated(given[name]))
    first, last = bounds["start"], bounds["end"]
    if first is not None and last is not None and last < first:
        raise InputError(f"{caller}: start is {first}, end is {last}; wanted an end from {first} on")
    return first, last


def _held(core: GraphCore, slots: SlotArrays) -> Array:
    return unpack_bits(core.backend, slots.valid, slots.num_slots)


def _between(core: GraphCore, slots: SlotArrays, start: float | None, end: float | None) -> SlotArrays:
    """Return slots that hold only the edges of some time."""
    assert core.records is not None
    times, chosen = core.records.column(TIME, slots.weights), _held(core, slots)
    if start is not None:
        chosen &= _not_below(times, start)
    if end is not None:
        chosen &= ~_not_below(times, end)
    valid, num_edges = pack_bits(core.backend, chosen), int(core.backend.xp.count_nonzero(chosen))
    return replace(slots, valid=valid, num_edges=num_edges, scratch=ScratchCache())


def _not_below(times: Array, bound: float) -> Array:
    """Return where times are at least ``bound``; times may be of a dtype that does not reach that far."""
    if times.dtype.kind == "f":
        return times >= bound
    limits = np.iinfo(times.dtype)
    if bound > limits.max:
        return times > limits.max
    return times >= (ceil(bound) if bound > limits.min else int(limits.min))


def _read_bound(caller: str, name: str, bound: Any) -> float | None:
    """Return a time as a number, None for None; date-times become nanoseconds."""
    if isinstance(bound, float | np.floating):
        return check_number(caller, name, bound)
    return None if bound is None else read_time(caller, name, bound)


class GraphView(LocalGraph):
    """A read-only graph: :meth:`DynamicGraph.window` and :meth:`DynamicGraph.pin` return one.

    It has the queries and conversions of :class:`DynamicGraph`, and all algorithms take it. Updates of it raise
    :class:`~dynstore.errors.InputTypeError`.

    Examples
    --------
    >>> import dynstore
    >>> G = dynstore.DynamicGraph(timestamps="int64", device="cpu")
    >>> _ = G.insert_edges(([0, 1, 2], [1, 2, 3], [10, 20, 30]))
    >>> view = G.window(15, 30)
    >>> view.number_of_edges(), view.has_edges([(1, 2), (2, 3)]).tolist()
    (1, [True, False])
    >>> dynstore.bfs(view, 1)
       vertex    distance  predecessor
    0       0  2147483647           -1
    1       1           0           -1
    2       2           1            1
    3       3  2147483647           -1
    """

    def __init__(self, core: GraphCore, graph_type: Any) -> None:
        super().__init__(core)
        self._graph_type = graph_type  # of the graphs that are made of the view

    def __repr__(self) -> str:
        try:
            return super().__repr__()
        except StaleSnapshotError:
            return f"{type(self).__name__}(not readable any more, version={self.version})"

    def __reduce__(self) -> NoReturn:
        raise InputTypeError(f"{type(self).__name__}: a view cannot be pickled or copied; use its copy()")

    def number_of_edges(self) -> int:
        self.number_of_vertices()  # raises where the view cannot be read any more
        return super().number_of_edges()

    def window(self, start: Any = None, end: Any = None) -> GraphView:
        """Return a view of the edges with ``start <= time < end``; see :meth:`DynamicGraph.window`.

        Parameters
        ----------
        start, end : int, float or date-time, optional
            In the unit of the edges' times. None means no bound.

        Returns
        -------
        GraphView
            All vertices are in it.
        """
        return window_of(self, start, end)

    def copy(self) -> Any:
        """Return a new, independent graph of the view's edges, with all its vertices.

        Returns
        -------
        DynamicGraph
            Of the view's version.
        """
        return graph_of_state(self._graph_type, self.core.state(), self.device)

    def subgraph(self, vertices: Any) -> Any:
        """Return a new, independent graph of the edges among some vertices; see :meth:`DynamicGraph.subgraph`.

        Parameters
        ----------
        vertices : int or str, or a list, set, array or series of them
            In any order; repeated ones count once.

        Returns
        -------
        DynamicGraph
            At version 0.
        """
        return graph_of_state(self._graph_type, part_of(self.core, vertices), self.device)

    def memory_usage(self) -> dict[str, int]:
        """Return the bytes that the view takes in addition to its graph, by part and in "total".

        Returns
        -------
        dict of int
            Parts of in-edges begin with ``in_``.
        """
        core = self.core
        parts = core.out.memory_usage()
        if core.into is not None:
            parts |= {f"in_{part}": size for part, size in core.into.memory_usage().items()}
        return parts | {"total": sum(parts.values())}


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(self: GraphView, *arguments: Any, **more: Any) -> NoReturn:
        kind = type(self).__name__
        raise InputTypeError(
            f"{name}: got a {kind}, which is read-only; wanted a DynamicGraph: the graph itself, or the view's copy()"
        )

    refuse.__name__, refuse.__qualname__ = name, f"GraphView.{name}"
    refuse.__doc__ = f"Refuse: ``{name}`` is for graphs, and a view is read-only."
    return refuse


for _name in REFUSED:
    setattr(GraphView, _name, _refusal(_name))
