"""R-MAT graphs of any size, made on the device in pieces: rows that ascend, no edge twice.

A graph is its events, and an event is a function of its number and the seed. So a piece of the rows is made by drawing
all events again, and keeping those of these rows. The device never holds more than a piece.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.errors import InputError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["INTO", "MAX_SCALE", "ORDERS", "OUT", "ROWS", "RmatGraph", "count_keys", "make_rows"]

MAX_SCALE = 30
ORDERS = "degree", "native", "permuted"
# Which edges a row has, as bits: those that leave the vertex, those that arrive.
OUT, INTO = 1, 2
# Events of a piece, at most, unless one vertex has more: some 4 GiB of keys.
PIECE_EVENTS = 1 << 29
# Device memory that making a piece takes: its keys, room to sort them, and its rows. What packing all rows takes, for
# each of them and for each edge.
PIECE_BYTES = 40 * PIECE_EVENTS
PACKING_ROW_BYTES, PACKING_EDGE_BYTES = 16, 2.25
# Memory in parts is never used to the last byte.
USABLE = 0.9
# Edges that get weights at a time; rows that are counted at a time, with 24 bytes each.
WEIGHED, ROWS = 1 << 24, 1 << 26
# Weights are 1 to this; what mixes the ends of an edge.
MAX_WEIGHT = 100
SPREAD_LOW, SPREAD_HIGH = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)


def make_rows(backend: Backend, scale: int, num_rows: int, seed: int, first: int = 0) -> tuple[Array, Array]:
    """Return so many R-MAT rows of a seed from row ``first`` on, int32, on the device: any rank can make them."""
    src, dst = backend.empty(num_rows, np.int32), backend.empty(num_rows, np.int32)
    backend.kernels("benchmarks.rmat_pieces").draw_rows(first, scale, seed, src, dst)
    return src, dst


def count_keys(backend: Backend, keys: Array, low: int, high: int) -> Array:
    """Return how many ascending keys ``row << 32 | destination`` each row from ``low`` to ``high`` has, int32."""
    xp, degrees = backend.xp, backend.empty(high - low, np.int32)
    for begin in range(low, high, ROWS):
        end = min(begin + ROWS, high)
        bounds = xp.searchsorted(keys, xp.arange(begin, end + 1, dtype=np.int64) << 32)
        degrees[begin - low : end - low] = bounds[1:] - bounds[:-1]
    return degrees


class RmatGraph:
    """A directed or symmetric graph of ``2**scale`` vertices.

    Parameters
    ----------
    backend : Backend
    scale, edge_factor, seed : int
        ``edge_factor << scale`` events are drawn, with the quadrants of Graph500. Repeated ones and self-loops are
        dropped. The graph is the same on every device.
    symmetric : bool
        Whether each edge is there in both directions.
    order : {"degree", "native", "permuted"}
        How vertices are numbered: by falling number of drawn ends, as they are drawn, or at random.

    Attributes
    ----------
    hub : int
        The vertex with the most drawn ends.

    Raises
    ------
    InputError
        For a scale outside 1 to 30, or an unknown order.
    """

    def __init__(
        self,
        backend: Backend,
        scale: int,
        edge_factor: int,
        seed: int,
        symmetric: bool = False,
        order: str = ORDERS[0],
    ) -> None:
        if not 1 <= scale <= MAX_SCALE:
            raise InputError(f"out_of_core: --scale is {scale}; wanted 1 to {MAX_SCALE}")
        if order not in ORDERS:
            raise unknown_name("out_of_core", "order", order, ORDERS)
        self.backend, self.num_vertices, self.is_symmetric = backend, 1 << scale, symmetric
        self._events = edge_factor << scale, scale, seed
        self._kernels = backend.kernels("benchmarks.rmat_pieces")
        xp = backend.xp
        drawn = {OUT: backend.zeros(self.num_vertices, np.int32), INTO: backend.zeros(self.num_vertices, np.int32)}
        self._kernels.count_ends(*self._events, drawn[OUT], drawn[INTO])
        both = drawn[OUT] + drawn[INTO]
        drawn_as = self._order_vertices(both, order, seed)
        self._ranks = backend.empty(self.num_vertices, np.int32)
        self._ranks[drawn_as] = xp.arange(self.num_vertices, dtype=np.int32)
        self.hub = int(self._ranks[xp.argmax(both)])
        kept = {OUT | INTO: both} if symmetric else drawn
        self._bounds = {kind: self._cut(counts[drawn_as]) for kind, counts in kept.items()}

    def _order_vertices(self, ends: Array, order: str, seed: int) -> Array:
        """Return the vertices as they are drawn, in the order of their numbers."""
        xp = self.backend.xp
        vertices = xp.arange(self.num_vertices)
        if order == "native":
            return vertices
        if order == "degree":
            return xp.argsort(-ends.astype(np.int64) * self.num_vertices + vertices)
        mixed = (vertices.astype(np.uint64) + np.uint64(seed)) * SPREAD_LOW  # different numbers stay different
        mixed ^= mixed >> np.uint64(29)
        return xp.argsort(mixed * SPREAD_HIGH)

    def _cut(self, counts: Array) -> list[tuple[int, int, int]]:
        """Return ranges of rows, and how many events each has."""
        ends = self.backend.xp.cumsum(counts, dtype=np.int64)
        total = int(ends[-1])
        limits = self.backend.asarray(np.arange(PIECE_EVENTS, total + PIECE_EVENTS, PIECE_EVENTS))
        bounds = self.backend.to_host(self.backend.xp.searchsorted(ends, limits)).tolist()
        bounds = sorted({0, *bounds[:-1], self.num_vertices})
        before = [0, *(int(ends[bound - 1]) for bound in bounds[1:])]
        return [
            (low, high, end - begin)
            for low, high, begin, end in zip(bounds[:-1], bounds[1:], before[:-1], before[1:], strict=True)
        ]

    def fits(self, kind: int, weighted: bool = False) -> bool:
        """Return whether all rows fit the device at once, beside what makes a piece of them, or packs them."""
        if not self.backend.on_gpu:
            return True
        total = sum(count for *_, count in self._bounds[OUT | INTO if self.is_symmetric else kind])
        packing = self.num_vertices * PACKING_ROW_BYTES + total * PACKING_EDGE_BYTES
        wanted = total * (8 if weighted else 4) + self.num_vertices * 8 + max(PIECE_BYTES, packing)
        free = self.backend.xp.cuda.runtime.memGetInfo()[0] + self.backend.xp.get_default_memory_pool().free_bytes()
        return bool(wanted < USABLE * free)

    def pieces(self, kind: int, weighted: bool = False) -> Iterator[tuple[Array, ...]]:
        """Yield degrees and destinations of the rows, in order, and with ``weighted`` weights; ``kind``: OUT or INTO.

        Weights are whole numbers from 1 to 100, float32. An edge has the same in both directions.
        """
        kind = OUT | INTO if self.is_symmetric else kind
        for low, high, count in self._bounds[kind]:
            keys, filled = self.backend.empty(count, np.int64), self.backend.zeros(1, np.int64)
            self._kernels.draw_edges(*self._events, kind, self._ranks, low, high, keys, filled)
            yield self._split(keys[: int(filled[0])], low, high, weighted)

    def _split(self, keys: Array, low: int, high: int, weighted: bool) -> tuple[Array, ...]:
        """Sort the keys, and drop those that are there twice; return degrees and destinations, and weights."""
        xp = self.backend.xp
        keys.sort()
        is_new = xp.ones(keys.shape[0], bool)
        is_new[1:] = keys[1:] != keys[:-1]
        keys = keys[is_new]
        rows = count_keys(self.backend, keys, low, high), (keys & 0xFFFFFFFF).astype(np.int32)
        return (*rows, self._weigh(keys)) if weighted else rows

    def _weigh(self, keys: Array) -> Array:
        weights: Array = self.backend.empty(int(keys.shape[0]), np.float32)
        for begin in range(0, int(keys.shape[0]), WEIGHED):
            weights[begin : begin + WEIGHED] = self._mix(keys[begin : begin + WEIGHED])
        return weights

    def _mix(self, keys: Array) -> Array:
        """Return the weights of some edges."""
        xp = self.backend.xp
        one, other = keys >> 32, keys & 0xFFFFFFFF
        mixed = xp.minimum(one, other).astype(np.uint64) * SPREAD_LOW + xp.maximum(one, other).astype(np.uint64)
        mixed *= SPREAD_HIGH
        mixed ^= mixed >> np.uint64(29)
        weights: Array = ((mixed >> np.uint64(20)) % np.uint64(MAX_WEIGHT) + np.uint64(1)).astype(np.float32)
        return weights
