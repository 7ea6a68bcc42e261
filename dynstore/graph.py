"""The dynamic graph: what a batch means, and in which version the graph is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from dynstore.arguments import check_count, check_dtype, check_flag
from dynstore.arrays import EdgeColumns, has_weights, read_edges, read_ids
from dynstore.backend import Backend, get_backend
from dynstore.edge_batch import EdgeBatch, make_batch
from dynstore.errors import InputError, LimitError, OutOfMemoryError, unknown_name
from dynstore.frames import make_frame
from dynstore.snapshot import GapCSR, Lease
from dynstore.stores import get_store
from dynstore.stores.base import Plan, Store
from dynstore.typing import Array, Device, OnDuplicate, UpdateReport

__all__ = ["DynamicGraph"]

WHO = "DynamicGraph"
MIN_MAX_VERTICES = 1 << 24
MAX_VERTICES_FACTOR = 8
VERTEX_DTYPES = ("int32", "int64")
WEIGHT_DTYPES = ("float32", "float64")


class DynamicGraph:
    """A graph that takes batches of edge insertions and deletions in place.

    Vertices are 0 .. V-1, V grows with the ids seen, isolated vertices are kept. An edge is there once or
    not at all. An update either happens as a whole or, when it raises, not at all.

    Parameters
    ----------
    directed : bool
        Undirected graphs hold each edge in both directions, and report it once.
    weighted : bool
        Whether edges carry a weight.
    store : str
        The structure: "gpma+" (a packed memory array), or one of the baselines "merge" and "rebuild".
    device : {"auto", "cpu", "cuda"}
        "auto" takes CUDA where it works.
    vertex_dtype : {"int32", "int64"}
        int32 ids go to 2**31 - 2, and hold fewer than 2**31 slots.
    weight_dtype : {"float32", "float64"}
    capacity : int, optional
        Edges to reserve memory for.
    max_vertices : int, optional
        Ids from here on are refused, because an id makes rows for all ids below it. By default 8 times the
        vertices there are, and at least 2**24.
    **store_options
        Options of the store, see its documentation.

    Raises
    ------
    InputError
        For a name or a value that cannot be used.
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
        **store_options: Any,
    ) -> None:
        make_store = get_store(store)
        self._directed = check_flag(WHO, "directed", directed)
        self._weighted = check_flag(WHO, "weighted", weighted)
        self.vertex_dtype = check_dtype(WHO, "vertex_dtype", vertex_dtype, VERTEX_DTYPES)
        self.weight_dtype = check_dtype(WHO, "weight_dtype", weight_dtype, WEIGHT_DTYPES)
        self._max_vertices = check_count(WHO, "max_vertices", max_vertices)
        entries = (check_count(WHO, "capacity", capacity) or 0) * (1 if directed else 2)
        self.backend: Backend = get_backend(device)
        stored_weights = self.weight_dtype if weighted else None
        self.store_name = store
        with _memory_checked("DynamicGraph"):
            self._out: Store = make_store(self.backend, self.vertex_dtype, stored_weights, entries, store_options)
        self._in: Store | None = None
        self._store_options = store_options
        self._num_edges = 0
        self._lease = Lease(0)
        self._views: dict[bool, GapCSR] = {}

    @classmethod
    def from_edges(
        cls,
        edges: Any,
        source: str = "source",
        destination: str = "destination",
        weight: str | None = None,
        on_duplicate: OnDuplicate = "replace",
        **graph_options: Any,
    ) -> DynamicGraph:
        """Make a graph and insert the edges; weighted when the edges bring weights, unless said otherwise."""
        graph_options.setdefault("weighted", has_weights(edges, weight))
        graph = cls(**graph_options)
        graph.insert_edges(edges, source, destination, weight, on_duplicate)
        return graph

    def __repr__(self) -> str:
        kind = ("directed" if self._directed else "undirected") + (" weighted" if self._weighted else "")
        return (
            f"DynamicGraph({kind}, {self.number_of_vertices()} vertices, {self.number_of_edges()} edges, "
            f"store={self.store_name!r}, device={self.device!r}, version={self.version})"
        )

    # ------------------------------------------------------------------ updates

    def insert_edges(
        self,
        edges: Any,
        source: str = "source",
        destination: str = "destination",
        weight: str | None = None,
        on_duplicate: OnDuplicate = "replace",
    ) -> UpdateReport:
        """Insert a batch of edges.

        Parameters
        ----------
        edges : frame or tuple
            A pandas, pyarrow, polars or cuDF frame, or ``(src, dst)`` or ``(src, dst, weights)`` of arrays or lists.
        source, destination, weight : str
            The frame's columns. A weighted graph given no weights takes 1.
        on_duplicate : {"replace", "add"}
            What to do with an edge that is there, or twice in the batch: the last weight wins, or all weights
            are summed. An edge that was deleted starts from nothing.

        Returns
        -------
        UpdateReport

        Raises
        ------
        InputError
            For bad input; the graph is unchanged.
        OutOfMemoryError
            When memory runs out; the graph is unchanged.
        """
        if on_duplicate not in ("replace", "add"):
            raise unknown_name("insert_edges", "on_duplicate", on_duplicate, ("replace", "add"))
        if not self._weighted and has_weights(edges, weight):
            raise InputError(
                "insert_edges: weights were given, but the graph is unweighted; make it with weighted=True"
            )
        with _memory_checked("insert_edges"):
            columns = self._read("insert_edges", edges, source, destination, weight)
            num_vertices = self._vertices_for("insert_edges", columns.max_id)
            batch, num_edges = self._batch(columns, on_duplicate)
            plan = self._out.plan_insert(batch, num_vertices, on_duplicate)
            mirror = None
            if self._in is not None:
                mirror = self._in.plan_insert(batch.transposed(self.backend), num_vertices, on_duplicate)
        replaced = self._found_edges(plan)
        self._commit(plan, mirror)
        self._num_edges += num_edges - replaced
        return UpdateReport(
            inserted=num_edges - replaced,
            replaced=replaced,
            duplicates=int(columns.src.shape[0]) - num_edges,
            grown=plan.grown,
            path=plan.path,
        )

    def delete_edges(self, edges: Any, source: str = "source", destination: str = "destination") -> UpdateReport:
        """Delete a batch of edges; those that are not there are counted, not an error.

        Weights in a tuple are ignored. See :meth:`insert_edges` for the parameters.
        """
        with _memory_checked("delete_edges"):
            columns = self._read("delete_edges", edges, source, destination, None, weighted=False)
            plan, mirror, num_edges = self._plan_delete(columns)
        return self._commit_delete(plan, mirror, num_edges, int(columns.src.shape[0]) - num_edges)

    def insert_vertices(self, ids: Any) -> UpdateReport:
        """Make sure that the vertices exist: V becomes at least the highest id + 1."""
        with _memory_checked("insert_vertices"):
            _, highest = read_ids("insert_vertices", self.backend, ids, self.vertex_dtype)
            num_vertices = self._vertices_for("insert_vertices", highest)
            plan = self._out.plan_vertices(num_vertices)
            mirror = None if self._in is None else self._in.plan_vertices(num_vertices)
        self._commit(plan, mirror)
        return UpdateReport()

    def delete_vertices(self, ids: Any) -> UpdateReport:
        """Delete all edges of the vertices; they stay as isolated vertices, V does not change."""
        xp = self.backend.xp
        with _memory_checked("delete_vertices"):
            ids, _ = read_ids("delete_vertices", self.backend, ids, self.vertex_dtype)
            gone = self.backend.zeros(self.number_of_vertices(), np.bool_)
            gone[ids[ids < gone.shape[0]]] = True
            slots = self._out.slots
            concerned = (
                gone[slots.src] | gone[slots.dst] if gone.shape[0] else self.backend.zeros(slots.num_slots, bool)
            )
            chosen = xp.nonzero(concerned & self.snapshot().mask())[0]
            columns = EdgeColumns(slots.src[chosen], slots.dst[chosen], None, -1)
            plan, mirror, num_edges = self._plan_delete(columns)
        return self._commit_delete(plan, mirror, num_edges, 0)

    def clear(self) -> None:
        """Remove all edges and all vertices."""
        with _memory_checked("clear"):
            plan = self._out.plan_clear()
        self._in = None
        self._commit(plan, None)
        self._num_edges = 0

    def copy(self) -> DynamicGraph:
        """Return an independent deep copy."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        with _memory_checked("copy"):
            twin._out = self._out.copy()
            twin._in = None if self._in is None else self._in.copy()
        twin._lease = Lease(self.version)
        twin._views = {}
        return twin

    # ------------------------------------------------------------------ queries

    @property
    def version(self) -> int:
        """A number that every update raises by one."""
        return self._lease.version

    @property
    def device(self) -> str:
        """The backend's name: "cpu" or "cuda"."""
        return self.backend.name

    def is_directed(self) -> bool:
        """Whether (u, v) and (v, u) are different edges."""
        return self._directed

    def is_weighted(self) -> bool:
        """Whether edges carry weights."""
        return self._weighted

    def number_of_vertices(self) -> int:
        """Return V, the highest id seen + 1."""
        return self._out.slots.num_vertices

    def number_of_edges(self) -> int:
        """Return how many edges there are; an undirected pair counts once."""
        return self._num_edges

    def has_edges(self, edges: Any, source: str = "source", destination: str = "destination") -> Array:
        """Return a bool array, shape (B,): which of the edges are there; False for ids never seen."""
        found: Array = self._find("has_edges", edges, source, destination) >= 0
        return found

    def edge_weights(self, edges: Any, source: str = "source", destination: str = "destination") -> Array:
        """Return the weights, shape (B,), weight dtype: NaN where absent, 1 in an unweighted graph."""
        found = self._find("edge_weights", edges, source, destination)
        weights = self.backend.empty(found.shape[0], self.weight_dtype)
        weights.fill(np.nan)
        there = found >= 0
        stored = self._out.slots.weights
        weights[there] = 1 if stored is None else stored[found[there]]
        return weights

    def successors(self, vertex: int) -> Array:
        """Return the ids that edges from ``vertex`` lead to, ascending.

        Raises
        ------
        InputError
            For an id that is not among the vertices.
        """
        return self._row("successors", vertex, transposed=False)

    def neighbors(self, vertex: int) -> Array:
        """Return the successors, as NetworkX and cuGraph do."""
        return self._row("neighbors", vertex, transposed=False)

    def predecessors(self, vertex: int) -> Array:
        """Return the ids that edges to ``vertex`` come from, ascending.

        The first call on a directed graph makes the in-edge orientation, which updates keep from then on.
        """
        return self._row("predecessors", vertex, transposed=True)

    def out_degree(self) -> Any:
        """Return a frame ``vertex, degree`` of out-degrees."""
        return self._degree_frame(self._row_counts(transposed=False))

    def in_degree(self) -> Any:
        """Return a frame ``vertex, degree`` of in-degrees."""
        return self._degree_frame(self._row_counts(transposed=True))

    def degree(self) -> Any:
        """Return a frame ``vertex, degree`` of in- plus out-degrees (so twice the neighbours if undirected)."""
        return self._degree_frame(self._row_counts(transposed=False) + self._row_counts(transposed=True))

    def edge_table(self) -> Any:
        """Return a frame ``source, destination[, weight]``; undirected edges once, source <= destination."""
        slots = self._out.slots
        chosen = self.snapshot().mask()
        if not self._directed:
            chosen = chosen & (slots.src <= slots.dst)
        columns = {"source": slots.src[chosen], "destination": slots.dst[chosen]}
        if slots.weights is not None:
            columns["weight"] = slots.weights[chosen]
        return make_frame(self.backend, columns)

    def snapshot(self, transposed: bool = False) -> GapCSR:
        """Return the present version as a gap-aware CSR: no copy, readable until the next update.

        Parameters
        ----------
        transposed : bool
            Rows are destinations: the in-edges. For an undirected graph that is the same; a directed graph
            makes this second orientation when it is first asked for, and keeps it from then on.
        """
        transposed = transposed and self._directed
        view = self._views.get(transposed)
        if view is None:
            slots = (self._in_store() if transposed else self._out).slots
            view = self._views[transposed] = GapCSR(
                self.backend,
                slots.offsets,
                slots.src,
                slots.dst,
                slots.valid,
                slots.weights,
                slots.num_edges,
                self._lease,
                slots.pins,
            )
        return view

    def memory_usage(self) -> dict[str, int]:
        """Return bytes by part and in "total"; parts of the in-edge orientation begin with "in_"."""
        parts = self._out.memory_usage()
        if self._in is not None:
            parts |= {f"in_{part}": size for part, size in self._in.memory_usage().items()}
        return parts | {"total": sum(parts.values())}

    # ------------------------------------------------------------------ inside

    def _read(
        self, who: str, edges: Any, source: str, destination: str, weight: str | None, weighted: bool = True
    ) -> EdgeColumns:
        weight_dtype = self.weight_dtype if weighted and self._weighted else None
        return read_edges(who, self.backend, edges, (source, destination, weight), self.vertex_dtype, weight_dtype)

    def _batch(self, columns: EdgeColumns, on_duplicate: OnDuplicate) -> tuple[EdgeBatch, int]:
        src, dst, weights, _ = columns
        if weights is None and self._weighted:
            weights = self.backend.empty(src.shape[0], self.weight_dtype)
            weights.fill(1)
        return make_batch(self.backend, src, dst, weights, self._directed, on_duplicate)

    def _vertices_for(self, who: str, max_id: int) -> int:
        there = self.number_of_vertices()
        limit = self._max_vertices
        if limit is None:
            limit = max(MIN_MAX_VERTICES, MAX_VERTICES_FACTOR * there)
        if max_id >= max(limit, there):
            raise LimitError(
                f"{who}: id {max_id} would make rows for all {max_id + 1} ids up to it; "
                f"max_vertices is {limit}, set it higher to allow that"
            )
        return max(there, max_id + 1)

    def _plan_delete(self, columns: EdgeColumns) -> tuple[Plan, Plan | None, int]:
        batch, num_edges = make_batch(self.backend, columns.src, columns.dst, None, self._directed)
        mirror = None if self._in is None else self._in.plan_delete(batch.transposed(self.backend))
        return self._out.plan_delete(batch), mirror, num_edges

    def _commit_delete(self, plan: Plan, mirror: Plan | None, num_edges: int, duplicates: int) -> UpdateReport:
        deleted = self._found_edges(plan)
        self._commit(plan, mirror)
        self._num_edges -= deleted
        return UpdateReport(
            deleted=deleted, absent=num_edges - deleted, duplicates=duplicates, grown=plan.grown, path=plan.path
        )

    def _found_edges(self, plan: Plan) -> int:
        """Count the keys found, undirected pairs once: loops are stored once, all others twice."""
        return plan.found if self._directed else (plan.found + plan.found_loops) // 2

    def _commit(self, plan: Plan, mirror: Plan | None) -> None:
        plan.commit()
        if mirror is not None:
            mirror.commit()
        self._lease.ended_by = self.version + 1
        self._lease = Lease(self.version + 1)
        self._views = {}

    def _in_store(self) -> Store:
        if self._in is None:
            with _memory_checked("the in-edge orientation"):
                out = self.snapshot().compact()
                batch = EdgeBatch(out.sources, out.indices, out.weights).transposed(self.backend)
                store = type(self._out)(
                    self.backend, self.vertex_dtype, self._out.weight_dtype, self._out.capacity, self._store_options
                )
                store.plan_insert(batch, self.number_of_vertices(), "replace").commit()
            self._in = store
        return self._in

    def _find(self, who: str, edges: Any, source: str, destination: str) -> Array:
        columns = self._read(who, edges, source, destination, None, weighted=False)
        return self._out.find(columns.src, columns.dst)

    def _row(self, who: str, vertex: int, transposed: bool) -> Array:
        ids, highest = read_ids(who, self.backend, vertex, self.vertex_dtype)
        if ids.shape[0] != 1:
            raise InputError(f"{who}: got {ids.shape[0]} vertices; wanted one id")
        if highest >= self.number_of_vertices():
            raise InputError(f"{who}: vertex {highest} is not in the graph; ids go to {self.number_of_vertices() - 1}")
        view = self.snapshot(transposed)
        start, end = (int(view.offsets[highest + k]) for k in (0, 1))
        first = start >> 5
        words = view.valid[first : (end + 31) >> 5]
        bits = self.backend.xp.unpackbits(words.view(np.uint8), bitorder="little")
        return view.indices[start:end][bits[start - 32 * first : end - 32 * first].view(np.bool_)]

    def _row_counts(self, transposed: bool) -> Array:
        view, xp = self.snapshot(transposed), self.backend.xp
        before = self.backend.zeros(view.num_slots + 1, self.vertex_dtype)
        xp.cumsum(view.mask(), out=before[1:])
        starts = before[view.offsets]
        return starts[1:] - starts[:-1]

    def _degree_frame(self, degrees: Array) -> Any:
        vertices = self.backend.xp.arange(degrees.shape[0], dtype=self.vertex_dtype)
        return make_frame(self.backend, {"vertex": vertices, "degree": degrees})


@contextmanager
def _memory_checked(who: str) -> Iterator[None]:
    """Turn NumPy's and CuPy's memory errors into ours; whatever was planned is dropped."""
    try:
        yield
    except MemoryError as error:
        raise OutOfMemoryError(f"{who}: memory ran out ({error}); the graph is as it was") from error
