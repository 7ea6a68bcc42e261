"""Vertices of a shortest-path tree that have lost their support, on the GPU: one launch for all rounds."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from dynstore.algorithms.rows.cuda.row_lists import (
    Parts,
    RowArrays,
    Side,
    Sides,
    d_open_part,
    d_push_rows,
    d_read_edge,
    d_warps,
)
from dynstore.algorithms.rows.cuda.sweeps import d_append
from dynstore.algorithms.traversal.cuda.rounds import (
    INVALIDATION,
    ROUND_VISITS,
    SUSPECTS,
    TOUCHED,
    Tree,
    d_end_rounds,
    d_note_visits,
    d_word,
)
from dynstore.cuda.block import d_claim
from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.cuda.grid import d_sync_grid
from dynstore.cuda.warp import d_lane

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = ["Groups", "Suspects", "d_explains", "d_support", "k_find_suspects", "k_invalidate"]

# Words of ``control`` behind INVALIDATION: arrivals; three lengths of the suspects' parts, for three rounds in turn;
# the length of the parts of fallen vertices; three counts of visits.
ARRIVALS, SUSPECT_PARTS, FALLEN_PARTS, SEEN = INVALIDATION, INVALIDATION + 1, INVALIDATION + 4, INVALIDATION + 5
FALLEN = 2  # the number of the list of their parts; those of suspects are 0 and 1 in turn


class Groups(NamedTuple):
    """Each vertex's group, if they are ``grouped``; else ``labels`` is any array."""

    labels: Array
    grouped: Any


class Suspects(NamedTuple):
    """Vertices that may have lost their support.

    Attributes
    ----------
    vertices : array, shape (2 V,)
        The lists of two rounds.
    queued : array, shape (V,), int32
        Whether a vertex is in a list now.
    best : array, shape (V,)
        For each vertex ``no_vertex`` minus its smallest parent found, so that 0 is none.
    """

    vertices: Array
    queued: Array
    best: Array


@device
def d_queue(queued, items, first, control, word, vertex, wanted):
    """Append vertices that are not queued yet, from ``items[first]`` on; return whether this lane has done so.

    All 32 lanes call. Atomics: exchange, one add a warp.
    """
    if wanted:
        wanted = cuda.atomic.exch(queued, vertex, 1) == 0
    place = first + d_claim(control, word, wanted)
    if wanted:
        items[place] = vertex
    return wanted


@kernel
def k_find_suspects(
    src, dst, slots, before, lengths, stride, both_ways, distances, predecessors, queued, suspects, control
):  # fmt: skip
    """One thread a change: append its head if its parent's edge is deleted or longer. Atomics: :func:`d_queue`."""
    i = int(cuda.grid(1))
    for side in range(1 + both_ways):
        v = 0
        wanted = False
        if i < src.shape[0] and before[i]:
            u = int(src[i])
            v = int(dst[i])
            if side == 1:
                u, v = v, u
            p = int(slots[i])
            if predecessors[v] == u:
                wanted = p < 0
                if not wanted:
                    wanted = distances[u] + lengths[p * stride] > distances[v]
        d_queue(queued, suspects, 0, control, SUSPECTS, v, wanted)


@device
def d_explains(distances, u, v, length):
    """Whether the path over ``u`` has exactly the distance of ``v``; False if an end is unreached."""
    return distances[u] + length == distances[v]


@device
def d_support(sides, other, v, slot, end, tree, groups, best):
    """Keep the smallest nearer parent of ``v``; return whether an equally near neighbour explains its distance, too.

    ``best`` has ``no_vertex`` minus the parent (atomic maximum), so that 0 is none. If vertices are grouped, the parent
    must be of the same group. Unreached vertices have no parent.
    """
    tie = False
    u, length, live = d_read_edge(sides, other, slot, end)
    if live and tree.distances[u] <= tree.distances[v] and u != v:
        fits = not groups.grouped or groups.labels[u] == groups.labels[v]
        if fits and d_explains(tree.distances, u, v, length):
            if tree.distances[u] == tree.distances[v]:
                tie = True
            else:
                cuda.atomic.max(best, v, tree.no_vertex - u)
    return tie


@device
def d_decide(pushed, parts, tree, suspects, first, count, touched):
    """Give each suspect the parent that was found, or make it unreached, and list it and its row.

    The ``count`` suspects of the round are listed from ``first`` on. Each vertex is written by one thread.
    """
    warp, warps = d_warps()
    for base in range(warp * 32, count, warps * 32):
        i = base + d_lane()
        v = 0
        gone = False
        if i < count:
            v = int(suspects.vertices[first + i])
            suspects.queued[v] = 0
            found = suspects.best[v]
            suspects.best[v] = 0
            gone = found == 0
            tree.predecessors[v] = -1 if gone else tree.no_vertex - found
            if gone:
                tree.distances[v] = tree.unreached
        d_append(touched, parts.control, TOUCHED, v, gone)
        d_push_rows(pushed, parts, FALLEN, FALLEN_PARTS, v, gone)


@partial(kernel, records={"graph": RowArrays, "groups": Groups})
def k_invalidate(
    graph, groups, no_vertex, unreached, most, distances, predecessors, best, queued, listed, touched, rows, begins,
    control,
):  # fmt: skip
    """Decide all suspects of a round together; the children of those that fall are suspects of the next round.

    The blocks wait for each other three times a round: after the search for parents, after the decisions, and after
    the search for children. ``listed`` has the suspects of two rounds; the first list is there, its length is
    ``control[SUSPECTS]``. Fallen vertices are appended to ``touched``. It stops where more than ``most`` edges were
    visited; a round counts as ROUND_VISITS.
    """
    into = Side(graph.in_offsets, graph.in_indices, graph.in_valid, graph.in_lengths, graph.stride)
    out = Side(graph.out_offsets, graph.out_indices, graph.out_valid, graph.out_lengths, graph.stride)
    pulled, pushed = Sides(into, out, graph.both_ways), Sides(out, into, graph.both_ways)
    tree = Tree(distances, predecessors, unreached, no_vertex)
    suspects, num_vertices = Suspects(listed, queued, best), distances.shape[0]
    parts = Parts(rows, begins, rows.shape[0] // 3, control)
    warp, warps = d_warps()
    count, phase, number = int(control[SUSPECTS]), 1, 0
    for base in range(warp * 32, count, warps * 32):
        i = base + d_lane()
        v = int(listed[i]) if i < count else 0
        d_push_rows(pulled, parts, 0, SUSPECT_PARTS, v, i < count)
    d_sync_grid(control, phase, ARRIVALS)
    seen, spent = 0, False
    while count > 0 and not spent:  # the same in all threads
        current, following = number & 1, (number + 1) & 1
        if cuda.grid(1) == 0:  # words that all threads have read, and write again behind a barrier
            control[FALLEN_PARTS] = 0
            control[d_word(SUSPECTS, number + 1)] = 0
            control[d_word(SUSPECT_PARTS, number + 1)] = 0
            control[d_word(SEEN, number + 1)] = 0
        visits = 0
        for item in range(warp, int(control[d_word(SUSPECT_PARTS, number)]), warps):
            v, begin, end, other = d_open_part(pulled, parts, current, item)
            visits += end - begin
            for base in range(begin, end, 32):
                d_support(pulled, other, v, base + d_lane(), end, tree, groups, best)
        d_note_visits(control, d_word(SEEN, number), visits)
        d_sync_grid(control, phase + 1, ARRIVALS)
        d_decide(pushed, parts, tree, suspects, current * num_vertices, count, touched)
        d_sync_grid(control, phase + 2, ARRIVALS)
        visits = 0
        for item in range(warp, int(control[FALLEN_PARTS]), warps):
            v, begin, end, other = d_open_part(pushed, parts, FALLEN, item)
            visits += end - begin
            for base in range(begin, end, 32):
                child, _, _ = d_read_edge(pushed, other, base + d_lane(), end)
                wanted = base + d_lane() < end and predecessors[child] == v and distances[child] != unreached
                first, word = following * num_vertices, d_word(SUSPECTS, number + 1)
                new = d_queue(queued, listed, first, control, word, child, wanted)
                d_push_rows(pulled, parts, following, d_word(SUSPECT_PARTS, number + 1), child, new)
        d_note_visits(control, d_word(SEEN, number), visits)
        phase += 3
        d_sync_grid(control, phase, ARRIVALS)
        seen += int(control[d_word(SEEN, number)])
        number += 1
        spent = seen + number * ROUND_VISITS > most
        count = int(control[d_word(SUSPECTS, number)])
    d_end_rounds(control, seen, spent)
