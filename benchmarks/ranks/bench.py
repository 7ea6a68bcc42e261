"""What the parts of the measurement share: rows, times of the slowest rank, R-MAT rows on the device, checks."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from dynstore.backend import Backend, get_backend
from dynstore.bench.timing import LapTimer, percentiles
from dynstore.distributed import Communicator, ShardedGraph

__all__ = ["OneRank", "RankBench", "RankSizes", "distinct_keys", "edge_sums", "insert_all", "key_sums"]

INSERTED = 1 << 25  # rows that are inserted at once
SHARE = 0.75  # of a part's seconds: then it begins no further step
MIX = np.int64(-7046029254386353131)  # odd: what mixes the ends of an edge before they are added up


class RankSizes(NamedTuple):
    """What is measured.

    Attributes
    ----------
    scale, edge_factor : int
        R-MAT rows are ``edge_factor << scale``.
    batches : tuple of int
        Rows a rank and update.
    edges : tuple of int
        Stored edges of the graphs whose rows slide.
    slide_scale : int
        Their vertices are 2^``slide_scale``.
    page_scale : int
        Of the graph that GTS streams.
    largest_scale : int
        Of the graph whose pages stay in device memory; a smaller one is taken if it does not fit.
    steps : int
    seconds : float
        For one part.
    """

    scale: int
    edge_factor: int
    batches: tuple[int, ...]
    edges: tuple[int, ...]
    slide_scale: int
    page_scale: int
    largest_scale: int
    steps: int
    seconds: float


class OneRank:
    """What :meth:`RankBench.time_once` needs of a communicator where there is none."""

    rank = 0

    def barrier(self) -> None:
        """Do nothing: there is no other rank."""

    def all_gather(self, value: Any) -> list[Any]:
        """Return the value."""
        return [value]


class RankBench:
    """One part of the measurement on one rank.

    Parameters
    ----------
    comm : Communicator
    sizes : Sizes
    path : str
        A file to which rank 0 appends each row when it is known.
    """

    def __init__(self, comm: Communicator, sizes: RankSizes, path: str) -> None:
        self.comm, self.sizes, self._path = comm, sizes, path
        self.backend = get_backend(comm.device)
        self._begun = monotonic()
        self._end = self._begun + SHARE * sizes.seconds

    def has_time(self) -> bool:
        """Return whether the part may begin another step; the same on all ranks."""
        return bool(self.comm.all_gather(monotonic() < self._end)[0])

    def time_once(self, call: Callable[[], Any], comm: Communicator | OneRank) -> float:
        """Return the ms of a call on the slowest of some ranks."""
        watch = LapTimer(self.backend)
        comm.barrier()
        watch.start()
        call()
        taken: float = max(comm.all_gather(watch.lap()))
        return taken

    def time(
        self,
        call: Callable[[], Any],
        before: Callable[[], Any] | None = None,
        comm: Communicator | None = None,
        steps: int | None = None,
    ) -> list[float]:
        """Return the ms of a call on the slowest rank, a step each; a first step is not counted.

        Parameters
        ----------
        before : callable, optional
            Called before each step.
        comm : Communicator, optional
            Of the ranks that call this; by default all.
        """
        times = []
        for _ in range((steps or self.sizes.steps) + 1):
            if before is not None:
                before()
            times.append(self.time_once(call, comm or self.comm))
        return times[1:]

    def note(
        self, store: str, operation: str, times: list[float], edges: int, batch: int = 0, nbytes: int | None = None
    ) -> None:
        """Print a row, and append it to the file, on rank 0. Operations that no update has are algorithms."""
        if self.comm.rank:
            return
        algorithm = None if operation in ("insert", "delete", "update", "convert", "build") else operation
        shown = percentiles(times)
        row = {
            "store": store, "device": self.backend.name, "operation": "algorithm" if algorithm else operation,
            "algorithm": algorithm, "batch": batch, "edges": edges, "steps": len(times), **shown, "bytes": nbytes,
        }  # fmt: skip
        self.say(f"{operation:28} {store:34} batch {batch:>9}  {shown['median_ms']:10.3f} ms")
        with Path(self._path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def check(self, what: str, right: bool) -> None:
        """Print that something is right on all ranks, or raise on all."""
        wrong = [rank for rank, each in enumerate(self.comm.all_gather(bool(right))) if not each]
        if wrong:
            raise AssertionError(f"{what}: wrong on rank {wrong[0]}")
        self.say(f"right: {what}")

    def say(self, text: str) -> None:
        """Print a line on rank 0, and how long the part has run."""
        if self.comm.rank == 0:
            print(f"  [{monotonic() - self._begun:6.1f} s] {text}", flush=True)

    def free(self) -> None:
        """Collect garbage, and give the device's free memory back, for the next graph."""
        gc.collect()
        if self.backend.on_gpu:
            self.backend.xp.get_default_memory_pool().free_all_blocks()


def insert_all(G: Any, rows: tuple[Any, ...]) -> None:
    """Insert many rows, in pieces: all ranks have as many."""
    for low in range(0, len(rows[0]), INSERTED):
        G.insert_edges(tuple(column[low : low + INSERTED] for column in rows))


def _keys(src: Any, dst: Any) -> Any:
    return (src.astype(np.int64) << 32) | dst


def edge_sums(comm: Communicator, G: ShardedGraph) -> tuple[int, int]:
    """Return the number of stored edges of all ranks, and the sum of their mixed keys."""
    view, xp, count, total = G.shard.snapshot(), G.backend.xp, 0, 0
    for low in range(0, view.num_slots, INSERTED):
        slots = slice(low, min(low + INSERTED, view.num_slots))
        bits = view.valid[low >> 5 : -(-slots.stop // 32)].view(np.uint8)
        chosen = xp.unpackbits(bits, bitorder="little")[: slots.stop - low] != 0
        part = key_sums(_keys(view.sources[slots][chosen], view.indices[slots][chosen]))
        count, total = count + part[0], total + part[1]
    parts = comm.all_gather((count, total))
    return sum(count for count, _ in parts), sum(total for _, total in parts) % 2**64


def key_sums(keys: Any) -> tuple[int, int]:
    """Return the number of distinct keys, and the sum of what each is mixed to."""
    with np.errstate(over="ignore"):
        mixed = (keys ^ (keys >> 29)) * MIX
        mixed ^= mixed >> 32
        return len(keys), int(mixed.sum()) % 2**64


def distinct_keys(backend: Backend, rows: list[tuple[Any, Any]], both: bool) -> Any:
    """Return the keys of the edges that rows make, ascending."""
    given = [_keys(src, dst) for src, dst in rows]
    if both:
        given += [_keys(dst, src) for src, dst in rows]
    return backend.xp.unique(backend.xp.concatenate(given))
