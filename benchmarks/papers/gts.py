"""GTS's experiments: a graph in pages that are streamed through the GPU (Figs. 6 to 11, 13 and 14, Tables 1, 3 and 4).

Its rivals (clusters, systems on CPUs, other systems on GPUs; Table 5 is about one of them) are not here. Beside it are
the same algorithms on a graph in the device's memory.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.out_of_core.slotted import MIB
from benchmarks.papers.contest import Contestant, Experiment
from benchmarks.papers.figures.printed import BULK
from benchmarks.papers.figures.show import PapersSuite
from benchmarks.papers.streaming import (
    BETWEENNESS,
    BFS,
    COMPONENTS,
    ITERATIONS,
    PAGERANK,
    RUNS,
    SSSP,
    PageBench,
    agree_on,
    in_memory,
    make_graph,
    make_pages,
    make_settings,
    note_run,
)
from dynstore import gts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.papers.bench import Bench
    from dynstore.gts import PagedTopology
    from dynstore.gts.streaming import Settings

__all__ = ["EXPERIMENTS", "SUITE"]

SIZED = ("rmat28", "rmat29", "rmat30", "rmat31", "rmat32")
REAL = ("twitter", "uk2007", "yahooweb")
SETS = ("rmat27", "twitter", "rmat28", "uk2007", "rmat29", "yahooweb", "rmat30", "rmat31", "rmat32")
# "gts" has settings that suit a link of today, "gts paper" those of the paper.
TODAY, PAPER, IN_MEMORY = "gts", "gts paper", "in memory"
PAGES = Contestant(TODAY, "rebuild")  # pages are made of a graph of this store
BESIDE_EACH_OTHER = (PAGES, Contestant(PAPER, "rebuild"), Contestant(IN_MEMORY, "gpma+"))
STREAMS = (1, 2, 4, 8, 16, 32)
CACHES_MB = (32, 64, 128, 256, 512, 1024, 2048, 5120)
TECHNIQUES = ("edge", "vertex", "hybrid")
# Of rows: what Table 1 compares, where pages are, kinds of pages.
TRANSFER, KERNELS = "transfer", "kernels"
MEMORY, DISK = "memory", "disk"
DISK_SHARE = 0.2  # of the pages in host memory, as in the paper
# Bytes a vertex of what algorithms write; SSSP also has the round in which a distance fell.
WRITTEN = {BFS: 4, PAGERANK: 4, SSSP: 8, COMPONENTS: 4}


def _settings_of(bench: Bench) -> Settings:
    return _paper_settings() if bench.contestant.label == PAPER else make_settings()


def _paper_settings(**more: int | str) -> Settings:
    given = {"streams": 32, "copy_bytes": 0, "attributes": "streamed", **more}
    return make_settings(**given)  # type: ignore[arg-type]


def _beside_memory(*algorithms: str) -> Callable[[Bench], None]:
    """Return a measurement of algorithms over pages, or on the graph in memory."""

    def measure(bench: Bench) -> None:
        weighted = SSSP in algorithms
        if bench.contestant.label == IN_MEMORY:
            _measure_in_memory(bench, algorithms, weighted)
            return
        pages = PageBench(bench, make_pages(bench, weighted))
        for algorithm in algorithms:
            pages.measure(algorithm, algorithm, _settings_of(bench))

    return measure


def _measure_in_memory(bench: Bench, algorithms: tuple[str, ...], weighted: bool) -> None:
    graph = make_graph(bench, weighted)
    for algorithm in algorithms:
        call = in_memory(graph, algorithm, int(bench.ring.src[0]))
        for step in bench.steps(RUNS, row=algorithm):
            column, passed_ms = bench.timed(call)
            agree_on(bench, algorithm, bench.backend.to_host(column.values))
            if step >= 0:
                note_run(bench, passed_ms, algorithm, algorithm)


def _strategies(bench: Bench) -> None:
    """Fig. 9: two devices, which share one GPU here, with pages in memory and on disk."""
    topology = make_pages(bench)
    source = int(bench.ring.src[0])
    with _on_disk(topology) as mapped:
        for place, pages in ((MEMORY, topology), (DISK, mapped)):
            held = int(DISK_SHARE * topology.nbytes) if place == DISK else None
            for strategy in ("P", "S"):
                device: Any = bench.backend.name
                engine = gts.MultiGTS(pages, 2, strategy, device=device, host_bytes=held, frames="pandas")
                for algorithm in (BFS, PAGERANK):
                    _measure_strategy(bench, engine, algorithm, f"{algorithm}, Strategy-{strategy}, {place}", source)
    bench.remark("both devices of Strategy-P and Strategy-S are threads on one device: times do not fall with devices")
    bench.remark("disk: the operating system keeps files in memory that were just written")


def _measure_strategy(bench: Bench, engine: gts.MultiGTS, algorithm: str, row: str, source: int) -> None:
    for step in bench.steps(RUNS, row=row):
        if algorithm == BFS:
            answer = engine.bfs(source, return_predecessors=False)["distance"]
        else:
            answer = engine.pagerank(max_iter=ITERATIONS, tol=0)["pagerank"]
        agree_on(bench, algorithm, np.asarray(answer))
        if step >= 0:
            moved = sum(run.page_bytes + run.sent_bytes + run.fetched_bytes for run in engine.last_runs)
            note_run(bench, max(run.seconds for run in engine.last_runs) * 1e3, row, algorithm, moved)


@contextmanager
def _on_disk(topology: PagedTopology) -> Iterator[PagedTopology]:
    """Save pages to a folder for a while, and give the topology that is mapped from there."""
    above = Path(tempfile.mkdtemp(prefix="dynstore-gts-"))
    try:
        topology.save(above / "pages")
        yield gts.open_topology(above / "pages")
    finally:
        shutil.rmtree(above)


def _streams(bench: Bench) -> None:
    """Fig. 10: numbers of streams; a page a copy as in the paper, and copies of some MiB."""
    pages = PageBench(bench, make_pages(bench))
    for algorithm in (BFS, PAGERANK):
        for streams in STREAMS:
            row = f"{algorithm}, {streams} stream{'s' if streams > 1 else ''}"
            pages.measure(algorithm, row, _paper_settings(streams=streams))
        for mebibytes in (8, 32, 128):
            settings = make_settings(copy_bytes=mebibytes * MIB)
            pages.measure(algorithm, f"{algorithm}, 4 streams, copies of {mebibytes} MiB", settings)


def _caches(bench: Bench) -> None:
    """Fig. 11: sizes of the cache."""
    pages = PageBench(bench, make_pages(bench))
    topology, done = pages.topology, set()
    for size in CACHES_MB:
        count = min(size * MIB // bench.job.shrink // topology.format.page_bytes, topology.num_pages)
        if not count or count in done:
            bench.remark(f"a cache of {size:,} MB holds {'no page' if not count else 'all pages'} here")
            continue
        done.add(count)
        for cache, name in (("lru", "LRU"), ("fixed", "fixed pages")):
            row = f"{BFS}, {name}, {size:,} MB"
            pages.measure(BFS, row, _paper_settings(cache=cache, cache_pages=count))


def _techniques(bench: Bench) -> None:
    """Fig. 14: threads a vertex."""
    pages = PageBench(bench, make_pages(bench))
    for algorithm in (BFS, PAGERANK):
        for technique in TECHNIQUES:
            pages.measure(algorithm, f"{algorithm}, {technique}", make_settings(technique=technique, copy_bytes=0))


def _ratios(bench: Bench) -> None:
    """Table 1: the time of copying the pages that an algorithm reads, and of its kernels when they are all there."""
    pages = PageBench(bench, make_pages(bench))
    all_pages = pages.topology.num_pages
    for algorithm in (BFS, PAGERANK):
        pages.measure_copies(algorithm, f"{algorithm}, {TRANSFER}", _paper_settings())
        pages.measure(algorithm, f"{algorithm}, {KERNELS}", make_settings(cache_pages=all_pages, copy_bytes=0))


def _page_counts(bench: Bench) -> None:
    """Table 3: small and large pages."""
    topology, passed_ms = bench.timed(make_pages, bench)
    size, form = len(bench.ring), topology.format
    for row, count in (("small pages", topology.num_small), ("large pages", topology.num_large)):
        num_bytes = count * form.page_bytes
        bench.note("build", passed_ms, size, BULK, size, row, num_bytes=num_bytes, counts={"pages": count})
    bench.remark(f"pages of {form.page_bytes:,} bytes, p = {form.p}, q = {form.q}")


def _page_sizes(bench: Bench) -> None:
    """Table 4: bytes of pages, and of what algorithms write."""
    topology, passed_ms = bench.timed(make_pages, bench)
    size = len(bench.ring)
    bench.note("build", passed_ms, size, BULK, size, "topology", num_bytes=topology.nbytes)
    for algorithm, width in WRITTEN.items():
        num_bytes = width * topology.num_vertices
        bench.note("build", passed_ms, size, BULK, size, f"WA, {algorithm}", num_bytes=num_bytes)


def _models(bench: Bench) -> None:
    """Section 5: what equations 1 and 2 say beside what was measured, in the paper's way and with larger copies."""
    pages = PageBench(bench, make_pages(bench))
    for algorithm in (PAGERANK, BFS):
        for name, settings in (("a page a copy", _paper_settings()), ("copies of 32 MiB", make_settings())):
            pages.measure(algorithm, f"{algorithm}, {name}", settings, models=True)


_RMAT = ("rmat26", "rmat27", "rmat28", "rmat29")
_DENSITIES = ("rmat28-4", "rmat28-8", "rmat28", "rmat28-32")
# Data sets are measured in the order in which they are named here: the largest ones come last.
EXPERIMENTS = (
    Experiment("gts/fig10", "Fig. 10: number of streams", _RMAT, (PAGES,), _streams),
    Experiment("gts/fig11", "Fig. 11: size of the cache", _RMAT, (PAGES,), _caches),
    Experiment("gts/fig14", "Fig. 14: edge- and vertex-centric kernels by density", _DENSITIES, (PAGES,), _techniques),
    Experiment(
        "gts/fig6", "Figs. 6 to 8: BFS and ten iterations of PageRank", SETS, BESIDE_EACH_OTHER,
        _beside_memory(BFS, PAGERANK),
    ),
    Experiment("gts/fig9", "Fig. 9: strategies for two devices", ("rmat30",), (PAGES,), _strategies),
    Experiment(
        "gts/fig13", "Fig. 13: shortest paths, components, betweenness of one source", ("twitter", "uk2007", "rmat28"),
        BESIDE_EACH_OTHER, _beside_memory(SSSP, COMPONENTS, BETWEENNESS),
    ),
    Experiment("gts/table1", "Table 1: transfer and kernels", REAL, (PAGES,), _ratios),
    Experiment("gts/table3", "Table 3: pages", SETS, (PAGES,), _page_counts, "pages"),
    Experiment("gts/table4", "Table 4: bytes of pages and of what is written", SIZED, (PAGES,), _page_sizes, "MB"),
    Experiment("gts/models", "Section 5: both cost models", ("rmat28",), (PAGES,), _models),
)  # fmt: skip
SUITE = PapersSuite("gts", EXPERIMENTS)
