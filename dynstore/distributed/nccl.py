"""Ranks as processes with one GPU each: arrays travel by NCCL, through CuPy's binding.

The processes and their first contact come from the engine that starts them. Rank 0 calls :func:`new_identifier`; the
engine brings it to all others, as ``torch.distributed.broadcast_object_list`` and mpi4py's ``bcast`` do.
"""

from __future__ import annotations

import os
import pickle
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from dynstore.backend import CUDA_INSTALL_LINE
from dynstore.distributed.communicator import Communicator, Reduction
from dynstore.errors import MissingDependencyError, OutOfMemoryError, RankError

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = ["NcclCommunicator", "new_identifier"]

# Lets other threads run for less than a microsecond; a sleep of 0 seconds takes 50 to 110.
_give_way = getattr(os, "sched_yield", lambda: None)
ENVELOPE = 4096  # bytes of a value that travel with its length; longer ones take a second trip
HEAD = 8  # bytes of the length


def new_identifier() -> Any:
    """Return what the processes of one group need to find each other; rank 0 makes it.

    Returns
    -------
    bytes or tuple
        As CuPy has it: small; it can be pickled.

    Raises
    ------
    MissingDependencyError
        Without CuPy or NCCL.
    """
    return _load_nccl("new_identifier")[1].get_unique_id()


def _load_nccl(caller: str) -> tuple[Any, Any]:
    """Return CuPy, and its binding to NCCL."""
    try:
        import cupy

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # CuPy warns; the error below says the same
            from cupy.cuda import nccl
    except ImportError as error:
        raise MissingDependencyError(f"{caller}: CuPy cannot be imported ({error}): {CUDA_INSTALL_LINE}") from error
    if not nccl.available:
        raise MissingDependencyError(
            f"{caller}: CuPy has not found NCCL (libnccl.so.2): pip install nvidia-nccl-cu13, or nvidia-nccl-cu12 for "
            "CUDA 12, or put its folder into LD_LIBRARY_PATH"
        )
    return cupy, nccl


class NcclCommunicator(Communicator):
    """The connection of one process to those of the other ranks. Each process has a GPU of its own.

    Choose the GPU first, for example by ``cupy.cuda.Device(rank).use()``. All calls wait for the GPU. NCCL does not
    notice that another process of the same host has ended. Start the processes with a program that ends all when one
    ends, such as ``torchrun`` or ``mpirun``.

    Parameters
    ----------
    identifier : bytes or tuple
        From :func:`new_identifier` of rank 0.
    rank, size : int
        The number of this process, from 0, and the number of all.
    timeout : float
        The most seconds that a method waits for the other ranks. Making the object waits without a limit.

    Raises
    ------
    MissingDependencyError
        Without CuPy or NCCL.
    """

    device = "cuda"

    def __init__(self, identifier: Any, rank: int, size: int, timeout: float = 60.0) -> None:
        self._cupy, self._nccl = cupy, nccl = _load_nccl("NcclCommunicator")
        self.rank, self.size, self._timeout = rank, size, timeout
        self._comm = nccl.NcclCommunicator(size, identifier, rank)
        self._operations = {"sum": nccl.NCCL_SUM, "max": nccl.NCCL_MAX, "min": nccl.NCCL_MIN}
        self._failure: str | None = None
        # Envelopes go through pinned memory: so the host waits once for the copies and the transfer between them.
        self._sent, self._read = (cupy.cuda.alloc_pinned_memory(count * ENVELOPE) for count in (1, size))
        self._given, self._came = (cupy.empty((count, ENVELOPE), np.uint8) for count in (1, size))
        self._interruption: str | None = None

    def all_gather(self, value: Any) -> list[Any]:
        text = pickle.dumps(value)
        envelope = np.frombuffer(self._sent, np.uint8, ENVELOPE)
        envelope[:HEAD] = np.frombuffer(len(text).to_bytes(HEAD, "little"), np.uint8)
        own = np.frombuffer(text[: ENVELOPE - HEAD], np.uint8)
        envelope[HEAD : HEAD + len(own)] = own
        with self._waiting("all_gather"):
            self._given.data.copy_from_host_async(self._sent.ptr, ENVELOPE)
            self._gather(self._given, self._came)
            self._came.data.copy_to_host_async(self._read.ptr, self.size * ENVELOPE)
        rows = np.frombuffer(self._read, np.uint8, self.size * ENVELOPE).reshape(self.size, ENVELOPE)
        lengths = [int.from_bytes(row[:HEAD].tobytes(), "little") for row in rows]
        most = max(lengths)
        if most <= ENVELOPE - HEAD:
            return [pickle.loads(row[HEAD : HEAD + own].tobytes()) for row, own in zip(rows, lengths, strict=True)]
        letter = np.zeros(most, np.uint8)
        letter[: len(text)] = np.frombuffer(text, np.uint8)
        with self._waiting("all_gather"):
            came = self._cupy.empty((self.size, most), np.uint8)
            self._gather(self._cupy.asarray(letter), came)
        return [pickle.loads(row[:own].tobytes()) for row, own in zip(came.get(), lengths, strict=True)]

    def _gather(self, given: Array, came: Array) -> None:
        """Start the transfer of equally long rows of bytes of all ranks."""
        self._comm.allGather(given.data.ptr, came.data.ptr, given.size, self._nccl.NCCL_UINT8, self._stream())

    def all_reduce(self, array: Array, operation: Reduction = "sum") -> Array:
        kind, how = self._kind(array), self._operations[operation]
        with self._waiting("all_reduce"):
            given = self._cupy.ascontiguousarray(array)
            came = self._cupy.empty_like(given)
            self._comm.allReduce(given.data.ptr, came.data.ptr, given.size, kind, how, self._stream())
        return came

    def all_to_all(self, columns: Sequence[Array], send: Sequence[int], receive: Sequence[int]) -> list[Array]:
        given: list[Array] = []
        came: list[Array] = []
        failed = False
        try:
            given = [self._cupy.ascontiguousarray(column) for column in columns]
            came = [self._cupy.empty(sum(receive), column.dtype) for column in given]
        except MemoryError:
            failed = True
        if any(self.all_gather(failed)):  # all ranks learn of it before any waits for another
            raise OutOfMemoryError("all_to_all: memory ran out on a rank for the rows that come")
        with self._waiting("all_to_all"):
            self._nccl.groupStart()
            try:
                for column, array in zip(given, came, strict=True):
                    self._exchange(self._comm.send, column, send)
                    self._exchange(self._comm.recv, array, receive)
            except BaseException:
                with suppress(Exception):
                    self._nccl.groupEnd()
                raise
            self._nccl.groupEnd()
            start, place = sum(send[: self.rank]), sum(receive[: self.rank])
            for column, array in zip(given, came, strict=True):
                array[place : place + receive[self.rank]] = column[start : start + send[self.rank]]
        return came

    def _exchange(self, transfer: Callable[..., None], array: Array, counts: Sequence[int]) -> None:
        """Start the transfers of one column with all other ranks."""
        place = array.data.ptr
        for rank, count in enumerate(counts):
            nbytes = count * array.itemsize
            if nbytes and rank != self.rank:
                transfer(place, nbytes, self._nccl.NCCL_UINT8, rank, self._stream())
            place += nbytes

    def broadcast(self, array: Array, root: int = 0) -> Array:
        with self._waiting("broadcast"):
            shown = self._cupy.array(array, order="C")
            self._comm.bcast(shown.data.ptr, shown.nbytes, self._nccl.NCCL_UINT8, root, self._stream())
        return shown

    def abort(self, reason: str) -> NoReturn:
        """End this rank. The others end with their processes, or after ``timeout`` seconds."""
        if self._failure is None:
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
            _give_way()


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
