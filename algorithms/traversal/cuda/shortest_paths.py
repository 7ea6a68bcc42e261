"""Single-source shortest paths on the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.rows.cuda.common import d_has_bit, d_lowest_bit
from dynstore.algorithms.rows.cuda.cut_rows import CutRows
from dynstore.algorithms.rows.cuda.rows import (
    RESERVE_BOARD,
    STEP_SLOTS,
    WorkLists,
    count_warps,
    d_add_block,
    d_find_slots,
    d_is_short,
    d_list_words,
    d_num_items,
    d_num_pieces,
    d_open_piece,
    d_read_bits,
    d_take_slots,
    list_parts,
)
from dynstore.algorithms.traversal.cuda.zero_edges import place_over_ties
from dynstore.cuda.compiler import THREADS, WARP, cuda, device, kernel
from dynstore.cuda.launch import Packed
from dynstore.cuda.warp import d_ballot, d_lane, d_shuffle

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["find_predecessors", "k_relax_frontier", "sssp"]

# The threshold rises by this many mean weights, divided by the mean degree.
DELTA_WEIGHTS = 32.0
# Words of slots sampled to estimate the mean weight.
WEIGHT_SAMPLE = 1 << 11
# Steps started before the host checks whether there was another: as many as so far, within these bounds.
MIN_STEPS, MAX_STEPS = 4, 16
# What the device records, in a ring of RING steps: the lengths of the lists (int64); behind them, in float64, for each
# step the threshold and the least distance pending above it, then the sum and the number of sampled weights.
RING = 4
THRESHOLD, LEAST = range(2)
SAMPLED = 2 * RING
NOTES = RING + SAMPLED + 2
BOARD_SIZE = THREADS // WARP


@device
def d_note(step):
    """Return the place of ``step`` in the ring."""
    return step & (RING - 1)


@kernel
def k_start_paths(source, distances, pending, notes):
    """One thread: ``source`` is pending at distance 0; nothing else is."""
    if cuda.grid(1) == 0:
        distances[source] = 0
        pending[source >> 5] = 1 << (source & 31)
        for step in range(RING):
            notes[2 * step + LEAST] = np.inf
        notes[2 * d_note(1) + LEAST] = 0


@kernel
def k_sample_weights(valid, weights, stride, notes):
    """Warps stride over every ``stride``-th word of slots: sum the weights, count them. Two atomic adds a block."""
    board = cuda.shared.array(BOARD_SIZE, np.float64)
    total = 0.0
    held = 0.0
    step = (int(cuda.gridsize(1)) >> 5) * stride * 32
    for base in range((int(cuda.grid(1)) >> 5) * stride * 32, weights.shape[0], step):
        slot = base + d_lane()
        if slot < weights.shape[0] and d_has_bit(valid, slot):
            total += np.float64(weights[slot])
            held += 1.0
    d_add_block(total, board, notes, SAMPLED)
    d_add_block(held, board, notes, SAMPLED + 1)


@device
def d_raise_threshold(notes, least, scale):
    """Return ``least`` plus ``scale`` mean weights, or inf if that is not above ``least``."""
    threshold = np.inf
    if notes[SAMPLED + 1] > 0:
        raised = least + scale * notes[SAMPLED] / notes[SAMPLED + 1]
        if raised > least:
            threshold = raised
    return threshold


@device
def d_try_edge(indices, weights, keys, near, limit, slot, live):
    """Return the child in a slot, its distance's key over that edge, and whether that is shorter; no branches."""
    child = int(indices[slot])
    distance = near + weights[slot]
    key = distance.view(keys.dtype)
    return child, key, live & (distance < limit) & (key < keys[np.uint64(child)])


@device
def d_shorten(keys, pending, child, key):
    """Lower the child's distance (atomic minimum) and set its bit (atomic or).

    The result of the minimum is not needed: the caller read a longer distance, so if it does not decrease here, another
    thread has lowered it in the same launch, and also sets the bit. The plain read saves atomics: no bit is cleared.
    """
    cuda.atomic.min(keys, child, key)
    if not d_has_bit(pending, child):
        cuda.atomic.or_(pending, child >> 5, np.uint32(1 << (child & 31)))


@device
def d_relax_slots(indices, weights, keys, pending, near, limit, slots):
    """Shorten the children's distances in four ``slots``; their loads overlap."""
    child0, key0, shorter0 = d_try_edge(indices, weights, keys, near, limit, slots.places[0], slots.live[0])
    child1, key1, shorter1 = d_try_edge(indices, weights, keys, near, limit, slots.places[1], slots.live[1])
    child2, key2, shorter2 = d_try_edge(indices, weights, keys, near, limit, slots.places[2], slots.live[2])
    child3, key3, shorter3 = d_try_edge(indices, weights, keys, near, limit, slots.places[3], slots.live[3])
    if shorter0:
        d_shorten(keys, pending, child0, key0)
    if shorter1:
        d_shorten(keys, pending, child1, key1)
    if shorter2:
        d_shorten(keys, pending, child2, key2)
    if shorter3:
        d_shorten(keys, pending, child3, key3)


@kernel
def k_relax_frontier(offsets, indices, valid, weights, short, rows, begins, lengths, step, limit, keys, pending):
    """Warps stride over the frontier's pieces and short rows: shorten the children's distances.

    ``keys`` are the distances' bits as integers. From 0 on they have the same order, and there is an atomic minimum in
    hardware, which floating point lacks. Atomics: see :func:`d_shorten`. A parent's distance that decreases meanwhile
    may be read before or after: the thread that lowered it has set its bit again.
    """
    lane = d_lane()
    pieces = d_num_pieces(lengths[d_note(step)])
    items, shorts = d_num_items(lengths[d_note(step)])
    for item in range(int(cuda.grid(1)) >> 5, items, int(cuda.gridsize(1)) >> 5):
        if item < pieces:
            parent, base, first, last = d_open_piece(offsets, rows, begins, item)
            near = keys[parent].view(weights.dtype)
            for place in range(lane, last + 1, STEP_SLOTS):
                slots = d_find_slots(valid, base, first, last, place)
                d_relax_slots(indices, weights, keys, pending, near, limit, slots)
        else:
            i = (item - pieces) * 32 + lane
            if i < shorts:
                parent = int(short[i])
                near = keys[parent].view(weights.dtype)
                begin = int(offsets[parent])
                bits = d_read_bits(valid, begin, int(offsets[parent + 1]))
                while bits != 0:
                    slots, bits = d_take_slots(begin, bits)
                    d_relax_slots(indices, weights, keys, pending, near, limit, slots)


@kernel
def k_list_near(offsets, lengths, notes, step, scale, distances, pending, short, rows, begins):
    """End a step: list pending vertices below the threshold, clear their bits, record the least distance above it.

    If the step had nothing to relax, the threshold is raised first. Warps stride over the words of ``pending``. Each
    word is written by one lane. Atomics: an add and a minimum a block on the next step's record.
    """
    board = cuda.shared.array(RESERVE_BOARD, np.int64)
    lows = cuda.shared.array(1, np.float64)
    lists = WorkLists(short, rows, begins, lengths)
    least = notes[2 * d_note(step) + LEAST]
    idle = lengths[d_note(step)] == 0
    threshold = notes[2 * d_note(step) + THRESHOLD]
    if idle and least < np.inf:
        threshold = d_raise_threshold(notes, least, scale)
    lane = d_lane()
    if cuda.grid(1) == 0:
        notes[2 * d_note(step + 1) + THRESHOLD] = threshold
        notes[2 * d_note(step + 2) + LEAST] = np.inf
        lengths[d_note(step + 2)] = 0
    if idle and not least < np.inf:  # all is done; the same in all threads
        return
    if cuda.threadIdx.x == 0:
        lows[0] = np.inf
    warps = int(cuda.gridsize(1)) >> 5
    waits = np.inf
    for base in range(0, pending.shape[0], warps * 32):
        first = base + (int(cuda.grid(1)) >> 5)
        word = first + lane * warps
        held = np.int64(0)
        if word < pending.shape[0]:
            held = np.int64(pending[word])
        new = np.int64(0)
        waiting = np.int64(d_ballot(held != 0))
        while waiting != 0:  # the same in all lanes
            owner = d_lowest_bit(waiting)
            waiting &= waiting - 1
            bits = d_shuffle(held, owner)
            near = False
            if (bits >> lane) & 1:
                distance = np.float64(distances[(first + owner * warps) * 32 + lane])
                near = distance < threshold
                if not near:
                    waits = min(waits, distance)
            taken = np.int64(d_ballot(near))
            if lane == owner:
                new = taken
        if new != 0:
            pending[word] = held & ~new
        d_list_words(offsets, new, word, warps, board, lists, d_note(step + 1))
    if waits < np.inf:
        cuda.atomic.min(lows, 0, waits)
    cuda.syncthreads()
    if cuda.threadIdx.x == 0 and lows[0] < np.inf:
        cuda.atomic.min(notes, 2 * d_note(step + 1) + LEAST, lows[0])


@device
def d_try_parent(indices, weights, distances, own, slot, live):
    """Return the child in a slot, and whether the row is nearer and on a shortest path to it; no branches."""
    child = int(indices[slot])
    distance = distances[np.uint64(child)]
    return child, live & (own < distance) & (own + weights[slot] == distance)


@device
def d_keep_parent(predecessors, parent, child):
    """Keep the child's smallest parent (atomic minimum)."""
    if parent < predecessors[np.uint64(child)]:
        cuda.atomic.min(predecessors, child, parent)


@device
def d_keep_parents(indices, weights, distances, predecessors, parent, own, slots):
    """Keep ``parent`` for the children in four ``slots``; their loads overlap."""
    child0, kept0 = d_try_parent(indices, weights, distances, own, slots.places[0], slots.live[0])
    child1, kept1 = d_try_parent(indices, weights, distances, own, slots.places[1], slots.live[1])
    child2, kept2 = d_try_parent(indices, weights, distances, own, slots.places[2], slots.live[2])
    child3, kept3 = d_try_parent(indices, weights, distances, own, slots.places[3], slots.live[3])
    if kept0:
        d_keep_parent(predecessors, parent, child0)
    if kept1:
        d_keep_parent(predecessors, parent, child1)
    if kept2:
        d_keep_parent(predecessors, parent, child2)
    if kept3:
        d_keep_parent(predecessors, parent, child3)


@kernel
def k_find_parents(offsets, indices, valid, weights, rows, begins, lengths, distances, unreached, predecessors):
    """Warps stride over all pieces, then over groups of 32 neighbouring rows, for the short ones: keep parents.

    Atomics: see :func:`d_keep_parent`.
    """
    lane = d_lane()
    num_vertices = distances.shape[0]
    pieces = d_num_pieces(lengths[0])
    items = pieces + ((num_vertices + 31) >> 5)
    for item in range(int(cuda.grid(1)) >> 5, items, int(cuda.gridsize(1)) >> 5):
        if item < pieces:
            parent, base, first, last = d_open_piece(offsets, rows, begins, item)
            own = distances[parent]
            if own == unreached:
                last = np.int32(-1)
            for place in range(lane, last + 1, STEP_SLOTS):
                slots = d_find_slots(valid, base, first, last, place)
                d_keep_parents(indices, weights, distances, predecessors, parent, own, slots)
        else:
            parent = (item - pieces) * 32 + lane
            begin = 0
            end = 0
            own = unreached
            if parent < num_vertices:
                own = distances[parent]
            if own != unreached:
                begin = int(offsets[parent])
                end = int(offsets[parent + 1])
            if d_is_short(begin, end):
                bits = d_read_bits(valid, begin, end)
                while bits != 0:
                    slots, bits = d_take_slots(begin, bits)
                    d_keep_parents(indices, weights, distances, predecessors, parent, own, slots)


@kernel
def k_end_paths(source, unset, unreached, distances, predecessors, orphans):
    """Stride over the vertices: -1 for those that need no parent; set ``orphans`` if one is missing (all write 1)."""
    for vertex in range(int(cuda.grid(1)), distances.shape[0], int(cuda.gridsize(1))):
        if vertex == source or distances[vertex] == unreached:
            predecessors[vertex] = -1
        elif predecessors[vertex] == unset:
            orphans[0] = 1


def sssp(out: GapCSR, source: int, cutoff: float) -> tuple[Array, Array]:
    """Find shortest paths over weights of at least 0.

    The near-far method of Davidson, Baxter, Garland and Owens, "Work-Efficient Parallel GPU Methods for
    Single-Source Shortest Paths", IPDPS 2014, section 4.3: vertices below a threshold are relaxed until none changes;
    the others are pending, as bits of a bitmap. Two launches a step; thresholds and sizes stay on the device. The host
    launches several steps at once, and then reads back whether anything is left. Distances do not depend on the order
    in which the threads run: rounded addition is monotone, so each is the minimum over all paths.

    Parameters and results are those of the host's ``sssp``: distances, shape (V,), weight dtype, ``finfo.max`` where
    unreached; predecessors, shape (V,), vertex dtype: the smallest parent on a shortest path that is nearer to the
    source. If weights of 0 leave none, the smallest parent of equal distance that needs fewer such edges; so parents
    form no cycle. -1 for the source and unreached vertices.
    """
    backend, num_vertices = out.backend, out.num_vertices
    weights: Array = out.weights
    dtype = np.dtype(weights.dtype)
    unreached = np.finfo(dtype).max
    # In the weight dtype, so that host and kernels compare the same numbers.
    limit = dtype.type(min(float(cutoff), float(unreached)))
    scale = DELTA_WEIGHTS * num_vertices / max(out.num_edges, 1)
    distances = backend.full(num_vertices, unreached, dtype)
    keys = distances.view(np.dtype(f"i{dtype.itemsize}"))
    state, pending, *lists = backend.empty_arena(
        (NOTES, np.int64), (-(-num_vertices // 32), np.uint32), *list_parts(out), zeroed=2
    )
    lengths, notes = state[:RING], state[RING:].view(np.float64)
    stride = max(1, out.num_slots // (32 * WEIGHT_SAMPLE))
    k_sample_weights.launch_warps(-(-out.num_slots // (32 * stride)), out.valid, weights, stride, notes)
    k_start_paths.launch(1, source, distances, pending, notes)
    # What is the same in all steps is packed once.
    edges, keyed = Packed(out.offsets, out.indices, out.valid, weights, *lists, lengths), Packed(keys, pending)
    ends, listed = Packed(out.offsets, lengths, notes), Packed(distances, pending, *lists)
    k_list_near.launch_strided(num_vertices, ends, 1, scale, listed)
    step, num_warps = 1, count_warps(out)
    while True:
        for _ in range(max(MIN_STEPS, min(step, MAX_STEPS))):
            step += 1
            k_relax_frontier.launch_warps(num_warps, edges, step, limit, keyed)
            k_list_near.launch_strided(num_vertices, ends, step, scale, listed)
        seen = backend.to_host(state)
        place = (step + 1) % RING
        if seen[place] == 0 and seen[RING:].view(np.float64)[2 * place + LEAST] == np.inf:
            break
    return distances, find_predecessors(out, source, distances, unreached)


def find_predecessors(
    out: GapCSR,
    source: int,
    distances: Array,
    unreached: np.floating,
    merge: Callable[[Array], Array] | None = None,
) -> Array:
    """Find predecessors for final distances, as :func:`sssp` has them.

    Parameters
    ----------
    out : GapCSR
    source : int
    distances : array, shape (V,), weight dtype
    unreached : floating
        The distance of unreached vertices.
    merge : callable, optional
        If ``out`` has only some of the rows: it returns the minima of an array over all parts. All call it as often.
    """
    backend, num_vertices = out.backend, out.num_vertices
    unset = int(np.iinfo(out.offsets.dtype).max)
    predecessors = backend.full(num_vertices, unset, out.offsets.dtype)
    cut, num_warps = CutRows(out), count_warps(out)
    edges = (out.offsets, out.indices, out.valid, out.weights)
    k_find_parents.launch_warps(num_warps, *edges, *cut.pieces, distances, unreached, predecessors)
    if merge is not None:
        predecessors = merge(predecessors)
    orphans = backend.zeros(1, np.int32)
    k_end_paths.launch_strided(num_vertices, source, unset, unreached, distances, predecessors, orphans)
    if int(orphans[0]):
        place_over_ties(out, distances, unreached, predecessors, merge)
    return predecessors
