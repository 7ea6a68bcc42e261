"""What the ranks at hand take for updates and algorithms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.ranks.engines import run_by_nccl
from benchmarks.scaling_model.counts import ALGORITHMS, Graph, make_graph, own_rows
from benchmarks.scaling_model.links import Times, measure_slowdown, measure_transfers
from dynstore import distributed
from dynstore.bench.timing import LapTimer, quiet
from dynstore.datasets import rmat
from dynstore.distributed import Communicator, ShardedGraph
from dynstore.errors import InputError

__all__ = ["ENGINES", "MeasuredTimes", "RunPlan", "ScalingCase", "make_batch", "make_case", "measure", "run_ranks"]

ENGINES = ("threads", "mpi", "nccl")
REPEATS = 15


class ScalingCase(NamedTuple):
    """A graph: R-MAT of 2^``scale`` vertices, undirected and weighted; and the rows of a batch, a rank."""

    scale: int
    edge_factor: int
    batch: int


class RunPlan(NamedTuple):
    """What is measured: graphs, calls by name, and how often."""

    cases: tuple[ScalingCase, ...]
    calls: tuple[str, ...]
    steps: int
    seed: int


class MeasuredTimes(NamedTuple):
    """What so many ranks took: collectives, work beside others' work, and calls in ms, by case and name."""

    transfers: Times
    slowdown: float
    calls: dict[tuple[ScalingCase, str], list[float]]


def make_case(case: ScalingCase, seed: int) -> tuple[Graph, int]:
    """Return the graph, and the vertex of the highest degree."""
    events = rmat(case.scale, case.edge_factor, seed)
    weights = np.random.default_rng(seed).random(len(events), np.float32)
    graph = make_graph(events.src, events.dst, weights, directed=False)
    return graph, int(np.bincount(graph.src).argmax())


def make_batch(graph: Graph, case: ScalingCase, size: int, seed: int) -> tuple[np.ndarray, ...]:
    """Return the rows that all ranks bring together: ends of edges, newly paired."""
    random, count = np.random.default_rng(seed + 1), case.batch * size
    chosen = random.integers(0, len(graph.src), (2, count))
    return graph.src[chosen[0]], graph.dst[chosen[1]], random.random(count, np.float32)


def measure(comm: Communicator, plan: RunPlan) -> MeasuredTimes:
    """Measure all cases on these ranks."""
    calls: dict[tuple[ScalingCase, str], list[float]] = {}
    for case in plan.cases:
        for name, taken in _measure_case(comm, case, plan):
            calls.setdefault((case, name), []).append(taken)
    return MeasuredTimes(measure_transfers(comm, REPEATS), measure_slowdown(comm, REPEATS), calls)


def _measure_case(comm: Communicator, case: ScalingCase, plan: RunPlan) -> Iterator[tuple[str, float]]:
    graph, source = make_case(case, plan.seed)
    G = ShardedGraph(comm, weighted=True, directed=False)
    backend, watch = G.shard.core.backend, LapTimer(G.shard.core.backend)
    once = graph.src <= graph.dst  # an undirected edge is stored in both directions

    def bring(columns: tuple[np.ndarray, ...]) -> tuple[Any, ...]:
        own = own_rows(comm.size, len(columns[0])) == comm.rank
        return tuple(backend.asarray(np.ascontiguousarray(column[own])) for column in columns)

    def number(column: np.ndarray) -> np.ndarray:
        return column[once].astype(np.int32 if column.dtype.kind == "i" else np.float32)

    G.insert_edges(bring((number(graph.src), number(graph.dst), number(graph.weights))))
    src, dst, weights = make_batch(graph, case, comm.size, plan.seed)
    batch = bring((src.astype(np.int32), dst.astype(np.int32), weights))
    updates: dict[str, Callable[[], Any]] = {
        "insert": lambda: G.insert_edges(batch),
        "delete": lambda: G.delete_edges(batch[:2]),
    }
    algorithms: dict[str, Callable[[], Any]] = {
        name: partial(getattr(distributed, name), G, *((source,) if name in ("bfs", "sssp") else ()))
        for name in ALGORITHMS
    }
    for calls in (algorithms, updates):  # updates last: they change the graph
        chosen = {name: call for name, call in calls.items() if name in plan.calls}
        for step in range(plan.steps + 1):
            for name, call in chosen.items():
                comm.barrier()
                with quiet():
                    watch.start()
                    call()
                    taken = max(comm.all_gather(watch.lap()))
                if step:
                    yield name, taken


def run_ranks(engine: str, device: str, size: int, plan: RunPlan) -> MeasuredTimes | None:
    """Measure on so many ranks; None on a process of MPI that only helps.

    Raises
    ------
    InputError
        If there are too few processes.
    """
    if engine == "threads":
        return distributed.run(lambda comm: measure(comm, plan), size, device, 600.0)[0]  # type: ignore[arg-type]
    if engine == "nccl":
        found: MeasuredTimes = run_by_nccl(measure, size, plan)[0]
        return found
    world = distributed.MpiCommunicator()
    if world.size < size:
        raise InputError(f"scaling_model: {size} ranks are wanted, mpirun has started {world.size}")
    part = world.part(size)
    given = world.all_gather(None if part is None else measure(part, plan))
    return given[0] if world.rank == 0 else None
