"""Algorithms over the rows of slab hash tables on CUDA: a warp reads a slab, each lane one of its unordered keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.community.cuda.arcs import count_arc_triangles
from dynstore.algorithms.community.cuda.orientation import rank_vertices, sort_arcs
from dynstore.algorithms.link_analysis.cuda.iterations import CHANGE, Step, iterate_ranks, k_advance_split_rows
from dynstore.algorithms.rows.cuda.common import d_find_row
from dynstore.cuda.compiler import SIMULATED, cuda, device, kernel
from dynstore.cuda.launch import Packed
from dynstore.cuda.warp import d_ballot, d_count_lower, d_lane, d_shuffle, d_sum_lanes
from dynstore.stores.slab_hash.cuda.probe import d_find_bucket, d_probe_chains, d_read_word
from dynstore.stores.slab_hash.slabs import BUCKETS, DEGREE, END, FIRST, HEAD_WORDS

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.stores.base import NativeRows
    from dynstore.typing import Array

__all__ = ["bfs", "pagerank", "triangle_count"]

# Chains that a warp walks one after the other; its lanes search their rows in parallel.
WARP_CHAINS = 2 if SIMULATED else 8
# Pairs are probed if there are at most this many per listed edge: sorting the lists costs about as much.
MAX_PROBES = 2


@device
def d_open_chains(heads, rows, ends, num_chains):
    """Return a row and its base slab, to each of the first lanes of the warp; END past the last chain.

    ``ends``: the number of chains of ``rows`` up to and including each.
    """
    lane = d_lane()
    chain = (np.int64(cuda.grid(1)) >> 5) * WARP_CHAINS + lane
    row, slab = np.int64(0), np.int64(END)
    if lane < WARP_CHAINS and chain < num_chains:
        r = d_find_row(ends, 0, ends.shape[0], chain)
        row = np.int64(rows[r])
        head = HEAD_WORDS * row
        slab = np.int64(heads[head + FIRST]) + np.int64(heads[head + BUCKETS]) - (np.int64(ends[r]) - chain)
    return row, slab


@device
def d_is_higher(heads, vertex, other):
    """Whether a vertex has a higher (degree, id) than another one."""
    degree, least = heads[HEAD_WORDS * vertex + DEGREE], heads[HEAD_WORDS * other + DEGREE]
    return degree > least or (degree == least and vertex > other)


@kernel
def k_list_higher(slabs, heads, words, keys, rows, ends, num_chains, cursors, lows, highs):
    """A warp owns some chains: it lists each row's higher neighbours at the row's cursor (atomic).

    Without room for lists it only counts, by advancing the cursors.
    """
    lane = d_lane()
    row, slab = d_open_chains(heads, rows, ends, num_chains)
    for turn in range(WARP_CHAINS):
        u, at = d_shuffle(row, turn), d_shuffle(slab, turn)
        while at != END:  # the same in all lanes
            word = d_read_word(slabs, words, at, lane)
            higher = False
            if lane < keys and word >= 0:
                higher = d_is_higher(heads, word, u)
            chosen = d_ballot(higher)
            if chosen != 0:
                start = np.int64(0)
                if lane == 0:
                    start = np.int64(cuda.atomic.add(cursors, u, cuda.popc(chosen)))
                place = d_shuffle(start, 0) + d_count_lower(chosen, lane)
                if higher and lows.shape[0] > 0:
                    lows[place], highs[place] = u, word
            at = d_shuffle(word, words - 1)


@kernel
def k_probe_pairs(slabs, heads, words, keys, starts, lows, highs, counts):
    """One warp 32 listed edges, a lane each: look for an edge between its higher end and each later one of the row.

    The table of the lower one of the two is probed. The lanes of a row go through its list together, from the last one
    down. Atomic adds: one for each visited entry that a lane has found, and two a lane at the end.
    """
    edge, lane = np.int64(cuda.grid(1)), d_lane()
    base = edge - lane
    u, v, begin, end = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    if edge < lows.shape[0]:
        u, v = np.int64(lows[edge]), np.int64(highs[edge])
        begin, end = np.int64(starts[u]), np.int64(starts[u + 1])
    first, last = max(begin - base, 0), min(end - base, 32)  # the lanes of this row
    mine = np.uint32((1 << last) - (1 << first)) if first < last else np.uint32(0)
    at_u, at_v, place = np.int64(0), np.int64(0), end - 1
    while d_ballot(place > edge) != 0:
        w, key, slab = np.int64(0), np.int64(0), np.int64(END)
        if place > edge:
            w = np.int64(highs[place])
            key, low = w, v
            if d_is_higher(heads, v, w):
                key, low = v, w
            slab = np.int64(heads[HEAD_WORDS * low + FIRST])
            slab += d_find_bucket(key, np.int64(heads[HEAD_WORDS * low + BUCKETS]))
        found, _, _, _, _, _ = d_probe_chains(slabs, words, keys, 0, key, slab)
        hits = d_ballot(found >= 0) & mine
        if found >= 0:
            at_v += 1
        if lane == first and hits != 0:
            cuda.atomic.add(counts, w, cuda.popc(hits))
            at_u += cuda.popc(hits)
        place -= 1
    if at_v > 0:
        cuda.atomic.add(counts, v, at_v)
    if at_u > 0:
        cuda.atomic.add(counts, u, at_u)


@device
def d_reach(distances, predecessors, keep_parents, level, parent, child):
    """Reach a child at this level and keep its smallest parent (atomic); return whether it was unreached.

    The plain reads only save atomics: distances and parents only decrease while a kernel runs.
    """
    unreached = distances.dtype.type(np.iinfo(distances.dtype).max)
    new, distance = False, distances[child]
    if distance >= level:
        if distance == unreached:
            new = cuda.atomic.cas(distances, child, unreached, level) == unreached
        if keep_parents != 0 and parent < predecessors[child]:
            cuda.atomic.min(predecessors, child, parent)
    return new


@kernel
def k_push_chains(
    slabs, heads, words, keys, rows, ends, num_chains, level, distances, predecessors, keep_parents, queue, chains,
    counters,
):  # fmt: skip
    """A warp owns some chains of the frontier: it reaches their keys, and queues the new ones (atomic).

    It records the number of chains of each queued vertex; ``counters`` are the present totals of vertices and chains.
    """
    lane = d_lane()
    row, slab = d_open_chains(heads, rows, ends, num_chains)
    for turn in range(WARP_CHAINS):
        u, at = d_shuffle(row, turn), d_shuffle(slab, turn)
        while at != END:  # the same in all lanes
            word = d_read_word(slabs, words, at, lane)
            new = False
            if lane < keys and word >= 0:
                new = d_reach(distances, predecessors, keep_parents, level, u, word)
            fresh = d_ballot(new)
            if fresh != 0:
                num_chains_here, start = np.int64(0), np.int64(0)
                if new:
                    num_chains_here = np.int64(heads[HEAD_WORDS * word + BUCKETS])
                total = d_sum_lanes(num_chains_here)
                if lane == 0:
                    start = np.int64(cuda.atomic.add(counters, 0, cuda.popc(fresh)))
                    cuda.atomic.add(counters, 1, total)
                place = d_shuffle(start, 0) + d_count_lower(fresh, lane)
                if new:
                    queue[place], chains[place] = word, num_chains_here
            at = d_shuffle(word, words - 1)


@kernel
def k_pull_chains(slabs, heads, words, keys, rows, ends, num_chains, shares, history, iteration, tol, sums):
    """A warp owns some chains: it adds the shares of their keys to the sums of the rows (atomic).

    It writes nothing if the iteration before has converged.
    """
    if history[2 * iteration + CHANGE] < tol:  # the same in all threads
        return
    lane = d_lane()
    row, slab = d_open_chains(heads, rows, ends, num_chains)
    for turn in range(WARP_CHAINS):
        v, at = d_shuffle(row, turn), d_shuffle(slab, turn)
        total = np.float64(0.0)
        there = at != END
        while at != END:  # the same in all lanes
            word = d_read_word(slabs, words, at, lane)
            if lane < keys and word >= 0:
                total += np.float64(shares[word])
            at = d_shuffle(word, words - 1)
        total = d_sum_lanes(total)
        if there and lane == 0:
            cuda.atomic.add(sums, v, total)


def triangle_count(backend: Backend, rows: NativeRows) -> Array:
    """Count the triangles at each vertex from slabs.

    Each edge is listed once, at its end of lower (degree, id), unordered. If the lists make few pairs, each pair is
    probed in the table of the lower vertex, as Awad et al. do (IPDPS 2020, section VI-C), and nothing is sorted.
    Otherwise the lists are sorted, and counted as in
    :func:`~dynstore.algorithms.community.cuda.triangles.count_triangles`. Parameters and result are those of the host's
    ``triangle_count``.

    Raises
    ------
    LimitError
        For more than 2^31 vertices, unless there are few pairs.
    """
    table, xp, num_vertices = rows.table, backend.xp, rows.num_vertices
    dtype = table.slabs.dtype
    if not num_vertices:
        return backend.zeros(0, dtype)
    ends = xp.cumsum(table.column(BUCKETS)[:num_vertices], dtype=np.int64)
    num_chains = int(ends[-1])
    tables = (table.slabs, table.heads, table.words, table.keys)
    chains, num_warps = (xp.arange(num_vertices, dtype=dtype), ends, num_chains), -(-num_chains // WARP_CHAINS)
    sizes, nothing = backend.zeros(num_vertices, np.int64), backend.nothing(dtype)
    k_list_higher.launch_warps(num_warps, *tables, *chains, sizes, nothing, nothing)
    totals = xp.stack([sizes.sum(), (sizes * (sizes - 1) // 2).sum()])
    num_listed, num_pairs = (int(number) for number in backend.to_host(totals))
    if not num_pairs:
        return backend.zeros(num_vertices, dtype)
    starts = _starts_of(backend, sizes)
    lows, highs = backend.empty(num_listed, dtype), backend.empty(num_listed, dtype)
    k_list_higher.launch_warps(num_warps, *tables, *chains, starts[:-1].copy(), lows, highs)
    if num_pairs <= MAX_PROBES * num_listed:
        counts = backend.zeros(num_vertices, dtype)
        k_probe_pairs.launch(num_listed, *tables, starts, lows, highs, counts)
        return counts
    order, ranks = rank_vertices(backend, _starts_of(backend, table.column(DEGREE)[:num_vertices]))
    keys = ranks[lows].astype(np.int64) << 32 | ranks[highs]
    return count_arc_triangles(backend, sort_arcs(backend, ranks, _starts_of(backend, sizes[order]), keys), dtype)


def _starts_of(backend: Backend, sizes: Array) -> Array:
    """Return the starts of lists of these sizes, and the end of the last one; int64."""
    starts = backend.zeros(sizes.shape[0] + 1, np.int64)
    backend.xp.cumsum(sizes, out=starts[1:])
    return starts


def bfs(
    backend: Backend, rows: NativeRows, sources: np.ndarray, depth_limit: int, want_predecessors: bool
) -> tuple[Array, Array | None]:
    """Search breadth first from all ``sources`` at once, top-down: unsorted rows do not give the smallest parent early.

    One launch, a prefix sum and a read-back a level. The work is divided by chains, so many warps share a hub's row.
    Parameters and results are those of the host's ``bfs``.
    """
    table, xp, num_vertices = rows.table, backend.xp, rows.num_vertices
    dtype, level = table.slabs.dtype, 0
    unreached = int(np.iinfo(dtype).max)
    distances = backend.full(num_vertices, unreached, dtype)
    # During the search "no parent" is the largest number, so that a minimum finds the smallest parent.
    predecessors = backend.full(num_vertices if want_predecessors else 1, unreached, dtype)
    queue, chains = backend.empty(num_vertices, dtype), backend.empty(num_vertices, np.int64)
    starts = backend.asarray(sources, dtype=np.int64)
    begin, end = 0, int(starts.shape[0])
    queue[:end], chains[:end] = starts, table.column(BUCKETS)[starts]
    distances[starts] = 0
    done, all_chains = 0, int(chains[:end].sum())
    counters = backend.asarray(np.array([end, all_chains]))
    while done < all_chains and level < depth_limit:
        level += 1
        k_push_chains.launch_warps(
            -(-(all_chains - done) // WARP_CHAINS), table.slabs, table.heads, table.words, table.keys,
            queue[begin:end], xp.cumsum(chains[begin:end]), all_chains - done, level, distances, predecessors,
            int(want_predecessors), queue, chains, counters,
        )  # fmt: skip
        begin, done = end, all_chains
        end, all_chains = (int(number) for number in backend.to_host(counters))
    if not want_predecessors:
        return distances, None
    return distances, xp.where(predecessors == unreached, xp.asarray(-1, dtype=dtype), predecessors)


def pagerank(
    backend: Backend,
    rows: NativeRows,
    out_weights: Array | None,
    alpha: float,
    personalization: Array | None,
    start: Array,
    max_iter: int,
    tol: float,
) -> tuple[Array, int, float]:
    """Iterate :func:`~dynstore.algorithms.link_analysis.cuda.ranks.pagerank`, pulling over slabs.

    Two launches an iteration: chains add to sums of the rows, then the rows advance. Parameters and results are those
    of the host's ``pagerank``.
    """
    table, xp, num_vertices = rows.table, backend.xp, rows.num_vertices
    if num_vertices == 0:
        return start.copy(), 0, 0.0
    if out_weights is None:
        out_weights = table.column(DEGREE)[:num_vertices].astype(start.dtype)
    ends = xp.cumsum(table.column(BUCKETS)[:num_vertices], dtype=np.int64)
    num_chains, all_rows = int(ends[-1]), xp.arange(num_vertices, dtype=table.slabs.dtype)
    summed = (all_rows, backend.asarray(np.array([num_vertices])))
    chains = Packed(table.slabs, table.heads, table.words, table.keys, all_rows, ends, num_chains)

    def advance(step: Step) -> None:
        iteration, tol, _ = step.numbers
        num_warps = -(-num_chains // WARP_CHAINS)
        k_pull_chains.launch_warps(num_warps, chains, step.shares, step.history, iteration, tol, step.sums)
        k_advance_split_rows.launch_strided(num_vertices, *summed, *step.last_arguments)

    return iterate_ranks(backend, advance, summed, out_weights, alpha, personalization, start, max_iter, tol)
