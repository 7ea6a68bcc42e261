"""The largest R-MAT graph whose packed in-edges stay in the device memory of all ranks: an iteration of PageRank."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.paged.passes import PageReader
from dynstore.benchmarks.ranks.bench import Bench
from dynstore.benchmarks.rmat_pieces import INTO, ROWS, count_keys
from dynstore.benchmarks.timing import Stopwatch
from dynstore.stores.paged.building import pack_pieces
from dynstore.stores.paged.memory import copy_to_device

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.stores.paged.layout import PagedRows
    from dynstore.typing import Array

__all__ = ["PrefixRows", "Ranking", "measure_largest"]

ALPHA, SEED = 0.85, 1
PREFIX_BITS = 16  # events are counted by so many leading bits of their destinations
PIECE_EVENTS, PIECE_BYTES = 1 << 29, 40  # of a piece; bytes an event while a piece is sorted
# Estimates: bytes an edge in pages, with what is kept of each leaf and slot; bytes a vertex of all vectors.
PAGE_BYTES, LEAF_BYTES, VERTEX_BYTES = 2.8, 0.63, 32
SHARE_OF_DEVICE, SHARE_OF_HOST = 0.9, 0.6
COPIED = 1 << 30


class PrefixRows:
    """The in-edges of one rank: rows of a range of destinations, made on its device in pieces.

    Each rank draws all events and keeps its own. The leading bits of a vertex are those of the same event of a smaller
    graph, so events are counted by prefix without a counter a vertex. Ranges have about as many events.

    Parameters
    ----------
    backend : Backend
    scale, edge_factor, seed : int
        ``edge_factor << scale`` events. Repeated ones and self-loops are dropped.
    rank, size : int

    Attributes
    ----------
    num_vertices : int
        Of the whole graph.
    bounds : list of int, length ``size + 1``
        The first row of each rank, then ``num_vertices``.
    low, high : int
        The rows of this rank.
    out_degrees : array, shape (V,), int32
        Edges from each vertex to rows of this rank, once :meth:`pieces` has come to its end.
    """

    def __init__(self, backend: Backend, scale: int, edge_factor: int, seed: int, rank: int, size: int) -> None:
        self.backend, self.num_vertices, self._events = backend, 1 << scale, (edge_factor << scale, scale, seed)
        self._kernels = backend.kernels("dynstore.benchmarks.rmat_pieces")
        bits = min(scale, PREFIX_BITS)
        counts = [backend.zeros(1 << bits, np.int32) for _ in range(2)]
        self._kernels.count_ends(self._events[0], bits, seed, *counts)
        ends, self._shift = np.cumsum(backend.to_host(counts[1]), dtype=np.int64), scale - bits
        wanted = int(ends[-1]) * np.arange(1, size) // size
        prefixes = [0, *np.searchsorted(ends, wanted).tolist(), 1 << bits]
        self.bounds = [prefix << self._shift for prefix in prefixes]
        self.low, self.high = self.bounds[rank : rank + 2]
        self._cut = self._cut_range(np.concatenate(([0], ends)), *prefixes[rank : rank + 2])
        self.out_degrees: Any = None

    def _cut_range(self, before: np.ndarray, low: int, high: int) -> list[tuple[int, int, int]]:
        """Return ranges of prefixes of at most PIECE_EVENTS events, unless one has more, and how many there are."""
        found = []
        while low < high:
            end = int(np.searchsorted(before, before[low] + PIECE_EVENTS, side="right")) - 1
            end = min(max(end, low + 1), high)
            found.append((low, end, int(before[end] - before[low])))
            low = end
        return found

    def _empty_rows(self, low: int, high: int) -> Iterator[Array]:
        for begin in range(low, high, ROWS):
            yield self.backend.zeros(min(ROWS, high - begin), np.int32)

    def pieces(self) -> Iterator[tuple[Array, Array]]:
        """Yield degrees and sources of all rows in order; those of other ranks are empty."""
        backend, xp, counts = self.backend, self.backend.xp, self.out_degrees is None
        nothing = backend.nothing(np.int32)
        degrees_out = backend.zeros(self.num_vertices if counts else 0, np.int32)
        ranks = xp.arange(self.num_vertices, dtype=np.int32)
        yield from ((degrees, nothing) for degrees in self._empty_rows(0, self.low))
        for first, end, count in self._cut:
            low, high = first << self._shift, end << self._shift
            keys, filled = backend.empty(count, np.int64), backend.zeros(1, np.int64)
            self._kernels.draw_edges(*self._events, INTO, ranks, low, high, keys, filled)
            keys = keys[: int(filled[0])]
            keys.sort()
            is_new = xp.ones(keys.shape[0], bool)
            is_new[1:] = keys[1:] != keys[:-1]
            keys = keys[is_new]
            degrees, sources = count_keys(backend, keys, low, high), (keys & 0xFFFFFFFF).astype(np.int32)
            del keys, is_new
            if counts:
                xp.add.at(degrees_out, sources, np.int32(1))
            yield degrees, sources
        yield from ((degrees, nothing) for degrees in self._empty_rows(self.high, self.num_vertices))
        if counts:
            self.out_degrees = degrees_out


class Ranking:
    """PageRank over pages of all ranks. Each rank has the sums of its rows; shares of all vertices are on each.

    Parameters
    ----------
    bench : Bench
    rows : PrefixRows
    packed : PagedRows
        Of this rank; kernels read ``words`` where they are.
    """

    def __init__(self, bench: Bench, rows: PrefixRows, packed: PagedRows) -> None:
        self._comm, self._rows = bench.comm, rows
        backend = self._backend = bench.backend
        self._reader, self._own = PageReader(packed, "zero-copy"), slice(rows.low, rows.high)
        self._kernels = backend.kernels("dynstore.algorithms.paged", "sweeps")
        degrees = bench.comm.all_reduce(rows.out_degrees)
        self.num_edges = int(degrees.sum(dtype=np.int64))
        own = degrees[self._own]  # of the own vertices
        self._dangles, self._divisors = own == 0, backend.xp.maximum(own, 1).astype(np.float32)
        self._sums = backend.zeros(rows.num_vertices, np.float64)
        self._shares = backend.empty(rows.num_vertices, np.float32)
        self.ranks = backend.empty(rows.high - rows.low, np.float32)
        self.restart()

    def restart(self) -> None:
        """Give all vertices the same rank."""
        self.ranks.fill(1.0 / self._rows.num_vertices)
        self._share()

    def iterate(self) -> None:
        """Do an iteration. All ranks call it."""
        packed, sums = self._reader.packed, self._sums
        sums.fill(0)
        self._reader.visit(lambda piece: self._kernels.sum_shares(packed, piece, self._shares, sums))
        own = sums[self._own]
        own *= ALPHA
        own += (ALPHA * self._dangling + 1 - ALPHA) / self._rows.num_vertices
        self.ranks[...] = own
        self._share()

    def _share(self) -> None:
        """Bring the shares of all vertices to all ranks."""
        xp, bounds = self._backend.xp, self._rows.bounds
        own = self.ranks / self._divisors
        dangling = xp.where(self._dangles, self.ranks, np.float32(0)).sum(dtype=np.float64)
        self._dangling = sum(self._comm.all_gather(float(dangling)))
        for root, (low, high) in enumerate(pairwise(bounds)):
            given = own if root == self._comm.rank else self._shares[low:high]
            self._shares[low:high] = self._comm.broadcast(given, root)

    def total(self) -> float:
        """Return the sum of all ranks; 1 but for rounding."""
        total: float = sum(self._comm.all_gather(float(self.ranks.sum(dtype=np.float64))))
        return total


def measure_largest(bench: Bench) -> None:
    """Pack the in-edges of each rank, keep them in its device memory, and time an iteration of PageRank."""
    comm, sizes, backend = bench.comm, bench.sizes, bench.backend
    scale = sizes.largest_scale
    while (reason := _does_not_fit(backend, scale, sizes.edge_factor, comm.size)) and scale > 1:
        bench.say(f"left out: scale {scale}: {reason}")
        scale -= 1
    rows = PrefixRows(backend, scale, sizes.edge_factor, SEED, comm.rank, comm.size)
    bench.say(f"scale {scale}: counted {sizes.edge_factor << scale} events; rows of ranks begin at {rows.bounds[:-1]}")
    packed = pack_pieces(backend, rows.num_vertices, rows.pieces)
    words = backend.empty(packed.words.shape[0], np.uint32)
    copy_to_device(backend, packed.words_on_host, words)
    backend.synchronize()
    packed = replace(packed, words=words, words_on_host=np.empty(0, np.uint32))  # frees the host's memory
    bench.free()
    sizes_of_all = comm.all_gather((packed.num_edges, packed.words.nbytes))
    bench.say(f"packed: edges and bytes of pages of each rank {sizes_of_all}")
    ranking = Ranking(bench, rows, packed)
    if sum(edges for edges, _ in sizes_of_all) != ranking.num_edges:
        raise AssertionError(f"rows have {sizes_of_all} edges, out-degrees add up to {ranking.num_edges}")
    rows.out_degrees = None
    bench.free()
    times = bench.time(ranking.iterate, before=ranking.restart, steps=min(3, sizes.steps))
    bench.check("ranks add up to 1", abs(ranking.total() - 1) < 1e-3)
    nbytes = _bytes_of_iteration(packed)
    seconds = np.median(times) / 1e3
    bench.note(f"{comm.size} ranks, R-MAT {scale}", "pagerank", times, ranking.num_edges, nbytes=nbytes)
    speed = _bytes_a_second(backend)
    shares = 4 * rows.num_vertices * (comm.size - 1) / comm.size
    bench.say(f"an iteration: {ranking.num_edges} edges in {1e3 * seconds:.2f} ms, {nbytes / seconds / 1e9:.0f} GB/s")
    bench.say(
        f"bounds: {nbytes / 1e9:.2f} GB a rank take {1e3 * nbytes / speed:.2f} ms at a copy's {speed / 1e9:.0f} GB/s; "
        f"with 32 bytes for each share {1e3 * (nbytes + 32 * packed.num_edges) / speed:.2f} ms; "
        f"{shares / 1e9:.2f} GB of shares come from other ranks"
    )


def _bytes_of_iteration(packed: PagedRows) -> int:
    """Return what an iteration reads and writes at least: pages, leaves, bits, each share once, the sums twice."""
    leaves = sum(array.nbytes for array in packed.leaves)
    vectors = packed.num_vertices * (4 + 2 * 8)
    return int(packed.words.nbytes + leaves + packed.num_edges // 8 + vectors)


def _bytes_a_second(backend: Backend) -> float:
    """Return how many bytes a copy on the device reads and writes in a second."""
    given = backend.zeros(COPIED if backend.on_gpu else 1 << 20, np.uint8)
    taken, watch = backend.empty(given.shape[0], np.uint8), Stopwatch(backend)
    laps = []
    for _ in range(3):
        watch.start()
        taken[...] = given
        laps.append(watch.lap())
    return 2e3 * float(given.nbytes) / min(laps)


def _does_not_fit(backend: Backend, scale: int, edge_factor: int, size: int) -> str:
    """Return why a graph does not fit the ranks' devices, or their host; or ""."""
    if not backend.on_gpu:
        return ""
    edges, vertices = (edge_factor << scale) / size, 1 << scale
    kept = edges * (PAGE_BYTES + LEAF_BYTES) + vertices * VERTEX_BYTES
    making = edges * LEAF_BYTES * 2 + vertices * 20 + PIECE_BYTES * min(PIECE_EVENTS, edges)
    there, wanted = int(backend.xp.cuda.runtime.memGetInfo()[1]), max(kept, making)
    if wanted > SHARE_OF_DEVICE * there:
        return f"a rank takes about {wanted / 1e9:.0f} GB of device memory, a GPU has {there / 1e9:.0f}"
    host = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if edges * size * PAGE_BYTES > SHARE_OF_HOST * host:
        return f"all ranks pin {edges * size * PAGE_BYTES / 1e9:.0f} GB while they pack, the host has {host / 1e9:.0f}"
    return ""
