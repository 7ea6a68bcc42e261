"""One rank's part of PageRank on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.distributed.failures import Failure

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR

__all__ = ["Ranking", "sum_weights"]


def sum_weights(out: GapCSR) -> np.ndarray:
    """Return the sum of each row's weights, float64; or its edges, float32, without weights."""
    mask = out.mask()
    weights = None if out.weights is None else out.weights[mask].astype(np.float64)
    sums = np.bincount(out.sources[mask], weights, out.num_vertices)
    return sums.astype(np.float32 if weights is None else np.float64)


class Ranking:
    """A rank's part of PageRank; see the one of ``cuda``."""

    def __init__(self, into: GapCSR, out_weights: np.ndarray, alpha: float, part: tuple[int, int]) -> None:
        mask, num_vertices = into.mask(), into.num_vertices
        self._rows, self._neighbours = into.sources[mask], into.indices[mask]
        self._weights = None if into.weights is None else into.weights[mask].astype(np.float64)
        self._out_weights, self._alpha, self._part = out_weights, alpha, part
        self.ranks = np.full(num_vertices, 1.0 / num_vertices, out_weights.dtype)
        self._tail = np.zeros(2)
        self.failure = Failure()
        self._nothing: np.ndarray = np.full(num_vertices + 2, np.nan, out_weights.dtype)
        self._share()

    def _share(self) -> None:
        self._shares = self.ranks / np.where(self._out_weights == 0, 1, self._out_weights)
        own = slice(*self._part)
        self._tail[0] = self.ranks[own][self._out_weights[own] == 0].sum(dtype=np.float64)

    def sum_shares(self) -> np.ndarray:
        """Return this rank's sums of shares; behind them its dangling rank, and its change of ranks; or NaN."""
        sums = self._nothing
        with self.failure:
            sums = self._sum_shares()
        return self._nothing if self.failure else sums

    def _sum_shares(self) -> np.ndarray:
        shares = self._shares[self._neighbours].astype(np.float64)
        if self._weights is not None:
            shares *= self._weights
        sums = np.bincount(self._rows, shares, len(self.ranks))
        return np.concatenate((sums, self._tail)).astype(self.ranks.dtype)

    def advance(self, totals: np.ndarray) -> None:
        """Make the next ranks of the sums of all ranks."""
        with self.failure:
            self._advance(totals)

    def _advance(self, totals: np.ndarray) -> None:
        num_vertices = len(self.ranks)
        spread = (self._alpha * float(totals[num_vertices]) + 1.0 - self._alpha) / num_vertices
        ranks = (self._alpha * totals[:num_vertices].astype(np.float64) + spread).astype(self.ranks.dtype)
        own = slice(*self._part)
        self._tail[1] = np.abs(ranks[own].astype(np.float64) - self.ranks[own]).sum()
        self.ranks = ranks
        self._share()

    @property
    def change(self) -> np.ndarray:
        """This rank's change of ranks by the last step, shape (1,)."""
        return self._tail[1:].astype(self.ranks.dtype)
