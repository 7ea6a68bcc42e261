"""Kernels get what they are passed, whatever its kind: the parameter block is packed as Numba expects it."""

from __future__ import annotations

import ctypes
import os
import struct
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier, Thread
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from dynstore.cuda import launch
from dynstore.cuda.launch import (
    EXTRA,
    Entry,
    Packed,
    ResidentOrder,
    describe_arguments,
    find_layout,
    start_entry,
)

DEVICES = os.environ.get("DYNSTORE_TEST_DEVICES", "")


class Ends(NamedTuple):
    """A record of a kernel."""

    src: Any
    dst: Any
    mirrored: Any


@pytest.mark.skipif("cuda" not in DEVICES, reason="needs DYNSTORE_TEST_DEVICES=cuda")
def test_every_kind_of_argument_arrives():
    import cupy

    from dynstore.cuda.compiler import cuda, kernel

    @kernel
    def k_collect_arguments(flag, count, share, single, narrow, words, strided, table, empty, out):
        if cuda.grid(1) == 0:
            out[0] = 1 if flag else 0
            out[1] = count
            out[2] = share
            out[3] = single
            out[4] = narrow
            out[5] = words[2]
            out[6] = strided[2]
            out[7] = table[1, 2]
            out[8] = empty.shape[0]
            out[9] = strided.shape[0]

    out = cupy.full(10, -1, dtype=np.float64)
    words = cupy.arange(5, dtype=np.uint32)
    table = cupy.arange(6, dtype=np.int32).reshape(2, 3)
    strided = cupy.arange(12, dtype=np.int64)[::3]
    empty = cupy.empty(0, dtype=np.float32)
    packed = Packed(words, strided, table)
    for flag in (True, False):
        for arrays in ((words, strided, table, empty, out), (packed, Packed(empty, out)), (packed, empty, out)):
            out.fill(-1)
            k_collect_arguments.launch(1, flag, 2**40, 0.1, np.float32(1.5), np.int32(-7), *arrays)
            assert out.tolist() == [float(flag), 2.0**40, 0.1, 1.5, -7.0, 2.0, 6.0, 5.0, 0.0, 4.0]


@pytest.mark.skipif("cuda" not in DEVICES, reason="needs DYNSTORE_TEST_DEVICES=cuda")
def test_a_kernel_reads_flat_arguments_as_a_record():
    import cupy

    from dynstore.cuda.compiler import cuda, kernel

    @partial(kernel, records={"ends": Ends})
    def k_take_record(first, ends, last):
        if cuda.grid(1) == 0:
            last[0] = first + ends.src[1] + ends.dst[2] * (10 if ends.mirrored else 0)

    src, dst, last = cupy.full(3, 100, dtype=np.int32), cupy.arange(6, dtype=np.float64)[::2], cupy.zeros(1)
    for arguments in ((7, src, dst, True, last), (7, *Ends(src, dst, True), last), (7, Packed(src, dst), True, last)):
        last.fill(0)
        k_take_record.launch(1, *arguments)
        assert last.tolist() == [147.0]


class DeviceArray:
    """A NumPy array that says of itself what a CuPy array does."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array
        self.data = SimpleNamespace(ptr=array.ctypes.data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._array, name)


def test_arrays_packed_before_make_the_same_parameters():
    words = DeviceArray(np.arange(5, dtype=np.uint32))
    strided = DeviceArray(np.arange(12)[::3])
    table = DeviceArray(np.zeros((2, 3), dtype=np.int32))
    empty = DeviceArray(np.empty(0, dtype=np.float32))
    one_by_one = (words, True, strided, table, 2**40, np.int32(-7), empty, words, 0.5)
    packed = (Packed(words), True, Packed(strided, table, 2**40), np.int32(-7), Packed(empty, words), 0.5)
    blocks, signatures = [], []
    for arguments in (one_by_one, packed, packed):
        kinds, values = describe_arguments(arguments)
        hash(kinds)
        signature, layout = find_layout(kinds)
        blocks.append(layout.pack(*values))
        signatures.append(signature)
    assert signatures[0] == signatures[1]
    assert blocks[0] == blocks[1] == blocks[2]
    numbers = struct.unpack("@7q?7q9qqi7q7qd", blocks[0])
    assert numbers[2:7] == (5, 4, words.data.ptr, 5, 4)
    assert numbers[7:15] == (True, 0, 0, 4, 8, strided.data.ptr, 4, 24)
    assert numbers[-1] == 0.5


class FakeDriver:
    """Stands for CuPy's way to the driver: notes what launches pass, and raises a ``result`` other than 0."""

    def __init__(self, result=0, while_launching=lambda: None):
        self.result, self.while_launching, self.passed = result, while_launching, []

    def launch(self, *arguments):
        self.while_launching()
        key, block, other_key, size_at, end, size = EXTRA.unpack(ctypes.string_at(arguments[-1], EXTRA.size))
        assert (key, other_key, end, ctypes.c_size_t.from_address(size_at).value) == (1, 2, 0, size)
        self.passed.append((arguments[:-1], ctypes.string_at(block, size)))
        if self.result:
            raise RuntimeError(f"cuLaunchKernel: {self.result}")


def make_entry(codes):
    return Entry(16, struct.Struct(f"@{codes}"), 132, None)


def test_launches_pack_their_parameters_where_the_last_ones_were(monkeypatch):
    driver, entry = FakeDriver(), make_entry("qd")
    monkeypatch.setattr(launch, "_launch_kernel", lambda: driver.launch)
    for number in range(3):
        start_entry(entry, 5, 256, 7, [number, 0.5])
    assert driver.passed == [((16, 5, 1, 1, 256, 1, 1, 0, 7, 0), struct.pack("@qd", n, 0.5)) for n in range(3)]
    assert len(entry.blocks) == 1


def test_threads_that_launch_at_once_do_not_share_parameters(monkeypatch):
    """The driver's function runs without the interpreter's lock."""
    both = Barrier(2, timeout=60)
    driver, entry = FakeDriver(while_launching=both.wait), make_entry("q")
    monkeypatch.setattr(launch, "_launch_kernel", lambda: driver.launch)
    with ThreadPoolExecutor(2) as threads:
        for _ in range(20):
            started = [threads.submit(start_entry, entry, 1, 32, 0, [number]) for number in range(2)]
            assert [future.result() for future in started] == [None, None]
    assert sorted(block for _, block in driver.passed) == 20 * [struct.pack("@q", 0)] + 20 * [struct.pack("@q", 1)]
    assert len(entry.blocks) == 2


def test_a_launch_that_fails_says_so_and_leaves_the_kernel_usable(monkeypatch):
    driver, entry = FakeDriver(700), make_entry("q")
    monkeypatch.setattr(launch, "_launch_kernel", lambda: driver.launch)
    with pytest.raises(RuntimeError, match="cuLaunchKernel: 700"):
        start_entry(entry, 1, 32, 0, [1])
    with pytest.raises(struct.error):
        start_entry(entry, 1, 32, 0, ["no number"])
    driver.result = 0
    start_entry(entry, 1, 32, 0, [2])
    assert driver.passed[-1][1] == struct.pack("@q", 2)


@pytest.mark.skipif("cuda" not in DEVICES, reason="needs DYNSTORE_TEST_DEVICES=cuda")
def test_kernels_run_on_cupys_current_stream():
    import cupy

    from dynstore.cuda.compiler import k_probe

    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        written = cupy.zeros(1, dtype=np.int32)
        k_probe.launch(1, written)
        assert int(written[0]) == 1


class FakeCuda:
    """A stand-in for ``cupy.cuda``: records launches and waits, and counts the events made."""

    def __init__(self):
        self.calls, self.events = [], 0
        self.runtime = SimpleNamespace(deviceSynchronize=lambda: self.calls.append("host waits"))

    def Event(self, disable_timing):  # noqa: N802
        self.events += 1
        return SimpleNamespace(record=lambda stream: self.calls.append(f"event on {stream.ptr}"))

    def stream(self, handle):
        return SimpleNamespace(ptr=handle, wait_event=lambda event: self.calls.append(f"{handle} waits"))


@pytest.fixture
def fake(monkeypatch):
    fake = FakeCuda()
    monkeypatch.setattr(
        launch, "start_entry", lambda entry, blocks, threads, handle, values: fake.calls.append(f"start on {handle}")
    )
    return fake


def start(order, stream):
    order.start(None, 1, 32, stream, [])


def test_resident_kernels_of_one_stream_cost_nothing_more(fake):
    order = ResidentOrder(fake)
    for _ in range(3):
        start(order, fake.stream(0))
    assert (fake.calls, fake.events) == (["start on 0"] * 3, 0)


def test_resident_kernels_of_two_streams_run_one_after_another(fake):
    order = ResidentOrder(fake)
    for handle in (5, 5, 7, 7, 5):
        start(order, fake.stream(handle))
    assert fake.calls == [
        *("start on 5", "start on 5", "host waits", "start on 7", "event on 7"),
        *("start on 7", "event on 7", "5 waits", "start on 5", "event on 5"),
    ]
    assert fake.events == 1


def test_threads_share_a_stream_but_not_its_handle_where_each_has_its_own(fake):
    """All per-thread default streams have the handle 2."""
    with ThreadPoolExecutor(1) as another:
        for handle in (0, launch.PER_THREAD_STREAM):
            order = ResidentOrder(fake)
            start(order, fake.stream(handle))
            another.submit(start, order, fake.stream(handle)).result()
    assert fake.calls == ["start on 0", "start on 0", "start on 2", "host waits", "start on 2", "event on 2"]


def test_a_thread_that_gets_the_number_of_one_that_ended_has_another_stream(fake):
    """The system gives numbers again soon."""
    order = ResidentOrder(fake)
    for _ in range(20):
        thread = Thread(target=start, args=(order, fake.stream(launch.PER_THREAD_STREAM)))
        thread.start()
        thread.join()
    assert [call for call in fake.calls if "wait" in call] == ["host waits", *18 * ["2 waits"]]


def test_the_last_stream_is_kept_so_that_no_other_one_has_its_handle(fake):
    order, stream = ResidentOrder(fake), fake.stream(5)
    start(order, stream)
    assert order._stream is stream


def test_a_kernel_that_does_not_start_leaves_the_order_usable(fake, monkeypatch):
    order = ResidentOrder(fake)
    start(order, fake.stream(5))
    with monkeypatch.context() as patch:
        patch.setattr(launch, "start_entry", lambda *args: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            start(order, fake.stream(7))
    start(order, fake.stream(5))
    assert fake.calls == ["start on 5", "host waits", "5 waits", "start on 5", "event on 5"]


@pytest.mark.skipif("cuda" not in DEVICES, reason="needs DYNSTORE_TEST_DEVICES=cuda")
def test_graphs_of_several_threads_and_streams_are_right():
    """Their kernels of several phases would otherwise be on the GPU at once, each waiting for its other blocks."""
    import cupy

    from dynstore import DynamicGraph

    def update(seed):
        src, dst = np.random.default_rng(seed).integers(0, 50_000, (2, 2_000_000), dtype=np.int32)
        with cupy.cuda.Stream(non_blocking=True) as stream:
            graph = DynamicGraph.from_edges((src[:1_000_000], dst[:1_000_000]), device="cuda", directed=True)
            for begin in range(1_000_000, 2_000_000, 20_000):
                graph.insert_edges((src[begin : begin + 20_000], dst[begin : begin + 20_000]))
            edges = graph.number_of_edges()
            stream.synchronize()
        return edges == np.unique(src.astype(np.int64) << 32 | dst).shape[0]

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(update, range(4)))


@pytest.mark.skipif("cuda" in DEVICES, reason="needs the simulator")
def test_the_simulators_threads_share_an_array_and_wait_for_each_other():
    from dynstore.cuda.compiler import THREADS, cuda, kernel

    @kernel
    def k_share_board(seen):
        board = cuda.shared.array(THREADS, np.int64)
        thread = cuda.threadIdx.x
        for step in range(3):
            board[thread] = thread + step
            cuda.syncthreads()
            for other in range(THREADS):
                seen[cuda.grid(1)] += board[other] == other + step
            cuda.syncthreads()
            if thread % 2 and step == 1:
                return  # who has ended keeps nobody waiting
            board[thread | 1] = (thread | 1) + step + 1

    seen = np.zeros(2 * THREADS, dtype=np.int64)
    k_share_board.launch(2 * THREADS, seen)
    assert seen.tolist() == [3 * THREADS, 2 * THREADS] * THREADS


@pytest.mark.skipif("cuda" in DEVICES, reason="needs the simulator")
def test_what_a_simulated_thread_raises_is_raised():
    from dynstore.cuda.compiler import THREADS, cuda, kernel

    @kernel
    def k_divide(out):
        cuda.syncthreads()
        out[cuda.threadIdx.x] = 1 // (5 - cuda.threadIdx.x)

    with pytest.raises(ZeroDivisionError):
        k_divide.launch(THREADS, np.zeros(THREADS, dtype=np.int64))
    seen = np.zeros(1, dtype=np.int32)
    from dynstore.cuda.compiler import k_probe

    k_probe.launch(1, seen)
    assert seen.tolist() == [1]
