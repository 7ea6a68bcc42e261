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
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dynstore
from dynstore import Stream, Window
from dynstore.errors import InputError, InputTypeError, StreamError
from dynstore.streams.monitors import Delivery, Tick
from dynstore.streams.progress import Meter
from dynstore.streams.rows import as_array
from tests.streams.scripted import SOON, Scripted, graph, pairs_of, path, wait_until

ROOT = Path(__file__).resolve().parents[2]


# ---------------------------------------------------------------------- rows in many forms


@pytest.mark.parametrize(
    "source",
    [
        [(0, 1), (1, 2), (2, 3)],
        [(np.int64(0), np.int64(1)), (1, 2), (2, 3)],
        ([0, 1, 2], [1, 2, 3]),
        {"source": [0, 1, 2], "destination": np.array([1, 2, 3]), "time": None},
        pd.DataFrame({"source": [0, 1, 2], "destination": [1, 2, 3]}),
        pytest.importorskip("polars").DataFrame({"source": [0, 1, 2], "destination": [1, 2, 3]}),
        pytest.importorskip("pyarrow").table({"source": [0, 1, 2], "destination": [1, 2, 3]}),
        [([0, 1], [1, 2]), {"source": [2], "destination": [3]}],
        iter([[(0, 1)], pd.DataFrame({"source": [1, 2], "destination": [2, 3]})]),
    ],
    ids=["rows", "NumPy's rows", "columns", "dict", "pandas", "polars", "pyarrow", "batches", "iterator"],
)
def test_edges_come_in_any_form(source: Any) -> None:
    G = graph()
    progress = Stream(G, source, batch_edges=2).run()
    assert pairs_of(G) == {(0, 1), (1, 2), (2, 3)}
    assert (progress.applied, progress.pending, progress.state) == (3, 0, "ended")


def test_an_event_table_is_a_source_with_times_and_operations() -> None:
    events = dynstore.datasets.load("collegemsg")
    G = graph()
    progress = Stream(G, events, batch_edges=7000).run()
    again = graph()
    again.insert_edges((events.src, events.dst))
    assert pairs_of(G) == pairs_of(again)
    assert progress.applied == progress.arrived == len(events)
    assert progress.event_time == events.time[-1]
    assert progress.batches == -(-len(events) // 7000) == G.version


def test_weights_ids_and_extra_columns(backend_name: str) -> None:
    G = graph(device=backend_name, weighted=True, renumber=True, edge_columns={"id": "int64"})
    frame = pd.DataFrame({"from": ["ann", "bob"], "to": ["bob", "cid"], "amount": [2.0, 3.0], "id": [7, 8]})
    Stream(G, frame, columns={"source": "from", "destination": "to", "weight": "amount"}).run()
    assert G.edge_weights([("ann", "bob"), ("bob", "cid")]).tolist() == [2.0, 3.0]
    assert sorted(G.to_pandas()["id"]) == [7, 8]


def test_one_by_one_or_in_batches_operations_have_the_same_effect(rng: np.random.Generator) -> None:
    for directed in (True, False):
        count = 400
        src, dst, deletes = rng.integers(0, 6, count), rng.integers(0, 6, count), rng.random(count) < 0.4
        weights = rng.integers(1, 99, count).astype(float)
        model: dict[tuple[int, int], float] = {}
        for row in range(count):
            a, b = int(src[row]), int(dst[row])
            key = (a, b) if directed else (min(a, b), max(a, b))
            if deletes[row]:
                model.pop(key, None)
            else:
                model[key] = weights[row]
        frame = pd.DataFrame({"source": src, "destination": dst, "weight": weights, "op": np.where(deletes, "-", "+")})
        for batch in (1, 7, 1000):
            G = graph(directed=directed, weighted=True)
            Stream(G, frame.assign(weight=frame["weight"].where(~deletes)), batch_edges=batch).run()
            table = G.to_pandas()
            ends = [
                sorted(pair) if not directed else pair
                for pair in zip(table["source"], table["destination"], strict=True)
            ]
            assert dict(zip(map(tuple, ends), table["weight"], strict=True)) == model


def test_columns_of_several_types_of_integers_are_exact() -> None:
    """As floats, these numbers would be equal."""
    big = 2**60
    batches = [
        {"source": np.array([0, 0]), "destination": np.array([big, big + 1], np.uint64), "id": [big + 1, big + 2]},
        {"source": np.array([0, 0], np.uint64), "destination": [big, big + 1], "id": np.array([1, 2], np.uint64)},
    ]
    for ops, left in ((["+", "-"], {big: 1}), (["-", "+"], {big + 1: 2}), (["+", "+"], {big: 1, big + 1: 2})):
        G = graph(renumber=True, edge_columns={"id": "int64"})
        Stream(G, [batches[0], {**batches[1], "op": ops}]).run()
        table = G.to_pandas()
        assert dict(zip(table["destination"].tolist(), table["id"].tolist(), strict=True)) == left
    H = graph(renumber=True, edge_columns={"id": "int64"})
    Stream(H, batches[:1]).run()
    assert H.to_pandas()["id"].tolist() == [big + 1, big + 2]


@pytest.mark.parametrize("make", [dict, pa.table, pl.DataFrame, lambda columns: pd.DataFrame(columns, dtype=object)])
def test_rows_that_delete_need_no_weights_and_no_extra_columns(make: Any) -> None:
    big = 2**60 + 1  # not a float
    batch = {"source": [0, 1], "destination": [1, 2], "weight": [None, 2.0], "id": [None, big], "op": ["-", None]}
    G = graph(weighted=True, edge_columns={"id": "int64"})
    Stream(G, [make(batch)]).run()
    assert G.to_pandas().to_dict("list") == {"source": [1], "destination": [2], "weight": [2.0], "id": [big]}


def test_a_column_of_cudf_may_have_nulls() -> None:
    class Series:
        """As of cuDF, whose ``to_numpy`` refuses nulls."""

        __module__ = "cudf.core.series"

        def to_numpy(self) -> Any:
            raise ValueError("Column must have no nulls.")

        def to_arrow(self) -> Any:
            return pa.array(["-", None, "+"])

    assert as_array(Series()).tolist() == ["-", None, "+"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"source": [0]}, "columns not found: destination; the batch has source"),
        ({"source": [0, 1], "destination": [1]}, "they must be equal"),
        ({"source": [0], "destination": [1], "op": ["?"]}, "`op` is '\\?' at row 0"),
        ([[0, 1]], "edges is a list"),
        ({"source": [-1], "destination": [1]}, "must not be negative"),
        (
            {"source": ["0", 1], "destination": ["1", "2"]},
            "`source` has 1 .int. at row 1; .* all integers or all strings",
        ),
        ({"source": np.array([2**63], np.uint64), "destination": [1]}, "`source` has 9223372036854775808 at row 0"),
        ({"source": pl.Series([0, None]), "destination": [1, 2]}, "`source` has 1 nulls; wanted none"),
    ],
)
def test_bad_rows_end_the_stream_with_one_error(given: Any, message: str) -> None:
    G = graph()
    stream = Stream(G, Scripted([(0, 1)], given), batch_edges=1)
    with pytest.raises(InputError, match=message):
        stream.run()
    assert stream.progress().state == "failed"
    assert len(stream.progress().errors) == 1
    assert pairs_of(G) == {(0, 1)}
    stream.stop()  # the error came once


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"source": [0, 1], "destination": [1, 2, 3]}, "`destination` has 3 items, `source` has 2; they must be equal"),
        (([0, 1], [1, 2, 3]), "`column 1` has 3 items, `column 0` has 2; they must be equal"),
        ({"source": [0], "destination": [1], "op": ["+", "-"]}, "`op` has 2 items, `source` has 1; they must be equal"),
        ({"source": 3, "destination": [1]}, "`source` is a int; wanted a column, such as an array or a list"),
        ({}, "source has no columns; wanted source and destination"),
        ((), "source has no columns; wanted source and destination"),
    ],
)
def test_a_table_of_columns_of_different_lengths_is_no_source(given: Any, message: str) -> None:
    """Its slices would be of equal lengths."""
    with pytest.raises(InputError, match=f"^Stream: {message}$"):
        Stream(graph(), given)


def test_an_edge_column_is_not_read_as_operations() -> None:
    batch = {"source": [0, 1], "destination": [1, 2], "op": [0, 1]}
    with pytest.raises(InputError, match="the graph has the edge column 'op', which rows would have as operations"):
        Stream(graph(edge_columns={"op": "int8"}), batch)
    G = graph(edge_columns={"op": "int8"})
    Stream(G, {**batch, "does": ["+", "insert"]}, columns={"op": "does"}).run()
    assert G.edge_table()["op"].tolist() == [0, 1]


@pytest.mark.parametrize("name", ["to", "weight", "time", "op", "id"])
@pytest.mark.parametrize("length", [2, 4])
def test_columns_of_different_lengths_end_the_stream(name: str, length: int) -> None:
    G = graph(weighted=True, edge_columns={"id": "int64"})
    batch: dict[str, Any] = {"source": [0, 1, 2], "to": [1, 2, 3], "weight": [1.0] * 3, "time": [1, 2, 3]}
    batch |= {"op": ["+", "+", "-"], "id": [7, 8, 9]}
    batch[name] = (batch[name] * 2)[:length]
    with pytest.raises(InputError, match=f"^Stream: `{name}` has {length} items, .* 3; they must be equal$"):
        Stream(G, [batch], batch_edges=2, columns={"destination": "to"}).run()
    assert G.version == 0


def test_bad_arguments() -> None:
    G, other = graph(), graph()
    for options, message in [
        ({"window": Window(other, 3)}, "window is of another graph"),
        ({"overflow": "drop"}, "unknown overflow 'drop'"),
        ({"batch_edges": 0}, "batch_edges is 0; wanted 1 or more"),
        ({"max_delay": "x"}, "max_delay is 'x'"),
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
    with pytest.raises(InputError, match="at is 'later'"):
        stream.ask(len, at="later")  # type: ignore[arg-type]
    with pytest.raises(InputTypeError, match="query is 3"):
        stream.ask(3)  # type: ignore[arg-type]
    stream.run()
    with pytest.raises(InputError, match="the stream has ended; make another one"):
        stream.start()


# ---------------------------------------------------------------------- batches


def test_a_batch_closes_by_rows_or_by_time() -> None:
    source = Scripted()
    with Stream(graph(), source, batch_edges=10, max_delay=0.1).start() as stream:
        source.queue.put(path(0, 25))
        wait_until(lambda: stream.progress().batches == 2)
        begun = time.monotonic()
        assert stream.progress().applied == 20
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

signal.signal(signal.SIGINT, signal.default_int_handler)  # shells start programs in the background without it
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
