"""What the resident kernels that repair shortest paths share: records, words of ``control``, and how they are ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.cuda.compiler import cuda, device
from dynstore.cuda.warp import d_lane

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = [
    "CONTROL_SIZE",
    "INVALIDATION",
    "REFIT",
    "RELAXATION",
    "ROUND_VISITS",
    "SPENT",
    "SUSPECTS",
    "TIED",
    "TOUCHED",
    "VISITS",
    "Changes",
    "Tree",
    "d_end_rounds",
    "d_note_visits",
    "d_word",
]

# Words of ``control``, int64, 0 at first: whether a kernel was stopped; all visited edges; whether there is a tie; the
# length of the list of vertices whose distance has changed; those of the suspects of three rounds, in turn.
SPENT, VISITS, TIED, TOUCHED, SUSPECTS = 0, 1, 2, 3, 4
# Behind these, the words of each kernel.
INVALIDATION, RELAXATION, REFIT = 8, 16, 24
CONTROL_SIZE = 32
# A round without work takes as long as so many visits.
ROUND_VISITS = 2000


class Changes(NamedTuple):
    """Changed edges: their ends, and the slot of each, below 0 if it is not there any more."""

    src: Array
    dst: Array
    slots: Array


class Tree(NamedTuple):
    """A shortest-path tree.

    Attributes
    ----------
    distances, predecessors : array, shape (V,)
    unreached : number
        The distance of vertices that are not reached.
    no_vertex : int
        A number above those of all vertices.
    """

    distances: Array
    predecessors: Array
    unreached: Any
    no_vertex: Any


@device
def d_word(first, number):
    """Return the word of a round. Three rounds use three words in turn: one is read, one is written, one is cleared."""
    return first + number % 3


@device
def d_note_visits(control, word, visits):
    """Add a warp's visits to ``control[word]`` (atomic); they are the same in all lanes."""
    if d_lane() == 0 and visits > 0:
        cuda.atomic.add(control, word, np.int64(visits))


@device
def d_end_rounds(control, seen, spent):
    """Leave the number of visits, and whether they were too many. One thread writes; no block reads these words."""
    if cuda.grid(1) == 0:
        control[VISITS] += seen
        if spent:
            control[SPENT] = 1
