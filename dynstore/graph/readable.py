"""The questions that every kind of graph answers: in one process, pinned, on several ranks, on a Dask cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from dynstore.typing import Array, Frame

__all__ = ["ReadableGraph"]


class ReadableGraph(ABC):
    """A graph that can be asked; no question changes its contents.

    A kind of graph says how it looks up edges (:meth:`_look_up`) and how it counts them (:meth:`_degrees`), and answers
    what is abstract here.
    """

    # ------------------------------------------------------------------ what it is

    @property
    @abstractmethod
    def version(self) -> int:
        """The version number; every update adds one."""

    @property
    @abstractmethod
    def device(self) -> str:
        """The name of the device: "cpu" or "cuda"."""

    @abstractmethod
    def is_directed(self) -> bool:
        """Return True if (u, v) and (v, u) are different edges."""

    @abstractmethod
    def is_weighted(self) -> bool:
        """Return True if edges have weights."""

    @abstractmethod
    def is_renumbered(self) -> bool:
        """Return True if vertices have ids of any kind (``renumber=True``)."""

    @abstractmethod
    def number_of_vertices(self) -> int:
        """Return V: the highest id seen + 1, or with ``renumber=True`` the number of ids."""

    def number_of_nodes(self) -> int:
        """Return V, as :meth:`number_of_vertices`: the name in NetworkX."""
        return self.number_of_vertices()

    def __len__(self) -> int:
        """Return V, as ``len`` of a NetworkX graph."""
        return self.number_of_vertices()

    def __bool__(self) -> bool:
        """Return True, also for a graph without vertices."""
        return True

    @abstractmethod
    def number_of_edges(self) -> int:
        """Return the number of edges; an edge of an undirected graph counts once."""

    @abstractmethod
    def vertex_ids(self) -> Array:
        """Return the id of each vertex, in the order of the rows of all results.

        Returns
        -------
        array, shape (V,)
            0 to V - 1. With ``renumber=True``, int64 ids or a NumPy array of strings.
        """

    # ------------------------------------------------------------------ edges

    @abstractmethod
    def edge_table(self) -> Frame:
        """Return the edges as a frame: the :meth:`edge_columns`.

        Returns
        -------
        frame
            Columns ``source``, ``destination`` and, for a weighted graph, ``weight``; then the extra columns.
        """

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
        return self._look_up("has_edges", edges, source, destination, weights=False)

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
        return self._look_up("edge_weights", edges, source, destination, weights=True)

    @abstractmethod
    def _look_up(self, caller: str, edges: Any, source: str, destination: str, weights: bool) -> Any:
        """Return whether edges are there, or their weights."""

    # ------------------------------------------------------------------ degrees

    @overload
    def out_degree(self, vertices: None = ...) -> Frame: ...

    @overload
    def out_degree(self, vertices: int | str) -> int: ...

    @overload
    def out_degree(self, vertices: Any) -> Frame: ...

    def out_degree(self, vertices: Any = None) -> int | Frame:
        """Return the number of edges from each vertex.

        Parameters
        ----------
        vertices : int or str, or a list, set, array or series of them, optional
            By default all vertices.

        Returns
        -------
        int or frame
            As :meth:`degree`.
        """
        return self._degrees("out_degree", vertices, (False,))

    @overload
    def in_degree(self, vertices: None = ...) -> Frame: ...

    @overload
    def in_degree(self, vertices: int | str) -> int: ...

    @overload
    def in_degree(self, vertices: Any) -> Frame: ...

    def in_degree(self, vertices: Any = None) -> int | Frame:
        """Return the number of edges to each vertex.

        Parameters
        ----------
        vertices : int or str, or a list, set, array or series of them, optional
            By default all vertices.

        Returns
        -------
        int or frame
            As :meth:`degree`.
        """
        return self._degrees("in_degree", vertices, (True,))

    @overload
    def degree(self, vertices: None = ...) -> Frame: ...

    @overload
    def degree(self, vertices: int | str) -> int: ...

    @overload
    def degree(self, vertices: Any) -> Frame: ...

    def degree(self, vertices: Any = None) -> int | Frame:
        """Return the sum of in-degree and out-degree, as cuGraph does: twice the neighbours in an undirected graph.

        NetworkX counts an undirected edge once in ``degree``. That is :meth:`out_degree` here, except for self-loops:
        they count once in :meth:`out_degree`, and twice in NetworkX.

        Parameters
        ----------
        vertices : int or str, or a list, set, array or series of them, optional
            By default all vertices.

        Returns
        -------
        int or frame
            For one vertex its degree. Else a frame with the columns ``vertex`` and ``degree``, in the order given.

        Raises
        ------
        InputError
            If a vertex is not in the graph.

        Notes
        -----
        For one vertex of a directed graph, edges from it are read from its row. Edges to it are searched among all
        edges, unless the graph has in-edges already (see :meth:`predecessors`).

        Examples
        --------
        >>> import dynstore
        >>> G = dynstore.DynamicGraph(device="cpu")
        >>> _ = G.insert_edges(([0, 0, 1], [1, 2, 2]))
        >>> G.degree(1), G.out_degree(0), G.in_degree(0)
        (2, 2, 0)
        >>> G.degree([2, 0])
           vertex  degree
        0       2       2
        1       0       2
        """
        return self._degrees("degree", vertices, (False, True))

    @abstractmethod
    def _degrees(self, caller: str, vertices: Any, orientations: tuple[bool, ...]) -> int | Frame:
        """Return the sums of the row lengths in some orientations (transposed or not)."""
