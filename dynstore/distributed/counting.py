"""What collectives carry: a communicator that counts, around any other one."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from dynstore.distributed.communicator import Communicator, Reduction
from dynstore.distributed.nccl import ENVELOPE, HEAD

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = ["OPERATIONS", "CountingCommunicator", "Traffic", "letter_bytes"]

OPERATIONS = ("all_gather", "all_to_all", "all_reduce", "broadcast")


@dataclass(slots=True)
class Traffic:
    """What one rank has brought to collectives of one kind, for other ranks.

    Parameters
    ----------
    calls : int
    messages : int
        ``all_gather``: one for each other rank. ``all_to_all``: one for each column and other rank that gets rows.
        ``all_reduce`` and ``broadcast``: one, the array.
    nbytes : int
        Of these messages. A value of ``all_gather`` counts as in NCCL: an envelope, and its own length if it is longer.
    """

    calls: int = 0
    messages: int = 0
    nbytes: int = 0


def letter_bytes(length: int) -> int:
    """Return the bytes that a pickled value of this length takes in ``all_gather``."""
    return ENVELOPE if length <= ENVELOPE - HEAD else ENVELOPE + length


class CountingCommunicator(Communicator):
    """Does what another communicator does, and counts.

    Parameters
    ----------
    comm : Communicator

    Attributes
    ----------
    counts : dict
        Name of an operation -> :class:`Traffic` of this rank since the last :meth:`reset`.

    Examples
    --------
    >>> from dynstore import distributed
    >>> def program(comm):
    ...     counting = distributed.CountingCommunicator(comm)
    ...     G = distributed.ShardedGraph(counting)
    ...     counting.reset()
    ...     G.insert_edges([(0, 1), (1, 2)])
    ...     return counting.counts["all_gather"].calls
    >>> distributed.run(program, ranks=2, device="cpu")
    [2, 2]
    """

    def __init__(self, comm: Communicator) -> None:
        self._comm, self.rank, self.size, self.device = comm, comm.rank, comm.size, comm.device
        self.reset()

    def reset(self) -> None:
        """Count from 0."""
        self.counts = {name: Traffic() for name in OPERATIONS}

    def _note(self, name: str, messages: int, nbytes: int) -> None:
        traffic = self.counts[name]
        traffic.calls += 1
        if self.size > 1:
            traffic.messages += messages
            traffic.nbytes += nbytes

    def all_gather(self, value: Any) -> list[Any]:
        others = self.size - 1
        self._note("all_gather", others, others * letter_bytes(len(pickle.dumps(value))))
        return self._comm.all_gather(value)

    def all_reduce(self, array: Array, operation: Reduction = "sum") -> Array:
        self._note("all_reduce", 1, array.nbytes)
        return self._comm.all_reduce(array, operation)

    def all_to_all(self, columns: Sequence[Array], send: Sequence[int], receive: Sequence[int]) -> list[Array]:
        goals = [count for rank, count in enumerate(send) if count and rank != self.rank]
        row = sum(column.itemsize for column in columns)
        self._note("all_to_all", len(columns) * len(goals), row * sum(goals))
        return self._comm.all_to_all(columns, send, receive)

    def broadcast(self, array: Array, root: int = 0) -> Array:
        mine = self.rank == root
        self._note("broadcast", int(mine), array.nbytes if mine else 0)
        return self._comm.broadcast(array, root)

    def abort(self, reason: str) -> NoReturn:
        self._comm.abort(reason)
