"""A GPU in Python, for tests: runs unchanged kernels over NumPy arrays. Imported only if the simulator is on.

Each GPU thread is a greenlet. It runs until it waits at a barrier, then the next one runs. So all threads of a grid
take turns in one thread of the operating system, always in the same order. Blocks take turns, too, and may wait for
each other. A block has one warp.

It is stricter than a GPU: a warp operation that some lane does not call raises, and shared memory starts as `GARBAGE`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from itertools import accumulate, compress
from typing import Any

import numpy as np
from greenlet import getcurrent, greenlet

__all__ = [
    "WARP",
    "Block",
    "add_up",
    "combine",
    "cuda",
    "exchange",
    "launch",
    "pack_votes",
    "pause",
    "run_blocks",
    "scan",
]

WARP = 32
GARBAGE = 0xA5  # the value of each byte
LANE_BITS = [1 << lane for lane in range(WARP)]


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
    """A thread of one grid after another: to start a greenlet takes longer than most threads run.

    It is what kernels get as ``cuda.threadIdx``, so ``x`` is its number in its block.
    """

    __slots__ = ("block", "board", "last_board", "position", "x")

    def begin(self, block: Block, index: int) -> None:
        """Make this the thread ``index`` of a block."""
        self.parent = getcurrent()  # type: ignore[misc]  # a greenlet's own; gets what the kernel raises
        self.block: Any = block
        self.x = index
        self.position = block.index.x * block.size + index
        self.board, self.last_board = block.boards  # for the next warp operation, and for the one after it

    def run(self) -> None:
        """Run the kernel each time that it begins."""
        while True:
            cuda.threadIdx = self
            self.block.function()
            self.block.is_thinned = True
            self.block = None
            next(cuda.turns).switch()


class _Idle(threading.local):
    """The greenlets that wait for a grid; they stay in their host thread."""

    def __init__(self) -> None:
        self.threads: list[_Thread] = []


class Block:
    """A block's threads, its shared arrays, and the boards of its warp."""

    def __init__(self, function: Callable[[], None], index: int, size: int) -> None:
        self.function, self.index, self.size = function, _Index(index), size
        # Two boards take turns: a fast lane shows its next value while others still read the last ones.
        self.boards = _Board(), _Board()
        self.arrays: dict[tuple[str, int], np.ndarray] = {}
        self.threads = [_idle.threads.pop() if _idle.threads else _Thread() for _ in range(size)]
        self.paused: list[_Thread] = []
        self.is_thinned = False  # whether some of `threads` have ended
        for position, thread in enumerate(self.threads):
            thread.begin(self, position)

    def advance(self) -> None:
        """Run each thread up to its next barrier; if some have paused, run only these."""
        turns, self.paused = self.paused or self.threads, []
        # Each thread switches to the one after it, the last one back to here.
        cuda.blockIdx, cuda.turns = self.index, iter([*turns, getcurrent()])
        try:
            next(cuda.turns).switch()
        except Exception as error:
            error.add_note(f"raised by thread {cuda.threadIdx.x} of block {self.index.x} of a simulated grid")
            raise
        if self.is_thinned:
            self.threads, self.is_thinned = [thread for thread in self.threads if thread.block is not None], False


class _Shared:
    """``cuda.shared``."""

    @staticmethod
    def array(shape: int, dtype: Any, alignment: int = 0) -> np.ndarray:
        """Return the block's array for the calling line of the source."""
        caller = sys._getframe(1)
        place = caller.f_code.co_filename, caller.f_lineno
        arrays: dict[tuple[str, int], np.ndarray] = cuda.threadIdx.block.arrays
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
        self.blockIdx = self.blockDim = self.gridDim = _Index(0)
        self.threadIdx: Any = None  # the thread that runs
        self.turns: Iterator[greenlet] = iter(())  # who runs next: each takes one more

    def grid(self, dimensions: int) -> int:
        position: int = self.threadIdx.position
        return position

    def gridsize(self, dimensions: int) -> int:
        return self.blockDim.x * self.gridDim.x

    def syncthreads(self) -> None:
        """Let all other threads of the block run up to here."""
        thread = self.threadIdx
        next(self.turns).switch()
        self.threadIdx = thread

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
_idle = _Idle()
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


def pack_votes(votes: list[bool]) -> np.uint32:
    """Return the word whose bit ``l`` is set if lane ``l`` votes for it; for :func:`combine`, as the next two."""
    return np.uint32(sum(compress(LANE_BITS, votes)))


def add_up(values: list[Any]) -> Any:
    """Return the sum of all lanes' values, in their type."""
    return sum(values[1:], values[0])


def scan(values: list[Any]) -> list[Any]:
    """Return for each lane the sum of the values up to its own."""
    return list(accumulate(values))


def _show(value: Any) -> _Board:
    """Show a value and wait for the other lanes. Most of a simulated kernel's time passes here: so it makes no call."""
    thread = cuda.threadIdx
    board: _Board = thread.board
    thread.board, thread.last_board = thread.last_board, board
    if board.shown == WARP:  # left from the operation before the last
        board.shown = 0
    board.values[thread.x] = value
    board.shown += 1
    next(cuda.turns).switch()  # as syncthreads()
    cuda.threadIdx = thread
    if board.shown != 0 and board.shown != WARP:
        raise RuntimeError(f"a warp operation is called by {board.shown} of {WARP} lanes")
    return board


def pause() -> None:
    """Let all other threads run, then go on: for a loop that waits for another block's write."""
    cuda.threadIdx.block.paused.append(cuda.threadIdx)
    cuda.syncthreads()


def launch(kernel: Callable[..., None], num_blocks: int, size: int, args: list[Any]) -> None:
    """Run a kernel to its end, in ``num_blocks`` blocks of ``size`` threads."""
    if size != WARP:
        raise ValueError(f"{kernel.__name__}: a simulated block has {size} threads; wanted {WARP}")
    with _one_at_a_time:
        before = vars(cuda).copy()
        cuda.blockDim, cuda.gridDim = _Index(size), _Index(num_blocks)
        try:
            blocks = [Block(lambda: kernel(*args), index, size) for index in range(num_blocks)]
            threads = [thread for block in blocks for thread in block.threads]
            run_blocks(kernel.__name__, blocks)
            _idle.threads += threads  # unless one has raised: then others wait in the midst of the kernel
        finally:
            vars(cuda).update(before)


def run_blocks(name: str, blocks: list[Block]) -> None:
    """Run all blocks of the kernel ``name`` to their end, in turns, each up to its next barrier."""
    while blocks:
        for block in blocks:
            block.advance()
        blocks = [block for block in blocks if block.threads]
