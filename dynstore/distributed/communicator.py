"""What a sharded graph needs of the engine that connects its ranks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = ["Communicator", "Reduction"]

Reduction: TypeAlias = Literal["sum", "max", "min"]


class Communicator(ABC):
    """The connection of one rank to all others.

    Its methods are *collective*: all ranks make the same calls in the same order. If a rank makes another call, all
    others raise an error; results are never wrong. The caller does not write to arrays that it has passed to
    :meth:`all_to_all`. Returned arrays belong to the caller.

    Attributes
    ----------
    rank : int
        The number of this rank, from 0.
    size : int
        The number of ranks.
    device : str
        Where this rank's arrays are, as :class:`dynstore.DynamicGraph` takes it.
    """

    rank: int
    size: int
    device: str

    @abstractmethod
    def all_gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks.

        Parameters
        ----------
        value
            Small, on the host; it can be pickled.

        Returns
        -------
        list
            In order of the ranks. Do not change the values: ranks that are threads get the same objects.

        Raises
        ------
        RankError
            If another rank has raised, has ended, or does not come. So do all other methods.
        """

    @abstractmethod
    def all_reduce(self, array: Array, operation: Reduction = "sum") -> Array:
        """Return the sum, the maximum or the minimum of each entry over all ranks; the same bits on all of them.

        Parameters
        ----------
        array : array
            Of one shape and dtype on all ranks.
        operation : {"sum", "max", "min"}
            What to do with the entries.

        Returns
        -------
        array
            Of the same shape and dtype.
        """

    @abstractmethod
    def all_to_all(self, columns: Sequence[Array], send: Sequence[int], receive: Sequence[int]) -> list[Array]:
        """Send each rank its rows of columns.

        Parameters
        ----------
        columns : sequence of arrays, shape (N,)
            Of the same dtypes on all ranks. The rows for rank 0 come first, then those for rank 1, and so on.
        send, receive : sequence of int, length ``size``
            How many rows go to each rank, and how many come from each.

        Returns
        -------
        list of arrays, shape (M,)
            The rows that come, those of rank 0 first.
        """

    @abstractmethod
    def broadcast(self, array: Array, root: int = 0) -> Array:
        """Return the array of one rank.

        Parameters
        ----------
        array : array
            Of one shape and dtype on all ranks. Only the values of the root are read.
        root : int
            The rank whose array is returned.

        Returns
        -------
        array
            A new one.
        """

    @abstractmethod
    def abort(self, reason: str) -> NoReturn:
        """End the program of all ranks: each gets a :class:`~dynstore.errors.RankError`.

        Parameters
        ----------
        reason : str
            Its message.
        """

    def barrier(self) -> None:
        """Wait until all ranks are here."""
        self.all_gather(None)
