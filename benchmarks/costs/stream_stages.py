"""The stages through which a batch of a stream goes, each alone, and as they were in the stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from dynstore.backend import get_backend
from dynstore.bench.timing import LapTimer, quiet
from dynstore.graph.exchanges import exchange
from dynstore.streams.journal import find_journal
from dynstore.streams.monitors import StreamMonitor
from dynstore.streams.progress import Meter
from dynstore.streams.questions import VersionTime
from dynstore.streams.rows import RowReader
from dynstore.streams.staging import make_staging
from dynstore.windows import window as windows

if TYPE_CHECKING:
    import numpy as np

    from dynstore.graph import DynamicGraph
    from dynstore.windows.window import Window

__all__ = ["ALONE", "IN_STREAM", "make_monitors", "show_stages", "time_stages"]

# In the order in which a batch goes through them, and the stage of the stream that each is a part of.
ALONE = {
    "read": "read", "pinned copy": "copy", "transfer": "update", "window": "update", "update": "update",
    "monitors": "monitors", "answers": "monitors",
}  # fmt: skip
IN_STREAM = ("read", "copy", "wait", "update", "monitors")


def make_monitors(graph: DynamicGraph, names: Sequence[str]) -> list[StreamMonitor]:
    """Return monitors as a stream has them; ``answer(Moment())`` brings one up to date."""
    meter = Meter()
    return [StreamMonitor(graph, name, None, 1, None, True, 0.0, {}, meter) for name in names]


def time_stages(window: Window, batches: list[tuple[np.ndarray, ...]], names: Sequence[str]) -> dict[str, list[float]]:
    """Take batches through all stages, one after another; return the ms of each stage, by its name in ``ALONE``.

    The device is idle before and after each stage. "transfer" brings a batch from pinned memory to the device, and
    copies it there; "window" counts its rows in and out; "update" deletes and inserts edges, and writes the log if
    there is one; "monitors" brings answers up to date; "answers" makes frames of them, and finds what has changed.
    """
    graph = window.graph
    backend, monitors = graph.core.backend, make_monitors(graph, names)
    reader = RowReader(graph, None, False, False)
    staging = make_staging(backend if find_journal(graph) is None else get_backend("cpu"))
    times: dict[str, list[float]] = {name: [] for name in ALONE}
    watch = LapTimer(backend)
    with quiet(), _timed_updates(graph, times["update"]):
        for batch in batches:
            watch.start()
            rows = reader.read(batch)
            times["read"].append(watch.lap())
            begun = perf_counter()
            take = staging.bring([[column] for column in rows.edges()])
            times["pinned copy"].append(1e3 * (perf_counter() - begun))
            columns = tuple(take())
            times["transfer"].append(max(0.0, watch.lap() - times["pinned copy"][-1]))
            window.slide(columns)
            times["window"].append(max(0.0, watch.lap() - times["update"][-1]))
            answered = 0.0
            for monitor in monitors:
                monitor.answer(VersionTime())
                answered += 0.0 if monitor.latest is None else monitor.latest.ms
            times["answers"].append(max(0.0, watch.lap() - answered))
            times["monitors"].append(answered)
    for monitor in monitors:
        monitor.close()
    staging.close()
    return times


@contextmanager
def _timed_updates(graph: Any, times: list[float]) -> Iterator[None]:
    """Have a window's exchanges of edges note their ms."""
    watch = LapTimer(graph.core.backend)

    def timed(*given: Any) -> Any:
        watch.start()
        report = exchange(*given)
        times.append(watch.lap())
        return report

    with patch.object(windows, "exchange", timed):
        yield


def show_stages(alone: dict[str, float], in_stream: dict[str, float]) -> None:
    """Print the median ms of each stage alone, and of the stream's own stages."""
    print(f"{'':9} {'stage':14} {'alone':>9}   {'in the stream':14}")
    shown = set()
    for name, stage in ALONE.items():
        line = f"{'':9} {name:14} {alone[name]:9.3f}"
        if stage not in shown:
            line += f"   {stage:9} {in_stream[stage]:9.3f}"
        shown.add(stage)
        print(line)
    print(f"{'':9} {'all':14} {sum(alone.values()):9.3f}   {'wait':9} {in_stream['wait']:9.3f}", flush=True)
