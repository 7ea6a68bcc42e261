"""Numba's simulator with the threads of a block taking turns in one thread; imported only where it is on.

Numba gives each of them a thread of the operating system and polls these: a barrier takes a millisecond, and what
happens between two is a matter of luck. Here each is a greenlet that runs until it waits or ends; then the next one
does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from greenlet import getcurrent, greenlet
from numba.cuda.simulator import kernel as _kernel
from numba.cuda.simulator import kernelapi as _kernelapi

__all__ = ["current_thread", "running_launch"]


class _Thread(greenlet):
    """One thread of the block that runs, as Numba's fake ``cuda`` module asks for it."""

    def __init__(self, function: Callable[[], None], block: tuple[int, ...], thread: tuple[int, ...]) -> None:
        super().__init__(function)
        self.blockIdx, self.threadIdx = _kernel.Dim3(*block), _kernel.Dim3(*thread)
        self.thread_id = thread[0]
        self.turn = 0  # for ``warp``

    def syncthreads(self) -> None:
        """Let all others run up to here."""
        self.parent.switch()


class _Block:
    """Stands for Numba's ``BlockManager``."""

    def __init__(self, function: Callable[..., None], grid: Any, block: tuple[int, ...], debug: bool) -> None:
        self._function, self._block = function, block

    def run(self, grid_point: tuple[int, ...], *args: Any) -> None:
        """Run all threads of one block, in turns from barrier to barrier."""
        waiting = [_Thread(lambda: self._function(*args), grid_point, point) for point in np.ndindex(*self._block)]
        while waiting:
            for thread in waiting:
                thread.switch()
            waiting = [thread for thread in waiting if not thread.dead]


_kernel.BlockManager = _Block
_kernelapi.threading = SimpleNamespace(current_thread=getcurrent, Lock=threading.Lock)

current_thread: Callable[[], Any] = getcurrent


def running_launch() -> Any:
    """Return the fake ``cuda`` module of the kernel that runs, None where none does."""
    return _kernel._get_kernel_context()
