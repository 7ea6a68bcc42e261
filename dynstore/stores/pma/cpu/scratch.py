"""What the packed memory arrays on the host share: located batches, scratch, and empty arrays for no weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dynstore.stores.pma.cpu.windows import count_states
from dynstore.stores.table.cpu.search import locate_edges
from dynstore.stores.table.slots import PRESENT, SearchResult

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.batches.sorted import EdgeBatch
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["Scratch", "locate_batch", "or_none", "reserve_scratch"]

NO_WEIGHTS = np.empty(0, dtype=np.float32)
# Sources, destinations and weights (length 0 if there are none) on their way back to slots.
Scratch: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]


def or_none(weights: Array | None) -> np.ndarray:
    """Return an array for a loop: of length 0 if there are no weights."""
    return NO_WEIGHTS if weights is None else weights


def locate_batch(backend: Backend, slots: SlotArrays, batch: EdgeBatch) -> SearchResult:
    """Find the keys of a batch and count the present ones."""
    positions, states = locate_edges(backend, slots, batch.src, batch.dst)
    loops = np.count_nonzero((states == PRESENT) & (batch.src == batch.dst)) if batch.num_loops else 0
    return SearchResult(positions, states, int(count_states(states)), int(loops))


def reserve_scratch(backend: Backend, slots: SlotArrays, size: int) -> Scratch:
    """Reserve scratch for ``size`` edges on their way back to slots."""
    size += 1  # a last gap is written there
    weights = NO_WEIGHTS if slots.weights is None else backend.empty(size, slots.weights.dtype)
    return backend.empty(size, slots.src.dtype), backend.empty(size, slots.src.dtype), weights
