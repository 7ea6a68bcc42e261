"""Updates that expire, delete and insert in one version."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from dynstore.arguments import check_flag, check_name, check_number
from dynstore.batches.sorted import EdgeBatch
from dynstore.errors import InputError, InputTypeError
from dynstore.graph.deletions import Deletions, Follow
from dynstore.graph.delta import Change, Unread
from dynstore.graph.records import TIME
from dynstore.graph.updates import Deletion, Insertion, Operation, Plans, Request
from dynstore.ids.base import IdPlan
from dynstore.input.columns import EdgeColumns
from dynstore.input.forms import check_lengths, check_names, split_columns, take_rows
from dynstore.interrupts import MemoryChecked, Uninterrupted
from dynstore.stores.base import Reason, Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from weakref import ref

    from dynstore.backend import Backend
    from dynstore.batches.sorted import Batch
    from dynstore.ids.base import Names
    from dynstore.typing import Array, OnDuplicate, UpdateReport

__all__ = ["ON_DUPLICATE", "Exchanges", "Window"]

ON_DUPLICATE = ("replace", "add", "append")
Agree: TypeAlias = "Callable[[UpdateReport], object]"


def _joined(backend: Backend, first: EdgeColumns, second: EdgeColumns) -> EdgeColumns:
    """Return the edges of both."""
    join = backend.xp.concatenate
    return EdgeColumns(join((first.src, second.src)), join((first.dst, second.dst)), None, -1)


class Window(Protocol):
    """What a graph calls when the numbers of its vertices change; see :class:`dynstore.Window`.

    Each method plans, may raise, and returns a commit that cannot fail.
    """

    def plan_renumber(self, ranks: Array) -> Callable[[], None]: ...

    def plan_forget(self, numbers: Array) -> Callable[[], None]: ...

    def plan_clear(self) -> Callable[[], None]: ...


class Exchanges(Deletions):
    """The part of :class:`dynstore.DynamicGraph` that deletes and inserts at once."""

    _window: ref[Window] | None
    _agreement: Agree | None = None  # of the updates within agreeing()

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
        with MemoryChecked("update"), self._lock:
            bound = None if expire_before is None else self._read_bound("update", "expire_before", expire_before)
            names = source, destination, weight
            if bound is not None and insert is None and delete is None:
                check_names("update", names)
                return self._expire("update", bound)
            leaving = self._read_leaving(delete, names)
            first = None if check_flag("update", "expire_last", expire_last) else bound
            rows, naming, late = self._read_arriving(insert, names, time, first, default_weight, on_duplicate)
            (columns, extra), ending = rows, bound if expire_last else None
            if extra is not None:
                columns = self.record("update", columns, extra, on_duplicate, leaving, first, ending)
                on_duplicate = "replace"
            report = self.exchange_numbers("update", leaving, columns, naming, on_duplicate, expire_before=bound)
        return report._replace(late=late) if late else report

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
        with MemoryChecked("expire"), self._lock:
            return self._expire("expire", self._read_bound("expire", "before", before))

    def _expire(self, caller: str, bound: int) -> UpdateReport:
        report, nothing = self._try_expire(bound), self._nothing()
        if report is not None:
            return report
        naming = IdPlan(self.number_of_vertices())
        return self.exchange_numbers(caller, nothing, nothing, naming, expire_before=bound)

    # ------------------------------------------------------------------ what an update reads

    def _nothing(self) -> EdgeColumns:
        """Return no edges, as numbers."""
        none = self.backend.nothing(self.vertex_dtype)
        return EdgeColumns(none, none, None, -1)

    def _read_leaving(self, delete: Any, names: Names) -> EdgeColumns:
        if delete is None:
            return self._nothing()
        request = self._opened(Request("update", delete, (*names[:2], None), None))
        return self.ids.find_edges(*request, self.number_of_vertices())

    def _read_arriving(
        self,
        insert: Any,
        names: Names,
        time: Any,
        bound: int | None,
        default_weight: float | None,
        on_duplicate: OnDuplicate,
    ) -> tuple[tuple[EdgeColumns, dict[str, Array] | None], IdPlan, int]:
        """Read the edges to insert.

        Returns
        -------
        rows : pair
            The edges, with weights in a weighted graph, and their extra columns.
        naming : IdPlan
        late : int
            Rows with a time below the bound, which are left out.
        """
        if insert is None:
            check_names("update", names)
            if time is not None:
                self.take_extra_columns("update", ([], []), names, time)
            return (self._nothing(), None), IdPlan(self.number_of_vertices()), 0
        weight_dtype, late = self.weight_dtype if self._weighted else None, 0
        edges, extra = self.take_extra_columns("update", insert, names, time)
        given = request = self.with_weights(self._opened(Request("update", edges, names, weight_dtype)))
        if bound is not None and extra:
            columns = split_columns("update", request.edges, request.names)
            check_lengths("update", columns, extra)
            parts = tuple(column for _, column in columns)
            is_old = extra[TIME].astype(np.int64) < bound  # the bound may not fit int32
            late = int(self.backend.xp.count_nonzero(is_old))
            if late:  # ids of late rows make no vertices
                rows, old = self.backend.xp.nonzero(~is_old)[0], self.backend.xp.nonzero(is_old)[0]
                extra = {name: array[rows] for name, array in extra.items()}
                some = request._replace(names=("source", "destination", None))
                request, ignored = (some._replace(edges=take_rows(parts, which)) for which in (rows, old))
        try:
            numbers, naming = self.ids.plan_edges(*request, self.number_of_vertices())
            if late:  # they are ignored, and still have to be right
                self.ids.find_edges(*ignored, self.number_of_vertices())
        except InputError:
            if late:  # say which row of the whole batch it is
                self.ids.plan_edges(*given, self.number_of_vertices())
            raise
        numbers = self.fill_weights("update", numbers, default_weight)
        self.check_sums("update", numbers, on_duplicate)
        return (numbers, extra), naming, late

    # ------------------------------------------------------------------ the transaction

    def exchange_numbers(
        self,
        caller: str,
        leaving: EdgeColumns,
        arriving: EdgeColumns,
        naming: IdPlan,
        on_duplicate: OnDuplicate = "replace",
        follow: Follow | None = None,
        expire_before: int | None = None,
        agree: Agree | None = None,
    ) -> UpdateReport:
        """Delete edges, then insert others, as one version. Ids and weights are validated already.

        If the insertion fails, the deletion is taken back. In a graph with extra columns, the arriving edges have
        records (:meth:`record`).

        Parameters
        ----------
        leaving, arriving : EdgeColumns
            Numbers of rows.
        naming : IdPlan
            What the arriving edges do to the ids.
        follow : callable, optional
            It is called before the insertion, and may raise.
        expire_before : int, optional
            Edges whose last time is below it are deleted first.
        agree : callable, optional
            It gets the report when nothing can fail any more, once, and may raise: then the graph stays as it was. The
            insertion is planned, and not attempted. Memory that runs out before is no reason to call it: edges that may
            move to host memory do so first.
        """
        agree = self._agreement if agree is None else agree
        exchange = partial(
            self._exchange_once, caller, leaving, arriving, naming, on_duplicate, follow, expire_before, agree
        )
        with MemoryChecked(caller), self._lock:
            return self._or_spill(caller, exchange)

    @contextmanager
    def agreeing(self, agree: Agree) -> Iterator[None]:
        """Have :meth:`update`, and a window's slide, call ``agree`` as :meth:`exchange_numbers` does."""
        self._agreement = agree
        try:
            yield
        finally:
            self._agreement = None

    def _exchange_once(
        self,
        caller: str,
        leaving: EdgeColumns,
        arriving: EdgeColumns,
        naming: IdPlan,
        on_duplicate: OnDuplicate,
        follow: Follow | None,
        expire_before: int | None,
        agree: Agree | None,
    ) -> UpdateReport:
        with Uninterrupted():
            restore, before, num_expired, num_wanted = None, self._num_edges, 0, None
            inserts = len(arriving.src) > 0 or naming.num_vertices > self.number_of_vertices()
            if expire_before is not None:
                follow = self._raising(expire_before)
                restore = self._expire_first(expire_before) if inserts else None
                num_expired = before - self._num_edges
            try:
                gone = wanted = self._batch(leaving, "replace")
                if expire_before is not None and restore is None:
                    expired = self._expired(expire_before)
                    num_expired = len(expired.src)
                    if num_expired:
                        num_wanted = wanted.num_edges(self._directed)
                        gone = self._batch(_joined(self.backend, expired, leaving), "replace")
                batch = self._batch(arriving, on_duplicate)
                self._make_way(gone.num_rows + batch.num_rows)
            except BaseException:
                if restore is not None:
                    restore()
                raise
            if inserts:
                exchange = gone, batch, len(arriving.src), naming, on_duplicate
                report, num_gone = self._exchange(*exchange, follow, restore, agree)
            else:
                report, num_gone = self._delete_alone(gone, naming, follow, agree)
        deleted = report.deleted - (0 if num_wanted is None else num_expired)
        num_wanted = num_gone if num_wanted is None else num_wanted
        return report._replace(
            deleted=deleted,
            absent=num_wanted - deleted,
            duplicates=report.duplicates + len(leaving.src) - num_wanted,
            expired=num_expired,
        )

    def _delete_alone(
        self, gone: Batch, naming: IdPlan, follow: Follow | None, agree: Agree | None
    ) -> tuple[UpdateReport, int]:
        """Do what :meth:`_exchange` does where nothing is inserted."""
        with Uninterrupted():
            finish = None if follow is None else follow(naming)
            plans, gone = self._planned(Deletion(), gone, agree is None)
            num_gone = gone.num_edges(self._directed)
            if agree is not None:
                agree(self._report_deletion(plans, num_gone, 0))
            report = self._finish_deletion(plans, num_gone, 0, naming.commit)
            if finish is not None:
                finish()
        return report, num_gone

    def _exchange(
        self,
        gone: Batch,
        batch: Batch,
        num_rows: int,
        naming: IdPlan,
        on_duplicate: OnDuplicate,
        follow: Follow | None,
        restore: Callable[[], None] | None,
        agree: Agree | None,
    ) -> tuple[UpdateReport, int]:
        """Delete one batch and insert another, of ``num_rows`` rows; also return how many edges the first one has.

        ``restore``: what takes this version's deletions back, if there have been any.
        """
        together = None if restore is not None else self._plan_together(gone, batch, naming, on_duplicate)
        with Uninterrupted():
            before: Change | None = None
            deletion, is_written = None if together is None else together[0], restore is not None
            try:
                if together is None and gone.num_rows:
                    restore = self._plan_restore() if restore is None else restore
                    deletion, before = self._commit_deletion(gone, restore is not None)
                    is_written = True
                num_gone = gone.num_edges(self._directed)
                deleted = 0 if deletion is None else self._found_edges(deletion.out)
                if naming.arrange is not None:
                    batch = naming.arrange(batch)
                finish = None if follow is None else follow(naming)
                if together is None:
                    plans, batch = self._planned(Insertion(naming.num_vertices, on_duplicate), batch, agree is None)
                else:
                    plans = together[1]
                grown = plans.out.grown or (deletion is not None and deletion.out.grown)
                if agree is not None:
                    report = self._report_insertion(plans, batch, num_rows)
                    agree(report._replace(deleted=deleted, absent=num_gone - deleted, grown=grown))
            except BaseException:
                if is_written and restore is not None:
                    restore()
                elif is_written and deletion is not None:
                    self._take_back(gone, before, deleted, deletion.change)
                raise
            if together is not None:
                self._write(together[0])
            if self._logs and deletion is not None:
                self._record(deletion.change)
            self._num_edges -= deleted
            report = self._finish_insertion(plans, batch, num_rows, naming)
            if finish is not None:
                finish()
        return report._replace(deleted=deleted, grown=grown), num_gone

    def _plan_together(
        self, gone: Batch, batch: Batch, naming: IdPlan, on_duplicate: OnDuplicate
    ) -> tuple[Plans, Plans] | None:
        """Plan the deletion and the insertion before anything is written, where stores can.

        No log may want the changes: the deletion's would have to be looked up.
        """
        if not (isinstance(gone, EdgeBatch) and isinstance(batch, EdgeBatch) and len(gone)):  # as on the host
            return None
        if naming.arrange is not None:
            return None
        if self._logs and self._logs_that_want(len(gone)):
            return None
        how, into = (naming.num_vertices, on_duplicate), None
        out = self._out.plan_exchange(gone, batch, *how)
        if out is not None and self._in is not None:
            into = self._in.plan_exchange(gone.transposed(self.backend), batch.transposed(self.backend), *how)
        if out is None or (self._in is not None and into is None):
            return None
        changes = Unread(len(gone), False), Unread(len(batch), True)
        first, second = (None, None) if into is None else into
        return Plans(out[0], first, changes[0]), Plans(out[1], second, changes[1])

    def _planned(self, operation: Operation, batch: Batch, may_attempt: bool) -> tuple[Plans, Batch]:
        """Attempt or plan an update; nothing fails after that. Where others have to agree, it is only planned."""
        attempts = may_attempt and self._supports_speculation
        outcome = self._attempt(operation, batch) if attempts else Refused(Reason.UNSUPPORTED, batch)
        if isinstance(outcome, Refused):
            batch = outcome.batch
            outcome = self._plan(operation, batch)
        batch.count_edges()  # may still fail here
        return outcome, batch

    def has_numbers(self, src: Array, dst: Array) -> Array:
        """Return whether edges between rows of these numbers are there, bool, shape (B,)."""
        return self._out.look_up(src, dst)[0]

    def columns_of_numbers(self, src: Array, dst: Array) -> tuple[Array, dict[str, Array]]:
        """Return whether edges between rows of these numbers are there, and the extra columns of those that are."""
        there, stored = self._out.look_up(src, dst)
        assert self._records is not None
        return there, self._records.extra_values(stored)

    # ------------------------------------------------------------------ the window over this graph

    def attached_window(self) -> Window | None:
        """Return the :class:`dynstore.Window` that fills this graph, if there is one."""
        return None if self._window is None else self._window()

    def attach_window(self, window: ref[Window]) -> None:
        """Have a window follow what happens to the numbers of vertices."""
        self._window = window
