"""Totals that kernels post to the host's memory: what arrives, when, and that no other one is taken for it."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dynstore.backend import Backend, get_backend
from dynstore.cuda import mailbox as mailboxes
from dynstore.cuda.compiler import THREADS, cuda, kernel
from dynstore.cuda.grid import ARRIVALS, CONTROL_SIZE, d_sync_grid
from dynstore.cuda.launch import Packed
from dynstore.cuda.mailbox import Mailbox, d_post_totals, d_post_when_last
from dynstore.scratch import ScratchCache

on_cuda = "cuda" in os.environ.get("DYNSTORE_TEST_DEVICES", "")
only_cuda = pytest.mark.skipif(not on_cuda, reason="needs DYNSTORE_TEST_DEVICES=cuda")


@pytest.fixture
def gpu() -> Backend:
    return get_backend("cuda" if on_cuda else "cuda-sim")


@kernel
def k_count_and_post(control, words, ticket):
    """Each thread counts itself; the first posts once all have."""
    cuda.atomic.add(control, 3, 1)
    d_sync_grid(control, 1)
    if cuda.grid(1) == 0:
        d_post_totals(control, words, ticket)


@kernel
def k_count_and_go_on(control, words, ticket, rounds, after):
    """Each thread counts itself, the last block posts, and all go on to write."""
    cuda.atomic.add(control, 3, 1)
    d_post_when_last(control, words, ticket, ARRIVALS + 1)
    for _ in range(rounds):
        cuda.atomic.add(after, 0, 1)


@kernel
def k_post_nothing(words):
    if cuda.grid(1) == 0:
        words[0] = 1


@pytest.mark.parametrize("in_order", [True, False])
def test_the_host_reads_what_a_kernel_posts(gpu: Backend, in_order: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailboxes, "READS_IN_ORDER", in_order and mailboxes.READS_IN_ORDER)
    box = Mailbox(gpu)
    control = gpu.zeros(CONTROL_SIZE, np.int64)
    control[5] = -(2**40)
    seen = set()
    for times in range(1, 4):
        control[ARRIVALS] = 0
        ticket = box.next_ticket()
        k_count_and_post.launch_resident(2 * THREADS, control, box.words, ticket)
        assert box.read(gpu, ticket) == [0, 0, 0, 2 * THREADS * times, 0, -(2**40), 0, 0, 0, 0, 0, 0]
        seen.add(ticket)
    assert len(seen) == 3


@pytest.mark.parametrize("blocks", [1, 2])
def test_the_last_block_posts_what_all_have_counted(gpu: Backend, blocks: int) -> None:
    for _ in range(1 if gpu.name == "cuda-sim" else 200):
        box, packed_control = Mailbox(gpu), gpu.zeros(CONTROL_SIZE, np.int64)
        after, ticket = gpu.zeros(1, np.int64), box.next_ticket()
        k_count_and_go_on.launch_resident(blocks * THREADS, Packed(packed_control, box.words), ticket, 3, after)
        assert box.read(gpu, ticket)[3] == blocks * THREADS
        assert int(after[0]) == 3 * blocks * THREADS


@only_cuda
def test_the_host_goes_on_before_the_kernel_ends(gpu: Backend) -> None:
    box, control, stream = Mailbox(gpu), gpu.zeros(CONTROL_SIZE, np.int64), gpu.xp.cuda.get_current_stream()
    went_on = []
    for _ in range(10):  # beside other processes the host may look too late
        after = gpu.zeros(1, np.int64)
        for rounds in (1, 200_000):
            control.fill(0)
            ticket = box.next_ticket()
            k_count_and_go_on.launch_resident(64 * THREADS, control, box.words, ticket, rounds, after)
            box.read(gpu, ticket)
        went_on.append(not stream.done)
        stream.synchronize()
        assert int(after[0]) == 64 * THREADS * 200_001
    assert any(went_on)


@only_cuda
def test_a_kernel_that_takes_long_is_waited_for(gpu: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailboxes, "PATIENCE_SECONDS", 0.0)
    box, control, after = Mailbox(gpu), gpu.zeros(CONTROL_SIZE, np.int64), gpu.zeros(1, np.int64)
    k_count_and_go_on.launch_resident(64 * THREADS, gpu.zeros(CONTROL_SIZE, np.int64), box.words, 0, 200_000, after)
    ticket = box.next_ticket()
    k_count_and_go_on.launch_resident(64 * THREADS, control, box.words, ticket, 1, after)
    assert box.read(gpu, ticket)[3] == 64 * THREADS


def test_waiting_for_totals_that_no_kernel_writes_raises(gpu: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    box = Mailbox(gpu)
    ticket = box.next_ticket()
    k_post_nothing.launch(1, box.words)
    with pytest.raises(RuntimeError, match="none has written the totals of ticket"):
        box.read(gpu, ticket)

    def fail() -> None:
        raise ValueError("the GPU's own error")

    monkeypatch.setattr(gpu, "synchronize", fail)
    with pytest.raises(ValueError, match="the GPU's own error"):
        box.read(gpu, ticket)


def test_other_threads_go_on_while_the_host_polls(gpu: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailboxes, "PATIENCE_SECONDS", 5.0)
    box, begins = Mailbox(gpu), threading.Event()
    ticket = box.next_ticket()

    def post() -> None:
        begins.wait()
        box._row.seen[mailboxes.TOTALS] = ticket

    other, before = threading.Thread(target=post), sys.getswitchinterval()
    other.start()
    try:
        sys.setswitchinterval(60.0)  # a thread gets no turn but for those that are given to it
        begins.set()
        box.read(gpu, ticket)
    finally:
        sys.setswitchinterval(before)
        other.join()


def test_mailboxes_share_neither_memory_nor_tickets(gpu: Backend) -> None:
    boxes = [Mailbox(gpu) for _ in range(2 * mailboxes.ROWS_A_PAGE + 1)]
    assert np.diff(sorted(_address(box) for box in boxes)).min() >= 128
    with ThreadPoolExecutor(4) as threads:
        tickets = [future.result() for future in [threads.submit(box.next_ticket) for box in boxes * 5]]
    assert len(set(tickets)) == len(tickets)
    assert 0 not in tickets


def _address(box: Mailbox) -> int:
    return np.frombuffer(box._row.seen, np.int64).ctypes.data


def test_memory_is_used_again_once_the_last_kernel_has_posted(gpu: Backend) -> None:
    def is_free_after(post: bool) -> bool:
        box, control = Mailbox(gpu), gpu.zeros(CONTROL_SIZE, np.int64)
        assert box._row not in mailboxes._free_rows
        ticket = box.next_ticket()
        if post:
            k_count_and_post.launch_resident(THREADS, control, box.words, ticket)
            box.read(gpu, ticket)
        row = box._row
        del box
        gc.collect()
        return row in mailboxes._free_rows

    for _ in range(2 * mailboxes.ROWS_A_PAGE):
        assert is_free_after(True)
        assert not is_free_after(False)  # an update that was never read: a kernel may yet write there
    unused = Mailbox(gpu)._row
    gc.collect()
    assert unused in mailboxes._free_rows


def test_a_copy_of_scratch_has_no_part_in_it(gpu: Backend) -> None:
    class Scratch:
        def __init__(self, backend: Backend, words: np.ndarray) -> None:
            self.words, self.mailbox = words, Mailbox(backend)

    kept = ScratchCache()
    kept.take(gpu, "kind", 1 << 20, Scratch, ((4, np.int64),), zeroed=1)
    assert kept.nbytes > 0
    for twin in (copy.deepcopy(kept), pickle.loads(pickle.dumps(kept))):
        assert twin.nbytes == 0


def test_copies_of_packed_arrays_are_packed_by_themselves() -> None:
    class Array:
        ndim, size, itemsize, strides, dtype = 1, 3, 8, (8,), np.dtype(np.int64)

        @property
        def data(self) -> Array:
            return self

        @property
        def ptr(self) -> int:
            return id(self)

    packed = Packed(Array())
    packed.describe()
    twin = copy.deepcopy(packed)
    assert twin.arrays[0] is not packed.arrays[0]
    assert twin.describe()[1] != packed.describe()[1] == Packed(*packed.arrays).describe()[1]
