"""Breadth-first search on the GPU; also the entry point of ``shortest_paths.sssp``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dynstore.algorithms.rows.cuda.common import d_has_bit, d_lowest_bit
from dynstore.algorithms.rows.cuda.rows import (
    RESERVE_BOARD,
    STEP_SLOTS,
    WorkLists,
    count_warps,
    d_add_block,
    d_find_slot,
    d_list_words,
    d_mark_words,
    d_num_items,
    d_num_pieces,
    d_open_piece,
    d_read_bits,
    list_parts,
)
from dynstore.algorithms.traversal.cuda.shortest_paths import sssp
from dynstore.cuda.compiler import SIMULATED, cuda, device, kernel
from dynstore.cuda.launch import Packed
from dynstore.cuda.warp import d_ballot, d_lane, d_shuffle

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["GapArrays", "Reached", "bfs", "sssp"]

# Beamer et al., section 4, as on the host. A bottom-up step also reads every vertex, so it pays only if the frontier
# has some slots per vertex: on a long path it never does.
ALPHA = 14
BETA = 24
SWEEP_SHARE = 8
# A graph with fewer slots is searched top-down alone: pushing all of them takes less time than the steps' launches. The
# kernel for bottom-up steps is launched all the same, so that a warm-up on a small graph has it compiled.
MIN_PULLED_SLOTS = 0 if SIMULATED else 1 << 24
# Slots that a lane searches alone in a bottom-up step before its warp helps; at most 32.
LONE_SLOTS = 2 if SIMULATED else 32
# Slots that each lane of it then reads at once: web graphs have long rows side by side, in which a level finds nothing.
HELPED_SLOTS = 2 if SIMULATED else 8
# Levels started before the host checks whether there was another: as many as so far, within these bounds.
MIN_LEVELS, MAX_LEVELS = 4, 16
# What the device records of a step, in a ring of rows: the frontier's vertices and slots, the lengths of its lists,
# whether it was expanded bottom-up, and the number of slots that no frontier has had so far.
SIZE, SLOTS, LISTS, BOTTOM_UP, UNCHECKED = range(5)
FIELDS, RING = 5, 4


class GapArrays(NamedTuple):
    """The arrays of a ``GapCSR``."""

    offsets: Array
    indices: Array
    valid: Array


class Reached(NamedTuple):
    """What a top-down step writes.

    Attributes
    ----------
    marks : array
        A bit or a flag for each vertex, set when the vertex is reached.
    predecessors : array
        The smallest parent of each vertex.
    keep_parents : int
        Whether predecessors are kept.
    """

    marks: Array
    predecessors: Array
    keep_parents: int


@device
def d_note(step):
    """Return the place of the row of ``step`` in the ring."""
    return (step & (RING - 1)) * FIELDS


@device
def d_is_bottom_up(notes, step, num_vertices, can_pull):
    """Whether the frontier of ``step`` is expanded bottom-up; the same for all threads of a step's kernels."""
    now = d_note(step)
    before = d_note(step - 1)
    slots = notes[now + SLOTS]
    if notes[before + BOTTOM_UP] != 0:
        return notes[now + SIZE] * BETA >= num_vertices
    wide = slots * ALPHA > notes[before + UNCHECKED] - slots and slots * SWEEP_SHARE > num_vertices
    return can_pull != 0 and wide


@device
def d_set_bit(found, child):
    """Set the child's bit (atomic or).

    The plain read only saves atomics: while this kernel runs, bits are only set. Without ``keep_parents`` the caller
    has just read that the bit was not set.
    """
    if not found.keep_parents or not d_has_bit(found.marks, child):
        cuda.atomic.or_(found.marks, child >> 5, np.uint32(1 << (child & 31)))


@device
def d_reach(d_mark, found, parent, child):
    """Call ``d_mark(found, child)``, and keep the child's smallest parent (atomic minimum).

    The plain read only saves atomics: while this kernel runs, parents only decrease.
    """
    d_mark(found, child)
    if found.keep_parents and parent < found.predecessors[np.uint64(child)]:
        cuda.atomic.min(found.predecessors, child, parent)


@device
def d_find_child(edges, seen, base, first, last, position):
    """Return the child at a position of a piece, and whether there is one that is not ``seen``; no branches."""
    place, live = d_find_slot(edges.valid, base, first, last, position)
    child = int(edges.indices[place])
    return child, live & (not d_has_bit(seen, child))


@device
def d_push_lists(d_mark, thread, edges, lists, place, seen, found):
    """A top-down step: reach the children that are not ``seen`` of all rows in ``lists``, by :func:`d_reach`.

    All threads of the grid call it; warps stride over the pieces and the short rows. ``d_mark``: a device function.
    ``thread``: this thread's number in the grid. ``place``: where the lengths of the lists are.
    """
    lane = d_lane()
    pieces = d_num_pieces(lists.lengths[place])
    items, shorts = d_num_items(lists.lengths[place])
    for item in range(thread >> 5, items, int(cuda.gridsize(1)) >> 5):
        if item < pieces:
            parent, base, first, last = d_open_piece(edges.offsets, lists.rows, lists.begins, item)
            for position in range(lane, last + 1, STEP_SLOTS):
                child0, new0 = d_find_child(edges, seen, base, first, last, position)
                child1, new1 = d_find_child(edges, seen, base, first, last, position + 32)
                child2, new2 = d_find_child(edges, seen, base, first, last, position + 64)
                child3, new3 = d_find_child(edges, seen, base, first, last, position + 96)
                if new0:
                    d_reach(d_mark, found, parent, child0)
                if new1:
                    d_reach(d_mark, found, parent, child1)
                if new2:
                    d_reach(d_mark, found, parent, child2)
                if new3:
                    d_reach(d_mark, found, parent, child3)
        else:
            i = (item - pieces) * 32 + lane
            if i < shorts:
                parent = int(lists.short[i])
                begin = int(edges.offsets[parent])
                bits = d_read_bits(edges.valid, begin, int(edges.offsets[parent + 1]))
                while bits != 0:
                    child = int(edges.indices[np.uint64(begin + d_lowest_bit(bits))])
                    bits &= bits - 1
                    if not d_has_bit(seen, child):
                        d_reach(d_mark, found, parent, child)


@kernel
def k_start_search(starts, num_slots, reached, notes):
    """One thread a start vertex: set its bit (atomic or). The first thread records the step before the first."""
    i = int(cuda.grid(1))
    if i == 0:
        notes[d_note(0) + UNCHECKED] = num_slots
        notes[d_note(1) + UNCHECKED] = num_slots
        notes[d_note(1) + SIZE] = 1
    if i < starts.shape[0]:
        vertex = int(starts[i])
        cuda.atomic.or_(reached, vertex >> 5, np.uint32(1 << (vertex & 31)))


@kernel
def k_push_frontier(
    offsets, indices, valid, short, rows, begins, notes, step, num_vertices, can_pull, seen, reached, predecessors,
    keep_parents,
):  # fmt: skip
    """Top-down: warps stride over the frontier's pieces and short rows, and set the bits of children not ``seen``.

    ``seen``: the vertices reached before this step, or ``reached`` itself without ``keep_parents``. The first thread
    records the direction, and clears the record after the next. Atomics: see :func:`d_set_bit`, :func:`d_reach`.
    """
    now = d_note(step)
    bottom_up = d_is_bottom_up(notes, step, num_vertices, can_pull)
    thread = int(cuda.grid(1))
    if thread == 0:
        notes[now + BOTTOM_UP] = int(bottom_up)
        notes[now + UNCHECKED] = notes[d_note(step - 1) + UNCHECKED] - notes[now + SLOTS]
        for field in range(FIELDS):
            notes[d_note(step + 2) + field] = 0
    if bottom_up or notes[now + SIZE] == 0:
        return
    edges, lists = GapArrays(offsets, indices, valid), WorkLists(short, rows, begins, notes)
    d_push_lists(d_set_bit, thread, edges, lists, now + LISTS, seen, Reached(reached, predecessors, keep_parents))


@device
def d_find_parent(offsets, indices, valid, frontier, slot, end):
    """Return the first neighbour in [slot, end) that is in the bitmap ``frontier``, -1 for none; all 32 lanes call.

    If a lane finds none in its first slots, the whole warp searches the rest. There are no branches between its loads,
    so that they overlap: a gap and the last slot can be read like any other.
    """
    lane = d_lane()
    candidates = cuda.local.array(HELPED_SLOTS, indices.dtype)
    found = cuda.local.array(HELPED_SLOTS, np.bool_)
    parent = -1
    alone = min(end, slot + LONE_SLOTS)
    bits = d_read_bits(valid, slot, alone)
    while bits != 0 and parent < 0:
        candidate = int(indices[np.uint64(slot + d_lowest_bit(bits))])
        bits &= bits - 1
        if d_has_bit(frontier, candidate):
            parent = candidate
    waiting = np.int64(d_ballot(parent < 0 and alone < end))
    while waiting != 0:  # the same in all lanes, like all results of ballots and shuffles
        owner = d_lowest_bit(waiting)
        waiting &= waiting - 1
        base = d_shuffle(alone, owner)
        stop = d_shuffle(end, owner)
        hits = np.int64(0)
        candidate = -1
        while base < stop and hits == 0:
            for k in range(HELPED_SLOTS):
                place = base + 32 * k + lane
                there = min(place, stop - 1)
                candidates[k] = indices[np.uint64(there)]
                found[k] = (place < stop) & d_has_bit(valid, there)
            for k in range(HELPED_SLOTS):
                found[k] &= d_has_bit(frontier, candidates[k])
            for k in range(HELPED_SLOTS):
                if hits == 0:  # the same in all lanes
                    hits = np.int64(d_ballot(found[k]))
                    candidate = int(candidates[k])
            base += 32 * HELPED_SLOTS
        if hits != 0:
            nearest = d_shuffle(candidate, d_lowest_bit(hits))
            if lane == owner:
                parent = nearest
    return parent


@kernel
def k_pull_parents(
    in_offsets, in_indices, in_valid, offsets, notes, step, level, visited, reached, frontier, fresh, distances,
    predecessors, keep_parents, can_pull,
):  # fmt: skip
    """Bottom-up: warps stride over words of vertices; unvisited ones take their first parent in ``frontier``.

    Rows ascend, so the first parent is the smallest. Each vertex is written only by its lane; each word, also of the
    bitmap ``fresh`` of new vertices, only by its warp. Atomics: two adds a block on the next step's record.
    """
    board = cuda.shared.array(RESERVE_BOARD, np.int64)
    num_vertices = distances.shape[0]
    # Both are the same in all threads.
    if notes[d_note(step) + SIZE] == 0 or not d_is_bottom_up(notes, step, num_vertices, can_pull):
        return
    lane = d_lane()
    size = 0
    slots = 0
    for word in range(int(cuda.grid(1)) >> 5, visited.shape[0], int(cuda.gridsize(1)) >> 5):
        before = np.int64(visited[word])
        vertex = word * 32 + lane
        slot = 0
        end = 0
        if vertex < num_vertices and (before >> lane) & 1 == 0:
            slot = int(in_offsets[vertex])
            end = int(in_offsets[vertex + 1])
        parent = d_find_parent(in_offsets, in_indices, in_valid, frontier, slot, end)
        new = np.int64(d_ballot(parent >= 0))
        if lane == 0:
            fresh[word] = new
            if new != 0:
                visited[word] = before | new
                reached[word] = before | new
        if parent >= 0:
            distances[vertex] = level
            if keep_parents:
                predecessors[vertex] = parent
            size += 1
            slots += int(offsets[vertex + 1]) - int(offsets[vertex])
    d_add_block(size, board, notes, d_note(step + 1) + SIZE)
    d_add_block(slots, board, notes, d_note(step + 1) + SLOTS)


@kernel
def k_list_frontier(offsets, notes, step, level, can_pull, visited, reached, fresh, distances, short, rows, begins):
    """End a step: after a push set the ``level`` of the new vertices; list them, unless they are expanded bottom-up.

    Warps stride over the words of the bitmaps. Each word is written by one lane. Atomics: three adds a block on the
    next step's record.
    """
    board = cuda.shared.array(RESERVE_BOARD, np.int64)
    num_vertices = distances.shape[0]
    # The same in all threads, like all records of earlier kernels.
    if notes[d_note(step) + SIZE] == 0:
        return
    pulled = d_is_bottom_up(notes, step, num_vertices, can_pull)
    if pulled and d_is_bottom_up(notes, step + 1, num_vertices, can_pull):
        return
    lists, after = WorkLists(short, rows, begins, notes), d_note(step + 1)
    warps = int(cuda.gridsize(1)) >> 5
    size = 0
    slots = 0
    for base in range(0, visited.shape[0], warps * 32):
        word = base + (int(cuda.grid(1)) >> 5) + d_lane() * warps
        new = np.int64(0)
        if word < visited.shape[0]:
            if pulled:
                new = np.int64(fresh[word])
            else:
                now = np.int64(reached[word])
                new = now & ~np.int64(visited[word])
                fresh[word] = new
                if new != 0:
                    visited[word] = now
        if not pulled:
            d_mark_words(distances, new, word, warps, level)
        vertices, their_slots = d_list_words(offsets, new, word, warps, board, lists, after + LISTS)
        size += vertices
        slots += their_slots
    if not pulled:
        d_add_block(size, board, notes, after + SIZE)
        d_add_block(slots, board, notes, after + SLOTS)


def bfs(
    out: GapCSR, into: GapCSR | None, sources: np.ndarray, depth_limit: int, want_predecessors: bool
) -> tuple[Array, Array | None]:
    """Search breadth first from all ``sources`` at once; switch directions in a large graph if ``into`` is given.

    Direction-optimising BFS of Beamer, Asanović and Patterson, "Direction-Optimizing Breadth-First Search",
    SC'12, sections 3 and 4. Top-down steps treat rows by length, in the spirit of Merrill, Garland and Grimshaw,
    "Scalable GPU Graph Traversal", PPoPP'12, section 5. Two launches a level, three if ``into`` is given. Sizes and
    directions stay on the device; the host launches several levels at once, and then reads back whether there was one
    more.

    Parameters and results are those of the host's ``bfs``: distances, shape (V,), vertex dtype, ``iinfo.max`` where
    unreached; predecessors likewise, the smallest parent one level up, -1 for sources and unreached vertices.
    """
    backend, xp = out.backend, out.backend.xp
    num_warps, parts = count_warps(out), list_parts(out)
    out_edges = out.offsets, out.indices, out.valid
    in_edges = () if into is None else (into.offsets, into.indices, into.valid)
    num_vertices, offsets, dtype = out.num_vertices, out_edges[0], out_edges[0].dtype
    unreached = int(np.iinfo(dtype).max)
    starts = backend.asarray(sources, dtype=np.int64)
    distances = backend.full(num_vertices, unreached, dtype)
    words = (-(-num_vertices // 32), np.uint32)
    notes, visited, reached, *fronts, predecessors, short, rows, begins = backend.empty_arena(
        (RING * FIELDS, np.int64), *(words,) * 4, (num_vertices if want_predecessors else 1, dtype),
        *parts, zeroed=3,
    )  # fmt: skip
    # During the search "no parent" is the largest number, so that a minimum finds the smallest parent.
    predecessors.fill(unreached)
    keep, lists = int(want_predecessors), (short, rows, begins)
    can_pull = int(into is not None and out.num_slots >= MIN_PULLED_SLOTS)
    seen = visited if want_predecessors else reached
    # What is the same in all levels is packed once; the bitmaps of the frontier and of new vertices change places.
    edges, ends = Packed(*out_edges, *lists, notes), Packed(offsets, notes)
    pushed = Packed(num_vertices, can_pull, seen, reached, predecessors, keep)
    pulled, listed = [], []
    for turn in range(2):
        frontier, fresh = fronts[turn], fronts[1 - turn]
        pulled.append(Packed(visited, reached, frontier, fresh, distances, predecessors, keep, can_pull))
        listed.append(Packed(can_pull, visited, reached, fresh, distances, *lists))
    into_edges = None if into is None else Packed(*in_edges, offsets, notes)
    k_start_search.launch(starts.shape[0], starts, out.num_slots, reached, notes)
    k_list_frontier.launch_strided(num_vertices, ends, 1, 0, listed[0])
    level, depth_limit = 0, min(depth_limit, num_vertices)
    while level < depth_limit:
        for _ in range(min(max(MIN_LEVELS, min(level, MAX_LEVELS)), depth_limit - level)):
            level += 1
            step = level + 1
            k_push_frontier.launch_warps(num_warps, edges, step, pushed)
            if into_edges is not None:
                k_pull_parents.launch_strided(num_vertices, into_edges, step, level, pulled[level % 2])
            k_list_frontier.launch_strided(num_vertices, ends, step, level, listed[level % 2])
        if backend.to_host(notes)[(level + 2) % RING * FIELDS + SIZE] == 0:
            break
    if not want_predecessors:
        return distances, None
    return distances, xp.where(predecessors == unreached, xp.asarray(-1, dtype=dtype), predecessors)
