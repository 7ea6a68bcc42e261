"""Tracked answers against computing anew: ``dynstore bench --suite tracked DATA --batch 100,1000 --algorithm bfs``.

Two graphs hold the same edges of DATA, the first ``--window`` of its distinct edges. A monitor follows one of them.
Each step changes both graphs alike and asks both for the answer:

- ``anew``: the update, then the function
- ``tracked``: the update, then the monitor's ``result()``

Kinds of steps: ``apart`` (the next edges come, both are asked, the oldest edges go, both are asked again: recorded as
``insertions`` and ``deletions``), and ``slides`` (edges go and come, then both are asked). Which graph is first
alternates. Edges come in the order of the stream; without a time column, in random order. At the end of the stream its
first edges come again. Both answers are compared after each step, untimed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.registry import find_algorithm
from dynstore.algorithms.tracking import TRACKED
from dynstore.backend import get_backend
from dynstore.bench.answers import PAGERANK_TOL, make_query
from dynstore.bench.reports.report import render_lines
from dynstore.bench.reports.summary import format_ms, format_ratio, ratio_of
from dynstore.bench.stream import edge_keys, parse_batch
from dynstore.bench.suite_parts import StreamJob, Suite
from dynstore.bench.timing import LapTimer, percentiles, quiet
from dynstore.errors import InputError, unknown_name
from dynstore.graph import DynamicGraph

if TYPE_CHECKING:
    from rich.console import Console

    from dynstore.backend import Backend
    from dynstore.io import EventTable
    from dynstore.typing import Array

__all__ = ["KINDS", "SUITE", "Series", "TrackedJob", "TrackedResult", "check_job", "run_tracked"]

# kind -> its series: does the step delete, does it insert
KINDS = {"apart": {"insertions": (False, True), "deletions": (True, False)}, "slides": {"slides": (True, True)}}
WARM_UPS = 2
ANEW, FOLLOWED = "anew", "tracked"


@dataclass(frozen=True)
class TrackedJob(StreamJob):
    """The job.

    ``algorithms``: answers that can be tracked; those that do not take such a graph are left out. ``batch``: one size
    or several, by comma. ``directed``: None means undirected. ``weighted`` must be False: ``sssp`` takes weights that
    follow from the ids. ``warm_start`` is for ``pagerank`` computed anew. ``kinds``: some of KINDS.
    """

    stores: Sequence[str] = ("gpma+",)
    algorithms: Sequence[str] = tuple(sorted(TRACKED))
    batch: str | int = "100,1000,10000,100000"
    kinds: Sequence[str] = tuple(KINDS)


@dataclass(frozen=True)
class Series:
    """The ms of all steps of one answer, kind and batch: (update, answer) of each, and the monitor's paths."""

    store: str
    name: str
    kind: str
    batch: int
    times: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: {ANEW: [], FOLLOWED: []})
    paths: list[str] = field(default_factory=list)

    def totals(self, way: str) -> np.ndarray:
        """Return update and answer together, ms of each step."""
        totals: np.ndarray = np.array(self.times[way]).sum(axis=1)
        return totals

    @property
    def times_as_fast(self) -> float:
        """How many times as fast as computing anew: the median of the ratios step by step."""
        return ratio_of(self.totals(ANEW), self.totals(FOLLOWED))


@dataclass
class TrackedResult:
    """The result; ``disagreement``: what differed first, in words."""

    device: str
    num_edges: int
    series: list[Series] = field(default_factory=list)
    disagreement: str | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Return the JSON's rows: both ways' totals, the tracked ones by path, and the updates alone."""
        rows = []
        for series in self.series:
            base = {"device": self.device, "batch": series.batch, "edges": self.num_edges, "bytes": None}
            lists = {way: series.totals(way) for way in (ANEW, FOLLOWED)}
            paths = np.array(series.paths)
            lists |= {f"{FOLLOWED}, {path}": lists[FOLLOWED][paths == path] for path in sorted(set(series.paths))}
            for way, times in lists.items():
                rows.append(
                    {**base, "store": f"{series.store}, {series.kind}, {way}", "operation": "algorithm"}
                    | {"algorithm": series.name, "steps": len(times), **percentiles(times.tolist())}
                )
            for way, steps in series.times.items():
                updates = [update for update, _ in steps]
                rows.append(
                    {**base, "store": f"{series.store}, {series.kind}, {way}, {series.name}", "operation": "update"}
                    | {"algorithm": None, "steps": len(updates), **percentiles(updates)}
                )
        return rows


def check_job(job: TrackedJob) -> Backend:
    """Check what can be checked without data.

    Raises
    ------
    InputError
    """
    if job.steps < 1:
        raise InputError(f"bench: --steps is {job.steps}; wanted at least 1")
    if job.weighted:
        raise InputError("bench: got --weight; --suite tracked makes its own weights. Leave it out")
    if not 0 < job.window < 1:
        raise InputError(f"bench: --window is {job.window:g}; wanted a share of the stream between 0 and 1")
    if not job.algorithms or not job.stores:
        raise InputError("bench: --suite tracked got no algorithm or no store; wanted at least one of each")
    for name in job.algorithms:
        if name not in TRACKED:
            raise unknown_name("bench", "tracked answer", name, TRACKED)
    for kind in job.kinds:
        if kind not in KINDS:
            raise unknown_name("bench", "kind", kind, KINDS)
    backend = get_backend(job.device)
    for store in job.stores:
        options: dict[str, Any] = {"store": store, "device": backend.name, **job.store_options.get(store, {})}
        DynamicGraph(**options)
    return backend


class _Ring:
    """The distinct edges of a stream in order, as a ring; ``low`` to ``high`` are in the graphs."""

    def __init__(self, events: EventTable, directed: bool, window: float, backend: Backend) -> None:
        keys = edge_keys(events.src.astype(np.int64), events.dst.astype(np.int64), directed)
        first = backend.to_host(backend.xp.unique(backend.asarray(keys), return_index=True)[1])
        places = np.sort(first) if events.time is not None else np.random.default_rng(0).permutation(first)
        self.src, self.dst = events.src[places].astype(np.int32), events.dst[places].astype(np.int32)
        low, high = np.minimum(self.src, self.dst), np.maximum(self.src, self.dst)
        self.weights = ((low * np.int64(7919) + high * np.int64(104729)) % 100 + 1).astype(np.float32)
        self.size = int(places.shape[0])
        self.held = max(1, int(self.size * window))
        self.low, self.high = 0, self.held

    def take(self, start: int, count: int, weighted: bool) -> tuple[np.ndarray, ...]:
        """Return ``count`` edges from ``start`` on."""
        places = np.arange(start, start + count) % self.size
        columns = (self.src[places], self.dst[places], self.weights[places])
        return columns if weighted else columns[:2]


class _TrackedRace:
    """One answer of two graphs with the same edges, one of which is followed."""

    def __init__(self, job: TrackedJob, backend: Backend, store: str, name: str, ring: _Ring, directed: bool) -> None:
        self.backend, self.weighted, self.ring, self.directed = backend, name == "sssp", ring, directed
        options: dict[str, Any] = {
            "directed": directed,
            "weighted": self.weighted,
            "store": store,
            "device": backend.name,
        }
        options |= job.store_options.get(store, {})
        edges = self._on_device(ring.low, ring.held)
        self.graphs = {way: DynamicGraph(**options) for way in (ANEW, FOLLOWED)}
        for graph in self.graphs.values():
            graph.insert_edges(edges)
        start = int(np.bincount(ring.take(ring.low, ring.held, False)[0]).argmax())
        params: dict[str, dict[str, Any]] = {
            "bfs": {"start": start}, "sssp": {"source": start}, "pagerank": {"tol": PAGERANK_TOL}
        }  # fmt: skip
        self.query = make_query(name, start, self.graphs[ANEW].number_of_vertices(), job.warm_start)
        self.monitor = self.graphs[FOLLOWED].track(name, **params.get(name, {}))
        self.asked = {ANEW: lambda: self.query.call(self.graphs[ANEW]), FOLLOWED: self.monitor.result}
        self.watch = LapTimer(backend)

    def run(self, all_series: Sequence[Series], changes: Sequence[tuple[bool, bool]], steps: int) -> str | None:
        """Time ``steps`` steps of each series, in turn; return what differed, in words, or None."""
        for number in range(-WARM_UPS, steps):
            for series, (deletes, inserts) in zip(all_series, changes, strict=True):
                leaving = self._next("low", series.batch)[:2] if deletes else None
                entering = self._next("high", series.batch) if inserts else None
                answers = {}
                for way in (ANEW, FOLLOWED) if number % 2 else (FOLLOWED, ANEW):
                    answers[way], times = self._step(way, leaving, entering)
                    if number >= 0:
                        series.times[way].append(times)
                if number >= 0:
                    series.paths.append(self.monitor.path)
                difference = self.query.difference(*(self.query.values(answers[way]) for way in (ANEW, FOLLOWED)))
                if difference is not None:
                    return f"{series.name}, {series.kind} of {series.batch}: {difference}"
        return None

    def _next(self, end: str, count: int) -> tuple[Array, ...]:
        """Return the next edges at one end of the ring's held part, and move that end."""
        start = getattr(self.ring, end)
        setattr(self.ring, end, start + count)
        return self._on_device(start, count)

    def _step(self, way: str, leaving: Any, entering: Any) -> tuple[Any, tuple[float, float]]:
        graph = self.graphs[way]
        self.watch.start()
        if leaving is not None:
            graph.delete_edges(leaving)
        if entering is not None:
            graph.insert_edges(entering)
        updated = self.watch.lap()
        answer = self.asked[way]()
        return answer, (updated, self.watch.lap())

    def _on_device(self, start: int, count: int) -> tuple[Array, ...]:
        columns = self.ring.take(start, count, self.weighted)
        return tuple(self.backend.asarray(column) for column in columns)


def run_tracked(events: EventTable, job: TrackedJob, progress: Callable[[str, int, int], None]) -> TrackedResult:
    """Run the suite.

    Raises
    ------
    InputError
        If no batch fits the stream.
    """
    backend, directed = check_job(job), bool(job.directed)
    ring = _Ring(events, directed, job.window, backend)
    sizes = [parse_batch(text, ring.size) for text in str(job.batch).split(",")]
    most = min(ring.held, ring.size - ring.held)
    fitting = [size for size in sizes if size <= most]
    if not fitting:
        raise InputError(
            f"bench: the smallest --batch is {min(sizes)} edges; wanted at most {most}, as the stream allows"
        )
    result = TrackedResult(backend.name, ring.held)
    for size in sorted(set(sizes) - set(fitting)):
        result.notes.append(f"batches of {size:,} are left out: at most {most:,} edges can come or go")
    for store in job.stores:
        for name in job.algorithms:
            if directed and find_algorithm(name).needs_undirected:
                result.notes.append(f"{name} is left out: it takes undirected graphs only")
                continue
            race = _TrackedRace(job, backend, store, name, ring, directed)
            for kind in job.kinds:
                for size in fitting:
                    all_series = [Series(store, name, part, size) for part in KINDS[kind]]
                    with quiet():
                        result.disagreement = race.run(all_series, list(KINDS[kind].values()), job.steps)
                    result.series += [series for series in all_series if series.paths]
                    progress(f"{name}, {kind}", size, max(fitting))
                    if result.disagreement is not None:
                        return result
    return result


_HEAD = ("answer", "kind", "batch", "anew, ms", "tracked", "p90", "updates", "times as fast", "paths")


def _lines(result: TrackedResult) -> list[tuple[str, ...]]:
    """Return one line a series as text."""
    lines = []
    for series in result.series:
        anew, tracked = (percentiles(series.totals(way).tolist()) for way in (ANEW, FOLLOWED))
        updates = [percentiles([update for update, _ in series.times[way]])["median_ms"] for way in (ANEW, FOLLOWED)]
        paths = ", ".join(f"{count} {path}" for path, count in Counter(series.paths).most_common())
        times = (anew["median_ms"], tracked["median_ms"], tracked["p90_ms"])
        head = (series.name, series.kind, f"{series.batch:,}")
        lines.append(
            (
                *head,
                *map(format_ms, times),
                " / ".join(map(format_ms, updates)),
                format_ratio(series.times_as_fast),
                paths,
            )
        )
    return lines


def _print(console: Console, job: TrackedJob, result: TrackedResult) -> None:
    from rich.table import Table

    caption = (
        f"{result.num_edges:,} edges; medians over {job.steps} steps; times as fast: tracked beside anew, each with "
        "its update; below 1x tracking is slower"
    )
    table = Table(caption=caption, caption_justify="left")
    for number, name in enumerate(_HEAD):
        table.add_column(name, justify="right" if 2 <= number <= 7 else "left")
    for line in _lines(result):
        table.add_row(*line)
    console.print(table)


def _render(document: Mapping[str, Any], job: TrackedJob, result: TrackedResult) -> str:
    return render_lines(document, _HEAD, _lines(result))


_DEFAULTS = {"batch": TrackedJob.batch, "store": list(TrackedJob.stores), "algorithm": list(TrackedJob.algorithms)}
SUITE = Suite("tracked", TrackedJob, check_job, run_tracked, _print, _render, defaults=_DEFAULTS)
