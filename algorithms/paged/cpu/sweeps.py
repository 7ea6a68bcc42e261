"""PageRank and components over pages on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.link_analysis.cpu.iterations import iterate_ranks
from dynstore.algorithms.paged.cpu.slots import add_slots, d_unite, sum_slot_tails, unite_slots
from dynstore.host_compiler import njit
from dynstore.stores.paged.cpu import d_find_place, d_find_weights, d_has_bit, d_open_leaf
from dynstore.stores.paged.layout import LEAF

if TYPE_CHECKING:
    from dynstore.algorithms.paged.passes import PageReader, Piece
    from dynstore.stores.paged.layout import PagedRows
    from dynstore.typing import Array

__all__ = ["pagerank", "sum_shares", "sum_slot_tails", "sum_tails", "unite"]


@njit(cache=True, nogil=True)
def k_sum_leaves(heads, bases, marks, ranks, rows, words, places, shift, page_bits, valid, pages, shares, sums):
    """Add the shares of the neighbours to the sums of their rows."""
    others = np.empty(LEAF, np.int64)
    for page in pages:
        for leaf in range(page << page_bits, min((page + 1) << page_bits, heads.shape[0])):
            place = d_find_place(places, shift, page_bits, heads[leaf], leaf)
            d_open_leaf(words, place, heads[leaf], bases[leaf], marks[leaf], LEAF, others)
            rank = np.int64(ranks[leaf])
            total = 0.0
            for slot in range(LEAF):
                if slot > 0 and d_has_bit(marks[leaf], slot):
                    sums[rows[rank]] += total
                    total = 0.0
                    rank += 1
                if d_has_bit(valid[leaf], slot):
                    total += shares[others[slot]]
            sums[rows[rank]] += total


@njit(cache=True, nogil=True)
def k_sum_weighted_leaves(
    heads, bases, marks, ranks, rows, words, places, shift, page_bits, valid, pages, weights, weight_places,
    weight_shift, shares, sums,
):  # fmt: skip
    """Add the shares of the neighbours, times the weights, to the sums of their rows."""
    others = np.empty(LEAF, np.int64)
    for page in pages:
        for leaf in range(page << page_bits, min((page + 1) << page_bits, heads.shape[0])):
            place = d_find_place(places, shift, page_bits, heads[leaf], leaf)
            d_open_leaf(words, place, heads[leaf], bases[leaf], marks[leaf], LEAF, others)
            begin = d_find_weights(weight_places, weight_shift, page_bits, leaf)
            rank = np.int64(ranks[leaf])
            for slot in range(LEAF):
                if slot > 0 and d_has_bit(marks[leaf], slot):
                    rank += 1
                if d_has_bit(valid[leaf], slot):
                    sums[rows[rank]] += np.float64(shares[others[slot]]) * weights[begin + slot]


@njit(cache=True, nogil=True)
def k_sum_tails(
    heads, bases, marks, ranks, rows, words, places, shift, page_bits, valid, pages, weights, weight_places,
    weight_shift, sums,
):  # fmt: skip
    """Add the weights of edges to the sums of their tails, the neighbours."""
    others = np.empty(LEAF, np.int64)
    for page in pages:
        for leaf in range(page << page_bits, min((page + 1) << page_bits, heads.shape[0])):
            place = d_find_place(places, shift, page_bits, heads[leaf], leaf)
            d_open_leaf(words, place, heads[leaf], bases[leaf], marks[leaf], LEAF, others)
            begin = d_find_weights(weight_places, weight_shift, page_bits, leaf)
            for slot in range(LEAF):
                if d_has_bit(valid[leaf], slot):
                    sums[others[slot]] += weights[begin + slot]


@njit(cache=True, nogil=True)
def k_advance_ranks(sums, alpha, spread, ranks):
    """Replace the ranks by those of the next iteration; return the L1 change."""
    change = 0.0
    for v in range(ranks.shape[0]):
        before = ranks[v]
        ranks[v] = alpha * sums[v] + spread / ranks.shape[0]
        change += abs(np.float64(ranks[v]) - before)
    return change


@njit(cache=True, nogil=True)
def k_unite_leaves(heads, bases, marks, ranks, rows, words, places, shift, page_bits, valid, pages, parents):
    """Unite the ends of all edges; the larger root is hooked under the smaller."""
    others = np.empty(LEAF, np.int64)
    for page in pages:
        for leaf in range(page << page_bits, min((page + 1) << page_bits, heads.shape[0])):
            place = d_find_place(places, shift, page_bits, heads[leaf], leaf)
            d_open_leaf(words, place, heads[leaf], bases[leaf], marks[leaf], LEAF, others)
            rank = np.int64(ranks[leaf])
            for slot in range(LEAF):
                if slot > 0 and d_has_bit(marks[leaf], slot):
                    rank += 1
                if d_has_bit(valid[leaf], slot):
                    d_unite(parents, rows[rank], others[slot])


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
