"""Ranks as processes with one GPU each: arrays travel by NCCL, through CuPy's binding.

The processes and their first contact come from the engine that starts them. Rank 0 calls :func:`new_identifier`; the
engine brings it to all others, as ``torch.distributed.broadcast_object_list`` and mpi4py's ``bcast`` do.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from dynstore.distributed.communicator import Communicator, Reduction
from dynstore.errors import OutOfMemoryError, RankError

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = ["NcclCommunicator", "new_identifier"]

ENVELOPE = 4096  # bytes of a value that travel with its length; longer ones take a second trip
HEAD = 8  # bytes of the length


def new_identifier() -> tuple[Any, ...]:
    """Return what the processes of one group need to find each other; rank 0 makes it.

    Returns
    -------
    tuple
        Small; it can be pickled.
    """
    from cupy.cuda import nccl

    identifier: tuple[Any, ...] = nccl.get_unique_id()
    return identifier


class NcclCommunicator(Communicator):
    """The connection of one process to those of the other ranks, each of which has a GPU of its own.

    Choose the GPU before, as ``cupy.cuda.Device(rank).use()`` does. All calls wait for the GPU.

    Parameters
    ----------
    identifier : tuple
        From :func:`new_identifier` of rank 0.
    rank, size : int
        The number of this process, from 0, and the number of all.
    timeout : float
        The most seconds that a call waits for the other ranks.
    """

    device = "cuda"

    def __init__(self, identifier: tuple[Any, ...], rank: int, size: int, timeout: float = 60.0) -> None:
        import cupy
        from cupy.cuda import nccl

        self.rank, self.size, self._timeout = rank, size, timeout
        self._cupy, self._nccl = cupy, nccl
        self._comm = nccl.NcclCommunicator(size, identifier, rank)
        self._operations = {"sum": nccl.NCCL_SUM, "max": nccl.NCCL_MAX, "min": nccl.NCCL_MIN}
        self._failure: str | None = None
        self._interruption: str | None = None

    def all_gather(self, value: Any) -> list[Any]:
        text = pickle.dumps(value)
        envelope = np.zeros(ENVELOPE, np.uint8)
        envelope[:HEAD] = np.frombuffer(len(text).to_bytes(HEAD, "little"), np.uint8)
        envelope[HEAD : HEAD + len(text)] = np.frombuffer(text[: ENVELOPE - HEAD], np.uint8)
        rows = self._gather_bytes("all_gather", envelope)
        lengths = [int.from_bytes(row[:HEAD].tobytes(), "little") for row in rows]
        most = max(lengths)
        if most <= ENVELOPE - HEAD:
            return [pickle.loads(row[HEAD : HEAD + own].tobytes()) for row, own in zip(rows, lengths, strict=True)]
        letter = np.zeros(most, np.uint8)
        letter[: len(text)] = np.frombuffer(text, np.uint8)
        rows = self._gather_bytes("all_gather", letter)
        return [pickle.loads(row[:own].tobytes()) for row, own in zip(rows, lengths, strict=True)]

    def _gather_bytes(self, name: str, own: np.ndarray) -> np.ndarray:
        """Return equally long rows of bytes of all ranks, shape (``size``, N)."""
        given = self._cupy.asarray(own)
        came = self._cupy.empty((self.size, own.shape[0]), np.uint8)
        with self._waiting(name):
            self._comm.allGather(given.data.ptr, came.data.ptr, own.shape[0], self._nccl.NCCL_UINT8, self._stream())
        rows: np.ndarray = came.get()
        return rows

    def all_reduce(self, array: Array, operation: Reduction = "sum") -> Array:
        given = self._cupy.ascontiguousarray(array)
        came = self._cupy.empty_like(given)
        kind, how = self._kind(given), self._operations[operation]
        with self._waiting("all_reduce"):
            self._comm.allReduce(given.data.ptr, came.data.ptr, given.size, kind, how, self._stream())
        return came

    def all_to_all(self, columns: Sequence[Array], send: Sequence[int], receive: Sequence[int]) -> list[Array]:
        given = [self._cupy.ascontiguousarray(column) for column in columns]
        came, failed = [], False
        try:
            came = [self._cupy.empty(sum(receive), column.dtype) for column in given]
        except MemoryError:
            failed = True
        if any(self.all_gather(failed)):  # all ranks learn of it before any waits for another
            raise OutOfMemoryError("all_to_all: memory ran out on a rank for the rows that come")
        with self._waiting("all_to_all"):
            self._nccl.groupStart()
            for column, array in zip(given, came, strict=True):
                self._exchange(self._comm.send, column, send)
                self._exchange(self._comm.recv, array, receive)
            self._nccl.groupEnd()
        return came

    def _exchange(self, transfer: Callable[..., None], array: Array, counts: Sequence[int]) -> None:
        """Start the transfers of one column with all ranks."""
        place = array.data.ptr
        for rank, count in enumerate(counts):
            size = count * array.itemsize
            if size:
                transfer(place, size, self._nccl.NCCL_UINT8, rank, self._stream())
            place += size

    def broadcast(self, array: Array, root: int = 0) -> Array:
        shown = self._cupy.array(array, order="C")
        with self._waiting("broadcast"):
            self._comm.bcast(shown.data.ptr, shown.nbytes, self._nccl.NCCL_UINT8, root, self._stream())
        return shown

    def abort(self, reason: str) -> NoReturn:
        """End this rank. The others end when NCCL notices, or after ``timeout`` seconds."""
        self._failure = reason
        self._comm.abort()
        raise RankError(reason)

    def interrupt(self, reason: str) -> None:
        """Let this rank's calls raise, the current one, too; any thread may call it."""
        self._interruption = reason

    def _stream(self) -> int:
        pointer: int = self._cupy.cuda.get_current_stream().ptr
        return pointer

    def _kind(self, array: Array) -> int:
        kind: int = getattr(self._nccl, f"NCCL_{array.dtype.name.upper()}")
        return kind

    def _waiting(self, name: str) -> _Waiting:
        if self._failure is not None:
            raise RankError(self._failure)
        if self._interruption is not None:
            self.abort(self._interruption)
        return _Waiting(self, name)

    def wait(self, name: str) -> None:
        """Wait for what was started on the current stream, but not for ever."""
        event = self._cupy.cuda.Event(disable_timing=True)
        event.record()
        end = monotonic() + self._timeout
        while not event.done:
            self._comm.check_async_error()
            if self._interruption is not None:
                self.abort(self._interruption)
            if monotonic() > end:
                self.abort(f"{name}: rank {self.rank} has waited {self._timeout:g} s for the other ranks")
            sleep(0)


class _Waiting:
    """A ``with`` block that starts NCCL's work, and waits for it at its end; what fails there is the group's end."""

    def __init__(self, comm: NcclCommunicator, name: str) -> None:
        self._comm, self._name = comm, name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is None:
                self._comm.wait(self._name)
        except RankError:
            raise
        except Exception as failure:
            error = failure
        if isinstance(error, Exception):
            self._comm.abort(f"{self._name}: rank {self._comm.rank}: {type(error).__name__}: {error}")
