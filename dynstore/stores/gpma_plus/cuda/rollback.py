"""Rolling back a batch that was written in part and does not fit, on CUDA."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.cuda.compiler import cuda, kernel
from dynstore.stores.table.cuda.search import d_find_edge
from dynstore.stores.table.slots import ABSENT, PRESENT

if TYPE_CHECKING:
    from dynstore.stores.pma.cuda.partition import Ordered
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["take_back"]


@kernel
def k_take_back(offsets, dst, valid, num_vertices, ordered, states, num_rows, were_present):
    """Threads stride over the rows whose edges were present, and set their bits; or over all others, and clear theirs.

    ``ordered``: source and destination of each row in one number, -1 for an invalid id.
    """
    for i in range(cuda.grid(1), num_rows, cuda.gridsize(1)):
        if (states[i] == PRESENT) == were_present:
            pair = ordered[i]
            slot, state = d_find_edge(offsets, dst, valid, num_vertices, pair >> 32, np.int32(pair))
            bit = np.uint32(1) << np.uint32(slot & 31)
            if state != ABSENT and were_present:
                cuda.atomic.or_(valid, slot >> 5, bit)
            elif state != ABSENT:
                cuda.atomic.and_(valid, slot >> 5, ~bit)


def take_back(slots: SlotArrays, ordered: Ordered, states: Array, num_rows: int) -> None:
    """Restore the edges that the slots had before a part of a batch was written, wherever these are now.

    ``states``: what each row's edge was. One of equal rows is PRESENT if the edge was, the others are not. So the bits
    of all others are cleared first; then those that were present get their bits again.
    """
    for were_present in (False, True):
        k_take_back.launch(
            num_rows, slots.offsets, slots.dst, slots.valid, slots.num_vertices, ordered.pairs, states, num_rows,
            were_present,
        )  # fmt: skip
