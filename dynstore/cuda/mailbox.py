"""Totals that a kernel writes into the host's memory, so that the host need not ask for a copy, nor wait for the end.

Pinned memory has one address for the host and every GPU. A kernel posts the totals, then the update's ticket; the host
looks until it finds the ticket. What the GPU does after that goes on while the host makes its report.
"""

from __future__ import annotations

import platform
from itertools import count
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Any
from weakref import finalize

import numpy as np

from dynstore.cuda.compiler import cuda, device
from dynstore.cuda.grid import TOTALS

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["Mailbox", "d_post_totals", "d_post_when_last"]

# Words of a mailbox: the totals, then the ticket. Each has cache lines of its own, and pinned memory is by the page.
WORDS = TOTALS + 1
ROW, ROWS_A_PAGE = 16, 32
# So long the host looks before it waits for the stream, which takes longer, but no processor, and raises errors.
PATIENCE_SECONDS = 2e-3
LOOKS_A_TIME = 20
# Whether reads are made in the order of the program, so that totals read after the ticket are its own: x86 does so with
# ordinary memory, which pinned memory is for the host; other processors need a barrier between.
READS_IN_ORDER = platform.machine() in ("x86_64", "AMD64")


@device
def d_post_totals(control, mailbox, ticket):
    """Post the totals of ``control``, which are final and visible: called by one thread of the grid."""
    totals = cuda.local.array(TOTALS, np.int64)  # registers, so that all reads are on their way before the first write
    for row in range(TOTALS):
        totals[row] = control[row]
    for row in range(TOTALS):
        mailbox[row] = totals[row]
    cuda.threadfence_system()
    mailbox[TOTALS] = ticket


@device
def d_post_when_last(control, mailbox, ticket, arrivals):
    """Post the totals once all blocks have come here; none waits. All threads of the grid call it, once a kernel.

    ``arrivals``: an entry of ``control`` for this alone, 0 at first.
    """
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        cuda.threadfence()
        if cuda.atomic.add(control, arrivals, 1) == cuda.gridDim.x - 1:
            cuda.threadfence()
            d_post_totals(control, mailbox, ticket)


class _Row:
    """One mailbox's memory, as kernels get it and as the host looks at it, and the last ticket that was for it."""

    __slots__ = ("lock", "seen", "ticket", "words")

    def __init__(self, words: Array, seen: memoryview) -> None:
        self.words, self.seen, self.ticket, self.lock = words, seen, 0, Lock()


_free_rows: list[_Row] = []
_pages: list[Any] = []  # kept for ever: where an update failed, nobody knows when its kernels post
_tickets = count(1)


def _make_rows(backend: Backend) -> list[_Row]:
    size = ROW * ROWS_A_PAGE
    if backend.on_gpu:
        cupy_cuda = backend.xp.cuda
        memory = cupy_cuda.alloc_pinned_memory(8 * size)
        on_host = np.frombuffer(memory, np.int64, size)
        owned = cupy_cuda.UnownedMemory(memory.ptr, 8 * size, memory, cupy_cuda.runtime.getDevice())
        on_device = backend.xp.ndarray(size, np.int64, memptr=cupy_cuda.MemoryPointer(owned, 0))
    else:
        on_host = on_device = np.empty(size, np.int64)
    on_host[:] = 0
    _pages.append(on_device)
    starts = range(0, size, ROW)
    return [_Row(on_device[start : start + WORDS], on_host.data[start : start + WORDS]) for start in starts]


def _give_back(row: _Row) -> None:
    """Let another mailbox have the memory, unless a kernel may yet write to it."""
    if row.seen[TOTALS] == row.ticket:
        _free_rows.append(row)


class Mailbox:
    """Where the kernels of one update at a time post their totals; kept with the scratch that they work in.

    Attributes
    ----------
    words : array, shape (TOTALS + 1,), int64
        For kernels.
    """

    def __init__(self, backend: Backend) -> None:
        while True:
            try:
                self._row = _free_rows.pop()
                break
            except IndexError:
                _free_rows.extend(_make_rows(backend))
        self.words = self._row.words
        finalize(self, _give_back, self._row).atexit = False

    def next_ticket(self) -> int:
        """Return what the next update posts last: a number that no other one has, of any mailbox."""
        self._row.ticket = ticket = next(_tickets)
        return ticket

    def read(self, backend: Backend, ticket: int) -> list[int]:
        """Wait until the kernel, started on the current stream, has posted; return the totals.

        What went wrong on the GPU is raised here, as by any wait.
        """
        seen = self._row.seen
        if not _arrives(seen, ticket):
            backend.synchronize()
            if seen[TOTALS] != ticket:
                raise RuntimeError("the kernels have ended, and none has posted its totals")
        if not READS_IN_ORDER:
            _order_reads(self._row.lock)
        return seen[:TOTALS].tolist()


def _arrives(seen: memoryview, ticket: int) -> bool:
    """Look for the ticket for as long as that is worth it."""
    end = perf_counter() + PATIENCE_SECONDS
    while True:
        for _ in range(LOOKS_A_TIME):
            if seen[TOTALS] == ticket:
                return True
        if perf_counter() > end:
            return False


def _order_reads(lock: Lock) -> None:
    """Nothing that is read after this is older than what was read before, on any processor."""
    with lock:
        pass
    with lock:  # giving it back, then taking it again, is what orders
        pass
