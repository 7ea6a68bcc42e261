"""Shortest paths over pages; the paper runs them, and does not show its kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.gts.cuda.pages import (
    d_find_list,
    d_mark_pages,
    d_num_slots,
    d_open_pages,
    d_read_neighbor,
    d_read_weight,
    d_share_pages,
    d_vertex_of,
    d_walk_large,
    d_walk_small,
)

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = ["FIND_PARENTS", "RELAX", "PathParents", "PathRound"]


class PathRound(NamedTuple):
    """Where a round of relaxations writes, and its number."""

    next_pages: Array
    turn: Any
    distances: Array
    turns: Array
    limit: Any


class PathParents(NamedTuple):
    """Distances, and where their parents are written; ``stages``: in which stage a vertex got its parent."""

    stage: Any
    distances: Array
    stages: Array
    parents: Array


@device
def d_relax(pages, begin, size, i, vertex, paths):
    """Lower a neighbour's distance (atomic minimum); who lowers it marks its pages for the next round."""
    near = paths.distances[vertex]
    pid, other = d_read_neighbor(pages, begin, i)
    distance = near + d_read_weight(pages, begin, size, i)
    if distance < paths.limit and distance < paths.distances[other]:
        if distance < cuda.atomic.min(paths.distances, other, distance):
            paths.turns[other] = paths.turn + 1
            d_mark_pages(paths.next_pages, pages, pid)


@device
def d_has_turn(pages, vertex, paths):
    """Choose the vertices whose distance the last round has lowered."""
    return paths.turns[vertex] == paths.turn


@kernel
def k_relax_small(
    words, first, count, lanes, starts, ranges, layout, next_pages, turn, distances, turns, limit
):  # fmt: skip
    """``lanes`` threads relax the edges of a vertex whose distance the last round has lowered.

    A distance that decreases meanwhile may be read before or after: its vertex has its turn in the next round, too.
    Atomics: see :func:`d_relax`.
    """
    paths = PathRound(next_pages, turn, distances, turns, limit)
    d_walk_small(d_open_pages(words, first, starts, ranges, layout), count, lanes, d_has_turn, d_relax, paths)


@kernel
def k_relax_large(
    words, first, count, lanes, starts, ranges, layout, next_pages, turn, distances, turns, limit
):  # fmt: skip
    """One thread an edge, as :func:`k_relax_small`."""
    paths = PathRound(next_pages, turn, distances, turns, limit)
    d_walk_large(d_open_pages(words, first, starts, ranges, layout), count, lanes, d_has_turn, d_relax, paths)


@device
def d_try_parent(pages, begin, size, i, vertex, tree):
    """Make the vertex a neighbour's parent if it is on a shortest path (atomic minimum).

    In stage 0 parents are nearer than their children. Edges of weight 0 come in later stages: there a parent has its
    own parent from an earlier stage, so that there are no cycles.
    """
    other = d_read_neighbor(pages, begin, i)[1]
    near = tree.distances[vertex]
    if near + d_read_weight(pages, begin, size, i) == tree.distances[other] and tree.stages[other] >= tree.stage:
        if near < tree.distances[other] if tree.stage == 0 else tree.stages[vertex] < tree.stage:
            tree.stages[other] = tree.stage
            cuda.atomic.min(tree.parents, other, vertex)


@kernel
def k_find_parents_small(
    words, first, count, lanes, starts, ranges, layout, stage, distances, stages, parents
):  # fmt: skip
    """``lanes`` threads a vertex, reached or not. Atomics: see :func:`d_try_parent`."""
    pages, share = d_open_pages(words, first, starts, ranges, layout), d_share_pages(count, lanes)
    tree = PathParents(stage, distances, stages, parents)
    for page in range(share.page, count, share.step):
        for slot in range(share.worker, d_num_slots(pages, page), share.workers):
            begin, size = d_find_list(pages, page, slot)
            i = share.lane
            while i < size:
                d_try_parent(pages, begin, size, i, d_vertex_of(pages, page, slot), tree)
                i += lanes


@kernel
def k_find_parents_large(
    words, first, count, lanes, starts, ranges, layout, stage, distances, stages, parents
):  # fmt: skip
    """One thread an edge. Atomics: see :func:`d_try_parent`."""
    pages, share = d_open_pages(words, first, starts, ranges, layout), d_share_pages(count, lanes)
    tree = PathParents(stage, distances, stages, parents)
    for page in range(share.page, count, share.step):
        begin, size = d_find_list(pages, page, 0)
        for i in range(share.thread, size, share.threads):
            d_try_parent(pages, begin, size, i, d_vertex_of(pages, page, 0), tree)


RELAX = k_relax_small, k_relax_large
FIND_PARENTS = k_find_parents_small, k_find_parents_large
