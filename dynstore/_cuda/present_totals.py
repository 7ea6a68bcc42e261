"""What kernels that find a batch's edges count, and when these may be deleted at once."""

from __future__ import annotations

from dynstore._cuda.compiler import device
from dynstore._cuda.grid import d_leave_sum

__all__ = ["FOUND", "FOUND_LOOPS", "MISSING", "SPARSE", "d_leave_found", "d_may_delete"]

# Rows of the totals: edges that are there, each once; self-loops among them; then flags: whether the edge of some row
# is not there, maybe because of an id that no vertex can have; whether some leaf would be left too empty.
FOUND, FOUND_LOOPS, MISSING, SPARSE = range(4)


@device
def d_leave_found(control, found, loops, missing, sparse, board):
    """Sum up what the threads have found; all of them call it."""
    if missing:
        control[MISSING] = 1
    if sparse:
        control[SPARSE] = 1
    d_leave_sum(control, FOUND, found, board)
    d_leave_sum(control, FOUND_LOOPS, loops, board)


@device
def d_may_delete(control, most):
    """Return whether all edges are there, no more than ``most``, and none leaves a leaf too empty."""
    return control[FOUND] <= most and control[SPARSE] == 0 and control[MISSING] == 0
