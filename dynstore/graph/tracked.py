"""Tracked answers of a graph; the code is in :mod:`dynstore.algorithms`.

The graph is a layer below the algorithms, so it looks them up only when they are called. It records what its updates
change, but only while a log follows it: otherwise an update does no extra work.
"""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any
from weakref import ref

from dynstore.graph.delta import Change, Delta, DeltaLog, Unread, net_delta, read_change
from dynstore.lookup import provided

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.batches.sorted import Batch
    from dynstore.graph.records import EdgeRecords
    from dynstore.graph.versions.undo import UndoLog
    from dynstore.stores.base import Store
    from dynstore.stores.table.slots import SearchResult
    from dynstore.typing import Array

__all__ = ["Tracked"]

# Beyond this share of the graph's edges an answer is computed anew, so no changes are kept. ``MIN_KEPT`` edges always
# are.
MAX_SHARE = 1 / 16
MIN_KEPT = 4096
# Beyond this share of the graph's edges a pin copies its version, and needs no more changes.
MAX_UNDONE = 1 / 4


class Tracked:
    """The part of :class:`dynstore.DynamicGraph` that records changes for tracked answers."""

    backend: Backend
    _out: Store
    _records: EdgeRecords | None
    _logs: set[ref[DeltaLog]]  # every update tests whether it is empty, which takes longer for a WeakSet
    _undo: ref[UndoLog] | None  # the log that pins follow, one of the above

    def track(self, name: str, **params: Any) -> Any:
        """Keep an answer up to date with the graph; see ``docs/tracking.md``.

        Parameters
        ----------
        name : str
            "bfs", "pagerank", "sssp", "triangle_count" or "weakly_connected_components".
        **params
            Parameters of the function of this name.

        Returns
        -------
        dynstore.algorithms.Monitor
            Its ``result()`` is what the function returns for the current graph.

        Raises
        ------
        InputError
            If the name is unknown, or the function refuses the parameters or the graph.
        """
        return provided("tracking").track(self, name, **params)

    def follow(self) -> DeltaLog:
        """Start a log, to which every update from now on adds its change as long as the log is alive.

        Returns
        -------
        DeltaLog
            An empty log.
        """
        log = DeltaLog()
        self._logs.add(ref(log, self._logs.discard))
        return log

    def net_delta(self, log: DeltaLog) -> Delta | None:
        """Return the net effect of a log's changes.

        Parameters
        ----------
        log : DeltaLog
            A log that :meth:`follow` returned.

        Returns
        -------
        Delta or None
            The net change up to the current version; None if there is none.
        """
        return net_delta(self.backend, self._out, log.changes) if log.changes else None

    def _read_change(
        self, batch: Batch, inserting: bool, located: SearchResult | None = None
    ) -> Change | Unread | None:
        """Return the state of the edges that a batch is about to change, if a log wants to keep it.

        ``located``: where the store's plan has found them. None if there are no logs.
        """
        if not self._logs:  # tested here, as nearly all graphs have none
            return None
        begun, num_edges = perf_counter(), batch.known().num_rows
        logs = self._logs_that_want(num_edges)
        if not logs:
            return Unread(num_edges, inserting)
        change = read_change(self._out, batch, inserting, located)
        if self._records is not None and any(not log.keeps_numbers for log in logs):
            change = replace(change, shown=self._weights_before(change))
        seconds = perf_counter() - begun
        for log in logs:
            log.seconds += seconds
        return change

    def _logs_that_want(self, num_edges: int) -> list[DeltaLog]:
        """Return the logs that would keep a change of so many edges."""
        most = self._most_kept
        return [log for log in self._live_logs() if log.wants(num_edges, most)]

    def _record(self, change: Change | Unread | None) -> None:
        """Add a change to all logs; None for one of everything. It cannot fail: the graph is written already."""
        numbered = change
        if self._records is not None and isinstance(change, Change):
            numbered, change = replace(change, shown=None), replace(change, weights=change.shown, shown=None)
        most = self._most_kept
        for log in self._live_logs():
            log.add(numbered if log.keeps_numbers else change, most)

    def _weights_before(self, change: Change) -> Array | None:
        """Return the weights of a change whose edges have records, 0 for absent edges; None if there are none."""
        assert self._records is not None
        weights = self._records.weights(change.weights)
        return None if weights is None else self.backend.xp.where(change.before, weights, weights.dtype.type(0))

    def _make_way(self, num_edges: int | None) -> None:
        """Have pins copy their version where an update of so many edges, None for all, would leave too much to undo.

        Raises
        ------
        OutOfMemoryError
            Pins and the graph stay as they are.
        """
        log = None if self._undo is None else self._undo()
        if log is not None:
            log.make_way(num_edges, max(MIN_KEPT, int(MAX_UNDONE * self._out.num_edges)))

    @property
    def _most_kept(self) -> int:
        return max(MIN_KEPT, int(MAX_SHARE * self._out.num_edges))

    def _live_logs(self) -> list[DeltaLog]:
        logs = [reference() for reference in list(self._logs)]  # one may end meanwhile
        return [log for log in logs if log is not None]
