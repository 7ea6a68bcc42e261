"""Slides of a graph whose in-edges lie in pages in the device memory of several ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Self

import numpy as np

from benchmarks.ranks.bench import RankBench
from benchmarks.rmat_pieces import make_rows
from dynstore.batches.sorted import EdgeBatch, sort_pairs
from dynstore.stores.paged.filter import EdgeFilter
from dynstore.stores.paged.merging import keys_of
from dynstore.stores.paged.store import PagedStore

if TYPE_CHECKING:
    from dynstore.stores.base import Plan
    from dynstore.stores.paged.layout import PagedRows
    from dynstore.typing import Array

__all__ = ["DeviceStore", "Slides"]

NEVER = 1 << 29  # edges of the delta, or slots of deleted edges, from which on new pages are written
KEY_BYTES = 8  # of a row on its way to its owner


class DeviceStore(PagedStore):
    """A paged store of pages that lie in device memory.

    It has no filter of edges: its searches read leaves at the speed of device memory. A filter would take a byte an
    edge. New pages are not written: that would bring all edges back to host memory.
    """

    @classmethod
    def of(cls, packed: PagedRows) -> Self:
        """Make a store of pages without weights, whose ``words`` lie in device memory."""
        store = cls(packed.backend, np.dtype(np.int32), None, 0, {"delta_edges": NEVER}, "host")
        store._filter = EdgeFilter(packed.backend, 0)
        store._filter.pass_all()
        store._base, store._valid, store._delta = packed, packed.all_valid(), store._make_delta()
        store._shown, store._is_stale = None, True
        return store


class Slides:
    """Updates of all ranks: the oldest events of a graph leave, and as many new ones arrive.

    Each rank brings a part of both, in its own order. They are sent to the owners of their destinations.

    Parameters
    ----------
    bench : Bench
    bounds : sequence of int, length ``size + 1``
        The first row of each rank, then the number of all rows.
    store : PagedStore
        The in-edges of this rank.
    events : tuple of int
        How many events the graph has, its scale and its seed.
    slide : int
        How many events leave, and how many arrive.

    Attributes
    ----------
    batch : int
        Events that leave or arrive in a slide, on all ranks.
    num_rows : int
        Rows that have come to this rank in the last slide.
    sent_bytes : int
        Bytes that this rank has sent to others in the last slide.
    """

    def __init__(
        self, bench: RankBench, bounds: Sequence[int], store: PagedStore, events: tuple[int, int, int], slide: int
    ) -> None:
        self._bench, self._store, self._events, self._slide = bench, store, events, slide
        self._bounds = bench.backend.asarray(np.array(bounds[1:-1], np.int32))
        self._number = self.num_rows = self.sent_bytes = 0
        self.batch = 2 * slide
        self._drawn: list[tuple[Array, Array]] = []
        self._came: list[EdgeBatch] = []

    def draw(self) -> None:
        """Make this rank's part of the next slide, without loops."""
        comm = self._bench.comm
        num_events, scale, seed = self._events
        low, high = (self._slide * (comm.rank + turn) // comm.size for turn in range(2))
        self._came, self._drawn = [], []
        for first in (0, num_events):
            begin = first + self._number * self._slide + low
            src, dst = make_rows(self._bench.backend, scale, high - low, seed, begin)
            kept = src != dst
            self._drawn.append((src[kept], dst[kept]))
        self._number += 1

    def apply(self) -> None:
        """Slide. All ranks call it."""
        self.sent_bytes = 0
        while self._drawn:
            self._came.append(self._bring(*self._drawn.pop(0)))
        leaving, arriving = self._came
        self.num_rows = len(leaving) + len(arriving)
        self._write(lambda: self._store.plan_delete(leaving))
        self._write(lambda: self._store.plan_insert(arriving, self._store.num_vertices, "replace"))

    def _bring(self, src: Array, dst: Array) -> EdgeBatch:
        """Send edges to the owners of their destinations; return those that come, as rows of in-edges."""
        backend, comm = self._bench.backend, self._bench.comm
        heads, tails = sort_pairs(backend, dst, src)
        cuts = backend.to_host(backend.xp.searchsorted(heads, self._bounds)).tolist()
        send = [end - begin for begin, end in pairwise([0, *cuts, int(heads.shape[0])])]
        self.sent_bytes += KEY_BYTES * (sum(send) - send[comm.rank])
        receive = [sent[comm.rank] for sent in comm.all_gather(send)]
        came = comm.all_to_all([heads, tails], send, receive)
        del heads, tails
        return EdgeBatch(*sort_pairs(backend, *came), None)

    def _write(self, make_plan: Callable[[], Plan]) -> None:
        """Write an update once all ranks have planned it."""
        plan = make_plan()
        self._bench.comm.barrier()
        if plan.path != "in-place":
            raise AssertionError("a slide wrote new pages; wanted cleared bits and a delta")
        plan.commit()

    def check(self) -> None:
        """Compare the store with the last slide. All ranks call it."""
        leaving, arriving = self._came
        comes_back = _are_among(self._bench, keys_of(leaving.src, leaving.dst), keys_of(arriving.src, arriving.dst))
        there, left = (self._store.look_up(batch.src, batch.dst)[0] for batch in (arriving, leaving))
        self._bench.check("edges that arrived are there", bool(there.all()))
        self._bench.check("edges that left are not, unless they came back", bool((left == comes_back).all()))


def _are_among(bench: RankBench, keys: Array, others: Array) -> Array:
    """Return whether each key is one of some ascending ones."""
    if not others.shape[0]:
        return bench.backend.zeros(keys.shape[0], np.bool_)
    places = bench.backend.xp.searchsorted(others, keys)
    found: Array = others[bench.backend.xp.minimum(places, others.shape[0] - 1)] == keys
    return found
