"""Compiling all kernels of the default path ahead, so that no first call waits for them: ``python -m dynstore warmup``.

The kernels are found by using them: graphs of the default store, of every kind, are updated and read. The compiled
ones are kept on disk by Numba (host) and by ``dynstore.cuda.kernel_cache`` (CUDA). So a second run only loads them.
Compiling keeps one processor busy, so several processes share the steps.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple, cast

import numpy as np

from dynstore.algorithms.calls import Algorithm
from dynstore.algorithms.registry import ALGORITHMS
from dynstore.backend import get_backend
from dynstore.compilations import compilations
from dynstore.graph import DynamicGraph
from dynstore.io.cpu import scan
from dynstore.windows.window import Window

__all__ = ["MAX_JOBS", "StepDone", "WarmupStep", "run_steps", "warmup_steps"]

# Edges built first, then batches. Other kernels write few edges than many, and more than are sorted in one launch. On a
# GPU, 150,000 edges of an undirected graph are searched in tiles: 262,144 rows or more, but few for the slots.
BUILT = {"cpu": 20_000, "cuda": 2_000_000, "cuda-sim": 60}
BATCHES = {"cpu": (1, 100, 10_000), "cuda": (1, 100, 3_000, 30_000, 150_000, 400_000), "cuda-sim": (1, 20)}
EDGES_PER_VERTEX = 8
MIN_VERTICES = 30
ID_KINDS = ("vertex numbers", "int64 ids", "string ids")
# Processes by default: on a GPU each has a context of its own there, of some hundred MB.
MAX_JOBS = 8


@dataclass(frozen=True)
class WarmupStep:
    """A part of the warm-up.

    Attributes
    ----------
    name : str
        What it uses, such as "updates, directed, weighted".
    run : callable
        Does it; returns how many kernels were compiled, which were not on disk.
    """

    name: str
    run: Callable[[], int]


class StepDone(NamedTuple):
    """A step that has ended: its name, how many kernels it compiled, and how many seconds it took."""

    name: str
    compiled: int
    seconds: float


def run_steps(steps: Sequence[WarmupStep], jobs: int | None = None) -> Iterator[StepDone]:
    """Run steps, and yield each when it ends.

    Parameters
    ----------
    steps : sequence of Step
    jobs : int, optional
        How many processes share them; 1 runs them in this process, one after the other. By default as many as there are
        processors, at most 8. Two processes may compile the same kernel at the same time; one of them is kept.
    """
    jobs = min(len(os.sched_getaffinity(0)), MAX_JOBS) if jobs is None else jobs
    if jobs == 1:
        yield from map(_run_step, steps)
        return
    # What CUDA and Numba have in memory is not for a fork.
    with ProcessPoolExecutor(min(jobs, len(steps)), multiprocessing.get_context("spawn")) as pool:
        running = [pool.submit(_run_step, step) for step in steps]
        try:
            for future in as_completed(running):
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _run_step(step: WarmupStep) -> StepDone:
    compilations.announced = True  # who runs steps shows it
    began = time.perf_counter()
    compiled = step.run()
    return StepDone(step.name, compiled, time.perf_counter() - began)


def warmup_steps(device: str = "auto") -> Iterator[WarmupStep]:
    """Yield the parts of the warm-up of a device, to be run one after the other.

    Parameters
    ----------
    device : {"auto", "cpu", "cuda"}

    Raises
    ------
    InputError
        For a device that does not exist or cannot be used.
    """
    backend = get_backend(device)
    for directed, weighted, ids in product((True, False), (False, True), ID_KINDS):
        kind = f"{'directed' if directed else 'undirected'}, {'weighted' if weighted else 'unweighted'}, {ids}"
        make = partial(_Example, backend.name, directed, weighted, ids)
        yield WarmupStep(f"updates and queries: {kind}", partial(_count, make, _Example.update))
        if ids == ID_KINDS[0]:
            yield WarmupStep(f"algorithms: {kind}", partial(_count, make, _Example.compute))
            yield WarmupStep(f"tracked answers: {kind}", partial(_count, make, _Example.track))
            yield WarmupStep(f"windows: {kind}", partial(_count, make, _Example.slide))
            yield WarmupStep(f"multigraphs: {kind}", partial(_count, make, _Example.keep_events))
    yield WarmupStep("text", _scan_text)
    if backend.name == "cuda" and importlib.util.find_spec("cugraph") is not None:
        yield from _drop_in_steps(BUILT["cuda"])


def _scan_text() -> int:
    before = compilations.count
    scan(b"1, 2\n", ",")
    return compilations.count - before


def _count(make: Callable[[], _Example], use: Callable[[_Example], None]) -> int:
    before = compilations.count
    use(make())
    return compilations.count - before


def _drop_in_steps(built: int) -> Iterator[WarmupStep]:
    """Yield the steps of the drop-in for cuGraph, whose library is built and tested in the first one.

    CuPy compiles kernels for them, too, and keeps them in its own folder.
    """
    for directed, weights, dtype in product((True, False), (None, "float32", "float64"), ("int32", "int64")):
        kind = f"{'directed' if directed else 'undirected'}, {weights or 'no'} weights, {dtype} ids"
        yield WarmupStep(f"cuGraph's drop-in: {kind}", partial(_use_drop_in, directed, weights, dtype, built))


def _use_drop_in(directed: bool, weights: str | None, dtype: str, built: int) -> int:
    """Fill a graph of the drop-in, update it, and call what cuGraph is most used for on it.

    ``weights``: their dtype, None for a graph without.
    """
    cugraph, cudf = importlib.import_module("dynstore.adapters.cugraph"), importlib.import_module("cudf")
    before, rng = compilations.count, np.random.default_rng(0)

    def frame(size: int) -> Any:
        # Ids with gaps between them, so that they are not row numbers.
        ends = 3 * rng.integers(0, max(size // EDGES_PER_VERTEX, 2), (2, size)).astype(dtype)
        columns = {"source": ends[0], "destination": ends[1]}
        return cudf.DataFrame(columns if weights is None else {**columns, "weight": rng.random(size).astype(weights)})

    edges = frame(built)
    start = int(edges["source"].iloc[0])
    G = cugraph.Graph(directed=directed)
    G.from_cudf_edgelist(edges, edge_attr=None if weights is None else "weight")
    for size in (1, max(built // 100, 2)):
        G.insert_edges(frame(size))
        G.delete_edges(edges[:size])
        for engine in ("dynstore", "cugraph"):
            cugraph.bfs(G, start, engine=engine)
            if weights is not None:
                cugraph.sssp(G, start, engine=engine)
            cugraph.pagerank(G, fail_on_nonconvergence=False, engine=engine)
            if not directed:
                cugraph.weakly_connected_components(G, engine=engine)
        if not directed:
            cugraph.triangle_count(G)
            cugraph.louvain(G)
        cugraph.betweenness_centrality(G, k=[start])
        G.degree()
        G.view_edge_list()
        G.view_adj_list()
        G.nodes()
    G.insert_edges(frame(built))  # the store grows
    return compilations.count - before


class _Example:
    """A graph of one kind, and random edges for it."""

    def __init__(self, device: str, directed: bool, weighted: bool, ids: str) -> None:
        chosen: Any = device
        self.graph = DynamicGraph(directed=directed, weighted=weighted, device=chosen, renumber=ids != ID_KINDS[0])
        self.ids, self.built, self.sizes = ids, BUILT[device], BATCHES[device]
        self.rng = np.random.default_rng(0)
        self.num_vertices = max(self.built // EDGES_PER_VERTEX, MIN_VERTICES)

    def batch(self, size: int, dtype: Any = np.int32) -> tuple[Any, ...]:
        """Return random edges on the graph's device, with weights if it has some."""
        backend = self.graph.core.backend
        ends = self.rng.integers(0, self.num_vertices, (2, size))
        columns: list[Any]
        if self.ids == "string ids":
            columns = [np.array([f"id {number}" for number in end.tolist()]) for end in ends]
        else:
            dtype = np.int64 if self.ids == "int64 ids" else dtype
            columns = [backend.asarray(end.astype(dtype)) for end in ends]
        if self.graph.is_weighted():
            columns.append(backend.asarray(self.rng.random(size, dtype=np.float32)))
        return tuple(columns)

    def read_only_batch(self, size: int) -> tuple[np.ndarray, ...]:
        """Return random edges in read-only memory of the host, as columns of frames are; Numba has a type for them."""
        columns = tuple(self.graph.core.backend.to_host(column) for column in self.batch(size))
        for column in columns:
            column.flags.writeable = False
        return columns

    def build(self) -> None:
        """Insert the first edges."""
        self.graph.insert_edges(self.batch(self.built))

    def update(self) -> None:
        """Let a graph grow from nothing, insert and delete batches of all sizes, read it, and let it shrink again."""
        graph = self.graph
        for size in self.sizes:
            graph.insert_edges(self.batch(size))
        self.build()
        self.num_vertices *= 2  # rows of many new vertices need other memory: a large batch is then searched by rows
        graph.insert_edges(self.batch(self.sizes[-1]))
        kept = graph.snapshot().export(), graph.snapshot(transposed=True).export()
        graph.insert_edges(self.batch(self.sizes[-1] // 100))  # planned, and not sorted before: an export has the slots
        del kept
        for size in self.sizes:
            edges = self.read_only_batch(size)
            graph.insert_edges(edges)
            graph.delete_edges(edges[:2])
        for dtype in (np.int32, np.int64):
            for size in self.sizes:
                edges = self.batch(size, dtype)
                graph.insert_edges(edges)
                graph.delete_edges(edges[:2])
                graph.update(insert=edges, delete=self.batch(size, dtype)[:2])
        hub = self.batch(max(self.sizes[-1] // 4, 2))
        graph.insert_edges((hub[0][:1].repeat(len(hub[0])), *hub[1:]))
        graph.delete_edges((hub[0][:1].repeat(len(hub[0])), hub[1]))
        self._read()
        graph.delete_vertices(hub[0][:1])
        graph.insert_vertices(hub[0][:1])
        graph.copy().clear()
        edges = tuple(graph.edge_columns().values())[:2]
        graph.delete_edges(tuple(column[2:] for column in edges))

    def _read(self) -> None:
        graph = self.graph
        edges = self.batch(3)[:2]
        vertex = edges[0][:1].tolist()[0]
        graph.has_edges(edges)
        if graph.is_weighted():
            graph.edge_weights(edges)
        graph.neighbors(vertex)
        graph.predecessors(vertex)
        graph.degree()
        graph.edge_table()
        graph.snapshot(transposed=True)
        for _ in graph.iterate_edges():
            pass

    def compute(self) -> None:
        """Call every algorithm that suits the graph."""
        self.build()
        for record in self._suitable():
            record.function(self.graph, **record.example)

    def slide(self) -> None:
        """Slide windows of every kind that suits the graph."""
        given: Any = self.graph.core.backend.name
        keeps = ("latest", "count", "sum") if self.graph.is_weighted() else ("latest",)
        for rule in product(("count", "time"), keeps):
            graph = DynamicGraph(self.graph.is_directed(), self.graph.is_weighted(), device=given)
            by, keep = chosen = cast("tuple[Any, Any]", rule)
            window, newest = Window(graph, self.built // 2, *chosen), 0
            # First small ones: then the window's table of pairs has to grow.
            for size in (*self.sizes, self.built, *self.sizes):
                edges = self.batch(size)
                times = np.arange(newest, newest + size) - size // 3  # some rows are late
                window.slide(edges if keep != "count" else edges[:2], time=times if by == "time" else None)
                newest += size

    def keep_events(self) -> None:
        """Insert into a multigraph with times, delete by id, by pair and by time, and look at parts of it."""
        given: Any = self.graph.core.backend.name
        options: Any = {"directed": self.graph.is_directed(), "weighted": self.graph.is_weighted(), "device": given}
        graph, newest = DynamicGraph(multigraph=True, timestamps="int64", **options), 0
        asarray = graph.core.backend.asarray
        for size in (*self.sizes, self.built, *self.sizes):
            rows = *self.batch(size), asarray(np.arange(newest, newest + size))
            ids = asarray(self.rng.permutation(size) + 2 * newest)
            graph.insert_edges(rows, edge_id=ids)
            graph.update(insert=rows, expire_before=newest // 2, edge_ids=ids[: size // 2])
            graph.delete_edges(rows[:2], which="oldest")
            newest += size
        totals = graph.simple()
        for shown in (graph, graph.window(newest // 4, newest // 2), graph.where(time=[newest - 1]), graph.pin()):
            shown.simple().edge_table()
            shown.edge_table()
        totals.track("pagerank").result()
        graph.events_of(0, direction="both")
        for name in ("min", "last") if graph.is_weighted() else ():
            graph.simple(name).edge_table()
        graph.copy().clear()

    def track(self) -> None:
        """Follow every answer that suits the graph through updates of all sizes."""
        self.build()
        tracked = [record for record in self._suitable() if record.tracked]
        monitors = [self.graph.track(record.name, **record.example) for record in tracked]
        for monitor in monitors:
            monitor.result()
        for size in self.sizes[:-1]:
            edges = self.batch(size)
            for update, rows in ((self.graph.insert_edges, edges), (self.graph.delete_edges, edges[:2])):
                update(rows)
                for monitor in monitors:
                    monitor.result()
            self.graph.update(insert=self.batch(size), delete=edges[:2])
            for monitor in monitors:
                monitor.result()

    def _suitable(self) -> list[Algorithm]:
        kind = self.graph.is_directed(), self.graph.is_weighted()
        return [record for record in ALGORITHMS.values() if record.suits(*kind)]
