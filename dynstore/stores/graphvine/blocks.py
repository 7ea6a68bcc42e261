"""The arrays of rows in blocks, a complete binary tree of them a row; see ``docs/stores/graphvine.md``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = ["HOLE", "NONE", "Blocks"]

# What stands for an edge that is gone, and for a block that is not there.
HOLE, NONE = -1, -1


@dataclass
class Blocks:
    """The dictionary of sentinels, the blocks, and the queue of those that are free.

    Entry e of a row is in its block number e // size + 1, counted in level order from the root, 1: the complete tree
    has no other shape, and the digits of the number are the way to it.

    Attributes
    ----------
    size : int
        Entries a block.
    degrees, written : array, shape (C,), vertex dtype
        Of each row, its edges, and its entries in use: holes count, too. C is a power of two, at least V.
    roots, lasts : array, shape (C,), int32
        Its first and its last block; -1 for none.
    pool : array, vertex dtype
        Destinations, block after block; -1 is a hole. Entries that no row has in use are anything.
    weights : array as long, or None
    children : array, shape (2 N,), int32
        Left and right child of each block; -1 for none, as in all free blocks.
    queue : array, shape (N,), int32
        The free blocks: ``num_free`` of them from ``front`` on, round the end.
    num_entries : int
        In use, in all rows.
    """

    size: int
    degrees: Array
    written: Array
    roots: Array
    lasts: Array
    pool: Array
    weights: Array | None
    children: Array
    queue: Array
    front: int = 0
    num_free: int = 0
    num_entries: int = 0

    @property
    def num_blocks(self) -> int:
        return int(self.queue.shape[0])

    @property
    def num_used(self) -> int:
        return self.num_blocks - self.num_free
