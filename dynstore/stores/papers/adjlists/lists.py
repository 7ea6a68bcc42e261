"""The arrays of rows that share one pool, each with its own room to grow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = ["Lists"]


@dataclass
class Lists:
    """Rows in a pool.

    Attributes
    ----------
    starts, lengths, rooms : array, at least (V,), int64
        Row v's edges are ``pool[starts[v] : starts[v] + lengths[v]]``, ascending; it may grow to ``rooms[v]``.
    pool : array, vertex dtype
        Destinations.
    weights : array as long, or None
    tail : int
        Places from here on belong to no row.
    """

    starts: Array
    lengths: Array
    rooms: Array
    pool: Array
    weights: Array | None
    tail: int = 0
