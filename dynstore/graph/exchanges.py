"""Updates that delete and insert in one version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from dynstore.arguments import check_number
from dynstore.batches.sorted import EdgeBatch
from dynstore.errors import OutOfMemoryError, unknown_name
from dynstore.graph.delta import Change, Unread, read_change
from dynstore.graph.updates import Deletion, Insertion, Plans, Request, Updates
from dynstore.input.columns import EdgeColumns
from dynstore.interrupts import MemoryChecked, Uninterrupted
from dynstore.stores.base import Reason, Refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from weakref import ref

    from dynstore.batches.sorted import Batch
    from dynstore.ids.base import IdPlan
    from dynstore.typing import Array, OnDuplicate, UpdateReport

__all__ = ["ON_DUPLICATE", "Exchanges", "Window"]

ON_DUPLICATE = ("replace", "add", "append")


class Window(Protocol):
    """What a graph calls when the numbers of its vertices change; see :class:`dynstore.Window`.

    Each method plans, may raise, and returns a commit that cannot fail.
    """

    def plan_renumber(self, ranks: Array) -> Callable[[], None]: ...

    def plan_forget(self, numbers: Array) -> Callable[[], None]: ...

    def plan_clear(self) -> Callable[[], None]: ...


class Exchanges(Updates):
    """The part of :class:`dynstore.DynamicGraph` that deletes and inserts at once."""

    _window: ref[Window] | None

    def update(
        self,
        insert: Any = None,
        delete: Any = None,
        source: str = "source",
        destination: str = "destination",
        weight: str | None = None,
        on_duplicate: OnDuplicate = "replace",
        default_weight: float | None = None,
    ) -> UpdateReport:
        """Delete a batch of edges and insert another as one version.

        An edge in both batches is deleted first, so it is there afterwards with the weight of the insertion.

        Parameters
        ----------
        insert, delete : frame, tuple or list, optional
            The two batches, each as :meth:`insert_edges` takes it.
        source, destination, weight : str
            The columns of both frames.
        on_duplicate : {"replace", "add"}
            See :meth:`insert_edges`.
        default_weight : float, optional
            See :meth:`insert_edges`.

        Returns
        -------
        UpdateReport
            The sums of both.

        Raises
        ------
        InputError
            For bad input in either batch. The graph is unchanged.
        OutOfMemoryError
            If memory runs out. The graph is unchanged.

        Examples
        --------
        >>> import dynstore
        >>> G = dynstore.DynamicGraph.from_edges([(0, 1), (1, 2)], device="cpu")
        >>> report = G.update(insert=[(2, 3)], delete=[(0, 1)])
        >>> report.inserted, report.deleted, G.version
        (1, 1, 2)
        """
        if on_duplicate not in ON_DUPLICATE[:2]:
            raise unknown_name("update", "on_duplicate", on_duplicate, ON_DUPLICATE[:2])
        if default_weight is not None:
            default_weight = check_number("update", "default_weight", default_weight)
        weight_dtype = self.weight_dtype if self._weighted else None
        nothing: Any = ([], [], []) if self._weighted else ([], [])
        with MemoryChecked("update"):
            names = source, destination, weight
            edges, extra = self.take_extra_columns("update", nothing if insert is None else insert, names)
            request = Request("update", edges, names, weight_dtype)
            arriving = self.with_weights(self._opened(request))
            request = Request("update", nothing if delete is None else delete, (source, destination, None), None)
            leaving = self._opened(request)
            columns, naming = self.ids.plan_edges(*arriving, self.number_of_vertices())
            found = self.ids.find_edges(*leaving, self.number_of_vertices())
            columns = self.fill_weights("update", columns, default_weight)
            if on_duplicate != "replace" and self._may_overflow(columns):
                self._check_sums("update", columns, on_duplicate)
            if extra is not None:
                columns, on_duplicate = self.record("update", columns, extra, on_duplicate, found), "replace"
        return self.exchange_numbers("update", found, columns, naming, on_duplicate)

    def exchange_numbers(
        self,
        caller: str,
        leaving: EdgeColumns,
        arriving: EdgeColumns,
        naming: IdPlan,
        on_duplicate: OnDuplicate = "replace",
        follow: Callable[[IdPlan], Callable[[], None]] | None = None,
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
            Plans what else the update does, and returns its commit. It is called before the insertion, and may raise.
        """
        with MemoryChecked(caller):
            gone = self._batch(leaving, "replace")
            batch = self._batch(arriving, on_duplicate)
            together = self._plan_together(gone, batch, naming, on_duplicate)
            with Uninterrupted():
                before: Change | None = None
                deletion = None if together is None else together[0]
                if together is None and gone.num_rows:
                    deletion, before = self._commit_deletion(gone)
                num_gone = gone.num_edges(self._directed)
                deleted = 0 if deletion is None else self._found_edges(deletion.out)
                try:
                    if naming.arrange is not None:
                        batch = naming.arrange(batch)
                    finish = None if follow is None else follow(naming)
                    if together is None:
                        plans, batch = self._planned_insertion(batch, naming.num_vertices, on_duplicate)
                    else:
                        plans = together[1]
                except BaseException:
                    if together is None and deletion is not None:
                        self._take_back(gone, before, deleted, deletion.change)
                    raise
                if together is not None:
                    self._write(together[0])
                if self._logs and deletion is not None:
                    self._record(deletion.change)
                self._num_edges -= deleted
                report = self._finish_insertion(plans, batch, arriving, naming)
                if finish is not None:
                    finish()
        return report._replace(
            deleted=deleted,
            absent=num_gone - deleted,
            duplicates=report.duplicates + len(leaving.src) - num_gone,
            grown=report.grown or (deletion is not None and deletion.out.grown),
        )

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

    def _planned_insertion(self, batch: Batch, num_vertices: int, on_duplicate: OnDuplicate) -> tuple[Plans, Batch]:
        """Attempt or plan an insertion; nothing fails after that."""
        operation = Insertion(num_vertices, on_duplicate)
        speculates = self._supports_speculation
        outcome = self._attempt(operation, batch) if speculates else Refused(Reason.UNSUPPORTED, batch)
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

    def window(self) -> Window | None:
        """Return the :class:`dynstore.Window` that fills this graph, if there is one."""
        return None if self._window is None else self._window()

    def attach_window(self, window: ref[Window]) -> None:
        """Have a window follow what happens to the numbers of vertices."""
        self._window = window

    def _commit_deletion(self, batch: Batch) -> tuple[Plans, Change | None]:
        """Delete a batch in both orientations, without ending the version.

        Returns
        -------
        plans : Plans
        before : Change or None
            The state of the edges before. None if all of them were there, without weights.
        """
        attempts, before = self._supports_speculation, None
        if attempts and self._must_read_before(batch):
            before = read_change(self._out, batch, False, kept=False)
        outcome = self._attempt(Deletion(), batch) if attempts else Refused(Reason.UNSUPPORTED, batch)
        if isinstance(outcome, Refused):
            batch = outcome.batch
            outcome = self._plan(Deletion(), batch)
            is_read = before is not None or isinstance(outcome.change, Change)
            if not is_read and (self._out.weight_dtype is not None or outcome.out.found < batch.count_edges()):
                before = read_change(self._out, batch, False, outcome.out.located, kept=False)
            batch.count_edges()  # may still fail here
        self._write(outcome)
        return outcome, outcome.change if isinstance(outcome.change, Change) else before

    def _must_read_before(self, batch: Batch) -> bool:
        """Whether an attempt to delete a batch leaves no trace of what was there, and no log looks that up."""
        if self._out.weight_dtype is None and self._out.refuses_absent:
            return False
        return not (self._logs and self._logs_that_want(batch.known().num_rows))

    def _take_back(self, batch: Batch, before: Change | None, deleted: int, recorded: Change | Unread | None) -> None:
        """Insert again what a deletion of this version has removed; snapshots of the version become invalid.

        Parameters
        ----------
        batch, before
            The deleted edges; see :meth:`_commit_deletion`.
        deleted : int
            How many were there.
        recorded : Change, Unread or None
            What logs keep of the deletion.

        Raises
        ------
        OutOfMemoryError
            If there is no memory for that either. The deletion then stays, as a version of its own.
        """
        for view in self._views.values():
            view.end()
        self._views = {}
        try:
            if before is not None:
                there = before.before
                weights = None if before.weights is None else before.weights[there]
                batch = self._batch(EdgeColumns(before.src[there], before.dst[there], weights, -1), "replace")
            plans = self._plan(Insertion(self._out.num_vertices, "replace"), batch)
        except MemoryError as error:
            self._num_edges -= deleted
            self._end_version(recorded)
            raise OutOfMemoryError(
                "update: memory ran out twice; the deletions are made, the insertions are not"
            ) from error
        self._write(plans)
