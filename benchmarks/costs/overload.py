"""A stream that gets more than it can take, for minutes: ``python -m benchmarks.costs.overload``.

For each row that the graph has taken, a source offers ten others (``--overload``), under each policy of overflow in
turn. So it is as much too fast on a busy machine. Rows are numbered, and their numbers are their times. The window is
one of time. What comes to it is watched: each row has to be the source's, and newer than the one before.

At the end of each policy

- rows offered = rows applied + rows dropped; only "drop-oldest" drops, and it drops what the progress says;
- the window has lost what is too old, and nothing else: the graph has the pairs of the applied rows that are left;
- memory has stayed what it was: in the last seven tenths its peak is at most 1.1 times that of the first three, and
  32 MB.

With "error" the stream ends as soon as too many rows wait. Then another one goes on behind the last row that is
applied, until the time is over. With "block" the source waits, and offers less.

If all that holds, the command exits with 0, else with 1. In the JSON there is a row for each tenth of the time, with
ms a batch, and the peak of the process's memory in bytes.
"""

from __future__ import annotations

import argparse
import os
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from threading import Event, Thread
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.documents import write_document
from dynstore.backend import get_backend
from dynstore.bench.machine import share_memory
from dynstore.bench.module_command import run_as_command
from dynstore.bench.stream import edge_keys, sorted_unique
from dynstore.bench.timing import percentiles
from dynstore.datasets import rmat
from dynstore.errors import InputError, StreamError
from dynstore.graph import DynamicGraph
from dynstore.streams import Stream
from dynstore.streams.pending import OVERFLOW
from dynstore.streams.sources.base import BaseSource
from dynstore.windows.window import Window

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Device

__all__ = ["MemorySample", "Numbered", "Outcome", "RowEnds", "Sampler", "Tenth", "Witness", "main", "soak"]

PARTS, WARM_PARTS = 10, 3
SPARE_BYTES = 32 << 20
WAITING = 100  # batches
SAMPLE_S = 0.1
ANSWER = "weakly_connected_components"


class RowEnds:
    """The ends of every row; row ``n`` is row ``n % length`` of an R-MAT graph."""

    def __init__(self, scale: int, seed: int) -> None:
        events = rmat(scale, 16, seed)
        self.src, self.dst = (np.ascontiguousarray(column, np.int32) for column in (events.src, events.dst))
        self.length = len(self.src)

    def rows(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of some rows."""
        places = numbers % self.length
        return self.src[places], self.dst[places]


class Witness:
    """Stands between a stream and its window, and checks what comes through."""

    def __init__(self, window: Window, table: RowEnds) -> None:
        self._slide, self.table, self._backend = window.slide, table, window.graph.core.backend
        self.window, self.last = window, -1
        self.entered = self.left = self.missing = 0
        self.moments = array("d")
        self._kept: deque[np.ndarray] = deque()
        vars(window)["slide"] = self.slide

    def slide(self, edges: tuple[Any, ...], time: Any) -> Any:
        """Check the rows of a batch, and slide."""
        numbers, src, dst = (self._backend.to_host(column) for column in (time, *edges))
        steps = np.diff(numbers, prepend=self.last)
        wanted = self.table.rows(numbers)
        if steps.min() < 1 or not (np.array_equal(src, wanted[0]) and np.array_equal(dst, wanted[1])):
            raise RuntimeError(
                f"costs.overload: rows {numbers[0]} to {numbers[-1]} came after {self.last}, or are others"
            )
        report = self._slide(edges, time=time)
        self.moments.append(perf_counter())
        self.missing += int(steps.sum()) - len(steps)
        self.last = int(numbers[-1])
        self.entered += report.entered
        self.left += report.left
        self._kept.append(numbers)
        while self._kept[0][-1] <= self.last - self.window.length:
            self._kept.popleft()
        return report

    def faults(self) -> Iterator[str]:
        """Say what the window, or its graph, has that differs from the rows that came."""
        numbers = np.concatenate(self._kept) if self._kept else np.empty(0, np.int64)
        numbers = numbers[numbers > self.last - self.window.length]
        if not len(self.window) == self.entered - self.left == len(numbers):
            yield f"the window has {len(self.window)} rows; wanted {len(numbers)}"
        src, dst = (self._backend.to_host(column) for column in self.window.graph.edge_columns().values())
        keys, wanted = edge_keys(src, dst, True), edge_keys(*self.table.rows(numbers), True)
        if not np.array_equal(np.sort(keys), sorted_unique(wanted)):
            yield f"the graph has {len(keys)} edges that are not those of the rows"


class Numbered(BaseSource):
    """Offers rows until some moment, ``overload`` times as many as come to a window, and some more.

    ``most``: how many at once; None for as many as the stream has room for.
    """

    def __init__(self, witness: Witness, overload: float, more: int, ends: float, most: int | None) -> None:
        self._witness, self._overload, self._more, self._ends, self._most = witness, overload, more, ends, most
        self._before, self._first, self.next = witness.entered, witness.last + 1, witness.last + 1

    @property
    def due(self) -> int:
        """Rows that should have been offered by now."""
        return int(self._overload * (self._witness.entered - self._before + self._more))

    def poll(self, max_rows: int, timeout: float) -> tuple[Any, int] | None:
        if perf_counter() >= self._ends:
            raise EOFError
        count = min(self._first + self.due - self.next, max_rows if self._most is None else self._most)
        if count < 1:
            sleep(min(timeout, 1e-3))
            return None
        numbers = np.arange(self.next, self.next + count)
        self.next += count
        src, dst = self._witness.table.rows(numbers)
        return {"source": src, "destination": dst, "time": numbers}, self.next

    def seek(self, position: int) -> None:
        self.next = position


class MemorySample(NamedTuple):
    """Bytes of the process and of the GPU at some moment."""

    moment: float
    resident: int
    on_gpu: int


class Sampler:
    """Notes the memory of the process, and of the GPU, ten times a second."""

    def __init__(self, backend: Backend) -> None:
        self._backend, self._stop = backend, Event()
        self.samples: list[MemorySample] = []
        self._thread = Thread(target=self._run, name="dynstore-sampler", daemon=True)

    def _run(self) -> None:
        page = os.sysconf("SC_PAGE_SIZE")
        while not self._stop.wait(SAMPLE_S):
            resident = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * page
            on_gpu = 0
            if self._backend.on_gpu:
                free, total = self._backend.xp.cuda.runtime.memGetInfo()
                on_gpu = total - free
            self.samples.append(MemorySample(perf_counter(), resident, on_gpu))

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()


class Tenth(NamedTuple):
    """A tenth of the time: ms of each batch, and the peaks of the process's and of the GPU's memory in bytes."""

    times: list[float]
    resident: int
    on_gpu: int


@dataclass
class Outcome:
    """What has come of one policy.

    Attributes
    ----------
    policy : str
    overload : float
        Rows that were due beside rows applied.
    offered, applied, dropped, expired : int
        Rows.
    streams : int
        How many streams there were.
    ticks : int
        Answers that a callback has got.
    edges : int
        Of the graph at the end.
    parts : list of Part
    faults : list of str
    """

    policy: str
    overload: float
    offered: int
    applied: int
    dropped: int
    expired: int
    streams: int
    ticks: int
    edges: int
    parts: list[Tenth]
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.policy}: {self.overload:.1f} times overload; {self.offered:,} rows offered, {self.applied:,} "
            f"applied, {self.dropped:,} dropped, {self.expired:,} expired; {self.streams:,} streams, "
            f"{self.ticks:,} ticks"
        )


def _run(witness: Witness, source: Numbered, policy: Any, batch: int, ticks: list[int]) -> tuple[int, int, bool]:
    """Run a stream to its end; return how many rows it has applied and dropped, and whether too many came."""
    window = witness.window
    flow = Stream(window.graph, source, window, batch, max_pending=WAITING * batch, overflow=policy)
    flow.monitor(ANSWER, lambda tick: ticks.append(tick.version), every=10)
    is_over = False
    try:
        flow.run()
    except StreamError:
        is_over = True
    progress = flow.progress()
    return progress.applied, progress.dropped, is_over


def soak(
    policy: str, seconds: float, overload: float, batch: int, window: int, scale: int, device: Device, seed: int = 1
) -> Outcome:
    """Run one policy.

    Parameters
    ----------
    policy : {"block", "drop-oldest", "error"}
    seconds : float
    overload : float
        How many rows are offered for each that is applied.
    batch, window : int
        Rows of a batch; rows of the window, as far as they are applied.
    scale : int
        Of the R-MAT graph.
    """
    table, ticks, faults = RowEnds(scale, seed), list[int](), list[str]()
    warm = Witness(Window(DynamicGraph(device=device), window, by="time"), table)  # kernels are compiled, or loaded
    _run(warm, Numbered(warm, overload, batch, perf_counter() + min(5.0, seconds / 2), None), "block", batch, ticks)
    ticks.clear()
    del warm
    graph = DynamicGraph(device=device)
    length = int(window * (overload if policy == "drop-oldest" else 1))
    witness, most = Witness(Window(graph, length, by="time"), table), WAITING * batch // 4
    offered = applied = dropped = streams = due = 0
    with Sampler(graph.core.backend) as sampler:
        begun = perf_counter()
        ends, goes_on = begun + seconds, True
        while goes_on and perf_counter() < ends:
            source = Numbered(witness, overload, batch, ends, None if policy == "block" else most)
            more, fewer, goes_on = _run(witness, source, policy, batch, ticks)
            applied, dropped, streams, due = applied + more, dropped + fewer, streams + 1, due + source.due
            offered = witness.last + 1 if goes_on else source.next
        passed = perf_counter() - begun
    if not offered == applied + dropped == witness.entered + witness.missing:
        faults.append(f"of {offered} rows, {applied} are applied, {dropped} dropped; {witness.missing} are missing")
    if witness.missing != dropped or (dropped and policy != "drop-oldest"):
        faults.append(f"{dropped} rows were dropped, {witness.missing} are missing")
    faults += witness.faults()
    parts = _parts(begun, passed, witness.moments, sampler.samples)
    faults += _growth(parts)
    return Outcome(
        policy, due / max(applied, 1), offered, applied, dropped, witness.left, streams, len(ticks),
        graph.number_of_edges(), parts, faults,
    )  # fmt: skip


def _parts(begun: float, passed: float, moments: Sequence[float], samples: list[MemorySample]) -> list[Tenth]:
    """Return the tenths of some time."""
    found = []
    for part in range(PARTS):
        low, high = (begun + passed * edge / PARTS for edge in (part, part + 1))
        times = [1e3 * (after - before) for before, after in pairwise(moments) if low <= after < high]
        within = [sample for sample in samples if low <= sample.moment < high]
        peaks = max((each.resident for each in within), default=0), max((each.on_gpu for each in within), default=0)
        found.append(Tenth(times or [0.0], *peaks))
    return found


def _growth(parts: list[Tenth]) -> Iterator[str]:
    for name, peaks in (
        ("the process", [part.resident for part in parts]),
        ("the GPU", [part.on_gpu for part in parts]),
    ):
        warm, later = max(peaks[:WARM_PARTS]), max(peaks[WARM_PARTS:])
        if later > 1.1 * warm + SPARE_BYTES:
            yield f"the memory of {name} has grown from {warm / 1e6:.0f} to {later / 1e6:.0f} MB"


def _rows(outcome: Outcome, batch: int, device: str) -> Iterator[dict[str, Any]]:
    """Yield rows of schema 1."""
    every = [passed for part in outcome.parts for passed in part.times]
    listed = [(str(outcome), every, max(part.resident for part in outcome.parts))]
    for number, part in enumerate(outcome.parts, 1):
        listed.append((f"{outcome.policy}, tenth {number}", part.times, part.resident))
        if part.on_gpu:
            listed.append((f"{outcome.policy}, tenth {number}, bytes of the GPU", part.times, part.on_gpu))
    for name, times, size in listed:
        yield {
            "store": name, "device": device, "operation": "total", "algorithm": None, "batch": batch,
            "edges": outcome.edges, "steps": len(times), **percentiles(times), "bytes": size,
        }  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Soak, print, and write the JSON of schema 1 on request; return 1 if something was lost or memory has grown."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.costs.overload", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--minutes", type=float, default=10.0, help="for each policy")
    parser.add_argument("--overload", type=float, default=10.0, help="rows offered beside rows that the graph takes")
    parser.add_argument("--overflow", default=",".join(OVERFLOW), help="policies, by comma")
    parser.add_argument("--batch", type=int, default=10_000, help="rows of a batch")
    parser.add_argument("--window", type=int, default=500_000, help="rows of the window")
    parser.add_argument("--scale", type=int, default=16, help="2**scale vertices")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    policies = given.overflow.split(",")
    if not set(policies) <= set(OVERFLOW):
        raise InputError(f"costs.overload: --overflow {given.overflow}; wanted some of {', '.join(OVERFLOW)}")
    if given.minutes <= 0 or given.overload <= 1 or min(given.batch, given.window) < 1:
        raise InputError(
            f"costs.overload: --minutes {given.minutes} --overload {given.overload} --batch {given.batch} "
            f"--window {given.window}; wanted more than 0, more than 1, at least 1, at least 1"
        )
    share_memory(given.device)
    rows: list[dict[str, Any]] = []
    agree = True
    for policy in policies:
        sizes = given.batch, given.window, given.scale
        outcome = soak(policy, 60 * given.minutes, given.overload, *sizes, given.device, given.seed)
        print(outcome, flush=True)
        for number, part in enumerate(outcome.parts, 1):
            gpu = f", GPU {part.on_gpu / 1e6:,.0f} MB" if part.on_gpu else ""
            median = percentiles(part.times)["median_ms"]
            print(
                f"  tenth {number:2}: {len(part.times):,} batches, {median:.3f} ms, {part.resident / 1e6:,.0f} MB{gpu}"
            )
        for fault in outcome.faults:
            print(f"  FAULT: {fault}", flush=True)
        agree = agree and not outcome.faults
        rows += _rows(outcome, given.batch, get_backend(given.device).name)
    if given.json is not None:
        dataset = {
            "name": f"rmat:{given.scale}:16", "vertices": 1 << given.scale, "edges": 16 << given.scale,
            "seed": given.seed,
        }  # fmt: skip
        write_document(given.json, "stream-soak", arguments, dataset, rows, agree)
    return 0 if agree else 1


if __name__ == "__main__":
    run_as_command(main)
