"""R-MAT graphs that are made on the device, in order of degree, as rows that are sorted and have no edge twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.errors import InputError

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["Rows", "make_rmat"]

# Quadrants of R-MAT as in Graph500, as limits of 32 random bits: a, a + b; of the lower half c / (c + d).
UPPER, LEFT_ABOVE, LEFT_BELOW = 0.76, 0.57 / 0.76, 0.19 / 0.24
# Events that are drawn at a time.
CHUNK = 1 << 24
MAX_SCALE = 30


class Rows(NamedTuple):
    """A graph as rows of out-edges; ``offsets`` int64, shape (V + 1,), ``indices`` int32, shape (E,)."""

    offsets: Array
    indices: Array

    @property
    def num_vertices(self) -> int:
        return int(self.offsets.shape[0]) - 1

    @property
    def num_edges(self) -> int:
        return int(self.indices.shape[0])


def make_rmat(backend: Backend, scale: int, edge_factor: int, seed: int, symmetric: bool) -> tuple[Rows, Rows]:
    """Make a graph of ``2**scale`` vertices, numbered by falling degree; the same one on every device.

    Parameters
    ----------
    backend : Backend
    scale, edge_factor, seed : int
        ``edge_factor << scale`` events are drawn; repeated ones and self-loops are dropped.
    symmetric : bool
        Whether each edge is there in both directions.

    Returns
    -------
    out, into : Rows
        Out-edges and in-edges; the same object if they are equal.

    Raises
    ------
    InputError
        For a scale outside 1 to 30.
    """
    if not 1 <= scale <= MAX_SCALE:
        raise InputError(f"out_of_core: --scale is {scale}; wanted 1 to {MAX_SCALE}")
    xp, num_vertices = backend.xp, 1 << scale
    keys = backend.empty(edge_factor << scale, np.int64)
    for first in range(0, keys.shape[0], CHUNK):
        events = xp.arange(first, min(first + CHUNK, keys.shape[0]), dtype=np.uint64)
        keys[first : first + CHUNK] = _draw(events, scale, seed)
    if symmetric:
        keys = xp.concatenate([keys, _swapped(keys)])
    keys = _distinct(xp, keys)
    keys = keys[keys >> 32 != keys & 0xFFFFFFFF]
    degrees = sum(xp.bincount(end, minlength=num_vertices) for end in (keys >> 32, keys & 0xFFFFFFFF))
    order = xp.argsort(-degrees * num_vertices + xp.arange(num_vertices))
    ranks = backend.empty(num_vertices, np.int64)
    ranks[order] = xp.arange(num_vertices)
    del degrees, order
    keys = (ranks[keys >> 32] << 32) | ranks[keys & 0xFFFFFFFF]
    keys.sort()
    out = _split(xp, keys, num_vertices)
    if symmetric:
        return out, out
    keys = _swapped(keys)
    keys.sort()
    return out, _split(xp, keys, num_vertices)


def _draw(events: Array, scale: int, seed: int) -> Array:
    """Return the edges of some events as ``source << 32 | destination``."""
    rows, columns = events * np.uint64(0), events * np.uint64(0)
    for level in range(scale):
        bits = _mix(events * np.uint64(MAX_SCALE) + np.uint64(level), seed)
        below = (bits >> np.uint64(32)) >= np.uint64(round(UPPER * 2**32))
        limit = below * np.uint64(round(LEFT_BELOW * 2**32)) + ~below * np.uint64(round(LEFT_ABOVE * 2**32))
        rows = (rows << np.uint64(1)) | below
        columns = (columns << np.uint64(1)) | ((bits & np.uint64(0xFFFFFFFF)) >= limit)
    keys: Array = ((rows << np.uint64(32)) | columns).astype(np.int64)
    return keys


def _mix(numbers: Array, seed: int) -> Array:
    """Return 64 random bits for each number: the finalizer of SplitMix64, twice with a seed of its own."""
    bits = numbers + np.uint64((seed * 0x9E3779B97F4A7C15 + 0x9E3779B97F4A7C15) % 2**64)
    for _ in range(2):
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        bits = bits ^ (bits >> np.uint64(31))
    return bits


def _swapped(keys: Array) -> Array:
    return ((keys & 0xFFFFFFFF) << 32) | (keys >> 32)


def _distinct(xp: Any, keys: Array) -> Array:
    """Return the different keys, ascending; ``keys`` gets sorted."""
    keys.sort()
    kept: Array = xp.concatenate([keys[:1], keys[1:][keys[1:] != keys[:-1]]])
    return kept


def _split(xp: Any, keys: Array, num_vertices: int) -> Rows:
    vertices = xp.arange(num_vertices + 1, dtype=np.int64)
    offsets = xp.searchsorted(keys, vertices << 32)
    return Rows(offsets.astype(np.int64), (keys & 0xFFFFFFFF).astype(np.int32))
