"""Looking ids of the user's own up on CUDA without a wait: what an update does first where all are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.cuda.launch import Packed
from dynstore.ids.cuda.hash_table import k_match_keys
from dynstore.input.columns import as_signed
from dynstore.stores.table.cuda.arguments import with_room

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.ids.hash_table import HashTable
    from dynstore.scratch import ScratchCache
    from dynstore.typing import Array

__all__ = ["start_match"]


class _Numbers:
    """Columns of numbers that a look-up nobody waits for writes, and how its kernel is passed them."""

    def __init__(self, _: Backend, record: Array, nothing: Array, first: Array, second: Array) -> None:
        self.first, self.second = first, second
        self.packed = Packed(first, second, *[nothing] * 4, record)


def start_match(
    backend: Backend, table: HashTable, first: Array, second: Array, dtype: np.dtype, scratch: ScratchCache
) -> tuple[Array, Array]:
    """Return two columns of integers as numbers, -1 for what is unknown or no id, once their kernel is started.

    They are valid until the next call with this ``scratch``, where they lie.
    """
    first, second = (backend.xp.ascontiguousarray(as_signed(backend, part)) for part in (first, second))
    count = int(first.shape[0])
    room = with_room(count)
    numbers = scratch.take(
        backend, "look-up", table.cells.nbytes, _Numbers,
        ((3, np.int64), (0, np.int64), (room, dtype), (room, dtype)),
    )  # fmt: skip
    k_match_keys.launch(2 * count, table.cells, table.shift, first, second, 0, numbers.packed)
    return numbers.first[:count], numbers.second[:count]
