"""Programs on several ranks: threads, processes that ``mpirun`` has started, or new processes with a GPU each."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import traceback
from collections.abc import Callable
from multiprocessing.connection import wait
from time import monotonic
from typing import Any

from dynstore import distributed
from dynstore.distributed import Communicator, MpiCommunicator, NcclCommunicator
from dynstore.distributed.threads import ThreadCommunicator
from dynstore.errors import InputError, RankError

__all__ = ["ENGINES", "connect_alone", "run_by_nccl", "run_ranks"]

ENGINES = ("threads", "mpi", "nccl")
LAST_WORDS = 0.9  # of the limit: then a process prints where it is


def _work(rank: int, size: int, pipe: Any, program: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    # The GPU of the rank comes first, the others stay visible: as dask-cuda does it.
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    devices = given.split(",") if given else [str(device) for device in range(size)]
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(devices[rank:] + devices[:rank])
    try:
        if rank == 0:
            pipe.send(distributed.new_identifier())
        limit, identifier = pipe.recv()
        faulthandler.dump_traceback_later(LAST_WORDS * limit)
        begun = monotonic()
        comm = NcclCommunicator(identifier, rank, size, limit)
        print(f"  rank {rank} of {size} is connected after {monotonic() - begun:.1f} s", flush=True)
        pipe.send((program(comm, *arguments), None))
    except BaseException as error:
        traceback.print_exc()
        pipe.send((None, f"{type(error).__name__}: {error}"))


def run_by_nccl(program: Callable[..., Any], ranks: int, *arguments: Any, limit: float = 500.0) -> list[Any]:
    """Return what ``program(comm, *arguments)`` returns in so many new processes, with a GPU each.

    Raises
    ------
    RankError
        If one of them raises or ends, or takes longer than ``limit`` seconds; all others are ended then.
    """
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe() for _ in range(ranks)]
    workers = [
        context.Process(target=_work, args=(rank, ranks, pipes[rank][1], program, arguments), daemon=True)
        for rank in range(ranks)
    ]
    end = monotonic() + limit
    try:
        for worker, (_, theirs) in zip(workers, pipes, strict=True):
            worker.start()
            theirs.close()  # so that the end of the process is seen
        ours = [each for each, _ in pipes]
        identifier = _receive(ours, {0}, end, limit)[0]
        for pipe in ours:
            pipe.send((limit, identifier))
        results = _receive(ours, set(range(ranks)), end, limit)
        return [results[rank][0] for rank in range(ranks)]
    finally:
        for worker in workers:
            worker.kill()
            worker.join()


def _receive(pipes: list[Any], wanted: set[int], end: float, limit: float) -> dict[int, Any]:
    """Return what some ranks send next."""
    found: dict[int, Any] = {}
    while len(found) < len(wanted):
        waiting = {id(pipes[rank]): rank for rank in wanted - set(found)}
        ready = wait([pipes[rank] for rank in waiting.values()], max(0.0, end - monotonic()))
        if not ready:
            raise RankError(f"run_by_nccl: rank {min(waiting.values())} has not ended within {limit:g} s")
        for pipe in ready:
            rank = waiting[id(pipe)]
            try:
                found[rank] = pipes[rank].recv()
            except EOFError:
                raise RankError(f"run_by_nccl: rank {rank} has ended; its message is above") from None
            if isinstance(found[rank], tuple) and len(found[rank]) == 2 and found[rank][1] is not None:
                raise RankError(f"run_by_nccl: rank {rank} raised {found[rank][1]}")
    return found


def run_ranks(
    engine: str, device: str, ranks: int, program: Callable[..., Any], *arguments: Any, limit: float = 500.0
) -> list[Any]:
    """Return what ``program(comm, *arguments)`` returns on each rank.

    Parameters
    ----------
    engine : {"threads", "mpi", "nccl"}
        With "mpi" every process calls this; only the first ones, so many, call the program.
    device : str
        Of threads.

    Raises
    ------
    InputError
        If ``mpirun`` has started fewer processes.
    RankError
        If a rank fails.
    """
    if engine == "nccl":
        return run_by_nccl(program, ranks, *arguments, limit=limit)
    if engine == "threads":
        return distributed.run(lambda comm: program(comm, *arguments), ranks, device, limit)  # type: ignore[arg-type]
    world = MpiCommunicator()
    if world.size < ranks:
        raise InputError(f"{ranks} ranks are wanted, mpirun has started {world.size}")
    part = world.part(ranks)
    return world.all_gather(None if part is None else program(part, *arguments))[:ranks]


def connect_alone(comm: Communicator) -> Communicator:
    """Return a communicator of this rank alone, of the same kind. All ranks call it."""
    if isinstance(comm, NcclCommunicator):
        return NcclCommunicator(distributed.new_identifier(), 0, 1)
    if isinstance(comm, MpiCommunicator):
        return comm.alone()
    assert isinstance(comm, ThreadCommunicator)
    return comm.alone()
