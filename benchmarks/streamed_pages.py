"""What streaming pages costs (GTS): ``python -m dynstore.benchmarks.streamed_pages``.

An R-MAT graph in its own order goes into slotted pages. PageRank, breadth-first search and components run over them
under several settings; the same runs in memory say whether the results are right. Each row has the median time of some
runs (for PageRank, of an iteration), the time of the paper's cost model, the bytes that went to the device, and the
share of the link: these bytes over that time, over what plain copies of pinned memory reach here. Hits are the pages
that were on the device already. The model has what was measured here: large copies, copies of one page, and the host's
time for a launch. It knows nothing of kernels.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dynstore import algorithms, gts
from dynstore.benchmarks.module_command import run_as_command
from dynstore.benchmarks.outputs import check_outputs
from dynstore.benchmarks.schema import write_document
from dynstore.benchmarks.timing import Stopwatch, percentiles, quiet
from dynstore.graph import DynamicGraph
from dynstore.gts.costs import Machine, predict_search
from dynstore.gts.links import make_link

__all__ = ["draw_edges", "main", "settings_of"]

# Chakrabarti, Zhan, Faloutsos, SDM 2004.
A, B, C = 0.57, 0.19, 0.19
CHUNK = 1 << 26  # edges that are drawn at once
LINK_BYTES = 256 << 20
CALLS = 1000
ITERATIONS = 5
TOLERANCE = 1e-3  # of ranks, relative to the greatest: float32 sums in any order


def draw_edges(xp: Any, scale: int, edge_factor: int, seed: int) -> tuple[Any, Any]:
    """Return the two ends of ``edge_factor * 2**scale`` edges, int32, in R-MAT's own order: hubs come first."""
    total, rng = edge_factor << scale, xp.random.default_rng(seed)
    src, dst = xp.empty(total, np.int32), xp.empty(total, np.int32)
    for begin in range(0, total, CHUNK):
        end = min(begin + CHUNK, total)
        rows, cols = xp.zeros(end - begin, np.int32), xp.zeros(end - begin, np.int32)
        for _ in range(scale):
            draw = rng.random(end - begin, dtype=np.float32)
            down = draw >= A + B
            right = (draw >= A + B + C) | ((draw >= A) & ~down)
            rows, cols = rows * 2 + down, cols * 2 + right
        src[begin:end], dst[begin:end] = rows, cols
    return src, dst


def settings_of(num_pages: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield names and options of engines; the first are the defaults."""
    yield "defaults", {}
    for streams in (1, 2, 8, 16, 32):
        yield f"streams {streams}", {"streams": streams}
    for mebibytes in (0, 1, 4, 16, 32):
        yield f"copies of {mebibytes or 'one page, <= 1'} MiB", {"copy_bytes": mebibytes << 20}
    yield "paper: 32 streams, one page a copy", {"streams": 32, "copy_bytes": 0}
    for technique in ("vertex", "hybrid"):
        yield technique, {"technique": technique}
    yield "attributes resident", {"attributes": "resident"}
    for share, name in ((8, "an eighth"), (4, "a quarter"), (2, "half")):
        yield f"{name} resident", {"cache_pages": num_pages // share}
        yield f"{name} in an LRU cache", {"cache_pages": num_pages // share, "cache": "lru", "streams": 32}
    yield "all resident", {"cache_pages": num_pages, "attributes": "resident"}


def main(arguments: list[str] | None = None) -> int:
    """Measure, check and print."""
    parser = argparse.ArgumentParser(prog="python -m dynstore.benchmarks.streamed_pages", description=__doc__)
    parser.add_argument("--scale", type=int, default=22, help="2**scale vertices")
    parser.add_argument("--edge-factor", type=int, default=16)
    parser.add_argument("--page-bytes", type=int, default=1 << 20)
    parser.add_argument("--p", type=int, default=2)
    parser.add_argument("--q", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5, help="runs of each row")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    check_outputs(given.json)
    graph = DynamicGraph(device=given.device, max_vertices=1 << given.scale)
    graph.insert_edges(draw_edges(graph.backend.xp, given.scale, given.edge_factor, given.seed))
    topology = gts.build(graph, page_bytes=given.page_bytes, p=given.p, q=given.q)
    print(f"{topology}, {topology.nbytes / 1e9:.2f} GB, on {graph.backend.name}")
    watch = Stopwatch(graph.backend)
    rows: list[dict[str, Any]] = []
    link_times = _time_link(watch, graph, LINK_BYTES, given.steps)
    page_times = _time_link(watch, graph, given.page_bytes, given.steps)
    link, pages = (LINK_BYTES / percentiles(times)["median_ms"] * 1e3 for times in (link_times, page_times))
    machine = Machine(link, pages, _time_call(watch, graph))
    print(f"copies of pinned memory: {LINK_BYTES >> 20} MiB each {link / 1e9:.1f} GB/s, a page each {pages / 1e9:.1f} "
          f"GB/s; a launch {machine.call_seconds * 1e6:.1f} us")  # fmt: skip

    def note(
        setting: str, what: str, times_ms: list[float], sent: int, model_ms: float = 0.0, hits: float = 0.0
    ) -> None:
        found = percentiles(times_ms)
        speed = sent / found["median_ms"] * 1e3
        print(f"{setting:36} {what:20} {found['median_ms']:9.3f} ms, model {model_ms:9.3f} ms {sent / 1e6:9.1f} MB "
              f"{speed / 1e9:6.1f} GB/s {100 * speed / link:4.0f} %, hits {100 * hits:3.0f} %")  # fmt: skip
        rows.append(
            {
                "store": f"gts, {setting}", "device": graph.backend.name, "operation": "algorithm", "algorithm": what,
                "batch": 0, "edges": topology.num_edges, "steps": len(times_ms), **found, "bytes": sent,
            }
        )  # fmt: skip

    note("link", "copy", link_times, LINK_BYTES)
    first = gts.GTS(topology, device=given.device)  # keeps the pages pinned
    agree = _check(graph, first)
    for setting, options in settings_of(topology.num_pages):
        engine = gts.GTS(topology, device=given.device, **options) if options else first
        runs = _runs(engine, searches=not options or "cache_pages" in options)
        for what, run in runs.items():
            _repeat(note, machine, engine, setting, what, run, given.steps)
    print("results as in memory" if agree else "RESULTS DIFFER from those in memory")
    if given.json is not None:
        dataset = {
            "name": f"rmat:{given.scale}:{given.edge_factor}", "seed": given.seed, "vertices": topology.num_vertices,
            "edges": given.edge_factor << given.scale,
        }  # fmt: skip
        write_document(given.json, "streamed-pages", arguments, dataset, rows, agree)
    return int(not agree)


def _time_link(watch: Stopwatch, graph: DynamicGraph, size: int, steps: int) -> list[float]:
    """Return the times in ms of plain copies of LINK_BYTES to the device, ``size`` bytes each."""
    link, size = make_link(graph.backend, 1, 0), min(size, LINK_BYTES)
    source, target = link.empty_pinned(LINK_BYTES, np.uint8), graph.backend.empty(LINK_BYTES, np.uint8)
    source.fill(1)
    times = []
    for _ in range(steps + 1):
        watch.start()
        for at in range(0, LINK_BYTES, size):
            link.send(0, target[at : at + size], source[at : at + size], True)
        link.synchronize()
        times.append(watch.lap())
    return times[1:]


def _time_call(watch: Stopwatch, graph: DynamicGraph) -> float:
    """Return the seconds of one launch of a kernel that does nothing; 0 on the host."""
    if not graph.backend.on_gpu:
        return 0.0
    from dynstore.cuda.compiler import k_probe

    written = graph.backend.zeros(1, np.int32)
    k_probe.launch(1, written)
    watch.start()
    for _ in range(CALLS):
        k_probe.launch(1, written)
    return watch.lap() / CALLS / 1e3


def _pagerank(engine: gts.GTS) -> Any:
    found: Any = engine.pagerank(max_iter=ITERATIONS, tol=0, fail_on_nonconvergence=False)
    return found[0]


def _runs(engine: gts.GTS, searches: bool) -> dict[str, Callable[[], Any]]:
    found: dict[str, Callable[[], Any]] = {"pagerank iteration": lambda: _pagerank(engine)}
    if searches:
        found["bfs"] = lambda: engine.bfs(0)
        found["bfs, levels alone"] = lambda: engine.bfs(0, return_predecessors=False)
        found["components"] = engine.weakly_connected_components
    return found


def _repeat(
    note: Callable[..., None],
    machine: Machine,
    engine: gts.GTS,
    setting: str,
    what: str,
    run: Callable[[], Any],
    steps: int,
) -> None:
    """Run once to warm up, then ``steps`` times, and note what the engine reports."""
    run()
    times = []
    for _ in range(steps):
        with quiet():
            run()
        times.append(engine.last_run.seconds * 1e3)
    report = engine.last_run
    sent, share = report.page_bytes + report.sent_bytes, 1
    if what == "pagerank iteration":
        share = report.passes
    model_ms = 1e3 * predict_search(machine, report.fetched_bytes // 2, report.by_pass)
    note(
        setting,
        what,
        [time / share for time in times],
        sent // share,
        model_ms / share,
        report.hits / max(report.pages, 1),
    )


def _check(graph: DynamicGraph, engine: gts.GTS) -> bool:
    """Whether levels, components and ranks are those of the same algorithms in memory."""
    host = graph.backend.to_host
    columns = [
        (engine.bfs(0), algorithms.bfs(graph, 0), "distance"),
        (engine.bfs(0), algorithms.bfs(graph, 0), "predecessor"),
        (engine.weakly_connected_components(), algorithms.weakly_connected_components(graph), "labels"),
    ]
    agree = all(np.array_equal(_values(host, found[name]), _values(host, own[name])) for found, own, name in columns)
    own, _ = algorithms.pagerank(graph, max_iter=ITERATIONS, tol=0, fail_on_nonconvergence=False)
    found, expected = _values(host, _pagerank(engine)["pagerank"]), _values(host, own["pagerank"])
    return agree and bool(np.abs(found - expected).max() <= TOLERANCE * expected.max())


def _values(host: Callable[[Any], np.ndarray], column: Any) -> np.ndarray:
    return host(column.values)


if __name__ == "__main__":
    run_as_command(main)
