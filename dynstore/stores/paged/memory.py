"""Host memory that kernels read, and buffers through which pages come to the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.errors import OutOfMemoryError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["Ring", "allocate_words", "copy_to_device", "copy_to_host"]

# cudaMemcpyKind
TO_DEVICE, TO_HOST = 1, 2


def allocate_words(backend: Backend, count: int) -> tuple[Array, np.ndarray, Any]:
    """Reserve uint32 words of host memory, on CUDA pinned and mapped.

    Returns
    -------
    words : array, shape (count,), uint32
        As kernels read them, over the link.
    words_on_host : numpy array
        The same memory.
    owner : object
        Keeps it.

    Raises
    ------
    OutOfMemoryError
    """
    if not backend.on_gpu:
        words = backend.empty(count, np.uint32)
        return words, words, None
    cuda = backend.xp.cuda
    if count == 0:
        return backend.empty(0, np.uint32), np.empty(0, np.uint32), None
    try:
        # Not from CuPy's pool, which keeps what it once had: these are most of the host's memory.
        memory = cuda.PinnedMemory(4 * count)
    except (MemoryError, cuda.runtime.CUDARuntimeError) as error:
        raise OutOfMemoryError(f"paged rows: could not pin {4 * count} bytes of host memory ({error})") from error
    on_host = np.frombuffer(cuda.PinnedMemoryPointer(memory, 0), np.uint32, count)
    owned = cuda.UnownedMemory(memory.ptr, 4 * count, memory, cuda.runtime.getDevice())
    return backend.xp.ndarray(count, np.uint32, memptr=cuda.MemoryPointer(owned, 0)), on_host, memory


def copy_to_host(backend: Backend, source: Array, target: np.ndarray) -> None:
    """Copy device words to host memory from :func:`allocate_words`; it is done after the stream's next wait."""
    if backend.on_gpu:
        cuda = backend.xp.cuda
        stream = cuda.get_current_stream().ptr
        cuda.runtime.memcpyAsync(target.ctypes.data, source.data.ptr, source.nbytes, TO_HOST, stream)
    else:
        target[...] = source


def copy_to_device(backend: Backend, source: np.ndarray, target: Array) -> None:
    """Copy host memory from :func:`allocate_words` to device words, in the order of the current stream."""
    if backend.on_gpu:
        cuda = backend.xp.cuda
        stream = cuda.get_current_stream().ptr
        cuda.runtime.memcpyAsync(target.data.ptr, source.ctypes.data, source.nbytes, TO_DEVICE, stream)
    else:
        target[...] = source


class Ring:
    """Buffers on the device that are filled in turn by one stream while another one reads those filled before.

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

    def bring(self, words: np.ndarray, pieces: list[tuple[int, int]]) -> Iterator[Array]:
        """Yield a buffer for each piece ``(first word, end)`` of some host words, in order.

        The buffer may be read by work that is put on the current stream before the next buffer is taken. Copies run
        ahead of that work by as many buffers as there are.
        """
        for first, end in pieces:
            turn = self._turn
            self._turn = (turn + 1) % len(self._buffers)
            buffer = self._buffers[turn]
            if self._backend.on_gpu:
                self._fill(turn, buffer, words[first:end])
                yield buffer
                self._read[turn].record()
            else:
                buffer[: end - first] = words[first:end]
                yield buffer

    def _fill(self, turn: int, buffer: Array, words: np.ndarray) -> None:
        cuda = self._backend.xp.cuda
        self._stream.wait_event(self._read[turn])
        cuda.runtime.memcpyAsync(buffer.data.ptr, words.ctypes.data, words.nbytes, TO_DEVICE, self._stream.ptr)
        self._filled[turn].record(self._stream)
        cuda.get_current_stream().wait_event(self._filled[turn])
