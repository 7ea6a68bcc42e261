"""The largest R-MAT graph whose packed in-edges stay in the device memory of all ranks: PageRank, and slides.

What each phase takes of a rank's device memory is in ``docs/notes/many-gpus.md``, and in :func:`device_bytes`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.ranks.bench import RankBench
from benchmarks.ranks.sliding import DeviceStore, Slides
from benchmarks.rmat_pieces import INTO, ROWS, count_keys
from dynstore.algorithms.paged.passes import PageReader
from dynstore.bench.timing import LapTimer
from dynstore.stores.paged.building import pack_pieces
from dynstore.stores.paged.memory import copy_to_device

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.stores.paged.layout import PagedRows
    from dynstore.stores.paged.store import PagedStore, PagedTable
    from dynstore.typing import Array

__all__ = ["PagedRanking", "PrefixRows", "count_tails", "device_bytes", "measure_largest"]

ALPHA, SEED = 0.85, 1
PREFIX_BITS = 16  # events are counted by so many leading bits of their destinations
# Of a piece. All events are drawn once for each piece, which is most of the time of a large graph.
PIECE_EVENTS = 2_000_000_000
SLIDE_PARTS = 100  # a slide is so small a part of the events
STEPS = 3
# Bytes for `device_bytes`; a row is that of one of all vertices, a leaf has 32 edges. Of what is kept: pages, an edge;
# leaves with their bits; rows (which have edges, offsets); rows and edges of the delta.
PAGE_BYTES, LEAF_BYTES, ROW_BYTES, DELTA_ROW_BYTES, SLOT_BYTES = 2.2, 20, 10, 4, 9
# Of what is there for a time: rows while pieces are made, an event of a piece; rows and leaves while leaves are laid
# out; all vectors of PageRank, a vertex; what a slide makes of each of its rows.
MAKING_ROW_BYTES, PIECE_BYTES, DIRECTORY_ROW_BYTES, DIRECTORY_LEAF_BYTES = 18, 20, 19, 53
VECTOR_BYTES, SLIDE_BYTES = 23, 100
SHARE_OF_DEVICE, SHARE_OF_HOST = 0.9, 0.6
SECTOR = 32  # bytes of a random read
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
    """

    def __init__(self, backend: Backend, scale: int, edge_factor: int, seed: int, rank: int, size: int) -> None:
        self.backend, self.num_vertices, self._events = backend, 1 << scale, (edge_factor << scale, scale, seed)
        self._kernels = backend.kernels("benchmarks.rmat_pieces")
        bits = min(scale, PREFIX_BITS)
        counts = [backend.zeros(1 << bits, np.int32) for _ in range(2)]
        self._kernels.count_ends(self._events[0], bits, seed, *counts)
        ends, self._shift = np.cumsum(backend.to_host(counts[1]), dtype=np.int64), scale - bits
        wanted = int(ends[-1]) * np.arange(1, size) // size
        prefixes = [0, *np.searchsorted(ends, wanted).tolist(), 1 << bits]
        self.bounds = [prefix << self._shift for prefix in prefixes]
        self.low, self.high = self.bounds[rank : rank + 2]
        self._cut = self._cut_range(np.concatenate(([0], ends)), *prefixes[rank : rank + 2])

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
        nothing = self.backend.nothing(np.int32)
        numbers = self.backend.xp.arange(self.num_vertices, dtype=np.int32)  # vertices keep theirs
        yield from ((degrees, nothing) for degrees in self._empty_rows(0, self.low))
        for first, end, count in self._cut:
            yield self._make_piece(numbers, first << self._shift, end << self._shift, count)
        yield from ((degrees, nothing) for degrees in self._empty_rows(self.high, self.num_vertices))

    def _make_piece(self, numbers: Array, low: int, high: int, count: int) -> tuple[Array, Array]:
        """Return degrees and sources of the rows from ``low`` to ``high``, of at most ``count`` events."""
        keys, filled = self.backend.empty(count, np.int64), self.backend.zeros(1, np.int64)
        self._kernels.draw_edges(*self._events, INTO, numbers, low, high, keys, filled)
        keys = keys[: int(filled[0])]
        keys.sort()
        keys = keys[: self._drop_repeated(keys)]
        return count_keys(self.backend, keys, low, high), keys.astype(np.int32)  # the lower half of a key

    def _drop_repeated(self, keys: Array) -> int:
        """Move the different ones of ascending keys to the front, in slices; return their number."""
        xp, kept = self.backend.xp, 0
        last = xp.full(1, -1, np.int64)
        for begin in range(0, int(keys.shape[0]), ROWS):
            part = keys[begin : begin + ROWS]
            is_new = xp.ones(part.shape[0], bool)
            is_new[1:] = part[1:] != part[:-1]
            is_new[:1] = part[:1] != last
            last, chosen = part[-1:].copy(), part[is_new]
            keys[kept : kept + int(chosen.shape[0])] = chosen
            kept += int(chosen.shape[0])
        return kept


def count_tails(store: PagedStore) -> Array:
    """Return how many edges of a store of in-edges leave each vertex, shape (V,), int32, read from all its pages."""
    degrees = store.backend.zeros(store.num_vertices, np.int32)
    for _, tails, _ in store.edge_pieces():
        store.backend.xp.add.at(degrees, tails, np.int32(1))
    return degrees


class PagedRanking:
    """PageRank over pages of all ranks. Each rank has the sums of its rows; shares of all vertices are on each.

    Parameters
    ----------
    bench : Bench
    rows : PrefixRows
    store : PagedStore
        The in-edges of this rank. It does not change while it is ranked. Kernels read its pages where they are.

    Attributes
    ----------
    num_edges : int
        Of all ranks, counted in their pages and deltas.
    ranks : array, float32
        Of the rows of this rank.
    """

    def __init__(self, bench: RankBench, rows: PrefixRows, store: PagedStore) -> None:
        self._comm, self._rows = bench.comm, rows
        backend = self._backend = bench.backend
        table = store.native_rows().table
        self._reader = PageReader(table.packed, "zero-copy", valid=table.valid, extra=table.extra)
        self._own = slice(rows.low, rows.high)
        self._kernels = backend.kernels("dynstore.algorithms.paged", "sweeps")
        self._slot_kernels = backend.kernels("dynstore.algorithms.paged", "slots")
        degrees = bench.comm.all_reduce(count_tails(store))
        self.num_edges = int(degrees.sum(dtype=np.int64))
        own = degrees[self._own]  # of the own vertices
        self._dangles, self._divisors = own == 0, backend.xp.maximum(own, 1).astype(np.float32)
        del degrees, own
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
        packed, sums, extra = self._reader.packed, self._sums, self._reader.extra
        sums.fill(0)
        self._reader.visit(lambda piece: self._kernels.sum_shares(packed, piece, self._shares, sums))
        if extra is not None:
            self._slot_kernels.add_slots(extra, self._shares, sums, False)
        own = sums[self._own]
        own *= ALPHA
        own += (ALPHA * self._dangling + 1 - ALPHA) / self._rows.num_vertices
        self.ranks[...] = own
        self._share()

    def _share(self) -> None:
        """Bring the shares of all vertices to all ranks, in slices."""
        xp, dangling = self._backend.xp, self._backend.zeros(1, np.float64)
        own = self._shares[self._own]
        for begin in range(0, int(own.shape[0]), ROWS):
            part = slice(begin, begin + ROWS)
            xp.divide(self.ranks[part], self._divisors[part], out=own[part])
            dangling += xp.where(self._dangles[part], self.ranks[part], np.float32(0)).sum(dtype=np.float64)
        self._dangling = sum(self._comm.all_gather(float(dangling[0])))
        if self._comm.size > 1:
            for root, (low, high) in enumerate(pairwise(self._rows.bounds)):
                for begin in range(low, high, ROWS):
                    part = slice(begin, min(begin + ROWS, high))
                    self._shares[part] = self._comm.broadcast(self._shares[part], root)

    def total(self) -> float:
        """Return the sum of all ranks; 1 but for rounding."""
        total: float = sum(self._comm.all_gather(float(self.ranks.sum(dtype=np.float64))))
        return total


def measure_largest(bench: RankBench) -> None:
    """Pack the in-edges of each rank, keep them in its device memory; time PageRank, slides, and PageRank again."""
    comm, sizes, backend = bench.comm, bench.sizes, bench.backend
    scale = sizes.largest_scale
    while (reason := _does_not_fit(backend, scale, sizes.edge_factor, comm.size)) and scale > 1:
        bench.say(f"left out: scale {scale}: {reason}")
        scale -= 1
    rows = PrefixRows(backend, scale, sizes.edge_factor, SEED, comm.rank, comm.size)
    bench.say(f"scale {scale}: counted {sizes.edge_factor << scale} events; rows of ranks begin at {rows.bounds[:-1]}")
    store = DeviceStore.of(_keep_pages(bench, rows))
    bench.free()
    speed = _bytes_a_second(backend)
    _rank(bench, rows, store, scale, speed)
    bench.free()
    _slide(bench, rows, store, scale, speed)
    bench.free()
    _rank(bench, rows, store, scale, speed, ", after slides")


def _keep_pages(bench: RankBench, rows: PrefixRows) -> PagedRows:
    """Pack the rows, and bring the pages to the device; the host's memory is free again."""
    backend = bench.backend
    packed = pack_pieces(backend, rows.num_vertices, rows.pieces)
    _say_memory(bench, "packed")
    words = backend.empty(packed.words.shape[0], np.uint32)
    copy_to_device(backend, packed.words_on_host, words)
    backend.synchronize()
    packed = replace(packed, words=words, words_on_host=np.empty(0, np.uint32))
    sizes_of_all = bench.comm.all_gather((packed.num_edges, packed.words.nbytes))
    bench.say(f"packed: edges and bytes of pages of each rank {sizes_of_all}")
    return packed


def _rank(bench: RankBench, rows: PrefixRows, store: DeviceStore, scale: int, speed: float, when: str = "") -> None:
    """Time an iteration of PageRank."""
    comm = bench.comm
    ranking = PagedRanking(bench, rows, store)
    num_edges = sum(comm.all_gather(store.num_edges))
    bench.check(f"{num_edges} edges are in pages and deltas", num_edges == ranking.num_edges)
    times = bench.time(ranking.iterate, before=ranking.restart, steps=min(STEPS, bench.sizes.steps))
    bench.check(f"ranks add up to 1{when}", abs(ranking.total() - 1) < 1e-3)
    table = store.native_rows().table
    nbytes, seconds = _bytes_of_iteration(table), np.median(times) / 1e3
    bench.note(f"{comm.size} ranks, R-MAT {scale}{when}", "pagerank", times, num_edges, nbytes=nbytes)
    shares = 4 * rows.num_vertices * (comm.size - 1) / comm.size
    bench.say(f"an iteration: {num_edges} edges in {1e3 * seconds:.2f} ms, {nbytes / seconds / 1e9:.0f} GB/s")
    bench.say(
        f"bounds: {nbytes / 1e9:.2f} GB a rank take {1e3 * nbytes / speed:.2f} ms at a copy's {speed / 1e9:.0f} GB/s; "
        f"with {SECTOR} bytes for each share {1e3 * (nbytes + SECTOR * store.num_edges) / speed:.2f} ms; "
        f"{shares / 1e9:.2f} GB of shares come from other ranks"
    )
    _say_memory(bench, "ranked")


def _slide(bench: RankBench, rows: PrefixRows, store: DeviceStore, scale: int, speed: float) -> None:
    """Time slides: as many new events arrive as old ones leave."""
    comm, num_events = bench.comm, bench.sizes.edge_factor << scale
    make = partial(Slides, bench, rows.bounds, store, (num_events, scale, SEED))
    slides = make(max(1, num_events // SLIDE_PARTS))
    times = bench.time(slides.apply, before=slides.draw, steps=min(STEPS, bench.sizes.steps))
    slides.check()
    num_rows, sent = slides.num_rows, slides.sent_bytes
    # Rows are read and written as they are sorted, here and by their owner; the delta is written.
    delta = store.memory_usage()["delta"]
    nbytes, seconds = 4 * 8 * num_rows + delta, np.median(times) / 1e3
    # Of each row: where its row begins, head, base, marks and words of a leaf, and its bit, which is written, too.
    sectors = 7 * SECTOR * num_rows
    num_edges = sum(comm.all_gather(store.num_edges))
    bench.note(f"{comm.size} ranks, R-MAT {scale}", "update", times, num_edges, slides.batch, nbytes)
    bench.say(f"a slide: {slides.batch} rows of all ranks in {1e3 * seconds:.2f} ms; {store.statistics()}")
    bench.say(
        f"bounds: {nbytes / 1e9:.2f} GB a rank take {1e3 * nbytes / speed:.2f} ms at a copy's {speed / 1e9:.0f} GB/s; "
        f"with 7 sectors of {SECTOR} bytes for each row {1e3 * (nbytes + sectors) / speed:.2f} ms; "
        f"{sent / 1e9:.2f} GB go to other ranks"
    )
    _say_memory(bench, "slid")


def _say_memory(bench: RankBench, what: str) -> None:
    """Print how much device memory all ranks have taken, with what their pools keep."""
    if bench.backend.on_gpu:
        free, there = bench.backend.xp.cuda.runtime.memGetInfo()
        taken = [f"{each / 1e9:.1f}" for each in bench.comm.all_gather(there - free)]
        bench.say(f"{what}: GB of device memory taken, with what pools keep: {', '.join(taken)} of {there / 1e9:.1f}")


def _bytes_of_iteration(table: PagedTable) -> int:
    """Return what an iteration reads and writes at least.

    Pages, leaves, bits, the delta, each share once, the sums twice.
    """
    packed, extra = table.packed, table.extra
    leaves = sum(array.nbytes for array in packed.leaves)
    slots = 0 if extra is None else extra.sources.nbytes + extra.indices.nbytes + extra.valid.nbytes
    vectors = packed.num_vertices * (4 + 2 * 8)
    return int(packed.words.nbytes + leaves + packed.num_edges // 8 + slots + vectors)


def _bytes_a_second(backend: Backend) -> float:
    """Return how many bytes a copy on the device reads and writes in a second."""
    given = backend.zeros(COPIED if backend.on_gpu else 1 << 20, np.uint8)
    taken, watch = backend.empty(given.shape[0], np.uint8), LapTimer(backend)
    laps = []
    for _ in range(3):
        watch.start()
        taken[...] = given
        laps.append(watch.lap())
    return 2e3 * float(given.nbytes) / min(laps)


def device_bytes(scale: int, edge_factor: int, size: int) -> dict[str, float]:
    """Return about how many bytes of device memory a rank takes at the worst moment of each phase.

    Parameters
    ----------
    scale, edge_factor : int
        The graph has ``2**scale`` vertices; ``edge_factor << scale`` events are drawn.
    size : int
        The number of ranks.

    Returns
    -------
    dict of str to float
        ``making``: a piece of the rows is sorted; ``directory``: leaves are laid out; ``ranking``; ``sliding``.
    """
    vertices, edges = 1 << scale, (edge_factor << scale) / size
    leaves, piece, slide = edges / 32, min(PIECE_EVENTS, edges), edges / SLIDE_PARTS
    pages = PAGE_BYTES * edges + LEAF_BYTES * leaves + ROW_BYTES * vertices
    delta = DELTA_ROW_BYTES * vertices + SLOT_BYTES * (STEPS + 1) * slide
    return {
        "making": MAKING_ROW_BYTES * vertices + LEAF_BYTES * leaves + PIECE_BYTES * piece,
        "directory": DIRECTORY_ROW_BYTES * vertices + DIRECTORY_LEAF_BYTES * leaves,
        "ranking": pages + delta + VECTOR_BYTES * vertices,
        "sliding": pages + 2 * delta + SLIDE_BYTES * slide,
    }


def _does_not_fit(backend: Backend, scale: int, edge_factor: int, size: int) -> str:
    """Return why a graph does not fit the ranks' devices, or their host; or ""."""
    if not backend.on_gpu:
        return ""
    phases = device_bytes(scale, edge_factor, size)
    phase, wanted = max(phases.items(), key=lambda item: item[1])
    there = int(backend.xp.cuda.runtime.memGetInfo()[1])
    if wanted > SHARE_OF_DEVICE * there:
        return f"{phase} takes about {wanted / 1e9:.0f} GB of a rank's device memory, a GPU has {there / 1e9:.0f}"
    pinned, host = PAGE_BYTES * (edge_factor << scale), os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if pinned > SHARE_OF_HOST * host:
        return f"all ranks pin {pinned / 1e9:.0f} GB while they pack, the host has {host / 1e9:.0f}"
    return ""
