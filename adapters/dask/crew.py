"""The workers of one graph, as the client sees them: one call of all of them at a time, and none of them lost."""

from __future__ import annotations

import asyncio
import pickle
import threading
import weakref
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, NamedTuple, NoReturn
from uuid import uuid4

from dynstore.adapters.dask import ranks
from dynstore.adapters.dask.ranks import ArrayPlace, Kept, RankOutcome, Setup
from dynstore.adapters.libraries import require
from dynstore.errors import DynstoreError, InputError, RankError

__all__ = ["Crew", "WorkerRows"]

GRACE = 5.0  # seconds that ranks have to end once one has failed
LOOK = 1.0  # seconds between two looks at which workers are there
PAUSE = 0.01  # seconds between two looks at what another client waits for
# One call of all ranks at a time, of all graphs of this process: NCCL's groups must not wait on one GPU for each other.
_turn = threading.RLock()


class WorkerRows(NamedTuple):
    """Rows that workers hold.

    Attributes
    ----------
    futures : list
        The partitions; Dask keeps them as long as these are there.
    keys : list of list
        The keys of the partitions that each rank reads.
    """

    futures: list[Any]
    keys: list[list[Any]]


class Crew:
    """The ranks of a graph.

    Parameters
    ----------
    caller : str
    client : distributed.Client
    workers : sequence of str, optional
        Addresses; by default all workers.

    Attributes
    ----------
    addresses : tuple of str
        The workers, in order of the ranks.
    lost : str or None
        Why the graph cannot be used any more.
    """

    def __init__(self, caller: str, client: Any, workers: Sequence[str] | None) -> None:
        if client.status != "running":
            raise InputError(f"{caller}: the client is {client.status}; wanted one that is connected to a cluster")
        self.client = client
        self.lost: str | None = None
        there = list(client.nthreads())
        self.addresses = tuple(there if workers is None else workers)
        missing = [address for address in self.addresses if address not in there]
        if missing or not there or not self.addresses or len(set(self.addresses)) < len(self.addresses):
            named = "no workers" if workers is None else f"workers={list(self.addresses)}"
            raise InputError(f"{caller}: got {named}; wanted distinct addresses of {there or 'a cluster with workers'}")
        self._group = ""

    # ------------------------------------------------------------------ begin and end

    def find_places(self, caller: str, device: str) -> list[ArrayPlace]:
        """Find out where each worker keeps arrays."""
        return self._all(caller, lambda address: self._run(address, ranks.find_place, device))

    def open(self, caller: str, setup: Setup, options: dict[str, Any]) -> None:
        """Make all ranks, and a graph with these options."""
        self._group = setup.group
        self._end = weakref.finalize(self, _end_later, self.client, setup.group, self.addresses)
        self._all(caller, lambda address: self._run(address, ranks.open_rank, setup))
        self.call(caller, ranks.make_graph, options)

    def make_identifier(self, caller: str) -> Any:
        """Return what NCCL's ranks need to find each other."""
        first = self.addresses[0]
        return self._all(caller, lambda address: self._run(address, ranks.make_identifier), (first,))[0]

    def close(self) -> None:
        """Free what the workers have of the graph, once the call of another thread has ended."""
        with _turn:
            self.lost = self.lost or "it was closed"
            if self._end.detach() is not None and self.client.status == "running":
                self.client.sync(self._end_all)

    # ------------------------------------------------------------------ calls

    def call(
        self,
        caller: str,
        function: Callable[..., Any],
        *args: Any,
        batches: Sequence[WorkerRows | None] = (),
        one: bool = False,
    ) -> list[Any]:
        """Call ``function(rank, *rows, *args)`` on all ranks, and return their results; of a frame, a :class:`Kept`.

        Parameters
        ----------
        batches : sequence of Batch or None
            The rows that come first: for each batch a frame of those that the rank reads, or None without any.
        one : bool
            Only on rank 0: for what each rank knows by itself.

        Raises
        ------
        DynstoreError
            As one that all ranks have raised; the graph is as it was.
        RankError
            If a rank has raised something else, does not come, or is lost. The graph cannot be used any more.
        """
        addresses = self.addresses[:1] if one else self.addresses
        name = f"result-{uuid4().hex}"

        def start(address: str) -> Coroutine[Any, Any, RankOutcome]:
            rank = self.addresses.index(address)
            keys = [[] if batch is None else batch.keys[rank] for batch in batches]
            return self._run_and_register(address, (name, rank), function, args, keys)

        return self._all(caller, start, addresses)

    def check(self, caller: str) -> None:
        """Refuse a graph that has ended."""
        if self.client.status in ("closing", "closed"):
            self.lost = self.lost or "its client was closed"
        if self.lost is not None:
            raise RankError(f"{caller}: this graph cannot be used any more: {self.lost}")

    def bring(self, caller: str, rows: Any) -> Any:
        """Bring rows of the client to rank 0; return their future."""
        try:
            return self.client.scatter([rows], workers=[self.addresses[0]], hash=False)[0]
        except Exception:
            self.client.sync(self._look, caller)  # the worker may be lost
            raise

    def wait(self, caller: str, futures: Sequence[Any]) -> None:
        """Wait for futures, and raise the error of one that has failed, or if a worker is lost."""
        self.client.sync(self._wait, caller, list(futures))
        for future in futures:
            if future.status != "finished":
                raise future.exception()

    def call_frame(
        self, caller: str, function: Callable[..., Any], *args: Any, batches: Sequence[WorkerRows | None] = ()
    ) -> tuple[Any, Any]:
        """Call a function that leaves a frame on each rank; return them as a Dask frame, and rank 0's ``more``."""
        parts: list[Kept] = self.call(caller, function, *args, batches=batches)
        meta, keys = pickle.loads(parts[0].meta), [part.frame.key for part in parts]
        if type(meta).__module__.partition(".")[0] == "cudf":
            require(caller, "dask_cudf")
        layer = {part.frame.key: part.frame for part in parts}
        nothing = (None,) * (len(parts) + 1)
        frame = require(caller, "dask.dataframe").from_graph(layer, meta, nothing, keys, "dynstore")
        return frame, parts[0].more

    # ------------------------------------------------------------------ on the client's event loop

    async def _end_all(self) -> None:
        await asyncio.gather(*(_tell(self.client, ranks.end, (self._group,), address) for address in self.addresses))

    async def _run(self, address: str, function: Callable[..., Any], *args: Any) -> RankOutcome:
        try:
            found: RankOutcome = (await self.client.run(function, *args, workers=[address]))[address]
        except OSError:  # of the connection: the worker is lost
            raise
        except Exception as error:
            text = f"the worker {address} cannot read the call: {error}; wanted what modules that it has can read"
            return RankOutcome(error=InputError(text))
        return found

    async def _run_and_register(
        self, address: str, key: tuple[str, int], function: Callable[..., Any], args: Any, keys: Sequence[Sequence[Any]]
    ) -> RankOutcome:
        """Call a function on a rank; let Dask know the frame that it leaves there.

        Dask frees the frame with its last future, also if other ranks fail and no user gets to see it.
        """
        outcome = await self._run(address, ranks.call, self._group, function, args, keys, key)
        if not isinstance(outcome.value, Kept):
            return outcome
        sizes = {key: outcome.value.nbytes}
        await self.client.scheduler.update_data(who_has={key: [address]}, nbytes=sizes, client=self.client.id)
        future = require("DaskGraph", "distributed").Future(key, self.client, state="memory")
        return RankOutcome(outcome.value._replace(frame=future))

    def _all(
        self,
        caller: str,
        start: Callable[[str], Coroutine[Any, Any, RankOutcome]],
        addresses: Sequence[str] | None = None,
    ) -> list[Any]:
        with _turn:
            self.check(caller)
            outcomes = self.client.sync(self._gather, caller, start, addresses or self.addresses)
        errors = {rank: outcome.error for rank, outcome in enumerate(outcomes) if outcome.error is not None}
        if errors:
            self._raise(caller, errors)
        return [outcome.value for outcome in outcomes]

    async def _gather(
        self, caller: str, start: Callable[[str], Coroutine[Any, Any, RankOutcome]], addresses: Sequence[str]
    ) -> list[RankOutcome]:
        """Wait for one call on all ranks; end it on all if one of them is lost, or does not come."""
        await self._look(caller)
        tasks = {asyncio.ensure_future(start(address)): address for address in addresses}
        waiting, failed, end = set(tasks), None, float("inf")
        while waiting:
            ended, waiting = await asyncio.wait(waiting, timeout=LOOK, return_when=asyncio.FIRST_COMPLETED)
            broken = next((task for task in ended if task.exception() is not None), None)
            try:
                if broken is not None:
                    self._lose(caller, tasks[broken], broken.exception())
                if waiting and not ended:
                    await self._look(caller)
                failed = failed or next((task for task in ended if task.result().error is not None), None)
                if failed is not None and waiting:
                    end = min(end, monotonic() + GRACE)
                    if monotonic() > end:
                        error, rank = failed.result().error, self.addresses.index(tasks[failed])
                        self._stop(f"{caller}: rank {rank} raised {type(error).__name__}: {error}", error)
            except RankError:
                await asyncio.wait(tasks, timeout=GRACE)
                for task in tasks:
                    task.cancel()
                raise
        return [task.result() for task in tasks]

    async def _wait(self, caller: str, futures: list[Any]) -> None:
        wait, end = require(caller, "distributed").wait, monotonic() + LOOK
        own = [future for future in futures if future.client is self.client]
        others = [future for future in futures if future.client is not self.client]  # they change on another loop
        there = False
        while not there:
            with self.client.as_current():  # without this Dask would wait on the loop of the newest client
                waiting = wait(own, timeout=LOOK)
            try:
                await waiting
                while any(future.status == "pending" for future in others) and monotonic() < end:
                    await asyncio.sleep(PAUSE)
                there = all(future.status != "pending" for future in others)
            except TimeoutError:
                pass
            if not there:
                await self._look(caller)
                end = monotonic() + LOOK

    async def _look(self, caller: str) -> None:
        """Raise if a worker is lost, or the scheduler."""
        try:
            there = await self.client.nthreads()
        except OSError as error:
            self._stop(f"{caller}: the scheduler cannot be reached: {str(error).rstrip('.')}", error)
        lost = next((address for address in self.addresses if address not in there), None)
        if lost is not None:
            self._lose(caller, lost, None)

    def _lose(self, caller: str, address: str, error: BaseException | None) -> NoReturn:
        rank = self.addresses.index(address)
        self._stop(f"{caller}: the worker {address}, which was rank {rank}, is lost", error)

    def _stop(self, reason: str, error: BaseException | None = None) -> NoReturn:
        """End the program of all ranks."""
        self.lost = self.lost or reason
        for address in self.addresses:
            self.client.loop.add_callback(_tell, self.client, ranks.interrupt, (self._group, reason), address)
        raise RankError(f"{reason}. The graph cannot be used any more") from error

    def _raise(self, caller: str, errors: dict[int, BaseException]) -> NoReturn:
        """Raise the error of a call: if one rank has refused it, in the words of another, which name that rank."""
        repeated = next((error for error in errors.values() if hasattr(error, "origin")), None)
        own = next((error for error in errors.values() if not hasattr(error, "origin")), None)
        if any(isinstance(error, RankError) for error in errors.values()):
            self._stop(f"{caller}: {str(repeated or own).removeprefix(f'{caller}: ')}", own or repeated)
        if own is None or (repeated is not None and isinstance(own, DynstoreError)):
            assert repeated is not None
            raise repeated from own
        raise own


def _end_later(client: Any, group: str, addresses: Sequence[str]) -> None:
    """Free what workers have of a graph, without waiting: this may run on any thread."""
    if client.status == "running":
        for address in addresses:
            client.loop.add_callback(_tell, client, ranks.end, (group,), address)


async def _tell(client: Any, function: Callable[..., Any], args: tuple[Any, ...], address: str) -> None:
    """Call a function of a graph on a worker, if that is there."""
    with suppress(OSError):  # a worker, or the cluster, may end at any time
        if client.status == "running" and address in await client.nthreads():
            await client.run(function, *args, workers=[address], on_error="ignore")
