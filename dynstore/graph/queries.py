"""The queries of a graph; none of them changes its contents, and several threads may make them at once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.arguments import check_count, check_integer
from dynstore.errors import StaleSnapshotError
from dynstore.graph.records import TIME
from dynstore.input.frames import frame_library, make_frame
from dynstore.snapshot import GapCSR
from dynstore.stores.table.selection import select

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynstore.backend import Backend
    from dynstore.graph.records import EdgeRecords
    from dynstore.ids.base import VertexIds
    from dynstore.snapshot import Lease
    from dynstore.stores.base import Columns, NativeRows, Store
    from dynstore.typing import Array, Frame, Frames, Memory

__all__ = ["Queries"]


class Queries:
    """The part of :class:`dynstore.DynamicGraph` that only reads.

    What a query makes for later ones (views, in-edges) is made under the lock of the out-edges' store.
    """

    backend: Backend
    ids: VertexIds
    vertex_dtype: np.dtype
    weight_dtype: np.dtype
    frames: Frames
    _directed: bool
    _weighted: bool
    _memory: str  # as it was given: "device", "host" or "auto"
    _spills: bool
    _out: Store
    _in: Store | None
    _records: EdgeRecords | None  # of a graph with extra columns; its stores have numbers of records as weights
    _num_edges: int
    _lease: Lease
    _views: dict[bool, GapCSR]

    if TYPE_CHECKING:  # `Orientations` has it

        def _in_store(self) -> Store: ...

    @property
    def version(self) -> int:
        """The version number; every update adds one."""
        return self._lease.version

    @property
    def device(self) -> str:
        """The name of the device: "cpu" or "cuda"."""
        return self.backend.name

    @property
    def memory(self) -> Memory:
        """Where the edges lie: "device", or "host" for host memory, which kernels of a GPU use in place."""
        return "host" if self.backend.family == "cpu" else self._out.memory

    def is_directed(self) -> bool:
        """Return True if (u, v) and (v, u) are different edges."""
        return self._directed

    def is_weighted(self) -> bool:
        """Return True if edges have weights."""
        return self._weighted

    def is_renumbered(self) -> bool:
        """Return True if vertices have ids of any kind (``renumber=True``)."""
        return self.ids.renumbered

    def number_of_vertices(self) -> int:
        """Return V: the highest id seen + 1, or with ``renumber=True`` the number of ids."""
        return self._out.num_vertices

    def number_of_nodes(self) -> int:
        """Return V, as :meth:`number_of_vertices`: the name in NetworkX."""
        return self.number_of_vertices()

    def __len__(self) -> int:
        """Return V, as ``len`` of a NetworkX graph."""
        return self.number_of_vertices()

    def __bool__(self) -> bool:
        """Return True, also for a graph without vertices."""
        return True

    def __contains__(self, vertex: object) -> bool:
        """Return whether ``vertex`` is a vertex; False for whatever is no integer and no string."""
        if isinstance(vertex, bool) or not isinstance(vertex, int | np.integer | str):
            return False
        return self.ids.holds(vertex if isinstance(vertex, str) else int(vertex), self.number_of_vertices())

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the vertices of the present version, as :meth:`vertex_ids`: Python integers or strings."""
        return iter(self.backend.to_host(self.vertex_ids()).tolist())

    def number_of_edges(self) -> int:
        """Return the number of edges; an edge of an undirected graph counts once."""
        return self._num_edges

    def vertex_ids(self) -> Array:
        """Return the id of each vertex, in the order of the rows of all results.

        Returns
        -------
        array, shape (V,)
            0 to V - 1. With ``renumber=True``, int64 ids or a NumPy array of strings.
        """
        return self.ids.all(self.number_of_vertices())

    def vertex_numbers(self, ids: Any) -> Array:
        """Return the row of each id.

        Parameters
        ----------
        ids : int, str, list, array, series or frame of one column
            The ids to look up.

        Returns
        -------
        array, shape (B,), int64
            Rows of :meth:`snapshot` and of all results; -1 for an unknown id.
        """
        numbers, _ = self.ids.find("vertex_numbers", ids, self.number_of_vertices())
        return numbers

    def has_edges(self, edges: Any, source: str = "source", destination: str = "destination") -> Array:
        """Look up which of the given edges are in the graph.

        Parameters
        ----------
        edges : frame, tuple or list
            The edges: see :meth:`insert_edges`. Weights are ignored.
        source, destination : str
            The frame's columns.

        Returns
        -------
        array, shape (B,), bool
            False for an unknown id, too.
        """
        return self._look_up("has_edges", edges, source, destination)[0]

    def edge_weights(self, edges: Any, source: str = "source", destination: str = "destination") -> Array:
        """Look up the weights of edges.

        Parameters
        ----------
        edges : frame, tuple or list
            The edges: see :meth:`insert_edges`. Weights are ignored.
        source, destination : str
            The frame's columns.

        Returns
        -------
        array, shape (B,), weight dtype
            NaN for absent edges; 1 in an unweighted graph.
        """
        there, stored = self._look_up("edge_weights", edges, source, destination)
        stored = self._weights_of(stored)
        weights = self.backend.empty(there.shape[0], self.weight_dtype)
        weights.fill(np.nan)
        weights[there] = 1 if stored is None else stored[there]
        return weights

    @property
    def edge_dtypes(self) -> dict[str, np.dtype]:
        """The extra columns of edges and their dtypes, in order; see :class:`DynamicGraph`."""
        return {} if self._records is None else self._records.extra_dtypes

    @property
    def timestamps(self) -> np.dtype | None:
        """The dtype of the column ``time``, the last time of each edge; None for a graph that keeps no times."""
        return self._records.columns[TIME].dtype if self._records is not None and self._records.timed else None

    def edge_table(self) -> Frame:
        """Return the edges as a frame: the :meth:`edge_columns`.

        Returns
        -------
        frame
            Columns ``source``, ``destination`` and, for a weighted graph, ``weight``; then the extra columns.
        """
        return make_frame(self.backend, self.frame_columns(frame_library(self.backend, self.frames)), self.frames)

    def edge_columns(self) -> dict[str, Array]:
        """Return the edges as new arrays, sorted by source and destination.

        With ``renumber=True`` the order is that of the row numbers. An undirected edge appears once, with
        source <= destination.

        Returns
        -------
        dict of arrays, shape (E,)
            ``source``, ``destination`` and, for a weighted graph, ``weight``; then the extra columns.
        """
        return self._columns_of(*self._numbered_edges(once=not self._directed))

    def iterate_edges(self, max_edges: int = 1 << 20) -> Iterator[dict[str, Array]]:
        """Yield the :meth:`edge_columns` in pieces.

        Vertices come in the order of their rows. All edges of a vertex are in one piece, in ascending order (with
        ``store="slab_hash"`` in any order). A store with separate rows makes no table of all edges for this.

        Parameters
        ----------
        max_edges : int
            The most edges in a piece; undirected edges count in both directions. A vertex with more edges is a piece by
            itself.

        Returns
        -------
        iterator of dicts of arrays
            Each as :meth:`edge_columns`.

        Raises
        ------
        InputError
            If ``max_edges`` is below 1.
        StaleSnapshotError
            From the iterator, if the graph was updated after its first piece.
        """
        caller, name = "iterate_edges", "max_edges"
        check_count(caller, name, check_integer(caller, name, max_edges), least=1)
        return self._pieces(int(max_edges))

    def snapshot(self, transposed: bool = False) -> GapCSR:
        """Return the current version as compressed sparse rows with gaps, without a copy.

        It can be read until the next update. Its rows are the vertices 0 to V - 1; with ``renumber=True``,
        :meth:`vertex_ids` has their ids.

        Parameters
        ----------
        transposed : bool
            If True, rows are destinations: the in-edges. Undirected graphs have only one orientation. A directed graph
            makes the second one on the first request, and keeps it from then on. A failed update may also end such a
            snapshot.

        Returns
        -------
        GapCSR
            The same object until the next update.
        """
        transposed = transposed and self._directed
        view = self._views.get(transposed)
        if view is None:
            with self._out.lock:
                view = self._views.get(transposed)
                if view is None:
                    view = self._views[transposed] = self._view_of(self._in_store() if transposed else self._out)
        return view

    def snapshot_columns(self, transposed: bool = False) -> dict[str, Array]:
        """Return the extra columns of edges in the order of :meth:`snapshot`'s slots.

        Parameters
        ----------
        transposed : bool
            As for :meth:`snapshot`.

        Returns
        -------
        dict of arrays, shape (S,)
            New arrays, by name. Gaps have any values.
        """
        if self._records is None:
            return {}
        self.snapshot(transposed)
        store = self._in_store() if transposed and self._directed else self._out
        return self._records.extra_values(store.slots.weights)

    def slot_times(self, transposed: bool = False) -> tuple[Array, Array]:
        """Return the last times of a graph with ``timestamps``, and where those of :meth:`snapshot`'s slots are.

        Parameters
        ----------
        transposed : bool
            As for :meth:`snapshot`.

        Returns
        -------
        times : array, shape (R,)
        records : array, shape (S,)
            The place in ``times`` of each slot. Gaps have any number.
        """
        assert self._records is not None
        store = self._in_store() if transposed and self._directed else self._out
        records = store.slots.weights
        assert records is not None
        return self._records.columns[TIME], records

    def native_rows(self, transposed: bool = False) -> NativeRows | None:
        """Return the store's own rows, for algorithms that can read them.

        They can be read until the next update.

        Parameters
        ----------
        transposed : bool
            As for :meth:`snapshot`.

        Returns
        -------
        NativeRows or None
            None if :meth:`snapshot` has nothing to make.
        """
        store = self._in_store() if transposed and self._directed else self._out
        return store.native_rows()

    def statistics(self) -> dict[str, int]:
        """Return the counts that the store keeps of its work; see the page of the store.

        Returns
        -------
        dict of int
            Counts by name.
        """
        return self._out.statistics()

    def memory_usage(self) -> dict[str, int]:
        """Return the bytes in use, by part and in "total".

        Returns
        -------
        dict of int
            Parts of the in-edges begin with ``in_``. With ``renumber=True``, ``vertex_map`` is the map of the ids. With
            extra columns of edges, ``edge_columns`` is the table of their values and of the weights, and ``weights``
            holds the place of each edge in this table. If edges lie in host memory beside a GPU (:attr:`memory`),
            ``host`` is the sum of what lies there, and ``device`` that of all else.
        """
        parts = self._out.memory_usage()
        if self._in is not None:
            parts |= {f"in_{part}": size for part, size in self._in.memory_usage().items()}
        parts |= self.ids.memory_usage()
        if self._records is not None:
            parts["edge_columns"] = self._records.nbytes
        total = {"total": sum(parts.values())}
        if self._out.memory == "host":
            host = sum(store.host_bytes for store in (self._out, self._in) if store is not None)
            total |= {"host": host, "device": total["total"] - host}
        return parts | total

    # ------------------------------------------------------------------ inside

    def _numbered_edges(self, once: bool, among: Array | None = None) -> Columns:
        """Return all edges as row numbers in new, sorted arrays, and what the store has as weights.

        Parameters
        ----------
        once : bool
            Leave out the edges from a higher number to a lower one: the second direction of undirected edges.
        among : array, shape (V,), bool, optional
            Only the edges between these rows.
        """
        slots = self._out.slots
        chosen = self.snapshot().mask()
        if once:
            chosen = chosen & (slots.src <= slots.dst)
        if among is not None and among.shape[0]:
            chosen = chosen & among[slots.src] & among[slots.dst]
        src, dst, stored = select(self.backend, slots.columns, chosen, slots.memory)
        return src, dst, stored

    def _view_of(self, store: Store) -> GapCSR:
        slots = store.slots
        weights = slots.weights
        if self._records is not None:
            weights = partial(self._records.weights, slots.weights) if self._weighted else None
        return GapCSR(
            self.backend,
            slots.offsets,
            slots.src,
            slots.dst,
            slots.valid,
            weights,
            slots.num_edges,
            self._lease,
            slots.pins,
            slots.memory,
        )

    def _pieces(self, max_edges: int) -> Iterator[dict[str, Array]]:
        store, version, xp = self._out, self.version, self.backend.xp
        ends, low, before = store.row_ends(), 0, 0
        while low < store.num_vertices:
            if version != self.version:
                raise StaleSnapshotError(
                    f"iterate_edges: it began at version {version} of the graph, which is now at version "
                    f"{self.version}; begin again after an update"
                )
            wanted = self.backend.asarray(np.array([before + max_edges]))
            high = max(int(xp.searchsorted(ends, wanted, side="right")[0]), low + 1)
            src, dst, stored = store.read_rows(low, high)
            if not self._directed:
                once = src <= dst
                src, dst, stored = src[once], dst[once], None if stored is None else stored[once]
            low, before = high, int(ends[high - 1])
            if src.shape[0]:
                yield self._columns_of(src, dst, stored)

    def frame_columns(self, library: str) -> dict[str, Any]:
        """Return :meth:`edge_columns` for a frame of a library: strings are in a form of its own."""
        return self._columns_of(*self._numbered_edges(once=not self._directed), library)

    def _columns_of(self, src: Array, dst: Array, stored: Array | None, library: str | None = None) -> dict[str, Array]:
        """Return edges as named columns of ids; ``stored``: what the store has as weights."""
        src, dst = self.ids.ends(src, dst, self.number_of_vertices(), not self._directed, library)
        return {"source": src, "destination": dst, **self._values_of(stored)}

    def _values_of(self, stored: Array | None) -> dict[str, Array]:
        """Return the weights and the extra columns of edges, for what the store has as weights."""
        if stored is None:
            return {}
        return {"weight": stored} if self._records is None else self._records.values(stored)

    def _weights_of(self, stored: Array | None) -> Array | None:
        """Return the weights of edges, for what the store has as weights."""
        return stored if self._records is None else self._records.weights(stored)

    def _look_up(self, caller: str, edges: Any, source: str, destination: str) -> tuple[Array, Array | None]:
        names = source, destination, None
        columns = self.ids.find_edges(caller, edges, names, None, self.number_of_vertices())
        return self._out.look_up(columns.src, columns.dst)
