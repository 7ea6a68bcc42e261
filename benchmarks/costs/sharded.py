"""What a graph over several ranks costs: ``python -m dynstore.benchmarks.costs.sharded --ranks 2 --engine nccl``.

Weak scaling: each rank brings an R-MAT graph of its own, over the same vertices, and as large batches as the others. A
plain ``DynamicGraph`` on rank 0 does what one rank has to do, with no other rank at work. All columns are on the
device; a time is that of the slowest rank.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Callable
from typing import Any

import numpy as np

from dynstore import distributed
from dynstore.benchmarks.module_command import run_as_command
from dynstore.benchmarks.timing import Stopwatch, percentiles, quiet
from dynstore.datasets import rmat
from dynstore.distributed import Communicator, ShardedGraph
from dynstore.errors import InputError, RankError
from dynstore.graph import DynamicGraph

__all__ = ["main", "measure", "run_by_nccl"]

WARM_UP = 2
SEARCHES = "bfs", "weakly_connected_components", "pagerank"


def measure(comm: Communicator, scale: int, edge_factor: int, batch: int, steps: int) -> dict[str, list[float]]:
    """Return the times in ms, by operation; those of a plain graph begin with "plain"."""
    events, rounds = rmat(scale, edge_factor, comm.rank), steps + WARM_UP
    start = events.src.shape[0] - batch * rounds
    if start <= batch * rounds:
        raise InputError(f"costs.sharded: {rounds} batches of {batch} rows need more than {events.src.shape[0]} events")
    times: dict[str, list[float]] = {}
    for plain in (True, False):
        if plain and comm.rank:
            comm.barrier()
            continue
        G: Any = DynamicGraph(device=comm.device) if plain else ShardedGraph(comm)  # type: ignore[arg-type]
        backend = G.backend if plain else G.shard.backend
        columns = [backend.asarray(column.astype(np.int32)) for column in (events.src, events.dst)]
        G.insert_edges(tuple(column[:start] for column in columns))

        def timed(call: Callable[..., Any], *arguments: Any, alone: bool = plain, backend: Any = backend) -> float:
            if not alone:
                comm.barrier()
            with quiet():
                watch = Stopwatch(backend)
                watch.start()
                call(*arguments)
                taken = watch.lap()
            return taken if alone else max(comm.all_gather(taken))

        for step in range(rounds):
            low = step * batch
            entering = tuple(column[start + low : start + low + batch] for column in columns)
            leaving = tuple(column[low : low + batch] for column in columns)
            for name, call, rows in (("insert", G.insert_edges, entering), ("delete", G.delete_edges, leaving)):
                taken = timed(call, rows)
                if step >= WARM_UP:
                    times.setdefault(f"plain {name}" if plain else name, []).append(taken)
        if plain:
            comm.barrier()
        else:
            for name in SEARCHES:
                arguments = (0,) if name == "bfs" else ()
                times[name] = [timed(getattr(distributed, name), G, *arguments) for _ in range(3)][1:]
    return times


def _work(rank: int, size: int, pipe: Any, program: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    import cupy

    cupy.cuda.Device(rank).use()
    if rank == 0:
        pipe.send(distributed.new_identifier())
    pipe.send(program(distributed.NcclCommunicator(pipe.recv(), rank, size), *arguments))


def run_by_nccl(program: Callable[..., Any], ranks: int, *arguments: Any, limit: float = 500.0) -> list[Any]:
    """Return what ``program(comm, *arguments)`` returns in so many new processes, with a GPU each.

    Raises
    ------
    RankError
        If one of them ends, or takes longer than ``limit`` seconds.
    """
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe() for _ in range(ranks)]
    workers = [
        context.Process(target=_work, args=(rank, ranks, pipes[rank][1], program, arguments), daemon=True)
        for rank in range(ranks)
    ]
    try:
        for worker, (_, theirs) in zip(workers, pipes, strict=True):
            worker.start()
            theirs.close()  # so that the end of the process is seen
        identifier = _receive(0, pipes[0][0], limit)
        for ours, _ in pipes:
            ours.send(identifier)
        return [_receive(rank, ours, limit) for rank, (ours, _) in enumerate(pipes)]
    finally:
        for worker in workers:
            worker.kill()


def _receive(rank: int, pipe: Any, limit: float) -> Any:
    try:
        if pipe.poll(limit):
            return pipe.recv()
    except EOFError:
        raise RankError(f"run_by_nccl: rank {rank} has ended; its message is above") from None
    raise RankError(f"run_by_nccl: rank {rank} has not ended within {limit:g} s")


def _show(times: dict[str, list[float]]) -> None:
    medians = {name: percentiles(values)["median_ms"] for name, values in times.items()}
    for name in ("insert", "delete"):
        share = medians[f"plain {name}"] / medians[name]
        print(
            f"{name:28} {medians[name]:9.3f}   a plain graph {medians[f'plain {name}']:9.3f}   {share:4.0%} of its rate"
        )
    for name in SEARCHES:
        print(f"{name:28} {medians[name]:9.3f}")


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m dynstore.benchmarks.costs.sharded", description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--engine", choices=["threads", "nccl"], default="threads")
    parser.add_argument("--device", default="auto", help="of threads")
    parser.add_argument("--scale", type=int, default=16, help="the R-MAT graph of a rank has 2^SCALE vertices")
    parser.add_argument("--edge-factor", type=int, default=16)
    parser.add_argument("--batch", type=int, default=10_000, help="rows a rank")
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args(arguments)
    sizes = options.scale, options.edge_factor, options.batch, options.steps
    if options.engine == "nccl":
        found = run_by_nccl(measure, options.ranks, *sizes)
    else:
        found = distributed.run(lambda comm: measure(comm, *sizes), options.ranks, options.device)
    print(f"{options.ranks} ranks ({options.engine}), R-MAT {options.scale}, {options.batch} rows a rank; median ms")
    _show(found[0])


if __name__ == "__main__":
    run_as_command(main)
