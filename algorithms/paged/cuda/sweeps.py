"""PageRank and components over pages on the GPU: a warp a leaf."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.components.cuda.union_find import d_unite, flatten_trees
from dynstore.algorithms.link_analysis.cuda.iterations import CHANGE, iterate_ranks, k_advance_split_rows
from dynstore.algorithms.paged.cuda.slots import add_slots, sum_slot_tails, unite_slots
from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.cuda.launch import Packed
from dynstore.cuda.warp import d_lane, d_shuffle_up
from dynstore.stores.paged.cuda import (
    d_decode_leaf,
    d_fetch_leaf,
    d_find_leaf,
    d_find_row,
    d_find_start,
    d_is_valid,
    d_read_weight,
    d_walk_leaves,
)
from dynstore.stores.paged.layout import LEAF, Leaves, PagedWeights, Stored

if TYPE_CHECKING:
    from dynstore.algorithms.link_analysis.cuda.iterations import Step
    from dynstore.algorithms.paged.passes import PageReader, Piece
    from dynstore.stores.paged.layout import PagedRows
    from dynstore.typing import Array

__all__ = ["d_sum_rows", "pagerank", "sum_shares", "sum_slot_tails", "sum_tails", "unite"]


@device
def d_sum_rows(value, start, lane):
    """Return the sum of ``value`` over the slots of a leaf from ``start`` to this lane's; all 32 lanes call."""
    for step in (1, 2, 4, 8, 16):
        other = d_shuffle_up(value, step)
        if lane - step >= start:
            value += other
    return value


@device
def d_read_one(column, page_bits, leaf, lane):
    """Return what an edge counts without weights."""
    return 1.0


@device
def d_add_shares(leaves, stored, pages, valid, column, read, state):
    """Warps stride over leaves: add the shares of the neighbours to the sums of their rows, an atomic add a row.

    Each share counts as often as ``read(column, page_bits, leaf, lane)`` says. A leaf is fetched with what it returns
    while the one before is worked on, so that their reads overlap.
    """
    shares, sums = state
    lane, last, page_bits = d_lane(), leaves.heads.shape[0] - 1, stored.page_bits
    item, stride, num_items = int(cuda.grid(1)) >> 5, int(cuda.gridsize(1)) >> 5, pages.shape[0] << page_bits
    if item >= num_items:  # the same in all lanes
        return
    coming = d_find_leaf(pages, page_bits, item)
    coming_head, coming_base, coming_mark, coming_word = d_fetch_leaf(leaves, stored, coming, lane)
    coming_weight = read(column, page_bits, min(coming, last), lane)
    while item < num_items:
        leaf, head, base, mark, word = coming, coming_head, coming_base, coming_mark, coming_word
        weight = coming_weight
        item += stride
        if item < num_items:
            coming = d_find_leaf(pages, page_bits, item)
            coming_head, coming_base, coming_mark, coming_word = d_fetch_leaf(leaves, stored, coming, lane)
            coming_weight = read(column, page_bits, min(coming, last), lane)
        if leaf < leaves.heads.shape[0]:
            other = d_decode_leaf(head, base, mark, word, lane)
            share = 0.0
            if d_is_valid(valid, leaf, lane):
                share = np.float64(shares[other]) * np.float64(weight)
            total = d_sum_rows(share, d_find_start(mark, lane), lane)
            if lane == LEAF - 1 or (mark >> np.uint32((lane + 1) & 31)) & np.uint32(1) != 0:
                cuda.atomic.add(sums, d_find_row(leaves, leaf, mark, lane), total)


@kernel
def k_sum_leaves(heads, bases, marks, ranks, rows, words, places, shift, page_bits, valid, pages, shares, sums):
    """Warps stride over leaves: add the shares of the neighbours to the sums of their rows (atomic adds)."""
    leaves, stored = Leaves(heads, bases, marks, ranks, rows), Stored(words, places, shift, page_bits)
    d_add_shares(leaves, stored, pages, valid, None, d_read_one, (shares, sums))


@kernel
def k_sum_weighted_leaves(
    heads, bases, marks, ranks, rows, words, places, shift, page_bits, valid, pages, weights, weight_places,
    weight_shift, shares, sums,
):  # fmt: skip
    """Warps stride over leaves: as :func:`k_sum_leaves`, each share times its weight."""
    leaves, stored = Leaves(heads, bases, marks, ranks, rows), Stored(words, places, shift, page_bits)
    column = PagedWeights(weights, weight_places, weight_shift)
    d_add_shares(leaves, stored, pages, valid, column, d_read_weight, (shares, sums))


@device
def d_add_tail(leaves, slot, state):
    """Add the weight of an edge to the sum of its tail (atomic add)."""
    valid, column, page_bits, sums = state
    weight = d_read_weight(column, page_bits, slot.leaf, slot.lane)
    if d_is_valid(valid, slot.leaf, slot.lane):
        cuda.atomic.add(sums, slot.other, np.float64(weight))


@kernel
def k_sum_tails(
    heads, bases, marks, ranks, rows, words, places, shift, page_bits, valid, pages, weights, weight_places,
    weight_shift, sums,
):  # fmt: skip
    """Warps stride over leaves: add the weights of edges to the sums of their tails, the neighbours (atomic adds)."""
    leaves, stored = Leaves(heads, bases, marks, ranks, rows), Stored(words, places, shift, page_bits)
    column = PagedWeights(weights, weight_places, weight_shift)
    d_walk_leaves(leaves, stored, pages, d_add_tail, (valid, column, page_bits, sums))


@device
def d_unite_ends(leaves, slot, state):
    """Unite the ends of an edge."""
    valid, parents = state
    if d_is_valid(valid, slot.leaf, slot.lane):
        row = d_find_row(leaves, slot.leaf, slot.mark, slot.lane)
        first, second = int(parents[row]), int(parents[slot.other])
        if first != second:
            d_unite(parents, first, second)


@kernel
def k_unite_leaves(heads, bases, marks, ranks, rows, words, places, shift, page_bits, valid, pages, parents):
    """Warps stride over leaves: unite the ends of all edges; atomics as in :func:`d_unite`."""
    leaves, stored = Leaves(heads, bases, marks, ranks, rows), Stored(words, places, shift, page_bits)
    d_walk_leaves(leaves, stored, pages, d_unite_ends, (valid, parents))


def pagerank(
    into: PageReader, out_weights: Array, alpha: float, start: Array, max_iter: int, tol: float, weighted: bool
) -> tuple[Array, int, float]:
    """Iterate PageRank over in-edges in pages; returns ranks, iterations and the last change.

    With a tolerance the host waits for the last iteration's change, so that no pass is made in vain.
    """
    packed = into.packed
    backend = packed.backend
    every = backend.xp.arange(packed.num_vertices, dtype=np.int32)
    lengths = backend.empty(1, np.int64)
    lengths.fill(packed.num_vertices)
    leaves, summed = Packed(*packed.leaves), Packed(every, lengths)
    add_leaves = k_sum_weighted_leaves if weighted else k_sum_leaves

    def advance(step: Step) -> None:
        if tol > 0 and float(step.history[2 * step.numbers[0] + CHANGE]) < tol:
            return

        def add(piece: Piece) -> None:
            num_threads = (piece.pages.shape[0] << piece.page_bits) * LEAF
            arguments = piece.weighted_arguments if weighted else piece.arguments
            add_leaves.launch_strided(num_threads, leaves, *arguments, step.shares, step.sums)

        into.visit(add, weighted=weighted)
        if into.extra is not None:
            add_slots(into.extra, step.shares, step.sums, weighted)
        k_advance_split_rows.launch_strided(packed.num_vertices, summed, *step.last_arguments)

    return iterate_ranks(backend, advance, (every, lengths), out_weights, alpha, None, start, max_iter, tol)


def sum_shares(packed: PagedRows, piece: Piece, shares: Array, sums: Array) -> None:
    """Add the shares of the neighbours to the sums of their rows; each edge counts 1."""
    num_threads = (piece.pages.shape[0] << packed.page_bits) * LEAF
    k_sum_leaves.launch_strided(num_threads, *packed.leaves, *piece.arguments, shares, sums)


def sum_tails(packed: PagedRows, piece: Piece, sums: Array) -> None:
    """Add the weights of the edges of a piece to the sums of their tails."""
    num_threads = (piece.pages.shape[0] << packed.page_bits) * LEAF
    k_sum_tails.launch_strided(num_threads, *packed.leaves, *piece.weighted_arguments, sums)


def unite(edges: PageReader, parents: Array) -> None:
    """Unite the ends of all edges, then point each vertex at the smallest one of its component."""
    packed = edges.packed
    leaves = Packed(*packed.leaves)

    def hook(piece: Piece) -> None:
        num_threads = (piece.pages.shape[0] << piece.page_bits) * LEAF
        k_unite_leaves.launch_strided(num_threads, leaves, *piece.arguments, parents)

    edges.visit(hook)
    if edges.extra is not None:
        unite_slots(edges.extra, parents)
    flatten_trees(parents)
