"""Pinned host memory: kernels of a GPU read and write it in place, over the link."""

from __future__ import annotations

import mmap
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np

__all__ = ["PinnedMemory", "touch_pages"]

# Bytes that a thread touches at a time, and the most threads.
SHARE, MAX_THREADS = 1 << 25, 16


class PinnedMemory:
    """New host memory, pinned; it is given back when no array uses it any more, and no kernel.

    The system provides a page of memory when it is first touched. The CUDA driver touches what it allocates by one
    thread. So this memory is allocated and touched here, by several threads, and the driver only locks it. It consists
    of large pages where the system has them: these take less time to provide, to lock and to free.

    Parameters
    ----------
    cuda : module
        ``cupy.cuda``.
    size : int
        Bytes, more than 0.

    Attributes
    ----------
    pointer : int
        The address for kernels.

    Raises
    ------
    MemoryError, OSError, CUDARuntimeError
        If there is not so much memory, or it cannot be pinned.
    """

    def __init__(self, cuda: Any, size: int) -> None:
        self._runtime, self._is_registered = cuda.runtime, False
        # Memory of its own pages, which a child process does not get: the GPU goes on with the parent's.
        self._memory: Any = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._memory.madvise(mmap.MADV_DONTFORK)
        with suppress(OSError, AttributeError):  # a system without large pages
            self._memory.madvise(mmap.MADV_HUGEPAGE)
        on_host = np.frombuffer(self._memory, np.uint8)
        touch_pages(on_host)
        self._runtime.hostRegister(on_host.ctypes.data, size, 0)
        self._is_registered = True
        self._address = on_host.ctypes.data
        self.pointer = int(self._runtime.pointerGetAttributes(self._address).devicePointer)
        # An array made of this holds it.
        self.__array_interface__ = {"version": 3, "shape": (size,), "typestr": "|u1", "data": (self._address, False)}

    def __del__(self) -> None:
        # To give memory back is no work on a stream: kernels that use it have to be done. As the interpreter ends,
        # there may be no CUDA left, and the process gives its memory back anyway.
        if self._is_registered:
            with suppress(Exception):
                self._runtime.deviceSynchronize()
                self._runtime.hostUnregister(self._address)


def touch_pages(memory: np.ndarray) -> None:
    """Write to each page of new memory, shape (N,), uint8, by several threads, so that the system provides it."""

    def touch(begin: int) -> None:
        memory[begin : begin + SHARE : mmap.PAGESIZE] = 0

    begins = range(0, memory.shape[0], SHARE)
    if len(begins) == 1:
        touch(0)
        return
    with ThreadPoolExecutor(min(len(begins), os.cpu_count() or 1, MAX_THREADS)) as pool:
        list(pool.map(touch, begins))
