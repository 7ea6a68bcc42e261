"""The host's stores compared with their lower bounds: ``python -m benchmarks.floors [DATA]``.

Everything runs in one process, interleaved, on a window of DATA (default rmat:20:8) that slides by 0.1 %:

- ``merge`` against copying its arrays once with Numba (the bytes that a merge must move)
- ``rebuild`` against the same key sort in plain NumPy
- the bulk builds of ``gpma+`` and ``rebuild``
- the memory of ``gpma+`` against packed sources, destinations and offsets, after a build and at its worst
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

from dynstore.backend import get_backend
from dynstore.bench.contestants import DeviceSlide, StoreRun, conversions
from dynstore.bench.module_command import run_as_command
from dynstore.bench.schema import make_document
from dynstore.bench.stream import SlidingStream, cut_stream, parse_batch
from dynstore.bench.timing import LapTimer, percentiles, quiet
from dynstore.datasets import resolve
from dynstore.host_compiler import njit

__all__ = ["copy_array", "main", "measure"]

STORES = ("gpma+", "merge", "rebuild")
BUILDS = 5


def _copy_array(source: np.ndarray, target: np.ndarray) -> None:
    """Copy as a Numba kernel does."""
    for i in range(source.shape[0]):
        target[i] = source[i]


copy_array: Callable[[np.ndarray, np.ndarray], None] = njit(cache=True)(_copy_array)


class _Floors:
    """The contestants of one stream, and their times: (contestant, operation) -> ms of each repetition."""

    def __init__(self, stream: SlidingStream) -> None:
        self.backend = get_backend("cpu")
        self.watch = LapTimer(self.backend)
        self.stream = stream
        self.runs = {name: StoreRun(name, self.backend, True, False, {}) for name in STORES}
        self.key_sort = next(found for found in conversions(self.backend)[0] if found.name == "numpy-key-sort")
        self.times: dict[tuple[str, str], list[float]] = {}
        self.memory: list[float] = []

    def note(self, name: str, operation: str, passed_ms: float) -> None:
        self.times.setdefault((name, operation), []).append(passed_ms)

    def note_memory(self) -> None:
        graph = self.runs["gpma+"].graph
        packed = 2 * graph.snapshot().num_edges + graph.number_of_vertices() + 1
        self.memory.append(graph.memory_usage()["total"] / (packed * graph.vertex_dtype.itemsize))

    def build(self) -> None:
        first = self.stream.first.entering
        for _ in range(BUILDS):
            for name, run in self.runs.items():
                with quiet():
                    self.note(name, "build", run.build((first.src, first.dst)))
        self.note_memory()

    def slide_store(self, name: str, slide: DeviceSlide) -> None:
        for operation, passed_ms in self.runs[name].update(slide).items():
            self.note(name, operation, passed_ms)

    def copy(self) -> None:
        """Copy the arrays of ``merge`` once: the bytes that one update must move."""
        view = self.runs["merge"].graph.snapshot()
        arrays = (view.sources, view.indices, view.offsets)
        copies = [np.zeros_like(array) for array in arrays]
        self.watch.start()
        for array, copy in zip(arrays, copies, strict=True):
            copy_array(array, copy)
        self.note("numba-copy", "convert", self.watch.lap())

    def sort_keys(self, slide: DeviceSlide) -> None:
        """Sort the keys that an insertion of ``rebuild`` sorts: the present edges and the batch."""
        view = self.runs["rebuild"].graph.snapshot()
        rows = [np.concatenate(pair) for pair in zip((view.sources, view.indices), slide.entering, strict=True)]
        self.note("numpy-key-sort", "convert", self.key_sort.run(rows[0], rows[1], self.stream.num_vertices, True))

    def step(self, number: int) -> None:
        slide = DeviceSlide(self.backend, self.stream.slides[number])
        work: list[Callable[[], None]] = [self.copy, lambda: self.sort_keys(slide)]
        work += [lambda name=name: self.slide_store(name, slide) for name in STORES]  # type: ignore[misc]
        first = number % len(work)
        with quiet():
            for contestant in [*work[first:], *work[:first]]:
                contestant()
        self.note_memory()


def measure(stream: SlidingStream) -> tuple[dict[tuple[str, str], list[float]], list[float]]:
    """Measure on a directed, unweighted stream; its first slide warms up.

    Returns
    -------
    times : dict
        (contestant, operation) -> ms of each repetition.
    memory : list of float
        Bytes of gpma+ over packed bytes, after the build and after each step.
    """
    floors = _Floors(stream)
    floors.build()
    floors.step(0)
    floors.times = {key: times for key, times in floors.times.items() if key[1] == "build"}
    for number in range(1, len(stream.slides)):
        floors.step(number)
    return floors.times, floors.memory


def main(arguments: list[str] | None = None) -> int:
    """Measure, print a table, and write the JSON of schema 1 on request."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.floors", description=__doc__)
    parser.add_argument("data", nargs="?", default="rmat:20:8")
    parser.add_argument("--batch", default="0.1%")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args(arguments)
    events = resolve(chosen.data, chosen.seed)
    batch = parse_batch(chosen.batch, len(events))
    stream = cut_stream(events, 0.5, batch, chosen.steps + 1, True, False)
    times, memory = measure(stream)
    middle = {key: median(values) for key, values in times.items()}
    slide = {name: middle[name, "update"] for name in STORES}
    figures = {
        "merge, one update, over a Numba copy of its arrays": slide["merge"] / 2 / middle["numba-copy", "convert"],
        "rebuild, one insertion, over NumPy's key sort": middle["rebuild", "insert"]
        / middle["numpy-key-sort", "convert"],
        "bulk build of gpma+ over that of rebuild": middle["gpma+", "build"] / middle["rebuild", "build"],
        "a slide of gpma+: times faster than NumPy's key sort": middle["numpy-key-sort", "convert"] / slide["gpma+"],
        "a slide of gpma+: times faster than merge": slide["merge"] / slide["gpma+"],
        "memory of gpma+ over packed, after a build": memory[0],
        "memory of gpma+ over packed, at its worst": max(memory),
    }
    for (name, operation), value in sorted(middle.items()):
        print(f"{name:16} {operation:8} {value:10.3f} ms")
    for what, value in figures.items():
        print(f"{value:8.2f}  {what}")
    if chosen.json is not None:
        edges = int(stream.expected(stream.slides[-1])[0].shape[0])
        rows = [
            {
                "store": name, "device": "cpu", "operation": operation, "algorithm": None, "batch": batch,
                "edges": edges, "steps": len(values), **percentiles(values), "bytes": None,
            }
            for (name, operation), values in sorted(times.items())
        ]  # fmt: skip
        dataset = {"name": chosen.data, "vertices": stream.num_vertices, "edges": len(events), "seed": chosen.seed}
        command = " ".join(["python -m benchmarks.floors", *(sys.argv[1:] if arguments is None else arguments)])
        document = make_document("floors", command, dataset, rows, True)
        chosen.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    run_as_command(main)
