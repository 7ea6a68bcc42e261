"""What the experiments of GTS work with: pages of a data set, the link's speed, and runs over pages."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.out_of_core.slotted import MIB, make_format, run_streamed
from benchmarks.papers.figures.printed import BULK
from dynstore import gts
from dynstore.bench.timing import LapTimer
from dynstore.gts.costs import Machine, predict_pass, predict_search
from dynstore.gts.links import make_link
from dynstore.gts.streaming import RunReport, Settings, Streamer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.papers.bench import Bench
    from dynstore.backend import Backend
    from dynstore.graph import DynamicGraph
    from dynstore.gts import PagedTopology

__all__ = [
    "BETWEENNESS",
    "BFS",
    "COMPONENTS",
    "ITERATIONS",
    "PAGERANK",
    "SSSP",
    "PageBench",
    "agree_on",
    "in_memory",
    "make_graph",
    "make_pages",
    "make_settings",
    "measure_machine",
    "note_run",
    "time_link",
]

# Rows of tables, as the paper names its algorithms.
BFS, PAGERANK, SSSP, COMPONENTS, BETWEENNESS = "BFS", "PageRank", "SSSP", "CC", "BC"
NAMES = {BFS: "bfs", PAGERANK: "pagerank", SSSP: "sssp", COMPONENTS: "components", BETWEENNESS: "betweenness"}
OF_JSON = {**NAMES, COMPONENTS: "weakly_connected_components", BETWEENNESS: "betweenness_centrality"}
ITERATIONS = 10
# From here on the paper has page ids of 3 and slot numbers of 3 bytes, and pages of 64 MiB.
LARGE_SETS = ("rmat30", "rmat31", "rmat32")
RUNS = 3
LINK_BYTES = 256 * MIB
MOST_COPIES, CALLS = 4096, 1000
# Of ranks, in sum over all vertices: atomic adds of float32 come in any order.
TOLERANCE = 1e-3
MAX_WEIGHT = 100


def make_settings(
    streams: int = 4,
    cache_pages: int = 0,
    cache: str = "fixed",
    copy_bytes: int = 32 * MIB,
    host_bytes: int | None = None,
    technique: str = "edge",
    attributes: str = "resident",
) -> Settings:
    """Return the settings of a run; the defaults are those that suit a link of today."""
    return Settings(streams, cache_pages, cache, copy_bytes, host_bytes, technique, attributes)


def make_graph(bench: Bench, weighted: bool = False) -> DynamicGraph:
    """Return the graph of all edges; weights are whole numbers from 1 to 100 that follow from an edge's ends."""
    src, dst = bench.rows(0, len(bench.ring))
    graph = bench.graph(weighted=weighted)
    if weighted:
        mixed = src.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + dst.astype(np.uint64)
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xD6E8FEB86659FD93)
        weights = ((mixed >> np.uint64(20)) % np.uint64(MAX_WEIGHT) + np.uint64(1)).astype(np.float32)
        graph.insert_edges((src, dst, weights))
    else:
        graph.insert_edges((src, dst))
    return graph


def make_pages(bench: Bench, weighted: bool = False) -> PagedTopology:
    """Return the data set in slotted pages, of the paper's sizes unless the graph is small."""
    num_vertices, num_edges = bench.ring.num_vertices, len(bench.ring)
    form = make_format(num_vertices, num_edges, weighted, bench.ring.name in LARGE_SETS)
    graph = make_graph(bench, weighted)
    return gts.build(graph, page_bytes=form.page_bytes, p=form.p, q=form.q, weights=weighted)


def time_link(backend: Backend, size: int, steps: int = RUNS) -> float:
    """Return the bytes a second of copies of pinned memory to the device, ``size`` bytes each; the median of some."""
    link, size = make_link(backend, 1, 0), min(size, LINK_BYTES)
    total = size * min(LINK_BYTES // size, MOST_COPIES)
    source, target = link.empty_pinned(total, np.uint8), backend.empty(total, np.uint8)
    source.fill(1)
    watch, times = LapTimer(backend), []
    for _ in range(steps + 1):
        watch.start()
        for at in range(0, total, size):
            link.send(0, target[at : at + size], source[at : at + size], True)
        link.synchronize()
        times.append(watch.lap())
    return total / float(np.median(times[1:])) * 1e3


def _time_launch(backend: Backend) -> float:
    """Return the seconds of one launch of a kernel that does nothing; 0 on the host."""
    if not backend.on_gpu:
        return 0.0
    from dynstore.cuda.compiler import k_probe

    written, watch = backend.zeros(1, np.int32), LapTimer(backend)
    k_probe.launch(1, written)
    watch.start()
    for _ in range(CALLS):
        k_probe.launch(1, written)
    return watch.lap() / CALLS / 1e3


class _Nothing:
    """A kernel that is not launched."""

    def __call__(self, *arguments: Any) -> None:
        pass

    launch_strided = __call__


class _Recorder(Streamer):
    """A streamer that notes what it streams, and can stream the same again without kernels."""

    def __init__(self, topology: PagedTopology, backend: Backend, settings: Settings) -> None:
        super().__init__(topology, backend, settings)
        self.passes: list[tuple[np.ndarray, Sequence[Any]]] = []

    def stream(
        self, pids: np.ndarray, kernels: tuple[Any, Any], arguments: Sequence[Any], read: Sequence[Any] = ()
    ) -> None:
        self.passes.append((pids, read))
        super().stream(pids, kernels, arguments, read)

    def stream_again(self) -> int:
        """Copy all that was streamed, and launch nothing; return the bytes."""
        report = self.report = RunReport()
        for pids, read in self.passes:
            super().stream(pids, (_Nothing(), _Nothing()), (), read)
        return report.page_bytes + report.sent_bytes


@lru_cache
def measure_machine(backend: Backend, copy_bytes: int) -> Machine:
    """Return what the cost models want: large copies, copies of ``copy_bytes``, and a launch; measured once."""
    return Machine(time_link(backend, LINK_BYTES), time_link(backend, copy_bytes), _time_launch(backend))


class PageBench:
    """Runs over the pages of one data set, noted with what crossed the link.

    Parameters
    ----------
    bench : Bench
    topology : PagedTopology
    """

    def __init__(self, bench: Bench, topology: PagedTopology) -> None:
        self.bench, self.topology = bench, topology
        self.source = int(bench.ring.src[0])
        self._keeper = self.stream(make_settings())  # keeps the pages pinned

    def stream(self, settings: Settings) -> Streamer:
        return Streamer(self.topology, self.bench.backend, settings)

    def measure_copies(self, algorithm: str, row: str, settings: Settings) -> None:
        """Time the copies of a run without its kernels."""
        bench = self.bench
        streamer = _Recorder(self.topology, bench.backend, settings)
        run_streamed(streamer, NAMES[algorithm], ITERATIONS, self.source)
        for step in bench.steps(RUNS, row=row):
            moved, passed_ms = bench.timed(streamer.stream_again)
            if step >= 0:
                note_run(bench, passed_ms, row, algorithm, moved)

    def measure(self, algorithm: str, row: str, settings: Settings, models: bool = False) -> None:
        """Run an algorithm some times, and note each in one row of a table.

        ``models``: whether what the paper's cost models say is noted, too.
        """
        streamer, bench = self.stream(settings), self.bench
        copy_bytes = streamer.most_pages * self.topology.format.page_bytes
        for step in bench.steps(RUNS, row=row):
            streamer.report = RunReport()
            answer, passed_ms = bench.timed(run_streamed, streamer, NAMES[algorithm], ITERATIONS, self.source)
            self.agree(algorithm, answer)
            if step < 0:
                continue
            report, machine = streamer.report, measure_machine(bench.backend, copy_bytes)
            moved = report.page_bytes + report.sent_bytes + report.fetched_bytes
            counts = {
                "bound_ns": int(moved / machine.chunk_bandwidth * 1e9), "hits": report.hits, "read_pages": report.pages,
            }  # fmt: skip
            if models:
                counts["model_ns"] = int(1e9 * self._predict(algorithm, machine, report))
            note_run(bench, passed_ms, row, algorithm, moved, counts)

    def _predict(self, algorithm: str, machine: Machine, report: RunReport) -> float:
        """Return the seconds that the paper's models predict: equation 1 for each pass of PageRank, else equation 2."""
        written = 4 * self.topology.num_vertices
        if algorithm != PAGERANK:
            return predict_search(machine, written, report.by_pass)
        attributes = (report.sent_bytes + report.fetched_bytes) // max(report.passes, 1)
        pages = report.page_bytes // max(report.passes, 1)
        launches = report.launches // max(report.passes, 1)
        once = predict_pass(machine, 0, attributes, pages, launches)
        return report.passes * once + 2 * written / machine.chunk_bandwidth

    def agree(self, algorithm: str, answer: Any) -> None:
        """Compare an answer with those before, of other settings and contestants."""
        agree_on(self.bench, algorithm, self.bench.backend.to_host(answer))


def note_run(
    bench: Bench,
    passed_ms: float,
    row: str,
    algorithm: str,
    num_bytes: int | None = None,
    counts: Mapping[str, int] | None = None,
) -> None:
    """Note a run of an algorithm on all edges; ``num_bytes``: over the link."""
    size = len(bench.ring)
    if num_bytes is not None and counts is None:
        counts = {"bound_ns": int(num_bytes / measure_machine(bench.backend, MIB).chunk_bandwidth * 1e9)}
    bench.note(
        "algorithm", passed_ms, size, BULK, size, row, algorithm=OF_JSON[algorithm], num_bytes=num_bytes, counts=counts
    )


def agree_on(bench: Bench, algorithm: str, answer: np.ndarray) -> None:
    """Compare an answer, one number a vertex, with those before of the same algorithm on this data set."""
    bench.agree(algorithm, answer, _difference if algorithm in (PAGERANK, BETWEENNESS) else _exact_difference)


def _exact_difference(wanted: np.ndarray, got: np.ndarray) -> str | None:
    wrong = int((wanted != got).sum()) if wanted.shape == got.shape else max(wanted.shape[0], got.shape[0])
    return f"{wrong} vertices differ" if wrong else None


def _difference(wanted: np.ndarray, got: np.ndarray) -> str | None:
    distance = float(np.abs(wanted - got).sum(dtype=np.float64)) / max(float(np.abs(wanted).sum(dtype=np.float64)), 1.0)
    return f"they differ by {distance:.2e} in sum" if distance > TOLERANCE else None


def in_memory(graph: DynamicGraph, algorithm: str, source: int) -> Callable[[], Any]:
    """Return a call of the algorithm on a graph in the device's memory, which returns a frame's column."""
    from dynstore import algorithms

    calls: dict[str, Callable[[], Any]] = {
        BFS: lambda: algorithms.bfs(graph, source, return_predecessors=False)["distance"],
        PAGERANK: lambda: algorithms.pagerank(graph, max_iter=ITERATIONS, tol=0, fail_on_nonconvergence=False)[0][
            "pagerank"
        ],
        SSSP: lambda: algorithms.sssp(graph, source)["distance"],
        COMPONENTS: lambda: algorithms.weakly_connected_components(graph)["labels"],
        BETWEENNESS: lambda: algorithms.betweenness_centrality(graph, k=[source], normalized=False)[
            "betweenness_centrality"
        ],
    }
    return calls[algorithm]
