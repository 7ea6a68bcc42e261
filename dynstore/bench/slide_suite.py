"""Slides of a window against the same changes as two updates: ``dynstore bench --suite slides DATA --batch 1%``.

Two graphs follow the stream. One is filled by :class:`dynstore.Window`, which finds out by itself what changes. The
other is given what changes, for free, and takes it by ``delete_edges`` and ``insert_edges``. Kinds of windows:

- ``latest``: an unweighted graph of the window's pairs
- ``count``, ``sum``: a weighted graph of how often each pair occurs, or of the sum of the weights (1 each)

Batches are in the device's memory, those of the two updates in random order. The time is that of the calls until the
device is idle. After each slide both graphs must hold the same edges and weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.backend import get_backend
from dynstore.bench.contestants import StoreRun
from dynstore.bench.reports.report import render_lines
from dynstore.bench.reports.summary import format_ms, format_ratio, ratio_of
from dynstore.bench.stream import parse_batch
from dynstore.bench.suite_parts import StreamJob, Suite
from dynstore.bench.timing import LapTimer, percentiles, quiet
from dynstore.errors import InputError, unknown_name
from dynstore.graph import DynamicGraph
from dynstore.windows.window import Window

if TYPE_CHECKING:
    from rich.console import Console

    from dynstore.backend import Backend
    from dynstore.io import EventTable
    from dynstore.typing import Array

__all__ = ["KINDS", "SUITE", "SlideJob", "SlideResult", "check_job", "run_slides"]

KINDS = ("latest", "count", "sum")
WARM_UPS = 5
SLIDE, NET = "window", "two updates"


@dataclass(frozen=True)
class SlideJob(StreamJob):
    """The job; ``kinds``: some of KINDS."""

    stores: Sequence[str] = ("gpma+",)
    kinds: Sequence[str] = KINDS


@dataclass
class SlideResult:
    """The result.

    Attributes
    ----------
    times : dict
        (store, kind, way) -> ms of each step.
    changed : dict
        (store, kind) -> edges that a step deletes and inserts, of each step.
    """

    device: str
    batch: int
    num_edges: int = 0
    times: dict[tuple[str, str, str], list[float]] = field(default_factory=dict)
    changed: dict[tuple[str, str], list[tuple[int, int]]] = field(default_factory=dict)
    disagreement: str | None = None
    notes: list[str] = field(default_factory=list)

    def times_as_fast(self, store: str, kind: str) -> float:
        """Return how many times as fast as two updates the window is: the median of the ratios step by step."""
        return ratio_of(self.times[store, kind, NET], self.times[store, kind, SLIDE])

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Return the JSON's rows."""
        return [
            {
                "store": f"{store}, {kind}, {way}", "device": self.device, "operation": "update", "algorithm": None,
                "batch": self.batch, "edges": self.num_edges, "steps": len(times), **percentiles(times), "bytes": None,
            }
            for (store, kind, way), times in self.times.items()
        ]  # fmt: skip


def check_job(job: SlideJob) -> Backend:
    """Check what can be checked without data.

    Raises
    ------
    InputError
    """
    if job.steps < 1:
        raise InputError(f"bench: --steps is {job.steps}; wanted at least 1")
    if job.weighted:
        raise InputError("bench: got --weight; --suite slides makes its own weights. Leave it out")
    for kind in job.kinds:
        if kind not in KINDS:
            raise unknown_name("bench", "kind", kind, KINDS)
    backend = get_backend(job.device)
    for name in job.stores:
        StoreRun(name, backend, True, False, job.store_options.get(name, {}))
    return backend


class _SlideRace:
    """A window and the same changes as two updates, on one store."""

    def __init__(self, job: SlideJob, events: EventTable, backend: Backend, store: str, kind: str) -> None:
        device: Any = backend.name
        weighted, directed = kind != "latest", job.directed is not False
        options = job.store_options.get(store, {})
        self.backend, self.kind = backend, kind
        self.graphs = [DynamicGraph(directed, weighted, store, device, **options) for _ in range(2)]
        self.length = int(job.window * len(events))
        keep: Any = kind
        self.window = Window(self.graphs[0], self.length, keep=keep)
        self.src, self.dst = (backend.asarray(np.asarray(end, np.int32)) for end in (events.src, events.dst))
        self.ones = backend.asarray(np.ones(len(events), np.float32))
        self.watch = LapTimer(backend)
        self.rng = np.random.default_rng(0)
        self.window.slide(self._rows(0, self.length))
        self.held = self._edges(0)
        self.graphs[1].insert_edges(self._shuffled(*self.held))

    def _rows(self, low: int, high: int) -> tuple[Array, ...]:
        columns = (self.src, self.dst, self.ones) if self.kind == "sum" else (self.src, self.dst)
        return tuple(column[low:high] for column in columns)

    def _edges(self, number: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Return a graph's edges as sorted keys, and their weights."""
        columns = {name: self.backend.to_host(array) for name, array in self.graphs[number].edge_columns().items()}
        keys = columns["source"].astype(np.int64) << 32 | columns["destination"]
        order = np.argsort(keys)
        return keys[order], columns["weight"][order] if "weight" in columns else None

    def _shuffled(self, keys: np.ndarray, weights: np.ndarray | None) -> tuple[Array, ...]:
        order = self.rng.permutation(keys.shape[0])
        columns = [(keys[order] >> 32).astype(np.int32), (keys[order] & 0xFFFFFFFF).astype(np.int32)]
        if weights is not None:
            columns.append(weights[order])
        return tuple(self.backend.asarray(column) for column in columns)

    def step(self, low: int, high: int) -> tuple[float, float, tuple[int, int], str | None]:
        """Slide, then change the other graph alike; return both ms, how many edges changed, and a difference."""
        rows = self._rows(low, high)
        self.watch.start()
        self.window.slide(rows)
        slid = self.watch.lap()
        keys, weights = self._edges(0)
        old_keys, old_weights = self.held
        gone = np.setdiff1d(old_keys, keys, assume_unique=True)
        fresh = ~np.isin(keys, old_keys, assume_unique=True)
        if weights is not None and old_weights is not None:
            kept = np.flatnonzero(~fresh)
            fresh[kept] = weights[kept] != old_weights[np.searchsorted(old_keys, keys[kept])]
        leaving = self._shuffled(gone, None)
        entering = self._shuffled(keys[fresh], None if weights is None else weights[fresh])
        self.watch.start()
        self.graphs[1].delete_edges(leaving)
        self.graphs[1].insert_edges(entering)
        updated = self.watch.lap()
        self.held = keys, weights
        other_keys, other_weights = self._edges(1)
        same = np.array_equal(keys, other_keys)
        if weights is not None and other_weights is not None:
            same = same and np.array_equal(weights, other_weights)
        problem = None if same else f"{keys.shape[0]} edges in the window, {other_keys.shape[0]} in the other graph"
        return slid, updated, (int(gone.shape[0]), int(fresh.sum())), problem


def run_slides(events: EventTable, job: SlideJob, progress: Callable[[str, int, int], None]) -> SlideResult:
    """Run the suite.

    Raises
    ------
    InputError
        If the stream is too short.
    """
    backend = check_job(job)
    batch = parse_batch(job.batch, len(events))
    length, steps = int(job.window * len(events)), job.steps + WARM_UPS
    if length + steps * batch > len(events):
        raise InputError(
            f"bench: {steps} slides of {batch} events need {steps * batch} events behind a window of {length}; the "
            f"stream has {len(events)} events. Take fewer --steps or a smaller --batch"
        )
    result = SlideResult(backend.name, batch)
    with quiet():
        for store in job.stores:
            for kind in job.kinds:
                race = _SlideRace(job, events, backend, store, kind)
                _run(race, result, (store, kind), range(length, length + steps * batch, batch), progress)
                result.num_edges = race.graphs[0].number_of_edges()
                if result.disagreement is not None:
                    return result
    return result


def _run(
    race: _SlideRace, result: SlideResult, key: tuple[str, str], lows: range, progress: Callable[[str, int, int], None]
) -> None:
    """Time the slides that begin at some events; the first ones warm up."""
    for step, low in enumerate(lows):
        slid, updated, changed, problem = race.step(low, low + result.batch)
        if problem is not None:
            result.disagreement = f"{', '.join(key)}, step {step}: {problem}"
            return
        if step >= WARM_UPS:
            result.times.setdefault((*key, SLIDE), []).append(slid)
            result.times.setdefault((*key, NET), []).append(updated)
            result.changed.setdefault(key, []).append(changed)
        progress(", ".join(key), step + 1, len(lows))


_HEAD = ("store", "window", "deleted", "inserted", "window, ms", "p90", "two updates, ms", "p90", "times as fast")


def _lines(result: SlideResult) -> list[tuple[str, ...]]:
    """Return one line a store and kind as text."""
    lines = []
    for (store, kind), changed in result.changed.items():
        deleted, inserted = np.median(np.array(changed), axis=0)
        both = [percentiles(result.times[store, kind, way]) for way in (SLIDE, NET)]
        times = [format_ms(one[name]) for one in both for name in ("median_ms", "p90_ms")]
        lines.append(
            (
                store,
                kind,
                f"{deleted:,.0f}",
                f"{inserted:,.0f}",
                *times,
                format_ratio(result.times_as_fast(store, kind)),
            )
        )
    return lines


def _print(console: Console, job: SlideJob, result: SlideResult) -> None:
    from rich.table import Table

    caption = (
        f"slides of {result.batch:,} events, medians over the steps; times as fast: the window beside two updates that "
        "are given the changes; below 1x the window is slower"
    )
    table = Table(caption=caption, caption_justify="left")
    for number, name in enumerate(_HEAD):
        table.add_column(name, justify="right" if number > 1 else "left")
    for line in _lines(result):
        table.add_row(*line)
    console.print(table)


def _render(document: Mapping[str, Any], job: SlideJob, result: SlideResult) -> str:
    return render_lines(document, _HEAD, _lines(result))


SUITE = Suite("slides", SlideJob, check_job, run_slides, _print, _render)
