"""One call of all ranks: steps that each does for itself, with agreements between them."""

from __future__ import annotations

from collections.abc import Sequence
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from dynstore import errors
from dynstore.errors import DynstoreError, InputError, OutOfMemoryError, RankError

if TYPE_CHECKING:
    from dynstore.distributed.communicator import Communicator, Reduction
    from dynstore.typing import Array

__all__ = ["Collective"]


class _Ballot(NamedTuple):
    """What a rank brings to an agreement: what all need from it, or its error.

    Attributes
    ----------
    alike : dict
        Arguments of its call that are to be the same on all ranks.
    kind, name, text : str
        Which error of ours others are to raise, what the rank has raised, and its message.
    """

    caller: str
    alike: dict[str, Any]
    value: Any = None
    kind: str = ""
    name: str = ""
    text: str = ""


class _RefusedError(Exception):
    """Another rank has refused; it becomes an error of the same kind where the call ends."""

    def __init__(self, rank: int, ballot: _Ballot) -> None:
        self.rank, self.ballot = rank, ballot


class Collective:
    """A ``with`` block in which all ranks do the same.

    Between two agreements a rank may raise. The others learn of it at their next agreement, where they raise, too: an
    error of the same kind that names the rank. So nothing may fail between an agreement and a transfer of arrays, and
    :meth:`all_to_all` and :meth:`all_reduce` begin with an agreement. A block that does not write ends with one, too.

    A rank that does two calls at once, in two threads, would mix up their agreements: the second one is refused.

    Parameters
    ----------
    comm : Communicator
    caller : str
        The public call, for messages.
    """

    def __init__(self, comm: Communicator, caller: str) -> None:
        self.comm, self.caller = comm, caller
        self._writes = False
        self._alike: dict[str, Any] = {}

    def expect_alike(self, **arguments: Any) -> None:
        """Have the next agreement compare arguments of the call: all ranks raise if they differ.

        Parameters
        ----------
        **arguments
            Small, on the host.
        """
        self._alike = arguments

    def agree(self, value: Any = None) -> list[Any]:
        """Return what all ranks bring, in order of the ranks, if none has failed.

        Parameters
        ----------
        value
            Small, on the host.
        """
        alike, self._alike = self._alike, {}
        ballots = self.comm.all_gather(_Ballot(self.caller, alike, value))
        for rank, ballot in enumerate(ballots):
            if ballot.caller != self.caller:
                calls = f"rank {self.comm.rank} calls {self.caller}, rank {rank} calls {ballot.caller}"
                raise RankError(f"{calls}; wanted the same call of all ranks")
        for rank, ballot in enumerate(ballots):
            if ballot.kind:
                raise _RefusedError(rank, ballot)
        for rank, ballot in enumerate(ballots):
            _refuse_different(self.caller, ballots[0].alike, rank, ballot.alike)
        return [ballot.value for ballot in ballots]

    def agree_to_write(self, value: Any = None) -> list[Any]:
        """Agree; what fails from here on on one rank ends the program of all, as the others have written."""
        agreed = self.agree(value)
        self._writes = True
        return agreed

    def all_reduce(self, array: Array, operation: Reduction = "sum") -> Array:
        """Agree, and return what :meth:`Communicator.all_reduce` does."""
        self.agree()
        return self.comm.all_reduce(array, operation)

    def all_to_all(self, columns: Sequence[Array], send: Sequence[int]) -> tuple[list[Array], list[int]]:
        """Agree, and exchange rows of columns, those for rank 0 first.

        Returns
        -------
        columns : list of arrays
            The rows that came, those of rank 0 first.
        receive : list of int
            How many came from each rank.
        """
        receive = [sent[self.comm.rank] for sent in self.agree(list(send))]
        return self.comm.all_to_all(columns, send, receive), receive

    def __enter__(self) -> Collective:
        state = vars(self.comm)
        lock: Any = state.setdefault("_call_lock", RLock())  # one step, also if two threads do it
        if not lock.acquire(blocking=False):
            raise RankError(
                f"{self.caller}: another thread of rank {self.comm.rank} is in {state.get('_call', 'a call')}; wanted "
                "one call at a time, in the same order on all ranks"
            )
        self._lock, state["_call"] = lock, self.caller
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self._end(error)
        finally:
            self._lock.release()

    def _end(self, error: BaseException | None) -> None:
        if error is None and not self._writes:
            try:
                self.agree()
            except _RefusedError as refused:
                error = refused
        if error is None or isinstance(error, RankError):
            return
        if isinstance(error, _RefusedError) and not self._writes:
            raise _repeated(self.caller, error.rank, error.ballot) from None
        if self._writes or not isinstance(error, Exception):
            state = "; the graph's parts differ" if self._writes else ""
            self.comm.abort(f"{self.caller}: rank {self.comm.rank} raised {type(error).__name__}: {error}{state}")
        self.comm.all_gather(_Ballot(self.caller, {}, None, _kind(error), type(error).__name__, str(error)))


def _refuse_different(caller: str, first: dict[str, Any], rank: int, other: dict[str, Any]) -> None:
    """Refuse arguments of a rank that differ from those of the first one."""
    for name, value in first.items():
        if other.get(name) != value:
            raise InputError(
                f"{caller}: {name} is {value!r} on rank 0 and {other.get(name)!r} on rank {rank}; "
                "wanted the same on all"
            )


def _kind(error: Exception) -> str:
    """Return the name of the error of ours that other ranks are to raise."""
    if isinstance(error, DynstoreError):
        return type(error).__name__
    return (OutOfMemoryError if isinstance(error, MemoryError) else RankError).__name__


def _repeated(caller: str, rank: int, ballot: _Ballot) -> DynstoreError:
    """Return the error of another rank, as this one raises it."""
    said = "refused it" if ballot.kind == ballot.name else f"raised {ballot.name}"
    text = ballot.text.removeprefix(f"{caller}: ")
    error: DynstoreError = getattr(errors, ballot.kind, RankError)(f"{caller}: rank {rank} {said}: {text}")
    error.origin = rank, f"{ballot.name}: {ballot.text}"  # type: ignore[attr-defined]
    return error
