"""Distances after vertices were lost and edges were inserted, on the GPU: one launch for all rounds."""

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
    RELAXATION,
    ROUND_VISITS,
    SPENT,
    TOUCHED,
    Changes,
    d_end_rounds,
    d_note_visits,
    d_word,
)
from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.cuda.grid import d_sync_grid
from dynstore.cuda.warp import d_lane

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = ["Relaxed", "k_relax"]

# Words of ``control`` behind RELAXATION: arrivals; the length of the lost vertices' parts; three lengths of the parts
# of vertices that have come nearer; three counts of visits.
ARRIVALS, LOST_PARTS, NEAR_PARTS, SEEN = RELAXATION, RELAXATION + 1, RELAXATION + 2, RELAXATION + 5
LOST = 2  # the number of the list of their parts; those of vertices that have come nearer are 0 and 1 in turn


class Relaxed(NamedTuple):
    """Distances that relaxation lowers, and the vertices that it has brought nearer.

    Attributes
    ----------
    distances : array, shape (V,)
    unreached, limit : number
        The distance of vertices that are not reached; only distances below ``limit`` are written.
    turns : array, shape (V,), int32
        The last turn for which a vertex was listed; 0 for none, -1 for a lost vertex.
    touched : array, shape (V,)
        The list of all vertices whose distance has changed.
    """

    distances: Array
    unreached: Any
    limit: Any
    turns: Array
    touched: Array


@device
def d_reach(pushed, parts, relaxed, turn, v, nearer):
    """List the vertices of lanes whose distance has decreased, and their rows for the next turn.

    All 32 lanes call. A vertex is listed once in a turn, and once as touched. Atomics: maximum, two adds a warp.
    """
    fresh = False
    if nearer:
        last = cuda.atomic.max(relaxed.turns, v, turn)
        fresh = last == 0
        nearer = last < turn
    d_append(relaxed.touched, parts.control, TOUCHED, v, fresh)
    d_push_rows(pushed, parts, turn & 1, d_word(NEAR_PARTS, turn), v, nearer)


@device
def d_shorten(pushed, parts, relaxed, turn, v, near, length, live):
    """Lower the distance of ``v`` to that over a neighbour at ``near``; list ``v`` if it was longer.

    All 32 lanes call. Atomics: minimum, and those of :func:`d_reach`. The plain read only saves atomics.
    """
    nearer = False
    if live:
        distance = near + length
        if distance < relaxed.limit and distance < relaxed.distances[v]:
            nearer = distance < cuda.atomic.min(relaxed.distances, v, distance)
    d_reach(pushed, parts, relaxed, turn, v, nearer)


@device
def d_pass_changes(pushed, parts, relaxed, changes):
    """Stride over the changes: an edge that is there may shorten its head's distance, in turn 1."""
    warp, warps = d_warps()
    for base in range(warp * 32, changes.src.shape[0], warps * 32):
        i = base + d_lane()
        for side in range(1 + pushed.both):
            v = 0
            near = relaxed.distances[0]
            length = near
            live = i < changes.src.shape[0] and changes.slots[i] >= 0
            if live:
                u, v = int(changes.src[i]), int(changes.dst[i])
                if side == 1:
                    u, v = v, u
                near = relaxed.distances[u]
                length = pushed.first.lengths[int(changes.slots[i]) * pushed.first.stride]  # there may be no slots
                live = near != relaxed.unreached
            d_shorten(pushed, parts, relaxed, 1, v, near, length, live)


@partial(kernel, records={"graph": RowArrays, "changes": Changes})
def k_relax(
    graph, sources, changes, unreached, limit, most, distances, turns, touched, rows, begins, control
):  # fmt: skip
    """Reach lost vertices from others, then pass on distances that have decreased, until there are none.

    ``touched`` has the lost vertices; those whose distance decreases are appended. Sources get the distance 0. The
    blocks wait for each other once a turn. A neighbour's distance that decreases meanwhile may be read before or after:
    the vertex that got it is passed on in the next turn. It stops as ``k_invalidate`` does.
    """
    into = Side(graph.in_offsets, graph.in_indices, graph.in_valid, graph.in_lengths, graph.stride)
    out = Side(graph.out_offsets, graph.out_indices, graph.out_valid, graph.out_lengths, graph.stride)
    pulled, pushed = Sides(into, out, graph.both_ways), Sides(out, into, graph.both_ways)
    parts = Parts(rows, begins, rows.shape[0] // 3, control)
    relaxed = Relaxed(distances, unreached, limit, turns, touched)
    warp, warps = d_warps()
    lane = d_lane()
    going = control[SPENT] == 0
    count = int(control[TOUCHED]) if going else 0
    for base in range(warp * 32, count, warps * 32):
        v = 0
        if base + lane < count:
            v = int(touched[base + lane])
            turns[v] = -1
        d_push_rows(pulled, parts, LOST, LOST_PARTS, v, base + lane < count)
    d_sync_grid(control, 1, ARRIVALS)
    visits = 0
    if going:
        for base in range(warp * 32, sources.shape[0], warps * 32):
            v = 0
            if base + lane < sources.shape[0]:
                v = int(sources[base + lane])
                distances[v] = 0
            d_reach(pushed, parts, relaxed, 1, v, base + lane < sources.shape[0])
        for item in range(warp, int(control[LOST_PARTS]), warps):
            v, begin, end, other = d_open_part(pulled, parts, LOST, item)
            visits += end - begin
            for base in range(begin, end, 32):
                u, length, live = d_read_edge(pulled, other, base + lane, end)
                near = distances[u]
                d_shorten(pushed, parts, relaxed, 1, v, near, length, live and near != unreached)
        d_pass_changes(pushed, parts, relaxed, changes)
    d_note_visits(control, d_word(SEEN, 1), visits)
    d_sync_grid(control, 2, ARRIVALS)
    turn, seen, spent = 1, int(control[d_word(SEEN, 1)]), False
    count = int(control[d_word(NEAR_PARTS, 1)])
    while count > 0 and not spent:  # the same in all threads
        if cuda.grid(1) == 0:  # words that all threads have read, and write again behind a barrier
            control[d_word(NEAR_PARTS, turn + 2)] = 0
            control[d_word(SEEN, turn + 2)] = 0
        visits = 0
        for item in range(warp, count, warps):
            v, begin, end, other = d_open_part(pushed, parts, turn & 1, item)
            visits += end - begin
            near = distances[v]
            for base in range(begin, end, 32):
                child, length, live = d_read_edge(pushed, other, base + lane, end)
                d_shorten(pushed, parts, relaxed, turn + 1, child, near, length, live)
        turn += 1
        d_note_visits(control, d_word(SEEN, turn), visits)
        d_sync_grid(control, turn + 1, ARRIVALS)
        seen += int(control[d_word(SEEN, turn)])
        spent = seen + turn * ROUND_VISITS > most
        count = int(control[d_word(NEAR_PARTS, turn)])
    d_end_rounds(control, seen, spent)
