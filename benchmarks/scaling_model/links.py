"""What collectives cost: measured on the ranks at hand, or assumed for ranks that are not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil, inf, log2
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from benchmarks.scaling_model.counts import Tally
from dynstore.backend import get_backend
from dynstore.bench.timing import LapTimer
from dynstore.distributed import Communicator
from dynstore.distributed.counting import OPERATIONS

__all__ = ["ASSUMED", "Assumed", "CollectiveCosts", "assumed_link", "fit_link", "measure_slowdown", "measure_transfers"]

SMALL, LARGE = 1, 1 << 18  # entries of 8 bytes
TEXT = 1 << 16  # bytes of a value of an all_gather
COLUMNS = 4  # of an all_to_all that shows what a message costs
MESSAGE_S = 1e-6  # assumed: one send within a group of them
Times = dict[str, float]  # what was done -> median seconds


class CollectiveCosts(NamedTuple):
    """Constants of the collectives.

    A call takes ``base``, ``hop`` for each doubling of the ranks, and its bytes over ``bytes_per_s``.

    Attributes
    ----------
    name : str
    base, hop, bytes_per_s : mapping
        By operation; in seconds.
    message : float
        Seconds a message of an all_to_all.
    """

    name: str
    base: Mapping[str, float]
    hop: Mapping[str, float]
    bytes_per_s: Mapping[str, float]
    message: float

    def seconds(self, tally: Tally) -> tuple[float, float]:
        """Return what the counted calls take: for their number, and for their bytes; the busiest rank decides."""
        doublings = ceil(log2(tally.size))
        latency = sum(calls * (self.base[name] + self.hop[name] * doublings) for name, calls in tally.calls.items())
        latency += self.message * int(tally.messages["all_to_all"].max())
        sent = {name: int(nbytes.max()) for name, nbytes in tally.nbytes.items()}
        sent["all_to_all"] = max(sent["all_to_all"], int(tally.received.max()))
        sent["all_reduce"] = _ring(sent["all_reduce"], tally.size)
        return latency, sum(sent[name] / self.bytes_per_s[name] for name in OPERATIONS)


def _ring(nbytes: int, size: int) -> int:
    """Return what a rank sends in a ring for the sum of an array."""
    return 2 * nbytes * (size - 1) // size


class Assumed(NamedTuple):
    """A link that is not at hand: seconds of a step, bytes a second and rank, and where they come from."""

    latency: float
    bytes_per_s: float
    source: str


ASSUMED = {
    "nvlink": Assumed(10e-6, 370e9, "370 GB/s: lines of another H200 read at random over NV18; 10 us: assumption"),
    "infiniband": Assumed(20e-6, 50e9, "NDR, 400 Gbit/s and 20 us a step: assumption"),
}


def assumed_link(
    name: str, alone: CollectiveCosts, latency: float | None, bytes_per_s: float | None
) -> CollectiveCosts:
    """Return a link of assumed constants; what a call takes on one rank is taken from a measured one."""
    known = ASSUMED[name]
    given = latency is not None or bytes_per_s is not None
    step = known.latency if latency is None else latency
    rate = known.bytes_per_s if bytes_per_s is None else bytes_per_s
    label = f"{name}, {'by hand' if given else 'assumed'}"
    return CollectiveCosts(
        label, alone.base, dict.fromkeys(OPERATIONS, step), dict.fromkeys(OPERATIONS, rate), MESSAGE_S
    )


# ---------------------------------------------------------------------- measured


def measure_transfers(comm: Communicator, repeats: int) -> Times:
    """Time each collective with little and with much; a time is that of the slowest rank."""
    backend = get_backend(comm.device)
    xp, size = backend.xp, comm.size
    small, large = (xp.zeros(count * size, np.float64) for count in (SMALL, LARGE))

    def exchange(array: Any, columns: int = 1) -> Callable[[], Any]:
        rows = [len(array) // size] * size
        return lambda: comm.all_to_all([array] * columns, rows, rows)

    text = "x" * TEXT
    calls: dict[str, Callable[[], Any]] = {
        "all_gather": lambda: comm.all_gather(None),
        "all_gather, large": lambda: comm.all_gather(text),
        "all_to_all": exchange(small),
        "all_to_all, columns": exchange(small, COLUMNS),
        "all_to_all, large": exchange(large),
        "all_reduce": lambda: comm.all_reduce(small),
        "all_reduce, large": lambda: comm.all_reduce(large),
        "broadcast": lambda: comm.broadcast(small),
        "broadcast, large": lambda: comm.broadcast(large),
    }
    return {name: _time(comm, backend, call, repeats) for name, call in calls.items()}


def _time(comm: Communicator, backend: Any, call: Callable[[], Any], repeats: int) -> float:
    watch, taken = LapTimer(backend), []
    for _ in range(repeats + 2):
        comm.barrier()
        watch.start()
        call()
        taken.append(watch.lap() / 1e3)
    slowest: float = max(comm.all_gather(median(taken[2:])))
    return slowest


def measure_slowdown(comm: Communicator, repeats: int) -> float:
    """Return how many times as long work of a rank takes while all others work, too: they may share cores."""
    backend = get_backend(comm.device)
    xp, numbers = backend.xp, backend.asarray(np.random.default_rng(1).integers(0, 1 << 20, 1 << 15))

    def work() -> None:
        for _ in range(4):
            xp.bincount(xp.unique(numbers) & 1023)
            for _ in range(50):
                numbers[:8] + numbers[8:16]

    alone: float = 0.0
    if comm.rank == 0:
        watch, taken = LapTimer(backend), []
        for _ in range(repeats + 2):
            watch.start()
            work()
            taken.append(watch.lap() / 1e3)
        alone = median(taken[2:])
    alone = max(comm.all_gather(alone))
    together = _time(comm, backend, work, repeats)
    return max(1.0, together / alone)


def fit_link(name: str, by_ranks: Mapping[int, Times]) -> CollectiveCosts:
    """Return the constants that measurements of one rank and of several show; several may be missing."""
    alone, most = by_ranks[1], max(by_ranks)
    base = {each: alone[each] for each in OPERATIONS}
    times, doublings = by_ranks[most], max(1, ceil(log2(most)))
    hop = {each: max(0.0, times[each] - base[each]) / doublings for each in OPERATIONS}
    carried = {
        "all_gather": TEXT * (most - 1),
        "all_to_all": 8 * LARGE * (most - 1),
        "all_reduce": _ring(8 * LARGE * most, most),
        "broadcast": 8 * LARGE * most,
    }
    rates = dict.fromkeys(OPERATIONS, inf)
    for each, nbytes in carried.items():
        longer = times[f"{each}, large"] - times[each]
        if most > 1 and longer > 0:
            rates[each] = nbytes / longer
    messages = (COLUMNS - 1) * max(1, most - 1)
    message = max(0.0, times["all_to_all, columns"] - times["all_to_all"]) / messages
    return CollectiveCosts(name, base, hop, rates, message)
