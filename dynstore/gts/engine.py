"""The engine: algorithms over a topology that is streamed through a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.centrality.scaling import draw_sources, scale_factors
from dynstore.algorithms.link_analysis.by_row import read_numbers
from dynstore.arguments import check_count, check_flag, check_integer, check_name, check_number
from dynstore.errors import FailedToConvergeError, InputError, InputTypeError, UnweightedGraphError, type_name
from dynstore.gts.answers import label_components, measure_centrality, rank, search, search_lengths, traverse
from dynstore.gts.base import Engine, read_settings
from dynstore.gts.streaming import RunReport, Streamer
from dynstore.input.frames import make_frame
from dynstore.terminal import show_progress

if TYPE_CHECKING:
    from dynstore.gts.topology import PagedTopology
    from dynstore.typing import Device, Frame, Frames

__all__ = ["GTS"]

KINDS = ("bfs", "pagerank")


class GTS(Engine):
    """Runs algorithms on a graph in pages, which may be larger than the device's memory.

    An algorithm copies one page after the other to the device, and works on it there. What the algorithm writes (the
    paper's WA, such as ranks) stays on the device. So do buffers for pages, and pages that are kept. An engine does
    one run at a time.

    Parameters
    ----------
    topology : PagedTopology
    device : {"auto", "cpu", "cuda"}
        "auto" takes CUDA if it works, else the host. The host runs the same algorithms, without copies to a device.
    streams : int
        How many CUDA streams there are. Each has a buffer for pages. While one stream copies, others compute.
    cache_pages : int
        How many pages are kept on the device.
    cache : {"fixed", "lru"}
        Which pages are kept. "fixed": the first ones. "lru": those that were used last, as in the paper. An algorithm
        that reads all pages in turn finds the fixed pages each time. In an LRU cache it finds no page, unless the cache
        holds all pages.
    copy_bytes : int
        Neighbouring pages are copied together, up to this many bytes. With 0 each page is copied alone, as in the
        paper; so it is with ``cache="lru"``.
    host_bytes : int, optional
        For a topology on disk: how many bytes of it are loaded into pinned host memory. The rest is read from disk in
        each pass. By default all of it is loaded.
    technique : {"edge", "vertex", "hybrid"}
        On CUDA, how many threads work on a vertex of a small page. "edge": 32. "vertex": 1. "hybrid": about as many as
        the mean number of neighbours, on the pages that are copied together.
    attributes : {"streamed", "resident"}
        Where the arrays are that an algorithm only reads (the paper's RA, such as PageRank's last ranks). "streamed":
        on the host; a part is copied with each page, as in the paper. "resident": on the device, which takes more of
        its memory.
    frames : {"auto", "pandas", "polars", "cudf", "pyarrow"}
        The library of the results.
    progress : bool
        Whether runs show a bar on stderr, if that is a terminal. It counts the pages that a pass (a level or an
        iteration) has sent to the device.

    Attributes
    ----------
    last_run : RunReport
        How many passes, pages and bytes the last run took.

    Examples
    --------
    >>> from dynstore import gts
    >>> topology = gts.build(([0, 0, 1], [1, 2, 3]), page_bytes=64)
    >>> engine = gts.GTS(topology, device="cpu")
    >>> engine.bfs(0)
       vertex  distance  predecessor
    0       0         0           -1
    1       1         1            0
    2       2         1            0
    3       3         2            1
    >>> engine.last_run.passes, engine.last_run.pages
    (3, 3)
    """

    def __init__(
        self,
        topology: PagedTopology,
        *,
        device: Device = "auto",
        streams: int = 4,
        cache_pages: int = 0,
        cache: str = "fixed",
        copy_bytes: int = 32 << 20,
        host_bytes: int | None = None,
        technique: str = "edge",
        attributes: str = "streamed",
        frames: Frames = "auto",
        progress: bool = False,
    ) -> None:
        super().__init__(topology, device, frames)
        self._progress = check_flag("GTS", "progress", progress)
        settings = read_settings("GTS", streams, cache_pages, cache, copy_bytes, host_bytes, technique, attributes)
        self._streamer = Streamer(topology, self.backend, settings)
        self.last_run = RunReport()
        self._kernels: dict[Any, Any] = {}  # functions of the users' own, as kernels

    @property
    def device_bytes(self) -> int:
        """Bytes of device memory that the engine takes between runs."""
        return self._streamer.device_bytes

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
            As :func:`dynstore.bfs`: columns ``vertex``, ``distance`` and ``predecessor``.
        """
        sources = self._read_vertices("bfs", "start", start)
        depth = -1 if depth_limit is None else check_integer("bfs", "depth_limit", depth_limit)
        with self._running("bfs"):
            limit = int(np.iinfo(self.topology.degrees.dtype).max)
            wants = check_flag("bfs", "return_predecessors", return_predecessors)
            levels, parents = search(self._streamer, sources, depth if depth >= 0 else limit, wants)
        return self._search_frame(levels, parents)

    def sssp(self, source: int, cutoff: float | None = None, return_predecessors: bool = True) -> Frame:
        """Find the shortest paths from one vertex to all others.

        Parameters
        ----------
        source : int
        cutoff : float, optional
            Only paths shorter than this are found.
        return_predecessors : bool
            If False, the column of predecessors is filled with -1, and the last pass is left out.

        Returns
        -------
        frame
            As :func:`dynstore.sssp`: columns ``distance``, float32, ``vertex`` and ``predecessor``.

        Raises
        ------
        UnweightedGraphError
            If the pages have no weights.
        InputError
            If a weight is negative.
        """
        sources = self._read_vertices("sssp", "source", source)
        if sources.shape[0] != 1:
            raise InputError(f"sssp: source has {sources.shape[0]} vertices; wanted one")
        if not self.topology.format.weighted:
            raise UnweightedGraphError("sssp: the pages have no weights; build them with weights=True")
        if self.topology.least_weight < 0:
            raise InputError("sssp: the graph has negative weights; wanted weights of at least 0")
        limit = np.inf if cutoff is None else check_number("sssp", "cutoff", cutoff)
        wants = check_flag("sssp", "return_predecessors", return_predecessors)
        with self._running("sssp"):
            distances, parents = search_lengths(self._streamer, int(sources[0]), limit, wants)
        if parents is None:
            parents = self.backend.xp.full(distances.shape[0], -1, dtype=self.topology.degrees.dtype)
        frame: Frame = make_frame(
            self.backend, {"distance": distances, "vertex": self._vertices(), "predecessor": parents}, self._frames
        )
        return frame

    def pagerank(
        self, alpha: float = 0.85, max_iter: int = 100, tol: float = 1.0e-5, fail_on_nonconvergence: bool = True
    ) -> Frame | tuple[Frame, bool]:
        """Rank vertices by the probability that a random surfer is there. Weights are not used.

        Parameters
        ----------
        alpha : float
            The probability of following an edge, 0 to 1.
        max_iter : int
            The most iterations.
        tol : float
            Stop when the ranks change by less than this in an iteration; the changes of all vertices are added. With 0
            all iterations are done, and less device memory is needed.
        fail_on_nonconvergence : bool
            If False, return ``(frame, converged)``.

        Returns
        -------
        frame
            As :func:`dynstore.pagerank`: columns ``vertex`` and ``pagerank``, float32.

        Raises
        ------
        FailedToConvergeError
            If ``max_iter`` iterations are not enough.
        """
        alpha, tol, limit = read_numbers(alpha, tol, max_iter)
        fails = check_flag("pagerank", "fail_on_nonconvergence", fail_on_nonconvergence)
        with self._running("pagerank"):
            ranks, error = rank(self._streamer, alpha, limit, tol)
        converged = error < tol or not self.topology.num_vertices
        if fails and not converged:
            raise FailedToConvergeError(
                f"pagerank: failed to converge: after {limit} iterations the ranks still change by {error:.3g}; wanted "
                f"less than tol={tol:g}. Raise max_iter or tol, or pass fail_on_nonconvergence=False"
            )
        frame = self._frame(pagerank=ranks)
        return frame if fails else (frame, converged)

    def weakly_connected_components(self) -> Frame:
        """Label each vertex with the smallest vertex of its component; directions are ignored.

        Returns
        -------
        frame
            As :func:`dynstore.weakly_connected_components`: columns ``vertex`` and ``labels``.
        """
        with self._running("weakly_connected_components"):
            labels = label_components(self._streamer)
        return self._frame(labels=labels)

    def betweenness_centrality(
        self, k: Any = None, normalized: bool = True, endpoints: bool = False, random_state: int | None = None
    ) -> Frame:
        """Measure how many shortest paths lead through each vertex.

        Parameters
        ----------
        k : int, or vertices as a list or array, optional
            A number of vertices to sample, or the vertices themselves, from which paths are searched. By default all.
            A vertex that is given twice counts twice.
        normalized, endpoints : bool
            As in :func:`dynstore.betweenness_centrality`.
        random_state : int, optional
            The seed for sampling.

        Returns
        -------
        frame
            Columns ``vertex`` and ``betweenness_centrality``, float64.
        """
        caller, num_vertices = "betweenness_centrality", self.topology.num_vertices
        normalized, endpoints = check_flag(caller, "normalized", normalized), check_flag(caller, "endpoints", endpoints)
        if k is None or (isinstance(k, int | np.integer) and not isinstance(k, bool)):
            sources = draw_sources(num_vertices, k, random_state)
        else:
            sources = self._read_vertices(caller, "k", k)
        with self._running(caller):
            totals = measure_centrality(self._streamer, sources, endpoints)
        at_sources, elsewhere = scale_factors(
            num_vertices, sources.shape[0], normalized, endpoints, self.topology.directed
        )
        factors = self.backend.xp.full(num_vertices, elsewhere)
        factors[self.backend.asarray(sources)] = at_sources
        return self._frame(betweenness_centrality=totals * factors)

    def run(
        self,
        small: Any,
        large: Any,
        kind: str,
        *,
        written: Sequence[np.ndarray],
        read: Sequence[np.ndarray] = (),
        arguments: Sequence[float] = (),
        start: Any = None,
        max_levels: int | None = None,
    ) -> list[np.ndarray]:
        """Run kernels of your own over the pages: the paper's framework (Algorithm 1).

        On the host a kernel is a Python function, which Numba may have compiled. On CUDA it is a function that Numba
        can compile, or a Numba kernel. ``docs/guides/larger-than-memory.md`` has an example of each.

        Parameters
        ----------
        small, large : function
            The kernels for small and for large pages. Their parameters are, in this order: ``words``, ``first``,
            ``count``, ``lanes``, ``starts``, ``ranges`` and ``layout``; a part of each array of ``read``; with
            ``kind="bfs"`` a bit for each page and the level; the arrays of ``written``; the numbers of ``arguments``.
            A kernel sets the bits of the pages that the next level has to read.
        kind : {"bfs", "pagerank"}
            "bfs": run level by level; each level reads the pages whose bits are set. "pagerank": read all pages once.
        written : sequence of numpy.ndarray
            Arrays that kernels write (WA). They are copied to the device before the run, and back after it.
        read : sequence of numpy.ndarray, shape (V,)
            Arrays that kernels only read (RA). A kernel gets the values of the vertices on its pages; the first item
            is that of the first vertex of the first page.
        arguments : sequence of int or float
            Numbers that the kernels get.
        start : int, or a list or array of them
            With ``kind="bfs"``: the vertices of level 0.
        max_levels : int, optional
            With ``kind="bfs"``: how many levels are run at most.

        Returns
        -------
        list of numpy.ndarray
            ``written`` after the run.
        """
        check_name("run", "kind", kind, KINDS)
        if (start is None) == (kind == "bfs"):
            got = "no start" if start is None else "a start"
            raise InputTypeError(
                f"run: got {got} with kind={kind!r}; start is for BFS-like algorithms, and needed there"
            )
        sources = None if start is None else self._read_vertices("run", "start", start)
        most = check_count("run", "max_levels", max_levels)
        kernels = self._as_kernel("small", small), self._as_kernel("large", large)
        for name, given in {"written": written, "read": read, "arguments": arguments}.items():
            if not isinstance(given, Sequence):
                raise InputTypeError(f"run: {name} is a {type_name(given)}; wanted a list or a tuple")
        num_vertices = self.topology.num_vertices
        for index, one in enumerate(read):
            if np.shape(one) != (num_vertices,):
                raise InputError(f"run: read[{index}] has the shape {np.shape(one)}; wanted {(num_vertices,)}")
        with self._running("run") as report:
            sent = [self.backend.xp.array(one) for one in written]
            kept = [self._streamer.make_read(np.asarray(one).dtype) for one in read]
            for target, one in zip(kept, read, strict=True):
                target[...] = one if isinstance(target, np.ndarray) else self.backend.asarray(one)
            if sources is not None:
                traverse(self._streamer, kernels, sources, (*sent, *arguments), kept, most)
            else:
                self._streamer.stream(self._streamer.all_pages, kernels, (*sent, *arguments), kept)
            moved = sum(one.nbytes for one in sent)
            report.sent_bytes += moved
            report.fetched_bytes += moved
            return [np.array(self.backend.to_host(one)) for one in sent]

    def _as_kernel(self, name: str, function: Callable[..., None]) -> Any:
        if self.backend.family != "cpu":
            from dynstore.cuda.compiler import Kernel

            if isinstance(function, Kernel):
                return function
        if not callable(function):
            raise InputTypeError(f"run: {name} is a {type_name(function)}; wanted a function")
        if self.backend.family == "cpu":
            return function
        if function not in self._kernels:
            self._kernels[function] = Kernel(getattr(function, "py_func", function))
        return self._kernels[function]

    @contextmanager
    def _running(self, caller: str) -> Iterator[RunReport]:
        """Measure a run, and show how far it is; it ends when all is done."""
        report = self._streamer.report = RunReport()
        with show_progress(self._progress) as (advance, _):
            self._streamer.advance = lambda what, done, total: advance(f"{caller}, {what}", done, total)
            yield report
            self.backend.synchronize()
        report.stop()
        self.last_run = report
