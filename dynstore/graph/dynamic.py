"""The dynamic graph, and the public methods that change it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dynstore.arguments import check_count, check_dtype, check_flag, check_name, check_number
from dynstore.backend import Backend, get_backend
from dynstore.batches.make import make_batch
from dynstore.batches.sorted import EdgeBatch, sort_unique
from dynstore.config import check_share
from dynstore.errors import InputError
from dynstore.graph.conversions import Conversions
from dynstore.graph.exchanges import ON_DUPLICATE
from dynstore.graph.options import check_edge_columns, check_timestamps, extra_names, options_of, refuse_unknown
from dynstore.graph.records import WEIGHT, EdgeRecords
from dynstore.graph.spilling import check_memory, choose_memory
from dynstore.graph.updates import Deletion, Growth, Plans, Request
from dynstore.graph.versions.methods import Views
from dynstore.ids.base import DenseIds, VertexIds
from dynstore.ids.mapped import MappedIds
from dynstore.input.forms import brings_weights, column_names, find_weight, open_edges
from dynstore.input.frames import check_frames
from dynstore.input.origin import read_origin
from dynstore.interrupts import MemoryChecked, Uninterrupted
from dynstore.snapshot import Lease
from dynstore.stores import choose_store, get_store, resolve_strategy
from dynstore.stores.base import Store
from dynstore.typing import Device, Frames, OnDuplicate, ReorderReport, UpdateReport

__all__ = ["DynamicGraph"]

CALLER = "DynamicGraph"
VERTEX_DTYPES = ("int32", "int64")
WEIGHT_DTYPES = ("float32", "float64")


class DynamicGraph(Conversions, Views):
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
    store : str
        The data structure. "gpma+" is a packed memory array. "merge" and "rebuild" are baselines to compare with;
        :data:`dynstore.stores.STORES` lists all. "auto" chooses: see ``docs/choosing-a-store.md``.
    device : {"auto", "cpu", "cuda"}
        "auto" takes CUDA if it works, else the host.
    vertex_dtype : {"int32", "int64"}
        With int32, ids go up to 2**31 - 2, and there are fewer than 2**31 slots. With ``renumber=True`` it is the dtype
        of row numbers.
    weight_dtype : {"float32", "float64"}
        The dtype of weights. For counts and sums take float64: float32 has whole numbers up to 2**24 only.
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
        store: str = "gpma+",
        device: Device = "auto",
        vertex_dtype: Any = "int32",
        weight_dtype: Any = "float32",
        capacity: int | None = None,
        max_vertices: int | None = None,
        renumber: bool = False,
        reuse_ids: bool = False,
        frames: Frames = "auto",
        edge_columns: Mapping[str, Any] | None = None,
        timestamps: Any = None,
        memory: str = "device",
        spill: bool = False,
        **store_options: Any,
    ) -> None:
        self._directed = check_flag(CALLER, "directed", directed)
        self._weighted = check_flag(CALLER, "weighted", weighted)
        self.vertex_dtype = check_dtype(CALLER, "vertex_dtype", vertex_dtype, VERTEX_DTYPES)
        self.weight_dtype = check_dtype(CALLER, "weight_dtype", weight_dtype, WEIGHT_DTYPES)
        self.frames = check_frames(CALLER, frames)
        most = check_count(CALLER, "max_vertices", max_vertices)
        if check_flag(CALLER, "reuse_ids", reuse_ids) and not renumber:
            raise InputError(
                f"{CALLER}: got reuse_ids=True and renumber=False; wanted renumber=True with reuse_ids=True"
            )
        entries = (check_count(CALLER, "capacity", capacity) or 0) * (1 if directed else 2)
        self.backend: Backend = get_backend(device)
        self.ids: VertexIds
        if check_flag(CALLER, "renumber", renumber):
            self.ids = MappedIds(self.backend, self.vertex_dtype, most, reuse_ids)
        else:
            self.ids = DenseIds(self.backend, self.vertex_dtype, most)
        stored_weights = self.weight_dtype if weighted else None
        has_columns = bool(edge_columns) or timestamps is not None
        beside_gpu = memory == "host" and self.backend.family == "cuda" and not has_columns
        chosen = choose_store(store, beside_gpu)
        self.store_name, store_options = resolve_strategy(chosen, store_options)
        times = check_timestamps(CALLER, timestamps, self.store_name, edge_columns)
        dtypes = {**check_edge_columns(CALLER, edge_columns, self.store_name), **times}
        self._records: EdgeRecords | None = None
        make = get_store(self.store_name)
        refuse_unknown(DynamicGraph, make, store_options)
        self._spills = check_memory(CALLER, memory, spill, make)
        self._memory = memory
        with MemoryChecked("DynamicGraph"):
            if dtypes:
                held = {WEIGHT: self.weight_dtype, **dtypes} if weighted else dtypes
                self._records = EdgeRecords(self.backend, held, self.vertex_dtype, capacity or 0, bool(times))
                stored_weights = self.vertex_dtype
            kinds = self.vertex_dtype, stored_weights
            place = choose_memory(self.backend, make, memory, entries, 0, kinds, directed)
            self._out: Store = make(self.backend, *kinds, entries, store_options, place)
        self._in: Store | None = None
        self._store_options = store_options
        self._num_edges = 0
        self._expects_new_ids = False
        self._ignored_weights = False
        self._lease = Lease(0)
        self._begin_alone()

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
        **graph_options: Any,
    ) -> DynamicGraph:
        """Make a graph and insert the edges.

        Parameters
        ----------
        edges : DynamicGraph, frame, tuple or list
            Another graph, or edges as :meth:`insert_edges` takes them. From a graph, or from a table that a graph has
            made, the new graph also gets the options and the isolated vertices, so that it equals that graph. Tables of
            graphs with ``renumber=True`` have no isolated vertices, and polars frames have edges only.
        source, destination, weight, on_duplicate, default_weight, time
            As for :meth:`insert_edges`. With ``time`` the graph keeps times (``timestamps="int64"``).
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
            return edges._remade(graph_options, default_weight)
        origin = read_origin(edges)
        options = {**options_of(origin.options, column_names(edges)), **graph_options}
        if time is not None:
            options.setdefault("timestamps", "int64")
        extra = extra_names(options, time)
        edges = open_edges("from_edges", edges, extra)
        weight_found = find_weight(edges, (source, destination, weight))
        options.setdefault("weighted", default_weight is not None or brings_weights(edges, weight_found, len(extra)))
        graph = cls(**options)
        graph.insert_edges(edges, source, destination, weight, on_duplicate, default_weight, time)
        if origin.num_vertices and not graph.is_renumbered():
            graph.insert_vertices([origin.num_vertices - 1])
        return graph

    # ------------------------------------------------------------------ updates

    def insert_edges(
        self,
        edges: Any,
        source: str = "source",
        destination: str = "destination",
        weight: str | None = None,
        on_duplicate: OnDuplicate = "replace",
        default_weight: float | None = None,
        time: Any = None,
    ) -> UpdateReport:
        """Insert a batch of edges.

        Parameters
        ----------
        edges : frame, tuple or list
            - a pandas, pyarrow, polars or cuDF frame, or any Arrow stream;
            - columns: a tuple ``(src, dst)`` or ``(src, dst, weights)`` of arrays or lists;
            - rows: a list of pairs ``(src, dst)`` or triples ``(src, dst, weight)``, each a tuple.

            In a graph with extra columns, a frame has columns of their names, and tuples and rows end with them; times
            come last.
        source, destination, weight : str
            The frame's columns. If no weight is named, a column called ``weight`` is used. An unweighted graph ignores
            that column.
        on_duplicate : {"replace", "add", "append"}
            What happens to an edge that is in the graph already, or twice in the batch. "replace": the last weight
            counts. "add": weights are summed, and rounded to ``weight_dtype``: a float32 of 2**24 stays when 1 is
            added, so take float64 for counts. "append": weights are summed, and the edge is there only if the sum is
            above 0; for weighted graphs in ``store="lpma"``. A deleted edge counts as absent. Extra columns are those
            of the last row. If the weights of an edge in the batch have no finite sum, the batch is refused. If the sum
            with the stored weight does not fit the dtype, the weight becomes infinite.
        default_weight : float, optional
            The weight of all edges of a batch without weights. By default a weighted graph refuses such a batch. An
            unweighted graph does not use it.
        time : str or array, shape (B,), optional
            In a graph with ``timestamps``: the frame's column of times, "time" by default, or the times themselves.
            Integers or date-times. An edge keeps the greatest time that it came with.

        Returns
        -------
        UpdateReport
            What the update did.

        Raises
        ------
        InputError
            For bad input, such as weights for an unweighted graph or none for a weighted one. The graph is unchanged.
        OutOfMemoryError
            If memory runs out. The graph is unchanged.
        """
        check_name("insert_edges", "on_duplicate", on_duplicate, ON_DUPLICATE)
        if on_duplicate == "append" and not (self._weighted and self._out.appends):
            kind = "weighted" if self._weighted else "unweighted"
            raise InputError(
                f"insert_edges: on_duplicate is 'append', the graph is {kind} in store {self.store_name!r}; "
                "wanted a weighted graph in store 'lpma'"
            )
        if default_weight is not None:
            default_weight = check_number("insert_edges", "default_weight", default_weight)
        weight_dtype = self.weight_dtype if self._weighted else None
        request = Request("insert_edges", edges, (source, destination, weight), weight_dtype)
        return self._insert(request, on_duplicate, default_weight, time)

    def delete_edges(self, edges: Any, source: str = "source", destination: str = "destination") -> UpdateReport:
        """Delete a batch of edges. Edges that are not in the graph are counted as absent; they are no error.

        Parameters
        ----------
        edges, source, destination
            As for :meth:`insert_edges`. Weights are ignored.

        Returns
        -------
        UpdateReport
            ``deleted`` and ``absent`` count the edges.

        Raises
        ------
        InputError, OutOfMemoryError
            As :meth:`insert_edges`.
        """
        return self._delete(Request("delete_edges", edges, (source, destination, None), None))

    def insert_vertices(self, ids: Any) -> UpdateReport:
        """Add vertices without edges. Vertices that exist already stay as they are.

        Parameters
        ----------
        ids : int, str, list, array, series or frame of one column
            V becomes at least the highest id + 1. With ``renumber=True``, it grows by one for each new id.

        Returns
        -------
        UpdateReport
            All its counts are 0.
        """
        with MemoryChecked("insert_vertices"), self._lock:
            naming = self.ids.plan_vertices("insert_vertices", ids, self.number_of_vertices())
            nothing = self.backend.empty(0, self.vertex_dtype)
            batch = EdgeBatch(nothing, nothing, None)
            plans = self._plan(Growth(naming.num_vertices), batch)
            with Uninterrupted():
                self._commit(plans, naming.commit)
        return UpdateReport()

    def delete_vertices(self, ids: Any) -> UpdateReport:
        """Delete all edges of vertices. The vertices stay, isolated: V does not change.

        With ``reuse_ids=True`` they stay until a new id takes their row.

        Parameters
        ----------
        ids : int, str, list, array, series or frame of one column
            The vertices. With ``renumber=True``, unknown ids are ignored.

        Returns
        -------
        UpdateReport
            ``deleted`` counts the edges.
        """
        xp = self.backend.xp
        with MemoryChecked("delete_vertices"), self._lock:
            numbers, forget = self.ids.plan_deletion("delete_vertices", ids, self.number_of_vertices())
            window = self.attached_window()
            if window is not None and self.ids.reuse_ids:
                forget = _both(forget, window.plan_forget(numbers))
            gone = self.backend.zeros(self.number_of_vertices(), np.bool_)
            gone[numbers] = True
            slots = self._out.slots
            concerned = (
                gone[slots.src] | gone[slots.dst] if gone.shape[0] else self.backend.zeros(slots.num_slots, bool)
            )
            chosen = xp.nonzero(concerned & self.snapshot().mask())[0]
            batch = make_batch(self.backend, slots.src[chosen], slots.dst[chosen], None, self._directed)
            self._make_way(batch.num_rows)
            plans = self._plan(Deletion(), batch)
            num_edges = batch.num_edges(self._directed)
            with Uninterrupted():
                return self._finish_deletion(plans, num_edges, 0, forget)

    def reorder(self, threshold: float | None = None) -> ReorderReport:
        """Sort the rows by falling :meth:`degree`, as a bulk build does; equal degrees by ascending id.

        The graph is written once. Ids do not change, only the order of rows. This needs ``renumber=True``.

        Parameters
        ----------
        threshold : float, optional
            Do nothing, and keep the version, if at most this share of the edges is out of order; 1 only measures. By
            default the order is always restored.

        Returns
        -------
        ReorderReport
            How far the order was off before.

        Raises
        ------
        OutOfMemoryError
            If a second copy of the graph does not fit. The graph is unchanged.
        """
        limit = -1.0 if threshold is None else check_share("reorder", "threshold", threshold, 0.0, 1.0)
        with MemoryChecked("reorder"), self._lock:
            (src, dst, stored), num_vertices = self._numbered_edges(once=False), self.number_of_vertices()
            bincount = self.backend.xp.bincount
            degrees = bincount(src, minlength=num_vertices) + bincount(dst, minlength=num_vertices)
            order = self.ids.plan_order(degrees)
            window = self.attached_window()
            if order.edge_drift <= limit:
                return ReorderReport(order.vertex_drift, order.edge_drift, moved=0)
            columns = sort_unique(self.backend, order.ranks[src], order.ranks[dst], stored)
            batch = EdgeBatch(*columns)
            out = self._store_of(batch)
            into = None if self._in is None else self._store_of(batch.transposed(self.backend))
            follow = None if window is None else window.plan_renumber(order.ranks)
            self._make_way(None)
            with Uninterrupted():
                self._out, self._in = out, into
                order.commit()
                if follow is not None:
                    follow()
                self._end_version(None)
        return ReorderReport(order.vertex_drift, order.edge_drift, order.moved)

    def clear(self) -> None:
        """Remove all edges and all vertices."""
        with MemoryChecked("clear"), self._lock:
            plan, forget, window = self._out.plan_clear(), self.ids.plan_clear(), self.attached_window()
            if window is not None:
                forget = _both(forget, window.plan_clear())
            records = None if self._records is None else self._records.without_records()
            self._make_way(None)
            with Uninterrupted():
                self._in, self._records = None, records
                self._commit(Plans(plan, None, None), forget)
                self._num_edges = 0


def _both(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    """Return two commits as one."""

    def commit() -> None:
        first()
        second()

    return commit
