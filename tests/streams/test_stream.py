"""Streams: every row is applied once and in order, whatever the batches, the callbacks and the questions."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from dynstore import Stream, Window
from dynstore.errors import InputError, InputTypeError, StreamError
from dynstore.streams.monitors import Delivery, Tick
from dynstore.streams.progress import Meter, shown_ms
from tests.streams.scripted import SOON, Scripted, graph, pairs_of, path, wait_until

ROOT = Path(__file__).resolve().parents[2]


def test_bad_arguments() -> None:
    G, other = graph(), graph()
    for options, message in [
        ({"window": Window(other, 3)}, "window is of another graph"),
        ({"overflow": "drop"}, "unknown overflow 'drop'"),
        ({"batch_edges": 0}, "batch_edges is 0; wanted 1 or more"),
        ({"max_delay": "x"}, "max_delay is 'x'"),
        ({"max_delay": -1}, "max_delay is -1; wanted 0 or more"),
        ({"window": 1000}, "window is 1000; wanted a dynstore.Window; only a graph with timestamps takes a length of"),
        ({"lateness": "x"}, "lateness is 'x'"),
        ({"columns": {"from": "x"}}, "unknown role of a column 'from'"),
        ({"source": 3}, "source is a int; wanted a Source"),
    ]:
        with pytest.raises(InputError, match=message):
            Stream(G, **{"source": [], **options})
    with pytest.raises(InputTypeError, match="G is a int"):
        Stream(3, [])  # type: ignore[arg-type]
    stream = Stream(G, [])
    with pytest.raises(InputError, match="unknown answer 'page'"):
        stream.monitor("page")
    with pytest.raises(InputTypeError, match="unknown parameter 'damping'"):
        stream.monitor("pagerank", damping=1)
    with pytest.raises(InputError, match="min_change is -1; wanted 0 or more"):
        stream.monitor("pagerank", min_change=-1)
    for name, start in [("bfs", "start"), ("sssp", "source")]:
        with pytest.raises(InputError, match=f"monitor: {name}: '{start}' is missing; wanted where to start"):
            Stream(graph(weighted=True), []).monitor(name)
    with pytest.raises(InputError, match="at is 'later'"):
        stream.ask(len, at="later")  # type: ignore[arg-type]
    with pytest.raises(InputTypeError, match="query is 3"):
        stream.ask(3)  # type: ignore[arg-type]
    stream.run()
    with pytest.raises(InputError, match="the stream has ended; make another one"):
        stream.start()


# ---------------------------------------------------------------------- batches


def test_a_batch_closes_by_rows_or_by_time() -> None:
    Stream(graph(), path(0, 25), batch_edges=10).run()  # compiles what the first batch needs
    source = Scripted()
    with Stream(graph(), source, batch_edges=10, max_delay=0.1).start() as stream:
        source.queue.put(path(0, 25))
        wait_until(lambda: stream.progress().batches >= 2)
        begun = time.monotonic()
        assert stream.progress().applied in (20, 25)
        wait_until(lambda: stream.progress().applied == 25)
        assert time.monotonic() - begun < 1.0
        assert stream.progress().batches == 3


def test_positions_are_committed_after_their_rows_are_applied() -> None:
    source, G = Scripted(), graph()
    with Stream(G, source, batch_edges=10, max_delay=60.0).start() as stream:
        source.queue.put(path(0, 6))
        source.queue.put(path(6, 12))
        wait_until(lambda: stream.progress().applied == 10)
        wait_until(lambda: source.committed == [1])  # of the second piece, two rows wait
    assert source.committed == [1]
    assert source.closed.is_set()
    assert G.number_of_edges() == 10


@pytest.mark.parametrize("overflow", ["block", "drop-oldest", "error"])
def test_overflow(overflow: Any) -> None:
    """Forty times what may wait comes while the graph is busy."""
    G, source, release, begun = graph(), Scripted(ends=False), Event(), Event()

    def hold(graph: Any) -> None:
        begun.set()
        assert release.wait(SOON)

    stream = Stream(G, source, batch_edges=50, max_delay=0.0, max_pending=100, overflow=overflow).start()
    stream.ask(hold)
    assert begun.wait(SOON)
    for first in range(0, 4000, 40):
        source.queue.put(path(first, first + 40))
    source.queue.put(EOFError())
    if overflow == "block":
        wait_until(lambda: source.pauses == [True])
        assert stream.progress().pending == 120  # a piece is taken in whole
    elif overflow == "drop-oldest":
        wait_until(lambda: stream.progress().arrived == 4000)
        assert stream.progress().pending == 100
    else:
        wait_until(lambda: stream.progress().errors != ())
        assert stream.progress().pending == 80
    release.set()
    if overflow == "error":
        with pytest.raises(StreamError, match="80 rows wait and 40 more came; max_pending is 100"):
            stream.run()
        assert pairs_of(G) == {(row, row + 1) for row in range(80)}
        assert source.committed[-1] == 2
        return
    progress = stream.run()
    assert progress.applied + progress.dropped == progress.arrived == 4000
    if overflow == "block":
        assert source.pauses[-1] is False
        assert (progress.dropped, G.number_of_edges()) == (0, 4000)
    else:
        assert progress.dropped == 3900
        assert pairs_of(G) == {(row, row + 1) for row in range(3900, 4000)}
    assert source.committed[-1] == 100


def soak(seconds: float) -> None:
    """Overload by at least ten times: memory stays bounded, and nothing is lost but what is counted."""
    rows, sent = 20_000, 0
    src, dst = np.arange(rows), np.arange(rows) + 1

    def flood() -> Any:
        nonlocal sent
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            yield src.copy(), dst.copy()
            sent += rows
            time.sleep(0.0005)

    stream = Stream(graph(), flood(), batch_edges=1000, max_pending=40_000, overflow="drop-oldest", max_delay=0.0)
    G = stream.graph
    slow = stream.monitor("pagerank", lambda tick: time.sleep(0.01))
    stream.start()
    wait_until(lambda: stream.progress().dropped > 0)
    tracemalloc.start()
    most = 0
    while stream.progress().state == "running":
        time.sleep(0.05)
        most = max(most, stream.progress().pending)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    progress = stream.run()
    assert progress.arrived == sent == progress.applied + progress.dropped
    assert progress.arrived > 10 * progress.applied
    assert most <= 41_000
    assert peak < 40e6, f"{peak / 1e6:.0f} MB"
    assert G.number_of_edges() == rows
    assert slow.latest is not None


def test_overload_keeps_memory_bounded() -> None:
    soak(1.5)


@pytest.mark.thorough
def test_overload_for_ten_minutes() -> None:
    soak(float(os.environ.get("DYNSTORE_TEST_SOAK_S", "600")))


# ---------------------------------------------------------------------- the end


def test_run_ends_by_time_or_by_a_condition() -> None:
    source = Scripted([(0, 1)])
    stream = Stream(graph(), source, max_delay=0.0)
    assert stream.run(until=lambda progress: progress.applied == 1).applied == 1
    begun = time.monotonic()
    assert Stream(graph(), Scripted()).run(until=0.2).state == "ended"
    assert 0.2 <= time.monotonic() - begun < 5


def test_ctrl_c_ends_cleanly() -> None:
    program = """
import os, signal, threading
from tests.streams.scripted import Scripted
from dynstore import DynamicGraph, Stream

source, G = Scripted([(0, 1), (1, 2)]), DynamicGraph(device="cpu")
stream = Stream(G, source, max_delay=0.0)
stream.ask(len)

def interrupt():
    while stream.progress().applied < 2:
        pass
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt).start()
progress = stream.run()
names = [thread.name for thread in threading.enumerate() if thread.name.startswith("dynstore")]
print(stream.interrupted, progress.state, progress.applied, source.committed, source.closed.is_set(), names)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.stdout == "True ended 2 [1] True []\n", done.stderr


def test_a_source_that_fails_ends_the_stream_after_what_came() -> None:
    G, source = graph(), Scripted([(0, 1)], OSError("the line is dead"))
    with (
        pytest.raises(StreamError, match="Stream: the source could not go on: the line is dead"),
        Stream(G, source) as stream,
    ):
        stream.run()
    assert pairs_of(G) == {(0, 1)}
    assert stream.progress().errors == ("Stream: the source could not go on: the line is dead",)
    assert source.committed == [1]


def test_an_error_in_the_block_is_not_hidden() -> None:
    source = Scripted()
    with pytest.raises(KeyError), Stream(graph(), source).start():
        raise KeyError
    assert source.closed.is_set()


def test_rows_that_wait_are_not_applied_at_the_end() -> None:
    for _ in range(20):  # the reader may end before the owner looks
        G, source = graph(), Scripted(path(0, 7))
        with Stream(G, source, batch_edges=5, max_delay=60.0).start() as stream:
            wait_until(lambda stream=stream: stream.progress().applied == 5)
        assert G.number_of_edges() == 5
        assert source.committed == []


def test_stop_before_start_and_twice() -> None:
    source = Scripted()
    stream = Stream(graph(), source)
    stream.stop()
    stream.stop()
    assert source.closed.is_set()
    assert repr(stream) == "Stream(ended, version=0, 0 rows)"


def test_a_question_or_a_condition_that_raises_can_end_a_stream() -> None:
    source = Scripted([(0, 1)])
    stream = Stream(graph(), source, max_delay=0.0).start()
    stream.ask(lambda G: stream.stop()).result(SOON)
    stream.stop()
    assert source.closed.is_set()
    source = Scripted([(0, 1)])
    with pytest.raises(ZeroDivisionError):
        Stream(graph(), source, max_delay=0.0).run(until=lambda progress: 1 // 0)
    assert source.closed.is_set()


def test_what_asks_a_thread_to_end_leaves_nothing_waiting() -> None:
    """SystemExit is no Exception; also pytest.fail() raises one that is none."""

    def leave(given: Any) -> None:
        raise SystemExit(f"of a {type(given).__name__}")

    with Stream(graph(), Scripted([(0, 1)]), max_delay=0.0).start() as stream:
        with pytest.raises(SystemExit, match="of a DynamicGraph"):
            stream.ask(leave).result(SOON)
        stream.drain(SOON)
    meter = Meter()
    delivery = Delivery("bfs", leave, meter)
    for version in range(2):
        delivery.hand_over(Tick("bfs", version, None, None, None, 0.0), version)
        assert delivery.wait(SOON)
        assert delivery.shown == version
    delivery.close()
    assert list(meter.errors) == ["the callback of bfs raised SystemExit: of a Tick"]
    stream = Stream(graph(), Scripted([(0, 1)], SystemExit()), max_delay=0.0).start()
    wait_until(lambda: stream.progress().state == "failed")
    with pytest.raises(StreamError, match="the source could not go on: SystemExit"):
        stream.stop()


def test_drain_raises_what_has_ended_the_stream() -> None:
    stream = Stream(graph(), Scripted([(-1, 1)]), max_delay=0.0).start()
    wait_until(lambda: stream.progress().state == "failed")
    with pytest.raises(InputError, match="must not be negative"):
        stream.drain(SOON)
    with pytest.raises(InputError, match="must not be negative"):
        stream.stop()


def test_drain_gives_up_on_a_callback_that_does_not_return() -> None:
    release = Event()
    with Stream(graph(), Scripted([(0, 1)]), max_delay=0.0).start() as stream:
        stream.monitor("pagerank", lambda tick: release.wait(SOON))
        wait_until(lambda: stream.progress().applied == 1)
        stream._engine._source.queue.put([(1, 2)])  # type: ignore[attr-defined]
        wait_until(lambda: stream.progress().applied == 2)
        with pytest.raises(TimeoutError, match=r"the callback of pagerank has not returned after 0.2 s"):
            stream.drain(0.2)
        release.set()


def test_progress_has_rates_and_delays_and_is_a_line() -> None:
    stream = Stream(graph(), (path(first, first + 50) for first in range(0, 5000, 50)), batch_edges=500)
    stream.monitor("pagerank")
    progress = stream.run()
    assert progress.edges_per_s > 0
    assert 0 < progress.p50_ms <= progress.p99_ms
    assert set(progress.ms) == {"read", "copy", "wait", "update", "monitors", "questions"}
    assert all(progress.ms[stage] > 0 for stage in ("read", "update", "monitors"))
    assert str(progress).startswith("version 10: 5,000 rows, ")
    assert [shown_ms(ms) for ms in (0.0, 0.12345, 23.456, 1806.2)] == ["0", "0.123", "23.5", "1,806"]
