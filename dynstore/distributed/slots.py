"""The slots of some rows of a shard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["slots_of"]


def slots_of(out: GapCSR, rows: Array) -> tuple[Array, Array]:
    """Return the slots of all edges of some rows, and for each slot the place of its row among these rows.

    Parameters
    ----------
    out : GapCSR
    rows : array, shape (K,)

    Returns
    -------
    slots, places : array, shape (N,), int64
    """
    xp = out.backend.xp
    starts, ends = out.offsets[rows].astype(np.int64), out.offsets[rows + 1].astype(np.int64)
    before = xp.cumsum(ends - starts)
    numbers = xp.arange(int(before[-1]) if len(rows) else 0, dtype=np.int64)
    places = xp.searchsorted(before, numbers, side="right")
    slots = ends[places] - before[places] + numbers
    there = (out.valid[slots >> 5] >> (slots & 31).astype(np.uint32)) & np.uint32(1) != 0
    return slots[there], places[there]
