"""The times of updates, kernel by kernel: ``python -m benchmarks.kernel_times``.

A window with half of an RMAT graph's distinct edges slides over them in random order: a step inserts the next batch and
deletes the oldest one. In every other step CUDA events surround each launch. In the steps between, the whole call is
timed until the device is idle. If the GPU waits for the host, an event's time includes the launch: some 15 microseconds
for the first kernel of an update. (In the simulator all times are the host's.)
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.beside_cugraph.drop_in_window import DropInWindow, different_pairs
from dynstore.backend import get_backend
from dynstore.bench.module_command import run_as_command
from dynstore.bench.schema import make_document
from dynstore.bench.timing import LapTimer, percentiles, quiet
from dynstore.errors import InputError
from dynstore.graph import DynamicGraph

if TYPE_CHECKING:
    from dynstore.backend import Backend

__all__ = ["main", "time_launches"]

# Warm-up steps, in which GPU and processor reach their full clock: as many as replace this share of the edges, not
# more, since a window that has slid for long is a different case.
WARM_UP_SHARE, MIN_WARM_UPS = 0.01, 4
Times = dict[tuple[str, str], list[float]]  # (operation, kernel or "" for the whole call) -> ms


@contextmanager
def time_launches(backend: Backend) -> Iterator[Callable[[], list[tuple[str, float]]]]:
    """Time each launch in the ``with`` block.

    Yields
    ------
    read : callable
        Waits for the device, and returns the name and the ms of each launch since the last call, in order.
    """
    from dynstore.cuda.compiler import around_launches

    launches: list[tuple[str, Any, Any]] = []

    def start(name: str, launch: Callable[[], None]) -> None:
        begin = _mark(backend)
        launch()
        launches.append((name, begin, _mark(backend)))

    def read() -> list[tuple[str, float]]:
        backend.synchronize()
        passed = [(name, _passed_ms(backend, begin, end)) for name, begin, end in launches]
        launches.clear()
        return passed

    with around_launches(start):
        yield read


def _mark(backend: Backend) -> Any:
    if not backend.on_gpu:
        return time.perf_counter()
    event = backend.xp.cuda.Event()
    event.record()
    return event


def _passed_ms(backend: Backend, begin: Any, end: Any) -> float:
    return float(backend.xp.cuda.get_elapsed_time(begin, end)) if backend.on_gpu else (end - begin) * 1e3


def _measure(backend: Backend, graph: DynamicGraph, window: DropInWindow, warm_ups: int, steps: int) -> Times:
    """Slide the window, alternately with and without events; the first steps warm up."""
    times, watch = defaultdict[tuple[str, str], list[float]](list), LapTimer(backend)
    for step in range(-warm_ups, 2 * steps):
        leaving, entering = window.advance()
        for operation, update, edges in (
            ("insert", graph.insert_edges, entering),
            ("delete", graph.delete_edges, leaving),
        ):
            if step % 2:
                with time_launches(backend) as read:
                    update(edges)
                    launches = read()
            else:
                watch.start()
                update(edges)
                launches = [("", watch.lap())]
            for name, passed_ms in launches if step >= 0 else ():
                times[operation, name].append(passed_ms)
    return dict(times)


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and write the JSON of schema 1 on request; return 1 if edges are lost."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernel_times", description=__doc__)
    parser.add_argument("--scale", type=int, default=22)
    parser.add_argument("--edge-factor", type=int, default=16)
    parser.add_argument("--batch", default="10000,100000,1000000", help="sizes, by comma")
    parser.add_argument("--steps", type=int, default=12, help="with events, and as many without")
    parser.add_argument("--store", default="gpma+", help="names, by comma")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args(arguments)
    backend: Any = get_backend(chosen.device)
    rows, agree = [], True
    if backend.family != "cuda":
        raise InputError(f"kernel_times: device is {chosen.device!r}, which is the host here; wanted one with a GPU")
    src, dst = different_pairs(backend.xp, chosen.scale, chosen.edge_factor, chosen.seed, True)
    for store, size in product(chosen.store.split(","), map(int, chosen.batch.split(","))):
        half = int(src.shape[0]) // 2
        warm_ups = max(int(WARM_UP_SHARE * half) // max(size, 1), MIN_WARM_UPS)
        slides = warm_ups + 2 * chosen.steps
        if not 0 < size * slides <= half:
            raise InputError(f"kernel_times: {slides} batches of {size} edges; wanted 1 to {half} edges in all of them")
        window = DropInWindow(src[: half + size * slides], dst[: half + size * slides], size, slides)
        graph = DynamicGraph(True, store=store, device=backend.name, max_vertices=1 << chosen.scale)
        graph.insert_edges(window.now())
        with quiet():
            times = _measure(backend, graph, window, warm_ups, chosen.steps)
        agree &= graph.number_of_edges() == half
        print(f"{store}, batches of {size}, {graph.number_of_edges()} edges")
        for (operation, name), values in sorted(times.items()):
            found = percentiles(values)
            print(f"  {operation} {name:24}{found['median_ms']:9.3f} ms  90 %: {found['p90_ms']:.3f}  of {len(values)}")
            rows.append(
                {
                    "store": f"{store}, {name}" if name else store, "device": backend.name,
                    "operation": operation, "algorithm": None, "batch": size, "edges": half, "steps": len(values),
                    **found, "bytes": None,
                }
            )  # fmt: skip
    if chosen.json is not None:
        dataset = {
            "name": f"rmat:{chosen.scale}:{chosen.edge_factor}", "seed": chosen.seed, "vertices": 1 << chosen.scale,
            "edges": int(src.shape[0]),
        }  # fmt: skip
        typed = sys.argv[1:] if arguments is None else arguments
        command = shlex.join(["python", "-m", "benchmarks.kernel_times", *typed])
        document = make_document("kernel-times", command, dataset, rows, agree)
        chosen.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return int(not agree)


if __name__ == "__main__":
    run_as_command(main)
