"""Several devices: the paper's Strategy-P and Strategy-S (section 4).

Both have one merge a level or an iteration, which the paper leaves out for BFS: a level needs the levels that other
devices have found. In P it is a minimum, in S the chunks go back to the host, from where they are streamed as RA.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.link_analysis.api import read_numbers
from dynstore.arguments import check_count, check_flag, check_integer
from dynstore.errors import FailedToConvergeError, InputTypeError, unknown_name
from dynstore.gts.answers import no_vertex, rank, take_pages
from dynstore.gts.base import Engine, read_settings
from dynstore.gts.streaming import RunReport, Streamer

if TYPE_CHECKING:
    from dynstore.gts.topology import PagedTopology
    from dynstore.typing import Array, Device, Frame, Frames

__all__ = ["MultiGTS"]

STRATEGIES = ("P", "S")


class MultiGTS(Engine):
    """Runs algorithms over several devices: the plans of the paper's two strategies.

    Here each device is a thread that has its own buffers and its own WA on one device. So it shows what each device
    streams and that results are right, not how much faster several GPUs are.

    Parameters
    ----------
    topology : PagedTopology
    num_devices : int
    strategy : {"P", "S"}
        "P", for performance: each device has all of WA, and streams its share of the pages. "S", for scalability: each
        device has a chunk of WA, and streams all pages.
    device, streams, copy_bytes, host_bytes, technique, frames
        As for :class:`dynstore.gts.GTS`.

    Attributes
    ----------
    last_runs : list of RunReport
        What each device has streamed in the last run.
    """

    def __init__(
        self,
        topology: PagedTopology,
        num_devices: int,
        strategy: str = "P",
        *,
        device: Device = "auto",
        streams: int = 4,
        copy_bytes: int = 8 << 20,
        host_bytes: int | None = None,
        technique: str = "edge",
        frames: Frames = "auto",
    ) -> None:
        super().__init__(topology, device, frames)
        if strategy not in STRATEGIES:
            raise unknown_name("MultiGTS", "strategy", strategy, STRATEGIES)
        if check_count("MultiGTS", "num_devices", num_devices, 1) is None:
            raise InputTypeError("MultiGTS: num_devices is None; wanted an integer")
        settings = read_settings("MultiGTS", streams, 0, "fixed", copy_bytes, host_bytes, technique, "streamed")
        self._streamers = [Streamer(topology, self.backend, settings) for _ in range(num_devices)]
        # Strategy-S: where the chunks of WA begin and end.
        self._bounds = [topology.num_vertices * number // num_devices for number in range(num_devices + 1)]
        self._shares_pages = strategy == "P"
        self.last_runs: list[RunReport] = []

    def bfs(self, start: Any, depth_limit: int | None = None, return_predecessors: bool = True) -> Frame:
        """Find how many edges each vertex is away from the nearest start vertex.

        Parameters
        ----------
        start : int, or a list or array of them
        depth_limit : int, optional
            The largest distance to search. A negative number means no limit.
        return_predecessors : bool
            If False, the column of predecessors is filled with -1.

        Returns
        -------
        frame
            As :meth:`GTS.bfs`.
        """
        sources = self._read_vertices("bfs", "start", start)
        dtype = self.topology.degrees.dtype
        depth = -1 if depth_limit is None else check_integer("bfs", "depth_limit", depth_limit)
        parents = check_flag("bfs", "return_predecessors", return_predecessors)
        search = self._search_shared if self._shares_pages else self._search_chunks
        return self._search_frame(*self._run(search, sources, depth if depth >= 0 else np.iinfo(dtype).max, parents))

    def pagerank(self, alpha: float = 0.85, max_iter: int = 100, tol: float = 1.0e-5) -> Frame:
        """Rank vertices by the chance that a random surfer is there.

        Parameters
        ----------
        alpha : float
            The probability of following an edge, 0 to 1.
        max_iter : int
            The most iterations.
        tol : float
            Stop when an iteration changes the ranks by less than this in sum. 0 does all iterations.

        Returns
        -------
        frame
            As :meth:`GTS.pagerank`.

        Raises
        ------
        FailedToConvergeError
            If ``max_iter`` iterations are not enough, and ``tol`` is not 0.
        """
        alpha, tol, limit = read_numbers(alpha, tol, max_iter)
        push = self._push_shared if self._shares_pages else self._push_chunks
        ranks, error = self._run(rank, self._streamers[0], alpha, limit, tol, push)
        if error >= tol > 0:
            raise FailedToConvergeError(
                f"pagerank: failed to converge: after {limit} iterations the ranks still change by {error:.3g}; wanted "
                f"less than tol={tol:g}. Raise max_iter or tol"
            )
        return self._frame(pagerank=ranks)

    def _run(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call, and keep the reports of all devices."""
        begun = perf_counter()
        for streamer in self._streamers:
            streamer.report = RunReport()
        result = call(*arguments)
        self.last_runs = [streamer.report for streamer in self._streamers]
        for report in self.last_runs:
            report.seconds = perf_counter() - begun
        return result

    def _on_all(self, work: Callable[[int, Streamer], None]) -> None:
        """Let each device work, all at once; raise the first error when all have ended."""
        with ThreadPoolExecutor(len(self._streamers)) as threads:
            list(threads.map(work, range(len(self._streamers)), self._streamers))

    def _pages_of(self, number: int, pids: np.ndarray) -> np.ndarray:
        """Return a device's share: the paper's h(page) = page mod N, with runs of pages that are sent together."""
        share: np.ndarray = pids[pids // self._streamers[number].most_pages % len(self._streamers) == number]
        return share

    def _make_bits(self) -> list[Array]:
        words = -(-self.topology.num_pages // 32)
        return [self.backend.zeros(words, np.uint32) for _ in self._streamers]

    def _take_pages(self, bits: list[Array]) -> np.ndarray:
        """Return the pages that any device has marked."""
        taken = [take_pages(streamer, each) for streamer, each in zip(self._streamers, bits, strict=True)]
        return np.unique(np.concatenate(taken))

    def _search_shared(self, sources: np.ndarray, depth: int, parents: bool) -> tuple[Array, Array | None]:
        """Search by Strategy-P: after each level all devices get the least of what they have written."""
        xp, num_vertices, dtype = self.backend.xp, self.topology.num_vertices, self.topology.degrees.dtype
        kernels = self.backend.kernels("dynstore.gts", "search").SEARCH
        unreached = np.iinfo(dtype).max
        levels = [xp.full(num_vertices, unreached, dtype=dtype) for _ in self._streamers]
        found = [xp.full(num_vertices if parents else 0, unreached, dtype=dtype) for _ in self._streamers]
        for each in levels:
            each[self.backend.asarray(sources)] = 0
        bits, pids, level = self._make_bits(), self.topology.pages_of(sources), 0
        while pids.shape[0] and level < depth:

            def work(number: int, streamer: Streamer, pids: np.ndarray = pids, level: int = level) -> None:
                written = bits[number], level, levels[number], found[number]
                streamer.stream(self._pages_of(number, pids), kernels, written)

            self._on_all(work)
            for copies in (levels, found):
                least = reduce(xp.minimum, copies)
                for each in copies:
                    each[...] = least
            pids, level = self._take_pages(bits), level + 1
        return levels[0], no_vertex(xp, found[0]) if parents else None

    def _search_chunks(self, sources: np.ndarray, depth: int, parents: bool) -> tuple[Array, Array | None]:
        """Search by Strategy-S: all levels are on the host, and those of a page's vertices are streamed with it."""
        backend, dtype = self.backend, self.topology.degrees.dtype
        kernels = backend.kernels("dynstore.gts", "search").SEARCH_CHUNK
        unreached = np.iinfo(dtype).max
        known = self._streamers[0].link.empty_pinned(self.topology.num_vertices, dtype)
        known.fill(unreached)
        known[sources] = 0
        chunks = list(zip(self._bounds[:-1], self._bounds[1:], strict=True))
        levels = [backend.asarray(known[low:high].copy()) for low, high in chunks]
        found = [backend.xp.full(high - low if parents else 0, unreached, dtype=dtype) for low, high in chunks]
        bits, pids, level = self._make_bits(), self.topology.pages_of(sources), 0
        while pids.shape[0] and level < depth:

            def work(number: int, streamer: Streamer, pids: np.ndarray = pids, level: int = level) -> None:
                written = bits[number], level, chunks[number][0], levels[number], found[number]
                streamer.stream(pids, kernels, written, (known,))

            self._on_all(work)
            for (low, high), chunk, streamer in zip(chunks, levels, self._streamers, strict=True):
                streamer.link.fetch(known[low:high], chunk)
                streamer.report.fetched_bytes += known[low:high].nbytes
            pids, level = self._take_pages(bits), level + 1
        xp = backend.xp
        return xp.concatenate(levels), no_vertex(xp, xp.concatenate(found)) if parents else None

    def _push_shared(self, base: float, shares: Array) -> Array:
        """Do an iteration by Strategy-P: ranks are summed, of which one device's begin at ``base``."""
        xp, kernels = self.backend.xp, self.backend.kernels("dynstore.gts", "ranks").PUSH
        ranks = [
            xp.full(self.topology.num_vertices, 0.0 if number else base, dtype=np.float32)
            for number in range(len(self._streamers))
        ]

        def work(number: int, streamer: Streamer) -> None:
            pids = self._pages_of(number, streamer.all_pages)
            streamer.stream(pids, kernels, (0, ranks[number]), (shares,))

        self._on_all(work)
        return reduce(xp.add, ranks)

    def _push_chunks(self, base: float, shares: Array) -> Array:
        """Do an iteration by Strategy-S: each device sums the ranks of its chunk."""
        xp, kernels = self.backend.xp, self.backend.kernels("dynstore.gts", "ranks").PUSH
        ranks = [
            xp.full(high - low, base, dtype=np.float32)
            for low, high in zip(self._bounds[:-1], self._bounds[1:], strict=True)
        ]

        def work(number: int, streamer: Streamer) -> None:
            streamer.stream(streamer.all_pages, kernels, (self._bounds[number], ranks[number]), (shares,))

        self._on_all(work)
        return xp.concatenate(ranks)
