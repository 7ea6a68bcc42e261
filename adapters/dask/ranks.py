"""What a Dask worker has of a graph: a rank, with a thread of its own. The functions here run on workers.

Calls of the graph are no tasks: a rank waits for others, and a task that waits for another worker's task can wait for
ever if that one is behind other work. They come by ``Client.run`` and go to the rank's thread, in order. A call reads
the rows of frames where Dask keeps them, and gives Dask its result, so neither is a task: a call is one message to each
worker and back.
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
    from dynstore.typing import Device

__all__ = [
    "ArrayPlace",
    "Kept",
    "Rank",
    "RankOutcome",
    "Setup",
    "call",
    "end",
    "find_place",
    "interrupt",
    "keep",
    "make_graph",
    "make_identifier",
    "open_rank",
]


class RankOutcome(NamedTuple):
    """What a call returned on one rank, or its error."""

    value: Any = None
    error: BaseException | None = None


class Kept(NamedTuple):
    """A frame that stays on its worker.

    Attributes
    ----------
    frame : frame, or distributed.Future
        On the client its future.
    meta : bytes
        An empty one like it, pickled: Dask takes 5 ms longer to send a frame than to send bytes.
    more
        What goes to the client beside it.
    nbytes : int
        Of the frame, as Dask counts them.
    """

    frame: Any
    meta: bytes
    more: Any
    nbytes: int = 0


class ArrayPlace(NamedTuple):
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
    stopped : bool
        Whether the client has given the graph up; it takes no results any more.
    """

    comm: Communicator
    graph: ShardedGraph

    def __init__(self) -> None:
        pool = require("DaskGraph", "distributed.threadpoolexecutor")
        self.thread = pool.ThreadPoolExecutor(1, thread_name_prefix="dynstore-rank")
        self.stopped = False

    def free(self) -> None:
        """Free all arrays, and end the connection: NCCL's own end of it would wait for ranks that may be lost."""
        with suppress(RankError):
            if hasattr(self, "comm"):
                self.comm.abort("the graph has ended")
        self.__dict__.clear()


_ranks: dict[tuple[str, str], Rank] = {}  # by the worker's address and the name of the graph


def _find(address: str, group: str) -> Rank:
    rank = _ranks.get((address, group))
    if rank is None:
        raise RankError(f"the worker {address} has no part of this graph; it was started after the graph was made")
    return rank


async def _on_thread(thread: Any, function: Callable[[], Any]) -> RankOutcome:
    """Call a function on a thread, and return what comes of it; Dask would log errors."""
    try:
        return RankOutcome(await asyncio.get_running_loop().run_in_executor(thread, function))
    except Exception as error:
        return RankOutcome(error=_portable(error))


def _portable(error: Exception) -> Exception:
    """Return an error as the client can get it; one that is not ours has its traceback on the worker as a note."""
    if not isinstance(error, DynstoreError):
        error.add_note("".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RankError(f"{type(error).__name__}: {error}")
    return error


async def find_place(device: Device) -> RankOutcome:
    """Find out where a worker would keep arrays."""

    def find() -> ArrayPlace:
        import socket

        backend = get_backend(device)
        if not backend.on_gpu:
            return ArrayPlace(backend.name, None)
        cupy = require("DaskGraph", "cupy")
        return ArrayPlace(backend.name, f"{socket.gethostname()}, {cupy.cuda.Device().pci_bus_id}")

    return await _on_thread(None, find)


async def make_identifier() -> RankOutcome:
    """Make what NCCL's ranks need to find each other; rank 0 does."""
    return await _on_thread(None, new_identifier)


async def open_rank(setup: Setup, dask_worker: Any) -> RankOutcome:
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


async def call(
    group: str,
    function: Callable[..., Any],
    args: Sequence[Any],
    batches: Sequence[Sequence[Any]],
    result: Any,
    dask_worker: Any,
) -> RankOutcome:
    """Call a function of the rank, the rows of each batch and other arguments on the rank's thread.

    Parameters
    ----------
    batches : sequence of sequence
        Of each batch the keys of the partitions that this rank reads.
    result : key
        The name that Dask gives to the frame, if the function returns one in a :class:`Kept`.
    """
    try:
        rank = _find(dask_worker.address, group)
        parts = [await _read(dask_worker, keys) for keys in batches]
    except Exception as error:
        return RankOutcome(error=_portable(error))
    outcome = await _on_thread(rank.thread, lambda: function(rank, *map(_join, parts), *args))
    if not isinstance(outcome.value, Kept) or rank.stopped:
        return outcome
    kept = outcome.value
    nbytes = dask_worker.update_data({result: kept.frame})["nbytes"][result]
    return RankOutcome(kept._replace(frame=None, nbytes=nbytes))


async def _read(worker: Any, keys: Sequence[Any]) -> list[Any]:
    """Return partitions, which are mostly on this worker."""
    found = {key: worker.data[key] for key in keys if key in worker.data}
    away = [key for key in keys if key not in found]
    if away:
        gather = require("DaskGraph", "distributed.utils_comm").gather_from_workers
        found |= (await gather(await worker.scheduler.who_has(keys=away), worker.rpc))[0]
    lost = [key for key in keys if key not in found]
    if lost:
        raise RankError(f"{len(lost)} partitions are lost, such as {lost[0]}")
    return [found[key] for key in keys]


def keep(frame: Any, more: Any = None) -> Kept:
    """Let a call leave a frame on its worker."""
    return Kept(frame, pickle.dumps(frame.iloc[:0]), more)


def _join(parts: Sequence[Any]) -> Any:
    """Return partitions as one frame; None if there are none. Empty ones are left out: their dtypes may be any."""
    parts = [part for part in parts if len(part)] or parts[:1]
    if len(parts) < 2:
        return parts[0] if parts else None
    return require("DaskGraph", type(parts[0]).__module__.partition(".")[0]).concat(parts, ignore_index=True)


async def interrupt(group: str, reason: str, dask_worker: Any) -> None:
    """Let the rank's calls raise."""
    rank = _ranks.get((dask_worker.address, group))
    if rank is not None:
        rank.stopped = True
        if hasattr(rank, "comm"):
            rank.comm.interrupt(reason)  # type: ignore[attr-defined]


async def end(group: str, dask_worker: Any) -> None:
    """Free all that the worker has of a graph, once the call that it is in has ended."""
    rank = _ranks.pop((dask_worker.address, group), None)
    if rank is not None:
        rank.thread.submit(rank.free)
        rank.thread.shutdown(wait=False)
