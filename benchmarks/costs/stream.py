"""Events a second from a source to answers: ``python -m benchmarks.costs.stream``.

A window holds half of the data set's events. A stream brings them in batches, again and again from the start; with each
batch as many rows enter as leave. Host arrays are ready before the clock starts. There is a row for each size of batch,
without monitors, and with components and PageRank after each batch:

- "stream": ms a batch, when rows come as fast as they are taken;
- "latency": ms from a row's arrival to the answers, when rows come at half that rate, in tenths of a batch;
- "update": ms of the same slides and answers without a stream, from arrays that are on the device already;
- "copies": ms to bring a batch to the device, and nothing else.

With a log the graph is that of a database in a temporary folder (``--folder`` says where); each slide is a record.

"hidden" is the first figure beside the larger of the last two, its "bound": 1 means that all else is hidden.
``--stages`` also shows the ms of each stage of a batch, one after another, and those of the stream's stages, which run
beside each other.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.costs.stream_stages import ALONE, IN_STREAM, make_monitors, show_stages, time_stages
from benchmarks.documents import write_document
from dynstore.bench.machine import share_memory
from dynstore.bench.module_command import run_as_command
from dynstore.bench.stream import describe_stream
from dynstore.bench.timing import LapTimer, percentiles, quiet
from dynstore.datasets import resolve
from dynstore.datasets.names import is_generated
from dynstore.durable.database import Database, open_database
from dynstore.errors import InputError
from dynstore.graph import DynamicGraph
from dynstore.io import EventTable
from dynstore.streams import Stream
from dynstore.streams.questions import VersionTime
from dynstore.streams.sources.base import IterableSource
from dynstore.streams.staging import make_staging
from dynstore.typing import Device
from dynstore.windows.window import Window

__all__ = ["Feed", "Fresh", "main", "measure", "paced"]

WARM_UP = 3
LOGS = ("off", "os", "group", "commit")
NAMES = ("weakly_connected_components", "pagerank")
MONITORS: dict[str, tuple[str, ...]] = {"none": (), **{name: (name,) for name in NAMES}, "both": NAMES}
NEVER = 1 << 60  # no checkpoints meanwhile


class Feed:
    """The events of a data set from its middle on, as if without an end."""

    def __init__(self, events: EventTable) -> None:
        self._ends = [np.ascontiguousarray(column, np.int32) for column in (events.src, events.dst)]
        self.place = self.window = len(events) // 2

    @property
    def oldest(self) -> tuple[np.ndarray, ...]:
        """The rows with which the window is filled."""
        return tuple(column[: self.window] for column in self._ends)

    def batches(self, number: int, size: int) -> list[tuple[np.ndarray, ...]]:
        """Return the next batches."""
        found = []
        for _ in range(number):
            rows = np.arange(self.place, self.place + size) % len(self._ends[0])
            found.append(tuple(column[rows] for column in self._ends))
            self.place = (self.place + size) % len(self._ends[0])
        return found


class Fresh(IterableSource):
    """Batches that are others than those before, of which the log has a position."""

    def seek(self, position: int) -> None:
        """Begin with the first."""


def paced(batches: list[tuple[np.ndarray, ...]], rows_per_s: float) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield tenths of batches at a rate."""
    due = time.perf_counter()
    for batch in batches:
        step = max(1, len(batch[0]) // 10)
        for first in range(0, len(batch[0]), step):
            piece = tuple(column[first : first + step] for column in batch)
            due += len(piece[0]) / rows_per_s
            time.sleep(max(0.0, due - time.perf_counter()))
            yield piece


def _stream_ms(
    window: Window, batches: list[tuple[np.ndarray, ...]], names: tuple[str, ...], rows_per_s: float | None = None
) -> tuple[list[float], list[float], dict[str, list[float]]]:
    """Run a stream; with ``rows_per_s``, at this rate once it is warm.

    Returns
    -------
    times : list of float
        Ms of each batch.
    delays : list of float
        Ms; their 50th, 90th, 99th and 100th percentile.
    stages : dict
        Ms of each batch by the name of a stage.
    """
    size = len(batches[0][0])

    def source() -> Iterator[tuple[np.ndarray, ...]]:
        yield from batches[:WARM_UP]
        if rows_per_s is not None:
            while stream.progress().applied < WARM_UP * size:
                time.sleep(1e-3)
            meter._delays.clear()
            yield from paced(batches[WARM_UP:], rows_per_s)
        else:
            yield from batches[WARM_UP:]

    stream = Stream(window.graph, Fresh(source()), window, batch_edges=size, max_pending=max(4 * size, 10_000))
    meter = stream._engine.meter
    for name in names:
        stream.monitor(name)
    with quiet():
        stream.run()
    moments = [moment for moment, _ in meter.done][WARM_UP:]
    times = [1e3 * (after - before) for before, after in pairwise(moments)]
    stages = {name: [1e3 * passed for passed in meter._stages[name]][WARM_UP:] for name in IN_STREAM}
    return times, meter.delays_ms(0.5, 0.9, 0.99, 1.0), stages


def _update_ms(window: Window, batches: list[tuple[np.ndarray, ...]], names: tuple[str, ...]) -> list[float]:
    """Slide and answer without a stream, from arrays on the device."""
    backend, times = window.graph.core.backend, []
    monitors = make_monitors(window.graph, names)
    brought = [tuple(backend.asarray(column) for column in batch) for batch in batches]
    watch = LapTimer(backend)
    with quiet():
        for batch in brought:
            watch.start()
            window.slide(batch)
            for monitor in monitors:
                monitor.answer(VersionTime())
            times.append(watch.lap())
    for monitor in monitors:
        monitor.close()
    return times[WARM_UP:]


def _copy_ms(window: Window, batches: list[tuple[np.ndarray, ...]]) -> list[float]:
    """Bring batches to the device as a stream does."""
    backend, times = window.graph.core.backend, []
    staging, watch = make_staging(backend), LapTimer(backend)
    with quiet():
        for batch in batches:
            watch.start()
            staging.bring([[column] for column in batch])()
            times.append(watch.lap())
    staging.close()
    return times[WARM_UP:]


def measure(
    events: EventTable, sizes: list[int], kinds: list[str], steps: int, device: Device, store: str = "gpma+",
    logs: Sequence[str] = ("off",), folder: Path | None = None, stages: bool = False,
) -> Iterator[list[dict[str, Any]]]:  # fmt: skip
    """Yield the rows of the results of one size, kind and log after the other; with ``stages``, also those of each."""
    for size in sizes:
        if size > len(events) // 2:
            raise InputError(f"costs.stream: batches of {size} rows; {events.name} has a window of {len(events) // 2}")
        for kind, log in product(kinds, logs):
            with _open_graph(log, folder, {"device": device, "store": store}) as graph:
                yield _measure(events, size, MONITORS[kind], steps, graph, log, stages)


@contextmanager
def _open_graph(log: str, folder: Path | None, options: dict[str, Any]) -> Iterator[DynamicGraph]:
    """Make a graph, or that of a database in a folder that is deleted afterwards."""
    if log == "off":
        yield DynamicGraph(**options)
        return
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder) as place, _open(Path(place) / "db", log, options) as db:
        yield db.graph


def _open(path: Path, log: Any, options: dict[str, Any]) -> Database:
    return open_database(path, log, NEVER, **options)


def _measure(
    events: EventTable, size: int, names: tuple[str, ...], steps: int, graph: DynamicGraph, log: str, stages: bool
) -> list[dict[str, Any]]:
    feed, number = Feed(events), steps + WARM_UP + 1
    window = Window(graph, feed.window)
    window.slide(feed.oldest)
    times, _, in_stream = _stream_ms(window, feed.batches(number, size), names)
    rate = size / percentiles(times)["median_ms"] * 1e3 / 2
    _, delays, _ = _stream_ms(window, feed.batches(number, size), names, rate)
    found = {
        "stream": percentiles(times),
        "latency": dict(zip(("median_ms", "p90_ms", "p99_ms", "max_ms"), delays, strict=True)),
        "update": percentiles(_update_ms(window, feed.batches(number, size), names)),
        "copies": percentiles(_copy_ms(window, feed.batches(number, size))),
    }
    if stages:
        alone = time_stages(window, feed.batches(number, size), names)
        found |= {f"{name} alone": percentiles(ms[WARM_UP:]) for name, ms in alone.items()}
        found |= {f"{name} in the stream": percentiles(ms or [0.0]) for name, ms in in_stream.items()}
    return [
        {
            "store": f"{what}, log: {log}, monitors: {', '.join(names) or 'none'}", "device": graph.device,
            "operation": "total", "algorithm": None, "batch": size, "edges": graph.number_of_edges(),
            "steps": steps, **figures, "bytes": None,
        }
        for what, figures in found.items()
    ]  # fmt: skip


def _show(rows: list[dict[str, Any]]) -> None:
    """Print the rows of one size and kind: as a line, and the stages below."""
    medians = {row["store"].partition(", log:")[0]: row["median_ms"] for row in rows}
    first, latency = rows[:2]
    bound = max(("update", "copies"), key=lambda what: medians[what])
    print(
        f"{first['batch']:>9,} {first['store'].removeprefix('stream, '):60} "
        f"{first['batch'] / medians['stream'] / 1e3:10.2f} {medians['stream']:9.3f} {medians['update']:9.3f} "
        f"{medians['copies']:9.3f} {medians['stream'] / medians[bound]:7.2f} {bound:>7} {latency['median_ms']:9.2f} "
        f"{latency['p99_ms']:9.2f}",
        flush=True,
    )
    if len(medians) > 4:
        show_stages(*(
            {name: medians[f"{name} {where}"] for name in names}
            for names, where in ((ALONE, "alone"), (IN_STREAM, "in the stream"))
        ))  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, and write the JSON of schema 1 on request."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.costs.stream", description=__doc__)
    parser.add_argument("data", nargs="?", default="mathoverflow", help="a data set, or a file of events")
    parser.add_argument("--batches", default="1000,10000,100000", help="rows of a batch, by comma")
    parser.add_argument("--monitors", default="none,both", help="none, a name, or both; by comma")
    parser.add_argument("--logs", default="off", help="off, os, group, commit, by comma")
    parser.add_argument("--folder", type=Path, help="where logs are written; made if need be")
    parser.add_argument("--steps", type=int, default=20, help="batches that are timed")
    parser.add_argument("--stages", action="store_true", help="also time each stage of a batch")
    parser.add_argument("--store", default="gpma+")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    kinds, logs = given.monitors.split(","), given.logs.split(",")
    if not set(kinds) <= set(MONITORS) or not set(logs) <= set(LOGS):
        raise InputError(
            f"costs.stream: --monitors {given.monitors} --logs {given.logs}; "
            f"wanted {', '.join(MONITORS)}; {', '.join(LOGS)}"
        )
    if not 2 <= given.steps <= 500:
        raise InputError(f"costs.stream: --steps {given.steps}; wanted 2 to 500")
    share_memory(given.device)
    events = resolve(given.data, given.seed)
    print(f"{events.name}: {len(events):,} events; medians of {given.steps} batches")
    print(
        f"{'batch':>9} {'':60} {'M events/s':>10} {'ms':>9} {'update':>9} {'copies':>9} {'hidden':>7} {'bound':>7} "
        f"{'p50 ms':>9} {'p99 ms':>9}"
    )
    sizes = [int(float(part)) for part in given.batches.split(",")]
    rows: list[dict[str, Any]] = []
    options = given.device, given.store, logs, given.folder, given.stages
    for found in measure(events, sizes, kinds, given.steps, *options):
        _show(found)
        rows += found
    if given.json is not None:
        dataset = describe_stream(events, given.seed if is_generated(given.data) else None)
        write_document(given.json, "stream-costs", arguments, dataset, rows, module="costs.stream")


if __name__ == "__main__":
    run_as_command(main)
