"""Totals that a kernel writes into host memory: the host needs no copy, and need not wait for the kernel's end.

Pinned memory has one address for the host and every GPU. A kernel posts the totals, then the update's ticket. The host
polls until it finds the ticket. The GPU goes on with the update while the host makes its report.
"""

from __future__ import annotations

import os
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

# Words of a mailbox: the totals, then the ticket. Each mailbox has its own cache lines; pinned memory comes in pages.
WORDS = TOTALS + 1
ROW, ROWS_A_PAGE = 16, 32
# How long the host polls before it waits for the stream. That takes longer, but uses no processor and raises errors.
PATIENCE_SECONDS = 2e-3
LOOKS_A_TIME = 20
# Whether the processor reads in program order, so that totals read after the ticket belong to it. x86 does so for
# ordinary memory, and pinned memory is ordinary for the host; other processors need a barrier in between.
READS_IN_ORDER = platform.machine() in ("x86_64", "AMD64")
# Gives up the interpreter's lock for a moment, in 0.4 microseconds. Without that, other threads get no turn for 5 ms.
_give_way = getattr(os, "sched_yield", lambda: None)


@device
def d_post_totals(control, mailbox, ticket):
    """Post the totals of ``control``. One thread of the grid calls it, once they are final and visible."""
    totals = cuda.local.array(TOTALS, np.int64)  # in registers: all reads are issued before the first write
    for row in range(TOTALS):
        totals[row] = control[row]
    for row in range(TOTALS):
        mailbox[row] = totals[row]
    cuda.threadfence_system()
    mailbox[TOTALS] = ticket


@device
def d_post_when_last(control, mailbox, ticket, arrivals):
    """Let the last block to arrive post the totals; no block waits. All threads of the grid call it, once a kernel.

    ``arrivals``: an entry of ``control`` that nothing else uses, 0 at first.
    """
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        cuda.threadfence()
        if cuda.atomic.add(control, arrivals, 1) == cuda.gridDim.x - 1:
            cuda.threadfence()
            d_post_totals(control, mailbox, ticket)


class _Row:
    """One mailbox's memory, as kernels and as the host see it, and the last ticket that was issued for it."""

    __slots__ = ("lock", "seen", "ticket", "words")

    def __init__(self, words: Array, seen: memoryview) -> None:
        self.words, self.seen, self.ticket, self.lock = words, seen, 0, Lock()


_free_rows: list[_Row] = []
_pages: list[Any] = []  # kept for ever: the kernels of a failed update may post at any time
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
    """Make the memory available to another mailbox, unless a kernel may still write to it."""
    if row.seen[TOTALS] == row.ticket:
        _free_rows.append(row)


class Mailbox:
    """Memory where the kernels of one update at a time post their totals; kept with their scratch.

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
        """Return the next update's ticket, a number that is unique over all mailboxes."""
        self._row.ticket = ticket = next(_tickets)
        return ticket

    def read(self, backend: Backend, ticket: int) -> list[int]:
        """Wait until the kernel, started on the current stream, has posted; return the totals.

        Errors of the GPU are raised here, as by any wait.
        """
        seen = self._row.seen
        if not _arrives(seen, ticket):
            backend.synchronize()
            if seen[TOTALS] != ticket:
                raise RuntimeError(
                    f"mailbox: the kernels have ended, and none has written the totals of ticket {ticket}"
                )
        if not READS_IN_ORDER:
            _order_reads(self._row.lock)
        return seen[:TOTALS].tolist()


def _arrives(seen: memoryview, ticket: int) -> bool:
    """Poll for the ticket for up to ``PATIENCE_SECONDS``; return whether it came. Other threads go on meanwhile."""
    end = perf_counter() + PATIENCE_SECONDS
    while True:
        for _ in range(LOOKS_A_TIME):
            if seen[TOTALS] == ticket:
                return True
        if perf_counter() > end:
            return False
        _give_way()


def _order_reads(lock: Lock) -> None:
    """Order reads on any processor: later reads return nothing older than earlier ones."""
    with lock:
        pass
    with lock:  # releasing the lock, then taking it again, orders the reads
        pass
