"""Which rank owns a vertex, and with it its row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dynstore.arguments import check_name
from dynstore.errors import InputError

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["Owners", "sort_by_owner"]

PARTITIONS = ("hash", "range")


class Owners:
    """A function that gives each vertex a rank.

    Parameters
    ----------
    backend : Backend
    partition : {"hash", "range"}
        "hash": MurmurHash3 (Appleby; 32 bits, seed 0) of the number in its 4 or 8 bytes, modulo ``size``, as cuGraph's.
    size : int
        The number of ranks.
    max_vertices : int or None
        Ranges are equal parts of the numbers below it.

    Attributes
    ----------
    size : int
    width : int
        Numbers of a range; 0 with "hash".
    """

    def __init__(self, backend: Backend, partition: str, size: int, max_vertices: int | None) -> None:
        check_name("ShardedGraph", "partition", partition, PARTITIONS)
        if partition == "range" and not max_vertices:
            raise InputError(
                f"ShardedGraph: partition='range' divides the ids below max_vertices, which is {max_vertices}; "
                "wanted the number of ids"
            )
        self._backend, self.size = backend, size
        self.width = -(-(max_vertices or 0) // size) if partition == "range" else 0

    def __call__(self, numbers: Array) -> Array:
        """Return the rank of each number, uint16.

        Parameters
        ----------
        numbers : array, shape (N,), int32 or int64
            Not negative.
        """
        kernels = self._backend.kernels("dynstore.distributed", "routing")
        ranks: Array = kernels.find_owners(self._backend, self.width, self.size, numbers)
        return ranks


def sort_by_owner(
    backend: Backend, owners: Owners, columns: Sequence[Array], both: bool = False, want_order: bool = False
) -> tuple[Array | None, list[Array], list[int]]:
    """Bring rows into the order of the owners of their first column, and rows of one owner in that in which they came.

    Parameters
    ----------
    columns : sequence of two or three arrays, shape (N,)
        The first two are numbers of vertices.
    both : bool
        Each row is followed by the same one with the first two columns changed, unless these are equal.
    want_order : bool
        Not with ``both``.

    Returns
    -------
    order : array, shape (N,), int64, or None
        The place of each row before.
    columns : list of arrays
    counts : list of int
        How many rows each rank owns.
    """
    kernels = backend.kernels("dynstore.distributed", "routing")
    found: tuple[Array | None, list[Array], list[int]] = kernels.sort_rows(
        backend, owners.width, owners.size, columns, both, want_order
    )
    return found
