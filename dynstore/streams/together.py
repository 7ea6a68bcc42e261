"""Streams into a sharded graph: each rank reads a source of its own, and all take their batches together."""

from __future__ import annotations

from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from dynstore.distributed.calls import Collective
from dynstore.streams.applying import Applier
from dynstore.streams.engine import StreamEngine

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from dynstore.distributed import ShardedGraph
    from dynstore.streams.applying import Ready
    from dynstore.streams.letters import Letters
    from dynstore.streams.reading import BatchLimits
    from dynstore.streams.rows import RowReader
    from dynstore.streams.sources.base import Source
    from dynstore.streams.staging import Staging

__all__ = ["TogetherApplier", "TogetherEngine", "Turn"]

CALLER = "Stream"
LEAST_WAIT_S = 0.001  # ranks without rows do not agree more often than that


class Turn(NamedTuple):
    """What a rank brings to a turn.

    Attributes
    ----------
    rows : int
        Of its batch; 0 without one.
    inserts, deletes : bool
        Whether the batch has such rows.
    stops : bool
        Whether the rank's stream is to stop.
    is_over : bool
        Whether its source has ended, and all rows of it are applied.
    applied : int
        Rows that it has applied before.
    newest : int or float, or None
        The newest time of its rows, with this batch.
    dated : bool or None
        Whether that is a date-time.
    """

    rows: int
    inserts: bool
    deletes: bool
    stops: bool
    is_over: bool
    applied: int
    newest: int | float | None
    dated: bool | None


class TogetherApplier(Applier):
    """Applies a batch of all ranks: the call is the same on all of them, whatever rows a rank has."""

    inserts = deletes = False  # whether any rank does

    def apply(self, ready: Ready, logged: AbstractContextManager[None] | None = None) -> int:
        """Apply a rank's part of the batch; return 0, as no window is there."""
        columns = ready.columns()
        self.apply_part(tuple(columns[: ready.width]), tuple(columns[ready.width :]))
        return 0

    def apply_part(self, insert: tuple[Any, ...] = (), delete: tuple[Any, ...] = ()) -> None:
        """Make the call of all ranks; by default for a rank without rows."""
        if self.inserts and self.deletes:
            self.G.update(insert=insert or [], delete=delete or [])
        elif self.inserts:
            self.G.insert_edges(insert or [])
        elif self.deletes:
            self.G.delete_edges(delete or [])


class TogetherEngine(StreamEngine):
    """The engine of one rank. All ranks take turns: in each they agree, then apply what any of them has.

    A rank waits for rows at most ``max_delay`` seconds before a turn. Without rows it takes part all the same.
    """

    graph: ShardedGraph
    _applier: TogetherApplier

    def __init__(
        self,
        G: ShardedGraph,
        source: Source,
        limits: BatchLimits,
        rows: RowReader,
        applier: TogetherApplier,
        staging: Staging,
        letters: Letters,
    ) -> None:
        super().__init__(G, source, limits, rows, applier, staging, letters)
        self._patience = max(limits.max_delay, LEAST_WAIT_S)
        self._all = 0
        self._newest: int | float | None = None  # of this rank's rows
        self._dated: bool | None = None

    @property
    def applied_by_all(self) -> int:
        return self._all

    @property
    def dated(self) -> bool | None:
        return self._dated if self._rows.dated is None else self._rows.dated

    def _apply_all(self) -> None:
        ahead: deque[Callable[[], Ready]] = deque()
        while self._take_turn(ahead):
            self._answer_questions(not ahead)

    def _take_turn(self, ahead: deque[Callable[[], Ready]]) -> bool:
        """Agree with all ranks, and apply what they have; return False at the end."""
        ready = None
        with Collective(self.graph.comm, CALLER) as call:  # what fails here on one rank ends the streams of all
            self._look_ahead(ahead, 1, wait=True)
            begun = perf_counter()
            if ahead:
                ready = ahead.popleft()()
                columns = ready.columns()
                ready = ready._replace(columns=lambda: columns)
                self._look_ahead(ahead, self._staging.ahead)
            is_over = ready is None and self.pending.ended and not self.pending.size
            if self.failure is not None and (is_over or self._stopping):
                raise self.failure
            inserts, deletes = (False, False) if ready is None else (ready.width > 0, ready.deletes)
            rows = 0 if ready is None else len(ready.taken)
            so_far = rows, inserts, deletes, self._stopping, is_over, self.meter.applied
            self._newest = self._newest if ready is None else ready.newest
            turns = call.agree_to_write(Turn(*so_far, self._newest, self._rows.dated))
        self.meter.stage("wait", begun)
        if any(turn.stops for turn in turns) or all(turn.is_over for turn in turns):
            return False
        self._applier.inserts = any(turn.inserts for turn in turns)
        self._applier.deletes = any(turn.deletes for turn in turns)
        if ready is not None:
            self._apply(ready)
        elif self._applier.inserts or self._applier.deletes:
            begun = perf_counter()
            self._applier.apply_part()
            self.meter.stage("update", begun)
            self.meter.batch([], 0)
        self._all = sum(turn.applied + turn.rows for turn in turns)
        self.newest_applied = max((turn.newest for turn in turns if turn.newest is not None), default=None)
        self._dated = next((turn.dated for turn in turns if turn.dated is not None), None)
        return True
