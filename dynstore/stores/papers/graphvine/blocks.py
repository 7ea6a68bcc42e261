"""The arrays of rows in blocks: a complete binary tree of blocks for each row; see ``docs/stores/graphvine.md``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = ["HOLE", "NONE", "Blocks"]

# The mark of a deleted edge, and of a missing block.
HOLE, NONE = -1, -1


@dataclass
class Blocks:
    """The dictionary of sentinels, the blocks, and the queue of free blocks.

    Entry e of a row is in its block number e // size + 1. Blocks are numbered in level order from the root, 1. The tree
    is complete, so the binary digits of a number are the path to the block.

    Attributes
    ----------
    size : int
        Entries a block.
    degrees, written : array, shape (C,), vertex dtype
        Number of edges of each row, and of entries in use, holes included. C is a power of two, at least V.
    roots, lasts : array, shape (C,), int32
        First and last block of each row; -1 for none.
    pool : array, vertex dtype
        Destinations, block after block; -1 is a hole. Unused entries are undefined.
    weights : array as long, or None
    children : array, shape (2 N,), int32
        Left and right child of each block; -1 for none, as in all free blocks.
    queue : array, shape (N,), int32
        A ring with the free blocks: ``num_free`` of them from ``front`` on.
    num_entries : int
        Entries in use, over all rows.
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
