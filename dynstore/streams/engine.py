"""The threads of a stream: one reads the source, one owns the graph; on a GPU a third one brings the next batches."""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from threading import Lock, Thread, current_thread
from time import perf_counter
from typing import TYPE_CHECKING, Any

from dynstore.backend import get_backend
from dynstore.errors import InputError, StreamError
from dynstore.streams.boundaries import Boundaries
from dynstore.streams.journal import find_journal, pack, unpack
from dynstore.streams.progress import shown_time
from dynstore.streams.questions import Question, VersionTime, settle
from dynstore.streams.reaching import Reach, resume
from dynstore.streams.reading import BatchLimits, Reading

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.distributed import ShardedGraph
    from dynstore.graph import DynamicGraph
    from dynstore.streams.applying import Applier, Ready
    from dynstore.streams.letters import Letters
    from dynstore.streams.monitors import StreamMonitor
    from dynstore.streams.pending import Position, Taken
    from dynstore.streams.progress import State
    from dynstore.streams.rows import RowReader
    from dynstore.streams.sources.base import Source
    from dynstore.streams.staging import Staging

__all__ = ["CLOSING_S", "StreamEngine"]

CLOSING_S = 5.0  # how long the end waits for callbacks, and for a source that does not return
_log = logging.getLogger("dynstore")


class StreamEngine(Reading):
    """Reads, applies, answers.

    Attributes
    ----------
    pending : Pending
    meter : Meter
    monitors : list of StreamMonitor
    over : threading.Event
        Set when the last batch has been applied.
    failure : BaseException or None
        What has ended the stream.
    newest_arrived, newest_applied : int or float, or None
        Times.
    rebuilding : bool
        Whether the rows of a window are being read again.
    boundaries : Boundaries
        At which times batches end.
    """

    def __init__(
        self,
        G: DynamicGraph | ShardedGraph,
        source: Source,
        limits: BatchLimits,
        rows: RowReader,
        applier: Applier,
        staging: Staging,
        letters: Letters,
    ) -> None:
        super().__init__(source, limits, rows, letters, find_journal(G))
        self.graph, self._applier, self._staging = G, applier, staging
        self.monitors: list[StreamMonitor] = []
        self.state: State = "ready"
        self.newest_applied: int | float | None = None
        self._patience: float | None = None  # how long the owner waits for rows; None: until they come
        self._questions: list[Question] = []
        self._upto = 0  # rows that have arrived up to the last applied one
        self._unfinished: Callable[[], None] | None = None  # finishes the batch that was applied last
        self._finished_s = 0.0  # what that took
        self._threads: list[Thread] = []
        self._owner: Thread | None = None
        self._asking = Lock()  # of the threads that ask while no thread owns the graph
        known = resume(G, applier.window)
        self._is_logged, reach, again = known is not None, None, 0
        if known is not None:
            self.pending.position, applier.newest, reach, again = known
            if applier.window is None or applier.window.rule or len(applier.window):  # else its rows are read again
                self.newest_applied = applier.newest
        elif applier.window is not None:
            self.newest_applied = applier.window.newest
        self.boundaries = Boundaries()
        self.boundaries.newest = self.newest_applied
        self.rebuilding = again > 0
        window = None if self.journal is None else applier.window
        if window is not None and window.rule is not None:
            window = None  # its rows are the graph's edges
        # Of several ranks, all would have to ask.
        self._began_empty = not hasattr(G, "comm") and not G.number_of_edges()
        self._reach = None if window is None else Reach(window, reach, applier.newest, again)

    @property
    def applied_by_all(self) -> int:
        """Rows that are applied; by all ranks, where there are several."""
        return self.meter.applied

    @property
    def dated(self) -> bool | None:
        """Whether times are date-times; None before the first."""
        return self._rows.dated

    def start(self) -> None:
        """Start the threads."""
        self.meter.begin()
        works = {"reader": self._read, "owner": self._own}
        threads = {name: Thread(target=works[name], name=f"dynstore-{name}", daemon=True) for name in works}
        self._threads, self._owner = list(threads.values()), threads["owner"]
        self.state = "running"
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """End after the current batch."""
        if self.state == "ready":
            self.state = "ended"
            self.over.set()
            self._close_source()
            return
        with self.pending.changed:
            self._stopping = True
            self.pending.changed.notify_all()
        if current_thread() in self._threads:  # a question ends the stream
            return
        self.over.wait()
        for thread in self._threads:
            thread.join(CLOSING_S)
            if thread.is_alive():
                _log.warning("Stream: the source has not returned after %g s; its thread is left behind", CLOSING_S)
        deadline = perf_counter() + CLOSING_S
        for monitor in self.monitors:
            monitor.wait(max(0.0, deadline - perf_counter()))
            monitor.close()

    def ask(self, question: Question, now: bool) -> None:
        """Have a question answered by the thread that owns the graph; if the stream does not run, answer it here.

        ``now``: all rows that have arrived until now are applied first.
        """
        if current_thread() is self._owner:  # a question asks: it runs on the thread that applies rows
            if now:
                question.future.set_exception(
                    InputError(
                        "ask: at is 'now' (as for drain) within a question; wanted 'applied', "
                        "as no row is applied before the question returns"
                    )
                )
            else:
                self._answer(question)
            return
        with self.pending.changed:
            if self.state == "running" and not self.over.is_set():
                question.upto = self.pending.arrived if now else 0
                self._questions.append(question)
                self.pending.changed.notify_all()
                return
        with self._asking:
            self._answer(question)

    # ------------------------------------------------------------------ the owner

    def _own(self) -> None:
        try:
            self._staging.use_device()
            if self.journal is not None:
                self.journal.meanwhile = self._finish_batch
            self._apply_all()
            get_backend(self.graph.device).synchronize()
            if self.journal is not None:
                self.journal.flush()
        except BaseException as error:
            self._fail(error)
        if self.journal is not None:
            self.journal.meanwhile = None
        self._staging.close()
        with self.pending.changed:
            self._stopping = True
            self.state = "failed" if self._failed else "ended"
            left, self._questions = self._questions, []
            self.over.set()
            self.pending.changed.notify_all()
        for question in left:
            if question.upto <= self._upto:
                self._answer(question)
            elif question.future.set_running_or_notify_cancel():
                question.future.set_exception(
                    self.failure or StreamError("ask: the stream has ended before it applied what had arrived")
                )

    def _apply_all(self) -> None:
        ahead: deque[Callable[[], Ready]] = deque()
        try:
            while not self._stopping:
                self._look_ahead(ahead, 1)
                if not ahead:
                    self._finish_batch()
                    self._look_ahead(ahead, 1, wait=True)
                if ahead:
                    begun = perf_counter()
                    current = ahead.popleft()()
                    self.meter.stage("wait", begun)
                    self._look_ahead(ahead, self._staging.ahead)
                    self._apply(current)
                self._answer_questions(not ahead)
                if not ahead and self.pending.ended and not self.pending.size:
                    break
        finally:
            self._finish_batch()
        for monitor in self.monitors:
            monitor.after_batch(self.version_time(), last=True)

    def _look_ahead(self, ahead: deque[Callable[[], Ready]], most: int, wait: bool = False) -> None:
        """Start to bring batches until ``most`` are on their way, or rows are missing; ``wait`` for those of one."""
        while len(ahead) < most and (taken := self._take(wait)) is not None:
            ahead.append(self._staging.start(partial(self._prepare, taken)))

    def _prepare(self, taken: Taken) -> Ready:
        begun = perf_counter()
        ready = self._applier.prepare(taken, self._rows.dated)
        self.meter.stage("copy", begun)
        return ready

    def _take(self, wait: bool) -> Taken | None:
        pending, limits = self.pending, self._limits
        ends = None if self._patience is None else perf_counter() + self._patience
        with pending.changed:
            while not self._stopping:
                passed = pending.arrived - pending.size
                left = [question.upto - passed for question in self._questions]
                most = min([limits.batch_edges, *(rows for rows in left if rows > 0)])
                age = pending.age()
                patience = None if ends is None else ends - perf_counter()
                is_late = wait and patience is not None and patience <= 0
                if pending.size and (pending.size >= most or pending.ended or age >= limits.max_delay or is_late):
                    return pending.take(most, self.boundaries)
                if not wait or any(rows <= 0 for rows in left) or pending.ended or is_late:
                    return None
                pending.changed.wait(limits.max_delay - age if pending.size else patience)
        return None

    def _apply(self, ready: Ready) -> None:
        """Apply a batch and answer. A GPU may still write when this returns: all that reads the graph comes behind.

        With a log, the answers may come later: while the next batch's record is written, before that batch is applied.
        """
        taken = ready.taken
        if taken.passed:
            self._answer_at(taken.passed)
        begun = perf_counter()
        reach = None if self._reach is None else self._reach.take_in(ready)
        logged = None if self.journal is None else self.journal.positioned(pack(taken.position, ready.newest, reach))
        self._finished_s = 0.0
        late = ready.late + self._applier.apply(ready, logged)
        self._finish_batch()  # where nothing was to be logged
        self.meter.stage("update", begun + self._finished_s)
        self._upto, self.newest_applied = taken.upto, ready.newest
        done = taken.position if reach is None else reach.position
        self.rebuilding = reach is not None and reach.rebuilding
        self._unfinished = partial(self._finish, taken, late, done, self.version_time())
        if self.journal is None or not self.monitors:
            self._finish_batch()

    def _finish_batch(self) -> None:
        """Answer after the batch that was applied last, if that is not done."""
        finish, self._unfinished = self._unfinished, None
        if finish is not None:
            finish()

    def _answer_at(self, passed: dict[Any, Any]) -> None:
        """Answer at the boundaries of event time that the next batch passes: all rows before it are in the graph."""
        self._finish_batch()
        begun = perf_counter()
        for monitor in self.monitors:
            if monitor.length in passed:
                monitor.answer(self.version_time(), shown_time(passed[monitor.length], self.dated))
        self.meter.stage("monitors", begun)

    def _finish(self, taken: Taken, late: int, done: Position, version_time: VersionTime) -> None:
        begun = perf_counter()
        for monitor in self.monitors:
            monitor.after_batch(version_time)
        self._finished_s = self.meter.stage("monitors", begun) - begun
        self.meter.batch(taken.arrivals, late)
        if done.whole:
            self._commits.append((self.graph.version, done.source))

    def version_time(self) -> VersionTime:
        """Return what the present version holds."""
        return VersionTime(shown_time(self.newest_applied, self.dated), self.rebuilding)

    def _answer_questions(self, idle: bool) -> None:
        """Answer the questions whose rows are applied; ``idle``: no rows are between the queue and the graph."""
        with self.pending.changed:
            upto = self.pending.arrived - self.pending.size if idle else self._upto
            due = [question for question in self._questions if question.upto <= upto]
            self._questions = [question for question in self._questions if question.upto > upto]
        if due:
            self._finish_batch()
        begun = perf_counter()
        for question in due:
            self._answer(question)
        if due:
            self.meter.stage("questions", begun)

    def _answer(self, question: Question) -> None:
        """Answer a question about the present version here; one about an older version on a thread of its own."""
        version, present = question.version, self.graph.version
        if not question.future.set_running_or_notify_cancel():
            return
        if version is None or version == present:
            settle(question, lambda: (self._applier.graphs, present, self.version_time()))
        elif self.journal is not None:
            restore = partial(self._older, version)
            Thread(target=settle, args=(question, restore), name="dynstore-question", daemon=True).start()
        else:
            question.future.set_exception(
                InputError(
                    f"ask: version {version} is asked for, the graph has {present}; "
                    "a graph of dynstore.open(...) keeps older ones"
                )
            )

    def _older(self, version: int) -> tuple[tuple[Any, ...], int, VersionTime]:
        """Return an older version, made from the log, and its time."""
        assert self.journal is not None
        made = self.journal.restored_at(version)
        _, newest, start = (None, None, None) if made.position is None else unpack(made.position)
        if start is not None and not start.read:  # the window was emptied
            newest = None
        version_time = VersionTime(shown_time(newest, self.dated), start is not None and start.rebuilding)
        return (made.graph,), version, version_time
