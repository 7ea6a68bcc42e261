"""The threads of a stream: one reads the source, one owns the graph; on a GPU a third one brings the next batches."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from functools import partial
from threading import Event, Lock, Thread, current_thread
from time import perf_counter
from typing import TYPE_CHECKING, Any

from dynstore.errors import DynstoreError, InputError, SourceGapError, StreamError, cause_of, type_name, without_secrets
from dynstore.streams.journal import find_journal, pack
from dynstore.streams.pending import Pending
from dynstore.streams.progress import Meter, shown_time
from dynstore.streams.reaching import Reach, resume
from dynstore.streams.rows import joined
from dynstore.streams.units import One, read_units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from dynstore.distributed import ShardedGraph
    from dynstore.graph import DynamicGraph
    from dynstore.streams.applying import Applier, Ready
    from dynstore.streams.letters import Letters
    from dynstore.streams.monitors import StreamMonitor
    from dynstore.streams.pending import Overflow, Position, Taken
    from dynstore.streams.progress import State
    from dynstore.streams.rows import RowReader, Rows
    from dynstore.streams.sources.base import OnGap, Source
    from dynstore.streams.staging import Staging
    from dynstore.streams.units import BadUnit

__all__ = ["CLOSING_S", "POLL_S", "Engine", "Limits", "Question"]

POLL_S = 0.05  # how long the reader waits for rows before it looks up
PART_BYTES = 1 << 26  # of rows that are put in line together
CLOSING_S = 5.0  # how long the end waits for callbacks, and for a source that does not return
_log = logging.getLogger("dynstore")


@dataclass(slots=True, frozen=True)
class Limits:
    """The most rows of a batch and seconds until it closes; the most rows and bytes that wait; the fate of others.

    ``on_gap``: the fate of the stream when the source lacks what was not read.
    """

    batch_edges: int
    max_delay: float
    max_pending: int
    max_bytes: int
    overflow: Overflow
    on_gap: OnGap


@dataclass(slots=True)
class Question:
    """A question, to be answered when ``upto`` rows that have arrived are applied, and no others.

    ``version``: the version that it is about; None for the present one.
    """

    query: Callable[[Any], Any]
    version: int | None
    future: Future[Any]
    upto: int = 0


class Engine:
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
    """

    def __init__(
        self,
        G: DynamicGraph | ShardedGraph,
        source: Source,
        limits: Limits,
        rows: RowReader,
        applier: Applier,
        staging: Staging,
        letters: Letters,
    ) -> None:
        self._letters = letters
        self.graph, self._source, self._limits = G, source, limits
        self._rows, self._applier, self._staging = rows, applier, staging
        self.pending, self.meter = Pending(limits.max_pending, limits.max_bytes, limits.overflow), Meter()
        self.monitors: list[StreamMonitor] = []
        self.journal = find_journal(G)
        self.over = Event()
        self.state: State = "ready"
        self.failure: BaseException | None = None
        self.newest_arrived: int | float | None = None
        self.newest_applied: int | float | None = None
        self._failed = self._stopping = False
        self._patience: float | None = None  # how long the owner waits for rows; None: until they come
        self._questions: list[Question] = []
        self._commits: deque[tuple[int, Any]] = deque()  # versions, and positions to commit when they last
        self._upto = 0  # rows that have arrived up to the last applied one
        self._unfinished: Callable[[], None] | None = None  # finishes the batch that was applied last
        self._finished_s = 0.0  # what that took
        self._threads: list[Thread] = []
        self._owner: Thread | None = None
        self._asking = Lock()  # of the threads that ask while no thread owns the graph
        known = resume(G, applier.window)
        self._is_logged, reach = known is not None, None
        if known is not None:
            self.pending.position, applier.newest, reach = known
            if applier.window is None or len(applier.window):  # else the rows of the window are read again
                self.newest_applied = applier.newest
        window = None if self.journal is None else applier.window
        # Of several ranks, all would have to ask.
        self._began_empty = not hasattr(G, "comm") and not G.number_of_edges()
        self._reach = None if window is None else Reach(window, reach, applier.newest)

    @property
    def applied_by_all(self) -> int:
        """Rows that are applied; by all ranks, where there are several."""
        return self.meter.applied

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
        """Answer a question: by the owner if there is one, else here; ``now``: after all rows that have arrived."""
        if current_thread() is self._owner:  # asked by another question, whose thread cannot wait for itself
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

    def _fail(self, error: BaseException) -> None:
        if not self._failed:
            self._failed, self.failure = True, error
            self.meter.error(str(error) or type(error).__name__)

    # ------------------------------------------------------------------ the reader

    def _read(self) -> None:
        try:
            self._read_all()
        except EOFError:
            pass
        except DynstoreError as error:  # of a row, or of a full queue
            self._fail(error)
        except BaseException as error:  # also SystemExit: a thread that ends without a word leaves all others waiting
            why = without_secrets(str(error) or type_name(error))
            failure = StreamError(f"Stream: the source could not go on: {why}")
            failure.__cause__ = cause_of(error)
            self._fail(failure)
        self.pending.end()
        while not self.over.wait(POLL_S):
            self._commit()
        self._commit()
        self._close_source()
        self._letters.close()

    def _read_all(self) -> None:
        source, pending, limits = self._source, self.pending, self._limits
        skip = pending.position.skip
        said = getattr(source, "left_behind", None)
        if said and not self._is_logged and self._began_empty:
            _log.warning("Stream: %s. The graph is empty, and what came before that will not be in it", said)
        if self._is_logged and pending.position.whole and not self._seek(pending.position.source):
            skip = 0
        while not self._stopping:
            self._commit()
            room = self._await_room()
            begun = perf_counter()
            try:
                got = source.poll(min(limits.batch_edges, room), POLL_S) if room else None
            except SourceGapError as gap:
                self._pass_gap(gap)
                got, skip = None, 0
            if got is None:
                continue
            for rows, position in self._read_units(*got):
                if not self._await_room():
                    break
                known = min(skip, len(rows))
                skip -= known
                pending.put(rows, position, known)
            self.meter.stage("read", begun)

    def _seek(self, position: Any) -> bool:
        """Go on at a position; return False if it was behind a gap."""
        try:
            self._source.seek(position)
        except SourceGapError as gap:
            self._pass_gap(gap)
            return False
        return True

    def _pass_gap(self, gap: SourceGapError) -> None:
        """Go on behind a gap of the source, or raise it."""
        if self._limits.on_gap == "raise":
            raise gap
        self.meter.note_gap(gap.count)
        _log.warning("Stream: %s; the stream goes on behind it", gap)
        self._source.seek(gap.resume)

    def _await_room(self) -> int:
        """Wait until there is room for rows, and return for how many; none if the stream is stopping."""
        if self.pending.room() <= 0:
            self._source.pause(True)
            while self.pending.room() <= 0 and not self._stopping:
                self.pending.wait_for_room(POLL_S)
                self._commit()
            self._source.pause(False)
        return max(0, self.pending.room())

    def _read_units(self, given: Any, position: Any) -> Iterator[tuple[Rows, Any]]:
        """Yield the rows of what a source has brought, in parts of 64 MiB or one unit, and the position behind each.

        What is left out has no rows: the position moves on. Before an error is raised, all rows before it are yielded.
        """
        units = given if hasattr(given, "place") else One(given, position, "")
        parts: list[Rows] = []
        behind, is_new, failure, size = None, False, None, 0
        try:
            for rows, position in read_units(self._rows, units, self._leave_out):
                behind, is_new = position, True
                if rows is not None and len(rows):
                    parts.append(rows)
                    size += rows.nbytes
                if size > PART_BYTES:
                    yield self._arrived(parts), behind
                    parts, is_new, size = [], False, 0
        except DynstoreError as error:
            failure = error
        if is_new:
            yield self._arrived(parts), behind
        if failure is not None:
            raise failure

    def _arrived(self, parts: list[Rows]) -> Rows:
        rows = joined(parts) if parts else self._rows.nothing()
        if rows.times is not None and len(rows):
            newest = rows.times.max().item()
            self.newest_arrived = newest if self.newest_arrived is None else max(newest, self.newest_arrived)
        return rows

    def _leave_out(self, unit: BadUnit) -> None:
        self._letters.take(unit)
        self.meter.left_out += 1
        _log.warning("Stream: %s is left out: %s", unit.place or "a batch", without_secrets(unit.error))

    def _commit(self) -> None:
        """Commit the newest position that lasts."""
        position, found = None, False
        while self._commits and (self.journal is None or self._commits[0][0] <= self.journal.durable_version):
            position, found = self._commits.popleft()[1], True
        if found:
            try:
                self._source.commit(position)
            except Exception as error:
                self._fail(StreamError(f"Stream: the source could not commit {position!r}: {without_secrets(error)}"))
                self._stopping = True

    def _close_source(self) -> None:
        close = getattr(self._source, "close", None)
        if close is not None:
            try:
                close()
            except Exception as error:
                self.meter.error(f"the source could not be closed: {error}")

    # ------------------------------------------------------------------ the owner

    def _own(self) -> None:
        try:
            self._staging.use_device()
            if self.journal is not None:
                self.journal.meanwhile = self._finish_batch
            self._apply_all()
            self.graph.backend.synchronize()
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
            monitor.after_batch(self._event_time(), last=True)

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
                    return pending.take(most)
                if not wait or any(rows <= 0 for rows in left) or pending.ended or is_late:
                    return None
                pending.changed.wait(limits.max_delay - age if pending.size else patience)
        return None

    def _apply(self, ready: Ready) -> None:
        """Apply a batch and answer. A GPU may still write when this returns: all that reads the graph comes behind.

        With a log, the answers may come later: while the next batch's record is written, before that batch is applied.
        """
        taken, begun = ready.taken, perf_counter()
        reach = None if self._reach is None else self._reach.take_in(ready)
        logged = None if self.journal is None else self.journal.positioned(pack(taken.position, ready.newest, reach))
        self._finished_s = 0.0
        late = ready.late + self._applier.apply(ready, logged)
        self._finish_batch()  # where nothing was to be logged
        self.meter.stage("update", begun + self._finished_s)
        self._upto, self.newest_applied = taken.upto, ready.newest
        done = taken.position if reach is None else reach.position
        self._unfinished = partial(self._finish, taken, late, done, self._event_time())
        if self.journal is None or not self.monitors:
            self._finish_batch()

    def _finish_batch(self) -> None:
        """Answer after the batch that was applied last, if that is not done."""
        finish, self._unfinished = self._unfinished, None
        if finish is not None:
            finish()

    def _finish(self, taken: Taken, late: int, done: Position, event_time: Any) -> None:
        begun = perf_counter()
        for monitor in self.monitors:
            monitor.after_batch(event_time)
        self._finished_s = self.meter.stage("monitors", begun) - begun
        self.meter.batch(taken.arrivals, late)
        if done.whole:
            self._commits.append((self.graph.version, done.source))

    def _event_time(self) -> Any:
        return shown_time(self.newest_applied, self._rows.dated)

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
            _settle(question, lambda: self.graph)
        elif (journal := self.journal) is not None:
            restore = partial(journal.at, version)
            Thread(target=_settle, args=(question, restore), name="dynstore-question", daemon=True).start()
        else:
            question.future.set_exception(
                InputError(
                    f"ask: version {version} is asked for, the graph has {present}; "
                    "a graph of dynstore.open(...) keeps older ones"
                )
            )


def _settle(question: Question, view: Callable[[], Any]) -> None:
    try:
        question.future.set_result(question.query(view()))
    except BaseException as error:
        question.future.set_exception(error)
