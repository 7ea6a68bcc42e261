"""Ranks as Dask workers without GPUs: arrays travel from worker to worker by Dask's own connections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from threading import Condition
from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from dynstore.adapters.libraries import require
from dynstore.distributed import Communicator
from dynstore.distributed.communicator import Reduction
from dynstore.errors import RankError

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = ["DELIVER", "DaskCommunicator"]

DELIVER = "dynstore_deliver"  # the name of the handler on each worker
REDUCTIONS: dict[Reduction, Callable[..., Any]] = {"sum": np.add, "max": np.maximum, "min": np.minimum}


class DaskCommunicator(Communicator):
    """The connection of one Dask worker to those of the other ranks. Arrays are on the host.

    Each collective is an exchange: every rank sends one letter to each other rank, and waits for theirs. Letters are
    sent and received on the worker's event loop; a rank waits in a thread of its own, so the loop stays free.

    Parameters
    ----------
    worker : distributed.Worker
        The worker that this rank is.
    group : str
        The name of the graph; the ranks of another one have another name.
    rank : int
    addresses : sequence of str
        The workers' addresses, in order of the ranks.
    timeout : float
        The most seconds that a call waits for the other ranks.
    """

    device = "cpu"

    def __init__(self, worker: Any, group: str, rank: int, addresses: Sequence[str], timeout: float) -> None:
        self.rank, self.size = rank, len(addresses)
        self._worker, self._group, self._addresses, self._timeout = worker, group, addresses, timeout
        self._turn = 0  # how many exchanges there were
        self._letters: dict[tuple[int, int], tuple[str, Any]] = {}  # by turn and sender
        self._failure: str | None = None
        self._change = Condition()

    # ------------------------------------------------------------------ on the event loop

    def deliver(self, turn: int, sender: int, name: str, value: Any) -> None:
        """Take a letter of another rank."""
        with self._change:
            self._letters[turn, sender] = name, value
            self._change.notify_all()

    async def _send(self, rank: int, **letter: Any) -> None:
        address = self._addresses[rank]
        try:
            await getattr(self._worker.rpc(address), DELIVER)(group=self._group, sender=self.rank, **letter)
        except Exception as error:
            self.interrupt(f"rank {rank} ({address}) cannot be reached: {type(error).__name__}: {error}")

    def interrupt(self, reason: str) -> None:
        """Let this rank's calls raise from now on; any thread may call it."""
        with self._change:
            if self._failure is None:
                self._failure = reason
            self._change.notify_all()

    # ------------------------------------------------------------------ on the rank's thread

    def _exchange(self, name: str, values: Sequence[Any]) -> list[Any]:
        """Give each rank a value; return what each has given."""
        serialized = require("DaskCommunicator", "distributed.protocol").to_serialize
        self._check()
        turn, self._turn = self._turn, self._turn + 1
        others = [rank for rank in range(self.size) if rank != self.rank]
        for rank in others:
            self._worker.loop.add_callback(self._send, rank, turn=turn, name=name, value=serialized(values[rank]))
        came = {self.rank: values[self.rank]}
        end = monotonic() + self._timeout
        with self._change:
            for rank in others:
                while (turn, rank) not in self._letters:
                    self._check()
                    left = end - monotonic()
                    if left <= 0:
                        self._fail(f"{name}: rank {self.rank} has waited {self._timeout:g} s for rank {rank}")
                    self._change.wait(left)
                theirs, came[rank] = self._letters.pop((turn, rank))
                if theirs != name:
                    self._fail(f"rank {self.rank} calls {name}, rank {rank} calls {theirs}; wanted the same calls")
        return [came[rank] for rank in range(self.size)]

    def _check(self) -> None:
        if self._failure is not None:
            raise RankError(self._failure)

    def _fail(self, reason: str) -> NoReturn:
        self.interrupt(reason)
        raise RankError(reason)

    def all_gather(self, value: Any) -> list[Any]:
        return self._exchange("all_gather", [value] * self.size)

    def all_reduce(self, array: Array, operation: Reduction = "sum") -> Array:
        # Each rank reduces one part, in the order of the ranks: all get the same bits.
        parts = self._exchange("all_reduce", np.array_split(array.reshape(-1), self.size))
        reduced = reduce(REDUCTIONS[operation], parts)
        whole: Array = np.concatenate(self._exchange("all_reduce", [reduced] * self.size))
        return whole.reshape(array.shape)

    def all_to_all(self, columns: Sequence[Array], send: Sequence[int], receive: Sequence[int]) -> list[Array]:
        ends = np.cumsum([0, *send])
        rows = [slice(*ends[rank : rank + 2]) for rank in range(self.size)]
        given = self._exchange("all_to_all", [[column[own] for column in columns] for own in rows])
        return [np.concatenate(pieces) for pieces in zip(*given, strict=True)]

    def broadcast(self, array: Array, root: int = 0) -> Array:
        values = [array if self.rank == root else None] * self.size
        return np.array(self._exchange("broadcast", values)[root])

    def abort(self, reason: str) -> NoReturn:
        """End this rank; the client ends the others when it learns of it."""
        self._fail(reason)
