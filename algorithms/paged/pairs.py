"""What searches from many vertices at once have found: pairs of a search and a vertex."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = ["Backward", "Forward"]


class Forward(NamedTuple):
    """What searches have found; the pair of search s and vertex v is entry ``v * num_searches + s``.

    Attributes
    ----------
    num_searches : int
    masks : array, shape (V,), uint32
        Which searches have the vertex at the level that is read now.
    levels : array of pairs, int32
    paths : array of pairs, float64
        How many shortest paths lead there.
    """

    num_searches: int
    masks: Array
    levels: Array
    paths: Array


class Backward(NamedTuple):
    """What vertices owe to those before them on shortest paths; see :class:`Forward`.

    Attributes
    ----------
    owed : array of pairs, float64
        (1 + dependency) / paths; complete for levels that have been read.
    gathered : array of pairs, float64
        dependency / paths.
    """

    num_searches: int
    masks: Array
    levels: Array
    owed: Array
    gathered: Array
