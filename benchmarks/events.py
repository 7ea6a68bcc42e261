"""What keeping every row costs: ``python -m benchmarks.events``; a line for each call, beside what does without.

A stream of R-MAT rows with times and amounts goes into a multigraph. Both sides of a line get the same rows, in turn
and in one process, so that disturbances of the machine affect both:

- slides: ``update(insert=, expire_before=)``, beside ``Window(keep="sum")``, which keeps no rows;
- insertions: beside as many new pairs into a graph with the same columns, which keeps one row a pair;
- expiry: beside ``delete_edges`` of as many pairs of a graph of pairs;
- deletions by id, counted and given: beside as many pairs;
- the pairs of a tenth of the time: selected in the store, beside sorted, which is the other way to find them;
- questions: the events of a pair and of a vertex in a tenth of the time;
- a window of a tenth of the time, and its components: beside Raphtory with ``--raphtory``, which is installed by hand.

All columns are on the graph's device before the clock starts.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import dynstore
from dynstore.bench.machine import describe_machine, find_commit
from dynstore.bench.module_command import run_as_command
from dynstore.bench.timing import LapTimer, percentiles, quiet
from dynstore.datasets import rmat
from dynstore.errors import InputError
from dynstore.graph import DynamicGraph
from dynstore.graph.events import views

__all__ = [
    "PARTS",
    "Rows",
    "deletions",
    "expiries",
    "insertions",
    "main",
    "measure",
    "questions",
    "selections",
    "sizes",
    "slides",
    "windows",
]

WARM_UP = 3
MICRO = 1e3  # us in a ms
PARTS = ("slides", "insertions", "expiries", "deletions", "questions", "selections", "windows", "sizes")
ASKED: dict[str, Callable[..., Any]] = {
    "events of a pair, a frame": lambda graph, u, v, start: graph.events(u, v, start, None),
    "events of a source, a frame": lambda graph, u, _, start: graph.events_of(u, start, None),
}


class Rows:
    """Rows of a stream on a device: source, destination, amount in whole cents, time."""

    def __init__(self, scale: int, edge_factor: int, seed: int, device: Any) -> None:
        events, rng = rmat(scale, edge_factor, seed), np.random.default_rng(seed)
        self.size = int(events.src.shape[0])
        self.host: list[np.ndarray] = [
            np.ascontiguousarray(events.src, np.int32),
            np.ascontiguousarray(events.dst, np.int32),
            rng.integers(1, 100_000, self.size) / 100,
            np.arange(self.size, dtype=np.int64),
        ]
        backend = DynamicGraph(device=device).core.backend
        self.backend, self.columns = backend, [backend.asarray(column) for column in self.host]
        self.ids = backend.asarray(rng.permutation(self.size))

    def rows(self, first: int, last: int) -> tuple[Any, ...]:
        """Return some rows."""
        return tuple(column[first:last] for column in self.columns)

    def graph(self, multigraph: bool, **options: Any) -> DynamicGraph:
        """Make a graph for the rows, with their amounts and times."""
        device: Any = self.backend.name
        return DynamicGraph(
            multigraph=multigraph, weighted=True, weight_dtype="float64", timestamps="int64", device=device, **options
        )


def _line(name: str, ours: list[float], beside: list[float] | None, **more: Any) -> dict[str, Any]:
    """Return a line of the table: times in ms, and the median of the ratios of neighbours."""
    ours, beside = ours[WARM_UP:], None if beside is None else beside[WARM_UP:]
    found = {"name": name, "ours": {**percentiles(ours), "p999_ms": float(np.quantile(ours, 0.999))}, **more}
    if beside is not None:
        ratios = [one / other for one, other in zip(ours, beside, strict=True)]
        found |= {"beside": percentiles(beside), "ratio": float(np.median(ratios))}
    return found


def _timed(watch: LapTimer, call: Callable[..., Any], *given: Any, **more: Any) -> float:
    with quiet():
        watch.start()
        call(*given, **more)
        return watch.lap()


def slides(stream: Rows, share: float, steps: int) -> dict[str, Any]:
    """Slide by a share of the rows that are kept."""
    batch = max(int(share * stream.size / 2), 1)
    steps = min(steps, stream.size // 2 // batch - WARM_UP)
    start = stream.size - (steps + WARM_UP) * batch
    watch = LapTimer(stream.backend)
    device: Any = stream.backend.name
    graph, pairs = stream.graph(True), DynamicGraph(weighted=True, weight_dtype="float64", device=device)
    window = dynstore.Window(pairs, start, keep="sum")
    graph.insert_edges(stream.rows(0, start))
    window.slide(stream.rows(0, start)[:3])
    ours, beside = [], []
    for low in range(start, start + (steps + WARM_UP) * batch, batch):
        rows = stream.rows(low, low + batch)
        ours.append(_timed(watch, graph.update, insert=rows, expire_before=low + batch - start))
        beside.append(_timed(watch, window.slide, rows[:3]))
    assert graph.number_of_edges() == start == len(window)
    totals = graph.simple("sum").edge_columns()["weight"]
    off = stream.backend.xp.abs(totals - pairs.edge_columns()["weight"])
    return _line(f"slide of {share:.1%} ({batch:,} rows)", ours, beside, window_is_off_by=float(off.max()))


def insertions(stream: Rows, batch: int, steps: int) -> dict[str, Any]:
    """Insert rows, beside as many new pairs with the same columns: the stream's rows to other destinations."""
    steps = min(steps, stream.size // 2 // batch - WARM_UP)
    if steps < 1:
        raise InputError(f"events: insertions of {batch} rows need a stream of more than {stream.size} rows")
    start, watch = stream.size - (steps + WARM_UP) * batch, LapTimer(stream.backend)
    graph, pairs = stream.graph(True), stream.graph(False)
    for each in (graph, pairs):
        each.insert_edges(stream.rows(0, start))
    num_vertices, rng = graph.number_of_vertices(), np.random.default_rng(11)
    ours, beside = [], []
    for low in range(start, start + (steps + WARM_UP) * batch, batch):
        rows = stream.rows(low, low + batch)
        others = stream.backend.asarray(rng.integers(0, num_vertices, batch, np.int32))
        ours.append(_timed(watch, graph.insert_edges, rows))
        beside.append(_timed(watch, pairs.insert_edges, (rows[0], others, *rows[2:])))
    return _line(f"insert {batch:,} rows into {start:,}", ours, beside)


def expiries(stream: Rows, share: float, steps: int) -> dict[str, Any]:
    """Expire a share of the rows, beside deleting as many pairs by name."""
    batch, watch = max(int(share * stream.size), 1), LapTimer(stream.backend)
    graph, pairs = stream.graph(True), stream.graph(False)
    graph.insert_edges(stream.rows(0, stream.size))
    pairs.insert_edges(stream.rows(0, stream.size))
    named = list(_distinct(pairs, batch, steps + WARM_UP))
    ours, beside = [], []
    for step, gone in enumerate(named):
        ours.append(_timed(watch, graph.expire, (step + 1) * batch))
        beside.append(_timed(watch, pairs.delete_edges, gone))
    return _line(f"expire {batch:,} rows", ours, beside)


def _distinct(pairs: DynamicGraph, batch: int, count: int) -> Iterator[tuple[Any, Any]]:
    """Yield pairs of a graph that are not yielded before, in random order."""
    columns, backend = pairs.edge_columns(), pairs.core.backend
    order = backend.asarray(np.random.default_rng(7).permutation(int(columns["source"].shape[0])))
    for low in range(0, min(count * batch, int(order.shape[0]) // batch * batch), batch):
        rows = order[low : low + batch]
        yield columns["source"][rows], columns["destination"][rows]


def deletions(stream: Rows, batch: int, steps: int, given: bool) -> dict[str, Any]:
    """Delete rows by id, beside as many pairs."""
    watch, start = LapTimer(stream.backend), stream.size // 2
    graph, pairs = stream.graph(True), stream.graph(False)
    graph.insert_edges(stream.rows(0, start), **({"edge_id": stream.ids[:start]} if given else {}))
    pairs.insert_edges(stream.rows(0, start))
    order = np.random.default_rng(3).permutation(start)
    ids = stream.ids[:start][stream.backend.asarray(order)] if given else stream.backend.asarray(order)
    ours, beside = [], []
    for step, gone in enumerate(_distinct(pairs, batch, min(steps + WARM_UP, start // batch))):
        ours.append(_timed(watch, graph.delete_edges, edge_ids=ids[step * batch : (step + 1) * batch]))
        beside.append(_timed(watch, pairs.delete_edges, gone))
    return _line(f"delete {batch:,} by {'given' if given else 'counted'} ids", ours, beside)


def questions(stream: Rows, steps: int, name: str) -> dict[str, Any]:
    """Ask for the events of pairs or of sources, in a tenth of the time."""
    graph, watch = stream.graph(True), LapTimer(stream.backend)
    graph.insert_edges(stream.rows(0, stream.size))
    chosen = np.random.default_rng(5).integers(0, stream.size, steps + WARM_UP)
    start = stream.size - stream.size // 10
    pairs = [(int(stream.host[0][row]), int(stream.host[1][row])) for row in chosen]
    return _line(name, [_timed(watch, ASKED[name], graph, *pair, start) for pair in pairs], None)


def windows(stream: Rows, steps: int, raphtory: bool) -> dict[str, Any]:
    """Make the view of a tenth of the time, and find its components."""
    graph, watch = stream.graph(True), LapTimer(stream.backend)
    graph.insert_edges(stream.rows(0, stream.size))
    width = stream.size // 10
    peer = _Raphtory(stream) if raphtory else None
    ours, beside = [], []
    for step in range(steps + WARM_UP):
        start = (step * 7919) % (stream.size - width)
        found: list[Any] = []

        def look(start: int = start, found: list[Any] = found) -> None:
            found.append(dynstore.weakly_connected_components(graph.window(start, start + width)))

        ours.append(_timed(watch, look))
        if peer is not None:
            begun = perf_counter()
            answer = peer.components(start, start + width)
            beside.append(1e3 * (perf_counter() - begun))
            others = len(answer.groups(["component_id"]))
            ends = np.concatenate([column[start : start + width] for column in stream.host[:2]])
            isolated = graph.number_of_vertices() - len(np.unique(ends))
            count = int(found[0]["labels"].nunique()) - isolated
            assert count == others, f"{count} components; Raphtory has {others}"
    return _line("window of 10 % and its components", ours, beside if peer is not None else None)


def selections(stream: Rows, steps: int) -> dict[str, Any]:
    """Find the pairs of a tenth of the time as they lie in the store, beside sorting them."""
    graph, watch = stream.graph(True), LapTimer(stream.backend)
    graph.insert_edges(stream.rows(0, stream.size))
    width, share = stream.size // 10, views.SELECTED
    taken: dict[float, list[float]] = {0.0: [], math.inf: []}
    try:
        for step in range(steps + WARM_UP):
            start = (step * 7919) % (stream.size - width)
            for views.SELECTED, times in taken.items():
                times.append(_timed(watch, lambda start=start: graph.window(start, start + width).simple().snapshot()))
    finally:
        views.SELECTED = share
    return _line("pairs of 10 %, selected beside sorted", *taken.values())


class _Raphtory:
    """The same rows in a graph of Raphtory's."""

    def __init__(self, stream: Rows) -> None:
        import pandas
        import raphtory  # type: ignore[import-not-found]

        src, dst, _, time = stream.host
        frame = pandas.DataFrame({"time": time, "src": src.astype(str), "dst": dst.astype(str)})
        self._algorithms, self._graph = raphtory.algorithms, raphtory.Graph()
        self._graph.load_edges(frame, time="time", src="src", dst="dst")

    def components(self, start: int, end: int) -> Any:
        """Return the component of each vertex of a window; Raphtory finds them on all processors."""
        return self._algorithms.weakly_connected_components(self._graph.window(start, end))


def sizes(stream: Rows) -> dict[str, Any]:
    """Return the bytes an event and a pair, after half of the rows have left in order and others came."""
    half = stream.size // 2
    found: dict[str, Any] = {}
    kinds: tuple[tuple[str, dict[str, Any]], ...] = (("counted ids", {}), ("given ids", {"edge_id": stream.ids}))
    for name, more in kinds:
        graph = stream.graph(True)
        graph.insert_edges(stream.rows(0, half), **{key: ids[:half] for key, ids in more.items()})
        step = max(half // 20, 1)
        for low in range(half, 2 * half, step):
            rows = stream.rows(low, min(low + step, 2 * half))
            last = low + int(rows[0].shape[0])
            graph.update(insert=rows, expire_before=last - half, **{k: ids[low:last] for k, ids in more.items()})
        memory, pairs = graph.memory_usage(), graph.core.out.num_edges
        found[name] = {
            "log_an_event": memory["log"] / graph.number_of_edges(),
            "ids_an_event": memory.get("edge_ids", 0) / graph.number_of_edges(),
            "record_a_pair": memory["pairs"] / pairs,
        }
    return {"name": "bytes", **found}


def measure(
    scale: int,
    edge_factor: int,
    device: Any,
    steps: int = 40,
    raphtory: bool = False,
    seed: int = 1,
    only: Collection[str] = PARTS,
) -> Iterator[dict[str, Any]]:
    """Yield the lines of the table as they come; ``only``: of these parts."""
    stream = Rows(scale, edge_factor, seed, device)
    sized = [batch for batch in (10_000, 100_000, 1_000_000) if (WARM_UP + 1) * batch <= stream.size // 2]
    lines: dict[str, list[Callable[[], dict[str, Any]]]] = {
        "slides": [partial(slides, stream, share, steps) for share in (0.001, 0.01)],
        "insertions": [partial(insertions, stream, batch, steps) for batch in sized],
        "expiries": [partial(expiries, stream, 0.01, steps)],
        "deletions": [
            partial(deletions, stream, batch, steps, given)
            for batch in sized[:1] + sized[2:]
            for given in (False, True)
        ],
        "questions": [partial(questions, stream, 5 * steps, name) for name in ASKED],
        "selections": [partial(selections, stream, steps)],
        "windows": [partial(windows, stream, steps, raphtory)],
        "sizes": [partial(sizes, stream)],
    }
    for part in only:
        for line in lines[part]:
            yield line()


def _show(line: dict[str, Any]) -> None:
    if line["name"] == "bytes":
        for name, found in line.items():
            if isinstance(found, dict):
                print(f"bytes, {name:20}", ", ".join(f"{key} {value:.1f}" for key, value in found.items()))
        return
    ours, beside = line["ours"], line.get("beside")
    unit, factor = ("us", MICRO) if ours["median_ms"] < 1 else ("ms", 1.0)
    text = f"{line['name']:38} {factor * ours['median_ms']:9.2f} {factor * ours['p90_ms']:9.2f} "
    text += f"{factor * ours['p999_ms']:9.2f} {unit}"
    if beside is not None:
        text += f"   beside {factor * beside['median_ms']:9.2f} {unit}   ratio {line['ratio']:.3f}"
    print(text, flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.events", description=__doc__.partition("\n")[0])
    parser.add_argument("--scale", type=int, default=18, help="2**scale vertices")
    parser.add_argument("--edge-factor", type=int, default=16, help="rows of the stream for each vertex")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="measure these parts")
    parser.add_argument("--raphtory", action="store_true", help="measure Raphtory's windows, too")
    parser.add_argument("--json", type=Path, help="also write the table there")
    given = parser.parse_args(arguments)
    print(f"{'':38} {'median':>9} {'p90':>9} {'p99.9':>9}")
    lines = []
    options = {key: value for key, value in vars(given).items() if key != "json"}
    for line in measure(**options):
        lines.append(line)
        _show(line)
    if given.json is not None:
        about = {"machine": describe_machine(), "commit": find_commit(), "processors": len(os.sched_getaffinity(0))}
        given.json.write_text(json.dumps({**about, "options": options, "lines": lines}, indent=1))


if __name__ == "__main__":
    run_as_command(main)
