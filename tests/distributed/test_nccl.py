"""What the NCCL communicator makes of NCCL's calls, on a stand-in: threads, and memory of the host."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from functools import reduce
from threading import local
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dynstore import distributed
from dynstore.distributed import Communicator, NcclCommunicator
from dynstore.errors import OutOfMemoryError, RankError
from tests.distributed.processes import check_collectives, check_pages

DTYPES = {"NCCL_UINT8": "u1", "NCCL_INT32": "i4", "NCCL_INT64": "i8", "NCCL_FLOAT32": "f4", "NCCL_FLOAT64": "f8"}
OPERATIONS = {"NCCL_SUM": np.add, "NCCL_MAX": np.maximum, "NCCL_MIN": np.minimum}
here = local()


class Memory(np.ndarray):
    """An array that says where it is, as CuPy's do."""

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.ctypes.data)

    def get(self) -> np.ndarray:
        return np.array(self)


def memory(values: Any, *args: Any, **kwargs: Any) -> Any:
    return np.array(values, *args, **kwargs).view(Memory)


class Nccl:
    """NCCL's communicator, over the threads' own."""

    def __init__(self, size: int, identifier: Any, rank: int) -> None:
        self.comm, self.rank, self.size = here.comm, rank, size
        here.sent, here.wanted = {}, []

    def _show(self, place: int, size: int) -> list[bytes]:
        return self.comm.all_gather(ctypes.string_at(place, size))

    def allGather(self, given: int, came: int, count: int, kind: str, stream: int) -> None:  # noqa: N802
        rows = b"".join(self._show(given, count))
        ctypes.memmove(came, rows, len(rows))

    def allReduce(self, given: int, came: int, count: int, kind: str, how: Any, stream: int) -> None:  # noqa: N802
        rows = [np.frombuffer(row, kind) for row in self._show(given, count * np.dtype(kind).itemsize)]
        total = reduce(how, rows).tobytes()
        ctypes.memmove(came, total, len(total))

    def bcast(self, place: int, count: int, kind: str, root: int, stream: int) -> None:
        ctypes.memmove(place, self._show(place, count)[root], count)

    def send(self, place: int, count: int, kind: str, peer: int, stream: int) -> None:
        here.sent.setdefault(peer, []).append(ctypes.string_at(place, count))

    def recv(self, place: int, count: int, kind: str, peer: int, stream: int) -> None:
        here.wanted.append((place, count, peer))

    def check_async_error(self) -> None:
        pass

    def abort(self) -> None:
        here.aborted = True


def end_group() -> None:
    """Bring each message of the group to where it is wanted, in the order of each pair of ranks."""
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
    cuda.__dict__.update(nccl=nccl, Event=Event, get_current_stream=lambda: SimpleNamespace(ptr=0))
    nccl.__dict__.update(NcclCommunicator=Nccl, groupStart=lambda: None, groupEnd=end_group, **DTYPES, **OPERATIONS)
    for name, each in (("cupy", module), ("cupy.cuda", cuda), ("cupy.cuda.nccl", nccl)):
        monkeypatch.setitem(sys.modules, name, each)
    return module


def on_threads(comm: Communicator, timeout: float = 20.0) -> NcclCommunicator:
    here.comm, here.aborted = comm, False
    found = NcclCommunicator((), comm.rank, comm.size, timeout)
    found.device = "cpu"
    return found


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_collectives(cupy: Any, ranks: int) -> None:
    distributed.run(lambda comm: check_collectives(on_threads(comm)), ranks=ranks, device="cpu")


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


def test_what_nccl_raises_ends_the_rank(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Nccl, *args: Any) -> None:
        raise RuntimeError("NCCL_ERROR_UNHANDLED_CUDA_ERROR")

    monkeypatch.setattr(Nccl, "allReduce", fail)
    with pytest.raises(RankError, match="all_reduce: rank 0: RuntimeError: NCCL_ERROR_UNHANDLED_CUDA_ERROR"):
        distributed.run(lambda comm: on_threads(comm).all_reduce(np.zeros(3)), ranks=1, device="cpu")
