"""Our simulator runs the threads of a grid in order, is strict about warps, and uses its greenlets again."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

from dynstore.cuda.compiler import SIMULATED

if not SIMULATED:
    pytest.skip("needs the simulator", allow_module_level=True)
pytest.importorskip("greenlet", reason="the simulator needs greenlet")

from dynstore.cuda import simulator
from dynstore.cuda.simulator import WARP, cuda
from dynstore.cuda.warp import d_ballot, d_pause, d_shuffle_up, d_sum_lanes


def run(kernel, *args, blocks=1):
    simulator.launch(kernel, blocks, WARP, list(args))


def test_threads_take_turns_from_one_barrier_to_the_next():
    def k_note(turns):
        for step in range(3):
            turns.append((step, cuda.blockIdx.x, cuda.threadIdx.x, cuda.grid(1)))
            cuda.syncthreads()

    turns: list[tuple[int, int, int, int]] = []
    run(k_note, turns, blocks=2)
    assert turns == [(s, b, t, b * WARP + t) for s in range(3) for b in range(2) for t in range(WARP)]


def test_threads_that_have_ended_are_passed_over():
    def k_end_early(turns):
        for step in range(cuda.threadIdx.x % 3):
            turns.append((step, cuda.threadIdx.x))
            cuda.syncthreads()

    turns: list[tuple[int, int]] = []
    run(k_end_early, turns)
    assert turns == [(s, t) for s in range(2) for t in range(WARP) if t % 3 > s]


def test_lanes_exchange_values():
    def k_exchange(sums, words, before):
        lane = cuda.threadIdx.x
        sums[lane], words[lane] = d_sum_lanes(lane), d_ballot(lane % 2 == 1)
        before[lane] = d_shuffle_up(lane * lane, 1)

    sums, words, before = (np.zeros(WARP, np.int64) for _ in range(3))
    run(k_exchange, sums, words, before)
    assert set(sums) == {496}
    assert set(words) == {0xAAAAAAAA}
    assert before.tolist() == [0, *(lane * lane for lane in range(WARP - 1))]


@pytest.mark.parametrize("missing", [0, 7, WARP - 1])
def test_a_warp_operation_without_a_lane_is_an_error(missing):
    def k_leave_out():
        if cuda.threadIdx.x != missing:
            d_ballot(True)

    with pytest.raises(RuntimeError, match="called by 31 of 32 lanes"):
        run(k_leave_out)


def test_a_block_that_pauses_waits_for_another_one():
    def k_wait(flags):
        if cuda.blockIdx.x == 0 and cuda.threadIdx.x == 5:
            while flags[0] == 0:
                d_pause()
            flags[1] += 1
        elif cuda.blockIdx.x == 1 and cuda.threadIdx.x == 9:
            flags[0] = 1
        cuda.syncthreads()
        flags[2] += 1

    flags = np.zeros(3, np.int64)
    run(k_wait, flags, blocks=2)
    assert flags.tolist() == [1, 1, 2 * WARP]


def test_what_a_thread_raises_says_which_one_and_the_next_grid_runs():
    def k_fail(array):
        cuda.syncthreads()
        array[cuda.grid(1)] = 1

    with pytest.raises(IndexError) as caught:
        run(k_fail, np.zeros(WARP + 3), blocks=2)
    assert caught.value.__notes__ == ["raised by thread 3 of block 1 of a simulated grid"]
    array = np.zeros(2 * WARP)
    run(k_fail, array, blocks=2)
    assert array.all()


def test_shared_memory_starts_as_garbage_in_each_grid():
    def k_read(found):
        shared = cuda.shared.array(2, np.uint8)
        found[cuda.threadIdx.x] = shared[0]
        cuda.syncthreads()
        shared[0] = 1

    for _ in range(2):
        found = np.zeros(WARP, np.uint8)
        run(k_read, found)
        assert set(found) == {simulator.GARBAGE}


def test_a_grid_that_has_ended_keeps_no_arrays():
    def k_write(array):
        array[cuda.threadIdx.x] = 1

    array = np.zeros(WARP)
    reference = weakref.ref(array)
    run(k_write, array)
    del array
    gc.collect()
    assert reference() is None


def test_each_host_thread_has_its_own_greenlets():
    def k_count(counts):
        cuda.syncthreads()
        counts[cuda.threadIdx.x] += 1

    counts = np.zeros(WARP, np.int64)
    for _ in range(3):
        threads = [threading.Thread(target=run, args=(k_count, counts)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        run(k_count, counts)
        gc.collect()
    assert set(counts) == {12}


def test_a_grid_within_a_grid_leaves_the_outer_one_as_it_was():
    """A handler of signals, or one of garbage, may run in the midst of a kernel."""

    def k_inner(array):
        cuda.syncthreads()
        array[cuda.grid(1)] += 1

    def k_outer(array, places):
        cuda.syncthreads()
        if cuda.threadIdx.x % 10 == 0:
            run(k_inner, array, blocks=3)
        places[cuda.grid(1)] = cuda.blockIdx.x * WARP + cuda.threadIdx.x
        cuda.syncthreads()

    array, places = np.zeros(3 * WARP, np.int64), np.zeros(2 * WARP, np.int64)
    run(k_outer, array, places, blocks=2)
    assert set(array) == {8}
    assert places.tolist() == list(range(2 * WARP))
