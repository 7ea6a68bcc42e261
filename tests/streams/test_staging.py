"""Batches on their way to a device: all values arrive, whatever their number, size and kind."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore.backend import Backend, get_backend
from dynstore.streams.staging import PinnedStaging, make_staging
from tests.conftest import DEVICES


class Memory:
    """Bytes of a stand-in for a device."""

    def __init__(self, data: np.ndarray) -> None:
        self.data = data

    def __add__(self, start: int) -> Memory:
        return Memory(self.data[start:])

    def copy_from_host_async(self, address: int, size: int, stream: Any) -> None:
        import ctypes

        stream.log.append("copy")
        self.data[:size] = np.frombuffer((ctypes.c_uint8 * size).from_address(address), np.uint8)


class Array:
    """An array there."""

    def __init__(self, shape: tuple[int], dtype: Any, memptr: Memory) -> None:
        self.data = memptr
        self._values = memptr.data[: shape[0] * np.dtype(dtype).itemsize].view(dtype)

    def copy(self) -> np.ndarray:
        return self._values.copy()


def stand_in() -> tuple[Any, list[str]]:
    """A few names of CuPy over NumPy, and a log of what streams did."""
    log: list[str] = []
    event = SimpleNamespace(synchronize=lambda: log.append("synchronize"))

    def make_stream(**options: Any) -> Any:
        return SimpleNamespace(
            log=log,
            record=lambda: event,
            wait_event=lambda event: log.append("wait"),
            synchronize=lambda: log.append("idle"),
        )

    default = make_stream()
    cuda = SimpleNamespace(
        Device=lambda: SimpleNamespace(use=lambda: log.append("use")),
        Stream=make_stream,
        get_current_stream=lambda: default,
        alloc_pinned_memory=lambda nbytes: bytearray(nbytes),
    )
    empty = lambda size, dtype: Array((size,), dtype, Memory(np.empty(size, np.uint8)))  # noqa: E731
    return SimpleNamespace(cuda=cuda, empty=empty, ndarray=Array), log


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
        np.testing.assert_array_equal(G.backend.to_host(mine[name]), column)
    assert device == "cuda-sim" or answers[-1].version == G.version
