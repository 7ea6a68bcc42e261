"""Numba's simulator with all threads of a grid taking turns in one thread; imported only where it is on.

Numba gives each thread of a block one of the operating system and polls these: a barrier takes a millisecond, what
happens between two is a matter of luck, and blocks run one after the other. Here each is a greenlet that runs until it
waits or ends; then the next one does, so that blocks may wait for each other, too.
"""

from __future__ import annotations

import sys
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
    """One thread of a grid, as Numba's fake ``cuda`` module asks for it."""

    def __init__(self, function: Callable[[], None], block: _Block, number: tuple[int, ...]) -> None:
        super().__init__(function)
        self.block = block
        self.blockIdx, self.threadIdx = block.index, _kernel.Dim3(*number)
        self.thread_id = number[0]
        self.turn = 0  # for ``warp``
        self.paused = False

    def syncthreads(self) -> None:
        """Let all others of the block run up to here."""
        self.parent.switch()

    def pause(self) -> None:
        """Let all others run, and go on: for loops that wait for what another block writes."""
        self.paused = True
        self.parent.switch()
        self.paused = False


class _Block:
    """A block's threads, its shared arrays, and what its warp exchanges values by."""

    def __init__(self, function: Callable[[], None], point: tuple[int, ...], size: tuple[int, ...]) -> None:
        self.index = _kernel.Dim3(*point)
        self.boards: tuple[list[Any], list[Any]] = ([None] * size[0], [None] * size[0])
        self.arrays: dict[tuple[str, int], np.ndarray] = {}
        self.threads = [_Thread(function, self, number) for number in np.ndindex(*size)]

    def advance(self) -> None:
        """Run each thread up to the next barrier; where some have paused, only these."""
        for thread in [thread for thread in self.threads if thread.paused] or self.threads:
            thread.switch()
        self.threads = [thread for thread in self.threads if not thread.dead]


class _Grid:
    """Stands for Numba's ``BlockManager``, of which it makes one for each block: the first one runs them all."""

    def __init__(self, function: Callable[..., None], grid: tuple[int, ...], block: tuple[int, ...], _: bool) -> None:
        self._function, self._grid, self._block = function, grid, block

    def run(self, grid_point: tuple[int, ...], *args: Any) -> None:
        if any(grid_point):
            return
        blocks = [_Block(lambda: self._function(*args), point, self._block) for point in np.ndindex(*self._grid)]
        while blocks:
            for block in blocks:
                block.advance()
            blocks = [block for block in blocks if block.threads]


class _Shared:
    """``cuda.shared``: one array for each place in the source that asks for one, and block."""

    @staticmethod
    def array(shape: int, dtype: Any, alignment: int = 0) -> np.ndarray:
        caller = sys._getframe(1)
        place = caller.f_code.co_filename, caller.f_lineno
        arrays: dict[tuple[str, int], np.ndarray] = getcurrent().block.arrays
        return arrays.setdefault(place, np.empty(shape, dtype))


_kernel.BlockManager = _Grid
_kernelapi.threading = SimpleNamespace(current_thread=getcurrent, Lock=threading.Lock)
_kernelapi.FakeCUDAModule.shared = _Shared()

current_thread: Callable[[], Any] = getcurrent


def running_launch() -> Any:
    """Return the fake ``cuda`` module of the kernel that runs, None where none does."""
    return _kernel._get_kernel_context()
