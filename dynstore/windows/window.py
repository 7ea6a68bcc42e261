"""A graph of the newest rows of a stream: new rows come in, old rows leave, in one version."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias
from weakref import ref

import numpy as np

from dynstore.arguments import check_flag, check_name, check_number
from dynstore.errors import InputError, InputTypeError, LimitError, type_name
from dynstore.graph import DynamicGraph
from dynstore.graph.exchanges import Exchange, exchange
from dynstore.graph.insertions import Request, fill_weights, with_weights
from dynstore.graph.recording import record, take_extra_columns
from dynstore.input.columns import EdgeColumns
from dynstore.input.forms import bring_columns, check_lengths, split_columns
from dynstore.interrupts import MemoryChecked, Uninterrupted
from dynstore.windows.event_window import EventRule
from dynstore.windows.horizon import BY, Selection, make_horizon
from dynstore.windows.moves import Counts, Ends, Lists, Moves, SlideReport, chosen_edges, listed_edges, refuse_infinite
from dynstore.windows.pair_columns import Latest, read_pair_columns
from dynstore.windows.pairs import EMPTY, Pairs
from dynstore.windows.rows import RowQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.ids.base import Names, RenumberingPlan
    from dynstore.typing import Array, Frame

__all__ = ["Window"]

CALLER = "Window"
KEEP = ("latest", "count", "sum")
COLUMNS = ("source", "destination", None)
Extra: TypeAlias = "dict[str, Array] | None"
HALF = 32
LOW = (1 << HALF) - 1


class Window:
    """The newest rows of a stream of edges, as a graph.

    :meth:`slide` brings rows in and takes out those that have become too old, as one version of the graph. A pair of
    vertices may occur in many rows. Its edge is there as long as one of these rows is in the window.

    Parameters
    ----------
    G : DynamicGraph
        An empty graph, with any ids and any store, directed or not; the window fills it. The graph of a database
        (:func:`dynstore.open`) may have edges, because a :class:`Stream` reads their rows again. A multigraph may have
        edges, too: they are the window's rows.
    length : int, float, str or timedelta
        With ``by="count"``, the number of rows. With ``by="time"``, a length of time in the unit of the time column, or
        for date-times a string such as "1h" or a timedelta.
    by : {"count", "time"}
        When a row leaves. "count": when there are ``length`` newer rows. "time": when its time is at most the newest
        time minus ``length``. Late rows that are still inside the window are placed by their time.
    keep : {"latest", "count", "sum"}
        The weight of an edge: that of its latest row, the number of its rows, or the sum of their weights. "count" and
        "sum" need a weighted graph. Extra columns are always those of the latest row. Sums are kept in two float64:
        their error is less than 2**-95 of the greatest sum that the pair has had. If no weight was negative, no sum
        is. In a multigraph each row is an edge: ask ``G.simple(...)``.
    step : int, float, str or timedelta, optional
        Rows leave only in multiples of this number of rows, or of this length of time.
    drop_vertices : bool, optional
        In a multigraph with ``reuse_ids=True``: whether vertices without edges leave with each slide, so that new ids
        take their rows. By default they do. So V is at most the vertices of the window and of one batch, and a row of
        an array may belong to another vertex after each slide, as ``G.vertex_ids()`` says. Takes time for each vertex.

    Raises
    ------
    InputError
        For a graph that has edges or another window, and for arguments that do not fit.

    Notes
    -----
    An edge that is deleted by hand stays out until a row names its pair again. A late row brings it back, too, with one
    exception: with ``keep="latest"`` in a graph with weights or extra columns, a row that is older than another row of
    its pair changes nothing.

    In a multigraph rows are the graph's own edges, and the window keeps nothing beside them. So a row is taken back by
    ``G.delete_edges(edge_ids=...)``, :meth:`events` shows the rows, and the window of a graph that was saved, or that
    lives in a database, is whole again at once. With ``by="time"`` the graph needs ``timestamps``. With ``by="count"``
    rows that were deleted by hand do not count.

    Else the window is in the graph's memory. A row takes 4 bytes, 8 more with ``by="time"``, and 8 more with
    ``keep="sum"``. The columns have up to 2.25 times as many rows. A pair takes 12 bytes, 4 more with ``keep="count"``,
    20 more with ``keep="sum"``, and 8 more with ``by="time"`` in a graph with extra columns, or with weights and
    ``keep="latest"``, in a table of two to four times as many slots.

    Examples
    --------
    >>> import dynstore
    >>> G = dynstore.DynamicGraph(device="cpu")
    >>> window = dynstore.Window(G, 3)
    >>> window.slide([(0, 1), (0, 1), (1, 2)]).update.inserted
    2
    >>> window.slide([(2, 3)]).update.deleted  # one of the two rows (0, 1) is left
    0
    >>> window.slide([(3, 4)]).update.deleted
    1
    """

    def __init__(
        self,
        G: DynamicGraph,
        length: Any,
        by: Literal["count", "time"] = "count",
        keep: Literal["latest", "count", "sum"] = "latest",
        step: Any = None,
        drop_vertices: bool | None = None,
    ) -> None:
        if not isinstance(G, DynamicGraph):
            raise InputTypeError(f"{CALLER}: G is a {type_name(G)}; wanted a dynstore.DynamicGraph")
        if drop_vertices is not None:
            check_flag(CALLER, "drop_vertices", drop_vertices)
        self.rule = EventRule(G, length, by, keep, step, drop_vertices) if G.is_multigraph() else None
        if drop_vertices and self.rule is None:
            raise InputError(f"{CALLER}: drop_vertices is True, and the graph has one edge a pair; wanted a multigraph")
        check_name(CALLER, "by", by, BY)
        check_name(CALLER, "keep", keep, KEEP)
        if keep != "latest" and not G.is_weighted():
            raise InputError(f"{CALLER}: keep={keep!r} needs a weighted graph; make it with weighted=True")
        self.is_behind = G.number_of_edges() > 0 and self.rule is None  # its rows are not here
        if self.is_behind and getattr(G, "database", None) is None:
            raise InputError(f"{CALLER}: the graph has {G.number_of_edges()} edges; wanted an empty graph, see clear()")
        if (G.core.window and G.core.window()) is not None:
            raise InputError(f"{CALLER}: another window fills this graph already; wanted a graph for each window")
        self.graph, self.by, self.keep, self.length, self.step = G, by, keep, length, step
        self.horizon = make_horizon(by, length, step)
        self._newest: int | float | None = None
        self._pairs: Pairs | None = None  # both are made by the first rows, whose times have a dtype
        self._rows: RowQueue | None = None
        self._version = G.version  # the graph's, after the last slide
        self._changed = False  # whether the graph was changed otherwise since
        G.core.window = ref(self)

    def __len__(self) -> int:
        if self.rule is not None:
            return len(self.rule)
        return 0 if self._rows is None else self._rows.size

    def __repr__(self) -> str:
        step = "" if self.step is None else f", step={self.step!r}"
        return f"Window({len(self)} rows, length={self.length!r}, by={self.by!r}, keep={self.keep!r}{step})"

    def __reduce__(self) -> NoReturn:
        raise InputTypeError(
            "Window: it cannot be pickled or copied, because it fills its graph; make another and slide the rows again"
        )

    def memory_usage(self) -> dict[str, int]:
        """Return the bytes of the window's rows and pairs, without those of the graph.

        Returns
        -------
        dict of int
            "rows", "pairs" and "total".
        """
        rows = 0 if self._rows is None else self._rows.nbytes
        pairs = 0 if self._pairs is None else self._pairs.nbytes
        return {"rows": rows, "pairs": pairs, "total": rows + pairs}

    @property
    def drop_vertices(self) -> bool:
        """Whether vertices without edges leave with each slide."""
        return self.rule is not None and self.rule.drop_vertices

    @property
    def newest(self) -> int | float | None:
        """The newest time so far; date-times are nanoseconds."""
        return self._newest if self.rule is None else self.rule.newest

    def events(self) -> Frame:
        """Return the rows of the window, in a multigraph.

        Returns
        -------
        frame
            As :meth:`DynamicGraph.events`: all columns, in order of time; without times in order of arrival.

        Raises
        ------
        InputError
            If the graph has one edge a pair: it does not keep the rows.
        """
        if self.rule is None:
            raise InputError(
                "events: the graph has one edge a pair, and does not keep the rows; make it with multigraph=True"
            )
        return self.rule.events()

    # ------------------------------------------------------------------ sliding

    def slide(
        self,
        edges: Any,
        source: str = "source",
        destination: str = "destination",
        weight: str | None = None,
        time: Any = None,
        default_weight: float | None = None,
        edge_id: Any = None,
    ) -> SlideReport:
        """Bring rows in, and take out those that have become too old.

        Parameters
        ----------
        edges : frame, tuple or list
            As for :meth:`DynamicGraph.insert_edges`. An empty batch is allowed.
        source, destination, weight : str
            The frame's columns, as for :meth:`DynamicGraph.insert_edges`. With ``keep="count"`` there are no weights.
            Extra columns come as there.
        time : str or array, shape (B,)
            With ``by="time"``: the frame's column of times, "time" by default, or the times themselves. Numbers, or
            date-times if the window's length is one of date-times. A graph with ``timestamps`` keeps them, too.
        default_weight : float, optional
            The weight of rows without weights.
        edge_id : str or array, shape (B,), optional
            In a multigraph: as for :meth:`DynamicGraph.insert_edges`.

        Returns
        -------
        SlideReport
            The rows that entered and left, and the update of the graph.

        Raises
        ------
        InputError
            For bad input. The graph and the window are unchanged.
        OutOfMemoryError
            If memory runs out. The graph and the window are unchanged.
        """
        if self.is_behind:
            hint = "let a Stream read them again, or clear() the graph and make a new window"
            raise InputError(f"slide: the graph has edges whose rows the window does not have; {hint}")
        if self.keep == "count" and (weight is not None or default_weight is not None):
            raise InputError("slide: weights were given, but keep='count' counts rows; leave weight= out")
        if default_weight is not None:
            default_weight = check_number("slide", "default_weight", default_weight)
        if self.rule is not None:
            named = {"source": source, "destination": destination, "weight": weight, "default_weight": default_weight}
            return self.rule.slide(edges, time, edge_id, named)
        if edge_id is not None:
            raise InputError("slide: edge_id was given, but edges have no ids; make the graph with multigraph=True")
        with MemoryChecked("slide"):
            G = self.graph
            edges, given, time = self.horizon.share_times(edges, time, G.timestamps, list(G.edge_dtypes))
            edges, extra = take_extra_columns(G.core, "slide", edges, (source, destination, weight), given)
            edges = bring_columns("slide", G.core.backend, edges)
            names = self._names(edges, source, destination, weight)
            kept = None if self._rows is None or self.by == "count" else self._rows.column("times")
            columns = split_columns("slide", edges, names)
            check_lengths("slide", columns, extra)
            parts = tuple(column for _, column in columns)
            chosen = self.horizon.select(G.core.backend, edges, parts, time, len(self), self._newest, kept)
            try:
                if ignored := chosen.ignored(G.core.backend, parts):
                    self._refuse(ignored, COLUMNS, default_weight)
                return self._enter(chosen, default_weight, extra)
            except InputError as error:
                refused = error
            self._refuse(edges, names, default_weight)
            raise refused

    @property
    def _reads_weights(self) -> bool:
        return self.keep == "sum" or (self.keep == "latest" and self.graph.is_weighted())

    @property
    def _keeps_values(self) -> bool:
        """Whether an edge has a value of its latest row."""
        return (self.keep == "latest" and self.graph.is_weighted()) or bool(self.graph.edge_dtypes)

    def _names(self, edges: Any, source: str, destination: str, weight: str | None) -> Names:
        """Return the columns that are read; refuse weights as ``insert_edges`` does."""
        if self.keep == "count":
            return source, destination, None
        return with_weights(self.graph.core, Request("slide", edges, (source, destination, weight), None)).names

    def _refuse(self, edges: Any, names: Names, default_weight: float | None) -> None:
        """Raise an error if an id or a weight of these rows is invalid; new ids are not added, so they need no room."""
        G, weight_dtype = self.graph, self.graph.weight_dtype if self._reads_weights else None
        numbers = G.core.ids.find_edges("slide", edges, names, weight_dtype, G.number_of_vertices())
        if self._reads_weights:
            weights = fill_weights(G.core, "slide", numbers, default_weight).weights
            if self.keep == "sum":
                refuse_infinite(G.core.backend.xp.isinf(weights))

    def _enter(self, chosen: Selection, default_weight: float | None, extra: Extra) -> SlideReport:
        """Slide by rows that all enter. CUDA kernels validate them while they count them, where ids are numbers."""
        G, weight_dtype = self.graph, self.graph.weight_dtype if self._reads_weights else None
        columns = chosen.columns if self._reads_weights else chosen.columns[:2]
        numbers, renumbering = G.core.ids.plan_edges(
            "slide", columns, COLUMNS, weight_dtype, G.number_of_vertices(), G.core.ids.renumbered
        )
        if self._reads_weights:
            numbers = fill_weights(G.core, "slide", numbers, default_weight)
        with Uninterrupted():
            return self._slide(numbers, renumbering, chosen, extra)

    def _slide(
        self, numbers: EdgeColumns, renumbering: RenumberingPlan, chosen: Selection, extra: Extra
    ) -> SlideReport:
        """Slide by rows under the graph's numbers."""
        G, number, old = self.graph, len(numbers.src), chosen.leaving
        self._changed |= G.version != self._version
        pairs, rows = self._prepared(number, None if chosen.times is None else chosen.times.dtype)
        if chosen.times is not None:
            rows.room("times", number)[:] = chosen.times
        moves = self._moves(numbers, pairs, rows, old)
        read, take_back = pairs.start(moves)
        try:
            found = read()
            renumbering = self._validated(numbers, renumbering, chosen, found)
            insertions, latest = self._arrivals(numbers, moves, found, chosen.rows, extra)
            follow = partial(self._plan_rows, number, old, chosen.newest, latest, found.negative > 0)
            deletions = listed_edges(moves.gone, found.gone)
            report = exchange(G.core, "slide", Exchange(deletions, insertions, renumbering, follow=follow))
        except BaseException:
            take_back()
            raise
        return SlideReport(number, old + chosen.skipped, chosen.late, len(self), report)

    def _moves(self, numbers: EdgeColumns, pairs: Pairs, rows: RowQueue, old: int) -> Moves:
        """Return the rows of a slide that counts ``old`` rows out, and room for what is found out about them."""
        G, number = self.graph, len(numbers.src)
        lists: Lists = "all" if self.keep != "latest" else "none" if self._keeps_values or self._changed else "new"
        return Moves(
            G.core.backend,
            Ends(numbers.src, numbers.dst),
            rows.room("slots", number),
            rows.column("slots", 0, old),
            not G.is_directed(),
            numbers.weights,
            (rows.room("weights", number), rows.column("weights", 0, old)) if self.keep == "sum" else None,
            None if pairs.latest is None or lists == "all" else rows.room("times", number),
            lists,
            G.weight_dtype or np.float32,
        )

    def _validated(
        self, numbers: EdgeColumns, renumbering: RenumberingPlan, chosen: Selection, found: Counts
    ) -> RenumberingPlan:
        """Return what the entering rows do to the ids; refuse ids and weights that kernels have found to be wrong."""
        G, reading = self.graph, (COLUMNS, self.graph.weight_dtype, self.graph.number_of_vertices())
        if numbers.max_id is None:
            columns, renumbering = G.core.ids.plan_edges("slide", chosen.columns[:2], *reading, bounds=found.bounds)
            numbers.max_id = columns.max_id
        if renumbering.num_vertices > LOW // 2:
            raise LimitError(
                f"slide: {renumbering.num_vertices} vertices; a graph with a window has at most {LOW // 2}"
            )
        if found.bad:
            G.core.ids.plan_edges("slide", chosen.columns, *reading)  # refuses weights that are NaN
            refuse_infinite(G.core.backend.xp.isinf(numbers.weights))
        if found.large:
            raise InputError(
                f"slide: the weights of a pair sum to more than {G.weight_dtype} holds; wanted smaller ones"
            )
        renumbering.read_from = chosen.columns[:2]
        return renumbering

    def _plan_rows(
        self,
        number: int,
        old: int,
        newest: int | float | None,
        latest: Latest | None,
        signed: bool,
        renumbering: RenumberingPlan,
    ) -> Callable[[], None]:
        """Plan the rows and the table after a slide; ``signed``: whether a weight that enters is negative."""
        pairs, rows = self._pairs, self._rows
        assert pairs is not None
        assert rows is not None
        planned = rows.plan_order(number)
        if latest is not None:
            pairs = pairs.later(*latest)
        if renumbering.ranks is not None:  # the first rows were numbered by their ids, and are now numbered by degree
            pairs, places = pairs.remade(self._renumbered(renumbering.ranks), 0)
            planned["slots"] = places[rows.room("slots", number)]

        def commit() -> None:
            rows.drop(old)
            rows.append(planned, number)
            pairs.signed |= signed
            self._pairs, self._newest, self._version = pairs, newest, self.graph.version

        return commit

    def _arrivals(
        self, numbers: EdgeColumns, moves: Moves, found: Counts, entering: Array | None, extra: Extra
    ) -> tuple[EdgeColumns, Latest | None]:
        """Return the edges to insert, or that get another weight; and the latest times of pairs, if they are kept here.

        ``entering``: the rows of the batch that enter; ``extra``: the extra columns of the whole batch.
        """
        G, xp = self.graph, self.graph.core.backend.xp
        if extra is not None and entering is not None:
            rows = G.core.backend.asarray(entering)
            extra = {name: array[rows] for name, array in extra.items()}
        if moves.lists == "none":
            kept = xp.nonzero(~moves.late)[0] if found.late else slice(None)
            insertions = chosen_edges(numbers, kept) if found.late else numbers
            if extra is not None:
                insertions = record(G.core, "slide", insertions, {name: array[kept] for name, array in extra.items()})
            return insertions, None
        if moves.lists == "new":
            return listed_edges(moves.listed, found.listed), None
        total = found.listed + found.staying
        listed = listed_edges(moves.listed, total, moves.listed_weights[:total])
        if self._changed:
            stays = xp.ones(total, np.bool_)  # an edge that was deleted by hand stays out
            stays[found.listed :] = G.core.has_numbers(listed.src[found.listed :], listed.dst[found.listed :])
            listed = chosen_edges(listed, xp.nonzero(stays)[0])
        if extra is None:
            return listed, None
        assert self._pairs is not None
        assert self._rows is not None
        times = None if self.by == "count" else self._rows.room("times", len(numbers.src))
        columns, latest = read_pair_columns(G, self._pairs, moves, listed, found.listed, extra, times)
        return record(G.core, "slide", listed, columns), latest

    # ------------------------------------------------------------------ rows as numbers

    def _ends(self, keys: Array) -> tuple[Array, Array]:
        dtype = self.graph.vertex_dtype
        return (keys >> HALF).astype(dtype), (keys & LOW).astype(dtype)

    def _prepared(self, more: int, times: Any) -> tuple[Pairs, RowQueue]:
        """Return the table and the queue, with room for ``more`` rows in both."""
        backend = self.graph.core.backend
        if self._rows is None:
            dtypes: dict[str, Any] = {"slots": np.int32}
            if times is not None:
                dtypes["times"] = times
            if self.keep == "sum":
                dtypes["weights"] = np.float64
            self._rows = RowQueue(backend, dtypes)
        self._rows.reserve(more)
        if self._pairs is None:
            latest = times if self._keeps_values else None
            self._pairs = Pairs.allocate(backend, more, self.keep == "sum", latest, self.keep != "latest")
        elif not self._pairs.takes(more):
            self._plan_keys(self._pairs.keys, more)()
        return self._pairs, self._rows

    # ------------------------------------------------------------------ what else happens to the graph

    def plan_renumber(self, ranks: Array) -> Callable[[], None]:
        """Plan for vertices that get other numbers: ``ranks`` has the new number of each, shape (V,)."""
        return _nothing if self._pairs is None else self._of_same_edges(self._plan_keys(self._renumbered(ranks)))

    def _held(self) -> tuple[Array, Array, Array]:
        """Return the slots of the table's pairs that have rows, and the ends of these pairs.

        A pair without rows may name vertices that the graph does not have: a slide that was refused has left it.
        """
        pairs = self._pairs
        assert pairs is not None
        slots = self.graph.core.backend.xp.nonzero((pairs.keys >= 0) & (pairs.counts > 0))[0]
        return (slots, *self._ends(pairs.keys[slots]))

    def _renumbered(self, ranks: Array) -> Array:
        """Return the table's keys under other numbers."""
        assert self._pairs is not None
        xp, (slots, src, dst) = self.graph.core.backend.xp, self._held()
        src, dst = ranks[src], ranks[dst]
        if not self.graph.is_directed():  # the lower number comes first
            src, dst = xp.minimum(src, dst), xp.maximum(src, dst)
        keys = xp.full_like(self._pairs.keys, EMPTY)
        keys[slots] = (src.astype(np.int64) << HALF) | dst
        return keys

    def plan_forget(self, numbers: Array) -> Callable[[], None]:
        """Plan for deleted vertices whose numbers other ids may get: their rows count no more."""
        if self._pairs is None:
            return _nothing
        xp, (slots, src, dst) = self.graph.core.backend.xp, self._held()
        gone = self.graph.core.backend.zeros(self.graph.number_of_vertices(), np.bool_)
        gone[numbers] = True
        slots = slots[~(gone[src] | gone[dst])]
        keys = xp.full_like(self._pairs.keys, EMPTY)
        keys[slots] = self._pairs.keys[slots]
        return self._plan_keys(keys)

    def plan_clear(self) -> Callable[[], None]:
        """Plan for a graph that loses all edges and vertices: the window loses all rows."""

        def commit() -> None:
            self._pairs = self._rows = self._newest = None
            self.is_behind = False

        return commit

    def _of_same_edges(self, change: Callable[[], None]) -> Callable[[], None]:
        """Return a commit of a change that keeps the window up to date: the graph's next version has the same edges."""

        def commit() -> None:
            change()
            self._version += self._version == self.graph.version

        return commit

    def _plan_keys(self, keys: Array, more: int = 0) -> Callable[[], None]:
        """Plan to make the table anew with other keys, and room for ``more`` pairs."""
        pairs, rows = self._pairs, self._rows
        assert pairs is not None
        assert rows is not None
        fresh, places = pairs.remade(keys, more)
        slots = rows.column("slots")
        moved = self.graph.core.backend.xp.where(slots >= 0, places[slots], -1)

        def commit() -> None:
            slots[:] = moved
            self._pairs = fresh

        return commit


def _nothing() -> None:
    pass
