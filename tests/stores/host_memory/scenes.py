"""Edges and arrays for tests of edges in host memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynstore.graph import DynamicGraph

__all__ = ["on_host", "some_edges"]


def on_host(G: DynamicGraph, array: Any) -> np.ndarray:
    """A copy, which does not keep exported memory alive."""
    return np.array(G.core.backend.to_host(array))


def some_edges(count: int, seed: int = 1, most: int = 30) -> tuple[np.ndarray, np.ndarray]:
    src, dst = np.random.default_rng(seed).integers(0, most, (2, count))
    return src, dst
