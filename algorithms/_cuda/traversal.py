"""Breadth-first search and single-source shortest paths on the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore._cuda.compiler import SIMULATED, cuda, device, kernel
from dynstore._cuda.warp import d_ballot, d_lane, d_shuffle, d_sum_lanes
from dynstore.algorithms._cuda._common import (
    Frontier,
    d_count_bits,
    d_has_bit,
    d_lowest_bit,
    d_open_item,
    d_open_tile,
    fill,
)

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["bfs", "sssp"]

# Beamer et al., section 4, as on the host. A bottom-up step also reads every vertex, so the frontier must have some
# slots per vertex to be worth one: a long path never does.
ALPHA = 14
BETA = 24
SWEEP_SHARE = 8
# Slots that a vertex searches alone in a bottom-up step before its warp helps.
LONE_SLOTS = 2 if SIMULATED else 32
# Slots looked at to guess the mean weight.
WEIGHT_SAMPLE = 1 << 16


@device
def d_append(items, size, item, wanted):
    """Append the items of the lanes that want it; return this lane's place, or -1 in all lanes if none wants.

    All 32 lanes call. ``size[0]`` is the length of the list: one atomic add a warp.
    """
    lane = d_lane()
    word = int(d_ballot(wanted))
    place = -1
    if word != 0:  # the same in all lanes
        start = 0
        if lane == 0:
            start = int(cuda.atomic.add(size, 0, d_count_bits(word)))
        place = d_shuffle(start, 0) + d_count_bits(word & ((1 << lane) - 1))
        if wanted:
            items[place] = item
    return place


@device
def d_enqueue(offsets, queue, counts, counters, vertex, wanted):
    """Append vertices to ``queue`` as :func:`d_append` does, and their numbers of slots to ``counts``.

    All 32 lanes call. ``counters``: length of the queue, sum of the counts; one atomic add each a warp.
    """
    place = d_append(queue, counters, vertex, wanted)
    if place >= 0:  # the same in all lanes
        slots = 0
        if wanted:
            slots = int(offsets[vertex + 1]) - int(offsets[vertex])
            counts[place] = slots
        slots = d_sum_lanes(slots)
        if d_lane() == 0:
            cuda.atomic.add(counters, 1, slots)


@device
def d_reach(levels, predecessors, keep_parents, child, parent, level, unreached):
    """Reach ``child`` from ``parent`` in this ``level``; return whether this thread was the first.

    A vertex is reached once (compare-and-swap) and keeps its smallest parent (atomic minimum). The plain read only
    saves atomics: what it may miss is a vertex that another thread reaches in this same level.
    """
    reached = int(levels[child])
    won = False
    if reached == unreached:
        reached = int(cuda.atomic.cas(levels, child, unreached, level))
        won = reached == unreached
    if keep_parents and (won or reached == level) and parent < predecessors[child]:
        cuda.atomic.min(predecessors, child, parent)
    return won


@kernel
def k_push_frontier(
    offsets, indices, valid, frontier, scan, steps, level, unreached, levels, predecessors, keep_parents,
    queue, counts, counters,
):  # fmt: skip
    """One warp a tile of the frontier's slots, one lane a slot: reach the children, queue the new ones.

    ``scan``: inclusive sums of the frontier's slots. Atomics: see :func:`d_reach`, :func:`d_enqueue`.
    """
    first, last, low, high = d_open_tile(scan, steps, int(cuda.grid(1)))
    for base in range(first, last, 32):
        item = base + d_lane()
        child = 0
        won = False
        if item < last:
            parent, slot = d_open_item(offsets, frontier, scan, low, high, item)
            if d_has_bit(valid, slot):
                child = int(indices[slot])
                won = d_reach(levels, predecessors, keep_parents, child, parent, level, unreached)
        d_enqueue(offsets, queue, counts, counters, child, won)


@kernel
def k_pull_parents(
    in_offsets, in_indices, in_valid, out_offsets, frontier, reached, level, unreached, levels, predecessors,
    keep_parents, queue, counts, counters,
):  # fmt: skip
    """One thread a vertex: if unreached, take its first parent in the bitmap ``frontier``; fill the bitmap ``reached``.

    Rows ascend, so the first parent is the smallest. A vertex that has not found one in its first slots is helped by
    its whole warp. Each thread writes only its own vertex, each warp its own word. Atomics: :func:`d_enqueue`.
    """
    vertex = int(cuda.grid(1))
    lane = d_lane()
    slot = 0
    end = 0
    parent = -1
    if vertex < levels.shape[0] and levels[vertex] == unreached:
        slot = int(in_offsets[vertex])
        end = int(in_offsets[vertex + 1])
    alone = min(end, slot + LONE_SLOTS)
    while slot < alone and parent < 0:
        if d_has_bit(in_valid, slot) and d_has_bit(frontier, int(in_indices[slot])):
            parent = int(in_indices[slot])
        slot += 1
    waiting = int(d_ballot(parent < 0 and slot < end))
    while waiting != 0:  # the same in all lanes, as all that follows from ballots and shuffles
        owner = d_lowest_bit(waiting)
        waiting &= waiting - 1
        base = d_shuffle(slot, owner)
        stop = d_shuffle(end, owner)
        hits = 0
        candidate = -1
        while base < stop and hits == 0:
            candidate = -1
            p = base + lane
            if p < stop and d_has_bit(in_valid, p) and d_has_bit(frontier, int(in_indices[p])):
                candidate = int(in_indices[p])
            hits = int(d_ballot(candidate >= 0))
            base += 32
        if hits != 0:
            found = d_shuffle(candidate, d_lowest_bit(hits))
            if lane == owner:
                parent = found
    word = d_ballot(parent >= 0)
    if lane == 0 and (vertex >> 5) < reached.shape[0]:
        reached[vertex >> 5] = word
    if parent >= 0:
        levels[vertex] = level
        if keep_parents:
            predecessors[vertex] = parent
    d_enqueue(out_offsets, queue, counts, counters, vertex, parent >= 0)


@kernel
def k_mark_vertices(vertices, bits):
    """One thread a listed vertex: set its bit (atomic or)."""
    i = int(cuda.grid(1))
    if i < vertices.shape[0]:
        vertex = int(vertices[i])
        cuda.atomic.or_(bits, vertex >> 5, np.uint32(1 << (vertex & 31)))


def bfs(
    out: GapCSR, into: GapCSR | None, sources: np.ndarray, depth_limit: int, want_predecessors: bool
) -> tuple[Array, Array | None]:
    """Search breadth first from all ``sources`` at once, changing direction where ``into`` is given.

    Direction-optimising BFS of Beamer, Asanović and Patterson, "Direction-Optimizing Breadth-First Search",
    SC'12, sections 3 and 4; top-down steps are balanced over edges as in Merrill, Garland and Grimshaw, "Scalable GPU
    Graph Traversal", PPoPP'12, section 5. At most three launches, a scan and one small read-back a level.

    Parameters and results are those of the host's ``bfs``: distances, shape (V,), vertex dtype, ``iinfo.max`` where
    unreached; predecessors likewise, the smallest parent one level up, -1 for sources and unreached vertices.
    """
    backend, xp = out.backend, out.backend.xp
    num_vertices, dtype = out.num_vertices, out.offsets.dtype
    unreached = int(np.iinfo(dtype).max)
    starts = backend.asarray(np.unique(sources), dtype=np.int64)
    distances = fill(backend, num_vertices, dtype, unreached)
    distances[starts] = 0
    # While searching, no parent is the largest number, so that a minimum finds the smallest.
    predecessors = fill(backend, num_vertices if want_predecessors else 1, dtype, unreached)
    frontier = Frontier(out, starts)
    backward = out if into is None else into
    in_edges = (backward.offsets, backward.indices, backward.valid)
    bits = reached = None
    unchecked_slots, bottom_up, level = out.num_slots, False, 0
    while frontier.size and level < depth_limit:
        unchecked_slots -= frontier.num_slots
        if bottom_up:
            bottom_up = frontier.size * BETA >= num_vertices
        elif into is not None:
            bottom_up = frontier.num_slots * ALPHA > unchecked_slots and frontier.num_slots * SWEEP_SHARE > num_vertices
        level += 1
        state = (level, unreached, distances, predecessors, int(want_predecessors))
        if not bottom_up:
            bits = None
            frontier.push(k_push_frontier, (out.offsets, out.indices, out.valid), state)
            continue
        if bits is None:
            bits = backend.zeros(-(-num_vertices // 32), np.uint32)
            reached = backend.empty(bits.shape[0], np.uint32)
            k_mark_vertices.launch(frontier.size, frontier.entries, bits)
        k_pull_parents.launch(num_vertices, *in_edges, out.offsets, bits, reached, *state, *frontier.outputs)
        frontier.advance()
        bits, reached = reached, bits
    if not want_predecessors:
        return distances, None
    return distances, xp.where(predecessors == unreached, xp.asarray(-1, dtype=dtype), predecessors)


@kernel
def k_relax_frontier(
    offsets, indices, valid, frontier, scan, steps, weights, threshold, limit, turn, distances, turns, in_far, far,
    far_size, queue, counts, counters,
):  # fmt: skip
    """One warp a tile of the frontier's slots, one lane a slot: shorten the children's distances.

    A child below ``threshold`` is queued once a ``turn``, another one joins ``far`` unless it is in it. Atomics:
    minimum on ``distances``, maximum on ``turns``, exchange on ``in_far``, add on ``far_size``, :func:`d_enqueue`.
    A parent's distance that falls meanwhile may be read either way: whoever lowered it has queued it again.
    """
    first, last, low, high = d_open_tile(scan, steps, int(cuda.grid(1)))
    for base in range(first, last, 32):
        item = base + d_lane()
        child = 0
        near = False
        distant = False
        if item < last:
            parent, slot = d_open_item(offsets, frontier, scan, low, high, item)
            if d_has_bit(valid, slot):
                child = int(indices[slot])
                distance = distances[parent] + weights[slot]
                # The plain read saves atomics: distances only fall, so it never hides an improvement.
                shorter = distance < limit and distance < distances[child]
                if shorter and distance < cuda.atomic.min(distances, child, distance):
                    if distance < threshold:
                        near = cuda.atomic.max(turns, child, turn) < turn
                    else:
                        distant = cuda.atomic.exch(in_far, child, 1) == 0
        d_enqueue(offsets, queue, counts, counters, child, near)
        d_append(far, far_size, child, distant)


@kernel
def k_split_far(offsets, far, num_far, settled, threshold, distances, in_far, kept, num_kept, queue, counts, counters):
    """One thread a vertex of ``far``: drop it if ``settled``, queue it if now below ``threshold``, else keep it.

    Each vertex stands in ``far`` once. Atomics: add on ``num_kept``, one a warp; :func:`d_enqueue`.
    """
    i = int(cuda.grid(1))
    vertex = 0
    near = False
    stays = False
    if i < num_far:
        vertex = int(far[i])
        stays = distances[vertex] >= threshold
        near = not stays and distances[vertex] >= settled
        if not stays:
            in_far[vertex] = 0
    d_enqueue(offsets, queue, counts, counters, vertex, near)
    d_append(kept, num_kept, vertex, stays)


@kernel
def k_find_parents(sources, indices, valid, weights, distances, unreached, predecessors):
    """Stride over the slots: keep each vertex's smallest parent (atomic minimum) that is nearer than itself."""
    for slot in range(int(cuda.grid(1)), indices.shape[0], int(cuda.gridsize(1))):
        if d_has_bit(valid, slot):
            parent = int(sources[slot])
            child = int(indices[slot])
            nearer = distances[parent] < distances[child] and distances[child] < unreached
            if nearer and distances[parent] + weights[slot] == distances[child] and parent < predecessors[child]:
                cuda.atomic.min(predecessors, child, parent)


@kernel
def k_push_ties(
    offsets, indices, valid, frontier, scan, steps, weights, distances, level, unreached, levels, predecessors,
    queue, counts, counters,
):  # fmt: skip
    """As :func:`k_push_frontier`, over the edges that lead to a vertex of the very same distance."""
    first, last, low, high = d_open_tile(scan, steps, int(cuda.grid(1)))
    for base in range(first, last, 32):
        item = base + d_lane()
        child = 0
        won = False
        if item < last:
            parent, slot = d_open_item(offsets, frontier, scan, low, high, item)
            if d_has_bit(valid, slot):
                child = int(indices[slot])
                distance = distances[parent]
                if distance == distances[child] and distance + weights[slot] == distance:
                    won = d_reach(levels, predecessors, 1, child, parent, level, unreached)
        d_enqueue(offsets, queue, counts, counters, child, won)


def sssp(out: GapCSR, source: int, cutoff: float) -> tuple[Array, Array]:
    """Find shortest paths over weights of at least 0.

    The near-far method of Davidson, Baxter, Garland and Owens, "Work-Efficient Parallel GPU Methods for
    Single-Source Shortest Paths", IPDPS 2014, section 4.3: vertices below a threshold are relaxed until none
    changes, the others wait in a pile. Distances do not depend on the order in which the threads run: rounded
    addition is monotone, so each is the minimum over all paths.

    Parameters and results are those of the host's ``sssp``: distances, shape (V,), weight dtype, ``finfo.max`` where
    unreached; predecessors, shape (V,), vertex dtype: the smallest parent on a shortest path that is nearer to the
    source. Where weights of 0 leave none, the smallest parent of equal distance that needs fewer such edges: parents
    never form a cycle. -1 for the source and unreached vertices.
    """
    backend, xp, num_vertices = out.backend, out.backend.xp, out.num_vertices
    weights: Array = out.weights
    dtype = np.dtype(weights.dtype)
    unreached = float(np.finfo(dtype).max)
    # Thresholds are numbers of the weight dtype: the host and the kernels then compare alike.
    limit = float(dtype.type(min(float(cutoff), unreached)))
    delta = _guess_delta(out, weights)
    distances = fill(backend, num_vertices, dtype, unreached)
    distances[source] = 0
    starts = backend.asarray([source], dtype=np.int64)
    near, after = Frontier(out, starts), Frontier(out)
    far, kept = (backend.empty(num_vertices, out.offsets.dtype) for _ in range(2))
    far_size = backend.zeros(1, np.int64)
    turns, in_far = (backend.zeros(num_vertices, np.int32) for _ in range(2))
    edges = (out.offsets, out.indices, out.valid)
    threshold, turn = float(dtype.type(min(delta, unreached))), 0
    while True:
        while near.size:
            turn += 1
            after.clear()
            state = (weights, threshold, limit, turn, distances, turns, in_far, far, far_size)
            near.push(k_relax_frontier, edges, state, after)
            near, after = after, near
        num_far = int(far_size[0])
        if num_far == 0:
            break
        settled, threshold = threshold, _next_threshold(xp, distances[far[:num_far]], threshold, delta)
        near.clear()
        kept_size = backend.zeros(1, np.int64)
        k_split_far.launch(
            num_far, out.offsets, far, num_far, settled, threshold, distances, in_far, kept, kept_size, *near.outputs
        )
        near.advance()
        far, kept, far_size = kept, far, kept_size
    return distances, _find_predecessors(out, source, distances, unreached)


def _guess_delta(out: GapCSR, weights: Array) -> float:
    """Return how far a threshold reaches: 32 mean weights over the mean degree, from a sample; inf for no idea."""
    xp, num_slots = out.backend.xp, out.num_slots
    slots = xp.arange(0, num_slots, max(1, num_slots // WEIGHT_SAMPLE), dtype=np.int64)
    held = ((out.valid[slots >> 5].astype(np.int64) >> (slots & 31)) & 1) != 0
    num_held = int(held.sum())
    total = float(xp.where(held, weights[slots], 0).sum(dtype=np.float64))
    delta = 32.0 * total / num_held * out.num_vertices / out.num_edges if num_held else np.inf
    return delta if 0 < delta < np.inf else np.inf


def _next_threshold(xp: Any, distances: Array, settled: float, delta: float) -> float:
    """Return a number of their dtype ``delta`` above the least of the ``distances`` that is not below ``settled``."""
    dtype = np.dtype(distances.dtype)
    largest = np.finfo(dtype).max
    lowest = dtype.type(float(xp.where(distances >= settled, distances, xp.asarray(largest, dtype=dtype)).min()))
    if lowest == largest:  # all are settled
        return float(largest)
    return float(max(dtype.type(min(float(lowest) + delta, float(largest))), np.nextafter(lowest, largest)))


def _find_predecessors(out: GapCSR, source: int, distances: Array, unreached: float) -> Array:
    backend, xp = out.backend, out.backend.xp
    num_vertices, dtype = out.num_vertices, out.offsets.dtype
    nobody = int(np.iinfo(dtype).max)
    predecessors = fill(backend, num_vertices, dtype, nobody)
    k_find_parents.launch_strided(
        out.num_slots, out.sources, out.indices, out.valid, out.weights, distances, unreached, predecessors
    )
    placed = predecessors != nobody
    placed[source] = True
    reached = distances < unreached
    if int((reached & ~placed).sum()):
        # Left are vertices that only edges of weight 0 reach: search them breadth first from those that have a place.
        levels = xp.where(placed, xp.asarray(0, dtype=dtype), xp.asarray(nobody, dtype=dtype))
        frontier = Frontier(out, xp.nonzero(placed & reached)[0])
        level = 0
        while frontier.size:
            level += 1
            state = (out.weights, distances, level, nobody, levels, predecessors)
            frontier.push(k_push_ties, (out.offsets, out.indices, out.valid), state)
    return xp.where(predecessors == nobody, xp.asarray(-1, dtype=dtype), predecessors)
