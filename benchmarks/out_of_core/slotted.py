"""The same graph in slotted pages, streamed as in GTS: what the other ways are compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.algorithms.centrality.scaling import scale_totals
from dynstore.bench.timing import quiet, time_call
from dynstore.gts.answers import label_components, measure_centrality, rank, search, search_lengths
from dynstore.gts.building import build_from_rows
from dynstore.gts.formats import PageFormat
from dynstore.gts.streaming import RunReport, Settings, Streamer

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.stores.paged.layout import PagedRows
    from dynstore.typing import Array

__all__ = ["MIB", "SLOTTED", "SLOTTED_ALGORITHMS", "SlottedPages", "make_format", "run_streamed"]

# "gts" has the streams and copies that are best for each algorithm here; "gts-paper" those of the paper: 32 streams, a
# page a copy, the attributes that are only read streamed, and pages on the device in an LRU cache.
SLOTTED = ("gts", "gts-paper")
SLOTTED_ALGORITHMS = ("pagerank", "bfs", "components", "sssp")
MIB = 1 << 20
PAGE_BYTES = MIB
# Pages of a small graph are smaller, so that it still has so many.
LEAST_PAGES = 64
TRIED_ITERATIONS = 2


class _Copies(NamedTuple):
    streams: int
    copy_bytes: int
    attributes: str

    def __str__(self) -> str:
        size = f"copies of {self.copy_bytes // MIB} MiB" if self.copy_bytes else "a page a copy"
        return f"{self.streams} streams, {size}, attributes {self.attributes}"


PAPER = _Copies(32, 0, "streamed")
TRIED = (
    _Copies(4, 8 * MIB, "resident"),
    _Copies(4, 32 * MIB, "resident"),
    _Copies(4, 128 * MIB, "resident"),
    _Copies(16, 32 * MIB, "resident"),
    _Copies(32, 0, "resident"),
)


class SlottedPages:
    """Slotted pages of packed rows.

    Parameters
    ----------
    packed : PagedRows
        Of the out-edges, not encoded: their words are the destinations. They are read now, and not kept.
    directed : bool
    source : int
        Where searches begin.
    say : callable
        Shows a line.
    """

    def __init__(self, packed: PagedRows, directed: bool, source: int, say: Callable[[str], None]) -> None:
        self.backend, self._source, self._say = packed.backend, source, say
        offsets = packed.backend.to_host(packed.offsets)
        weights = None if packed.weights_on_host is None else packed.weights_on_host[: packed.num_edges]
        form = make_format(packed.num_vertices, packed.num_edges, weights is not None)
        indices = packed.words_on_host[: packed.num_edges].view(np.int32)
        self.topology = build_from_rows(offsets, indices, weights, form, directed, progress=True)
        self._best: dict[str, _Copies] = {}
        self._keeper = self._stream(TRIED[0], 0, "fixed")  # pages stay pinned while it lives

    def _stream(self, copies: _Copies, cached: int, cache: str) -> Streamer:
        streams, copy_bytes, attributes = copies
        settings = Settings(streams, cached, cache, copy_bytes, None, "edge", attributes)
        return Streamer(self.topology, self.backend, settings)

    def _choose(self, algorithm: str) -> _Copies:
        """Return the streams and copies with which an algorithm takes the least time, with no page on the device."""
        if algorithm in self._best:
            return self._best[algorithm]
        given = algorithm, TRIED_ITERATIONS, self._source
        run_streamed(self._keeper, *given)  # warms up
        times = {}
        for copies in TRIED:
            times[copies] = time_call(self.backend, run_streamed, self._stream(copies, 0, "fixed"), *given)[1]
            self._say(f"{algorithm} with {copies}: {times[copies]:.1f} ms")
        best = self._best[algorithm] = min(times, key=lambda copies: times[copies])
        print(f" gts: {algorithm} with {best}", flush=True)
        return best

    def measure(
        self, way: str, resident: float, algorithm: str, iterations: int, repeats: int
    ) -> tuple[Any, list[float], int]:
        """Run once to warm up, then ``repeats`` times.

        Returns
        -------
        answer : array, shape (V,)
            On the device, comparable with those of :mod:`dynstore.algorithms.paged`.
        times : list of float
            ms of each run.
        link_bytes : int
            Over the link, both ways, in a run.
        """
        copies, cache = (PAPER, "lru") if way == "gts-paper" else (self._choose(algorithm), "fixed")
        streamer, times = self._stream(copies, int(resident * self.topology.num_pages), cache), []
        given = streamer, algorithm, iterations, self._source
        answer = run_streamed(*given)
        for _ in range(repeats):
            streamer.report = RunReport()
            with quiet():
                times.append(time_call(self.backend, run_streamed, *given)[1])
        report = streamer.report
        return answer, times, report.page_bytes + report.sent_bytes + report.fetched_bytes


def make_format(num_vertices: int, num_edges: int, weighted: bool, large: bool = False) -> PageFormat:
    """Return the format for a graph: pages of 1 MiB and ids of 2 and 2 bytes, or of 64 MiB and 3 and 3 bytes.

    As in the paper, ids of 6 bytes are for graphs of which 65,536 pages of 1 MiB do not hold enough; ``large`` wants
    them in any case.
    """
    small = PageFormat(PAGE_BYTES, 2, 2, weighted)
    wanted = num_vertices * small.vertex_bytes + num_edges * small.entry_bytes
    full = small
    if large or wanted > small.max_pages * PAGE_BYTES * 3 // 4:
        full = PageFormat(64 * PAGE_BYTES, 3, 3, weighted)
        wanted = num_vertices * full.vertex_bytes + num_edges * full.entry_bytes
    least = max(wanted // LEAST_PAGES // 4 * 4, 16 * full.least_page_bytes)
    return PageFormat(min(full.page_bytes, least), full.p, full.q, weighted)


def run_streamed(streamer: Streamer, algorithm: str, iterations: int, source: int = 0) -> Array:
    """Run an algorithm over pages; return what it has for each vertex, on the device."""
    if algorithm == "pagerank":
        return rank(streamer, 0.85, iterations, 0.0)[0]
    if algorithm == "bfs":
        return search(streamer, np.array([source]), int(np.iinfo(np.int32).max), False)[0]
    if algorithm == "sssp":
        return search_lengths(streamer, source, np.inf, False)[0]
    if algorithm == "betweenness":
        sources = np.array([source])
        totals = measure_centrality(streamer, sources, False)
        return scale_totals(streamer.backend, totals, sources, True, False, streamer.topology.directed)
    return label_components(streamer)
