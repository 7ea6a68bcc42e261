"""A kernel that maps segments there and back, for ``test_lpma``."""

from __future__ import annotations

from dynstore.cuda.compiler import cuda, kernel
from dynstore.stores.lpma.cuda.layout import d_in_order_of, d_physical_of


@kernel
def k_map_segments(depth, numbers):
    """One thread owns one segment: its physical number, and its number in order from that."""
    i = cuda.grid(1)
    if i < numbers.shape[1]:
        numbers[0, i] = d_physical_of(i, depth)
        numbers[1, i] = d_in_order_of(numbers[0, i], depth)
