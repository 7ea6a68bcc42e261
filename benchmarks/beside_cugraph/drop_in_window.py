"""A window that slides over a generated graph's edges, all of them on the GPU."""

from __future__ import annotations

from copy import copy
from functools import lru_cache
from typing import Any

import numpy as np

from dynstore.datasets.generators import rmat

__all__ = ["DropInWindow", "different_pairs"]


class DropInWindow:
    """A window over distinct edges on the GPU; a slide deletes the oldest and inserts as many new ones.

    Parameters
    ----------
    src, dst : CuPy arrays, shape (E,), int32
        Distinct pairs in the order in which they are inserted.
    slide : int
        Edges of one slide.
    slides : int
        Number of slides.
    """

    def __init__(self, src: Any, dst: Any, slide: int, slides: int) -> None:
        self.src, self.dst, self.slide = src, dst, slide
        self.size = int(src.shape[0]) - slide * slides
        self.low = 0

    def copy(self) -> DropInWindow:
        """Return a window over the same edges, at the same place."""
        return copy(self)

    def now(self) -> tuple[Any, Any]:
        """Return the edges in the window."""
        return self._rows(self.low, self.low + self.size)

    def advance(self) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
        """Move by one slide; return the edges that leave and those that enter."""
        leaving = self._rows(self.low, self.low + self.slide)
        entering = self._rows(self.low + self.size, self.low + self.size + self.slide)
        self.low += self.slide
        return leaving, entering

    def _rows(self, low: int, high: int) -> tuple[Any, Any]:
        return self.src[low:high], self.dst[low:high]


_events = lru_cache(maxsize=1)(rmat)  # the same events for each algorithm


def different_pairs(cupy: Any, scale: int, edge_factor: int, seed: int, directed: bool) -> tuple[Any, Any]:
    """Return the distinct pairs of an RMAT graph in random order; undirected ones with the lower end first."""
    events = _events(scale, edge_factor, seed)
    src, dst = cupy.asarray(events.src), cupy.asarray(events.dst)
    if not directed:
        src, dst = cupy.minimum(src, dst), cupy.maximum(src, dst)
    keys = cupy.unique(src << 32 | dst)
    keys = keys[cupy.argsort(cupy.random.default_rng(seed).random(keys.shape[0], dtype=np.float32))]
    return (keys >> 32).astype(np.int32), (keys & 0xFFFFFFFF).astype(np.int32)
