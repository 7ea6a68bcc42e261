"""What the NCCL communicator makes of NCCL's calls, on a stand-in: threads, and memory of the host."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from functools import reduce
from threading import Timer, local
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dynstore import distributed
from dynstore.distributed import Communicator, NcclCommunicator, new_identifier
from dynstore.errors import MissingDependencyError, OutOfMemoryError, RankError
from tests.distributed.processes import check_collectives, check_graphs, check_pages

STREAM = 7  # stands for CuPy's current stream
# NCCL's numbers, as CuPy has them: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/types.html
DTYPES = {
    "NCCL_INT8": 0, "NCCL_UINT8": 1, "NCCL_INT32": 2, "NCCL_UINT32": 3, "NCCL_INT64": 4, "NCCL_UINT64": 5,
    "NCCL_FLOAT16": 6, "NCCL_FLOAT32": 7, "NCCL_FLOAT64": 8,
}  # fmt: skip
NUMPY = {number: np.dtype(name.removeprefix("NCCL_").lower()) for name, number in DTYPES.items()}
FUNCTIONS = {0: np.add, 2: np.maximum, 3: np.minimum}
OPERATIONS = {"NCCL_SUM": 0, "NCCL_MAX": 2, "NCCL_MIN": 3}
here = local()


class Pointer:
    """Where an array begins, as CuPy's arrays say it."""

    def __init__(self, place: int, size: int) -> None:
        self.ptr, self.size = place, size

    def copy_from_host_async(self, place: int, size: int) -> None:
        assert type(place) is int
        assert 0 < size <= self.size
        ctypes.memmove(self.ptr, place, size)

    def copy_to_host_async(self, place: int, size: int) -> None:
        assert type(place) is int
        assert 0 < size <= self.size
        ctypes.memmove(place, self.ptr, size)


class Memory(np.ndarray):
    """An array that says where it is, as CuPy's do."""

    @property
    def data(self) -> Any:
        return Pointer(self.ctypes.data, self.nbytes)

    def get(self) -> np.ndarray:
        return np.array(self)


class Pinned(bytearray):
    """Memory of the host, as CuPy allocates it for copies."""

    @property
    def ptr(self) -> int:
        return ctypes.addressof((ctypes.c_char * len(self)).from_buffer(self))


def memory(values: Any, *args: Any, **kwargs: Any) -> Any:
    return np.array(values, *args, **kwargs).view(Memory)


def check_call(places: Sequence[int], count: int, kind: int, stream: int) -> np.dtype:
    """Check what NCCL checks of all calls; return the dtype."""
    assert all(type(place) is int for place in places)
    assert type(count) is int
    assert count >= 0
    assert all(places) or count == 0
    assert type(kind) is int
    assert stream == STREAM
    return NUMPY[kind]


class Nccl:
    """NCCL's communicator, over the threads' own. It refuses what NCCL does, and calls outside of their group."""

    def __init__(self, size: int, identifier: Any, rank: int) -> None:
        assert type(size) is int
        assert type(rank) is int
        assert 0 <= rank < size
        assert type(identifier) is bytes
        assert len(identifier) == 128
        self.comm, self.rank, self.size = here.comm, rank, size
        here.sent, here.wanted, here.grouped = {}, [], False

    def _show(self, place: int, size: int) -> list[bytes]:
        assert not here.grouped
        return self.comm.all_gather(ctypes.string_at(place, size))

    def allGather(self, given: int, came: int, count: int, kind: int, stream: int) -> None:  # noqa: N802
        rows = b"".join(self._show(given, count * check_call((given, came), count, kind, stream).itemsize))
        ctypes.memmove(came, rows, len(rows))

    def allReduce(self, given: int, came: int, count: int, kind: int, how: int, stream: int) -> None:  # noqa: N802
        dtype = check_call((given, came), count, kind, stream)
        rows = [np.frombuffer(row, dtype) for row in self._show(given, count * dtype.itemsize)]
        total = reduce(FUNCTIONS[how], rows).tobytes()
        ctypes.memmove(came, total, len(total))

    def bcast(self, place: int, count: int, kind: int, root: int, stream: int) -> None:
        assert type(root) is int
        assert 0 <= root < self.size
        nbytes = count * check_call((place,), count, kind, stream).itemsize
        ctypes.memmove(place, self._show(place, nbytes)[root], nbytes)

    def send(self, place: int, count: int, kind: int, peer: int, stream: int) -> None:
        self._check_peer(place, count, kind, peer, stream)
        here.sent.setdefault(peer, []).append(ctypes.string_at(place, count))

    def recv(self, place: int, count: int, kind: int, peer: int, stream: int) -> None:
        self._check_peer(place, count, kind, peer, stream)
        here.wanted.append((place, count, peer))

    def _check_peer(self, place: int, count: int, kind: int, peer: int, stream: int) -> None:
        assert here.grouped  # alone, two ranks that both send first wait for each other for ever
        assert type(peer) is int
        assert 0 <= peer < self.size
        assert peer != self.rank
        assert count > 0
        assert check_call((place,), count, kind, stream) == np.uint8

    def check_async_error(self) -> None:
        pass

    def abort(self) -> None:
        assert not here.grouped
        assert not here.aborted  # NCCL's communicator is gone then
        here.aborted = True


def start_group() -> None:
    assert not here.grouped
    here.grouped = True


def end_group() -> None:
    """Bring each message of the group to where it is wanted, in the order of each pair of ranks."""
    assert here.grouped
    here.grouped = False
    boxes = [iter(sent.get(here.comm.rank, [])) for sent in here.comm.all_gather(here.sent)]
    for place, count, peer in here.wanted:
        message = next(boxes[peer])
        assert len(message) == count
        ctypes.memmove(place, message, count)
    assert not any(list(box) for box in boxes)
    here.sent, here.wanted = {}, []


class Event:
    done = True

    def __init__(self, disable_timing: bool) -> None:
        pass

    def record(self) -> None:
        pass


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put the stand-ins in the places of CuPy and its NCCL."""
    module, cuda, nccl = ModuleType("cupy"), ModuleType("cupy.cuda"), ModuleType("cupy.cuda.nccl")
    module.__dict__.update(
        cuda=cuda,
        array=memory,
        asarray=memory,
        ascontiguousarray=memory,
        empty=lambda *args: memory(np.empty(*args)),
        empty_like=lambda array: memory(np.empty_like(array)),
    )
    stream = SimpleNamespace(ptr=STREAM)
    cuda.__dict__.update(nccl=nccl, Event=Event, get_current_stream=lambda: stream, alloc_pinned_memory=Pinned)
    nccl.__dict__.update(
        available=True, get_unique_id=lambda: bytes(128), NcclCommunicator=Nccl, groupStart=start_group,
        groupEnd=end_group, **DTYPES, **OPERATIONS,
    )  # fmt: skip
    for name, each in (("cupy", module), ("cupy.cuda", cuda), ("cupy.cuda.nccl", nccl)):
        monkeypatch.setitem(sys.modules, name, each)
    return module


def on_threads(comm: Communicator, timeout: float = 20.0) -> NcclCommunicator:
    here.comm, here.aborted = comm, False
    found = NcclCommunicator(new_identifier(), comm.rank, comm.size, timeout)
    found.device = "cpu"
    return found


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_collectives(cupy: Any, ranks: int) -> None:
    distributed.run(lambda comm: check_collectives(on_threads(comm)), ranks=ranks, device="cpu")


def test_sharded_graphs(cupy: Any) -> None:
    distributed.run(lambda comm: check_graphs(on_threads(comm)), ranks=2, device="cpu")


def test_streamed_pages(cupy: Any) -> None:
    distributed.run(lambda comm: check_pages(on_threads(comm)), ranks=2, device="cpu")


def test_memory_that_runs_out_on_one_rank(cupy: Any) -> None:
    def program(comm: Communicator) -> None:
        found, numbers = on_threads(comm), np.arange(2)
        sends: Sequence[int] = [1, 1]
        if comm.rank:

            def empty(shape: Any, dtype: Any) -> Any:
                if dtype == np.int64:
                    raise MemoryError
                return cupy.empty(shape, dtype)

            found._cupy = SimpleNamespace(**{**cupy.__dict__, "empty": empty})

        with pytest.raises(OutOfMemoryError, match="memory ran out on a rank for the rows that come"):
            found.all_to_all([numbers], sends, sends)
        comm.barrier()

    distributed.run(program, ranks=2, device="cpu")


def test_a_rank_that_waits_too_long_gives_up(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def program(comm: Communicator) -> None:
        found = on_threads(comm, timeout=0.05)
        monkeypatch.setattr(Event, "done", False)
        for _ in range(2):
            with pytest.raises(RankError, match=r"all_gather: rank 0 has waited 0\.05 s for the other ranks"):
                found.barrier()
        assert here.aborted

    distributed.run(program, ranks=1, device="cpu")


def test_another_thread_interrupts_a_rank(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def program(comm: Communicator) -> None:
        found = on_threads(comm)
        monkeypatch.setattr(Event, "done", False)
        timer = Timer(0.1, found.interrupt, ["rank 7 is lost"])
        timer.start()
        for _ in range(2):
            with pytest.raises(RankError, match="rank 7 is lost"):
                found.barrier()
        assert here.aborted
        with pytest.raises(RankError, match="the graph has ended"):
            found.abort("the graph has ended")
        here.aborted = False
        other = on_threads(comm)
        other.interrupt("before a call")
        with pytest.raises(RankError, match="before a call"):
            other.all_reduce(np.zeros(3))
        assert here.aborted

    distributed.run(program, ranks=1, device="cpu")


def test_what_nccl_raises_ends_the_rank(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Nccl, *args: Any) -> None:
        raise RuntimeError("NCCL_ERROR_UNHANDLED_CUDA_ERROR")

    monkeypatch.setattr(Nccl, "allReduce", fail)
    with pytest.raises(RankError, match="all_reduce: rank 0: RuntimeError: NCCL_ERROR_UNHANDLED_CUDA_ERROR"):
        distributed.run(lambda comm: on_threads(comm).all_reduce(np.zeros(3)), ranks=1, device="cpu")


def test_a_transfer_that_fails_ends_its_group(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Nccl, *args: Any) -> None:
        raise RuntimeError("NCCL_ERROR_INVALID_ARGUMENT")

    def program(comm: Communicator) -> None:
        with pytest.raises(RankError, match=r"all_to_all: rank \d: RuntimeError: NCCL_ERROR_INVALID_ARGUMENT"):
            on_threads(comm).all_to_all([np.arange(2)], [1, 1], [1, 1])
        assert here.aborted

    monkeypatch.setattr(Nccl, "send", fail)
    distributed.run(program, ranks=2, device="cpu")


def test_cupy_without_nccl(cupy: Any) -> None:
    cupy.cuda.nccl.available = False
    with pytest.raises(MissingDependencyError, match=r"CuPy has not found NCCL \(libnccl.so.2\): pip install nvidia"):
        new_identifier()
