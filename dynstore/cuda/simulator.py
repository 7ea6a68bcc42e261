"""A GPU in Python, for tests: runs unchanged kernels over NumPy arrays. Imported only if the simulator is on.

Each GPU thread is a greenlet. It runs until it waits at a barrier, then the next one runs. So all threads of a grid
take turns in one thread of the operating system, always in the same order. Blocks take turns, too, and may wait for
each other. A block has one warp.

It is stricter than a GPU: a warp operation that some lane does not call raises, and shared memory starts as `GARBAGE`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from greenlet import greenlet

__all__ = ["WARP", "Block", "combine", "cuda", "exchange", "launch", "pause", "run_blocks"]

WARP = 32
GARBAGE = 0xA5  # the value of each byte


class _Index:
    """An index that kernels read as ``.x``."""

    __slots__ = ("x",)

    def __init__(self, x: int) -> None:
        self.x = x


class _Board:
    """The values that the lanes of a warp exchange in one warp operation."""

    __slots__ = ("combined", "shown", "values")

    def __init__(self) -> None:
        self.values: list[Any] = [None] * WARP
        self.shown = 0  # how many lanes have shown a value
        self.combined: Any = None


class _Thread(greenlet):  # type: ignore[misc]  # greenlet has no types here
    """One thread of a grid."""

    def __init__(self, function: Callable[[], None], block: Block, index: int) -> None:
        super().__init__(function)
        self.block, self.index = block, _Index(index)
        self.position = block.index.x * block.size + index
        self.board = 0  # which of the block's two boards it used last
        self.paused = False


class Block:
    """A block's threads, its shared arrays, and the boards of its warp."""

    def __init__(self, function: Callable[[], None], index: int, size: int) -> None:
        self.index, self.size = _Index(index), size
        # Two boards take turns: a fast lane shows its next value while others still read the last ones.
        self.boards = _Board(), _Board()
        self.arrays: dict[tuple[str, int], np.ndarray] = {}
        self.threads = [_Thread(function, self, thread) for thread in range(size)]

    def advance(self) -> None:
        """Run each thread up to its next barrier; if some have paused, run only these."""
        cuda.blockIdx = self.index
        for thread in [thread for thread in self.threads if thread.paused] or self.threads:
            cuda.thread, cuda.threadIdx = thread, thread.index
            try:
                thread.switch()
            except Exception as error:
                error.add_note(f"raised by thread {thread.index.x} of block {self.index.x} of a simulated grid")
                raise
        self.threads = [thread for thread in self.threads if not thread.dead]


class _Shared:
    """``cuda.shared``."""

    @staticmethod
    def array(shape: int, dtype: Any, alignment: int = 0) -> np.ndarray:
        """Return the block's array for the calling line of the source."""
        caller = sys._getframe(1)
        place = caller.f_code.co_filename, caller.f_lineno
        arrays: dict[tuple[str, int], np.ndarray] = cuda.thread.block.arrays
        found = arrays.get(place)
        if found is None:
            found = arrays[place] = np.empty(shape, dtype)
            found.view(np.uint8).fill(GARBAGE)
        return found


class _Local:
    """``cuda.local``."""

    array = staticmethod(np.empty)


class _Atomic:
    """``cuda.atomic``: each returns the old value. No other thread runs meanwhile."""

    @staticmethod
    def add(array, index, value):
        old = array[index]
        array[index] = old + value
        return old

    @staticmethod
    def sub(array, index, value):
        old = array[index]
        array[index] = old - value
        return old

    @staticmethod
    def and_(array, index, value):
        old = array[index]
        array[index] = old & value
        return old

    @staticmethod
    def or_(array, index, value):
        old = array[index]
        array[index] = old | value
        return old

    @staticmethod
    def exch(array, index, value):
        old = array[index]
        array[index] = value
        return old

    @staticmethod
    def max(array, index, value):
        old = array[index]
        if value > old:
            array[index] = value
        return old

    @staticmethod
    def min(array, index, value):
        old = array[index]
        if value < old:
            array[index] = value
        return old

    @staticmethod
    def cas(array, index, expected, value):
        old = array[index]
        if old == expected:
            array[index] = value
        return old


class _Cuda:
    """The ``cuda`` of kernels, for the thread that runs."""

    shared, local, atomic = _Shared, _Local, _Atomic

    def __init__(self) -> None:
        self.threadIdx = self.blockIdx = self.blockDim = self.gridDim = _Index(0)
        self.thread: Any = None

    def grid(self, dimensions: int) -> int:
        position: int = self.thread.position
        return position

    def gridsize(self, dimensions: int) -> int:
        return self.blockDim.x * self.gridDim.x

    def syncthreads(self) -> None:
        """Let all other threads of the block run up to here."""
        self.thread.parent.switch()

    @staticmethod
    def threadfence() -> None:
        """Do nothing: all threads see one memory."""

    threadfence_system = threadfence

    @staticmethod
    def popc(word):
        return int(word).bit_count()

    @staticmethod
    def clz(word):
        return _bits(word) - int(word).bit_length()

    @staticmethod
    def ffs(word):
        number = int(word)
        return (number & -number).bit_length()

    @staticmethod
    def brev(word):
        return int(f"{int(word):0{_bits(word)}b}"[::-1], 2)


def _bits(word: Any) -> int:
    """Return the width of a word: 32 bits, unless it is a NumPy integer of another size."""
    return 8 * word.itemsize if isinstance(word, np.integer) else 32


cuda = _Cuda()
_one_at_a_time = threading.RLock()  # host threads take turns: there is only one `cuda`


def exchange(value: Any) -> list[Any]:
    """Show a value to the warp's other lanes and return all lanes' values."""
    return _show(value).values


def combine(value: Any, reduce: Callable[[list[Any]], Any]) -> Any:
    """Return ``reduce`` of all lanes' values; the first lane to go on computes it for all."""
    board = _show(value)
    if board.shown:
        board.combined, board.shown = reduce(board.values), 0
    return board.combined


def _show(value: Any) -> _Board:
    thread = cuda.thread
    turn = thread.board = 1 - thread.board
    board: _Board = thread.block.boards[turn]
    if board.shown == WARP:  # left from the operation before the last
        board.shown = 0
    board.values[thread.index.x] = value
    board.shown += 1
    thread.parent.switch()
    if board.shown not in (0, WARP):
        raise RuntimeError(f"a warp operation is called by {board.shown} of {WARP} lanes")
    return board


def pause() -> None:
    """Let all other threads run, then go on: for a loop that waits for another block's write."""
    thread = cuda.thread
    thread.paused = True
    thread.parent.switch()
    thread.paused = False


def launch(kernel: Callable[..., None], num_blocks: int, size: int, args: list[Any]) -> None:
    """Run a kernel to its end, in ``num_blocks`` blocks of ``size`` threads."""
    if size != WARP:
        raise ValueError(f"{kernel.__name__}: a simulated block has {size} threads; wanted {WARP}")
    with _one_at_a_time:
        before = cuda.blockDim, cuda.gridDim
        cuda.blockDim, cuda.gridDim = _Index(size), _Index(num_blocks)
        try:
            run_blocks(kernel.__name__, [Block(lambda: kernel(*args), index, size) for index in range(num_blocks)])
        finally:
            cuda.blockDim, cuda.gridDim = before


def run_blocks(name: str, blocks: list[Block]) -> None:
    """Run all blocks of the kernel ``name`` to their end, in turns, each up to its next barrier."""
    while blocks:
        for block in blocks:
            block.advance()
        blocks = [block for block in blocks if block.threads]
