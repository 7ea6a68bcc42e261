"""The dynamic graph: how it is made, copied, pinned and tracked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from dynstore.arguments import check_count, check_dtype, check_flag
from dynstore.backend import Backend, get_backend
from dynstore.errors import InputError
from dynstore.graph.core import GraphCore
from dynstore.graph.events.core import EventCore, Events
from dynstore.graph.events.layout import ID
from dynstore.graph.memory import check_memory, choose_memory
from dynstore.graph.options import (
    check_edge_columns,
    check_multigraph,
    check_timestamps,
    extra_names,
    options_of,
    refuse_unknown,
)
from dynstore.graph.records import WEIGHT, EdgeRecords
from dynstore.graph.saving import folder_of
from dynstore.graph.state import graph_of_state, load_graph, part_of, remade
from dynstore.graph.updates import MutableGraph
from dynstore.graph.versions.pinned import PinnedGraph, pin_version
from dynstore.graph.versions.view import GraphView, window_of
from dynstore.ids.base import DenseIds, VertexIds
from dynstore.ids.mapped import MappedIds
from dynstore.input.forms import brings_weights, column_names, find_weight, open_edges
from dynstore.input.frames import check_frames
from dynstore.input.origin import read_origin
from dynstore.interrupts import MemoryChecked
from dynstore.lookup import provided
from dynstore.stores import choose_store
from dynstore.stores.base import Store
from dynstore.typing import Device, Frames, OnDuplicate

if TYPE_CHECKING:
    import os

__all__ = ["DynamicGraph"]

CALLER = "DynamicGraph"
VERTEX_DTYPES = ("int32", "int64")
WEIGHT_DTYPES = ("float32", "float64")


class DynamicGraph(MutableGraph):
    """A graph that takes batches of edge insertions and deletions in place.

    Vertices are the integers 0 to V - 1, or with ``renumber=True`` any integers or strings. V grows with the ids seen.
    Isolated vertices are kept. An edge is stored once. An update that raises changes nothing.

    Several threads may read a graph at once. During an update no other thread may use it. Once an update has read its
    edges, Ctrl-C and other signals take effect only at its end.

    Parameters
    ----------
    directed : bool
        If False, an edge connects both ways, and is reported once.
    weighted : bool
        If True, edges have weights.
    store : str or type
        The data structure. "gpma+" is a packed memory array. "merge" and "rebuild" are baselines to compare with;
        :data:`dynstore.stores.STORES` lists all. "auto" chooses: see ``docs/choosing-a-store.md``.
        A subclass of :class:`dynstore.stores.base.Store`, or the name of an entry point ``dynstore.stores`` of another
        package, is one of your own: see ``docs/internals/new-store.md``.
    device : {"auto", "cpu", "cuda"}
        "auto" takes CUDA if it works, else the host.
    vertex_dtype : {"int32", "int64"}
        With int32, ids go up to 2**31 - 2, and there are fewer than 2**31 slots. With ``renumber=True`` it is the dtype
        of row numbers.
    weight_dtype : {"float32", "float64", "int64"}, optional
        The dtype of weights, by default float32. For counts and sums take float64: float32 has whole numbers up to
        2**24 only. In a multigraph the default is float64; there is int64, too, in which sums are exact.
    capacity : int, optional
        Edges to reserve memory for.
    max_vertices : int, optional
        Ids from this number on are refused, because an id makes a row for every id below it. The default is 8 times the
        current number of vertices, and at least 2**24. With ``renumber=True`` it limits the number of vertices; by
        default there is no limit then.
    renumber : bool
        If True, ids are any int64 numbers from 0 on, or strings, and results have these ids. See
        ``docs/vertex-ids.md``.
    reuse_ids : bool
        With ``renumber=True``: if True, a new id takes the row of a deleted vertex, which then disappears.
    frames : {"auto", "pandas", "polars", "cudf", "pyarrow"}
        The library of the frames that the graph, and the algorithms on it, return. "auto": cuDF on CUDA if it is
        installed, else pandas.
    edge_columns : dict, optional
        More columns of edges, as name -> dtype of integers or floats, such as ``{"id": "int64"}``. For
        ``store="gpma+"``. See ``docs/guides/edge-columns.md``.
    timestamps : {"int64", "int32"}, optional
        Keep the last time of each edge in a column ``time`` of this dtype. For ``store="gpma+"``. See
        ``docs/guides/time.md``.
    memory : {"device", "host", "auto"}
        Where the edges lie. "device": where the device's kernels work fastest. "host": on CUDA in pinned host memory,
        which kernels use in place, so that a graph may be larger than the GPU's memory. "auto" takes "device" if the
        first batch and the capacity fit there. "host" and "auto" are for ``store="gpma+"`` and ``"merge"``; on CUDA
        ``"paged"`` uses host memory in any case. See ``docs/guides/larger-than-memory.md``.
    spill : bool
        If True, an insertion that does not fit into the GPU's memory moves the edges to host memory, and is logged
        once, instead of raising an error.
    multigraph : bool
        If True, each row is an edge of its own, with an id; so a pair of vertices may have several. See
        ``docs/guides/events.md``.
    first_edge_id : int
        In a multigraph, the id of the first row that comes without one; the next ones are counted up.
    event_memory : int, optional
        In a multigraph, the most bytes of the columns of edges; an insertion that needs more is refused. By default all
        memory.
    **store_options
        Options of the store; see its page in ``docs/stores``.

    Raises
    ------
    InputError
        For a name or a value that cannot be used.
    MissingDependencyError
        If the library of ``frames`` is not installed.

    Examples
    --------
    >>> import dynstore
    >>> G = dynstore.DynamicGraph(directed=False, device="cpu")
    >>> G.insert_edges([(0, 1), (0, 2), (1, 2)]).inserted
    3
    >>> G.delete_edges([(0, 1), (5, 6)]).deleted
    1
    >>> G.number_of_vertices(), G.number_of_edges()
    (3, 2)
    """

    def __init__(
        self,
        directed: bool = True,
        weighted: bool = False,
        store: str | type[Store] = "gpma+",
        device: Device = "auto",
        vertex_dtype: Any = "int32",
        weight_dtype: Any = None,
        capacity: int | None = None,
        max_vertices: int | None = None,
        renumber: bool = False,
        reuse_ids: bool = False,
        frames: Frames = "auto",
        edge_columns: Mapping[str, Any] | None = None,
        timestamps: Any = None,
        memory: str = "device",
        spill: bool = False,
        multigraph: bool = False,
        first_edge_id: int = 0,
        event_memory: int | None = None,
        **store_options: Any,
    ) -> None:
        directed = check_flag(CALLER, "directed", directed)
        weighted = check_flag(CALLER, "weighted", weighted)
        vertex_dtype = check_dtype(CALLER, "vertex_dtype", vertex_dtype, VERTEX_DTYPES)
        multigraph = check_flag(CALLER, "multigraph", multigraph)
        kinds_of_weights = (*WEIGHT_DTYPES, "int64") if multigraph else WEIGHT_DTYPES
        default = "float64" if multigraph else "float32"
        weight_dtype = check_dtype(CALLER, "weight_dtype", weight_dtype or default, kinds_of_weights)
        frames = check_frames(CALLER, frames)
        most = check_count(CALLER, "max_vertices", max_vertices)
        if check_flag(CALLER, "reuse_ids", reuse_ids) and not renumber:
            raise InputError(
                f"{CALLER}: got reuse_ids=True and renumber=False; wanted renumber=True with reuse_ids=True"
            )
        entries = (check_count(CALLER, "capacity", capacity) or 0) * (1 if directed else 2)
        backend: Backend = get_backend(device)
        ids: VertexIds
        if check_flag(CALLER, "renumber", renumber):
            ids = MappedIds(backend, vertex_dtype, most, reuse_ids)
        else:
            ids = DenseIds(backend, vertex_dtype, most)
        stored_weights = weight_dtype if weighted else None
        has_columns = bool(edge_columns) or timestamps is not None
        beside_gpu = memory == "host" and backend.family == "cuda" and not has_columns
        make = choose_store(store, beside_gpu)
        times = check_timestamps(CALLER, timestamps, make.name, edge_columns)
        dtypes = {**check_edge_columns(CALLER, edge_columns, make.name), **times}
        records: EdgeRecords | None = None
        refuse_unknown(DynamicGraph, make, store_options)
        spills = check_memory(CALLER, memory, spill, make)
        limit = check_multigraph(CALLER, multigraph, event_memory, first_edge_id, vertex_dtype, make, dtypes)
        held = {WEIGHT: weight_dtype, **dtypes} if weighted else dtypes
        with MemoryChecked("DynamicGraph"):
            if multigraph:
                stored_weights = vertex_dtype
            elif dtypes:
                records = EdgeRecords(backend, held, vertex_dtype, capacity or 0, bool(times))
                stored_weights = vertex_dtype
            kinds = vertex_dtype, stored_weights
            place = choose_memory(backend, make, memory, entries, 0, kinds, directed)
            out: Store = make(backend, *kinds, entries, store_options, place)
            kind: Any = GraphCore
            if multigraph:
                events = Events.allocate(backend, held, capacity or 0, limit, first_edge_id, place)
                kind = partial(EventCore, events=events)
        core: GraphCore = kind(
            backend,
            ids,
            out,
            records,
            directed=directed,
            weighted=weighted,
            weight_dtype=weight_dtype,
            frames=frames,
            store_name=make.name,
            store_options=store_options,
            memory=memory,
            spills=spills,
        )
        super().__init__(core)

    @classmethod
    def from_edges(
        cls,
        edges: Any,
        source: str = "source",
        destination: str = "destination",
        weight: str | None = None,
        on_duplicate: OnDuplicate = "replace",
        default_weight: float | None = None,
        time: Any = None,
        edge_id: Any = None,
        **graph_options: Any,
    ) -> DynamicGraph:
        """Make a graph and insert the edges.

        Parameters
        ----------
        edges : DynamicGraph, frame, tuple or list
            Another graph, or edges as :meth:`insert_edges` takes them. From a graph, or from a table that a graph has
            made, the new graph also gets the options and the isolated vertices, so that it equals that graph. Tables of
            graphs with ``renumber=True`` have no isolated vertices, and polars frames have edges only.
        source, destination, weight, on_duplicate, default_weight, time, edge_id
            As for :meth:`insert_edges`. With ``time`` the graph keeps times (``timestamps="int64"``), with ``edge_id``
            it is a multigraph.
        **graph_options
            Parameters of :class:`DynamicGraph`. By default the graph is weighted if the edges have weights.

        Returns
        -------
        DynamicGraph
            The new graph.

        Raises
        ------
        InputError
            For bad input.

        Examples
        --------
        >>> import dynstore
        >>> G = dynstore.DynamicGraph.from_edges([("ann", "bob"), ("bob", "cid")], renumber=True, device="cpu")
        >>> G.has_edges([("ann", "bob"), ("ann", "cid")]).tolist()
        [True, False]
        """
        if isinstance(edges, DynamicGraph):
            other: DynamicGraph = remade(edges, graph_options, default_weight)
            return other
        origin = read_origin(edges)
        options = {**options_of(origin.options, column_names(edges)), **graph_options}
        if time is not None:
            options.setdefault("timestamps", "int64")
        if edge_id is not None:
            options.setdefault("multigraph", True)
        elif options.get("multigraph") and ID in column_names(edges):
            edge_id = ID
        extra = extra_names(options, time)
        edges = open_edges("from_edges", edges, extra)
        weight_found = find_weight(edges, (source, destination, weight))
        options.setdefault("weighted", default_weight is not None or brings_weights(edges, weight_found, len(extra)))
        graph = cls(**options)
        graph.insert_edges(edges, source, destination, weight, on_duplicate, default_weight, time, edge_id)
        if origin.num_vertices and not graph.is_renumbered():
            graph.insert_vertices([origin.num_vertices - 1])
        return graph

    @classmethod
    def from_scipy(cls, matrix: Any, weighted: bool = True, **graph_options: Any) -> Self:
        """Make a graph from a square sparse matrix.

        It is :func:`dynstore.adapters.tables.scipy.from_scipy`.

        Parameters
        ----------
        matrix : sparse matrix or array of SciPy or CuPy, shape (V, V)
            Stored entries are edges, explicit zeros too; entries stored twice are summed in float64.
        weighted : bool
            If True, the entries are weights.
        **graph_options
            Parameters of :class:`DynamicGraph`. ``directed=False`` requires a symmetric matrix.

        Returns
        -------
        DynamicGraph
            A graph of V vertices.
        """
        graph: Self = provided("scipy").from_scipy(cls, matrix, weighted, **graph_options)
        return graph

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: Device = "auto", frames: Frames | None = None) -> Self:
        """Make the graph that was saved in a folder; also ``dynstore.load(path)``.

        Parameters
        ----------
        path : str or path
            A folder that :meth:`save` has written. "~" is the home folder.
        device : {"auto", "cpu", "cuda"}
            The device of the graph. It may be another one than that of the saved graph.
        frames : {"auto", "pandas", "polars", "cudf", "pyarrow"}, optional
            Another library for frames; by default the one that the graph was saved with.

        Returns
        -------
        DynamicGraph
            Equal to the one that was saved: options, version, vertices and their ids in the same order, edges, weights,
            extra columns.

        Raises
        ------
        SavedGraphError
            If the folder is not there, is no saved graph, is damaged, or was written by a newer dynstore.
        MissingDependencyError
            If the library for frames is not installed.
        """
        return load_graph(cls, folder_of("load", path), device, frames)

    # ------------------------------------------------------------------ graphs and views of it

    def copy(self) -> Self:
        """Return an independent deep copy.

        Returns
        -------
        DynamicGraph
            It has no window, no tracked answers and no pins.
        """
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)  # what subclasses have beside the core
        twin.core = self.core.copy()
        return twin

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        twin = memo[id(self)] = self.copy()
        return twin

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Pickle the graph as its state on the host and the name of its device."""
        return graph_of_state, (type(self), self.core.state().moved(self.core.backend.to_host), self.device)

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
        return graph_of_state(type(self), part_of(self.core, vertices), self.device)

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
        return window_of(self, start, end)

    def pin(self) -> PinnedGraph:
        """Keep the current version readable while the graph is updated.

        Updates note what they overwrite. The pin reads the graph, and corrects it by these notes. The first call that
        reads all edges, such as an algorithm, makes a copy of the version. See ``docs/guides/pins.md``.

        Returns
        -------
        PinnedGraph
            A read-only graph; also a context manager, which releases it. Pins of one version share their memory.

        Examples
        --------
        >>> import dynstore
        >>> G = dynstore.DynamicGraph.from_edges([(0, 1)], device="cpu")
        >>> pin = G.pin()
        >>> _ = G.insert_edges([(0, 2)])
        >>> pin.neighbors(0).tolist(), G.neighbors(0).tolist()
        ([1], [1, 2])
        >>> pin.release()
        """
        if self.core.shows_events:
            pin: PinnedGraph = provided("events").pin_events(self)
            return pin
        return pin_version(self)

    def track(self, name: str, **params: Any) -> Any:
        """Keep an answer up to date with the graph; see ``docs/tracking.md``.

        Parameters
        ----------
        name : str
            The name of a function that can be tracked, such as "pagerank". The error for another name lists all.
        **params
            Parameters of the function of this name.

        Returns
        -------
        dynstore.algorithms.Monitor
            Its ``result()`` is what the function returns for the current graph.

        Raises
        ------
        InputError
            If the name is unknown, or the function refuses the parameters or the graph.
        """
        return provided("tracking").track(self, name, **params)
