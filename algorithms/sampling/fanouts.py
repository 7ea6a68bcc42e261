"""Which edges of a row one hop chooses, and what they are ranked by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = ["Fanout", "Ranks"]


@dataclass(frozen=True, slots=True)
class Fanout:
    """Which of a row's edges are chosen.

    Attributes
    ----------
    most : int
        How many; -1 means all.
    replace : bool
        The same edge may be chosen again. A row with edges then has exactly ``most`` choices.
    largest : bool
        Choose those of the highest rank, not at random; of equal ranks, those of the lowest neighbours.
    """

    most: int
    replace: bool = False
    largest: bool = False


class Ranks(NamedTuple):
    """What edges are ranked by.

    Attributes
    ----------
    values : array
        Of each slot: weights. Or of each record: times.
    records : array
        The record of each slot, shape (S,); none if ``values`` are of slots.
    """

    values: Array
    records: Array
