"""The main suite: a window slides over a stream, every store follows it, and all must agree after each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.backend import get_backend
from dynstore.bench.answers import Query, make_query
from dynstore.bench.contestants import Conversion, DeviceSlide, StoreRun, conversions, to_device
from dynstore.bench.reports.console import print_result
from dynstore.bench.reports.report import render_page
from dynstore.bench.stream import Edges, Slide, SlidingStream, cut_stream, parse_batch
from dynstore.bench.suite_parts import Suite, WindowJob, WindowResult
from dynstore.bench.timing import percentiles, quiet
from dynstore.errors import InputError

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.io import EventTable

__all__ = ["SUITE", "check_job", "run_window"]

BUILDS = 3
WARM_UP_ROWS, WARM_UP_VERTICES = 16384, 2048
STORE_OPERATIONS = ("update", "delete", "insert", "snapshot")


def check_job(job: WindowJob) -> tuple[Backend, bool]:
    """Check everything that needs no data; return the backend and whether the graph is directed.

    Raises
    ------
    InputError
        For an unknown store, algorithm, device or option, a duplicate, or algorithms that the graph does not suit.
    """
    from dynstore.algorithms.registry import find_algorithm

    backend = get_backend(job.device)
    for what, names in (("store", job.stores), ("algorithm", job.algorithms)):
        twice = [name for name in names if list(names).count(name) > 1]
        if twice:
            raise InputError(f"bench: --{what} {twice[0]} is given twice; wanted each once")
    if not job.stores:
        raise InputError("bench: no --store is given; wanted at least one")
    records = [find_algorithm(name) for name in job.algorithms]
    undirected_only = [record.name for record in records if record.needs_undirected]
    directed = not undirected_only if job.directed is None else job.directed
    if directed and undirected_only:
        raise InputError(
            f"bench: --algorithm {undirected_only[0]} needs an undirected graph, and --directed is given; leave one "
            "of them out"
        )
    for record in records:
        if record.needs_weights and not job.weighted:
            raise InputError(f"bench: --algorithm {record.name} needs weights; name their column with --weight")
    for name in job.store_options:
        if name not in job.stores:
            raise InputError(f"bench: --store-option names the store {name!r}; wanted one of {', '.join(job.stores)}")
    for name in job.stores:
        StoreRun(name, backend, directed, job.weighted, job.store_options.get(name, {}))
    if not 0 < job.window < 1:
        raise InputError(
            f"bench: --window is {job.window:g}; wanted a share of the stream between 0 and 1, such as 0.5"
        )
    if job.steps < 1:
        raise InputError(f"bench: --steps is {job.steps}; wanted at least 1")
    parse_batch(job.batch, 1)
    return backend, directed


def run_window(
    events: EventTable, job: WindowJob, progress: Callable[[str, int, int], None] | None = None
) -> WindowResult:
    """Run the job.

    Parameters
    ----------
    events : EventTable
    job : WindowJob
    progress : callable, optional
        Called with the current activity, the number of finished steps, and the number of steps.

    Returns
    -------
    WindowResult

    Raises
    ------
    InputError
        If the job cannot be run on these events.
    """
    backend, directed = check_job(job)
    if not len(events):
        raise InputError(f"{events.name}: got no events; wanted at least a few")
    if job.weighted and events.weight is None:
        raise InputError(f"{events.name}: no weights; name their column with --weight, or leave sssp out")
    report = progress or (lambda what, done, total: None)
    report("preparing", 0, job.steps)
    batch = parse_batch(job.batch, len(events))
    stream = cut_stream(events, job.window, batch, job.steps + 1, directed, job.weighted)
    result = WindowResult(backend.name, directed, batch, stream.first.high, stream.replayed)
    result.notes += _describe(job, stream)
    run = _WindowRun(job, stream, backend, result)
    report("warming up", 0, job.steps)
    run.warm_up()
    report("building", 0, job.steps)
    run.build()
    run.step(stream.slides[0], 0, timed=False)
    for number, slide in enumerate(stream.slides[1:], start=1):
        if result.disagreement is not None:
            break
        run.step(slide, number, timed=True)
        report("sliding", number, job.steps)
    result.rows = run.rows()
    return result


def _describe(job: WindowJob, stream: SlidingStream) -> list[str]:
    notes = []
    if job.directed is None and not stream.directed:
        notes.append("undirected, because one of the algorithms needs that; each pair counts once")
    else:
        notes.append("directed" if stream.directed else "undirected; each pair counts once")
    if stream.replayed:
        notes.append(f"explicit changes are replayed: the first {stream.first.high:,} build the graph")
        notes.append("conversions are left out: they know no deletions")
    return notes


class _WindowRun:
    """The contestants and their times."""

    def __init__(self, job: WindowJob, stream: SlidingStream, backend: Backend, result: WindowResult) -> None:
        self.job, self.stream, self.backend, self.result = job, stream, backend, result
        self.stores = [self._store(name) for name in job.stores]
        self.conversions, missing = ([], []) if stream.replayed else conversions(backend)
        result.notes += missing
        raw = stream.rows(0, stream.slides[-1].high if self.conversions else 0)
        self.raw_on_device = to_device(backend, Edges(raw.src, raw.dst))
        self.queries = self._queries(stream)
        self.num_edges = 0
        self.first_num_edges = 0

    def _store(self, name: str) -> StoreRun:
        options = self.job.store_options.get(name, {})
        return StoreRun(name, self.backend, self.stream.directed, self.job.weighted, options)

    def _queries(self, stream: SlidingStream) -> list[Query]:
        keys, _ = stream.expected(stream.first)
        src, dst = keys >> 32, keys & 0xFFFFFFFF
        ends = src if stream.directed else np.concatenate((src, dst))
        start = int(np.bincount(ends).argmax()) if ends.shape[0] else 0
        num_vertices = int(max(src.max(), dst.max())) + 1 if keys.shape[0] else 0
        return [make_query(name, start, num_vertices, self.job.warm_start) for name in self.job.algorithms]

    def warm_up(self) -> None:
        """Compile everything on a throw-away graph: insertions, deletions, growth, all algorithms, conversions."""
        rng, size, most = np.random.default_rng(0), WARM_UP_ROWS, WARM_UP_VERTICES
        ids = rng.integers(0, most, (2, size)).astype(np.int32)
        weight = np.ones(size, np.float32) if self.job.weighted else None

        def rows(low: int, high: int) -> Edges:
            return Edges(ids[0, low:high], ids[1, low:high], None if weight is None else weight[low:high])

        queries = [make_query(name, 0, most, self.job.warm_start) for name in self.job.algorithms]
        for name in self.job.stores:
            run = self._store(name)
            run.build(to_device(self.backend, rows(0, size // 2)))
            for batch in (4, size // 4):  # a store may use different paths for few and many edges
                slide = Slide(0, 0, rows(0, batch), rows(size // 2, size // 2 + batch))
                run.update(DeviceSlide(self.backend, slide))
                for query in queries:
                    query.values(run.run(query.call)[0])
            run.edges()
        src, dst = to_device(self.backend, Edges(*ids))
        for conversion in self.conversions:
            conversion.run(src, dst, most, self.stream.directed)

    def build(self) -> None:
        """Build each store from the first window, several times, alternating; the last one is kept."""
        edges = to_device(self.backend, self.stream.first.entering)
        for number in range(BUILDS):
            for run in self._turn(self.stores, number):
                with quiet():
                    self._note(run.name, "build", None, run.build(edges))
        self._check_edges(self.stream.first, "after the build", 0)
        self.first_num_edges = self.num_edges

    def step(self, slide: Slide, number: int, timed: bool) -> None:
        """Let every contestant do one step, in random order, then check all of them."""
        if self.result.disagreement is not None:
            return
        moved = DeviceSlide(self.backend, slide)
        values: dict[str, dict[str, np.ndarray]] = {}
        contestants: list[StoreRun | Conversion] = [*self.stores, *self.conversions]
        with quiet():
            for contestant in self._turn(contestants, number):
                if isinstance(contestant, StoreRun):
                    values[contestant.name] = self._step_store(contestant, moved, timed)
                else:
                    self._step_conversion(contestant, slide, timed)
        when = f"step {number}" if timed else "the warm-up step"
        self._check_edges(slide, when, number)
        self._check_answers(values, when)

    def _step_store(self, run: StoreRun, moved: DeviceSlide, timed: bool) -> dict[str, np.ndarray]:
        times = run.update(moved)
        frames = {}
        total = times["update"]
        for query in self.queries:
            frames[query.name], passed = run.run(query.call)
            total += passed
            if timed:
                self._note(run.name, "algorithm", query.name, passed)
        if timed:
            for operation in STORE_OPERATIONS:
                self._note(run.name, operation, None, times[operation])
            self._note(run.name, "total", None, total)
        return {query.name: query.values(frames[query.name]) for query in self.queries}

    def _step_conversion(self, conversion: Conversion, slide: Slide, timed: bool) -> None:
        src, dst = (column[slide.low : slide.high] for column in self.raw_on_device)
        passed = conversion.run(src, dst, self.stream.num_vertices, self.stream.directed)
        if timed:
            self._note(conversion.name, "convert", None, passed)

    @staticmethod
    def _turn(contestants: Sequence[Any], number: int) -> list[Any]:
        """Return contestants in random order: so none always follows one that leaves the caches to its liking."""
        order = np.random.default_rng(number).permutation(len(contestants))
        return [contestants[place] for place in order]

    def _note(self, name: str, operation: str, algorithm: str | None, passed_ms: float) -> None:
        self.result.times.setdefault((name, operation, algorithm), []).append(passed_ms)

    def _check_edges(self, slide: Slide, when: str, number: int) -> None:
        keys, weights = self.stream.expected(slide)
        self.num_edges = int(keys.shape[0])
        for run in self._turn(self.stores, number):
            held, held_weights = run.edges()
            problem = _edge_problem(held, keys)
            if problem is None and run.graph.number_of_edges() != keys.shape[0]:
                problem = f"counts {run.graph.number_of_edges()} edges; the raw slice has {keys.shape[0]} pairs"
            if problem is None and weights is not None and not _equal(held_weights, weights):
                problem = "holds other weights than the raw slice's last ones"
            if problem is not None:
                self._disagree(f"{when}: store {run.name!r} {problem}")
        if slide is self.stream.first:
            return
        for conversion in self.conversions:
            problem = _edge_problem(conversion.edges(self.stream.directed), keys)
            if problem is not None:
                self._disagree(f"{when}: conversion {conversion.name!r} {problem}")

    def _check_answers(self, values: dict[str, dict[str, np.ndarray]], when: str) -> None:
        first = self.stores[0].name
        for run in self.stores[1:]:
            for query in self.queries:
                problem = query.difference(values[first][query.name], values[run.name][query.name])
                if problem is not None:
                    self._disagree(f"{when}: {query.name} on {first!r} and on {run.name!r}: {problem}")

    def _disagree(self, line: str) -> None:
        if self.result.disagreement is None:
            self.result.disagreement = line

    def rows(self) -> list[dict[str, Any]]:
        """Return the JSON's rows: each contestant's operations, then its algorithms."""
        max_bytes = {run.name: run.max_bytes for run in self.stores}
        rows = []
        for (name, operation, algorithm), times in self.result.times.items():
            rows.append(
                {
                    "store": name,
                    "device": self.backend.name,
                    "operation": operation,
                    "algorithm": algorithm,
                    "batch": self.stream.first.high if operation == "build" else self.stream.batch,
                    "edges": self.first_num_edges if operation == "build" else self.num_edges,
                    "steps": len(times),
                    **percentiles(times),
                    "bytes": max_bytes[name] if operation == "update" else None,
                }
            )
        names = [run.name for run in self.stores] + [conversion.name for conversion in self.conversions]
        order = ("build", *STORE_OPERATIONS, "algorithm", "total", "convert")
        return sorted(rows, key=lambda row: (names.index(row["store"]), order.index(row["operation"])))


def _equal(one: np.ndarray | None, other: np.ndarray) -> bool:
    return one is not None and np.array_equal(one, other)


def _edge_problem(held: np.ndarray, wanted: np.ndarray) -> str | None:
    """Return how sorted keys differ from the expected ones, or None."""
    if np.array_equal(held, wanted):
        return None
    missing = np.setdiff1d(wanted, held, assume_unique=True)
    extra = np.setdiff1d(held, wanted, assume_unique=True)
    parts = [f"holds {held.shape[0]} pairs, the raw slice has {wanted.shape[0]}"]
    for what, keys in (("missing", missing), ("too many", extra)):
        if keys.shape[0]:
            parts.append(f"{keys.shape[0]} {what}, the first {int(keys[0]) >> 32} -> {int(keys[0]) & 0xFFFFFFFF}")
    return "; ".join(parts)


SUITE = Suite("window", WindowJob, check_job, run_window, print_result, render_page)
