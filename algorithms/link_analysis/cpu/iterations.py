"""PageRank's iterations on the host, for any function that sums over in-edges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.host_compiler import njit

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.typing import Array

__all__ = ["iterate_ranks"]


def iterate_ranks(
    pull: Callable[[Array, float, Array], float],
    out_weights: Array,
    alpha: float,
    start: Array,
    max_iter: int,
    tol: float,
) -> tuple[Array, int, float]:
    """Iterate PageRank with ``pull(shares, spread, ranks)``, which replaces the ranks and returns their change."""
    ranks, shares = start.copy(), np.empty_like(start)
    error, iterations = np.inf, 0
    while iterations < max_iter and not error < tol:
        dangling = k_divide_ranks(ranks, out_weights, shares)
        error = pull(shares, alpha * dangling + 1.0 - alpha, ranks)
        iterations += 1
    return ranks, iterations, error


@njit(cache=True, nogil=True)
def k_divide_ranks(ranks, out_weights, shares):
    """Write each vertex's share per unit of weight; return the total rank of vertices without out-edges."""
    dangling = 0.0
    for v in range(ranks.shape[0]):
        if out_weights[v] == 0:
            dangling += ranks[v]
            shares[v] = 0
        else:
            shares[v] = ranks[v] / out_weights[v]
    return dangling
