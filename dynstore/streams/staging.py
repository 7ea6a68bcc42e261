"""The columns of the next batches on their way to the graph's device, beside the update of this one."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["HostStaging", "PinnedStaging", "Staging", "make_staging"]

T = TypeVar("T")
ALIGNMENT = 256


class Staging(Protocol):
    """Brings columns to a device.

    Attributes
    ----------
    ahead : int
        How many batches are brought while the one before them is applied.
    """

    ahead: int

    def use_device(self) -> None:
        """Have the calling thread work on the graph's device."""

    def start(self, work: Callable[[], T]) -> Callable[[], T]:
        """Start some work that brings a batch; the result, when called, waits for what it returns, or raises."""

    def close(self) -> None:
        """End the thread that works, if there is one."""

    def bring(self, columns: Sequence[Sequence[np.ndarray]]) -> Callable[[], list[Array]]:
        """Start to bring columns, each given in parts; the result, when called, returns them.

        At most ``ahead`` and one more may be under way.
        """


class HostStaging:
    """The host's way: parts are joined, and that is all."""

    ahead = 0

    def use_device(self) -> None:
        """Do nothing."""

    def start(self, work: Callable[[], T]) -> Callable[[], T]:
        """Do the work."""
        done = work()
        return lambda: done

    def close(self) -> None:
        """Do nothing."""

    def bring(self, columns: Sequence[Sequence[np.ndarray]]) -> Callable[[], list[Array]]:
        """Join the parts."""
        whole = [parts[0] if len(parts) == 1 else np.concatenate(parts) for parts in columns]
        return lambda: whole


class PinnedStaging:
    """The way to a GPU: into pinned memory, and from there by a copy on a stream of its own, by a thread of its own.

    There are three buffers, used in turn, each a piece of pinned memory and as much on the device. What is returned are
    parts of a copy of the device's piece, so the graph may keep them, and the next copy need not wait for the update.
    Columns of anything but numbers stay on the host.
    """

    ahead = 2  # so that the thread goes on at once with the next one

    def __init__(self, backend: Backend) -> None:
        self._cupy: Any = backend.xp
        self._device = self._cupy.cuda.Device()
        self._stream = self._cupy.cuda.Stream(non_blocking=True)
        self._buffers = deque(_Buffer() for _ in range(self.ahead + 1))
        self._thread = ThreadPoolExecutor(1, "dynstore-copier", self.use_device)

    def use_device(self) -> None:
        """Have the calling thread work on the graph's device."""
        self._device.use()

    def start(self, work: Callable[[], T]) -> Callable[[], T]:
        """Have the thread do the work. It takes 1 ms to copy 8 MB to pinned memory, and needs no interpreter."""
        return self._thread.submit(work).result

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown()

    def bring(self, columns: Sequence[Sequence[np.ndarray]]) -> Callable[[], list[Array]]:
        """Join the parts in pinned memory, and start the copy."""
        buffer = self._buffers[0]
        self._buffers.rotate(-1)
        lengths = [sum(map(len, parts)) for parts in columns]
        dtypes = [np.result_type(*parts) if parts[0].dtype.kind in "iuf" else None for parts in columns]
        sizes = [
            0 if dtype is None else -(-length * dtype.itemsize // ALIGNMENT) * ALIGNMENT
            for length, dtype in zip(lengths, dtypes, strict=True)
        ]
        buffer.make_room(self._cupy, sum(sizes))
        staged: list[Any] = []  # a column that stays on the host, or the length, dtype and place of another one
        start = 0
        for parts, length, dtype, size in zip(columns, lengths, dtypes, sizes, strict=True):
            if dtype is None:
                staged.append(np.concatenate(parts))
                continue
            np.concatenate(parts, out=buffer.host[start : start + length * dtype.itemsize].view(dtype))
            staged.append((length, dtype, start))
            start += size
        if start:
            if buffer.free is not None:
                self._stream.wait_event(buffer.free)
            buffer.device.data.copy_from_host_async(buffer.host.ctypes.data, start, self._stream)
        buffer.copied = self._stream.record()

        def take() -> list[Array]:
            current = self._cupy.cuda.get_current_stream()
            current.wait_event(buffer.copied)
            copy = buffer.device[:start].copy() if start else buffer.device
            buffer.free = current.record()
            return [
                part if copy is None or isinstance(part, np.ndarray) else self._part(copy, *part) for part in staged
            ]

        return take

    def _part(self, copy: Any, length: int, dtype: Any, place: int) -> Array:
        """Return one column of a copied piece."""
        return self._cupy.ndarray((length,), dtype, memptr=copy.data + place)


class _Buffer:
    """Pinned memory, as much on the device, and the events after which each may be written again."""

    def __init__(self) -> None:
        self.host: Any = np.empty(0, np.uint8)
        self.device: Any = None
        self.copied: Any = None
        self.free: Any = None
        self._memory: Any = None

    def make_room(self, cupy: Any, nbytes: int) -> None:
        if self.copied is not None:
            self.copied.synchronize()
        if nbytes > self.host.nbytes:
            if self.free is not None:
                self.free.synchronize()
            nbytes += nbytes // 4
            self._memory = cupy.cuda.alloc_pinned_memory(nbytes)
            self.host = np.frombuffer(self._memory, np.uint8, nbytes)
            self.device = cupy.empty(nbytes, np.uint8)
            cupy.cuda.get_current_stream().synchronize()  # its memory is free from here on for other streams, too


def make_staging(backend: Backend) -> Staging:
    """Return what brings columns to a backend's device."""
    return PinnedStaging(backend) if backend.on_gpu else HostStaging()
