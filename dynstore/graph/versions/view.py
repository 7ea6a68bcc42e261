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
from dynstore.graph.conversions import Tables
from dynstore.graph.records import TIME
from dynstore.graph.saving import Savable
from dynstore.input.times import is_dated, read_time
from dynstore.interrupts import MemoryChecked
from dynstore.locks import Lock
from dynstore.scratch import ScratchCache
from dynstore.stores import get_store
from dynstore.stores.base import Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.batches.sorted import EdgeBatch
    from dynstore.graph.state import Reading
    from dynstore.snapshot import Lease
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array, OnDuplicate

__all__ = ["REFUSED", "FixedStore", "GraphView", "ShownStore", "Timed", "copy_store", "empty_store"]


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


class Timed(Savable):
    """The part of graphs and their views that shows the edges of some time."""

    def window(self, start: Any = None, end: Any = None) -> GraphView:
        """Return a view of the edges with ``start <= time < end``.

        The graph has to keep times (``timestamps``). The view shares the graph's memory, and adds one bit for each
        slot. Like a snapshot, it can be read until the graph's next update.

        Parameters
        ----------
        start, end : int, float or date-time, optional
            In the unit of the edges' times. None means no bound. Date-times count as nanoseconds since 1970, in UTC.

        Returns
        -------
        GraphView
            All vertices are in it.

        Raises
        ------
        InputError
            If edges have no time, or ``end`` is below ``start``.
        OutOfMemoryError
            If there is no memory for a pass over all times.

        Examples
        --------
        >>> import dynstore
        >>> G = dynstore.DynamicGraph(timestamps="int64", device="cpu")
        >>> _ = G.insert_edges(([0, 1, 2], [1, 2, 3], [10, 20, 30]))
        >>> G.window(10, 30).edge_table()
           source  destination  time
        0       0            1    10
        1       1            2    20
        """
        given = {"start": start, "end": end}
        start, end = _read_bound("start", start), _read_bound("end", end)
        if TIME not in self.edge_dtypes:
            raise InputError("window: the graph keeps no times; make it with timestamps='int64'")
        assert self._records is not None
        for name, bound in (("start", start), ("end", end)):
            if bound is not None:
                self._records.check_time("window", name, bound, is_dated(given[name]))
        if start is not None and end is not None and end < start:
            raise InputError(f"window: start is {start}, end is {end}; wanted an end from {start} on")
        lease, xp = self._lease, self.backend.xp

        def shown(store: Store) -> FixedStore:
            return FixedStore(store, self._between(store.slots, start, end), lease)

        with MemoryChecked("window"):
            out = shown(self._out)
            slots = out.slots
            num_edges = slots.num_edges
            if not self._directed:
                num_edges = int(xp.count_nonzero(self._held(slots) & (slots.src <= slots.dst)))
        return GraphView(self, out, lease, num_edges, lambda: None if self._in is None else shown(self._in))

    def _held(self, slots: SlotArrays) -> Array:
        return unpack_bits(self.backend, slots.valid, slots.num_slots)

    def _between(self, slots: SlotArrays, start: float | None, end: float | None) -> SlotArrays:
        """Return slots that hold only the edges of some time."""
        assert self._records is not None
        times, chosen = self._records.column(TIME, slots.weights), self._held(slots)
        if start is not None:
            chosen &= _not_below(times, start)
        if end is not None:
            chosen &= ~_not_below(times, end)
        valid, num_edges = pack_bits(self.backend, chosen), int(self.backend.xp.count_nonzero(chosen))
        return replace(slots, valid=valid, num_edges=num_edges, scratch=ScratchCache())


def _not_below(times: Array, bound: float) -> Array:
    """Return where times are at least ``bound``; times may be of a dtype that does not reach that far."""
    if times.dtype.kind == "f":
        return times >= bound
    limits = np.iinfo(times.dtype)
    if bound > limits.max:
        return times > limits.max
    return times >= (ceil(bound) if bound > limits.min else int(limits.min))


def _read_bound(name: str, bound: Any) -> float | None:
    """Return a time as a number, None for None; date-times become nanoseconds."""
    if isinstance(bound, float | np.floating):
        return check_number("window", name, bound)
    return None if bound is None else read_time("window", name, bound)


class GraphView(Tables, Timed):
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

    def __init__(
        self,
        graph: Reading,
        out: Store,
        lease: Lease,
        num_edges: int,
        make_in: Callable[[], Store | None] = lambda: None,
    ) -> None:
        self._graph_type: Any = getattr(graph, "_graph_type", type(graph))
        self.backend, self.ids, self.frames = graph.backend, graph.ids, graph.frames
        self.vertex_dtype, self.weight_dtype, self.store_name = graph.vertex_dtype, graph.weight_dtype, graph.store_name
        self._directed, self._weighted, self._records = graph._directed, graph._weighted, graph._records
        self._store_options, self._memory, self._spills = graph._store_options, graph._memory, graph._spills
        self._out, self._in, self._make_in = out, None, make_in
        self._lease, self._num_edges, self._views = lease, num_edges, {}

    def __repr__(self) -> str:
        try:
            return super().__repr__()
        except StaleSnapshotError:
            return f"{type(self).__name__}(not readable any more, version={self.version})"

    def __reduce__(self) -> NoReturn:
        raise InputTypeError(f"{type(self).__name__}: a view cannot be pickled or copied; use its copy()")

    def number_of_edges(self) -> int:
        """Return the number of edges; an edge of an undirected view counts once."""
        self.number_of_vertices()  # raises where the view cannot be read any more
        return super().number_of_edges()

    def copy(self) -> Any:
        """Return a new, independent graph of the view's edges, with all its vertices.

        Returns
        -------
        DynamicGraph
            Of the view's version.
        """
        return self._graph_type._of_state(self._state(), self.device)

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
        return self._graph_type._of_state(self._part(vertices), self.device)

    def memory_usage(self) -> dict[str, int]:
        """Return the bytes that the view takes in addition to its graph, by part and in "total".

        Returns
        -------
        dict of int
            Parts of in-edges begin with ``in_``.
        """
        parts = self._out.memory_usage()
        if self._in is not None:
            parts |= {f"in_{part}": size for part, size in self._in.memory_usage().items()}
        return parts | {"total": sum(parts.values())}

    def _make_in_store(self) -> Store:
        store = self._make_in()
        return super()._make_in_store() if store is None else store

    def _store_of(self, batch: EdgeBatch) -> Store:
        return copy_store(self._out, batch, self.number_of_vertices())


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
