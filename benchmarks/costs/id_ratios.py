"""How many times as long an update takes with a map of ids: ``python -m benchmarks.costs.id_ratios``.

The graphs are the same, down to the numbers of their rows: those that the map gives are the ids of a graph without one.
So the difference is the map's. Each step inserts a batch and deletes the oldest edges, as many. Once all ids are known
from the start; once the stream brings new ones. Columns are where users of the device have them before the clock
starts: on the GPU, strings in cuDF if it is installed. At the end ``bfs`` from one vertex takes the same way under
integers and under strings; what the column of strings takes by itself is the gather.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.documents import write_document
from dynstore.algorithms.traversal.api import bfs
from dynstore.bench.module_command import run_as_command
from dynstore.bench.timing import LapTimer, percentiles, quiet
from dynstore.datasets import rmat
from dynstore.errors import InputError
from dynstore.graph import DynamicGraph
from dynstore.input.frames import frame_library
from dynstore.typing import Device

__all__ = ["IdRatioContestant", "Ratio", "main", "measure", "ratios"]

WARM_UP = 2
# What operations are called in files of results.
IN_FILES = {"bfs": "algorithm", "gather": "convert"}
PLAIN, PLAIN_32, MAPPED, STRINGS = "int64 numbers, no map", "int32 numbers, no map", "sparse int64", "strings"


class Ratio(NamedTuple):
    """How many times as long one thing takes as another."""

    what: str
    against: str
    operation: str
    ratio: float


@dataclass
class IdRatioContestant:
    """A graph, how its columns are made of a batch, and its times in ms."""

    name: str
    graph: DynamicGraph
    columns: Callable[[slice], tuple[Any, Any]]
    times: dict[str, list[float]] = field(default_factory=dict)

    def time(self, operation: str, call: Callable[[], Any], keep: bool = True) -> None:
        watch = LapTimer(self.graph.core.backend)
        watch.start()
        made = call()
        passed_ms = watch.lap()
        del made
        if keep:
            self.times.setdefault(operation, []).append(passed_ms)

    def median_ms(self, operation: str) -> float:
        return percentiles(self.times[operation])["median_ms"]


class _IdStream(NamedTuple):
    """The events, by place of their ids in ascending order; which of them are one batch; the ids."""

    src: np.ndarray
    dst: np.ndarray
    start: int
    batches: list[tuple[slice, slice]]
    ids: np.ndarray
    names: np.ndarray


def _make_stream(scale: int, edge_factor: int, batch: int, steps: int, seed: int) -> _IdStream:
    events = rmat(scale, edge_factor, seed)
    num_events = events.src.shape[0]
    start = num_events - batch * steps
    if start <= batch * steps:
        raise InputError(f"costs.id_ratios: {steps} steps of {batch} rows need more than {num_events} events")
    rng, count = np.random.default_rng(seed), 1 << scale
    places = rng.permutation(count)  # so that ids are in no order of degree
    batches = [
        (slice(start + step * batch, start + (step + 1) * batch), slice(step * batch, (step + 1) * batch))
        for step in range(steps)
    ]
    ids = np.unique(rng.integers(0, 2**62, count + 1000))[:count]
    names = np.array([f"account-{number:019d}" for number in ids.tolist()], dtype=object)
    return _IdStream(places[events.src], places[events.dst], start, batches, ids, names)


def _number(stream: _IdStream, graph: DynamicGraph, known: bool) -> np.ndarray:
    """Run the stream through a graph with a map; return the number of each id, -1 for ids that never occur."""
    asarray = graph.core.backend.asarray

    def rows(part: slice) -> tuple[Any, Any]:
        return asarray(stream.ids[stream.src[part]]), asarray(stream.ids[stream.dst[part]])

    graph.insert_edges(rows(slice(0, stream.start)))
    if known:
        graph.insert_vertices(asarray(stream.ids))
    for entering, _ in stream.batches:
        graph.insert_edges(rows(entering))
    return graph.core.backend.to_host(graph.vertex_numbers(asarray(stream.ids)))


def _string_columns(stream: _IdStream, device: Device) -> Callable[[np.ndarray], Any]:
    """Return what makes a column of strings of places: in cuDF if results are frames of cuDF, else on the host."""
    holder = DynamicGraph(device=device, renumber=True)
    library = frame_library(holder.core.backend, holder.core.frames)
    if library != "cudf":
        return lambda places: stream.names[places]
    holder.insert_vertices(stream.names)  # numbered in ascending order, which the places are
    count = holder.number_of_vertices()
    return lambda places: holder.core.ids.column(count, library, holder.core.backend.asarray(places))


def measure(
    scale: int, edge_factor: int, batch: int, steps: int, device: Device, directed: bool, known: bool, seed: int = 1
) -> list[IdRatioContestant]:
    """Slide a window with each kind of ids; return the times of "insert", "delete", "update", "bfs" and "gather".

    Parameters
    ----------
    known : bool
        Whether all ids are in the graph before the first step.
    """
    stream = _make_stream(scale, edge_factor, batch, steps + WARM_UP, seed)

    def graph(renumber: bool, **options: Any) -> DynamicGraph:
        return DynamicGraph(directed=directed, device=device, renumber=renumber, **options)

    numbers = _number(stream, graph(True), known)
    text = _string_columns(stream, device)

    def plain(dtype: type) -> Callable[[slice], tuple[Any, Any]]:
        asarray: Any = contestants[0].graph.core.backend.asarray
        ids: np.ndarray = numbers.astype(dtype)
        return lambda part: (asarray(ids[stream.src[part]]), asarray(ids[stream.dst[part]]))

    def mapped(part: slice) -> tuple[Any, Any]:
        asarray = contestants[0].graph.core.backend.asarray
        return asarray(stream.ids[stream.src[part]]), asarray(stream.ids[stream.dst[part]])

    def strings(part: slice) -> tuple[Any, Any]:
        return text(stream.src[part]), text(stream.dst[part])

    contestants = [IdRatioContestant(MAPPED, graph(True), mapped), IdRatioContestant(STRINGS, graph(True), strings)]
    most = {"max_vertices": 1 << scale}
    contestants += [
        IdRatioContestant(PLAIN, graph(False, **most), plain(np.int64)),
        IdRatioContestant(PLAIN_32, graph(False, **most), plain(np.int32)),
    ]
    every = stream.ids, stream.names, None, None
    for one, ids in zip(contestants, every, strict=True):
        one.graph.insert_edges(one.columns(slice(0, stream.start)))
        if known:
            one.graph.insert_vertices((1 << scale) - 1 if ids is None else ids)
    for step, (entering, leaving) in enumerate(stream.batches):
        for one in contestants:
            coming, going = one.columns(entering), one.columns(leaving)
            with quiet():
                one.time("insert", partial(one.graph.insert_edges, coming), step >= WARM_UP)
                one.time("delete", partial(one.graph.delete_edges, going), step >= WARM_UP)
    for one in contestants:
        both = zip(one.times["insert"], one.times["delete"], strict=True)
        one.times["update"] = [sum(pair) for pair in both]
    held = {(one.graph.number_of_edges(), one.graph.number_of_vertices()) for one in contestants}
    assert len(held) == 1, f"the graphs hold {held}"
    _time_results(contestants[:2], stream, steps)
    return contestants


def _time_results(contestants: list[IdRatioContestant], stream: _IdStream, steps: int) -> None:
    """Time ``bfs`` from the first vertex of the stream, and the two columns of ids that it returns."""
    for step in range(steps + WARM_UP):
        for one, ids in zip(contestants, (stream.ids, stream.names), strict=True):
            with quiet():
                one.time("bfs", partial(bfs, one.graph, ids[stream.src[0]]), step >= WARM_UP)
                one.time("gather", partial(_gather, one.graph), step >= WARM_UP)


def _gather(graph: DynamicGraph) -> tuple[Any, Any]:
    """Return the columns of ids that a result of ``bfs`` has."""
    library, count = frame_library(graph.core.backend, graph.core.frames), graph.number_of_vertices()
    numbers = graph.core.backend.xp.arange(count, dtype=graph.vertex_dtype)
    return graph.core.ids.column(count, library), graph.core.ids.column(count, library, numbers)


def ratios(contestants: list[IdRatioContestant]) -> Iterator[Ratio]:
    """Yield what is compared: maps with none, strings with integers, results less the gather of their ids."""
    by_name = {one.name: one for one in contestants}
    for what, against in ((MAPPED, PLAIN), (MAPPED, PLAIN_32), (STRINGS, MAPPED)):
        for operation in ("insert", "delete", "update"):
            ratio = by_name[what].median_ms(operation) / by_name[against].median_ms(operation)
            yield Ratio(what, against, operation, ratio)
    without = [by_name[name].median_ms("bfs") - by_name[name].median_ms("gather") for name in (STRINGS, MAPPED)]
    yield Ratio(STRINGS, MAPPED, "bfs without its gather", without[0] / max(without[1], 1e-9))


def _show(contestants: list[IdRatioContestant], title: str) -> None:
    print(f"{contestants[0].graph}; {title}; medians, ms")
    operations = "insert", "delete", "update", "bfs", "gather"
    print(f"{'ids':24}" + "".join(f"{operation:>10}" for operation in operations))
    for one in contestants:
        cells = (f"{one.median_ms(each):10.3f}" if each in one.times else f"{'':10}" for each in operations)
        print(f"{one.name:24}" + "".join(cells))
    for found in ratios(contestants):
        print(f"  {found.what} / {found.against}, {found.operation}: {found.ratio:.2f}", flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, and write the JSON of schema 1 on request."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.costs.id_ratios", description=__doc__)
    parser.add_argument("--scale", type=int, default=20, help="2**scale ids")
    parser.add_argument("--edge-factor", type=int, default=8, help="rows of the stream for each id")
    parser.add_argument("--batch", type=int, default=100_000, help="rows of an update")
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--directed", action=argparse.BooleanOptionalAction, help="only directed, or only undirected")
    parser.add_argument("--known", action=argparse.BooleanOptionalAction, help="only known ids, or only new ones, too")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    for directed in [True, False] if given.directed is None else [given.directed]:
        for known in [True, False] if given.known is None else [given.known]:
            sizes = given.scale, given.edge_factor, given.batch, given.steps
            found = measure(*sizes, given.device, directed, known, given.seed)
            way, which = "directed" if directed else "undirected", "all ids known" if known else "new ids"
            _show(found, f"{which}; {given.batch} rows an update")
            for one in found:
                for operation, times in one.times.items():
                    rows.append({
                        "store": f"{way}, {which}, {one.name}", "device": one.graph.device,
                        "operation": IN_FILES.get(operation, operation),
                        "algorithm": "bfs" if operation == "bfs" else None, "batch": given.batch,
                        "edges": one.graph.number_of_edges(), "steps": len(times), **percentiles(times), "bytes": None,
                    })  # fmt: skip
            del found  # before the next graphs are built
    if given.json is not None:
        dataset = {
            "name": f"rmat:{given.scale}:{given.edge_factor}", "vertices": 1 << given.scale,
            "edges": (1 << given.scale) * given.edge_factor, "seed": given.seed,
        }  # fmt: skip
        write_document(given.json, "id-ratios", arguments, dataset, rows)


if __name__ == "__main__":
    run_as_command(main)
