"""Queries of a sharded graph: what each rank knows by itself, and calls of all ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.arguments import check_integer
from dynstore.distributed.calls import Call
from dynstore.distributed.owners import sort_by_owner
from dynstore.errors import InputError
from dynstore.graph import DynamicGraph
from dynstore.graph.state import GraphState
from dynstore.input.forms import bring_columns
from dynstore.input.frames import frame_library, make_frame
from dynstore.interrupts import MemoryChecked

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.distributed.communicator import Communicator
    from dynstore.distributed.owners import Owners
    from dynstore.ids.base import Names
    from dynstore.typing import Array, Frame

__all__ = ["Queries"]


class Queries:
    """The part of :class:`ShardedGraph` that only reads."""

    comm: Communicator
    shard: DynamicGraph
    _directed: bool
    _num_edges: int
    _owners: Owners
    _options: dict[str, Any]

    # ------------------------------------------------------------------ what each rank knows

    @property
    def version(self) -> int:
        """The version number; every update adds one. Each rank knows it by itself."""
        return self.shard.version

    @property
    def device(self) -> str:
        """The name of this rank's device."""
        return self.shard.device

    @property
    def backend(self) -> Backend:
        """The backend of this rank's device."""
        return self.shard.backend

    def is_directed(self) -> bool:
        """Return True if (u, v) and (v, u) are different edges."""
        return self._directed

    def is_weighted(self) -> bool:
        """Return True if edges have weights."""
        return self.shard.is_weighted()

    def is_renumbered(self) -> bool:
        """Return True if vertices have ids of any kind (``renumber=True``)."""
        return self.shard.is_renumbered()

    def number_of_vertices(self) -> int:
        """Return V of the whole graph. Each rank knows it by itself."""
        return self.shard.number_of_vertices()

    def number_of_edges(self) -> int:
        """Return the number of edges of the whole graph. Each rank knows it by itself."""
        return self._num_edges

    def vertex_ids(self) -> Array:
        """Return the ids of all vertices, in the order of the rows of all results. Each rank knows them by itself.

        Returns
        -------
        array, shape (V,)
            As :meth:`DynamicGraph.vertex_ids`. With ``renumber=True`` the order is the same on all ranks; it need not
            be that of a :class:`DynamicGraph`.
        """
        return self.shard.vertex_ids()

    def owners(self, vertices: Any) -> Array:
        """Return the rank that owns each vertex. Each rank knows that by itself.

        Parameters
        ----------
        vertices : int or str, or a list, set, array or series of them
            Vertices of the graph.

        Returns
        -------
        array, shape (B,), uint16
            Numbers of ranks.
        """
        shard = self.shard
        numbers = shard.ids.numbers_of("owners", vertices, shard.number_of_vertices())
        return self._owners(numbers.astype(shard.vertex_dtype))

    def edge_table(self) -> Frame:
        """Return the edges of this rank as a frame: each edge of the graph is on one rank. No other rank is needed.

        Returns
        -------
        frame
            As :meth:`DynamicGraph.edge_table`. An undirected edge is with the owner of its end that has the lower row.
        """
        shard = self.shard
        library = frame_library(shard.backend, shard.frames)
        src, dst, weights = shard._numbered_edges(once=not self._directed)
        ends = shard.ids.ends(src, dst, shard.number_of_vertices(), not self._directed, library)
        columns = {"source": ends[0], "destination": ends[1], **({} if weights is None else {"weight": weights})}
        return make_frame(shard.backend, columns, shard.frames)

    # ------------------------------------------------------------------ queries of all ranks

    def has_edges(self, edges: Any, source: str = "source", destination: str = "destination") -> Array:
        """Look up if edges are there; each rank names edges of its own.

        Parameters
        ----------
        edges, source, destination
            As for :meth:`DynamicGraph.has_edges`.

        Returns
        -------
        array, shape (B,), bool
            For the edges that this rank has passed.
        """
        return self._look_up("has_edges", edges, (source, destination, None), weights=False)

    def edge_weights(self, edges: Any, source: str = "source", destination: str = "destination") -> Array:
        """Look up the weights of edges; each rank names edges of its own.

        Parameters
        ----------
        edges, source, destination
            As for :meth:`DynamicGraph.edge_weights`.

        Returns
        -------
        array, shape (B,), weight dtype
            NaN for absent edges; 1 in an unweighted graph.
        """
        return self._look_up("edge_weights", edges, (source, destination, None), weights=True)

    def _look_up(self, caller: str, edges: Any, names: Names, weights: bool) -> Array:
        shard, backend = self.shard, self.shard.backend
        with Call(self.comm, caller) as call, MemoryChecked(caller):
            edges = bring_columns(caller, backend, edges)
            columns = shard.ids.find_edges(caller, edges, names, None, shard.number_of_vertices())
            order, given, send = sort_by_owner(backend, self._owners, (columns.src, columns.dst), want_order=True)
            (src, dst), receive = call.all_to_all(given, send)
            found, stored = shard._out.look_up(src, dst)
            if weights:
                ones = backend.xp.ones(found.shape[0], shard.weight_dtype)
                found = backend.xp.where(found, ones if stored is None else stored, shard.weight_dtype.type(np.nan))
            (came,), _ = call.all_to_all([found], receive)
            answers = backend.empty(came.shape[0], came.dtype)
            answers[order] = came
        return answers

    def out_degree(self, vertices: Any = None) -> int | Frame:
        """Return the number of edges from each vertex, in the whole graph.

        Parameters
        ----------
        vertices : int or str, or a list, set, array or series of them, optional
            By default all vertices. Ranks may name different ones.

        Returns
        -------
        int or frame
            As :meth:`DynamicGraph.out_degree`.
        """
        return self._degrees("out_degree", vertices, (False,))

    def in_degree(self, vertices: Any = None) -> int | Frame:
        """Return the number of edges to each vertex, in the whole graph.

        Parameters
        ----------
        vertices : int or str, or a list, set, array or series of them, optional
            By default all vertices. Ranks may name different ones.

        Returns
        -------
        int or frame
            As :meth:`DynamicGraph.in_degree`.
        """
        return self._degrees("in_degree", vertices, (True,))

    def degree(self, vertices: Any = None) -> int | Frame:
        """Return the sum of in-degree and out-degree, in the whole graph.

        Parameters
        ----------
        vertices : int or str, or a list, set, array or series of them, optional
            By default all vertices. Ranks may name different ones.

        Returns
        -------
        int or frame
            As :meth:`DynamicGraph.degree`.
        """
        return self._degrees("degree", vertices, (False, True))

    def _degrees(self, caller: str, vertices: Any, orientations: tuple[bool, ...]) -> int | Frame:
        shard, num_vertices = self.shard, self.number_of_vertices()
        with Call(self.comm, caller) as call, MemoryChecked(caller):
            numbers = None if vertices is None else shard.ids.numbers_of(caller, vertices, num_vertices)
            own = shard.backend.zeros(num_vertices, shard.vertex_dtype)
            for transposed in orientations:
                own += shard.row_lengths(transposed and self._directed)
            degrees = call.all_reduce(own)
            if numbers is not None and np.isscalar(vertices):
                return int(degrees[numbers][0])
            chosen = degrees if numbers is None else degrees[numbers]
            named = None if numbers is None else numbers.astype(shard.vertex_dtype)
            ids = shard.ids.column(num_vertices, frame_library(shard.backend, shard.frames), named)
            return make_frame(shard.backend, {"vertex": ids, "degree": chosen}, shard.frames)

    def gather(self, root: int = 0) -> DynamicGraph | None:
        """Bring the whole graph to one rank.

        Parameters
        ----------
        root : int
            The rank, the same on all.

        Returns
        -------
        DynamicGraph or None
            A new graph of the same options, ids, edges and version on the root; None elsewhere.
        """
        shard, backend = self.shard, self.shard.backend
        with Call(self.comm, "gather") as call, MemoryChecked("gather"):
            if not 0 <= check_integer("gather", "root", root) < self.comm.size:
                raise InputError(f"gather: root is {root}; wanted 0 to {self.comm.size - 1}")
            call.expect_alike(root=int(root))
            src, dst, weights = shard._numbered_edges(once=False)
            send = [len(src) if rank == root else 0 for rank in range(self.comm.size)]
            given = [src, dst, *([] if weights is None else [weights])]
            came, _ = call.all_to_all(given, send)
            whole = None
            if self.comm.rank == root:
                order = backend.xp.lexsort(backend.xp.stack((came[1], came[0])))
                names = ("source", "destination", "weight")[: len(came)]
                columns = {name: column[order] for name, column in zip(names, came, strict=True)}
                columns |= shard.ids.columns(self.number_of_vertices())
                options = {name: self._options[name] for name in self._options if name not in ("partition", "capacity")}
                state = GraphState(options, self.number_of_vertices(), self.version, columns)
                whole = DynamicGraph._of_state(state, self.device)
        return whole
