"""The questions about events that graphs, views and pins answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.arguments import check_name
from dynstore.errors import InputError, InputTypeError
from dynstore.input.extra_columns import read_values
from dynstore.input.frames import frame_library, make_frame
from dynstore.interrupts import MemoryChecked
from dynstore.lookup import provided

if TYPE_CHECKING:
    from dynstore.graph.core import GraphCore
    from dynstore.typing import Array, Frame

__all__ = ["EventQuestions", "refuse_multigraph", "refuse_weights"]

DIRECTIONS = ("out", "in", "both")


def refuse_multigraph(caller: str, G: Any) -> None:
    """Refuse a multigraph, or a view of one, where it is not taken yet."""
    if G.core.shows_events:
        raise InputError(f"{caller}: G is a multigraph, which it does not take yet; wanted G.simple(...).copy()")


def refuse_weights(caller: str, core: GraphCore) -> None:
    """Refuse to look for the weight of a pair that may have several edges."""
    if core.shows_events:
        raise InputError(
            f"{caller}: a pair of vertices may have several edges here, so it has no weight; wanted G.simple(...) or "
            "G.events(...)"
        )


class EventQuestions:
    """The part of graphs and their views that is about events; see ``docs/guides/events.md``."""

    core: GraphCore

    def is_multigraph(self) -> bool:
        """Return True if a pair of vertices may have several edges (``multigraph=True``)."""
        return self.core.shows_events

    def events(self, u: Any, v: Any, start: Any = None, end: Any = None) -> Frame:
        """Return the edges from one vertex to another, of a multigraph; in an undirected one, those between them.

        Parameters
        ----------
        u, v : int or str
            The vertices.
        start, end : int, float or date-time, optional
            Only edges with ``start <= time < end``, in a graph with ``timestamps``. None is no bound.

        Returns
        -------
        frame
            All columns of the edges, ``edge_id`` last, in order of time, those of one time in order of arrival.

        Raises
        ------
        InputError
            If a vertex is not in the graph, or the graph is no multigraph.

        Examples
        --------
        >>> import dynstore
        >>> G = dynstore.DynamicGraph(multigraph=True, weighted=True, timestamps="int64", device="cpu")
        >>> _ = G.insert_edges(([0, 0, 1], [1, 1, 2], [9.5, 2.5, 7.0], [30, 20, 10]))
        >>> G.events(0, 1)
           source  destination  weight  time  edge_id
        0       0            1     2.5    20        1
        1       0            1     9.5    30        0
        """
        core = self._events("events")
        ends = [core.ids.number_of("events", vertex, core.num_vertices) for vertex in (u, v)]
        src, dst = (core.backend.full(1, end, core.vertex_dtype) for end in ends)
        found = core.find_records(src, dst)
        rows = core.rows_of_records(found[found >= 0])
        return self._frame("events", rows, start, end)

    def events_of(self, vertex: Any, start: Any = None, end: Any = None, direction: str = "out") -> Frame:
        """Return the edges of one vertex of a multigraph.

        Parameters
        ----------
        vertex : int or str
        start, end : int, float or date-time, optional
            As for :meth:`events`.
        direction : {"out", "in", "both"}
            Edges from the vertex, to it, or both; a self-loop once. In an undirected graph all are the same.

        Returns
        -------
        frame
            As :meth:`events`.

        Raises
        ------
        InputError
            If the vertex is not in the graph, or the graph is no multigraph.

        Notes
        -----
        "in" and "both" on a directed graph make the table of in-edges, as :meth:`predecessors` does.

        Examples
        --------
        >>> import dynstore
        >>> G = dynstore.DynamicGraph(multigraph=True, device="cpu")
        >>> _ = G.insert_edges(([0, 2, 1], [1, 0, 2]))
        >>> G.events_of(0, direction="both")
           source  destination  edge_id
        0       0            1        0
        1       2            0        1
        """
        core, xp = self._events("events_of"), self.core.backend.xp
        check_name("events_of", "direction", direction, DIRECTIONS)
        number = core.ids.number_of("events_of", vertex, core.num_vertices)
        sides = {"out": (False,), "in": (True,), "both": (False, True)}[direction if core.directed else "out"]
        parts = [core.records_of_row(number, transposed) for transposed in sides]
        records = parts[0] if len(parts) == 1 else xp.unique(xp.concatenate(parts))
        return self._frame("events_of", core.rows_of_records(records), start, end)

    def edges_by_id(self, ids: Any) -> Frame:
        """Return edges of a multigraph by their ids.

        Parameters
        ----------
        ids : int, list, array or series
            Ids of edges.

        Returns
        -------
        frame
            A row for each id, in the order given; columns as :meth:`events`.

        Raises
        ------
        InputError
            If an id is that of no edge, or the graph is no multigraph.

        Examples
        --------
        >>> import dynstore
        >>> G = dynstore.DynamicGraph(multigraph=True, device="cpu")
        >>> _ = G.insert_edges(([0, 0], [1, 1]), edge_id=[700, 300])
        >>> G.edges_by_id([300])
           source  destination  edge_id
        0       0            1      300
        """
        core = self._events("edges_by_id")
        given = [ids] if isinstance(ids, int | np.integer) and not isinstance(ids, bool) else ids
        if ids is None:
            raise InputTypeError("edges_by_id: ids is None; wanted ids of edges")
        wanted = read_values("edges_by_id", core.backend, "ids", given, np.dtype(np.int64))
        rows = core.find_ids(wanted)
        absent = rows < 0
        if bool(absent.any()):
            raise InputError(f"edges_by_id: no edge has the id {int(wanted[int(absent.argmax())])}")
        return self._made(rows)

    def where(self, **values: Any) -> Any:
        """Return a view of the edges of a multigraph whose columns have some values.

        Parameters
        ----------
        **values
            A column and its value, or a list, set or array of values: extra columns, ``weight``, ``time``, ``edge_id``.
            An edge has to have one of the values of each column.

        Returns
        -------
        GraphView
            As :meth:`DynamicGraph.window`. Views have ``where`` and ``window``, too.

        Raises
        ------
        InputError
            If there is no such column, or the graph is no multigraph.

        Examples
        --------
        >>> import dynstore
        >>> G = dynstore.DynamicGraph(multigraph=True, edge_columns={"kind": "int8"}, device="cpu")
        >>> _ = G.insert_edges(([0, 0, 1], [1, 1, 2], [3, 4, 3]))
        >>> G.where(kind=3).edge_table()
           source  destination  kind  edge_id
        0       0            1     3        0
        1       1            2     3        2
        """
        self._events("where")
        return provided("events").where_of(self, values)

    def simple(self, aggregate: str | None = None) -> Any:
        """Return the graph of pairs of a multigraph: one edge a pair, with an aggregate of its edges' weights.

        Parameters
        ----------
        aggregate : {"sum", "count", "mean", "last", "first", "min", "max"}, optional
            "last" and "first" go by time, edges of one time by arrival. By default "sum", or "count" in a graph without
            weights.

        Returns
        -------
        SimpleGraph
            It follows the graph, and answers of it can be tracked. That of a view can be read as long as the view.

        Raises
        ------
        InputError
            If the graph is no multigraph, or has no weights to aggregate.

        Notes
        -----
        Sums are kept in two float64 numbers and brought up to date, so they are right to the last place. "last",
        "first", "min" and "max" are made anew for the pairs of each update, from all edges of these pairs.

        Examples
        --------
        >>> import dynstore
        >>> G = dynstore.DynamicGraph(multigraph=True, device="cpu")
        >>> _ = G.insert_edges([(0, 1), (0, 1), (1, 2)])
        >>> G.simple("count").edge_table()
           source  destination  weight
        0       0            1     2.0
        1       1            2     1.0
        """
        core, module = self._events("simple"), provided("simple")
        return module.simple_graph(self, module.check_aggregate(core, aggregate))

    # ------------------------------------------------------------------ parts

    def _events(self, caller: str) -> Any:
        """Return the core of a multigraph; refuse a graph that is none."""
        if not self.core.shows_events:
            raise InputError(f"{caller}: the graph has one edge a pair; make it with multigraph=True")
        return self.core

    def _frame(self, caller: str, rows: Array, start: Any, end: Any) -> Frame:
        """Return events of some time, in order of time; ``rows``: in order of arrival."""
        core: Any = self.core
        if start is not None or end is not None:
            rows = provided("events").in_bounds(core, caller, rows, start, end)
        return self._made(core.in_order(rows))

    def _made(self, rows: Array) -> Frame:
        core: Any = self.core
        with MemoryChecked("events"):
            library = frame_library(core.backend, core.frames)
            return make_frame(core.backend, core.columns_of_rows(rows, library), core.frames)
