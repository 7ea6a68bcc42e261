"""PageRank's iterations on the GPU, for any kernels that sum over in-edges: shares, next ranks, when to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.algorithms.rows.cuda.rows import LOW_BITS, d_add_block
from dynstore.cuda.compiler import SIMULATED, THREADS, WARP, cuda, device, kernel
from dynstore.cuda.launch import Packed

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = [
    "BOARD_SIZE",
    "CHANGE",
    "IterationProgress",
    "RankArrays",
    "Step",
    "Surfer",
    "d_add_totals",
    "d_advance_rank",
    "d_read_rank",
    "d_spread",
    "iterate_ranks",
    "k_advance_split_rows",
]

# Iterations started before the host checks whether one has converged; later ones then write nothing. With a tolerance:
# this share of those so far, and at least so many. A check takes about as long as five iterations that write nothing.
WATCHED_SHARE, WATCHED_ITERATIONS = 0.5, 8
OTHER_ITERATIONS = 64
# Iterations that one record has room for.
RECORDED_ITERATIONS = 16 if SIMULATED else 1024
# Without a tolerance only the last iterations write ranks: the change is taken between two of them.
KEPT_ITERATIONS = 2
BOARD_SIZE = THREADS // WARP
# What the device records of an iteration: the rank of vertices without out-edges, and the L1 change.
DANGLING, CHANGE = range(2)


class Surfer(NamedTuple):
    """How the random surfer moves.

    Attributes
    ----------
    alpha : float
        Probability of following an edge.
    uniform : int
        Whether it otherwise goes to any vertex with equal probability.
    targets : array, shape (V,)
        The probabilities if not; else any array.
    """

    alpha: Any
    uniform: Any
    targets: Array


class IterationProgress(NamedTuple):
    """What the device has recorded of the iterations before.

    Attributes
    ----------
    history : array, float64
        The dangling rank and the change of each iteration, in turn.
    iteration : int
        The iteration that runs now.
    tol : float
        If the last change is below it, nothing is left to do.
    """

    history: Array
    iteration: Any
    tol: Any


class RankArrays(NamedTuple):
    """The vertices' values in an iteration.

    Attributes
    ----------
    out_weights : array, shape (V,)
    ranks : array, shape (V,) or (0,)
        Without entries if ranks are not kept.
    shares : array, shape (V + 1,)
        The next iteration's shares.
    sums : array, shape (V,), float64
        The sums over in-edges of split rows.
    """

    out_weights: Array
    ranks: Array
    shares: Array
    sums: Array


@device
def d_share_rank(rank, weight, shares, vertex):
    """Write the share of ``vertex`` per unit of weight; return its rank if it has no out-edges, else 0."""
    if weight == 0:
        shares[vertex] = 0
        return np.float64(rank)
    shares[vertex] = rank / weight
    return 0.0


@kernel
def k_begin_ranks(start, out_weights, summed, lengths, ranks, shares, next_shares, sums, history):
    """Stride over the vertices: copy the ranks, write the shares, add up the dangling rank, one atomic add a block.

    It writes the zeros behind the shares and the zero sums of the rows ``summed``. It records that there was no
    iteration before.
    """
    board = cuda.shared.array(BOARD_SIZE, np.float64)
    if cuda.grid(1) == 0:
        history[CHANGE] = np.inf
        shares[start.shape[0]] = 0
        next_shares[start.shape[0]] = 0
    dangling = 0.0
    vertex, stride, last = int(cuda.grid(1)), int(cuda.gridsize(1)), start.shape[0] - 1
    coming = np.uint64(min(vertex, last))
    coming_rank, coming_weight = start[coming], out_weights[coming]
    while vertex <= last:
        rank, weight = coming_rank, coming_weight
        coming = np.uint64(min(vertex + stride, last))
        coming_rank, coming_weight = start[coming], out_weights[coming]
        ranks[vertex] = rank
        dangling += d_share_rank(rank, weight, shares, vertex)
        vertex += stride
    item, num_summed = int(cuda.grid(1)), int(lengths[0]) & LOW_BITS
    while item < num_summed:
        sums[summed[item]] = 0.0
        item += stride
    d_add_block(dangling, board, history, DANGLING)


@device
def d_spread(progress, surfer, num_vertices):
    """Return the rank that does not come from in-edges: of each vertex, or the total if there are targets."""
    spread = surfer.alpha * progress.history[2 * progress.iteration + DANGLING] + 1.0 - surfer.alpha
    if surfer.uniform:
        spread /= num_vertices
    return spread


@device
def d_advance_rank(vertex, old, weight, total, spread, surfer, state):
    """Write a vertex's next rank, if ranks are kept, and its share.

    Return the change of the rank, meaningless if ranks are not kept, and its dangling rank.
    """
    given = spread
    if not surfer.uniform:
        given = spread * np.float64(surfer.targets[vertex])
    rank = state.shares.dtype.type(surfer.alpha * total + given)
    if state.ranks.shape[0] > 0:
        state.ranks[vertex] = rank
    return abs(np.float64(rank) - np.float64(old)), d_share_rank(rank, weight, state.shares, vertex)


@device
def d_read_rank(state, vertex):
    """Return a vertex's rank, 0 if ranks are not kept."""
    rank = state.shares.dtype.type(0)
    if state.ranks.shape[0] > 0:
        rank = state.ranks[vertex]
    return rank


@device
def d_add_totals(dangling, change, board, progress):
    """Add the block's dangling rank and its change to the record of this iteration: two atomic adds.

    All threads of the block call it.
    """
    d_add_block(dangling, board, progress.history, 2 * progress.iteration + 2 + DANGLING)
    d_add_block(change, board, progress.history, 2 * progress.iteration + 2 + CHANGE)


@device
def d_fetch_summed(split, num_rows, item, state):
    """Return the row at place ``item``, its rank, out-weight and sum; past the last one, those of row 0.

    The list is read past its end, too, so that this read does not wait for the number of rows.
    """
    highest = state.out_weights.shape[0] - 1 if item < num_rows else 0
    row = min(max(int(split[min(item, split.shape[0] - 1)]), 0), highest)
    return row, d_read_rank(state, row), state.out_weights[row], state.sums[row]


@kernel
def k_advance_split_rows(
    split, lengths, history, iteration, tol, alpha, uniform, targets, out_weights, ranks, next_shares, sums
):
    """Stride over the rows whose in-edges are added up in ``sums``: advance their ranks, and clear the sums.

    A row is read before it is known whether it is needed: with few rows, dependent reads would take longer.
    """
    board = cuda.shared.array(BOARD_SIZE, np.float64)
    progress, surfer = IterationProgress(history, iteration, tol), Surfer(alpha, uniform, targets)
    state = RankArrays(out_weights, ranks, next_shares, sums)
    item, stride = int(cuda.grid(1)), int(cuda.gridsize(1))
    num_rows = int(lengths[0]) & LOW_BITS
    row, old, weight, total = d_fetch_summed(split, num_rows, item, state)
    spread = d_spread(progress, surfer, out_weights.shape[0])
    if progress.history[2 * progress.iteration + CHANGE] < progress.tol:  # the same in all threads
        num_rows = 0
    changes = 0.0
    dangling = 0.0
    while item < num_rows:
        change, lost = d_advance_rank(row, old, weight, total, spread, surfer, state)
        sums[row] = 0.0
        changes += change
        dangling += lost
        item += stride
        row, old, weight, total = d_fetch_summed(split, num_rows, item, state)
    d_add_totals(dangling, changes, board, progress)


class Step(NamedTuple):
    """What the kernels of an iteration get; most of it is packed once for all iterations.

    Attributes
    ----------
    shares : array, shape (V + 1,)
    history : array
        See :class:`IterationProgress`.
    numbers : (iteration, tol, alpha)
    surfer_and_ranks : Packed
        ``uniform`` and ``targets`` of :class:`Surfer`, then :class:`Ranks`.
    sums : array
        Of the latter.
    """

    shares: Array
    history: Array
    numbers: tuple[int, float, float]
    surfer_and_ranks: Packed
    sums: Array

    @property
    def last_arguments(self) -> tuple[Any, ...]:
        """The last arguments of kernels that advance ranks, from ``history`` on."""
        return self.history, *self.numbers, self.surfer_and_ranks


def iterate_ranks(
    backend: Backend,
    advance: Callable[[Step], None],
    summed: tuple[Array, Array],
    out_weights: Array,
    alpha: float,
    personalization: Array | None,
    start: Array,
    max_iter: int,
    tol: float,
) -> tuple[Array, int, float]:
    """Iterate PageRank with ``advance(step)``, which launches the kernels of an iteration.

    ``summed``: the first arguments of :func:`k_advance_split_rows`.
    """
    num_vertices, dtype = start.shape[0], start.dtype
    ranks = backend.empty(num_vertices, dtype)
    history, sums, *both_shares = backend.empty_arena(
        (2 * (min(RECORDED_ITERATIONS, max_iter) + 1), np.float64), (num_vertices, np.float64),
        (num_vertices + 1, dtype), (num_vertices + 1, dtype), zeroed=1,
    )  # fmt: skip
    k_begin_ranks.launch_strided(num_vertices, start, out_weights, *summed, ranks, *both_shares, sums, history)
    # A placeholder for what the kernels do not read; no kernel writes it.
    targets = start if personalization is None else personalization
    packed = {
        (turn, keeps): Packed(
            int(personalization is None), targets, out_weights, ranks if keeps else ranks[:0], both_shares[turn], sums
        )
        for turn in range(2)
        for keeps in (False, True)
    }
    iterations, error = 0, np.inf
    while iterations < max_iter and not error < tol:
        begin = iterations % RECORDED_ITERATIONS
        if begin == 0 < iterations:
            before, history = history, backend.zeros(history.shape[0], np.float64)
            history[:2] = before[-2:]
        block = max(WATCHED_ITERATIONS, int(WATCHED_SHARE * iterations)) if tol > 0 else OTHER_ITERATIONS
        end = min(begin + block, begin + max_iter - iterations, RECORDED_ITERATIONS)
        for place in range(begin, end):
            turn = iterations % 2
            # The change is needed if there is a tolerance, or after the last iteration.
            keeps = tol > 0 or iterations + KEPT_ITERATIONS >= max_iter
            numbers = place, float(tol), float(alpha)
            advance(Step(both_shares[turn], history, numbers, packed[1 - turn, keeps], sums))
            iterations += 1
        changes = backend.to_host(history[2 * begin + 2 : 2 * end + 2])[CHANGE::2]
        converged = np.flatnonzero(changes < tol)
        done = int(converged[0]) + 1 if converged.shape[0] else end - begin
        error = float(changes[done - 1])
        iterations += done - (end - begin)
    return ranks, iterations, error
