"""Copies between pinned host memory and the device, and buffers for pages on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["PADDING", "Ring", "copy_to_device", "copy_to_host"]

# Words of a line: where an array begins that shares a buffer.
PADDING = 32
# cudaMemcpyKind
TO_DEVICE, TO_HOST = 1, 2


def copy_to_host(backend: Backend, source: Array, target: np.ndarray) -> None:
    """Start a copy of a device array to host memory of :meth:`Backend.pinned`, on the current stream."""
    if backend.on_gpu:
        cuda = backend.xp.cuda
        stream = cuda.get_current_stream().ptr
        cuda.runtime.memcpyAsync(target.ctypes.data, source.data.ptr, source.nbytes, TO_HOST, stream)
    else:
        target[...] = source


def copy_to_device(backend: Backend, source: np.ndarray, target: Array) -> None:
    """Start a copy of host memory of :meth:`Backend.pinned` to a device array, on the current stream."""
    if backend.on_gpu:
        cuda = backend.xp.cuda
        stream = cuda.get_current_stream().ptr
        cuda.runtime.memcpyAsync(target.data.ptr, source.ctypes.data, source.nbytes, TO_DEVICE, stream)
    else:
        target[...] = source


class Ring:
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

    def bring(self, pieces: list[tuple[np.ndarray, ...]]) -> Iterator[list[Array]]:
        """Copy the host arrays of each piece to a buffer, and yield these copies, in order.

        The caller launches the work that reads the copies before it takes the next ones. As long as buffers are free,
        further copies run beside that work. Each array begins at a line of memory. So each array of a piece but the
        last may take up to ``PADDING`` words more.
        """
        for piece in pieces:
            turn = self._turn
            self._turn = (turn + 1) % len(self._buffers)
            views = self._divide(self._buffers[turn], piece)
            if self._backend.on_gpu:
                self._fill(turn, views, piece)
                yield views
                self._read[turn].record()
            else:
                for view, array in zip(views, piece, strict=True):
                    view[...] = array
                yield views

    def _divide(self, buffer: Array, piece: tuple[np.ndarray, ...]) -> list[Array]:
        views, first = [], 0
        for array in piece:
            end = first + array.nbytes // 4
            views.append(buffer[first:end].view(array.dtype))
            first = -(-end // PADDING) * PADDING
        return views

    def _fill(self, turn: int, views: list[Array], piece: tuple[np.ndarray, ...]) -> None:
        cuda = self._backend.xp.cuda
        self._stream.wait_event(self._read[turn])
        for view, array in zip(views, piece, strict=True):
            cuda.runtime.memcpyAsync(view.data.ptr, array.ctypes.data, array.nbytes, TO_DEVICE, self._stream.ptr)
        self._filled[turn].record(self._stream)
        cuda.get_current_stream().wait_event(self._filled[turn])
