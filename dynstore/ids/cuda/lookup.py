"""Looking up mapped ids on CUDA without a wait: the first step of an update whose ids are all known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.cuda.launch import Packed
from dynstore.ids.cuda.hash_table import RECORD_SIZE, k_match_keys
from dynstore.input.converting import as_signed
from dynstore.stores.table.cuda.arguments import with_room

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.ids.hash_table import HashTable
    from dynstore.scratch import ScratchCache
    from dynstore.typing import Array

__all__ = ["start_match"]


class _Numbers:
    """Columns of numbers that a look-up writes without a wait, and the arguments of its kernel."""

    def __init__(self, _: Backend, control: Array, nothing: Array, first: Array, second: Array) -> None:
        self.first, self.second = first, second
        self.packed = Packed(first, second, *[nothing] * 4, control, nothing)


def start_match(
    backend: Backend, table: HashTable, first: Array, second: Array, dtype: np.dtype, scratch: ScratchCache
) -> tuple[Array, Array]:
    """Start a kernel; return two columns of integers as numbers, -1 for unknown or invalid ids.

    In ``scratch``, valid until the next call with it.
    """
    first, second = (backend.xp.ascontiguousarray(as_signed(backend, part)) for part in (first, second))
    count = int(first.shape[0])
    room = with_room(count)
    numbers = scratch.take(
        backend, "look-up", table.cells.nbytes, _Numbers,
        ((RECORD_SIZE, np.int64), (0, np.int64), (room, dtype), (room, dtype)),
    )  # fmt: skip
    k_match_keys.launch(2 * count, table.cells, table.shift, table.seed, first, second, 0, 0, numbers.packed)
    return numbers.first[:count], numbers.second[:count]
