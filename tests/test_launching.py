"""Kernels get what they are passed, whatever its kind: the parameter block is packed as Numba expects it."""

from __future__ import annotations

import os

import numpy as np
import pytest

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
    for flag in (True, False):
        arguments = (flag, 2**40, 0.1, np.float32(1.5), np.int32(-7), words, strided, table, empty, out)
        k_collect_arguments.launch(1, *arguments)
        assert out.tolist() == [float(flag), 2.0**40, 0.1, 1.5, -7.0, 2.0, 6.0, 5.0, 0.0, 4.0]


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
