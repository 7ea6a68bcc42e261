"""What algorithms over pages know between two launches; their kernels read it and write it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dynstore.typing import MAX_INT32

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = [
    "BEGINNING",
    "CONTINUING",
    "COPIED",
    "DIRECT",
    "FOUND",
    "FRONTIER",
    "NOTES",
    "UNREACHED",
    "Lengths",
    "RankedArcs",
    "SearchState",
]

UNREACHED = MAX_INT32
# Which leaves a pass reads: those with rows of the frontier; those where a row begins whose vertex is unreached; those
# that go on with such a row.
FRONTIER, BEGINNING, CONTINUING = range(3)
# What kernels note: whether a vertex was found, then requests and sectors that they have read in place, and other ones.
FOUND, DIRECT, COPIED, NOTES = 0, 1, 3, 5


class SearchState(NamedTuple):
    """What the kernels of a search share.

    Attributes
    ----------
    distances : array, shape (V,), int32
        Of each vertex, or another number that says in which pass its row is read.
    active : array, uint32
        A bit a leaf: whether the next pass reads it.
    notes : array, shape (5,), int64
    """

    distances: Array
    active: Array
    notes: Array


class Lengths(NamedTuple):
    """What is known of the paths.

    Attributes
    ----------
    distances : array, shape (V,), dtype of the weights
    pending : array, shape (V,), uint8
        Whether the distance has fallen since the row was last read.
    limit : number
        Only shorter paths count, in the dtype of the weights.
    """

    distances: Array
    pending: Array
    limit: Any


class RankedArcs(NamedTuple):
    """Edges of some rows, each once, from the end of lower (degree, id) to the other.

    Attributes
    ----------
    ranks : array, shape (V,), int32
        Of each vertex among all; 0 is the highest (degree, id).
    low, high : int
        The rows, the last one excluded.
    keys : array, int64
        ``rank of tail << 32 | rank of head``.
    filled : array, shape (1,), int64
        How many there are; more than there is room for if rows are not symmetric.
    """

    ranks: Array
    low: int
    high: int
    keys: Array
    filled: Array
