"""PageRank and components over pages on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.link_analysis.cpu.iterations import iterate_ranks
from dynstore.algorithms.paged.cpu.slots import add_slots, d_unite, sum_slot_tails, unite_slots
from dynstore.host_compiler import inlined, njit
from dynstore.stores.paged.cpu import d_has_bit, walk_edges, walk_leaves, walk_weighted
from dynstore.stores.paged.layout import LEAF, Leaves, PagedWeights, Stored

if TYPE_CHECKING:
    from dynstore.algorithms.paged.passes import PageReader, Piece
    from dynstore.stores.paged.layout import PagedRows
    from dynstore.typing import Array

__all__ = ["pagerank", "sum_shares", "sum_slot_tails", "sum_tails", "unite"]


@inlined
def d_sum_leaf(leaves, stored, leaf, others, valid, shares, sums):
    """Add the shares of the neighbours to the sums of a leaf's rows, one addition a row."""
    mark, rank, bits, total = leaves.marks[leaf], np.int64(leaves.ranks[leaf]), valid[leaf], 0.0
    for slot in range(LEAF):
        if slot > 0 and d_has_bit(mark, slot):
            sums[leaves.rows[rank]] += total
            total = 0.0
            rank += 1
        if d_has_bit(bits, slot):
            total += shares[others[slot]]
    sums[leaves.rows[rank]] += total


d_walk_sums = walk_leaves(d_sum_leaf)


@njit(cache=True, nogil=True)
def k_sum_leaves(heads, bases, marks, ranks, rows, words, places, shift, page_bits, valid, pages, shares, sums):
    """Add the shares of the neighbours to the sums of their rows."""
    leaves, stored = Leaves(heads, bases, marks, ranks, rows), Stored(words, places, shift, page_bits)
    d_walk_sums(leaves, stored, pages, None, valid, shares, sums)


@inlined
def d_add_weighted(row, other, weight, shares, sums):
    """Add a neighbour's share, times the weight, to the row's sum."""
    sums[row] += np.float64(shares[other]) * weight


d_walk_weighted = walk_weighted(d_add_weighted)


@njit(cache=True, nogil=True)
def k_sum_weighted_leaves(
    heads, bases, marks, ranks, rows, words, places, shift, page_bits, valid, pages, weights, weight_places,
    weight_shift, shares, sums,
):  # fmt: skip
    """Add the shares of the neighbours, times the weights, to the sums of their rows."""
    leaves, stored = Leaves(heads, bases, marks, ranks, rows), Stored(words, places, shift, page_bits)
    column = PagedWeights(weights, weight_places, weight_shift)
    d_walk_weighted(leaves, stored, pages, None, valid, column, shares, sums)


@inlined
def d_add_tail(row, other, weight, sums):
    """Add the weight of an edge to the sum of its tail."""
    sums[other] += weight


d_walk_tails = walk_weighted(d_add_tail)


@njit(cache=True, nogil=True)
def k_sum_tails(
    heads, bases, marks, ranks, rows, words, places, shift, page_bits, valid, pages, weights, weight_places,
    weight_shift, sums,
):  # fmt: skip
    """Add the weights of edges to the sums of their tails, the neighbours."""
    leaves, stored = Leaves(heads, bases, marks, ranks, rows), Stored(words, places, shift, page_bits)
    column = PagedWeights(weights, weight_places, weight_shift)
    d_walk_tails(leaves, stored, pages, None, valid, column, sums)


@njit(cache=True, nogil=True)
def k_advance_ranks(sums, alpha, spread, ranks):
    """Replace the ranks by those of the next iteration; return the L1 change."""
    change = 0.0
    for v in range(ranks.shape[0]):
        before = ranks[v]
        ranks[v] = alpha * sums[v] + spread / ranks.shape[0]
        change += abs(np.float64(ranks[v]) - before)
    return change


@inlined
def d_unite_ends(row, other, slot, parents):
    """Unite the ends of an edge."""
    d_unite(parents, row, other)


d_walk_ends = walk_edges(d_unite_ends)


@njit(cache=True, nogil=True)
def k_unite_leaves(heads, bases, marks, ranks, rows, words, places, shift, page_bits, valid, pages, parents):
    """Unite the ends of all edges; the larger root is hooked under the smaller."""
    leaves, stored = Leaves(heads, bases, marks, ranks, rows), Stored(words, places, shift, page_bits)
    d_walk_ends(leaves, stored, pages, None, valid, parents)


@njit(cache=True, nogil=True)
def k_flatten_trees(parents):
    """Point each vertex at its root; a parent is smaller than its child."""
    for v in range(parents.shape[0]):
        parents[v] = parents[parents[v]]


def pagerank(
    into: PageReader, out_weights: Array, alpha: float, start: Array, max_iter: int, tol: float, weighted: bool
) -> tuple[Array, int, float]:
    """Iterate PageRank over in-edges in pages; returns ranks, iterations and the last change."""
    packed = into.packed

    def pull(shares: Array, spread: float, ranks: Array) -> float:
        sums = np.zeros(packed.num_vertices, np.float64)

        def add(piece: Piece) -> None:
            if weighted:
                k_sum_weighted_leaves(*packed.leaves, *piece.weighted_arguments, shares, sums)
            else:
                k_sum_leaves(*packed.leaves, *piece.arguments, shares, sums)

        into.visit(add, weighted=weighted)
        if into.extra is not None:
            add_slots(into.extra, shares, sums, weighted)
        change: float = k_advance_ranks(sums, alpha, spread, ranks)
        return change

    return iterate_ranks(pull, out_weights, alpha, start, max_iter, tol)


def sum_shares(packed: PagedRows, piece: Piece, shares: Array, sums: Array) -> None:
    """Add the shares of the neighbours to the sums of their rows; each edge counts 1."""
    k_sum_leaves(*packed.leaves, *piece.arguments, shares, sums)


def sum_tails(packed: PagedRows, piece: Piece, sums: Array) -> None:
    """Add the weights of the edges of a piece to the sums of their tails."""
    k_sum_tails(*packed.leaves, *piece.weighted_arguments, sums)


def unite(edges: PageReader, parents: Array) -> None:
    """Unite the ends of all edges, then point each vertex at the smallest one of its component."""
    packed = edges.packed

    def hook(piece: Piece) -> None:
        k_unite_leaves(*packed.leaves, *piece.arguments, parents)

    edges.visit(hook)
    if edges.extra is not None:
        unite_slots(edges.extra, parents)
    k_flatten_trees(parents)
