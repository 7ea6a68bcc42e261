"""Queries of a graph on a Dask cluster."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dynstore.adapters.dask import on_ranks
from dynstore.adapters.dask.partitions import is_dask_frame, lay_batch
from dynstore.adapters.dask.progress import Progress

if TYPE_CHECKING:
    from dynstore.adapters.dask.crew import Crew
    from dynstore.adapters.dask.progress import Watch

__all__ = ["Queries"]


class Queries:
    """The part of :class:`DaskGraph` that only reads."""

    _crew: Crew
    _watch: Watch
    _device: str
    _directed: bool
    _weighted: bool

    # ------------------------------------------------------------------ what it is

    @property
    def workers(self) -> tuple[str, ...]:
        """The addresses of the workers, in order of the ranks."""
        return self._crew.addresses

    @property
    def device(self) -> str:
        """The device of all ranks."""
        return self._device

    @property
    def version(self) -> int:
        """The version number; every update adds one."""
        version: int = self._ask("version", on_ranks.counts)[2]
        return version

    def is_directed(self) -> bool:
        """Return True if (u, v) and (v, u) are different edges."""
        return self._directed

    def is_weighted(self) -> bool:
        """Return True if edges have weights."""
        return self._weighted

    def number_of_vertices(self) -> int:
        """Return V of the whole graph."""
        vertices: int = self._ask("number_of_vertices", on_ranks.counts)[0]
        return vertices

    def number_of_edges(self) -> int:
        """Return the number of edges of the whole graph."""
        edges: int = self._ask("number_of_edges", on_ranks.counts)[1]
        return edges

    def progress(self) -> Progress:
        """Return how far the current call is. Any thread may call this, at any time.

        Returns
        -------
        Progress
        """
        return self._watch.show()

    # ------------------------------------------------------------------ queries

    def has_edges(self, edges: Any, source: str = "source", destination: str = "destination") -> Any:
        """Look up if edges are there.

        Parameters
        ----------
        edges, source, destination
            As for :meth:`insert_edges`.

        Returns
        -------
        dask frame or array, shape (B,), bool
            For a Dask frame: its two columns and ``has_edge``; partitions may come in another order. For rows of the
            client: an array on the host.
        """
        return self._look_up("has_edges", edges, (source, destination))

    def edge_weights(self, edges: Any, source: str = "source", destination: str = "destination") -> Any:
        """Look up the weights of edges.

        Parameters
        ----------
        edges, source, destination
            As for :meth:`insert_edges`.

        Returns
        -------
        dask frame or array, shape (B,), weight dtype
            NaN for absent edges; 1 in an unweighted graph. As :meth:`has_edges`, with the column ``weight``.
        """
        return self._look_up("edge_weights", edges, (source, destination))

    def _look_up(self, name: str, edges: Any, ends: tuple[str, str]) -> Any:
        self._crew.check(name)
        with self._watch(name) as watch:
            batch = lay_batch(name, self._crew, watch, edges, ends)
            watch.ranks()
            if not is_dask_frame(edges):
                return self._crew.call(name, on_ranks.look_up, name, ends, batches=[batch])[0]
            meta = pickle.dumps(edges._meta)
            return self._crew.call_frame(name, on_ranks.look_up_frame, name, ends, meta, batches=[batch])[0]

    def degree(self, vertices: Any = None) -> Any:
        """Return the sum of in-degree and out-degree.

        Parameters
        ----------
        vertices : int or str, or a list, set, array or series of them, optional
            By default all vertices.

        Returns
        -------
        int, frame or dask frame
            As :meth:`dynstore.DynamicGraph.degree`: a number for one vertex, a frame of the client for several, a Dask
            frame for all.
        """
        return self._degrees("degree", vertices)

    def in_degree(self, vertices: Any = None) -> Any:
        """Return the number of edges to each vertex; see :meth:`degree`.

        Parameters
        ----------
        vertices : int or str, or a list, set, array or series of them, optional
            By default all vertices.

        Returns
        -------
        int, frame or dask frame
        """
        return self._degrees("in_degree", vertices)

    def out_degree(self, vertices: Any = None) -> Any:
        """Return the number of edges from each vertex; see :meth:`degree`.

        Parameters
        ----------
        vertices : int or str, or a list, set, array or series of them, optional
            By default all vertices.

        Returns
        -------
        int, frame or dask frame
        """
        return self._degrees("out_degree", vertices)

    def _degrees(self, name: str, vertices: Any) -> Any:
        if vertices is None:
            return self.compute_frame(name, on_ranks.method_frame, name)[0]
        return self._call(name, on_ranks.method, name, vertices)[0]

    def vertex_ids(self) -> Any:
        """Return the ids of all vertices, in the order of the rows of one rank's results.

        Returns
        -------
        array, shape (V,)
            On the host.
        """
        return self._ask("vertex_ids", on_ranks.vertex_ids)

    def edge_table(self) -> Any:
        """Return the edges, each once.

        Returns
        -------
        dask frame
            ``source``, ``destination``, ``weight`` if there are weights: a partition a worker. Later updates do not
            change it.
        """
        return self.compute_frame("edge_table", on_ranks.edge_table)[0]

    # ------------------------------------------------------------------ calls of the ranks

    def compute_frame(self, name: str, function: Callable[..., Any], *args: Any) -> tuple[Any, Any]:
        """Call a function on all workers that returns a frame, which stays there.

        Parameters
        ----------
        name : str
            For messages.
        function : callable
            It gets the :class:`dynstore.distributed.ShardedGraph` of its rank and the other arguments, and returns a
            frame, or a tuple of a frame and something small.
        *args
            The same on all ranks.

        Returns
        -------
        frame : dask frame
            A partition a worker.
        more
            What rank 0 has returned beside its frame, or None.
        """
        self._crew.check(name)
        with self._watch(name) as watch:
            watch.ranks()
            return self._crew.call_frame(name, on_ranks.frame, function, args)

    def _call(self, name: str, function: Callable[..., Any], *args: Any) -> list[Any]:
        with self._watch(name) as watch:
            watch.ranks()
            return self._crew.call(name, function, *args)

    def _ask(self, name: str, function: Callable[..., Any]) -> Any:
        return self._crew.call(name, function, one=True)[0]
