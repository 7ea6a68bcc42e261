"""What a Dask worker has of a graph: a rank, with a thread of its own. The functions here run on workers.

Calls of the graph are no tasks: a rank waits for others, and a task that waits for another worker's task can wait for
ever if that one is behind other work. They come by ``Client.run`` and go to the rank's thread, in order. Rows of frames
come by tasks, and results leave by tasks, so that Dask knows the frames and moves them.
"""

from __future__ import annotations

import asyncio
import pickle
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from dynstore.adapters.dask.communicator import DELIVER, DaskCommunicator
from dynstore.adapters.libraries import require
from dynstore.backend import get_backend
from dynstore.distributed import Communicator, NcclCommunicator, ShardedGraph, new_identifier
from dynstore.errors import DynstoreError, RankError

if TYPE_CHECKING:
    from dynstore.typing import Device, Frame

__all__ = [
    "Outcome",
    "Place",
    "Rank",
    "Setup",
    "call",
    "end",
    "find_place",
    "interrupt",
    "make_graph",
    "make_identifier",
    "open_rank",
    "stage",
    "take",
]


class Outcome(NamedTuple):
    """What a call returned on one rank, or its error."""

    value: Any = None
    error: BaseException | None = None


class Place(NamedTuple):
    """Where a worker keeps arrays.

    Attributes
    ----------
    device : str
    gpu : str or None
        The host and the bus of its GPU.
    """

    device: str
    gpu: str | None


class Setup(NamedTuple):
    """How the ranks of a graph find each other.

    Attributes
    ----------
    group : str
        The name of the graph on the workers.
    addresses : tuple of str
        The workers, in order of the ranks.
    device : str
    identifier : tuple or None
        Of NCCL.
    timeout : float
        Seconds.
    """

    group: str
    addresses: tuple[str, ...]
    device: str
    identifier: tuple[Any, ...] | None
    timeout: float


class Rank:
    """One rank of a graph on a worker.

    Attributes
    ----------
    comm : Communicator
    graph : ShardedGraph
    staged : dict
        Name of a batch -> the frames of it that are here.
    kept : dict
        Name of a result -> the frame of it that is here.
    """

    comm: Communicator
    graph: ShardedGraph

    def __init__(self) -> None:
        pool = require("DaskGraph", "distributed.threadpoolexecutor")
        self.thread = pool.ThreadPoolExecutor(1, thread_name_prefix="dynstore-rank")
        self.staged: dict[str, list[Any]] = {}
        self.kept: dict[str, Frame] = {}

    def free(self) -> None:
        """Free all arrays, and end the connection: NCCL's own end of it would wait for ranks that may be lost."""
        with suppress(RankError):
            if hasattr(self, "comm"):
                self.comm.abort("the graph has ended")
        self.__dict__.clear()

    def rows_of(self, batch: str | None) -> Any:
        """Return the rows of a batch that are here as one frame, and forget them; None if there are none."""
        parts = [] if batch is None else self.staged.pop(batch, [])
        if len(parts) < 2:
            return parts[0] if parts else None
        return require("DaskGraph", type(parts[0]).__module__.partition(".")[0]).concat(parts, ignore_index=True)

    def keep(self, name: str, frame: Any) -> Any:
        """Keep a frame for the task that takes it; return an empty one like it."""
        self.kept[name] = frame
        return frame.iloc[:0]


_ranks: dict[tuple[str, str], Rank] = {}  # by the worker's address and the name of the graph


def _find(address: str, group: str) -> Rank:
    rank = _ranks.get((address, group))
    if rank is None:
        raise RankError(f"the worker {address} has no part of this graph; it was started after the graph was made")
    return rank


async def _on_thread(thread: Any, function: Callable[[], Any]) -> Outcome:
    """Call a function on a thread, and return what comes of it; Dask would log errors."""
    try:
        return Outcome(await asyncio.get_running_loop().run_in_executor(thread, function))
    except Exception as error:
        return Outcome(error=_portable(error))


def _portable(error: Exception) -> Exception:
    """Return an error as the client can get it; one that is not ours has its traceback on the worker as a note."""
    if not isinstance(error, DynstoreError):
        error.add_note("".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RankError(f"{type(error).__name__}: {error}")
    return error


async def find_place(device: Device) -> Outcome:
    """Find out where a worker would keep arrays."""

    def find() -> Place:
        import socket

        backend = get_backend(device)
        if not backend.on_gpu:
            return Place(backend.name, None)
        cupy = require("DaskGraph", "cupy")
        return Place(backend.name, f"{socket.gethostname()}, {cupy.cuda.Device().pci_bus_id}")

    return await _on_thread(None, find)


async def make_identifier() -> Outcome:
    """Make what NCCL's ranks need to find each other; rank 0 does."""
    return await _on_thread(None, new_identifier)


async def open_rank(setup: Setup, dask_worker: Any) -> Outcome:
    """Make the rank of a worker and its connection. All ranks do, before any makes its part of the graph."""
    dask_worker.handlers[DELIVER] = _deliver_to(dask_worker.address)
    rank = _ranks[dask_worker.address, setup.group] = Rank()
    number = setup.addresses.index(dask_worker.address)

    def connect() -> None:
        if setup.identifier is None:
            rank.comm = DaskCommunicator(dask_worker, setup.group, number, setup.addresses, setup.timeout)
        else:
            rank.comm = NcclCommunicator(setup.identifier, number, len(setup.addresses), setup.timeout)

    return await _on_thread(rank.thread, connect)


def make_graph(rank: Rank, options: dict[str, Any]) -> None:
    """Make the rank's part of the graph. All ranks do."""
    rank.graph = ShardedGraph(rank.comm, **options)


def _deliver_to(address: str) -> Callable[..., Any]:
    """Return the handler of letters from other ranks to a worker."""

    def deliver(group: str, sender: int, turn: int, name: str, value: Any) -> None:
        comm = _find(address, group).comm
        assert isinstance(comm, DaskCommunicator)
        comm.deliver(turn, sender, name, value)

    return deliver


async def call(group: str, function: Callable[..., Any], args: Sequence[Any], dask_worker: Any) -> Outcome:
    """Call a function of the rank and other arguments on the rank's thread."""
    rank = _ranks.get((dask_worker.address, group))
    return await _on_thread(
        None if rank is None else rank.thread, lambda: function(_find(dask_worker.address, group), *args)
    )


async def interrupt(group: str, reason: str, dask_worker: Any) -> None:
    """Let the rank's calls raise."""
    rank = _ranks.get((dask_worker.address, group))
    if rank is not None and hasattr(rank, "comm"):
        rank.comm.interrupt(reason)  # type: ignore[attr-defined]


async def end(group: str, dask_worker: Any) -> None:
    """Free all that the worker has of a graph, once the call that it is in has ended."""
    rank = _ranks.pop((dask_worker.address, group), None)
    if rank is not None:
        rank.thread.submit(rank.free)
        rank.thread.shutdown(wait=False)


# ---------------------------------------------------------------------- tasks


def stage(group: str, batch: str, parts: list[Any]) -> None:
    """Lay partitions of a batch ready on the worker that has them."""
    address = require("DaskGraph", "distributed").get_worker().address
    _find(address, group).staged[batch] = parts


def take(group: str, name: str) -> Any:
    """Return a result that the rank has kept; from now on it is Dask's."""
    address = require("DaskGraph", "distributed").get_worker().address
    kept = _find(address, group).kept
    if name not in kept:
        raise RankError("a part of a result was on a worker that is lost; call the algorithm again")
    return kept.pop(name)
