"""Updates alone, by size and kind of batch: ``dynstore bench --suite updates DATA --batch 10000,100000``.

The different edges of DATA in random order: the first ``--window`` of them are built, then each step inserts a batch
and deletes one. Kinds of batches:

- ``stream``: the next edges come, the oldest go
- ``rows``: edges of neighbouring new vertices, in order; then the same ones go
- ``hub``: edges of one new vertex
- ``gaps``: edges of new vertices far apart

Batches lie in the device's memory, unsorted (but ``rows``). A time is that of the call, until the device is idle: then
the edges are sorted, rows and views valid, the report made. No algorithm runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.backend import get_backend
from dynstore.benchmarks.contestants import StoreRun
from dynstore.benchmarks.stream import parse_batch, sorted_unique
from dynstore.benchmarks.suites import Suite
from dynstore.benchmarks.summary import format_ms
from dynstore.benchmarks.timing import Stopwatch, percentiles, quiet
from dynstore.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from dynstore.backend import Backend
    from dynstore.io import EventTable
    from dynstore.typing import Array

__all__ = ["KINDS", "SUITE", "UpdateJob", "UpdateResult", "check_job", "run_updates"]

KINDS = ("stream", "rows", "hub", "gaps")
WARM_UPS, BUILDS = 2, 3
ROW_LENGTH, GAP = 64, 16


@dataclass(frozen=True)
class UpdateJob:
    """What to run; ``batch`` is one size or several, by comma, the rest as in ``WindowJob``."""

    stores: Sequence[str] = ("gpma+", "merge")
    algorithms: Sequence[str] = ()
    window: float = 0.5
    batch: str | int = "1%"
    steps: int = 20
    device: str = "auto"
    directed: bool | None = None
    weighted: bool = False
    warm_start: bool = False
    store_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass
class UpdateResult:
    """What came out; ``times``: (store, kind, batch, operation) -> ms of each step."""

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
        raise InputError(f"steps is {job.steps}; wanted at least 1")
    if job.weighted:
        raise InputError("--suite updates takes no weights yet; leave --weight out")
    if not job.stores or len(set(job.stores)) != len(job.stores):
        raise InputError(f"stores: got {', '.join(job.stores) or 'none'}; wanted at least one, each once")
    backend = get_backend(job.device)
    for name in job.stores:
        StoreRun(name, backend, True, False, job.store_options.get(name, {}))
    return backend


class _Updates:
    """The stores of one run on one stream."""

    def __init__(self, events: EventTable, job: UpdateJob, progress: Callable[[str, int, int], None]) -> None:
        self.job, self.backend, self.progress = job, check_job(job), progress
        directed = job.directed is not False
        src, dst = events.src.astype(np.int64), events.dst.astype(np.int64)
        if not directed:
            src, dst = np.minimum(src, dst), np.maximum(src, dst)
        keys = np.random.default_rng(0).permutation(sorted_unique(src << 32 | dst))
        columns = (keys >> 32).astype(np.int32), (keys & 0xFFFFFFFF).astype(np.int32)
        self.src, self.dst = (self.backend.asarray(column) for column in columns)
        self.sizes = [parse_batch(text, int(keys.shape[0])) for text in str(job.batch).split(",")]
        self.low, self.high = 0, max(1, int(keys.shape[0] * job.window))
        behind, wanted = int(keys.shape[0]) - self.high, (job.steps + WARM_UPS) * sum(self.sizes)
        if wanted > min(behind, self.high):
            raise InputError(
                f"batch: {job.steps} steps and {WARM_UPS} to warm up take {wanted} edges; the stream has {self.high} "
                f"different ones in the window and {behind} behind it"
            )
        self.new_id = int(max(src.max(), dst.max())) + 1
        self.watch = Stopwatch(self.backend)
        self.result = UpdateResult(self.backend.name, self.high)
        self.stores = {
            name: StoreRun(name, self.backend, directed, False, job.store_options.get(name, {})) for name in job.stores
        }

    def run(self) -> UpdateResult:
        with quiet():
            for _ in range(BUILDS):
                for name, store in self.stores.items():
                    self._note(name, "stream", self.high, "build", store.build(self._rows(0, self.high)))
            done, steps = 0, len(KINDS) * len(self.sizes) * (self.job.steps + WARM_UPS)
            for kind in KINDS:
                for size in self.sizes:
                    for step in range(-WARM_UPS, self.job.steps):
                        self._step(kind, size, timed=step >= 0)
                        done += 1
                        self.progress(kind, done, steps)
        for name, store in self.stores.items():
            if store.graph.number_of_edges() != self.high - self.low:
                self._disagree(f"{name} holds {store.graph.number_of_edges()} edges; {self.high - self.low} are left")
        return self.result

    def _rows(self, low: int, high: int) -> tuple[Array, Array]:
        return self.src[low:high], self.dst[low:high]

    def _step(self, kind: str, size: int, timed: bool) -> None:
        if kind == "stream":
            entering, leaving = self._rows(self.high, self.high + size), self._rows(self.low, self.low + size)
            self.low, self.high = self.low + size, self.high + size
        else:
            entering = leaving = self._made(kind, size)
        for name, store in self.stores.items():
            self.watch.start()
            inserted = store.graph.insert_edges(entering).inserted
            insert_ms = self.watch.lap()
            deleted = store.graph.delete_edges(leaving).deleted
            delete_ms = self.watch.lap()
            if (inserted, deleted) != (size, size):
                self._disagree(f"{name}, {kind}: {inserted} inserted and {deleted} deleted of {size} edges each")
            if timed:
                self._note(name, kind, size, "insert", insert_ms)
                self._note(name, kind, size, "delete", delete_ms)

    def _made(self, kind: str, size: int) -> tuple[Array, Array]:
        """Return edges of new vertices; they go again, so that each batch is new."""
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
        Where the stream is too short for the batches.
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
    from rich.markup import escape as escape_markup
    from rich.table import Table

    table = Table(caption=f"{result.num_edges:,} edges built first", caption_justify="left")
    for number, name in enumerate(_HEAD):
        table.add_column(name, justify="left" if number < 3 else "right")
    for line in _lines(result):
        table.add_row(*map(escape_markup, line))
    console.print(table)


def _render(document: Mapping[str, Any], job: UpdateJob, result: UpdateResult) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    name = escape(f"dynstore bench --suite updates: {document['dataset']['name']}")
    machine = ", ".join(str(value) for value in document["machine"].values())
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}</title></head><body>'
        f"<h1>{name}</h1><p>{escape(document['command'])}; {escape(document['commit'])}; {escape(machine)}</p><table>"
        + row(_HEAD, "th")
        + "".join(row(line, "td") for line in _lines(result))
        + "</table></body></html>\n"
    )


SUITE = Suite("updates", UpdateJob, check_job, run_updates, _print, _render)
