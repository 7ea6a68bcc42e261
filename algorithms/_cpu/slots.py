"""Reading one slot of a gap-aware CSR."""

from __future__ import annotations

from numba import njit

__all__ = ["d_has_edge"]


@njit(inline="always")
def d_has_edge(valid, slot):
    """Whether ``slot`` holds an edge: its bit in the uint32 words ``valid``, lowest bit first."""
    return (valid[slot >> 5] >> (slot & 31)) & 1 != 0
