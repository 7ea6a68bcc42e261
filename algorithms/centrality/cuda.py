"""Betweenness centrality on the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.rows.cuda.common import d_has_bit
from dynstore.algorithms.rows.cuda.rows import (
    LOW_BITS,
    RESERVE_BOARD,
    STEP_SLOTS,
    STRIDING_WARPS,
    WorkLists,
    d_find_slots,
    d_list_words,
    d_mark_words,
    d_open_piece,
    d_read_bits,
    d_take_slots,
    make_lists,
)
from dynstore.cuda.compiler import SIMULATED, WARP, cuda, device, kernel
from dynstore.cuda.warp import d_lane, d_sum_lanes

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["accumulate_dependencies"]

# (source, vertex) pairs searched at once, about 50 bytes each. In pieces of long rows 128 slots count as a vertex.
BATCH_PAIRS = 200 if SIMULATED else 1 << 25
UNREACHED = -1


@kernel
def k_start_pairs(pairs, reached, paths):
    """One thread a pair (source, source): set its bit (atomic or) and its number of paths, 1."""
    i = int(cuda.grid(1))
    if i < pairs.shape[0]:
        pair = int(pairs[i])
        cuda.atomic.or_(reached, pair >> 5, np.uint32(1 << (pair & 31)))
        paths[pair] = 1.0


@device
def d_open_copy(pair, border):
    """Return the first pair of the pair's source; 32-bit arithmetic takes a tenth of the instructions."""
    return pair - np.int64(np.uint32(pair) % np.uint32(border))


@device
def d_find_child(indices, visited, copy, slot, live):
    """Return the pair of the child in a slot, and whether it is unvisited; no branches."""
    child = copy + int(indices[slot])
    return child, live & (not d_has_bit(visited, child))


@device
def d_add_paths(reached, paths, child, ways):
    """Set the child's bit (atomic or) and add to its paths (atomic add). The plain read saves atomics."""
    if not d_has_bit(reached, child):
        cuda.atomic.or_(reached, child >> 5, np.uint32(1 << (child & 31)))
    cuda.atomic.add(paths, child, ways)


@device
def d_count_slots(indices, visited, reached, paths, copy, ways, slots):
    """Add ``ways`` paths to the new children in four ``slots``; their loads overlap."""
    child0, new0 = d_find_child(indices, visited, copy, slots.places[0], slots.live[0])
    child1, new1 = d_find_child(indices, visited, copy, slots.places[1], slots.live[1])
    child2, new2 = d_find_child(indices, visited, copy, slots.places[2], slots.live[2])
    child3, new3 = d_find_child(indices, visited, copy, slots.places[3], slots.live[3])
    if new0:
        d_add_paths(reached, paths, child0, ways)
    if new1:
        d_add_paths(reached, paths, child1, ways)
    if new2:
        d_add_paths(reached, paths, child2, ways)
    if new3:
        d_add_paths(reached, paths, child3, ways)


@kernel
def k_count_paths(offsets, indices, valid, short, rows, begins, border, visited, reached, paths):
    """Warps stride over a level's pieces and short rows: add paths to unvisited children.

    ``visited``: the pairs reached before this level's children. Atomics: see :func:`d_add_paths`.
    """
    lane = d_lane()
    pieces = rows.shape[0]
    items = pieces + ((short.shape[0] + 31) >> 5)
    for item in range(int(cuda.grid(1)) >> 5, items, int(cuda.gridsize(1)) >> 5):
        if item < pieces:
            pair, base, first, last = d_open_piece(offsets, rows, begins, item)
            copy = d_open_copy(pair, border)
            ways = paths[pair]
            for place in range(lane, last + 1, STEP_SLOTS):
                slots = d_find_slots(valid, base, first, last, place)
                d_count_slots(indices, visited, reached, paths, copy, ways, slots)
        else:
            i = (item - pieces) * 32 + lane
            if i < short.shape[0]:
                pair = int(short[i])
                copy = d_open_copy(pair, border)
                begin = int(offsets[pair])
                bits = d_read_bits(valid, begin, int(offsets[pair + 1]))
                ways = paths[pair]
                while bits != 0:
                    slots, bits = d_take_slots(begin, bits)
                    d_count_slots(indices, visited, reached, paths, copy, ways, slots)


@kernel
def k_list_level(offsets, visited, reached, level, levels, lengths, short, rows, begins):
    """Set the ``level`` of newly reached pairs, and append them to the lists.

    Warps stride over the words of the bitmaps. Each word is written by one lane. Atomics: an add a block.
    """
    board = cuda.shared.array(RESERVE_BOARD, np.int64)
    lists = WorkLists(short, rows, begins, lengths)
    warps = int(cuda.gridsize(1)) >> 5
    for base in range(0, visited.shape[0], warps * 32):
        word = base + (int(cuda.grid(1)) >> 5) + d_lane() * warps
        new = np.int64(0)
        if word < visited.shape[0]:
            now = np.int64(reached[word])
            new = now & ~np.int64(visited[word])
            if new != 0:
                visited[word] = now
        d_mark_words(levels, new, word, warps, level)
        d_list_words(offsets, new, word, warps, board, lists, 0)


@device
def d_read_owed(indices, levels, owed, level, pair, copy, slot, live):
    """Return what the child in a slot adds to its parent ``pair``, 0 if it is of another level; no branches."""
    child = copy + int(indices[slot])
    found = live & (levels[np.uint64(child)] == level)
    value = owed[np.uint64(child if found else pair)]
    return value if found else 0.0


@device
def d_sum_owed(indices, levels, owed, level, pair, copy, slots):
    """Return what the children in four ``slots`` add; their loads overlap."""
    return (
        d_read_owed(indices, levels, owed, level, pair, copy, slots.places[0], slots.live[0])
        + d_read_owed(indices, levels, owed, level, pair, copy, slots.places[1], slots.live[1])
        + d_read_owed(indices, levels, owed, level, pair, copy, slots.places[2], slots.live[2])
        + d_read_owed(indices, levels, owed, level, pair, copy, slots.places[3], slots.live[3])
    )


@kernel
def k_gather_dependencies(offsets, indices, valid, short, rows, begins, border, level, levels, owed, gathered):
    """Warps stride over a level's pieces and short rows: add what their children, of the next ``level``, owe them.

    ``gathered`` is dependency / paths. ``owed`` is (1 + dependency) / paths: complete for the children, 1 / paths at
    first for the parents. Atomics: an add to each a piece.
    """
    lane = d_lane()
    pieces = rows.shape[0]
    items = pieces + ((short.shape[0] + 31) >> 5)
    for item in range(int(cuda.grid(1)) >> 5, items, int(cuda.gridsize(1)) >> 5):
        total = 0.0
        if item < pieces:
            pair, base, first, last = d_open_piece(offsets, rows, begins, item)
            copy = d_open_copy(pair, border)
            for place in range(lane, last + 1, STEP_SLOTS):
                slots = d_find_slots(valid, base, first, last, place)
                total += d_sum_owed(indices, levels, owed, level, pair, copy, slots)
            total = d_sum_lanes(total)
            if lane == 0 and total != 0.0:
                cuda.atomic.add(gathered, pair, total)
                cuda.atomic.add(owed, pair, total)
        else:
            i = (item - pieces) * 32 + lane
            if i < short.shape[0]:
                pair = int(short[i])
                copy = d_open_copy(pair, border)
                begin = int(offsets[pair])
                bits = d_read_bits(valid, begin, int(offsets[pair + 1]))
                while bits != 0:
                    slots, bits = d_take_slots(begin, bits)
                    total += d_sum_owed(indices, levels, owed, level, pair, copy, slots)
                gathered[pair] = total
                owed[pair] += total


def accumulate_dependencies(out: GapCSR, into: GapCSR | None, sources: np.ndarray, endpoints: bool) -> Array:
    """Sum the dependencies of ``sources`` on every vertex, not normalised.

    Brandes, "A Faster Algorithm for Betweenness Centrality", Journal of Mathematical Sociology 25(2), 2001,
    section 4. Many sources are searched at once, as if each had its own copy of the graph. Dependencies are gathered
    over out-edges, level by level backwards, so no list of parents is kept.

    Parameters
    ----------
    out : GapCSR
        Out-edges.
    into : GapCSR or None
        In-edges; not needed here.
    sources : numpy.ndarray, shape (K,), int64
    endpoints : bool
        Whether a path also counts at its two ends.

    Returns
    -------
    array, shape (V,), float64
        Sums over ordered pairs (source, target).
    """
    totals = out.backend.zeros(out.num_vertices, np.float64)
    batch = max(1, BATCH_PAIRS // max(1, out.num_vertices, out.num_slots >> 7))
    for first in range(0, len(sources), batch):
        totals += _sum_batch(out, np.asarray(sources[first : first + batch], dtype=np.int64), endpoints)
    return totals


def _sum_batch(out: GapCSR, sources: np.ndarray, endpoints: bool) -> Array:
    """Return the dependencies of some sources, summed, shape (V,)."""
    backend, xp, num_sources = out.backend, out.backend.xp, len(sources)
    # A pair (source, vertex) is a row in the source's copy of the offsets; each copy ends with a border.
    border = out.num_vertices + 1
    num_pairs = num_sources * border
    offsets = xp.tile(out.offsets, num_sources)
    own_pairs = xp.arange(num_sources, dtype=np.int64) * border + backend.asarray(sources)
    levels = backend.full(num_pairs, UNREACHED, np.int32)
    paths = backend.zeros(num_pairs, np.float64)
    bitmaps = backend.zeros((2, -(-num_pairs // 32)), np.uint32)
    visited, reached = bitmaps[0], bitmaps[1]
    k_start_pairs.launch(num_sources, own_pairs, reached, paths)
    lists, lengths = make_lists(backend, out, num_sources), backend.zeros(1, np.int64)
    edges = (offsets, out.indices, out.valid)
    stages: list[tuple[int, tuple[Any, ...]]] = []  # of each level: warps, and arguments with its lists
    ends = [0, 0]
    while True:
        k_list_level.launch_strided(num_pairs, offsets, visited, reached, len(stages), levels, lengths, *lists)
        length = int(lengths[0])
        shorts, pieces = slice(ends[0], length & LOW_BITS), slice(ends[1], length >> 32)
        ends = [shorts.stop, pieces.stop]
        num_warps = pieces.stop - pieces.start + -(-(shorts.stop - shorts.start) // WARP)
        if num_warps == 0:
            break
        stage = (*edges, lists[0][shorts], lists[1][pieces], lists[2][pieces], border)
        stages.append((min(num_warps, STRIDING_WARPS), stage))
        k_count_paths.launch_warps(stages[-1][0], *stage, visited, reached, paths)
    owed, gathered = 1.0 / xp.maximum(paths, 1.0), backend.zeros(num_pairs, np.float64)
    for level, (num_warps, stage) in reversed(list(enumerate(stages, start=1))):
        k_gather_dependencies.launch_warps(num_warps, *stage, level, levels, owed, gathered)
    dependencies = gathered * paths
    dependencies[own_pairs] = 0.0
    if endpoints:
        # Every path from a source ends at one reached vertex; all begin at the source.
        found = (levels != UNREACHED).astype(np.float64)
        found[own_pairs] = found.reshape(num_sources, border).sum(axis=1) - 1.0
        dependencies += found
    return dependencies.reshape(num_sources, border).sum(axis=0)[:-1]
