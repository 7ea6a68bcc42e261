"""The way of pages over the bus to a GPU: CUDA streams and pinned memory."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import numpy as np

__all__ = ["CudaLink"]

_pinned: dict[int, int] = {}  # address of an array that is pinned -> how many links have pinned it
_lock = threading.Lock()


class CudaLink:
    """Streams of a GPU, each with a pinned buffer for what comes from memory that is not pinned."""

    def __init__(self, num_streams: int, staging_bytes: int) -> None:
        import cupy

        self._cuda = cupy.cuda
        self._streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(num_streams)]
        self._staging_bytes = staging_bytes
        self._staging: dict[int, tuple[np.ndarray, Any]] = {}  # by stream: the buffer, and when it was last read

    def on(self, stream: int) -> Any:
        return self._streams[stream]

    def send(self, stream: int, target: Any, source: np.ndarray, is_pinned: bool) -> None:
        size = source.nbytes
        if not is_pinned:
            source = self._stage(stream, source)
        address = source.__array_interface__["data"][0]
        queue, runtime = self._streams[stream], self._cuda.runtime
        runtime.memcpyAsync(target.data.ptr, address, size, runtime.memcpyHostToDevice, queue.ptr)
        if not is_pinned:
            self._staging[stream][1].record(queue)

    def _stage(self, stream: int, source: np.ndarray) -> np.ndarray:
        """Copy an array to the stream's pinned buffer, when the last copy from there is done."""
        if stream not in self._staging:
            buffer = self.empty_pinned(self._staging_bytes, np.uint8)
            self._staging[stream] = buffer, self._cuda.Event(disable_timing=True)
        buffer, read = self._staging[stream]
        read.synchronize()
        buffer[: source.nbytes] = source.reshape(-1).view(np.uint8)
        return buffer

    def fetch(self, target: np.ndarray, source: Any) -> None:
        source.get(out=target)

    def pin(self, array: np.ndarray) -> bool:
        address, runtime = array.__array_interface__["data"][0], self._cuda.runtime
        with _lock:
            if address not in _pinned:
                try:
                    runtime.hostRegister(address, array.nbytes, 0)
                except runtime.CUDARuntimeError:  # the system does not let so much memory be locked
                    return False
            _pinned[address] = _pinned.get(address, 0) + 1
        weakref.finalize(self, _unpin, runtime, array)  # which keeps the array alive until then
        return True

    def empty_pinned(self, shape: int | tuple[int, ...], dtype: Any) -> np.ndarray:
        count = int(np.prod(shape))
        memory = self._cuda.alloc_pinned_memory(max(count, 1) * np.dtype(dtype).itemsize)
        return np.frombuffer(memory, dtype=dtype, count=count).reshape(shape)

    def mark(self, stream: int) -> Any:
        return self._streams[stream].record()

    def wait(self, stream: int, mark: Any) -> None:
        self._streams[stream].wait_event(mark)

    def synchronize(self) -> None:
        for stream in self._streams:
            stream.synchronize()


def _unpin(runtime: Any, array: np.ndarray) -> None:
    address = array.__array_interface__["data"][0]
    with _lock:
        _pinned[address] -= 1
        if not _pinned[address]:
            del _pinned[address]
            runtime.hostUnregister(address)
