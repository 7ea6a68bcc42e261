"""A stream of edges into a graph: a thread reads, a thread applies, and answers go to callbacks and questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from math import ceil
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

import numpy as np

from dynstore.arguments import check_count, check_name, check_number
from dynstore.backend import get_backend
from dynstore.distributed.graph import ShardedGraph
from dynstore.errors import InputError, InputTypeError, type_name
from dynstore.graph import DynamicGraph
from dynstore.input.times import read_span
from dynstore.streams.addresses import as_source
from dynstore.streams.applying import Applier
from dynstore.streams.engine import StreamEngine
from dynstore.streams.journal import find_journal
from dynstore.streams.letters import OnError, open_letters
from dynstore.streams.monitors import StreamMonitor, read_every
from dynstore.streams.pending import OVERFLOW, Overflow
from dynstore.streams.progress import Progress, shown_time
from dynstore.streams.questions import Question
from dynstore.streams.reading import POLL_S, BatchLimits
from dynstore.streams.rows import RowReader, keeps_times, needs_times, reads_weights
from dynstore.streams.several import PartApplier, SeveralApplier, read_also
from dynstore.streams.sources.base import ON_GAP, OnGap
from dynstore.streams.staging import make_staging
from dynstore.streams.together import TogetherApplier, TogetherEngine
from dynstore.windows.window import Window

if TYPE_CHECKING:
    from dynstore.streams.monitors import Tick
    from dynstore.streams.questions import Answer

__all__ = ["Stream"]

CALLER = "Stream"
T = TypeVar("T")


class Stream:
    """Bring the rows of a source into a graph, batch by batch; keep answers up to date and take questions meanwhile.

    One thread reads the source. Another one applies batches, in the order in which rows came. On a GPU a third one
    copies the next batches at the same time. While the stream runs, do not use the graph yourself: use :meth:`monitor`
    and :meth:`ask`.

    Parameters
    ----------
    G : DynamicGraph or ShardedGraph
        Any graph. With the graph of a database (:func:`dynstore.open`) the stream goes on where the log ends: no row is
        lost or applied twice. If ``window`` is a new :class:`Window` then, the graph is emptied, and the rows of the
        window are read again. For a graph on several ranks, each rank has a stream with a source of its own: see
        ``docs/guides/many-gpus.md``.
    source : Source, iterable, frame, tuple, str or path
        Where rows come from: a :class:`dynstore.streams.Source`; an iterable of batches; edges in any form that
        :meth:`DynamicGraph.insert_edges` takes, or a dict of columns; the path of a text file, which is followed as it
        grows; or an address, such as ``"redis://localhost:6379/edges"``.
    window : Window, int, str or timedelta, optional
        The window that fills ``G``. In a graph with ``timestamps``, a length of time: with each batch edges expire
        whose last time is at most the newest time minus that. By default edges stay.
    batch_edges : int
        The most rows in a batch.
    max_delay : float
        The most seconds that a row waits for its batch to fill up.
    max_pending : int
        The most rows that may wait.
    overflow : {"block", "drop-oldest", "error"}
        What happens when more than ``max_pending`` rows wait. "block": the source waits. "drop-oldest": the rows that
        have waited longest are dropped, and counted. "error": the stream applies the rows that wait, and ends with a
        :class:`StreamError`.
    lateness : int, float, str or timedelta, optional
        A row is ignored, and counted as late, if its time is older than the newest time so far minus this. By default
        only the window's own rule applies.
    columns : mapping, optional
        The names of the columns, by role: "source", "destination", "weight", "time", "op", "edge_id". By default a
        column is called like its role. Columns "time", "op" and "edge_id" may be missing. "op" has "+" or "insert" or
        the number 1, "-" or "delete" or -1. "edge_id" is for multigraphs: the id of the row's event, int64. There a row
        that deletes takes out the event with its id; its ends and values may be null.
    ids : {"integer", "text"}, optional
        What ids are in a source that does not say it: a text file, or with "text" the numbers of JSON. By default they
        are as those of the graph, if it has vertices; else the first rows of a text file decide, up to 1 MiB. Integers
        are taken for texts if one has leading zeros, or if a text is among them.
    on_error : {"raise", "skip"}, callable, path or str
        What happens to a message, or a line of a file, that cannot be read. "raise": the rows before it are applied,
        then the stream ends with an error that names the message's id or offset, or the line. "skip": it is left out,
        logged, and counted in ``progress().left_out``. A function gets it as a
        :class:`dynstore.streams.BadUnit`. A path is a file that gets a line of JSON for each. An address, such as
        "redis://localhost:6379/dead", is a stream of Redis, a subject of NATS or a topic of Kafka that gets a message
        for each; what was left out may be sent there twice after a crash.
    transform : callable, optional
        A function of a pandas frame: it gets what each message or batch holds, and returns the rows, in any form that
        a batch may have.
    max_pending_bytes : int
        About the most bytes that the waiting rows may take.
    on_gap : {"raise", "continue"}
        What happens when the source no longer has what was not read yet, as after it was trimmed or made anew. "raise":
        the rows before are applied, and the stream ends with a :class:`dynstore.errors.SourceGapError`. "continue": it
        is logged, counted in ``progress().gaps`` and ``lost``, and the stream reads what there is.
    also : sequence of DynamicGraph or Window
        More graphs that get the same rows: a batch is applied to all graphs or to none. They lie on the same device and
        have ids of the same kind. Their weights and columns are among those of ``G``. None lives in a database. A batch
        is prepared and copied to the device for each of them.

    Attributes
    ----------
    graph : DynamicGraph or ShardedGraph
    graphs : tuple
        ``graph`` and those of ``also``.
    interrupted : bool
        Whether Ctrl-C has ended :meth:`run`.

    Raises
    ------
    InputError
        For arguments that do not fit.

    Notes
    -----
    A batch is one version of the graph; with a window and deletions it is two. If a row cannot be applied, the whole
    batch is not applied, and the stream ends with the graph's error.

    Examples
    --------
    >>> import dynstore
    >>> G = dynstore.DynamicGraph(device="cpu")
    >>> batches = ([(day, day + 1), (0, day)] for day in range(1, 4))
    >>> with dynstore.Stream(G, batches) as stream:
    ...     edges = stream.run().applied
    >>> edges, G.number_of_edges()
    (6, 6)
    """

    def __init__(
        self,
        G: DynamicGraph | ShardedGraph,
        source: Any,
        window: Window | Any = None,
        batch_edges: int = 65_536,
        max_delay: float = 0.05,
        max_pending: int = 4_000_000,
        overflow: Overflow = "block",
        lateness: Any = None,
        columns: Mapping[str, str] | None = None,
        ids: Literal["integer", "text"] | None = None,
        on_error: OnError = "raise",
        transform: Callable[[Any], Any] | None = None,
        max_pending_bytes: int = 1 << 30,
        on_gap: OnGap = "raise",
        also: Sequence[DynamicGraph | Window] = (),
    ) -> None:
        if not isinstance(G, DynamicGraph | ShardedGraph):
            raise InputTypeError(f"{CALLER}: G is a {type_name(G)}; wanted a dynstore.DynamicGraph or a ShardedGraph")
        if isinstance(G, ShardedGraph) and window is not None:
            raise InputError(
                f"{CALLER}: window is {window!r}; a graph on several ranks does not support it yet. Leave it out"
            )
        length = None
        if window is not None and not isinstance(window, Window):
            if not keeps_times(G):
                raise InputTypeError(
                    f"{CALLER}: window is {window!r}; wanted a dynstore.Window; only a graph with timestamps takes a "
                    "length of time"
                )
            length, window = read_span(CALLER, "window", window), None
        if window is not None and window.graph is not G:
            raise InputTypeError(f"{CALLER}: window is of another graph; wanted a dynstore.Window of G")
        check_name(CALLER, "overflow", overflow, OVERFLOW)
        check_name(CALLER, "on_gap", on_gap, ON_GAP)
        limits = BatchLimits(
            check_count(CALLER, "batch_edges", batch_edges, least=1) or 1,
            check_number(CALLER, "max_delay", max_delay, least=0),
            check_count(CALLER, "max_pending", max_pending, least=1) or 1,
            check_count(CALLER, "max_pending_bytes", max_pending_bytes, least=1) or 1,
            overflow,
            on_gap,
        )
        span = None if lateness is None else (0, None) if lateness == 0 else read_span(CALLER, "lateness", lateness)
        weighted = reads_weights(G, window)
        others = read_also(G, also, weighted, length is not None)
        timed = span is not None or any(needs_times(*each) for each in ((G, window), *others))
        check_name(CALLER, "ids", "integer" if ids is None else ids, ("integer", "text"))
        self._rows = RowReader(G.shard if isinstance(G, ShardedGraph) else G, columns, weighted, timed, ids, transform)
        if transform is not None and not callable(transform):
            raise InputTypeError(f"{CALLER}: transform is {transform!r}; wanted a function of a pandas frame")
        letters = open_letters(on_error)
        opened = as_source(source)
        if hasattr(opened, "choose"):
            opened.choose(*self._rows.wanted())
        for given in (span, length):
            if given is not None:
                self._rows.dated = given[1]
        # A log takes rows from the host; of a window it takes what changes, which the graph's device finds.
        on_host = find_journal(G) is not None and window is None
        staging = make_staging(get_backend("cpu" if on_host else G.device))
        age, lateness = None if length is None else ceil(length[0]), None if span is None else span[0]
        if isinstance(G, ShardedGraph):
            together = TogetherApplier(G, None, age, lateness, staging)
            self._engine: StreamEngine = TogetherEngine(G, opened, limits, self._rows, together, staging, letters)
        else:
            parts = [PartApplier(*each, age, lateness, make_staging(G.core.backend)) for each in others]
            applier = Applier(G, window, age, lateness, staging)
            if parts:
                applier = SeveralApplier(G, window, age, lateness, staging, parts)
            self._engine = StreamEngine(G, opened, limits, self._rows, applier, staging, letters)
        self.graph, self.graphs, self.interrupted = G, (G, *(other for other, _ in others)), False

    def __repr__(self) -> str:
        engine = self._engine
        return f"Stream({engine.state}, version={self.graph.version}, {engine.meter.applied} rows)"

    # ------------------------------------------------------------------ beginning and end

    def start(self) -> Self:
        """Start the threads and return at once. If the stream runs already, nothing happens.

        Returns
        -------
        Stream
            The stream itself.

        Raises
        ------
        InputError
            If it has ended already.
        """
        if self._engine.state == "ready":
            self._engine.start()
        elif self._engine.state != "running":
            raise InputError(f"start: the stream has {self._engine.state}; make another one")
        return self

    def run(self, until: float | Callable[[Progress], bool] | None = None) -> Progress:
        """Run until the source ends; Ctrl-C ends it cleanly after the current batch.

        Parameters
        ----------
        until : float or callable, optional
            A number of seconds after which to end; or a function that gets :meth:`progress` about twenty times a
            second, and returns True to end.

        Returns
        -------
        Progress
            As it is at the end.

        Raises
        ------
        Exception
            The error that has ended the stream: a :class:`StreamError`, for example if the source cannot go on, or an
            error of the graph.
        """
        ends = None if until is None or callable(until) else perf_counter() + check_number("run", "until", until)
        try:
            if self._engine.state == "ready":
                self.start()
            while not self._engine.over.wait(POLL_S if ends is None else max(0.0, min(POLL_S, ends - perf_counter()))):
                if ends is not None and perf_counter() >= ends:
                    break
                if callable(until) and until(self.progress()):
                    break
        except KeyboardInterrupt:
            self.interrupted = True
        except BaseException:
            self._engine.end()
            raise
        self.stop()
        return self.progress()

    def drain(self, timeout: float | None = None) -> None:
        """Wait until all rows that have arrived so far are applied, and callbacks have returned. The stream goes on.

        A callback may call this; it does not wait for itself. A question may not.

        Parameters
        ----------
        timeout : float, optional
            The most seconds to wait.

        Raises
        ------
        TimeoutError
            If the time is up before that.
        InputError
            Within a question.
        Exception
            The error that has ended the stream in the meantime.
        """
        begun = perf_counter()
        self.ask(_nothing, at="now").result(timeout)
        for monitor in self._engine.monitors:
            left = None if timeout is None else max(0.0, timeout - (perf_counter() - begun))
            if not monitor.wait(left):
                raise TimeoutError(f"drain: the callback of {monitor.name} has not returned after {timeout} s")
        if self._engine.failure is not None:
            raise self._engine.failure

    def stop(self) -> None:
        """End after the current batch, and commit its position to the source. Rows that wait are not applied.

        Raises
        ------
        Exception
            The error that had ended the stream before; it is raised only once.
        """
        self._engine.end()
        failure, self._engine.failure = self._engine.failure, None
        if failure is not None:
            raise failure

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        if kind is None:
            self.stop()
        else:
            self._engine.end()

    # ------------------------------------------------------------------ answers

    def monitor(
        self,
        name: str,
        on_result: Callable[[Tick], None] | None = None,
        every: Any = 1,
        changed_only: bool | None = None,
        min_change: float = 0.0,
        by: Literal["batches", "time"] | None = None,
        graph: DynamicGraph | None = None,
        **params: Any,
    ) -> StreamMonitor:
        """Keep an answer up to date, and call a function with it.

        The function runs on a thread of its own. If it is slow, it gets the newest answer next, and misses those in
        between. By event time it misses none: answers wait in memory. If it raises, the error is logged and kept in
        :meth:`progress`. The stream goes on.

        Parameters
        ----------
        name : str
            The name of an answer, as for :meth:`DynamicGraph.track`.
        on_result : callable, optional
            A function of a :class:`dynstore.streams.Tick`.
        every : int, float, str or timedelta
            After how many batches to compute the answer; or a length of event time, such as "1h": then there is an
            answer for each full hour, of the rows that came before the first row of the next hour. For times that are
            numbers, pass a number and ``by="time"``. The answer is also computed after the last batch.
        changed_only : bool, optional
            If True, the function is not called when no row of the answer has changed since its last call. By default
            True for batches, and False for event time.
        min_change : float
            Rows count as changed if a number in them has changed by more.
        by : {"batches", "time"}, optional
            What ``every`` is. By default a number is one of batches.
        graph : DynamicGraph, optional
            One of ``graphs``, whose answer it is; by default the first.
        **params
            Parameters of the function of this name.

        Returns
        -------
        StreamMonitor
            Its ``latest`` is the last tick, or None.

        Raises
        ------
        InputError
            If the name is unknown, or the parameters or the graph do not fit.
        """
        meter = self._engine.meter
        if isinstance(self.graph, ShardedGraph):
            raise InputError(f"monitor: got {name!r}; a graph on several ranks does not support monitors yet")
        batches, span = read_every(every, by)
        length = None if span is None else span[0]
        G = self.graph if graph is None else graph
        if not any(G is each for each in self.graphs):
            raise InputError(f"monitor: graph is {graph!r}; wanted one of the stream's graphs")
        monitor = StreamMonitor(G, name, on_result, batches, length, changed_only, min_change, params, meter)
        if span is not None:
            if not self._rows.need_times(span[1]):
                got, wanted = ("numbers", "by='time'") if span[1] else ("date-times", "a length such as '1h'")
                raise InputError(f"monitor: every is {every!r}, and the times of the rows are {got}; wanted {wanted}")
            self._engine.boundaries.lengths = {*self._engine.boundaries.lengths, span[0]}
        self._engine.monitors.append(monitor)
        return monitor

    def ask(self, query: Callable[..., T], at: Literal["applied", "now"] | int = "applied") -> Future[Answer[T]]:
        """Ask the graph a question from any thread.

        Parameters
        ----------
        query : callable
            A function that gets the graph, or all of ``graphs``, one argument each; its return value is the answer's
            ``result``. It runs between two batches, and must only read.
        at : {"applied", "now"} or int
            The version that the function gets. "applied": the version after the batch that is being applied. "now": the
            version with exactly the rows that have arrived before the question. A number: that version, if it is the
            current one, or the graph's log reaches back to it.

        Returns
        -------
        concurrent.futures.Future
            Its ``result()`` returns a :class:`dynstore.streams.Answer`, which also has the version and the event time
            that it is of; or raises the error that ``query`` has raised.

        Raises
        ------
        InputError
            For any other value of ``at``. The future raises one for "now" within a question.
        """
        if not callable(query):
            raise InputTypeError(f"ask: query is {query!r}; wanted a function of the graph")
        if at not in ("applied", "now") and not (isinstance(at, int | np.integer) and not isinstance(at, bool)):
            raise InputError(f"ask: at is {at!r}; wanted 'applied', 'now' or the number of a version")
        future: Future[Answer[T]] = Future()
        self._engine.ask(Question(query, None if isinstance(at, str) else int(at), future), at == "now")
        return future

    def progress(self) -> Progress:
        """Return counts, rates and delays.

        Returns
        -------
        Progress
            As they are at this moment.
        """
        engine, dated = self._engine, self._engine.dated
        pending, meter = engine.pending, engine.meter
        p50, p99 = meter.delays_ms(0.5, 0.99)
        newest, last = shown_time(engine.newest_applied, dated), shown_time(engine.newest_arrived, dated)
        applied, arrived = meter.applied, pending.arrived
        return Progress(
            engine.state,
            engine.rebuilding,
            self.graph.version,
            meter.batches,
            arrived,
            applied,
            max(0, arrived - applied - pending.dropped),
            meter.late,
            pending.dropped,
            meter.left_out,
            meter.gaps,
            meter.lost,
            meter.rate(),
            newest,
            None if newest is None or last is None else max(newest, last) - newest,
            pending.age(),
            p50,
            p99,
            meter.stage_ms(),
            meter.skipped_ticks,
            0 if engine.journal is None else engine.journal.logged_bytes,
            tuple(meter.errors),
            engine.applied_by_all,
        )


def _nothing(*graphs: Any) -> None:
    """Ask nothing."""
