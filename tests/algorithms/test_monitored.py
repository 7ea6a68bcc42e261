"""Finding the monitor of the same call."""

from __future__ import annotations

import gc
import sys
import threading
from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore.algorithms.door import find_monitor
from dynstore.algorithms.tracking import Monitor


@pytest.fixture
def G() -> dynstore.DynamicGraph:
    graph = dynstore.DynamicGraph(directed=False, device="cpu")
    graph.insert_edges(([0, 0, 1], [1, 2, 2]))
    return graph


def test_defaults_count_as_given_and_only_plain_values_are_compared(G: dynstore.DynamicGraph) -> None:
    monitor = G.track("pagerank", tol=1e-6)
    assert find_monitor(G, "pagerank", {"alpha": 0.85, "tol": 1e-6}) is monitor
    assert find_monitor(G, "pagerank", {"alpha": 0.85}) is None
    assert find_monitor(G, "triangle_count", {}) is None
    other = G.track("bfs", start=np.int64(1))
    assert find_monitor(G, "bfs", {"start": 1, "depth_limit": None}) is other
    listed = G.track("bfs", start=[0])
    assert find_monitor(G, "bfs", {"start": [0]}) is None
    assert listed.params == {"start": [0]}


def test_closed_and_dropped_monitors_are_not_found(G: dynstore.DynamicGraph) -> None:
    monitor = G.track("triangle_count")
    assert find_monitor(G, "triangle_count", {}) is monitor
    monitor.close()
    assert find_monitor(G, "triangle_count", {}) is None
    dropped = G.track("triangle_count")
    del dropped
    gc.collect()
    assert find_monitor(G, "triangle_count", {}) is None


def test_one_thread_looks_while_another_starts_to_track(G: dynstore.DynamicGraph) -> None:
    held, wrong, done = [G.track("bfs", start=0) for _ in range(20)], [], threading.Event()

    def look() -> None:
        try:
            while not done.is_set():
                find_monitor(G, "pagerank", {"alpha": 0.5})
        except RuntimeError as error:
            wrong.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread = threading.Thread(target=look)
    thread.start()
    try:
        held += [G.track("bfs", start=number % 3) for number in range(300)]
    finally:
        done.set()
        thread.join()
        sys.setswitchinterval(interval)
    assert not wrong


class _SlowTimer:
    """A timer that is read late, as on a GPU; ``reading`` is set when that begins."""

    def __init__(self, timer: Any) -> None:
        self.timer, self.reading, self.may_end = timer, threading.Event(), threading.Event()

    def seconds(self) -> float:
        self.reading.set()
        assert self.may_end.wait(60)
        return float(self.timer.seconds())


def test_two_threads_read_one_report(G: dynstore.DynamicGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Monitor, "_settle", lambda monitor: None)
        monitor = G.track("triangle_count")
    assert monitor._unnoted is not None
    timer = _SlowTimer(monitor._unnoted.timer)
    monitor._unnoted = monitor._unnoted._replace(timer=timer)  # type: ignore[arg-type]
    reports: list[Any] = []
    threads = [threading.Thread(target=lambda: reports.append(monitor.report())) for _ in range(2)]
    threads[0].start()
    assert timer.reading.wait(60)
    threads[1].start()
    threads[1].join(0.05)  # it waits for the first one
    timer.may_end.set()
    for thread in threads:
        thread.join(60)
    assert [report.version for report in reports] == [G.version, G.version]
