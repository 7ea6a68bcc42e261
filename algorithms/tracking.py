"""Tracked answers: brought up to date from the changes of a graph's updates instead of from the whole graph."""

from __future__ import annotations

import importlib
from copy import copy
from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from dynstore.algorithms.costs import Budget, Choice, Costs, Path, Work
from dynstore.algorithms.door import keep_monitor
from dynstore.algorithms.registry import ALGORITHMS, find_algorithm
from dynstore.arguments import check_name
from dynstore.errors import InputError, InputTypeError
from dynstore.locks import Lock

if TYPE_CHECKING:
    from dynstore.algorithms.answers import TrackedAnswer
    from dynstore.backend import Timer
    from dynstore.graph import DynamicGraph
    from dynstore.graph.delta import Delta, DeltaLog
    from dynstore.typing import Array

__all__ = ["TRACKED", "Monitor", "Report", "Unnoted", "track"]

# What a preparation for the incremental way may take, in times of computing anew.
PREPARATION = 4.0
# After so many results in turn that were computed anew, what only the incremental way needs is dropped: in-edges, and
# what updates change. On an H200, 1,000 edges into 1.4 million take 0.19 ms, and 0.39 if what they change is looked
# up first (benchmarks/results/h200/tracked-cnr-2000.json). From then on one result in as many is timed and weighed.
MOST_UNUSED = 4

# The functions whose answers can be tracked.
TRACKED = tuple(sorted(name for name, record in ALGORITHMS.items() if record.tracked))


class Report(NamedTuple):
    """How a monitor computed its last result, and why.

    Attributes
    ----------
    version : int
        The graph's version that the result shows.
    path : {"incremental", "warm", "recomputed"}
    seconds : float
        The time of the result, without making the frame. If this result was not timed, the expected time.
    why : str
        Why this way was tried first.
    changes : int
        Changed edges since the result before. If they were not counted, the number of edges of the graph.
    expected : dict
        Path -> what each way was expected to take, in seconds; None where it was not measured before.
    """

    version: int
    path: Path
    seconds: float
    why: str
    changes: int
    expected: dict[Path, float | None]

    def __str__(self) -> str:
        expected = ", ".join(f"{path} {_show_ms(value)}" for path, value in self.expected.items())
        return f"version {self.version}: {self.path} in {_show_ms(self.seconds)}; {self.why}; expected: {expected}"


def _show_ms(seconds: float | None) -> str:
    return "unknown" if seconds is None else f"{1000 * seconds:.3g} ms"


class Unnoted(NamedTuple):
    """A result whose time has not been read yet; see :class:`Report`.

    Attributes
    ----------
    timer : Timer or None
        Of computing anew, if it was timed.
    spent_s : float
        What an attempt from the changes took, which waits for the GPU.
    log_s : float
        What updates have spent for it.
    """

    timer: Timer | None
    spent_s: float
    log_s: float
    choice: Choice
    version: int
    path: Path
    why: str
    changes: int


class Monitor:
    """An answer that follows its graph; made by :func:`track`.

    :meth:`result` and :meth:`refresh` do the work, once for all updates since the last call. A monitor keeps its graph
    alive, but the graph does not keep the monitor alive.

    Attributes
    ----------
    name : str
        The name of the function.
    version : int
        The version of the graph that the last result is for.
    path : {"incremental", "warm", "recomputed"}
        How that result was computed: from the changes; anew from the last result; or anew.
    edge_visits : int
        Edge visits for that result; repeated visits count.
    """

    version: int
    path: Path
    edge_visits: int

    def __init__(self, G: DynamicGraph, name: str, answer: TrackedAnswer) -> None:
        self.name = name
        self._graph, self._answer = G, answer
        self._lock = Lock()  # several threads may want the result
        self._log: DeltaLog | None = G.core.follow()
        self._answer.read_params()
        self._costs, self._num_anew, self._upkeep_s = Costs(), 0, 0.0
        self._timed: list[tuple[Work, Path, Timer]] = []  # results computed anew that have not been noted yet
        self._unnoted: Unnoted | None = None  # the last result
        weight_dtype = str(G.weight_dtype) if G.is_weighted() else None
        _load_kernels(name, G.is_directed(), str(G.vertex_dtype), weight_dtype, G.core.backend.name)
        self._update(self._log, "it is the first result")

    @property
    def params(self) -> dict[str, Any]:
        """The parameters that :func:`track` was given."""
        return self._answer.params

    def __repr__(self) -> str:
        state = "closed" if self._log is None else self.path
        return f"Monitor({self.name!r}, version={self.version}, {state}, edge_visits={self.edge_visits})"

    def __reduce__(self) -> NoReturn:
        raise InputTypeError(
            "Monitor: it cannot be pickled or copied, because it follows its graph; "
            "pickle or copy the graph, and track the answer there"
        )

    def result(self) -> Any:
        """Return what the function returns for the current graph.

        Returns
        -------
        frame
            The result of the function of this name.

        Raises
        ------
        InputError
            As :meth:`refresh`.
        """
        with self._lock:
            self.refresh()
            return self._answer.frame()

    def arrays(self) -> tuple[Array | None, ...]:
        """Return the same as :meth:`result`, as arrays of shape (V,) by row, without ids.

        Returns
        -------
        tuple of arrays
            The columns of the result without ``vertex``, with rows where the columns have ids: "bfs" and "sssp" have
            distances and rows of predecessors, -1 for none; labels are the smallest row of each component. The counts
            of "triangle_count" are those of all rows.
        """
        with self._lock:
            self.refresh()
            return self._answer.arrays()

    def refresh(self) -> None:
        """Bring the answer up to date without making a frame: the main part of :meth:`result`, ahead of time.

        Raises
        ------
        InputError
            If the function would raise it, or after :meth:`close`. The monitor continues with the next version.
        """
        with self._lock:
            log = self._log
            if log is None:
                raise InputError(f"Monitor: {self.name} was closed; track it again")
            unchanged = self._answer.read_params()
            if not unchanged:
                self._update(log, "the parameters name other vertices")
            elif self._graph.version != self.version:
                self._update(log, None)

    def report(self) -> Report:
        """Return how the last result was computed, what it took, and why this way was chosen.

        Returns
        -------
        Report
            As text it is one line.
        """
        with self._lock:
            self._settle()
            return self._report

    @property
    def is_closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._log is None

    def close(self) -> None:
        """Stop following the graph; its updates then do no work for this monitor."""
        self._log = None

    def _update(self, log: DeltaLog, why: str | None) -> None:
        """Bring the answer up to date; ``why`` it must be computed anew, None if any way will do."""
        self._settle()
        answer, costs = self._answer, self._costs
        work = self._work(log, why)
        choice = costs.choose(work)
        takes_changes = choice.path == "incremental" or choice.keeps
        begun, log_s = perf_counter(), log.seconds
        delta = self._graph.core.net_delta(log) if takes_changes and work.is_ready else None
        summing_s = perf_counter() - begun
        log.add(None, 0)  # if this fails half-way, the next call computes anew
        if choice.keeps:
            self._compute_anew(copy(answer), work, choice.path, True)
        path = self._try_changes(work, choice, delta, summing_s + log_s) if takes_changes else None
        spent_s = perf_counter() - begun if takes_changes else 0.0
        self._num_anew = 0 if takes_changes else self._num_anew + 1
        if self._num_anew == MOST_UNUSED:
            answer.release()
            self._upkeep_s = answer.upkeep_s
        timer = None
        if path is None:
            path = choice.anew_path if takes_changes else choice.path
            is_weighed = len(work.paths) > 1 or choice.expected.get(path) is None
            timer = self._compute_anew(answer, work, path, is_weighed or self._num_anew % MOST_UNUSED == 0)
        self.version, self.path, self.edge_visits = self._graph.version, path, answer.edge_visits
        self._unnoted = Unnoted(timer, spent_s, log_s, choice, self.version, path, why or choice.why, work.changes)
        if not self._graph.core.backend.on_gpu:
            self._settle()
        log.restart(keep=self._wants_changes(work))

    def _settle(self) -> None:
        """Note what the last result took; on a GPU this is done late, so that the frame is made while kernels run."""
        timed, self._timed = self._timed, []
        for work, path, timer in timed:
            self._costs.note(work, path, timer.seconds())
        last, self._unnoted = self._unnoted, None
        if last is not None:
            if last.timer is None:
                seconds = last.spent_s or last.choice.expected_s(last.path)
            else:
                seconds = last.spent_s + last.timer.seconds()
            self._costs.note_result(last.choice, seconds + last.log_s, last.path == last.choice.path)
            self._report = Report(last.version, last.path, seconds, last.why, last.changes, last.choice.expected)

    def _wants_changes(self, work: Work) -> bool:
        """Whether changes like these may be taken next time, if only to try."""
        used = self._num_anew < MOST_UNUSED
        if not used and (self._num_anew % MOST_UNUSED or not self._takes_changes(work, True)):
            return False
        self._answer.inspect()
        return used or self._answer.is_ready(work.deletes) or self._takes_changes(work, False)

    def _takes_changes(self, work: Work, is_ready: bool) -> bool:
        paths: tuple[Path, ...] = (*(path for path in work.paths if path != "incremental"), "incremental")
        is_prepared = self._answer.is_prepared
        choice = self._costs.choose(Work(paths, work.changes, work.deletes, work.size, is_ready, is_prepared))
        return choice.path == "incremental" or choice.keeps

    def _work(self, log: DeltaLog, why: str | None) -> Work:
        graph, answer = self._graph, self._answer
        size = graph.number_of_edges() + graph.number_of_vertices()
        counted = why is None and log.counted
        complete = counted and log.complete
        deletes = log.deletes or not counted
        paths: list[Path] = ["recomputed"]
        if answer.starts_warm and why is None:
            paths.insert(0, "warm")
        is_ready = complete and answer.is_ready(deletes)
        if complete:
            paths.append("incremental")
        changes = log.num_edges if counted else size
        return Work(tuple(paths), changes, deletes, size, is_ready, answer.is_prepared)

    def _compute_anew(self, answer: TrackedAnswer, work: Work, path: Path, is_timed: bool) -> Timer | None:
        if not is_timed:
            answer.recompute(path == "warm")
            return None
        timer = self._graph.core.backend.start_timer()
        answer.recompute(path == "warm")
        self._timed.append((work, path, timer.stop()))
        return timer

    def _try_changes(self, work: Work, choice: Choice, delta: Delta | None, summing_s: float) -> Path | None:
        """Bring the answer up to date from the changes, or without these prepare for it; return None if given up.

        ``summing_s``: seconds that it took to look up the changes, and to sum them up.
        """
        answer, costs, begun = self._answer, self._costs, perf_counter()
        budget = choice.budget(PREPARATION if delta is None else 1.0, costs.visit.rate)
        anew: Path = "warm" if answer.starts_warm else "recomputed"
        done = answer.prepare(budget) if delta is None else answer.advance(delta, budget)
        self._graph.core.backend.synchronize()
        seconds = summing_s + perf_counter() - begun
        if delta is not None or not done:
            costs.note_attempt(work, choice, seconds + answer.upkeep_s - self._upkeep_s, budget, done)
        self._upkeep_s = answer.upkeep_s
        if not done:
            return None
        return anew if delta is None else "incremental"


def _answer_class(name: str) -> type[TrackedAnswer]:
    """Return the class that brings the answer of this function up to date."""
    record = ALGORITHMS[name]
    module = importlib.import_module(f"dynstore.algorithms.{record.family}.tracked")
    kind: type[TrackedAnswer] = getattr(module, record.tracked or "")
    return kind


@cache
def _load_kernels(name: str, directed: bool, vertex_dtype: str, weight_dtype: str | None, device: Any) -> None:
    """Run all ways on a small graph, so that the first times measured are not those of compiling and loading."""
    graph_type = importlib.import_module("dynstore.graph").DynamicGraph
    weighted = {"weighted": True, "weight_dtype": weight_dtype} if weight_dtype else {}
    graph = graph_type(directed=directed, vertex_dtype=vertex_dtype, device=device, **weighted)
    rim = np.arange(1, 9)
    edges = np.append(0 * rim, rim), np.append(rim, np.roll(rim, 1)), *((np.ones(16),) if weighted else ())
    graph.insert_edges(edges)
    answer, log = _answer_class(name)(graph, **ALGORITHMS[name].example), graph.core.follow()
    one = tuple(column[-1:] for column in edges)
    answer.read_params()
    for change in (None, graph.delete_edges, graph.insert_edges, graph.delete_edges):
        if change is not None:
            change(one[:2] if change == graph.delete_edges else one)
            if answer.is_ready(True):
                answer.advance(graph.core.net_delta(log), Budget())
        answer.recompute()
        answer.recompute(warm=answer.starts_warm)
        answer.prepare(Budget())
        answer.inspect()
        log.restart()


def track(G: DynamicGraph, name: str, **params: Any) -> Monitor:
    """Keep an answer up to date with a graph; also ``G.track(name, **params)``.

    Parameters
    ----------
    G : DynamicGraph
        The graph to follow.
    name : str
        The name of a function that can be tracked, such as "pagerank". The error for another name lists all.
    **params
        Parameters of the function of this name.

    Returns
    -------
    Monitor
        It has the answer for the current graph.

    Raises
    ------
    InputError
        If the name is unknown, or the function refuses the parameters or the graph.

    Examples
    --------
    >>> import dynstore
    >>> G = dynstore.DynamicGraph(directed=False, device="cpu")
    >>> report = G.insert_edges(([0, 0, 1], [1, 2, 2]))
    >>> triangles = G.track("triangle_count")
    >>> report = G.delete_edges(([0], [1]))
    >>> triangles.result()["counts"].tolist()
    [0, 0, 0]
    """
    check_name("track", "answer", name, TRACKED)
    record = find_algorithm(name)
    record.check(G)
    record.check_parameters(params, f"track: {name}")
    G = record.pairs_of(G)
    monitor = Monitor(G, name, _answer_class(name)(G, **params))
    keep_monitor(G, monitor)
    return monitor
