"""The calls that change a graph. What they do is in the files beside; each is one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynstore.arguments import check_flag, check_name, check_number
from dynstore.config import check_share
from dynstore.errors import InputError, InputTypeError
from dynstore.graph.events.changing import (
    delete_events,
    delete_events_of,
    expire_events,
    insert_events,
    update_events,
)
from dynstore.graph.events.reading import GivenDeletions, GivenEvents
from dynstore.graph.exchanges import GivenInsertions, expire, update
from dynstore.graph.insertions import Request, delete, insert
from dynstore.graph.local import LocalGraph
from dynstore.graph.operations import apply
from dynstore.graph.vertices import clear, delete_vertices, insert_vertices, reorder

if TYPE_CHECKING:
    from dynstore.graph.core import GraphCore
    from dynstore.operations.results import OperationResults
    from dynstore.typing import OnDuplicate, ReorderReport, UpdateReport

__all__ = ["MutableGraph"]

ON_DUPLICATE = ("replace", "add", "append")


def _check_kind(core: GraphCore, caller: str, on_duplicate: str, edge_id: Any) -> None:
    """Refuse what is for graphs of the other kind."""
    if core.shows_events and on_duplicate != "replace":
        raise InputError(
            f"{caller}: on_duplicate is {on_duplicate!r}, but in a multigraph each row is an edge; leave it out"
        )
    if edge_id is not None and not core.shows_events:
        raise InputError(f"{caller}: edge_id was given, but edges have no ids; make the graph with multigraph=True")


def _refuse_ids(caller: str, edge_ids: Any, which: str) -> None:
    """Refuse what is for multigraphs."""
    if edge_ids is not None or which != "all":
        name = "which" if edge_ids is None else "edge_ids"
        raise InputError(f"{caller}: {name} was given, but the graph has one edge a pair; make it with multigraph=True")


class MutableGraph(LocalGraph):
    """A graph in the memory of this process that takes updates in place. An update that raises changes nothing."""

    def insert_edges(
        self,
        edges: Any,
        source: str = "source",
        destination: str = "destination",
        weight: str | None = None,
        on_duplicate: OnDuplicate = "replace",
        default_weight: float | None = None,
        time: Any = None,
        edge_id: Any = None,
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
        edge_id : str or array, shape (B,), optional
            In a multigraph: the frame's column of ids of edges, or the ids themselves, int64. Each is new in the graph.
            Without them ids are counted up; ``first_id`` of the report is the first.

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
        core: Any = self.core
        check_name("insert_edges", "on_duplicate", on_duplicate, ON_DUPLICATE)
        if on_duplicate == "append" and not (core.weighted and core.out.appends):
            kind = "weighted" if core.weighted else "unweighted"
            raise InputError(
                f"insert_edges: on_duplicate is 'append', the graph is {kind} in store {core.store_name!r}; "
                "wanted a weighted graph in store 'lpma'"
            )
        if default_weight is not None:
            default_weight = check_number("insert_edges", "default_weight", default_weight)
        if core.shows_events or edge_id is not None:
            _check_kind(core, "insert_edges", on_duplicate, edge_id)
            return insert_events(core, GivenEvents(edges, (source, destination, weight), time, edge_id, default_weight))
        request = Request("insert_edges", edges, (source, destination, weight), core.stored_weights)
        return insert(core, request, on_duplicate, default_weight, time)

    def delete_edges(
        self,
        edges: Any = None,
        source: str = "source",
        destination: str = "destination",
        *,
        edge_ids: Any = None,
        which: str = "all",
    ) -> UpdateReport:
        """Delete a batch of edges. Edges that are not in the graph are counted as absent; they are no error.

        Parameters
        ----------
        edges, source, destination
            As for :meth:`insert_edges`. Weights are ignored.
        edge_ids : list, array or series, optional
            In a multigraph, in place of ``edges``: the ids of the edges to delete.
        which : {"all", "oldest", "newest"}
            In a multigraph, for ``edges``: all edges of the pairs; or for each row one edge of its pair, the oldest or
            the newest by time, of one time by arrival.

        Returns
        -------
        UpdateReport
            ``deleted`` and ``absent`` count the edges.

        Raises
        ------
        InputError, OutOfMemoryError
            As :meth:`insert_edges`.
        """
        core: Any = self.core
        if core.shows_events:
            return delete_events(core, GivenDeletions(edges, (source, destination, None), edge_ids, which))
        _refuse_ids("delete_edges", edge_ids, which)
        if edges is None:
            raise InputTypeError("delete_edges: edges is None; wanted a frame, a tuple of columns or a list of pairs")
        return delete(core, Request("delete_edges", edges, (source, destination, None), None))

    def update(
        self,
        insert: Any = None,
        delete: Any = None,
        expire_before: Any = None,
        *,
        source: str = "source",
        destination: str = "destination",
        weight: str | None = None,
        time: Any = None,
        default_weight: float | None = None,
        on_duplicate: OnDuplicate = "replace",
        expire_last: bool = False,
        edge_id: Any = None,
        edge_ids: Any = None,
        which: str = "all",
        drop_vertices: bool = False,
    ) -> UpdateReport:
        """Expire and delete edges, and insert others, as one version.

        It does what three calls would do in this order: :meth:`expire`, :meth:`delete_edges`, :meth:`insert_edges`. So
        an edge that is deleted and inserted is there afterwards with the weight of the insertion.

        Parameters
        ----------
        insert, delete : frame, tuple or list, optional
            The two batches, each as :meth:`insert_edges` takes it.
        expire_before : int or date-time, optional
            With ``timestamps``: edges whose last time is before this are deleted, older rows of ``insert`` ignored.
        source, destination, weight : str
            The columns of both frames.
        time, default_weight
            See :meth:`insert_edges`.
        on_duplicate : {"replace", "add"}
            See :meth:`insert_edges`.
        expire_last : bool
            Expire after the insertion: no row is ignored; an old one gives its weight to an edge that stays.
        edge_id
            See :meth:`insert_edges`.
        edge_ids, which
            See :meth:`delete_edges`; ``edge_ids`` stands in place of ``delete``.
        drop_vertices : bool
            In a multigraph with ``reuse_ids=True``: delete all vertices that have no edge after this update, as
            :meth:`delete_vertices` does. Takes time for each vertex of the graph.

        Returns
        -------
        UpdateReport
            The sums of all three parts. ``late`` counts the ignored rows.

        Raises
        ------
        InputError
            For bad input in either batch. The graph is unchanged.
        OutOfMemoryError
            If memory runs out. The graph is unchanged. Mostly the edges are deleted before the insertion is planned; if
            it fails, they are inserted again. ``gpma+`` and ``merge`` need no memory for that. In other stores memory
            may run out a second time: then the edges stay deleted, which is a version of its own, and the message says
            so.

        Examples
        --------
        >>> import dynstore
        >>> G = dynstore.DynamicGraph.from_edges([(0, 1), (1, 2)], device="cpu")
        >>> report = G.update(insert=[(2, 3)], delete=[(0, 1)])
        >>> report.inserted, report.deleted, G.version
        (1, 1, 2)
        """
        check_name("update", "on_duplicate", on_duplicate, ON_DUPLICATE[:2])
        if default_weight is not None:
            default_weight = check_number("update", "default_weight", default_weight)
        if isinstance(expire_before, str):
            raise InputTypeError(
                f"update: expire_before is {expire_before!r}; wanted a time. Name columns by keyword, as source=..."
            )
        check_flag("update", "expire_last", expire_last)
        check_flag("update", "drop_vertices", drop_vertices)
        core: Any = self.core
        _check_kind(core, "update", on_duplicate, edge_id)
        if core.shows_events:
            names = source, destination, weight
            events = GivenEvents(insert, names, time, edge_id, default_weight)
            deletions = GivenDeletions(delete, names, edge_ids, which)
            return update_events(core, events, deletions, expire_before, expire_last, drop_vertices)
        _refuse_ids("update", edge_ids, which)
        if drop_vertices:
            raise InputError("update: drop_vertices is True, and the graph has one edge a pair; wanted a multigraph")
        given = GivenInsertions(insert, (source, destination, weight), time, default_weight, on_duplicate)
        return update(core, given, delete, expire_before, expire_last)

    def expire(self, before: Any) -> UpdateReport:
        """Delete the edges whose last time is before a bound, in a graph with ``timestamps``.

        Parameters
        ----------
        before : int or date-time
            The bound. Edges with this time or a later one stay.

        Returns
        -------
        UpdateReport
            ``expired`` counts the edges.

        Raises
        ------
        InputError
            If the graph keeps no times, or ``before`` is not a time.
        OutOfMemoryError
            If memory runs out. The graph is unchanged.

        Examples
        --------
        >>> import dynstore
        >>> G = dynstore.DynamicGraph(timestamps="int64", device="cpu")
        >>> _ = G.insert_edges(([0, 1, 0], [1, 2, 1], [10, 11, 12]))
        >>> G.expire(12).expired
        1
        >>> G.edge_table()
           source  destination  time
        0       0            1    12
        """
        core: Any = self.core
        return expire_events(core, before) if core.shows_events else expire(core, before)

    def apply(
        self,
        ops: Any,
        op: str = "op",
        time: str | None = "time",
        source: str = "source",
        destination: str = "destination",
        weight: str | None = None,
        k: str = "k",
        on_duplicate: OnDuplicate = "replace",
        default_weight: float | None = None,
    ) -> OperationResults:
        """Run insertions, deletions and queries in order of time, in one batch.

        The answers, and the graph at the end, are the same as if the rows ran one by one. The graph is written once and
        gets one new version. Operations with equal times run in order of their rows.

        Parameters
        ----------
        ops : frame or dict
            B rows, one for each operation: a pandas, pyarrow, polars or cuDF frame, any Arrow stream, or a dict of
            names and columns, which are arrays or lists of B items. In rows that do not need a column, it may hold
            anything, also nulls.
        op : str
            The column of operations: strings, or numbers of :class:`dynstore.Operation`.

            - "insert" and "delete": an edge.
            - "has_edge": is this edge in the graph?
            - "successors", "predecessors": the vertices at the other ends of the edges from ``source``, or of those to
              it.
            - "k_hop": the vertices within ``k`` edges of ``source``, as :meth:`k_hop`.
        time : str, optional
            The column of times: numbers, or date-times. None: the rows are in order of time.
        source, destination : str
            The columns of ids. A query about a vertex has it in ``source``, and needs no ``destination``.
        weight : str, optional
            The column of weights of insertions. By default ``weight``, if there is one and the graph is weighted.
        k : str
            The column with the number of hops of each "k_hop", 0 or more.
        on_duplicate : {"replace"}
            An edge that is inserted again gets the new weight. Other values are refused here.
        default_weight : float, optional
            The weight of all insertions, if there is no column of weights.

        Returns
        -------
        OperationResults
            The report and the answers.

        Raises
        ------
        InputError
            For bad input in any row. The graph is unchanged.
        OutOfMemoryError
            If memory runs out. The graph is unchanged.

        Notes
        -----
        In a multigraph "delete" deletes all edges of its pair, neighbours come once and without weights, and ids are
        counted in the order in which the operations run.

        A query for an id that is not yet a vertex finds nothing. A batch of queries alone makes no new version. The
        first "predecessors" on a directed graph makes the table of in-edges.

        The method is Opera, of L. Zou, F. Zhang, Y. Lin, Y. Yu, "An Efficient Data Structure for Dynamic Graph on
        GPUs", IEEE TKDE 35(11), 2023. Opera writes all versions of an edge into the graph. Here they stay in the batch,
        sorted by edge and time; a query reads the graph before the batch and corrects it by the earlier rows.

        Examples
        --------
        >>> import dynstore
        >>> G = dynstore.DynamicGraph(device="cpu")
        >>> found = G.apply(
        ...     {
        ...         "op": ["insert", "has_edge", "delete", "has_edge", "insert", "successors"],
        ...         "time": [1, 2, 3, 4, 5, 6],
        ...         "source": [0, 0, 0, 0, 0, 0],
        ...         "destination": [1, 1, 1, 1, 2, None],
        ...     }
        ... )
        >>> found.has_edge
           query  exists
        0      1    True
        1      3   False
        >>> found.successors
           query  vertex
        0      5       2
        >>> found.report.inserted, G.version
        (1, 1)
        """
        if self.core.shows_events and self.core.journal is not None:
            raise InputError("apply: a database does not log it for a multigraph yet; wanted update()")
        if on_duplicate != "replace":
            raise InputError(
                f"apply: on_duplicate is {on_duplicate!r}; wanted 'replace'. Sums of weights are for insert_edges "
                "and update"
            )
        if default_weight is not None:
            default_weight = check_number("apply", "default_weight", default_weight)
        return apply(self.core, ops, op, time, (source, destination, weight), k, default_weight)

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
        return insert_vertices(self.core, ids)

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
        core: Any = self.core
        return delete_events_of(core, ids) if core.shows_events else delete_vertices(core, ids)

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
        return reorder(self.core, limit)

    def clear(self) -> None:
        """Remove all edges and all vertices."""
        clear(self.core)
