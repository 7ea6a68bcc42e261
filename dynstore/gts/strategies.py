"""Several devices: the paper's Strategy-P and Strategy-S (section 4), over a communicator of ranks with a device each.

After each level or iteration the ranks merge what they have found. The paper does not do this for BFS; but a level
needs the levels that other devices have found. Strategy-P takes the minimum. Strategy-S sends the chunks to all hosts,
from where they are copied as RA.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dynstore.algorithms.link_analysis.by_row import read_numbers
from dynstore.arguments import check_count, check_flag, check_integer, check_name
from dynstore.distributed import Communicator, run
from dynstore.distributed.calls import Collective
from dynstore.errors import FailedToConvergeError, InputError, InputTypeError, RankError, type_name
from dynstore.gts.answers import no_vertex, rank, take_pages
from dynstore.gts.base import Engine, read_settings
from dynstore.gts.streaming import RunReport, Streamer

if TYPE_CHECKING:
    from dynstore.gts.topology import PagedTopology
    from dynstore.typing import Array, Device, Frame, Frames

__all__ = ["MultiGTS", "ShardedGTS"]

STRATEGIES = ("P", "S")
TIMEOUT = 3600.0  # seconds that a thread waits for others, whose passes may be longer
Result = TypeVar("Result")


class _Share:
    """One rank's part of a call.

    Parameters
    ----------
    call : Call
    streamer : Streamer
        The rank's own.
    strategy : {"P", "S"}
    """

    def __init__(self, call: Collective, streamer: Streamer, strategy: str) -> None:
        self._call, self._streamer, self._shares_pages = call, streamer, strategy == "P"
        self.backend, self.topology = streamer.backend, streamer.topology
        self.rank, self.size = call.comm.rank, call.comm.size
        # Strategy-S: where the chunks of WA begin and end.
        self._bounds = [self.topology.num_vertices * number // self.size for number in range(self.size + 1)]
        self._low, self._high = self._bounds[self.rank : self.rank + 2]

    def search(self, start: list[int], depth_limit: int, return_predecessors: bool) -> tuple[Array, Array | None]:
        """Search breadth first; return distances, and the smallest predecessors if they are wanted."""
        search = self._search_shared if self._shares_pages else self._search_chunks
        return search(np.array(start, np.int64), depth_limit, return_predecessors)

    def rank_all(self, alpha: float, tol: float, max_iter: int) -> tuple[Array, float]:
        """Rank all vertices; return ranks, and the last change."""
        return rank(self._streamer, alpha, max_iter, tol, self._push_shared if self._shares_pages else self._push_chunk)

    def _own_pages(self, pids: np.ndarray) -> np.ndarray:
        """Return this rank's pages: the paper's h(page) = page mod N, with runs of pages that are sent together."""
        share: np.ndarray = pids[pids // self._streamer.most_pages % self.size == self.rank]
        return share

    def _take_pages(self, bits: Array) -> np.ndarray:
        """Return the pages that any rank has marked."""
        flags = np.zeros(self.topology.num_pages, np.uint8)
        flags[take_pages(self._streamer, bits)] = 1
        merged = self._call.all_reduce(self.backend.asarray(flags), "max")
        return np.flatnonzero(self.backend.to_host(merged))

    def _chunks(self, own: Array) -> list[Array]:
        """Return the chunks of all ranks."""
        sizes = [high - low for low, high in zip(self._bounds[:-1], self._bounds[1:], strict=True)]
        given = [own if root == self.rank else self.backend.empty(size, own.dtype) for root, size in enumerate(sizes)]
        self._call.agree()
        return [self._call.comm.broadcast(each, root) for root, each in enumerate(given)]

    def _search_shared(self, sources: np.ndarray, depth: int, parents: bool) -> tuple[Array, Array | None]:
        """Search by Strategy-P: after each level all ranks get the least of what they have written."""
        xp, num_vertices, dtype = self.backend.xp, self.topology.num_vertices, self.topology.degrees.dtype
        kernels = self.backend.kernels("dynstore.gts", "search").SEARCH
        unreached = np.iinfo(dtype).max
        levels = xp.full(num_vertices, unreached, dtype=dtype)
        levels[self.backend.asarray(sources)] = 0
        found = xp.full(num_vertices if parents else 0, unreached, dtype=dtype)
        bits = self.backend.zeros(-(-self.topology.num_pages // 32), np.uint32)
        pids, level = self.topology.pages_of(sources), 0
        while pids.shape[0] and level < depth:
            self._streamer.stream(self._own_pages(pids), kernels, (bits, level, levels, found))
            levels[...] = self._call.all_reduce(levels, "min")
            pids, level = self._take_pages(bits), level + 1
        # What a rank finds for a vertex it finds in one level.
        return levels, no_vertex(xp, self._call.all_reduce(found, "min")) if parents else None

    def _search_chunks(self, sources: np.ndarray, depth: int, parents: bool) -> tuple[Array, Array | None]:
        """Search by Strategy-S: all levels are on the host, and those of a page's vertices are streamed with it."""
        backend, dtype, streamer = self.backend, self.topology.degrees.dtype, self._streamer
        kernels = backend.kernels("dynstore.gts", "search").SEARCH_CHUNK
        unreached = np.iinfo(dtype).max
        known = streamer.link.empty_pinned(self.topology.num_vertices, dtype)
        known.fill(unreached)
        known[sources] = 0
        levels = backend.asarray(known[self._low : self._high].copy())
        found = backend.xp.full(self._high - self._low if parents else 0, unreached, dtype=dtype)
        bits = backend.zeros(-(-self.topology.num_pages // 32), np.uint32)
        pids, level = self.topology.pages_of(sources), 0
        while pids.shape[0] and level < depth:
            streamer.stream(pids, kernels, (bits, level, self._low, levels, found), (known,))
            for low, chunk in zip(self._bounds, self._chunks(levels), strict=False):
                streamer.link.fetch(known[low : low + len(chunk)], chunk)
            streamer.report.fetched_bytes += known.nbytes
            pids, level = self._take_pages(bits), level + 1
        whole = backend.asarray(known.copy())
        return whole, no_vertex(backend.xp, backend.xp.concatenate(self._chunks(found))) if parents else None

    def _push_shared(self, base: float, shares: Array) -> Array:
        """Do an iteration by Strategy-P: ranks are summed, of which those of rank 0 begin at ``base``."""
        kernels = self.backend.kernels("dynstore.gts", "ranks").PUSH
        ranks = self.backend.xp.full(self.topology.num_vertices, 0.0 if self.rank else base, dtype=np.float32)
        self._streamer.stream(self._own_pages(self._streamer.all_pages), kernels, (0, ranks), (shares,))
        return self._call.all_reduce(ranks)

    def _push_chunk(self, base: float, shares: Array) -> Array:
        """Do an iteration by Strategy-S: each rank sums the ranks of its chunk."""
        kernels = self.backend.kernels("dynstore.gts", "ranks").PUSH
        ranks = self.backend.xp.full(self._high - self._low, base, dtype=np.float32)
        self._streamer.stream(self._streamer.all_pages, kernels, (self._low, ranks), (shares,))
        return self.backend.xp.concatenate(self._chunks(ranks))


class _Sharing(Engine):
    """The algorithms of both classes. They differ in how the work of a rank is called."""

    def _share(self, caller: str, read: Callable[[], dict[str, Any]], work: Callable[..., Result]) -> Result:
        """Return ``work(share, **read())`` on all ranks; what is read is refused on all if it is on one, or differs."""
        raise NotImplementedError

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

        def read() -> dict[str, Any]:
            depth = -1 if depth_limit is None else check_integer("bfs", "depth_limit", depth_limit)
            return {
                "start": self._read_vertices("bfs", "start", start).tolist(),
                "depth_limit": depth if depth >= 0 else int(np.iinfo(self.topology.degrees.dtype).max),
                "return_predecessors": check_flag("bfs", "return_predecessors", return_predecessors),
            }

        return self._search_frame(*self._share("bfs", read, _Share.search))

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

        def read() -> dict[str, Any]:
            return dict(zip(("alpha", "tol", "max_iter"), read_numbers(alpha, tol, max_iter), strict=True))

        ranks, error = self._share("pagerank", read, _Share.rank_all)
        _, tol, limit = read_numbers(alpha, tol, max_iter)
        if error >= tol > 0:
            raise FailedToConvergeError(
                f"pagerank: failed to converge: after {limit} iterations the ranks still change by {error:.3g}; wanted "
                f"less than tol={tol:g}. Raise max_iter or tol"
            )
        return self._frame(pagerank=ranks)


class ShardedGTS(_Sharing):
    """Runs algorithms on several devices, by the paper's two strategies; each rank has a device.

    Each rank makes such an object, with the same topology and options. All ranks call its methods at the same time.
    Each rank gets the whole result.

    Parameters
    ----------
    comm : Communicator
        The connection to the other ranks; :func:`dynstore.distributed.run` passes one.
    topology : PagedTopology
        Each rank needs all pages, in its memory or on its disk.
    strategy : {"P", "S"}
        "P" (performance): each device has all of WA, and reads its share of the pages. "S" (scalability): each device
        has a part of WA, a *chunk*, and reads all pages. WA is what an algorithm writes.
    streams, copy_bytes, host_bytes, technique, frames
        As for :class:`dynstore.gts.GTS`.

    Attributes
    ----------
    last_run : RunReport
        What this rank has copied and launched in the last run.

    Raises
    ------
    InputError
        If an option cannot be used, or the ranks have different topologies or strategies.

    Examples
    --------
    >>> from dynstore import distributed, gts
    >>> topology = gts.build(([0, 0, 1], [1, 2, 3]), page_bytes=64)
    >>> def program(comm):
    ...     return gts.ShardedGTS(comm, topology, "S").bfs(0)["distance"].tolist()
    >>> distributed.run(program, ranks=2, device="cpu")
    [[0, 1, 1, 2], [0, 1, 1, 2]]
    """

    def __init__(
        self,
        comm: Communicator,
        topology: PagedTopology,
        strategy: str = "P",
        *,
        streams: int = 4,
        copy_bytes: int = 32 << 20,
        host_bytes: int | None = None,
        technique: str = "edge",
        frames: Frames = "auto",
    ) -> None:
        if not isinstance(comm, Communicator):
            raise InputTypeError(f"ShardedGTS: comm is a {type_name(comm)}; wanted a Communicator")
        with Collective(comm, "ShardedGTS") as call:
            super().__init__(topology, comm.device, frames)  # type: ignore[arg-type]
            check_name("ShardedGTS", "strategy", strategy, STRATEGIES)
            settings = read_settings("ShardedGTS", streams, 0, "fixed", copy_bytes, host_bytes, technique, "streamed")
            self._streamer = Streamer(topology, self.backend, settings)
            own = {
                "strategy": strategy,
                "number of vertices": topology.num_vertices,
                "number of pages": topology.num_pages,
                "number of pages sent together": self._streamer.most_pages,
            }
            agreed = call.agree(own)
            for other, theirs in enumerate(agreed):
                for name, value in agreed[0].items():
                    if theirs[name] != value:
                        raise InputError(
                            f"ShardedGTS: the {name} is {value!r} on rank 0 and {theirs[name]!r} on rank {other}; "
                            "wanted the same on all"
                        )
        self.comm, self._strategy = comm, strategy
        self.last_run = RunReport()

    def _share(self, caller: str, read: Callable[[], dict[str, Any]], work: Callable[..., Result]) -> Result:
        report = self._streamer.report = RunReport()
        with Collective(self.comm, caller) as call:
            given = read()
            call.expect_alike(**given)
            call.agree()
            result = work(_Share(call, self._streamer, self._strategy), **given)
            self.backend.synchronize()
        report.stop()
        self.last_run = report
        return result


class MultiGTS(_Sharing):
    """Runs algorithms as on several devices, by the paper's two strategies, on threads that share one device.

    Each thread is a rank of a :class:`ShardedGTS`. This shows which pages each device would read, and that results are
    right. It does not show how much faster several GPUs are.

    Parameters
    ----------
    topology : PagedTopology
    num_devices : int
    strategy : {"P", "S"}
        As for :class:`ShardedGTS`.
    device, streams, copy_bytes, host_bytes, technique, frames
        As for :class:`dynstore.gts.GTS`.

    Attributes
    ----------
    last_runs : list of RunReport
        What each thread has copied and launched in the last run.
    """

    def __init__(
        self,
        topology: PagedTopology,
        num_devices: int,
        strategy: str = "P",
        *,
        device: Device = "auto",
        streams: int = 4,
        copy_bytes: int = 32 << 20,
        host_bytes: int | None = None,
        technique: str = "edge",
        frames: Frames = "auto",
    ) -> None:
        super().__init__(topology, device, frames)
        check_name("MultiGTS", "strategy", strategy, STRATEGIES)
        if check_count("MultiGTS", "num_devices", num_devices, 1) is None:
            raise InputTypeError("MultiGTS: num_devices is None; wanted an integer")
        settings = read_settings("MultiGTS", streams, 0, "fixed", copy_bytes, host_bytes, technique, "streamed")
        self._streamers = [Streamer(topology, self.backend, settings) for _ in range(num_devices)]
        self._strategy = strategy
        self.last_runs: list[RunReport] = []

    def _share(self, caller: str, read: Callable[[], dict[str, Any]], work: Callable[..., Result]) -> Result:
        begun, given = perf_counter(), read()
        for streamer in self._streamers:
            streamer.report = RunReport()

        def program(comm: Communicator) -> Result:
            with Collective(comm, caller) as call:
                return work(_Share(call, self._streamers[comm.rank], self._strategy), **given)

        try:
            results = run(program, len(self._streamers), self.backend.name, TIMEOUT)  # type: ignore[arg-type]
        except RankError as error:  # one thread's own error is the caller's
            raise error.__cause__ or error from None
        self.last_runs = [streamer.report for streamer in self._streamers]
        for report in self.last_runs:
            report.seconds = perf_counter() - begun
        return results[0]
