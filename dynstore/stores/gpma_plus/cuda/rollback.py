"""Taking a batch back that has been written in part, when the rest of it turns out not to fit, on CUDA."""

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
    """Threads stride over rows of which the edges were present, or over all others: these now are, or are not.

    ``ordered``: source and destination of each in one, -1 for no vertex.
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
    """Leave slots with the edges that they had before some of a batch's were written, wherever these are now.

    ``states``: what each row's edge was; of equal rows one is PRESENT if it was present, others are not. So first all
    others are taken, then those that were present get their bits again.
    """
    for were_present in (False, True):
        k_take_back.launch(
            num_rows, slots.offsets, slots.dst, slots.valid, slots.num_vertices, ordered.pairs, states, num_rows,
            were_present,
        )  # fmt: skip
