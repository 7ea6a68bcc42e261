"""The state of a graph as columns and options: what copies, subgraphs, pickles and saved graphs are made of."""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from weakref import WeakValueDictionary

import numpy as np

from dynstore.batches.make import make_batch
from dynstore.batches.sorted import EdgeBatch
from dynstore.errors import InputError
from dynstore.graph.display import Display
from dynstore.graph.operations import Operations
from dynstore.graph.records import TIME
from dynstore.graph.updates import Growth, Insertion
from dynstore.interrupts import MemoryChecked
from dynstore.snapshot import Lease

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.graph.versions.undo import Pinned
    from dynstore.typing import Array, Memory

__all__ = ["EXTRA", "GraphState", "Reading", "States"]

EXTRA = "edge."
EDGE_COLUMNS = ("source", "destination", "weight")


class GraphState(NamedTuple):
    """All that makes a graph equal to another, on any device and in any process.

    Attributes
    ----------
    options : dict
        The arguments of :class:`dynstore.DynamicGraph` without the device; numbers, strings, bools and None.
    num_vertices : int
        V.
    version : int
    columns : dict
        ``source``, ``destination``: row numbers, shape (E,), vertex dtype, sorted; undirected edges in both
        directions, so that they need not be sorted again. ``weight``, shape (E,), weight dtype, if the graph is
        weighted. Extra columns, shape (E,), with :data:`EXTRA` before their names. The columns of
        :meth:`dynstore.ids.base.VertexIds.columns`.
    """

    options: dict[str, Any]
    num_vertices: int
    version: int
    columns: dict[str, Array]

    def moved(self, move: Callable[[Array], Array]) -> GraphState:
        """Return the same with ``move`` applied to all arrays of numbers; strings are on the host everywhere."""
        columns = {name: array if array.dtype == object else move(array) for name, array in self.columns.items()}
        return self._replace(columns=columns)


class Reading(Display):
    """The part of graphs and their views that reads all of them as columns and options."""

    def _state(self, among: Array | None = None) -> GraphState:
        """Return the graph's state in new arrays of its backend.

        ``among``, bool, shape (V,): that of the subgraph of these rows; see :meth:`subgraph`.
        """
        num_vertices, xp = self.number_of_vertices(), self.backend.xp
        src, dst, stored = self._numbered_edges(once=False, among=among)
        kept = None
        if among is not None and self.ids.renumbered:
            kept = xp.nonzero(among)[0]
            ranks = xp.cumsum(among, dtype=self.vertex_dtype) - 1
            src, dst, num_vertices = ranks[src], ranks[dst], int(kept.shape[0])
        columns = {"source": src, "destination": dst}
        columns |= {EXTRA * (name != "weight") + name: array for name, array in self._values_of(stored).items()}
        columns |= self.ids.columns(self.number_of_vertices(), kept)
        return GraphState(self._options(), num_vertices, self.version, columns)

    def _options(self) -> dict[str, Any]:
        """Return the arguments that make an empty graph like this one, without the device."""
        dtypes = {name: str(dtype) for name, dtype in self.edge_dtypes.items()}
        return {
            "directed": self._directed,
            "weighted": self._weighted,
            "store": self.store_name,
            "vertex_dtype": str(self.vertex_dtype),
            "weight_dtype": str(self.weight_dtype),
            "capacity": self._out.capacity // (1 if self._directed else 2),
            "max_vertices": self.ids.max_vertices,
            "renumber": self.ids.renumbered,
            "reuse_ids": self.ids.reuse_ids,
            "frames": self.frames,
            **({"timestamps": dtypes.pop(TIME)} if self.timestamps is not None else {}),
            **({"edge_columns": dtypes} if dtypes else {}),
            **({} if self._memory == "device" else {"memory": self._memory}),
            **({"spill": True} if self._spills else {}),
            **self._store_options,
        }

    def _part(self, vertices: Any) -> GraphState:
        """Return the state of a subgraph; see :meth:`States.subgraph`."""
        with MemoryChecked("subgraph"):
            num_vertices = self.number_of_vertices()
            among = self.backend.zeros(num_vertices, np.bool_)
            among[self.ids.numbers_of("subgraph", vertices, num_vertices)] = True
            return self._state(among)._replace(version=0)


class States(Reading, Operations):
    """The part of :class:`dynstore.DynamicGraph` that makes a graph of another one's state."""

    _pinned: WeakValueDictionary[int, Pinned]  # by version

    def copy(self) -> Self:
        """Return an independent deep copy.

        Returns
        -------
        DynamicGraph
            It has no window, no tracked answers and no pins.
        """
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        with MemoryChecked("copy"):
            twin._out = self._out.copy()
            twin._in = None if self._in is None else self._in.copy()
            twin._records = None if self._records is None else self._records.copy()
            twin.ids = self.ids.copy()
        twin._lease = Lease(self.version)
        twin._begin_alone()
        return twin

    def _begin_alone(self) -> None:
        """Begin without snapshots, tracked answers, pins, and a window."""
        self._views, self._logs, self._window = {}, set(), None
        self._undo, self._pinned, self._lock = None, WeakValueDictionary(), RLock()

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        twin = memo[id(self)] = self.copy()
        return twin

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Pickle the graph as its state on the host and the name of its device."""
        return _restore, (type(self), self._state().moved(self.backend.to_host), self.device)

    def subgraph(self, vertices: Any) -> Self:
        """Return a new, independent graph of the edges among some vertices, with the same options, ids and weights.

        Without ``renumber=True`` V stays the same, so results of both graphs have the same rows: all other vertices are
        isolated. With ``renumber=True`` the graph has only the vertices that are given.

        Parameters
        ----------
        vertices : int or str, or a list, set, array or series of them
            In any order; repeated ones count once.

        Returns
        -------
        DynamicGraph
            At version 0. It takes the memory of its edges, and for a moment that of a bit mask of all edges.

        Raises
        ------
        InputError
            If a vertex is not in the graph.

        Examples
        --------
        >>> import dynstore
        >>> G = dynstore.DynamicGraph(renumber=True, device="cpu")
        >>> _ = G.insert_edges((["ann", "bob", "bob"], ["bob", "cat", "dan"]))
        >>> G.subgraph(["ann", "bob", "dan"])
        DynamicGraph(directed, 3 vertices, 2 edges, store='gpma+', device='cpu', version=0)
        """
        return self._of_state(self._part(vertices), self.device)

    def redirected(self, directed: bool) -> Self:
        """Return a new, independent graph of the same vertices and options that is directed, or undirected.

        An undirected edge becomes one in each direction. Two directions become one edge, with what the lighter one
        holds; without weights, or if both weigh the same, it is the one from the row with the higher number. Ids stay
        on their device.

        Parameters
        ----------
        directed : bool
        """
        if directed == self._directed:
            return self.copy()
        make: Any = type(self)
        twin: Self = make(device=self.device, **{**self._options(), "directed": directed, "capacity": None})
        with MemoryChecked("redirected"):
            twin.ids = self.ids.copy()
            twin._records = None if self._records is None else self._records.copy()
            src, dst, stored = self._numbered_edges(once=False)
            weights = self._weights_of(stored)
            if weights is not None and stored is not None and not directed:
                order = self.backend.xp.argsort(-weights, kind="stable")  # the last row of a batch counts
                src, dst, stored = src[order], dst[order], stored[order]
            batch = make_batch(self.backend, src, dst, stored, directed)
            num_vertices = self.number_of_vertices()
            plans = twin._plan(Insertion(num_vertices, "replace") if len(src) else Growth(num_vertices), batch)
            twin._num_edges = batch.num_edges(directed)
            twin._commit(plans, None)
        return twin

    @classmethod
    def _of_state(cls, state: GraphState, device: str) -> Self:
        """Make a graph of a state; arrays on the host are brought to the device."""
        make: Any = cls
        graph: Self = make(device=device, **state.options)
        with MemoryChecked("DynamicGraph"):
            columns = graph._brought(state)
            src, dst, weights = columns["source"], columns["destination"], columns.get("weight")
            num_loops = 0 if graph._directed else int(graph.backend.xp.count_nonzero(src == dst))
            if graph._records is not None:
                weights = graph._recorded(columns)
                graph._records.guess_dated()
            batch = EdgeBatch(src, dst, weights, num_loops)
            operation = Insertion(state.num_vertices, "replace") if len(src) else Growth(state.num_vertices)
            graph._commit(graph._plan(operation, batch), graph.ids.plan_columns(columns))
        graph._num_edges = batch.num_edges(graph._directed)
        graph._lease = Lease(state.version)
        return graph

    def _brought(self, state: GraphState) -> dict[str, Array]:
        """Return the columns of a state that this graph, without edges, will have: in the memory of its edges."""
        num_entries = int(state.columns["source"].shape[0])
        self._settle(num_entries, state.num_vertices)
        columns = {}
        for name, array in state.columns.items():
            place: Memory = self._out.memory if name in EDGE_COLUMNS else "device"
            columns[name] = array if array.dtype == object else self.backend.bring(place, array)
        return columns

    def _remade(self, given: dict[str, Any], default_weight: float | None) -> Self:
        """Return an equal graph made with other options."""
        own = {**self._options(), "device": self.device}
        if {**own, **given} == own:
            return self.copy()
        make: Any = type(self)
        graph: Any = make(**{**own, **given})
        columns = self.edge_columns()
        kept = [
            "source",
            "destination",
            *(["weight"] if graph._weighted and self._weighted else []),
            *graph.edge_dtypes,
        ]
        missing = [name for name in kept if name not in columns]
        if missing:
            has = ", ".join(self.edge_dtypes) or "none"
            raise InputError(
                f"from_edges: wanted the edge columns {', '.join(missing)}; the given graph has {has}. "
                "Leave them out, or insert the edges with these columns into a new graph"
            )
        columns = {name: columns[name] for name in kept}
        host = graph.backend.name != self.backend.name
        arrays = [self._on_host(array) if host else array for array in columns.values()]
        graph.insert_edges(tuple(arrays), default_weight=default_weight)
        ids = self.vertex_ids()
        graph.insert_vertices(self._on_host(ids) if host else ids)
        remade: Self = graph
        return remade

    def _on_host(self, array: Any) -> np.ndarray:
        return array if isinstance(array, np.ndarray) else self.backend.to_host(array)

    def _recorded(self, columns: dict[str, Array]) -> Array:
        """Return the records' numbers of a state's edges; both directions of an undirected edge have the same."""
        assert self._records is not None
        src, dst, xp = columns["source"], columns["destination"], self.backend.xp
        once = slice(None) if self._directed else xp.nonzero(src <= dst)[0]
        values = {name: columns[EXTRA * (name != "weight") + name][once] for name in self._records.columns}
        numbers = self._records.append(values, [self._out])
        if self._directed:
            return numbers
        stored = self.backend.empty(len(src), numbers.dtype)
        stored[once] = numbers
        turned = xp.nonzero(src > dst)[0]
        by_row = xp.lexsort(xp.stack((src[turned], dst[turned])))
        stored[turned[by_row]] = stored[xp.nonzero(src < dst)[0]]
        return stored


def _restore(kind: type[States], state: GraphState, device: str) -> States:
    return kind._of_state(state, device)
