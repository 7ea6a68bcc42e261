"""Monitors of streams get each answer, and questions see what had arrived before them."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import numpy as np
import pytest

from dynstore import DynamicGraph, Stream
from dynstore.errors import InputError, StreamError
from dynstore.streams import Answer, Tick, engine
from tests.streams.scripted import SOON, Scripted, graph, path, wait_until

# ---------------------------------------------------------------------- monitors


def test_ticks_have_the_answer_and_what_changed() -> None:
    G, ticks, source = graph(), [], Scripted()
    with Stream(G, source, max_delay=0.0).start() as stream:
        stream.monitor("weakly_connected_components", ticks.append)
        for number, batch in enumerate([[(0, 1), (2, 3)], [(0, 1)], [(1, 2)]], start=1):
            source.queue.put(batch)
            wait_until(lambda number=number: stream.progress().batches == number)
            stream.drain(SOON)
    first, last = ticks  # nothing has changed after the second batch
    assert isinstance(first, Tick)
    assert (first.version, last.version) == (1, 3)
    assert first.changed["vertex"].tolist() == [0, 1, 2, 3]
    assert last.changed["vertex"].tolist() == [2, 3]
    assert last.result["labels"].tolist() == [0, 0, 0, 0]
    assert last.ms > 0


def test_every_so_many_batches_and_after_the_last(rng: np.random.Generator) -> None:
    G, versions = graph(), []
    stream = Stream(G, ([pair] for pair in zip(range(7), range(1, 8), strict=True)), max_delay=0.0, batch_edges=1)
    monitor = stream.monitor("pagerank", lambda tick: time.sleep(0), every=3, changed_only=False)
    answer = monitor._bring_up
    monitor._bring_up = lambda *given: (answer(*given), versions.append(G.version))  # type: ignore[method-assign,assignment]
    stream.run()
    assert versions == [3, 6, 7]


def test_an_answer_that_is_not_possible_yet_comes_later() -> None:
    G, ticks = graph(), []
    stream = Stream(G, iter([[(0, 1)], [(1, 5)]]), max_delay=0.0, batch_edges=1)
    stream.monitor("bfs", ticks.append, start=5)
    progress = stream.run()
    assert ticks[-1].version == 2
    assert any("5" in error for error in progress.errors)


def test_a_slow_callback_misses_ticks_and_one_that_raises_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    G, source, release, got = graph(), Scripted(), Event(), []

    def slow(tick: Tick) -> None:
        got.append(tick)
        assert release.wait(SOON)

    def bad(tick: Tick) -> None:
        raise ValueError(f"no, not {tick.version}")

    with Stream(G, source, max_delay=0.0).start() as stream:
        stream.monitor("weakly_connected_components", slow)
        stream.monitor("pagerank", bad, changed_only=False)
        for row in range(6):
            source.queue.put([(row, row + 1)])
            wait_until(lambda row=row: stream.progress().batches == row + 1 and len(got) == 1)
        assert stream.progress().skipped_ticks >= 4
        assert any("the callback of pagerank raised ValueError: no, not" in e for e in stream.progress().errors)
        release.set()
        stream.drain(SOON)
    first, last = got
    assert (first.version, last.version) == (1, 6)
    assert last.changed["vertex"].tolist() == list(range(2, 7))  # since the one that it got
    assert "the callback of pagerank raised" in caplog.text
    assert G.number_of_edges() == 6


# ---------------------------------------------------------------------- questions


def test_now_sees_all_that_has_arrived_and_nothing_after() -> None:
    G, source, release, begun = graph(), Scripted(), Event(), Event()

    def hold(graph: Any) -> int:
        begun.set()
        assert release.wait(SOON)
        return int(graph.number_of_edges())

    with Stream(G, source, batch_edges=1000, max_delay=0.0).start() as stream:
        held = stream.ask(hold)
        assert begun.wait(SOON)
        source.queue.put(path(0, 30))
        wait_until(lambda: stream.progress().arrived == 30)
        now = stream.ask(DynamicGraph.number_of_edges, at="now")
        applied = stream.ask(DynamicGraph.number_of_edges)
        source.queue.put(path(30, 70))
        wait_until(lambda: stream.progress().arrived == 70)
        later = stream.ask(DynamicGraph.number_of_edges, at="now")
        release.set()
        assert [each.result(SOON).result for each in (held, now, later)] == [0, 30, 70]
        assert applied.result(SOON).result in (0, 30)
        version = stream.ask(lambda G: G.version).result(SOON).result
        assert stream.ask(lambda G: G.version, at=version).result(SOON) == Answer(version, 2, None)
        with pytest.raises(InputError, match="version 1 is asked for, the graph has 2"):
            stream.ask(len, at=1).result(SOON)
        with pytest.raises(ZeroDivisionError):
            stream.ask(lambda G: 1 // 0).result(SOON)
    assert stream.ask(DynamicGraph.number_of_edges, at="now").result().result == 70  # after the end, too


def test_many_threads_ask_while_rows_come() -> None:
    """Row k is the edge (k, k + 1), so a consistent version has as many edges as its highest vertex says."""
    G, rows = graph(), 30_000
    stream = Stream(G, (path(first, first + 100) for first in range(0, rows, 100)), batch_edges=700)

    def ask(number: int) -> list[tuple[int, int]]:
        found = []
        while not found or found[-1][0] < rows:
            query = lambda G: (G.number_of_edges(), G.number_of_vertices())  # noqa: E731
            found.append(stream.ask(query, at="now" if number % 2 else "applied").result(SOON).result)
        return found

    with ThreadPoolExecutor(8) as pool, stream.start():
        for found in pool.map(ask, range(8)):
            edges = [count for count, _ in found]
            assert edges == sorted(edges)
            assert all(vertices == count + 1 or count == vertices == 0 for count, vertices in found)
    assert G.number_of_edges() == rows


def test_a_question_whose_rows_are_never_applied_fails() -> None:
    source, release, begun = Scripted(), Event(), Event()
    stream = Stream(graph(), source, max_delay=0.0).start()

    def hold(graph: Any) -> None:
        begun.set()
        assert release.wait(SOON)

    stream.ask(hold)
    assert begun.wait(SOON)
    source.queue.put([(0, 1)])
    wait_until(lambda: stream.progress().arrived == 1)
    late = stream.ask(len, at="now")
    stopping = threading.Thread(target=stream.stop)
    stopping.start()
    wait_until(lambda: stream._engine._stopping)
    release.set()
    stopping.join(SOON)
    with pytest.raises(StreamError, match="the stream has ended before"):
        late.result(SOON)


def test_a_question_may_ask_another_but_not_wait_for_rows() -> None:
    with Stream(graph(), Scripted(), max_delay=0.0).start() as stream:
        answer = stream.ask(lambda _: stream.ask(DynamicGraph.number_of_edges).result(SOON)).result(SOON)
        assert answer.result.result == 0
        for wait in (lambda _: stream.ask(len, at="now").result(SOON), lambda _: stream.drain(SOON)):
            with pytest.raises(InputError, match="within a question; wanted 'applied'"):
                stream.ask(wait).result(SOON)
        stream.drain(SOON)  # the stream goes on


def test_a_callback_may_drain_and_stop_its_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "CLOSING_S", 10 * SOON)  # what it would wait for itself
    G, source, seen = graph(), Scripted(), []
    stream = Stream(G, source, max_delay=0.0)

    def end(_: Tick) -> None:
        stream.drain(SOON)
        stream.stop()
        seen.append(G.number_of_edges())

    stream.monitor("pagerank", end)
    stream.start()
    source.queue.put([(0, 1), (1, 2)])
    wait_until(lambda: bool(seen))
    assert seen == [2]
