"""Insertions, deletions and queries in one batch: answered in order of time, written as one version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.arguments import check_number
from dynstore.errors import InputError, LimitError
from dynstore.graph.exchanges import Exchanges
from dynstore.graph.updates import Request
from dynstore.ids.base import IdPlan
from dynstore.input.columns import EdgeColumns
from dynstore.input.frames import frame_library, make_frame
from dynstore.interrupts import MemoryChecked
from dynstore.operations.history import MOST_BITS, History, Neighbors, Writes, search
from dynstore.operations.reading import OperationTable
from dynstore.operations.results import Operation, OperationResults
from dynstore.typing import UpdateReport

if TYPE_CHECKING:
    from dynstore.typing import Array, Frame, OnDuplicate

__all__ = ["Inserted", "Operations", "Script"]

CALLER = "apply"
# What messages name whose row numbers count these rows only.
INSERTIONS = "apply, among the insertions"
OTHERS = "apply, among the deletions and queries"


class Inserted(NamedTuple):
    """The insertions of a batch, in order of rows.

    Attributes
    ----------
    rows : array, shape (I,), int64
        Their numbers in the batch.
    columns : EdgeColumns
    extra : dict of arrays, or None
        The extra columns of edges.
    naming : IdPlan
    """

    rows: Array
    columns: EdgeColumns
    extra: dict[str, Array] | None
    naming: IdPlan


class Script(NamedTuple):
    """A batch of operations under the numbers of vertices that it leads to.

    Attributes
    ----------
    table : OperationTable
    inserted : Inserted
    src, dst : array, shape (B,), int64
        Numbers by row; those that a row does not need are 0. Ids that are no vertices have numbers from V on.
    limits : array, shape (B,), int64
        The most hops.
    writes : Writes
    places : array, shape (W,), int64
        Where the values of each write are among those inserted; -1 for a deletion.
    bits : int
        All of ``src`` and ``dst`` are below ``2**bits``.
    """

    table: OperationTable
    inserted: Inserted
    src: Array
    dst: Array
    limits: Array
    writes: Writes
    places: Array
    bits: int


class Operations(Exchanges):
    """The part of :class:`dynstore.DynamicGraph` that runs updates and queries in one batch."""

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
        if on_duplicate != "replace":
            raise InputError(
                f"{CALLER}: on_duplicate is {on_duplicate!r}; wanted 'replace'. Sums of weights are for insert_edges "
                "and update"
            )
        if default_weight is not None:
            default_weight = check_number(CALLER, "default_weight", default_weight)
        with MemoryChecked(CALLER), self._lock:
            table = OperationTable(CALLER, self.backend, ops, op, time)
            inserted = self._read_insertions(table, (source, destination, weight), time, default_weight)
            script = self._read_script(table, inserted, (source, destination, k))
            history = self._history(script)
            answers = self._answers(script, history)
        return OperationResults(self._run_writes(script, history), *answers)

    # ------------------------------------------------------------------ reading

    def _read_insertions(
        self,
        table: OperationTable,
        names: tuple[str, str, str | None],
        time: str | None,
        default_weight: float | None,
    ) -> Inserted:
        source, destination, weight = names
        rows = table.rows_of(Operation.INSERT)
        edges: tuple[Any, ...] = ([], [], []) if self._weighted else ([], [])
        more: list[Any] = []
        times: Any = None
        if self.timestamps is not None:
            if time is None:
                raise InputError(f"{CALLER}: time is None, and the graph keeps times; wanted the name of their column")
            times = table.values("time", time, rows)
        if rows.shape[0]:
            edges = table.values("source", source, rows), table.integers("destination", destination, rows)
            if weight is None and self._weighted and "weight" in table.names:
                weight = "weight"
            if weight is not None:
                edges = *edges, table.values("weight", weight, rows)
            others = list(self.edge_dtypes)[: -1 if times is not None else None]  # times are the last
            more = [table.values("edge_columns", name, rows) for name in others]
        edges, extra = self.take_extra_columns(INSERTIONS, (*edges, *more), (source, destination, None), times)
        weight_dtype = self.weight_dtype if self._weighted else None
        request = self._opened(Request(INSERTIONS, edges, ("source", "destination", None), weight_dtype))
        columns, naming = self.ids.plan_edges(*self.with_weights(request), self.number_of_vertices())
        naming.read_from = edges[:2]
        return Inserted(rows, self.fill_weights(CALLER, columns, default_weight), extra, naming)

    def _read_script(self, table: OperationTable, inserted: Inserted, names: tuple[str, str, str]) -> Script:
        source, destination, k = names
        backend, xp, count = self.backend, self.backend.xp, table.kinds.shape[0]
        src, dst, limits = (backend.zeros(count, np.int64) for _ in range(3))
        src[inserted.rows], dst[inserted.rows] = inserted.columns.src, inserted.columns.dst
        others = table.rows_of(*(kind for kind in Operation if kind != Operation.INSERT))
        pairs = table.rows_of(Operation.DELETE, Operation.HAS_EDGE)
        if others.shape[0]:
            columns = [(source, table.values("source", source, others))]
            if pairs.shape[0]:
                columns.append((destination, table.integers("destination", destination, pairs)))
            found = self.ids.find_planned(OTHERS, columns, self.number_of_vertices(), inserted.naming)
            src[others] = found[0]
            if pairs.shape[0]:
                dst[pairs] = found[1]
        hops = table.rows_of(Operation.K_HOP)
        if hops.shape[0]:
            limits[hops] = table.counts("k", k, hops)
        rows = table.rows_of(Operation.INSERT, Operation.DELETE)
        rows = rows[xp.argsort(table.moments[rows])]
        inserts = table.kinds[rows] == int(Operation.INSERT)
        writes = Writes(src[rows], dst[rows], table.moments[rows], inserts)
        places = xp.where(inserts, search(xp, inserted.rows, rows), -1)
        highest = max(inserted.naming.num_vertices, *(int(ends.max()) if count else 0 for ends in (src, dst)))
        bits = highest.bit_length()
        if max(bits, int(count).bit_length()) > MOST_BITS:
            raise LimitError(
                f"{CALLER}: {highest} vertices and {count} operations; wanted at most {(1 << MOST_BITS) - 1} of each"
            )
        return Script(table, inserted, src, dst, limits, writes, places, bits)

    # ------------------------------------------------------------------ answering

    def _history(self, script: Script, transposed: bool = False) -> History:
        num_moments = max(1, script.table.kinds.shape[0])
        return History(self.backend, script.writes, num_moments, script.bits, transposed, not self._directed)

    def _answers(self, script: Script, history: History) -> list[Frame]:
        frames = [self._edge_answers(script, history), self._row_answers(script, history, Operation.SUCCESSORS)]
        into = history
        if self._directed and script.table.rows_of(Operation.PREDECESSORS).shape[0]:
            into = self._history(script, transposed=True)
        frames.append(self._row_answers(script, into, Operation.PREDECESSORS))
        return [*frames, self._hop_answers(script, history)]

    def _edge_answers(self, script: Script, history: History) -> Frame:
        rows = script.table.rows_of(Operation.HAS_EDGE)
        src, dst = script.src[rows], script.dst[rows]
        exists = self.backend.zeros(rows.shape[0], np.bool_)
        if rows.shape[0]:
            before, _ = self._out.look_up(self._in_dtype(src), self._in_dtype(dst))
            exists = history.edges_at(src, dst, script.table.moments[rows], before)
        return make_frame(self.backend, {"query": rows, "exists": exists}, self.frames)

    def _row_answers(self, script: Script, history: History, kind: Operation) -> Frame:
        rows = script.table.rows_of(kind)
        near = Neighbors(*(self.backend.nothing(np.int64),) * 4)
        stored: Array | None = None
        if rows.shape[0]:
            slots = self._oriented(kind == Operation.PREDECESSORS).slots
            stored = slots.weights
            near = history.neighbors_at(slots, script.src[rows], script.table.moments[rows], self._weighted)
        weights = {"weight": self._weights_at(script, near, stored)} if self._weighted else {}
        return self._frame_of(script, rows[near.owners], near.numbers, weights)

    def _weights_at(self, script: Script, near: Neighbors, stored: Array | None) -> Array:
        """Return the weights of neighbours; ``stored``: what the slots have as weights."""
        weights = self.backend.empty(near.slots.shape[0], self.weight_dtype)
        held, fresh = near.slots >= 0, near.writes >= 0
        given = script.inserted.columns.weights
        if stored is not None and stored.shape[0]:
            weights[held] = self._weights_of(stored[near.slots[held]])
        if given is not None and given.shape[0]:
            weights[fresh] = given[script.places[near.writes[fresh]]]
        return weights

    def _hop_answers(self, script: Script, history: History) -> Frame:
        rows = script.table.rows_of(Operation.K_HOP)
        rows = rows[self._are_vertices(script, rows)] if rows.shape[0] else rows
        found = (self.backend.empty(0, np.int64),) * 3
        if rows.shape[0]:
            begins, moments = script.src[rows], script.table.moments[rows]
            slots, limits = self._out.slots, script.limits[rows]
            kernels = self.backend.kernels("dynstore.operations")
            found = kernels.find_hops(self.backend, history, slots, rows, begins, moments, limits)
        asked, numbers, distances = found
        distances = distances.astype(self.vertex_dtype, copy=False)
        return self._frame_of(script, asked, numbers, {"distance": distances})

    def _are_vertices(self, script: Script, rows: Array) -> Array:
        """Return whether the source of each row is a vertex at its time."""
        xp, numbers = self.backend.xp, script.src[rows]
        naming, writes = script.inserted.naming, script.writes
        there = numbers < self.number_of_vertices()
        if naming.numbers is not None:  # a new id may have a number below V
            there &= ~xp.isin(numbers, naming.numbers)
        moments = writes.moments[writes.inserts]
        ends = xp.concatenate((writes.src[writes.inserts], writes.dst[writes.inserts]))
        if not moments.shape[0]:
            return there
        order = xp.argsort(ends, kind="stable")
        ends, moments = ends[order], xp.concatenate((moments, moments))[order]
        if self.ids.renumbered:  # a vertex comes with its first insertion
            first = xp.lexsort(xp.stack((moments, ends)))
            ends, moments = ends[first], moments[first]
        else:  # a vertex comes with the first insertion of its id or a higher one
            moments = _running_least(self.backend, moments[::-1])[::-1]
        places = search(xp, ends, numbers)
        inside = xp.minimum(places, ends.shape[0] - 1)
        comes = places < ends.shape[0]
        if self.ids.renumbered:
            comes &= ends[inside] == numbers
        return there | (comes & (moments[inside] < script.table.moments[rows]))

    def _frame_of(self, script: Script, queries: Array, numbers: Array, values: dict[str, Array]) -> Frame:
        """Make a frame of vertices that are sorted by the row that asked and by number; it is sorted by their ids."""
        backend, naming, before = self.backend, script.inserted.naming, self.number_of_vertices()
        if self.ids.renumbered:
            xp = backend.xp
            known = xp.unique(numbers)
            places = backend.empty(naming.num_vertices, np.int64)
            if known.shape[0]:
                places[self.ids.planned_order(known, before, naming)] = xp.arange(known.shape[0])
            order = xp.argsort(queries << script.bits | places[numbers])
            queries, numbers = queries[order], numbers[order]
            values = {name: array[order] for name, array in values.items()}
        vertices = self.ids.planned_column(numbers, before, naming, frame_library(backend, self.frames))
        return make_frame(backend, {"query": queries, "vertex": vertices, **values}, self.frames)

    def _in_dtype(self, numbers: Array) -> Array:
        """Return numbers in the vertex dtype; those of ids that are no vertices may get equal."""
        return self.backend.xp.minimum(numbers, np.iinfo(self.vertex_dtype).max).astype(self.vertex_dtype)

    # ------------------------------------------------------------------ writing

    def _run_writes(self, script: Script, history: History) -> UpdateReport:
        """Write what the last operation on each edge leaves, as one version."""
        num_rows, inserted = int(script.writes.moments.shape[0]), script.inserted
        if not num_rows:
            return UpdateReport()
        with MemoryChecked(CALLER), self._lock:
            src, dst, last = history.last_writes()
            if not self._directed:
                once = src <= dst
                src, dst, last = src[once], dst[once], last[once]
            num_edges, highest = int(last.shape[0]), (1 << script.bits) - 1
            stays = script.writes.inserts[last]
            src, dst = self._in_dtype(src), self._in_dtype(dst)
            places = script.places[last[stays]]
            given = inserted.columns.weights
            arriving = EdgeColumns(src[stays], dst[stays], None if given is None else given[places], highest)
            leaving = EdgeColumns(src[~stays], dst[~stays], None, highest)
            if inserted.extra is not None:
                extra = {name: array[places] for name, array in inserted.extra.items()}
                deleted = ~script.writes.inserts  # an edge that comes back has no older time
                ends = [self._in_dtype(numbers[deleted]) for numbers in script.writes[:2]]
                gone = EdgeColumns(ends[0], ends[1], None, highest)
                arriving = self.record(CALLER, arriving, extra, leaving=gone)
        report = self.exchange_numbers(CALLER, leaving, arriving, inserted.naming)
        return report._replace(duplicates=num_rows - num_edges)


def _running_least(backend: Any, values: Array) -> Array:
    """Return the least of the values up to each one."""
    least, step = values.copy(), 1
    while step < least.shape[0]:
        least[step:] = backend.xp.minimum(least[step:], least[:-step])
        step *= 2
    return least
