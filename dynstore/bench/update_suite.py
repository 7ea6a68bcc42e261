"""Updates alone, by size and kind of batch: ``dynstore bench --suite updates DATA --batch 10000,100000``.

The distinct edges of DATA in random order: the first ``--window`` of them are built, then each step inserts a batch and
deletes one. Kinds of batches:

- ``stream``: insert the next edges, delete the oldest
- ``rows``: insert edges of neighbouring new vertices, in order; then delete the same
- ``hub``: edges of one new vertex
- ``gaps``: edges of new vertices far apart
- ``weighted``, ``int64``: the stream again, in graphs with weights, or with int64 vertices
- ``inserts``: insert the next edges, delete none; batches at which the store grew are a separate kind

Batches are in the device's memory, unsorted (except ``rows``). The time is that of the call until the device is idle;
then the report is made. "snapshot" is the further time until rows and views are valid, zero for most stores. No
algorithm runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.backend import get_backend
from dynstore.bench.contestants import StoreRun
from dynstore.bench.reports.report import render_lines
from dynstore.bench.reports.summary import format_ms
from dynstore.bench.stream import parse_batch, sorted_unique
from dynstore.bench.suite_parts import StreamJob, Suite
from dynstore.bench.timing import LapTimer, percentiles, quiet
from dynstore.errors import InputError, unknown_name

if TYPE_CHECKING:
    from rich.console import Console

    from dynstore.backend import Backend
    from dynstore.io import EventTable
    from dynstore.typing import Array

__all__ = ["KINDS", "SUITE", "UpdateJob", "UpdateResult", "check_job", "run_updates"]

KINDS = ("stream", "rows", "hub", "gaps", "weighted", "int64", "inserts")
MADE = ("rows", "hub", "gaps")  # made of edges that the stream does not have
WARM_UPS, BUILDS = 2, 3
ROW_LENGTH, GAP = 64, 16


@dataclass(frozen=True)
class UpdateJob(StreamJob):
    """The job; ``batch``: one size or several, by comma; ``kinds``: some of KINDS."""

    kinds: Sequence[str] = KINDS


@dataclass
class UpdateResult:
    """The result; ``times``: (store, kind, batch, operation) -> ms of each step."""

    device: str
    num_edges: int
    times: dict[tuple[str, str, int, str], list[float]] = field(default_factory=dict)
    disagreement: str | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Return the JSON's rows."""
        return [
            {
                "store": store if kind == "stream" else f"{store}, {kind}",
                "device": self.device,
                "operation": operation,
                "algorithm": None,
                "batch": batch,
                "edges": self.num_edges,
                "steps": len(times),
                **percentiles(times),
                "bytes": None,
            }
            for (store, kind, batch, operation), times in self.times.items()
        ]


def check_job(job: UpdateJob) -> Backend:
    """Check what can be checked without data.

    Raises
    ------
    InputError
    """
    if job.steps < 1:
        raise InputError(f"bench: --steps is {job.steps}; wanted at least 1")
    if job.weighted:
        raise InputError("bench: got --weight; --suite updates does not use the weights of a file. Leave it out")
    if not job.stores or len(set(job.stores)) != len(job.stores):
        raise InputError(f"bench: --store is {', '.join(job.stores) or 'missing'}; wanted at least one, each once")
    for kind in job.kinds:
        if kind not in KINDS:
            raise unknown_name("bench", "kind", kind, KINDS)
    backend = get_backend(job.device)
    for name in job.stores:
        StoreRun(name, backend, True, False, job.store_options.get(name, {}))
    return backend


@dataclass
class _StreamWindow:
    """The stores with the stream's edges from ``low`` to ``high``, and the weights of these edges."""

    stores: dict[str, StoreRun]
    high: int
    weights: Array | None
    low: int = 0


class _Updates:
    """The stores of one run on one stream."""

    def __init__(self, events: EventTable, job: UpdateJob, progress: Callable[[str, int, int], None]) -> None:
        self.job, self.backend, self.progress = job, check_job(job), progress
        self.directed = job.directed is not False
        src, dst = events.src.astype(np.int64), events.dst.astype(np.int64)
        if not self.directed:
            src, dst = np.minimum(src, dst), np.maximum(src, dst)
        keys = np.random.default_rng(0).permutation(sorted_unique(src << 32 | dst))
        columns = (keys >> 32).astype(np.int32), (keys & 0xFFFFFFFF).astype(np.int32)
        self.src, self.dst = (self.backend.asarray(column) for column in columns)
        self.sizes = [parse_batch(text, int(keys.shape[0])) for text in str(job.batch).split(",")]
        self.built = max(1, int(keys.shape[0] * job.window))
        behind, wanted = int(keys.shape[0]) - self.built, (job.steps + WARM_UPS) * sum(self.sizes)
        if wanted > min(behind, self.built):
            raise InputError(
                f"bench: {job.steps} --steps and {WARM_UPS} to warm up need {wanted} edges; the stream has "
                f"{self.built} different ones in the window and {behind} behind it. Take fewer steps or smaller batches"
            )
        self.new_id = int(max(src.max(), dst.max())) + 1
        self.watch = LapTimer(self.backend)
        self.result = UpdateResult(self.backend.name, self.built)

    def run(self) -> UpdateResult:
        plain = [kind for kind in self.job.kinds if kind == "stream" or kind in MADE]
        with quiet():
            window = self._build("stream", repeats=BUILDS) if plain else None
            for kind in self.job.kinds:
                if kind not in plain:
                    window = None  # the next one needs its memory
                for size in self.sizes:
                    if window is None or kind == "inserts":
                        window = self._build(kind)
                    self._slide(window, kind, size)
                if kind not in plain:
                    window = None
        return self.result

    def _build(self, kind: str, repeats: int = 1) -> _StreamWindow:
        """Make each store and build the first window; "inserts" builds the same as "stream", which is recorded."""
        weighted = kind == "weighted"
        stores = {}
        for name in self.job.stores:
            options = {**self.job.store_options.get(name, {}), **({"vertex_dtype": "int64"} if kind == "int64" else {})}
            stores[name] = StoreRun(name, self.backend, self.directed, weighted, options)
        weights = None
        if weighted:
            draws = np.random.default_rng(1).random(int(self.src.shape[0]), dtype=np.float32)
            weights = self.backend.asarray(draws)
        window = _StreamWindow(stores, self.built, weights)
        for _ in range(repeats):
            for name, store in stores.items():
                passed_ms = store.build(self._rows(window, 0, self.built))
                if kind != "inserts":
                    self._note(name, kind, self.built, "build", passed_ms)
        return window

    def _slide(self, window: _StreamWindow, kind: str, size: int) -> None:
        for step in range(-WARM_UPS, self.job.steps):
            self._step(window, kind, size, timed=step >= 0)
            self.progress(kind, step + 1, self.job.steps)
        for name, store in window.stores.items():
            if store.graph.number_of_edges() != window.high - window.low:
                self._disagree(
                    f"{name}, {kind} holds {store.graph.number_of_edges()} edges; {window.high - window.low} are left"
                )

    def _rows(self, window: _StreamWindow, low: int, high: int) -> tuple[Array, ...]:
        columns = (self.src, self.dst) if window.weights is None else (self.src, self.dst, window.weights)
        return tuple(column[low:high] for column in columns)

    def _step(self, window: _StreamWindow, kind: str, size: int, timed: bool) -> None:
        leaving: tuple[Array, ...] | None
        if kind in MADE:
            entering = leaving = self._made(kind, size)
        else:
            entering, leaving = self._rows(window, window.high, window.high + size), None
            window.high += size
            if kind != "inserts":
                leaving = self._rows(window, window.low, window.low + size)
                window.low += size
        for name, store in window.stores.items():
            self._update(name, store, kind, entering, True, timed)
            if leaving is not None:
                self._update(name, store, kind, leaving, False, timed)

    def _update(
        self, name: str, store: StoreRun, kind: str, edges: tuple[Array, ...], inserting: bool, timed: bool
    ) -> None:
        """Apply one batch and record its time."""
        graph, size = store.graph, int(edges[0].shape[0])
        self.watch.start()
        report = graph.insert_edges(edges) if inserting else graph.delete_edges(edges)
        updated = self.watch.lap()
        graph.snapshot()
        shown = self.watch.lap()
        done = report.inserted if inserting else report.deleted
        if done != size:
            self._disagree(f"{name}, {kind}: {done} of {size} edges {'inserted' if inserting else 'deleted'}")
        if timed:
            if kind == "inserts" and report.grown:
                kind = "inserts, growing"
            self._note(name, kind, size, "insert" if inserting else "delete", updated)
            self._note(name, kind, size, "snapshot", shown)

    def _made(self, kind: str, size: int) -> tuple[Array, Array]:
        """Return edges of new vertices; they are deleted again, so that each batch is new."""
        xp, numbers = self.backend.xp, self.backend.xp.arange(size, dtype=np.int32)
        if kind == "rows":
            return self.new_id + numbers // ROW_LENGTH, numbers % ROW_LENGTH
        if kind == "hub":
            return xp.full(size, self.new_id, dtype=np.int32), numbers
        return self.new_id + GAP * numbers, numbers // 2

    def _note(self, name: str, kind: str, size: int, operation: str, passed_ms: float) -> None:
        self.result.times.setdefault((name, kind, size, operation), []).append(passed_ms)

    def _disagree(self, line: str) -> None:
        if self.result.disagreement is None:
            self.result.disagreement = line


def run_updates(events: EventTable, job: UpdateJob, progress: Callable[[str, int, int], None]) -> UpdateResult:
    """Run the suite.

    Raises
    ------
    InputError
        If the stream is too short for the batches.
    """
    return _Updates(events, job, progress).run()


def _lines(result: UpdateResult) -> list[tuple[str, ...]]:
    """Return store, kind, operation, batch, median, p90, maximum as text."""
    return [
        (store, kind, operation, f"{batch:,}", *(format_ms(percentiles(times)[key]) for key in _SHOWN))
        for (store, kind, batch, operation), times in result.times.items()
    ]


_HEAD = ("store", "kind", "operation", "batch", "median, ms", "p90", "max")
_SHOWN = ("median_ms", "p90_ms", "max_ms")


def _print(console: Console, job: UpdateJob, result: UpdateResult) -> None:
    from rich.table import Table

    table = Table(caption=f"{result.num_edges:,} edges built first", caption_justify="left")
    for number, name in enumerate(_HEAD):
        table.add_column(name, justify="left" if number < 3 else "right")
    for line in _lines(result):
        table.add_row(*line)
    console.print(table)


def _render(document: Mapping[str, Any], job: UpdateJob, result: UpdateResult) -> str:
    return render_lines(document, _HEAD, _lines(result))


SUITE = Suite("updates", UpdateJob, check_job, run_updates, _print, _render)
