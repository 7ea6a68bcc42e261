"""Ranks as threads of one process: for tests, for trying out, and for the host's own cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Condition, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np

from dynstore.arguments import check_count, check_integer, check_number
from dynstore.backend import get_backend
from dynstore.distributed.communicator import Communicator, Reduction
from dynstore.errors import InputError, InputTypeError, RankError, type_name

if TYPE_CHECKING:
    from dynstore.typing import Array, Device

__all__ = ["ThreadCommunicator", "run"]

Result = TypeVar("Result")
GRACE = 5.0  # seconds that ranks have to end once one has failed


class _Meeting:
    """One collective call: who has come, to which method, with what."""

    def __init__(self) -> None:
        self.values: dict[int, Any] = {}
        self.names: dict[int, str] = {}
        self.read = 0


class _Room:
    """Where the threads meet.

    Parameters
    ----------
    size : int
        Ranks.
    timeout : float
        The longest time, in seconds, that a rank waits for the others.

    Attributes
    ----------
    failure : str or None
        Why all calls raise from now on.
    failed : int or None
        The rank whose error that is.
    """

    def __init__(self, size: int, timeout: float) -> None:
        self.size, self.timeout = size, timeout
        self.failure: str | None = None
        self.failed: int | None = None
        self._turns = [0] * size  # how many calls each rank has made
        self._meetings: dict[int, _Meeting] = {}  # by turn
        self._ended: set[int] = set()
        self._change = Condition()

    def meet(self, rank: int, name: str, value: Any) -> list[Any]:
        """Wait until all ranks are here for the same call; return their values."""
        with self._change:
            self._check()
            turn = self._turns[rank]
            self._turns[rank] += 1
            meeting = self._meetings.setdefault(turn, _Meeting())
            meeting.values[rank], meeting.names[rank] = value, name
            self._change.notify_all()
            self._wait(meeting, rank, name)
            meeting.read += 1
            if meeting.read == self.size:
                del self._meetings[turn]
            other = next((each for each in meeting.names if meeting.names[each] != name), None)
            if other is not None:
                low, high = sorted((rank, other))
                names = meeting.names
                self._fail(f"rank {low} calls {names[low]}, rank {high} calls {names[high]}; wanted the same calls")
        return [meeting.values[each] for each in range(self.size)]

    def _wait(self, meeting: _Meeting, rank: int, name: str) -> None:
        end = monotonic() + self.timeout
        while len(meeting.values) < self.size:
            self._check()
            missing = [each for each in range(self.size) if each not in meeting.values]
            ended = [each for each in missing if each in self._ended]
            if ended:
                self._fail(f"{name}: rank {ended[0]} has ended, and rank {rank} waits for it")
            left = end - monotonic()
            if left <= 0:
                ranks = ", ".join(map(str, missing))
                self._fail(f"{name}: rank {rank} has waited {self.timeout:g} s for these ranks: {ranks}")
            self._change.wait(left)

    def _check(self) -> None:
        if self.failure is not None:
            raise RankError(self.failure)

    def _fail(self, reason: str) -> NoReturn:
        if self.failure is None:
            self.failure = reason
            self._change.notify_all()
        raise RankError(self.failure)

    def fail(self, reason: str, rank: int | None = None) -> NoReturn:
        """Let all calls raise from now on."""
        with self._change:
            if self.failure is None:
                self.failed = rank
            self._fail(reason)

    def leave(self, rank: int) -> None:
        """Note that a rank's function has ended."""
        with self._change:
            self._ended.add(rank)
            self._change.notify_all()

    def wait_for_end(self) -> list[int]:
        """Wait until all ranks have ended, or one has failed and the others had time to; return those that have not."""
        with self._change:
            self._change.wait_for(lambda: len(self._ended) == self.size or self.failure is not None)
            self._change.wait_for(lambda: len(self._ended) == self.size, GRACE)
            return [rank for rank in range(self.size) if rank not in self._ended]


class ThreadCommunicator(Communicator):
    """The connection of one thread to those of the other ranks; :func:`run` makes it."""

    def __init__(self, room: _Room, rank: int, device: str) -> None:
        self._room, self.rank, self.size, self.device = room, rank, room.size, device
        self._xp = get_backend(device).xp

    def alone(self) -> ThreadCommunicator:
        """Return the connection of this rank to itself."""
        return ThreadCommunicator(_Room(1, self._room.timeout), 0, self.device)

    def all_gather(self, value: Any) -> list[Any]:
        return self._room.meet(self.rank, "all_gather", value)

    def all_reduce(self, array: Array, operation: Reduction = "sum") -> Array:
        combine = {"sum": np.add, "max": np.maximum, "min": np.minimum}[operation]
        given, total = array.copy(), array.copy()
        arrays = self._room.meet(self.rank, "all_reduce", given)
        total[...] = arrays[0]  # nothing is allocated any more: what fails here on one rank no other one would know
        for other in arrays[1:]:
            combine(total, other, out=total)
        return total

    def all_to_all(self, columns: Sequence[Array], send: Sequence[int], receive: Sequence[int]) -> list[Array]:
        given = self._room.meet(self.rank, "all_to_all", (columns, np.cumsum([0, *send])))
        rows = [slice(ends[self.rank], ends[self.rank + 1]) for _, ends in given]
        parts = [[column[own] for column in sent] for (sent, _), own in zip(given, rows, strict=True)]
        return [self._xp.concatenate(pieces) for pieces in zip(*parts, strict=True)]

    def broadcast(self, array: Array, root: int = 0) -> Array:
        return self._room.meet(self.rank, "broadcast", array.copy() if self.rank == root else None)[root].copy()

    def abort(self, reason: str) -> NoReturn:
        self._room.fail(reason, self.rank)


def run(
    function: Callable[[Communicator], Result], ranks: int = 4, device: Device = "auto", timeout: float = 60.0
) -> list[Result]:
    """Call a function in several threads, each one a rank, and return their results.

    Parameters
    ----------
    function : callable
        It gets the :class:`Communicator` of its rank.
    ranks : int
        The number of threads.
    device : {"auto", "cpu", "cuda"}
        Where all of them keep their arrays. Threads share one GPU.
    timeout : float
        The most seconds that a rank waits for the others in one call.

    Returns
    -------
    list
        What the function has returned, in order of the ranks.

    Raises
    ------
    RankError
        If one rank raised. The message names the rank; the rank's own error is the cause. All others stop at their next
        call of all ranks.

    Examples
    --------
    >>> from dynstore import distributed
    >>> distributed.run(lambda comm: sum(comm.all_gather(comm.rank)), ranks=3, device="cpu")
    [3, 3, 3]
    """
    if not callable(function):
        raise InputTypeError(f"run: function is a {type_name(function)}; wanted a function of a Communicator")
    check_count("run", "ranks", check_integer("run", "ranks", ranks), least=1)
    if check_number("run", "timeout", timeout) <= 0:
        raise InputError(f"run: timeout is {timeout}; wanted more than 0 seconds")
    room, device_name = _Room(ranks, timeout), get_backend(device).name
    results: dict[int, Result] = {}
    errors: dict[int, BaseException] = {}

    def work(rank: int) -> None:
        try:
            results[rank] = function(ThreadCommunicator(room, rank, device_name))
        except BaseException as error:
            errors[rank] = error
            _note(room, rank, error)
        finally:
            room.leave(rank)

    threads = [Thread(target=work, args=(rank,), name=f"rank {rank}", daemon=True) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    try:
        late = room.wait_for_end()
    except BaseException as error:  # Ctrl-C
        _note(room, None, error)
        raise
    if room.failure is not None:
        still = f"; still at work: rank {', '.join(map(str, late))}" if late else ""
        raise RankError(f"run: {room.failure}{still}") from errors.get(-1 if room.failed is None else room.failed)
    return [results[rank] for rank in range(ranks)]


def _note(room: _Room, rank: int | None, error: BaseException) -> None:
    """Let the other ranks know of an error; for one that repeats another rank's, of that."""
    text = f"{type(error).__name__}: {error}"
    rank, text = getattr(error, "origin", (rank, text))
    who = "the caller" if rank is None else f"rank {rank}"
    with suppress(RankError):
        room.fail(f"{who} raised {text}", rank)
