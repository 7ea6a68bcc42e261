"""PageRank on the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore._cuda.compiler import SIMULATED, cuda, device, kernel
from dynstore._cuda.warp import d_lane, d_sum_lanes
from dynstore.algorithms._cuda._common import d_has_bit, rank_offsets

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["pagerank", "sum_out_weights"]

# Rows of more slots than this get warps; each warp takes a chunk, so a hub is shared by many.
NARROW_SLOTS = 16 if SIMULATED else 32
CHUNK_SLOTS = 64 if SIMULATED else 1024


@device
def d_read_term(indices, valid, weights, weighted, values, pulled, slot):
    """Return what ``slot`` adds to the sum of its row, in float64: its weight, times its neighbour's value."""
    term = 0.0
    if d_has_bit(valid, slot):
        term = 1.0
        if pulled:
            term = np.float64(values[indices[slot]])
        if weighted:
            term *= np.float64(weights[slot])
    return term


@kernel
def k_sum_narrow_rows(offsets, indices, valid, weights, weighted, values, pulled, sums):
    """One thread a row: write its sum if it is narrow, else 0, which :func:`k_sum_chunks` adds to."""
    row = int(cuda.grid(1))
    if row < sums.shape[0]:
        begin = int(offsets[row])
        end = int(offsets[row + 1])
        total = 0.0
        if end - begin <= NARROW_SLOTS:
            for slot in range(begin, end):
                total += d_read_term(indices, valid, weights, weighted, values, pulled, slot)
        sums[row] = total


@kernel
def k_sum_chunks(offsets, indices, valid, weights, weighted, values, pulled, rows, begins, sums):
    """One warp a chunk of a wide row: one atomic add to the row's sum."""
    chunk = int(cuda.grid(1)) >> 5
    lane = d_lane()
    total = 0.0
    row = 0
    if chunk < rows.shape[0]:  # the same in all lanes
        row = int(rows[chunk])
        begin = int(begins[chunk])
        end = min(begin + CHUNK_SLOTS, int(offsets[row + 1]))
        for slot in range(begin + lane, end, 32):
            total += d_read_term(indices, valid, weights, weighted, values, pulled, slot)
    total = d_sum_lanes(total)
    if lane == 0 and chunk < rows.shape[0]:
        cuda.atomic.add(sums, row, total)


class _RowSums:
    """Sums over the rows of a gap-aware CSR, the rows sorted once by how many threads each deserves."""

    def __init__(self, csr: GapCSR) -> None:
        xp, offsets = csr.backend.xp, csr.offsets
        self.csr = csr
        slots = offsets[1:] - offsets[:-1]
        wide = xp.nonzero(slots > NARROW_SLOTS)[0]
        chunks = (slots[wide].astype(np.int64) + (CHUNK_SLOTS - 1)) // CHUNK_SLOTS
        ends = xp.cumsum(chunks)
        num_chunks = int(ends[-1]) if ends.shape[0] else 0
        numbers = xp.arange(num_chunks, dtype=np.int64)
        which = xp.searchsorted(ends, numbers, side="right") if num_chunks else numbers
        self.rows = wide[which]
        self.begins = offsets[self.rows] + (numbers - (ends[which] - chunks[which])) * CHUNK_SLOTS

    def add(self, values: Array | None, sums: Array) -> None:
        """Write to ``sums``, shape (V,), float64, each row's sum of weight (or 1) times neighbour's value (or 1)."""
        csr = self.csr
        nothing = sums[:1]  # stands for an array that the kernels do not read
        terms = (
            csr.offsets,
            csr.indices,
            csr.valid,
            nothing if csr.weights is None else csr.weights,
            int(csr.weights is not None),
            nothing if values is None else values,
            int(values is not None),
        )
        k_sum_narrow_rows.launch(csr.num_vertices, *terms, sums)
        k_sum_chunks.launch_warps(self.rows.shape[0], *terms, self.rows, self.begins, sums)


def sum_out_weights(out: GapCSR) -> Array:
    """Return the sum of each vertex's out-weights, or its out-degree where there are no weights.

    Returns
    -------
    array, shape (V,)
        In the weight dtype, or float32 where there are no weights; summed in float64.
    """
    if out.weights is None:
        _, packed = rank_offsets(out.backend, out.offsets, out.valid, out.num_slots)
        return (packed[1:] - packed[:-1]).astype(np.float32)
    sums = out.backend.empty(out.num_vertices, np.float64)
    _RowSums(out).add(None, sums)
    return sums.astype(out.weights.dtype)


@device
def d_share_rank(ranks, out_weights, shares, vertex):
    """Write what ``vertex`` gives per unit of weight; return the rank that it has no edge to give along."""
    rank = ranks[vertex]
    weight = out_weights[vertex]
    if weight == 0:
        shares[vertex] = 0
        return np.float64(rank)
    shares[vertex] = rank / weight
    return 0.0


@kernel
def k_share_ranks(ranks, out_weights, shares, totals):
    """Stride over the vertices; whole warps: one atomic add each to ``totals[0]``, the dangling rank."""
    dangling = 0.0
    for vertex in range(int(cuda.grid(1)), ranks.shape[0], int(cuda.gridsize(1))):
        dangling += d_share_rank(ranks, out_weights, shares, vertex)
    dangling = d_sum_lanes(dangling)
    if d_lane() == 0:
        cuda.atomic.add(totals, 0, dangling)


@kernel
def k_advance_ranks(sums, out_weights, targets, uniform, alpha, before, ranks, shares, totals):
    """Stride over the vertices: their next ranks and shares, from the sums over their in-edges.

    ``before[0]`` is the dangling rank of this iteration; ``totals`` get that of the next one and the L1 change, by
    two atomic adds a warp. Every vertex is read and written by its own thread alone.
    """
    spread = alpha * before[0] + 1.0 - alpha
    if uniform:
        spread /= ranks.shape[0]
    dangling = 0.0
    change = 0.0
    for vertex in range(int(cuda.grid(1)), ranks.shape[0], int(cuda.gridsize(1))):
        old = np.float64(ranks[vertex])
        given = spread
        if not uniform:
            given = spread * np.float64(targets[vertex])
        ranks[vertex] = alpha * sums[vertex] + given
        change += abs(np.float64(ranks[vertex]) - old)
        dangling += d_share_rank(ranks, out_weights, shares, vertex)
    dangling = d_sum_lanes(dangling)
    change = d_sum_lanes(change)
    if d_lane() == 0:
        cuda.atomic.add(totals, 0, dangling)
        cuda.atomic.add(totals, 1, change)


def pagerank(
    into: GapCSR,
    out_weights: Array,
    alpha: float,
    personalization: Array | None,
    start: Array,
    max_iter: int,
    tol: float,
) -> tuple[Array, int, float]:
    """Iterate PageRank, pulling over in-edges.

    Page, Brin, Motwani and Winograd, "The PageRank Citation Ranking", 1999, section 2; the rank of vertices without
    out-edges is handed to all vertices, or as ``personalization`` says, after Langville and Meyer, "Deeper Inside
    PageRank", Internet Mathematics 1(3), 2004, section 3. Three launches an iteration; the change is read back once.

    Parameters
    ----------
    into : GapCSR
        In-edges.
    out_weights : array, shape (V,)
        Of :func:`sum_out_weights`; 0 marks a vertex without out-edges.
    alpha : float
        Probability of following an edge.
    personalization : array, shape (V,), or None
        Where the others go; sums to 1.
    start : array, shape (V,)
        First ranks, summing to 1; left as they are. Its dtype is the result's.
    max_iter : int
        At least 1.
    tol : float
        Stop when the ranks change by less than this in an iteration (L1).

    Returns
    -------
    ranks : array, shape (V,), dtype of ``start``
    iterations : int
    error : float
        L1 change of the last iteration.
    """
    backend, num_vertices = into.backend, into.num_vertices
    if num_vertices == 0:
        return start.copy(), 0, 0.0
    ranks = start.copy()
    shares = backend.empty(num_vertices, start.dtype)
    sums = backend.empty(num_vertices, np.float64)
    rows = _RowSums(into)
    totals = backend.zeros(2, np.float64)
    k_share_ranks.launch_strided(num_vertices, ranks, out_weights, shares, totals)
    uniform = int(personalization is None)
    targets = ranks[:1] if personalization is None else personalization
    error, iterations = np.inf, 0
    while iterations < max_iter and not error < tol:
        rows.add(shares, sums)
        before, totals = totals, backend.zeros(2, np.float64)
        k_advance_ranks.launch_strided(
            num_vertices, sums, out_weights, targets, uniform, float(alpha), before, ranks, shares, totals
        )
        error = float(totals[1])
        iterations += 1
    return ranks, iterations, error
