"""Batches on their way to a device: all values arrive, whatever their number, size and kind."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore.backend import Backend, get_backend
from dynstore.errors import OutOfMemoryError
from dynstore.streams import stream as streams
from dynstore.streams.staging import HostStaging, PinnedStaging, make_staging
from tests.conftest import DEVICES
from tests.streams.scripted import Scripted


class Memory:
    """Bytes of a stand-in for a device; a copy into them is made when it is waited for, no sooner."""

    def __init__(self, data: np.ndarray) -> None:
        self.data = data

    def __add__(self, start: int) -> Memory:
        return Memory(self.data[start:])

    def copy_from_host_async(self, address: int, size: int, stream: Queue) -> None:
        def copy() -> None:
            stream.log.append("copy")
            self.data[:size] = np.frombuffer((ctypes.c_uint8 * size).from_address(address), np.uint8)

        stream.waiting.append(copy)


class Piece:
    """Bytes there as an array."""

    def __init__(self, size: int, dtype: Any = np.uint8) -> None:
        self.data = Memory(np.empty(size, np.uint8))

    def __getitem__(self, part: slice) -> Piece:
        other = Piece(0)
        other.data = Memory(self.data.data[part])
        return other

    def copy(self) -> Piece:
        other = Piece(0)
        other.data = Memory(self.data.data.copy())
        return other


class Queue:
    """A stand-in for a stream: what waits is done when one of its events is waited for."""

    def __init__(self, log: list[str], **options: Any) -> None:
        self.log = log
        self.waiting: list[Any] = []

    def synchronize(self) -> None:
        self.log.append("synchronize")
        while self.waiting:
            self.waiting.pop(0)()

    def record(self) -> Queue:
        return self  # stands in for its events, too

    def wait_event(self, event: Queue) -> None:
        self.log.append("wait")
        event.synchronize()


def stand_in() -> tuple[Any, list[str]]:
    """A few names of CuPy over NumPy, and a log of what streams did."""
    log: list[str] = []
    default = Queue(log)
    cuda = SimpleNamespace(
        Device=lambda: SimpleNamespace(use=lambda: log.append("use")),
        Stream=lambda **options: Queue(log),
        get_current_stream=lambda: default,
        alloc_pinned_memory=bytearray,
    )

    def view(shape: tuple[int], dtype: Any, memptr: Memory) -> np.ndarray:
        return memptr.data[: shape[0] * np.dtype(dtype).itemsize].view(dtype)

    return SimpleNamespace(cuda=cuda, empty=Piece, ndarray=view), log


def columns_of(rng: np.random.Generator, count: int) -> list[list[np.ndarray]]:
    """Columns of several dtypes, in parts."""
    cut = count // 3
    columns = [
        rng.integers(0, 99, count, np.int32),
        rng.integers(0, 99, count),
        rng.random(count, np.float32),
        np.array([f"v{value}" for value in rng.integers(0, 9, count)], dtype=object),
        rng.random(count),
    ]
    return [[column[:cut], column[cut:]] for column in columns]


def check(staging: Any, rng: np.random.Generator, to_host: Any) -> None:
    batches = [columns_of(rng, count) for count in (1, 100, 7, 2000, 2000, 300, 5000)]
    ahead = staging.bring(batches[0])
    for number, batch in enumerate(batches):
        take, ahead = ahead, None
        if number + 1 < len(batches):
            ahead = staging.bring(batches[number + 1])
        for column, parts in zip(take(), batch, strict=True):
            np.testing.assert_array_equal(to_host(column), np.concatenate(parts))
            assert column.dtype == parts[0].dtype


def test_columns_arrive_through_pinned_memory(rng: np.random.Generator) -> None:
    cupy, log = stand_in()
    staging = PinnedStaging(Backend("cuda", cupy, "cuda"))
    staging.use_device()
    check(staging, rng, np.asarray)
    assert log[0] == "use"
    assert log.count("copy") == 7
    assert "wait" in log


def test_a_stream_through_pinned_memory(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    cupy, log = stand_in()
    monkeypatch.setattr(streams, "make_staging", lambda backend: PinnedStaging(Backend("cuda", cupy, "cuda")))
    src, dst = rng.integers(0, 50, (2, 3000))
    weights = np.arange(3000, dtype=np.float32)
    G, H = (dynstore.DynamicGraph(device="cpu", weighted=True) for _ in range(2))
    sizes = rng.integers(1, 200, 60)
    parts = [slice(low, low + size) for low, size in zip(np.cumsum(sizes) - sizes, sizes, strict=True)]
    batches = ((src[part], dst[part], weights[part]) for part in parts)
    assert dynstore.Stream(G, batches, dynstore.Window(G, 500), batch_edges=100).run().applied == min(3000, sizes.sum())
    window = dynstore.Window(H, 500)
    for part in parts:
        window.slide((src[part], dst[part], weights[part]))
    for mine, wanted in zip(G.edge_columns().values(), H.edge_columns().values(), strict=True):
        np.testing.assert_array_equal(mine, wanted)
    assert log.count("copy") > 20


@pytest.mark.parametrize("device", DEVICES)
def test_columns_arrive_on_each_device(device: str, rng: np.random.Generator) -> None:
    backend = get_backend(device)
    check(make_staging(backend), rng, backend.to_host)


@pytest.mark.parametrize("device", DEVICES)
def test_a_stream_on_each_device(device: str, rng: np.random.Generator) -> None:
    count, batch = (60_000, 5000) if device != "cuda-sim" else (60, 20)
    src, dst = rng.integers(0, 300, (2, count))
    times = np.arange(count)
    G, H = (dynstore.DynamicGraph(device=each, weighted=True) for each in (device, "cpu"))
    window, other = (dynstore.Window(each, count // 3, by="time", keep="sum") for each in (G, H))
    weights = rng.integers(1, 5, count).astype(np.float32)
    frame = {"source": src, "destination": dst, "weight": weights, "time": times}
    stream = dynstore.Stream(G, frame, window, batch_edges=batch)
    answers: list[Any] = []
    if device != "cuda-sim":
        stream.monitor("weakly_connected_components", answers.append, changed_only=False)
    stream.run()
    for first in range(0, count, batch):
        rows = slice(first, first + batch)
        other.slide((src[rows], dst[rows], weights[rows]), time=times[rows])
    mine, wanted = (each.edge_columns() for each in (G, H))
    for name, column in wanted.items():
        np.testing.assert_array_equal(G.core.backend.to_host(mine[name]), column)
    assert device == "cuda-sim" or answers[-1].version == G.version


class Beside(HostStaging):
    """Brings batches on a thread, as to a GPU, but they stay on the host."""

    ahead = PinnedStaging.ahead
    start, close = PinnedStaging.start, PinnedStaging.close

    def __init__(self, backend: Backend) -> None:
        self._thread = ThreadPoolExecutor(1)
        self.brought = 0

    def bring(self, columns: Any) -> Any:
        self.brought += 1
        return super().bring(columns)


def test_the_next_batches_are_brought_while_one_is_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Beside] = []
    monkeypatch.setattr(streams, "make_staging", lambda backend: made.append(Beside(backend)) or made[-1])
    G = dynstore.DynamicGraph(device="cpu")
    insert, seen, goes_on = G.insert_edges, [], Event()

    def slow(*given: Any, **options: Any) -> Any:
        goes_on.wait(60)
        for _ in range(1000):
            if made[0].brought == min(len(seen) + 3, 4):
                break
            Event().wait(0.005)
        seen.append(made[0].brought)
        return insert(*given, **options)

    monkeypatch.setattr(G, "insert_edges", slow)
    flow = dynstore.Stream(G, Scripted(*([(0, i)] for i in range(1, 5)), ends=True), batch_edges=1).start()
    while flow.progress().arrived < 4:
        Event().wait(0.001)
    goes_on.set()
    assert flow.run().applied == 4
    assert seen == [3, 4, 4, 4]


def test_questions_see_what_had_arrived_while_batches_are_brought(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "make_staging", Beside)
    source = Scripted()
    flow = dynstore.Stream(dynstore.DynamicGraph(device="cpu"), source, batch_edges=7, max_delay=1e-4).start()
    for last in range(1, 301):
        source.queue.put([(0, last)])
        if last % 10 == 0:
            while flow.progress().arrived < last:
                Event().wait(1e-4)
            assert flow.ask(lambda graph: graph.number_of_edges(), at="now").result(60).result == last
    flow.stop()


def test_a_batch_that_cannot_be_brought_ends_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "make_staging", Beside)
    G = dynstore.DynamicGraph(device="cpu")
    flow = dynstore.Stream(G, Scripted([(0, 1)], [(1, 2)], [(2, 3)], ends=True), batch_edges=1)
    prepare = flow._engine._applier.prepare

    def fails(taken: Any, dated: Any) -> Any:
        if taken.upto == 2:
            raise OutOfMemoryError("no pinned memory")
        return prepare(taken, dated)

    monkeypatch.setattr(flow._engine._applier, "prepare", fails)
    with pytest.raises(OutOfMemoryError, match="no pinned memory"):
        flow.run()
    assert G.number_of_edges() == 1  # the batch before is there
