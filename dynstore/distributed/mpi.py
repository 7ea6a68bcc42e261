"""Ranks as processes that ``mpirun`` starts, on hosts: arrays travel by MPI."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from dynstore.distributed.communicator import Communicator, Reduction
from dynstore.errors import MissingDependencyError, RankError

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = ["MpiCommunicator"]


class MpiCommunicator(Communicator):
    """The connection of one process to those of the other ranks, by mpi4py. Arrays are on the host.

    Start programs by ``mpirun -n 4 python -m mpi4py program.py``: then a rank that raises ends all others.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm, optional
        By default all processes that ``mpirun`` has started. It is duplicated, so its other users are not disturbed.

    Raises
    ------
    MissingDependencyError
        If mpi4py is not installed.
    """

    device = "cpu"

    def __init__(self, comm: Any = None) -> None:
        try:
            from mpi4py import MPI
        except ImportError as error:
            raise MissingDependencyError(
                "MpiCommunicator: mpi4py is not installed: pip install 'dynstore[mpi]'"
            ) from error
        self._comm = (MPI.COMM_WORLD if comm is None else comm).Dup()
        self._operations = {"sum": MPI.SUM, "max": MPI.MAX, "min": MPI.MIN}
        self.rank, self.size = self._comm.Get_rank(), self._comm.Get_size()

    def part(self, size: int) -> MpiCommunicator | None:
        """Return the connection of the first ``size`` ranks to each other; None on all others. All ranks call it."""
        smaller = self._comm.Split(int(self.rank >= size), self.rank)
        return MpiCommunicator(smaller) if self.rank < size else None

    def alone(self) -> MpiCommunicator:
        """Return the connection of this rank to itself. All ranks call it."""
        return MpiCommunicator(self._comm.Split(self.rank, 0))

    def all_gather(self, value: Any) -> list[Any]:
        found: list[Any] = self._comm.allgather(value)
        return found

    def all_reduce(self, array: Array, operation: Reduction = "sum") -> Array:
        # All ranks need the same bits. MPI's own call for all may add in another order on each.
        reduced = np.empty(array.shape, array.dtype)
        self._comm.Reduce(np.ascontiguousarray(array), reduced, self._operations[operation], 0)
        self._comm.Bcast(reduced, 0)
        return reduced

    def all_to_all(self, columns: Sequence[Array], send: Sequence[int], receive: Sequence[int]) -> list[Array]:
        came = [np.empty(sum(receive), column.dtype) for column in columns]
        for column, array in zip(columns, came, strict=True):
            self._comm.Alltoallv((np.ascontiguousarray(column), send), (array, receive))
        return came

    def broadcast(self, array: Array, root: int = 0) -> Array:
        shown = np.array(array)
        self._comm.Bcast(shown, root)
        return shown

    def abort(self, reason: str) -> NoReturn:
        print(f"dynstore: rank {self.rank} ends the program of all ranks: {reason}", file=sys.stderr, flush=True)
        self._comm.Abort(1)
        raise RankError(reason)
