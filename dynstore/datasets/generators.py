"""Random graphs of any size, the same on every platform for the same seed.

They use only the raw 64-bit output of PCG64, which NumPy promises not to change; the rest is integer arithmetic.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from dynstore.errors import InputError, InputTypeError
from dynstore.io import EventTable

__all__ = ["rmat", "uniform"]

# Quadrant probabilities a, b, c of R-MAT as in Graph500; d = 0.05 is the rest.
A, B, C = 0.57, 0.19, 0.19
# Events that a thread makes at a time (some 50 MB), and the most threads.
CHUNK, MAX_THREADS = 1 << 20, 16
MAX_SCALE = 30
MAX_EVENTS = 1 << 32


def rmat(scale: int, edge_factor: int, seed: int = 0) -> EventTable:
    """Generate a random graph with hubs, by R-MAT.

    The probabilities (a, b, c, d) are (0.57, 0.19, 0.19, 0.05) (Chakrabarti, Zhan, Faloutsos, SDM 2004). The ids are
    permuted, so an id says nothing about its vertex's degree. Pairs repeat, and self-loops occur.

    Parameters
    ----------
    scale : int
        The graph has ``2**scale`` vertices; 1 to 30.
    edge_factor : int
        Events for each vertex.
    seed : int
        The same seed gives the same graph on every platform.

    Returns
    -------
    EventTable
        ``edge_factor * 2**scale`` events.

    Raises
    ------
    InputError, InputTypeError
        For a scale outside 1 to 30, an edge factor below 1 or a negative seed.
    """
    _check("rmat", "scale", scale, 1, MAX_SCALE)
    _check("rmat", "edge_factor", edge_factor, 1, MAX_EVENTS >> scale)
    _check("rmat", "seed", seed, 0, None)
    names = np.argsort(_raw(np.random.PCG64(seed), 1 << scale), kind="stable")
    num_events = edge_factor << scale
    src, dst = np.empty(num_events, np.int64), np.empty(num_events, np.int64)

    def fill(start: int) -> None:
        end = min(start + CHUNK, num_events)
        bits = np.random.PCG64(seed).advance((1 << scale) + start * _draws(scale))
        rows, cols = _descend(bits, scale, end - start)
        src[start:end], dst[start:end] = names[rows], names[cols]

    with ThreadPoolExecutor(min(os.cpu_count() or 1, MAX_THREADS)) as threads:
        list(threads.map(fill, range(0, num_events, CHUNK)))  # consume the results, so that a chunk's error is raised
    return EventTable(src, dst, name=f"rmat:{scale}:{edge_factor}")


def uniform(num_vertices: int, num_edges: int, seed: int = 0) -> EventTable:
    """Generate events whose two ends are drawn uniformly. Pairs repeat, and self-loops occur.

    Parameters
    ----------
    num_vertices : int
        1 to 2**31 - 1.
    num_edges : int
        The number of events.
    seed : int
        The same seed gives the same graph on every platform.

    Returns
    -------
    EventTable
        ``num_edges`` events.

    Raises
    ------
    InputError, InputTypeError
        For a number of vertices outside 1 to 2**31 - 1, a negative number of edges or a negative seed.
    """
    _check("uniform", "num_vertices", num_vertices, 1, 2**31 - 1)
    _check("uniform", "num_edges", num_edges, 0, MAX_EVENTS)
    _check("uniform", "seed", seed, 0, None)
    bits = np.random.PCG64(seed)
    src, dst = np.empty(num_edges, np.int64), np.empty(num_edges, np.int64)
    for start in range(0, num_edges, CHUNK):
        end = min(start + CHUNK, num_edges)
        draw = _raw(bits, end - start)
        # 32 bits times V, then the upper half: uniform on 0 .. V-1 without a division.
        src[start:end] = ((draw >> np.uint64(32)) * np.uint64(num_vertices)) >> np.uint64(32)
        dst[start:end] = ((draw & np.uint64(0xFFFFFFFF)) * np.uint64(num_vertices)) >> np.uint64(32)
    return EventTable(src, dst, name=f"uniform:{num_vertices}:{num_edges}")


def _raw(bits: np.random.PCG64, count: int) -> np.ndarray:
    raw: np.ndarray = bits.random_raw(count)
    return raw


def _draws(scale: int) -> int:
    """Return the number of 64-bit draws for an event."""
    return (scale + 1) // 2


def _descend(bits: np.random.PCG64, scale: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Choose a quadrant on each of ``scale`` levels; 32 random bits decide one level."""
    rows, cols = np.zeros(count, np.int64), np.zeros(count, np.int64)
    upper = np.uint32(round((A + B) * 2**32))
    left_above, left_below = np.uint32(round(A * 2**32)), np.uint32(round((A + B + C) * 2**32))
    for level in range(0, scale, 2):
        draw = _raw(bits, count)
        for shift in (0, 32)[: min(2, scale - level)]:
            part = (draw >> np.uint64(shift)).astype(np.uint32)
            below = part >= upper
            rows = (rows << 1) | below
            cols = (cols << 1) | np.where(below, part >= left_below, part >= left_above)
    return rows, cols


def _check(caller: str, name: str, value: int, low: int, high: int | None) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputTypeError(f"{caller}: {name} is {value!r}; wanted an integer")
    if value < low or (high is not None and value > high):
        wanted = f"{low} to {high}" if high is not None else f"{low} or more"
        raise InputError(f"{caller}: {name} is {value}; wanted {wanted}")
