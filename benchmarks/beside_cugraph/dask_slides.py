"""A window on a Dask cluster, with a new graph a slide and without: ``python -m ...beside_cugraph.dask_slides``.

A window over the distinct edges of an R-MAT graph, in random order, slides; after each slide ``bfs`` runs from a hub.
Edges lie on the workers, as Dask frames of two partitions a worker, which are ready before the time begins. Ways from
the batch to the result:

- ``cugraph.dask``: a new ``cugraph.Graph`` of the window's edges by ``from_dask_cudf_edgelist``, then ``bfs``
- ``new DaskGraph``: the same with a :class:`dynstore.adapters.dask.DaskGraph`
- ``live``: ``delete_edges`` and ``insert_edges`` on the graph of the slide before, then ``bfs``
- ``live, ids as they are``: the same without ``renumber``

On a host (``--device cpu``) there is no ``cugraph.dask``. "total" is the whole time of a slide, "build" or "update" its
first part, "algorithm" the rest. A result is complete when Dask has all its partitions; those
that an algorithm has left to compute are persisted.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.documents import write_document
from dynstore.adapters.dask import DaskGraph, bfs
from dynstore.adapters.dask.partitions import ready_partitions
from dynstore.adapters.libraries import require
from dynstore.bench.module_command import run_as_command
from dynstore.bench.timing import percentiles
from dynstore.datasets import rmat
from dynstore.errors import InputError
from dynstore.input.frames import make_frame

__all__ = ["WorkersWindow", "distinct_edges", "main", "measure"]

CALLER = "beside_cugraph.dask_slides"
WARM_UPS = 2
PARTITIONS = 2  # a worker


def distinct_edges(scale: int, edge_factor: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct edges of an R-MAT graph in random order, int32."""
    events = rmat(scale, edge_factor, seed)
    keys = np.unique(events.src.astype(np.int64) << 32 | events.dst)
    np.random.default_rng(seed).shuffle(keys)
    return (keys >> 32).astype(np.int32), (keys & 0xFFFFFFFF).astype(np.int32)


class WorkersWindow:
    """Edges on all workers, of which each has its part.

    Parameters
    ----------
    client : distributed.Client
    src, dst : array, shape (N,)
    slide : int
        Edges that come and go at a time.
    steps : int
        Slides.
    device : {"cpu", "cuda"}
    """

    def __init__(self, client: Any, src: np.ndarray, dst: np.ndarray, slide: int, steps: int, device: str) -> None:
        self.size = src.shape[0] - slide * steps
        if slide < 1 or self.size <= slide * steps:
            raise InputError(f"{CALLER}: {steps} slides of {slide} edges need more than {src.shape[0]} edges")
        self._client, self._workers, self._device = client, list(client.nthreads()), device
        self.slide = slide
        # Each worker has each so-manieth edge, and so an equal part of every range.
        self._parts = []
        for place, worker in enumerate(self._workers):
            part = tuple(column[place :: len(self._workers)].copy() for column in (src, dst))
            self._parts += client.scatter([part], workers=[worker], hash=False)
        self._meta = client.submit(_cut, self._parts[0], 0, 0, device, pure=False).result()

    def rows(self, low: int, high: int) -> Any:
        """Return a range of the edges as a Dask frame that is ready."""
        frames = []
        count = len(self._workers)
        for place, (worker, part) in enumerate(zip(self._workers, self._parts, strict=True)):
            begin, end = (-(-(edge - place) // count) for edge in (low, high))
            bounds = np.linspace(begin, end, PARTITIONS + 1).astype(int).tolist()
            for first, last in pairwise(bounds):
                frames.append(
                    self._client.submit(
                        _cut, part, first, last, self._device, workers=[worker], allow_other_workers=False, pure=False
                    )
                )
        require(CALLER, "distributed").wait(frames)
        return require(CALLER, "dask.dataframe").from_delayed(frames, meta=self._meta, verify_meta=False)

    def window(self, step: int) -> Any:
        """Return the edges after so many slides."""
        return self.rows(step * self.slide, step * self.slide + self.size)

    def entering(self, step: int) -> Any:
        """Return the edges that a slide brings; the first one is 0."""
        return self.rows(self.size + step * self.slide, self.size + (step + 1) * self.slide)

    def leaving(self, step: int) -> Any:
        """Return the edges that a slide takes away."""
        return self.rows(step * self.slide, (step + 1) * self.slide)


def _cut(part: tuple[np.ndarray, np.ndarray], first: int, last: int, device: str) -> Any:
    from dynstore.backend import get_backend

    backend = get_backend(device)
    columns = {name: backend.asarray(column[first:last]) for name, column in zip(("src", "dst"), part, strict=True)}
    return make_frame(backend, columns, "cudf" if device == "cuda" else "pandas")


class _WorkerClock:
    def __init__(self) -> None:
        self._last = time.perf_counter()

    def lap(self) -> float:
        """Return the ms since the last lap."""
        now = time.perf_counter()
        passed, self._last = 1e3 * (now - self._last), now
        return passed


def _ready(client: Any, frame: Any) -> Any:
    """Return a frame once Dask has its partitions; compute those that are not there."""
    if ready_partitions(CALLER, client, frame) is None:
        frame = client.persist(frame)
    require(CALLER, "distributed").wait(ready_partitions(CALLER, client, frame))
    return frame


def _rebuild_cugraph(client: Any, window: WorkersWindow, start: int, step: int) -> tuple[Any, list[float]]:
    cugraph, dcg = require(CALLER, "cugraph"), require(CALLER, "cugraph.dask")
    rows, clock = window.window(step + 1), _WorkerClock()
    G = cugraph.Graph(directed=True)
    G.from_dask_cudf_edgelist(rows, source="src", destination="dst")
    built = clock.lap()
    found = _ready(client, dcg.bfs(G, start))
    return found, [built, clock.lap()]


def _rebuild_own(client: Any, window: WorkersWindow, start: int, step: int) -> tuple[Any, list[float]]:
    rows, clock = window.window(step + 1), _WorkerClock()
    with DaskGraph(client, renumber=True) as G:
        G.insert_edges(rows, "src", "dst")
        built = clock.lap()
        found = _ready(client, bfs(G, start))
        return found, [built, clock.lap()]


def _slide(client: Any, window: WorkersWindow, start: int, step: int, G: DaskGraph) -> tuple[Any, list[float]]:
    entering, leaving, clock = window.entering(step), window.leaving(step), _WorkerClock()
    G.delete_edges(leaving, "src", "dst")
    G.insert_edges(entering, "src", "dst")
    updated = clock.lap()
    found = _ready(client, bfs(G, start))
    return found, [updated, clock.lap()]


def measure(
    client: Any, window: WorkersWindow, start: int, steps: int, device: str
) -> tuple[dict[str, list[float]], str]:
    """Return the times in ms, by "way, operation", and what differs between the ways in the last slide, or "".

    Parameters
    ----------
    client : distributed.Client
    window : Window
    start : int
        The vertex that searches begin at.
    steps : int
        Slides, after some to warm up.
    device : {"cpu", "cuda"}
    """
    graphs = {"live": DaskGraph(client, renumber=True), "live, ids as they are": DaskGraph(client)}
    for G in graphs.values():
        G.insert_edges(window.window(0), "src", "dst")
    ways: dict[str, tuple[str, Callable[..., Any], tuple[Any, ...]]] = {
        name: ("update", _slide, (G,)) for name, G in graphs.items()
    }
    ways["new DaskGraph"] = "build", _rebuild_own, ()
    if device == "cuda":
        ways["cugraph.dask"] = "build", _rebuild_cugraph, ()
    times: dict[str, list[float]] = {}
    last: dict[str, Any] = {}
    for name, (first, way, args) in ways.items():
        for step in range(WARM_UPS + steps):
            last[name], taken = way(client, window, start, step, *args)
            if step >= WARM_UPS:
                for operation, value in zip((first, "algorithm", "total"), (*taken, sum(taken)), strict=True):
                    times.setdefault(f"{name}: {operation}", []).append(value)
    for G in graphs.values():
        G.close()
    return times, _difference(last)


def _difference(found: dict[str, Any]) -> str:
    """Compare distances; a live graph may have vertices without edges, which a new one has not."""
    reached = {}
    for name, frame in found.items():
        frame = frame.compute()
        frame = frame.to_pandas() if hasattr(frame, "to_pandas") else frame
        frame = frame[frame["distance"] < np.iinfo(np.int32).max]
        reached[name] = dict(zip(frame["vertex"].tolist(), frame["distance"].tolist(), strict=True))
    first, *others = reached
    wrong = [name for name in others if reached[name] != reached[first]]
    return f"other distances than those of {first}: {', '.join(wrong)}" if wrong else ""


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and write the JSON of schema 1 on request; return 1 if results differ."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.beside_cugraph.dask_slides",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--scale", type=int, default=20)
    parser.add_argument("--edge-factor", type=int, default=16)
    parser.add_argument("--batch", type=int, help="edges a slide; by default a thousandth")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pool", type=float, default=0.4, help="the share of a GPU's memory that RMM begins with")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    src, dst = distinct_edges(chosen.scale, chosen.edge_factor, chosen.seed)
    batch = chosen.batch or max(1, src.shape[0] // 1000)
    distributed, gpu = require(CALLER, "distributed"), chosen.device == "cuda"
    if gpu:
        require(CALLER, "dask_cudf")  # frames of cuDF's partitions become its own
    make = require(CALLER, "dask_cuda").LocalCUDACluster if gpu else distributed.LocalCluster
    more: dict[str, Any] = {"rmm_pool_size": chosen.pool} if gpu else {"threads_per_worker": 1}
    with (
        make(n_workers=chosen.workers, dashboard_address=":0", **more) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.wait_for_workers(chosen.workers)
        comms = require(CALLER, "cugraph.dask.comms.comms") if gpu else None
        if comms is not None:
            comms.initialize(p2p=True)
        window = WorkersWindow(client, src, dst, batch, WARM_UPS + chosen.steps, chosen.device)
        start = int(np.bincount(src).argmax())
        times, problem = measure(client, window, start, chosen.steps, chosen.device)
        if comms is not None:
            comms.destroy()
    return _report(chosen, arguments, window, times, problem)


def _report(
    chosen: argparse.Namespace,
    arguments: list[str] | None,
    window: WorkersWindow,
    times: dict[str, list[float]],
    problem: str,
) -> int:
    print(f"\nR-MAT {chosen.scale}, {window.size} edges on {chosen.workers} workers, slides of {window.slide}; ms")
    rows = []
    for name, values in times.items():
        way, _, operation = name.rpartition(": ")
        found = percentiles(values)
        print(f"  {way:24} {operation:10} {found['median_ms']:10.2f}  (90 %: {found['p90_ms']:.2f})")
        rows.append(
            {
                "store": way, "device": chosen.device, "operation": operation,
                "algorithm": "bfs" if operation == "algorithm" else None, "batch": window.slide, "edges": window.size,
                "steps": len(values), **found, "bytes": None,
            }
        )  # fmt: skip
    totals = {name.rpartition(": ")[0]: np.median(values) for name, values in times.items() if name.endswith(": total")}
    for name in ("new DaskGraph", "cugraph.dask"):
        if name in totals:
            print(f"  {totals[name] / totals['live']:10.2f} times: {name} / live")
    print(f"  {problem or 'results equal'}", flush=True)
    if chosen.json is not None:
        name, size = f"rmat:{chosen.scale}:{chosen.edge_factor}", 1 << chosen.scale
        data = {"name": name, "vertices": size, "edges": window.size, "seed": chosen.seed}
        module = "beside_cugraph.dask_slides"
        write_document(chosen.json, "dask-slides", arguments, data, rows, not problem, module)
    return int(bool(problem))


if __name__ == "__main__":
    run_as_command(main)
