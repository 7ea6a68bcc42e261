"""Copies between pinned host memory and the device, buffers for pages on the device, and memory for pages."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dynstore.pins import Pins, export

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["PADDING", "BufferRing", "HostCopies", "SpareMemory", "copy_to_device"]

# Words of a line: where an array begins that shares a buffer.
PADDING = 32
# cudaMemcpyKind
TO_DEVICE, TO_HOST = 1, 2


def copy_to_device(backend: Backend, source: np.ndarray, target: Array) -> None:
    """Start a copy of host memory of :meth:`Backend.pinned` to a device array, on the current stream."""
    if backend.on_gpu:
        cuda = backend.xp.cuda
        stream = cuda.get_current_stream().ptr
        cuda.runtime.memcpyAsync(target.data.ptr, source.ctypes.data, source.nbytes, TO_DEVICE, stream)
    else:
        target[...] = source


class HostCopies:
    """Copies of device arrays to memory of :meth:`Backend.pinned`, on a stream of their own.

    So kernels make the next array while one is copied. The last ``PENDING`` arrays are kept until they are copied.

    Parameters
    ----------
    backend : Backend
    """

    PENDING = 2

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._pending: deque[tuple[Array, Any]] = deque()
        if backend.on_gpu:
            self._stream = backend.xp.cuda.Stream(non_blocking=True)

    def begin(self, source: Array, target: np.ndarray) -> None:
        """Begin to copy an array that the current stream writes, and that nothing changes afterwards."""
        if not self._backend.on_gpu:
            target[...] = source
            return
        cuda = self._backend.xp.cuda
        current = cuda.get_current_stream()
        self._stream.wait_event(current.record())
        cuda.runtime.memcpyAsync(target.ctypes.data, source.data.ptr, source.nbytes, TO_HOST, self._stream.ptr)
        self._pending.append((source, self._stream.record()))
        if len(self._pending) > self.PENDING:
            self._drop(current)

    def _drop(self, current: Any) -> None:
        """Give an array back; what uses its memory next, on the current stream, waits for the copy."""
        _, copied = self._pending.popleft()
        current.wait_event(copied)

    def finish(self) -> None:
        """Wait until all copies are done."""
        if self._backend.on_gpu:
            self._stream.synchronize()
            self._pending.clear()


class BufferRing:
    """Buffers on the device. One stream fills them in turn; another stream reads those that are full.

    Parameters
    ----------
    backend : Backend
    num_words : int
        Words of a buffer.
    num_buffers : int
    """

    def __init__(self, backend: Backend, num_words: int, num_buffers: int) -> None:
        self.num_words = num_words
        self._backend = backend
        self._buffers = [backend.empty(num_words, np.uint32) for _ in range(num_buffers)]
        self._turn = 0
        if backend.on_gpu:
            cuda = backend.xp.cuda
            self._stream = cuda.Stream(non_blocking=True)
            self._filled = [cuda.Event(disable_timing=True) for _ in self._buffers]
            self._read = [cuda.Event(disable_timing=True) for _ in self._buffers]
            for event in self._read:  # what used this memory before has to end first
                event.record()

    @classmethod
    def for_pieces(cls, backend: Backend, pieces: Sequence[tuple[np.ndarray, ...]], num_buffers: int) -> Self:
        """Return a ring whose buffers hold the largest of some pieces."""
        most = max(sum(-(-array.nbytes // 4 // PADDING) * PADDING for array in piece) for piece in pieces)
        return cls(backend, most, num_buffers)

    def bring(self, pieces: Sequence[tuple[np.ndarray, ...]]) -> Iterator[list[Array]]:
        """Copy the host arrays of each piece to a buffer, and yield these copies, in order.

        The caller launches the work that reads the copies before it takes the next ones. The copies of the next pieces
        have begun by then, as many as there are other buffers; so they run beside that work, also while the caller
        waits for it. Each array begins at a line of memory. So each array of a piece but the last may take up to
        ``PADDING`` words more.
        """
        filled: deque[tuple[int, list[Array]]] = deque()
        try:
            for number in range(len(pieces)):
                while len(filled) < len(self._buffers) and number + len(filled) < len(pieces):
                    filled.append(self._fill(pieces[number + len(filled)]))
                turn, views = filled.popleft()
                self._wait_for_copies(turn)
                try:
                    yield views
                finally:
                    if self._backend.on_gpu:
                        self._read[turn].record()
        finally:  # of a caller that stops early: what uses the buffers' memory next comes after the copies
            for turn, _ in filled:
                self._wait_for_copies(turn)

    def _wait_for_copies(self, turn: int) -> None:
        """Let the current stream wait until a buffer is filled."""
        if self._backend.on_gpu:
            self._backend.xp.cuda.get_current_stream().wait_event(self._filled[turn])

    def _divide(self, buffer: Array, piece: tuple[np.ndarray, ...]) -> list[Array]:
        views, first = [], 0
        for array in piece:
            end = first + array.nbytes // 4
            views.append(buffer[first:end].view(array.dtype))
            first = -(-end // PADDING) * PADDING
        return views

    def _fill(self, piece: tuple[np.ndarray, ...]) -> tuple[int, list[Array]]:
        """Begin to copy a piece to the next buffer; return the buffer's number and the copies."""
        turn = self._turn
        self._turn = (turn + 1) % len(self._buffers)
        views = self._divide(self._buffers[turn], piece)
        if self._backend.on_gpu:
            cuda = self._backend.xp.cuda
            self._stream.wait_event(self._read[turn])
            for view, array in zip(views, piece, strict=True):
                cuda.runtime.memcpyAsync(view.data.ptr, array.ctypes.data, array.nbytes, TO_DEVICE, self._stream.ptr)
            self._filled[turn].record(self._stream)
        else:
            for view, array in zip(views, piece, strict=True):
                view[...] = array
        return turn, views


class SpareMemory:
    """Keeps the pinned memory of pages that nothing uses any more, for the next pages.

    To pin memory, and to give it back, takes longer than to write pages there.

    Parameters
    ----------
    backend : Backend
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._blocks: list[tuple[Pins, Array, np.ndarray, int]] = []  # the last: how many bytes were taken

    @property
    def nbytes(self) -> int:
        """Bytes that are kept and not in use, also behind what is in use."""
        return sum(int(on_host.nbytes) - (taken if pins else 0) for pins, _, on_host, taken in self._blocks)

    def clear(self) -> bool:
        """Free memory of which nothing is in use, and return whether there was any.

        The rest is freed when it is free at the next :meth:`take` and does not fit.
        """
        before, self._blocks = self._blocks, [block for block in self._blocks if block[0]]
        return len(self._blocks) < len(before)

    def take(self, size: int, dtype: Any) -> tuple[Array, np.ndarray]:
        """Return memory as :meth:`Backend.pinned` does; it is in use as long as an array made of it is left.

        New memory is larger by a sixteenth, as the pages of a graph that slides vary in size.
        """
        dtype = np.dtype(dtype)
        if not size:  # no array would hold it
            return self._backend.pinned(0, dtype)
        free = [block for block in self._blocks if not block[0] and block[2].dtype == dtype]
        fitting = [block for block in free if size <= block[2].size <= 2 * size]
        self._blocks = [block for block in self._blocks if block[0] or block[2].dtype != dtype]
        if fitting:
            self._wait_for_device()
            pins, array, on_host, _ = fitting[0]
        else:
            free.clear()  # gives memory back before more is taken
            pins, (array, on_host) = Pins(), self._backend.pinned(size + size // 16, dtype)
        del free, fitting
        self._blocks.append((pins, array, on_host, size * dtype.itemsize))
        view = export(array[:size], pins, writable=True)
        return view, view if on_host is array else export(on_host[:size], pins, writable=True)

    def _wait_for_device(self) -> None:
        """Wait for kernels and copies of all streams: they may still read the memory."""
        if self._backend.on_gpu:
            self._backend.xp.cuda.runtime.deviceSynchronize()
