"""A graph in host memory, read in several ways: what is measured, and whether all ways agree."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from time import monotonic as read_clock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.out_of_core.slotted import SLOTTED, SLOTTED_ALGORITHMS, SlottedPages
from benchmarks.rmat_pieces import INTO, OUT
from dynstore.algorithms.paged import (
    LinkTraffic,
    PageReader,
    betweenness_centrality,
    bfs,
    pagerank,
    sssp,
    triangle_count,
    weakly_connected_components,
)
from dynstore.bench.timing import quiet, time_call
from dynstore.stores.paged.building import pack_pieces
from dynstore.stores.paged.resident import ResidentPages
from dynstore.terminal import show_progress

if TYPE_CHECKING:
    from benchmarks.rmat_pieces import RmatGraph
    from dynstore.stores.paged.layout import PagedRows
    from dynstore.stores.paged.links import Links

__all__ = ["ALGORITHMS", "NAMES", "USUAL", "USUAL_WAYS", "WAYS", "Contest", "ContestPlan", "Options", "Run"]

# way -> whether pages are encoded, and how they are read
WAYS = {
    "zero-copy": (False, "zero-copy"),
    "raw": (False, "stream"),
    "codec": (True, "stream"),
    "hybrid": (True, "auto"),
    "codec-in-place": (True, "zero-copy"),
    "plain-hybrid": (False, "auto"),
}
# Those that are measured unless others are named.
USUAL_WAYS = tuple(WAYS)[:4]
NAMES = {
    "pagerank": "pagerank",
    "bfs": "bfs",
    "components": "weakly_connected_components",
    "sssp": "sssp",
    "triangles": "triangle_count",
    "betweenness": "betweenness_centrality",
}
ALGORITHMS = tuple(NAMES)
# Those that run unless others are named.
USUAL = ALGORITHMS[:3]
# Answers of float32 sums in another order differ by so much.
TOLERANCE = 1e-4
# Ranks of slotted pages are sums of atomic adds: up to millions of small numbers are added to a large one. Their
# distance to others, in sum over all vertices; all ranks sum to 1.
SLOTTED_TOLERANCE = 1e-2


@dataclass
class Run:
    """One algorithm in one way.

    Attributes
    ----------
    way, algorithm : str
    resident : float
        The share of pages on the device.
    times : list of float
        ms of each call, or of each iteration.
    link_bytes : int
        Over the link in a call, or an iteration.
    pages_bytes : int
        Of all pages, with the weights if the algorithm reads them; of the out-edges if it reads both directions.
    num_edges : int
    """

    way: str
    algorithm: str
    resident: float
    times: list[float]
    link_bytes: int
    pages_bytes: int
    num_edges: int

    def bound_ms(self, links: Links) -> float:
        """Return how long these bytes take at least."""
        return self.link_bytes / links.bytes_a_second * 1e3


class Options(NamedTuple):
    """What algorithms do.

    Attributes
    ----------
    iterations : int
        Of PageRank.
    sources : int
        Of betweenness.
    triangle_bytes : int or None
        Device memory for the edges in which triangles are counted.
    """

    iterations: int = 10
    sources: int = 4
    triangle_bytes: int | None = None


class ContestPlan(NamedTuple):
    """What to measure.

    Attributes
    ----------
    ways : list of str
        Of WAYS and SLOTTED.
    residents : list of float
        Shares of the pages that stay on the device.
    algorithms : list of str
    repeats : int
    limit_s : float or None
        After so many seconds nothing more is begun.
    """

    ways: list[str]
    residents: list[float]
    algorithms: list[str]
    repeats: int
    limit_s: float | None = None

    def ways_of(self, encode: bool) -> list[str]:
        return [way for way in self.ways if way in WAYS and WAYS[way][0] == encode]

    @property
    def slotted(self) -> list[str]:
        return [way for way in self.ways if way in SLOTTED]


class _TimeUpError(Exception):
    """The time of the run is up."""


class Contest:
    """A graph, packed as the ways need it, and the first answers.

    Attributes
    ----------
    disagreements : list of str
        Which way gave another answer.
    left_out : list of str
        What was not measured, and why.
    """

    def __init__(self, graph: RmatGraph, options: Options) -> None:
        self.backend, self._graph, self._options = graph.backend, graph, options
        self._degrees: Any = None
        self._answers: dict[str, tuple[str, Any]] = {}
        self.disagreements: list[str] = []
        self.left_out: list[str] = []
        self._began_s = read_clock()
        self._begun = self._planned = 0  # runs

    @property
    def is_symmetric(self) -> bool:
        return self._graph.is_symmetric

    def say(self, line: str) -> None:
        """Show progress, with the seconds since the beginning."""
        print(f"[{read_clock() - self._began_s:6.1f} s] {line}", file=sys.stderr, flush=True)

    def pack(self, kind: int, encode: bool, weighted: bool = False, make_pieces: Any = None) -> PagedRows:
        """Pack the rows of one direction; ``make_pieces`` yields them, if they are made already."""
        gc.collect()  # host memory of what came before goes first
        graph, dtype = self._graph, np.float32 if weighted else None
        make_pieces = make_pieces or (lambda: graph.pieces(kind, weighted))
        read = make_pieces if kind == OUT else (lambda: self._count_sources(make_pieces()))
        what = f"packing {'in' if kind == INTO else 'out'}-edges, {'encoded' if encode else 'plain'}"
        self.say(what)
        with self._show_rows(what) as shown:
            packed = pack_pieces(
                self.backend, graph.num_vertices, lambda: shown(read()), encode=encode, weight_dtype=dtype
            )
        sizes = packed.bytes_an_edge()
        print(
            f"{'into' if kind == INTO else 'out':>4}: {packed.num_edges} edges, {packed.num_pages} pages, "
            f"{sizes['pages']:.3f} bytes an edge in pages, {sizes['leaves']:.3f} with heads and bases",
            flush=True,
        )
        if kind == OUT and self._degrees is None:
            self._degrees = packed.offsets[1:] - packed.offsets[:-1]
        return packed

    def _count_sources(self, pieces: Iterator[Any]) -> Iterator[Any]:
        """Yield pieces of in-edges; at the first time, also count how many edges leave each vertex."""
        if self._degrees is not None:
            yield from pieces
            return
        num_vertices = self._graph.num_vertices
        counts = self.backend.zeros(num_vertices, np.int64)
        for degrees, sources in pieces:
            counts += self.backend.xp.bincount(sources, minlength=num_vertices)
            yield degrees, sources
        self._degrees = counts

    @contextmanager
    def _pieces(self, kind: int, weighted: bool) -> Iterator[Callable[[], Iterator[Any]]]:
        """Give what yields the rows: they are made once if they fit the device, else each time."""
        graph = self._graph
        if not graph.fits(kind, weighted):
            yield lambda: graph.pieces(kind, weighted)
            return
        what = f"drawing {'in' if kind == INTO else 'out'}-edges"
        self.say(what)
        with self._show_rows(what) as shown:
            pieces = list(shown(graph.pieces(kind, weighted)))
        try:
            yield lambda: iter(pieces)
        finally:
            pieces.clear()

    @contextmanager
    def _show_rows(self, what: str) -> Iterator[Callable[[Iterator[Any]], Iterator[Any]]]:
        """Give what passes pieces on, and shows how many rows have come. No bar is there while something is timed."""
        with show_progress() as (advance, _):

            def passed_on(pieces: Iterator[Any]) -> Iterator[Any]:
                rows, num_vertices = 0, self._graph.num_vertices

                def count(piece: Any) -> Any:
                    nonlocal rows
                    rows += len(piece[0])
                    advance(what, rows, num_vertices)
                    return piece

                advance(what, rows, num_vertices)
                return map(count, pieces)  # keeps no piece in memory, as a loop would

            yield passed_on

    def measure(self, plan: ContestPlan) -> Iterator[Run]:
        """Yield a run for each way, share of resident pages and algorithm; rows are packed when they are needed.

        Slotted pages come last; they are made of the plain out-edges, which stay until then.
        """
        slotted = [name for name in plan.algorithms if name in SLOTTED_ALGORITHMS] if plan.slotted else []
        chosen = {encode: plan.ways_of(encode) for encode in (False, True)}
        runs = len(plan.algorithms) * sum(map(len, chosen.values())) + len(slotted) * len(plan.slotted)
        self._begun, self._planned = 0, runs * len(plan.residents)
        kinds = self._kinds_of(plan.algorithms) if any(chosen.values()) else [OUT]
        weighted = "sssp" in plan.algorithms
        kept: list[PagedRows] = []
        last = [encode for encode, ways in chosen.items() if ways or (slotted and not encode)][-1]
        with ExitStack() as stack:
            pieces = {kind: stack.enter_context(self._pieces(kind, weighted and kind == OUT)) for kind in kinds}
            for encode, ways in chosen.items():
                if not ways and (encode or not slotted):
                    continue
                packed: dict[int, PagedRows] = {}
                try:
                    self._check_time(plan)
                    for kind in kinds if ways else [OUT]:
                        packed[kind] = self.pack(kind, encode, weighted and kind == OUT, pieces[kind])
                    if encode == last:
                        stack.close()  # algorithms have the memory of what was drawn
                    if slotted and not encode:
                        kept.append(packed[OUT])
                    yield from self._measure_packed(plan, packed, ways)
                except (MemoryError, _TimeUpError) as error:
                    self._leave_out(f"what reads {'encoded' if encode else 'plain'} pages", error)
                del packed  # before the next ones are made
        if kept:
            yield from self._measure_slotted(plan, kept, slotted)

    def _kinds_of(self, algorithms: Sequence[str]) -> list[int]:
        """Return the directions that algorithms read: a search reads both."""
        if self._graph.is_symmetric:
            return [OUT]
        kinds = [OUT] if set(algorithms) != {"pagerank"} else []
        return [*kinds, INTO] if {"pagerank", "bfs"} & set(algorithms) else kinds

    def _measure_packed(self, plan: ContestPlan, packed: dict[int, PagedRows], ways: Sequence[str]) -> Iterator[Run]:
        for algorithm in plan.algorithms if ways else ():
            for way in ways:
                for resident in plan.residents:
                    yield from self._try(
                        plan,
                        f"{algorithm} by {way}, resident {resident:g}",
                        lambda: self._measure_one(packed, way, resident, algorithm, plan.repeats),  # noqa: B023
                    )

    def _measure_slotted(self, plan: ContestPlan, kept: list[PagedRows], algorithms: Sequence[str]) -> Iterator[Run]:
        """Measure slotted pages that are made of packed rows of out-edges, whose plain ids lie in host memory."""
        try:
            self._check_time(plan)
            self.say("building slotted pages")
            pages = SlottedPages(kept.pop(), not self._graph.is_symmetric, self._graph.hub, self.say)
        except (MemoryError, _TimeUpError) as error:
            self._leave_out("slotted pages", error)
            return
        self.say(f"built {pages.topology}, {pages.topology.nbytes / 1e9:.2f} GB")
        for algorithm in algorithms:
            for way in plan.slotted:
                for resident in plan.residents:
                    yield from self._try(
                        plan,
                        f"{algorithm} by {way}, resident {resident:g}",
                        lambda: self._measure_pages(pages, way, resident, algorithm, plan.repeats),  # noqa: B023
                    )

    def _try(self, plan: ContestPlan, what: str, measure: Callable[[], Run]) -> Iterator[Run]:
        """Yield a run, unless the time is up, or it does not fit: then that is noted."""
        self._begun += 1
        try:
            self._check_time(plan)
            self.say(f"{self._begun} of {self._planned}: {what}")
            run = measure()
        except (MemoryError, _TimeUpError) as error:
            self._leave_out(what, error)
            return
        yield run

    def _check_time(self, plan: ContestPlan) -> None:
        if plan.limit_s is not None and read_clock() - self._began_s > plan.limit_s:
            raise _TimeUpError("the time was up")

    def _leave_out(self, what: str, error: Exception) -> None:
        line = f"{what}: {str(error).partition(chr(10))[0] or type(error).__name__}"
        self.left_out.append(line)
        print(f"left out: {line}", flush=True)
        gc.collect()

    def run(self, readers: Sequence[PageReader], algorithm: str) -> Any:
        """Run an algorithm; return its answer. A search of a directed graph also reads in-edges: the second reader."""
        reader, into = readers[0], readers[1] if len(readers) > 1 else None
        symmetric = self._graph.is_symmetric
        if algorithm == "pagerank":
            return pagerank(reader, self._degrees, max_iter=self._options.iterations, tol=0.0)[0]
        if algorithm == "bfs":
            return bfs(reader, self._graph.hub, symmetric=symmetric, into=into)[0]
        if algorithm == "sssp":
            return sssp(reader, self._graph.hub)[0]
        if algorithm == "triangles":
            return triangle_count(reader, self._options.triangle_bytes)
        if algorithm == "betweenness":
            return betweenness_centrality(reader, self._options.sources, random_state=1, symmetric=symmetric)
        return weakly_connected_components(reader)

    def _measure_one(
        self, packed: dict[int, PagedRows], way: str, resident: float, algorithm: str, repeats: int
    ) -> Run:
        """Run once to warm up and compare the answer, then ``repeats`` times."""
        weighted = algorithm == "sssp"
        read = packed[INTO if algorithm == "pagerank" and INTO in packed else OUT]
        rows = [read, packed[INTO]] if algorithm == "bfs" and INTO in packed else [read]
        kept = [_keep(part, resident, weighted) for part in rows]
        if resident:  # pages that are copied stay
            self.run([PageReader(part, "stream", stay) for part, stay in zip(rows, kept, strict=True)], algorithm)
        readers = [PageReader(part, WAYS[way][1], stay) for part, stay in zip(rows, kept, strict=True)]
        self._compare(algorithm, way, self.run(readers, algorithm))
        times, each = [], self._options.iterations if algorithm == "pagerank" else 1
        for _ in range(repeats):
            for reader in readers:
                reader.traffic = LinkTraffic()
            with quiet():
                times.append(time_call(self.backend, self.run, readers, algorithm)[1] / each)
        pages = int(read.page_bytes().sum()) + (int(read.weight_bytes().sum()) if weighted else 0)
        link_bytes = sum(reader.traffic.link_bytes for reader in readers)
        return Run(way, algorithm, resident, times, link_bytes // each, pages, read.num_edges)

    def _measure_pages(self, pages: SlottedPages, way: str, resident: float, algorithm: str, repeats: int) -> Run:
        iterations = self._options.iterations
        each = iterations if algorithm == "pagerank" else 1
        answer, times, link_bytes = pages.measure(way, resident, algorithm, iterations, repeats)
        self._compare(algorithm, way, answer)
        topology = pages.topology
        return Run(
            way, algorithm, resident, [passed_ms / each for passed_ms in times], link_bytes // each, topology.nbytes,
            topology.num_edges,
        )  # fmt: skip

    def _compare(self, algorithm: str, way: str, answer: Any) -> None:
        """Compare an answer with the first one; slotted pages come after the others."""
        other, first = self._answers.setdefault(algorithm, (way, answer))
        if algorithm == "pagerank" and way in SLOTTED:
            distance = float(abs(first - answer).sum(dtype=np.float64))
            self.say(f"ranks by {way} and {other} differ by {distance:.2e} in sum")
            agree = distance <= SLOTTED_TOLERANCE
        elif algorithm in ("pagerank", "betweenness"):
            agree = not bool((abs(first - answer) > TOLERANCE * first).any())  # betweenness may have NaN
        else:
            agree = bool((first == answer).all())
        if not agree:
            self.disagreements.append(f"{algorithm} by {way} gives another answer than by {other}")


def _keep(packed: PagedRows, share: float, weighted: bool) -> ResidentPages | None:
    """Return room on the device for a share of the pages, or None for a share of 0."""
    total = int(packed.page_bytes().sum()) + (int(packed.weight_bytes().sum()) if weighted else 0)
    return ResidentPages(lambda: int(share * total)) if share else None
