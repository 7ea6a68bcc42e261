"""Kernels get what they are passed, whatever its kind: the parameter block is packed as Numba expects it."""

from __future__ import annotations

import os
import struct
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dynstore._cuda.launching import EXTRA, Packed, describe_arguments, find_layout, pack_parameters

DEVICES = os.environ.get("DYNSTORE_TEST_DEVICES", "")


@pytest.mark.skipif("cuda" not in DEVICES, reason="needs DYNSTORE_TEST_DEVICES=cuda")
def test_every_kind_of_argument_arrives():
    import cupy

    from dynstore._cuda.compiler import cuda, kernel

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
    one_by_one = (words, True, strided, table, np.int32(-7), empty, words, 0.5)
    packed = (Packed(words), True, Packed(strided, table), np.int32(-7), Packed(empty, words), 0.5)
    blocks, signatures = [], []
    for arguments in (one_by_one, packed, packed):
        kinds, values = describe_arguments(arguments)
        hash(kinds)
        signature, layout = find_layout(kinds)
        blocks.append(bytes(pack_parameters(layout, values))[EXTRA.size :])
        signatures.append(signature)
    assert signatures[0] == signatures[1]
    assert blocks[0] == blocks[1] == blocks[2]
    numbers = struct.unpack("@7q?7q9qi7q7qd", blocks[0])
    assert numbers[2:7] == (5, 4, words.data.ptr, 5, 4)
    assert numbers[7:15] == (True, 0, 0, 4, 8, strided.data.ptr, 4, 24)
    assert numbers[-1] == 0.5


@pytest.mark.skipif("cuda" not in DEVICES, reason="needs DYNSTORE_TEST_DEVICES=cuda")
def test_kernels_run_on_cupys_current_stream():
    import cupy

    from dynstore._cuda.compiler import k_probe

    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        written = cupy.zeros(1, dtype=np.int32)
        k_probe.launch(1, written)
        assert int(written[0]) == 1


@pytest.mark.skipif("cuda" in DEVICES, reason="needs Numba's simulator")
def test_the_simulators_threads_share_an_array_and_wait_for_each_other():
    from dynstore._cuda.compiler import THREADS, cuda, kernel

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


@pytest.mark.skipif("cuda" in DEVICES, reason="needs Numba's simulator")
def test_what_a_simulated_thread_raises_is_raised():
    from dynstore._cuda.compiler import THREADS, cuda, kernel

    @kernel
    def k_divide(out):
        cuda.syncthreads()
        out[cuda.threadIdx.x] = 1 // (5 - cuda.threadIdx.x)

    with pytest.raises(ZeroDivisionError):
        k_divide.launch(THREADS, np.zeros(THREADS, dtype=np.int64))
    seen = np.zeros(1, dtype=np.int32)
    from dynstore._cuda.compiler import k_probe

    k_probe.launch(1, seen)
    assert seen.tolist() == [1]
