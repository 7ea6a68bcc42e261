"""Queries about vertices and what is around them: neighbours, degrees, the vertices within some hops.

The search behind :meth:`Neighborhoods.k_hop` is in :mod:`dynstore.algorithms`, a higher layer, which is looked up when
it is called.
"""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from dynstore.graph.queries import Queries
from dynstore.input.frames import frame_library, make_frame
from dynstore.lookup import provided

if TYPE_CHECKING:
    from dynstore.stores.base import Store
    from dynstore.typing import Array, Frame

__all__ = ["Neighborhoods"]


class Neighborhoods(Queries):
    """The part of :class:`dynstore.DynamicGraph` that answers for single vertices, or for some."""

    if TYPE_CHECKING:  # `Orientations` has it

        def _in_store(self) -> Store: ...

    @overload
    def successors(self, vertex: Any, weights: Literal[False] = ...) -> Array: ...

    @overload
    def successors(self, vertex: Any, weights: Literal[True]) -> tuple[Array, Array]: ...

    def successors(self, vertex: Any, weights: bool = False) -> Array | tuple[Array, Array]:
        """Return the destinations of all edges from a vertex.

        Parameters
        ----------
        vertex : int or str
            The vertex.
        weights : bool
            If True, return the weights of these edges, too.

        Returns
        -------
        array, shape (D,), or with ``weights`` a pair of such arrays
            The ids, ascending, and the weights in the weight dtype; they are 1 in an unweighted graph.

        Raises
        ------
        InputError
            If the vertex is not in the graph.

        Examples
        --------
        >>> import dynstore
        >>> G = dynstore.DynamicGraph(weighted=True, device="cpu")
        >>> _ = G.insert_edges(([0, 0], [2, 1], [0.5, 4.0]))
        >>> G.successors(0).tolist()
        [1, 2]
        >>> [column.tolist() for column in G.successors(0, weights=True)]
        [[1, 2], [4.0, 0.5]]
        """
        return self._row("successors", vertex, weights, transposed=False)

    @overload
    def neighbors(self, vertex: Any, weights: Literal[False] = ...) -> Array: ...

    @overload
    def neighbors(self, vertex: Any, weights: Literal[True]) -> tuple[Array, Array]: ...

    def neighbors(self, vertex: Any, weights: bool = False) -> Array | tuple[Array, Array]:
        """Return the :meth:`successors`, as ``neighbors`` of NetworkX and cuGraph does.

        Parameters
        ----------
        vertex : int or str
            The vertex.
        weights : bool
            If True, return the weights of these edges, too.

        Returns
        -------
        array, shape (D,), or with ``weights`` a pair of such arrays
            As :meth:`successors`.
        """
        return self._row("neighbors", vertex, weights, transposed=False)

    @overload
    def predecessors(self, vertex: Any, weights: Literal[False] = ...) -> Array: ...

    @overload
    def predecessors(self, vertex: Any, weights: Literal[True]) -> tuple[Array, Array]: ...

    def predecessors(self, vertex: Any, weights: bool = False) -> Array | tuple[Array, Array]:
        """Return the sources of all edges to a vertex.

        The first call on a directed graph makes a table of in-edges. Updates keep it from then on.

        Parameters
        ----------
        vertex : int or str
            The vertex.
        weights : bool
            If True, return the weights of these edges, too.

        Returns
        -------
        array, shape (D,), or with ``weights`` a pair of such arrays
            As :meth:`successors`.
        """
        return self._row("predecessors", vertex, weights, transposed=True)

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

    def row_lengths(self, transposed: bool = False) -> Array:
        """Return the number of edges in each row of :meth:`snapshot`.

        Parameters
        ----------
        transposed : bool
            Count the in-edges of each vertex instead of its out-edges. This does not make the table of in-edges.

        Returns
        -------
        array, shape (V,), in the vertex dtype
        """
        if not self._lacks_in_edges(transposed):
            return self._oriented(transposed).row_lengths()
        num_vertices = self._out.num_vertices
        counts = self.backend.zeros(num_vertices, np.int64)
        for destinations, held in self._out.destinations():
            there = destinations if held is None else destinations[held]
            counts += self.backend.xp.bincount(there, minlength=num_vertices)
        return counts.astype(self.vertex_dtype)

    def k_hop(self, vertices: Any, k: int) -> Frame:
        """Find the vertices that can be reached by at most ``k`` edges, in the direction of the edges.

        Parameters
        ----------
        vertices : int or str, or a list, set, array or series of them
            The vertices to begin at, at least one.
        k : int
            The most edges, 0 or more.

        Returns
        -------
        frame
            Columns ``vertex``, ascending, and ``distance``: the number of edges from the nearest of ``vertices``, in
            the vertex dtype. The vertices themselves are in it, with 0; those farther away are not.

        Raises
        ------
        InputError
            If a vertex is not in the graph, no vertex is given, or ``k`` is below 0.

        Examples
        --------
        >>> import dynstore
        >>> G = dynstore.DynamicGraph(device="cpu")
        >>> _ = G.insert_edges(([3, 2, 1], [2, 1, 0]))
        >>> G.k_hop(3, 2)
           vertex  distance
        0       1         2
        1       2         1
        2       3         0
        """
        found: Frame = provided("hops").k_hop(self, vertices, k)
        return found

    # ------------------------------------------------------------------ inside

    def _row(self, caller: str, vertex: Any, weighted: bool, transposed: bool) -> Any:
        number, num_vertices = self.ids.number_of(caller, vertex, self.number_of_vertices()), self.number_of_vertices()
        store, xp = self._oriented(transposed), self.backend.xp
        row = store.row(number)
        ids = self.ids.of(row, num_vertices) if self.ids.renumbered else row
        if not weighted:
            if self.ids.renumbered:
                ids.sort()
            return ids
        weights = self._weights_of(store.look_up(xp.full(row.shape[0], number, dtype=row.dtype), row)[1])
        if weights is None:
            weights = xp.ones(row.shape[0], dtype=self.weight_dtype)
        order = ids.argsort()
        return ids[order], weights[self.backend.asarray(order)]

    def _oriented(self, transposed: bool) -> Store:
        return self._in_store() if transposed and self._directed else self._out

    def _degrees(self, caller: str, vertices: Any, orientations: tuple[bool, ...]) -> int | Frame:
        """Return the sums of the row lengths in some orientations (transposed or not)."""
        num_vertices = self.number_of_vertices()
        if vertices is not None and np.isscalar(vertices):
            number = self.ids.number_of(caller, vertices, num_vertices)
            return sum(self._row_count(number, transposed) for transposed in orientations)
        numbers = None if vertices is None else self.ids.numbers_of(caller, vertices, num_vertices)
        degrees = reduce(add, [self.row_lengths(transposed) for transposed in orientations])
        library = frame_library(self.backend, self.frames)
        if numbers is None:
            ids = self.ids.column(num_vertices, library)
            return make_frame(self.backend, {"vertex": ids, "degree": degrees}, self.frames)
        ids = self.ids.column(num_vertices, library, numbers.astype(self.vertex_dtype))
        return make_frame(self.backend, {"vertex": ids, "degree": degrees[numbers]}, self.frames)

    def _lacks_in_edges(self, transposed: bool) -> bool:
        """Whether in-edges are asked for and not kept: to make them takes longer than a search among all edges."""
        return transposed and self._directed and self._in is None

    def _row_count(self, number: int, transposed: bool) -> int:
        if self._lacks_in_edges(transposed):
            count = 0
            for destinations, held in self._out.destinations():
                equal = destinations == number
                count += int(self.backend.xp.count_nonzero(equal if held is None else equal & held))
            return count
        return int(self._oriented(transposed).row(number).shape[0])
