"""The link to a GPU makes the right calls of CUDA in the right order; a stand-in for CuPy notes them."""

from __future__ import annotations

import ctypes
import gc
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dynstore.gts.cuda import links


class CUDARuntimeError(RuntimeError):
    """What CuPy raises for a failed call."""


class Events(list[Any]):
    """The calls, in order."""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Events:
    calls, pinned = Events(), set()

    class Event:
        def __init__(self, **options: Any) -> None:
            assert options == {"disable_timing": True}

        def record(self, stream: Stream) -> None:
            calls.append(("record", stream.ptr))

        def synchronize(self) -> None:
            calls.append(("wait for the last read",))

    class Stream:
        number = 0

        def __init__(self, non_blocking: bool) -> None:
            assert non_blocking
            Stream.number += 1
            self.ptr = Stream.number

        def record(self) -> str:
            return f"mark of {self.ptr}"

        def wait_event(self, mark: str) -> None:
            calls.append(("wait", self.ptr, mark))

        def synchronize(self) -> None:
            calls.append(("synchronize", self.ptr))

    def copy(target: int, source: int, size: int, kind: int, stream: int) -> None:
        calls.append(("copy", size, stream))
        assert kind == 1
        ctypes.memmove(target, source, size)

    def register(address: int, size: int, flags: int) -> None:
        if size > 1000:
            raise CUDARuntimeError("no memory to lock")
        assert address not in pinned
        pinned.add(address)
        calls.append(("pin", size))

    def unregister(address: int) -> None:
        pinned.remove(address)
        calls.append(("unpin",))

    runtime = SimpleNamespace(
        memcpyAsync=copy, memcpyHostToDevice=1, hostRegister=register, hostUnregister=unregister,
        CUDARuntimeError=CUDARuntimeError,
    )  # fmt: skip
    cuda = SimpleNamespace(runtime=runtime, Stream=Stream, Event=Event, alloc_pinned_memory=bytearray)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))
    return calls


class OnDevice:
    """An array as the link sees one of CuPy: it has an address."""

    def __init__(self, size: int) -> None:
        self.values = np.zeros(size, np.uint8)
        self.data = SimpleNamespace(ptr=self.values.ctypes.data)


def is_pinned(array: np.ndarray) -> bool:
    return array.ctypes.data in links._pinned


def test_pinned_memory_is_copied_at_once(calls: Events) -> None:
    link, target = links.CudaLink(2, 64), OnDevice(16)
    source = np.arange(4, dtype=np.int16).reshape(2, 2)
    link.send(1, target, source, True)
    assert calls == [("copy", 8, 2)]
    np.testing.assert_array_equal(target.values[:8].view(np.int16), range(4))


def test_other_memory_waits_until_the_buffer_was_read(calls: Events) -> None:
    link, target = links.CudaLink(1, 64), OnDevice(16)
    for value in (1, 2):
        link.send(0, target, np.full((2, 8), value, np.uint8), False)
    assert calls == [("wait for the last read",), ("copy", 16, 1), ("record", 1)] * 2
    assert (target.values == 2).all()


def test_an_array_is_pinned_once_for_all_links(calls: Events) -> None:
    first, second, array = links.CudaLink(1, 0), links.CudaLink(1, 0), np.zeros(100, np.uint8)
    assert first.pin(array)
    assert second.pin(array)
    assert calls == [("pin", 100)]
    del first
    gc.collect()
    assert calls == [("pin", 100)]
    del second
    gc.collect()
    assert calls == [("pin", 100), ("unpin",)]
    assert not is_pinned(array)


def test_memory_that_cannot_be_pinned(calls: Events) -> None:
    array = np.zeros(2000, np.uint8)
    assert not links.CudaLink(1, 0).pin(array)
    assert calls == []
    assert not is_pinned(array)


def test_streams(calls: Events) -> None:
    link = links.CudaLink(2, 0)
    link.wait(1, link.mark(0))
    link.synchronize()
    assert calls == [("wait", 2, "mark of 1"), ("synchronize", 1), ("synchronize", 2)]
    assert link.on(0).ptr == 1
    assert link.empty_pinned((3, 2), np.float32).shape == (3, 2)
    assert link.empty_pinned(0, np.float32).shape == (0,)
